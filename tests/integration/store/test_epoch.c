/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_epoch.c - epochs that strangers make up: no get returns an old value, no
 * put under way fails, and no owner has to give up what it has
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/lib/wall.h"
#include "tests/store/pool.h"

#define MIB   ((uint64_t)1 << 20)
#define LARGE 8192u

static const char *const insecure[] = {"--client_ttl", "100s", "--insecure",
				       NULL};

/* ---- a stranger, who only says hello ---- */

#define NOT_NOW 1 /* not answered, but to come again */

/* Returns the status of a hello that names @epoch, or NOT_NOW; *@is: the
 * master's, when it is 0. */
static int32_t claim_at(const struct pool *pool, uint8_t who, uint64_t epoch,
			uint64_t *is)
{
	struct master m = {
		.rpc = (uint16_t)atoi(strchr(pool->address, ':') + 1)};
	struct caller *c = caller_open(&m);
	Store__HelloReply *reply;
	int32_t status = NOT_NOW;

	caller_epoch = epoch;
	reply = caller_hello(c, who, false);
	caller_epoch = 0;
	if (reply)
		status = reply->status;
	else
		assert_true(caller_wait_down(c));
	if (!reply)
		assert_non_null(strstr(caller_text(c), "later epoch"));
	if (!status)
		*is = reply->epoch;
	caller_free(reply);
	caller_close(c);
	return status;
}

static int32_t claim(const struct pool *pool, uint8_t who, uint64_t epoch)
{
	uint64_t is;

	return claim_at(pool, who, epoch, &is);
}

/* ---- an old value does not come back ---- */

struct value {
	struct te_store *client;
	const char *key;
	uint64_t id; /* of its bytes */
};

static bool is_put(void *arg)
{
	const struct value *v = arg;
	uint8_t bytes[LARGE];

	pool_fill(bytes, LARGE, v->id);
	return pool_put(v->client, v->key, bytes, LARGE) == 0;
}

static bool is_got(void *arg)
{
	const struct value *v = arg;
	uint8_t bytes[LARGE];

	return pool_get(v->client, v->key, bytes, LARGE) == LARGE &&
	       pool_is_filled(bytes, LARGE, v->id);
}

/*
 * The old value is put after the attack. Its owner is stopped, and the new one
 * is put at a master that knows nothing of either; the third is offered both.
 */
static void play(const char *const *args, uint64_t epoch)
{
	struct value old = {.key = "k", .id = 1}, new = {.key = "k", .id = 2};
	struct value mark = {.key = "mark", .id = 3};
	struct test_process *a, *b;
	struct pool pool;

	pool_start(&pool, args);
	old.client = new.client = mark.client = pool_client(&pool, 0);
	(void)claim(&pool, 1, epoch);
	a = pool_owner(&pool, "2 MB");
	pool_await_capacity(old.client, 2 * MIB);
	assert_true(test_wait_until(is_put, &old, POOL_START_MS));
	assert_true(test_wait_until(is_put, &mark, POOL_START_MS));
	test_process_signal(a, SIGSTOP);
	pool_kill(&pool);
	pool_restart(&pool, args);
	b = pool_owner(&pool, "2 MB");
	assert_true(test_wait_until(is_put, &new, POOL_START_MS));
	assert_true(is_got(&new));
	pool_kill(&pool);
	pool_restart(&pool, args);
	assert_true(test_wait_until(is_got, &new, POOL_START_MS));
	test_process_signal(a, SIGCONT);
	/* What else it has is there: so it has been heard about the key. */
	pool_await_capacity(old.client, 4 * MIB);
	assert_true(test_wait_until(is_got, &mark, POOL_START_MS));
	assert_true(is_got(&new));
	te_store_close(old.client);
	test_process_end(a);
	test_process_end(b);
	pool_stop(&pool);
}

static void an_old_value_does_not_come_back(void **state)
{
	(void)state;
	play(pool_patient, (UINT64_C(1) << 63) - 3);
}

static void nor_does_it_where_anybody_may_come(void **state)
{
	(void)state;
	play(insecure, UINT64_C(1) << 61);
}

static bool is_over(void *until_ns)
{
	return tei_now_ns() >= *(const uint64_t *)until_ns;
}

static bool is_removed(void *arg)
{
	const struct value *v = arg;
	struct te_store_key key = pool_key(v->key);
	int code = 1;

	(void)te_store_remove(v->client, &key, 1, 1, &code);
	return code == 0 || code == TE_STORE_OBJECT_NOT_FOUND;
}

