/* SPDX-License-Identifier: Apache-2.0 */
/* remove.c - removes: of a key, of replicas, of all */
#include "tests/unit/store_core/model/model.h"

bool model_held(const struct model *m, const struct thing *k)
{
	return model_lease_on(m, k) || k->weak_until > model_now(m);
}

static int expect_remove(const struct model *m, const struct thing *k,
			 bool force)
{
	if (k->state == ABSENT)
		return -704;
	if (k->state == BUILDING)
		return -703;
	return !force && model_held(m, k) ? -706 : 0;
}

/* @a: none where it waits for owners. */
static void check_answer(struct model *m, const struct tes_action *a,
			 bool waits, int want)
{
	CHECK(m, waits == !a);
	CHECK(m, !a || a->u.reply.status[0] == want);
	model_take_fences(m);
}

void model_remove(struct model *m)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE, .n = 1};
	int i = (int)model_roll(m, N_KEYS), s = model_any_session(m), want;
	struct tes_core_key key = model_key_of(i);
	const struct tes_action *a;
	bool waits = false;

	if (s < 0)
		return;
	ev.session = m->sessions[s].number;
	ev.keys = &key;
	ev.u.remove.force = !model_roll(m, 3);
	want = expect_remove(m, &m->keys[i], ev.u.remove.force);
	a = model_step(m, &ev);
	model_seen(m, s);
	if (!want) {
		waits = model_bury_parts(m, &m->keys[i], model_any_part, 0,
					 m->rig.cookie);
		model_vanish(m, &m->keys[i]);
	}
	check_answer(m, a, waits, want);
}

static bool is_named(const struct model *m, const struct part *p, uint64_t i)
{
	(void)m;
	return i == N_NAMES || (uint64_t)m->mounts[p->mount].name == i;
}

static bool is_by_another(const struct model *m, const struct thing *k, int s)
{
	for (int i = 0; i < k->n; i++)
		if (k->parts[i].writer)
			return k->parts[i].writer != 1 + m->sessions[s].client;
	return false;
}

void model_clear(struct model *m)
{
	struct tes_event ev = {.type = TES_EVENT_REPLICA_CLEAR, .n = 1};
	int i = (int)model_roll(m, N_KEYS), s = model_any_session(m), want;
	uint64_t name = model_roll(m, N_NAMES + 1);
	struct tes_core_key key = model_key_of(i);
	struct thing *k = &m->keys[i], left = *k;
	const struct tes_action *a;
	bool waits = false;

	if (s < 0)
		return;
	ev.session = m->sessions[s].number;
	ev.keys = &key;
	ev.u.replica_clear.segment =
		name == N_NAMES ? "" : model_name_of((int)name);
	want = expect_remove(m, k, false);
	if (!want && is_by_another(m, k, s))
		want = -601;
	model_met.not_yours += want == -601;
	model_cut(m, &left, is_named, name);
	if (!want && k->n == left.n)
		want = -710;
	a = model_step(m, &ev);
	model_seen(m, s);
	model_met.cleared += !want;
	if (!want) {
		waits = model_bury_parts(m, k, is_named, name, m->rig.cookie);
		model_cut(m, k, is_named, name);
	}
	if (!want && !k->n)
		model_vanish(m, k);
	check_answer(m, a, waits, want);
}

/* The keys with an odd last digit. */
static bool is_odd(const void *key, size_t len, void *arg, unsigned int *cost)
{
	(void)arg;
	*cost += 3;
	return ((const char *)key)[len - 1] & 1;
}

void model_remove_all(struct model *m)
{
	struct tes_event ev = {.type = TES_EVENT_REMOVE_ALL};
	int s = model_any_session(m);

	/* Of owners that bury one must know who has taken what. */
	if (s < 0 || m->walk.pending ||
	    (m->emphasis->buries && m->config.high_watermark < 1))
		return;
	m->walk = (struct walk){.pending = true,
				.force = !model_roll(m, 2),
				.some = model_roll(m, 3) > 0};
	ev.session = m->sessions[s].number;
	ev.u.remove_all.force = m->walk.force;
	ev.u.remove_all.match = m->walk.some ? is_odd : NULL;
	CHECK(m, !model_step(m, &ev));
	model_seen(m, s);
	m->walk.cookie = m->rig.cookie;
}

static bool walk_takes(const struct model *m, int k)
{
	return m->keys[k].state == READY &&
	       (m->walk.force || !model_held(m, &m->keys[k])) &&
	       (!m->walk.some || k % 2);
}

/* What the walk took, of which eviction has had some before. */
void model_take_walk(struct model *m)
{
	uint64_t total = rig_figures(&m->rig).evicted_objects_total;
	bool takes[N_KEYS];

	model_begin_wait(m, m->walk.cookie);
	m->walk.walked = true;
	for (int k = 0; k < N_KEYS; k++)
		takes[k] = walk_takes(m, k);
	for (int k = 0; k < N_KEYS; k++) {
		struct thing *t = &m->keys[k];

		if (takes[k]) {
			CHECK(m, !model_key_there(m, k));
			model_bury_parts(m, t, model_any_part, 0,
					 m->walk.cookie);
			model_vanish(m, t);
			model_met.walked++;
			m->walk.removed++;
		} else if (model_evictable(m, t) && !model_key_there(m, k)) {
			model_evict(m, t);
		}
	}
	CHECK(m, m->evicted <= total);
	CHECK(m, total - m->evicted <= m->walk.removed);
	m->walk.removed -= total - m->evicted;
	m->evicted = total;
}

/* Its answer has come in this step. */
void model_end_walk(struct model *m)
{
	m->walk.pending = false;
	for (size_t i = 0; i < m->rig.out.n; i++)
		if (m->rig.out.at[i].type == TES_ACTION_REPLY &&
		    m->rig.out.at[i].cookie == m->walk.cookie)
			CHECK(m, m->rig.out.at[i].u.reply.removed ==
					 m->walk.removed);
}
