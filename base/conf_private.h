/* SPDX-License-Identifier: Apache-2.0 */
/* conf_private.h - what the files of the registry share */
#ifndef BASE_CONF_PRIVATE_H
#define BASE_CONF_PRIVATE_H

#include "base/conf.h"

/* A decimal number, perhaps negative. 0, -EINVAL, -ERANGE. */
int tei_parse_double(const char *text, double *out);
/* Parse @text, check it, store it. -EINVAL, -ERANGE, -ENOMEM. */
int tei_conf_assign(const struct tei_conf *c, const struct tei_setting *s,
		    const char *text);
/* As assign, and says what was wrong. @from: where it stood, or "". */
int tei_conf_assign_said(const struct tei_conf *c, const struct tei_setting *s,
			 const char *text, const char *from,
			 char error[TEI_CONF_ERROR_LEN]);
/* By name or alias; NULL: there is none. */
const struct tei_setting *tei_conf_find(const struct tei_conf *c,
					const char *name, size_t len);
/* Say that there is no such setting, and which is like it. -ENOENT. */
int tei_conf_unknown(const struct tei_conf *c, const char *name, size_t len,
		     const char *from, char error[TEI_CONF_ERROR_LEN]);
void tei_conf_say(char error[TEI_CONF_ERROR_LEN], const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* "true|false", "N", ...: what may be given, for people. */
const char *tei_conf_hint(const struct tei_setting *s);

#endif
