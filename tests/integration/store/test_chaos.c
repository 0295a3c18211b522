/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_chaos.c - all at once: a master and owners that are killed, stopped and
 * started again while tenants put, replace, read, copy and remove
 *
 * No wrong or old byte is ever read; in the end what was acknowledged is there
 * unless an owner has died, tenants are charged for what exists, nothing is
 * left when all was removed, and every process ends as it should.
 *
 * TE_TEST_CHAOS_S says for how many seconds, TE_TEST_CHAOS_SEED from which seed
 * on; each seed takes 10 of them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chance.h"
#include "base/clock.h"
#include "tests/integration/master/caller.h"
#include "tests/integration/store/chaos.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define N_OWNERS  4
#define N_WRITERS 2
#define OWNER     "8 MB"
#define MIB       ((uint64_t)1 << 20)
#define POOL      (N_OWNERS * 8 * MIB)
#define ROUND_MS  10000
#define SHORT_MS  3000  /* of a round, when nothing is said */
#define PAUSE_MS  150   /* between two faults, about */
#define STOP_MS   900   /* of an owner: less than it has for a fence ... */
#define GONE_MS   11000 /* ... and more than it has at all */
/* Who stood still has heard what it has to forget so long afterwards. */
#define HEARD_MS 10000

struct owner {
	struct test_process *process; /* NULL: it was killed */
	uint64_t until_ms;            /* stopped; or 0 */
};

struct chaos {
	struct pool pool;
	struct owner owners[N_OWNERS];
	struct test_process *writers[N_WRITERS];
	uint64_t random;
	/* Some owner stood still from then on, and has perhaps not heard all. */
	uint64_t deaf_from_ms, deaf_until_ms;
	uint64_t fences_failed;
	unsigned int n_done; /* faults */
	bool crowded;        /* eviction is going on */
	bool patient;        /* there is time for long faults, too */
	char folder[TEST_PATH_MAX], quotas[TEST_PATH_MAX + 32];
	const char *args[16];
	struct chaos_load load;
};

/* For who has to find out what went wrong. */
static void tell(const char *what)
{
	print_message("%llu %s\n", (unsigned long long)tei_now_ms(), what);
}

static uint64_t chance(struct chaos *c, uint64_t n)
{
	return tei_chance(&c->random) % n;
}

/* ---- the master ---- */

static struct master master_of(const struct chaos *c)
{
	static const char line[] = "HTTP metrics server started on port ";
	const char *said = strstr(test_process_output(c->pool.master), line);

	assert_non_null(said);
	return (struct master){
		.http = (uint16_t)strtoul(said + sizeof(line) - 1, NULL, 10)};
}

/* An owner that was too slow for a fence is dropped, which is its death. */
static void note_dropped(struct chaos *c)
{
	struct master m = master_of(c);

	c->fences_failed += master_metric(&m, "te_master_fences_failed_total");
}

static bool has_failed(void *load)
{
	return atomic_load(&((struct chaos_load *)load)->failed);
}

static void let_pass(struct chaos *c, uint64_t ms)
{
	(void)test_wait_until(has_failed, &c->load, (unsigned int)ms);
}

static void kill_master(struct chaos *c)
{
	note_dropped(c);
	if (tei_now_ms() < c->deaf_until_ms)
		chaos_forgive(&c->load, c->deaf_from_ms);
	tell("the master is killed");
	pool_kill(&c->pool);
	let_pass(c, chance(c, 2) ? 0 : chance(c, 700));
	pool_restart(&c->pool, c->args);
	tell("the master is back");
}

static void stop_master(struct chaos *c)
{
	tell("the master is stopped");
	test_process_signal(c->pool.master, SIGSTOP);
	let_pass(c, chance(c, 1200));
	test_process_signal(c->pool.master, SIGCONT);
}

/* ---- owners ---- */

static void let_go_on(struct owner *o)
{
	if (o->process)
		test_process_signal(o->process, SIGCONT);
	tell("an owner goes on");
	o->until_ms = 0;
}

static void expect_good_end(struct test_process *p, const char *what)
{
	int code;

	test_process_signal(p, SIGTERM);
	code = test_process_wait(p, POOL_START_MS);
	if (code) {
		print_error("%s\n", test_process_output(p));
		fail_msg("%s ended with %d", what, code);
	}
	test_process_end(p);
}

/* What it had is gone, unless it is asked to leave, and others take it. */
static void end_owner(struct chaos *c)
{
	struct owner *o = &c->owners[chance(c, N_OWNERS)];

	if (!o->process) {
		o->process = pool_owner(&c->pool, OWNER);
		tell("an owner is started");
		return;
	}
	chaos_owners_die(&c->load);
	if (chance(c, 3)) {
		tell("an owner is killed");
		test_process_signal(o->process, SIGKILL);
		test_process_end(o->process);
	} else {
		tell("an owner leaves");
		let_go_on(o);
		expect_good_end(o->process, "an owner that leaves");
	}
	*o = (struct owner){.process = NULL};
}

