/* SPDX-License-Identifier: Apache-2.0 */
/*
 * costs.c - what comes before requests: registration, and the first one
 *
 * A row is a size, and has a histogram for each step. Steps are timed one by
 * one, by one thread.
 */
#include "perf/te-perf/costs.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/fields.h"
#include "perf/lib/histogram.h"
#include "perf/lib/process.h"
#include "perf/lib/report.h"
#include "perf/te-perf/load.h"
#include "perf/te-perf/target.h"

#define STEPS_MAX 5
#define OPEN_MS   30000

struct cost {
	uint64_t size;
	struct tei_histogram step[STEPS_MAX]; /* ns */
};

struct run {
	const struct options *options;
	const char *const *steps; /* names, up to NULL */
	struct target target;
	struct te_engine *engine;
	struct memory memory; /* --registration; registered by parts again */
	int n;
	struct cost *cost; /* cost[n] */
};

static const char *const registration_steps[] = {"register", "unregister",
						 NULL};
static const char *const first_steps[] = {"create", "connect", "first",
					  "second", "cold",    NULL};

/* ---- registration ---- */

static int register_once(struct run *run, struct cost *c, char *at)
{
	struct te_region r = {
		.addr = at,
		.length = c->size,
		.access = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE,
		.location = run->options->ours.name[0],
	};
	uint64_t start = tei_now_ns(), registered;
	te_region_id region;
	int rc = te_region_add(run->engine, &r, &region);

	registered = tei_now_ns();
	if (rc)
		return rc;
	rc = te_region_remove(run->engine, region);
	tei_histogram_add(&c->step[0], registered - start);
	tei_histogram_add(&c->step[1], tei_now_ns() - registered);
	return rc;
}

/* Walks over the memory, so that each time it is other memory. */
static int register_for_long(struct run *run, struct cost *c)
{
	const struct options *o = run->options;
	uint64_t places = run->memory.side.span / c->size, i = 0;
	uint64_t end = tei_now_ns() + o->duration * TEI_NS_PER_MS;
	int rc;

	do {
		rc = register_once(run, c,
				   run->memory.part[0].addr + i * c->size);
		i = (i + 1) % places;
	} while (!rc && tei_now_ns() < end && !load_is_ended());
	return rc;
}

/* Opens memory that is allocated and touched, and in no region. */
static int open_unregistered(struct run *run)
{
	const struct options *o = run->options;
	int rc = memory_open(&run->memory, run->engine, &o->ours, o->foreign,
			     o->walked, TE_ACCESS_LOCAL);

	if (!rc)
		rc = te_region_remove(run->engine, run->memory.part[0].region);
	run->memory.part[0].region = 0;
	return rc;
}

static int measure_registration(struct run *run)
{
	int rc = engine_open(run->options, "127.0.0.1", &run->engine);

	if (!rc)
		rc = open_unregistered(run);
	for (int i = 0; !rc && i < run->n; i++)
		rc = register_for_long(run, &run->cost[i]);
	return rc;
}

/* ---- the first request ---- */

struct newcomer {
	struct te_engine *engine;
	struct te_batch *batch;
	te_segment_id segment;
	struct iovec piece;
};

static int write_once(struct newcomer *n, uint64_t remote,
		      struct tei_histogram *h)
{
	struct te_request r = {
		.op = TE_WRITE,
		.segment = n->segment,
		.remote = remote,
		.pieces = &n->piece,
		.n_pieces = 1,
	};
	uint64_t start = tei_now_ns();
	int rc = batch_run(n->batch, &r, 1);

	tei_histogram_add(h, tei_now_ns() - start);
	return rc;
}

static int add_memory(struct newcomer *n)
{
	struct te_region r = {.length = n->piece.iov_len,
			      .access = TE_ACCESS_LOCAL};
	te_region_id region;
	int rc = te_memory_alloc(n->engine, r.length, &n->piece.iov_base);

	if (rc)
		return rc;
	r.addr = n->piece.iov_base;
	memset(r.addr, 1, r.length);
	rc = te_region_add(n->engine, &r, &region);
	return rc ? rc : te_batch_create(n->engine, 1, &n->batch);
}

/* "cold" counts from the opening of the segment to the end of the first. */
static int connect_and_write(struct run *run, struct newcomer *n,
			     struct cost *c)
{
	uint64_t remote = run->target.side.at[0], start = tei_now_ns();
	int rc = te_segment_open(n->engine, run->target.name, OPEN_MS,
				 &n->segment);

	tei_histogram_add(&c->step[1], tei_now_ns() - start);
	if (!rc)
		rc = write_once(n, remote, &c->step[2]);
	tei_histogram_add(&c->step[4], tei_now_ns() - start);
	return rc ? rc : write_once(n, remote, &c->step[3]);
}

static int first_once(struct run *run, struct cost *c)
{
	struct newcomer n = {.piece.iov_len = c->size};
	uint64_t start = tei_now_ns();
	int rc = engine_open(run->options, run->target.host, &n.engine);

	if (rc)
		return rc;
	tei_histogram_add(&c->step[0], tei_now_ns() - start);
	rc = add_memory(&n);
	if (!rc)
		rc = connect_and_write(run, &n, c);
	te_batch_destroy(n.batch);
	te_engine_destroy(n.engine);
	return rc;
}

