/* SPDX-License-Identifier: Apache-2.0 */
/* chaos.c - clients at work, and what they may see meanwhile */
#include "tests/integration/store/chaos.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chance.h"
#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define CALL_MS    2000
#define REPLICA_MS 1000
#define VALUE_MIN  16u
#define HEADER     64u /* of an extent, before its data */

const char *const chaos_tenants[CHAOS_TENANTS] = {"red", "blue"};

static uint64_t chance(struct chaos_worker *w, uint64_t n)
{
	return tei_chance(&w->random) % n;
}

static unsigned int tenant_of(const struct chaos_worker *w)
{
	return w->number % CHAOS_TENANTS;
}

static void fault(struct chaos_load *l, unsigned int tenant, size_t i,
		  const char *what, uint64_t version)
{
	struct chaos_key *k = &l->keys[tenant][i];
	uint64_t now = tei_now_ms();

	if (atomic_exchange(&l->failed, true))
		return;
	(void)pthread_mutex_lock(&k->mu);
	(void)snprintf(l->fault, sizeof(l->fault),
		       "at %llu: %s, key %zu: version %llu %s; %s at %llu, now "
		       "at least %llu",
		       (unsigned long long)now, chaos_tenants[tenant], i,
		       (unsigned long long)version, what,
		       k->there ? "replaced" : "removed",
		       (unsigned long long)k->changed_ms,
		       (unsigned long long)atomic_load(&k->floor));
	(void)pthread_mutex_unlock(&k->mu);
}

/* ---- values ---- */

static uint64_t id_of(unsigned int tenant, size_t i, uint64_t version)
{
	return tei_chance_mix(version << 16 | i << 1 | tenant);
}

static size_t size_of(const struct chaos_load *l, unsigned int tenant, size_t i,
		      uint64_t version)
{
	return VALUE_MIN +
	       id_of(tenant, i, version) % (l->value_max - VALUE_MIN);
}

static void name_key(char key[16], size_t i)
{
	(void)snprintf(key, 16, "k%zu", i);
}

static size_t fill(const struct chaos_load *l, uint8_t *value,
		   unsigned int tenant, size_t i, uint64_t version)
{
	size_t size = size_of(l, tenant, i, version);

	pool_fill(value, size, id_of(tenant, i, version));
	memcpy(value, &version, sizeof(version));
	return size;
}

/* The version of what was read; 0: it is nobody's. */
static uint64_t version_of(struct chaos_load *l, const uint8_t *value,
			   size_t size, unsigned int tenant, size_t i)
{
	uint8_t first[sizeof(uint64_t)];
	uint64_t version, id;

	if (size < VALUE_MIN)
		return 0;
	memcpy(&version, value, sizeof(version));
	if (version > atomic_load(&l->keys[tenant][i].issued) ||
	    size != size_of(l, tenant, i, version))
		return 0;
	id = id_of(tenant, i, version);
	/* The first bytes are the version in place of what they would be. */
	memcpy(first, value, sizeof(first));
	pool_fill((uint8_t *)(uintptr_t)value, sizeof(first), id);
	if (!pool_is_filled(value, size, id))
		version = 0;
	memcpy((uint8_t *)(uintptr_t)value, first, sizeof(first));
	return version;
}

/* ---- reading ---- */

/* Its version, 0: it is not to be had. */
static uint64_t read_key(struct chaos_worker *w, unsigned int tenant, size_t i)
{
	struct chaos_load *l = w->load;
	struct chaos_key *k = &l->keys[tenant][i];
	uint64_t least = atomic_load(&k->floor), now, version;
	int64_t got;
	char key[16];

	name_key(key, i);
	got = pool_get(w->store, key, w->value, l->value_max);
	w->n_calls++;
	if (got < 0)
		return 0;
	w->n_ok++;
	version = version_of(l, w->value, (size_t)got, tenant, i);
	if (!version) {
		fault(l, tenant, i, "has wrong bytes", version);
		return 0;
	}
	now = atomic_load(&k->floor);
	least = now < least ? now : least; /* it was forgiven meanwhile */
	if (version < least)
		fault(l, tenant, i, "is back", version);
	return version;
}

/* ---- changing ---- */

struct change {
	struct chaos_key *key;
	unsigned int deaths, forgiven;
};

static struct change change_begin(struct chaos_load *l, struct chaos_key *k)
{
	return (struct change){k, atomic_load(&l->deaths),
			       atomic_load(&l->forgiven)};
}

/* It was acknowledged: nothing below @floor is there any more. */
static void change_end(struct chaos_load *l, const struct change *c,
		       uint64_t floor, bool there)
{
	struct chaos_key *k = c->key;

	(void)pthread_mutex_lock(&k->mu);
	if (c->forgiven == atomic_load(&l->forgiven))
		atomic_store(&k->floor, floor);
	k->changed_ms = tei_now_ms();
	k->deaths = c->deaths;
	k->there = there;
	(void)pthread_mutex_unlock(&k->mu);
}

