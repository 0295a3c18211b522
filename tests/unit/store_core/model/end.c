/* SPDX-License-Identifier: Apache-2.0 */
/* end.c - the ends of puts: what is written becomes readable */
#include "tests/unit/store_core/model/model.h"

/* The end of one put. */
struct end {
	int key, session;
	uint64_t generation, epoch;
	struct thing *thing; /* what they mean, as the model has it */
	uint32_t n, written, quiet;
	uint32_t crcs[PARTS + 1];
	bool no_crc;
};

static bool is_meant(const struct thing *t, const struct end *e)
{
	return t->generation == e->generation && t->epoch == e->epoch;
}

static struct thing *meant(struct model *m, const struct end *e)
{
	struct thing *next = &m->next[e->key];

	if (next->state == BUILDING && is_meant(next, e))
		return next;
	return &m->keys[e->key];
}

static bool not_in(const struct model *m, const struct part *p, uint64_t mask)
{
	(void)m;
	return !(mask >> p->replica & 1);
}

/* Mostly that of its start. */
static uint64_t roll_epoch(struct model *m, const struct thing *t)
{
	switch (model_roll(m, 60)) {
	case 0:
		return t->epoch - 1;
	case 1:
		return m->epoch;
	case 2:
		return UINT64_MAX;
	}
	return t->epoch;
}

static void roll_end(struct model *m, struct end *e)
{
	struct thing *t;

	e->key = (int)model_roll(m, N_KEYS);
	for (int tries = 0; m->keys[e->key].state != BUILDING &&
			    m->next[e->key].state != BUILDING && tries < 8;
	     tries++)
		e->key = (int)model_roll(m, N_KEYS);
	t = &m->keys[e->key];
	if (m->next[e->key].state == BUILDING)
		t = &m->next[e->key];
	e->session = model_any_session(m);
	if (t->state == BUILDING && model_roll(m, 10))
		e->session = t->writer;
	e->generation = t->generation + !model_roll(m, 20);
	e->epoch = roll_epoch(m, t);
	e->thing = t = meant(m, e);
	e->n = (uint32_t)t->n + !model_roll(m, 30);
	e->written =
		model_roll(m, 8) ? UINT32_MAX : model_roll(m, 1u << REPLICAS);
	e->quiet =
		model_roll(m, 2) ? UINT32_MAX : model_roll(m, 1u << REPLICAS);
	e->no_crc = !model_roll(m, 8);
	if (t->state == ABSENT)
		e->n = 1;
	for (uint32_t i = 0; i < e->n; i++)
		e->crcs[i] = model_roll(m, UINT32_MAX);
}

static const struct tes_action *send_end(struct model *m, struct end *e,
					 bool *struck)
{
	struct tes_core_key key = model_key_of(e->key);
	struct tes_event ev = {.type = TES_EVENT_PUT_END, .n = 1, .keys = &key};

	ev.session = m->sessions[e->session].number;
	ev.u.put_end.generations = &e->generation;
	ev.u.put_end.extents = &e->n;
	ev.u.put_end.crcs = e->crcs;
	ev.u.put_end.no_crc = &e->no_crc;
	ev.u.put_end.written = &e->written;
	ev.u.put_end.quiet = &e->quiet;
	ev.u.put_end.epoch = e->epoch;
	return model_try_step(m, &ev, struck);
}

static uint32_t replicas_there(const struct model *m, const struct thing *t)
{
	uint32_t mask = 0;

	for (int i = 0; i < t->n; i++)
		if (model_part_there(m, &t->parts[i]))
			mask |= 1u << t->parts[i].replica;
	return mask;
}

static int expect_end(const struct model *m, const struct end *e)
{
	const struct thing *t = e->thing;

	if (m->sessions[e->session].life == GONE)
		return -103;
	if (t->state == ABSENT)
		return -704;
	if (t->state == READY && (!e->written || !is_meant(t, e)))
		return -700;
	if (t->state == BUILDING && t->writer != e->session)
		return -601;
	if (!is_meant(t, e))
		return -704;
	if (t->state == READY)
		return 0;
	if (e->n != (uint32_t)t->n)
		return -600;
	if (!e->written || e->written & replicas_there(m, t))
		return 0;
	return -704;
}

static void take_end(struct model *m, const struct end *e, uint64_t cookie)
{
	struct thing *t = e->thing, *old = &m->keys[e->key];
	uint32_t good = e->written & replicas_there(m, t);

	model_fence_parts(m, t, ~(e->quiet | e->written));
	model_met.outlived += t->epoch < m->epoch;
	model_met.fenced_replicas += (~(e->quiet | e->written) & 7) != 0;
	if (!good) {
		model_vanish(m, t);
		return;
	}
	for (int i = 0; i < t->n; i++) {
		t->parts[i].crc = e->crcs[i];
		t->parts[i].writer = 1 + m->sessions[t->writer].client;
	}
	model_cut(m, t, not_in, good);
	t->state = READY;
	t->no_crc = e->no_crc;
	t->leased = false;
	t->readers = (struct readers){.many = false};
	t->read_until = t->weak_until = 0;
	if (t->pin_ms)
		t->pin_until = model_now(m) + t->pin_ms;
	if (t == old)
		return;
	model_bury_parts(m, old, model_any_part, 0, cookie);
	*old = *t;
	model_met.successions++;
	t->state = ABSENT;
}

/* Whether its reply has to wait: what it takes the place of is buried. */
static bool has_to_wait(const struct model *m, const struct end *e)
{
	const struct thing *old = &m->keys[e->key];

	if (e->thing == old || !(e->written & replicas_there(m, e->thing)))
		return false;
	for (int i = 0; i < old->n; i++)
		if (m->emphasis->buries && model_part_live(m, &old->parts[i]))
			return true;
	return false;
}

void model_end(struct model *m)
{
	const struct tes_action *a;
	struct end e;
	bool struck, building, waits;
	int want, got = 0;

	roll_end(m, &e);
	if (e.session < 0)
		return;
	want = expect_end(m, &e);
	building = e.thing->state == BUILDING && is_meant(e.thing, &e) &&
		   e.n == (uint32_t)e.thing->n;
	waits = building && !want && has_to_wait(m, &e);
	a = send_end(m, &e, &struck);
	CHECK(m, a || struck || waits);
	if (!a && !waits)
		return;
	model_seen(m, e.session);
	if (a)
		got = a->u.reply.code ? a->u.reply.code : a->u.reply.status[0];
	if (struck && got == -1)
		return; /* as it was */
	CHECK(m, got == want && waits == !a);
	if (building && (want == 0 || want == -704))
		take_end(m, &e, m->rig.cookie);
	model_take_fences(m);
}
