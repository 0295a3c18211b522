/* SPDX-License-Identifier: Apache-2.0 */
/* test_inbox.c - notifications as frames by hand, and to oneself */
#include "base/fault.h"
#include "te/backend.h"
#include "te/control/control.h"
#include "tests/unit/te/inbox.h"

static uint8_t me[16] = {42}, other[16] = {43};

static void same_number_is_taken_once(void **state)
{
	int fd = raw_greet(engine, me, NULL), again;

	(void)state;
	tell(fd, 1, 2, 2);
	tell(fd, 1, 2, 2);
	tell(fd, 2, 2, 3);
	again = raw_greet(engine, me, NULL);
	tell(again, 1, 3, 3);
	tell(again, 4, 1, 4);
	tell(fd, 4, 1, 4); /* late, by the first connection */
	close(fd);
	close(again);
	/* The peer has left; what it notified of is still there. */
	fd = raw_greet(engine, me, NULL);
	tell(fd, 1, 4, 4);
	for (uint8_t i = 1; i <= 4; i++)
		expect(i);
	expect_none();
	tell(fd, 5, 1, 5);
	expect(5);
	expect_none();
	close(fd);
}

static void numbers_are_each_ones_own(void **state)
{
	int fd = raw_greet(engine, me, NULL);
	int third = raw_greet(engine, other, NULL);

	(void)state;
	tell(fd, 1, 1, 1);
	tell(third, 1, 2, 2);
	tell(fd, 2, 1, 2);
	expect(1);
	expect(1);
	expect(2);
	expect(2);
	expect_none();
	close(fd);
	close(third);
}

static void full_inbox_says_when_it_has_room(void **state)
{
	int fd = raw_greet(engine, me, NULL);
	size_t len = sizeof(body);

	(void)state;
	tell(fd, 1, 6, 4);
	tell(fd, 5, 2, 4);
	expect(1);
	tell(fd, 5, 2, 5); /* without having been told */
	expect(2);
	expect(3);
	assert_int_equal(raw_receive(fd, body, &len), ROOM);
	tell(fd, 6, 1, 6);
	expect(4);
	expect(5);
	expect(6);
	expect_none();
	close(fd);
}

static void count_losses(void *arg)
{
	*(uint64_t *)arg = engine->control->inbound.n_losses;
}

static bool has_lost_one(void *arg)
{
	assert_true(tei_loop_do(engine->loop, count_losses, arg));
	return *(uint64_t *)arg > 0;
}

/* Many may come and go: who left first is forgotten, and that is told. */
static void guests_that_left_are_remembered_up_to_a_number(void **state)
{
	uint8_t who[16] = {44};
	uint64_t losses = 0;
	int fd;

	(void)state;
	for (uint32_t i = 0; i <= TEI_ABSENT_MAX; i++) {
		memcpy(who + 1, &i, sizeof(i));
		fd = raw_greet(engine, who, NULL);
		tell(fd, 1, 1, 1);
		expect(1);
		close(fd);
	}
	assert_true(test_wait_until(has_lost_one, &losses, RIG_WAIT_MS));
	assert_int_equal(losses, 1);
	fd = raw_greet(engine, who, NULL); /* the last one is known */
	tell(fd, 1, 1, 1);
	expect_none();
	close(fd);
}

static void no_event_where_there_are_no_descriptors(void **state)
{
	(void)state;
	tei_fault_arm(TEI_FAULT_SOCKET, 1);
	assert_int_equal(te_notify_eventfd(engine), -EMFILE);
	tei_fault_disarm_all();
	assert_true(te_notify_eventfd(engine) >= 0);
}

static void ended_epoch_is_refused(void **state)
{
	int fd = raw_greet(engine, me, NULL);
	struct frame f;

	(void)state;
	fill(&f, 1, 1, 8);
	f.m.epoch = 2;
	raw_send_message(fd, NOTIFY, 7, &f.m.base);
	hear_notified(fd, TEI_STATUS_STALE, 0);
	expect_none();
	close(fd);
}

static void refused(const struct frame *f)
{
	uint64_t before = test_stat(engine, "te_control_refused_total", "body");
	int fd = raw_greet(engine, me, NULL);

	raw_send_message(fd, NOTIFY, 7, &f->m.base);
	raw_await_close(fd);
	assert_int_equal(test_stat(engine, "te_control_refused_total", "body"),
			 before + 1);
	expect_none();
}

static void malformed_notifications_are_refused(void **state)
{
	struct frame f;

	(void)state;
	fill(&f, 1, 0, 8);
	refused(&f);
	fill(&f, 1, TEI_NOTIFY_FRAME_MAX + 1, 8);
	refused(&f);
	fill(&f, 0, 1, 8);
	refused(&f);
	fill(&f, 2, 1, 8); /* where is the first one? */
	refused(&f);
	fill(&f, UINT64_MAX, 1, 8);
	refused(&f);
	fill(&f, 1, 1, TE_NOTIFY_MAX + 1);
	refused(&f);
	fill(&f, 1, 2, 8);
	f.message[1].len = 0;
	refused(&f);
}

