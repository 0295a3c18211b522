/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stress.c - everything at once, for lost wake-ups and races
 *
 * Threads submit batches to a peer and to their own engine and await them in
 * every way there is, cancel and destroy them, while others revoke, add and
 * remove regions, join and leave. A request that is not done long before its
 * deadline has been forgotten by somebody. TE_STRESS_MS makes it last longer.
 *
 * Requests that may be in flight together have memory of their own at both
 * ends: several workers move them at a time. One that was given up may land
 * late, so the memory of a batch at the owner is used again only after others.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/unit/te/rig.h"

#define N_MOVERS   6
#define N_BATCH    24
#define N_TURNS    3     /* places of a mover's batches at an owner */
#define SMALL      20000 /* the most of a piece, */
#define BIG        ((size_t)1 << 19) /* and of the first request's at times */
#define ODD        64
#define BATCH_LEN  (3 * BIG + N_BATCH * (3 * SMALL + ODD))
#define LEN        (N_MOVERS * N_TURNS * BATCH_LEN)
#define TIMEOUT_MS 60000
#define LATE_MS    60000 /* sanitizers and busy machines included */

static struct te_engine *owner, *user;
static uint8_t *memory, *own_memory;
static te_segment_id far, own;
static _Atomic bool over;
static _Atomic unsigned int n_done, n_bad;

struct mover {
	pthread_t thread;
	unsigned int seed, turn;
	size_t at; /* the memory of its present batch, at either owner */
	uint8_t *local;
	struct te_batch *_Atomic batch; /* NULL: none to be cancelled */
	_Atomic bool held;
};

static struct mover movers[N_MOVERS];

static unsigned int draw(unsigned int *seed, unsigned int n)
{
	*seed = *seed * 1103515245u + 12345;
	return (*seed >> 8) % n;
}

static void bad(const char *what, int error)
{
	atomic_fetch_add(&n_bad, 1);
	print_error("%s: %d\n", what, error);
}

static bool is_expected(const struct te_completion *c)
{
	return !c->error || c->error == -ECANCELED || c->error == -ESTALE;
}

/* Side by side at the owner, one piece each: the engine may merge them. */
static size_t fill_adjacent(struct mover *m, struct te_request *requests,
			    struct iovec (*pieces)[3])
{
	size_t i, n = 2 + draw(&m->seed, N_BATCH - 1);
	size_t len = 1 + draw(&m->seed, 5000), stride = len;
	uint32_t op = draw(&m->seed, 2) ? TE_READ : TE_WRITE;

	if (draw(&m->seed, 2))
		stride += 64;
	for (i = 0; i < n; i++) {
		pieces[i][0] = (struct iovec){m->local + i * stride, len};
		requests[i] = (struct te_request){
			.op = op,
			.segment = far,
			.remote = (uintptr_t)memory + m->at + i * len,
			.pieces = pieces[i],
			.n_pieces = 1,
			.timeout_ms = TIMEOUT_MS,
		};
	}
	return n;
}

static size_t fill(struct mover *m, struct te_request *requests,
		   struct iovec (*pieces)[3])
{
	size_t i, k, n = 1 + draw(&m->seed, N_BATCH);

	for (i = 0; i < n; i++) {
		size_t most = i || draw(&m->seed, 8) ? SMALL : BIG;
		size_t from = i ? 3 * BIG + i * (3 * SMALL + ODD) : 0;
		size_t at = from;

		requests[i] = (struct te_request){
			.op = draw(&m->seed, 2) ? TE_READ : TE_WRITE,
			.flags = draw(&m->seed, 2) ? TE_CRC : 0,
			.segment = draw(&m->seed, 4) ? far : own,
			.pieces = pieces[i],
			.n_pieces = 1 + draw(&m->seed, 3),
			.timeout_ms = TIMEOUT_MS,
		};
		for (k = 0; k < requests[i].n_pieces; k++) {
			size_t len = 1 + draw(&m->seed, (unsigned int)most);

			pieces[i][k] = (struct iovec){m->local + at, len};
			at += len;
		}
		requests[i].remote =
			(uintptr_t)(requests[i].segment == far ? memory
							       : own_memory) +
			m->at + from + draw(&m->seed, ODD);
	}
	return n;
}

/* Not driving, so somebody else must. */
static void await_event(struct te_batch *batch, size_t n)
{
	struct pollfd fd = {.fd = te_batch_eventfd(batch), .events = POLLIN};
	struct te_completion done[N_BATCH];
	size_t got = 0;

	while (got < n) {
		int rc = poll(&fd, 1, LATE_MS);

		if (rc <= 0) {
			bad("no event", rc);
			return;
		}
		rc = te_batch_poll(batch, done, N_BATCH);
		for (int i = 0; i < rc; i++) {
			if (!is_expected(&done[i]))
				bad("completion", done[i].error);
		}
		got += (size_t)rc;
	}
}

static void await_poll(struct te_batch *batch, size_t n)
{
	uint64_t until = tei_now_ms() + LATE_MS;
	struct te_completion done;
	size_t got = 0;

	while (got < n && tei_now_ms() < until) {
		if (te_batch_poll(batch, &done, 1) != 1)
			continue;
		if (!is_expected(&done))
			bad("completion", done.error);
		got++;
	}
	if (got < n)
		bad("polled in vain", (int)(n - got));
}

