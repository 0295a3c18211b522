/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixer.h - one worker of a mixed load: a thread and its calls
 *
 * Threads: one per mixer at a time.
 */
#ifndef PERF_STORE_PERF_MIXER_H
#define PERF_STORE_PERF_MIXER_H

#include <pthread.h>
#include <te/store.h>

#include "perf/store-perf/mix.h"

#define MIX_KEY_LEN 64

/*
 * Bytes that all values of a process are made of: that of key k is a part of
 * them, from a place that k alone determines.
 */
struct mix_bytes {
	char *at; /* len bytes, registered with each store */
	uint64_t len;
};

struct mixer {
	struct mix_share *share;
	const struct mix_bytes *source;
	struct te_store *store;  /* may be shared with other mixers */
	struct mix_tally *tally; /* in share */
	uint64_t index;          /* among all workers */
	uint64_t chance;         /* state of its random numbers */
	uint64_t n_fresh;        /* puts of fresh keys so far */
	pthread_t thread;
	bool counts; /* the warm-up is over */
	/* Room for one call of plan->batch keys. */
	char *memory; /* to get into, registered */
	uint64_t memory_len;
	uint64_t *number;
	char (*key_text)[MIX_KEY_LEN];
	struct te_store_key *keys;
	struct iovec *pieces;
	struct te_store_value *values;
	int *codes;
	int64_t *sizes;
};

/* -errno: no memory, or it cannot be registered; mixer_close() all the same. */
int mixer_open(struct mixer *m, struct mix_share *share,
	       const struct mix_bytes *source, struct te_store *store,
	       uint64_t index);
void mixer_close(struct mixer *m);

/* What a thread does with a mixer: put its part of the keys. */
void *mixer_fill(void *mixer);
/* The same: call until the plan is fulfilled. */
void *mixer_run(void *mixer);

#endif
