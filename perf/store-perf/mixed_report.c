/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixed_report.c - what came of a mixed load, for people and machines
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "perf/lib/fields.h"
#include "perf/lib/report.h"
#include "perf/store-perf/mixed_report.h"

static double per_second(const struct mixed_results *r, uint64_t n)
{
	return r->seconds > 0 ? (double)n / r->seconds : 0;
}

static double hit_ratio(const struct mix_figures *f)
{
	uint64_t asked = f->good + f->missed;

	return asked ? (double)f->good / (double)asked : 0;
}

static uint64_t with_code(const struct mix_figures *f, int code)
{
	for (unsigned int i = 0; i < MIX_CODES; i++)
		if (f->code[i].n && f->code[i].code == code)
			return f->code[i].n;
	return 0;
}

static struct mix_figures *all_ops(const struct mixed_results *r)
{
	struct mix_figures *sum = tei_calloc(1, sizeof(*sum));

	for (unsigned int i = 0; sum && i < MIX_OPS; i++) {
		const struct mix_figures *f = &r->sum.op[i];

		sum->keys += f->keys;
		sum->bytes += f->bytes;
		for (unsigned int k = 0; k < MIX_CODES; k++)
			if (f->code[k].n)
				mix_count_code(sum, f->code[k].code,
					       f->code[k].n);
	}
	return sum;
}

/* ---- for machines ---- */

static json_t *codes_json(const struct mix_figures *f)
{
	json_t *o = json_object();
	char name[16];

	for (unsigned int i = 0; i < MIX_CODES; i++) {
		if (!f->code[i].n)
			continue;
		snprintf(name, sizeof(name), "%d", f->code[i].code);
		tei_json_set(&o, name, json_integer((json_int_t)f->code[i].n));
	}
	return o;
}

#define FIELDS 14

static void fields_of(const struct mixed_results *r, enum mix_op op,
		      struct tei_field out[FIELDS])
{
	const struct mix_figures *f = &r->sum.op[op];
	const struct tei_histogram *h = &f->latency;
	const struct tei_field fields[FIELDS] = {
		TEI_TEXT("op", mix_op_name(op)),
		TEI_COUNT("calls", f->calls),
		TEI_COUNT("keys", f->keys),
		TEI_COUNT("good", f->good),
		TEI_COUNT("missed", f->missed),
		TEI_COUNT("failed", f->failed),
		TEI_REAL("hit_ratio", hit_ratio(f)),
		TEI_COUNT("bytes", f->bytes),
		TEI_REAL("keys_per_s", per_second(r, f->good)),
		TEI_REAL("gb_per_s", per_second(r, f->bytes) / 1e9),
		TEI_REAL("calls_per_s", per_second(r, f->calls)),
		TEI_REAL("p50_us", tei_histogram_us(h, 0.5)),
		TEI_REAL("p99_us", tei_histogram_us(h, 0.99)),
		TEI_REAL("p999_us", tei_histogram_us(h, 0.999)),
	};

	memcpy(out, fields, sizeof(fields));
}

static json_t *op_json(const struct mixed_results *r, enum mix_op op)
{
	struct tei_field fields[FIELDS];
	json_t *j;

	fields_of(r, op, fields);
	j = tei_fields_json(fields, FIELDS);
	tei_json_set(&j, "codes", codes_json(&r->sum.op[op]));
	return j;
}

/* A line each kind of call that was made. */
static void report_csv(const struct mixed_results *r)
{
	struct tei_csv csv = {.out = stdout};
	struct tei_field fields[FIELDS];
	bool begun = false;

	for (unsigned int i = 0; i < MIX_OPS; i++) {
		if (!r->sum.op[i].calls)
			continue;
		fields_of(r, i, fields);
		if (!begun)
			tei_fields_csv_names(fields, FIELDS, &csv);
		tei_fields_csv(fields, FIELDS, &csv);
		begun = true;
	}
}

static json_t *ops_json(const struct mixed_results *r)
{
	json_t *o = json_object();

	for (unsigned int i = 0; i < MIX_OPS; i++)
		if (r->sum.op[i].calls)
			tei_json_set(&o, mix_op_name(i), op_json(r, i));
	return o;
}

