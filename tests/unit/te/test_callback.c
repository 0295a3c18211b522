/* SPDX-License-Identifier: Apache-2.0 */
/* test_callback.c - te_batch_on_done(): who is called, when, and from where */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/lib/wait.h"
#include "tests/unit/te/alone_memory.h"

#define N_REQUESTS 32
#define N_THREADS  64
#define LEN        ((size_t)64 << 10)

static struct iovec piece;

static int set_up(void **state)
{
	(void)state;
	(void)alone_open_memory(NULL, LEN);
	piece = (struct iovec){local, 8};
	return 0;
}

/* What a callback has seen; it may be called by any thread. */
struct seen {
	_Atomic unsigned int n, n_canceled, n_wrong, n_elsewhere;
	_Atomic uint64_t users; /* bit per te_request.user */
	_Atomic int submit_rc, wait_rc, reset_rc;
	uint32_t n_more; /* still to be submitted by the callback */
	pthread_t here;
	struct te_request again;
	struct te_batch *other;
	_Atomic bool held, entered;
};

static void see(struct te_batch *batch, const struct te_completion *c,
		void *arg)
{
	struct seen *seen = arg;
	struct te_completion same;

	if (atomic_fetch_or(&seen->users, 1ull << c->user) >> c->user & 1)
		atomic_fetch_add(&seen->n_wrong, 1); /* twice */
	if (te_batch_result(batch, c->index, &same) || same.user != c->user)
		atomic_fetch_add(&seen->n_wrong, 1);
	if (c->error == -ECANCELED)
		atomic_fetch_add(&seen->n_canceled, 1);
	else if (c->error || c->bytes != 8)
		atomic_fetch_add(&seen->n_wrong, 1);
	if (!pthread_equal(pthread_self(), seen->here))
		atomic_fetch_add(&seen->n_elsewhere, 1);
	atomic_fetch_add(&seen->n, 1);
}

static struct te_batch *make_batch(uint32_t capacity, te_done_fn *fn, void *arg)
{
	struct te_batch *batch;

	assert_int_equal(te_batch_create(engine, capacity, &batch), 0);
	assert_int_equal(te_batch_on_done(batch, fn, arg), 0);
	return batch;
}

static struct te_request write_of(uint64_t user)
{
	struct te_request r;

	r = rig_request(segment, TE_WRITE, memory, &piece);
	r.user = user;
	return r;
}

static void submit_some(struct te_batch *batch, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct te_request r = write_of(i);

		assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	}
}

/* To an engine that is gone: they end by cancelling or by their deadline. */
static te_segment_id dead_segment(void)
{
	struct te_engine *owner = rig_engine(NULL);
	te_segment_id id = rig_segment(engine, owner);

	te_engine_destroy(owner);
	return id;
}

static void submit_stuck(struct te_batch *batch, te_segment_id dead, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct te_request r = write_of(i);

		r.segment = dead;
		assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	}
}

static bool has_all(void *arg)
{
	struct seen *seen = arg;

	return atomic_load(&seen->n) == N_REQUESTS;
}

static void every_end_is_told_once_by_the_time_wait_returns(void **state)
{
	struct seen seen = {.here = pthread_self()};
	struct te_batch *batch = make_batch(N_REQUESTS, see, &seen);
	struct te_completion c;

	(void)state;
	for (int round = 0; round < 20; round++) {
		atomic_store(&seen.n, 0);
		atomic_store(&seen.users, 0);
		submit_some(batch, N_REQUESTS);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		assert_int_equal(seen.n, N_REQUESTS);
		assert_int_equal(seen.users, (1ull << N_REQUESTS) - 1);
		assert_int_equal(seen.n_wrong, 0);
		assert_int_equal(te_batch_poll(batch, &c, 1), 0);
		assert_int_equal(te_batch_reset(batch), 0);
	}
	te_batch_destroy(batch);
}

