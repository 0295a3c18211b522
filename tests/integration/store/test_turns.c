/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_turns.c - some keep a master busy, others are served as before
 *
 * The master is one thread, so what one asks for others wait for. Whatever is
 * asked, a turn of it is short, by the CPU time that it counts itself. Calls of
 * others take little longer than those of a master at rest, on a machine that is
 * as busy.
 *
 * TE_TEST_ATTACKS=full: more of everything.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/master/caller.h"
#include "tests/integration/store/turns.h"
#include "tests/lib/attack.h"
#include "tests/lib/dial.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define TURN_MAX_US 2000u
#define EVER_MAX_US (10 * TURN_MAX_US) /* of any turn */
#define WAIT_US     5000u /* by which calls of others may take longer */
/* The end of a bucket of the master's histogram. */
#define TURN_BUCKET_NS ((uint64_t)1 << 21)
#define SAMPLES_MAX    200000u
#define MEMORY_MAX     (24u << 20)
#define WINDOW_MS      250u
#define WINDOWS        5u
#define WINDOWS_MAX    400u
#define TRIES          3u

struct rig {
	struct pool pool;
	struct master master;
	struct test_process *owner;
	struct te_store *client;
	size_t n_keys;
	bool full;
	uint64_t speed; /* percent of the time of a fast machine */
	uint64_t *samples;
};

/* ---- how fast this machine is ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILD_PERCENT 1500u
#else
#define BUILD_PERCENT 100u
#endif
#define CHASES   400000u
#define CHASE_NS 120u /* where a turn may take TURN_MAX_US */

/*
 * Percent of the time that a turn may take: waits for memory, as the master
 * does, CPU time. A fast machine gets no less than 100.
 */
static uint64_t measure_speed(void)
{
	static uint32_t next[1 << 21];
	struct timespec from, to;
	uint64_t percent;
	uint32_t at = 0;

	for (uint32_t i = 0; i < TEST_COUNT(next); i++)
		next[i] = (i * 1664525u + 1013904223u) & (TEST_COUNT(next) - 1);
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (uint32_t i = 0; i < CHASES; i++)
		at = next[at];
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	assert_true(at < TEST_COUNT(next));
	percent = (uint64_t)((to.tv_sec - from.tv_sec) * 1000000000 +
			     to.tv_nsec - from.tv_nsec) *
		  100 / ((uint64_t)CHASES * CHASE_NS);
	print_message("this machine takes %llu %% of the time\n",
		      (unsigned long long)percent);
	if (percent < 100)
		percent = 100;
	return percent * BUILD_PERCENT / 100;
}

/*
 * ---- how busy this machine is ----
 *
 * Who uses all the time that he gets waits for a processor: the master does when
 * it is attacked, but not at rest. So two threads do the same then for a window,
 * in place of it and of the attackers, and the longest wait of theirs is noted.
 */

struct hog {
	pthread_t thread;
	uint64_t pause_ns;
};

static void *be_a_hog(void *arg)
{
	struct hog *h = arg;
	uint64_t at = tei_now_ns(), now = at;
	uint64_t end = at + WINDOW_MS * TEI_NS_PER_MS;

	while (now < end) {
		now = tei_now_ns();
		if (now - at > h->pause_ns)
			h->pause_ns = now - at;
		at = now;
	}
	return NULL;
}

/* ---- others ---- */

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct seen {
	size_t n;
	uint64_t p50, p99, max; /* us */
};

/* Asks for one key at a time, for @ms; every answer must be right. */
static struct seen watch(struct rig *r, const char *key, int expected,
			 uint64_t ms)
{
	const struct te_store_key k = pool_key(key);
	uint64_t end = tei_now_ms() + ms, from = tei_now_ns(), now;
	size_t n = 0;

	while (n < SAMPLES_MAX && tei_now_ms() < end) {
		int found = -1;

		assert_int_equal(te_store_exist(r->client, &k, 1, &found), 0);
		assert_int_equal(found, expected);
		now = tei_now_ns();
		r->samples[n++] = (now - from) / 1000;
		from = now;
	}
	qsort(r->samples, n, sizeof(r->samples[0]), by_time);
	return (struct seen){n, r->samples[n / 2], r->samples[n * 99 / 100],
			     r->samples[n - 1]};
}

/* The master's turns, by their CPU time. */
struct turns {
	const struct rig *rig;
	uint64_t longest_us; /* since it was asked before */
	uint64_t n, n_short; /* since it began; up to the limit */
};

