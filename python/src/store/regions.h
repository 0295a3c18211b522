/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.h - addresses that callers name, proved before they are touched
 *
 * Registered memory was checked when it was registered; each call checks that
 * it is still mapped. Each call asks the kernel for the pages of any other
 * memory, so that a wrong address gives -600 and a log line, no signal.
 */
#ifndef PYTHON_STORE_REGIONS_H
#define PYTHON_STORE_REGIONS_H

#include "python/src/store/client.h"

/*
 * Remembers a range of register_buffer() until it is removed. False: no memory.
 * Releases the GIL.
 */
bool ps_region_add(struct ps_client *client, uint64_t addr, uint64_t length);
void ps_region_remove(struct ps_client *client, uint64_t addr);

struct ps_suspect {
	uint64_t addr, length;
	size_t at; /* place among what the call names */
};

/* Memory of a call that is in no region. Zero but for @writable at first. */
struct ps_suspects {
	bool writable; /* the call writes to it */
	uint64_t sure; /* where a region begins that is mapped; or 0 */
	struct ps_suspect *list; /* list[n], of room */
	size_t n, room;
};

/* Adds a range, unless it is empty or in a region. False: no memory, raised. */
bool ps_suspect(struct ps_suspects *suspects, const struct ps_client *client,
		uint64_t addr, uint64_t length, size_t at);
/*
 * Ask the kernel; those that are wrong remain. Without the GIL: it may take as
 * long as finding the pages does.
 */
void ps_suspects_ask(struct ps_suspects *suspects);
void ps_suspects_free(struct ps_suspects *suspects);

#endif
