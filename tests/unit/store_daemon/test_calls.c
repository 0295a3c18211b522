/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_calls.c - what dummies ask for, and what they may not
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/unit/store_daemon/play.h"

#define PUT   AGENT__AGENT_TYPE__AGENT_PUT
#define GET   AGENT__AGENT_TYPE__AGENT_GET
#define EXIST AGENT__AGENT_TYPE__AGENT_EXIST

static void values_are_where_the_dummy_says(void **state)
{
	struct play_dummy d;
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	play_attach(&play, &d);
	memset(d.memory + 100, 2, 50);
	play_ask_piece(&d, PUT, d.session.region, 99, 100, 0);
	assert_int_equal(play_result(&d), 0);
	assert_int_equal(atomic_load(&play_store.sum), 100);
	play_ask_piece(&d, GET, d.session.region, PLAY_SIZE - 1, 1, 0);
	assert_int_equal(play_result(&d), 1);
	assert_int_equal(d.memory[PLAY_SIZE - 1], 'g');
	assert_int_equal(d.memory[PLAY_SIZE - 2], 0);
	play_leave(&d);
	play_stop(&play);
}

static void places_outside_the_memory_are_refused(void **state)
{
	static const uint64_t bad[][2] = {
		{PLAY_SIZE, 1},     {0, PLAY_SIZE + 1},       {1, PLAY_SIZE},
		{UINT64_MAX, 1},    {UINT64_MAX, UINT64_MAX}, {1, UINT64_MAX},
		{PLAY_SIZE + 1, 0}, {1ull << 63, 1ull << 63},
	};
	struct play_dummy d, other;
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	play_attach(&play, &d);
	play_attach(&play, &other);
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		play_ask_piece(&d, i % 2 ? PUT : GET, d.session.region,
			       bad[i][0], bad[i][1], 0);
		assert_int_equal(play_result(&d), -600);
	}
	/* Memory of others, and none. */
	play_ask_piece(&d, PUT, other.session.region, 0, 1, 0);
	assert_int_equal(play_result(&d), -600);
	play_ask_piece(&d, PUT, 0, 0, 1, 0);
	assert_int_equal(play_result(&d), -600);
	assert_int_equal(atomic_load(&play_store.n_calls), 0);
	play_leave(&d);
	play_leave(&other);
	play_stop(&play);
}

static int64_t refused(struct play_dummy *d, uint16_t type, Agent__Batch *msg)
{
	struct tei_arena arena;
	Agent__Results *results;
	int64_t code;

	play_ask(d, type, msg);
	results = play_answer(d, &arena);
	assert_int_equal(results->n_result, 0);
	code = results->code;
	tei_arena_fini(&arena);
	return code;
}

static void columns_that_do_not_add_up_are_refused(void **state)
{
	uint32_t lens[3] = {1, 1, 1}, pieces[3] = {1, 1, 1}, keys[2] = {0, 1};
	uint64_t offsets[3] = {0, 8, 16}, lengths[3] = {8, 8, 8};
	Agent__Batch msg = AGENT__BATCH__INIT;
	struct play_dummy d;
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	play_attach(&play, &d);
	msg.region = d.session.region;
	msg.keys.data = (uint8_t *)(uintptr_t) "abc";
	msg.keys.len = 3;
	msg.key_lens = lens;
	msg.n_key_lens = 2;
	assert_int_equal(refused(&d, EXIST, &msg), -600); /* bytes left */
	msg.n_key_lens = 3;
	lens[2] = 2;
	assert_int_equal(refused(&d, EXIST, &msg), -600); /* too few */
	lens[2] = UINT32_MAX;
	assert_int_equal(refused(&d, EXIST, &msg), -600);
	lens[2] = 1;
	msg.offset = offsets;
	msg.length = lengths;
	msg.n_pieces = pieces;
	msg.n_offset = msg.n_length = 2;
	assert_int_equal(refused(&d, PUT, &msg), -600);
	msg.n_offset = 3;
	assert_int_equal(refused(&d, PUT, &msg), -600);
	msg.n_length = msg.n_n_pieces = 3;
	pieces[1] = 0;
	assert_int_equal(refused(&d, PUT, &msg), -600);
	pieces[1] = UINT32_MAX;
	assert_int_equal(refused(&d, PUT, &msg), -600);
	msg.range_key = keys;
	msg.n_range_key = 2;
	assert_int_equal(refused(&d, AGENT__AGENT_TYPE__AGENT_RANGES, &msg),
			 -600);
	assert_int_equal(atomic_load(&play_store.n_calls), 0);
	play_leave(&d);
	play_stop(&play);
}

