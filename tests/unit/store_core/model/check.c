/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - what has to hold after every step, and what was evicted */
#include "tests/unit/store_core/charges.h"
#include "tests/unit/store_core/model/model.h"

/*
 * SIZE changes nothing, but a session that asks is alive: a live one asks. The
 * answer that is being looked at stays.
 */
bool model_key_there(struct model *m, int k)
{
	struct tes_core_key key = model_key_of(k);
	struct tes_event ev = {.type = TES_EVENT_SIZE, .n = 1, .keys = &key};

	for (int s = 0; s < m->n_sessions; s++)
		if (m->sessions[s].life == LIVE) {
			struct tes_actions out = {.arena = &m->side};

			ev.session = m->sessions[s].number;
			tei_arena_reset(&m->side);
			CHECK(m, tes_core_step(m->rig.core, &ev, m->rig.now,
					       &out) == 0);
			CHECK(m, out.n == 1);
			model_seen(m, s);
			return out.at[0].u.reply.status[0] == 0;
		}
	return false;
}

bool model_in_batch(const int *batch, size_t n, int k)
{
	for (size_t i = 0; i < n; i++)
		if (batch[i] == k)
			return true;
	return false;
}

/* What a group's eviction should have taken along. */
static void check_group(struct model *m, int group, const int *batch, size_t n)
{
	for (int k = 0; k < N_KEYS; k++) {
		const struct thing *t = &m->keys[k];

		if (group && t->group == group && !t->vague && !t->leased &&
		    !model_pin_on(m, t) && !model_in_batch(batch, n, k))
			CHECK(m, !model_evictable(m, t));
	}
}

/* Without it there could be room for @total bytes in a row. */
bool model_helps(const struct model *m, const struct thing *t, uint64_t total)
{
	for (int i = 0; i < t->n; i++)
		if (model_part_live(m, &t->parts[i]) &&
		    m->mounts[t->parts[i].mount].size >= total)
			return true;
	return false;
}

/* Those that are pinned softly go when no others are left that help. */
static void check_passes(struct model *m, const int *batch, size_t n,
			 uint64_t most)
{
	for (int k = 0; k < N_KEYS; k++)
		if (!m->keys[k].vague && !model_pin_on(m, &m->keys[k]) &&
		    !model_in_batch(batch, n, k) &&
		    model_helps(m, &m->keys[k], most))
			CHECK(m, !model_evictable(m, &m->keys[k]));
}

/*
 * Which READY objects has this step evicted, for objects of @most bytes or
 * less? Those of @batch may have been spared for a moment.
 */
void model_take_evictions(struct model *m, const int *batch, size_t n,
			  uint64_t most)
{
	uint64_t total = rig_figures(&m->rig).evicted_objects_total;
	bool groups[N_GROUPS + 1] = {false}, pinned = false;

	for (int k = 0; k < N_KEYS && m->evicted < total; k++) {
		struct thing *t = &m->keys[k];

		if (!model_evictable(m, t) || model_key_there(m, k))
			continue;
		pinned |= model_pin_on(m, t);
		if (!t->vague)
			groups[t->group] = true;
		model_evict(m, t);
	}
	CHECK(m, m->evicted == total);
	for (int g = 1; g <= N_GROUPS; g++)
		if (groups[g]) {
			model_met.groups++;
			check_group(m, g, batch, n);
		}
	model_met.pinned += pinned;
	if (pinned)
		check_passes(m, batch, n, most);
}

static bool apart(const struct part *a, const struct part *b)
{
	return a->address + a->total <= b->address ||
	       b->address + b->total <= a->address;
}

static void check_part(const struct model *m, const struct part *a)
{
	const struct mount *at = &m->mounts[a->mount];

	CHECK(m, a->address >= at->base &&
			 a->address + a->total <= at->base + at->size);
	for (int k = 0; k < 2 * N_KEYS; k++) {
		const struct thing *t =
			k < N_KEYS ? &m->keys[k] : &m->next[k - N_KEYS];

		for (int i = 0; t->state != ABSENT && i < t->n; i++)
			CHECK(m, a == &t->parts[i] || apart(a, &t->parts[i]));
	}
	for (int f = 0; f < m->n_fencing; f++)
		CHECK(m, !m->fencing[f].there || apart(a, &m->fencing[f].part));
}

