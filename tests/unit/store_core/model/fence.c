/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - space that writers or readers may still look at: fences and burials */
#include "tests/unit/store_core/model/model.h"

static void add_fencing(struct model *m, struct fencing f)
{
	CHECK(m, m->n_fencing < N_FENCING);
	f.there = true;
	f.since = model_now(m);
	m->fencing[m->n_fencing++] = f;
}

/* Those of the replicas @mask, where the writer may still write. */
void model_fence_parts(struct model *m, const struct thing *t, uint32_t mask)
{
	for (int i = 0; i < t->n; i++) {
		const struct part *p = &t->parts[i];

		if (!(mask >> p->replica & 1) || !model_part_there(m, p))
			continue;
		add_fencing(m,
			    (struct fencing){.part = *p, .writer = t->writer});
	}
}

bool model_any_part(const struct model *m, const struct part *p, uint64_t arg)
{
	(void)m;
	(void)p;
	(void)arg;
	return true;
}

/* Owners that are gone, or keep no directory, have nothing to bury. */
static bool is_buried_by(const struct model *m, const struct part *p)
{
	return m->emphasis->buries && model_part_there(m, p);
}

void model_begin_wait(struct model *m, uint64_t cookie)
{
	for (int i = 0; i < m->n_waits; i++)
		if (m->waits[i] == cookie)
			return;
	CHECK(m, m->n_waits < N_WAITS);
	m->waits[m->n_waits++] = cookie;
	model_met.waited++;
}

/*
 * What was acknowledged goes: owners void the headers of the parts that @where
 * says. @cookie: of the event that waits for those that live, or 0. Whether
 * there are any.
 */
bool model_bury_parts(struct model *m, const struct thing *t, part_fn *where,
		      uint64_t arg, uint64_t cookie)
{
	bool waits = false;

	for (int i = 0; i < t->n; i++) {
		const struct part *p = &t->parts[i];
		bool live = model_part_live(m, p);

		if (!where(m, p, arg) || !is_buried_by(m, p))
			continue;
		add_fencing(m, (struct fencing){.part = *p,
						.writer = t->writer,
						.burial = true,
						.generation = t->generation,
						.epoch = t->epoch,
						.waits = live ? cookie : 0});
		waits |= live && cookie;
		model_met.buried++;
		model_met.silent += !live;
	}
	if (waits)
		model_begin_wait(m, cookie);
	return waits;
}

/*
 * It was evicted. Nobody waits for owners; but where readers could not tell
 * what took its place, its space is not free before they have buried it.
 */
void model_evict(struct model *m, struct thing *t)
{
	if (t->no_crc && m->emphasis->buries) {
		model_bury_parts(m, t, model_any_part, 0, 0);
		model_met.unsummed++;
	}
	model_vanish(m, t);
	m->evicted++;
}

/* The key is free, its space when the owners have confirmed. */
void model_discard(struct model *m, struct thing *t)
{
	model_fence_parts(m, t, UINT32_MAX);
	model_vanish(m, t);
}

bool model_discard_due(const struct model *m, const struct thing *k)
{
	return k->state == BUILDING &&
	       (m->sessions[k->writer].life == GONE ||
		k->started + m->config.put_discard_ms <= model_now(m));
}

void model_discard_late(struct model *m)
{
	for (int k = 0; k < N_KEYS; k++) {
		if (model_discard_due(m, &m->next[k]))
			model_discard(m, &m->next[k]);
		if (model_discard_due(m, &m->keys[k]))
			model_discard(m, &m->keys[k]);
	}
}

/* The grave of @t is among those of @a. */
static bool has_grave(const struct tes_action *a, const struct fencing *t)
{
	for (size_t i = 0; i < a->u.bury.n; i++)
		if (a->u.bury.address[i] == t->part.address &&
		    a->u.bury.generation[i] == t->generation &&
		    a->u.bury.gen_epoch[i] == t->epoch)
			return true;
	return false;
}

static bool is_meant(const struct model *m, const struct tes_action *a,
		     const struct fencing *t)
{
	int owner = m->mounts[t->part.mount].owner;

	if (!t->there || t->fence || m->sessions[owner].number != a->session)
		return false;
	if (a->type == TES_ACTION_BURY)
		return t->burial && has_grave(a, t);
	return !t->burial &&
	       m->sessions[t->writer].incarnation == a->u.fence.writer[0];
}

/* Fences and burials of this step must be those that the model waits for. */
static int match_fence(struct model *m, const struct tes_action *a,
		       struct fence *f)
{
	int n = 0;

	for (int j = 0; j < m->n_fencing; j++) {
		struct fencing *t = &m->fencing[j];

		if (!is_meant(m, a, t))
			continue;
		t->fence = f->id;
		f->owner = m->mounts[t->part.mount].owner;
		n++;
	}
	return n;
}

