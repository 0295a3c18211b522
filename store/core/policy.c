/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.c - which object is worth least: what eviction takes first
 *
 * For each queue and age the policy counts the bytes that had reached that age
 * unused and those of them that were used at it; their quotient is the hazard
 * of a use. What room is worth that an object of that age takes is the best
 * ratio of (uses to expect) to (ticks of room to pay for them) over all times
 * that one might keep it. Where use comes in humps, as when people read an
 * answer before they ask on, that is not the hazard of the next tick.
 *
 * Eviction looks at the oldest object of a queue only, so the worth within a
 * queue is made to fall with age: then the oldest is the least. Before anything
 * is known the hazard is taken to fall with age too and to grow with the
 * touches, which is about LRU with some respect for what was used twice.
 */
#include "store/core/policy.h"

#include <string.h>

#include "base/mem.h"

#define TICKS 16 /* of one capacity */
#define AGES  TES_POLICY_AGES

/* Decay per tick: observations count half as much when two capacities more were
 * added. */
#define FADE 0.98
/* Ghosts for each object that there is; what is added in AGES ticks is more. */
#define GHOSTS 2
/* The assumed hazard of queue q at age a: BEFORE * (1 + q) / (a + 2). It has
 * the weight of this part of the capacity seen. */
#define BEFORE        0.2
#define BEFORE_WEIGHT 0.05
/* Objects older than all ages against those of the last age. */
#define BEYOND 0.5
/* Neighbours on each side, each worth half of the one before it. */
#define SMOOTH 3

#define WAYS          16u  /* ghosts of a bucket */
#define FULL          12u  /* of them used, on average, before it grows */
#define CHUNK_BUCKETS 512u /* 64 KiB */
#define FIRST_BUCKETS 8u

/* ---- ghosts: keys that were evicted ----
 *
 * Linear hashing over buckets of two cache lines: the table grows by a bucket
 * when it, or the bucket that is needed, is too full, so no eviction costs more
 * than two buckets, and memory comes in chunks. The table never shrinks; each
 * put sweeps one bucket of ghosts that have become too old.
 */

struct ghost {
	uint32_t tag;
	uint16_t tick;
	uint8_t touches; /* 0: free */
};

struct tes_ghost_bucket {
	struct ghost ghost[WAYS];
};

