/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_refused.c - malformed JSON is refused with its place */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define NIC_A "\"nics\": [{\"name\": \"a\"}], "

static const struct {
	const char *text;
	const char *place; /* what the line must contain */
} wrong[] = {
	{"", ":1:0"},
	{"{", ":1:1"},
	{"[]", "top: should be an object"},
	{"{\"cpu:0\": [[\"a\"], [}", ":1:"},
	{"{\"cpu:0\": [[], []], \"cpu:0\": [[], []]}", "duplicate"},
	{"{} {}", "end of file"},
	/* the matrix */
	{"{\"cpu:0\": 7}", "\"cpu:0\": should be two arrays"},
	{"{\"cpu:0\": [[\"a\"]]}", "\"cpu:0\": should be two arrays"},
	{"{\"cpu:0\": [[\"a\"], [], []]}", "\"cpu:0\": should be two arrays"},
	{"{\"cpu:0\": [[\"a\"], \"b\"]}", "\"cpu:0\": should be two arrays"},
	{"{\"cpu:0\": [[\"a\", 7], []]}", "\"cpu:0\"[0][1]"},
	{"{\"cpu:0\": [[\"a\"], [\"a\"]]}", "\"cpu:0\"[1][0]: NIC \"a\""},
	{"{\"cpu:0\": [[\"a b\"], []]}", "\"cpu:0\"[0][0]"},
	{"{\"cpu:0\": [[\"\"], []]}", "\"cpu:0\"[0][0]"},
	{"{\"c p u\": [[], []]}", "no name of a memory"},
	{"{\"cpu:0\": [[\"0123456789012345678901234567890123456789"
	 "01234567\"], []]}",
	 "\"cpu:0\"[0][0]"},
	/* the full form */
	{"{\"nics\": {}}", "nics: should be an array"},
	{"{\"nics\": [7]}", "nics[0]: should be an object"},
	{"{\"nics\": [{}]}", "nics[0].name: is missing"},
	{"{\"nics\": [{\"name\": 7}]}", "nics[0].name"},
	{"{\"nics\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", "named \"a\""},
	{"{\"nics\": [{\"name\": \"a\", \"speed_bps\": -1}]}",
	 "nics[0].speed_bps"},
	{"{\"nics\": [{\"name\": \"a\", \"speed_bps\": 1.5}]}",
	 "nics[0].speed_bps"},
	{"{\"nics\": [{\"name\": \"a\", \"numa_node\": 5000}]}",
	 "nics[0].numa_node"},
	{"{\"nics\": [{\"name\": \"a\", \"kind\": \"token ring\"}]}",
	 "nics[0].kind"},
	{"{\"nics\": [{\"name\": \"a\", \"state\": 1}]}", "nics[0].state"},
	{"{\"nics\": [{\"name\": \"a\", \"pci_bus_id\": \"3b\"}]}",
	 "nics[0].pci_bus_id"},
	{"{\"nics\": [{\"name\": \"a\", \"pci\": {\"path\": \"../..\"}}]}",
	 "nics[0].pci.path"},
	{"{\"nics\": [{\"name\": \"a\", \"pci\": {\"width\": \"16\"}}]}",
	 "nics[0].pci.width"},
	{"{\"mems\": [{\"bytes\": 1}]}", "mems[0].name: is missing"},
	{"{\"mems\": [{\"name\": \"x\"}, {\"name\": \"x\"}]}", "named \"x\""},
	{"{\"mems\": [{\"name\": \"cpu:0\", \"bytes\": \"1g\"}]}",
	 "mems[0].bytes"},
	{"{" NIC_A "\"mems\": [{\"name\": \"cpu:0\", \"rails\": "
	 "[[\"a\", \"b\"], []]}]}",
	 "mems[0].rails[0][1]: there is no NIC \"b\""},
	{"{" NIC_A "\"mems\": [{\"name\": \"cpu:0\", \"rails\": 1}]}",
	 "mems[0].rails"},
	{"{" NIC_A "\"mems\": [{\"name\": \"cpu:0\", \"device_list\": "
	 "{\"rank1\": [0, 1]}}]}",
	 "mems[0].device_list.rank1[1]"},
	{"{" NIC_A "\"mems\": [{\"name\": \"cpu:0\", \"device_list\": "
	 "{\"rank0\": [0], \"rank2\": [0]}}]}",
	 "mems[0].device_list.rank2[0]"},
	{"{" NIC_A "\"mems\": [{\"name\": \"cpu:0\", \"device_list\": []}]}",
	 "mems[0].device_list"},
	{"{" NIC_A "\"nodes\": [{}]}", "nodes[0].node: is missing"},
	{"{" NIC_A "\"nodes\": [{\"node\": 0}, {\"node\": 0}]}", "number 0"},
	{"{" NIC_A "\"nodes\": [{\"node\": 0, \"cpus\": \"3-1\"}]}",
	 "nodes[0].cpus"},
	{"{" NIC_A "\"nodes\": [{\"node\": 0, \"cpus\": \"0-99999\"}]}",
	 "nodes[0].cpus"},
	{"{" NIC_A "\"nodes\": [{\"node\": 0, \"cpus\": \"0\"}, "
	 "{\"node\": 1, \"cpus\": \"0\"}]}",
	 "CPU 0 is in two"},
	{"{" NIC_A "\"nodes\": [{\"node\": 0, \"cpus\": \"0-1\", "
	 "\"cores\": [[0, 7]]}]}",
	 "nodes[0].cores"},
	{"{" NIC_A "\"nodes\": [{\"node\": 0, \"distances\": {\"0\": "
	 "1000}}]}",
	 "nodes[0].distances.0"},
};

