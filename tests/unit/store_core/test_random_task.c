/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_random_task.c - random schedules of puts and tasks, with memory
 *
 * Every segment is there, in units of 64 bytes that hold which unit of which
 * generation was written last. Whatever was handed out may be written to until
 * its writer has said that it is done, or the owner has fenced it; also by who
 * has died meanwhile. Nothing is predicted. After every step what readers would
 * read is what was put, whole; and what owners have in their directories is
 * there for readers as long as they live. In a quarter of the schedules
 * allocations fail.
 *
 * Prints the seed of a failure; TE_TEST_SEED=<seed> runs only that one.
 */
#include <te/te.h>

#include "tests/unit/store_core/rig.h"

#define N_STEPS   2500
#define N_SEEDS   60
#define N_KEYS    24
#define N_CLIENTS 5
#define N_MOUNTS  400
#define N_FLIGHTS 256
#define N_FENCES  4000
#define N_ENTRIES 1024
#define N_GENS    4000
#define UNITS     512 /* of a segment */
#define UNIT      64u
#define PARTS     32
#define HEAD      0xfffffu

struct client {
	tei_session_id number; /* 0: none */
	uint8_t life;
	bool silent;
};

struct memory {
	bool there;
	int client;
	uint64_t stamp[UNITS];
};

struct part {
	int mount;
	uint64_t address, length, at; /* at: offset in the value */
	uint32_t replica;
	bool is_void;
};

/* What somebody may write to. */
struct flight {
	bool there, is_task, done; /* done: its writer says no more of it */
	int client, key, n;
	uint8_t life, id[TEI_CORE_ID_LEN];
	unsigned int since; /* the step of its grant */
	uint64_t generation, size;
	struct part parts[PARTS], source[16];
	int n_source;
};

struct fence {
	uint64_t id;
	tei_session_id owner;
	bool open, burial;
	uint8_t writer;
	unsigned int sent; /* in this step */
};

struct entry { /* of an owner's directory */
	bool there;
	int mount, key;
	uint64_t address, generation;
};

struct world {
	struct rig rig;
	uint64_t seed, random;
	unsigned int step;
	bool faulty;
	tei_session_id numbers;
	uint8_t lives;
	struct client clients[N_CLIENTS];
	struct memory mounts[N_MOUNTS];
	struct flight flights[N_FLIGHTS];
	struct fence fences[N_FENCES];
	struct entry entries[N_ENTRIES];
	int key_of[N_GENS]; /* 1 + key of a generation; 0: none */
	int n_mounts, n_fences;
	uint8_t job[TEI_CORE_ID_LEN]; /* the last one */
};

/* How often what only some schedules meet was met. */
static struct {
	uint64_t copies, moves, orders, done, failed, late_lands, faults;
	uint64_t busy, checked, wrong, drains, cancels, leaves;
} met;

#define CHECK(w, cond)                                                     \
	do {                                                               \
		if (!(cond))                                               \
			fail_msg("seed %llu step %u: %s",                  \
				 (unsigned long long)(w)->seed, (w)->step, \
				 #cond);                                   \
	} while (0)

static unsigned int roll(struct world *w, unsigned int n)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(w->random >> 33) % n;
}

static const char *key_name(int k)
{
	static char names[N_KEYS][8];

	snprintf(names[k], sizeof(names[k]), "k%u", (unsigned int)k % 100);
	return names[k];
}

static int key_named(const struct tei_core_key *key)
{
	return (int)strtol((const char *)key->bytes + 1, NULL, 10);
}

static const char *segment_name(int client)
{
	static const char *const names[N_CLIENTS] = {"a", "b", "c", "d", "e"};

	return names[client];
}

static int mount_at(uint64_t address)
{
	return (int)(address >> 24) - 1;
}

static uint64_t base_of(int mount)
{
	return (uint64_t)(mount + 1) << 24;
}

static uint64_t *unit_at(struct world *w, uint64_t address)
{
	int i = mount_at(address);

	CHECK(w, i >= 0 && i < w->n_mounts);
	CHECK(w, (address - base_of(i)) / UNIT < UNITS);
	return &w->mounts[i].stamp[(address - base_of(i)) / UNIT];
}

static int client_of(const struct world *w, tei_session_id number)
{
	for (int i = 0; i < N_CLIENTS; i++)
		if (number && w->clients[i].number == number)
			return i;
	return -1;
}