static uint64_t number_behind(const char *page, const char *name)
{
	const char *at = strstr(page, name);

	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, 10);
}

/* The buckets' ends are powers of two: the last one that is no longer. */
static void bucket_name(const struct rig *r, char out[80])
{
	uint64_t end_ns = TURN_BUCKET_NS;

	while (2 * end_ns <= TURN_BUCKET_NS * r->speed / 100)
		end_ns *= 2;
	(void)snprintf(out, 80,
		       "te_master_turn_cpu_seconds_bucket{le=\"%.9f\"} ",
		       (double)end_ns / 1e9);
}

/* False: the master's HTTP port has no room, or closed early. */
static bool ask_turns(void *arg)
{
	static const char ask[] =
		"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
	static const char name[] = "\nte_master_turn_cpu_max_us ";
	static char page[1 << 20];
	struct turns *t = arg;
	char bucket[80];
	int fd = test_dial(t->rig->master.http);
	size_t n = 0;
	ssize_t got = send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL);

	while (got > 0 && n < sizeof(page) - 1) {
		got = recv(fd, page + n, sizeof(page) - 1 - n, 0);
		n += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	page[n] = '\0';
	if (!strstr(page, name))
		return false;
	bucket_name(t->rig, bucket);
	t->longest_us = number_behind(page, name);
	t->n = number_behind(page, "te_master_turn_cpu_seconds_count ");
	t->n_short = number_behind(page, bucket);
	return true;
}

static struct turns turns_of(const struct rig *r)
{
	struct turns t = {.rig = r};

	assert_true(test_wait_until(ask_turns, &t, POOL_START_MS));
	return t;
}

/* What the master and another client saw of an attack, by windows of time. */
struct report {
	struct seen rest;         /* the shortest p99 at rest */
	uint64_t pause_us;        /* longest, of a thread that is busy */
	struct turns last;        /* as of the end of the window before */
	uint64_t n_turns, n_long; /* of all windows */
	size_t n;
	uint64_t longest[WINDOWS_MAX]; /* turn, us */
	struct seen seen[WINDOWS_MAX];
};

/* Watches a master at rest; the window after it begins here. */
static void watch_rest(struct rig *r, struct report *report)
{
	static struct hog hogs[2];
	struct seen seen;

	for (size_t i = 0; i < TEST_COUNT(hogs); i++) {
		hogs[i].pause_ns = 0;
		assert_int_equal(pthread_create(&hogs[i].thread, NULL, be_a_hog,
						&hogs[i]),
				 0);
	}
	seen = watch(r, "there", 1, WINDOW_MS);
	for (size_t i = 0; i < TEST_COUNT(hogs); i++) {
		assert_int_equal(pthread_join(hogs[i].thread, NULL), 0);
		if (hogs[i].pause_ns / 1000 > report->pause_us)
			report->pause_us = hogs[i].pause_ns / 1000;
	}
	/* The master may still be busy with what was asked in the window before. */
	if (!report->rest.n || seen.p99 < report->rest.p99)
		report->rest = seen;
	report->last = turns_of(r); /* forgets the longest one until now */
}

/* @p: the attackers, who end before the master is asked; or NULL. */
static void watch_window(struct rig *r, struct report *report,
			 struct test_process *p)
{
	size_t i = report->n < WINDOWS_MAX ? report->n++ : WINDOWS_MAX - 1;
	struct turns now;
	uint64_t n;

	report->seen[i] = watch(r, "there", 1, WINDOW_MS);
	test_process_end(p);
	now = turns_of(r);
	n = now.n - report->last.n;
	report->n_turns += n;
	report->n_long += n - (now.n_short - report->last.n_short);
	report->longest[i] = now.longest_us;
	report->last = now;
}

static void print_seen(const char *when, const struct seen *s)
{
	print_message(
		"  %s: exist %zu calls, p50 %llu, p99 %llu, max %llu us\n",
		when, s->n, (unsigned long long)s->p50,
		(unsigned long long)s->p99, (unsigned long long)s->max);
}

static int by_p99(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return x->p99 < y->p99 ? -1 : x->p99 > y->p99;
}

/* The master waits for a processor, and then who has asked it. */
static bool others_are_served(const struct rig *r, struct report *report)
{
	uint64_t limit = report->rest.p99 + 2 * report->pause_us +
			 WAIT_US * r->speed / 100;
	const struct seen *middle = &report->seen[report->n / 2];

	qsort(report->seen, report->n, sizeof(report->seen[0]), by_p99);
	print_message("  who is busy waits for %llu us\n",
		      (unsigned long long)report->pause_us);
	print_seen("rest", &report->rest);
	print_seen("attacked", middle);
	return middle->p99 <= limit;
}

