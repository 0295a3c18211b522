/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readers.c - who reads an object: look-ups that have not been released
 *
 * Few objects are read by three sessions at once, and those that are will hardly
 * be evicted soon, so their leases may end by time alone.
 */
#include "store/core/readers.h"

#include <string.h>

#include "store/core/session.h"

/* 1 .. 65534 */
static uint16_t reader_number(const struct tes_session *s)
{
	return (uint16_t)(1 + s->id % (TES_CORE_READERS_MANY - 1));
}

void tes_core_readers_clear(struct tes_readers *readers)
{
	memset(readers, 0, sizeof(*readers));
}

/* The place of @who, or a free one; NULL: all are others'. */
static uint16_t *reader_place(struct tes_readers *readers, uint16_t who)
{
	uint16_t *free = NULL;

	for (size_t i = 0; i < TES_CORE_READERS; i++) {
		if (readers->at[i].n && readers->at[i].who == who)
			return &readers->at[i].n;
		if (!readers->at[i].n && !free) {
			readers->at[i].who = who;
			free = &readers->at[i].n;
		}
	}
	return free;
}

void tes_core_readers_add(struct tes_readers *readers,
			  const struct tes_session *s)
{
	uint16_t *n;

	if (readers->at[0].who == TES_CORE_READERS_MANY)
		return;
	n = reader_place(readers, reader_number(s));
	if (!n) {
		tes_core_readers_clear(readers);
		readers->at[0].who = TES_CORE_READERS_MANY;
		readers->at[0].n = 1;
	} else if (*n < UINT16_MAX) {
		++*n;
	}
}

bool tes_core_readers_take(struct tes_readers *readers,
			   const struct tes_session *s)
{
	uint16_t who = reader_number(s);
	bool taken = false, left = false;

	for (size_t i = 0; i < TES_CORE_READERS; i++) {
		uint16_t *n = &readers->at[i].n;

		/* More than can be counted end by time. */
		if (*n && *n < UINT16_MAX && readers->at[i].who == who) {
			--*n;
			taken = true;
		}
		left |= *n > 0;
	}
	return taken && !left;
}
