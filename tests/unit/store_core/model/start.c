/* SPDX-License-Identifier: Apache-2.0 */
/* start.c - the starts of puts and upserts */
#include "tests/unit/store_core/model/model.h"

/* The starts of one event. */
struct start {
	int key[MODEL_BATCH];
	struct tes_core_key names[MODEL_BATCH];
	uint64_t size[MODEL_BATCH];
	uint32_t group[MODEL_BATCH];
	struct tes_core_replicate how;
	size_t n;
	int session;
	bool upsert, unanswered, struck;
	struct thing *loser; /* of the key looked at: given up with a grant */
};

/* Whether a start takes the place of @t, which is unfinished. */
static bool preempts(const struct model *m, const struct start *b,
		     const struct thing *t)
{
	return b->upsert || model_discard_due(m, t) ||
	       m->sessions[t->writer].life != LIVE ||
	       (t->writer == b->session &&
		(b->unanswered ||
		 t->generation <= m->sessions[b->session].joined_generation));
}

/* A successor of key @k, which is READY. */
static int expect_succession(struct model *m, struct start *b, size_t i, int k)
{
	struct thing *t = &m->keys[k], *next = &m->next[k];

	if (model_thing_live(m, t) && b->group[i] && !t->vague &&
	    (int)b->group[i] != t->group)
		return -600;
	if (next->state == BUILDING) {
		if (next->named || !preempts(m, b, next))
			return -705;
		b->loser = next;
	}
	return 2;
}

/* What start must answer if there is room; 1, 2: a grant. */
static int expect_place(struct model *m, struct start *b, size_t i)
{
	struct thing *t = &m->keys[b->key[i]];

	b->loser = NULL;
	if (t->state == ABSENT)
		return 1;
	if (t->named)
		return -705;
	if (t->state == READY)
		return model_thing_live(m, t) && !b->upsert
			       ? -705
			       : expect_succession(m, b, i, b->key[i]);
	if (!preempts(m, b, t))
		return -705;
	b->loser = t;
	return 1;
}

/* What start must answer; 1, 2: a grant or -200, as room allows, for the key
 * itself or for a successor. */
static int expect_start(struct model *m, struct start *b, size_t i)
{
	int want = expect_place(m, b, i);

	if (want > 0 && model_largest_mount(m, false) &&
	    model_total_of(b->size[i]) > model_largest_mount(m, false))
		return -200;
	return want;
}

static void take_part(struct model *m, struct part *p,
		      const struct tes_action *a, size_t e, uint64_t size)
{
	bool many = a->u.reply.extents != NULL;
	uint64_t length = many ? a->u.reply.length[e] : size;

	*p = (struct part){.mount = (int)(a->u.reply.address[e] >> 24) - 1,
			   .address = a->u.reply.address[e],
			   .length = length,
			   .total = model_total_of(length),
			   .replica = many ? a->u.reply.replica[e] : 0};
	CHECK(m, length > 0);
	CHECK(m, p->mount >= 0 && p->mount < m->n_mounts);
	CHECK(m, model_mount_live(m, p->mount));
	CHECK(m, a->u.reply.segment[e] < a->u.reply.n_segments);
	CHECK(m, a->u.reply.segments[a->u.reply.segment[e]].incarnation[0] ==
			 m->sessions[m->mounts[p->mount].owner].incarnation);
}

/* Replicas count from 0, are whole, and lie on mounts of their own. */
static void check_shape(struct model *m, const struct thing *t)
{
	uint64_t length = 0;
	uint32_t replica = 0;

	CHECK(m, t->n > 0 && t->parts[0].replica == 0);
	for (int i = 0; i < t->n; i++) {
		const struct part *p = &t->parts[i];

		if (p->replica != replica) {
			CHECK(m, p->replica == replica + 1);
			CHECK(m, length == t->size);
			replica++;
			length = 0;
		}
		length += p->length;
		CHECK(m, length == t->size || p->length == p->total - 64);
		for (int j = 0; j < i; j++)
			CHECK(m, (t->parts[j].mount == p->mount) ==
					 (t->parts[j].replica == replica));
	}
	CHECK(m, length == t->size);
}

