/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - a naive model of the core, for random schedules
 *
 * Arrays, all of which are looked at at every step. What the model cannot
 * predict (where extents go, which object is evicted) it learns from the
 * answers and checks.
 */
#ifndef TESTS_UNIT_STORE_CORE_MODEL_H
#define TESTS_UNIT_STORE_CORE_MODEL_H

#include "tests/unit/store_core/charges.h"
#include "tests/unit/store_core/readers.h"
#include "tests/unit/store_core/rig.h"

#define N_KEYS     40
#define N_CLIENTS  5
#define N_SESSIONS 2000
#define N_MOUNTS   1000
#define N_FENCES   2000
#define N_FENCING  8000
#define N_NAMES    4
#define N_GROUPS   3
#define REPLICAS   3
#define PARTS      (REPLICAS * 16)

enum thing_state { ABSENT, BUILDING, READY };
enum life { LIVE, SUSPECT, GONE };

struct session {
	tei_session_id number;
	uint8_t client, incarnation;
	enum life life;
	bool left;
	uint64_t seen, joined_generation;
};

struct mount {
	int owner;
	uint64_t base, size;
	bool there;
};

struct part { /* an extent */
	int mount;
	uint64_t address, length, total;
	uint32_t crc, replica;
	bool lost; /* with its mount, while BUILDING */
};

struct thing { /* an object */
	enum thing_state state;
	int writer, n, group; /* group 0: none */
	uint64_t size, generation, started;
	uint64_t read_until, weak_until, pin_ms, pin_until;
	struct readers readers;
	bool leased, named, hard, no_crc;
	bool vague; /* its pin and its group are not known */
	struct part parts[PARTS];
};

struct fencing { /* an extent under a fence */
	struct part part;
	int writer;
	bool there;
	uint64_t fence; /* its id, 0 until it was sent */
	uint64_t since; /* when the owner began to owe an answer */
};

struct fence {
	uint64_t id;
	int owner;
	bool open;
};

struct walk { /* a remove_all */
	bool pending, force, some;
	uint64_t cookie;
};

/* How often what only some schedules meet was met. */
struct met {
	uint64_t splits, upserts, successions, promotions, pinned, groups;
	uint64_t walked, cleared, faults, fenced_replicas;
};
static struct met met;

struct model {
	struct rig rig;
	struct tei_arena side; /* of questions in between */
	struct tei_core_config config;
	uint64_t seed, random, stalled, generation, evicted, digest;
	unsigned int step;
	bool faulty;
	tei_session_id numbers;
	struct session sessions[N_SESSIONS];
	struct mount mounts[N_MOUNTS];
	struct thing keys[N_KEYS], next[N_KEYS]; /* next: successors */
	struct fencing fencing[N_FENCING];
	struct fence fences[N_FENCES];
	struct walk walk;
	int n_sessions, n_mounts, n_fencing, n_fences;
	uint8_t lives; /* incarnations given out */
};

#define CHECK(m, cond)                                                     \
	do {                                                               \
		if (!(cond))                                               \
			fail_msg("seed %llu step %u: %s",                  \
				 (unsigned long long)(m)->seed, (m)->step, \
				 #cond);                                   \
	} while (0)

static unsigned int roll(struct model *m, unsigned int n)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(m->random >> 33) % n;
}

static uint64_t now_of(const struct model *m)
{
	return m->rig.now - m->stalled;
}

static struct tei_core_key key_of(int k)
{
	static char names[N_KEYS][8];

	snprintf(names[k], sizeof(names[k]), "k%u", (unsigned int)k % 100);
	return rig_key(names[k]);
}

static const char *name_of(int i)
{
	static const char *const names[N_NAMES] = {"s0", "s1", "s2", "s3"};

	return names[i % N_NAMES];
}

static bool mount_live(const struct model *m, int i)
{
	return m->mounts[i].there &&
	       m->sessions[m->mounts[i].owner].life == LIVE;
}

static bool part_there(const struct model *m, const struct part *p)
{
	return !p->lost && m->mounts[p->mount].there;
}

static bool part_live(const struct model *m, const struct part *p)
{
	return !p->lost && mount_live(m, p->mount);
}

static bool thing_live(const struct model *m, const struct thing *t)
{
	for (int i = 0; i < t->n; i++)
		if (part_live(m, &t->parts[i]))
			return true;
	return false;
}

static bool lease_on(const struct model *m, const struct thing *k)
{
	return k->leased && k->read_until > now_of(m);
}

static bool pin_on(const struct model *m, const struct thing *k)
{
	return !k->vague && k->pin_until > now_of(m);
}

/* May go, if not in the first pass then in the second. */
static bool evictable(const struct model *m, const struct thing *k)
{
	return k->state == READY && !k->hard && thing_live(m, k) &&
	       !lease_on(m, k) &&
	       (!pin_on(m, k) || m->config.evict_soft_pinned);
}