static void malformed_json_is_refused_with_its_place(void **state)
{
	struct te_topo *topo = NULL;
	char error[300];
	size_t i;
	int rc;

	(void)state;
	for (i = 0; i < TEST_COUNT(wrong); i++) {
		error[0] = '\0';
		rc = te_topo_parse(wrong[i].text, strlen(wrong[i].text), &topo,
				   error, sizeof(error));
		if (rc != -EBADMSG || !strstr(error, wrong[i].place))
			fail_msg("%s: %d: %s", wrong[i].text, rc, error);
		assert_null(topo);
	}
}

static void every_beginning_of_a_file_is_refused(void **state)
{
	struct te_topo *topo = NULL;
	struct machine m;
	size_t len, n;
	char *text;

	(void)state;
	machine_open(&m, "crooked");
	text = json_of(m.topo, TE_TOPO_FULL);
	n = strlen(text) - 2; /* the last brace and newline */
	for (len = 0; len < n; len++)
		assert_int_equal(te_topo_parse(text, len, &topo, NULL, 0),
				 -EBADMSG);
	assert_null(topo);
	free(text);
	machine_close(&m);
}

static void changed_bytes_never_crash(void **state)
{
	static const char other[] = "\"{}[]:,0-9ex\\\x7f\xff";
	struct machine m;
	size_t i, k;
	char *text;

	(void)state;
	machine_open(&m, "two-nics");
	text = json_of(m.topo, TE_TOPO_FULL);
	for (i = 0; text[i]; i++) {
		char was = text[i];

		for (k = 0; k < sizeof(other) - 1; k++) {
			struct te_topo *topo = NULL;

			text[i] = other[k];
			(void)te_topo_parse(text, strlen(text), &topo, NULL, 0);
			te_topo_destroy(topo);
		}
		text[i] = was;
	}
	free(text);
	machine_close(&m);
}

static void more_than_any_machine_has_is_refused(void **state)
{
	size_t room = 64 * 1024, len = 0;
	char *text = malloc(room), error[300] = "";
	struct te_topo *topo = NULL;
	int i;

	(void)state;
	assert_non_null(text);
	len += (size_t)snprintf(text, room, "{\"cpu:0\": [[");
	for (i = 0; i < 1000; i++)
		len += (size_t)snprintf(text + len, room - len, "%s\"n%d\"",
					i ? "," : "", i);
	len += (size_t)snprintf(text + len, room - len, "], []]}");
	assert_int_equal(te_topo_parse(text, len, &topo, error, sizeof(error)),
			 -EBADMSG);
	assert_non_null(strstr(error, "too many NICs"));
	free(text);
}

static void a_file_is_named_when_it_is_wrong(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16], error[700] = "";
	struct te_topo_source source = {.json = path};
	struct te_topo *topo = NULL;

	(void)state;
	test_tmpdir_create(dir);
	snprintf(path, sizeof(path), "%s/t.json", dir);
	assert_int_equal(te_topo_load(&source, &topo, error, sizeof(error)),
			 -ENOENT);
	assert_non_null(strstr(error, path));
	test_tree_write(dir, "t.json", "{\n\"cpu:0\": [[\"a\"]\n}");
	assert_int_equal(te_topo_load(&source, &topo, error, sizeof(error)),
			 -EBADMSG);
	assert_non_null(strstr(error, "t.json:3:"));
	source.json = dir;
	assert_int_equal(te_topo_load(&source, &topo, error, sizeof(error)),
			 -EISDIR);
	assert_null(topo);
	test_tmpdir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_json_is_refused_with_its_place),
		cmocka_unit_test(every_beginning_of_a_file_is_refused),
		cmocka_unit_test(changed_bytes_never_crash),
		cmocka_unit_test(more_than_any_machine_has_is_refused),
		cmocka_unit_test(a_file_is_named_when_it_is_wrong),
	};

	return cmocka_run_group_tests_name("json_refused", tests, NULL, NULL);
}
