/* SPDX-License-Identifier: Apache-2.0 */
/* meter.c - rate and delay of a rail towards a peer */
#include "te/meter.h"

#include "base/clock.h"

#define SAMPLE     TEI_NS_PER_MS       /* at least, while it is busy */
#define SAMPLE_MIN ((uint64_t)1 << 16) /* bytes; fewer say nothing */
#define MEMORY     (4 * TEI_NS_PER_MS) /* of the average, while busy */
#define FORGET     (8 * TEI_NS_PER_S)  /* of disuse: nothing is known */
#define DELAY_MAX  (100 * TEI_NS_PER_MS)

void tei_meter_start(struct tei_meter *m, uint64_t now)
{
	m->since = now;
	m->bytes = 0;
	m->cold = m->delay;
}

/* The new value weighs by its share of the time that is remembered. */
static uint64_t mix(uint64_t old, uint64_t seen, uint64_t elapsed)
{
	double weight = (double)elapsed / (double)(elapsed + MEMORY);

	if (!old)
		return seen;
	return (uint64_t)((double)old + ((double)seen - (double)old) * weight);
}

static void take_sample(struct tei_meter *m, uint64_t elapsed)
{
	double rate;

	/* The first slice's delay is no part of the rate. */
	elapsed -= m->cold < elapsed / 2 ? m->cold : elapsed / 2;
	rate = (double)m->bytes * (double)TEI_NS_PER_S / (double)elapsed;
	m->rate = mix(m->rate, rate < 1 ? 1 : (uint64_t)rate, elapsed);
}

void tei_meter_done(struct tei_meter *m, uint64_t now, uint64_t bytes,
		    uint64_t in_flight)
{
	uint64_t elapsed = now - m->since;

	m->bytes += bytes;
	m->used_at = now;
	if (elapsed < SAMPLE && in_flight)
		return;
	if (elapsed && (m->bytes >= SAMPLE_MIN || in_flight))
		take_sample(m, elapsed);
	m->since = now;
	m->bytes = 0;
	m->cold = 0;
}

void tei_meter_alone(struct tei_meter *m, uint64_t now, uint64_t posted,
		     uint64_t bytes)
{
	uint64_t took = now - posted, moving = 0;

	if (m->rate)
		moving = (uint64_t)((double)bytes * (double)TEI_NS_PER_S /
				    (double)m->rate);
	else if (bytes > SAMPLE_MIN)
		return; /* which part of it was delay? */
	took = took > moving ? took - moving : 0;
	if (took > DELAY_MAX)
		took = DELAY_MAX;
	if (!m->delay)
		m->delay = took;
	else
		m->delay += took / 8 - m->delay / 8;
	if (m->since == posted)
		m->cold = m->delay;
}

void tei_meter_stalled(struct tei_meter *m)
{
	m->rate = m->rate > 4 ? m->rate / 4 : 1;
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
