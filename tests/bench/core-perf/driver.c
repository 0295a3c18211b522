/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.c - a core with simulated clients
 */
#include "tests/bench/core-perf/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/chance.h"
#include "perf/lib/report.h"

#define EPOCH 1

static const struct tes_core_config config = {
	.epoch = EPOCH,
	.hash_seed = 1,
	.lease_ttl_ms = 5000,
	.client_ttl_ms = 10000,
	.suspect_ms = 3000,
	.put_discard_ms = 30000,
	.fence_timeout_ms = 2000,
	.high_watermark = 1,
	.eviction_ratio = 0.05,
	.seed = 1,
};

void batch_name(struct batch *b, size_t at, uint64_t i)
{
	static const char digits[] = "0123456789abcdef";
	char *text = b->text[at];
	uint64_t x = tei_chance_mix(i + 1);

	memcpy(text, "a-model-of-language@tensor-rank-0@layers-0-61@key", 48);
	for (size_t d = 0; d < 16; d++, x >>= 4)
		text[48 + d] = digits[x & 15];
	b->key[at] = (struct tes_core_key){.bytes = text, .len = KEY};
}

uint64_t driver_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "te-core-perf: %s\n", what);
	exit(1);
}

const struct tes_action *driver_step(struct driver *d, struct tes_event *ev)
{
	uint64_t start, ns;

	tei_arena_reset(&d->arena);
	d->out = (struct tes_actions){.arena = &d->arena};
	start = driver_cpu_ns();
	if (tes_core_step(d->core, ev, d->now_ms, &d->out) < 0)
		fail("out of memory");
	ns = driver_cpu_ns() - start;
	d->busy_ns += ns;
	if (ns > d->worst_ns)
		d->worst_ns = ns;
	if (!d->out.n || d->out.at[0].type != TES_ACTION_REPLY)
		return NULL;
	if (d->out.at[0].u.reply.code)
		fail("the core has refused a call");
	return &d->out.at[0];
}

static void join(struct driver *d, tes_session_id s, const char *engine)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = s};
	struct tes_event beat = {.type = TES_EVENT_HEARTBEAT, .session = s};

	memset(id, (int)s, sizeof(id));
	ev.u.join.client_id = id;
	ev.u.join.incarnation = id;
	ev.u.join.engine = engine;
	driver_step(d, &ev);
	driver_step(d, &beat);
}

static void mount(struct driver *d, uint64_t bytes)
{
	uint8_t id[TES_CORE_ID_LEN] = {1};
	struct tes_event ev = {.type = TES_EVENT_MOUNT, .session = OWNER};

	ev.u.mount.segment = id;
	ev.u.mount.name = "segment";
	ev.u.mount.base = 1u << 20;
	ev.u.mount.size = bytes;
	driver_step(d, &ev);
}

int driver_init(struct driver *d, uint64_t bytes)
{
	*d = (struct driver){.now_ms = 1000};
	tei_arena_init(&d->arena, (size_t)64 << 20);
	if (tes_core_create(&config, &d->core) < 0) {
		fprintf(stderr, "te-core-perf: out of memory\n");
		tei_arena_fini(&d->arena);
		return -ENOMEM;
	}
	join(d, OWNER, "owner:1");
	join(d, WRITER, "writer:1");
	mount(d, bytes);
	return 0;
}

void driver_fini(struct driver *d)
{
	tes_core_destroy(d->core);
	tei_arena_fini(&d->arena);
}

static bool start(struct driver *d, struct batch *b, uint64_t size)
{
	uint64_t sizes[BATCH];
	struct tes_event ev = {.type = TES_EVENT_PUT_START,
			       .session = WRITER,
			       .n = BATCH,
			       .keys = b->key};
	const struct tes_action *a;

	for (size_t i = 0; i < BATCH; i++)
		sizes[i] = size;
	ev.u.put_start.sizes = sizes;
	a = driver_step(d, &ev);
	memcpy(b->generation, a->u.reply.generation, sizeof(b->generation));
	return a->u.reply.n_entries == BATCH;
}

static size_t count(const struct tes_action *a, int32_t status)
{
	size_t n = 0;

	for (size_t i = 0; i < BATCH; i++)
		n += a->u.reply.status[i] == status;
	return n;
}

size_t driver_put(struct driver *d, struct batch *b, uint64_t size)
{
	uint32_t crc[BATCH] = {0}, written[BATCH];
	struct tes_event ev = {.type = TES_EVENT_PUT_END,
			       .session = WRITER,
			       .n = BATCH,
			       .keys = b->key};

	if (!start(d, b, size))
		return 0;
	for (size_t i = 0; i < BATCH; i++)
		written[i] = 1;
	ev.u.put_end.generations = b->generation;
	ev.u.put_end.crcs = crc;
	ev.u.put_end.written = written;
	ev.u.put_end.epoch = EPOCH;
	return count(driver_step(d, &ev), 0);
}

size_t driver_ask(struct driver *d, struct batch *b, enum tes_event_type type)
{
	struct tes_event ev = {
		.type = type, .session = WRITER, .n = BATCH, .keys = b->key};
	const struct tes_action *a;

	if (type == TES_EVENT_RELEASE)
		ev.u.release.generations = b->generation;
	a = driver_step(d, &ev);
	if (!a)
		return 0;
	if (type == TES_EVENT_LOOKUP)
		memcpy(b->generation, a->u.reply.generation,
		       sizeof(b->generation));
	return count(a, type == TES_EVENT_EXIST);
}

size_t driver_fill(struct driver *d, uint64_t from, uint64_t to, uint64_t size,
		   const char *what)
{
	static struct batch b;
	struct tei_progress bar;
	size_t n = 0;

	tei_progress_begin(&bar, what);
	for (uint64_t i = from; i < to; i += BATCH) {
		for (size_t k = 0; k < BATCH; k++)
			batch_name(&b, k, i + k);
		n += driver_put(d, &b, size);
		if (i / BATCH % 64 == 0)
			tei_progress_show(&bar, i - from, to - from);
	}
	tei_progress_end(&bar);
	return n;
}

uint64_t driver_room(uint64_t size)
{
	return (size + TES_CORE_HEADER_LEN + 63) / 64 * 64;
}

struct tes_core_figures driver_figures(const struct driver *d)
{
	struct tes_core_figures f;

	tes_core_figures(d->core, &f);
	return f;
}
