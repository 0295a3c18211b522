/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - lines, levels and limits; state machines, which log */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sm.h"
#include "tests/lib/test.h"

static char last[2048];
static int last_level, n_lines;

static void keep(int level, const char *line, void *arg)
{
	(void)arg;
	snprintf(last, sizeof(last), "%s", line);
	last_level = level;
	n_lines++;
	errno = 77; /* which the caller must not see */
}

static int setup(void **state)
{
	(void)state;
	tei_log_set_sink(keep, NULL);
	tei_log_set_level(TEI_LOG_INFO);
	n_lines = 0;
	last[0] = '\0';
	return 0;
}

static void lines_above_the_level_are_dropped(void **state)
{
	(void)state;
	errno = 5;
	LOG_INFO("port %d open", 7);
	assert_string_equal(last, "port 7 open");
	assert_int_equal(last_level, TEI_LOG_INFO);
	LOG_DEBUG("no");
	tei_log(TEI_LOG_TRACE, "no");
	tei_log_line(TEI_LOG_DEBUG, "no");
	assert_int_equal(n_lines, 1);
	assert_int_equal(errno, 5);
}

static void control_bytes_of_strangers_are_masked(void **state)
{
	(void)state;
	LOG_WARN("peer said %s", "a\nb\x1b[31m\x7f");
	assert_string_equal(last, "peer said a?b?[31m?");
	/* C1: a terminal takes each for an escape and what follows it. */
	LOG_WARN("peer said %s", "\x9b"
				 "31m\x85x\xc2\x9b"
				 "2J\xc2\x80\xc2\xa0");
	assert_string_equal(last, "peer said ?31m?x??2J??\xc2\xa0");
}

static void what_is_text_is_shown_as_it_is(void **state)
{
	static const char text[] = "\xc3\xa4 \xe4\xb8\xad\xf0\x9f\x98\x80 %";
	/* As numbers, for compilers that warn of such text. */
	static const unsigned char marks[] = {
		'a',  0xe2, 0x80, 0xa8, 'b',  0xe2, 0x80, 0xae, 'c',
		0xe2, 0x81, 0xa6, 'd',  0xe2, 0x80, 0xa7, 0,
	};

	(void)state;
	LOG_WARN("%s", text);
	assert_string_equal(last, text);
	/* Ends of lines and changes of direction; what is not UTF-8. */
	LOG_WARN("%s", (const char *)marks);
	assert_string_equal(last, "a???b???c???d\xe2\x80\xa7");
	LOG_WARN("\xff\xe4\xb8|\xc0\x80|\xed\xa0\x80|\xc3");
	assert_string_equal(last, "???|??|???|?");
}

static void long_lines_end_in_dots(void **state)
{
	char text[3000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	LOG_WARN("%s", text);
	assert_int_equal(strlen(last), 1023);
	assert_string_equal(last + 1020, "...");
}

static void levels_have_names_and_numbers(void **state)
{
	int level = -5;

	(void)state;
	for (int i = TEI_LOG_ERROR; i <= TEI_LOG_TRACE; i++) {
		char digit[2] = {(char)('0' + i), '\0'};

		assert_int_equal(tei_log_level_parse(digit, &level), 0);
		assert_int_equal(level, i);
		assert_int_equal(
			tei_log_level_parse(tei_log_level_name(i), &level), 0);
		assert_int_equal(level, i);
	}
	assert_int_equal(tei_log_level_parse("5", &level), -EINVAL);
	assert_int_equal(tei_log_level_parse("", &level), -EINVAL);
	assert_int_equal(tei_log_level_parse("loud", &level), -EINVAL);
	assert_string_equal(tei_log_level_name(99), "?");
}

static void limit_drops_lines_and_names_how_many(void **state)
{
	struct tei_log_limit limit = {.per_minute = 3};
	int n = 0;

	(void)state;
	for (int i = 0; i < 10; i++)
		n += tei_log_allowed(&limit);
	assert_int_equal(n, 3);
	assert_int_equal(n_lines, 0);
	limit.window_start_ms = 0; /* as if the minute were over */
	assert_true(tei_log_allowed(&limit));
	assert_string_equal(last, "log: 7 lines like the next were left out");
}

static void the_same_refusal_is_said_a_few_times_a_minute(void **state)
{
	struct tei_clock clock = {.now = 1000000000};

	(void)state;
	tei_clock_set(&clock);
	for (int i = 0; i < 100; i++)
		tei_log_refusal("put", "the key is empty");
	assert_int_equal(n_lines, 6);
	assert_string_equal(last, "put: the key is empty");
	tei_log_refusal("get", "the key is empty");
	assert_int_equal(n_lines, 7);
	assert_string_equal(last, "get: the key is empty");
	clock.now += 61000000000;
	tei_log_refusal("put", "the key is empty");
	assert_int_equal(n_lines, 9); /* and that 94 were left out */
	assert_string_equal(last, "put: the key is empty");
	tei_clock_set(NULL);
}

static void table_says_which_moves_are_allowed(void **state)
{
	static const struct tei_sm_state table[] = {
		{"new", SM_TO(1)},
		{"done", 0},
	};
	uint8_t sm = 0;

	(void)state;
	assert_true(tei_sm_can(sm, table, 1));
	assert_false(tei_sm_can(sm, table, 0));
	tei_sm_move(&sm, table, 1);
	assert_int_equal(sm, 1);
	assert_false(tei_sm_can(sm, table, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lines_above_the_level_are_dropped,
				       setup),
		cmocka_unit_test_setup(what_is_text_is_shown_as_it_is, setup),
		cmocka_unit_test_setup(control_bytes_of_strangers_are_masked,
				       setup),
		cmocka_unit_test_setup(long_lines_end_in_dots, setup),
		cmocka_unit_test_setup(levels_have_names_and_numbers, setup),
		cmocka_unit_test_setup(limit_drops_lines_and_names_how_many,
				       setup),
		cmocka_unit_test_setup(
			the_same_refusal_is_said_a_few_times_a_minute, setup),
		cmocka_unit_test_setup(table_says_which_moves_are_allowed,
				       setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
