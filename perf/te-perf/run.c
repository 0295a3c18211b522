/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - the initiator: measure all rows in rounds
 *
 * A row is a direction, size, batch and number of threads. A round measures
 * each row once and, right after it, the bare system with the same work, so
 * that a change of the machine's speed shows in both.
 */
#include "perf/te-perf/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/report.h"
#include "perf/te-perf/bound.h"
#include "perf/te-perf/fault.h"
#include "perf/te-perf/results.h"
#include "perf/te-perf/target.h"
#include "perf/te-perf/verify.h"

struct run {
	const struct options *options;
	struct te_engine *engine;
	struct target target;
	struct bound bound;
	struct series series;
	struct tei_progress progress;
	struct memory local;
	uint64_t seed; /* of the last load's bytes */
	struct results results;
	bool misused; /* a setting is wrong that only the engine can judge */
};

/* ---- one load ---- */

static struct load load_of(const struct run *run, const struct row *row)
{
	const struct options *o = run->options;

	return (struct load){
		.engine = run->engine,
		.segment = run->target.segment,
		.remote = run->target.side,
		.local = run->local.side,
		.size = row->size,
		.batch = row->batch,
		.n_threads = row->threads,
		.read_share = row->read_share,
		.timeout_ms = (uint32_t)o->timeout,
		.duration_ms = o->duration,
		.rate = o->rate,
		.pause_ns = o->pause * 1000000,
		.hot = o->hot,
		.random = o->random,
		.notify = !strcmp(o->op, "notify"),
		.unaligned = o->unaligned,
		.stamp = o->verify >= 100 && !memory_has_gpu(&run->local),
		.keep_going = o->keep_going || strcmp(o->fault, "none") != 0,
		.probe = o->priority_probe,
	};
}

static void add_rails(struct row *row, const struct rails *before,
		      const struct rails *after)
{
	struct rails moved;

	rails_since(before, after, &moved);
	rails_add(&row->rails, &moved);
	snprintf(row->carrier, sizeof(row->carrier), "%s",
		 rails_carrier(&row->rails));
}

/* CPU time of both processes. */
static int cpu_of_both(struct run *run, uint64_t *out)
{
	uint64_t rss;
	int rc = target_usage(&run->target, out, &rss);

	*out += tei_process_own_cpu_ns();
	return rc;
}

static int load_with_cpu(struct run *run, const struct load *l,
			 struct load_result *result, uint64_t *cpu_ns)
{
	uint64_t before, after;
	int rc;

	*cpu_ns = 0;
	/* A target that is killed, be it before we begin, has no answer. */
	if (strcmp(run->options->fault, "none") != 0)
		return load_run(l, &run->series, result);
	rc = cpu_of_both(run, &before);
	if (!rc)
		rc = load_run(l, &run->series, result);
	if (!rc)
		rc = cpu_of_both(run, &after);
	if (!rc)
		*cpu_ns = after - before;
	return rc;
}

static int compare_bytes(struct run *run, struct row *row, const struct load *l,
			 const struct load_result *result)
{
	const struct options *o = run->options;
	int rc;

	if (o->verify <= 0 || row_failed(row) || l->notify)
		return 0;
	/* For tests: the first slot is always compared. */
	rc = o->spoil ? memory_spoil(&run->local) : 0;
	if (rc)
		return rc;
	return verify_check(l, &run->local, result, run->seed, o->verify,
			    &row->checked_bytes, &row->wrong_bytes);
}

static int measure_round(struct run *run, struct row *row, double v[N_FIGURES],
			 struct load_result *result)
{
	struct load l = load_of(run, row);
	struct rails before, after;
	struct fault fault;
	uint64_t cpu_ns;
	int rc;

	run->series.progress = &run->progress;
	rc = verify_prepare(&l, &run->local, ++run->seed);
	if (rc)
		return rc;
	rails_read(run->engine, &before);
	rc = fault_begin(&fault, run->options, &run->target, run->engine);
	if (rc)
		return rc;
	if (fault.options) /* else there is no event */
		l.event_ns = &fault.struck_ns;
	l.after_event_ns = run->options->duration * TEI_NS_PER_MS / 2;
	rc = load_with_cpu(run, &l, result, &cpu_ns);
	fault_end(&fault, &l, row);
	if (rc)
		return rc;
	rails_read(run->engine, &after);
	row_figures(row, result, cpu_ns, v);
	add_rails(row, &before, &after);
	rc = row_add(row, run->options, result);
	if (rc)
		return rc;
	return compare_bytes(run, row, &l, result);
}

/* ---- rows and rounds ---- */

static void say_failed(const struct row *row, int rc)
{
	char text[24];

	fprintf(stderr, "te-perf: %s of %s: %s\n", row->op,
		tei_text_bytes(row->size, text), te_strerror(rc));
}

/* The points of the last round are the row's. */
static int keep_points(struct run *run, struct row *row)
{
	size_t len = run->series.n * sizeof(*row->points);

	tei_free(row->points);
	row->points = NULL;
	row->n_points = 0;
	if (!len)
		return 0;
	row->points = tei_malloc(len);
	if (!row->points)
		return -ENOMEM;
	memcpy(row->points, run->series.points, len);
	row->n_points = run->series.n;
	row->point_rails = run->series.rails;
	return 0;
}