static json_t *plan_json(const struct mix_plan *p, const struct options *o)
{
	return json_pack(
		"{s:s, s:s, s:I, s:s, s:f, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:b, s:b, s:I, s:b, s:s*, s:s*}",
		"mix", o->mix, "value_size", o->value_size, "keys",
		(json_int_t)p->n_keys, "popularity", o->popularity, "theta",
		p->popularity.theta, "seed", (json_int_t)p->seed, "batch",
		(json_int_t)p->batch, "processes", (json_int_t)p->processes,
		"clients", (json_int_t)p->clients, "threads",
		(json_int_t)p->threads, "retries", (json_int_t)p->retries,
		"fill", p->fill, "verify", p->verify, "rate",
		(json_int_t)p->rate, "unaligned", p->unaligned, "location",
		o->location, "remote_location", o->remote_location);
}

static json_t *pool_json(const struct mixed_results *r)
{
	const struct te_store_pool *a = &r->after, *b = &r->before;

	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "capacity_bytes",
			 (json_int_t)a->capacity_bytes, "used_bytes",
			 (json_int_t)a->used_bytes, "objects",
			 (json_int_t)a->objects, "evicted_objects",
			 (json_int_t)(a->evicted_objects - b->evicted_objects),
			 "evicted_bytes",
			 (json_int_t)(a->evicted_bytes - b->evicted_bytes));
}

static double ns_per_key(uint64_t ns, const struct mix_figures *sum)
{
	return sum->keys ? (double)ns / (double)sum->keys : 0;
}

static json_t *cpu_json(const struct mixed_results *r,
			const struct mix_figures *sum)
{
	return json_pack("{s:f, s:f, s:f}", "workers",
			 ns_per_key(r->cpu.workers, sum), "master",
			 ns_per_key(r->cpu.master, sum), "owners",
			 ns_per_key(r->cpu.owners, sum));
}

static int report_json(const struct mixed_results *r, const struct options *o,
		       const struct mix_figures *sum)
{
	json_t *report = json_pack(
		"{s:o, s:f, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, "
		"s:o}",
		"plan", plan_json(r->plan, o), "seconds", r->seconds,
		"operations", ops_json(r), "pool", pool_json(r),
		"cpu_ns_per_key", cpu_json(r, sum), "wrong_bytes",
		(json_int_t)r->sum.wrong_bytes, "retried",
		(json_int_t)r->sum.retried, "put_retries",
		(json_int_t)r->put_retries, "location_hits",
		(json_int_t)r->location_hits, "location_misses",
		(json_int_t)r->location_misses, "behind",
		(json_int_t)r->sum.behind, "gb_per_s",
		per_second(r, sum->bytes) / 1e9, "machine", tei_machine_json());

	if (o->reference)
		tei_json_set(&report, "reference",
			     tei_reference_json(&r->reference));
	if (o->interval)
		tei_json_set(&report, "series", intervals_json(&r->intervals));
	return tei_report_json("store-perf", report);
}

/* ---- for people ---- */

static void table_row(struct tei_table *t, const struct mixed_results *r,
		      enum mix_op op)
{
	const struct mix_figures *f = &r->sum.op[op];
	char text[32];

	tei_table_row(t);
	tei_table_cell(t, "%s", mix_op_name(op));
	tei_table_cell(t, "%s", tei_text_count(f->calls, text));
	tei_table_cell(t, "%s",
		       tei_text_count((uint64_t)per_second(r, f->good), text));
	tei_table_cell(t, "%.2f", per_second(r, f->bytes) / 1e9);
	tei_table_cell(t, "%.1f", tei_histogram_us(&f->latency, 0.5));
	tei_table_cell(t, "%.1f", tei_histogram_us(&f->latency, 0.99));
	tei_table_cell(t, "%.1f", tei_histogram_us(&f->latency, 0.999));
	tei_table_cell(t, "%.2f %%", 100 * hit_ratio(f));
	tei_table_cell(t, "%s", tei_text_count(f->failed, text));
}

