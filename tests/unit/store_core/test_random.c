/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_random.c - random schedules against a naive model
 *
 * The model (model.h) predicts every status. What it cannot predict it learns
 * from the answers and checks: no two extents overlap, used bytes are the sum,
 * space that a writer may still write to is not granted, what went was allowed
 * to go, and "pool full" means that nothing more could. In a quarter of the
 * schedules allocations fail.
 *
 * Prints the seed of a failure; TE_TEST_SEED=<seed> runs only that one.
 */
#include "tests/unit/store_core/model.h"

#define N_STEPS 3000
#define N_SEEDS 240
#define BATCH   6

/* Everything an answer says goes into a digest: same seed, same digest. */
static void digest(struct model *m, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		m->digest = (m->digest ^ ((const uint8_t *)bytes)[i]) *
			    1099511628211u;
}

static void digest_actions(struct model *m)
{
	for (size_t i = 0; i < m->rig.out.n; i++) {
		const struct tei_action *a = &m->rig.out.at[i];
		size_t n = a->type == TEI_ACTION_REPLY ? a->u.reply.n : 0;
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

static const struct tei_action *step(struct model *m, struct tei_event *ev)
{
	const struct tei_action *a = rig_step(&m->rig, ev);

	digest_actions(m);
	return a;
}

/*
 * The same, but in a faulty schedule the n-th allocation may fail; *@struck:
 * one has. NULL: the event was refused as a whole, nothing was changed.
 */
static const struct tei_action *try_step(struct model *m, struct tei_event *ev,
					 bool *struck)
{
	int rc;

	*struck = false;
	if (!m->faulty || roll(m, 3))
		return step(m, ev);
	tei_fault_arm(TEI_FAULT_ALLOC, 1 + roll(m, 5));
	rc = rig_try(&m->rig, ev);
	*struck = tei_fault_struck(TEI_FAULT_ALLOC);
	tei_fault_disarm_all();
	met.faults += *struck;
	CHECK(m, !rc || (rc == -ENOMEM && *struck));
	return rc ? NULL : &m->rig.out.at[0];
}

/* A session that is not GONE; -1: none. */
static int any_session(struct model *m)
{
	int from, n = m->n_sessions;

	if (!n)
		return -1;
	from = (int)roll(m, (unsigned int)n);
	for (int i = 0; i < n; i++)
		if (m->sessions[(from + i) % n].life != GONE)
			return (from + i) % n;
	return -1;
}

static void do_join(struct model *m)
{
	uint8_t client = (uint8_t)roll(m, N_CLIENTS);
	static const char hosts[N_CLIENTS + 1] = "abcab";
	int old = -1, s;
	bool again;

	for (int i = 0; i < m->n_sessions; i++)
		if (m->sessions[i].life != GONE &&
		    m->sessions[i].client == client)
			old = i;
	if (old >= 0 && roll(m, 3))
		return;
	again = old >= 0 && roll(m, 3) > 0;
	if (m->lives == UINT8_MAX && !again)
		return;
	s = again ? old : m->n_sessions;
	CHECK(m, s < N_SESSIONS);
	if (!again) {
		m->sessions[s] = (struct session){.client = client,
						  .incarnation = ++m->lives};
		m->n_sessions++;
	}
	rig_host = &hosts[client];
	CHECK(m, rig_join(&m->rig, ++m->numbers, (char)(client + 1),
			  (char)m->sessions[s].incarnation) == 0);
	rig_host = NULL;
	digest_actions(m);
	if (!again && old >= 0)
		end_session(m, old);
	m->sessions[s].number = m->numbers;
	m->sessions[s].left = false;
	m->sessions[s].joined_generation = m->generation;
	seen(m, s);
	for (int i = 0; i < m->n_fencing; i++)
		if (m->mounts[m->fencing[i].part.mount].owner == s)
			m->fencing[i].since = now_of(m);
	rig_plain(&m->rig, TEI_EVENT_HEARTBEAT, m->numbers);
	take_fences(m);
}

static void do_leave(struct model *m)
{
	int s = any_session(m);

	if (s < 0)
		return;
	rig_plain(&m->rig, TEI_EVENT_LEAVE, m->sessions[s].number);
	if (m->sessions[s].left)
		return;
	m->sessions[s].left = true;
	m->sessions[s].life = SUSPECT;
	m->sessions[s].seen = now_of(m);
}

static void do_mount(struct model *m)
{
	int s = any_session(m), i = m->n_mounts, n = 0;
	uint8_t id[TEI_CORE_ID_LEN] = {(uint8_t)i, (uint8_t)(i >> 8)};
	struct tei_event ev = {.type = TEI_EVENT_MOUNT};

	if (s < 0 || i == N_MOUNTS)
		return;
	for (int j = 0; j < i; j++)
		n += m->mounts[j].there && m->mounts[j].owner == s;
	if (n == 2)
		return;
	m->mounts[i] = (struct mount){s, (uint64_t)(i + 1) << 24,
				      4096u << roll(m, 8), true};
	m->n_mounts++;
	ev.session = m->sessions[s].number;
	ev.u.mount.segment = id;
	ev.u.mount.name = name_of(i);
	ev.u.mount.base = m->mounts[i].base;
	ev.u.mount.size = m->mounts[i].size;
	CHECK(m, step(m, &ev)->u.reply.code == 0);
	seen(m, s);
}

static void do_unmount(struct model *m)
{
	struct tei_event ev = {.type = TEI_EVENT_UNMOUNT};
	uint8_t id[TEI_CORE_ID_LEN] = {0};
	int i, s = any_session(m);

	if (s < 0 || !m->n_mounts)
		return;
	i = (int)roll(m, (unsigned int)m->n_mounts);
	id[0] = (uint8_t)i;
	id[1] = (uint8_t)(i >> 8);
	ev.session = m->sessions[s].number;
	ev.u.mount.segment = id;
	CHECK(m, step(m, &ev)->u.reply.code == (!m->mounts[i].there       ? -101
						: m->mounts[i].owner != s ? -601
									  : 0));
	seen(m, s);
	if (m->mounts[i].there && m->mounts[i].owner == s)
		unmount(m, i);
}

static uint64_t largest(const struct model *m, bool live_only)
{
	uint64_t best = 0;

	for (int i = 0; i < m->n_mounts; i++)
		if (m->mounts[i].there && m->mounts[i].size > best &&
		    (!live_only || mount_live(m, i)))
			best = m->mounts[i].size;
	return best;
}

/* The starts of one event. */
struct start {
	int key[BATCH];
	struct tei_core_key names[BATCH];
	uint64_t size[BATCH];
	uint32_t group[BATCH];
	struct tei_core_replicate how;
	size_t n;
	int session;
	bool upsert, struck;
	struct thing *loser; /* of the key looked at: given up with a grant */
};

static uint64_t total_of(uint64_t length)
{
	return (64 + length + 63) / 64 * 64;
}

/* Whether a start takes the place of @t, which is unfinished. */
static bool preempts(const struct model *m, const struct start *b,
		     const struct thing *t)
{
	return b->upsert || discard_due(m, t) ||
	       (t->writer == b->session &&
		t->generation <= m->sessions[b->session].joined_generation);
}

/* A successor of key @k, which is READY. */
static int expect_succession(struct model *m, struct start *b, size_t i, int k)
{
	struct thing *t = &m->keys[k], *next = &m->next[k];

	if (thing_live(m, t) && b->group[i] && !t->vague &&
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
		return thing_live(m, t) && !b->upsert
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

	if (want > 0 && largest(m, false) &&
	    total_of(b->size[i]) > largest(m, false))
		return -200;
	return want;
}

static void take_part(struct model *m, struct part *p,
		      const struct tei_action *a, size_t e, uint64_t size)
{
	bool many = a->u.reply.extents != NULL;
	uint64_t length = many ? a->u.reply.length[e] : size;

	*p = (struct part){.mount = (int)(a->u.reply.address[e] >> 24) - 1,
			   .address = a->u.reply.address[e],
			   .length = length,
			   .total = total_of(length),
			   .replica = many ? a->u.reply.replica[e] : 0};
	CHECK(m, length > 0);
	CHECK(m, p->mount >= 0 && p->mount < m->n_mounts);
	CHECK(m, mount_live(m, p->mount));
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
			  .started = now_of(m),
			  .group = (int)b->group[i],
			  .hard = b->how.hard_pin,
			  .named = true};

	if (b->how.soft_pin == TEI_CORE_SOFT_ENABLE)
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
	if (b->how.soft_pin == TEI_CORE_SOFT_PRESERVE)
		t->pin_until = old->pin_until;
}

static void take_grant(struct model *m, struct start *b, size_t i,
		       struct thing *t, size_t e, const struct tei_action *a)
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
	met.splits += (uint32_t)t->n > t->parts[n - 1].replica + 1;
}

/* Whether what stands at the key has been evicted by this very event. */
static bool evicted_now(struct model *m, const struct start *b, size_t i,
			int got)
{
	struct thing *t = &m->keys[b->key[i]];

	if (!evictable(m, t) || t->named)
		return false;
	if (!b->upsert)
		return got == 0 || got == -200 || got == -1;
	return got != -600 && !key_there(m, b->key[i]);
}

static void take_start(struct model *m, struct start *b, size_t i, size_t e,
		       int got, const struct tei_action *a)
{
	int k = b->key[i], want;
	struct thing *t = &m->keys[k], old = *t, new;
	bool went = evicted_now(m, b, i, got);

	if (went) {
		vanish(m, t);
		m->evicted++;
	}
	want = expect_start(m, b, i);
	if (want < 0) {
		CHECK(m, got == want || (b->struck && got == -200));
		return;
	}
	CHECK(m, got == 0 || got == -200 || (b->struck && got == -1));
	if (got == -1)
		m->generation++; /* begun, and taken back */
	if (got != -200 && b->loser)
		discard(m, b->loser);
	if (got)
		return;
	new = new_thing(m, b, i);
	if (want == 2 && thing_live(m, &old))
		inherit(&new, &old, b, true);
	else if (went && b->upsert)
		inherit(&new, &old, b, false);
	take_grant(m, b, i, &new, e, a);
	met.upserts += b->upsert;
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
		    total_of(b->size[i]) > largest(m, true))
			continue;
		for (int k = 0; k < N_KEYS; k++)
			CHECK(m, k == b->key[i] || m->keys[k].vague ||
					 !evictable(m, &m->keys[k]) ||
					 !helps(m, &m->keys[k],
						total_of(b->size[i])));
	}
}

