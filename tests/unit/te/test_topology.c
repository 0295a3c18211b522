/* SPDX-License-Identifier: Apache-2.0 */
/* test_topology.c - an engine knows its machine, and says what is wrong */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/te.h>
#include <te/topo.h>

#include "te/core/engine.h"
#include "tests/lib/stat.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

static unsigned int n_lines;
static char last_line[512];

static void on_line(int level, const char *line, void *arg)
{
	(void)arg;
	if (level > 1 || !strstr(line, "topology"))
		return;
	n_lines++;
	snprintf(last_line, sizeof(last_line), "%s", line);
}

static struct te_engine *engine_with(const char *topology)
{
	struct te_config *config;
	struct te_engine *engine;

	n_lines = 0;
	te_log_set(on_line, NULL);
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "topology", topology, NULL, 0),
			 0);
	assert_int_equal(te_engine_create(config, NULL, &engine), 0);
	te_config_destroy(config);
	return engine;
}

static uint64_t faults(struct te_engine *engine, const char *label)
{
	return test_stat(engine, "te_topology_faults_total", label);
}

static void location_of(struct te_engine *engine, void *addr,
			const char *wanted, char out[32])
{
	struct te_region region = {.addr = addr,
				   .length = 4096,
				   .location = wanted,
				   .access = TE_ACCESS_REMOTE_READ};
	struct te_segment_region there;
	te_segment_id segment;
	te_region_id id;
	size_t n = 1;

	assert_int_equal(te_region_add(engine, &region, &id), 0);
	assert_int_equal(
		te_segment_open(engine, te_engine_name(engine), 0, &segment),
		0);
	assert_int_equal(te_segment_regions(engine, segment, &there, &n), 0);
	assert_int_equal(n, 1);
	memcpy(out, there.location, 32);
	te_segment_close(engine, segment);
	assert_int_equal(te_region_remove(engine, id), 0);
}

static void a_region_is_found_on_a_node_of_the_machine(void **state)
{
	struct te_engine *engine;
	char location[32];
	uint32_t index;
	void *memory;

	(void)state;
	assert_int_equal(te_engine_create(NULL, NULL, &engine), 0);
	assert_int_equal(te_memory_alloc(engine, 4096, &memory), 0);
	memset(memory, 1, 4096);
	assert_non_null(engine->topo);
	location_of(engine, memory, "*", location);
	assert_int_equal(te_topo_find_memory(engine->topo, location, &index),
			 0);
	location_of(engine, memory, NULL, location);
	assert_int_equal(te_topo_find_memory(engine->topo, location, &index),
			 0);
	te_memory_free(engine, memory);
	te_engine_destroy(engine);
}

static void a_location_that_does_not_exist_is_taken_and_counted(void **state)
{
	struct te_engine *engine;
	char location[32];
	void *memory;

	(void)state;
	assert_int_equal(te_engine_create(NULL, NULL, &engine), 0);
	n_lines = 0;
	te_log_set(on_line, NULL);
	assert_int_equal(te_memory_alloc(engine, 4096, &memory), 0);
	location_of(engine, memory, "cuda:99", location);
	assert_string_equal(location, "cuda:99");
	location_of(engine, memory, "cuda:99", location);
	assert_int_equal(faults(engine, "location"), 2);
	assert_int_equal(n_lines, 1);
	assert_non_null(strstr(last_line, "cuda:99"));
	te_memory_free(engine, memory);
	te_engine_destroy(engine);
	te_log_set(NULL, NULL);
}

static void a_file_takes_the_place_of_the_machine(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	struct te_engine *engine;
	uint32_t index;

	(void)state;
	test_tmpdir_create(dir);
	test_tree_write(dir, "t.json", "{\"cpu:0\": [[\"red\"], [\"blue\"]]}");
	snprintf(path, sizeof(path), "%s/t.json", dir);
	engine = engine_with(path);
	assert_int_equal(te_topo_find_nic(engine->topo, "blue", &index), 0);
	assert_int_equal(n_lines, 0);
	te_engine_destroy(engine);
	te_log_set(NULL, NULL);
	test_tmpdir_remove(dir);
}

static void a_wrong_file_is_one_warning_that_names_it(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	struct te_engine *engine;

	(void)state;
	test_tmpdir_create(dir);
	test_tree_write(dir, "t.json", "{\"cpu:0\": [\"red\"]}");
	snprintf(path, sizeof(path), "%s/t.json", dir);
	engine = engine_with(path);
	assert_int_equal(n_lines, 1);
	assert_non_null(strstr(last_line, "t.json: \"cpu:0\""));
	assert_int_equal(faults(engine, "file"), 1);
	assert_non_null(engine->topo); /* the machine itself */
	te_engine_destroy(engine);
	engine = engine_with("/no/such/file");
	assert_int_equal(n_lines, 1);
	assert_non_null(strstr(last_line, "/no/such/file"));
	te_engine_destroy(engine);
	te_log_set(NULL, NULL);
	test_tmpdir_remove(dir);
}

static void an_unknown_node_is_logged_once_and_counted_always(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	struct te_engine *engine;

	(void)state;
	test_tmpdir_create(dir);
	test_tree_write(dir, "t.json",
			"{\"nodes\": [{\"node\": 0}, {\"node\": 1}],"
			" \"nics\": [{\"name\": \"red\"}],"
			" \"mems\": [{\"name\": \"cpu:0\"}]}");
	snprintf(path, sizeof(path), "%s/t.json", dir);
	engine = engine_with(path);
	assert_int_equal(faults(engine, "affinity"), 1);
	assert_int_equal(n_lines, 1);
	assert_non_null(strstr(last_line, "red: its NUMA node is unknown"));
	te_engine_destroy(engine);
	engine = engine_with(path);
	assert_int_equal(faults(engine, "affinity"), 1);
	assert_int_equal(n_lines, 0);
	te_engine_destroy(engine);
	te_log_set(NULL, NULL);
	test_tmpdir_remove(dir);
}

static void the_environment_names_a_file_too(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	struct te_engine *engine;
	uint32_t index;

	(void)state;
	test_tmpdir_create(dir);
	test_tree_write(dir, "t.json", "{\"cpu:0\": [[\"red\"], []]}");
	snprintf(path, sizeof(path), "%s/t.json", dir);
	setenv("MC_CUSTOM_TOPO_JSON", path, 1);
	assert_int_equal(te_engine_create(NULL, NULL, &engine), 0);
	unsetenv("MC_CUSTOM_TOPO_JSON");
	assert_int_equal(te_topo_find_nic(engine->topo, "red", &index), 0);
	te_engine_destroy(engine);
	test_tmpdir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_is_found_on_a_node_of_the_machine),
		cmocka_unit_test(
			a_location_that_does_not_exist_is_taken_and_counted),
		cmocka_unit_test(a_file_takes_the_place_of_the_machine),
		cmocka_unit_test(a_wrong_file_is_one_warning_that_names_it),
		cmocka_unit_test(
			an_unknown_node_is_logged_once_and_counted_always),
		cmocka_unit_test(the_environment_names_a_file_too),
	};

	return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
