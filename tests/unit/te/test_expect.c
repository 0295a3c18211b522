/* SPDX-License-Identifier: Apache-2.0 */
/* test_expect.c - requests to engines that nobody has met yet */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "tests/lib/faults.h"
#include "tests/unit/te/rig.h"

#define LEN 4096

static struct te_engine *user;
static uint8_t memory[LEN], local[LEN];

static int set_up(void **state)
{
	(void)state;
	user = rig_engine(NULL);
	rig_fill(local, LEN);
	memset(memory, 0, LEN);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(user);
	return 0;
}

static te_segment_id expect(const char *name)
{
	te_segment_id id;

	assert_int_equal(te_segment_expect(user, name, &id), 0);
	return id;
}

static struct te_batch *submit(const struct te_request *requests, uint32_t n)
{
	struct te_batch *batch;

	assert_int_equal(te_batch_create(user, n, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, n), 0);
	return batch;
}

static int result(struct te_batch *batch, uint32_t index)
{
	struct te_completion c;

	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_result(batch, index, &c), 0);
	return c.error;
}

/* "127.0.0.1:port", where somebody was who has gone: nobody takes it at once. */
static void name_of_nobody(char out[64])
{
	struct te_engine *engine = rig_engine(NULL);

	snprintf(out, 64, "%s", te_engine_name(engine));
	te_engine_destroy(engine);
}

static void engine_that_is_there_is_met_by_the_first_request(void **state)
{
	struct te_engine *owner = rig_engine(NULL);
	te_segment_id id = expect(te_engine_name(owner)), other;
	uint8_t life[TE_INCARNATION_LEN], zero[TE_INCARNATION_LEN] = {0};
	uint64_t epoch, since;
	size_t n = 0;

	(void)state;
	rig_region(owner, memory, LEN, RIG_ANY);
	assert_int_equal(te_segment_regions(user, id, NULL, &n), -EAGAIN);
	assert_int_equal(te_segment_incarnation(user, id, life), 0);
	assert_memory_equal(life, zero, sizeof(life));
	assert_int_equal(rig_move(user, id, TE_WRITE, memory, local, LEN), 0);
	assert_memory_equal(memory, local, LEN);
	assert_int_equal(te_segment_regions(user, id, NULL, &n), 0);
	assert_int_equal(n, 1);
	te_engine_incarnation(owner, zero);
	assert_int_equal(te_segment_incarnation(user, id, life), 0);
	assert_memory_equal(life, zero, sizeof(life));
	assert_int_equal(te_segment_epoch(user, id, &epoch, &since), 0);
	assert_int_equal(epoch, 1);
	/* It is one segment, by whichever call. */
	assert_int_equal(te_segment_open(user, te_engine_name(owner),
					 RIG_WAIT_MS, &other),
			 0);
	assert_true(other == id && expect(te_engine_name(owner)) == id);
	te_engine_destroy(owner);
}

static void engine_that_comes_later_is_waited_for(void **state)
{
	const struct iovec piece = {local, LEN};
	struct te_request request;
	struct te_engine *owner;
	struct te_notify notify;
	struct te_batch *batch;
	char name[64];

	(void)state;
	name_of_nobody(name);
	request = rig_request(expect(name), TE_NOTIFY, NULL, &piece);
	request.timeout_ms = RIG_WAIT_MS;
	batch = submit(&request, 1);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	owner = rig_engine_named(name);
	assert_int_equal(result(batch, 0), 0);
	assert_int_equal(te_notify_take(owner, &notify), 0);
	assert_int_equal(notify.length, LEN);
	assert_memory_equal(notify.bytes, local, LEN);
	te_notify_free(&notify);
	te_batch_destroy(batch);
	te_engine_destroy(owner);
}

static void warming_up_meets_it(void **state)
{
	struct te_engine *owner = rig_engine(NULL);
	te_segment_id id = expect(te_engine_name(owner));
	uint32_t n_rails;

	(void)state;
	rig_region(owner, memory, LEN, RIG_ANY);
	assert_int_equal(te_segment_warm_up(user, id, RIG_WAIT_MS, &n_rails),
			 0);
	assert_true(n_rails > 0);
	assert_int_equal(rig_move(user, id, TE_READ, memory, local, LEN), 0);
	te_engine_destroy(owner);
}

