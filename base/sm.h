/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sm.h - state machines as tables: names and the moves that are allowed
 */
#ifndef BASE_SM_H
#define BASE_SM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

struct tei_sm_state {
	const char *name;
	uint32_t to; /* SM_TO() bits of the states it may move to */
};

#define SM_TO(state) (1u << (state))

/* The table allows it. */
static inline bool tei_sm_can(uint8_t state, const struct tei_sm_state *table,
			      uint8_t to)
{
	return table[state].to & SM_TO(to);
}

/*
 * Move *@state to @to. A move that the table does not allow is a programming
 * error: it is logged with both names and asserted.
 */
static inline void tei_sm_move(uint8_t *state, const struct tei_sm_state *table,
			       uint8_t to)
{
	if (!tei_sm_can(*state, table, to)) {
		LOG_ERROR("state %s: may not become %s", table[*state].name,
			  table[to].name);
		assert(!"state machine: a move that the table does not allow");
	}
	*state = to;
}

#endif
