/* SPDX-License-Identifier: Apache-2.0 */
/* test_settings.c - the master's rows, hosts, and labels of metrics */
#include <string.h>

#include "store/server/metrics.h"
#include "store/server/settings.h"
#include "tests/lib/test.h"

static struct tes_server_settings values;
static struct tei_conf conf;

static int start(void **state)
{
	(void)state;
	return tei_conf_init(&conf, tes_server_rows, tes_server_n_rows,
			     &values);
}

static int stop(void **state)
{
	(void)state;
	tei_conf_fini(&conf);
	return 0;
}

static void defaults_are_mooncakes(void **state)
{
	(void)state;
	assert_int_equal(values.port, 50051);
	assert_int_equal(values.metrics_port, 9003);
	assert_string_equal(values.rpc_address, "0.0.0.0");
	assert_int_equal(values.default_kv_lease_ttl, 10000);
	assert_int_equal(values.client_ttl, 10000);
	assert_int_equal(values.put_start_discard_timeout_sec, 30000);
	assert_true(values.eviction_high_watermark_ratio == 0.90);
	assert_true(values.eviction_ratio == 0.05);
	assert_false(values.insecure);
}

/* One of each kind that no part of this uses yet. */
static void defaults_of_later_parts_are_there(void **state)
{
	(void)state;
	assert_string_equal(values.allocation_strategy, "random");
	assert_int_equal(values.default_kv_soft_pin_ttl, 1800000);
	assert_int_equal(values.max_kv_soft_pin_ttl, 86400000);
	assert_true(values.allow_evict_soft_pinned_objects);
	assert_string_equal(values.dynamic_replication_mode, "off");
	assert_true(values.dynamic_replication_admission_qps_threshold == 0.8);
	assert_int_equal(values.max_total_pending_tasks, 10000);
	assert_int_equal(values.pending_task_timeout_sec, 300000);
	assert_int_equal(values.kv_events_queue_capacity, 65536);
	assert_true(values.global_file_segment_size == INT64_MAX);
}

static void rpc_port_goes_before_port_unless_it_is_0(void **state)
{
	char error[TEI_CONF_ERROR_LEN];

	(void)state;
	assert_int_equal(tes_server_wanted_port(&values), 50051);
	assert_int_equal(tei_conf_set(&conf, "port", "7", error), 0);
	assert_int_equal(tes_server_wanted_port(&values), 7);
	assert_int_equal(tei_conf_set(&conf, "rpc-port", "8", error), 0);
	assert_int_equal(tes_server_wanted_port(&values), 8);
	assert_int_equal(tei_conf_set(&conf, "port", "9", error), 0);
	assert_int_equal(tes_server_wanted_port(&values), 8);
	assert_int_equal(tei_conf_set(&conf, "rpc_port", "0", error), 0);
	assert_int_equal(tes_server_wanted_port(&values), 9);
}

static void older_names_are_the_same_settings(void **state)
{
	static const char *const names[][2] = {
		{"client_live_ttl_sec", "client_ttl"},
		{"snapshot_payload_store_type", "snapshot_object_store_type"},
		{"snapshot_payload_backend_type", "snapshot_object_store_type"},
		{"snapshot_catalog_backend_type",
		 "snapshot_catalog_store_type"},
		{"snapshot_catalog_backend_connstring",
		 "snapshot_catalog_store_connstring"},
	};
	char error[TEI_CONF_ERROR_LEN], given[256];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		assert_int_equal(tei_conf_set(&conf, names[i][0], "9", error),
				 0);
		if (i == 0)
			continue;
		tei_conf_ignored(&conf, given, sizeof(given));
		assert_non_null(strstr(given, names[i][1]));
	}
	assert_int_equal(values.client_ttl, 9000);
}

static void rows_have_names_slots_and_places_of_their_own(void **state)
{
	(void)state;
	for (size_t i = 0; i < tes_server_n_rows; i++) {
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(tes_server_rows[i].name,
						tes_server_rows[j].name);
			assert_int_not_equal(tes_server_rows[i].offset,
					     tes_server_rows[j].offset);
		}
		assert_true(tes_server_rows[i].offset < sizeof(values));
	}
}

static void every_spelling_of_the_wildcard_is_one(void **state)
{
	(void)state;
	assert_null(tes_server_host(NULL));
	assert_null(tes_server_host(""));
	assert_null(tes_server_host("0.0.0.0"));
	assert_null(tes_server_host("::"));
	assert_string_equal(tes_server_host("127.0.0.1"), "127.0.0.1");
}

static void labels_cannot_end_early(void **state)
{
	char out[32];

	(void)state;
	tes_server_label("a\"b\\c\nd", out, sizeof(out));
	assert_string_equal(out, "a\\\"b\\\\c\\nd");
	tes_server_label("\"\"\"\"", out, 6);
	assert_string_equal(out, "\\\"\\\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_mooncakes),
		cmocka_unit_test(defaults_of_later_parts_are_there),
		cmocka_unit_test(rpc_port_goes_before_port_unless_it_is_0),
		cmocka_unit_test(older_names_are_the_same_settings),
		cmocka_unit_test(rows_have_names_slots_and_places_of_their_own),
		cmocka_unit_test(every_spelling_of_the_wildcard_is_one),
		cmocka_unit_test(labels_cannot_end_early),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