/* No part of it overlaps with any other, nor with space under a fence. */
void model_check_no_overlap(const struct model *m, const struct thing *t)
{
	for (int i = 0; t->state == BUILDING && i < t->n; i++)
		if (model_part_there(m, &t->parts[i]))
			check_part(m, &t->parts[i]);
}

static uint64_t used_by(const struct model *m, const struct thing *t)
{
	uint64_t used = 0;

	for (int i = 0; t->state != ABSENT && i < t->n; i++)
		if (model_part_live(m, &t->parts[i]))
			used += t->parts[i].total;
	return used;
}

void model_check_figures(struct model *m)
{
	struct tes_core_figures f = rig_figures(&m->rig);
	uint64_t used = 0, capacity = 0, n[3] = {0}, fencing = 0;

	for (int k = 0; k < N_KEYS; k++) {
		n[m->keys[k].state]++;
		n[m->next[k].state]++;
		used += used_by(m, &m->keys[k]) + used_by(m, &m->next[k]);
	}
	for (int i = 0; i < m->n_fencing; i++) {
		fencing += m->fencing[i].there;
		if (m->fencing[i].there &&
		    model_part_live(m, &m->fencing[i].part))
			used += m->fencing[i].part.total;
	}
	for (int i = 0; i < m->n_mounts; i++)
		if (model_mount_live(m, i))
			capacity += m->mounts[i].size;
	CHECK(m, f.used_bytes == used);
	CHECK(m, f.capacity_bytes == capacity);
	CHECK(m, charges_exact(m->rig.core));
	if (tes_core_busy(m->rig.core))
		return;
	CHECK(m, f.objects == n[READY]);
	CHECK(m, f.building == n[BUILDING]);
	CHECK(m, f.fencing == fencing);
}

struct gaps { /* what is taken of one mount */
	int mount;
	size_t n;
	const struct part *taken[512];
};

static void note_taken(struct model *m, struct gaps *g, const struct part *p)
{
	if (p->mount != g->mount || p->lost)
		return;
	CHECK(m, g->n < sizeof(g->taken) / sizeof(g->taken[0]));
	g->taken[g->n++] = p;
}

static int by_address(const void *a, const void *b)
{
	const struct part *x = *(const struct part *const *)a;
	const struct part *y = *(const struct part *const *)b;

	return (x->address > y->address) - (x->address < y->address);
}

/* The largest hole of mount @i. */
static uint64_t largest_hole(struct model *m, int i)
{
	struct gaps g = {.mount = i};
	uint64_t at = m->mounts[i].base, best = 0;

	for (int k = 0; k < 2 * N_KEYS; k++) {
		const struct thing *t =
			k < N_KEYS ? &m->keys[k] : &m->next[k - N_KEYS];

		for (int j = 0; t->state != ABSENT && j < t->n; j++)
			note_taken(m, &g, &t->parts[j]);
	}
	for (int f = 0; f < m->n_fencing; f++)
		if (m->fencing[f].there)
			note_taken(m, &g, &m->fencing[f].part);
	qsort(g.taken, g.n, sizeof(g.taken[0]), by_address);
	for (size_t j = 0; j < g.n; j++) {
		if (g.taken[j]->address - at > best)
			best = g.taken[j]->address - at;
		at = g.taken[j]->address + g.taken[j]->total;
	}
	at = m->mounts[i].base + m->mounts[i].size - at;
	return at > best ? at : best;
}

/* No live mount has a hole of @total bytes. */
void model_check_no_hole(struct model *m, uint64_t total)
{
	for (int i = 0; i < m->n_mounts; i++)
		if (model_mount_live(m, i))
			CHECK(m, largest_hole(m, i) < total);
}