static uint64_t any_size(struct model *m)
{
	switch (roll(m, 8)) {
	case 0:
		return 1 + roll(m, 30000);
	case 1:
		return 60000 + roll(m, 300000);
	default:
		return 1000;
	}
}

static void roll_how(struct model *m, struct tei_core_replicate *how)
{
	static const char *names[2];

	how->replica_num = roll(m, 2) ? 1 : 1 + roll(m, REPLICAS);
	how->hard_pin = !roll(m, 40);
	how->same_node = !roll(m, 6);
	if (!roll(m, 4)) {
		how->soft_pin = roll(m, 3);
		how->soft_pin_ttl_ms = 1 + roll(m, 3000);
	}
	names[0] = name_of((int)roll(m, N_NAMES));
	names[1] = name_of((int)roll(m, N_NAMES));
	how->preferred = names;
	how->n_preferred = roll(m, 4) ? 0 : 1 + roll(m, 2);
}

static void roll_start(struct model *m, struct start *b)
{
	bool grouped = !roll(m, 3);

	b->n = m->faulty ? 1 : 1 + roll(m, BATCH);
	b->upsert = !roll(m, 4);
	for (size_t i = 0; i < b->n; i++) {
		b->key[i] = (int)roll(m, N_KEYS);
		b->names[i] = key_of(b->key[i]);
		b->size[i] = any_size(m);
		b->group[i] = grouped ? roll(m, N_GROUPS + 1) : 0;
		/* Nor where it is unsure which group the old value had. */
		if (m->keys[b->key[i]].vague || m->next[b->key[i]].vague ||
		    (b->upsert && in_batch(b->key, i, b->key[i])))
			b->group[i] = 0;
	}
	roll_how(m, &b->how);
}

