/* SPDX-License-Identifier: Apache-2.0 */
/* test_driven.c - engines without a worker thread: who waits drives */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define LEN ((size_t)1 << 20)

static const char *const settings[] = {"worker_thread", "off", "backends",
				       "tcp", NULL};
static struct te_engine *owner, *user;
static uint8_t *memory, *local;
static te_region_id region;
static te_segment_id segment;

static int set_up(void **state)
{
	(void)state;
	memory = malloc(LEN);
	local = malloc(LEN);
	assert_true(memory && local);
	memset(memory, 1, LEN);
	memset(local, 2, LEN);
	owner = rig_engine(settings);
	user = rig_engine(settings);
	region = rig_region(owner, memory, LEN, RIG_ANY);
	segment = rig_segment(user, owner);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(user);
	te_engine_destroy(owner);
	free(memory);
	free(local);
	return 0;
}

static struct te_batch *start(uint32_t timeout_ms)
{
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	struct te_batch *batch;

	r.timeout_ms = timeout_ms;
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	return batch;
}

static int end_of(struct te_batch *batch)
{
	struct te_completion c;

	assert_int_equal(te_batch_result(batch, 0, &c), 0);
	te_batch_destroy(batch);
	return c.error;
}

/* Both sides by this thread, in turns. */
static int drive_both(struct te_batch *batch)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;

	while (te_batch_wait(batch, 1)) {
		assert_true(te_engine_drive(owner, 1) >= 0);
		assert_true(tei_now_ns() < until);
	}
	return end_of(batch);
}

static void one_thread_drives_both_sides(void **state)
{
	(void)state;
	assert_int_equal(drive_both(start(0)), 0);
	assert_memory_equal(memory, local, LEN);
	assert_false(user->worker->started);
}

static void nobody_drives_nothing_moves(void **state)
{
	struct te_batch *batch;

	(void)state;
	batch = start(0);
	assert_int_equal(poll(NULL, 0, 20), 0);
	assert_int_equal(memory[LEN - 1], 1);
	assert_int_equal(drive_both(batch), 0);
}

static void waiter_sees_its_deadline(void **state)
{
	struct te_batch *batch;

	(void)state;
	batch = start(50); /* the owner is not driven */
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(end_of(batch), -ETIMEDOUT);
}

static void driving_an_idle_engine_ends_in_time(void **state)
{
	(void)state;
	while (te_engine_drive(user, 0) > 0)
		; /* what is left of connecting */
	assert_int_equal(te_engine_drive(user, 5), 0);
}

static void *drive_owner(void *arg)
{
	while (!atomic_load((atomic_bool *)arg))
		te_engine_drive(owner, 1);
	return NULL;
}

static void *wait_for(void *arg)
{
	assert_int_equal(te_batch_wait(arg, RIG_WAIT_MS), 0);
	return NULL;
}

/* Who drives leaves when its own batch is done; the other takes over. */
static void two_waiters_take_turns(void **state)
{
	atomic_bool stop = false;
	struct te_batch *a, *b;
	pthread_t server, other;

	(void)state;
	assert_int_equal(pthread_create(&server, NULL, drive_owner, &stop), 0);
	for (int i = 0; i < 20; i++) {
		a = start(0);
		b = start(0);
		assert_int_equal(pthread_create(&other, NULL, wait_for, b), 0);
		assert_int_equal(te_batch_wait(a, RIG_WAIT_MS), 0);
		pthread_join(other, NULL);
		assert_int_equal(end_of(a), 0);
		assert_int_equal(end_of(b), 0);
	}
	atomic_store(&stop, true);
	pthread_join(server, NULL);
}

#define TURNS 500

static pthread_barrier_t barrier;

/* A turn each, at the same time: one drives, the other goes to sleep. */
static void *wait_often(void *arg)
{
	struct iovec piece = {local, 64};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	struct te_batch *batch;
	int rc = 0;

	if (te_batch_create(user, 1, &batch))
		return arg;
	for (int i = 0; i < TURNS; i++) {
		pthread_barrier_wait(&barrier);
		if (!rc)
			rc = te_batch_reset(batch);
		if (!rc)
			rc = te_batch_submit(batch, &r, 1);
		if (!rc)
			rc = te_batch_wait(batch, RIG_WAIT_MS);
	}
	te_batch_destroy(batch);
	return rc ? arg : NULL;
}

static void who_goes_to_sleep_as_the_other_leaves_is_called(void **state)
{
	atomic_bool stop = false;
	pthread_t server, other;
	void *result;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&server, NULL, drive_owner, &stop), 0);
	assert_int_equal(pthread_create(&other, NULL, wait_often, &stop), 0);
	assert_null(wait_often(&stop));
	pthread_join(other, &result);
	assert_null(result);
	atomic_store(&stop, true);
	pthread_join(server, NULL);
	pthread_barrier_destroy(&barrier);
}

static void revocation_drives_what_it_waits_for(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];

	(void)state;
	assert_int_equal(drive_both(start(0)), 0);
	te_engine_incarnation(user, who);
	assert_int_equal(te_peer_revoke(owner, who, RIG_WAIT_MS), 0);
	assert_int_equal(te_region_remove(owner, region), 0);
}

static void waiting_beside_one_who_drives_is_no_spinning(void **state)
{
	struct tei_worker *w = user->worker;
	uint64_t until = tei_now_ns() + 50 * TEI_NS_PER_MS;
	unsigned int turns = 0;
	struct tei_mutex mu;
	struct tei_cond cond;

	(void)state;
	tei_mutex_init(&mu);
	tei_cond_init(&cond);
	assert_true(tei_token_take(w, TEI_WAITER));
	tei_mutex_lock(&mu);
	while (tei_worker_await(w, &cond, &mu, until))
		turns++;
	tei_mutex_unlock(&mu);
	tei_token_release(w, false);
	assert_true(turns < 500); /* a turn takes a millisecond */
	tei_cond_fini(&cond);
	tei_mutex_fini(&mu);
}

#define WITH_ENGINES(test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(one_thread_drives_both_sides),
		WITH_ENGINES(nobody_drives_nothing_moves),
		WITH_ENGINES(waiter_sees_its_deadline),
		WITH_ENGINES(driving_an_idle_engine_ends_in_time),
		WITH_ENGINES(two_waiters_take_turns),
		WITH_ENGINES(who_goes_to_sleep_as_the_other_leaves_is_called),
		WITH_ENGINES(revocation_drives_what_it_waits_for),
		WITH_ENGINES(waiting_beside_one_who_drives_is_no_spinning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
