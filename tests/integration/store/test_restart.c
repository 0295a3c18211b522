/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_restart.c - masters that are killed and started again: nothing that was
 * acknowledged is lost while its owner lives, nothing that was removed is back,
 * and no wrong byte is read
 *
 * TE_TEST_RESTARTS says how often a master under load is killed.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/client.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define N_OWNERS  3
#define OWNER     "16 MB"
#define MIB       ((uint64_t)1 << 20)
#define N_WRITERS 2
#define N_ITEMS   4000 /* of one round */
#define N_FEW     200
#define VALUE_MAX 8192u
/* How long calls of clients wait: where they may fail, and where not. */
#define HASTY_MS   2000u
#define PATIENT_MS 30000u

enum state {
	ABSENT,
	UNKNOWN, /* a call about it is under way, or failed */
	THERE,
	REMOVED,
};

struct load {
	struct te_store *clients[N_WRITERS + 2]; /* writers', and the others' */
	_Atomic int state[N_ITEMS];
	atomic_size_t next, n_there;
	atomic_bool stop;
	unsigned int round;
};

static void name_item(const struct load *l, size_t i, char key[32])
{
	(void)snprintf(key, 32, "r%u/%zu", l->round, i);
}

static uint64_t id_of(const struct load *l, size_t i)
{
	return (uint64_t)l->round * N_ITEMS + i;
}

static size_t size_of(const struct load *l, size_t i)
{
	return 1 + id_of(l, i) * 977 % VALUE_MAX;
}

static int put_item(struct te_store *client, const struct load *l, size_t i)
{
	uint8_t value[VALUE_MAX];
	char key[32];

	name_item(l, i, key);
	pool_fill(value, size_of(l, i), id_of(l, i));
	return pool_put(client, key, value, size_of(l, i));
}

/* 1: right; 0: not to be had. Anything else fails the test. */
static int get_item(struct te_store *client, const struct load *l, size_t i)
{
	uint8_t value[VALUE_MAX];
	int64_t got;
	char key[32];

	name_item(l, i, key);
	got = pool_get(client, key, value, sizeof(value));
	if (got < 0)
		return 0;
	if ((size_t)got != size_of(l, i) ||
	    !pool_is_filled(value, (size_t)got, id_of(l, i)))
		abort(); /* in any thread */
	return 1;
}

static int remove_item(struct te_store *client, const struct load *l, size_t i)
{
	struct te_store_key k;
	int result = 1;
	char key[32];

	name_item(l, i, key);
	k = (struct te_store_key){.bytes = key, .len = (uint32_t)strlen(key)};
	(void)te_store_remove(client, &k, 1, 1, &result);
	return result;
}

/* ---- a load ---- */

struct worker {
	struct load *load;
	size_t number;
	pthread_t thread;
};

static void write_one(struct load *l, struct te_store *client)
{
	size_t i = atomic_fetch_add(&l->next, 1);

	if (i >= N_ITEMS)
		return;
	atomic_store(&l->state[i], UNKNOWN);
	while (put_item(client, l, i))
		if (atomic_load(&l->stop))
			return;
	atomic_store(&l->state[i], THERE);
	atomic_fetch_add(&l->n_there, 1);
}

static void *write_items(void *arg)
{
	struct worker *w = arg;
	struct load *l = w->load;

	while (!atomic_load(&l->stop) && atomic_load(&l->next) < N_ITEMS)
		write_one(l, l->clients[w->number]);
	return NULL;
}

/* Every fifth, so that most stay. */
static void *remove_items(void *arg)
{
	struct worker *w = arg;
	struct load *l = w->load;
	size_t i = 0;

	while (!atomic_load(&l->stop)) {
		int there = THERE;

		if (i < N_ITEMS && atomic_compare_exchange_strong(
					   &l->state[i], &there, UNKNOWN)) {
			if (!remove_item(l->clients[w->number], l, i))
				atomic_store(&l->state[i], REMOVED);
		}
		i += there == THERE || there == UNKNOWN ? 5 : 0;
		i = i >= N_ITEMS ? 0 : i;
	}
	return NULL;
}

static void *read_items(void *arg)
{
	struct worker *w = arg;
	struct load *l = w->load;

	for (size_t i = 1; !atomic_load(&l->stop); i = i * 7 % N_ITEMS + 1)
		(void)get_item(l->clients[w->number], l, i % N_ITEMS);
	return NULL;
}

