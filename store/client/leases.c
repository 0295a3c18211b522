/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c - leases of open keys: renewal, and keys that are kept open */
#include <string.h>

#include "base/clock.h"
#include "store/client/get.h"
#include "store/client/release.h"
#include "store/client/renewal.h"

#define KEYS_MAX  1024u /* of one look-up */
#define ARENA_MAX (4u << 20)

/* ---- one look-up ---- */

/* Tells whether the replica that we remember is one of those that are there. */
static bool is_there(const struct tes_get_round *round,
		     const struct tes_get_entry *entry,
		     const struct tes_location *location)
{
	const struct tes_layout *layout = &entry->layout;

	if (entry->generation != location->generation ||
	    entry->gen_epoch != location->gen_epoch)
		return false;
	for (uint32_t k = 0; k < layout->n_extents;
	     k += layout->extents[k].count) {
		const struct tes_extent_at *x = &layout->extents[k];
		const uint8_t *owner = round->places.at[x->place].incarnation;

		if (owner && x->address == location->extents[0].address &&
		    memcmp(owner, location->owner->incarnation,
			   TE_INCARNATION_LEN) == 0)
			return true;
	}
	return false;
}

static void renew_key(struct tes_get_round *round,
		      const struct tes_get_entry *entry)
{
	struct tes_locations *l = &round->chunk->store->locations;
	const struct te_store_key *key = &round->chunk->keys[entry->item];
	struct tes_location *location;

	if (!entry->open &&
	    round->chunk->results[entry->item] != TE_STORE_OBJECT_NOT_FOUND)
		return; /* nobody knows */
	location = tes_locations_get(l, key->bytes, key->len, entry->digest,
				     tei_now_ns());
	if (!location)
		return; /* closed, or over meanwhile */
	if (entry->open && is_there(round, entry, location))
		tes_locations_extend(l, location, entry->lease_until_ns);
	else
		tes_locations_drop(l, key->bytes, key->len, entry->digest,
				   location->generation);
	tes_location_put(l, location);
}

/* False: it was in vain. */
static bool renew_some(struct te_store *store, const struct te_store_key *keys,
		       size_t n)
{
	struct tes_get_chunk chunk = {.store = store, .keys = keys, .n = n};
	struct tes_get_round round;
	size_t n_open = 0, i;

	if (tes_look_up(&chunk, &round, NULL))
		return false;
	for (i = 0; i < round.n; i++) {
		renew_key(&round, &round.entries[i]);
		n_open += round.entries[i].open;
	}
	tes_get_release(&round);
	tes_look_up_end(&round);
	return n_open > 0;
}

/* ---- all that are due ---- */

static void renew_due(struct te_store *store)
{
	struct tes_renewal *r = &store->renewal;
	/* Relaxed: any value that it ever had will do. */
	uint64_t lease_ns =
		atomic_load_explicit(&r->lease_ms, memory_order_relaxed) *
		TEI_NS_PER_MS;
	uint64_t before_ns = tei_now_ns() + lease_ns / 3 * 2;
	struct te_store_key *keys;
	struct tei_arena arena;
	bool more;

	tei_arena_init(&arena, ARENA_MAX);
	do {
		size_t n = 0;

		tei_arena_reset(&arena);
		keys = tei_arena_calloc(&arena, KEYS_MAX, sizeof(*keys));
		if (keys)
			n = tes_locations_due(&store->locations, tei_now_ns(),
					      before_ns, &arena, keys,
					      KEYS_MAX);
		more = n && renew_some(store, keys, n) && n == KEYS_MAX &&
		       !atomic_load(&store->helper.stopping);
	} while (more);
	tei_arena_fini(&arena);
}

static void run_job(struct tes_job *job, bool stopping)
{
	struct tes_renewal *r = TEI_CONTAINER(job, struct tes_renewal, job);

	if (!stopping)
		renew_due(TEI_CONTAINER(r, struct te_store, renewal));
	/* Release: the job is the loop's again. */
	atomic_store_explicit(&r->busy, false, memory_order_release);
}

/* ---- when ---- */

static void set_alarm(struct tes_renewal *r)
{
	unsigned int lease_ms =
		atomic_load_explicit(&r->lease_ms, memory_order_relaxed);

	/* Without memory the next open tries again; until then leases end. */
	if (tei_alarm_set(&r->alarm, lease_ms / 3 + 1))
		atomic_store(&r->asked, false);
}

/*
 * An open pins first and then asks for renewals. If it pins after this look
 * under the same lock, it finds that nobody has asked, and asks.
 */
