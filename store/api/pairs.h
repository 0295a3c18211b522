/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h - the keys of te_store_setup_pairs(), and rows shared with programs
 */
#ifndef STORE_API_PAIRS_H
#define STORE_API_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/log.h"

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

/* Rows of pinned memory, the same; tes_pin_mib() reads them. */
#define TES_PIN_ROWS(strct) \
	{ TEI_SETTING(strct, pin_memory), .env = "MC_STORE_PIN_MEMORY", \
	  .type = TEI_CONF_STRING, .def = "", \
	  .help = "1: pin memory for copies by GPUs that the process uses; 0: " \
		  "do not; default: 1 if pin_memory_max_bytes is given" }, \
	{ TEI_SETTING(strct, pin_memory_max_bytes), \
	  .env = "MC_STORE_PIN_MEMORY_MAX_BYTES", \
	  .type = TEI_CONF_SIZE, .def = "0", .max = 1125899906842624.0, \
	  .help = "most that is pinned, in whole MiB; 0: no limit" }
/* clang-format on */

/* Returns te_store_config.pin_mib for what these rows say. */
static inline uint32_t tes_pin_mib(const char *pin_memory, uint64_t max_bytes)
{
	bool on = max_bytes > 0;

	if (*pin_memory && tei_parse_bool(pin_memory, &on))
		LOG_WARN("setup: pin_memory '%s' (MC_STORE_PIN_MEMORY): should "
			 "be 0 or 1 (ignored)",
			 pin_memory);
	if (!on)
		return 0;
	return max_bytes ? (uint32_t)(max_bytes >> 20) : UINT32_MAX;
}

#endif