static void start_load(struct load *l, struct worker *w)
{
	void *(*what[])(void *) = {write_items, write_items, remove_items,
				   read_items};

	for (size_t i = 0; i < TEST_COUNT(what); i++) {
		w[i].load = l;
		w[i].number = i;
		assert_int_equal(
			pthread_create(&w[i].thread, NULL, what[i], &w[i]), 0);
	}
}

static void end_load(struct load *l, struct worker *w)
{
	atomic_store(&l->stop, true);
	for (size_t i = 0; i < N_WRITERS + 2; i++)
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
}

struct goal {
	struct load *load;
	size_t n;
};

static bool has_put(void *arg)
{
	const struct goal *goal = arg;

	return atomic_load(&goal->load->n_there) >= goal->n;
}

static void await_puts(struct load *l, size_t n)
{
	struct goal goal = {l, n};

	assert_true(test_wait_until(has_put, &goal, POOL_START_MS));
}

/* ---- judging ---- */

static bool all_there(void *arg)
{
	struct load *l = arg;

	for (size_t i = 0; i < N_ITEMS; i++)
		if (atomic_load(&l->state[i]) == THERE &&
		    !get_item(l->clients[0], l, i))
			return false;
	return true;
}

static bool some_there(void *arg)
{
	struct load *l = arg;

	for (size_t i = 0; i < N_ITEMS; i++)
		if (atomic_load(&l->state[i]) == THERE &&
		    get_item(l->clients[0], l, i))
			return true;
	return false;
}

static void check_removed(struct load *l)
{
	for (size_t i = 0; i < N_ITEMS; i++)
		if (atomic_load(&l->state[i]) == REMOVED)
			assert_int_equal(get_item(l->clients[0], l, i), 0);
}

/* The owners are there; returns how long the last object took, in ms. */
static uint64_t await_all(struct load *l)
{
	uint64_t from;

	pool_await_capacity(l->clients[0], N_OWNERS * 16 * MIB);
	from = tei_now_ms();
	assert_true(test_wait_until(all_there, l, POOL_START_MS));
	check_removed(l);
	return tei_now_ms() - from;
}

/* ---- the tests ---- */

struct rig {
	struct pool pool;
	struct test_process *owners[N_OWNERS];
	struct load load;
};

static void rig_start(struct rig *r, uint32_t patience_ms)
{
	memset(r, 0, sizeof(*r));
	pool_start(&r->pool, pool_patient);
	for (size_t i = 0; i < N_OWNERS; i++)
		r->owners[i] = pool_owner(&r->pool, OWNER);
	for (size_t i = 0; i < TEST_COUNT(r->load.clients); i++)
		r->load.clients[i] = pool_hasty_client(&r->pool, 0, patience_ms,
						       patience_ms);
	pool_await_capacity(r->load.clients[0], N_OWNERS * 16 * MIB);
}

static void rig_stop(struct rig *r)
{
	for (size_t i = 0; i < TEST_COUNT(r->load.clients); i++)
		te_store_close(r->load.clients[i]);
	for (size_t i = 0; i < N_OWNERS; i++)
		test_process_end(r->owners[i]);
	pool_stop(&r->pool);
}

static void restart(struct rig *r)
{
	pool_kill(&r->pool);
	pool_restart(&r->pool, pool_patient);
}

/* Some objects, a few of which are removed again. */
static void put_few(struct load *l)
{
	for (size_t i = 0; i < N_FEW; i++) {
		assert_int_equal(put_item(l->clients[0], l, i), 0);
		atomic_store(&l->state[i], THERE);
	}
	for (size_t i = 0; i < N_FEW; i += 4) {
		assert_int_equal(remove_item(l->clients[1], l, i), 0);
		atomic_store(&l->state[i], REMOVED);
	}
}

static bool all_removed(void *arg)
{
	struct load *l = arg;

	return te_store_remove_all(l->clients[0], 1, NULL) == 0;
}

