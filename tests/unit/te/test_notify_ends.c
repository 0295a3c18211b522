/* SPDX-License-Identifier: Apache-2.0 */
/* test_notify_ends.c - messages once, whatever ends: connections, lives, all */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/faults.h"
#include "tests/unit/te/messages.h"

static void messages_come_once_over_many_connections(void **state)
{
	enum { N = 3000 };
	struct te_batch *batch = make_batch(N);
	struct taken t = {.want = N};
	static uint32_t n[N];
	uint32_t sent = 0;

	(void)state;
	for (uint32_t i = 0; i < N; i++)
		n[i] = i;
	for (uint32_t round = 0; t.n < N; round++) {
		for (uint32_t i = 0; i < 20 && sent < N; i++)
			submit_number(batch, &n[sent++], 60000);
		/* The connection ends somewhere in between. */
		atomic_store(&fake.down_rail, round % 2 ? -1 : 0);
		fake_wake();
		takes(&t);
		if (sent == N)
			te_batch_wait(batch, 1);
	}
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(t.n_wrong, 0);
	assert_int_equal(t.n, N);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(error_of(batch, i), 0);
	assert_true(test_stat(user, "te_control_rerouted_total", NULL) > 10);
	te_batch_destroy(batch);
}

static bool eight_are_taken(void *batch)
{
	struct te_completion c;

	return !te_batch_result(batch, 7, &c);
}

static void restarted_peer_gets_no_message_of_the_old_one(void **state)
{
	struct te_batch *batch = make_batch(9);
	char name[64];
	uint32_t n[9];
	struct te_config *config;
	struct te_notify message;

	(void)state;
	for (uint32_t i = 0; i < 9; i++) {
		n[i] = i;
		submit_number(batch, &n[i], 0);
	}
	assert_true(test_wait_until(eight_are_taken, batch, RIG_WAIT_MS));
	assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
	snprintf(name, sizeof(name), "%s", te_engine_name(owner));
	te_engine_destroy(owner);
	owner = NULL;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_engine_create(config, name, &owner), 0);
	te_config_destroy(config);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 0), 0);
	assert_int_equal(error_of(batch, 8), -ESTALE);
	assert_int_equal(te_notify_take(owner, &message), -EAGAIN);
	te_batch_destroy(batch);
}

static void message_to_a_dead_peer_ends_at_its_deadline(void **state)
{
	struct te_batch *batch = make_batch(2);
	uint32_t zero = 0;

	(void)state;
	te_engine_destroy(owner);
	owner = NULL;
	submit_number(batch, &zero, 200);
	submit_number(batch, &zero, 60000);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 0), -ETIMEDOUT);
	assert_int_equal(error_of(batch, 1), -ECANCELED);
	te_batch_destroy(batch);
}

static void message_in_haste_ends_when_its_peer_is_gone(void **state)
{
	struct iovec piece = {local, 8};
	struct te_request r = rig_request(segment, TE_NOTIFY, NULL, &piece);
	struct te_completion c;

	(void)state;
	te_engine_destroy(owner);
	owner = NULL;
	r.flags = TE_FAIL_FAST;
	c = rig_run(user, &r);
	assert_true(c.error == -ECONNREFUSED || c.error == -ECONNRESET);
}

static void message_to_a_dead_peer_can_be_cancelled(void **state)
{
	struct te_batch *batch = make_batch(1);
	uint32_t zero = 0;

	(void)state;
	te_engine_destroy(owner);
	owner = NULL;
	submit_number(batch, &zero, 60000);
	assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
	assert_int_equal(te_batch_cancel(batch), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 0), -ECANCELED);
	te_batch_destroy(batch);
}

static void ended_epoch_ends_messages(void **state)
{
	struct te_batch *batch = make_batch(2);
	uint8_t who[TE_INCARNATION_LEN];
	uint64_t epoch, since;
	uint32_t n[2] = {0, 1};
	struct iovec piece = {&n[0], sizeof(n[0])};
	struct te_request r = rig_request(segment, TE_NOTIFY, NULL, &piece);

	(void)state;
	assert_int_equal(te_segment_epoch(user, segment, &epoch, &since), 0);
	te_engine_incarnation(user, who);
	assert_int_equal(te_peer_revoke(owner, who, 0), 0);
	r.epoch = epoch;
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 0), -ESTALE);
	assert_int_equal(te_batch_reset(batch), 0);
	while (epoch != 2)
		assert_int_equal(
			te_segment_epoch(user, segment, &epoch, &since), 0);
	submit_number(batch, &n[0], 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 0), 0);
	expect_numbers(1);
	te_batch_destroy(batch);
}