/* What is of key @k goes: its successor stands alone. */
static void vanish(struct model *m, struct thing *t)
{
	t->state = ABSENT;
	for (int k = 0; k < N_KEYS; k++)
		if (t == &m->keys[k] && m->next[k].state == BUILDING) {
			m->keys[k] = m->next[k];
			met.promotions++;
			m->next[k].state = ABSENT;
		}
}

/* Take the parts out that @where says. */
static void cut(struct model *m, struct thing *t,
		bool (*where)(const struct model *m, const struct part *p,
			      uint64_t arg),
		uint64_t arg)
{
	int n = 0;

	for (int i = 0; i < t->n; i++)
		if (!where(m, &t->parts[i], arg))
			t->parts[n++] = t->parts[i];
	t->n = n;
}

static bool on_mount(const struct model *m, const struct part *p, uint64_t i)
{
	(void)m;
	return (uint64_t)p->mount == i;
}

static bool not_in(const struct model *m, const struct part *p, uint64_t mask)
{
	(void)m;
	return !(mask >> p->replica & 1);
}

static void unmount_thing(struct model *m, struct thing *t, int i)
{
	bool there = false;

	if (t->state == READY) {
		cut(m, t, on_mount, (uint64_t)i);
		if (!t->n)
			vanish(m, t);
	} else if (t->state == BUILDING) {
		for (int p = 0; p < t->n; p++) {
			t->parts[p].lost |= t->parts[p].mount == i;
			there |= part_there(m, &t->parts[p]);
		}
		if (!there)
			vanish(m, t);
	}
}

static void unmount(struct model *m, int i)
{
	m->mounts[i].there = false;
	for (int k = 0; k < N_KEYS; k++) {
		unmount_thing(m, &m->next[k], i);
		unmount_thing(m, &m->keys[k], i);
	}
	for (int f = 0; f < m->n_fencing; f++)
		if (m->fencing[f].part.mount == i)
			m->fencing[f].there = false;
}

/* What a session's end takes with it at once. */
static void end_session(struct model *m, int s)
{
	m->sessions[s].life = GONE;
	for (int i = 0; i < m->n_mounts; i++)
		if (m->mounts[i].owner == s && m->mounts[i].there)
			unmount(m, i);
	for (int f = 0; f < m->n_fences; f++)
		if (m->fences[f].owner == s)
			m->fences[f].open = false;
}

static void seen(struct model *m, int s)
{
	if (m->sessions[s].left || m->sessions[s].life == GONE)
		return;
	m->sessions[s].life = LIVE;
	m->sessions[s].seen = now_of(m);
}

/* Those of the replicas @mask, where the writer may still write. */
static void fence_parts(struct model *m, const struct thing *t, uint32_t mask)
{
	for (int i = 0; i < t->n; i++) {
		const struct part *p = &t->parts[i];

		if (!(mask >> p->replica & 1) || !part_there(m, p))
			continue;
		CHECK(m, m->n_fencing < N_FENCING);
		m->fencing[m->n_fencing++] =
			(struct fencing){.part = *p,
					 .writer = t->writer,
					 .there = true,
					 .since = now_of(m)};
	}
}

/* The key is free, its space when the owners have confirmed. */
static void discard(struct model *m, struct thing *t)
{
	fence_parts(m, t, UINT32_MAX);
	vanish(m, t);
}

static bool discard_due(const struct model *m, const struct thing *k)
{
	return k->state == BUILDING &&
	       (m->sessions[k->writer].life == GONE ||
		k->started + m->config.put_discard_ms <= now_of(m));
}

static void discard_late(struct model *m)
{
	for (int k = 0; k < N_KEYS; k++) {
		if (discard_due(m, &m->next[k]))
			discard(m, &m->next[k]);
		if (discard_due(m, &m->keys[k]))
			discard(m, &m->keys[k]);
	}
}

/* Fences sent by this step must be those that the model waits for. */
static int match_fence(struct model *m, const struct tei_action *a)
{
	int n = 0;

	for (int j = 0; j < m->n_fencing; j++) {
		struct fencing *t = &m->fencing[j];
		int owner = m->mounts[t->part.mount].owner;

		if (!t->there || t->fence ||
		    m->sessions[owner].number != a->session ||
		    m->sessions[t->writer].incarnation != a->u.fence.writer[0])
			continue;
		t->fence = a->u.fence.fence;
		m->fences[m->n_fences].owner = owner;
		n++;
	}
	return n;
}