static void stop_owner(struct chaos *c)
{
	struct owner *o = &c->owners[chance(c, N_OWNERS)];
	uint64_t now = tei_now_ms();

	if (!o->process || o->until_ms)
		return;
	if (now >= c->deaf_until_ms)
		c->deaf_from_ms = now;
	if (c->patient && !chance(c, 4)) { /* past every timeout */
		chaos_owners_die(&c->load);
		o->until_ms = now + GONE_MS;
	} else {
		o->until_ms = now + chance(c, STOP_MS);
	}
	c->deaf_until_ms = o->until_ms + HEARD_MS;
	test_process_signal(o->process, SIGSTOP);
	tell("an owner is stopped");
}

static void continue_owners(struct chaos *c, bool all)
{
	uint64_t now = tei_now_ms();

	for (size_t i = 0; i < N_OWNERS; i++)
		if (c->owners[i].until_ms &&
		    (all || c->owners[i].until_ms <= now))
			let_go_on(&c->owners[i]);
}

/* ---- writers that come to no end ---- */

static void start_writer(struct chaos *c, struct test_process **w)
{
	char key[32];
	const char *const args[] = {c->pool.address, key, "20000", NULL};

	(void)snprintf(key, sizeof(key), "late/%u", c->n_done);
	*w = test_process_start("store_writer", args);
}

static void end_writer(struct test_process **w)
{
	test_process_end(*w);
	*w = NULL;
}

static void trouble_writer(struct chaos *c)
{
	struct test_process **w = &c->writers[chance(c, N_WRITERS)];

	if (!*w) {
		start_writer(c, w);
	} else if (chance(c, 2)) {
		end_writer(w);
	} else { /* perhaps later than it may */
		test_process_signal(*w, SIGSTOP);
		let_pass(c, chance(c, 2 * PAUSE_MS));
		test_process_signal(*w, SIGUSR1);
		test_process_signal(*w, SIGCONT);
	}
}

/* ---- a round ---- */

static void trouble(struct chaos *c)
{
	static void (*const what[])(struct chaos *) = {
		end_owner,   stop_owner,     stop_owner, kill_master,
		stop_master, trouble_writer, end_owner,  trouble_writer,
	};

	what[chance(c, TEST_COUNT(what))](c);
	c->n_done++;
}

static void expect_alive(struct test_process *p, const char *what)
{
	if (!p || test_process_wait(p, 0) == TEST_STILL_RUNNING)
		return;
	print_error("%s\n", test_process_output(p));
	fail_msg("%s has ended", what);
}

static void expect_all_alive(struct chaos *c)
{
	expect_alive(c->pool.master, "the master");
	for (size_t i = 0; i < N_OWNERS; i++)
		expect_alive(c->owners[i].process, "an owner");
}

static void expect_right(const struct chaos *c)
{
	if (atomic_load(&c->load.failed))
		fail_msg("%s", c->load.fault);
}

static void rage(struct chaos *c, uint64_t ms)
{
	uint64_t end = tei_now_ms() + ms;

	while (tei_now_ms() < end && !atomic_load(&c->load.failed)) {
		trouble(c);
		let_pass(c, chance(c, 2 * PAUSE_MS));
		continue_owners(c, false);
		expect_all_alive(c);
	}
}

static void calm_down(struct chaos *c)
{
	chaos_load_end(&c->load);
	continue_owners(c, true);
	for (size_t i = 0; i < N_WRITERS; i++)
		end_writer(&c->writers[i]);
	for (size_t i = 0; i < N_OWNERS; i++)
		if (!c->owners[i].process)
			c->owners[i].process = pool_owner(&c->pool, OWNER);
	pool_await_capacity(c->load.workers[0].store, POOL);
	note_dropped(c);
}

/* ---- what is left ---- */

static bool all_is_there(void *arg)
{
	struct chaos *c = arg;

	return chaos_judge(&c->load, !c->crowded && !c->fences_failed) ||
	       atomic_load(&c->load.failed);
}

static uint64_t charged(const struct chaos *c, const char *tenant)
{
	struct master m = master_of(c);
	char path[96], *body;
	const char *at;
	uint64_t bytes;
	int status;

	(void)snprintf(path, sizeof(path), "/api/v1/tenant_quotas?tenant_id=%s",
		       tenant);
	body = master_get(&m, path, &status);
	assert_int_equal(status, 200);
	at = strstr(body, "\"charged_bytes\":");
	assert_non_null(at);
	bytes = strtoull(at + sizeof("\"charged_bytes\":") - 1, NULL, 10);
	free(body);
	return bytes;
}

