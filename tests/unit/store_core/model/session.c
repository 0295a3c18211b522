/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - clients and owners come, mount, stay silent and go */
#include "tests/unit/store_core/model/model.h"

void model_join(struct model *m)
{
	uint8_t client = (uint8_t)model_roll(m, N_CLIENTS);
	static const char hosts[N_CLIENTS + 1] = "abcab";
	bool again, believed;
	int old = -1, s, want;
	uint64_t epoch;

	for (int i = 0; i < m->n_sessions; i++)
		if (m->sessions[i].life != GONE &&
		    m->sessions[i].client == client)
			old = i;
	if (old >= 0 && model_roll(m, 3))
		return;
	again = old >= 0 && model_roll(m, 3) > 0;
	if (m->lives == UINT8_MAX && !again)
		return;
	s = again ? old : m->n_sessions;
	CHECK(m, s < N_SESSIONS);
	want = model_claim(m, &epoch, &believed);
	rig_host = &hosts[client];
	rig_buries = m->emphasis->buries;
	rig_epoch = epoch;
	rig_believed = believed;
	CHECK(m, rig_join(&m->rig, ++m->numbers, (char)(client + 1),
			  (char)(again ? m->sessions[s].incarnation
				       : m->lives + 1)) == want);
	rig_host = NULL;
	rig_epoch = 0;
	model_digest_actions(m);
	model_take_claim(m, want);
	if (want)
		return; /* refused: all else is as it was */
	if (!again) {
		m->sessions[s] = (struct session){.client = client,
						  .incarnation = ++m->lives};
		m->n_sessions++;
	}
	if (!again && old >= 0)
		model_end_session(m, old);
	m->sessions[s].number = m->numbers;
	m->sessions[s].left = false;
	m->sessions[s].joined_generation = m->generation;
	model_seen(m, s);
	for (int i = 0; i < m->n_fencing; i++)
		if (m->mounts[m->fencing[i].part.mount].owner == s)
			m->fencing[i].since = model_now(m);
	rig_plain(&m->rig, TES_EVENT_HEARTBEAT, m->numbers);
	model_take_fences(m);
}

void model_leave(struct model *m)
{
	int s = model_any_session(m);

	if (s < 0)
		return;
	rig_plain(&m->rig, TES_EVENT_LEAVE, m->sessions[s].number);
	if (m->sessions[s].left)
		return;
	m->sessions[s].left = true;
	m->sessions[s].life = SUSPECT;
	m->sessions[s].seen = model_now(m);
}

/* True: another that lives has segments of that name. */
static bool is_taken(const struct model *m, int s, int name)
{
	for (int i = 0; i < m->n_mounts; i++)
		if (model_mount_live(m, i) && m->mounts[i].owner != s &&
		    m->mounts[i].name == name)
			return true;
	return false;
}

void model_mount(struct model *m)
{
	int s = model_any_session(m), i = m->n_mounts, n = 0, name;
	uint8_t id[TES_CORE_ID_LEN] = {(uint8_t)i, (uint8_t)(i >> 8)};
	struct tes_event ev = {.type = TES_EVENT_MOUNT};

	if (s < 0 || i == N_MOUNTS)
		return;
	for (int j = 0; j < i; j++)
		n += m->mounts[j].there && m->mounts[j].owner == s;
	if (n == 2)
		return;
	name = model_roll(m, 8) ? m->sessions[s].client % N_NAMES
				: (int)model_roll(m, N_NAMES);
	m->mounts[i] = (struct mount){s, name, (uint64_t)(i + 1) << 24,
				      4096u << model_roll(m, 8), false};
	ev.session = m->sessions[s].number;
	ev.u.mount.segment = id;
	ev.u.mount.name = model_name_of(name);
	ev.u.mount.base = m->mounts[i].base;
	ev.u.mount.size = m->mounts[i].size;
	ev.u.mount.offering = !model_roll(m, 3);
	model_seen(m, s);
	if (is_taken(m, s, name)) {
		CHECK(m, model_step(m, &ev)->u.reply.code == -601);
		model_met.taken++;
		return;
	}
	CHECK(m, model_step(m, &ev)->u.reply.code == 0);
	m->mounts[i].there = true;
	m->n_mounts++;
	if (ev.u.mount.offering)
		model_offer(m, s, id);
}

void model_unmount(struct model *m)
{
	struct tes_event ev = {.type = TES_EVENT_UNMOUNT};
	uint8_t id[TES_CORE_ID_LEN] = {0};
	int i, s = model_any_session(m);
	bool is_own;

	if (s < 0 || !m->n_mounts)
		return;
	i = (int)model_roll(m, (unsigned int)m->n_mounts);
	id[0] = (uint8_t)i;
	id[1] = (uint8_t)(i >> 8);
	ev.session = m->sessions[s].number;
	ev.u.mount.segment = id;
	model_seen(m, s);
	is_own = m->mounts[i].there && m->mounts[i].owner == s;
	CHECK(m, model_step(m, &ev)->u.reply.code == (is_own ? 0 : -101));
	if (is_own)
		model_lose_mount(m, i);
}

void model_heartbeats(struct model *m)
{
	for (int s = 0; s < m->n_sessions; s++) {
		if (m->sessions[s].life == GONE || !model_roll(m, 4))
			continue;
		rig_plain(&m->rig, TES_EVENT_HEARTBEAT, m->sessions[s].number);
		model_seen(m, s);
	}
}

static void age_sessions(struct model *m)
{
	uint64_t now = model_now(m);

	for (int i = 0; i < m->n_sessions; i++) {
		struct session *s = &m->sessions[i];

		if (s->life == LIVE && s->seen + m->config.suspect_ms <= now)
			s->life = SUSPECT;
		if (s->life == SUSPECT &&
		    s->seen + (s->left ? m->config.suspect_ms
				       : m->config.client_ttl_ms) <=
			    now)
			model_end_session(m, i);
	}
}

void model_tick(struct model *m)
{
	struct tes_event ev = {.type = TES_EVENT_TICK};
	unsigned int gap = model_roll(m, 200) ? model_roll(m, 250)
					      : 1001 + model_roll(m, 60000);

	m->rig.now += gap;
	if (gap > m->config.suspect_ms / 2)
		m->stalled += gap;
	CHECK(m, rig_try(&m->rig, &ev) == 0);
	model_digest_actions(m);
	model_fail_late_fences(m);
	model_discard_late(m);
	age_sessions(m);
	model_discard_late(m);
	if (m->walk.pending && !m->walk.walked)
		model_take_walk(m);
	else
		model_take_evictions(m, NULL, 0, 0);
	model_take_fences(m);
}
