/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.c - what many peers cost a target: idle, and connecting at once
 *
 * All peers are engines of this process, a thread each while they connect, so
 * that the target sees them at the same time. The target is what is measured;
 * our own CPU time is that of as many engines with one peer each.
 */
#include "perf/te-perf/peers.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "perf/lib/histogram.h"
#include "perf/lib/process.h"
#include "perf/lib/report.h"
#include "perf/te-perf/target.h"

#define SET_LEN   (1u << 20) /* of the target */
#define SETTLE_MS 1000       /* after the last connect, before looking */
#define OPEN_MS   30000

struct crowd;

struct peer {
	struct crowd *crowd;
	pthread_t thread;
	struct te_engine *engine;
	struct te_batch *batch;
	uint64_t word; /* what it writes */
	uint64_t done_ns;
	int error;
};

struct crowd {
	const struct options *options;
	struct target target;
	struct te_engine *engine; /* ours, through which the target is ready */
	pthread_barrier_t start;
	uint64_t start_ns;
	uint32_t n;
	struct peer *peers;
};

struct cost {
	double target_share, own_share; /* of a core, the latter per engine */
	double bytes_per_peer;
};

/* ---- one peer ---- */

static int write_word(struct peer *p, te_segment_id segment)
{
	struct iovec piece = {&p->word, sizeof(p->word)};
	struct te_request r = {
		.op = TE_WRITE,
		.segment = segment,
		.remote = p->crowd->target.side.at[0],
		.pieces = &piece,
		.n_pieces = 1,
	};

	return batch_run(p->batch, &r, 1);
}

static void *connect_peer(void *arg)
{
	struct peer *p = arg;
	te_segment_id segment;

	pthread_barrier_wait(&p->crowd->start);
	p->error = te_segment_open(p->engine, p->crowd->target.name, OPEN_MS,
				   &segment);
	if (!p->error)
		p->error = write_word(p, segment);
	p->done_ns = tei_now_ns();
	return NULL;
}

static int open_peer(struct peer *p, struct crowd *c)
{
	int rc;

	p->crowd = c;
	rc = engine_open(c->options, c->target.host, &p->engine);
	if (rc)
		return rc;
	rc = te_batch_create(p->engine, 1, &p->batch);
	if (rc)
		te_engine_destroy(p->engine);
	return rc;
}

static void close_peers(struct crowd *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		te_batch_destroy(c->peers[i].batch);
		te_engine_destroy(c->peers[i].engine);
	}
	tei_free(c->peers);
	c->peers = NULL;
	c->n = 0;
}

static int open_peers(struct crowd *c, uint32_t n)
{
	int rc = 0;

	c->peers = tei_calloc(n, sizeof(*c->peers));
	if (!c->peers)
		return -ENOMEM;
	while (!rc && c->n < n) {
		rc = open_peer(&c->peers[c->n], c);
		c->n += !rc;
	}
	if (rc)
		fprintf(stderr, "te-perf: engine %u of %u: %s\n", c->n + 1, n,
			te_strerror(rc));
	return rc;
}

/* All at once. -errno: a thread could not be started, or memory. */
static int connect_peers(struct crowd *c)
{
	uint32_t started = 0;
	int rc = pthread_barrier_init(&c->start, NULL, c->n + 1) ? -ENOMEM : 0;

	if (rc)
		return rc;
	while (!rc && started < c->n) {
		rc = tei_thread_start(&c->peers[started].thread, "peer",
				      connect_peer, &c->peers[started]);
		started += !rc;
	}
	/* Without all of them the barrier would hold the others forever. */
	if (rc) {
		fprintf(stderr, "te-perf: thread %u: %s\n", started,
			te_strerror(rc));
		exit(1);
	}
	c->start_ns = tei_now_ns();
	pthread_barrier_wait(&c->start);
	for (uint32_t i = 0; i < c->n; i++)
		pthread_join(c->peers[i].thread, NULL);
	pthread_barrier_destroy(&c->start);
	return 0;
}

static uint32_t count_failed(const struct crowd *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		n += c->peers[i].error != 0;
	return n;
}

/* ---- idle ---- */

static void sleep_ms(uint64_t ms)
{
	struct timespec ts = {(time_t)(ms / 1000),
			      (long)(ms % 1000 * TEI_NS_PER_MS)};

	nanosleep(&ts, NULL);
}

