/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine.c - engines come and go without a trace */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/incarnation.h"
#include "base/net.h"
#include "te/control/control.h"
#include "te/control/peer.h"
#include "te/core/engine.h"
#include "te/region/group.h"
#include "tests/lib/faults.h"
#include "tests/lib/self.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

static bool are_few(void *arg)
{
	return test_threads() <= *(const unsigned int *)arg;
}

/*
 * One that was joined is listed until the kernel has done away with it; so a
 * number taken before may be too high, never too low.
 */
static void expect_no_more_threads(unsigned int n)
{
	if (!test_wait_until(are_few, &n, RIG_WAIT_MS))
		fail_msg("%u threads instead of %u", test_threads(), n);
}

static void come_and_go(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		te_engine_destroy(rig_engine(NULL));
}

static size_t bytes_in_use(void)
{
	return mallinfo2().uordblks;
}

static void thousand_engines_leave_no_fd_thread_or_byte(void **state)
{
	unsigned int fds, threads;
	size_t bytes;

	(void)state;
	/* What libraries keep for ever, and the allocator for the next time. */
	come_and_go(500);
	fds = test_fds_open();
	threads = test_threads();
	bytes = bytes_in_use();
	come_and_go(1000);
	assert_int_equal(test_fds_open(), fds);
	expect_no_more_threads(threads);
	/* Nothing that grows with their number: less than a byte each. */
	assert_true(bytes_in_use() < bytes + 1000);
}

/* Also a user of the region: create, register, move a byte, destroy. */
static int live(void)
{
	uint8_t memory[8192], local[1] = {7};
	struct te_region region = {
		.addr = memory, .length = sizeof(memory), .access = RIG_ANY};
	struct iovec piece = {local, 1};
	struct te_engine *engine;
	struct te_batch *batch;
	struct te_request request;
	te_segment_id segment;
	te_region_id id;
	int rc;

	rc = te_engine_create(NULL, NULL, &engine);
	if (rc)
		return rc;
	rc = te_region_add(engine, &region, &id);
	if (!rc)
		rc = te_segment_open(engine, te_engine_name(engine), 0,
				     &segment);
	if (!rc)
		rc = te_batch_create(engine, 4, &batch);
	if (!rc) {
		request = rig_request(segment, TE_WRITE, memory, &piece);
		request.timeout_ms = 2000;
		rc = te_batch_submit(batch, &request, 1);
		te_batch_wait(batch, RIG_WAIT_MS);
	}
	te_engine_destroy(engine);
	return rc;
}

static void failing_call_leaves_nothing(enum tei_fault kind)
{
	unsigned int fds, threads, n = 0;
	int rc;

	assert_int_equal(live(), 0);
	fds = test_fds_open();
	threads = test_threads();
	for (struct test_faults f = {.kind = kind}; test_faults_next(&f);) {
		rc = live();
		assert_true(rc == 0 || rc == -ENOMEM || rc == -EMFILE ||
			    rc == -EAGAIN || rc == -EIO);
		assert_int_equal(test_fds_open(), fds);
		expect_no_more_threads(threads);
		n++;
	}
	assert_true(n > 2);
}

static void any_failing_allocation_leaves_nothing(void **state)
{
	(void)state;
	failing_call_leaves_nothing(TEI_FAULT_ALLOC);
}

static void any_failing_socket_leaves_nothing(void **state)
{
	(void)state;
	failing_call_leaves_nothing(TEI_FAULT_SOCKET);
}

static void any_failing_thread_leaves_nothing(void **state)
{
	(void)state;
	failing_call_leaves_nothing(TEI_FAULT_THREAD);
}

static void name_has_the_port_that_was_bound(void **state)
{
	struct te_engine *engine = rig_engine(NULL);
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;

	(void)state;
	assert_int_equal(tei_name_split(te_engine_name(engine), host, &port),
			 0);
	assert_string_equal(host, "127.0.0.1");
	assert_true(port);
	te_engine_destroy(engine);
}