static void engine_calls_though_nobody_waits(void **state)
{
	struct seen seen = {.here = pthread_self()};
	struct te_batch *batch = make_batch(N_REQUESTS, see, &seen);
	struct pollfd fd = {.events = POLLIN};

	(void)state;
	fd.fd = te_batch_eventfd(batch);
	assert_true(fd.fd >= 0);
	submit_some(batch, N_REQUESTS);
	assert_true(test_wait_until(has_all, &seen, RIG_WAIT_MS));
	/* Nor was any called inside of a submission. */
	assert_int_equal(seen.n_elsewhere, N_REQUESTS);
	assert_int_equal(seen.n_wrong, 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	te_batch_destroy(batch);
}

static void submit_more(struct te_batch *batch, const struct te_completion *c,
			void *arg)
{
	struct seen *seen = arg;
	struct te_request r = seen->again;

	see(batch, c, arg);
	if (!seen->n_more)
		return;
	r.user = N_REQUESTS - seen->n_more--;
	if (te_batch_submit(batch, &r, 1))
		atomic_fetch_add(&seen->n_wrong, 1);
}

static void callback_may_submit_to_its_batch(void **state)
{
	struct seen seen = {.n_more = N_REQUESTS - 1, .again = write_of(0)};
	struct te_batch *batch = make_batch(N_REQUESTS, submit_more, &seen);

	(void)state;
	submit_some(batch, 1);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(seen.n, N_REQUESTS);
	assert_int_equal(seen.users, (1ull << N_REQUESTS) - 1);
	assert_int_equal(seen.n_wrong, 0);
	te_batch_destroy(batch);
}

static void chain_of_submissions_goes_on_by_itself(void **state)
{
	struct seen seen = {.n_more = N_REQUESTS - 1, .again = write_of(0)};
	struct te_batch *batch = make_batch(N_REQUESTS, submit_more, &seen);

	(void)state;
	submit_some(batch, 1);
	assert_true(test_wait_until(has_all, &seen, RIG_WAIT_MS));
	assert_int_equal(seen.n_wrong, 0);
	te_batch_destroy(batch);
}

static void cancel_other(struct te_batch *batch, const struct te_completion *c,
			 void *arg)
{
	struct seen *seen = arg;

	see(batch, c, arg);
	te_batch_cancel(seen->other);
}

static void callback_may_cancel(void **state)
{
	te_segment_id dead = dead_segment();
	struct seen stuck = {0}, seen = {0};
	struct te_batch *other = make_batch(N_REQUESTS, see, &stuck);
	struct te_batch *batch = make_batch(1, cancel_other, &seen);

	(void)state;
	seen.other = other;
	submit_stuck(other, dead, N_REQUESTS);
	submit_some(batch, 1);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_wait(other, RIG_WAIT_MS), 0);
	assert_int_equal(stuck.n_canceled, N_REQUESTS);
	te_batch_destroy(batch);
	te_batch_destroy(other);
}

static void try_to_block(struct te_batch *batch, const struct te_completion *c,
			 void *arg)
{
	struct seen *seen = arg;

	see(batch, c, arg);
	atomic_store(&seen->wait_rc, te_batch_wait(batch, 100));
	atomic_store(&seen->reset_rc, te_batch_reset(seen->other));
	te_batch_destroy(seen->other);
	te_engine_destroy(engine);
}

static void callback_may_not_block(void **state)
{
	struct seen seen = {0};
	struct te_batch *batch = make_batch(1, try_to_block, &seen);

	(void)state;
	seen.other = make_batch(1, see, &seen);
	submit_some(batch, 1);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(seen.wait_rc, -EDEADLK);
	assert_int_equal(seen.reset_rc, -EDEADLK);
	te_batch_destroy(batch);
	te_batch_destroy(seen.other);
}

static void destroyed_batch_has_told_its_ends(void **state)
{
	te_segment_id dead = dead_segment();
	struct seen seen = {0};
	struct te_batch *batch = make_batch(N_REQUESTS, see, &seen);

	(void)state;
	submit_stuck(batch, dead, N_REQUESTS);
	te_batch_destroy(batch);
	assert_int_equal(seen.n_canceled, N_REQUESTS);
	assert_int_equal(seen.n_wrong, 0);
}

/* As long as it is let. */
static void submit_for_ever(struct te_batch *batch,
			    const struct te_completion *c, void *arg)
{
	struct seen *seen = arg;

	(void)c;
	atomic_fetch_add(&seen->n, 1);
	atomic_store(&seen->submit_rc, te_batch_submit(batch, &seen->again, 1));
}

