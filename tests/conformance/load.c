/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - bursts, threads, and requests that are taken back */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/rig.h"

static void burst_is_queued_and_not_refused(void **state)
{
	enum { N = 65536, LEN = 64 };
	struct te_request *requests = calloc(N, sizeof(*requests));
	struct te_completion *done = calloc(N, sizeof(*done));
	struct iovec *pieces = calloc(N, sizeof(*pieces));
	struct rig r;

	(void)state;
	assert_true(requests && done && pieces);
	rig_open(&r);
	rig_fill(r.here, N * LEN, 3);
	for (int op = TE_WRITE; op >= TE_READ; op--) {
		for (unsigned int i = 0; i < N; i++) {
			pieces[i] = (struct iovec){r.local + i * LEN, LEN};
			requests[i] =
				rig_request(&r, (uint32_t)op,
					    r.memory + i * LEN, &pieces[i]);
		}
		rig_run_all(r.user, requests, N, done);
		for (unsigned int i = 0; i < N; i++)
			assert_int_equal(done[i].error, 0);
		rig_check(r.there, N * LEN, 3);
		rig_check(r.here, N * LEN, 3);
		memset(r.here, 0, N * LEN);
	}
	rig_close(&r);
	free(requests);
	free(done);
	free(pieces);
}

#define THREADS 4
#define SHARE   (RIG_LEN / THREADS)

struct mover {
	struct rig *r;
	unsigned int number;
	pthread_t thread;
	const char *fault;
};

/* Write, read back elsewhere, compare; in memory of the thread's own. */
static const char *move_some(struct mover *m, struct te_batch *batch,
			     unsigned int seed)
{
	enum { N = 16 };
	size_t part = SHARE / 2 / N;
	uint8_t *local = m->r->local + m->number * SHARE;
	uint8_t *here = m->r->here + m->number * SHARE;
	uint8_t *memory = m->r->memory + m->number * SHARE;
	struct te_request requests[N];
	struct te_completion done[N];
	struct iovec pieces[N];

	rig_fill(here, part * N, seed);
	for (int op = TE_WRITE; op >= TE_READ; op--) {
		for (unsigned int i = 0; i < N; i++) {
			uint8_t *at = local + i * part;

			if (op == TE_READ)
				at += SHARE / 2;
			pieces[i] = (struct iovec){at, part};
			requests[i] =
				rig_request(m->r, (uint32_t)op,
					    memory + i * part, &pieces[i]);
		}
		if (te_batch_reset(batch) ||
		    te_batch_submit(batch, requests, N) ||
		    te_batch_wait(batch, RIG_WAIT_MS))
			return "batch";
		if (te_batch_poll(batch, done, N) != N)
			return "completions";
		for (unsigned int i = 0; i < N; i++) {
			if (done[i].error)
				return "request";
		}
	}
	if (memcmp(here, here + SHARE / 2, part * N))
		return "bytes";
	return NULL;
}

static void *mover_main(void *arg)
{
	struct mover *m = arg;
	struct te_batch *batch;

	if (te_batch_create(m->r->user, 16, &batch)) {
		m->fault = "batch create";
		return NULL;
	}
	for (unsigned int i = 0; i < 12 && !m->fault; i++)
		m->fault = move_some(m, batch, i * THREADS + m->number);
	te_batch_destroy(batch);
	return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
	struct mover movers[THREADS];
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned int i = 0; i < THREADS; i++) {
		movers[i] = (struct mover){.r = &r, .number = i};
		assert_int_equal(pthread_create(&movers[i].thread, NULL,
						mover_main, &movers[i]),
				 0);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(movers[i].thread, NULL);
		if (movers[i].fault)
			fail_msg("thread %u: %s", i, movers[i].fault);
	}
	rig_close(&r);
}

#define CANCELS 64

static void submit_many(struct rig *r, struct te_batch *batch, uint32_t op)
{
	struct te_request requests[CANCELS];
	struct iovec pieces[CANCELS];
	size_t part = RIG_LEN / CANCELS;

	for (unsigned int i = 0; i < CANCELS; i++) {
		pieces[i] = (struct iovec){r->local + i * part, part};
		requests[i] =
			rig_request(r, op, r->memory + i * part, &pieces[i]);
	}
	assert_int_equal(te_batch_submit(batch, requests, CANCELS), 0);
}