static void taken_port_and_bad_names_are_refused(void **state)
{
	struct te_engine *engine = rig_engine(NULL), *other = NULL;

	(void)state;
	te_log_set_level(-1);
	assert_int_equal(te_engine_create(NULL, te_engine_name(engine), &other),
			 -EADDRINUSE);
	assert_int_equal(te_engine_create(NULL, "host:70000", &other), -EINVAL);
	assert_int_equal(te_engine_create(NULL, "", &other), -EINVAL);
	assert_int_equal(te_engine_create(NULL, "[::1", &other), -EINVAL);
	assert_null(other);
	te_log_set_level(1);
	te_engine_destroy(engine);
}

static void name_that_was_freed_can_be_taken_again(void **state)
{
	char name[TE_NAME_LEN_MAX + 1];
	uint8_t one[TE_INCARNATION_LEN], two[TE_INCARNATION_LEN];
	struct te_engine *engine = rig_engine(NULL);

	(void)state;
	snprintf(name, sizeof(name), "%s", te_engine_name(engine));
	te_engine_incarnation(engine, one);
	te_engine_destroy(engine);
	assert_int_equal(te_engine_create(NULL, name, &engine), 0);
	assert_string_equal(te_engine_name(engine), name);
	te_engine_incarnation(engine, two);
	assert_memory_not_equal(one, two, TE_INCARNATION_LEN);
	te_engine_destroy(engine);
}

static void incarnation_is_of_the_secret(void **state)
{
	uint8_t secret[TE_ENGINE_SECRET_LEN], other[TE_ENGINE_SECRET_LEN];
	uint8_t life[TE_INCARNATION_LEN], made[TE_INCARNATION_LEN];
	struct te_engine *engine = rig_engine(NULL), *second = rig_engine(NULL);

	(void)state;
	te_engine_secret(engine, secret);
	te_engine_incarnation(engine, life);
	assert_int_equal(tei_incarnation(secret, made), 0);
	assert_memory_equal(made, life, sizeof(life));
	te_engine_secret(second, other);
	assert_memory_not_equal(secret, other, sizeof(secret));
	te_engine_destroy(second);
	te_engine_destroy(engine);
}

/* In the child only this: the calls return, nothing is shut down. */
static void in_child(struct te_engine *engine, struct te_batch *batch)
{
	struct te_batch *other;
	te_segment_id segment;
	void *addr;
	int ok;

	ok = te_batch_create(engine, 1, &other) == -ESTALE &&
	     te_memory_alloc(engine, 1, &addr) == -ESTALE &&
	     te_segment_open(engine, "127.0.0.1:1", 10, &segment) == -ESTALE &&
	     te_batch_wait(batch, 10) == -ESTALE;
	te_batch_destroy(batch);
	te_engine_destroy(engine);
	_exit(ok ? 0 : 1);
}

static char last_line[512];

static void keep_line(int level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	(void)snprintf(last_line, sizeof(last_line), "%s", line);
}

/* Returns what te_engine_create() does with TE_BACKENDS; keeps its line. */
static int create_with(const char *backends)
{
	struct te_engine *engine;
	int rc;

	setenv("TE_BACKENDS", backends, 1);
	last_line[0] = '\0';
	rc = te_engine_create(NULL, NULL, &engine);
	if (!rc)
		te_engine_destroy(engine);
	unsetenv("TE_BACKENDS");
	return rc;
}

static void an_unknown_backend_is_refused_with_those_there_are(void **state)
{
	(void)state;
	te_log_set(keep_line, NULL);
	assert_int_equal(create_with("auto"), 0);
	assert_int_equal(create_with("tcp, shm"), 0);
	assert_int_equal(create_with("tcp,tpc"), -EINVAL);
	test_contains(last_line, "(environment TE_BACKENDS): ");
	test_contains(last_line, "there is no \"tpc\"; there are auto, ");
	test_contains(last_line, ", shm, ");
	assert_int_equal(create_with("auto,tcp"), -EINVAL);
	test_contains(last_line, "\"auto,tcp\": auto stands alone");
	assert_int_equal(create_with("tc"), -EINVAL);
	assert_int_equal(create_with("tcpx"), -EINVAL);
	te_log_set(NULL, NULL);
}

static void an_empty_entry_of_the_backends_is_refused(void **state)
{
	static const char *const lists[] = {"shm,,tcp", ",tcp", "tcp,",
					    "tcp, ",    ",",    " "};

	(void)state;
	te_log_set(keep_line, NULL);
	for (size_t i = 0; i < TEST_COUNT(lists); i++) {
		assert_int_equal(create_with(lists[i]), -EINVAL);
		test_contains(last_line, lists[i]);
		test_contains(last_line, "empty entry; there are auto, ");
	}
	assert_int_equal(create_with(" tcp ,shm "), 0);
	assert_int_equal(create_with("tcp shm"), -EINVAL);
	te_log_set(NULL, NULL);
}

