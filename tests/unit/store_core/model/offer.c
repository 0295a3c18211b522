/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offer.c - epochs from outside: what clients say they know, and offers of lives
 * that cannot be, that are above ours, that are ours, and that are old
 */
#include "tests/unit/store_core/model/model.h"

#define FORGED    ((uint64_t)1 << 61)
#define RAISE_MAX ((uint64_t)1 << 24)

/* ---- at a join ---- */

/* True: @t was begun before the last raise, and may still end. */
static bool is_of_before(const struct model *m, const struct thing *t)
{
	return t->state == BUILDING && t->epoch != m->epoch;
}

/* Ends the time of what was begun before the last raise, if none is left. */
static void settle(struct model *m)
{
	for (int k = 0; k < N_KEYS; k++)
		if (is_of_before(m, &m->keys[k]) ||
		    is_of_before(m, &m->next[k]))
			return;
	m->floor = m->epoch;
}

/* What a client is answered who is believed to know of @epoch, now or, when
 * ours is to be raised first, then. */
static int expect_claim(struct model *m, uint64_t epoch)
{
	if (epoch <= m->floor || epoch == m->epoch)
		return 0;
	if (epoch >= INT64_MAX - RAISE_MAX)
		return -600;
	if (epoch > m->asked)
		m->asked = epoch;
	settle(m);
	if (epoch <= m->floor)
		return 0;
	if (m->floor < m->epoch ||
	    (m->raised && m->raised + m->config.raise_ms > model_now(m)))
		return -1010;
	m->raises = true;
	m->raised = model_now(m);
	for (int k = 0; k < N_KEYS; k++)
		if (m->keys[k].state == BUILDING ||
		    m->next[k].state == BUILDING)
			return -1010;
	return 0;
}

/* The core has not come yet to what was begun and is gone. */
static bool is_behind(struct model *m)
{
	uint64_t n = 0;

	for (int k = 0; k < N_KEYS; k++) {
		n += m->keys[k].state == BUILDING;
		n += m->next[k].state == BUILDING;
	}
	return rig_figures(&m->rig).building != n;
}

/* Draws what a client says; returns the code that it is answered with. */
int model_claim(struct model *m, uint64_t *epoch, bool *believed)
{
	int want;

	*epoch = 0;
	*believed = model_roll(m, 2) && !is_behind(m);
	switch (model_roll(m, 12)) {
	case 0: /* another master's, later than ours */
		*epoch = m->epoch + 1 + model_roll(m, 1000);
		break;
	case 1: /* or earlier */
		*epoch = 1 + model_roll(m, EPOCH - 1);
		break;
	case 2:
		*epoch = m->epoch;
		break;
	case 3: /* made up */
		*epoch = UINT64_MAX - model_roll(m, 3);
		break;
	case 4:
		*epoch = (uint64_t)INT64_MAX - model_roll(m, 2);
		break;
	case 5: /* never believed: ours would end there */
		*epoch = FORGED + model_roll(m, 1000);
		*believed = false;
		break;
	}
	model_met.claims += *believed && *epoch > m->epoch;
	model_met.forged += !*believed && *epoch > m->epoch;
	want = *believed ? expect_claim(m, *epoch) : 0;
	model_met.waiting += want == -1010;
	return want;
}

/* The client with that claim has joined, or is to come again. */
void model_take_claim(struct model *m, int want)
{
	uint64_t is = tes_core_epoch(m->rig.core);

	if (m->raises) {
		CHECK(m, is > m->asked && is - m->asked <= RAISE_MAX);
		m->epoch = is;
		if (!want)
			m->floor = is;
	}
	m->raises = false;
	CHECK(m, is == m->epoch);
}

/* ---- offers that are refused ---- */

struct offer {
	int key;
	uint64_t epoch, generation, size, address;
	uint32_t crc;
};

/* Draws one that is refused as a whole; returns the code, 0: either. */
static int roll_offer(struct model *m, struct offer *o)
{
	const struct thing *t;

	o->key = (int)model_roll(m, N_KEYS);
	o->generation = m->generation + 1000;
	o->size = 100;
	t = &m->keys[o->key];
	switch (model_roll(m, 4)) {
	case 0:
		o->epoch = m->epoch + 1 + model_roll(m, 1000);
		return -300;
	case 1:
		o->epoch = model_roll(m, 2) ? m->epoch : EPOCH;
		return -704;
	case 2:
		if (t->state != READY || !model_thing_live(m, t))
			break;
		/* What is here is newer, whatever the numbers are. */
		o->epoch = 1 + model_roll(m, EPOCH - 1);
		return 0;
	}
	o->epoch =
		model_roll(m, 2) ? 0 : (uint64_t)INT64_MAX + model_roll(m, 9);
	return -600;
}

static void offer_one(struct model *m, struct tes_event *ev,
		      struct tes_core_objects *c)
{
	struct offer o = {.address = m->mounts[m->n_mounts - 1].base};
	int want = roll_offer(m, &o), got;
	struct tes_core_key key = model_key_of(o.key);

	c->keys = &key;
	c->generation = &o.generation;
	c->gen_epoch = &o.epoch;
	c->size = c->length = &o.size;
	c->address = &o.address;
	c->crc = &o.crc;
	ev->keys = &key;
	got = model_step(m, ev)->u.reply.status[0];
	CHECK(m, want ? got == want : got == -705 || got == -704);
	model_met.offers++;
}

/* The last mount, of @s, was of a segment that offers. */
void model_offer(struct model *m, int s, const uint8_t *segment)
{
	struct tes_core_objects c = {.n = 1, .n_entries = 1};
	struct tes_event ev = {.type = TES_EVENT_OFFER,
			       .session = m->sessions[s].number,
			       .n = 1};

	ev.u.offer.segment = segment;
	ev.u.offer.objects = &c;
	for (unsigned int n = 1 + model_roll(m, 4); n; n--) {
		ev.u.offer.last = n == 1;
		offer_one(m, &ev, &c);
	}
}
