/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h - the keys of te_store_setup_pairs(), and rows shared with programs
 */
#ifndef STORE_API_PAIRS_H
#define STORE_API_PAIRS_H

#include <stddef.h>

#include "base/conf.h"

extern const struct tei_setting tes_pairs_rows[];
extern const size_t tes_pairs_n_rows;

/* Rows of a client's caches, for a table over @strct, which has the fields. */
/* clang-format off */
#define TES_CACHE_ROWS(strct) \
	{ TEI_SETTING(strct, location_cache), .expert = true, \
	  .env = "TE_LOCATION_CACHE", \
	  .type = TEI_CONF_UINT, .def = "0", .max = TE_STORE_LOCATIONS_MAX, \
	  .help = "objects whose place is remembered while its lease lasts, " \
		  "so that reading them again asks the master nothing; " \
		  "0: none" }, \
	{ TEI_SETTING(strct, local_hot_cache_size), \
	  .env = "MC_STORE_LOCAL_HOT_CACHE_SIZE", \
	  .type = TEI_CONF_SIZE, .def = "0", .max = 1099511627776.0, \
	  .help = "memory for what is read often from other owners; 0: none" }, \
	{ TEI_SETTING(strct, local_hot_block_size), .expert = true, \
	  .env = "MC_STORE_LOCAL_HOT_BLOCK_SIZE", \
	  .type = TEI_CONF_SIZE, .def = "16 MB", .min = 1, \
	  .max = 1099511627776.0, \
	  .help = "larger values are not kept there" }, \
	{ TEI_SETTING(strct, local_hot_admission_threshold), .expert = true, \
	  .env = "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD", \
	  .type = TEI_CONF_UINT, .def = "2", .min = 1, .max = 255, \
	  .help = "how often a key is to be asked for before it is kept " \
		  "there" }
/* clang-format on */

#endif
