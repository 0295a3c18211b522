/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - te-perf: how fast an engine moves bytes between two processes
 *
 * One row a size and direction. The bare system is measured before the first
 * row and after each one, so that a change of the machine's mood shows in both.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/mem.h"
#include "perf/lib/pattern.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/lib/table.h"
#include "perf/te-perf/load.h"
#include "perf/te-perf/options.h"
#include "perf/te-perf/results.h"
#include "perf/te-perf/target.h"

#define PROGRAM         "te-perf"
#define STREAM_S        1.0 /* of a reference stream, or the duration if shorter */
#define WORKING_SET_MIN 1048576.0

static const char about[] =
	"Moves requests between this process and a target that it starts, over "
	"working sets that no cache holds, and reports rates, latencies (from "
	"the submit of a batch to its end) and CPU time of both processes.";

/* clang-format off */
static const struct tei_setting rows[] = {
	{ TEI_SETTING(struct options, backend), .type = TEI_CONF_STRING,
	  .def = "tcp", .help = "backend to use: tcp, loop" },
	{ TEI_SETTING(struct options, op), .type = TEI_CONF_CHOICE,
	  .def = "write", .choices = "write|read|both", .help = "direction" },
	{ TEI_SETTING(struct options, size), .type = TEI_CONF_STRING,
	  .def = "1m", .help = "bytes of a request, or several: 4k,64k,1m" },
	{ TEI_SETTING(struct options, batch), .type = TEI_CONF_UINT,
	  .def = "16", .min = 1, .max = 65536,
	  .help = "requests submitted and awaited together" },
	{ TEI_SETTING(struct options, threads), .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = 256,
	  .help = "threads, each with a batch in flight" },
	{ TEI_SETTING(struct options, duration), .type = TEI_CONF_DURATION,
	  .def = "3", .unit = "s", .min = 1, .max = 86400000,
	  .help = "time of a row" },
	{ TEI_SETTING(struct options, working_set), .type = TEI_CONF_SIZE,
	  .def = "1g", .min = WORKING_SET_MIN, .max = 1LL << 40,
	  .help = "memory walked over on each side" },
	{ TEI_SETTING(struct options, reference), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "also measure the bare system in this run" },
	{ TEI_SETTING(struct options, pin), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "initiator on core 0, target on core 1" },
	{ TEI_SETTING(struct options, engine), .type = TEI_CONF_STRING,
	  .help = "settings of both engines: tcp.lanes=2,slice_max=4m" },
	{ TEI_SETTING(struct options, json), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as one JSON object" },
	{ TEI_SETTING(struct options, role), .type = TEI_CONF_CHOICE,
	  .def = "initiator", .choices = "initiator|target|reference",
	  .help = "which of its processes this is", .hidden = true },
};
/* clang-format on */

struct run {
	const struct options *options;
	struct te_engine *engine;
	struct target target;
	struct tei_reference_run reference;
	void *local;
	te_region_id region; /* of local */
	struct results results;
	bool misused; /* a setting is wrong that only the engine can judge */
};

/* ---- measuring ---- */

static struct load load_of(const struct run *run, const struct row *row)
{
	const struct options *o = run->options;

	return (struct load){
		.engine = run->engine,
		.segment = run->target.segment,
		.remote = run->target.remote,
		.local = run->local,
		.working_set = o->working_set,
		.op = strcmp(row->op, "read") ? TE_WRITE : TE_READ,
		.size = row->size,
		.batch = (uint32_t)o->batch,
		.n_threads = (uint32_t)o->threads,
		.duration_ms = o->duration,
	};
}

static void fill_row(struct row *row, const struct load_result *result,
		     uint64_t cpu_ns)
{
	double ns = (double)result->elapsed_ns;
	double bytes = (double)result->requests * (double)row->size;

	row->gb_per_s = bytes / ns;
	row->ops_per_s = (double)result->requests / ns * 1e9;
	row->p50_us = tei_histogram_us(&result->latency, 0.5);
	row->p99_us = tei_histogram_us(&result->latency, 0.99);
	row->p999_us = tei_histogram_us(&result->latency, 0.999);
	row->cpu_s_per_gb = (double)cpu_ns / bytes;
}

static int measure(struct run *run, struct row *row, struct load_result *result)
{
	struct load l = load_of(run, row);
	uint64_t seed = run->results.n_rows + 1, cpu;
	int rc;

	/* Each row moves bytes that its destination has not seen before. */
	tei_pattern_fill(run->local, l.working_set, seed, 0);
	if (l.op == TE_READ) {
		rc = load_prime(&l);
		if (rc)
			return rc;
		memset(run->local, 0, l.working_set);
	}
	cpu = tei_process_own_cpu_ns() + target_cpu_ns(&run->target);
	rc = load_run(&l, result);
	cpu = tei_process_own_cpu_ns() + target_cpu_ns(&run->target) - cpu;
	if (rc)
		return rc;
	fill_row(row, result, cpu);
	return load_check(&l, result, seed, &row->wrong_bytes);
}

static int add_row(struct run *run, const char *op, uint64_t size)
{
	struct load_result *result = tei_malloc(sizeof(*result));
	struct row *row = &run->results.row[run->results.n_rows];
	char text[24];
	int rc;

	if (!result)
		return -ENOMEM;
	*row = (struct row){.op = op, .size = size};
	rc = measure(run, row, result);
	tei_free(result);
	if (rc) {
		fprintf(stderr, PROGRAM ": %s of %s: %s\n", op,
			tei_text_bytes(size, text), te_strerror(rc));
		return rc;
	}
	run->results.n_rows++;
	return run->options->reference ? tei_reference_round(&run->reference)
				       : 0;
}

static int add_rows(struct run *run)
{
	const struct options *o = run->options;
	int rc = 0;

	if (o->reference)
		rc = tei_reference_round(&run->reference);
	for (int i = 0; !rc && i < o->n_sizes; i++) {
		if (strcmp(o->op, "read"))
			rc = add_row(run, "write", o->sizes[i]);
		if (!rc && strcmp(o->op, "write"))
			rc = add_row(run, "read", o->sizes[i]);
	}
	return rc;
}

/* ---- the initiator ---- */

/* Registered, as users' memory is. */
static int open_local(struct run *run)
{
	struct te_region region = {.length = run->options->working_set};
	int rc = te_memory_alloc(run->engine, region.length, &run->local);

	if (rc) {
		fprintf(stderr, PROGRAM ": memory: %s\n", te_strerror(rc));
		return rc;
	}
	tei_pattern_fill(run->local, region.length, 0, 0);
	region.addr = run->local;
	rc = te_region_add(run->engine, &region, &run->region);
	if (rc) {
		fprintf(stderr, PROGRAM ": region: %s\n", te_strerror(rc));
		te_memory_free(run->engine, run->local);
	}
	return rc;
}

static int open_reference(struct run *run)
{
	const struct options *o = run->options;
	double seconds = (double)o->duration / 1e3;

	run->reference.process = TEI_PROCESS_NONE;
	if (!o->reference)
		return 0;
	return tei_reference_open(&run->reference, o->working_set,
				  seconds < STREAM_S ? seconds : STREAM_S,
				  o->pin);
}

static int initiate(struct run *run)
{
	const struct options *o = run->options;
	int rc;

	if (o->pin)
		tei_process_pin(0);
	rc = open_reference(run);
	if (rc)
		return rc;
	rc = engine_open(o, &run->engine);
	run->misused = rc == -EINVAL;
	if (rc)
		goto close_reference;
	rc = open_local(run);
	if (rc)
		goto destroy_engine;
	rc = target_open(&run->target, o, run->engine);
	if (!rc) {
		rc = add_rows(run);
		if (target_close(&run->target))
			rc = -EIO;
	}
	te_region_remove(run->engine, run->region);
	te_memory_free(run->engine, run->local);
destroy_engine:
	te_engine_destroy(run->engine);
close_reference:
	tei_reference_close(&run->reference);
	return rc;
}

/* Sizes, and that a batch of each thread fits without overlap. */
static int derive(struct options *o)
{
	int n = tei_sizes_parse(PROGRAM, "size", o->size, o->working_set,
				o->sizes);
	char text[24];

	if (n < 0)
		return n;
	o->n_sizes = n;
	for (int i = 0; i < n; i++) {
		if (o->working_set / o->threads / o->batch >= o->sizes[i] + 8)
			continue;
		fprintf(stderr,
			PROGRAM ": working_set: a batch of requests of %s for "
				"each thread does not fit, give more\n",
			tei_text_bytes(o->sizes[i], text));
		return -EINVAL;
	}
	return 0;
}

static int run_role(void *options)
{
	struct options *o = options;
	struct run *run;
	int rc;

	if (!strcmp(o->role, "reference"))
		return tei_reference_peer_main(o->working_set, o->pin, false);
	if (!strcmp(o->role, "target"))
		return target_main(o);
	if (derive(o))
		return 2;
	run = tei_calloc(1, sizeof(*run));
	if (!run)
		return 1;
	run->options = o;
	rc = initiate(run);
	run->results.reference = tei_reference_median(&run->reference);
	if (!rc)
		rc = results_report(&run->results, o);
	if (rc)
		rc = run->misused ? 2 : 1;
	tei_free(run);
	return rc;
}

int main(int argc, char **argv)
{
	static struct options options;

	return tei_tool_main(rows, sizeof(rows) / sizeof(*rows), &options, argc,
			     argv, about, run_role);
}
