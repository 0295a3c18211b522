/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_owner.c - mooncake_client as a command: starting, staying, ending
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/net.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define END_MS 60000

static void ends_with_0(struct test_process *p, int sig)
{
	test_process_signal(p, sig);
	assert_int_equal(test_process_wait(p, END_MS), 0);
	test_process_end(p);
}

static void it_ends_when_told(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	ends_with_0(pool_owner(&pool, "1 MB"), SIGTERM);
	ends_with_0(pool_owner(&pool, "1 MB"), SIGINT);
	pool_stop(&pool);
}

static void it_ends_when_told_without_a_master(void **state)
{
	struct test_process *owner;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	owner = pool_owner(&pool, "1 MB");
	pool_kill(&pool);
	ends_with_0(owner, SIGTERM);
}

/* The first reason is that its connection ended. */
static void it_says_when_it_waits_for_another_reason(void **state)
{
	struct test_process *owner;
	struct pool pool;
	const char *line;

	(void)state;
	pool_start(&pool, NULL);
	owner = pool_owner(&pool, "1 MB");
	pool_kill(&pool);
	line = test_process_line(owner, "trying again", POOL_START_MS);
	assert_non_null(line);
	assert_null(strstr(line, "refused"));
	assert_non_null(test_process_line(
		owner, "Connection refused; trying again", POOL_START_MS));
	ends_with_0(owner, SIGTERM);
}

static void it_waits_for_a_master_that_is_not_there_yet(void **state)
{
	const char *args[] = {"--port",
			      "0",
			      "--master_server_address",
			      NULL,
			      "--global_segment_size",
			      "1048576",
			      NULL};
	struct test_process *owner;
	struct te_store *client;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	pool_kill(&pool);
	args[3] = pool.address;
	owner = test_process_start("mooncake_client", args);
	assert_non_null(
		test_process_line(owner, "trying again", POOL_START_MS));
	pool_restart(&pool, NULL);
	assert_non_null(test_process_line(owner, "serves 1048576 bytes",
					  POOL_START_MS));
	client = pool_client(&pool, 0);
	assert_int_equal(pool_capacity(client), 1048576);
	te_store_close(client);
	ends_with_0(owner, SIGTERM);
	pool_stop(&pool);
}

static void bad_arguments_are_one_line_and_2(void **state)
{
	char too_long[200] = "/tmp/";
	const char *const bad[][7] = {
		{"--no_such_flag", "1", NULL},
		{"--port", "70000", NULL},
		{"--global_segment_size", "much", NULL},
		{"--global_segment_size", "0", NULL},
		{"--protocol", "pigeon", NULL},
		{"--master_server_address", "nowhere", NULL},
		{"--host", "no..host", NULL},
		{"--socket_group", "root", NULL},
		{"--threads", "0", NULL},
		{"--local_hot_cache_size", "2TB", NULL},
		{"--tenant_id", "_system", NULL},
		{"--socket_path", "here.sock", NULL},
		{"--socket_path", too_long, NULL},
		{"--device_names", "mlx5_77", "--protocol", "rdma", "--port",
		 "0", NULL},
		{"--device_names", "rdmap77s0", "--protocol", "efa", "--port",
		 "0", NULL},
	};
	size_t i;

	(void)state;
	memset(too_long + 5, 'x', sizeof(too_long) - 6);
	for (i = 0; i < TEST_COUNT(bad); i++) {
		struct test_process *p =
			test_process_start("mooncake_client", bad[i]);
		const char *out;

		assert_int_equal(test_process_wait(p, END_MS), 2);
		out = test_process_output(p);
		assert_non_null(strstr(out, bad[i][0] + 2));
		assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
		test_process_end(p);
	}
}

static void a_port_in_use_is_one_line_and_2(void **state)
{
	const char *args[] = {"--port", NULL, NULL};
	struct test_process *p;
	const char *out;
	char text[16];
	uint16_t port;
	int fd;

	(void)state;
	fd = tei_listen(NULL, 0, "test", &port);
	assert_true(fd >= 0);
	(void)snprintf(text, sizeof(text), "%u", (unsigned int)port);
	args[1] = text;
	p = test_process_start("mooncake_client", args);
	assert_int_equal(test_process_wait(p, END_MS), 2);
	out = test_process_output(p);
	assert_non_null(strstr(out, text));
	assert_non_null(strstr(out, "in use"));
	assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
	test_process_end(p);
	(void)close(fd);
}