static void more_bytes_of_keys_than_a_batch_may_have_are_refused(void **state)
{
	static uint8_t keys[TES_AGENT_KEY_BYTES_MAX + 1];
	static uint32_t lens[2] = {TES_AGENT_KEY_BYTES_MAX, 1};
	Agent__Batch msg = AGENT__BATCH__INIT;
	struct play_dummy d;
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	play_attach(&play, &d);
	msg.keys.data = keys;
	msg.keys.len = sizeof(keys);
	msg.key_lens = lens;
	msg.n_key_lens = 2;
	assert_int_equal(refused(&d, EXIST, &msg), -600);
	assert_int_equal(atomic_load(&play_store.n_calls), 0);
	play_leave(&d);
	play_stop(&play);
}

static void bytes_that_are_no_message_are_refused(void **state)
{
	uint8_t frame[TEI_FRAME_HEADER_LEN + 4] = {
		4, 0, 0, 0, EXIST, 0, 0,    0,    1,    0,
		0, 0, 0, 0, 0,     0, 0xff, 0xff, 0xff, 0xff};
	struct play_dummy d;
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	play_attach(&play, &d);
	play_send(d.socket, frame, sizeof(frame), NULL, 0);
	d.last_id = 1;
	assert_int_equal(play_result(&d), -600);
	play_leave(&d);
	play_stop(&play);
}

static void frames_that_are_no_calls_end_the_connection(void **state)
{
	static const uint8_t bad[][TEI_FRAME_HEADER_LEN] = {
		{0, 0, 0, 0, 63, 0, 0, 0, 1},                /* no such type */
		{0, 0, 0, 0, EXIST, 0, 0, 0, 0},             /* without id */
		{0xff, 0xff, 0xff, 0xff, EXIST, 0, 0, 0, 1}, /* too long */
		{0, 0, 0, 0, EXIST, 0, 0, 0x80, 1},          /* flags */
	};
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		struct play_dummy d;

		play_attach(&play, &d);
		play_send(d.socket, bad[i], sizeof(bad[i]), NULL, 0);
		assert_true(play_ends(d.socket));
		play_leave(&d);
	}
	play_await(&play_store.n_registered, 0);
	play_stop(&play);
}

static void a_connection_has_few_calls_at_a_time(void **state)
{
	struct play_dummy d;
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	play_attach(&play, &d);
	atomic_store(&play_store.shut, true);
	play_ask_piece(&d, PUT, d.session.region, 0, 1, 60000);
	play_await(&play_store.n_waiting, 1);
	for (int i = 0; i < 4; i++)
		play_ask_piece(&d, PUT, d.session.region, 0, 1, 60000);
	assert_true(play_ends(d.socket));
	/* The one that runs still has its memory. */
	assert_int_equal(atomic_load(&play_store.n_registered), 1);
	atomic_store(&play_store.shut, false);
	play_await(&play_store.n_registered, 0);
	play_leave(&d);
	play_stop(&play);
}

static void memory_outlives_its_dummy_until_the_call_is_over(void **state)
{
	struct play_dummy d;
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	for (int i = 0; i < 2; i++) {
		play_attach(&play, &d);
		memset(d.memory, 3, PLAY_SIZE);
		atomic_store(&play_store.sum, 0);
		atomic_store(&play_store.shut, true);
		play_ask_piece(&d, i ? GET : PUT, d.session.region, 0,
			       PLAY_SIZE, 60000);
		play_await(&play_store.n_waiting, 1);
		play_leave(&d);
		/* Another's call goes through: the agent knows of the end. */
		play_attach(&play, &d);
		play_ask_piece(&d, EXIST, 0, 0, 0, 60000);
		assert_int_equal(play_result(&d), 1);
		assert_int_equal(atomic_load(&play_store.n_registered), 2);
		play_leave(&d);
		atomic_store(&play_store.shut, false);
		play_await(&play_store.n_registered, 0);
		if (!i)
			assert_int_equal(atomic_load(&play_store.sum),
					 3 * PLAY_SIZE);
	}
	play_stop(&play);
}

static void one_dummy_does_not_keep_others_waiting(void **state)
{
	struct play_dummy slow, quick;
	struct play play;
	int more[3];

	(void)state;
	play_start(&play, 3, 0);
	play_attach(&play, &slow);
	play_attach(&play, &quick);
	atomic_store(&play_store.shut, true);
	for (int i = 0; i < 4; i++)
		play_ask_piece(&slow, PUT, slow.session.region, 0, 1, 60000);
	for (size_t i = 0; i < TEST_COUNT(more); i++) {
		struct play_dummy again = slow;

		more[i] = again.socket = play_join(&play, &slow);
		for (int k = 0; k < 4; k++)
			play_ask_piece(&again, PUT, slow.session.region, 0, 1,
				       60000);
	}
	play_await(&play_store.n_waiting, 2);
	for (int i = 0; i < 10; i++) {
		play_ask_piece(&quick, EXIST, 0, 0, 0, 60000);
		assert_int_equal(play_result(&quick), 1);
	}
	assert_int_equal(atomic_load(&play_store.n_waiting), 2);
	atomic_store(&play_store.shut, false);
	for (size_t i = 0; i < TEST_COUNT(more); i++)
		(void)close(more[i]);
	play_leave(&slow);
	play_leave(&quick);
	play_stop(&play);
}

