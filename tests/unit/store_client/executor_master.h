/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executor_master.h - a master that a test bends, and owners that join it
 *
 * It takes whatever owners say, and remembers their last answer to a task and
 * how many objects they offer; what it asks of them is the test's. Owners are in
 * this process, so that their memory can be looked into. All but what is atomic
 * belongs to its loop.
 */
#ifndef TESTS_UNIT_STORE_CLIENT_EXECUTOR_MASTER_H
#define TESTS_UNIT_STORE_CLIENT_EXECUTOR_MASTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <te/store.h>
#include <te/te.h>

#include "base/frame.h"
#include "base/loop.h"
#include "store/proto/store.pb-c.h"

#define MASTER_EPOCH  7u         /* at first */
#define MASTER_SEED   5u         /* of digests, at first */
#define MASTER_BYTES  (1u << 20) /* that each owner lends */
#define MASTER_OWNERS 2
#define MASTER_CONNS  16

struct owner {
	struct te_store *store;
	uint8_t incarnation[TE_INCARNATION_LEN];
	char name[TE_NAME_LEN_MAX + 1];
	uint8_t *base; /* of its segment */
	struct tei_frame_conn *heart;
};

struct master {
	struct tei_loop *loop;
	struct tei_frame_server *server;
	struct tei_frame_conn *conns[MASTER_CONNS];
	int n_conns, rc;
	uint16_t port;
	uint64_t epoch, seed;
	bool kept;       /* to a mount: it was there */
	int32_t refusal; /* of all that is offered */
	int n_silent;    /* so many last offers are not answered */
	/* So many mounts are taken, and all connections end before an answer;
	 * before the last one ends, lost() is called, unless NULL. */
	atomic_int n_lost;
	void (*lost)(void);
	atomic_int n_mounts;
	uint8_t segment[TE_STORE_SEGMENT_ID_LEN]; /* of the last mount */
	struct owner owners[MASTER_OWNERS];
	int n_owners;
	atomic_int n_offered, n_last_offers, n_hearts;
	/* The last answer. */
	atomic_int n_answers;
	Store__TaskDone *answer;
};

extern struct master master;

/* For cmocka: the owners have joined. */
int master_set_up(void **state);
int master_tear_down(void **state);

/*
 * Closes all connections; owners come back by themselves. Then it is a master
 * with that epoch and that seed, which has their segments or asks for them.
 */
void master_change(uint64_t epoch, uint64_t seed, bool kept);
/* The same, on its loop. */
void master_change_now(uint64_t epoch, uint64_t seed, bool kept);

#endif