static void waiting_messages_are_cancelled_however_many(void **state)
{
	struct te_batch *batch = make_batch(65536);
	uint32_t zero = 0;

	(void)state;
	atomic_store(&fake.stall, true);
	submit(batch, TE_WRITE, memory, local, LEN, 0);
	for (uint32_t i = 1; i < 65536; i++)
		submit_number(batch, &zero, 0);
	assert_int_equal(te_request_cancel(batch, 0), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < 65536; i++)
		assert_int_equal(error_of(batch, i), -ECANCELED);
	te_batch_destroy(batch);
}

static void engine_ends_with_messages_on_their_way(void **state)
{
	struct te_batch *batch = make_batch(64), *stuck = make_batch(64);
	static uint32_t zero; /* read until the engine ends, after this */

	(void)state;
	atomic_store(&fake.stall, true);
	submit(stuck, TE_WRITE, memory, local, LEN, 0);
	for (uint32_t i = 0; i < 63; i++) {
		submit_number(batch, &zero, 0);
		submit_number(stuck, &zero, 0);
	}
}

static void event_is_readable_while_there_are_messages(void **state)
{
	struct pollfd fd = {.events = POLLIN};
	struct te_batch *batch = make_batch(3);
	uint32_t n[3] = {0, 1, 2};

	(void)state;
	submit_number(batch, &n[0], 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	fd.fd = te_notify_eventfd(owner);
	assert_true(fd.fd >= 0);
	assert_int_equal(poll(&fd, 1, 0), 1);
	expect_numbers(1);
	assert_int_equal(poll(&fd, 1, 0), 0);
	submit_number(batch, &n[0], 0);
	assert_int_equal(poll(&fd, 1, RIG_WAIT_MS), 1);
	expect_numbers(1);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	te_batch_destroy(batch);
}

static void malformed_messages_start_nothing(void **state)
{
	struct te_batch *batch = make_batch(1);
	struct iovec piece = {local, 8};
	struct te_request right = rig_request(segment, TE_NOTIFY, NULL, &piece);
	struct te_request r = right;

	(void)state;
	r.remote = 1;
	assert_int_equal(te_batch_submit(batch, &r, 1), -EINVAL);
	r = right;
	r.flags = TE_CRC;
	assert_int_equal(te_batch_submit(batch, &r, 1), -EINVAL);
	r.flags = TE_FAIL_SILENT;
	assert_int_equal(te_batch_submit(batch, &r, 1), -EINVAL);
	piece.iov_len = 0;
	assert_int_equal(te_batch_submit(batch, &right, 1), -EINVAL);
	piece.iov_len = TE_NOTIFY_MAX + 1;
	assert_int_equal(te_batch_submit(batch, &right, 1), -EINVAL);
	te_batch_destroy(batch);
}

static void lack_of_memory_loses_no_message_silently(void **state)
{
	uint32_t zero = 0;

	(void)state;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		struct te_batch *batch;
		struct taken t = {0};

		if (te_batch_create(user, 1, &batch))
			continue;
		submit_number(batch, &zero, 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		takes(&t);
		assert_int_equal(t.n, error_of(batch, 0) ? 0 : 1);
		te_batch_destroy(batch);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(messages_come_once_over_many_connections),
		WITH_ENGINES(restarted_peer_gets_no_message_of_the_old_one),
		WITH_ENGINES(message_to_a_dead_peer_ends_at_its_deadline),
		WITH_ENGINES(message_in_haste_ends_when_its_peer_is_gone),
		WITH_ENGINES(message_to_a_dead_peer_can_be_cancelled),
		WITH_ENGINES(ended_epoch_ends_messages),
		WITH_ENGINES(waiting_messages_are_cancelled_however_many),
		WITH_ENGINES(engine_ends_with_messages_on_their_way),
		WITH_ENGINES(event_is_readable_while_there_are_messages),
		WITH_ENGINES(malformed_messages_start_nothing),
		WITH_ENGINES(lack_of_memory_loses_no_message_silently),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
