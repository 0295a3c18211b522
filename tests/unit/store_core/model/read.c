/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - look-ups, existence, and what readers give back */
#include "tests/unit/store_core/model/model.h"

static int expect_read(const struct model *m, const struct thing *k)
{
	if (k->state == ABSENT || !model_thing_live(m, k))
		return -704;
	return k->state == READY ? 0 : -703;
}

/* Entry @e is part @p; how many entries key @i has. */
static size_t check_entries(struct model *m, const struct thing *k,
			    const struct tes_action *a, size_t i, size_t e)
{
	bool many = a->u.reply.extents != NULL;
	size_t from = e;
	int replica = -1, last = -1;

	for (int j = 0; j < k->n; j++) {
		const struct part *p = &k->parts[j];

		if (!model_part_live(m, p))
			continue;
		replica += (int)p->replica != last;
		last = (int)p->replica;
		CHECK(m, many || e == from);
		CHECK(m, a->u.reply.address[e] == p->address);
		CHECK(m, k->no_crc || a->u.reply.crc[e] == p->crc);
		CHECK(m, !many || a->u.reply.length[e] == p->length);
		CHECK(m, !many || (int)a->u.reply.replica[e] == replica);
		CHECK(m, a->u.reply.segments[a->u.reply.segment[e]]
					 .incarnation[0] ==
				 m->sessions[m->mounts[p->mount].owner]
					 .incarnation);
		e++;
	}
	CHECK(m, e - from == (many ? a->u.reply.extents[i] : 1));
	return e - from;
}

static size_t take_lookup(struct model *m, struct thing *k,
			  tes_session_id reader, const struct tes_action *a,
			  size_t i, size_t e)
{
	int want = expect_read(m, k);
	size_t n;

	CHECK(m, a->u.reply.status[i] == want);
	if (want)
		return 1;
	CHECK(m, a->u.reply.size[i] == k->size);
	CHECK(m, a->u.reply.generation[i] == k->generation);
	CHECK(m, a->u.reply.gen_epoch[i] == k->epoch);
	CHECK(m, a->u.reply.no_crc[i] == k->no_crc);
	n = check_entries(m, k, a, i, e);
	if (k->read_until + m->config.lease_ttl_ms <= model_now(m))
		k->readers = (struct readers){.many = false};
	k->leased = true;
	add_reader(&k->readers, reader);
	k->read_until = model_now(m) + m->config.lease_ttl_ms;
	return n;
}

void model_lookup(struct model *m, enum tes_event_type type)
{
	struct tes_event ev = {.type = type};
	int s = model_any_session(m), key[MODEL_BATCH] = {0};
	struct tes_core_key names[MODEL_BATCH];
	const struct tes_action *a;
	bool struck;
	size_t e = 0;

	if (s < 0)
		return;
	ev.session = m->sessions[s].number;
	ev.n = 1 + model_roll(m, MODEL_BATCH);
	ev.keys = names;
	for (size_t i = 0; i < ev.n; i++)
		names[i] = model_key_of(key[i] = (int)model_roll(m, N_KEYS));
	a = model_try_step(m, &ev, &struck);
	if (!a)
		return;
	model_seen(m, s);
	CHECK(m, a->u.reply.code == 0 && a->u.reply.n == ev.n);
	for (size_t i = 0; i < ev.n; i++) {
		struct thing *k = &m->keys[key[i]];

		if (type == TES_EVENT_LOOKUP) {
			e += take_lookup(m, k, ev.session, a, i, e);
			continue;
		}
		CHECK(m, a->u.reply.status[i] == (expect_read(m, k) == 0));
		if (a->u.reply.status[i])
			k->weak_until = model_now(m) + m->config.lease_ttl_ms;
	}
}

void model_release(struct model *m)
{
	int i = (int)model_roll(m, N_KEYS), s = model_any_session(m);
	struct thing *k = &m->keys[i];
	uint64_t generation = k->generation + (model_roll(m, 8) ? 0 : 1);
	uint64_t epoch = k->epoch - !model_roll(m, 8);
	bool any = !model_roll(m, 4);

	if (s < 0)
		return;
	rig_release_of(&m->rig, m->sessions[s].number, model_key_of(i).bytes,
		       generation, any ? NULL : &epoch);
	model_seen(m, s);
	if (k->state != READY || k->generation != generation ||
	    (!any && k->epoch != epoch) ||
	    !take_reader(&k->readers, m->sessions[s].number) ||
	    !model_lease_on(m, k))
		return;
	k->leased = false;
	if (k->weak_until < k->read_until)
		k->weak_until = k->read_until;
}