static bool is_needed(struct te_store *store)
{
	struct tes_renewal *r = &store->renewal;

	if (tes_locations_pinned(&store->locations))
		return true;
	atomic_store(&r->asked, false);
	return tes_locations_pinned(&store->locations) &&
	       !atomic_exchange(&r->asked, true);
}

static void on_alarm(void *arg)
{
	struct te_store *store = arg;
	struct tes_renewal *r = &store->renewal;

	if (!is_needed(store))
		return;
	/* Acquire: its callee has done with the job. */
	if (store->link.state == TES_MASTER_LINK_UP &&
	    !atomic_exchange_explicit(&r->busy, true, memory_order_acquire))
		tes_helper_add(&store->helper, &r->job);
	set_alarm(r);
}

static void begin_renewal(struct tei_call *call)
{
	struct tes_renewal *r = TEI_CONTAINER(call, struct tes_renewal, begin);

	if (!r->ended)
		set_alarm(r);
}

/* Asks for renewals: something was opened and leased for @lease_ms. Any thread
 * but the loop's. */
static void renewal_ask(struct te_store *store, uint32_t lease_ms)
{
	struct tes_renewal *r = &store->renewal;

	atomic_store_explicit(&r->lease_ms, lease_ms, memory_order_relaxed);
	if (!atomic_exchange(&r->asked, true))
		(void)tei_loop_post(store->loop, &r->begin);
}

void tes_renewal_start(struct te_store *store)
{
	struct tes_renewal *r = &store->renewal;

	r->begin.fn = begin_renewal;
	r->job.run = run_job;
	tei_alarm_init(&r->alarm, store->loop, on_alarm, store);
}

void tes_renewal_stop(struct te_store *store)
{
	store->renewal.ended = true;
	tei_alarm_clear(&store->renewal.alarm);
}

/* ---- leases that are renewed, so reads need no look-up ---- */

/*
 * They are pinned locations, whose leases are renewed (renewal.h). One that is
 * over, or did not hold, is looked up by the read that finds out, which pins
 * what it finds; its lease is kept, too.
 */

static int hold_key(struct tes_get_round *round, struct tes_get_entry *entry)
{
	int rc = tes_get_reach(round, entry);

	if (rc)
		return TE_STORE_TRANSFER_FAIL;
	return tes_get_hold(round, entry) ? TE_STORE_INTERNAL_ERROR : 0;
}

static void open_chunk(struct te_store *store, const struct te_store_key *keys,
		       size_t n, int *results)
{
	struct tes_get_chunk chunk = {.store = store, .keys = keys, .n = n};
	struct tes_get_round round;
	size_t i;

	if (tes_look_up(&chunk, &round, results))
		return;
	for (i = 0; i < round.n; i++) {
		struct tes_get_entry *entry = &round.entries[i];

		if (entry->open)
			results[entry->item] = hold_key(&round, entry);
	}
	tes_get_release(&round);
	if (chunk.lease_ms)
		renewal_ask(store, chunk.lease_ms);
	tes_look_up_end(&round);
}

int tes_direct_get_open(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results)
{
	size_t from, len;

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		open_chunk(store, keys + from, len, results + from);
	}
	return tes_first_code(results, n);
}

/* ---- closing ---- */

static uint64_t unpin(struct te_store *store, const struct te_store_key *key,
		      uint64_t now, uint64_t *gen_epoch)
{
	uint64_t seed =
		atomic_load_explicit(&store->digest_seed, memory_order_relaxed);

	return tes_locations_unpin(&store->locations, key->bytes, key->len,
				   tes_key_digest(key->bytes, key->len, seed),
				   now, gen_epoch);
}

static void close_chunk(struct te_store *store, const struct te_store_key *keys,
			size_t n, struct tei_arena *arena)
{
	uint64_t now = tei_now_ns(), generation, gen_epoch;
	struct tes_release release;
	size_t bytes = tes_keys_bytes(keys, n);
	bool can_tell = !tes_release_init(&release, arena, n, bytes);

	for (size_t i = 0; i < n; i++) {
		generation = tes_key_holds(&keys[i])
				     ? unpin(store, &keys[i], now, &gen_epoch)
				     : 0;
		if (generation && can_tell)
			tes_release_add(&release, &keys[i], generation,
					gen_epoch);
	}
	if (can_tell)
		tes_release_tell(&release, store, arena);
}

int tes_direct_get_close(struct te_store *store,
			 const struct te_store_key *keys, size_t n)
{
	struct tei_arena arena;
	size_t from, len;

	if (!tes_keys_given(store, keys, n, keys))
		return TE_STORE_INVALID_PARAMS;
	tei_arena_init(&arena, 64u << 20);
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		close_chunk(store, keys + from, len, &arena);
		tei_arena_reset(&arena);
	}
	tei_arena_fini(&arena);
	return 0;
}
