/* SPDX-License-Identifier: Apache-2.0 */
/* trouble.c - peers that die, restart, stop or are thrown out */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "tests/conformance/rig.h"
#include "tests/lib/process.h"
#include "tests/lib/wait.h"

#define N      48
#define FAR_MS 3600000
#if defined(__SANITIZE_THREAD__)
#define MUCH     (RIG_LEN / 64) /* several times slower */
#define PLACE(i) ((i)*MUCH)     /* what is in flight does not overlap */
#else
#define MUCH     RIG_LEN
#define PLACE(i) 0
#endif

/* A batch of requests to @p that are much for it to do. */
static struct te_batch *submit_to(struct te_engine *user, te_segment_id segment,
				  const struct rig_peer *p, uint8_t *local,
				  uint32_t timeout_ms)
{
	struct te_request requests[N] = {0};
	struct iovec pieces[N];
	struct te_batch *batch;

	for (unsigned int i = 0; i < N; i++) {
		pieces[i] = (struct iovec){local + PLACE(i), MUCH};
		requests[i].op = i % 2 ? TE_READ : TE_WRITE;
		requests[i].segment = segment;
		requests[i].remote = p->addr + PLACE(i);
		requests[i].pieces = &pieces[i];
		requests[i].n_pieces = 1;
		requests[i].timeout_ms = timeout_ms;
	}
	assert_int_equal(te_batch_create(user, N, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, N), 0);
	return batch;
}

/* How many ended well; the others did with one of the two errors. */
static unsigned int end_of(struct te_batch *batch, int err1, int err2)
{
	struct te_completion done;
	unsigned int n = 0;

	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(te_batch_result(batch, i, &done), 0);
		if (done.error && done.error != err1 && done.error != err2)
			fail_msg("request %u ended with %d", i, done.error);
		n += !done.error;
	}
	te_batch_destroy(batch);
	return n;
}

static uint8_t *bytes_of_ours(void)
{
	uint8_t *local = rig_local();

	memset(rig_bytes(local), 1, RIG_LEN);
	return local;
}

static struct te_engine *user_of(const struct rig_peer *p, uint8_t *local,
				 te_segment_id *segment)
{
	struct te_engine *user = rig_engine("127.0.0.1");

	rig_local_add(user, local);
	assert_int_equal(te_segment_open(user, p->name, RIG_WAIT_MS, segment),
			 0);
	return user;
}

static void requests_to_a_killed_peer_end_in_time(void **state)
{
	struct te_engine *user;
	uint8_t *local;
	te_segment_id segment;
	struct te_batch *batch;
	struct rig_peer p;

	(void)state;
	if (rig_one_process)
		skip();
	local = bytes_of_ours();
	rig_peer_start(&p, NULL);
	user = user_of(&p, local, &segment);
	batch = submit_to(user, segment, &p, local, 2000);
	rig_peer_kill(&p);
	/* What was quick has come before its end, but at last none does. */
	while (end_of(batch, -ETIMEDOUT, -ESTALE) == N)
		batch = submit_to(user, segment, &p, local, 2000);
	memset(rig_bytes(local), 2, RIG_LEN);
	te_engine_destroy(user);
	rig_local_free(local);
}

static void restarted_peer_is_another_one(void **state)
{
	struct te_engine *user;
	uint8_t *local;
	te_segment_id old, new;
	struct te_batch *batch;
	struct rig_peer p, q;

	(void)state;
	if (rig_one_process)
		skip();
	local = bytes_of_ours();
	rig_peer_start(&p, NULL);
	user = user_of(&p, local, &old);
	assert_int_equal(end_of(submit_to(user, old, &p, local, 0), 0, 0), N);
	rig_peer_kill(&p);
	rig_peer_start(&q, p.name);
	batch = submit_to(user, old, &p, local, FAR_MS);
	assert_int_equal(end_of(batch, -ESTALE, -ESTALE), 0);
	assert_int_equal(te_segment_open(user, q.name, RIG_WAIT_MS, &new), 0);
	assert_int_equal(end_of(submit_to(user, new, &q, local, 0), 0, 0), N);
	rig_peer_kill(&q);
	te_engine_destroy(user);
	rig_local_free(local);
}

static void requests_to_a_stopped_peer_end_at_their_deadline(void **state)
{
	struct te_engine *user;
	uint8_t *local;
	te_segment_id segment;
	struct te_batch *batch;
	struct rig_peer p;

	(void)state;
	if (rig_one_process)
		skip();
	local = bytes_of_ours();
	rig_peer_start(&p, NULL);
	user = user_of(&p, local, &segment);
	assert_int_equal(end_of(submit_to(user, segment, &p, local, 0), 0, 0),
			 N);
	test_process_signal(p.process, SIGSTOP);
	batch = submit_to(user, segment, &p, local, 1000);
	end_of(batch, -ETIMEDOUT, -ETIMEDOUT);
	memset(rig_bytes(local), 2, RIG_LEN);
	test_process_signal(p.process, SIGCONT);
	assert_int_equal(
		end_of(submit_to(user, segment, &p, local, FAR_MS), 0, 0), N);
	rig_peer_kill(&p);
	te_engine_destroy(user);
	rig_local_free(local);
}