/* ---- what is in flight ---- */

static bool apart(const struct part *a, const struct part *b)
{
	return a->address + UNIT + a->length <= b->address ||
	       b->address + UNIT + b->length <= a->address;
}

static void check_alone(struct world *w, const struct flight *f)
{
	for (int i = 0; i < N_FLIGHTS; i++) {
		const struct flight *g = &w->flights[i];

		if (!g->there || g == f)
			continue;
		for (int p = 0; p < f->n * g->n; p++) {
			const struct part *a = &f->parts[p / g->n];
			const struct part *b = &g->parts[p % g->n];

			CHECK(w, b->is_void || apart(a, b));
		}
	}
}

static struct flight *new_flight(struct world *w)
{
	for (int i = 0; i < N_FLIGHTS; i++)
		if (!w->flights[i].there) {
			w->flights[i] = (struct flight){.there = true,
							.since = w->step};
			return &w->flights[i];
		}
	fail_msg("seed %llu: too much in flight", (unsigned long long)w->seed);
	return NULL;
}

static bool can_land(const struct world *w, const struct part *p)
{
	return !p->is_void && w->mounts[p->mount].there;
}

/* What of the value is at @at, by who writes it. */
static uint64_t stamp_of(struct world *w, const struct flight *f, uint64_t at)
{
	if (!f->is_task)
		return f->generation << 20 | at / UNIT;
	for (int i = 0; i < f->n_source; i++) {
		const struct part *p = &f->source[i];

		if (at >= p->at && at < p->at + p->length)
			return *unit_at(w, p->address + UNIT + at - p->at);
	}
	return 0;
}

/* All of a part, or the first half. */
static void land(struct world *w, const struct flight *f, const struct part *p,
		 bool all)
{
	uint64_t length = all ? p->length : p->length / 2;

	if (!can_land(w, p))
		return;
	*unit_at(w, p->address) = f->generation << 20 | HEAD;
	for (uint64_t i = 0; i < length; i += UNIT)
		*unit_at(w, p->address + UNIT + i) = stamp_of(w, f, p->at + i);
}

static uint32_t crc_of(struct world *w, const struct flight *f,
		       const struct part *p)
{
	uint32_t crc = 0;

	for (uint64_t i = 0; i < p->length; i += UNIT) {
		uint64_t words[8];

		for (int j = 0; j < 8; j++)
			words[j] = *unit_at(w, p->address + UNIT + i);
		crc = te_crc32c(crc, words, sizeof(words));
	}
	(void)f;
	return crc;
}

static struct flight *any_flight(struct world *w, bool is_task)
{
	unsigned int from = roll(w, N_FLIGHTS);

	for (unsigned int i = 0; i < N_FLIGHTS; i++) {
		struct flight *f = &w->flights[(from + i) % N_FLIGHTS];

		if (f->there && f->is_task == is_task)
			return f;
	}
	return NULL;
}

/* Late writers that nobody waits for any more. */
static void forget_flights(struct world *w)
{
	for (int i = 0; i < N_FLIGHTS; i++) {
		struct flight *f = &w->flights[i];
		bool any = false;

		for (int p = 0; p < f->n; p++)
			any |= can_land(w, &f->parts[p]);
		f->there &= any;
	}
}

/* ---- what actions tell ---- */

static void take_fence(struct world *w, const struct tei_action *a)
{
	for (int i = 0; i < w->n_fences; i++)
		if (w->fences[i].id == a->u.fence.fence) {
			w->fences[i].owner = a->session;
			return; /* sent again */
		}
	CHECK(w, w->n_fences < N_FENCES);
	w->fences[w->n_fences++] =
		(struct fence){.id = a->u.fence.fence,
			       .owner = a->session,
			       .open = true,
			       .writer = a->u.fence.writer[0],
			       .sent = w->step};
}

static void take_bury(struct world *w, const struct tei_action *a)
{
	bool known = false;

	for (size_t i = 0; i < a->u.bury.n; i++)
		for (int e = 0; e < N_ENTRIES; e++)
			if (w->entries[e].address == a->u.bury.address[i] &&
			    w->entries[e].generation == a->u.bury.generation[i])
				w->entries[e].there = false;
	if (!a->u.bury.burial)
		return;
	for (int i = 0; i < w->n_fences; i++)
		if (w->fences[i].id == a->u.bury.burial) {
			known = true;
			w->fences[i].owner = a->session;
		}
	CHECK(w, w->n_fences < N_FENCES);
	if (!known)
		w->fences[w->n_fences++] = (struct fence){
			.id = a->u.bury.burial,
			.owner = a->session,
			.open = true,
			.burial = true,
		};
}

