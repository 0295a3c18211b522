/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timing.h - where requests spend their time in the master
 *
 * Turns of the loop are drawn by lot, and in these each request is timed, about
 * one in 32 of all: so reading clocks costs next to nothing, and what is seen
 * is a fair picture of all. A turn is all that one wake-up of the loop brought;
 * a request waits in it for those before it.
 *
 * Threads: the loop's.
 */
#ifndef STORE_SERVER_TIMING_H
#define STORE_SERVER_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "store/server/histogram.h"

struct event;
struct event_base;

enum tes_server_phase {
	TES_SERVER_QUEUE,  /* since the turn's first request */
	TES_SERVER_DECODE, /* bytes to event */
	TES_SERVER_STEP,   /* the core */
	TES_SERVER_ENCODE, /* replies and pushes to bytes */
	TES_SERVER_PHASES,
};

enum tes_server_turn {
	TES_SERVER_TURN_UNTIMED,
	TES_SERVER_TURN_DRAWN, /* the next one will be timed */
	TES_SERVER_TURN_TIMED,
};

struct tes_server_timing {
	struct event *turn_end;
	enum tes_server_turn turn;
	uint32_t until_draw; /* requests */
	uint32_t n_timed;    /* in this or the last timed turn */
	uint64_t random;
	uint64_t turn_ns; /* when its first request began */
	uint64_t at_ns;   /* when the last phase ended; 0: no request */
	uint16_t type;    /* of the request */
	struct tes_histogram phases[TEI_FRAME_TYPES][TES_SERVER_PHASES];
	struct tes_histogram turns;
	/* CPU times of all turns, see tei_loop_measure(), and the longest since
	 * somebody asked. */
	struct tes_histogram cpu;
	uint64_t cpu_max_ns;
};

/* -ENOMEM. */
int tes_server_timing_init(struct tes_server_timing *t,
			   struct event_base *base);
void tes_server_timing_fini(struct tes_server_timing *t);

/* A turn, or several short ones, took this CPU time. */
static inline void tes_server_timing_turned(struct tes_server_timing *t,
					    uint64_t cpu_ns)
{
	tes_histogram_add(&t->cpu, cpu_ns);
	if (cpu_ns > t->cpu_max_ns)
		t->cpu_max_ns = cpu_ns;
}

/* Only for what follows. */
void tes_server_timing_draw(struct tes_server_timing *t);
void tes_server_timing_begin_timed(struct tes_server_timing *t, uint16_t type);
void tes_server_timing_end_timed(struct tes_server_timing *t,
				 enum tes_server_phase phase);

/* A request of frame type @type is there. */
static inline void tes_server_timing_begin(struct tes_server_timing *t,
					   uint16_t type)
{
	if (__builtin_expect(t->turn != TES_SERVER_TURN_UNTIMED, 0))
		tes_server_timing_begin_timed(t, type);
	else if (__builtin_expect(--t->until_draw == 0, 0))
		tes_server_timing_draw(t);
}

/* This phase of it is over. */
static inline void tes_server_timing_end(struct tes_server_timing *t,
					 enum tes_server_phase phase)
{
	if (__builtin_expect(t->at_ns != 0, 0))
		tes_server_timing_end_timed(t, phase);
}

/* Ends the measurement: nothing more belongs to it. */
static inline void tes_server_timing_over(struct tes_server_timing *t)
{
	t->at_ns = 0;
}

#endif
