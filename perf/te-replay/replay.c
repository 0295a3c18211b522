/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - the parent's part of a replay: processes, progress, sums
 */
#include "perf/te-replay/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/cluster.h"
#include "perf/lib/report.h"
#include "perf/lib/room.h"
#include "perf/te-replay/client.h"
#include "perf/te-replay/figures.h"
#include "perf/te-replay/share.h"

#define READY_MS 60000 /* a client joins the pool */
#define STOP_MS  30000
#define LOOK_MS  100  /* between two looks at the progress */
#define SAMPLES  1000 /* of the pool's use during a replay, about */

struct replay {
	const struct options *options;
	const struct tei_trace *trace;
	struct tei_cluster cluster; /* all zero with --master */
	const char *master;
	struct share *share;
	int share_fd;
	struct tei_process client[CLIENTS_MAX];
	unsigned int n_clients;
	struct te_store *store; /* the parent's own, for figures */
	struct te_store_pool before, after;
	struct tally sum;
	double idle_percent;
	struct tei_percentiles percentiles;
};

/* ---- start ---- */

static int start_pool(struct replay *r)
{
	const struct options *o = r->options;
	int rc;

	r->master = o->master;
	if (o->master)
		return 0;
	rc = tei_cluster_start(&r->cluster, (unsigned int)o->owners,
			       o->pool_bytes, TEI_NODE_ANY);
	r->master = r->cluster.name;
	return rc;
}

static int make_share(struct replay *r, double rate)
{
	const struct options *o = r->options;
	struct share *s;
	int rc = share_create(r->trace, &r->share, &r->share_fd);

	if (rc) {
		fprintf(stderr, "te-replay: shared memory: %s\n",
			strerror(-rc));
		return rc;
	}
	s = r->share;
	snprintf(s->master, sizeof(s->master), "%s", r->master);
	snprintf(s->host, sizeof(s->host), "%s", o->host);
	s->block_bytes = o->block_bytes;
	s->rate = rate;
	s->n_tenants = o->tenants;
	s->value_check = o->value_check;
	s->sample_every = r->trace->n_requests / SAMPLES + 1;
	return 0;
}

static int start_client(struct replay *r)
{
	char exe[PATH_MAX], role[] = "--role=client", fd[48], index[48];
	char *argv[] = {exe, role, fd, index, NULL};
	int rc = tei_process_path(NULL, exe);

	if (rc)
		return rc;
	snprintf(fd, sizeof(fd), "--share_fd=%d", r->share_fd);
	snprintf(index, sizeof(index), "--index=%u", r->n_clients);
	rc = tei_process_start_helper(&r->client[r->n_clients], "client", argv,
				      r->share_fd);
	r->n_clients += !rc;
	return rc;
}

static int await_ready(struct replay *r)
{
	char line[TEI_PROCESS_LINE];
	int rc = 0;

	for (unsigned int i = 0; !rc && i < r->n_clients; i++)
		rc = tei_process_hear(&r->client[i], line, READY_MS);
	if (rc)
		fprintf(stderr, "te-replay: a client is not ready: %s\n",
			strerror(-rc));
	return rc;
}

static int start_clients(struct replay *r)
{
	int rc = 0;

	while (!rc && r->n_clients < r->options->clients)
		rc = start_client(r);
	return rc ? rc : await_ready(r);
}

/* The parent joins last: what it starts shall not inherit from a store. */
static int join_pool(struct replay *r)
{
	int rc = tei_pool_join(r->master, r->options->host, NULL, &r->store);

	if (!rc)
		rc = tei_cluster_await(&r->cluster, r->store);
	return rc;
}

/* ---- run ---- */

static int ask_pool(struct replay *r, struct te_store_pool *out)
{
	int code = te_store_pool(r->store, out);

	if (code)
		fprintf(stderr, "te-replay: figures of the pool: %s\n",
			te_store_strerror(code));
	return code ? -EIO : 0;
}

static int begin_replay(struct replay *r)
{
	int rc = ask_pool(r, &r->before);

	if (rc)
		return rc;
	r->share->evicted_before = r->before.evicted_objects;
	r->share->start_ns = tei_now_ns();
	for (unsigned int i = 0; !rc && i < r->n_clients; i++) {
		rc = tei_process_say(&r->client[i], "go");
		if (rc)
			tei_process_tell_end(&r->client[i], "te-replay", i, rc);
	}
	return rc;
}