/* A master comes and goes while the value's owner is stopped: only that one
 * knows that the key was removed. */
static void what_was_removed_meanwhile_does_not_come_back(void **state)
{
	static const char *const hurried[] = {"--client_ttl", "1s", NULL};
	struct value v = {.key = "k", .id = 1};
	struct test_process *owner;
	struct pool pool;
	uint64_t until;

	(void)state;
	pool_start(&pool, hurried);
	v.client = pool_client(&pool, 0);
	owner = pool_owner(&pool, "2 MB");
	assert_true(test_wait_until(is_put, &v, POOL_START_MS));
	test_process_signal(owner, SIGSTOP);
	until = tei_now_ns() + 3 * TEI_NS_PER_S;
	pool_kill(&pool);
	pool_restart(&pool, hurried);
	assert_true(test_wait_until(is_removed, &v, POOL_START_MS));
	pool_kill(&pool);
	assert_true(test_wait_until(is_over, &until, POOL_START_MS));
	pool_restart(&pool, hurried);
	test_process_signal(owner, SIGCONT);
	assert_non_null(
		test_process_line(owner, "given up: 1 ", POOL_START_MS));
	pool_await_capacity(v.client, 2 * MIB);
	assert_false(is_got(&v));
	assert_true(test_wait_until(is_put, &v, POOL_START_MS));
	te_store_close(v.client);
	test_process_end(owner);
	pool_stop(&pool);
}

/* ---- puts go on while epochs are made up ---- */

#define CLAIMS      200u
#define CLAIMS_FULL 4000u
#define RAISE_NS    (5 * TEI_NS_PER_S) /* from one raise to the next */

struct putting {
	struct te_store *client;
	atomic_bool stop;
	atomic_uint n, n_failed, n_large;
	unsigned int goal;
};

static void *put_all_the_time(void *arg)
{
	struct putting *p = arg;
	uint8_t bytes[LARGE];
	char key[32];

	pool_fill(bytes, LARGE, 1);
	while (!atomic_load(&p->stop)) {
		unsigned int i = atomic_fetch_add(&p->n, 1);

		(void)snprintf(key, sizeof(key), "put/%u", i);
		if (pool_put(p->client, key, bytes, LARGE))
			atomic_fetch_add(&p->n_failed, 1);
	}
	return NULL;
}

/* So large that the epoch grows while one is written. */
static void *upsert_all_the_time(void *arg)
{
	const struct te_store_key key = pool_key("large");
	struct putting *p = arg;
	struct iovec piece = {calloc(1, 4 * MIB), 4 * MIB};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	int code;

	assert_non_null(piece.iov_base);
	while (!atomic_load(&p->stop)) {
		if (te_store_upsert(p->client, &key, &value, 1, NULL, &code))
			atomic_fetch_add(&p->n_failed, 1);
		atomic_fetch_add(&p->n_large, 1);
	}
	free(piece.iov_base);
	return NULL;
}

