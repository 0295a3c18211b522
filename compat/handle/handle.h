/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h - numbers for objects that callers may give back at any time
 *
 * A number names one object for ever; when the object is given back it names
 * nothing any more, and is not given out again before 2^31 others were in its
 * place. Who uses an object pins it, so that it stays for that long.
 *
 * Threads: any. Looking one up takes no lock.
 */
#ifndef COMPAT_HANDLE_HANDLE_H
#define COMPAT_HANDLE_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MC_CHUNK  256
#define MC_CHUNKS 4096

struct mc_slot {
	/*
	 * Generation in the upper half; below it MC_LIVE and how often pinned.
	 */
	_Atomic uint64_t state;
	void *object;
	uint32_t next_free;
};

/* Zeroed but for its mutex. Chunks stay until the process ends. */
struct mc_table {
	pthread_mutex_t mutex; /* of what follows */
	struct mc_slot *_Atomic chunks[MC_CHUNKS];
	uint32_t n;          /* slots that ever were used */
	uint32_t first_free; /* 1 + slot */
};

#define MC_TABLE_INIT                              \
	{                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER \
	}

/*
 * Returns the number of @object, never UINT64_MAX; 0: no memory, or too many.
 */
uint64_t mc_table_add(struct mc_table *table, void *object);
/* NULL: it names nothing. Else unpin. */
void *mc_table_pin(struct mc_table *table, uint64_t handle);
/* The object when it was given back meanwhile and this was the last pin: the
 * caller's to destroy. Else NULL. */
void *mc_table_unpin(struct mc_table *table, uint64_t handle);
/* Give back what the caller has pinned. False: somebody else has. */
bool mc_table_give_back(struct mc_table *table, uint64_t handle);
/* The next number after @handle that names something; 0: there is none. */
uint64_t mc_table_next(struct mc_table *table, uint64_t handle);

#endif
