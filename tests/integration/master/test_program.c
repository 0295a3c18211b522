/* SPDX-License-Identifier: Apache-2.0 */
/* test_program.c - mooncake_master as operators and scripts see it */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/dial.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

static void starts_says_where_and_ends_on(int sig)
{
	struct master m;

	master_start(&m, (const char *const[]){NULL});
	test_process_signal(m.process, sig);
	assert_int_equal(test_process_wait(m.process, SOON_MS), 0);
	test_process_end(m.process);
}

static void starts_says_where_and_ends_on_sigterm(void **state)
{
	(void)state;
	starts_says_where_and_ends_on(SIGTERM);
}

static void starts_says_where_and_ends_on_sigint(void **state)
{
	(void)state;
	starts_says_where_and_ends_on(SIGINT);
}

static void ends_with_connections_open(void **state)
{
	struct master m;
	struct caller *c;
	int idle;

	(void)state;
	master_start(&m, (const char *const[]){NULL});
	c = caller_join(&m, 1, false);
	assert_int_equal(caller_mount(c, 1, 1 << 20), 0);
	idle = test_dial(m.http);
	assert_true(idle >= 0);
	master_stop(&m);
	assert_true(caller_wait_down(c));
	caller_close(c);
}

/* Shells give 1024 by default, and clients have two connections each. */
static void takes_the_descriptors_it_may_have(void **state)
{
	struct rlimit old, low;
	struct caller *c[100];
	struct master m;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	master_start(&m, (const char *const[]){"--client_ttl=60", NULL});
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	for (size_t i = 0; i < TEST_COUNT(c); i++)
		c[i] = caller_join(&m, (uint8_t)i, false);
	for (size_t i = 0; i < TEST_COUNT(c); i++)
		caller_close(c[i]);
	master_stop(&m);
}

/* Scripts look for the beginning; what is in it is that of /metrics/summary. */
static void the_figures_are_logged_in_one_line(void **state)
{
	static const char line[] = "Master Metrics: Storage: ";
	static const char *const has[] = {
		" | Keys: 1 (soft-pinned: 0) | Clients: ",
		" | Requests (Success/Total per sec): PutStart=",
		" | Eviction: Success/Attempts=0/0, AllocFail=0, keys=0, size="};
	struct master m;
	struct caller *c;
	const char *said;

	(void)state;
	master_start(&m, (const char *const[]){"--client_ttl=60", NULL});
	c = caller_join(&m, 1, false);
	assert_int_equal(caller_mount(c, 1, 1 << 20), 0);
	caller_put(c, "a");
	said = test_process_line(m.process, line, SOON_MS);
	assert_non_null(said);
	for (size_t i = 0; i < TEST_COUNT(has); i++)
		if (!strstr(said, has[i]))
			fail_msg("no '%s' in %s", has[i], said);
	caller_close(c);
	master_stop(&m);
}

static size_t count_lines(const char *output, const char *words)
{
	size_t n = 0;

	for (; (output = strstr(output, words)); output++)
		n++;
	return n;
}

/* A client that lends and ends again and again has some lines, not all. */
static void clients_cannot_fill_the_log(void **state)
{
	static const char *const lines[] = {" lends ", "connection of owner ",
					    " is back, "};
	const size_t rounds = 300;
	struct master m;
	struct caller *c;

	(void)state;
	master_start(&m, (const char *const[]){"--client_ttl=60", NULL});
	for (size_t i = 0; i < rounds; i++) {
		c = caller_join(&m, 1, false);
		assert_int_equal(caller_mount(c, 1, 1 << 20), 0);
		caller_close(c);
	}
	c = caller_join(&m, 1, false);
	for (size_t i = 0; i < TEST_COUNT(lines); i++) {
		size_t n =
			count_lines(test_process_output(m.process), lines[i]);

		if (n == 0 || n > rounds / 2)
			fail_msg("%zu lines with '%s'", n, lines[i]);
	}
	caller_close(c);
	master_stop(&m);
}

/* It must exit with 2 after exactly one line, which has @words in it. */
static void refuses(const char *const args[], const char *words)
{
	struct test_process *p = test_process_start("mooncake_master", args);
	const char *said, *eol;
	int code = test_process_wait(p, SOON_MS);

	said = test_process_output(p);
	eol = strchr(said, '\n');
	if (code != 2 || !eol || eol[1] || !strstr(said, words)) {
		print_error("wanted one line with '%s', got %d: %s", words,
			    code, said);
		fail();
	}
	test_process_end(p);
}

#define REFUSES(words, ...) \
	refuses((const char *const[]){__VA_ARGS__, NULL}, words)