static void do_start(struct model *m)
{
	static const char *const groups[N_GROUPS] = {"g1", "g2", "g3"};
	struct tei_event ev = {.type = TEI_EVENT_PUT_START};
	struct start b = {.session = any_session(m)};
	uint64_t most = 0;
	const struct tei_action *a;
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
	a = try_step(m, &ev, &b.struck);
	if (!a)
		return;
	CHECK(m, a->u.reply.code == 0 && a->u.reply.n == b.n);
	seen(m, b.session);
	for (size_t i = 0; i < b.n; i++) {
		if (most < total_of(b.size[i]))
			most = total_of(b.size[i]);
		take_start(m, &b, i, e, a->u.reply.status[i], a);
		e += a->u.reply.extents ? a->u.reply.extents[i] : 1;
	}
	take_fences(m);
	take_evictions(m, b.key, b.n, most);
	if (!b.struck)
		check_full(m, &b, a->u.reply.status);
	/* Later keys would have made holes. */
	if (!b.struck && a->u.reply.status[b.n - 1] == -200 && !roll(m, 4))
		check_no_hole(m, total_of(b.size[b.n - 1]));
	for (size_t i = 0; i < b.n; i++) {
		check_no_overlap(m, &m->keys[b.key[i]]);
		check_no_overlap(m, &m->next[b.key[i]]);
		m->keys[b.key[i]].named = m->next[b.key[i]].named = false;
	}
}

