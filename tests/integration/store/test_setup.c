/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_setup.c - a pool is joined by keys and values, by Mooncake's rules
 */
#include <te/store_setup.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/maps.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define N_PAIRS  16
#define PATIENCE "100s" /* of a crowded machine */

static struct pool pool;
/* What te_store_setup_pairs() has logged, in the calling thread. */
static char lines[4096];
static const char *const words_kept[] = {
	"setup: ", "metadata_server: ", "protocol ", "verbs.devices: "};

static void keep_line(int level, const char *line, void *arg)
{
	size_t used = strlen(lines);

	(void)level;
	(void)arg;
	for (size_t i = 0; i < TEST_COUNT(words_kept); i++) {
		if (!strstr(line, words_kept[i]))
			continue;
		(void)snprintf(lines + used, sizeof(lines) - used, "%s\n",
			       line);
		break;
	}
}

static int set_up(void **state)
{
	(void)state;
	pool_start(&pool, pool_patient);
	(void)setenv("MC_RPC_TIMEOUT_MS", PATIENCE, 1);
	(void)setenv("MC_RPC_CONNECT_TIMEOUT_MS", PATIENCE, 1);
	(void)setenv("TE_REPLICA_TIMEOUT", PATIENCE, 1);
	te_log_set(keep_line, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_log_set(NULL, NULL);
	pool_stop(&pool);
	return 0;
}

/* With what has to be given, and words[], pairs of key and value. */
static int setup(const char *const *words, struct te_engine *engine,
		 struct te_store **out)
{
	struct te_store_pair pairs[N_PAIRS] = {
		{"local_hostname", "127.0.0.1"},
		{"metadata_server", "P2PHANDSHAKE"},
		{"master_server_addr", pool.address},
	};
	size_t n = 3;

	for (; words && *words; words += 2) {
		assert_true(n < N_PAIRS);
		pairs[n++] = (struct te_store_pair){words[0], words[1]};
	}
	*lines = '\0';
	return te_store_setup_pairs(pairs, n, engine, out);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct te_store *joined(const char *const *words)
{
	struct te_store *store = NULL;

	assert_int_equal(setup(words, NULL, &store), 0);
	assert_non_null(store);
	return store;
}

static void refused(const char *key, const char *value)
{
	struct te_store *store = NULL;

	assert_int_equal(setup(WORDS(key, value), NULL, &store),
			 TE_STORE_INVALID_PARAMS);
	assert_null(store);
	assert_non_null(strstr(lines, key)); /* it says which */
}

static uint64_t capacity(struct te_store *store)
{
	struct te_store_pool figures;

	assert_int_equal(te_store_pool(store, &figures), 0);
	return figures.capacity_bytes;
}

static void defaults_make_a_client_that_puts_and_gets(void **state)
{
	struct te_store *store = joined(NULL);
	char room[16];

	(void)state;
	assert_string_equal(lines, "");
	assert_int_equal(capacity(store), 16 << 20);
	assert_int_equal(pool_put(store, "key", "value", 5), 0);
	assert_int_equal(pool_get(store, "key", room, sizeof(room)), 5);
	assert_memory_equal(room, "value", 5);
	te_store_close(store);
}

static void both_spellings_of_keys_are_known(void **state)
{
	struct te_store *store = joined(WORDS(
		"master_server_addr", "127.0.0.1:1", "master_server_address",
		pool.address, "device_name", "", "rdma_devices", ""));

	(void)state;
	assert_string_equal(lines, "");
	te_store_close(store);
}

static void sizes_are_read_as_people_write_them(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} sizes[] = {
		{"0", 0},           {"1048576", 1 << 20},
		{"64kb", 64 << 10}, {" 2 MB ", 2 << 20},
		{"1.5m", 3 << 19},
	};
	struct te_store *store;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		store = joined(WORDS("global_segment_size", sizes[i].text,
				     "local_buffer_size", sizes[i].text));
		assert_int_equal(capacity(store), sizes[i].bytes);
		te_store_close(store);
	}
}

static void a_segment_of_1_kib_holds_an_object(void **state)
{
	struct te_store *store = joined(WORDS("global_segment_size", "1024"));
	char room[16];

	(void)state;
	assert_int_equal(pool_put(store, "small", "value", 5), 0);
	assert_int_equal(pool_get(store, "small", room, sizeof(room)), 5);
	te_store_close(store);
}

