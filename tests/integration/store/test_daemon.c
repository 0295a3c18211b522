/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_daemon.c - a daemon as its host sees it: where it is found, what it
 * keeps, what its HTTP port says, what is left of it
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/net.h"
#include "tests/integration/store/daemon.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define LEN 4096u

static struct te_store *dummy_at(const char *where)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = DAEMON_END_MS,
		.replica_timeout_ms = DAEMON_END_MS,
		.setup_timeout_ms = POOL_START_MS,
		.daemon = where,
		.pool_bytes = 1u << 20,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

static void is_served_at(const char *where)
{
	uint8_t from[LEN], to[LEN];
	struct te_store *store = dummy_at(where);

	daemon_put_and_get(store, from, to, LEN);
	te_store_close(store);
}

/* "127.0.0.1:PORT", where it can be asked. */
static const char *port_name(const struct daemon *d, char out[32])
{
	(void)snprintf(out, 32, "127.0.0.1:%u", (unsigned int)d->port);
	return out;
}

static void a_socket_anywhere_is_found_by_the_port(void **state)
{
	struct daemon d = {.http = 0};
	char name[32];

	(void)state;
	daemon_start(&d);
	is_served_at(port_name(&d, name));
	daemon_await(&d, "te_agent_calls_total{call=\"where\"} 1\n");
	is_served_at(d.socket);
	daemon_await(&d, "te_agent_calls_total{call=\"where\"} 1\n");
	daemon_stop(&d);
}

static int connect_port(const struct daemon *d)
{
	struct tei_address to;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(tei_resolve_numeric("127.0.0.1", d->port, &to), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to.ss, to.len), 0);
	return fd;
}

static void nothing_else_is_to_be_had_at_the_port(void **state)
{
	/* An existence check, a question with a body, and nonsense. */
	static const uint8_t frames[][18] = {
		{2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x18, 1},
		{0, 1, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 12, 0, 0, 0x80, 1},
	};
	struct daemon d = {.http = 0};
	char answer[256], name[32];

	(void)state;
	daemon_start(&d);
	for (size_t i = 0; i < TEST_COUNT(frames); i++) {
		int fd = connect_port(&d);
		assert_int_equal(
			send(fd, frames[i], sizeof(frames[i]), MSG_NOSIGNAL),
			sizeof(frames[i]));
		/* A refusal in words at most, then the end. */
		while (recv(fd, answer, sizeof(answer), 0) > 0)
			assert_int_not_equal(answer[4], 12);
		(void)close(fd);
	}
	daemon_await(&d, "te_agent_faults_total{reason=\"malformed\"} 1\n");
	daemon_await(&d, "te_agent_faults_total{reason=\"too_long\"} 1\n");
	daemon_await(&d, "te_agent_faults_total{reason=\"bad_type\"} 1\n");
	is_served_at(port_name(&d, name));
	daemon_stop(&d);
}

/* ---- where it lies ---- */

/* Engines have theirs in there, too. */
static unsigned int n_sockets(const char *dir)
{
	DIR *entries = opendir(dir);
	struct dirent *entry;
	unsigned int n = 0;

	while (entries && (entry = readdir(entries)))
		n += !strncmp(entry->d_name, "client-", 7);
	if (entries)
		(void)closedir(entries);
	return n;
}

static void start_in_runtime_dir(struct daemon *d, const char *port)
{
	const char *const args[] = {"--port",
				    port,
				    "--host",
				    "127.0.0.1",
				    "--master_server_address",
				    d->pool.address,
				    "--global_segment_size",
				    "16 MB",
				    DAEMON_PATIENT,
				    NULL};
	const char *line;

	d->process = test_process_start("mooncake_client", args);
	line = test_process_line(d->process, "announced on port ",
				 POOL_START_MS);
	assert_non_null(line);
	d->port = (uint16_t)atoi(strstr(line, "port ") + 5);
	assert_non_null(
		test_process_line(d->process, " serves ", POOL_START_MS));
}

