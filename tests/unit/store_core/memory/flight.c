/* SPDX-License-Identifier: Apache-2.0 */
/* flight.c - what somebody may write to, and what lands */
#include <te/te.h>

#include "tests/unit/store_core/memory/world.h"

static bool apart(const struct part *a, const struct part *b)
{
	return a->address + UNIT + a->length <= b->address ||
	       b->address + UNIT + b->length <= a->address;
}

void world_check_alone(struct world *w, const struct flight *f)
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

struct flight *world_new_flight(struct world *w)
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

bool world_can_land(const struct world *w, const struct part *p)
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
			return *world_unit_at(w,
					      p->address + UNIT + at - p->at);
	}
	return 0;
}

/* All of a part, or the first half. */
void world_write(struct world *w, const struct flight *f, const struct part *p,
		 bool all)
{
	uint64_t length = all ? p->length : p->length / 2;

	if (!world_can_land(w, p))
		return;
	*world_unit_at(w, p->address) = f->generation << 20 | HEAD;
	for (uint64_t i = 0; i < length; i += UNIT)
		*world_unit_at(w, p->address + UNIT + i) =
			stamp_of(w, f, p->at + i);
}

uint32_t world_crc_of(struct world *w, const struct part *p)
{
	uint32_t crc = 0;

	for (uint64_t i = 0; i < p->length; i += UNIT) {
		uint64_t words[8];

		for (int j = 0; j < 8; j++)
			words[j] = *world_unit_at(w, p->address + UNIT + i);
		crc = te_crc32c(crc, words, sizeof(words));
	}
	return crc;
}

struct flight *world_any_flight(struct world *w, bool is_task)
{
	unsigned int from = world_roll(w, N_FLIGHTS);

	for (unsigned int i = 0; i < N_FLIGHTS; i++) {
		struct flight *f = &w->flights[(from + i) % N_FLIGHTS];

		if (f->there && f->is_task == is_task)
			return f;
	}
	return NULL;
}

/* Late writers that nobody waits for any more. */
void world_forget_flights(struct world *w)
{
	for (int i = 0; i < N_FLIGHTS; i++) {
		struct flight *f = &w->flights[i];
		bool any = false;

		for (int p = 0; p < f->n; p++)
			any |= world_can_land(w, &f->parts[p]);
		f->there &= any;
	}
}