static void forget_entries(struct world *w, int mount)
{
	for (int e = 0; e < N_ENTRIES; e++)
		w->entries[e].there &= w->entries[e].mount != mount;
}

static void add_entry(struct world *w, struct entry entry)
{
	struct entry *at = NULL;

	for (int e = 0; e < N_ENTRIES; e++) {
		struct entry *it = &w->entries[e];

		if (it->there && it->address == entry.address)
			at = it;
		else if (!at && !it->there)
			at = it;
	}
	CHECK(w, at);
	if (at)
		*at = entry;
}

static void take_committed(struct world *w, const struct tei_action *a)
{
	const struct tei_core_objects *c = &a->u.committed.objects;
	const uint8_t *segment = a->u.committed.segment;
	size_t k = 0;

	if (segment && a->u.committed.begins)
		forget_entries(w, segment[0] | segment[1] << 8);
	for (size_t i = 0; i < c->n; i++) {
		add_entry(w, (struct entry){
				     .there = true,
				     .mount = mount_at(c->address[k]),
				     .key = key_named(&c->keys[i]),
				     .address = c->address[k],
				     .generation = c->generation[i],
			     });
		k += c->extents[i];
	}
}

static void take_order(struct world *w, const struct tei_action *a)
{
	const struct tei_core_objects *c = &a->u.task.source;
	uint64_t at = 0;
	struct flight *f;

	for (int i = 0; i < N_FLIGHTS; i++)
		if (w->flights[i].is_task && w->flights[i].there &&
		    !memcmp(w->flights[i].id, a->u.task.id, TEI_CORE_ID_LEN))
			return; /* sent again */
	f = new_flight(w);
	f->is_task = true;
	f->client = client_of(w, a->session);
	CHECK(w, f->client >= 0);
	f->life = w->clients[f->client].life;
	memcpy(f->id, a->u.task.id, sizeof(f->id));
	f->generation = c->generation[0];
	f->key = key_named(&c->keys[0]);
	f->size = c->size[0];
	for (size_t i = 0; i < c->n_entries; i++) {
		f->source[f->n_source++] = (struct part){
			.address = c->address[i],
			.length = c->length[i],
			.at = at,
		};
		at += c->length[i];
	}
	CHECK(w, at == f->size);
	at = 0;
	for (size_t i = 0; i < a->u.task.n; i++) {
		f->parts[f->n++] = (struct part){
			.mount = mount_at(a->u.task.address[i]),
			.address = a->u.task.address[i],
			.length = a->u.task.length[i],
			.at = at,
		};
		at += a->u.task.length[i];
	}
	CHECK(w, at == f->size);
	check_alone(w, f);
	met.orders++;
}

/* Its process is no more, as far as we care. */
static void drop_client(struct world *w, int c)
{
	for (int i = 0; i < w->n_mounts; i++)
		if (w->mounts[i].there && w->mounts[i].client == c) {
			w->mounts[i].there = false;
			forget_entries(w, i);
		}
	w->clients[c].number = 0;
}

static void take_actions(struct world *w)
{
	const struct tei_actions *out = &w->rig.out;

	for (size_t i = 0; i < out->n; i++) {
		const struct tei_action *a = &out->at[i];

		if (a->type == TEI_ACTION_COMMITTED)
			take_committed(w, a);
		else if (a->type == TEI_ACTION_BURY)
			take_bury(w, a);
		else if (a->type == TEI_ACTION_FENCE)
			take_fence(w, a);
		else if (a->type == TEI_ACTION_TASK)
			take_order(w, a);
	}
	for (size_t i = 0; i < out->n; i++)
		if (out->at[i].type == TEI_ACTION_CLOSE) {
			int c = client_of(w, out->at[i].session);

			if (c >= 0)
				drop_client(w, c);
		}
}

