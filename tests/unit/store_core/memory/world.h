/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - owners with memory, around a core
 *
 * Every segment is there, in units of 64 bytes that hold which unit of which
 * generation was written last. Whatever was handed out may be written to until
 * its writer has said that it is done, or the owner has fenced it; also by who
 * has died meanwhile. Nothing is predicted: that is what model/ does.
 */
#ifndef TESTS_UNIT_STORE_CORE_MEMORY_WORLD_H
#define TESTS_UNIT_STORE_CORE_MEMORY_WORLD_H

#include "tests/unit/store_core/rig.h"

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
	tes_session_id number; /* 0: none */
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
	uint8_t life, id[TES_CORE_ID_LEN];
	unsigned int since; /* the step of its grant */
	uint64_t generation, size;
	struct part parts[PARTS], source[16];
	int n_source;
};

struct fence {
	uint64_t id;
	tes_session_id owner;
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
	tes_session_id numbers;
	uint8_t lives;
	struct client clients[N_CLIENTS];
	struct memory mounts[N_MOUNTS];
	struct flight flights[N_FLIGHTS];
	struct fence fences[N_FENCES];
	struct entry entries[N_ENTRIES];
	int key_of[N_GENS]; /* 1 + key of a generation; 0: none */
	int n_mounts, n_fences;
	uint8_t job[TES_CORE_ID_LEN]; /* the last one */
};

/* How often what only some schedules meet was met. */
struct met {
	uint64_t copies, moves, orders, done, failed, late_lands, faults;
	uint64_t busy, checked, wrong, drains, cancels, leaves;
};
extern struct met world_met;

#define CHECK(w, cond)                                                     \
	do {                                                               \
		if (!(cond))                                               \
			fail_msg("seed %llu step %u: %s",                  \
				 (unsigned long long)(w)->seed, (w)->step, \
				 #cond);                                   \
	} while (0)

/* ---- world.c ---- */

unsigned int world_roll(struct world *w, unsigned int n);
const char *world_key_name(int k);
int world_key_named(const struct tes_core_key *key);
const char *world_segment_name(int client);
int world_mount_at(uint64_t address);
uint64_t world_base_of(int mount);
uint64_t *world_unit_at(struct world *w, uint64_t address);
int world_client_of(const struct world *w, tes_session_id number);
int world_any_client(struct world *w);
const struct tes_action *world_step(struct world *w, struct tes_event *ev);

/* ---- flight.c ---- */

void world_check_alone(struct world *w, const struct flight *f);
struct flight *world_new_flight(struct world *w);
bool world_can_land(const struct world *w, const struct part *p);
void world_write(struct world *w, const struct flight *f, const struct part *p,
		 bool all);
uint32_t world_crc_of(struct world *w, const struct part *p);
struct flight *world_any_flight(struct world *w, bool is_task);
void world_forget_flights(struct world *w);

/* ---- action.c ---- */

void world_forget_entries(struct world *w, int mount);
void world_drop_client(struct world *w, int c);
void world_take_actions(struct world *w);

/* ---- client.c ---- */

void world_join(struct world *w);
void world_mount(struct world *w);
void world_unmount(struct world *w);
void world_heartbeats(struct world *w);
void world_tick(struct world *w);
void world_fenced(struct world *w);

/* ---- put.c ---- */

void world_start(struct world *w);
void world_end(struct world *w);
void world_remove(struct world *w);
void world_lookup(struct world *w);

/* ---- task.c ---- */

void world_create(struct world *w);
void world_answer(struct world *w);
void world_land(struct world *w);
void world_drain(struct world *w);

/* ---- check.c ---- */

void world_check_all(struct world *w);

#endif
