/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - what a handle of transfer_engine_c.h stands for
 *
 * Every function of the interface pins the engine it was given, and unpins it
 * before it returns; whoever unpins one that was given back destroys it. The
 * mutex is never held while something blocks.
 */
#ifndef COMPAT_ENGINE_ENGINE_H
#define COMPAT_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "compat/handle/warn.h"
#include "compat/transfer_engine_c.h"

/* Mooncake's numbers. */
enum mc_error {
	MC_ERROR_INVALID = -1,
	MC_ERROR_NOT_REGISTERED = -3,
	MC_ERROR_OVERLAPPED = -7,
	MC_ERROR_ENDPOINT = -201,
	MC_ERROR_MEMORY = -302,
};

/* Numbers of submissions have no sign there. */
enum mc_status {
	MC_STATUS_INVALID = 1,
	MC_STATUS_TOO_MANY = 2,
	MC_STATUS_BUSY = 4,
	MC_STATUS_MEMORY = 302,
};

struct mc_segment {
	char *name;
	te_segment_id id; /* 0: not open (the own one, until it is used) */
};

struct mc_region {
	void *addr;
	size_t length;
	te_region_id id; /* 0: just being registered, or taken back */
};

struct mc_batch;

struct mc_engine {
	struct te_engine *te;
	uint64_t handle;
	uint64_t transfer_ms;  /* for a transfer, and more for its bytes */
	pthread_mutex_t mutex; /* of what follows */
	/* segments[0] is the own one; a segment's number is its place. */
	struct mc_segment *segments;
	size_t n_segments;
	struct mc_region *regions; /* in no order */
	size_t n_regions;
	/* Batches that were given back, and may have a notification under way;
	 * and how many there are with those that were not. */
	struct mc_batch *leaving;
	size_t n_batches;
	pthread_cond_t left; /* one more is among them */
	bool *is_gone;       /* of who waits for that; NULL: nobody does */
};

/*
 * NULL, with a line in the log that names @function: there is no such engine.
 */
struct mc_engine *mc_engine_pin(transfer_engine_t handle, const char *function);
void mc_engine_unpin(struct mc_engine *engine);

/*
 * The id of a segment by its number; one whose peer has restarted is opened
 * anew, which blocks: @timeout_ms as for te_segment_open(). 0 or -errno
 * (-ENOENT: there is no such number).
 */
int mc_segment_find(struct mc_engine *engine, int64_t number,
		    uint32_t timeout_ms, te_segment_id *out);
void mc_segments_free(struct mc_engine *engine);

/* Batches of @engine are destroyed, and nobody finds them any more. Nobody may
 * use one now. Blocks: 1 s for notifications that are under way. */
void mc_batches_end(struct mc_engine *engine);

/*
 * Packs @msg as it is sent; the caller frees it. NULL, logged for @function: no
 * memory, or too long.
 */
void *mc_notify_pack(const char *function, const notify_msg_t *msg,
		     size_t *len);

/* Tells whether a variable is set, and to nothing that means no. */
bool mc_is_on(const char *variable);

/* All engines that there are. */
void mc_engines_give_back(void);

#endif