static struct thing new_thing(const struct model *m, const struct start *b,
			      size_t i)
{
	struct thing t = {.state = BUILDING,
			  .writer = b->session,
			  .size = b->size[i],
			  .epoch = m->epoch,
			  .started = model_now(m),
			  .group = (int)b->group[i],
			  .hard = b->how.hard_pin,
			  .named = true};

	if (b->how.soft_pin == TES_CORE_SOFT_ENABLE)
		t.pin_ms = b->how.soft_pin_ttl_ms;
	return t;
}

/* @old: what it succeeds, or may have succeeded (@sure: it did), or NULL. */
static void inherit(struct thing *t, const struct thing *old,
		    const struct start *b, bool sure)
{
	if (!old)
		return;
	t->hard = old->hard;
	t->vague = !sure || old->vague;
	t->group = old->group;
	if (b->how.soft_pin == TES_CORE_SOFT_PRESERVE)
		t->pin_until = old->pin_until;
}

static void take_grant(struct model *m, struct start *b, size_t i,
		       struct thing *t, size_t e, const struct tes_action *a)
{
	size_t n = a->u.reply.extents ? a->u.reply.extents[i] : 1;

	CHECK(m, n >= 1 && n <= PARTS);
	for (size_t p = 0; p < n; p++)
		take_part(m, &t->parts[p], a, e + p, t->size);
	t->n = (int)n;
	t->generation = a->u.reply.generation[i];
	CHECK(m, t->generation == ++m->generation);
	CHECK(m, t->parts[n - 1].replica < b->how.replica_num);
	check_shape(m, t);
	model_met.splits += (uint32_t)t->n > t->parts[n - 1].replica + 1;
}

/* Whether what stands at the key has been evicted by this very event. */
static bool evicted_now(struct model *m, const struct start *b, size_t i,
			int got)
{
	struct thing *t = &m->keys[b->key[i]];

	if (!model_evictable(m, t) || t->named)
		return false;
	if (!b->upsert)
		return got == 0 || got == -200 || got == -1;
	return got != -600 && !model_key_there(m, b->key[i]);
}

static void take_start(struct model *m, struct start *b, size_t i, size_t e,
		       int got, const struct tes_action *a)
{
	int k = b->key[i], want;
	struct thing *t = &m->keys[k], old = *t, new;
	bool went = evicted_now(m, b, i, got);

	if (went)
		model_evict(m, t);
	want = expect_start(m, b, i);
	if (want < 0) {
		CHECK(m, got == want || (b->struck && got == -200));
		return;
	}
	CHECK(m, got == 0 || got == -200 || (b->struck && got == -1));
	if (got == -1)
		m->generation++; /* begun, and taken back */
	if (got != -200 && b->loser)
		model_discard(m, b->loser);
	if (got)
		return;
	new = new_thing(m, b, i);
	if (want == 2 && model_thing_live(m, &old))
		inherit(&new, &old, b, true);
	else if (went && b->upsert)
		inherit(&new, &old, b, false);
	take_grant(m, b, i, &new, e, a);
	model_met.upserts += b->upsert;
	if (want == 2)
		m->next[k] = new;
	else
		*t = new;
}

static void check_full(struct model *m, const struct start *b,
		       const int32_t *status)
{
	for (size_t i = 0; i < b->n; i++) {
		if (status[i] != -200 ||
		    model_total_of(b->size[i]) > model_largest_mount(m, true))
			continue;
		for (int k = 0; k < N_KEYS; k++)
			CHECK(m,
			      k == b->key[i] || m->keys[k].vague ||
				      !model_evictable(m, &m->keys[k]) ||
				      !model_helps(m, &m->keys[k],
						   model_total_of(b->size[i])));
	}
}