static uint32_t tag_of(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

/* Largest power of two that is not above n_buckets. */
static size_t level_of(const struct tes_ghosts *g)
{
	return (size_t)1 << (63 - __builtin_clzll(g->n_buckets));
}

static struct tes_ghost_bucket *bucket_at(const struct tes_ghosts *g, size_t i)
{
	return &g->chunks[i / CHUNK_BUCKETS][i % CHUNK_BUCKETS];
}

static struct tes_ghost_bucket *bucket_of(const struct tes_ghosts *g,
					  uint32_t tag)
{
	size_t low = level_of(g), i = tag & (2 * low - 1);

	return bucket_at(g, i < g->n_buckets ? i : i - low);
}

static void prefetch_ghost(const struct tes_ghosts *g, uint64_t hash)
{
	const char *b;

	if (!g->n_buckets)
		return;
	b = (const char *)bucket_of(g, tag_of(hash));
	__builtin_prefetch(b, 1);
	__builtin_prefetch(b + 64, 1);
}

void tes_ghosts_init(struct tes_ghosts *g)
{
	*g = (struct tes_ghosts){0};
}

void tes_ghosts_fini(struct tes_ghosts *g)
{
	for (size_t i = 0; i < g->n_chunks; i++)
		tei_free(g->chunks[i]);
	tei_free(g->chunks);
	tes_ghosts_init(g);
}

size_t tes_ghosts_bytes(const struct tes_ghosts *g)
{
	return g->chunks_room * sizeof(*g->chunks) +
	       g->n_chunks * CHUNK_BUCKETS * sizeof(struct tes_ghost_bucket);
}

static bool is_too_old(const struct ghost *e, uint16_t now)
{
	return (uint16_t)(now - e->tick) >= TES_GHOSTS_AGES;
}

static void drop_ghost(struct tes_ghosts *g, struct ghost *e)
{
	e->touches = 0;
	g->n--;
}

static void sweep_bucket(struct tes_ghosts *g, struct tes_ghost_bucket *b,
			 uint16_t now)
{
	for (size_t i = 0; i < WAYS; i++)
		if (b->ghost[i].touches && is_too_old(&b->ghost[i], now))
			drop_ghost(g, &b->ghost[i]);
}

static bool add_chunk(struct tes_ghosts *g)
{
	size_t room = g->chunks_room ? g->chunks_room * 2 : 8;
	struct tes_ghost_bucket **chunks = g->chunks, *chunk;

	if (g->n_chunks == g->chunks_room) {
		chunks = tei_realloc(chunks, room * sizeof(*chunks));
		if (!chunks)
			return false;
		g->chunks = chunks;
		g->chunks_room = room;
	}
	chunk = tei_aligned_calloc(sizeof(*chunk),
				   CHUNK_BUCKETS * sizeof(*chunk));
	if (!chunk)
		return false;
	g->chunks[g->n_chunks++] = chunk;
	return true;
}

/* Add one bucket and move what belongs there from the one it splits. */
static void split_bucket(struct tes_ghosts *g)
{
	size_t added = g->n_buckets, low = level_of(g);
	struct tes_ghost_bucket *from, *to;

	if (added == g->n_chunks * CHUNK_BUCKETS && !add_chunk(g))
		return;
	from = bucket_at(g, added - low);
	to = bucket_at(g, added);
	g->n_buckets++;
	for (size_t i = 0; i < WAYS; i++)
		if (from->ghost[i].touches && (from->ghost[i].tag & low)) {
			to->ghost[i] = from->ghost[i];
			from->ghost[i].touches = 0;
		}
}

static bool create_table(struct tes_ghosts *g)
{
	if (!g->n_buckets && add_chunk(g))
		g->n_buckets = FIRST_BUCKETS;
	return g->n_buckets;
}

/* Finds a free place, or that of the oldest. */
static struct ghost *place_in_bucket(struct tes_ghost_bucket *b, uint16_t now)
{
	struct ghost *oldest = &b->ghost[0];

	for (size_t i = 0; i < WAYS; i++) {
		struct ghost *e = &b->ghost[i];

		if (!e->touches)
			return e;
		if ((uint16_t)(now - e->tick) > (uint16_t)(now - oldest->tick))
			oldest = e;
	}
	return oldest;
}

void tes_ghosts_put(struct tes_ghosts *g, uint64_t hash, uint16_t tick,
		    uint8_t touches, uint16_t now, size_t limit)
{
	struct ghost *e;

	if (!create_table(g))
		return;
	g->swept = g->swept + 1 < g->n_buckets ? g->swept + 1 : 0;
	sweep_bucket(g, bucket_at(g, g->swept), now);
	e = place_in_bucket(bucket_of(g, tag_of(hash)), now);
	if ((e->touches || g->n >= g->n_buckets * FULL) &&
	    g->n_buckets * FULL < limit) {
		split_bucket(g);
		e = place_in_bucket(bucket_of(g, tag_of(hash)), now);
	}
	if (!e->touches)
		g->n++;
	*e = (struct ghost){tag_of(hash), tick, touches};
}

bool tes_ghosts_take(struct tes_ghosts *g, uint64_t hash, uint16_t now,
		     uint16_t *tick, uint8_t *touches)
{
	struct tes_ghost_bucket *b;

	if (!g->n)
		return false;
	b = bucket_of(g, tag_of(hash));
	for (size_t i = 0; i < WAYS; i++) {
		struct ghost *e = &b->ghost[i];

		if (!e->touches || e->tag != tag_of(hash) || is_too_old(e, now))
			continue;
		*tick = e->tick;
		*touches = e->touches;
		drop_ghost(g, e);
		return true;
	}
	return false;
}

/* ---- policy: ages and hazards ---- */

struct stretch {
	double uses, ticks, left; /* left: the part still unused at its end */
};

static unsigned int queue_of(const struct tes_policy_node *node)
{
	unsigned int q = 31u - (unsigned int)__builtin_clz(node->touches);

	return q < TES_POLICY_QUEUES ? q : TES_POLICY_QUEUES - 1;
}

static unsigned int age_of(const struct tes_policy *p, uint16_t tick)
{
	uint16_t age = (uint16_t)(p->now - tick);

	return age < AGES ? age : AGES;
}

static void count_in(struct tes_policy *p, struct tes_policy_node *node)
{
	node->tick = p->now;
	p->past[queue_of(node)].alive[p->now % AGES] += node->units;
}

static void count_out(struct tes_policy *p, const struct tes_policy_node *node,
		      bool used)
{
	struct tes_policy_past *past = &p->past[queue_of(node)];
	unsigned int age = age_of(p, node->tick);
	double *alive = &past->alive[node->tick % AGES];

	if (age >= AGES)
		return;
	*alive = *alive > node->units ? *alive - node->units : 0;
	if (used)
		past->fresh[age] += node->units;
}

/* The tick is over: what was alive in it has been seen at its age. */
static void learn_tick(struct tes_policy_past *past, uint16_t now)
{
	for (unsigned int age = 0; age < AGES; age++) {
		double seen = past->alive[(uint16_t)(now - age) % AGES] +
			      past->fresh[age];

		past->seen[age] =
			past->seen[age] * FADE + (age ? seen : seen / 2);
		past->used[age] = past->used[age] * FADE + past->fresh[age];
		past->fresh[age] = 0;
	}
}

static double hazard_at(const struct tes_policy_past *past, int age,
			double before, double weight)
{
	double used = past->used[age] + before * weight;
	double seen = past->seen[age] + weight, part = 0.5;

	for (int i = 1; i <= SMOOTH; i++) {
		if (age - i >= 0) {
			used += part * past->used[age - i];
			seen += part * past->seen[age - i];
		}
		if (age + i < AGES) {
			used += part * past->used[age + i];
			seen += part * past->seen[age + i];
		}
		part /= 2;
	}
	return used < 0.999 * seen ? used / seen : 0.999;
}

static bool has_better_ratio(const struct stretch *a, const struct stretch *b)
{
	return a->uses * b->ticks > b->uses * a->ticks;
}

static void extend_stretch(struct stretch *s, const struct stretch *by)
{
	s->uses += s->left * by->uses;
	s->ticks += s->left * by->ticks;
	s->left *= by->left;
}

/*
 * Appraises from the last age down: a stretch of ages takes in the one that
 * follows it as long as that has the better ratio. Left is the best ratio of
 * all stretches that begin at an age, at a constant cost each.
 */
static void appraise_queue(struct tes_policy_past *past, unsigned int queue,
			   double weight)
{
	struct stretch after[AGES];
	int n = 0;

	for (int age = AGES - 1; age >= 0; age--) {
		double h = hazard_at(past, age,
				     BEFORE * (1 + queue) / (age + 2), weight);
		struct stretch s = {h, 1 - h / 2, 1 - h};

		while (n && has_better_ratio(&after[n - 1], &s))
			extend_stretch(&s, &after[--n]);
		past->worth[age] = s.uses / s.ticks;
		after[n++] = s;
	}
	for (int age = 1; age < AGES; age++)
		if (past->worth[age] > past->worth[age - 1])
			past->worth[age] = past->worth[age - 1];
	past->worth[AGES] = past->worth[AGES - 1] * BEYOND;
}

static void appraise_all(struct tes_policy *p)
{
	double weight = BEFORE_WEIGHT * (double)p->capacity + 1;

	for (unsigned int q = 0; q < TES_POLICY_QUEUES; q++)
		appraise_queue(&p->past[q], q, weight);
	p->stale = false;
}

static void end_tick(struct tes_policy *p)
{
	for (unsigned int q = 0; q < TES_POLICY_QUEUES; q++)
		learn_tick(&p->past[q], p->now);
	p->now++;
	for (unsigned int q = 0; q < TES_POLICY_QUEUES; q++)
		p->past[q].alive[p->now % AGES] = 0;
	p->stale = true;
}

/* Time passes by what is added; after AGES ticks all is equally old. */
static void pass_time(struct tes_policy *p, uint64_t units)
{
	p->filled += units;
	for (int i = 0; i < AGES && p->filled >= p->tick_units; i++) {
		p->filled -= p->tick_units;
		end_tick(p);
	}
	p->filled %= p->tick_units;
}

/* ---- objects ---- */

void tes_policy_init(struct tes_policy *p)
{
	memset(p, 0, sizeof(*p));
	for (int i = 0; i < TES_POLICY_QUEUES; i++)
		tei_list_init(&p->queues[i]);
	tes_ghosts_init(&p->ghosts);
	tes_policy_set_capacity(p, 0);
}

void tes_policy_fini(struct tes_policy *p)
{
	tes_ghosts_fini(&p->ghosts);
}

void tes_policy_set_capacity(struct tes_policy *p, uint64_t bytes)
{
	p->capacity = bytes / TES_POLICY_UNIT;
	p->tick_units = p->capacity / TICKS + 1;
	p->stale = true;
}

static void count_touch(struct tes_policy_node *node)
{
	if (node->touches < TES_POLICY_TOUCHES)
		node->touches++;
}

void tes_policy_add(struct tes_policy *p, struct tes_policy_node *node,
		    uint64_t bytes, uint64_t hash)
{
	uint64_t units = (bytes + TES_POLICY_UNIT - 1) / TES_POLICY_UNIT;

	tei_list_init(&node->link);
	node->units = units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
	node->queued = false;
	if (tes_ghosts_take(&p->ghosts, hash, p->now, &node->tick,
			    &node->touches)) {
		count_out(p, node, true);
		count_touch(node);
	} else {
		node->touches = 1;
	}
	pass_time(p, node->units);
	count_in(p, node);
	p->n++;
	tes_policy_release(p, node);
}

void tes_policy_touch(struct tes_policy *p, struct tes_policy_node *node)
{
	bool queued = node->queued;

	count_out(p, node, true);
	count_touch(node);
	count_in(p, node);
	if (!queued)
		return;
	tei_list_del(&node->link);
	tei_list_add_tail(&p->queues[queue_of(node)], &node->link);
}

void tes_policy_hold(struct tes_policy *p, struct tes_policy_node *node)
{
	(void)p;
	if (!node->queued)
		return;
	node->queued = false;
	tei_list_del(&node->link);
}

static struct tes_policy_node *node_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_policy_node, link);
}