/* Whoever cancels has his memory back; deadlines are far away. */
static void cancelling_needs_no_answer_of_a_peer(void **state)
{
	struct te_engine *user;
	uint8_t *local;
	te_segment_id segment;
	struct te_batch *batch;
	struct rig_peer p;

	(void)state;
	if (rig_one_process)
		skip();
	local = bytes_of_ours();
	rig_peer_start(&p, NULL);
	user = user_of(&p, local, &segment);
	assert_int_equal(end_of(submit_to(user, segment, &p, local, 0), 0, 0),
			 N);
	test_process_signal(p.process, SIGSTOP);
	batch = submit_to(user, segment, &p, local, FAR_MS);
	assert_int_equal(te_batch_cancel(batch), 0);
	end_of(batch, -ECANCELED, -ECANCELED);
	memset(rig_bytes(local), 2, RIG_LEN);
	test_process_signal(p.process, SIGCONT);
	batch = submit_to(user, segment, &p, local, FAR_MS);
	rig_peer_kill(&p);
	assert_int_equal(te_batch_cancel(batch), 0);
	end_of(batch, -ECANCELED, -ESTALE);
	memset(rig_bytes(local), 3, RIG_LEN);
	te_engine_destroy(user);
	rig_local_free(local);
}

static void engine_may_be_destroyed_while_peers_use_it(void **state)
{
	struct te_batch *batch;
	struct rig_peer p;
	struct rig r;

	(void)state;
	if (rig_self || rig_arena)
		skip(); /* arenas go with their engine */
	rig_open(&r);
	p.addr = (uintptr_t)r.memory;
	batch = submit_to(r.user, r.segment, &p, r.local, 2000);
	te_engine_destroy(r.owner);
	memset(r.there, 9, RIG_LEN);
	end_of(batch, -ETIMEDOUT, -ESTALE);
	assert_true(rig_is_all(r.there, 9));
	te_engine_destroy(r.user);
	rig_memory_free(NULL, r.memory);
	rig_local_free(r.local);
}

/* ---- access epochs ---- */

#define STREAM_LEN 400000u

struct stream {
	struct te_engine *engine;
	struct rig *r;
	te_segment_id segment;
	uint8_t *local, *remote;
	_Atomic bool stop;
	_Atomic unsigned int n_ok, n_stale, n_other;
	_Atomic unsigned int n_again; /* submitted when it knew, yet stale */
	pthread_t thread;
};

static void *stream_main(void *arg)
{
	struct stream *s = arg;
	bool stale = false, stale_before;
	struct te_batch *batch;

	if (te_batch_create(s->engine, 8, &batch))
		return NULL;
	while (!s->stop) {
		struct te_request requests[8] = {0};
		struct iovec pieces[8];
		struct te_completion done[8];

		for (unsigned int i = 0; i < 8; i++) {
			size_t at = i * STREAM_LEN;

			pieces[i] = (struct iovec){s->local + at, STREAM_LEN};
			requests[i].op = i % 2 ? TE_READ : TE_WRITE;
			requests[i].segment = s->segment;
			requests[i].remote = (uintptr_t)s->remote + at;
			requests[i].pieces = &pieces[i];
			requests[i].n_pieces = 1;
		}
		if (te_batch_reset(batch) ||
		    te_batch_submit(batch, requests, 8) ||
		    te_batch_wait(batch, RIG_WAIT_MS) ||
		    te_batch_poll(batch, done, 8) != 8) {
			s->n_other++;
			break;
		}
		stale_before = stale;
		stale = false;
		for (unsigned int i = 0; i < 8; i++) {
			s->n_ok += !done[i].error;
			s->n_stale += done[i].error == -ESTALE;
			s->n_other += done[i].error && done[i].error != -ESTALE;
			stale |= done[i].error == -ESTALE;
		}
		s->n_again += stale && stale_before;
	}
	te_batch_destroy(batch);
	return NULL;
}

static void stream_start(struct stream *s, struct te_engine *engine,
			 struct rig *r, size_t at)
{
	*s = (struct stream){.engine = engine,
			     .r = r,
			     .local = r->local + at,
			     .remote = r->memory + at};
	assert_int_equal(te_segment_open(engine, te_engine_name(r->owner),
					 RIG_WAIT_MS, &s->segment),
			 0);
	assert_int_equal(pthread_create(&s->thread, NULL, stream_main, s), 0);
}

struct growth {
	_Atomic unsigned int *n;
	unsigned int before;
};

static bool has_grown(void *arg)
{
	const struct growth *g = arg;

	return *g->n > g->before + 16;
}

static bool grows(_Atomic unsigned int *n)
{
	struct growth g = {n, *n};

	return test_wait_until(has_grown, &g, RIG_WAIT_MS);
}

