/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - what has to hold after every step */
#include "tests/unit/store_core/memory/world.h"

/* All of the replicas at @places are one value of the key, whole. */
static void check_value(struct world *w, int k,
			const struct tes_core_place *places, size_t n,
			uint64_t size)
{
	uint64_t generation = 0, at = 0;

	for (size_t i = 0; i < n; i++) {
		const struct tes_core_place *p = &places[i];

		if (i && p->replica != p[-1].replica) {
			CHECK(w, at == size);
			at = 0;
		}
		for (uint64_t j = 0; j < p->length; j += UNIT, at += UNIT) {
			uint64_t stamp = *world_unit_at(w, p->address + j);

			if (!generation)
				generation = stamp >> 20;
			CHECK(w, stamp == (generation << 20 | at / UNIT));
		}
		CHECK(w, *world_unit_at(w, p->address - UNIT) ==
				 (generation << 20 | HEAD));
	}
	CHECK(w, at == size);
	CHECK(w, w->key_of[generation] == 1 + k);
	world_met.checked++;
}

static bool shows(const struct tes_core_place *places, size_t n,
		  uint64_t address)
{
	for (size_t i = 0; i < n; i++)
		if (places[i].address == address + UNIT)
			return true;
	return false;
}

static void find_live(const struct world *w, bool *live)
{
	struct tes_core_segment segment;
	size_t cursor = 0;

	memset(live, 0, N_MOUNTS * sizeof(*live));
	while (tes_core_segment_next(w->rig.core, &cursor, &segment))
		live[segment.id[0] | segment.id[1] << 8] = !segment.suspect;
}

void world_check_all(struct world *w)
{
	struct tes_core_place places[PARTS * 4];
	bool live[N_MOUNTS];

	find_live(w, live);
	for (int k = 0; k < N_KEYS; k++) {
		struct tes_core_key key = rig_key(world_key_name(k));
		uint64_t size = 0;
		size_t n = 0;
		int32_t code = tes_core_key_query(w->rig.core, "default", &key,
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