static uint64_t kill_under_load(struct rig *r)
{
	struct worker workers[N_WRITERS + 2];
	struct load *l = &r->load;
	uint64_t took;

	for (size_t i = 0; i < N_ITEMS; i++)
		atomic_store(&l->state[i], ABSENT);
	atomic_store(&l->next, 0);
	atomic_store(&l->n_there, 0);
	atomic_store(&l->stop, false);
	l->round++;
	start_load(l, workers);
	await_puts(l, N_FEW);
	restart(r);
	await_puts(l, atomic_load(&l->n_there) + N_FEW / 4);
	end_load(l, workers);
	took = await_all(l);
	assert_true(test_wait_until(all_removed, l, POOL_START_MS));
	return took;
}

static void a_master_killed_under_load_loses_nothing(void **state)
{
	const char *times = getenv("TE_TEST_RESTARTS");
	unsigned long n = times ? strtoul(times, NULL, 10) : 3;
	uint64_t worst = 0, took;
	struct rig *r = malloc(sizeof(*r));

	(void)state;
	assert_non_null(r);
	rig_start(r, HASTY_MS);
	for (unsigned long i = 0; i < n; i++) {
		took = kill_under_load(r);
		worst = took > worst ? took : worst;
	}
	print_message("%lu restarts, all objects there within %llu ms\n", n,
		      (unsigned long long)worst);
	rig_stop(r);
	free(r);
}

static void an_owner_stopped_over_the_restart_brings_its_objects(void **state)
{
	struct rig *r = malloc(sizeof(*r));

	(void)state;
	assert_non_null(r);
	rig_start(r, PATIENT_MS);
	put_few(&r->load);
	test_process_signal(r->owners[0], SIGSTOP);
	restart(r);
	test_process_signal(r->owners[0], SIGCONT);
	(void)await_all(&r->load);
	rig_stop(r);
	free(r);
}

static void an_owner_killed_over_the_restart_takes_only_its_own(void **state)
{
	struct rig *r = malloc(sizeof(*r));
	struct load *l;
	size_t n = 0;

	(void)state;
	assert_non_null(r);
	rig_start(r, PATIENT_MS);
	l = &r->load;
	put_few(l);
	pool_kill(&r->pool);
	test_process_end(r->owners[0]);
	r->owners[0] = NULL;
	pool_restart(&r->pool, pool_patient);
	pool_await_capacity(l->clients[0], (N_OWNERS - 1) * 16 * MIB);
	r->owners[0] = pool_owner(&r->pool, OWNER);
	pool_await_capacity(l->clients[0], N_OWNERS * 16 * MIB);
	assert_true(test_wait_until(some_there, l, POOL_START_MS));
	for (size_t i = 0; i < N_FEW; i++)
		n += (size_t)get_item(l->clients[0], l, i);
	assert_true(n > 0 && n < N_FEW * 3 / 4);
	check_removed(l);
	rig_stop(r);
	free(r);
}

static bool some_capacity(void *client)
{
	uint64_t bytes = pool_capacity(client);

	return bytes && bytes != UINT64_MAX;
}

static void restarts_in_a_row_and_during_the_offers_lose_nothing(void **state)
{
	struct rig *r = malloc(sizeof(*r));

	(void)state;
	assert_non_null(r);
	rig_start(r, PATIENT_MS);
	put_few(&r->load);
	restart(r);
	restart(r);
	for (int i = 0; i < 3; i++) {
		/* As soon as there is one: others still mount and offer. */
		assert_true(test_wait_until(some_capacity, r->load.clients[0],
					    POOL_START_MS));
		restart(r);
	}
	(void)await_all(&r->load);
	rig_stop(r);
	free(r);
}

/* Reads the first bytes of "whole" as a range. */
static int64_t get_start(struct te_store *client, uint8_t out[16])
{
	const struct te_store_key key = pool_key("whole");
	const struct te_store_range range = {.addr = out, .length = 16};
	int64_t result = 0;

	(void)te_store_get_ranges(client, &key, 1, &range, 1, &result);
	return result;
}

static bool start_is_there(void *client)
{
	uint8_t out[16];

	return get_start(client, out) == 16;
}

/*
 * Who evicted an object, and was killed before it told, has offered what others
 * may have written over by now: all of it is read before a part is believed.
 */
