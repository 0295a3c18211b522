/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_users.c - another user of this host reaches nothing of a pool
 *
 * He is a process that is forked before anything else has started, and does
 * what he is told: he joins the pool, opens the engine of an owner, reads and
 * writes an object, or asks the master over HTTP. Only root can be somebody
 * else: for others the tests are skipped.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <te/te.h>

#include "tests/lib/dial.h"
#include "tests/lib/test.h"
#include "tests/lib/user.h"
#include "tests/store/pool.h"

#define LEN  1000
#define HERE "127.0.0.1"

enum what { JOIN, GET, PUT, OPEN, ASK };

struct order {
	enum what what;
	char text[200]; /* master, name of an engine, or an HTTP request */
	uint16_t port;  /* of HTTP */
};

struct answer {
	int64_t rc;
	uint8_t bytes[LEN];
	char text[1000];
};

/* ---- the other user ---- */

static int join(const char *master, struct te_store **store)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = 60000,
		.replica_timeout_ms = 60000,
		.setup_timeout_ms = 1000,
		.master = master,
	};

	return te_store_setup(&config, store);
}

static int open_engine(const char *name)
{
	struct te_engine *engine;
	te_segment_id segment;
	int rc = te_engine_create(NULL, HERE, &engine);

	if (rc)
		return 1;
	rc = te_segment_open(engine, name, 5000, &segment);
	te_engine_destroy(engine);
	return rc;
}

