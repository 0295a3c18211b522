/* SPDX-License-Identifier: Apache-2.0 */
/* test_te_topo.c - te-topo shows machines as text, JSON and a drawing */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/topo.h>

#include "tests/lib/process.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

#define PATIENCE_MS 60000

static char dir[TEST_PATH_MAX], sys[TEST_PATH_MAX + 8];

static int unpack(void **state)
{
	(void)state;
	test_tmpdir_create(dir);
	test_tree_unpack("topology/eight-nics.tree", dir);
	snprintf(sys, sizeof(sys), "%s/sys", dir);
	return 0;
}

static int tidy_up(void **state)
{
	(void)state;
	test_tmpdir_remove(dir);
	return 0;
}

static char *run(const char *const args[], int code)
{
	return test_process_run("te-topo", args, code, PATIENCE_MS);
}

static char *slurp(const char *path)
{
	char *text = calloc(1, 1 << 20);
	FILE *f = fopen(path, "r");

	assert_non_null(text);
	assert_non_null(f);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	return text;
}

static void text_shows_nics_distances_and_notes(void **state)
{
	char *text = run((const char *const[]){"--sysfs", sys, NULL}, 0);

	(void)state;
	test_contains(text,
		      "2 sockets, 2 NUMA nodes, 64 CPUs, 2.0 TiB, 8 GPUs, "
		      "10 NICs");
	test_contains(text, "mlx5_3");
	test_contains(text, "400 Gb/s");
	test_contains(text, "gen5 x16");
	test_contains(text, "switch*");
	test_contains(text, "! eno2: the port is down");
	free(text);
}

/* By the driver's files, which lie beside the copy of /sys. */
static void text_says_how_gpus_get_to_nics(void **state)
{
	static const char version[] =
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
		"550.54.14  Release Build\n";
	const char *const args[] = {"--sysfs", sys, NULL};
	char *text = run(args, 0);

	(void)state;
	test_contains(text, "switch* ?");
	free(text);
	test_tree_write(dir, "sys/module/nvidia_peermem/initstate", "live\n");
	text = run(args, 0);
	test_contains(text, "switch* peermem");
	test_contains(text, "far staged"); /* of a NIC without RDMA */
	free(text);
	test_tree_write(dir, "proc/driver/nvidia/version", version);
	test_tree_write(dir, "proc/sys/kernel/osrelease", "6.1.0\n");
	text = run(args, 0);
	test_contains(text, "switch* dma-buf");
	test_contains(text, "the NIC accesses the GPU's memory");
	free(text);
}

static void both_forms_of_json_are_read_again(void **state)
{
	static const char *const forms[] = {"--json", "--matrix"};
	char path[TEST_PATH_MAX + 16];
	size_t i;

	(void)state;
	snprintf(path, sizeof(path), "%s/t.json", dir);
	for (i = 0; i < TEST_COUNT(forms); i++) {
		char *first = run(
			(const char *const[]){"--sysfs", sys, forms[i], NULL},
			0);
		char *again;

		test_tree_write(dir, "t.json", first);
		again = run(
			(const char *const[]){"--from", path, forms[i], NULL},
			0);
		assert_string_equal(first, again);
		free(first);
		free(again);
	}
}

/* Tags are closed, and nothing is left that a reader would trip over. */
static void is_well_formed(const char *svg)
{
	int depth = 0;
	const char *at;

	assert_memory_equal(svg, "<svg ", 5);
	for (at = svg; *at; at++) {
		if (*at == '&') {
			assert_true(!strncmp(at, "&lt;", 4) ||
				    !strncmp(at, "&gt;", 4) ||
				    !strncmp(at, "&amp;", 5) ||
				    !strncmp(at, "&quot;", 6));
		} else if (*at == '<') {
			const char *end = strchr(at, '>');

			assert_non_null(end);
			if (at[1] == '/')
				depth--;
			else if (end[-1] != '/')
				depth++;
			at = end;
		} else {
			assert_true(*at != '>' && depth > 0);
		}
		if (depth == 0)
			break;
	}
	assert_string_equal(at, ">\n");
}

