/* SPDX-License-Identifier: Apache-2.0 */
/* sm.c - state machines as tables */
#include "base/sm.h"

#include <assert.h>

#include "base/log.h"

bool tei_sm_can(uint8_t state, const struct tei_sm_state *table, uint8_t to)
{
	return table[state].to & SM_TO(to);
}

void tei_sm_move(uint8_t *state, const struct tei_sm_state *table, uint8_t to)
{
	if (!tei_sm_can(*state, table, to)) {
		LOG_ERROR("state %s: may not become %s", table[*state].name,
			  table[to].name);
		assert(!"state machine: a move that the table does not allow");
	}
	*state = to;
}
