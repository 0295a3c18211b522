/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_plot.c - a plot draws what it was given, and only numbers
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/lib/plot.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

static char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
static struct tei_plot plots[2];

static int start(void **state)
{
	(void)state;
	test_tmpdir_create(dir);
	snprintf(path, sizeof(path), "%s/plot.svg", dir);
	memset(plots, 0, sizeof(plots));
	return 0;
}

static int stop(void **state)
{
	(void)state;
	test_tmpdir_remove(dir);
	return 0;
}

static char *drawn(size_t n)
{
	char *text = calloc(1, 1 << 20);
	FILE *f;

	assert_int_equal(tei_plot_write(plots, n, path), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	assert_ptr_equal(strstr(text, "<svg "), text);
	assert_string_equal(text + strlen(text) - 7, "</svg>\n");
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "inf"));
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static void lines_names_and_sizes_are_there(void **state)
{
	struct tei_plot_line *line;
	char *text;

	(void)state;
	snprintf(plots[0].title, sizeof(plots[0].title), "a title");
	line = tei_plot_line(&plots[0], TEI_PLOT_OURS, "ours");
	for (int size = 4096; size <= 1 << 20; size *= 2) {
		double x = size;

		tei_plot_point(line, x, x / 1e5, x / 2e5, x / 0.9e5);
	}
	line = tei_plot_line(&plots[0], TEI_PLOT_BOUND, "the bound");
	tei_plot_point(line, 4096, 12, NAN, NAN);
	tei_plot_point(line, 1 << 20, 12, NAN, NAN);
	text = drawn(1);
	assert_non_null(strstr(text, ">a title<"));
	assert_non_null(strstr(text, ">ours<"));
	assert_non_null(strstr(text, ">the bound<"));
	assert_non_null(strstr(text, ">64 KiB<"));
	assert_int_equal(count(text, "<polyline"), 2);
	assert_int_equal(count(text, "<circle"), 9);
	free(text);
}

static void points_come_in_any_order(void **state)
{
	struct tei_plot_line *line =
		tei_plot_line(&plots[0], TEI_PLOT_OURS, "ours");

	(void)state;
	tei_plot_point(line, 8, 3, 3, 3);
	tei_plot_point(line, 2, 1, 1, 1);
	tei_plot_point(line, 4, 2, 2, 2);
	for (size_t i = 0; i < 3; i++)
		assert_float_equal(line->y[i], (double)i + 1, 1e-9);
}

static void what_is_no_number_is_left_out(void **state)
{
	struct tei_plot_line *line =
		tei_plot_line(&plots[0], TEI_PLOT_OURS, "ours");

	(void)state;
	tei_plot_point(line, 8, NAN, NAN, NAN);
	tei_plot_point(line, 0, 1, 1, 1);
	tei_plot_point(line, 8, INFINITY, 0, 0);
	tei_plot_point(line, 8, -1, 0, 0);
	assert_int_equal(line->n, 0);
	free(drawn(1));
	tei_plot_point(line, 8, 1, NAN, NAN);
	free(drawn(1));
}

static void an_empty_plot_is_a_picture_too(void **state)
{
	(void)state;
	plots[1].log_y = plots[1].time_y = true;
	free(drawn(2));
}

static void too_many_lines_and_points_are_dropped(void **state)
{
	struct tei_plot_line *line;
	char *text;

	(void)state;
	for (int i = 0; i < TEI_PLOT_LINES; i++) {
		line = tei_plot_line(&plots[0], TEI_PLOT_OURS, "line");
		assert_non_null(line);
		for (int k = 1; k < 2 * TEI_PLOT_POINTS; k++)
			tei_plot_point(line, k, 1, 1, 1);
		assert_int_equal(line->n, TEI_PLOT_POINTS);
	}
	assert_null(tei_plot_line(&plots[0], TEI_PLOT_OURS, "line"));
	text = drawn(1);
	assert_int_equal(count(text, "<polyline"), TEI_PLOT_LINES);
	free(text);
}

static void a_path_that_cannot_be_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(tei_plot_write(plots, 1, "/nonexistent/plot.svg"),
			 -ENOENT);
	assert_int_equal(tei_plot_write(plots, 1, "/dev/full"), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lines_names_and_sizes_are_there,
						start, stop),
		cmocka_unit_test_setup_teardown(points_come_in_any_order, start,
						stop),
		cmocka_unit_test_setup_teardown(what_is_no_number_is_left_out,
						start, stop),
		cmocka_unit_test_setup_teardown(an_empty_plot_is_a_picture_too,
						start, stop),
		cmocka_unit_test_setup_teardown(
			too_many_lines_and_points_are_dropped, start, stop),
		cmocka_unit_test_setup_teardown(
			a_path_that_cannot_be_is_an_error, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