static int measure_first(struct run *run)
{
	const struct options *o = run->options;
	uint64_t end;
	int rc = target_start(&run->target, o, o->walked);

	if (!rc)
		rc = engine_open(o, run->target.host, &run->engine);
	if (!rc)
		rc = target_open(&run->target, run->engine);
	for (int i = 0; !rc && i < run->n; i++) {
		end = tei_now_ns() + o->duration * TEI_NS_PER_MS;
		do
			rc = first_once(run, &run->cost[i]);
		while (!rc && tei_now_ns() < end && !load_is_ended());
	}
	return rc;
}

/* ---- reports ---- */

static double gb_per_s(const struct cost *c)
{
	double p50 = (double)tei_histogram_quantile(&c->step[0], 0.5);

	return p50 > 0 ? (double)c->size / p50 : NAN;
}

/* The fields of a row; the names of a step are its own with a suffix. */
struct cost_fields {
	size_t n;
	struct tei_field field[4 + 2 * STEPS_MAX];
	char name[2 * STEPS_MAX][24];
};

static void add_field(struct cost_fields *out, struct tei_field field)
{
	out->field[out->n++] = field;
}

static void add_quantile(struct cost_fields *out, const struct run *run,
			 const struct cost *c, int step, double q)
{
	bool median = q <= 0.5;
	char *name = out->name[2 * step + !median];

	snprintf(name, sizeof(out->name[0]), "%s_%s_us", run->steps[step],
		 median ? "p50" : "p99");
	add_field(out, TEI_REAL(name, tei_histogram_us(&c->step[step], q)));
}

static void fields_of(const struct run *run, const struct cost *c,
		      struct cost_fields *out)
{
	out->n = 0;
	add_field(out, TEI_TEXT("backend", run->options->backend));
	add_field(out, TEI_COUNT("size", c->size));
	add_field(out, TEI_COUNT("n", c->step[0].n));
	for (int s = 0; run->steps[s]; s++) {
		add_quantile(out, run, c, s, 0.5);
		add_quantile(out, run, c, s, 0.99);
	}
	if (run->steps == registration_steps)
		add_field(out, TEI_REAL("gb_per_s", gb_per_s(c)));
}

static int print_json(const struct run *run)
{
	json_t *list = json_array(), *report;
	struct cost_fields fields;

	for (int i = 0; i < run->n; i++) {
		fields_of(run, &run->cost[i], &fields);
		tei_json_append(&list, tei_fields_json(fields.field, fields.n));
	}
	report = json_pack("{s:o, s:o}", "rows", list, "machine",
			   tei_machine_json());
	return tei_report_json("te-perf", report);
}

static int print_csv(const struct run *run)
{
	struct tei_csv csv = {.out = stdout};
	struct cost_fields fields;

	for (int i = 0; i < run->n; i++) {
		fields_of(run, &run->cost[i], &fields);
		if (!i)
			tei_fields_csv_names(fields.field, fields.n, &csv);
		tei_fields_csv(fields.field, fields.n, &csv);
	}
	return 0; /* errors of stdout: tei_tool_main() */
}

static void fill_table(struct tei_table *t, const struct run *run)
{
	bool registration = run->steps == registration_steps;
	char text[24];

	tei_table_row(t);
	tei_table_cell(t, "size");
	tei_table_cell(t, "times");
	for (int s = 0; run->steps[s]; s++) {
		tei_table_cell(t, "%s p50 us", run->steps[s]);
		tei_table_cell(t, "p99 us");
	}
	if (registration)
		tei_table_cell(t, "GB/s");
	for (int i = 0; i < run->n; i++) {
		const struct cost *c = &run->cost[i];

		tei_table_row(t);
		tei_table_cell(t, "%s", tei_text_bytes(c->size, text));
		tei_table_cell(t, "%" PRIu64, c->step[0].n);
		for (int s = 0; run->steps[s]; s++) {
			tei_table_cell(t, "%.1f",
				       tei_histogram_us(&c->step[s], 0.5));
			tei_table_cell(t, "%.1f",
				       tei_histogram_us(&c->step[s], 0.99));
		}
		if (registration)
			tei_table_cell(t, "%.2f", gb_per_s(c));
	}
}

static int report_costs(const struct run *run)
{
	struct tei_table *t;

	if (run->options->json)
		return print_json(run);
	if (run->options->csv)
		return print_csv(run);
	t = tei_calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	fill_table(t, run);
	tei_table_print(t, stdout);
	tei_free(t);
	return 0;
}

int costs_main(const struct options *o)
{
	struct run run = {.options = o, .n = o->sizes.n};
	int rc;

	run.target.process = TEI_PROCESS_NONE;
	run.cost = tei_calloc((size_t)run.n, sizeof(*run.cost));
	if (!run.cost)
		return 1;
	load_end_at_interrupt();
	for (int i = 0; i < run.n; i++)
		run.cost[i].size = o->sizes.v[i];
	run.steps = o->registration ? registration_steps : first_steps;
	rc = o->registration ? measure_registration(&run) : measure_first(&run);
	if (rc)
		fprintf(stderr, "te-perf: %s\n", te_strerror(rc));
	else
		rc = report_costs(&run);
	if (target_close(&run.target) && !rc)
		rc = -EIO;
	memory_close(&run.memory);
	te_engine_destroy(run.engine);
	tei_free(run.cost);
	return rc == -EINVAL ? 2 : rc ? 1 : 0;
}
