/* SPDX-License-Identifier: Apache-2.0 */
/* test_pairs.c - te-doctor measures between peers, those that let it */
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/engines.h"
#include "cmd/doctor/order.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"

#define PATIENCE_MS 120000
#define LISTENERS   3 /* the last one without --pairs */
#define LEN         ((size_t)1 << 20)

static struct test_process *listeners[LISTENERS];
static char names[LISTENERS][128];

static void listen_here(int i, const char *const args[])
{
	const char *line;

	listeners[i] = test_process_start("te-doctor", args);
	line = test_process_line(listeners[i], "listens as ", PATIENCE_MS);
	assert_non_null(line);
	assert_int_equal(sscanf(strstr(line, " as "), " as %127s", names[i]),
			 1);
}

static int begin(void **state)
{
	static const char *const open[] = {"listen", "127.0.0.1", "--pairs",
					   NULL};
	static const char *const closed[] = {"listen", "127.0.0.1", NULL};

	(void)state;
	listen_here(0, open);
	listen_here(1, open);
	listen_here(2, closed);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < LISTENERS; i++) {
		test_process_signal(listeners[i], SIGTERM);
		assert_int_equal(test_process_wait(listeners[i], PATIENCE_MS),
				 0);
		test_process_end(listeners[i]);
	}
	return 0;
}

/* What te-doctor prints, to be freed; it ends with @code. */
static char *run(const char *const args[], int code)
{
	return test_process_run("te-doctor", args, code, PATIENCE_MS);
}

static uint64_t number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void each_backend_is_measured_both_ways(void **state)
{
	char *text = run((const char *const[]){"pairs", names[0], names[1],
					       "--time=20ms", "--json",
					       "--backends=tcp,shm", NULL},
			 0);
	json_t *all = json_loads(text, 0, NULL), *pairs, *one;
	size_t i;

	(void)state;
	pairs = json_object_get(all, "pairs");
	assert_int_equal(json_array_size(pairs), 4);
	json_array_foreach(pairs, i, one)
	{
		const char *by = i < 2 ? "tcp" : "shm";

		assert_string_equal(
			json_string_value(json_object_get(one, "backend")), by);
		assert_string_equal(
			json_string_value(json_object_get(one, "failure")), "");
		assert_true(number(one, "read_bps") > 0);
		assert_true(number(one, "write_bps") > 0);
		assert_true(json_array_size(json_object_get(one, "rails")) > 0);
	}
	json_decref(all);
	free(text);
}

static void text_shows_the_matrix_and_the_findings(void **state)
{
	char *text = run((const char *const[]){"pairs", names[0], names[1],
					       "--time=20ms", NULL},
			 0);

	(void)state;
	test_contains(text, "Gbit/s that the row writes to the column");
	test_contains(text, names[1]);
	test_contains(text, "pairs.reach: all 2 pairs");
	free(text);
}

static void who_does_not_let_it_fails_alone(void **state)
{
	char *text = run((const char *const[]){"pairs", names[0], names[2],
					       "--time=20ms", NULL},
			 1);

	(void)state;
	test_contains(text, "it listens without --pairs");
	test_contains(text, "1 failure, ");
	free(text);
}

static void who_is_not_there_fails_alone(void **state)
{
	char *text = run((const char *const[]){"pairs", names[0], "127.0.0.1:1",
					       "--time=20ms", NULL},
			 1);

	(void)state;
	test_contains(text, "fail     pairs.reach 127.0.0.1:1 > ");
	test_contains(text, " > 127.0.0.1:1: ");
	test_contains(text, "2 failures, ");
	free(text);
}

static void a_backend_that_is_not_there_fails(void **state)
{
	char *text = run((const char *const[]){"pairs", names[0], names[1],
					       "--backends=nonsense",
					       "--time=20ms", NULL},
			 1);

	(void)state;
	test_contains(text, "nonsense");
	free(text);
}

static struct tei_answer ask(struct te_engine *engine,
			     const struct tei_order *order)
{
	struct pollfd fd = {.fd = te_notify_eventfd(engine), .events = POLLIN};
	char *text = tei_order_encode(order);
	struct tei_answer answer;
	struct te_notify notify;
	te_segment_id segment;

	assert_non_null(text);
	assert_int_equal(
		te_segment_open(engine, names[0], PATIENCE_MS, &segment), 0);
	assert_int_equal(tei_engine_tell(engine, segment, "{\"odd\":1}"), 0);
	assert_int_equal(tei_engine_tell(engine, segment, text), 0);
	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	assert_int_equal(te_notify_take(engine, &notify), 0);
	assert_true(tei_answer_decode(notify.bytes, notify.length, &answer));
	te_notify_free(&notify);
	te_segment_close(engine, segment);
	free(text);
	return answer;
}

/* An engine that is no te-doctor is read, and never written to. */
static void memory_of_others_is_not_written_to(void **state)
{
	const struct tei_engine_wish wish = {.settings = NULL};
	struct tei_order order = {.id = 5, .time_ms = 20};
	struct te_region region = {.length = LEN,
				   .access = TE_ACCESS_REMOTE_READ |
					     TE_ACCESS_REMOTE_WRITE};
	uint8_t *memory = malloc(LEN), *copy = malloc(LEN);
	struct te_engine *engine;
	struct tei_answer answer;
	te_region_id id;
	char error[256];

	(void)state;
	assert_true(memory && copy);
	memset(memory, 7, LEN);
	memset(copy, 7, LEN);
	region.addr = memory;
	assert_int_equal(tei_engine_open(&wish, NULL, &engine, error), 0);
	assert_int_equal(te_region_add(engine, &region, &id), 0);
	(void)snprintf(order.to, sizeof(order.to), "%s",
		       te_engine_name(engine));
	answer = ask(engine, &order);
	assert_string_equal(answer.failure, "");
	assert_int_equal(answer.id, 5);
	assert_true(answer.read_bps > 0);
	assert_int_equal(answer.write_bps, 0);
	te_engine_destroy(engine);
	assert_memory_equal(memory, copy, LEN);
	free(memory);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_backend_is_measured_both_ways),
		cmocka_unit_test(text_shows_the_matrix_and_the_findings),
		cmocka_unit_test(who_does_not_let_it_fails_alone),
		cmocka_unit_test(who_is_not_there_fails_alone),
		cmocka_unit_test(a_backend_that_is_not_there_fails),
		cmocka_unit_test(memory_of_others_is_not_written_to),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