static void what_is_wrong_is_named(void **state)
{
	(void)state;
	refused("local_hostname", "");
	refused("local_hostname", "host:port");
	refused("metadata_server", "");
	refused("metadata_server", "ftp://somewhere");
	refused("master_server_addr", "somewhere");
	refused("global_segment_size", "");
	refused("global_segment_size", "50%");
	refused("global_segment_size", "1023");
	refused("local_buffer_size", "-1");
	refused("local_buffer_size", "2 TB");
	refused("protocol", "pigeon");
	refused("client_http_port", "70000");
	refused("tenant_id", "_mine");
	refused("client_min_port", "14301");
	refused("rpc_timeout", "0");
	refused("connect_timeout", "25h");
	refused("drain_timeout", "11m");
	refused("location_cache", "16777217");
	refused("local_hot_cache_size", "2 TB");
	refused("local_hot_admission_threshold", "0");
}

static void a_master_that_is_not_there_is_no_crash(void **state)
{
	struct te_store *store = NULL;

	(void)state;
	assert_int_equal(setup(WORDS("master_server_addr", "127.0.0.1:1",
				     "connect_timeout", "100"),
			       NULL, &store),
			 TE_STORE_RPC_FAIL);
	assert_null(store);
}

static void unknown_keys_are_named_and_do_no_harm(void **state)
{
	struct te_store *store =
		joined(WORDS("storage_root_dir", "/tmp", "enable_ssd_offload",
			     "perhaps", "ssd_offload_path", "/x"));

	(void)state;
	assert_non_null(strstr(lines, "storage_root_dir"));
	assert_non_null(strstr(lines, "perhaps"));
	assert_non_null(strstr(lines, "without effect here: ssd_offload_path"));
	te_store_close(store);
}

static void rdma_without_a_device_goes_by_tcp(void **state)
{
	struct te_store *store = NULL;

	(void)state;
	store = joined(WORDS("protocol", "rdma"));
	assert_non_null(strstr(lines, "no RDMA device"));
	assert_ptr_equal(strstr(lines, "\n"), lines + strlen(lines) - 1);
	te_store_close(store);
	store = NULL;
	assert_int_equal(
		setup(WORDS("protocol", "rdma", "device_name", "mlx5_77"), NULL,
		      &store),
		TE_STORE_INVALID_PARAMS);
	assert_non_null(strstr(lines, "mlx5_77"));
	store = joined(WORDS("protocol", "tcp", "device_name", "mlx5_77"));
	te_store_close(store);
}

static void nvlink_goes_by_memory_of_the_host_and_tcp(void **state)
{
	struct te_store *store;

	(void)state;
	store = joined(WORDS("protocol", "nvlink_intra"));
	assert_int_equal(pool_put(store, "key", "value", 5), 0);
	te_store_close(store);
	te_store_close(joined(WORDS("protocol", "nvlink")));
	assert_string_equal(lines, "");
	(void)setenv("MC_FORCE_MNNVL", "1", 1);
	assert_int_equal(setup(WORDS("protocol", "nvlink"), NULL, &store),
			 TE_STORE_INVALID_PARAMS);
	(void)unsetenv("MC_FORCE_MNNVL");
	assert_non_null(strstr(lines, "fabric handles"));
}

/* Joins by rdma with these, "" for none; the code. Mooncake's variables. */
static int discover(const char *is_on, const char *filters, const char *devices)
{
	struct te_store *store = NULL;
	int code;

	lines[0] = '\0';
	(void)setenv("MC_MS_AUTO_DISC", is_on, 1);
	(void)setenv("MC_MS_FILTERS", filters, 1);
	code = setup(WORDS("protocol", "rdma", "rdma_devices", devices), NULL,
		     &store);
	(void)unsetenv("MC_MS_AUTO_DISC");
	(void)unsetenv("MC_MS_FILTERS");
	te_store_close(store);
	return code;
}