static void show_progress(struct replay *r, struct tei_progress *bar)
{
	tei_progress_show(
		bar,
		atomic_load_explicit(&r->share->done, memory_order_relaxed),
		r->share->n_requests);
}

/* Tells whether client @i has said that it is done: 0, -EAGAIN, or its end. */
static int hear_done(struct replay *r, unsigned int i)
{
	char line[TEI_PROCESS_LINE];
	int rc = tei_process_hear(&r->client[i], line, 0);

	if (rc == -ETIMEDOUT)
		return -EAGAIN;
	if (rc)
		tei_process_tell_end(&r->client[i], "te-replay", i, rc);
	return rc;
}

/* Every call of a client is bounded in time, so this ends. */
static int await_done(struct replay *r)
{
	bool done[CLIENTS_MAX] = {false};
	struct tei_progress bar;
	unsigned int n = 0;
	int rc = 0;

	tei_progress_begin(&bar, "replay");
	while (n < r->n_clients && (!rc || rc == -EAGAIN)) {
		for (unsigned int i = 0; i < r->n_clients; i++) {
			rc = done[i] ? -EAGAIN : hear_done(r, i);
			if (rc && rc != -EAGAIN)
				break;
			done[i] |= !rc;
			n += !rc;
		}
		show_progress(r, &bar);
		if (n < r->n_clients)
			poll(NULL, 0, LOOK_MS);
	}
	tei_progress_end(&bar);
	return n == r->n_clients ? 0 : rc;
}

/* ---- afterwards ---- */

static void cpu_of_all(const struct replay *r, uint64_t *out)
{
	const struct tei_cluster *c = &r->cluster;
	size_t n = 0;

	out[n++] = tei_process_cpu_ns(&c->master);
	for (unsigned int i = 0; i < c->n_owners; i++)
		out[n++] = tei_process_cpu_ns(&c->owner[i]);
	for (unsigned int i = 0; i < r->n_clients; i++)
		out[n++] = tei_process_cpu_ns(&r->client[i]);
}

/* CPU share of the busiest process while nothing is asked for. */
static void measure_idle(struct replay *r)
{
	uint64_t before[1 + TEI_CLUSTER_OWNERS_MAX + CLIENTS_MAX] = {0};
	uint64_t after[1 + TEI_CLUSTER_OWNERS_MAX + CLIENTS_MAX] = {0};
	uint64_t start, most = 0;

	r->idle_percent = -1;
	if (!r->options->idle)
		return;
	cpu_of_all(r, before);
	start = tei_now_ns();
	poll(NULL, 0, (int)r->options->idle);
	cpu_of_all(r, after);
	for (size_t i = 0; i < sizeof(after) / sizeof(*after); i++)
		if (after[i] > before[i] && after[i] - before[i] > most)
			most = after[i] - before[i];
	r->idle_percent = 100 * (double)most / (double)(tei_now_ns() - start);
}

static void add_tally(struct tally *sum, const struct tally *t)
{
	sum->requests += t->requests;
	sum->blocks += t->blocks;
	sum->got += t->got;
	sum->lost += t->lost;
	sum->tokens += t->tokens;
	sum->got_tokens += t->got_tokens;
	sum->no_room += t->no_room;
	sum->put_retries += t->put_retries;
	sum->put += t->put;
	sum->put_failed += t->put_failed;
	sum->errors += t->errors;
	sum->wrong_bytes += t->wrong_bytes;
	sum->lookup_ns += t->lookup_ns;
	sum->get_ns += t->get_ns;
	sum->put_ns += t->put_ns;
	sum->n_samples += t->n_samples;
	sum->sampled_used += t->sampled_used;
	if (t->last_error)
		sum->last_error = t->last_error;
	if (t->end_ns > sum->end_ns)
		sum->end_ns = t->end_ns;
	tei_histogram_merge(&sum->lookup, &t->lookup);
	tei_histogram_merge(&sum->get, &t->get);
	tei_histogram_merge(&sum->put_time, &t->put_time);
	tei_histogram_merge(&sum->request, &t->request);
}

