/* SPDX-License-Identifier: Apache-2.0 */
/* test_percentiles.c - a file of histograms says what was counted */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/lib/percentiles.h"

static struct tei_histogram h;
static char text[8192];

static void print(const char *title)
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	tei_percentiles_print(&h, title, out);
	fclose(out);
}

static void a_line_is_a_bucket_and_the_last_is_the_largest_value(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	tei_histogram_add(&h, 50);
	tei_histogram_add(&h, 50);
	tei_histogram_add(&h, 100);
	tei_histogram_add(&h, 1000000);
	print("put of 4 KiB");
	assert_string_equal(
		text,
		"# put of 4 KiB\n"
		"       Value     Percentile TotalCount 1/(1-Percentile)\n"
		"\n"
		"          50 0.500000000000          2           2.00\n"
		"         100 0.750000000000          3           4.00\n"
		"     1000000 1.000000000000          4\n"
		"#[Mean    =   250050.000, StdDeviation   =   432983.835]\n"
		"#[Max     =  1000000.000, Total count    =            4]\n"
		"#[Buckets =           59, SubBuckets     =           64]\n");
}

static void an_empty_histogram_has_no_lines(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	print("nothing");
	assert_non_null(
		strstr(text, "Percentile)\n\n#[Mean    =        0.000"));
}

/* Read as the plotters do: four columns that are not a comment. */
static void values_rise_and_counts_sum_up(void **state)
{
	uint64_t value, seen, last = 0, before = 0, lines = 0;
	double share;

	(void)state;
	memset(&h, 0, sizeof(h));
	for (uint64_t v = 1; v < 100000; v = v * 5 / 4 + 1)
		tei_histogram_add(&h, v);
	print("rising");
	for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n")) {
		if (*at == '#' || sscanf(at, "%" SCNu64 " %lf %" SCNu64, &value,
					 &share, &seen) != 3)
			continue;
		assert_true(value > last && seen > before);
		last = value;
		before = seen;
		lines++;
	}
	assert_int_equal(before, h.n);
	assert_int_equal(last, h.max);
	assert_true(lines > 10);
}

static void a_file_has_a_section_for_each_histogram(void **state)
{
	char path[] = "/tmp/test_percentiles_XXXXXX";
	struct tei_percentiles p;
	int fd = mkstemp(path);
	ssize_t n;

	(void)state;
	assert_true(fd >= 0);
	memset(&h, 0, sizeof(h));
	tei_histogram_add(&h, 7);
	assert_int_equal(tei_percentiles_open(&p, "test", path), 0);
	tei_percentiles_add(&p, "one", &h);
	tei_percentiles_add(&p, "two", &h);
	assert_int_equal(tei_percentiles_close(&p), 0);
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = 0;
	assert_non_null(strstr(text, "# one\n"));
	assert_non_null(strstr(text, "# two\n"));
	close(fd);
	unlink(path);
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
	struct tei_percentiles p;

	(void)state;
	assert_int_equal(tei_percentiles_open(&p, "test", "/nowhere/file"),
			 -ENOENT);
	tei_percentiles_add(&p, "nothing", &h);
	assert_int_equal(tei_percentiles_close(&p), 0);
	assert_int_equal(tei_percentiles_open(&p, "test", "/dev/full"), 0);
	tei_percentiles_add(&p, "nothing", &h);
	assert_int_equal(tei_percentiles_close(&p), -EIO);
}

static void without_a_path_nothing_is_written(void **state)
{
	struct tei_percentiles p;

	(void)state;
	assert_int_equal(tei_percentiles_open(&p, "test", NULL), 0);
	tei_percentiles_add(&p, "nothing", &h);
	assert_int_equal(tei_percentiles_close(&p), 0);
}

static void without_a_path_there_is_no_file(void **state)
{
	static const char *const paths[] = {NULL, ""};
	struct tei_percentiles p;

	(void)state;
	memset(&h, 0, sizeof(h));
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(tei_percentiles_open(&p, "test", paths[i]), 0);
		tei_percentiles_add(&p, "nothing", &h);
		assert_int_equal(tei_percentiles_close(&p), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_path_there_is_no_file),
		cmocka_unit_test(
			a_line_is_a_bucket_and_the_last_is_the_largest_value),
		cmocka_unit_test(an_empty_histogram_has_no_lines),
		cmocka_unit_test(values_rise_and_counts_sum_up),
		cmocka_unit_test(a_file_has_a_section_for_each_histogram),
		cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
		cmocka_unit_test(without_a_path_nothing_is_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