static uint64_t any_size(struct model *m)
{
	switch (model_roll(m, 8)) {
	case 0:
		return 1 + model_roll(m, 30000);
	case 1:
		return 60000 + model_roll(m, 300000);
	default:
		return 1000;
	}
}

static void roll_how(struct model *m, struct tes_core_replicate *how)
{
	static const char *names[2];

	how->replica_num = model_roll(m, 2) ? 1 : 1 + model_roll(m, REPLICAS);
	how->hard_pin = !model_roll(m, 40);
	how->same_node = !model_roll(m, 6);
	if (!model_roll(m, 4)) {
		how->soft_pin = model_roll(m, 3);
		how->soft_pin_ttl_ms = 1 + model_roll(m, 3000);
	}
	names[0] = model_name_of((int)model_roll(m, N_NAMES));
	names[1] = model_name_of((int)model_roll(m, N_NAMES));
	how->preferred = names;
	how->n_preferred = model_roll(m, 4) ? 0 : 1 + model_roll(m, 2);
}

static void roll_start(struct model *m, struct start *b)
{
	bool grouped = !model_roll(m, 3);

	b->n = m->faulty ? 1 : 1 + model_roll(m, MODEL_BATCH);
	b->upsert = !model_roll(m, 4);
	b->unanswered = !model_roll(m, 8);
	for (size_t i = 0; i < b->n; i++) {
		b->key[i] = (int)model_roll(m, N_KEYS);
		b->names[i] = model_key_of(b->key[i]);
		b->size[i] = any_size(m);
		b->group[i] = grouped ? model_roll(m, N_GROUPS + 1) : 0;
		/* Nor where it is unsure which group the old value had. */
		if (m->keys[b->key[i]].vague || m->next[b->key[i]].vague ||
		    (b->upsert && model_in_batch(b->key, i, b->key[i])))
			b->group[i] = 0;
	}
	roll_how(m, &b->how);
}

void model_start(struct model *m)
{
	static const char *const groups[N_GROUPS] = {"g1", "g2", "g3"};
	struct tes_event ev = {.type = TES_EVENT_PUT_START};
	struct start b = {.session = model_any_session(m)};
	uint64_t most = 0;
	const struct tes_action *a;
	uint64_t unsummed = model_met.unsummed;
	size_t e = 0;

	if (b.session < 0)
		return;
	roll_start(m, &b);
	ev.session = m->sessions[b.session].number;
	ev.n = b.n;
	ev.keys = b.names;
	ev.u.put_start.sizes = b.size;
	ev.u.put_start.how = &b.how;
	ev.u.put_start.groups = groups;
	ev.u.put_start.n_groups = N_GROUPS;
	ev.u.put_start.group = b.group;
	ev.u.put_start.upsert = b.upsert;
	ev.u.put_start.unanswered = b.unanswered;
	a = model_try_step(m, &ev, &b.struck);
	if (!a)
		return;
	CHECK(m, a->u.reply.code == 0 && a->u.reply.n == b.n);
	model_seen(m, b.session);
	for (size_t i = 0; i < b.n; i++) {
		if (most < model_total_of(b.size[i]))
			most = model_total_of(b.size[i]);
		take_start(m, &b, i, e, a->u.reply.status[i], a);
		e += a->u.reply.extents ? a->u.reply.extents[i] : 1;
	}
	model_take_evictions(m, b.key, b.n, most);
	model_take_fences(m);
	/* Space that is to come is as good as space to a core that evicts. */
	if (!b.struck && unsummed == model_met.unsummed)
		check_full(m, &b, a->u.reply.status);
	/* Later keys would have made holes. */
	if (!b.struck && a->u.reply.status[b.n - 1] == -200 &&
	    !model_roll(m, 4))
		model_check_no_hole(m, model_total_of(b.size[b.n - 1]));
	for (size_t i = 0; i < b.n; i++) {
		model_check_no_overlap(m, &m->keys[b.key[i]]);
		model_check_no_overlap(m, &m->next[b.key[i]]);
		m->keys[b.key[i]].named = m->next[b.key[i]].named = false;
	}
}