static int print_operations(const struct mixed_results *r)
{
	static const char *const head[] = {"operation", "calls",   "keys/s",
					   "GB/s",      "p50 us",  "p99 us",
					   "p999 us",   "of keys", "failed"};
	struct tei_table *t = tei_calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	tei_table_texts(t, head, sizeof(head) / sizeof(*head));
	for (unsigned int i = 0; i < MIX_OPS; i++)
		if (r->sum.op[i].calls)
			table_row(t, r, i);
	tei_table_print(t, stdout);
	tei_free(t);
	return 0;
}

static void print_codes(const struct mix_figures *sum)
{
	bool any = false;
	char text[32];

	for (unsigned int i = 0; i < MIX_CODES; i++) {
		if (!sum->code[i].n)
			continue;
		printf("%s%s %d %s", any ? ", " : "codes: ",
		       tei_text_count(sum->code[i].n, text), sum->code[i].code,
		       te_store_strerror(sum->code[i].code));
		any = true;
	}
	printf("%s", any ? "\n" : "");
}

static void print_rest(const struct mixed_results *r, const struct options *o,
		       const struct mix_figures *sum)
{
	const struct te_store_pool *a = &r->after, *b = &r->before;
	char x[32], y[32], z[32];

	print_codes(sum);
	printf("pool: %s objects, %s of %s used; evicted %s objects, %s "
	       "without room\n",
	       tei_text_count(a->objects, x), tei_text_bytes(a->used_bytes, y),
	       tei_text_bytes(a->capacity_bytes, z),
	       tei_text_count(a->evicted_objects - b->evicted_objects,
			      (char[32]){0}),
	       tei_text_count(with_code(sum, TE_STORE_NO_AVAILABLE_HANDLE),
			      (char[32]){0}));
	printf("retries: %s keys by the client, %s by this program; wrong "
	       "bytes: %s\n",
	       tei_text_count(r->put_retries, x),
	       tei_text_count(r->sum.retried, y),
	       tei_text_count(r->sum.wrong_bytes, z));
	printf("CPU ns a key: workers %.0f, master %.0f, owners %.0f\n",
	       ns_per_key(r->cpu.workers, sum), ns_per_key(r->cpu.master, sum),
	       ns_per_key(r->cpu.owners, sum));
	if (o->reference && sum->bytes)
		printf("all bytes: %.2f GB/s, %.0f %% of the stream\n",
		       per_second(r, sum->bytes) / 1e9,
		       per_second(r, sum->bytes) / 1e7 /
			       r->reference.stream_gb_per_s);
	if (o->reference)
		tei_reference_print(&r->reference, stdout);
}

void mixed_write_percentiles(struct mixed_results *r, const struct options *o)
{
	char title[256];

	for (unsigned int i = 0; i < MIX_OPS; i++) {
		const struct mix_figures *f = &r->sum.op[i];

		snprintf(title, sizeof(title),
			 "%s of %s, value_size %s, batch %" PRIu64
			 ", clients %" PRIu64 ", threads %" PRIu64
			 ", rate %" PRIu64,
			 mix_op_name(i), o->mix, o->value_size, r->plan->batch,
			 r->plan->clients, r->plan->threads, r->plan->rate);
		if (f->calls)
			tei_percentiles_add(&r->percentiles, title,
					    &f->latency);
	}
}

int mixed_report(const struct mixed_results *r, const struct options *o)
{
	struct mix_figures *sum = all_ops(r);
	char text[32];
	int rc;

	if (!sum)
		return -ENOMEM;
	if (o->json) {
		rc = report_json(r, o, sum);
		tei_free(sum);
		return rc;
	}
	if (o->csv) {
		report_csv(r);
		tei_free(sum);
		return 0;
	}
	printf("%s of %s keys (%s), %.1f s, %" PRIu64 " client%s in %" PRIu64
	       " process%s\n",
	       o->mix, tei_text_count(r->plan->n_keys, text), o->popularity,
	       r->seconds, r->plan->clients, r->plan->clients > 1 ? "s" : "",
	       r->plan->processes, r->plan->processes > 1 ? "es" : "");
	rc = print_operations(r);
	print_rest(r, o, sum);
	tei_free(sum);
	return rc;
}