static void a_daemon_that_was_killed_leaves_nothing_in_the_way(void **state)
{
	char dir[TEST_PATH_MAX + 8], name[32], port[16];
	struct daemon d = {.http = 0};
	struct stat st;

	(void)state;
	pool_start(&d.pool, pool_patient);
	test_tmpdir_create(d.dir);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", d.dir, 1), 0);
	(void)snprintf(dir, sizeof(dir), "%s/te", d.dir);
	(void)snprintf(port, sizeof(port), "0");
	for (int i = 0; i < 3; i++) {
		start_in_runtime_dir(&d, port);
		(void)snprintf(port, sizeof(port), "%u", (unsigned int)d.port);
		assert_int_equal(stat(dir, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0700);
		assert_int_equal(n_sockets(dir), 1);
		is_served_at(port_name(&d, name));
		test_process_signal(d.process, SIGKILL);
		test_process_end(d.process);
	}
	assert_int_equal(n_sockets(dir), 1);
	start_in_runtime_dir(&d, port);
	test_process_signal(d.process, SIGTERM);
	assert_int_equal(test_process_wait(d.process, DAEMON_END_MS), 0);
	assert_int_equal(n_sockets(dir), 0);
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	daemon_stop(&d);
}

static void dummies_are_told_when_it_ends_in_the_middle_of_calls(void **state)
{
	struct daemon d = {.http = 0};
	const char *const args[] = {d.socket, "put", "7", "4194304", NULL};
	struct test_process *p[3];

	(void)state;
	daemon_start(&d);
	for (size_t i = 0; i < TEST_COUNT(p); i++) {
		p[i] = test_process_start("store_dummy", args);
		assert_non_null(
			test_process_line(p[i], "round", POOL_START_MS));
	}
	test_process_signal(d.process, SIGTERM);
	assert_int_equal(test_process_wait(d.process, DAEMON_END_MS), 0);
	for (size_t i = 0; i < TEST_COUNT(p); i++) {
		assert_non_null(
			test_process_line(p[i], "failed", DAEMON_END_MS));
		assert_int_equal(test_process_wait(p[i], DAEMON_END_MS), 1);
		test_process_end(p[i]);
	}
	daemon_stop(&d);
}

/* ---- what it keeps ---- */

static void what_its_dummies_read_often_is_kept_for_all_of_them(void **state)
{
	struct daemon d = {.http = 0,
			   .more = {"--local_hot_cache_size=16MB", NULL}};
	struct te_store_replicate how = pool_several(1);
	struct te_store *owner, *first, *second;
	const char *preferred[1];
	uint8_t bytes[LEN], room[LEN];

	(void)state;
	daemon_start(&d);
	owner = pool_client(&d.pool, 16u << 20);
	preferred[0] = te_store_hostname(owner);
	how.preferred_segments = preferred;
	how.n_preferred_segments = 1;
	pool_fill(bytes, LEN, 1);
	assert_int_equal(pool_put_as(owner, "often", bytes, LEN, &how), 0);
	first = dummy_at(d.socket);
	second = dummy_at(d.socket);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pool_get(first, "often", room, LEN), LEN);
	daemon_await(&d, "te_store_hot_added_total 1\n");
	memset(room, 0, LEN);
	assert_int_equal(pool_get(second, "often", room, LEN), LEN);
	assert_true(pool_is_filled(room, LEN, 1));
	daemon_await(&d, "te_store_hot_hits_total 1\n");
	te_store_close(second);
	te_store_close(first);
	te_store_close(owner);
	daemon_stop(&d);
}

static void places_are_remembered_for_its_dummies(void **state)
{
	struct daemon d = {.http = 0, .more = {"--location_cache=10", NULL}};
	struct te_store *first, *second;
	uint8_t bytes[LEN], room[LEN];

	(void)state;
	daemon_start(&d);
	first = dummy_at(d.socket);
	second = dummy_at(d.socket);
	pool_fill(bytes, LEN, 1);
	assert_int_equal(pool_put(first, "place", bytes, LEN), 0);
	assert_int_equal(pool_get(first, "place", room, LEN), LEN);
	assert_int_equal(pool_get(second, "place", room, LEN), LEN);
	assert_true(pool_is_filled(room, LEN, 1));
	daemon_await(&d, "te_store_location_hits_total 1\n");
	daemon_await(&d, "te_store_location_misses_total 1\n");
	te_store_close(second);
	te_store_close(first);
	daemon_stop(&d);
}