static void bad_settings_are_named_in_one_line(void **state)
{
	(void)state;
	REFUSES("no_such_flag", "--no_such_flag=1");
	REFUSES("did you mean cluster_id?", "--clusterid=1");
	REFUSES("memory_allocator", "--memory_allocator=magic");
	REFUSES("eviction_high", "--eviction_high_watermark_ratio=-1");
	REFUSES("port", "-port=70000");
	REFUSES("port", "-port=-1");
	REFUSES("port", "--rpc_port=x");
	REFUSES("default_kv_lease_ttl", "--default_kv_lease_ttl=soon");
	REFUSES("eviction_ratio", "--eviction_ratio=1.5");
	REFUSES("client_ttl", "--client_ttl=0");
	REFUSES("client_ttl", "--client-ttl=99999999999999999999");
	REFUSES("rpc_interface", "--port=0", "--rpc_interface=nowhere9");
	REFUSES("rpc_address", "--port=0", "--rpc_address=192.0.2.1");
	REFUSES("metrics_host", "--port=0", "--metrics_port=0",
		"--metrics_host=192.0.2.1");
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* The flags behind it go before what the file says. */
static void a_file_of_settings_is_read(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	char flag[sizeof(path) + 16];
	Store__HelloReply *reply;
	struct master m;
	struct caller *c;

	(void)state;
	test_tmpdir_create(dir);
	snprintf(path, sizeof(path), "%s/master.yaml", dir);
	snprintf(flag, sizeof(flag), "-config_path=%s", path);
	write_text(path, "enable_ha: false\n"
			 "port: 1\n"
			 "metrics_port: 1\n"
			 "rpc_thread_num: 4\n"
			 "client_live_ttl_sec: 7\n");
	master_start(&m, (const char *const[]){flag, NULL});
	c = caller_open(&m);
	reply = caller_hello(c, 1, false);
	assert_int_equal(reply->client_ttl_ms, 7000);
	caller_free(reply);
	caller_close(c);
	master_stop(&m);

	write_text(path, "client_ttl: 7\nclient_live_ttl: 7\n");
	REFUSES("did you mean client_live_ttl_sec?", flag);
	REFUSES("master.yaml line 2", flag);
	write_text(path, "rpc:\n  port: 1\n");
	REFUSES("master.yaml line 2: one value is expected", flag);
	test_tmpdir_remove(dir);
	REFUSES("master.yaml", flag);
}

static void a_port_in_use_is_named_in_one_line(void **state)
{
	char port[32], http[32];
	struct master m;

	(void)state;
	master_start(&m, (const char *const[]){NULL});
	snprintf(port, sizeof(port), "--port=%u", m.rpc);
	snprintf(http, sizeof(http), "--metrics_port=%u", m.http);
	REFUSES("port", port, "--metrics_port=0");
	REFUSES(strerror(EADDRINUSE), port, "--metrics_port=0");
	REFUSES("metrics_port", "--port=0", http);
	master_stop(&m);
}

static void flags_of_mooncake_without_meaning_are_named_once(void **state)
{
	struct master m;
	const char *said;

	(void)state;
	master_start(&m,
		     (const char *const[]){
			     "--max_threads", "64", "-enable_ha=true",
			     "--allocation_strategy=random",
			     "--norpc_enable_tcp_no_delay", "--cluster-id=x",
			     "--enable_gc=false", "--root_fs_dir=/tmp",
			     "--enable_offload", "--memory_allocator=offset",
			     "--rpc_thread_num=4", NULL});
	test_process_signal(m.process, SIGTERM);
	assert_int_equal(test_process_wait(m.process, SOON_MS), 0);
	said = strstr(test_process_output(m.process), "without effect");
	assert_non_null(said);
	assert_non_null(strstr(said, "max_threads"));
	assert_non_null(strstr(said, "enable_ha"));
	assert_non_null(strstr(said, "cluster_id"));
	assert_non_null(strstr(said, "enable_offload"));
	assert_null(strstr(said, "enable_gc")); /* was given its default */
	assert_null(strstr(said + 1, "without effect"));
	test_process_end(m.process);
}

static void mooncakes_spellings_of_durations_are_understood(void **state)
{
	Store__HelloReply *reply;
	struct master m;
	struct caller *c;

	(void)state;
	master_start(&m, (const char *const[]){"-client_ttl=7",
					       "-default_kv_lease_ttl=5000",
					       "-v=1", NULL});
	c = caller_open(&m);
	reply = caller_hello(c, 1, false);
	assert_int_equal(reply->client_ttl_ms, 7000);
	assert_int_equal(reply->heartbeat_ms, 700);
	caller_free(reply);
	caller_close(c);
	master_stop(&m);
}

static void insecure_is_one_warning(void **state)
{
	struct master m;

	(void)state;
	master_start(&m, (const char *const[]){"--insecure", NULL});
	test_process_signal(m.process, SIGTERM);
	assert_int_equal(test_process_wait(m.process, SOON_MS), 0);
	assert_non_null(strstr(test_process_output(m.process), "insecure"));
	test_process_end(m.process);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_says_where_and_ends_on_sigterm),
		cmocka_unit_test(starts_says_where_and_ends_on_sigint),
		cmocka_unit_test(ends_with_connections_open),
		cmocka_unit_test(takes_the_descriptors_it_may_have),
		cmocka_unit_test(the_figures_are_logged_in_one_line),
		cmocka_unit_test(clients_cannot_fill_the_log),
		cmocka_unit_test(bad_settings_are_named_in_one_line),
		cmocka_unit_test(a_file_of_settings_is_read),
		cmocka_unit_test(a_port_in_use_is_named_in_one_line),
		cmocka_unit_test(
			flags_of_mooncake_without_meaning_are_named_once),
		cmocka_unit_test(
			mooncakes_spellings_of_durations_are_understood),
		cmocka_unit_test(insecure_is_one_warning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
