/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timing.c - where requests spend their time in the master
 *
 *   untimed --lot--> drawn --end of this turn--> (drawn) --request--> timed
 *      ^                                                                |
 *      +------------------------ end of that turn ----------------------+
 *
 * The end of a turn is seen by an event that is made active in it: libevent
 * calls it after all that were active before.
 */
#include "store/server/timing.h"

#include <errno.h>

#include <event2/event.h>

#include "base/clock.h"

/* Requests to the next lot, for each one of the last timed turn: 16 .. 47. */
#define DRAW_MIN  16u
#define DRAW_MASK 31u
#define TIMED_MAX 65536u

static void wait_for_draw(struct tes_server_timing *t)
{
	/* By chance, so that no rhythm of clients hides from it. */
	t->random = t->random * 6364136223846793005u + 1442695040888963407u;
	t->until_draw = DRAW_MIN + (uint32_t)(t->random >> 33 & DRAW_MASK);
	t->until_draw *= t->n_timed;
	t->turn = TES_SERVER_TURN_UNTIMED;
}

static void on_turn_end(evutil_socket_t fd, short what, void *arg)
{
	struct tes_server_timing *t = arg;

	(void)fd;
	(void)what;
	if (t->turn != TES_SERVER_TURN_TIMED) {
		t->turn = TES_SERVER_TURN_DRAWN;
		return;
	}
	tes_histogram_add(&t->turns, tei_now_ns() - t->turn_ns);
	wait_for_draw(t);
}

int tes_server_timing_init(struct tes_server_timing *t, struct event_base *base)
{
	*t = (struct tes_server_timing){.random = tei_now_ns(), .n_timed = 1};
	wait_for_draw(t);
	t->turn_end = event_new(base, -1, 0, on_turn_end, t);
	return t->turn_end ? 0 : -ENOMEM;
}

void tes_server_timing_fini(struct tes_server_timing *t)
{
	if (t->turn_end)
		event_free(t->turn_end);
	t->turn_end = NULL;
}

void tes_server_timing_draw(struct tes_server_timing *t)
{
	t->until_draw = UINT32_MAX; /* until the turn has ended */
	event_active(t->turn_end, EV_TIMEOUT, 0);
}

void tes_server_timing_begin_timed(struct tes_server_timing *t, uint16_t type)
{
	uint64_t now = tei_now_ns();

	if (t->turn == TES_SERVER_TURN_DRAWN) {
		t->turn = TES_SERVER_TURN_TIMED;
		t->turn_ns = now;
		t->n_timed = 0;
		event_active(t->turn_end, EV_TIMEOUT, 0);
	}
	if (t->n_timed < TIMED_MAX)
		t->n_timed++;
	t->type = type % TEI_FRAME_TYPES;
	t->at_ns = now;
	tes_histogram_add(&t->phases[t->type][TES_SERVER_QUEUE],
			  now - t->turn_ns);
}

void tes_server_timing_end_timed(struct tes_server_timing *t,
				 enum tes_server_phase phase)
{
	uint64_t now = tei_now_ns();

	tes_histogram_add(&t->phases[t->type][phase], now - t->at_ns);
	t->at_ns = now;
}
