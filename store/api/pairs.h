/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h - the keys of te_store_setup_pairs(), for docs/settings.md */
#ifndef STORE_API_PAIRS_H
#define STORE_API_PAIRS_H

#include <stddef.h>

#include "base/conf.h"

extern const struct tei_setting tes_pairs_rows[];
extern const size_t tes_pairs_n_rows;

#endif