/* The end of one put. */
struct end {
	int key, session;
	struct thing *thing; /* what @generation means, as the model has it */
	uint64_t generation, epoch;
	uint32_t n, written, quiet;
	uint32_t crcs[PARTS + 1];
	bool no_crc;
};

static struct thing *meant(struct model *m, int k, uint64_t generation)
{
	if (m->next[k].state == BUILDING && m->next[k].generation == generation)
		return &m->next[k];
	return &m->keys[k];
}

static void roll_end(struct model *m, struct end *e)
{
	struct thing *t;

	e->key = (int)roll(m, N_KEYS);
	for (int tries = 0; m->keys[e->key].state != BUILDING &&
			    m->next[e->key].state != BUILDING && tries < 8;
	     tries++)
		e->key = (int)roll(m, N_KEYS);
	t = &m->keys[e->key];
	if (m->next[e->key].state == BUILDING)
		t = &m->next[e->key];
	e->session = any_session(m);
	if (t->state == BUILDING && roll(m, 10))
		e->session = t->writer;
	e->generation = t->generation + !roll(m, 20);
	e->epoch = EPOCH - !roll(m, 20);
	e->thing = t = meant(m, e->key, e->generation);
	e->n = (uint32_t)t->n + !roll(m, 30);
	e->written = roll(m, 8) ? UINT32_MAX : roll(m, 1u << REPLICAS);
	e->quiet = roll(m, 2) ? UINT32_MAX : roll(m, 1u << REPLICAS);
	e->no_crc = !roll(m, 8);
	if (t->state == ABSENT)
		e->n = 1;
	for (uint32_t i = 0; i < e->n; i++)
		e->crcs[i] = roll(m, UINT32_MAX);
}

static const struct tei_action *send_end(struct model *m, struct end *e,
					 bool *struck)
{
	struct tei_core_key key = key_of(e->key);
	struct tei_event ev = {.type = TEI_EVENT_PUT_END, .n = 1, .keys = &key};

	ev.session = m->sessions[e->session].number;
	ev.u.put_end.generations = &e->generation;
	ev.u.put_end.extents = &e->n;
	ev.u.put_end.crcs = e->crcs;
	ev.u.put_end.no_crc = &e->no_crc;
	ev.u.put_end.written = &e->written;
	ev.u.put_end.quiet = &e->quiet;
	ev.u.put_end.epoch = e->epoch;
	return try_step(m, &ev, struck);
}

static uint32_t replicas_there(const struct model *m, const struct thing *t)
{
	uint32_t mask = 0;

	for (int i = 0; i < t->n; i++)
		if (part_there(m, &t->parts[i]))
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
	if (t->state == READY &&
	    (!e->written || t->generation != e->generation))
		return -700;
	if (t->state == BUILDING && t->writer != e->session)
		return -601;
	if (t->generation != e->generation || e->epoch != EPOCH)
		return -704;
	if (t->state == READY)
		return 0;
	if (e->n != (uint32_t)t->n)
		return -600;
	return !e->written || e->written & replicas_there(m, t) ? 0 : -704;
}

static void take_end(struct model *m, const struct end *e)
{
	struct thing *t = e->thing;
	uint32_t good = e->written & replicas_there(m, t);

	fence_parts(m, t, ~(e->quiet | e->written));
	met.fenced_replicas += (~(e->quiet | e->written) & 7) != 0;
	if (!good) {
		vanish(m, t);
		return;
	}
	for (int i = 0; i < t->n; i++)
		t->parts[i].crc = e->crcs[i];
	cut(m, t, not_in, good);
	t->state = READY;
	t->no_crc = e->no_crc;
	t->leased = false;
	t->readers = (struct readers){.many = false};
	t->read_until = t->weak_until = 0;
	if (t->pin_ms)
		t->pin_until = now_of(m) + t->pin_ms;
	if (t == &m->next[e->key]) {
		m->keys[e->key] = *t;
		met.successions++;
		t->state = ABSENT;
	}
}