/* NULL: no reply yet, or (in faulty schedules) refused as a whole. */
static const struct tei_action *step(struct world *w, struct tei_event *ev)
{
	bool armed = w->faulty && !roll(w, 3);
	const struct tei_action *a;
	int rc;

	if (armed)
		tei_fault_arm(TEI_FAULT_ALLOC, 1 + roll(w, 4));
	rc = rig_try(&w->rig, ev);
	if (armed) {
		met.faults += tei_fault_struck(TEI_FAULT_ALLOC);
		tei_fault_disarm_all();
	}
	CHECK(w, !rc || (rc == -ENOMEM && armed));
	if (rc)
		return NULL;
	take_actions(w);
	a = w->rig.out.n ? &w->rig.out.at[0] : NULL;
	if (!a || a->type != TEI_ACTION_REPLY || a->cookie != w->rig.cookie)
		return NULL;
	return a->u.reply.code ? NULL : a;
}

/* ---- clients ---- */

static int any_client(struct world *w)
{
	unsigned int from = roll(w, N_CLIENTS);

	for (unsigned int i = 0; i < N_CLIENTS; i++)
		if (w->clients[(from + i) % N_CLIENTS].number)
			return (int)((from + i) % N_CLIENTS);
	return -1;
}

static void heartbeat(struct world *w, int c)
{
	struct tei_event ev = {.type = TEI_EVENT_HEARTBEAT};

	ev.session = w->clients[c].number;
	step(w, &ev);
}

/* Anew, or after its connection was lost, or after a restart. */
static void do_join(struct world *w)
{
	static const char hosts[N_CLIENTS + 1] = "abcde";
	int c = (int)roll(w, N_CLIENTS);
	struct client *it = &w->clients[c];
	bool again = it->number && roll(w, 3);

	if ((it->number && roll(w, 3)) || w->lives > 200)
		return;
	if (!again) {
		drop_client(w, c);
		it->life = ++w->lives;
	}
	/* It will be told all again. */
	for (int i = 0; i < w->n_mounts; i++)
		if (w->mounts[i].client == c)
			forget_entries(w, i);
	if (again) {
		struct tei_event ev = {.type = TEI_EVENT_LEAVE};

		ev.session = it->number;
		step(w, &ev);
	}
	it->number = ++w->numbers;
	it->silent = false;
	rig_host = &hosts[c];
	CHECK(w, rig_join(&w->rig, it->number, (char)(c + 1), (char)it->life) ==
			 0);
	rig_host = NULL;
	take_actions(w);
	heartbeat(w, c);
}

static void do_mount(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_MOUNT};
	int c = any_client(w), i = w->n_mounts, n = 0;
	uint8_t id[TEI_CORE_ID_LEN] = {(uint8_t)i, (uint8_t)(i >> 8)};

	for (int j = 0; j < i; j++)
		n += w->mounts[j].there && w->mounts[j].client == c;
	if (c < 0 || i == N_MOUNTS || n == 2)
		return;
	ev.session = w->clients[c].number;
	ev.u.mount.segment = id;
	ev.u.mount.name = segment_name(c);
	ev.u.mount.base = base_of(i);
	ev.u.mount.size = (uint64_t)UNITS * UNIT;
	w->mounts[i] = (struct memory){.there = true, .client = c};
	w->n_mounts++;
	if (!step(w, &ev))
		w->mounts[i].there = false;
}

static void do_unmount(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_UNMOUNT};
	uint8_t id[TEI_CORE_ID_LEN] = {0};
	int i;

	if (!w->n_mounts)
		return;
	i = (int)roll(w, (unsigned int)w->n_mounts);
	if (!w->mounts[i].there)
		return;
	id[0] = (uint8_t)i;
	id[1] = (uint8_t)(i >> 8);
	ev.session = w->clients[w->mounts[i].client].number;
	ev.u.mount.segment = id;
	if (!step(w, &ev))
		return;
	w->mounts[i].there = false;
	forget_entries(w, i);
}

static void do_heartbeats(struct world *w)
{
	for (int c = 0; c < N_CLIENTS; c++)
		if (w->clients[c].number && !w->clients[c].silent)
			heartbeat(w, c);
	if (!roll(w, 20))
		w->clients[roll(w, N_CLIENTS)].silent = true;
	if (!roll(w, 4))
		w->clients[roll(w, N_CLIENTS)].silent = false;
}

