/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - keys whose bytes follow from their number, and a thread that reads
 * them all the time
 */
#ifndef TESTS_INTEGRATION_STORE_LOAD_H
#define TESTS_INTEGRATION_STORE_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <te/store.h>

#include "tests/store/pool.h"

#define LOAD_LEN  100000u /* bytes of a value */
#define LOAD_ROOM 16      /* of a key's name */
#define LOAD_KEYS 400u

const char *load_name(unsigned int k, char out[LOAD_ROOM]);
void load_put(struct te_store *store, unsigned int k);
/* LOAD_LEN, or a code; other bytes than those that were put fail the test. */
int64_t load_get(struct te_store *store, unsigned int k);
/* Also while it is being moved. */
void load_remove(struct te_store *store, unsigned int k);

/* Reads keys 0 .. LOAD_KEYS - 1 again and again; puts and removes its own. */
struct load {
	pthread_t thread;
	struct te_store *store;
	atomic_bool stop;
	atomic_uint rounds, missed, wrong;
};

/* A client of @pool's; returns when it has read all of them once. */
void load_start(struct load *l, const struct pool *pool);
/* After another round; fails the test if it has read wrong bytes. */
void load_stop(struct load *l);

#endif