static void buffers_of_dummies_that_are_killed_come_back(void **state)
{
	struct daemon d = {.http = 0,
			   .more = {"--local_buffer_size=64MB", NULL}};
	const char *const args[] = {d.socket, "buffer", "1", "4194304", NULL};
	uint8_t *bytes = malloc(4u << 20);
	struct te_store_buffer *buffer;
	struct te_store_key key = pool_key("common");
	struct te_store *store;
	int64_t result;

	(void)state;
	assert_non_null(bytes);
	daemon_start(&d);
	store = dummy_at(d.socket);
	pool_fill(bytes, 4u << 20, 1);
	assert_int_equal(pool_put(store, "common", bytes, 4u << 20), 0);
	/* Each has 8 MiB: what the dead had is given out anew. */
	for (int i = 0; i < 10; i++) {
		struct test_process *p =
			test_process_start("store_dummy", args);

		for (int k = 0; k < 3; k++)
			assert_non_null(
				test_process_line(p, "round", POOL_START_MS));
		test_process_signal(p, SIGKILL);
		test_process_end(p);
	}
	daemon_await(&d, "te_agent_buffer_bytes 0\n");
	assert_int_equal(te_store_get_buffers(store, &key, 1, &buffer, &result),
			 1);
	assert_true(pool_is_filled(te_store_buffer_data(buffer), 4u << 20, 1));
	daemon_await(&d, "te_agent_buffer_bytes 4194304\n");
	te_store_buffer_free(buffer);
	te_store_close(store);
	daemon_await(&d, "te_agent_buffer_bytes 0\n");
	daemon_await(&d, "te_agent_dummies 0\n");
	/* Who leaves has not died. */
	daemon_await(&d, "te_agent_died_dummies_total 10\n");
	free(bytes);
	daemon_stop(&d);
}

/* ---- HTTP ---- */

static void its_http_port_answers_what_it_knows(void **state)
{
	static const struct {
		const char *path, *status, *has;
	} cases[] = {
		{"/health", " 200 ", "OK"},
		{"/metrics", " 200 ", "te_agent_healthy 1\n"},
		{"/metrics", " 200 ", "# TYPE mooncake_transfer_read_bytes "},
		{"/metrics/summary", " 200 ", "Client Metrics: healthy"},
		{"/health?x=1", " 200 ", "OK"},
		{"/", " 404 ", ""},
		{"/metrics/", " 404 ", ""},
		{"/api/get/x", " 404 ", ""},
	};
	struct daemon d = {.http = 0};
	static char text[32768];

	(void)state;
	daemon_start(&d);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		daemon_http(&d, cases[i].path, text, sizeof(text));
		assert_non_null(strstr(text, cases[i].status));
		assert_non_null(strstr(text, cases[i].has));
	}
	pool_kill(&d.pool);
	daemon_await(&d, "te_agent_healthy 0\n");
	daemon_http(&d, "/health", text, sizeof(text));
	assert_non_null(strstr(text, " 503 "));
	test_process_end(d.process);
	test_tmpdir_remove(d.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_socket_anywhere_is_found_by_the_port),
		cmocka_unit_test(nothing_else_is_to_be_had_at_the_port),
		cmocka_unit_test(
			a_daemon_that_was_killed_leaves_nothing_in_the_way),
		cmocka_unit_test(
			dummies_are_told_when_it_ends_in_the_middle_of_calls),
		cmocka_unit_test(
			what_its_dummies_read_often_is_kept_for_all_of_them),
		cmocka_unit_test(places_are_remembered_for_its_dummies),
		cmocka_unit_test(buffers_of_dummies_that_are_killed_come_back),
		cmocka_unit_test(its_http_port_answers_what_it_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