static int watch_idle(struct crowd *c, struct cost *cost)
{
	uint64_t before, after, rss, own, start;
	double ns;
	int rc;

	sleep_ms(SETTLE_MS);
	start = tei_now_ns();
	own = tei_process_own_cpu_ns();
	rc = target_usage(&c->target, &before, &rss);
	sleep_ms(c->options->duration);
	if (!rc)
		rc = target_usage(&c->target, &after, &rss);
	if (rc)
		return rc;
	ns = (double)(tei_now_ns() - start);
	own = tei_process_own_cpu_ns() - own;
	cost->target_share = (double)(after - before) / ns;
	cost->own_share = (double)own / ns / c->n;
	return 0;
}

static int measure_idle(struct crowd *c, struct cost *cost)
{
	uint64_t cpu, before, after;
	int rc = open_peers(c, (uint32_t)c->options->peers);

	/* The target has its first peer already: us. */
	if (!rc)
		rc = target_usage(&c->target, &cpu, &before);
	if (!rc)
		rc = connect_peers(c);
	if (!rc)
		rc = target_usage(&c->target, &cpu, &after);
	if (rc)
		return rc;
	cost->bytes_per_peer = ((double)after - (double)before) / (double)c->n;
	return watch_idle(c, cost);
}

static int report_idle(const struct crowd *c, const struct cost *cost)
{
	uint32_t failed = count_failed(c);

	if (c->options->json)
		return tei_report_json(
			"te-perf",
			json_pack("{s:I, s:I, s:f, s:f, s:f, s:o}", "peers",
				  (json_int_t)c->n, "failed",
				  (json_int_t)failed, "target_cpu_share",
				  cost->target_share, "initiator_cpu_share",
				  cost->own_share, "target_bytes_per_peer",
				  cost->bytes_per_peer, "machine",
				  tei_machine_json()));
	printf("%u peers connected, %u failed\n"
	       "idle target with all of them: %.3f %% of a core, %.1f KiB a "
	       "peer\n"
	       "idle initiator with one peer: %.4f %% of a core\n",
	       c->n, failed, 100 * cost->target_share,
	       cost->bytes_per_peer / 1024, 100 * cost->own_share);
	return 0;
}

/* ---- connects ---- */

static int report_connects(const struct crowd *c)
{
	struct tei_histogram *h = tei_calloc(1, sizeof(*h));
	uint32_t failed = count_failed(c);
	int rc;

	if (!h)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++)
		tei_histogram_add(h, c->peers[i].done_ns - c->start_ns);
	if (c->options->json) {
		rc = tei_report_json(
			"te-perf",
			json_pack("{s:I, s:I, s:f, s:f, s:f, s:o}", "connects",
				  (json_int_t)c->n, "failed",
				  (json_int_t)failed, "all_served_ms",
				  (double)h->max / 1e6, "p50_ms",
				  tei_histogram_us(h, 0.5) / 1e3, "p99_ms",
				  tei_histogram_us(h, 0.99) / 1e3, "machine",
				  tei_machine_json()));
	} else {
		printf("%u engines connected at once and wrote once each: all "
		       "served after %.0f ms (p50 %.0f ms, p99 %.0f ms), %u "
		       "failed\n",
		       c->n, (double)h->max / 1e6,
		       tei_histogram_us(h, 0.5) / 1e3,
		       tei_histogram_us(h, 0.99) / 1e3, failed);
		rc = 0;
	}
	tei_free(h);
	return rc;
}

static int measure_connects(struct crowd *c)
{
	int rc = open_peers(c, (uint32_t)c->options->connects);

	return rc ? rc : connect_peers(c);
}

/* ---- both ---- */

static int measure_peers(struct crowd *c)
{
	struct cost cost = {0};
	int rc;

	if (c->options->idle) {
		rc = measure_idle(c, &cost);
		if (!rc)
			rc = report_idle(c, &cost);
	} else {
		rc = measure_connects(c);
		if (!rc)
			rc = report_connects(c);
	}
	if (!rc && count_failed(c))
		rc = -EIO;
	return rc;
}

int peers_main(const struct options *o)
{
	struct crowd c = {.options = o};
	int rc;

	tei_process_many_files();
	rc = target_start(&c.target, o, SET_LEN);
	if (rc)
		return rc == -EINVAL ? 2 : 1;
	rc = engine_open(o, c.target.host, &c.engine);
	if (!rc)
		rc = target_open(&c.target, c.engine);
	if (!rc)
		rc = measure_peers(&c);
	close_peers(&c);
	if (target_close(&c.target) && !rc)
		rc = -EIO;
	te_engine_destroy(c.engine);
	return rc ? 1 : 0;
}
