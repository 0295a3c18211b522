/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - a naive model of the core, for random schedules
 *
 * Arrays, all of which are looked at at every step. The model predicts every
 * status. What it cannot predict (where extents go, which object is evicted) it
 * learns from the answers and checks: no two extents overlap, used bytes are
 * the sum, space that a writer may still write to, or that is being buried, is
 * not granted, what went was allowed to go, and "pool full" means that nothing
 * more could. Removes and replacements are answered when all owners that live
 * have buried what they had, and not before.
 *
 * A driver (test_random*.c) says what its schedules are mostly about.
 */
#ifndef TESTS_UNIT_STORE_CORE_MODEL_MODEL_H
#define TESTS_UNIT_STORE_CORE_MODEL_MODEL_H

#include "tests/unit/store_core/model/readers.h"
#include "tests/unit/store_core/rig.h"

#define N_KEYS      40
#define N_CLIENTS   5
#define N_SESSIONS  2000
#define N_MOUNTS    1000
#define N_FENCES    4000
#define N_FENCING   8000
#define N_WAITS     64
#define N_NAMES     4
#define N_GROUPS    3
#define REPLICAS    3
#define PARTS       (REPLICAS * 16)
#define MODEL_BATCH 6

enum thing_state { ABSENT, BUILDING, READY };
enum life { LIVE, SUSPECT, GONE };

struct session {
	tes_session_id number;
	uint8_t client, incarnation;
	enum life life;
	bool left;
	uint64_t seen, joined_generation;
};

struct mount {
	int owner, name;
	uint64_t base, size;
	bool there;
};

struct part { /* an extent */
	int mount;
	uint64_t address, length, total;
	uint32_t crc, replica;
	int writer; /* 1 + its client; 0: not known */
	bool lost;  /* with its mount, while BUILDING */
};

struct thing { /* an object */
	enum thing_state state;
	int writer, n, group; /* group 0: none */
	uint64_t size, generation, epoch, started;
	uint64_t read_until, weak_until, pin_ms, pin_until;
	struct readers readers;
	bool leased, named, hard, no_crc;
	bool vague; /* its pin and its group are not known */
	struct part parts[PARTS];
};

struct fencing { /* an extent under a fence, or being buried */
	struct part part;
	int writer;
	bool there;
	uint64_t fence; /* its id, 0 until it was sent */
	uint64_t since; /* when the owner began to owe an answer */
	bool burial;
	uint64_t generation, epoch; /* burial: whose extent it was */
	uint64_t waits;             /* burial: cookie of who waits, or 0 */
};

struct fence {
	uint64_t id;
	int owner;
	bool open, burial;
};

struct walk { /* a remove_all */
	bool pending, walked, force, some;
	uint64_t cookie, removed;
};

/* How often what only some schedules meet was met. */
struct met {
	uint64_t splits, upserts, successions, promotions, pinned, groups;
	uint64_t walked, cleared, not_yours, faults, fenced_replicas;
	uint64_t buried, waited, silent, unsummed; /* of owners that bury */
	uint64_t claims, waiting, forged, offers, outlived; /* epochs */
	uint64_t taken, displaced;                          /* names */
};
extern struct met model_met;

/* What schedules are mostly about. */
struct emphasis {
	bool buries; /* owners keep a directory; no allocation fails then */
	uint64_t n_seeds;
	/* Of 100 events; what is left is ticks. */
	unsigned int starts, ends, removes, answers;
};

struct model {
	struct rig rig;
	struct tei_arena side; /* of questions in between */
	struct tes_core_config config;
	const struct emphasis *emphasis;
	uint64_t seed, random, stalled, generation, evicted, digest;
	uint64_t epoch;  /* the core's, which only grows */
	uint64_t floor;  /* who knows of a later one waits */
	uint64_t asked;  /* highest that was to be exceeded */
	uint64_t raised; /* when; 0: never */
	bool raises;     /* the claim under way */
	unsigned int step;
	bool faulty;
	tes_session_id numbers;
	struct session sessions[N_SESSIONS];
	struct mount mounts[N_MOUNTS];
	struct thing keys[N_KEYS], next[N_KEYS]; /* next: successors */
	struct fencing fencing[N_FENCING];
	struct fence fences[N_FENCES];
	uint64_t waits[N_WAITS]; /* cookies of those that wait */
	struct walk walk;
	int n_sessions, n_mounts, n_fencing, n_fences, n_waits;
	uint8_t lives; /* incarnations given out */
};