void model_take_fences(struct model *m)
{
	for (size_t i = 0; i < m->rig.out.n; i++) {
		const struct tes_action *a = &m->rig.out.at[i];
		struct fence *f = &m->fences[m->n_fences];
		bool burial = a->type == TES_ACTION_BURY, known = false;
		uint64_t id = burial ? a->u.bury.burial : a->u.fence.fence;

		/* Who is told what was evicted need not answer. */
		if ((a->type != TES_ACTION_FENCE && !burial) || !id)
			continue;
		for (int j = 0; j < m->n_fences; j++)
			known |= m->fences[j].id == id;
		if (known)
			continue; /* sent again after a join */
		*f = (struct fence){id, -1, true, burial};
		CHECK(m, match_fence(m, a, f) > 0);
		CHECK(m, ++m->n_fences < N_FENCES);
	}
	for (int j = 0; j < m->n_fencing; j++)
		CHECK(m, !m->fencing[j].there || m->fencing[j].fence ||
				 m->sessions[m->mounts[m->fencing[j].part.mount]
						     .owner]
					 .left);
}

/* The owner's answer has come. Whether any space was waiting for it. */
static bool confirm(struct model *m, const struct fence *f)
{
	bool any = false;

	for (int i = 0; i < m->n_fencing; i++) {
		if (m->fencing[i].fence != f->id)
			continue;
		any |= m->fencing[i].there;
		m->fencing[i].there = false;
		m->fencing[i].waits = 0;
	}
	return any;
}

void model_fenced(struct model *m)
{
	struct tes_event ev = {.type = TES_EVENT_FENCED};
	struct fence *f;

	if (!m->n_fences)
		return;
	f = &m->fences[m->n_fences - 1 -
		       (int)model_roll(m, m->n_fences < 8
						  ? (unsigned int)m->n_fences
						  : 8)];
	if (!f->open || (f->burial && !model_roll(m, 4)))
		return; /* or it is lost */
	ev.session = m->sessions[f->owner].number;
	ev.u.fenced.fence = f->id;
	ev.u.fenced.burial = f->burial;
	ev.u.fenced.confirmed = f->burial || model_roll(m, 20) > 0;
	CHECK(m, !model_step(m, &ev));
	model_seen(m, f->owner);
	f->open = f->burial && !model_roll(m, 4); /* or comes once more */
	if (confirm(m, f) && !ev.u.fenced.confirmed)
		model_end_session(m, f->owner);
}

void model_fail_late_fences(struct model *m)
{
	for (int f = 0; f < m->n_fencing; f++) {
		const struct fencing *t = &m->fencing[f];
		uint64_t limit = t->burial ? m->config.client_ttl_ms
					   : m->config.fence_timeout_ms;

		if (t->there && t->since + limit <= model_now(m))
			model_end_session(m, m->mounts[t->part.mount].owner);
	}
}

/*
 * Whether owners still have something to confirm to who waits with @cookie. Of
 * a segment that was unmounted they may, or it is forgotten: *@sure says so.
 */
static bool is_owed(const struct model *m, uint64_t cookie, bool *sure)
{
	bool owed = false;

	*sure = false;
	for (int i = 0; i < m->n_fencing; i++) {
		if (m->fencing[i].waits != cookie)
			continue;
		owed = true;
		*sure |= m->fencing[i].there;
	}
	return owed;
}

static bool is_answered(const struct model *m, uint64_t cookie)
{
	for (size_t i = 0; i < m->rig.n_late; i++)
		if (m->rig.late[i] == cookie)
			return true;
	return false;
}

/* Owners that do not live are excused, once and for all; nothing is left of
 * what is free and nobody waits for. */
static void excuse(struct model *m)
{
	int n = 0;

	for (int i = 0; i < m->n_fencing; i++) {
		struct fencing *t = &m->fencing[i];
		int owner = m->mounts[t->part.mount].owner;

		if (m->sessions[owner].life != LIVE)
			t->waits = 0;
		if (t->there || t->waits)
			m->fencing[n++] = *t;
	}
	m->n_fencing = n;
}

static void stop_waiting(struct model *m, uint64_t cookie)
{
	for (int i = 0; i < m->n_fencing; i++)
		if (m->fencing[i].waits == cookie)
			m->fencing[i].waits = 0;
	if (m->walk.pending && cookie == m->walk.cookie)
		model_end_walk(m);
}

/* Answers come when they may, and not before. */
void model_check_waiting(struct model *m)
{
	int n = 0;

	excuse(m);
	for (int i = 0; i < m->n_waits; i++) {
		bool sure, owed = is_owed(m, m->waits[i], &sure);

		if (is_answered(m, m->waits[i])) {
			CHECK(m, !sure);
			stop_waiting(m, m->waits[i]);
			continue;
		}
		CHECK(m, owed);
		m->waits[n++] = m->waits[i];
	}
	m->n_waits = n;
	m->rig.n_late = 0;
}