/* Copies that were on their way come to an end. */
static bool charges_fit(void *arg)
{
	struct chaos *c = arg;

	for (unsigned int t = 0; t < CHAOS_TENANTS; t++)
		if (charged(c, chaos_tenants[t]) != chaos_bytes(&c->load, t))
			return false;
	return true;
}

static bool all_is_gone(void *arg)
{
	struct chaos *c = arg;
	struct te_store_pool figures;

	for (unsigned int t = 0; t < CHAOS_TENANTS; t++)
		if (te_store_remove_all(c->load.workers[t].store, 1, NULL) ||
		    charged(c, chaos_tenants[t]))
			return false;
	return !charged(c, "default") &&
	       !te_store_pool(c->load.workers[0].store, &figures) &&
	       !figures.used_bytes && !figures.objects;
}

static void say_charges(struct chaos *c)
{
	for (unsigned int t = 0; t < CHAOS_TENANTS; t++)
		print_error("%s is charged for %llu bytes and has %llu\n",
			    chaos_tenants[t],
			    (unsigned long long)charged(c, chaos_tenants[t]),
			    (unsigned long long)chaos_bytes(&c->load, t));
}

static void judge(struct chaos *c)
{
	bool there = test_wait_until(all_is_there, c, POOL_START_MS), fit, gone;

	expect_right(c);
	assert_true(there);
	fit = test_wait_until(charges_fit, c, POOL_START_MS);
	expect_right(c);
	if (!fit)
		say_charges(c);
	assert_true(fit);
	gone = test_wait_until(all_is_gone, c, POOL_START_MS);
	if (!gone) {
		struct master m = master_of(c);

		say_charges(c);
		fail_msg("default is charged for %llu bytes, %llu extents wait "
			 "for owners",
			 (unsigned long long)charged(c, "default"),
			 (unsigned long long)master_metric(
				 &m, "te_master_fencing_count"));
	}
}

/* ---- life ---- */

static void write_quotas(const struct chaos *c)
{
	FILE *f = fopen(c->quotas, "wb");

	assert_non_null(f);
	(void)fprintf(f, "version: 1\ntenants:\n- {name: red, quota: 15MB}\n"
			 "- {name: blue, quota: 15MB}\n"
			 "- {name: default, quota: 2MB}\n");
	assert_int_equal(fclose(f), 0);
}

static void begin(struct chaos *c, uint64_t seed, bool patient)
{
	const char *const args[] = {
		"--enable_multi_tenants",
		"--tenant_quota_connector_uri",
		c->quotas,
		"--default_kv_lease_ttl",
		"200",
		"--put_start_discard_timeout_sec",
		"2s",
		"--dynamic_replication_mode",
		"enforce",
		NULL,
	};

	*c = (struct chaos){
		.random = seed, .crowded = seed % 2, .patient = patient};
	test_tmpdir_create(c->folder);
	(void)snprintf(c->quotas, sizeof(c->quotas), "%s/quotas.yaml",
		       c->folder);
	write_quotas(c);
	memcpy(c->args, args, sizeof(args));
	pool_start(&c->pool, c->args);
	for (size_t i = 0; i < N_OWNERS; i++)
		c->owners[i].process = pool_owner(&c->pool, OWNER);
	chaos_load_start(&c->load, c->pool.address, seed,
			 c->crowded ? 400000 : 12000);
	pool_await_capacity(c->load.workers[0].store, POOL);
}

static void finish(struct chaos *c)
{
	chaos_load_close(&c->load);
	for (size_t i = 0; i < N_OWNERS; i++)
		expect_good_end(c->owners[i].process, "an owner");
	expect_good_end(c->pool.master, "the master");
	test_tmpdir_remove(c->folder);
}

static void one_round(uint64_t seed, uint64_t ms)
{
	struct chaos *c = malloc(sizeof(*c));
	uint64_t n = 0, ok = 0;

	assert_non_null(c);
	print_message("seed %llu\n", (unsigned long long)seed);
	begin(c, seed, ms > SHORT_MS);
	rage(c, ms);
	calm_down(c);
	expect_right(c);
	judge(c);
	for (size_t i = 0; i < CHAOS_WORKERS; i++) {
		n += c->load.workers[i].n_calls;
		ok += c->load.workers[i].n_ok;
	}
	finish(c);
	print_message("%u faults, %llu calls, %llu of them good\n", c->n_done,
		      (unsigned long long)n, (unsigned long long)ok);
	assert_true(ok > 0);
	free(c);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void nothing_is_wrong_whatever_dies(void **state)
{
	uint64_t ms = 1000 * number_of("TE_TEST_CHAOS_S", 0);
	uint64_t seed = number_of("TE_TEST_CHAOS_SEED", 1);
	uint64_t n = ms ? (ms + ROUND_MS - 1) / ROUND_MS : 2;

	(void)state;
	for (; n; n--)
		one_round(seed++, ms ? ROUND_MS : SHORT_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_wrong_whatever_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