static void a_range_of_what_was_offered_is_read_with_the_whole(void **state)
{
	uint8_t value[VALUE_MAX], out[16] = {0};
	struct te_store_replica where[POOL_REPLICAS];
	struct te_store *owner, *reader;
	struct pool pool;
	uint8_t *last;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, MIB);
	reader = pool_client(&pool, 0);
	pool_fill(value, sizeof(value), 1);
	assert_int_equal(pool_put(reader, "whole", value, sizeof(value)), 0);
	pool_kill(&pool);
	pool_restart(&pool, pool_patient);
	assert_true(test_wait_until(start_is_there, reader, POOL_START_MS));
	assert_int_equal(get_start(reader, out), 16);
	assert_memory_equal(out, value, sizeof(out));
	assert_int_equal(pool_replicas(reader, "whole", where), 1);
	last = (uint8_t *)(uintptr_t)where[0].address + sizeof(value) - 1;
	*last ^= 1;
	assert_true(get_start(reader, out) < 0);
	*last ^= 1;
	assert_int_equal(get_start(reader, out), 16);
	te_store_close(reader);
	te_store_close(owner);
	pool_stop(&pool);
}

/* An object that is there and right, once the owner is back. */
static bool kept_is_there(void *client)
{
	uint8_t room[VALUE_MAX];

	return pool_get(client, "kept", room, VALUE_MAX) == VALUE_MAX;
}

static void what_is_pinned_for_good_is_so_after_a_restart(void **state)
{
	struct te_store_replicate how = pool_several(1);
	uint8_t value[VALUE_MAX];
	struct te_store *owner;
	struct pool pool;
	char key[32];

	(void)state;
	how.flags = TE_STORE_HARD_PIN;
	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, MIB);
	pool_fill(value, VALUE_MAX, 1);
	assert_int_equal(pool_put_as(owner, "kept", value, VALUE_MAX, &how), 0);
	pool_kill(&pool);
	pool_restart(&pool, pool_patient);
	assert_true(test_wait_until(kept_is_there, owner, POOL_START_MS));
	/* More than twice what there is room for. */
	for (int i = 0; i < 300; i++) {
		(void)snprintf(key, sizeof(key), "other/%d", i);
		assert_int_equal(pool_put(owner, key, value, VALUE_MAX), 0);
	}
	assert_true(kept_is_there(owner));
	assert_true(pool_get(owner, "other/0", value, VALUE_MAX) < 0);
	te_store_close(owner);
	pool_stop(&pool);
}

/* Sets what the client believes to have known, on its loop. */
static void know_the_future(void *arg)
{
	struct te_store *store = arg;

	store->link.epoch += UINT64_C(1) << 40;
}

/* Each reads what the other puts: they are with the same life of the master. */
static bool pass_on(void *arg)
{
	struct te_store *const *both = arg;
	uint8_t room[8];

	return !pool_put(both[0], "new", "x", 1) &&
	       pool_get(both[1], "new", room, 8) == 1 &&
	       !pool_put(both[1], "newer", "yz", 2) &&
	       pool_get(both[0], "newer", room, 8) == 2;
}

static void a_master_whose_clock_went_back_goes_on_above(void **state)
{
	struct te_store *owner, *other, *both[2];
	uint8_t value[VALUE_MAX];
	struct pool pool;
	uint64_t before;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, MIB);
	other = pool_client(&pool, 0);
	both[0] = owner;
	both[1] = other;
	pool_fill(value, VALUE_MAX, 1);
	assert_int_equal(pool_put(owner, "kept", value, VALUE_MAX), 0);
	before = atomic_load(&owner->digest_seed);
	pool_kill(&pool);
	assert_true(tei_loop_do(owner->loop, know_the_future, owner));
	pool_restart(&pool, pool_patient);
	assert_true(test_wait_until(kept_is_there, other, POOL_START_MS));
	assert_int_not_equal(atomic_load(&owner->digest_seed), before);
	assert_true(test_wait_until(pass_on, both, POOL_START_MS));
	te_store_close(other);
	te_store_close(owner);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_master_killed_under_load_loses_nothing),
		cmocka_unit_test(
			an_owner_stopped_over_the_restart_brings_its_objects),
		cmocka_unit_test(
			an_owner_killed_over_the_restart_takes_only_its_own),
		cmocka_unit_test(
			restarts_in_a_row_and_during_the_offers_lose_nothing),
		cmocka_unit_test(
			a_range_of_what_was_offered_is_read_with_the_whole),
		cmocka_unit_test(what_is_pinned_for_good_is_so_after_a_restart),
		cmocka_unit_test(a_master_whose_clock_went_back_goes_on_above),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
