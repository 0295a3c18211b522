/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - kill or stop the target in mid-load, and see what it costs
 */
#include "perf/te-perf/fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#define BYSTANDER_SET  (4u << 20)
#define BYSTANDER_SIZE (64u << 10)
#define BYSTANDER_N    4
#define LINGER_MS      200 /* for bytes that come too late */

static void sleep_ms(uint64_t ms)
{
	struct timespec ts = {(time_t)(ms / 1000),
			      (long)(ms % 1000 * TEI_NS_PER_MS)};

	nanosleep(&ts, NULL);
}

/* ---- the bystander ---- */

static void *stand_by(void *arg)
{
	struct bystander *b = arg;

	b->error = load_run(&b->load, &b->series, &b->result);
	return NULL;
}

static void bystander_close(struct bystander *b)
{
	target_close(&b->target);
	memory_close(&b->local);
	tei_free(b);
}

static int open_beside(struct bystander *b, struct te_engine *engine,
		       bool foreign)
{
	struct locations anywhere;

	(void)locations_parse(&anywhere, NULL);
	return memory_open(&b->local, engine, &anywhere, foreign, BYSTANDER_SET,
			   TE_ACCESS_LOCAL);
}

static int bystander_open(struct bystander *b, const struct options *o,
			  struct te_engine *engine)
{
	int rc = target_start(&b->target, o, BYSTANDER_SET);

	if (!rc)
		rc = target_open(&b->target, engine);
	if (!rc)
		rc = open_beside(b, engine, o->foreign);
	if (rc)
		return rc;
	b->load = (struct load){
		.engine = engine,
		.segment = b->target.segment,
		.remote = b->target.side,
		.local = b->local.side,
		.size = BYSTANDER_SIZE,
		.batch = BYSTANDER_N,
		.n_threads = 1,
		.duration_ms = o->duration,
		.keep_going = true,
	};
	return tei_thread_start(&b->thread, "bystander", stand_by, b);
}

/* ---- the fault ---- */

static void *strike_target(void *arg)
{
	struct fault *f = arg;
	uint64_t half_ms = f->options->duration / 2;
	bool kill_it = !strcmp(f->options->fault, "kill");

	sleep_ms(half_ms);
	kill(f->target->process.pid, kill_it ? SIGKILL : SIGSTOP);
	atomic_store(&f->struck_ns, tei_now_ns());
	return NULL;
}

int fault_begin(struct fault *f, const struct options *o, struct target *target,
		struct te_engine *engine)
{
	int rc;

	*f = (struct fault){.target = target};
	if (!strcmp(o->fault, "none"))
		return 0;
	f->bystander = tei_calloc(1, sizeof(*f->bystander));
	if (!f->bystander)
		return -ENOMEM;
	rc = bystander_open(f->bystander, o, engine);
	if (rc)
		goto close_bystander;
	f->options = o;
	f->struck_ns = UINT64_MAX;
	rc = tei_thread_start(&f->thread, "fault", strike_target, f);
	if (!rc)
		return 0;
	f->options = NULL;
	pthread_join(f->bystander->thread, NULL);
close_bystander:
	bystander_close(f->bystander);
	return rc;
}

static uint32_t memory_checksum(const struct side *s)
{
	uint32_t crc = 0;

	for (uint32_t i = 0; i < s->n; i++)
		crc = te_crc32c(crc, (const void *)(uintptr_t)s->at[i],
				s->span);
	return crc;
}

/* Every request has ended, so nothing may touch our memory any more. */
static bool stays_quiet(struct fault *f, const struct load *l)
{
	uint32_t before = memory_checksum(&l->local);

	if (!strcmp(f->options->fault, "stop"))
		kill(f->target->process.pid, SIGCONT);
	sleep_ms(LINGER_MS);
	return memory_checksum(&l->local) == before;
}

void fault_end(struct fault *f, const struct load *l, struct row *row)
{
	struct bystander *b = f->bystander;
	uint64_t failed = 0;

	if (!f->options)
		return;
	pthread_join(f->thread, NULL);
	row->fault_quiet = stays_quiet(f, l);
	pthread_join(b->thread, NULL);
	for (size_t i = 0; i < LOAD_ERRORS; i++)
		failed += b->result.errors[i].n;
	row->bystander_requests += b->result.requests;
	row->bystander_errors += failed + (b->error != 0);
	bystander_close(b);
}
