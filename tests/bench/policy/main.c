/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - te-policy: hit ratios of the store's eviction against LRU and CLOCK
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/process.h"
#include "perf/lib/report.h"
#include "tests/bench/policy/simulate.h"

#define PROGRAM "te-policy"
/* Both in the build tree and where installed, seen from the program. */
#define EXCERPT "../share/te/traces/conversation_2000.jsonl"

static const char about[] =
	"Runs the accesses of a trace, or made-up ones, through a pool of given "
	"sizes without any bytes in it, and reports the bytes that were there: "
	"with the store's own eviction, with LRU, and with CLOCK.";

struct options {
	char *trace, *blocks;
	const char *workload;
	uint64_t block_bytes, accesses, keys;
	bool mixed, json;
};

/* clang-format off */
static const struct tei_setting rows[] = {
	{ TEI_SETTING(struct options, trace), .type = TEI_CONF_STRING,
	  .help = "JSON lines; default: the excerpt that comes with this" },
	{ TEI_SETTING(struct options, workload), .type = TEI_CONF_CHOICE,
	  .def = "trace", .choices = "trace|zipf|shift|scan|loop",
	  .help = "what is asked for" },
	{ TEI_SETTING(struct options, accesses), .type = TEI_CONF_UINT,
	  .def = "400000", .min = 100, .max = 1e9,
	  .help = "how often, without a trace" },
	{ TEI_SETTING(struct options, keys), .type = TEI_CONF_UINT,
	  .def = "50000", .min = 10, .max = 1e8,
	  .help = "for how many keys, without a trace" },
	{ TEI_SETTING(struct options, blocks), .type = TEI_CONF_STRING,
	  .def = "1000,2000,5000,10000",
	  .help = "what the pool has room for, in blocks of mean size" },
	{ TEI_SETTING(struct options, block_bytes), .type = TEI_CONF_SIZE,
	  .def = "64k", .min = 64, .max = 1LL << 30, .help = "of each block" },
	{ TEI_SETTING(struct options, mixed), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "from a quarter to 64 times of that instead" },
	{ TEI_SETTING(struct options, json), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as one JSON object" },
};
/* clang-format on */

struct row {
	uint64_t blocks;
	struct tei_sim_result of[TEI_SIM_KINDS];
};

static const char *const names[] = {"lru", "clock", "policy"};

static double percent(const struct tei_sim_result *r)
{
	return r->bytes ? 100.0 * (double)r->hit_bytes / (double)r->bytes : 0;
}

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

static json_t *row_json(const struct row *r, size_t accesses)
{
	const struct tei_sim_result *own = &r->of[TEI_SIM_POLICY];
	json_t *o =
		json_pack("{s:I, s:I, s:f}", "blocks", (json_int_t)r->blocks,
			  "ghosts", (json_int_t)own->ghosts, "ghost_bytes",
			  ratio(own->ghost_bytes, own->ghosts));
	char name[48];

	for (size_t i = 0; o && i < TEI_SIM_KINDS; i++) {
		snprintf(name, sizeof(name), "%s_hit_percent", names[i]);
		json_object_set_new(o, name, json_real(percent(&r->of[i])));
		snprintf(name, sizeof(name), "%s_ns_per_access", names[i]);
		json_object_set_new(o, name,
				    json_real(ratio(r->of[i].ns, accesses)));
	}
	return o;
}

static int report_json(const struct row *r, size_t n,
		       const struct tei_workload *w)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, row_json(&r[i], w->n));
	return tei_report_json(PROGRAM,
			       json_pack("{s:I, s:I, s:o}", "accesses",
					 (json_int_t)w->n, "keys",
					 (json_int_t)w->n_keys, "rows", list));
}

static void table_head(struct tei_table *t)
{
	static const char *const head[] = {
		"blocks", "LRU %",      "CLOCK %", "policy %", "above LRU",
		"ghosts", "bytes each", "LRU ns",  "policy ns"};

	tei_table_texts(t, head, sizeof(head) / sizeof(*head));
}