static bool has_begun(void *arg)
{
	return atomic_load(&((struct seen *)arg)->n) > 0;
}

static void destroyed_engine_refuses_what_callbacks_submit(void **state)
{
	struct seen seen = {.again = write_of(0)}, stuck = {0};
	te_segment_id dead = dead_segment();

	(void)state;
	submit_some(make_batch(65536, submit_for_ever, &seen), 1);
	submit_stuck(make_batch(N_REQUESTS, see, &stuck), dead, N_REQUESTS);
	assert_true(test_wait_until(has_begun, &seen, RIG_WAIT_MS));
	te_engine_destroy(engine);
	assert_true(seen.submit_rc == -ECANCELED || seen.submit_rc == -ENOBUFS);
	assert_int_equal(stuck.n_canceled, N_REQUESTS);
	assert_int_equal(stuck.n_wrong, 0);
	engine = rig_engine(NULL);
}

static void callback_is_set_only_while_nothing_is_in_flight(void **state)
{
	te_segment_id dead = dead_segment();
	struct te_batch *batch;
	struct seen seen = {0};
	struct te_completion c;

	(void)state;
	assert_int_equal(te_batch_create(engine, 8, &batch), 0);
	submit_stuck(batch, dead, 1);
	assert_int_equal(te_batch_on_done(batch, see, &seen), -EBUSY);
	assert_int_equal(te_batch_cancel(batch), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	/* What has ended is not told any more, neither way. */
	assert_int_equal(te_batch_on_done(batch, see, &seen), 0);
	submit_some(batch, 1);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(seen.n, 1);
	assert_int_equal(te_batch_on_done(batch, NULL, NULL), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 0);
	submit_some(batch, 1);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_int_equal(seen.n, 1);
	te_batch_destroy(batch);
}

/* ---- many threads ---- */

static _Atomic unsigned int n_bad;

static void *wait_for_calls(void *arg)
{
	struct seen seen = {.here = pthread_self()};
	struct te_request r = *(struct te_request *)arg;
	struct te_batch *batch;

	if (te_batch_create(engine, N_REQUESTS, &batch) ||
	    te_batch_on_done(batch, see, &seen)) {
		atomic_fetch_add(&n_bad, 1);
		return NULL;
	}
	for (int round = 0; round < 20; round++) {
		atomic_store(&seen.n, 0);
		atomic_store(&seen.users, 0);
		for (r.user = 0; r.user < N_REQUESTS; r.user++) {
			if (te_batch_submit(batch, &r, 1))
				atomic_fetch_add(&n_bad, 1);
		}
		if (te_batch_wait(batch, RIG_WAIT_MS) ||
		    atomic_load(&seen.n) != N_REQUESTS || te_batch_reset(batch))
			atomic_fetch_add(&n_bad, 1);
	}
	if (atomic_load(&seen.n_wrong))
		atomic_fetch_add(&n_bad, 1);
	te_batch_destroy(batch);
	return NULL;
}

static void many_threads_have_callbacks(void **state)
{
	struct te_request r = write_of(0);
	pthread_t threads[N_THREADS];

	(void)state;
	r.op = TE_READ; /* of what nobody writes: pieces may be shared */
	r.remote = (uintptr_t)memory;
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, wait_for_calls, &r),
			0);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(n_bad, 0);
}

#define WITH_ENGINE(test) \
	cmocka_unit_test_setup_teardown(test, set_up, alone_close_memory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINE(every_end_is_told_once_by_the_time_wait_returns),
		WITH_ENGINE(engine_calls_though_nobody_waits),
		WITH_ENGINE(callback_may_submit_to_its_batch),
		WITH_ENGINE(chain_of_submissions_goes_on_by_itself),
		WITH_ENGINE(callback_may_cancel),
		WITH_ENGINE(callback_may_not_block),
		WITH_ENGINE(destroyed_batch_has_told_its_ends),
		WITH_ENGINE(destroyed_engine_refuses_what_callbacks_submit),
		WITH_ENGINE(callback_is_set_only_while_nothing_is_in_flight),
		WITH_ENGINE(many_threads_have_callbacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