#define CHECK(m, cond)                                                     \
	do {                                                               \
		if (!(cond))                                               \
			fail_msg("seed %llu step %u: %s",                  \
				 (unsigned long long)(m)->seed, (m)->step, \
				 #cond);                                   \
	} while (0)

/* Which parts of a thing are meant. */
typedef bool part_fn(const struct model *m, const struct part *p, uint64_t arg);

/* ---- model.c ---- */

unsigned int model_roll(struct model *m, unsigned int n);
uint64_t model_now(const struct model *m);
struct tes_core_key model_key_of(int k);
const char *model_name_of(int i);
bool model_mount_live(const struct model *m, int i);
bool model_part_there(const struct model *m, const struct part *p);
bool model_part_live(const struct model *m, const struct part *p);
bool model_thing_live(const struct model *m, const struct thing *t);
bool model_lease_on(const struct model *m, const struct thing *k);
bool model_pin_on(const struct model *m, const struct thing *k);
bool model_evictable(const struct model *m, const struct thing *k);
void model_vanish(struct model *m, struct thing *t);
void model_cut(struct model *m, struct thing *t, part_fn *where, uint64_t arg);
void model_lose_mount(struct model *m, int i);
void model_end_session(struct model *m, int s);
void model_seen(struct model *m, int s);
int model_any_session(struct model *m);
uint64_t model_largest_mount(const struct model *m, bool live_only);
uint64_t model_total_of(uint64_t length);
void model_digest_actions(struct model *m);
const struct tes_action *model_step(struct model *m, struct tes_event *ev);
const struct tes_action *model_try_step(struct model *m, struct tes_event *ev,
					bool *struck);

/* ---- fence.c ---- */

void model_fence_parts(struct model *m, const struct thing *t, uint32_t mask);
/* A part_fn. */
bool model_any_part(const struct model *m, const struct part *p, uint64_t arg);
void model_begin_wait(struct model *m, uint64_t cookie);
bool model_bury_parts(struct model *m, const struct thing *t, part_fn *where,
		      uint64_t arg, uint64_t cookie);
void model_evict(struct model *m, struct thing *t);
void model_discard(struct model *m, struct thing *t);
bool model_discard_due(const struct model *m, const struct thing *k);
void model_discard_late(struct model *m);
void model_take_fences(struct model *m);
void model_fenced(struct model *m);
void model_fail_late_fences(struct model *m);
void model_check_waiting(struct model *m);

/* ---- check.c ---- */

bool model_key_there(struct model *m, int k);
bool model_in_batch(const int *batch, size_t n, int k);
bool model_helps(const struct model *m, const struct thing *t, uint64_t total);
void model_take_evictions(struct model *m, const int *batch, size_t n,
			  uint64_t most);
void model_check_no_overlap(const struct model *m, const struct thing *t);
void model_check_figures(struct model *m);
void model_check_no_hole(struct model *m, uint64_t total);

/* ---- session.c ---- */

void model_join(struct model *m);
void model_leave(struct model *m);
void model_mount(struct model *m);
void model_unmount(struct model *m);
void model_heartbeats(struct model *m);
void model_tick(struct model *m);

/* ---- offer.c ---- */

int model_claim(struct model *m, uint64_t *epoch, bool *believed);
void model_take_claim(struct model *m, int want);
void model_offer(struct model *m, int s, const uint8_t *segment);

/* ---- start.c ---- */

void model_start(struct model *m);

/* ---- end.c ---- */

void model_end(struct model *m);

/* ---- read.c: of LOOKUP and EXIST ---- */

void model_lookup(struct model *m, enum tes_event_type type);
void model_release(struct model *m);

/* ---- remove.c ---- */

bool model_held(const struct model *m, const struct thing *k);
void model_remove(struct model *m);
void model_clear(struct model *m);
void model_remove_all(struct model *m);
void model_take_walk(struct model *m);
void model_end_walk(struct model *m);

/* ---- run.c ---- */

/* All seeds, or that of TE_TEST_SEED; what only some meet has to be met. */
void model_schedules(const struct emphasis *emphasis);
void model_is_deterministic(const struct emphasis *emphasis);

#endif
