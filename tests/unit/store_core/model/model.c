/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what the model knows: sessions, mounts, objects, and steps */
#include "tests/unit/store_core/model/model.h"

unsigned int model_roll(struct model *m, unsigned int n)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(m->random >> 33) % n;
}

uint64_t model_now(const struct model *m)
{
	return m->rig.now - m->stalled;
}

struct tes_core_key model_key_of(int k)
{
	static char names[N_KEYS][8];

	snprintf(names[k], sizeof(names[k]), "k%u", (unsigned int)k % 100);
	return rig_key(names[k]);
}

const char *model_name_of(int i)
{
	static const char *const names[N_NAMES] = {"s0", "s1", "s2", "s3"};

	return names[i % N_NAMES];
}

bool model_mount_live(const struct model *m, int i)
{
	return m->mounts[i].there &&
	       m->sessions[m->mounts[i].owner].life == LIVE;
}

bool model_part_there(const struct model *m, const struct part *p)
{
	return !p->lost && m->mounts[p->mount].there;
}

bool model_part_live(const struct model *m, const struct part *p)
{
	return !p->lost && model_mount_live(m, p->mount);
}

bool model_thing_live(const struct model *m, const struct thing *t)
{
	for (int i = 0; i < t->n; i++)
		if (model_part_live(m, &t->parts[i]))
			return true;
	return false;
}

bool model_lease_on(const struct model *m, const struct thing *k)
{
	return k->leased && k->read_until > model_now(m);
}

bool model_pin_on(const struct model *m, const struct thing *k)
{
	return !k->vague && k->pin_until > model_now(m);
}

/* May go, if not in the first pass then in the second. */
bool model_evictable(const struct model *m, const struct thing *k)
{
	return k->state == READY && !k->hard && model_thing_live(m, k) &&
	       !model_lease_on(m, k) &&
	       (!model_pin_on(m, k) || m->config.evict_soft_pinned);
}

/* What is of key @k goes: its successor stands alone. */
void model_vanish(struct model *m, struct thing *t)
{
	t->state = ABSENT;
	for (int k = 0; k < N_KEYS; k++)
		if (t == &m->keys[k] && m->next[k].state == BUILDING) {
			m->keys[k] = m->next[k];
			model_met.promotions++;
			m->next[k].state = ABSENT;
		}
}

/* Take the parts out that @where says. */
void model_cut(struct model *m, struct thing *t, part_fn *where, uint64_t arg)
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

static void unmount_thing(struct model *m, struct thing *t, int i)
{
	bool there = false;

	if (t->state == READY) {
		model_cut(m, t, on_mount, (uint64_t)i);
		if (!t->n)
			model_vanish(m, t);
	} else if (t->state == BUILDING) {
		for (int p = 0; p < t->n; p++) {
			t->parts[p].lost |= t->parts[p].mount == i;
			there |= model_part_there(m, &t->parts[p]);
		}
		if (!there)
			model_vanish(m, t);
	}
}

void model_lose_mount(struct model *m, int i)
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
void model_end_session(struct model *m, int s)
{
	m->sessions[s].life = GONE;
	for (int i = 0; i < m->n_mounts; i++)
		if (m->mounts[i].owner == s && m->mounts[i].there)
			model_lose_mount(m, i);
	for (int f = 0; f < m->n_fences; f++)
		if (m->fences[f].owner == s)
			m->fences[f].open = false;
}

/* Who came in the place of @s, while it was silent, goes. */
static void claim_names(struct model *m, int s)
{
	for (int i = 0; i < m->n_mounts; i++) {
		if (m->mounts[i].owner != s || !m->mounts[i].there)
			continue;
		for (int j = i + 1; j < m->n_mounts; j++) {
			if (m->mounts[j].owner == s || !m->mounts[j].there ||
			    m->mounts[j].name != m->mounts[i].name)
				continue;
			model_lose_mount(m, j);
			model_met.displaced++;
		}
	}
}

void model_seen(struct model *m, int s)
{
	if (m->sessions[s].left || m->sessions[s].life == GONE)
		return;
	if (m->sessions[s].life == SUSPECT)
		claim_names(m, s);
	m->sessions[s].life = LIVE;
	m->sessions[s].seen = model_now(m);
}

/* A session that is not GONE; -1: none. */
int model_any_session(struct model *m)
{
	int from, n = m->n_sessions;

	if (!n)
		return -1;
	from = (int)model_roll(m, (unsigned int)n);
	for (int i = 0; i < n; i++)
		if (m->sessions[(from + i) % n].life != GONE)
			return (from + i) % n;
	return -1;
}

uint64_t model_largest_mount(const struct model *m, bool live_only)
{
	uint64_t best = 0;

	for (int i = 0; i < m->n_mounts; i++)
		if (m->mounts[i].there && m->mounts[i].size > best &&
		    (!live_only || model_mount_live(m, i)))
			best = m->mounts[i].size;
	return best;
}

uint64_t model_total_of(uint64_t length)
{
	return (64 + length + 63) / 64 * 64;
}

/* Everything an answer says goes into a digest: same seed, same digest. */
static void digest(struct model *m, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		m->digest = (m->digest ^ ((const uint8_t *)bytes)[i]) *
			    1099511628211u;
}

void model_digest_actions(struct model *m)
{
	for (size_t i = 0; i < m->rig.out.n; i++) {
		const struct tes_action *a = &m->rig.out.at[i];
		size_t n = a->type == TES_ACTION_REPLY ? a->u.reply.n : 0;
		size_t e = n ? a->u.reply.n_entries : 0;

		digest(m, &a->type, sizeof(a->type));
		digest(m, &a->session, sizeof(a->session));
		if (n && a->u.reply.status)
			digest(m, a->u.reply.status, n * sizeof(int32_t));
		if (e && a->u.reply.address)
			digest(m, a->u.reply.address, e * sizeof(uint64_t));
		if (n && a->u.reply.generation)
			digest(m, a->u.reply.generation, n * sizeof(uint64_t));
	}
}

const struct tes_action *model_step(struct model *m, struct tes_event *ev)
{
	const struct tes_action *a = rig_step(&m->rig, ev);

	model_digest_actions(m);
	return a;
}

/*
 * The same, but in a faulty schedule the n-th allocation may fail; *@struck:
 * one has. NULL: the event was refused as a whole, nothing was changed.
 */
const struct tes_action *model_try_step(struct model *m, struct tes_event *ev,
					bool *struck)
{
	int rc;

	*struck = false;
	if (!m->faulty || model_roll(m, 3))
		return model_step(m, ev);
	tei_fault_arm(TEI_FAULT_ALLOC, 1 + model_roll(m, 5));
	rc = rig_try(&m->rig, ev);
	*struck = tei_fault_struck(TEI_FAULT_ALLOC);
	tei_fault_disarm_all();
	model_met.faults += *struck;
	CHECK(m, !rc || (rc == -ENOMEM && *struck));
	return rc ? NULL : &m->rig.out.at[0];
}
