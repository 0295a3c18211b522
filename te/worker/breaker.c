/* SPDX-License-Identifier: Apache-2.0 */
/* breaker.c - pauses after failures */
#include "te/worker/breaker.h"

#define ONE       16u   /* failure */
#define SCORE_MAX 1024u /* 64 failures: every pause is at its longest by then */

static uint32_t remembered(const struct tei_breaker *b, uint64_t now,
			   uint64_t half_life)
{
	uint64_t halves = (now - b->failed_at) / half_life;

	return halves > 31 ? 0 : b->score >> halves;
}

/*
 * Returns the pause after @score: the shortest for one failure, twice that for
 * two ...
 */
static uint64_t pause_of(uint32_t score, uint64_t chance,
			 const struct tei_breaker_limits *limits)
{
	uint32_t times = score > ONE ? (score + ONE / 2) / ONE - 1 : 0;
	uint64_t pause = limits->pause_min;

	while (times-- && pause < limits->pause_max)
		pause *= 2;
	if (pause > limits->pause_max)
		pause = limits->pause_max;
	return pause - pause / 4 + chance % (pause / 2 + 1);
}

static void open_until(struct tei_breaker *b, uint64_t until)
{
	if (b->state != TEI_BREAKER_OPEN || until > b->until)
		b->until = until;
	b->state = TEI_BREAKER_OPEN;
}

void tei_breaker_hold(struct tei_breaker *b, uint64_t now, uint64_t chance,
		      const struct tei_breaker_limits *limits)
{
	uint32_t score = remembered(b, now, limits->half_life);

	open_until(b, now + pause_of(score, chance, limits));
}

void tei_breaker_fail(struct tei_breaker *b, uint64_t now, uint64_t chance,
		      const struct tei_breaker_limits *limits)
{
	uint32_t score = remembered(b, now, limits->half_life) + ONE;

	b->score = score < SCORE_MAX ? score : SCORE_MAX;
	b->failed_at = now;
	open_until(b, now + pause_of(b->score, chance, limits));
}

bool tei_breaker_good(struct tei_breaker *b)
{
	if (b->state != TEI_BREAKER_HALF)
		return false;
	b->state = TEI_BREAKER_CLOSED;
	return true;
}

void tei_breaker_reset(struct tei_breaker *b)
{
	*b = (struct tei_breaker){0};
}