static void devices_are_discovered_by_mooncakes_rules(void **state)
{
	const int bad = TE_STORE_INVALID_PARAMS;

	(void)state;
	/* On: what is named by hand is not looked at. */
	assert_int_equal(discover("1", "", "mlx5_77"), 0);
	assert_non_null(strstr(lines, "no RDMA device"));
	assert_int_equal(discover("1", "mlx5_78, mlx5_79", "mlx5_77"), bad);
	assert_non_null(
		strstr(lines, "verbs.devices: no device is called mlx5_78"));
	/* Off: only what is named by hand. */
	assert_int_equal(discover("0", "", ""), bad);
	assert_non_null(strstr(lines, "must be given"));
	assert_int_equal(discover("0", "mlx5_78", "mlx5_77"), bad);
	assert_non_null(strstr(lines, "is called mlx5_77"));
	assert_non_null(strstr(lines, "'mlx5_78' (MC_MS_FILTERS): ignored"));
	/* Neither: on if nothing is named. */
	assert_int_equal(discover("", "mlx5_78", ""), bad);
	assert_non_null(strstr(lines, "is called mlx5_78"));
	assert_int_equal(discover("2", "mlx5_78", "mlx5_77"), bad);
	assert_non_null(strstr(lines, "auto_discovery '2': should be 0 or 1"));
	assert_non_null(strstr(lines, "is called mlx5_77"));
	assert_int_equal(discover("", "", ""), 0);
}

static void force_tcp_leaves_nothing_else(void **state)
{
	struct te_rail_info rails[16];
	struct te_store *store;
	size_t n = 16;

	(void)state;
	(void)setenv("MC_FORCE_TCP", "1", 1);
	store = joined(WORDS("protocol", "rdma", "rdma_devices", "mlx5_77"));
	(void)unsetenv("MC_FORCE_TCP");
	assert_string_equal(lines, "");
	assert_int_equal(te_engine_rails(te_store_engine(store), rails, &n), 0);
	assert_true(n > 0 && n <= 16);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(rails[i].backend, "tcp");
	te_store_close(store);
}

static int port_of(struct te_store *store)
{
	return atoi(strrchr(te_store_hostname(store), ':') + 1);
}

/* Others may use it, but hardly so many of them that none of it is free. */
static void names_without_a_port_get_one_of_the_range(void **state)
{
	struct te_store *stores[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		stores[i] = joined(NULL);
		assert_in_range(port_of(stores[i]), 12300, 14300);
	}
	assert_int_not_equal(port_of(stores[0]), port_of(stores[1]));
	for (int i = 0; i < 2; i++)
		te_store_close(stores[i]);
}

static void a_range_that_is_taken_is_left(void **state)
{
	struct te_store *first = joined(NULL), *second;
	char port[16];

	(void)state;
	(void)snprintf(port, sizeof(port), "%d", port_of(first));
	(void)setenv("MC_STORE_CLIENT_MIN_PORT", port, 1);
	second = joined(WORDS("client_max_port", port));
	(void)unsetenv("MC_STORE_CLIENT_MIN_PORT");
	assert_int_not_equal(port_of(first), port_of(second));
	te_store_close(second);
	te_store_close(first);
}

static void an_engine_that_is_given_is_used_and_kept(void **state)
{
	struct te_store *store = NULL;
	struct te_engine *engine;

	(void)state;
	assert_int_equal(te_engine_create(NULL, NULL, &engine), 0);
	assert_int_equal(setup(NULL, engine, &store), 0);
	assert_ptr_equal(te_store_engine(store), engine);
	te_store_close(store);
	assert_non_null(strchr(te_engine_name(engine), ':'));
	te_engine_destroy(engine);
}

static struct te_store_stats stats_of(struct te_store *store)
{
	struct te_store_stats stats;

	te_store_stats(store, &stats);
	return stats;
}

static void get_again(struct te_store *store, const char *key, int times)
{
	char room[16];

	while (times--)
		assert_int_equal(pool_get(store, key, room, sizeof(room)), 5);
}

static void places_are_remembered_when_that_is_wanted(void **state)
{
	struct te_store *store = joined(WORDS("location_cache", "10"));

	(void)state;
	assert_int_equal(pool_put(store, "place", "value", 5), 0);
	get_again(store, "place", 3);
	assert_int_equal(stats_of(store).location_hits, 2);
	te_store_close(store);
	(void)setenv("TE_LOCATION_CACHE", "10", 1);
	store = joined(NULL);
	assert_int_equal(pool_put(store, "place", "value", 5), 0);
	get_again(store, "place", 3);
	assert_int_equal(stats_of(store).location_hits, 2);
	te_store_close(store);
	(void)unsetenv("TE_LOCATION_CACHE");
	store = joined(NULL);
	assert_int_equal(pool_put(store, "place", "value", 5), 0);
	get_again(store, "place", 3);
	assert_int_equal(stats_of(store).location_hits, 0);
	te_store_close(store);
}