static unsigned int count_in(const char *text, const char *word)
{
	unsigned int n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

/* Two more puts have ended, and so one that began meanwhile. */
static bool goes_on(void *arg)
{
	struct putting *p = arg;

	return atomic_load(&p->n) >= p->goal;
}

/* Claims a later epoch than *@epoch. True: the master has gone above it. */
static bool claim_once_more(const struct pool *pool, unsigned int i,
			    uint64_t *epoch)
{
	uint64_t is = 0;
	int32_t status = claim_at(pool, (uint8_t)(i % 4), *epoch + 1000, &is);

	assert_true(status == 0 || status == NOT_NOW);
	if (is <= *epoch)
		return false;
	*epoch = is;
	return true;
}

/* Claims later and later epochs while somebody puts. */
static void claim_under_load(const char *const *args)
{
	const char *form = getenv("TE_TEST_ATTACKS");
	unsigned int n = form && !strcmp(form, "full") ? CLAIMS_FULL : CLAIMS;
	uint64_t epoch = UINT64_C(1) << 60, since = tei_now_ns();
	unsigned int n_raised = 0;
	struct putting p = {.n = 0};
	struct te_store *owner;
	pthread_t small, large;
	struct pool pool;

	pool_start(&pool, args);
	owner = pool_client(&pool, 32 * MIB);
	p.client = pool_client(&pool, 0);
	assert_int_equal(pthread_create(&small, NULL, put_all_the_time, &p), 0);
	assert_int_equal(pthread_create(&large, NULL, upsert_all_the_time, &p),
			 0);
	for (unsigned int i = 0; i < n; i++) {
		n_raised += claim_once_more(&pool, i, &epoch);
		p.goal = atomic_load(&p.n) + 2;
		assert_true(test_wait_until(goes_on, &p, POOL_START_MS));
	}
	atomic_store(&p.stop, true);
	assert_int_equal(pthread_join(small, NULL), 0);
	assert_int_equal(pthread_join(large, NULL), 0);
	print_message("%u claims, %u raises, %u puts, %u large ones\n", n,
		      n_raised, atomic_load(&p.n), atomic_load(&p.n_large));
	assert_true(atomic_load(&p.n) > 0 && atomic_load(&p.n_large) > 0);
	assert_int_equal(atomic_load(&p.n_failed), 0);
	assert_true(n_raised <= 2 + (tei_now_ns() - since) / RAISE_NS);
	/* Some a minute; and no new session of anybody. */
	assert_true(count_in(test_process_output(pool.master), "epoch") <= 24);
	assert_int_equal(te_store_health(owner), 0);
	te_store_close(p.client);
	te_store_close(owner);
	pool_stop(&pool);
}

struct claimed {
	const struct pool *pool;
	uint64_t epoch;
};

static bool is_let_in(void *arg)
{
	const struct claimed *c = arg;

	return claim(c->pool, 1, c->epoch) == 0;
}

/* Who knows of a later epoch waits for its end. */
static void a_put_in_parts_ends_though_the_epoch_grows(void **state)
{
	const struct te_store_key key = pool_key("k");
	uint8_t bytes[LARGE];
	struct te_store_range range = {.addr = bytes, .length = LARGE};
	const uint64_t size = LARGE;
	struct claimed later = {.epoch = UINT64_C(1) << 60};
	struct value v = {.key = "k", .id = 1};
	struct pool pool;
	int64_t written;
	int code;

	(void)state;
	pool_start(&pool, pool_patient);
	later.pool = &pool;
	v.client = pool_client(&pool, MIB);
	pool_fill(bytes, LARGE, v.id);
	assert_int_equal(
		te_store_put_open(v.client, &key, &size, 1, NULL, &code), 0);
	assert_int_equal(claim(&pool, 1, later.epoch), NOT_NOW);
	assert_int_equal(
		te_store_put_ranges(v.client, &key, 1, &range, 1, &written), 1);
	assert_int_equal(claim(&pool, 1, later.epoch), NOT_NOW);
	assert_int_equal(te_store_put_commit(v.client, &key, 1, &code), 0);
	assert_true(test_wait_until(is_let_in, &later, POOL_START_MS));
	assert_true(is_got(&v));
	te_store_close(v.client);
	pool_stop(&pool);
}

static void puts_go_on_while_members_know_later_epochs(void **state)
{
	(void)state;
	claim_under_load(pool_patient);
}

static void puts_go_on_while_strangers_make_epochs_up(void **state)
{
	(void)state;
	claim_under_load(insecure);
}

static void what_cannot_be_is_refused_with_words(void **state)
{
	struct value v = {.key = "k", .id = 1};
	struct te_store *owner;
	struct pool pool;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = v.client = pool_client(&pool, MIB);
	assert_int_equal(claim(&pool, 1, (UINT64_C(1) << 62) + 1), -600);
	assert_int_equal(claim(&pool, 1, UINT64_MAX), -600);
	assert_int_equal(claim(&pool, 1, (UINT64_C(1) << 63) - 3), -600);
	assert_null(strstr(test_process_output(pool.master), "epoch raised"));
	assert_int_equal(claim(&pool, 1, UINT64_C(1) << 62), 0);
	/* That is proven from now on, and the next master goes on above it. */
	assert_true(test_wait_until(is_put, &v, POOL_START_MS));
	pool_kill(&pool);
	pool_restart(&pool, pool_patient);
	assert_true(test_wait_until(is_got, &v, POOL_START_MS));
	te_store_close(owner);
	pool_stop(&pool);
}

/* The next one has another key: it takes no such number from anybody. */
static void who_is_far_ahead_of_another_key_is_served(void **state)
{
	char dir[TEST_PATH_MAX], key[TEST_PATH_MAX + 16];
	const char *const args[] = {"--client_ttl", "100s", "--epoch_key_file",
				    key, NULL};
	struct value v = {.key = "k", .id = 1};
	struct test_process *owner;
	struct pool pool;

	(void)state;
	test_tmpdir_create(dir);
	(void)snprintf(key, sizeof(key), "%s/epoch.key", dir);
	pool_start(&pool, args);
	owner = pool_owner(&pool, "2 MB");
	v.client = pool_client(&pool, 0);
	assert_int_equal(claim(&pool, 1, UINT64_C(1) << 62), 0);
	assert_true(test_wait_until(is_put, &v, POOL_START_MS));
	pool_kill(&pool);
	assert_int_equal(unlink(key), 0);
	pool_restart(&pool, args);
	assert_non_null(
		test_process_line(owner, "given up: 1 ", POOL_START_MS));
	assert_true(test_wait_until(is_put, &v, POOL_START_MS));
	assert_true(is_got(&v));
	te_store_close(v.client);
	test_process_end(owner);
	pool_stop(&pool);
	test_tmpdir_remove(dir);
}

/* ---- a master whose clock has gone back, where anybody may come ---- */

struct shifted {
	struct test_wall wall;
	char dir[TEST_PATH_MAX], key[TEST_PATH_MAX + 16];
	const char *args[8];
	struct pool pool;
	struct test_process *owner;
	struct value value;
};

/* A master that is a day ahead, and an owner with a value. */
static void shifted_start(struct shifted *w)
{
	*w = (struct shifted){.value = {.key = "k", .id = 1}};
	test_tmpdir_create(w->dir);
	(void)snprintf(w->key, sizeof(w->key), "%s/epoch.key", w->dir);
	memcpy(w->args, insecure, sizeof(insecure));
	w->args[3] = "--epoch_key_file";
	w->args[4] = w->key;
	test_wall_init(&w->wall);
	atomic_store(&w->wall.page->shift_s, 86400);
	test_wall_enter(&w->wall);
	pool_start(&w->pool, w->args);
	test_wall_leave();
	w->owner = pool_owner(&w->pool, "2 MB");
	w->value.client = pool_client(&w->pool, 0);
	assert_true(test_wait_until(is_put, &w->value, POOL_START_MS));
	pool_kill(&w->pool);
}

static void shifted_stop(struct shifted *w)
{
	te_store_close(w->value.client);
	test_process_end(w->owner);
	pool_stop(&w->pool);
	test_wall_fini(&w->wall);
	test_tmpdir_remove(w->dir);
}

static void an_honest_owner_that_is_ahead_keeps_its_data(void **state)
{
	struct shifted w;

	(void)state;
	shifted_start(&w);
	pool_restart(&w.pool, w.args);
	assert_true(test_wait_until(is_got, &w.value, POOL_START_MS));
	assert_non_null(test_process_line(w.pool.master, "epoch raised",
					  POOL_START_MS));
	shifted_stop(&w);
}

/* Nothing shows that its epochs are of the same pool. */
static void what_is_ahead_of_another_key_is_given_up(void **state)
{
	struct shifted w;

	(void)state;
	shifted_start(&w);
	assert_int_equal(unlink(w.key), 0);
	pool_restart(&w.pool, w.args);
	assert_non_null(
		test_process_line(w.owner, "given up: 1 ", POOL_START_MS));
	assert_false(is_got(&w.value));
	assert_non_null(test_process_line(w.pool.master, "not believed",
					  POOL_START_MS));
	assert_true(test_wait_until(is_put, &w.value, POOL_START_MS));
	assert_true(is_got(&w.value));
	shifted_stop(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_old_value_does_not_come_back),
		cmocka_unit_test(nor_does_it_where_anybody_may_come),
		cmocka_unit_test(what_was_removed_meanwhile_does_not_come_back),
		cmocka_unit_test(puts_go_on_while_members_know_later_epochs),
		cmocka_unit_test(a_put_in_parts_ends_though_the_epoch_grows),
		cmocka_unit_test(puts_go_on_while_strangers_make_epochs_up),
		cmocka_unit_test(what_cannot_be_is_refused_with_words),
		cmocka_unit_test(who_is_far_ahead_of_another_key_is_served),
		cmocka_unit_test(an_honest_owner_that_is_ahead_keeps_its_data),
		cmocka_unit_test(what_is_ahead_of_another_key_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