static void do_tick(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_TICK};

	w->rig.now += roll(w, 150);
	step(w, &ev);
}

/* What was granted before the fence was sent cannot land any more. */
static void revoke(struct world *w, const struct fence *fence)
{
	int owner = client_of(w, fence->owner);

	for (int i = 0; i < N_FLIGHTS; i++) {
		struct flight *f = &w->flights[i];

		if (f->life != fence->writer || f->since > fence->sent)
			continue;
		for (int p = 0; p < f->n; p++)
			f->parts[p].is_void |=
				w->mounts[f->parts[p].mount].client == owner;
	}
}

static void do_fenced(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_FENCED};
	struct fence *f;

	if (!w->n_fences)
		return;
	f = &w->fences[w->n_fences - 1 -
		       (int)roll(w, w->n_fences < 8 ? (unsigned int)w->n_fences
						    : 8)];
	if (!f->open || client_of(w, f->owner) < 0)
		return;
	f->open = false;
	if (!f->burial)
		revoke(w, f);
	ev.session = f->owner;
	ev.u.fenced.fence = f->id;
	ev.u.fenced.burial = f->burial;
	ev.u.fenced.confirmed = true;
	step(w, &ev);
}

/* ---- puts ---- */

static void take_grant(struct world *w, const struct tei_action *a, int c,
		       int k, uint64_t size)
{
	bool many = a->u.reply.extents != NULL;
	uint64_t at = 0;
	struct flight *f = new_flight(w);

	f->client = c;
	f->life = w->clients[c].life;
	f->key = k;
	f->size = size;
	f->generation = a->u.reply.generation[0];
	CHECK(w, f->generation < N_GENS);
	w->key_of[f->generation] = 1 + k;
	for (size_t i = 0; i < (many ? a->u.reply.extents[0] : 1); i++) {
		struct part p = {
			.mount = mount_at(a->u.reply.address[i]),
			.address = a->u.reply.address[i],
			.length = many ? a->u.reply.length[i] : size,
			.replica = many ? a->u.reply.replica[i] : 0,
		};

		if (i && p.replica != f->parts[i - 1].replica)
			at = 0;
		p.at = at;
		at += p.length;
		CHECK(w, f->n < PARTS);
		f->parts[f->n++] = p;
	}
	check_alone(w, f);
}

static void do_start(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_PUT_START, .n = 1};
	int c = any_client(w), k = (int)roll(w, N_KEYS);
	struct tei_core_replicate how = {.replica_num = 1 + roll(w, 2)};
	struct tei_core_key key = rig_key(key_name(k));
	uint64_t size = UNIT * (1 + roll(w, 60));
	const struct tei_action *a;

	if (c < 0)
		return;
	ev.session = w->clients[c].number;
	ev.keys = &key;
	ev.u.put_start.sizes = &size;
	ev.u.put_start.how = &how;
	ev.u.put_start.upsert = !roll(w, 3);
	a = step(w, &ev);
	if (!a)
		return;
	met.busy += a->u.reply.status[0] == -708;
	if (!a->u.reply.status[0])
		take_grant(w, a, c, k, size);
}

static void do_end(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_PUT_END, .n = 1};
	struct flight *f = any_flight(w, false);
	uint32_t crcs[PARTS], n, written = 0, quiet = UINT32_MAX;
	bool ok = roll(w, 6);
	struct tei_core_key key;

	if (!f || f->done || f->life != w->clients[f->client].life ||
	    !w->clients[f->client].number)
		return;
	n = (uint32_t)f->n;
	for (int p = 0; p < f->n; p++) {
		land(w, f, &f->parts[p], ok);
		crcs[p] = crc_of(w, f, &f->parts[p]);
		written |= 1u << f->parts[p].replica;
	}
	for (int p = 0; p < f->n; p++)
		if (!can_land(w, &f->parts[p]) || !ok)
			written &= ~(1u << f->parts[p].replica);
	if (!ok)
		quiet = roll(w, 2) ? UINT32_MAX : 0;
	key = rig_key(key_name(f->key));
	ev.session = w->clients[f->client].number;
	ev.keys = &key;
	ev.u.put_end.generations = &f->generation;
	ev.u.put_end.extents = &n;
	ev.u.put_end.crcs = crcs;
	ev.u.put_end.written = &written;
	ev.u.put_end.quiet = &quiet;
	ev.u.put_end.epoch = EPOCH;
	f->done = true;
	if (quiet)
		f->there = false;
	if (rig_figures(&w->rig).building || !w->faulty)
		step(w, &ev);
}