static int report_replay(struct replay *r, const char *trace_path)
{
	struct figures f = {
		.sum = &r->sum,
		.each = r->share->tally,
		.seconds = (double)(r->sum.end_ns - r->share->start_ns) / 1e9,
		.block_bytes = r->options->block_bytes,
		.n_clients = r->n_clients,
		.n_tenants = r->options->tenants,
		.pool = r->after,
		.evicted_objects =
			r->after.evicted_objects - r->before.evicted_objects,
		.evicted_bytes =
			r->after.evicted_bytes - r->before.evicted_bytes,
		.master_rss = tei_process_rss(&r->cluster.master),
		.idle_percent = r->idle_percent,
	};
	int rc = figures_derive(&f, r->trace);

	figures_percentiles(&f, &r->percentiles);
	return rc ? rc : figures_report(&f, r->options, trace_path);
}

/* Tells whether the replay proves anything: right bytes, and any at all. */
static int check_result(const struct replay *r)
{
	const struct tally *t = &r->sum;

	if (t->errors)
		fprintf(stderr, "te-replay: %" PRIu64 " errors, the last: %s\n",
			t->errors, te_store_strerror(t->last_error));
	if (t->wrong_bytes)
		fprintf(stderr, "te-replay: %" PRIu64 " wrong bytes\n",
			t->wrong_bytes);
	if (t->blocks && !t->put && !t->got)
		fprintf(stderr, "te-replay: no block was put or got\n");
	return t->wrong_bytes || (t->blocks && !t->put && !t->got) ? -EIO : 0;
}

static int measure_replay(struct replay *r, const char *trace_path)
{
	int rc = begin_replay(r);

	if (!rc)
		rc = await_done(r);
	if (!rc)
		rc = ask_pool(r, &r->after);
	if (rc)
		return rc;
	for (unsigned int i = 0; i < r->n_clients; i++)
		add_tally(&r->sum, &r->share->tally[i]);
	measure_idle(r);
	rc = report_replay(r, trace_path);
	return check_result(r) ? -EIO : rc;
}

/* Ends all. -EIO: a process did not end well, so its figures prove nothing. */
static int stop_all(struct replay *r, bool early)
{
	int bad = 0;

	for (unsigned int i = 0; early && i < r->n_clients; i++)
		(void)tei_process_terminate(&r->client[i], STOP_MS);
	while (r->n_clients)
		bad |= tei_process_stop(&r->client[--r->n_clients], STOP_MS);
	te_store_close(r->store);
	bad |= tei_cluster_stop(&r->cluster);
	if (r->share_fd >= 0)
		close(r->share_fd);
	share_close(r->share);
	return bad ? -EIO : 0;
}

/* Tells whether this host has the memory for clients, pool and all objects. */
static bool memory_fits(const struct options *o, const struct tei_trace *t)
{
	uint64_t pool = o->master ? 0 : o->pool_bytes, need = pool;
	uint64_t objects = pool / tei_pool_extent_bytes(o->block_bytes);
	uint64_t buffer = o->block_bytes < CLIENT_BUFFER_BYTES
				  ? CLIENT_BUFFER_BYTES
				  : o->block_bytes;

	if (objects > t->n_ids * o->tenants)
		objects = t->n_ids * o->tenants;
	need += objects * TEI_ROOM_OBJECT_BYTES + o->clients * buffer;
	return tei_room_fits("te-replay", "pool and clients take", need,
			     "give a smaller --pool-bytes or --block-bytes, or "
			     "fewer --clients");
}

int replay_run(const struct options *o, const struct tei_trace *t,
	       const char *trace_path, double rate)
{
	struct replay *r;
	int rc;

	if (!memory_fits(o, t))
		return 2;
	r = tei_calloc(1, sizeof(*r));
	if (!r) {
		fprintf(stderr, "te-replay: no memory\n");
		return 1;
	}
	r->options = o;
	r->trace = t;
	r->share_fd = -1;
	if (tei_percentiles_open(&r->percentiles, "te-replay", o->histogram)) {
		tei_free(r);
		return 2;
	}
	rc = start_pool(r);
	if (!rc)
		rc = make_share(r, rate);
	if (!rc)
		rc = start_clients(r);
	if (!rc)
		rc = join_pool(r);
	if (!rc)
		rc = measure_replay(r, trace_path);
	if (stop_all(r, rc != 0))
		rc = -EIO;
	if (tei_percentiles_close(&r->percentiles))
		rc = -EIO;
	tei_free(r);
	return rc ? 1 : 0;
}
