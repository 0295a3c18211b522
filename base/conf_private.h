/* SPDX-License-Identifier: Apache-2.0 */
/* conf_private.h - what the files of the registry share */
#ifndef BASE_CONF_PRIVATE_H
#define BASE_CONF_PRIVATE_H

#include "base/conf.h"

/* A decimal number, perhaps negative. 0, -EINVAL, -ERANGE. */
int tei_parse_double(const char *text, double *out);
/* "true|false", "N", ...: what may be given, for people. */
const char *tei_conf_hint(const struct tei_setting *s);

#endif