static void await_wait(struct te_batch *batch, size_t n)
{
	struct te_completion done;

	if (te_batch_wait(batch, LATE_MS)) {
		bad("waited in vain", 0);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (te_batch_result(batch, i, &done))
			bad("no result", (int)i);
		else if (!is_expected(&done))
			bad("completion", done.error);
	}
}

static void move_once(struct mover *m, struct te_batch *batch)
{
	struct te_request requests[N_BATCH];
	struct iovec pieces[N_BATCH][3];
	size_t n;
	int rc;

	m->at = ((size_t)(m - movers) * N_TURNS + m->turn++ % N_TURNS) *
		BATCH_LEN;
	n = draw(&m->seed, 3) ? fill(m, requests, pieces)
			      : fill_adjacent(m, requests, pieces);

	if (draw(&m->seed, 2)) /* or let the fd be made in flight */
		te_batch_eventfd(batch);
	rc = te_batch_submit(batch, requests, n);
	if (rc) {
		bad("submit", rc);
		return;
	}
	switch (draw(&m->seed, 4)) {
	case 0:
		await_event(batch, n);
		break;
	case 1:
		await_poll(batch, n);
		break;
	case 2:
		await_wait(batch, n);
		break;
	default:
		if (draw(&m->seed, 2))
			te_request_cancel(batch, (uint32_t)(n - 1));
		return; /* destroyed in flight */
	}
	atomic_fetch_add(&n_done, n);
}

/* Nobody cancels it any more once this returns. */
static void withdraw(struct mover *m)
{
	while (atomic_exchange(&m->held, true))
		sched_yield();
	atomic_store(&m->batch, NULL);
	atomic_store(&m->held, false);
}

static void *move(void *arg)
{
	struct mover *m = arg;
	struct te_batch *batch;

	while (!atomic_load(&over)) {
		if (te_batch_create(user, N_BATCH, &batch))
			continue;
		atomic_store(&m->batch, batch);
		move_once(m, batch);
		withdraw(m);
		if (!te_batch_reset(batch))
			move_once(m, batch);
		te_batch_destroy(batch);
	}
	return NULL;
}

static void *cancel(void *arg)
{
	unsigned int seed = 99;

	while (!atomic_load(&over)) {
		struct mover *m = &movers[draw(&seed, N_MOVERS)];
		struct te_batch *batch;

		if (atomic_exchange(&m->held, true))
			continue;
		batch = atomic_load(&m->batch);
		if (batch && draw(&seed, 2))
			te_batch_cancel(batch);
		else if (batch)
			te_request_cancel(batch, draw(&seed, N_BATCH));
		atomic_store(&m->held, false);
		poll(NULL, 0, 1);
	}
	return arg;
}

static void *disturb(void *arg)
{
	uint8_t secret[TE_GROUP_SECRET_LEN] = {0}, who[TE_INCARNATION_LEN];
	static uint8_t other[4096];
	struct te_region region = {
		.addr = other, .length = sizeof(other), .access = RIG_ANY};
	unsigned int seed = 7;
	te_region_id id;
	int rc;

	te_engine_incarnation(user, who);
	while (!atomic_load(&over)) {
		secret[0]++;
		region.group = draw(&seed, 2) ? secret : NULL;
		rc = te_region_add(owner, &region, &id);
		if (rc)
			bad("region", rc);
		rc = te_group_join(user, secret);
		if (rc)
			bad("join", rc);
		if (!draw(&seed, 4)) {
			rc = te_peer_revoke(owner, draw(&seed, 2) ? who : NULL,
					    LATE_MS);
			if (rc)
				bad("revoke", rc);
		}
		poll(NULL, 0, (int)draw(&seed, 10));
		te_region_remove(owner, id);
		te_group_leave(user, secret);
	}
	return arg;
}

static void nothing_is_forgotten_under_stress(void **state)
{
	const char *ms = getenv("TE_STRESS_MS");
	pthread_t canceler, disturber;

	(void)state;
	memory = calloc(1, LEN);
	own_memory = calloc(1, LEN);
	assert_true(memory && own_memory);
	owner = rig_engine(NULL);
	user = rig_engine(NULL);
	rig_region(owner, memory, LEN, RIG_ANY);
	rig_region(user, own_memory, LEN, RIG_ANY);
	far = rig_segment(user, owner);
	own = rig_segment(user, user);
	for (unsigned int i = 0; i < N_MOVERS; i++) {
		movers[i].seed = i + 1;
		movers[i].local = calloc(1, BATCH_LEN);
		assert_non_null(movers[i].local);
		assert_int_equal(pthread_create(&movers[i].thread, NULL, move,
						&movers[i]),
				 0);
	}
	assert_int_equal(pthread_create(&canceler, NULL, cancel, NULL), 0);
	assert_int_equal(pthread_create(&disturber, NULL, disturb, NULL), 0);
	poll(NULL, 0, ms ? atoi(ms) : 1500);
	atomic_store(&over, true);
	pthread_join(canceler, NULL);
	pthread_join(disturber, NULL);
	for (unsigned int i = 0; i < N_MOVERS; i++) {
		pthread_join(movers[i].thread, NULL);
		free(movers[i].local);
	}
	te_engine_destroy(user);
	te_engine_destroy(owner);
	free(memory);
	free(own_memory);
	assert_int_equal(atomic_load(&n_bad), 0);
	assert_true(atomic_load(&n_done) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_forgotten_under_stress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