/* What is taken of it has come whole. */
static void take_whole_ones(void)
{
	struct te_notify message;

	while (!te_notify_take(engine, &message)) {
		assert_int_equal(message.length, 8);
		te_notify_free(&message);
	}
}

static void notification_cut_anywhere_brings_no_half_message(void **state)
{
	uint8_t packed[256], frame[512], who[16] = {9};
	struct frame f;
	size_t len, whole;
	int fd;

	(void)state;
	fill(&f, 1, 3, 8);
	len = te__notify__get_packed_size(&f.m);
	assert_true(len <= sizeof(packed));
	te__notify__pack(&f.m, packed);
	whole = raw_frame(frame, sizeof(frame), (uint32_t)len, NOTIFY, 7,
			  packed, len);
	for (size_t cut = 0; cut < whole; cut++) {
		fd = raw_greet(engine, who, NULL);
		raw_send(fd, frame, cut);
		close(fd);
	}
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t again[512];
		size_t room = sizeof(body);

		fd = raw_greet(engine, who, NULL);
		raw_send(fd, again,
			 raw_frame(again, sizeof(again), (uint32_t)cut, NOTIFY,
				   7, packed, cut));
		(void)raw_receive(fd, body, &room); /* or it is closed */
		close(fd);
		take_whole_ones();
		who[1]++;
	}
	fd = raw_greet(engine, me, NULL);
	tell(fd, 1, 1, 1);
	expect(1);
	expect_none();
	close(fd);
}

static void stranger_without_hello_notifies_nobody(void **state)
{
	int fd = raw_connect(engine);
	struct frame f;

	(void)state;
	fill(&f, 1, 1, 8);
	raw_send_message(fd, NOTIFY, 7, &f.m.base);
	raw_await_close(fd);
	expect_none();
}

static bool all_taken(struct te_batch *batch, uint32_t *n)
{
	struct te_notify message;

	while (!te_notify_take(engine, &message)) {
		assert_int_equal(*(const uint8_t *)message.bytes, ++*n);
		assert_string_equal(message.from, te_engine_name(engine));
		te_notify_free(&message);
	}
	return !te_batch_wait(batch, 1);
}

static bool is_held_up(void *arg)
{
	return test_stat(arg, "te_notifications_held_up_total", NULL) > 0;
}

/* More than the inbox has room for. */
static void engine_notifies_itself(void **state)
{
	te_segment_id id = rig_segment(engine, engine);
	struct te_batch *batch;
	struct te_completion c;
	uint8_t numbers[16];
	uint32_t n = 0;

	(void)state;
	assert_int_equal(te_batch_create(engine, 16, &batch), 0);
	for (uint8_t i = 0; i < 16; i++) {
		struct iovec piece = {&numbers[i], 1};
		struct te_request r = rig_request(id, TE_NOTIFY, NULL, &piece);

		numbers[i] = i + 1;
		assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	}
	assert_true(test_wait_until(is_held_up, engine, RIG_WAIT_MS));
	while (!all_taken(batch, &n))
		;
	all_taken(batch, &n); /* what came just before the end */
	assert_int_equal(n, 16);
	while (te_batch_poll(batch, &c, 1) == 1)
		assert_int_equal(c.error, 0);
	te_batch_destroy(batch);
	assert_int_equal(
		test_stat(engine, "te_notifications_total", "received"), 16);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* It has room, though not for the next one: nothing is tried in vain. */
static void long_message_to_oneself_waits_quietly(void **state)
{
	static const size_t lens[] = {1000, 1000, TE_NOTIFY_MAX};
	te_segment_id id = rig_segment(engine, engine);
	struct te_batch *batch[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct iovec piece = {bytes, lens[i]};
		struct te_request r = rig_request(id, TE_NOTIFY, NULL, &piece);

		assert_int_equal(te_batch_create(engine, 1, &batch[i]), 0);
		assert_int_equal(te_batch_submit(batch[i], &r, 1), 0);
		assert_int_equal(
			te_batch_wait(batch[i], i < 2 ? RIG_WAIT_MS : 20),
			i < 2 ? 0 : -ETIMEDOUT);
	}
	take_one();
	assert_true(tei_loop_do(engine->loop, nothing, NULL));
	assert_int_equal(te_batch_wait(batch[2], 20), -ETIMEDOUT);
	take_one();
	assert_int_equal(te_batch_wait(batch[2], RIG_WAIT_MS), 0);
	take_one();
	for (int i = 0; i < 3; i++)
		te_batch_destroy(batch[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINE(same_number_is_taken_once),
		WITH_ENGINE(numbers_are_each_ones_own),
		WITH_ENGINE(full_inbox_says_when_it_has_room),
		WITH_ENGINE(guests_that_left_are_remembered_up_to_a_number),
		WITH_ENGINE(no_event_where_there_are_no_descriptors),
		WITH_ENGINE(ended_epoch_is_refused),
		WITH_ENGINE(malformed_notifications_are_refused),
		WITH_ENGINE(notification_cut_anywhere_brings_no_half_message),
		WITH_ENGINE(stranger_without_hello_notifies_nobody),
		WITH_ENGINE(engine_notifies_itself),
		WITH_ENGINE(long_message_to_oneself_waits_quietly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
