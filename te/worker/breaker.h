/* SPDX-License-Identifier: Apache-2.0 */
/*
 * breaker.h - whether something that has failed may be used again
 *
 *   CLOSED --failed--> OPEN --its pause is over--> HALF --went well--> CLOSED
 *                       ^                           |
 *                       +----------- failed --------+
 *
 * A pause is twice as long for each failure that is remembered, give or take a
 * quarter, so that many who saw the same failure do not come back at once.
 * Failures are forgotten by halves with time, not at the first success: what
 * fails again and again is paused for long though it works in between.
 *
 * Threads: the token. Pure: time and chance are arguments.
 */
#ifndef TE_WORKER_BREAKER_H
#define TE_WORKER_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum tei_breaker_state {
	TEI_BREAKER_CLOSED, /* in use */
	TEI_BREAKER_OPEN,   /* paused */
	TEI_BREAKER_HALF,   /* may be tried */
};

struct tei_breaker_limits {
	uint64_t pause_min, pause_max; /* ns */
	uint64_t half_life;            /* ns: of what is remembered */
};

/* Zeroed: closed, and nothing is remembered. */
struct tei_breaker {
	uint8_t state;
	bool reported;      /* the user's: its pause stands in the log */
	uint32_t score;     /* failures remembered, in sixteenths */
	uint64_t until;     /* ns: end of the pause */
	uint64_t failed_at; /* ns: when the last failure was counted */
};

/*
 * Something went wrong, and whose fault it was is not known yet: a pause as
 * after the last failure, but nothing to remember.
 */
void tei_breaker_hold(struct tei_breaker *b, uint64_t now, uint64_t chance,
		      const struct tei_breaker_limits *limits);
/* Notes a failure, of now or of the last hold(). */
void tei_breaker_fail(struct tei_breaker *b, uint64_t now, uint64_t chance,
		      const struct tei_breaker_limits *limits);
/* The trial of a half-open one went well. False: it was not half-open. */
bool tei_breaker_good(struct tei_breaker *b);
/* The reason for its failures is known to be over. */
void tei_breaker_reset(struct tei_breaker *b);

/*
 * Tells whether it may be used or tried; a pause that is over makes it
 * half-open.
 */
static inline bool tei_breaker_lets(struct tei_breaker *b, uint64_t now)
{
	if (b->state == TEI_BREAKER_OPEN && now >= b->until)
		b->state = TEI_BREAKER_HALF;
	return b->state != TEI_BREAKER_OPEN;
}

#endif