/* The status of an HTTP request; the whole answer is in @text. */
static int ask(uint16_t port, const char *request, char *text, size_t room)
{
	int fd = test_dial(port), status = 0;
	size_t n = 0;
	ssize_t got;

	(void)send(fd, request, strlen(request), MSG_NOSIGNAL);
	while (n + 1 < room && (got = recv(fd, text + n, room - 1 - n, 0)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(fd);
	(void)sscanf(text, "HTTP/1.1 %d", &status);
	return status;
}

static int64_t obey(const struct order *o, struct answer *a,
		    struct te_store **store)
{
	switch (o->what) {
	case JOIN:
		return join(o->text, store);
	case GET:
		return *store ? pool_get(*store, "a", a->bytes, LEN) : -1;
	case PUT:
		return *store ? pool_put(*store, "b", a->bytes, LEN) : -1;
	case OPEN:
		return open_engine(o->text);
	case ASK:
		return ask(o->port, o->text, a->text, sizeof(a->text));
	}
	return -1;
}

static void be_another(int orders)
{
	struct te_store *store = NULL;
	struct answer a;
	struct order o;

	while (read(orders, &o, sizeof(o)) == sizeof(o)) {
		memset(&a, 0, sizeof(a));
		a.rc = obey(&o, &a, &store);
		if (write(orders, &a, sizeof(a)) != sizeof(a))
			break;
	}
	te_store_close(store);
}

/* ---- the pool ---- */

struct world {
	struct pool pool;
	struct test_process *owner;
	struct te_store *member;
	pid_t other;
	int orders;
	uint16_t http;
	struct answer answer;
};

static struct world w;

static void start_other(void)
{
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	w.other = test_fork_as(TEST_USER_A);
	assert_true(w.other >= 0);
	if (!w.other) {
		close(pair[0]);
		be_another(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	w.orders = pair[0];
}

/* A pool with one object, and somebody else beside it. */
static void start(const char *allow_uids, const char *insecure)
{
	static const char *const seconds[] = {"--client_ttl=60", NULL};
	static const char line[] = "HTTP metrics server started on port ";
	uint8_t bytes[LEN];

	setenv("TE_BACKENDS", "tcp", 1); /* shm is the user's own anyhow */
	start_other();
	if (allow_uids)
		setenv("MOONCAKE_ALLOW_UIDS", allow_uids, 1);
	if (insecure)
		setenv("MOONCAKE_INSECURE", insecure, 1);
	pool_start(&w.pool, seconds);
	w.http = (uint16_t)atoi(
		strstr(test_process_line(w.pool.master, line, POOL_START_MS),
		       line) +
		strlen(line));
	w.owner = pool_owner(&w.pool, "4 MB");
	w.member = pool_client(&w.pool, 0);
	pool_fill(bytes, LEN, 1);
	assert_int_equal(pool_put(w.member, "a", bytes, LEN), 0);
}

static int stop(void **state)
{
	(void)state;
	if (!w.other)
		return 0;
	close(w.orders);
	(void)waitpid(w.other, NULL, 0);
	te_store_close(w.member);
	test_process_end(w.owner);
	pool_stop(&w.pool);
	unsetenv("MOONCAKE_ALLOW_UIDS");
	unsetenv("MOONCAKE_INSECURE");
	w = (struct world){.other = 0};
	return 0;
}

/* What the other user gets; the rest of it is in w.answer. */
static int64_t tell(enum what what, const char *text)
{
	struct order o = {.what = what, .port = w.http};

	(void)snprintf(o.text, sizeof(o.text), "%s", text);
	assert_int_equal(write(w.orders, &o, sizeof(o)), sizeof(o));
	assert_int_equal(
		recv(w.orders, &w.answer, sizeof(w.answer), MSG_WAITALL),
		sizeof(w.answer));
	return w.answer.rc;
}

static const char *engine_of_a(void)
{
	static struct te_store_replica replicas[POOL_REPLICAS];

	assert_int_equal(pool_replicas(w.member, "a", replicas), 1);
	return replicas[0].segment;
}

static void object_is_whole(void)
{
	uint8_t bytes[LEN];

	assert_int_equal(pool_get(w.member, "a", bytes, LEN), LEN);
	assert_true(pool_is_filled(bytes, LEN, 1));
}

#define REMOVE_ALL                                        \
	"POST /api/v1/remove_all?force=true HTTP/1.1\r\n" \
	"Host: localhost\r\nContent-Length: 0\r\n\r\n"
#define METRICS "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

static void another_user_is_no_member(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	start(NULL, NULL);
	assert_int_not_equal(tell(JOIN, w.pool.address), 0);
	assert_int_equal(tell(OPEN, engine_of_a()), -EACCES);
	object_is_whole();
	assert_non_null(strstr(test_process_output(w.pool.master),
			       "this is user 64998: add 64998"));
	assert_non_null(strstr(test_process_output(w.owner),
			       "this is user 64998: add 64998"));
}

static void another_user_reads_metrics_and_removes_nothing(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	start(NULL, NULL);
	assert_int_equal(tell(ASK, METRICS), 200);
	assert_int_equal(tell(ASK, REMOVE_ALL), 403);
	test_contains(w.answer.text, "application/json");
	test_contains(w.answer.text, "this is user 64998");
	object_is_whole();
	assert_int_equal(tell(ASK, METRICS), 200);
}

static void the_setting_makes_another_user_a_member(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	start("64998", NULL);
	assert_int_equal(tell(JOIN, w.pool.address), 0);
	assert_int_equal(tell(GET, ""), LEN);
	assert_true(pool_is_filled(w.answer.bytes, LEN, 1));
	assert_int_equal(tell(PUT, ""), 0);
	assert_int_equal(tell(OPEN, engine_of_a()), 0);
	assert_int_equal(tell(ASK, REMOVE_ALL), 200);
}

static void insecure_serves_everybody(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	start(NULL, "1");
	assert_int_equal(tell(JOIN, w.pool.address), 0);
	assert_int_equal(tell(GET, ""), LEN);
	assert_int_equal(tell(OPEN, engine_of_a()), 0);
	assert_int_equal(tell(ASK, REMOVE_ALL), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(another_user_is_no_member, stop),
		cmocka_unit_test_teardown(
			another_user_reads_metrics_and_removes_nothing, stop),
		cmocka_unit_test_teardown(
			the_setting_makes_another_user_a_member, stop),
		cmocka_unit_test_teardown(insecure_serves_everybody, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