static void what_is_read_often_is_kept_when_that_is_wanted(void **state)
{
	struct te_store *owner = joined(NULL), *store;

	(void)state;
	assert_int_equal(pool_put(owner, "hot", "value", 5), 0);
	(void)setenv("MC_STORE_LOCAL_HOT_CACHE_SIZE", "1MB", 1);
	(void)setenv("MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD", "3", 1);
	store = joined(WORDS("global_segment_size", "0"));
	(void)unsetenv("MC_STORE_LOCAL_HOT_CACHE_SIZE");
	(void)unsetenv("MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD");
	get_again(store, "hot", 2);
	assert_int_equal(stats_of(store).hot_added, 0);
	get_again(store, "hot", 2);
	assert_int_equal(stats_of(store).hot_added, 1);
	assert_int_equal(stats_of(store).hot_hits, 1);
	te_store_close(store);
	store = joined(WORDS("global_segment_size", "0", "local_hot_cache_size",
			     "1MB", "local_hot_block_size", "4"));
	get_again(store, "hot", 4);
	assert_int_equal(stats_of(store).hot_added, 0); /* too large */
	te_store_close(store);
	te_store_close(owner);
}

static void who_closes_leaves_nothing_behind_when_told(void **state)
{
	struct te_store *store = joined(WORDS("drain_timeout", "60s")), *heir;
	char room[16];

	(void)state;
	assert_int_equal(pool_put(store, "left", "value", 5), 0);
	heir = joined(NULL);
	te_store_close(store);
	assert_int_equal(pool_get(heir, "left", room, sizeof(room)), 5);
	assert_memory_equal(room, "value", 5);
	te_store_close(heir);
}

/* ---- memory that is committed, and when ---- */

#define LENT   ((uint64_t)48 << 20)
#define BUFFER ((uint64_t)64 << 30) /* the machine need not have so much */
#define MUCH   ((uint64_t)2 << 30)

static bool is_lent_memory_there(void *arg)
{
	(void)arg;
	return test_memory_entered(LENT, NULL) == (long)LENT;
}

/* Both are of te_memory_alloc(), but only what is lent comes by itself. */
static void a_large_local_buffer_is_not_committed(void **state)
{
	struct te_store *store;

	(void)state;
	assert_int_equal(setenv("TE_PREFAULT", "1g", 1), 0);
	store = joined(WORDS("local_buffer_size", "64gb", "global_segment_size",
			     "48mb"));
	assert_true(test_wait_until(is_lent_memory_there, NULL, 30000));
	assert_int_equal(test_memory_entered(BUFFER, NULL), 0);
	te_store_close(store);
	assert_int_equal(setenv("TE_PREFAULT", "0", 1), 0);
}

/* It returns long before so much can have been touched. */
static void setup_does_not_wait_for_memory(void **state)
{
	struct te_store *store;
	long entered;

	(void)state;
	assert_int_equal(setenv("TE_PREFAULT", "4g", 1), 0);
	store = joined(WORDS("local_buffer_size", "16gb", "global_segment_size",
			     "2gb"));
	entered = test_memory_entered(MUCH, NULL);
	assert_true(entered >= 0 && entered < (long)MUCH);
	te_store_close(store);
	assert_int_equal(setenv("TE_PREFAULT", "0", 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_make_a_client_that_puts_and_gets),
		cmocka_unit_test(both_spellings_of_keys_are_known),
		cmocka_unit_test(sizes_are_read_as_people_write_them),
		cmocka_unit_test(a_segment_of_1_kib_holds_an_object),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(a_master_that_is_not_there_is_no_crash),
		cmocka_unit_test(unknown_keys_are_named_and_do_no_harm),
		cmocka_unit_test(rdma_without_a_device_goes_by_tcp),
		cmocka_unit_test(nvlink_goes_by_memory_of_the_host_and_tcp),
		cmocka_unit_test(devices_are_discovered_by_mooncakes_rules),
		cmocka_unit_test(force_tcp_leaves_nothing_else),
		cmocka_unit_test(names_without_a_port_get_one_of_the_range),
		cmocka_unit_test(a_range_that_is_taken_is_left),
		cmocka_unit_test(an_engine_that_is_given_is_used_and_kept),
		cmocka_unit_test(places_are_remembered_when_that_is_wanted),
		cmocka_unit_test(
			what_is_read_often_is_kept_when_that_is_wanted),
		cmocka_unit_test(who_closes_leaves_nothing_behind_when_told),
		cmocka_unit_test(a_large_local_buffer_is_not_committed),
		cmocka_unit_test(setup_does_not_wait_for_memory),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