static bool is_later(void *arg)
{
	return tei_now_ms() > *(uint64_t *)arg;
}

static void a_call_that_waited_too_long_is_not_begun(void **state)
{
	struct play_dummy slow, late;
	struct play play;
	uint64_t then;

	(void)state;
	play_start(&play, 1, 0);
	play_attach(&play, &slow);
	play_attach(&play, &late);
	atomic_store(&play_store.shut, true);
	play_ask_piece(&slow, PUT, slow.session.region, 0, 1, 60000);
	play_await(&play_store.n_waiting, 1);
	play_ask_piece(&late, PUT, late.session.region, 0, 1, 1);
	/* A whole greeting later its frame has been read. */
	(void)close(play_join(&play, &late));
	(void)close(play_join(&play, &late));
	then = tei_now_ms() + 2;
	assert_true(test_wait_until(is_later, &then, PLAY_MS));
	atomic_store(&play_store.shut, false);
	assert_int_equal(play_result(&slow), 0);
	assert_int_equal(play_result(&late), -901);
	assert_int_equal(atomic_load(&play_store.n_calls), 1);
	play_leave(&slow);
	play_leave(&late);
	play_stop(&play);
}

static void a_pattern_with_a_0_removes_nothing(void **state)
{
	static const uint8_t frame[] = {
		6, 0,  0, 0,    AGENT__AGENT_TYPE__AGENT_REMOVE_ALL,
		0, 0,  0, 1,    0,
		0, 0,  0, 0,    0,
		0, 8,  1, 0x12, 2,
		0, 'x'};
	struct play_dummy d;
	struct play play;
	struct tei_arena arena;
	Agent__Results *answer;

	(void)state;
	play_start(&play, 1, 0);
	play_attach(&play, &d);
	d.last_id = 1;
	play_send(d.socket, frame, sizeof(frame), NULL, 0);
	/* Codes have the same number in every answer. */
	answer = play_answer(&d, &arena);
	assert_int_equal(answer->code, TE_STORE_INVALID_PARAMS);
	tei_arena_fini(&arena);
	play_leave(&d);
	play_stop(&play);
}

#define N_WALKERS 3

static void removes_of_all_wait_for_each_other_and_for_nobody_else(void **state)
{
	struct play_dummy walkers[N_WALKERS], other;
	struct play play;

	(void)state;
	play_start(&play, 4, 0);
	play_attach(&play, &other);
	atomic_store(&play_store.shut, true);
	for (size_t i = 0; i < N_WALKERS; i++) {
		play_attach(&play, &walkers[i]);
		play_ask(&walkers[i], AGENT__AGENT_TYPE__AGENT_REMOVE_ALL,
			 NULL);
	}
	play_await(&play_store.n_waiting, 1);
	play_ask_piece(&other, EXIST, 0, 0, 0, 60000);
	assert_int_equal(play_result(&other), 1);
	assert_int_equal(atomic_load(&play_store.n_waiting), 1);
	atomic_store(&play_store.shut, false);
	for (size_t i = 0; i < N_WALKERS; i++) {
		struct tei_arena arena;

		assert_int_equal(play_answer(&walkers[i], &arena)->code, 0);
		tei_arena_fini(&arena);
		play_leave(&walkers[i]);
	}
	play_leave(&other);
	play_stop(&play);
}

static void stopping_is_bounded(void **state)
{
	struct play_dummy d;
	struct play play;

	(void)state;
	play_start(&play, 2, 0);
	play_attach(&play, &d);
	atomic_store(&play_store.shut, true);
	play_ask_piece(&d, PUT, d.session.region, 0, 1, 60000);
	play_await(&play_store.n_waiting, 1);
	assert_false(tes_agent_stop(play.agent, 1));
	atomic_store(&play_store.shut, false);
	play_leave(&d);
	play_stop(&play);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_where_the_dummy_says),
		cmocka_unit_test(places_outside_the_memory_are_refused),
		cmocka_unit_test(columns_that_do_not_add_up_are_refused),
		cmocka_unit_test(
			more_bytes_of_keys_than_a_batch_may_have_are_refused),
		cmocka_unit_test(bytes_that_are_no_message_are_refused),
		cmocka_unit_test(frames_that_are_no_calls_end_the_connection),
		cmocka_unit_test(a_connection_has_few_calls_at_a_time),
		cmocka_unit_test(
			memory_outlives_its_dummy_until_the_call_is_over),
		cmocka_unit_test(one_dummy_does_not_keep_others_waiting),
		cmocka_unit_test(a_call_that_waited_too_long_is_not_begun),
		cmocka_unit_test(a_pattern_with_a_0_removes_nothing),
		cmocka_unit_test(
			removes_of_all_wait_for_each_other_and_for_nobody_else),
		cmocka_unit_test(stopping_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
