/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos.h - clients that put, replace, read, copy and remove while others are
 * killed, and what they may see meanwhile
 *
 * Two tenants use the same keys. A key is changed by one worker only, so that
 * what it was told last counts; all read it. A value says whose it is and which
 * version, and all its bytes follow from that. What was acknowledged last is the
 * key's floor: older versions are never read again.
 *
 * Threads: the load's own; of these functions one at a time.
 */
#ifndef TESTS_INTEGRATION_STORE_CHAOS_H
#define TESTS_INTEGRATION_STORE_CHAOS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#define CHAOS_KEYS    128u /* of each tenant */
#define CHAOS_WORKERS 4u   /* the even ones are of the first tenant */
#define CHAOS_TENANTS 2u

struct chaos_key {
	pthread_mutex_t mu;          /* of a change of the floor */
	atomic_uint_fast64_t issued; /* the last version that may be there */
	atomic_uint_fast64_t floor;
	bool there;          /* acknowledged, and not removed since */
	unsigned int deaths; /* when that was asked for */
	uint64_t changed_ms; /* when the floor last changed */
};

struct chaos_load;

struct chaos_worker {
	struct chaos_load *load;
	struct te_store *store;
	unsigned int number;
	uint64_t random;
	char owners[4][TE_NAME_LEN_MAX + 1]; /* seen last */
	size_t n_owners;
	uint8_t *value;
	uint64_t n_calls, n_ok;
	pthread_t thread;
};

struct chaos_load {
	uint32_t value_max; /* bytes */
	struct chaos_key keys[CHAOS_TENANTS][CHAOS_KEYS];
	struct chaos_worker workers[CHAOS_WORKERS];
	atomic_bool stop, failed;
	char fault[256];    /* failed: why */
	atomic_uint deaths; /* of owners: what they had may be gone */
	atomic_uint forgiven;
};

extern const char *const chaos_tenants[CHAOS_TENANTS];

/* Until chaos_load_end(), or something is wrong: then it has failed. */
void chaos_load_start(struct chaos_load *l, const char *master, uint64_t seed,
		      uint32_t value_max);
void chaos_load_end(struct chaos_load *l);
void chaos_load_close(struct chaos_load *l);
/* Before owners may lose what they have. */
void chaos_owners_die(struct chaos_load *l);
/*
 * Before what was changed at @since_ms and later may be as it was: a master
 * dies which alone knew what an owner that stands still has to forget.
 */
void chaos_forgive(struct chaos_load *l, uint64_t since_ms);
/*
 * With nobody at work: every key can be read or is not there, and what was
 * acknowledged is, unless an owner has died since (or @all is false). Call
 * again, until it is true.
 */
bool chaos_judge(struct chaos_load *l, bool all);
/* What a tenant's replicas take, in bytes; UINT64_MAX: that is not known now. */
uint64_t chaos_bytes(struct chaos_load *l, unsigned int tenant);

#endif