static void cancelled_requests_end_and_leave_memory_alone(void **state)
{
	size_t part = RIG_LEN / CANCELS;
	struct te_completion done[CANCELS];
	struct te_batch *batch;
	struct rig r;

	(void)state;
	srand(9);
	rig_open(&r);
	assert_int_equal(te_batch_create(r.user, CANCELS, &batch), 0);
	for (unsigned int round = 0; round < 30; round++) {
		uint32_t op = round % 2 ? TE_READ : TE_WRITE;

		rig_renew(&r);
		memset(r.here, 0x66, RIG_LEN);
		memset(r.there, 0x66, RIG_LEN);
		assert_int_equal(te_batch_reset(batch), 0);
		submit_many(&r, batch, op);
		for (int i = 0; i < rand() % 4; i++)
			te_batch_poll(batch, done, 0);
		for (unsigned int i = 0; i < CANCELS; i += 3)
			assert_int_equal(te_request_cancel(batch, i), 0);
		if (round % 5 == 4)
			assert_int_equal(te_batch_cancel(batch), 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		/* All have ended: nobody writes here any more. */
		memset(r.here, 0x77, RIG_LEN);
		assert_int_equal(te_batch_poll(batch, done, CANCELS), CANCELS);
		for (unsigned int i = 0; i < CANCELS; i++) {
			int err = done[i].error;

			assert_true(!err || err == -ECANCELED);
			if (done[i].index % 3 && round % 5 != 4)
				assert_int_equal(err, 0);
		}
		assert_int_equal(rig_move(&r, TE_READ, r.memory, r.local, 1),
				 0);
		r.here[0] = 0x77;
		for (size_t i = 0; i < RIG_LEN; i += part / 7)
			assert_int_equal(r.here[i], 0x77);
	}
	te_batch_destroy(batch);
	rig_close(&r);
}

static void batch_may_be_destroyed_in_flight(void **state)
{
	struct te_batch *batch;
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned int round = 0; round < 20; round++) {
		assert_int_equal(te_batch_create(r.user, CANCELS, &batch), 0);
		submit_many(&r, batch, round % 2 ? TE_READ : TE_WRITE);
		te_batch_destroy(batch);
		memset(r.here, 0x12, RIG_LEN);
	}
	assert_int_equal(rig_move(&r, TE_READ, r.memory, r.local, 5000), 0);
	rig_close(&r);
}

/* ---- several peers ---- */

enum { USERS = 2, ROUNDS = 3, USER_LEN = 256 << 10 };

struct user {
	struct te_engine *engine;
	uint8_t *local, *here;  /* of the user, which the owner reaches */
	te_segment_id to, from; /* the owner's, as it sees it; its own there */
};

static void open_user(struct rig *r, struct user *u)
{
	u->engine = rig_engine("127.0.0.1");
	u->local = rig_memory(u->engine, RIG_LEN);
	u->here = rig_bytes(u->local);
	rig_region(u->engine, u->local, RIG_LEN, RIG_ANY, NULL);
	assert_int_equal(te_segment_open(u->engine, te_engine_name(r->owner),
					 RIG_WAIT_MS, &u->to),
			 0);
	assert_int_equal(te_segment_open(r->owner, te_engine_name(u->engine),
					 RIG_WAIT_MS, &u->from),
			 0);
}

static void move(struct te_engine *engine, te_segment_id segment, uint32_t op,
		 uint8_t *remote, uint8_t *local)
{
	struct iovec piece = {local, USER_LEN};
	struct te_request request = {.op = op,
				     .segment = segment,
				     .remote = (uintptr_t)remote,
				     .pieces = &piece,
				     .n_pieces = 1};

	assert_int_equal(rig_run(engine, &request).error, 0);
}

/*
 * The user writes, and the owner reads the same from it. Each round has memory
 * of its own at both ends: what orders it after the round before passes by a
 * socket, which ThreadSanitizer does not see.
 */
static void move_both_ways(struct rig *r, struct user *u, unsigned int i,
			   unsigned int round)
{
	size_t from = (size_t)round * USER_LEN;
	size_t at = ((size_t)round * USERS + i) * 2 * USER_LEN;
	size_t back = at + USER_LEN;
	unsigned int seed = 100 * round + i;

	rig_fill(u->here + from, USER_LEN, seed);
	move(u->engine, u->to, TE_WRITE, r->memory + at, u->local + from);
	move(r->owner, u->from, TE_READ, u->local + from, r->memory + back);
	rig_check(r->there + at, USER_LEN, seed);
	rig_check(r->there + back, USER_LEN, seed);
}

/*
 * Each engine reaches the others and is reached by them, with a connection for
 * each pair and direction, all open at a time.
 */
static void users_of_one_owner_are_served_side_by_side(void **state)
{
	struct user users[USERS];
	struct rig r;

	(void)state;
	if (rig_self)
		skip();
	rig_open(&r);
	for (unsigned int i = 0; i < USERS; i++)
		open_user(&r, &users[i]);
	for (unsigned int round = 0; round < ROUNDS; round++)
		for (unsigned int i = 0; i < USERS; i++)
			move_both_ways(&r, &users[i], i, round);
	for (unsigned int i = 0; i < USERS; i++) {
		te_engine_destroy(users[i].engine);
		rig_memory_free(NULL, users[i].local);
	}
	rig_close(&r);
}

const struct CMUnitTest rig_load_tests[] = {
	cmocka_unit_test(users_of_one_owner_are_served_side_by_side),
	cmocka_unit_test(burst_is_queued_and_not_refused),
	cmocka_unit_test(threads_do_not_disturb_each_other),
	cmocka_unit_test(cancelled_requests_end_and_leave_memory_alone),
	cmocka_unit_test(batch_may_be_destroyed_in_flight),
};
const size_t rig_n_load_tests = TEST_COUNT(rig_load_tests);