static void do_end(struct model *m)
{
	const struct tei_action *a;
	struct end e;
	bool struck, building;
	int want, got;

	roll_end(m, &e);
	if (e.session < 0)
		return;
	want = expect_end(m, &e);
	building = e.thing->state == BUILDING &&
		   e.thing->generation == e.generation &&
		   e.n == (uint32_t)e.thing->n && e.epoch == EPOCH;
	a = send_end(m, &e, &struck);
	if (!a)
		return;
	seen(m, e.session);
	got = a->u.reply.code ? a->u.reply.code : a->u.reply.status[0];
	if (struck && got == -1)
		return; /* as it was */
	CHECK(m, got == want);
	if (building && (want == 0 || want == -704))
		take_end(m, &e);
	take_fences(m);
}

static int expect_read(const struct model *m, const struct thing *k)
{
	if (k->state == ABSENT || !thing_live(m, k))
		return -704;
	return k->state == READY ? 0 : -703;
}

/* Entry @e is part @p; how many entries key @i has. */
static size_t check_entries(struct model *m, const struct thing *k,
			    const struct tei_action *a, size_t i, size_t e)
{
	bool many = a->u.reply.extents != NULL;
	size_t from = e;
	int replica = -1, last = -1;

	for (int j = 0; j < k->n; j++) {
		const struct part *p = &k->parts[j];

		if (!part_live(m, p))
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
			  tei_session_id reader, const struct tei_action *a,
			  size_t i, size_t e)
{
	int want = expect_read(m, k);
	size_t n;

	CHECK(m, a->u.reply.status[i] == want);
	if (want)
		return 1;
	CHECK(m, a->u.reply.size[i] == k->size);
	CHECK(m, a->u.reply.generation[i] == k->generation);
	CHECK(m, a->u.reply.gen_epoch[i] == EPOCH);
	CHECK(m, a->u.reply.no_crc[i] == k->no_crc);
	n = check_entries(m, k, a, i, e);
	if (k->read_until + m->config.lease_ttl_ms <= now_of(m))
		k->readers = (struct readers){.many = false};
	k->leased = true;
	add_reader(&k->readers, reader);
	k->read_until = now_of(m) + m->config.lease_ttl_ms;
	return n;
}

static void do_lookup(struct model *m, enum tei_event_type type)
{
	struct tei_event ev = {.type = type};
	int s = any_session(m), key[BATCH] = {0};
	struct tei_core_key names[BATCH];
	const struct tei_action *a;
	bool struck;
	size_t e = 0;

	if (s < 0)
		return;
	ev.session = m->sessions[s].number;
	ev.n = 1 + roll(m, BATCH);
	ev.keys = names;
	for (size_t i = 0; i < ev.n; i++)
		names[i] = key_of(key[i] = (int)roll(m, N_KEYS));
	a = try_step(m, &ev, &struck);
	if (!a)
		return;
	seen(m, s);
	CHECK(m, a->u.reply.code == 0 && a->u.reply.n == ev.n);
	for (size_t i = 0; i < ev.n; i++) {
		struct thing *k = &m->keys[key[i]];

		if (type == TEI_EVENT_LOOKUP) {
			e += take_lookup(m, k, ev.session, a, i, e);
			continue;
		}
		CHECK(m, a->u.reply.status[i] == (expect_read(m, k) == 0));
		if (a->u.reply.status[i])
			k->weak_until = now_of(m) + m->config.lease_ttl_ms;
	}
}

static void do_release(struct model *m)
{
	int i = (int)roll(m, N_KEYS), s = any_session(m);
	struct thing *k = &m->keys[i];
	uint64_t generation = k->generation + (roll(m, 8) ? 0 : 1);

	if (s < 0)
		return;
	rig_release(&m->rig, m->sessions[s].number, key_of(i).bytes,
		    generation);
	seen(m, s);
	if (k->state != READY || k->generation != generation ||
	    !take_reader(&k->readers, m->sessions[s].number) || !lease_on(m, k))
		return;
	k->leased = false;
	if (k->weak_until < k->read_until)
		k->weak_until = k->read_until;
}

static bool held(const struct model *m, const struct thing *k)
{
	return lease_on(m, k) || k->weak_until > now_of(m);
}

static int expect_remove(const struct model *m, const struct thing *k,
			 bool force)
{
	if (k->state == ABSENT)
		return -704;
	if (k->state == BUILDING)
		return -703;
	return !force && held(m, k) ? -706 : 0;
}

static void do_remove(struct model *m)
{
	int i = (int)roll(m, N_KEYS), s = any_session(m), want;
	bool force = !roll(m, 3);

	if (s < 0)
		return;
	want = expect_remove(m, &m->keys[i], force);
	CHECK(m, rig_remove(&m->rig, m->sessions[s].number, key_of(i).bytes,
			    force) == want);
	seen(m, s);
	if (!want)
		vanish(m, &m->keys[i]);
}

static bool is_named(const struct model *m, const struct part *p, uint64_t i)
{
	(void)m;
	return i == N_NAMES || (uint64_t)p->mount % N_NAMES == i;
}

static void do_clear(struct model *m)
{
	struct tei_event ev = {.type = TEI_EVENT_REPLICA_CLEAR, .n = 1};
	int i = (int)roll(m, N_KEYS), s = any_session(m), want, n;
	uint64_t name = roll(m, N_NAMES + 1);
	struct tei_core_key key = key_of(i);
	struct thing *k = &m->keys[i];

	if (s < 0)
		return;
	ev.session = m->sessions[s].number;
	ev.keys = &key;
	ev.u.replica_clear.segment = name == N_NAMES ? "" : name_of((int)name);
	want = expect_remove(m, k, false);
	n = k->n;
	if (!want)
		cut(m, k, is_named, name);
	if (!want && k->n == n)
		want = -710;
	CHECK(m, step(m, &ev)->u.reply.status[0] == want);
	seen(m, s);
	met.cleared += !want;
	if (!want && !k->n)
		vanish(m, k);
}

/* The keys with an odd last digit. */
static bool is_odd(const void *key, size_t len, void *arg, unsigned int *cost)
{
	(void)arg;
	*cost += 3;
	return ((const char *)key)[len - 1] & 1;
}

static void do_remove_all(struct model *m)
{
	struct tei_event ev = {.type = TEI_EVENT_REMOVE_ALL};
	int s = any_session(m);

	if (s < 0 || m->walk.pending)
		return;
	m->walk = (struct walk){
		.pending = true, .force = !roll(m, 2), .some = roll(m, 3) > 0};
	ev.session = m->sessions[s].number;
	ev.u.remove_all.force = m->walk.force;
	ev.u.remove_all.match = m->walk.some ? is_odd : NULL;
	CHECK(m, !step(m, &ev));
	seen(m, s);
	m->walk.cookie = m->rig.cookie;
}

static bool walk_takes(const struct model *m, int k)
{
	return m->keys[k].state == READY &&
	       (m->walk.force || !held(m, &m->keys[k])) &&
	       (!m->walk.some || k % 2);
}

/* What the walk took, of which eviction has had some before. */
static void take_walk(struct model *m, const struct tei_action *reply)
{
	uint64_t total = rig_figures(&m->rig).evicted_objects_total;
	uint64_t removed = reply->u.reply.removed;
	bool takes[N_KEYS];

	CHECK(m, m->walk.pending && reply->cookie == m->walk.cookie);
	m->walk.pending = false;
	for (int k = 0; k < N_KEYS; k++)
		takes[k] = walk_takes(m, k);
	for (int k = 0; k < N_KEYS; k++) {
		struct thing *t = &m->keys[k];

		if (takes[k]) {
			CHECK(m, !key_there(m, k));
			vanish(m, t);
			met.walked++;
			removed--;
		} else if (evictable(m, t) && !key_there(m, k)) {
			vanish(m, t);
			m->evicted++;
		}
	}
	CHECK(m, m->evicted - removed == total);
	m->evicted = total;
}

static void do_fenced(struct model *m)
{
	struct tei_event ev = {.type = TEI_EVENT_FENCED};
	struct fence *f;
	int n = 0;

	if (!m->n_fences)
		return;
	f = &m->fences[m->n_fences - 1 -
		       (int)roll(m, m->n_fences < 8 ? (unsigned int)m->n_fences
						    : 8)];
	if (!f->open)
		return;
	ev.session = m->sessions[f->owner].number;
	ev.u.fenced.fence = f->id;
	ev.u.fenced.confirmed = roll(m, 20) > 0;
	CHECK(m, !step(m, &ev));
	seen(m, f->owner);
	f->open = false;
	for (int i = 0; i < m->n_fencing; i++) {
		if (!m->fencing[i].there || m->fencing[i].fence != f->id)
			continue;
		m->fencing[i].there = false;
		n++;
	}
	if (n && !ev.u.fenced.confirmed)
		end_session(m, f->owner);
}

static void do_heartbeats(struct model *m)
{
	for (int s = 0; s < m->n_sessions; s++) {
		if (m->sessions[s].life == GONE || !roll(m, 4))
			continue;
		rig_plain(&m->rig, TEI_EVENT_HEARTBEAT, m->sessions[s].number);
		seen(m, s);
	}
}

static void age_sessions(struct model *m)
{
	uint64_t now = now_of(m);

	for (int i = 0; i < m->n_sessions; i++) {
		struct session *s = &m->sessions[i];

		if (s->life == LIVE && s->seen + m->config.suspect_ms <= now)
			s->life = SUSPECT;
		if (s->life == SUSPECT &&
		    s->seen + (s->left ? m->config.suspect_ms
				       : m->config.client_ttl_ms) <=
			    now)
			end_session(m, i);
	}
}

static void fail_late_fences(struct model *m)
{
	for (int f = 0; f < m->n_fencing; f++)
		if (m->fencing[f].there &&
		    m->fencing[f].since + m->config.fence_timeout_ms <=
			    now_of(m))
			end_session(m,
				    m->mounts[m->fencing[f].part.mount].owner);
}

static void do_tick(struct model *m)
{
	struct tei_event ev = {.type = TEI_EVENT_TICK};
	unsigned int gap = roll(m, 200) ? roll(m, 250) : 1001 + roll(m, 60000);
	const struct tei_action *reply;

	m->rig.now += gap;
	if (gap > m->config.suspect_ms / 2)
		m->stalled += gap;
	CHECK(m, rig_try(&m->rig, &ev) == 0);
	digest_actions(m);
	fail_late_fences(m);
	discard_late(m);
	age_sessions(m);
	discard_late(m);
	take_fences(m);
	reply = rig_find(&m->rig, TEI_ACTION_REPLY);
	CHECK(m, m->walk.pending == (reply != NULL));
	if (reply)
		take_walk(m, reply);
	else
		take_evictions(m, NULL, 0, 0);
}

static void do_something(struct model *m)
{
	unsigned int what = roll(m, 100);

	if (what < 3)
		do_join(m);
	else if (what < 4)
		do_leave(m);
	else if (what < 7)
		do_mount(m);
	else if (what < 8)
		do_unmount(m);
	else if (what < 32)
		do_start(m);
	else if (what < 60)
		do_end(m);
	else if (what < 70)
		do_lookup(m, TEI_EVENT_LOOKUP);
	else if (what < 74)
		do_release(m);
	else if (what < 78)
		do_lookup(m, TEI_EVENT_EXIST);
	else if (what < 81)
		do_remove(m);
	else if (what < 82)
		do_clear(m);
	else if (what < 87)
		do_fenced(m);
	else if (what < 91)
		do_heartbeats(m);
	else if (what < 99 || roll(m, 4))
		do_tick(m);
	else
		do_remove_all(m);
}

/* Over all seeds: a schedule that never gets anywhere proves nothing. */
static struct tei_core_figures all;

static void add_up(struct tei_core_figures f)
{
	all.evicted_objects_total += f.evicted_objects_total;
	all.dropped_objects_total += f.dropped_objects_total;
	all.alloc_failures_total += f.alloc_failures_total;
	all.fences_total += f.fences_total;
	all.fences_failed_total += f.fences_failed_total;
	all.discarded_puts_total += f.discarded_puts_total;
	all.late_ends_total += f.late_ends_total;
	all.lost_replicas_total += f.lost_replicas_total;
	all.partial_puts_total += f.partial_puts_total;
}

/* Everybody leaves: nothing stays. */
static void empty(struct model *m)
{
	struct tei_event ev = {.type = TEI_EVENT_TICK};
	struct tei_core_figures f;

	for (int s = 0; s < m->n_sessions; s++)
		if (m->sessions[s].life != GONE)
			rig_plain(&m->rig, TEI_EVENT_LEAVE,
				  m->sessions[s].number);
	for (int i = 0; i < 40; i++) {
		m->rig.now += 100;
		CHECK(m, rig_try(&m->rig, &ev) == 0);
	}
	CHECK(m, !tei_core_busy(m->rig.core));
	f = rig_figures(&m->rig);
	CHECK(m, !f.objects && !f.building && !f.fencing && !f.used_bytes);
	CHECK(m, !f.capacity_bytes && !f.segments && !f.sessions);
	CHECK(m, !f.key_bytes);
}

static uint64_t run_seed(uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));
	uint64_t result;

	assert_non_null(m);
	m->seed = m->random = seed;
	m->config = rig_config;
	m->config.lease_ttl_ms = 500;
	m->config.client_ttl_ms = 3000;
	m->config.suspect_ms = 1000;
	m->config.put_discard_ms = 2000;
	m->config.fence_timeout_ms = 1500;
	m->config.seed = seed;
	m->config.hash_seed = seed % 2 ? seed : 0;
	m->config.strategy = seed % 5 < 3 ? (enum tei_core_strategy)(seed % 5)
					  : TEI_CORE_RANDOM;
	m->config.evict_soft_pinned = seed % 7 < 3;
	m->faulty = seed % 4 == 3;
	if (seed % 3 == 0)
		m->config.high_watermark = 0.8;
	rig_init(&m->rig, &m->config);
	/* It keeps a block, so that what fails is the core's. */
	assert_non_null(tei_arena_alloc(&m->rig.arena, 60000));
	tei_arena_init(&m->side, 1 << 20);
	for (m->step = 0; m->step < N_STEPS; m->step++) {
		do_something(m);
		check_figures(m);
	}
	add_up(rig_figures(&m->rig));
	result = m->digest;
	empty(m);
	tei_arena_fini(&m->side);
	rig_fini(&m->rig);
	free(m);
	return result;
}

