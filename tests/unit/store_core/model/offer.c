/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offer.c - epochs from outside: what clients say they know, and offers of lives
 * that cannot be, that are above ours, that are ours, and that are old
 */
#include "tests/unit/store_core/model/model.h"

#define FORGED    ((uint64_t)1 << 61)
#define RAISE_MAX ((uint64_t)1 << 24)

/* ---- at a join ---- */

/* Draws what a client says; returns the code that it is answered with. */
int model_claim(struct model *m, uint64_t *epoch, bool *believed)
{
	*epoch = 0;
	*believed = model_roll(m, 2);
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
	return *believed && *epoch >= INT64_MAX - RAISE_MAX ? -600 : 0;
}

/* The client with that claim has joined. */
void model_take_claim(struct model *m, uint64_t epoch, bool believed)
{
	uint64_t is = tes_core_epoch(m->rig.core);

	if (believed && epoch > m->epoch) {
		CHECK(m, is > epoch && is - epoch <= RAISE_MAX);
		m->epoch = is;
	}
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
