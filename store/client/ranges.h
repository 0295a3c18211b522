/* SPDX-License-Identifier: Apache-2.0 */
/* ranges.h - parts of values: arguments checked and sorted by key */
#ifndef STORE_CLIENT_RANGES_H
#define STORE_CLIENT_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

/* The ranges of key k are those of order[starts[k] .. starts[k + 1] - 1]. */
struct tes_sorted {
	uint32_t *starts, *order;
};

struct tes_addresses;
struct tes_extent_at;

/* Bytes that @range and @x have in common; *@from of the value. */
uint64_t tes_range_common(const struct te_store_range *range,
			  const struct tes_extent_at *x, uint64_t *from);
/* The ranges of a call, as the caller gave them. */
struct tes_ranges_given {
	const struct te_store_range *ranges; /* ranges[n] */
	size_t n, n_keys;
	bool writable; /* the call writes to their memory */
};
/*
 * Ranges that do not hold, or whose memory is refused (tes_addresses_check()),
 * are in nobody's order and have result -600, the others 0. A store code.
 */
int tes_ranges_sort(struct tes_addresses *addresses,
		    const struct tes_ranges_given *given, int64_t *results,
		    struct tes_sorted *out);
void tes_ranges_free(struct tes_sorted *sorted);

#endif