static void
engine_that_never_comes_ends_requests_at_their_deadline(void **state)
{
	const struct iovec piece = {local, LEN};
	struct te_request requests[3];
	struct te_batch *batch;
	te_segment_id id;
	char name[64];

	(void)state;
	name_of_nobody(name);
	id = expect(name);
	requests[0] = rig_request(id, TE_WRITE, memory, &piece);
	requests[0].timeout_ms = 50;
	requests[1] = rig_request(id, TE_READ, memory, &piece);
	requests[1].flags = TE_FAIL_FAST;
	requests[2] = rig_request(id, TE_WRITE, memory, &piece);
	batch = submit(requests, 3);
	while (te_batch_result(batch, 0, &(struct te_completion){0}) == -EAGAIN)
		(void)te_batch_wait(batch, 10);
	assert_int_equal(te_request_cancel(batch, 2), 0);
	assert_int_equal(result(batch, 0), -ETIMEDOUT);
	assert_int_equal(result(batch, 1), -ECONNREFUSED);
	assert_int_equal(result(batch, 2), -ECANCELED);
	te_batch_destroy(batch);
	te_segment_close(user, id);
	assert_int_equal(te_segment_regions(user, id, NULL, &(size_t){0}),
			 -ENOENT);
}

/* Has a write end before its peer is met, by its deadline or canceled. */
static void end_before_a_notification(bool cancel)
{
	const struct iovec piece = {local, LEN};
	struct te_request requests[2];
	struct te_engine *owner;
	struct te_notify notify;
	struct te_batch *batch;
	char name[64];

	name_of_nobody(name);
	requests[0] = rig_request(expect(name), TE_WRITE, memory, &piece);
	requests[0].timeout_ms = cancel ? RIG_WAIT_MS : 50;
	requests[1] = requests[0];
	requests[1].op = TE_NOTIFY;
	requests[1].remote = 0;
	requests[1].timeout_ms = RIG_WAIT_MS;
	batch = submit(requests, 2);
	if (cancel)
		assert_int_equal(te_request_cancel(batch, 0), 0);
	while (te_batch_result(batch, 0, &(struct te_completion){0}) == -EAGAIN)
		(void)te_batch_wait(batch, 10);
	owner = rig_engine_named(name);
	assert_int_equal(result(batch, 0), cancel ? -ECANCELED : -ETIMEDOUT);
	assert_int_equal(result(batch, 1), -ECANCELED);
	assert_int_equal(te_notify_take(owner, &notify), -EAGAIN);
	te_batch_destroy(batch);
	te_engine_destroy(owner);
}

static void notification_after_a_write_that_timed_out_is_not_sent(void **state)
{
	(void)state;
	end_before_a_notification(false);
}

static void notification_after_a_canceled_write_is_not_sent(void **state)
{
	(void)state;
	end_before_a_notification(true);
}

/* Marks one of them, which only its own turn may touch. */
static void request_that_is_looked_at_leaves_the_others_alone(void **state)
{
	static const char *const driven[] = {"worker_thread", "off", NULL};
	const uint32_t mark = 7;
	const struct iovec piece = {local, LEN};
	struct te_request requests[3];
	const struct tei_peer_work *peer;
	struct te_batch *batch;
	uint64_t fails;
	char name[64];

	(void)state;
	te_engine_destroy(user);
	user = rig_engine(driven);
	name_of_nobody(name);
	requests[0] = rig_request(expect(name), TE_WRITE, memory, &piece);
	requests[0].timeout_ms = 10 * RIG_WAIT_MS;
	requests[1] = requests[2] = requests[0];
	batch = submit(requests, 3);
	peer = batch->requests[0].peer;
	assert_int_equal(peer->life, 0);
	batch->requests[2].life = mark;
	/* Each failed attempt has all of them looked at. */
	for (fails = peer->fails; peer->fails == fails;)
		assert_true(te_engine_drive(user, 10) >= 0);
	assert_int_equal(batch->requests[2].life, mark);
	batch->requests[2].life = 0;
	te_batch_destroy(batch);
}