static void a_drawing_is_well_formed(void **state)
{
	char path[TEST_PATH_MAX + 16];
	char *svg;

	(void)state;
	snprintf(path, sizeof(path), "%s/t.svg", dir);
	free(run((const char *const[]){"--sysfs", sys, "--svg", path, NULL},
		 0));
	svg = slurp(path);
	is_well_formed(svg);
	test_contains(svg, ">cuda:7<");
	test_contains(svg, ">mlx5_7<");
	test_contains(svg, "NUMA node 1");
	test_contains(svg, "same PCIe switch");
	free(svg);
}

static void names_that_are_markup_are_drawn_as_text(void **state)
{
	char json[TEST_PATH_MAX + 16], path[TEST_PATH_MAX + 16];
	char *svg;

	(void)state;
	snprintf(json, sizeof(json), "%s/m.json", dir);
	snprintf(path, sizeof(path), "%s/m.svg", dir);
	test_tree_write(dir, "m.json",
			"{\"nics\": [{\"name\": \"<a&b>'\"}], \"mems\": "
			"[{\"name\": \"cpu:0\", \"model\": \"</svg>\"}, "
			"{\"name\": \"<x>\", \"model\": \"</text>\"}]}");
	free(run((const char *const[]){"--from", json, "--svg", path, NULL},
		 0));
	svg = slurp(path);
	is_well_formed(svg);
	test_contains(svg, "&lt;a&amp;b&gt;'");
	free(svg);
}

static void an_empty_machine_is_shown(void **state)
{
	char json[TEST_PATH_MAX + 16], path[TEST_PATH_MAX + 16];
	char *text;

	(void)state;
	snprintf(json, sizeof(json), "%s/e.json", dir);
	snprintf(path, sizeof(path), "%s/e.svg", dir);
	test_tree_write(dir, "e.json", "{}");
	text = run((const char *const[]){"--from", json, NULL}, 0);
	test_contains(text, "No NIC is seen");
	free(text);
	free(run((const char *const[]){"--from", json, "--svg", path, NULL},
		 0));
	text = slurp(path);
	is_well_formed(text);
	free(text);
}

static void this_machine_is_shown_without_arguments(void **state)
{
	char *text = run((const char *const[]){NULL}, 0);

	(void)state;
	test_contains(text, "NUMA node");
	test_contains(text, "CPUs");
	free(text);
}

static void what_cannot_be_understood_is_named(void **state)
{
	char json[TEST_PATH_MAX + 16];
	char *text;

	(void)state;
	snprintf(json, sizeof(json), "%s/bad.json", dir);
	test_tree_write(dir, "bad.json", "{\"cpu:0\": [[7], []]}");
	text = run((const char *const[]){"--from", json, NULL}, 2);
	test_contains(text, "bad.json: \"cpu:0\"[0][0]");
	free(text);
	text = run((const char *const[]){"--sysfs", "/no/such", NULL}, 2);
	test_contains(text, "/no/such");
	free(text);
	text = run((const char *const[]){"--json", "--matrix", NULL}, 2);
	test_contains(text, "--matrix");
	free(text);
	text = run((const char *const[]){"--from", json, "--sysfs", sys, NULL},
		   2);
	test_contains(text, "--sysfs");
	free(text);
	text = run((const char *const[]){"--sysfs", sys, "--svg", "/no/such/x",
					 NULL},
		   1);
	test_contains(text, "/no/such/x");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_shows_nics_distances_and_notes),
		cmocka_unit_test(text_says_how_gpus_get_to_nics),
		cmocka_unit_test(both_forms_of_json_are_read_again),
		cmocka_unit_test(a_drawing_is_well_formed),
		cmocka_unit_test(names_that_are_markup_are_drawn_as_text),
		cmocka_unit_test(an_empty_machine_is_shown),
		cmocka_unit_test(this_machine_is_shown_without_arguments),
		cmocka_unit_test(what_cannot_be_understood_is_named),
	};

	return cmocka_run_group_tests_name("te_topo", tests, unpack, tidy_up);
}