static int report_table(const struct row *r, size_t n,
			const struct tei_workload *w)
{
	struct tei_table *t = tei_calloc(1, sizeof(*t));
	char text[32];

	if (!t)
		return -ENOMEM;
	table_head(t);
	for (size_t i = 0; i < n; i++) {
		const struct tei_sim_result *of = r[i].of;

		tei_table_row(t);
		tei_table_cell(t, "%s", tei_text_count(r[i].blocks, text));
		for (size_t k = 0; k < TEI_SIM_KINDS; k++)
			tei_table_cell(t, "%.2f", percent(&of[k]));
		tei_table_cell(t, "%+.2f",
			       percent(&of[TEI_SIM_POLICY]) -
				       percent(&of[TEI_SIM_LRU]));
		tei_table_cell(t, "%s",
			       tei_text_count(of[TEI_SIM_POLICY].ghosts, text));
		tei_table_cell(t, "%.1f",
			       ratio(of[TEI_SIM_POLICY].ghost_bytes,
				     of[TEI_SIM_POLICY].ghosts));
		tei_table_cell(t, "%.0f", ratio(of[TEI_SIM_LRU].ns, w->n));
		tei_table_cell(t, "%.0f", ratio(of[TEI_SIM_POLICY].ns, w->n));
	}
	tei_table_print(t, stdout);
	tei_free(t);
	return 0;
}

static int simulate_all(const struct tei_workload *w, struct row *r, size_t n)
{
	double mean = tei_workload_mean(w);
	struct tei_progress bar;
	int rc = 0;

	tei_progress_begin(&bar, "simulate");
	for (size_t i = 0; !rc && i < n * TEI_SIM_KINDS; i++) {
		struct row *row = &r[i / TEI_SIM_KINDS];
		size_t kind = i % TEI_SIM_KINDS;

		tei_progress_show(&bar, i, n * TEI_SIM_KINDS);
		rc = tei_simulate(w, (enum tei_sim_kind)kind,
				  (uint64_t)(mean * (double)row->blocks),
				  tei_now_ns, &row->of[kind]);
	}
	tei_progress_end(&bar);
	return rc;
}

static int load(const struct options *o, struct tei_workload *w)
{
	char error[TEI_TRACE_ERROR_LEN], path[PATH_MAX];
	const char *file = o->trace;
	struct tei_trace trace;
	int rc;

	if (strcmp(o->workload, "trace") != 0)
		return tei_workload_make(o->workload, o->accesses, o->keys,
					 o->block_bytes, w);
	if (!file && !tei_process_path(EXCERPT, path))
		file = path;
	rc = tei_trace_load(file ? file : EXCERPT, 0, &trace, error);
	if (rc) {
		fprintf(stderr, "%s\n", error);
		return rc;
	}
	rc = tei_workload_of_trace(&trace, o->block_bytes, w);
	tei_trace_free(&trace);
	return rc;
}

static int run(const struct tei_conf *conf)
{
	const struct options *o = conf->values;
	uint64_t blocks[TEI_SIZES_MAX];
	struct row row[TEI_SIZES_MAX] = {{.blocks = 0}};
	struct tei_workload w;
	int n = tei_sizes_parse(PROGRAM, "blocks", o->blocks, 1u << 30, blocks);
	int rc;

	if (n < 0 || load(o, &w))
		return 2;
	if (o->mixed)
		tei_workload_mix_sizes(&w, o->block_bytes);
	for (int i = 0; i < n; i++)
		row[i].blocks = blocks[i];
	rc = simulate_all(&w, row, (size_t)n);
	if (!rc)
		rc = (o->json ? report_json : report_table)(row, (size_t)n, &w);
	tei_workload_free(&w);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct options options;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(*rows), &options};

	return tei_tool_main(&conf, argc, argv, about, run);
}