static void do_remove(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_REMOVE, .n = 1};
	struct tei_core_key key = rig_key(key_name((int)roll(w, N_KEYS)));
	int c = any_client(w);
	const struct tei_action *a;

	if (c < 0)
		return;
	ev.session = w->clients[c].number;
	ev.keys = &key;
	ev.u.remove.force = roll(w, 2);
	a = step(w, &ev);
	met.busy += a && a->u.reply.status[0] == -708;
}

static void do_lookup(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_LOOKUP, .n = 1};
	struct tei_core_key key = rig_key(key_name((int)roll(w, N_KEYS)));
	int c = any_client(w);

	if (c < 0)
		return;
	ev.session = w->clients[c].number;
	ev.keys = &key;
	step(w, &ev);
}

/* ---- tasks ---- */

static void do_create(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_TASK_CREATE, .n = 1};
	struct tei_core_key key = rig_key(key_name((int)roll(w, N_KEYS)));
	const char *targets[2];
	int c = any_client(w);

	if (c < 0)
		return;
	targets[0] = segment_name((int)roll(w, N_CLIENTS));
	targets[1] = segment_name((int)roll(w, N_CLIENTS));
	ev.session = w->clients[c].number;
	ev.keys = &key;
	ev.u.task_create.targets = targets;
	ev.u.task_create.move = roll(w, 2);
	ev.u.task_create.n_targets = ev.u.task_create.move ? 1 : 1 + roll(w, 2);
	ev.u.task_create.source = segment_name((int)roll(w, N_CLIENTS));
	if (!step(w, &ev))
		return;
	met.copies += !ev.u.task_create.move;
	met.moves += ev.u.task_create.move;
}

/* The executor of some task has an answer. */
static void do_answer(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_TASK_DONE};
	struct flight *f = any_flight(w, true);
	bool ok = roll(w, 8), all = true, wrong = !roll(w, 12);
	uint32_t crcs[PARTS];

	if (!f || f->done || f->life != w->clients[f->client].life ||
	    !w->clients[f->client].number)
		return;
	for (int p = 0; p < f->n; p++) {
		land(w, f, &f->parts[p], ok);
		all &= can_land(w, &f->parts[p]);
		/* Read wrong, and copied so. */
		if (wrong && can_land(w, &f->parts[p]))
			*unit_at(w, f->parts[p].address + UNIT) ^= 1u << 19;
		crcs[p] = crc_of(w, f, &f->parts[p]);
	}
	if (!ok || !all)
		ev.u.task_done.status = -800;
	ev.session = w->clients[f->client].number;
	ev.u.task_done.id = f->id;
	ev.u.task_done.quiet = roll(w, 2);
	ev.u.task_done.crcs = crcs;
	ev.u.task_done.n_crcs = (size_t)f->n;
	met.done += !ev.u.task_done.status;
	met.wrong += wrong && !ev.u.task_done.status;
	met.failed += ev.u.task_done.status != 0;
	f->done = true;
	if (!ev.u.task_done.status || ev.u.task_done.quiet)
		f->there = false;
	step(w, &ev);
}

/* Bytes arrive, with or without anybody who waits for them. */
static void do_land(struct world *w)
{
	struct flight *f = any_flight(w, roll(w, 2));

	if (!f)
		return;
	for (int p = 0; p < f->n; p++)
		land(w, f, &f->parts[p], roll(w, 2));
	met.late_lands += f->done || f->life != w->clients[f->client].life;
}

/* ---- drains ---- */

static void do_job(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_DRAIN_CREATE};
	unsigned int first = roll(w, N_CLIENTS), second = first + 1;
	const struct tei_action *a;
	const char *names[2];

	names[0] = segment_name((int)first);
	names[1] = segment_name((int)(second % N_CLIENTS));
	ev.u.drain_create.segments = names;
	ev.u.drain_create.n_segments = 1 + !roll(w, 4);
	ev.u.drain_create.at_a_time = roll(w, 4);
	a = step(w, &ev);
	if (!a)
		return;
	met.drains++;
	memcpy(w->job, a->u.reply.drain->id, sizeof(w->job));
}