static void random_schedules_agree_with_the_model(void **state)
{
	const char *one = getenv("TE_TEST_SEED");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1;

	(void)state;
	for (uint64_t seed = first; seed < (one ? first + 1 : first + N_SEEDS);
	     seed++)
		run_seed(seed);
	print_message(
		"splits %llu upserts %llu successions %llu promotions "
		"%llu pinned %llu groups %llu walked %llu cleared %llu "
		"faults %llu fenced replicas %llu\n",
		(unsigned long long)met.splits, (unsigned long long)met.upserts,
		(unsigned long long)met.successions,
		(unsigned long long)met.promotions,
		(unsigned long long)met.pinned, (unsigned long long)met.groups,
		(unsigned long long)met.walked, (unsigned long long)met.cleared,
		(unsigned long long)met.faults,
		(unsigned long long)met.fenced_replicas);
	print_message("lost replicas %llu partial puts %llu\n",
		      (unsigned long long)all.lost_replicas_total,
		      (unsigned long long)all.partial_puts_total);
	print_message("evicted %llu dropped %llu full %llu fences %llu failed "
		      "%llu discarded %llu late %llu\n",
		      (unsigned long long)all.evicted_objects_total,
		      (unsigned long long)all.dropped_objects_total,
		      (unsigned long long)all.alloc_failures_total,
		      (unsigned long long)all.fences_total,
		      (unsigned long long)all.fences_failed_total,
		      (unsigned long long)all.discarded_puts_total,
		      (unsigned long long)all.late_ends_total);
	if (one)
		return;
	assert_true(all.evicted_objects_total && all.dropped_objects_total &&
		    all.alloc_failures_total && all.fences_total &&
		    all.fences_failed_total && all.discarded_puts_total &&
		    all.lost_replicas_total && all.partial_puts_total);
	assert_true(met.splits && met.upserts && met.successions &&
		    met.promotions && met.pinned && met.groups && met.walked &&
		    met.cleared && met.faults && met.fenced_replicas);
}

static void the_same_events_give_the_same_actions(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++)
		assert_int_equal(run_seed(seed), run_seed(seed));
	assert_int_not_equal(run_seed(1), run_seed(2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_schedules_agree_with_the_model),
		cmocka_unit_test(the_same_events_give_the_same_actions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
