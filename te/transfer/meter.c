/* SPDX-License-Identifier: Apache-2.0 */
/* meter.c - rate and delay of a rail towards a peer */
#include "te/transfer/meter.h"

#include "base/clock.h"

#define SAMPLE     TEI_NS_PER_MS       /* at least, while it is busy */
#define SAMPLE_MIN ((uint64_t)1 << 16) /* bytes; fewer say nothing */
#define MEMORY     (2 * TEI_NS_PER_MS) /* of the average, while busy */
#define FORGET     (8 * TEI_NS_PER_S)  /* of disuse: nothing is known */
#define DELAY_MAX  (100 * TEI_NS_PER_MS)

void tei_meter_start(struct tei_meter *m)
{
	m->running = false;
	m->busy_since = m->busy_bytes = 0;
}

static uint64_t time_of(uint64_t bytes, uint64_t rate)
{
	return (uint64_t)((double)bytes * (double)TEI_NS_PER_S / (double)rate);
}

/* The new value weighs by its share of the time that is remembered. */
static void mix(struct tei_meter *m, uint64_t bytes, uint64_t elapsed,
		bool guess)
{
	double seen =
		(double)bytes * (double)TEI_NS_PER_S / (double)elapsed + 1;
	double weight = (double)elapsed / (double)(elapsed + MEMORY);
	double old = (double)m->rate;

	if (!m->rate || (m->guess && !guess))
		weight = 1;
	m->rate = (uint64_t)(old + (seen - old) * weight);
	m->guess = guess;
	if (!guess && m->rate > m->peak)
		m->peak = m->rate;
}

/* ---- delay ---- */

static void tell_delay(struct tei_meter *m)
{
	uint64_t moving = time_of(m->lone_bytes, m->rate);
	uint64_t delay = m->lone_took > moving ? m->lone_took - moving : 0;

	m->lone_took = 0;
	if (delay > DELAY_MAX)
		delay = DELAY_MAX;
	if (!m->delay)
		m->delay = delay;
	else
		m->delay += delay / 8 - m->delay / 8;
}

void tei_meter_lone(struct tei_meter *m, uint64_t now, uint64_t posted,
		    uint64_t bytes)
{
	m->lone_took = now - posted;
	m->lone_bytes = bytes;
	m->busy_since = posted;
	if (!m->lone_took)
		return;
	if (m->rate && !m->guess)
		tell_delay(m);
	else if (bytes >= SAMPLE_MIN)
		mix(m, bytes, m->lone_took, true);
}

/* ---- rate ---- */

static void take_sample(struct tei_meter *m)
{
	if (m->bytes < SAMPLE_MIN || m->last == m->since)
		return;
	m->busy_since = 0;
	mix(m, m->bytes, m->last - m->since, false);
	if (m->lone_took)
		tell_delay(m);
}

/*
 * What was done all at one instant gives no sample, but it shows how fast the
 * rail is at least. Without it a rate once taken too low would stay: a rail
 * that is thought slow gets little, and has done it all at once.
 */
static void raise_rate(struct tei_meter *m)
{
	double least = (double)m->busy_bytes * (double)TEI_NS_PER_S /
		       (double)(m->last - m->busy_since);

	if (least > (double)m->rate)
		m->rate = (uint64_t)least;
}

static void begin_sample(struct tei_meter *m, uint64_t at)
{
	m->since = m->last = at;
	m->bytes = 0;
}

void tei_meter_settle(struct tei_meter *m)
{
	if (!m->running || m->last - m->since < SAMPLE)
		return;
	take_sample(m);
	begin_sample(m, m->last);
}

/*
 * What is done at one instant was moved before it: it belongs to the sample
 * that ends there, so that one is closed only when a later slice is done.
 */
void tei_meter_done(struct tei_meter *m, uint64_t now, uint64_t bytes,
		    bool busy)
{
	m->used_at = now;
	m->busy_bytes += bytes;
	if (!m->running) {
		begin_sample(m, now);
		m->running = busy;
		return;
	}
	if (now > m->last)
		tei_meter_settle(m);
	if (now > m->since)
		m->bytes += bytes;
	m->last = now;
	if (busy)
		return;
	take_sample(m);
	if (m->busy_since)
		raise_rate(m);
	m->running = false;
}

void tei_meter_stalled(struct tei_meter *m)
{
	m->rate = m->rate > 4 ? m->rate / 4 : 1;
	m->running = false;
}

uint64_t tei_meter_rate(const struct tei_meter *m, uint64_t now, uint64_t prior)
{
	uint64_t idle = now - m->used_at;
	double part;

	if (!m->rate || idle >= FORGET)
		return prior;
	if (!prior || idle < TEI_NS_PER_S)
		return m->rate;
	part = (double)idle / (double)FORGET;
	return (uint64_t)((double)m->rate +
			  ((double)prior - (double)m->rate) * part);
}