/*
 * A machine that is paused by its host counts the pause as CPU time of who was
 * running, so a turn may seem long that was not. Few are: less than one of a
 * hundred, and none in half of the windows; and few pauses are so long as what
 * an attack without limits would bring. So an attack that failed is tried again:
 * what the master does itself, it does each time.
 */
static bool is_good(const struct rig *r, const char *what,
		    struct report *report)
{
	const uint64_t *longest = &report->longest[report->n - 1];
	const uint64_t *median = &report->longest[report->n / 2];

	qsort(report->longest, report->n, sizeof(report->longest[0]), by_time);
	print_message("%s: longest turn of the master in %zu windows: median "
		      "%llu us, max %llu us; %llu of %llu above the limit\n",
		      what, report->n, (unsigned long long)*median,
		      (unsigned long long)*longest,
		      (unsigned long long)report->n_long,
		      (unsigned long long)report->n_turns);
	return others_are_served(r, report) &&
	       *median <= TURN_MAX_US * r->speed / 100 &&
	       *longest <= EVER_MAX_US * r->speed / 100 &&
	       report->n_long <= report->n_turns / 100;
}

/* ---- attacks ---- */

static struct test_process *attack(const struct rig *r, const char *how,
				   unsigned int n)
{
	char rpc[8], http[8], count[16], keys[24];
	const char *const args[] = {rpc, http, how, count, keys, NULL};
	struct test_process *p;

	(void)snprintf(rpc, sizeof(rpc), "%u", r->master.rpc);
	(void)snprintf(http, sizeof(http), "%u", r->master.http);
	(void)snprintf(count, sizeof(count), "%u", r->full ? 2 * n : n);
	(void)snprintf(keys, sizeof(keys), "%zu", r->n_keys);
	p = test_process_start("store_attacker", args);
	assert_non_null(test_process_line(p, "ready", POOL_START_MS));
	return p;
}

static bool withstands(struct rig *r, const char *how, unsigned int n)
{
	struct report report = {0};

	while (report.n < WINDOWS) {
		watch_rest(r, &report);
		watch_window(r, &report, attack(r, how, n));
	}
	return is_good(r, how, &report);
}

static void watch_attack(struct rig *r, const char *how, unsigned int n)
{
	unsigned int tries = 1;

	while (!withstands(r, how, n))
		assert_true(++tries <= TRIES);
}

static void large_look_ups_keep_nobody_waiting(void **state)
{
	watch_attack(*state, "lookups", 4);
}

static void large_questions_keep_nobody_waiting(void **state)
{
	watch_attack(*state, "exists", 4);
}

static void the_longest_keys_keep_nobody_waiting(void **state)
{
	watch_attack(*state, "bodies", 8);
}

static void what_does_not_decode_keeps_nobody_waiting(void **state)
{
	watch_attack(*state, "crumbs", 4);
}

static void who_comes_and_goes_keeps_nobody_waiting(void **state)
{
	watch_attack(*state, "hellos", 100);
}

static void owners_that_come_back_keep_nobody_waiting(void **state)
{
	watch_attack(*state, "returns", 4);
}

/* Answers are 60 bytes for a key of 3, and wait until they are whole. */
static void batches_that_wait_take_little_memory(void **state)
{
	struct rig *r = *state;
	pid_t master = test_process_pid(r->pool.master);
	uint64_t before = attack_memory(master);

	assert_int_equal(pool_put(r->client, "xyz", "x", 1), 0);
	watch_attack(r, "short", 120);
	assert_true((attack_memory(master) - before) * 100 <=
		    (uint64_t)MEMORY_MAX * BUILD_PERCENT);
}

static void readers_of_pages_keep_nobody_waiting(void **state)
{
	watch_attack(*state, "pages", 120);
}

/* ---- removals by patterns ---- */

struct removal {
	struct te_store *store;
	const char *pattern;
	int code;
	uint64_t removed;
	_Atomic bool over;
	bool good; /* the master's turns were short, and others served */
};

static void *run_removal(void *arg)
{
	struct removal *m = arg;

	m->code =
		te_store_remove_matching(m->store, m->pattern, 1, &m->removed);
	m->over = true;
	return NULL;
}

static struct removal watch_removal(struct rig *r, const char *pattern)
{
	struct removal m = {.pattern = pattern,
			    .store = pool_client(&r->pool, 0)};
	uint64_t end = tei_now_ms() + 2ull * POOL_START_MS;
	struct report report = {0};
	pthread_t thread;