static void take_fences(struct model *m)
{
	for (size_t i = 0; i < m->rig.out.n; i++) {
		const struct tei_action *a = &m->rig.out.at[i];
		int known = 0;

		if (a->type != TEI_ACTION_FENCE)
			continue;
		for (int j = 0; j < m->n_fences; j++)
			known += m->fences[j].id == a->u.fence.fence;
		if (known)
			continue; /* sent again after a join */
		m->fences[m->n_fences] =
			(struct fence){a->u.fence.fence, -1, true};
		CHECK(m, match_fence(m, a) > 0);
		CHECK(m, ++m->n_fences < N_FENCES);
	}
	for (int j = 0; j < m->n_fencing; j++)
		CHECK(m, !m->fencing[j].there || m->fencing[j].fence ||
				 m->sessions[m->mounts[m->fencing[j].part.mount]
						     .owner]
					 .left);
}

/*
 * SIZE changes nothing, but a session that asks is alive: a live one asks. The
 * answer that is being looked at stays.
 */
static bool key_there(struct model *m, int k)
{
	struct tei_core_key key = key_of(k);
	struct tei_event ev = {.type = TEI_EVENT_SIZE, .n = 1, .keys = &key};

	for (int s = 0; s < m->n_sessions; s++)
		if (m->sessions[s].life == LIVE) {
			struct tei_actions out = {.arena = &m->side};

			ev.session = m->sessions[s].number;
			tei_arena_reset(&m->side);
			CHECK(m, tei_core_step(m->rig.core, &ev, m->rig.now,
					       &out) == 0);
			CHECK(m, out.n == 1);
			seen(m, s);
			return out.at[0].u.reply.status[0] == 0;
		}
	return false;
}

static bool in_batch(const int *batch, size_t n, int k)
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
		    !pin_on(m, t) && !in_batch(batch, n, k))
			CHECK(m, !evictable(m, t));
	}
}

/* Without it there could be room for @total bytes in a row. */
static bool helps(const struct model *m, const struct thing *t, uint64_t total)
{
	for (int i = 0; i < t->n; i++)
		if (part_live(m, &t->parts[i]) &&
		    m->mounts[t->parts[i].mount].size >= total)
			return true;
	return false;
}

/* Those that are pinned softly go when no others are left that help. */
static void check_passes(struct model *m, const int *batch, size_t n,
			 uint64_t most)
{
	for (int k = 0; k < N_KEYS; k++)
		if (!m->keys[k].vague && !pin_on(m, &m->keys[k]) &&
		    !in_batch(batch, n, k) && helps(m, &m->keys[k], most))
			CHECK(m, !evictable(m, &m->keys[k]));
}

/*
 * Which READY objects has this step evicted, for objects of @most bytes or
 * less? Those of @batch may have been spared for a moment.
 */
static void take_evictions(struct model *m, const int *batch, size_t n,
			   uint64_t most)
{
	uint64_t total = rig_figures(&m->rig).evicted_objects_total;
	bool groups[N_GROUPS + 1] = {false}, pinned = false;

	for (int k = 0; k < N_KEYS && m->evicted < total; k++) {
		struct thing *t = &m->keys[k];

		if (!evictable(m, t) || key_there(m, k))
			continue;
		pinned |= pin_on(m, t);
		if (!t->vague)
			groups[t->group] = true;
		vanish(m, t);
		m->evicted++;
	}
	CHECK(m, m->evicted == total);
	for (int g = 1; g <= N_GROUPS; g++)
		if (groups[g]) {
			met.groups++;
			check_group(m, g, batch, n);
		}
	met.pinned += pinned;
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
static void check_no_overlap(const struct model *m, const struct thing *t)
{
	for (int i = 0; t->state == BUILDING && i < t->n; i++)
		if (part_there(m, &t->parts[i]))
			check_part(m, &t->parts[i]);
}

static uint64_t used_by(const struct model *m, const struct thing *t)
{
	uint64_t used = 0;

	for (int i = 0; t->state != ABSENT && i < t->n; i++)
		if (part_live(m, &t->parts[i]))
			used += t->parts[i].total;
	return used;
}

static void check_figures(struct model *m)
{
	struct tei_core_figures f = rig_figures(&m->rig);
	uint64_t used = 0, capacity = 0, n[3] = {0}, fencing = 0;

	for (int k = 0; k < N_KEYS; k++) {
		n[m->keys[k].state]++;
		n[m->next[k].state]++;
		used += used_by(m, &m->keys[k]) + used_by(m, &m->next[k]);
	}
	for (int i = 0; i < m->n_fencing; i++) {
		fencing += m->fencing[i].there;
		if (m->fencing[i].there && part_live(m, &m->fencing[i].part))
			used += m->fencing[i].part.total;
	}
	for (int i = 0; i < m->n_mounts; i++)
		if (mount_live(m, i))
			capacity += m->mounts[i].size;
	CHECK(m, f.used_bytes == used);
	CHECK(m, f.capacity_bytes == capacity);
	CHECK(m, charges_exact(m->rig.core));
	if (tei_core_busy(m->rig.core))
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
static void check_no_hole(struct model *m, uint64_t total)
{
	for (int i = 0; i < m->n_mounts; i++)
		if (mount_live(m, i))
			CHECK(m, largest_hole(m, i) < total);
}

#endif
