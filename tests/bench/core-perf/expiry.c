/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expiry.c - how long the steps are while an owner's objects go
 */
#include <errno.h>

#include "tests/bench/core-perf/driver.h"
#include "tests/bench/core-perf/parts.h"

#define TICK_MS 100

static void beat(struct driver *d, tes_session_id s)
{
	struct tes_event ev = {.type = TES_EVENT_HEARTBEAT, .session = s};

	driver_step(d, &ev);
}

static void tick(struct driver *d)
{
	struct tes_event ev = {.type = TES_EVENT_TICK};

	driver_step(d, &ev);
}

/* The owner is silent; ticks and others' calls until nothing is left of it. */
static size_t let_expire(struct driver *d, struct batch *b)
{
	size_t steps = 0;

	while (driver_figures(d).segments || tes_core_busy(d->core)) {
		if (!tes_core_busy(d->core))
			d->now_ms += TICK_MS;
		beat(d, WRITER);
		tick(d);
		driver_ask(d, b, TES_EVENT_EXIST);
		steps++;
	}
	return steps;
}

int measure_expiry(const struct options *o, struct figures *f)
{
	static struct batch b;
	struct driver d;
	size_t steps;

	if (driver_init(&d, (o->expire + BATCH) * driver_room(o->value_size)))
		return -ENOMEM;
	driver_fill(&d, 0, o->expire, o->value_size, "fill");
	for (size_t i = 0; i < BATCH; i++)
		batch_name(&b, i, i);
	d.worst_ns = 0;
	steps = let_expire(&d, &b);
	figures_add(f, "ms", (double)d.worst_ns / 1e6,
		    "longest step, owner of %ju expires", (uintmax_t)o->expire)
		->most = 5;
	figures_add(f, "ticks", (double)steps, "until it is gone");
	driver_fini(&d);
	return 0;
}