static void do_cancel(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_DRAIN_CANCEL};

	ev.u.drain.id = w->job;
	met.cancels += step(w, &ev) != NULL;
}

static void do_leave(struct world *w)
{
	struct tei_event ev = {.type = TEI_EVENT_DRAIN_LEAVE};
	int c = any_client(w);

	if (c < 0)
		return;
	ev.session = w->clients[c].number;
	ev.u.drain_leave.timeout_ms = roll(w, 1000);
	step(w, &ev); /* most are answered late, or not: it goes on or not */
	met.leaves++;
}

static void do_drain(struct world *w)
{
	unsigned int what = roll(w, 8);

	if (what < 4)
		do_job(w);
	else if (what < 7)
		do_cancel(w);
	else
		do_leave(w);
}

static void do_something(struct world *w)
{
	unsigned int what = roll(w, 100);

	if (what < 3)
		do_join(w);
	else if (what < 6)
		do_mount(w);
	else if (what < 7)
		do_unmount(w);
	else if (what < 8)
		do_drain(w);
	else if (what < 22)
		do_start(w);
	else if (what < 40)
		do_end(w);
	else if (what < 43)
		do_remove(w);
	else if (what < 46)
		do_lookup(w);
	else if (what < 56)
		do_create(w);
	else if (what < 66)
		do_answer(w);
	else if (what < 72)
		do_land(w);
	else if (what < 82)
		do_fenced(w);
	else if (what < 90)
		do_heartbeats(w);
	else
		do_tick(w);
	forget_flights(w);
}

/* ---- what has to hold ---- */

/* All of the replicas at @places are one value of the key, whole. */
static void check_value(struct world *w, int k,
			const struct tei_core_place *places, size_t n,
			uint64_t size)
{
	uint64_t generation = 0, at = 0;

	for (size_t i = 0; i < n; i++) {
		const struct tei_core_place *p = &places[i];

		if (i && p->replica != p[-1].replica) {
			CHECK(w, at == size);
			at = 0;
		}
		for (uint64_t j = 0; j < p->length; j += UNIT, at += UNIT) {
			uint64_t stamp = *unit_at(w, p->address + j);

			if (!generation)
				generation = stamp >> 20;
			CHECK(w, stamp == (generation << 20 | at / UNIT));
		}
		CHECK(w, *unit_at(w, p->address - UNIT) ==
				 (generation << 20 | HEAD));
	}
	CHECK(w, at == size);
	CHECK(w, w->key_of[generation] == 1 + k);
	met.checked++;
}

static bool shows(const struct tei_core_place *places, size_t n,
		  uint64_t address)
{
	for (size_t i = 0; i < n; i++)
		if (places[i].address == address + UNIT)
			return true;
	return false;
}

static void find_live(const struct world *w, bool *live)
{
	struct tei_core_segment segment;
	size_t cursor = 0;

	memset(live, 0, N_MOUNTS * sizeof(*live));
	while (tei_core_segment_next(w->rig.core, &cursor, &segment))
		live[segment.id[0] | segment.id[1] << 8] = !segment.suspect;
}

static void check_all(struct world *w)
{
	struct tei_core_place places[PARTS * 4];
	bool live[N_MOUNTS];

	find_live(w, live);
	for (int k = 0; k < N_KEYS; k++) {
		struct tei_core_key key = rig_key(key_name(k));
		uint64_t size = 0;
		size_t n = 0;
		int32_t code = tei_core_key_query(w->rig.core, "default", &key,
						  places, PARTS * 4, &n, &size);

		if (!code)
			check_value(w, k, places, n, size);
		for (int e = 0; e < N_ENTRIES && !w->faulty; e++)
			if (w->entries[e].there && w->entries[e].key == k &&
			    live[w->entries[e].mount])
				CHECK(w, !code && shows(places, n,
							w->entries[e].address));
	}
}

/* Everybody leaves: nothing stays. */
static void empty(struct world *w)
{
	struct tei_core_figures f;

	w->faulty = false;
	for (int c = 0; c < N_CLIENTS; c++)
		if (w->clients[c].number)
			rig_plain(&w->rig, TEI_EVENT_LEAVE,
				  w->clients[c].number);
	for (int i = 0; i < 100; i++) {
		w->rig.now += 100;
		rig_tick(&w->rig);
	}
	f = rig_figures(&w->rig);
	CHECK(w, !f.objects && !f.building && !f.fencing && !f.used_bytes);
	CHECK(w, !f.tasks_pending && !f.tasks_processing && !f.sessions);
	CHECK(w, !f.drains_active);
	CHECK(w, !f.key_bytes);
}