static void flags_without_meaning_are_named_once(void **state)
{
	const char *args[] = {"--port",
			      "0",
			      "--master_server_address",
			      NULL,
			      "--global_segment_size",
			      "1MB",
			      "--protocol=rdma",
			      "--metadata_server=P2PHANDSHAKE",
			      "--enable_offload=true",
			      "--tenant_id=default",
			      "--logtostderr",
			      "--log_dir=/tmp",
			      NULL};
	struct test_process *owner;
	const char *said;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	args[3] = pool.address;
	owner = test_process_start("mooncake_client", args);
	assert_non_null(test_process_line(owner, " serves ", POOL_START_MS));
	assert_non_null(strstr(test_process_output(owner), "no RDMA device"));
	said = strstr(test_process_output(owner), "without effect");
	assert_non_null(said);
	assert_null(strstr(said, "metadata_server")); /* it has one */
	assert_non_null(strstr(said, "enable_offload"));
	assert_non_null(strstr(said, "logtostderr"));
	assert_non_null(strstr(said, "log_dir"));
	assert_null(strstr(said, "tenant_id")); /* was given its default */
	assert_null(strstr(said + 1, "without effect"));
	ends_with_0(owner, SIGTERM);
	pool_stop(&pool);
}

/* An owner with these arguments, once it serves. */
static struct test_process *serving(const struct pool *pool,
				    const char *extra[3])
{
	const char *const args[] = {"--port=0",
				    "--metadata_server=P2PHANDSHAKE",
				    "--global_segment_size=1MB",
				    "--master_server_address",
				    pool->address,
				    extra[0],
				    extra[1],
				    extra[2],
				    NULL};
	struct test_process *owner =
		test_process_start("mooncake_client", args);

	assert_non_null(test_process_line(owner, " serves ", POOL_START_MS));
	return owner;
}

static void tcp_is_forced_by_the_environment(void **state)
{
	const char *rdma[3] = {"--protocol=rdma", "--device_name=mlx5_77"};
	struct test_process *owner;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	setenv("MC_FORCE_TCP", "1", 1);
	owner = serving(&pool, rdma);
	unsetenv("MC_FORCE_TCP");
	ends_with_0(owner, SIGTERM);
	pool_stop(&pool);
}

static void an_owner_that_other_hosts_cannot_reach_says_so(void **state)
{
	static const char words[] = "other hosts cannot reach";
	const char *named[3] = {"--insecure", "--host=127.0.0.1"};
	const char *unnamed[3] = {"--insecure"}, *closed[3] = {NULL};
	struct test_process *owner;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	owner = serving(&pool, unnamed);
	assert_non_null(strstr(test_process_output(owner), words));
	test_process_end(owner);
	owner = serving(&pool, named);
	assert_null(strstr(test_process_output(owner), words));
	test_process_end(owner);
	owner = serving(&pool, closed);
	assert_null(strstr(test_process_output(owner), words));
	test_process_end(owner);
	pool_stop(&pool);
}

static void help_names_the_settings(void **state)
{
	const char *const args[] = {"--help", NULL};
	struct test_process *p = test_process_start("mooncake_client", args);

	(void)state;
	assert_int_equal(test_process_wait(p, END_MS), 0);
	assert_non_null(strstr(test_process_output(p), "global_segment_size"));
	test_process_end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_ends_when_told),
		cmocka_unit_test(it_ends_when_told_without_a_master),
		cmocka_unit_test(it_says_when_it_waits_for_another_reason),
		cmocka_unit_test(it_waits_for_a_master_that_is_not_there_yet),
		cmocka_unit_test(bad_arguments_are_one_line_and_2),
		cmocka_unit_test(a_port_in_use_is_one_line_and_2),
		cmocka_unit_test(flags_without_meaning_are_named_once),
		cmocka_unit_test(tcp_is_forced_by_the_environment),
		cmocka_unit_test(
			an_owner_that_other_hosts_cannot_reach_says_so),
		cmocka_unit_test(help_names_the_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
