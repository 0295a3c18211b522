/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - names, addresses, and one step of the core */
#include "tests/unit/store_core/memory/world.h"

struct met world_met;

unsigned int world_roll(struct world *w, unsigned int n)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(w->random >> 33) % n;
}

const char *world_key_name(int k)
{
	static char names[N_KEYS][8];

	snprintf(names[k], sizeof(names[k]), "k%u", (unsigned int)k % 100);
	return names[k];
}

int world_key_named(const struct tes_core_key *key)
{
	return (int)strtol((const char *)key->bytes + 1, NULL, 10);
}

const char *world_segment_name(int client)
{
	static const char *const names[N_CLIENTS] = {"a", "b", "c", "d", "e"};

	return names[client];
}

int world_mount_at(uint64_t address)
{
	return (int)(address >> 24) - 1;
}

uint64_t world_base_of(int mount)
{
	return (uint64_t)(mount + 1) << 24;
}

uint64_t *world_unit_at(struct world *w, uint64_t address)
{
	int i = world_mount_at(address);

	CHECK(w, i >= 0 && i < w->n_mounts);
	CHECK(w, (address - world_base_of(i)) / UNIT < UNITS);
	return &w->mounts[i].stamp[(address - world_base_of(i)) / UNIT];
}

int world_client_of(const struct world *w, tes_session_id number)
{
	for (int i = 0; i < N_CLIENTS; i++)
		if (number && w->clients[i].number == number)
			return i;
	return -1;
}

int world_any_client(struct world *w)
{
	unsigned int from = world_roll(w, N_CLIENTS);

	for (unsigned int i = 0; i < N_CLIENTS; i++)
		if (w->clients[(from + i) % N_CLIENTS].number)
			return (int)((from + i) % N_CLIENTS);
	return -1;
}

/* NULL: no reply yet, or (in faulty schedules) refused as a whole. */
const struct tes_action *world_step(struct world *w, struct tes_event *ev)
{
	bool armed = w->faulty && !world_roll(w, 3);
	const struct tes_action *a;
	int rc;

	if (armed)
		tei_fault_arm(TEI_FAULT_ALLOC, 1 + world_roll(w, 4));
	rc = rig_try(&w->rig, ev);
	if (armed) {
		world_met.faults += tei_fault_struck(TEI_FAULT_ALLOC);
		tei_fault_disarm_all();
	}
	CHECK(w, !rc || (rc == -ENOMEM && armed));
	if (rc)
		return NULL;
	world_take_actions(w);
	a = w->rig.out.n ? &w->rig.out.at[0] : NULL;
	if (!a || a->type != TES_ACTION_REPLY || a->cookie != w->rig.cookie)
		return NULL;
	return a->u.reply.code ? NULL : a;
}