static void write_key(struct chaos_worker *w, size_t i)
{
	struct chaos_load *l = w->load;
	unsigned int tenant = tenant_of(w);
	struct chaos_key *k = &l->keys[tenant][i];
	struct te_store_replicate how =
		pool_several(1 + (uint32_t)chance(w, 3));
	struct change c = change_begin(l, k);
	uint64_t version = atomic_fetch_add(&k->issued, 1) + 1;
	char key[16], group[16];
	const char *groups[] = {group};
	struct te_store_key name;
	struct iovec piece = {w->value, fill(l, w->value, tenant, i, version)};
	const struct te_store_value v = {.pieces = &piece, .n_pieces = 1};
	int result = 1;

	name_key(key, i);
	name = pool_key(key);
	how.soft_pin_action = (uint32_t)chance(w, 3);
	how.soft_pin_ttl_ms =
		how.soft_pin_action == TE_STORE_SOFT_PIN_ENABLE ? 500 : 0;
	if (i % 5 == 0) { /* for life */
		(void)snprintf(group, sizeof(group), "g%zu", i % 3);
		how.group_ids = groups;
		how.n_group_ids = 1;
	}
	(void)te_store_upsert(w->store, &name, &v, 1, &how, &result);
	w->n_calls++;
	w->n_ok += !result;
	if (!result)
		change_end(l, &c, version, true);
}

/* Not what is there already; whether it came to it is not known. */
static void put_key(struct chaos_worker *w, size_t i)
{
	struct chaos_load *l = w->load;
	unsigned int tenant = tenant_of(w);
	struct chaos_key *k = &l->keys[tenant][i];
	uint64_t version = atomic_fetch_add(&k->issued, 1) + 1;
	size_t size = fill(l, w->value, tenant, i, version);
	char key[16];

	name_key(key, i);
	w->n_ok += pool_put(w->store, key, w->value, size) == 0;
	w->n_calls++;
}

static void remove_key(struct chaos_worker *w, size_t i)
{
	struct chaos_load *l = w->load;
	struct chaos_key *k = &l->keys[tenant_of(w)][i];
	struct change c = change_begin(l, k);
	struct te_store_key name;
	int result = 1;
	char key[16];

	name_key(key, i);
	name = pool_key(key);
	/* Whatever comes of it. */
	(void)pthread_mutex_lock(&k->mu);
	k->there = false;
	(void)pthread_mutex_unlock(&k->mu);
	(void)te_store_remove(w->store, &name, 1, 1, &result);
	w->n_calls++;
	w->n_ok += !result;
	if (!result)
		change_end(l, &c, atomic_load(&k->issued) + 1, false);
}

/* ---- replicas ---- */

/* Remembers the owners that have it; how many there are. */
static size_t look_where(struct chaos_worker *w, const struct te_store_key *key)
{
	struct te_store_replica at[TE_STORE_REPLICAS_MAX];
	size_t n = TE_STORE_REPLICAS_MAX;
	int result = 0;

	(void)te_store_replicas(w->store, key, 1, &result, at, &n);
	if (result <= 0)
		return 0;
	for (size_t r = 0; r < n; r++) {
		size_t to = w->n_owners++ % TEST_COUNT(w->owners);

		memcpy(w->owners[to], at[r].segment, sizeof(w->owners[to]));
	}
	return n;
}

static const char *some_owner(struct chaos_worker *w)
{
	size_t n = w->n_owners < TEST_COUNT(w->owners) ? w->n_owners
						       : TEST_COUNT(w->owners);

	return n ? w->owners[chance(w, n)] : "nobody:1";
}

static void replicate_key(struct chaos_worker *w, size_t i)
{
	uint8_t id[TE_STORE_TASK_ID_LEN];
	const char *target = some_owner(w);
	struct te_store_task task;
	struct te_store_key name;
	char key[16];
	int rc;

	name_key(key, i);
	name = pool_key(key);
	if (!look_where(w, &name))
		return;
	if (chance(w, 2))
		rc = te_store_copy(w->store, &name, &target, 1, id);
	else
		rc = te_store_move(w->store, &name, some_owner(w), target, id);
	w->n_calls++;
	w->n_ok += !rc;
	if (!rc)
		(void)te_store_task(w->store, id, &task);
}

/* One of several replicas; the only one would be the object. */
static void clear_key(struct chaos_worker *w, size_t i)
{
	struct chaos_key *k = &w->load->keys[tenant_of(w)][i];
	struct te_store_key name;
	int result = 1;
	char key[16];

	name_key(key, i);
	name = pool_key(key);
	if (look_where(w, &name) < 2)
		return;
	/* Another may go meanwhile. */
	(void)pthread_mutex_lock(&k->mu);
	k->there = false;
	(void)pthread_mutex_unlock(&k->mu);
	(void)te_store_replica_clear(w->store, &name, 1, some_owner(w),
				     &result);
	w->n_calls++;
	w->n_ok += !result;
}