/* A node that was held for long is older than the oldest in the queue. */
void tes_policy_release(struct tes_policy *p, struct tes_policy_node *node)
{
	struct tei_list *queue = &p->queues[queue_of(node)];

	node->queued = true;
	if (tei_list_empty(queue) ||
	    age_of(p, node->tick) <= age_of(p, node_at(queue->next)->tick))
		tei_list_add_tail(queue, &node->link);
	else
		tei_list_add_head(queue, &node->link);
}

void tes_policy_restore(struct tes_policy *p, struct tes_policy_node *node)
{
	node->queued = true;
	tei_list_add_head(&p->queues[queue_of(node)], &node->link);
}

/* The age of @node goes on to be counted: as a ghost it may be used yet. */
void tes_policy_evicted(struct tes_policy *p, struct tes_policy_node *node,
			uint64_t hash)
{
	if (age_of(p, node->tick) < AGES)
		tes_ghosts_put(&p->ghosts, hash, node->tick, node->touches,
			       p->now, p->n * GHOSTS);
	tes_policy_hold(p, node);
	node->touches = 0;
	p->n--;
}

void tes_policy_removed(struct tes_policy *p, struct tes_policy_node *node)
{
	if (!node->touches)
		return;
	count_out(p, node, false);
	tes_policy_hold(p, node);
	node->touches = 0;
	p->n--;
}