static void revoked_peer_alone_is_stale_and_goes_on(void **state)
{
	uint8_t incarnation[TE_INCARNATION_LEN];
	struct te_engine *other;
	struct stream bad, good;
	struct rig r;

	(void)state;
	if (rig_self)
		skip();
	rig_open(&r);
	other = rig_engine("127.0.0.1");
	rig_local_add(other, r.local);
	te_engine_incarnation(r.user, incarnation);
	stream_start(&bad, r.user, &r, 0);
	stream_start(&good, other, &r, RIG_LEN / 2);
	/* One that comes between two batches makes nothing stale. */
	for (unsigned int i = 0; i < 8 || (!bad.n_stale && i < 800); i++) {
		assert_true(grows(&bad.n_ok));
		assert_int_equal(te_peer_revoke(r.owner, incarnation, 0), 0);
	}
	assert_true(grows(&bad.n_ok));
	assert_true(grows(&good.n_ok));
	bad.stop = good.stop = true;
	pthread_join(bad.thread, NULL);
	pthread_join(good.thread, NULL);
	assert_true(bad.n_stale > 0);
	assert_int_equal(bad.n_again, 0);
	assert_int_equal(bad.n_other, 0);
	assert_int_equal(good.n_stale, 0);
	assert_int_equal(good.n_other, 0);
	te_engine_destroy(other);
	rig_close(&r);
}

static void request_of_an_ended_epoch_is_void(void **state)
{
	uint8_t incarnation[TE_INCARNATION_LEN];
	uint64_t epoch, since;
	struct te_request request;
	struct iovec piece;
	struct rig r;

	(void)state;
	if (rig_self)
		skip();
	rig_open(&r);
	te_engine_incarnation(r.user, incarnation);
	piece = (struct iovec){r.local, 5000};
	request = rig_request(&r, TE_WRITE, r.memory, &piece);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(
			te_segment_epoch(r.user, r.segment, &epoch, &since), 0);
		request.epoch = epoch;
		memset(r.here, i, 5000);
		assert_int_equal(rig_run(r.user, &request).error, 0);
		assert_int_equal(te_peer_revoke(r.owner, incarnation, 0), 0);
		memset(r.here, 0x99, 5000);
		assert_int_equal(rig_run(r.user, &request).error, -ESTALE);
		assert_int_equal(r.there[0], i);
		request.epoch = 0;
		assert_int_equal(rig_run(r.user, &request).error, 0);
		assert_int_equal(r.there[0], 0x99);
	}
	rig_close(&r);
}

/* ---- faults ---- */

static void failing_sockets_cost_retries_and_no_bytes(void **state)
{
	static const enum tei_fault kinds[] = {TEI_FAULT_IO, TEI_FAULT_SOCKET,
					       TEI_FAULT_ALLOC};
	struct rig r;

	(void)state;
	rig_open(&r);
	/* Each fault may pause a rail: with a GPU's memory a few of each kind. */
	for (unsigned int i = 0;
	     i < (rig_local_gpu || rig_remote_gpu ? 12 : 60); i++) {
		size_t n = 1 + i * 30011;

		rig_fill(r.here, n, i);
		tei_fault_arm(kinds[i % 3], 1 + i / 3);
		if (i % 4 == 3) { /* a fresh connection under the same fault */
			uint8_t incarnation[TE_INCARNATION_LEN];

			te_engine_incarnation(r.user, incarnation);
			te_peer_revoke(r.owner, incarnation, 0);
		}
		for (int k = 0; k < 3; k++) {
			struct iovec piece = {r.local, n};
			struct te_request request =
				rig_request(&r, TE_WRITE, r.memory, &piece);
			struct te_batch *batch;

			if (te_batch_create(r.user, 1, &batch))
				continue; /* the fault struck here */
			if (!te_batch_submit(batch, &request, 1))
				assert_int_equal(
					te_batch_wait(batch, RIG_WAIT_MS), 0);
			te_batch_destroy(batch);
		}
		tei_fault_disarm_all();
		assert_int_equal(rig_move(&r, TE_WRITE, r.memory, r.local, n),
				 0);
		rig_check(r.there, n, i);
	}
	rig_close(&r);
}

const struct CMUnitTest rig_trouble_tests[] = {
	cmocka_unit_test(requests_to_a_killed_peer_end_in_time),
	cmocka_unit_test(restarted_peer_is_another_one),
	cmocka_unit_test(requests_to_a_stopped_peer_end_at_their_deadline),
	cmocka_unit_test(cancelling_needs_no_answer_of_a_peer),
	cmocka_unit_test(engine_may_be_destroyed_while_peers_use_it),
	cmocka_unit_test(revoked_peer_alone_is_stale_and_goes_on),
	cmocka_unit_test(request_of_an_ended_epoch_is_void),
	cmocka_unit_test(failing_sockets_cost_retries_and_no_bytes),
};
const size_t rig_n_trouble_tests = TEST_COUNT(rig_trouble_tests);