/* ---- the load ---- */

static void work(struct chaos_worker *w)
{
	/* Those that this worker changes. */
	size_t each = CHAOS_WORKERS / CHAOS_TENANTS;
	size_t i = (size_t)chance(w, CHAOS_KEYS / each) * each +
		   w->number / CHAOS_TENANTS;
	uint64_t what = chance(w, 100);

	if (what < 40)
		(void)read_key(w, tenant_of(w), chance(w, CHAOS_KEYS));
	else if (what < 75)
		write_key(w, i);
	else if (what < 80)
		put_key(w, i);
	else if (what < 90)
		remove_key(w, i);
	else if (what < 98)
		replicate_key(w, i);
	else
		clear_key(w, i);
}

static void *run(void *arg)
{
	struct chaos_worker *w = arg;

	while (!atomic_load(&w->load->stop) && !atomic_load(&w->load->failed))
		work(w);
	return NULL;
}

static struct te_store *client(const char *master, const char *tenant)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = CALL_MS,
		.replica_timeout_ms = REPLICA_MS,
		.setup_timeout_ms = POOL_START_MS,
		.master = master,
		.tenant = tenant,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

void chaos_load_start(struct chaos_load *l, const char *master, uint64_t seed,
		      uint32_t value_max)
{
	memset(l, 0, sizeof(*l));
	l->value_max = value_max;
	for (size_t i = 0; i < (size_t)CHAOS_TENANTS * CHAOS_KEYS; i++)
		(void)pthread_mutex_init(
			&l->keys[i / CHAOS_KEYS][i % CHAOS_KEYS].mu, NULL);
	for (unsigned int i = 0; i < CHAOS_WORKERS; i++) {
		struct chaos_worker *w = &l->workers[i];

		w->load = l;
		w->number = i;
		w->random = tei_chance_mix(seed + i);
		w->value = malloc(value_max);
		assert_non_null(w->value);
		w->store = client(master, chaos_tenants[tenant_of(w)]);
	}
	for (unsigned int i = 0; i < CHAOS_WORKERS; i++)
		assert_int_equal(pthread_create(&l->workers[i].thread, NULL,
						run, &l->workers[i]),
				 0);
}

void chaos_load_end(struct chaos_load *l)
{
	atomic_store(&l->stop, true);
	for (unsigned int i = 0; i < CHAOS_WORKERS; i++)
		assert_int_equal(pthread_join(l->workers[i].thread, NULL), 0);
}

void chaos_load_close(struct chaos_load *l)
{
	for (unsigned int i = 0; i < CHAOS_WORKERS; i++) {
		te_store_close(l->workers[i].store);
		free(l->workers[i].value);
	}
}

void chaos_owners_die(struct chaos_load *l)
{
	atomic_fetch_add(&l->deaths, 1);
}

void chaos_forgive(struct chaos_load *l, uint64_t since_ms)
{
	atomic_fetch_add(&l->forgiven, 1);
	for (size_t i = 0; i < (size_t)CHAOS_TENANTS * CHAOS_KEYS; i++) {
		struct chaos_key *k = &l->keys[i / CHAOS_KEYS][i % CHAOS_KEYS];

		(void)pthread_mutex_lock(&k->mu);
		if (k->changed_ms >= since_ms)
			atomic_store(&k->floor, 0);
		(void)pthread_mutex_unlock(&k->mu);
	}
}

/* ---- the judgement ---- */

bool chaos_judge(struct chaos_load *l, bool all)
{
	for (unsigned int t = 0; t < CHAOS_TENANTS; t++)
		for (size_t i = 0; i < CHAOS_KEYS; i++) {
			const struct chaos_key *k = &l->keys[t][i];

			if (!read_key(&l->workers[t], t, i) && all &&
			    k->there && k->deaths == atomic_load(&l->deaths))
				return false;
		}
	return true;
}

uint64_t chaos_bytes(struct chaos_load *l, unsigned int tenant)
{
	struct te_store_replica at[TE_STORE_REPLICAS_MAX];
	uint64_t sum = 0;

	for (size_t i = 0; i < CHAOS_KEYS; i++) {
		size_t n = TE_STORE_REPLICAS_MAX;
		struct te_store_key name;
		int result = 0;
		char key[16];

		name_key(key, i);
		name = pool_key(key);
		(void)te_store_replicas(l->workers[tenant].store, &name, 1,
					&result, at, &n);
		if (result == TE_STORE_OBJECT_NOT_FOUND)
			continue;
		if (result <= 0)
			return UINT64_MAX;
		/* All parts but the last are full. */
		for (size_t r = 0; r < n; r++)
			sum += (HEADER * at[r].n_extents + at[r].size + 63) /
			       64 * 64;
	}
	return sum;
}