/* Prefers, among nodes of the same worth, the one used longest ago. */
struct tes_policy_node *tes_policy_victim(struct tes_policy *p)
{
	struct tes_policy_node *least = NULL;
	double least_worth = 0;
	unsigned int oldest = 0;

	if (p->stale)
		appraise_all(p);
	for (unsigned int q = 0; q < TES_POLICY_QUEUES; q++) {
		struct tes_policy_node *node = node_at(p->queues[q].next);
		unsigned int age;
		double worth;

		if (tei_list_empty(&p->queues[q]))
			continue;
		age = age_of(p, node->tick);
		worth = p->past[q].worth[age];
		if (least && (worth > least_worth ||
			      (worth == least_worth && age <= oldest)))
			continue;
		least = node;
		least_worth = worth;
		oldest = age;
	}
	return least;
}

struct tes_policy_node *tes_policy_after(struct tes_policy *p,
					 struct tes_policy_node *node)
{
	struct tei_list *next = node->link.next;

	return next == &p->queues[queue_of(node)] ? NULL : node_at(next);
}

void tes_policy_prefetch(const struct tes_policy *p, uint64_t hash)
{
	prefetch_ghost(&p->ghosts, hash);
}

bool tes_policy_empty(const struct tes_policy *p)
{
	for (int i = 0; i < TES_POLICY_QUEUES; i++)
		if (!tei_list_empty(&p->queues[i]))
			return false;
	return true;
}

size_t tes_policy_bytes(const struct tes_policy *p)
{
	return tes_ghosts_bytes(&p->ghosts);
}