static void handles_are_dead_in_a_fork_child(void **state)
{
	struct te_engine *engine = rig_engine(NULL);
	struct te_batch *batch;
	uint8_t memory[64];
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(te_batch_create(engine, 1, &batch), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		in_child(engine, batch);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rig_region(engine, memory, sizeof(memory), RIG_ANY); /* still ours */
	te_engine_destroy(engine);
}

static void stats_are_told_with_their_number(void **state)
{
	struct te_engine *engine = rig_engine(NULL);
	struct te_stat one, all[512];
	size_t n = 0, some, n_wakeups = 0;

	(void)state;
	assert_int_equal(te_engine_stats(engine, NULL, &n), 0);
	assert_true(n > 10);
	some = 1;
	assert_int_equal(te_engine_stats(engine, &one, &some), 0);
	assert_int_equal(some, n);
	assert_non_null(one.name);
	assert_true(some < TEST_COUNT(all));
	assert_int_equal(te_engine_stats(engine, all, &some), 0);
	for (size_t i = 0; i < some; i++)
		n_wakeups += !strcmp(all[i].name, "te_wakeup_ns");
	assert_int_equal(n_wakeups, 1);
	assert_string_equal(te_rail_name(engine, 9999), "");
	assert_string_not_equal(te_rail_name(engine, 0), "");
	te_engine_destroy(engine);
}

static void close_peer(void *arg)
{
	struct tei_peer *peer = arg;

	peer->engine->control->closed = true;
	tei_peer_close(peer);
}

static bool has_lost_an_endpoint(void *engine)
{
	return test_stat(engine, "te_endpoints_down_total", NULL) > 0;
}

/* The rails are still driven when control has closed all connections. */
static void endpoint_opened_while_the_engine_ends_asks_nobody(void **state)
{
	static uint8_t remote[64], local[64];
	struct te_engine *owner = rig_engine(NULL), *user = rig_engine(NULL);
	struct iovec piece = {local, sizeof(local)};
	struct te_request request;
	struct te_batch *batch;
	struct tei_peer *peer;
	te_segment_id segment;

	(void)state;
	rig_region(owner, remote, sizeof(remote), RIG_ANY);
	segment = rig_segment(user, owner);
	assert_int_equal(tei_peer_get(user, te_engine_name(owner), &peer), 0);
	assert_true(tei_loop_do(user->loop, close_peer, peer));
	request = rig_request(segment, TE_WRITE, remote, &piece);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &request, 1), 0);
	assert_true(test_wait_until(has_lost_an_endpoint, user, RIG_WAIT_MS));
	te_engine_destroy(user);
	te_engine_destroy(owner);
}

static void every_error_has_words(void **state)
{
	(void)state;
	for (int error = 0; error < 134; error++)
		assert_true(strlen(te_strerror(-error)) > 3);
	assert_string_equal(te_strerror(-12345), "unknown error");
	assert_non_null(strstr(te_strerror(-EHOSTUNREACH), "no such host"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thousand_engines_leave_no_fd_thread_or_byte),
		cmocka_unit_test(any_failing_allocation_leaves_nothing),
		cmocka_unit_test(any_failing_socket_leaves_nothing),
		cmocka_unit_test(any_failing_thread_leaves_nothing),
		cmocka_unit_test(name_has_the_port_that_was_bound),
		cmocka_unit_test(taken_port_and_bad_names_are_refused),
		cmocka_unit_test(incarnation_is_of_the_secret),
		cmocka_unit_test(name_that_was_freed_can_be_taken_again),
		cmocka_unit_test(
			an_unknown_backend_is_refused_with_those_there_are),
		cmocka_unit_test(an_empty_entry_of_the_backends_is_refused),
		cmocka_unit_test(handles_are_dead_in_a_fork_child),
		cmocka_unit_test(stats_are_told_with_their_number),
		cmocka_unit_test(
			endpoint_opened_while_the_engine_ends_asks_nobody),
		cmocka_unit_test(every_error_has_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