static int measure_row(struct run *run, struct row *row)
{
	struct load_result *result = tei_malloc(sizeof(*result));
	double *v = row->v[row->n_rounds];
	int rc;

	if (!result)
		return -ENOMEM;
	for (enum figure f = 0; f < N_FIGURES; f++)
		v[f] = NAN;
	rc = measure_round(run, row, v, result);
	tei_free(result);
	if (!rc)
		rc = keep_points(run, row);
	if (rc) {
		say_failed(row, rc);
		return rc;
	}
	row->n_rounds++;
	return run->options->reference ? bound_round(&run->bound, row, v) : 0;
}

static void add_directions(struct run *run, uint64_t size, uint64_t batch,
			   uint64_t threads)
{
	struct results *r = &run->results;
	struct direction each[2];
	size_t n = results_directions(run->options, each);

	for (size_t i = 0; i < n; i++)
		r->row[r->n_rows++] = (struct row){
			.op = each[i].op,
			.read_share = each[i].read_share,
			.size = size,
			.batch = (uint32_t)batch,
			.threads = (uint32_t)threads,
		};
}

static void add_rows(struct run *run)
{
	const struct options *o = run->options;

	for (int s = 0; s < o->sizes.n; s++)
		for (int b = 0; b < o->batches.n; b++)
			for (int t = 0; t < o->thread_counts.n; t++)
				add_directions(run, o->sizes.v[s],
					       o->batches.v[b],
					       o->thread_counts.v[t]);
}

static int measure_all(struct run *run)
{
	const struct options *o = run->options;
	size_t n = run->results.n_rows, done = 0;
	int rc = 0;

	tei_progress_begin(&run->progress, "measuring");
	if (run->series.print || !o->duration) /* lines of its own, no end */
		run->progress.shown = false;
	run->series.total_ms = n * o->rounds * o->duration;
	for (uint64_t round = 0; !rc && round < o->rounds; round++) {
		for (size_t i = 0; !rc && i < n && !load_is_ended(); i++) {
			run->series.done_ms = done++ * o->duration;
			rc = measure_row(run, &run->results.row[i]);
		}
	}
	tei_progress_end(&run->progress);
	results_forget_unmeasured(&run->results);
	return rc;
}

/* ---- set-up ---- */

/* Registered, as users' memory is. */
static int open_local(struct run *run)
{
	const struct options *o = run->options;

	return memory_open(&run->local, run->engine, &o->ours, o->foreign,
			   o->walked, TE_ACCESS_LOCAL);
}

#define STATS_MAX 1024 /* figures of an engine, far more than there are */

static void warn_of_unused(const struct run *run)
{
	const struct results *r = &run->results;
	struct rails all = r->row[0].rails;

	for (size_t i = 1; i < r->n_rows; i++)
		rails_add(&all, &r->row[i].rails);
	rails_warn_unused(&all, &run->local.side);
}

/* Takes down what the engine has measured of this host. */
static void take_measurements(struct run *run)
{
	struct results *r = &run->results;
	struct te_stat stats[STATS_MAX];
	size_t n = STATS_MAX;

	if (te_engine_stats(run->engine, stats, &n))
		return;
	for (size_t i = 0; i < n && i < STATS_MAX; i++) {
		if (!strcmp(stats[i].name, "te_wakeup_ns"))
			r->wakeup_us = (double)stats[i].value / 1e3;
		if (strncmp(stats[i].name, "te_copy_", 8) ||
		    r->n_choices == CHOICES_MAX)
			continue;
		r->choices[r->n_choices++] =
			(struct copy_choice){stats[i].name, stats[i].label,
					     (double)stats[i].value / 1e9};
	}
}

static int measure_with_target(struct run *run)
{
	const struct options *o = run->options;
	int rc = target_open(&run->target, run->engine);

	if (!rc && !strcmp(o->op, "notify"))
		rc = target_take(&run->target);
	if (!rc)
		rc = bound_open(&run->bound, o, &run->target);
	if (rc)
		return rc;
	if (o->reference)
		tei_bare_congestion(&run->bound.peer, run->results.congestion);
	run->series.engine = run->engine;
	run->series.interval_ns = o->interval * TEI_NS_PER_MS;
	run->series.print = o->interval && !o->json && !o->csv;
	run->series.last_only = !o->duration;
	add_rows(run);
	rc = measure_all(run);
	if (!rc)
		warn_of_unused(run);
	take_measurements(run);
	series_fini(&run->series);
	bound_close(&run->bound);
	return rc;
}

static int measure_target(struct run *run)
{
	const struct options *o = run->options;
	int rc = target_start(&run->target, o, o->walked);
	int closed;

	run->misused = rc == -EINVAL;
	if (rc)
		return rc;
	rc = engine_open(o, run->target.host, &run->engine);
	run->misused = rc == -EINVAL;
	if (rc)
		goto close_target;
	rc = open_local(run);
	if (!rc)
		rc = measure_with_target(run);
close_target:
	closed = target_close(&run->target);
	if (!rc && !strcmp(o->fault, "none"))
		rc = closed;
	memory_close(&run->local);
	te_engine_destroy(run->engine);
	return rc;
}

int run_main(const struct options *o)
{
	struct run *run = tei_calloc(1, sizeof(*run));
	int rc;

	if (!run)
		return 1;
	load_end_at_interrupt();
	run->options = o;
	if (o->pin)
		tei_process_pin(0);
	rc = results_open(&run->results, o);
	run->misused = rc != 0;
	if (!rc)
		rc = measure_target(run);
	if (!rc)
		rc = results_report(&run->results, o);
	if (rc)
		rc = run->misused ? 2 : 1;
	results_fini(&run->results);
	tei_free(run);
	return rc;
}