	for (unsigned int i = 0; i < WINDOWS; i++)
		watch_rest(r, &report);
	assert_int_equal(pthread_create(&thread, NULL, run_removal, &m), 0);
	do {
		watch_window(r, &report, NULL);
	} while (!m.over && tei_now_ms() < end);
	assert_int_equal(pthread_join(thread, NULL), 0);
	print_message("%llu removed: %s\n", (unsigned long long)m.removed,
		      te_store_strerror(m.code));
	m.good = is_good(r, pattern, &report);
	te_store_close(m.store);
	return m;
}

static void a_dear_pattern_keeps_nobody_waiting(void **state)
{
	unsigned int tries = 0;
	struct removal m;

	do {
		assert_true(++tries <= TRIES);
		m = watch_removal(*state, "a.*a.*a.*[xyz]Q?");
		assert_int_equal(m.removed, 0);
		assert_true(m.code == 0 || m.code == TE_STORE_INVALID_PARAMS);
	} while (!m.good);
}

static void put_many(struct rig *r)
{
	static char keys[TURNS_BATCH][TURNS_KEY_LEN];
	static struct te_store_key k[TURNS_BATCH];
	static struct te_store_value values[TURNS_BATCH];
	static int results[TURNS_BATCH];
	static struct iovec byte;
	size_t n;

	byte = (struct iovec){(void *)(uintptr_t) "x", 1};
	for (size_t from = 0; from < r->n_keys; from += n) {
		for (n = 0; n < TURNS_BATCH && from + n < r->n_keys; n++) {
			k[n].bytes = keys[n];
			k[n].len = (uint32_t)turns_key(keys[n], from + n);
			values[n] = (struct te_store_value){.pieces = &byte,
							    .n_pieces = 1};
		}
		assert_int_equal(
			te_store_put(r->client, k, values, n, NULL, results),
			0);
	}
}

static void many_removals_keep_nobody_waiting(void **state)
{
	struct rig *r = *state;
	unsigned int tries = 0;
	struct removal m;

	do {
		assert_true(++tries <= TRIES);
		put_many(r);
		m = watch_removal(r, "^a+/");
		assert_int_equal(m.code, 0);
		assert_int_equal(m.removed, r->n_keys);
	} while (!m.good);
}

/* ---- the pool ---- */

static uint16_t port_of(struct pool *pool, const char *line)
{
	const char *at = strstr(test_process_output(pool->master), line);

	if (!at)
		at = test_process_line(pool->master, line, POOL_START_MS);
	assert_non_null(at);
	return (uint16_t)atoi(strstr(at, line) + strlen(line));
}

static int set_up(void **state)
{
	const char *how = getenv("TE_TEST_ATTACKS");
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->samples = calloc(SAMPLES_MAX, sizeof(r->samples[0]));
	assert_non_null(r->samples);
	r->full = how && !strcmp(how, "full");
	r->n_keys = r->full ? 1000000 : 40000;
	r->speed = measure_speed();
	pool_start(&r->pool, pool_patient);
	r->master.process = r->pool.master;
	r->master.rpc = (uint16_t)atoi(strchr(r->pool.address, ':') + 1);
	r->master.http = port_of(&r->pool, "HTTP metrics server started on "
					   "port ");
	r->owner = pool_owner(&r->pool, r->full ? "256 MB" : "16 MB");
	r->client = pool_client(&r->pool, 0);
	assert_int_equal(pool_put(r->client, "there", "x", 1), 0);
	put_many(r);
	*state = r;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *r = *state;

	te_store_close(r->client);
	test_process_end(r->owner);
	pool_stop(&r->pool);
	free(r->samples);
	free(r);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_look_ups_keep_nobody_waiting),
		cmocka_unit_test(large_questions_keep_nobody_waiting),
		cmocka_unit_test(batches_that_wait_take_little_memory),
		cmocka_unit_test(the_longest_keys_keep_nobody_waiting),
		cmocka_unit_test(what_does_not_decode_keeps_nobody_waiting),
		cmocka_unit_test(who_comes_and_goes_keeps_nobody_waiting),
		cmocka_unit_test(owners_that_come_back_keep_nobody_waiting),
		cmocka_unit_test(readers_of_pages_keep_nobody_waiting),
		cmocka_unit_test(a_dear_pattern_keeps_nobody_waiting),
		cmocka_unit_test(many_removals_keep_nobody_waiting),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
