/* SPDX-License-Identifier: Apache-2.0 */
/* places.c - the owners that one round deals with */
#include "store/client/places.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "store/client/work.h"

#define EPOCH_WAIT_NS (100 * TEI_NS_PER_MS)

void tes_places_init(struct tes_places *places, struct tes_owners *owners,
		     struct tes_work *work, uint32_t timeout_ms,
		     uint64_t deadline_ns)
{
	memset(places, 0, sizeof(*places));
	places->arena = &work->round;
	places->owners = owners;
	places->timeout_ms = timeout_ms;
	places->deadline_ns = deadline_ns;
}

static int reserve(struct tes_places *places, size_t n)
{
	size_t room = places->room ? places->room : 8;
	struct tes_place *at;

	if (n <= places->room)
		return 0;
	while (room < n)
		room *= 2;
	at = tei_arena_calloc(places->arena, room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	if (places->n)
		memcpy(at, places->at, places->n * sizeof(*at));
	places->at = at;
	places->room = room;
	return 0;
}

int tes_places_add(struct tes_places *places, Store__Segment *const *segments,
		   size_t n)
{
	size_t i;

	if (reserve(places, places->n + n))
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct tes_place *place = &places->at[places->n++];

		place->name = segments[i]->engine;
		if (segments[i]->incarnation.len == TE_INCARNATION_LEN)
			place->incarnation = segments[i]->incarnation.data;
	}
	return 0;
}

static int learn_epoch(struct tes_places *places, struct tes_place *place)
{
	int rc = te_segment_epoch(places->owners->engine, place->owner->segment,
				  &place->epoch, &place->since_ns);

	if (rc)
		place->gone = true;
	return rc;
}

int tes_places_add_owner(struct tes_places *places, struct tes_owner *owner,
			 uint32_t *index)
{
	struct tes_place *place;
	size_t i;

	/* Most recent first: neighbours mostly have the same owner. */
	for (i = places->n; i > 0; i--)
		if (places->at[i - 1].owner == owner) {
			*index = (uint32_t)(i - 1);
			return 0;
		}
	if (reserve(places, places->n + 1))
		return -ENOMEM;
	place = &places->at[places->n];
	place->name = owner->name;
	place->incarnation = owner->incarnation;
	place->owner = owner;
	place->tried = true;
	tes_owners_ref(places->owners, owner);
	*index = (uint32_t)places->n++;
	place->error = learn_epoch(places, place);
	return 0;
}

void tes_places_fini(struct tes_places *places)
{
	size_t i;

	for (i = 0; i < places->n; i++) {
		struct tes_place *place = &places->at[i];

		if (!place->owner)
			continue;
		if (place->gone)
			tes_owners_drop(places->owners, place->owner);
		else
			tes_owners_put(places->owners, place->owner);
	}
	places->n = 0;
}

/* The engine calls nobody when an epoch begins, so that one has to look. */
static void sleep_1_ms(void)
{
	const struct timespec ms = {.tv_nsec = (long)TEI_NS_PER_MS};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
}

void tes_places_await_epochs(struct tes_places *places)
{
	uint64_t until = tei_now_ns() + EPOCH_WAIT_NS, epoch, since_ns;
	size_t i;

	for (i = 0; i < places->n; i++) {
		const struct tes_place *place = &places->at[i];

		while (place->stale && !place->gone && tei_now_ns() < until) {
			if (te_segment_epoch(places->owners->engine,
					     place->owner->segment, &epoch,
					     &since_ns) ||
			    epoch != place->epoch)
				break;
			sleep_1_ms();
		}
	}
}

static int open_place(struct tes_places *places, struct tes_place *place)
{
	uint64_t now = tei_now_ns(), ms = 1;
	int rc;

	if (!place->incarnation)
		return -EPROTO;
	if (now < places->deadline_ns)
		ms += (places->deadline_ns - now) / TEI_NS_PER_MS;
	if (ms > places->timeout_ms)
		ms = places->timeout_ms;
	rc = tes_owners_get(places->owners, place->name, place->incarnation,
			    (uint32_t)ms, &place->owner);
	return rc ? rc : learn_epoch(places, place);
}

int tes_places_open(struct tes_places *places, size_t index)
{
	struct tes_place *place = &places->at[index];

	if (!place->tried) {
		place->tried = true;
		place->error = open_place(places, place);
	}
	return place->error;
}