/* By default; nothing is moved, so nothing of the memory is touched. */
static void what_follows_many_bytes_has_a_later_deadline(void **state)
{
	static const char *const settings[] = {
		"transfer_timeout",
		"50ms",
		"transfer_timeout_per_gib",
		"1h",
		NULL,
	};
	const size_t len = 600 << 20;
	void *large = mmap(NULL, len, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	const struct iovec piece = {large, len};
	struct te_request requests[2];
	struct te_completion c;
	struct te_batch *batch;
	char name[64];

	(void)state;
	assert_true(large != MAP_FAILED);
	te_engine_destroy(user);
	user = rig_engine(settings);
	name_of_nobody(name);
	requests[0] = rig_request(expect(name), TE_WRITE, memory, &piece);
	requests[1] = requests[0];
	batch = submit(requests, 2);
	while (te_batch_result(batch, 0, &c) == -EAGAIN)
		(void)te_batch_wait(batch, 10);
	assert_int_equal(c.error, -ETIMEDOUT);
	assert_int_equal(te_batch_result(batch, 1, &c), -EAGAIN);
	te_batch_destroy(batch);
	munmap(large, len);
}

static void host_that_cannot_be_ends_them_before(void **state)
{
	const struct iovec piece = {local, LEN};
	struct te_request request = rig_request(
		expect("no.such.host.invalid:1"), TE_WRITE, memory, &piece);

	(void)state;
	request.timeout_ms = 10 * RIG_WAIT_MS;
	assert_int_equal(rig_run(user, &request).error, -EHOSTUNREACH);
	assert_int_equal(rig_run(user, &request).error, -EHOSTUNREACH);
}

static void
restart_makes_it_stale_and_the_next_one_is_of_the_new_life(void **state)
{
	struct te_engine *owner = rig_engine(NULL);
	te_segment_id id = expect(te_engine_name(owner)), next;
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "%s", te_engine_name(owner));
	rig_region(owner, memory, LEN, RIG_ANY);
	assert_int_equal(rig_move(user, id, TE_WRITE, memory, local, LEN), 0);
	te_engine_destroy(owner);
	owner = rig_engine_named(name);
	rig_region(owner, memory, LEN, RIG_ANY);
	assert_int_equal(rig_move(user, id, TE_WRITE, memory, local, LEN),
			 -ESTALE);
	next = expect(name);
	assert_int_not_equal(next, id);
	assert_int_equal(rig_move(user, next, TE_WRITE, memory, local, LEN), 0);
	te_engine_destroy(owner);
}

static void own_name_is_the_own_segment(void **state)
{
	te_segment_id id = expect(te_engine_name(user));

	(void)state;
	rig_region(user, memory, LEN, RIG_ANY);
	assert_int_equal(rig_move(user, id, TE_WRITE, memory, local, LEN), 0);
	assert_memory_equal(memory, local, LEN);
	/* That tcp does not lead there is nothing to warn of. */
	assert_int_equal(test_stat(user, "te_rail_unmatched_total", NULL), 0);
}

static void bad_names_are_refused(void **state)
{
	static const char *const names[] = {"", "127.0.0.1", ":1", "host:0",
					    "host:65536"};
	te_segment_id id = 7;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(names); i++)
		if (te_segment_expect(user, names[i], &id) != -EINVAL)
			fail_msg("\"%s\" is a name", names[i]);
	assert_int_equal(te_segment_expect(user, NULL, &id), -EINVAL);
	assert_int_equal(te_segment_expect(user, "127.0.0.1:1", NULL), -EINVAL);
	assert_int_equal(id, 7);
}

static void without_memory_there_is_none(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	te_segment_id id;

	(void)state;
	while (test_faults_next(&f)) {
		int rc = te_segment_expect(user, "127.0.0.1:1", &id);

		if (!rc)
			te_segment_close(user, id);
		else
			assert_int_equal(rc, -ENOMEM);
	}
}

#define WITH_USER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_USER(engine_that_is_there_is_met_by_the_first_request),
		WITH_USER(engine_that_comes_later_is_waited_for),
		WITH_USER(warming_up_meets_it),
		WITH_USER(
			engine_that_never_comes_ends_requests_at_their_deadline),
		WITH_USER(
			notification_after_a_write_that_timed_out_is_not_sent),
		WITH_USER(notification_after_a_canceled_write_is_not_sent),
		WITH_USER(request_that_is_looked_at_leaves_the_others_alone),
		WITH_USER(what_follows_many_bytes_has_a_later_deadline),
		WITH_USER(host_that_cannot_be_ends_them_before),
		WITH_USER(
			restart_makes_it_stale_and_the_next_one_is_of_the_new_life),
		WITH_USER(own_name_is_the_own_segment),
		WITH_USER(bad_names_are_refused),
		WITH_USER(without_memory_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