static struct tei_core_figures all;

static void run_seed(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	struct tei_core_config c = rig_config;
	struct tei_core_figures f;

	assert_non_null(w);
	w->seed = w->random = seed;
	w->faulty = seed % 4 == 3;
	c.lease_ttl_ms = 300;
	c.client_ttl_ms = 3000;
	c.suspect_ms = 1000;
	c.put_discard_ms = 2000;
	c.fence_timeout_ms = 1500;
	c.seed = c.hash_seed = seed;
	c.tasks_pending_max = 12;
	c.tasks_processing_max = 8;
	c.tasks_finished_max = 20;
	c.task_pending_ms = 2000;
	c.task_processing_ms = seed % 2 ? 700 : 20000;
	c.task_retries = 3;
	rig_buries = rig_executes = true;
	rig_init(&w->rig, &c);
	for (w->step = 0; w->step < N_STEPS; w->step++) {
		do_something(w);
		check_all(w);
	}
	f = rig_figures(&w->rig);
	all.tasks_succeeded_total += f.tasks_succeeded_total;
	all.tasks_failed_total += f.tasks_failed_total;
	all.tasks_late_total += f.tasks_late_total;
	all.replicas_remade_total += f.replicas_remade_total;
	all.evicted_objects_total += f.evicted_objects_total;
	all.fences_total += f.fences_total;
	all.burials_total += f.burials_total;
	all.drained_objects_total += f.drained_objects_total;
	all.drains_succeeded_total += f.drains_succeeded_total;
	all.drains_failed_total += f.drains_failed_total;
	empty(w);
	rig_fini(&w->rig);
	free(w);
}

static void what_is_there_is_whole_whatever_tasks_do(void **state)
{
	const char *one = getenv("TE_TEST_SEED");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1;

	(void)state;
	for (uint64_t seed = first; seed < (one ? first + 1 : first + N_SEEDS);
	     seed++)
		run_seed(seed);
	print_message(
		"copies %llu moves %llu orders %llu done %llu failed "
		"%llu late bytes %llu faults %llu busy %llu checked "
		"%llu wrong %llu\n",
		(unsigned long long)met.copies, (unsigned long long)met.moves,
		(unsigned long long)met.orders, (unsigned long long)met.done,
		(unsigned long long)met.failed,
		(unsigned long long)met.late_lands,
		(unsigned long long)met.faults, (unsigned long long)met.busy,
		(unsigned long long)met.checked, (unsigned long long)met.wrong);
	print_message("succeeded %llu failed %llu late %llu remade %llu "
		      "evicted %llu fences %llu burials %llu\n",
		      (unsigned long long)all.tasks_succeeded_total,
		      (unsigned long long)all.tasks_failed_total,
		      (unsigned long long)all.tasks_late_total,
		      (unsigned long long)all.replicas_remade_total,
		      (unsigned long long)all.evicted_objects_total,
		      (unsigned long long)all.fences_total,
		      (unsigned long long)all.burials_total);
	print_message("jobs %llu cancelled %llu leaves %llu moved %llu "
		      "emptied %llu not %llu\n",
		      (unsigned long long)met.drains,
		      (unsigned long long)met.cancels,
		      (unsigned long long)met.leaves,
		      (unsigned long long)all.drained_objects_total,
		      (unsigned long long)all.drains_succeeded_total,
		      (unsigned long long)all.drains_failed_total);
	if (one)
		return;
	assert_true(met.drains && met.cancels && met.leaves &&
		    all.drained_objects_total && all.drains_succeeded_total &&
		    all.drains_failed_total);
	assert_true(met.copies && met.moves && met.orders && met.done &&
		    met.failed && met.late_lands && met.faults && met.busy &&
		    met.checked && met.wrong);
	assert_true(all.tasks_succeeded_total && all.tasks_failed_total &&
		    all.tasks_late_total && all.replicas_remade_total &&
		    all.evicted_objects_total && all.fences_total &&
		    all.burials_total);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there_is_whole_whatever_tasks_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
