/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.c - what came of a replay, for people and machines
 *
 * The hit ratio stands beside two others of the same accesses: that of a pool
 * without limit, and that of an LRU of as many blocks as the pool has really
 * kept. The latter is the mean of the pool's use since it first evicted; a
 * pool that never evicted is compared with all it holds.
 *
 * Rates are bytes over the time that clients spent in calls of that kind,
 * all clients together.
 */
#include "perf/te-replay/figures.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "perf/lib/cluster.h"
#include "perf/lib/fields.h"
#include "perf/lib/report.h"
#include "perf/lib/trace.h"

#define PROGRAM "te-replay"

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

int figures_derive(struct figures *f, const struct tei_trace *t)
{
	uint64_t used = f->pool.used_bytes, ideal, lru;
	struct tei_trace dealt = *t;
	double n = (double)t->n_ids;
	int rc;

	if (f->sum->n_samples)
		used = f->sum->sampled_used / f->sum->n_samples;
	f->kept_blocks = used / tei_pool_extent_bytes(f->block_bytes);
	dealt.ids = tei_trace_deal(t, f->n_tenants);
	if (!dealt.ids)
		return -ENOMEM;
	rc = tei_lru_hits(&dealt, TEI_LRU_UNLIMITED, &ideal);
	if (!rc)
		rc = tei_lru_hits(&dealt, f->kept_blocks, &lru);
	tei_free(dealt.ids);
	if (rc)
		return rc;
	f->token_hit_ratio =
		ratio((double)f->sum->got_tokens, (double)f->sum->tokens);
	f->hit_ratio = ratio((double)f->sum->got, n);
	f->ideal_hit_ratio = ratio((double)ideal, n);
	f->lru_hit_ratio = ratio((double)lru, n);
	return 0;
}

static double put_bytes(const struct figures *f)
{
	return (double)f->sum->put * (double)f->block_bytes;
}

static double got_bytes(const struct figures *f)
{
	return (double)f->sum->got * (double)f->block_bytes;
}

static double rate_of_clients(const struct figures *f, double bytes,
			      uint64_t ns)
{
	return ratio(bytes * (double)f->n_clients, (double)ns);
}

static double bytes_per_object(const struct figures *f, uint64_t bytes)
{
	return ratio((double)bytes, (double)f->pool.objects);
}

/* ---- for machines ---- */

static int add_int(json_t *o, const char *name, uint64_t value)
{
	return json_object_set_new(o, name, json_integer((json_int_t)value));
}

static int add_real(json_t *o, const char *name, double value)
{
	return json_object_set_new(o, name, json_real(value));
}

static int add_latency(json_t *o, const char *what,
		       const struct tei_histogram *h)
{
	static const struct {
		const char *name;
		double q;
	} each[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}};
	char name[48];
	int bad = 0;

	for (size_t i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "%s_%s_us", what, each[i].name);
		bad |= add_real(o, name, tei_histogram_us(h, each[i].q));
	}
	return bad;
}

static int add_counts(json_t *o, const struct figures *f)
{
	const struct tally *t = f->sum;
	int bad = 0;

	bad |= add_int(o, "requests", t->requests);
	bad |= add_int(o, "blocks", t->blocks);
	bad |= add_int(o, "block_bytes", f->block_bytes);
	bad |= add_real(o, "seconds", f->seconds);
	bad |= add_int(o, "got_blocks", t->got);
	bad |= add_int(o, "lost_blocks", t->lost);
	bad |= add_int(o, "put_blocks", t->put);
	bad |= add_int(o, "put_failed", t->put_failed);
	bad |= add_int(o, "no_room", t->no_room);
	bad |= add_int(o, "put_retries", t->put_retries);
	bad |= add_int(o, "tenants", f->n_tenants);
	bad |= add_int(o, "errors", t->errors);
	bad |= add_int(o, "wrong_bytes", t->wrong_bytes);
	bad |= add_real(o, "hit_ratio", f->hit_ratio);
	bad |= add_real(o, "token_hit_ratio", f->token_hit_ratio);
	bad |= add_real(o, "lru_hit_ratio", f->lru_hit_ratio);
	bad |= add_real(o, "ideal_hit_ratio", f->ideal_hit_ratio);
	bad |= add_int(o, "lru_blocks", f->kept_blocks);
	return bad;
}

static int add_pool(json_t *o, const struct figures *f)
{
	const struct te_store_pool *p = &f->pool;
	int bad = 0;

	bad |= add_int(o, "pool_bytes", p->capacity_bytes);
	bad |= add_int(o, "pool_used_bytes", p->used_bytes);
	bad |= add_int(o, "pool_objects", p->objects);
	bad |= add_int(o, "evicted_objects", f->evicted_objects);
	bad |= add_int(o, "evicted_bytes", f->evicted_bytes);
	bad |= add_real(o, "master_bytes_per_object",
			bytes_per_object(f, p->master_metadata_bytes));
	bad |= add_real(o, "master_key_bytes_per_object",
			bytes_per_object(f, p->master_key_bytes));
	bad |= add_int(o, "master_rss_bytes", f->master_rss);
	if (f->idle_percent >= 0)
		bad |= add_real(o, "idle_cpu_percent", f->idle_percent);
	return bad;
}

static json_t *client_json(const struct figures *f, uint64_t i)
{
	const struct tally *t = &f->each[i];
	json_t *o = json_object();
	int bad = 0;

	bad |= add_int(o, "tenant", i % f->n_tenants);
	bad |= add_int(o, "requests", t->requests);
	bad |= add_int(o, "blocks", t->blocks);
	bad |= add_int(o, "got_blocks", t->got);
	bad |= add_int(o, "put_blocks", t->put);
	bad |= add_int(o, "no_room", t->no_room);
	bad |= add_int(o, "put_retries", t->put_retries);
	bad |= add_int(o, "errors", t->errors);
	bad |= add_int(o, "wrong_bytes", t->wrong_bytes);
	bad |= add_real(o, "hit_ratio",
			ratio((double)t->got, (double)t->blocks));
	bad |= add_real(o, "token_hit_ratio",
			ratio((double)t->got_tokens, (double)t->tokens));
	bad |= add_real(o, "seconds", (double)(t->end_ns - t->start_ns) / 1e9);
	bad |= add_latency(o, "lookup", &t->lookup);
	bad |= add_latency(o, "get", &t->get);
	bad |= add_latency(o, "put", &t->put_time);
	if (!bad)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *clients_json(const struct figures *f)
{
	json_t *list = json_array();

	for (uint64_t i = 0; list && i < f->n_clients; i++)
		if (json_array_append_new(list, client_json(f, i))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *to_json(const struct figures *f)
{
	const struct tally *t = f->sum;
	json_t *o = json_object();
	int bad = add_counts(o, f);

	bad |= add_real(o, "put_gb", put_bytes(f) / 1e9);
	bad |= add_real(o, "get_gb", got_bytes(f) / 1e9);
	bad |= add_real(o, "put_gb_per_s",
			rate_of_clients(f, put_bytes(f), t->put_ns));
	bad |= add_real(o, "get_gb_per_s",
			rate_of_clients(f, got_bytes(f), t->get_ns));
	bad |= add_latency(o, "lookup", &t->lookup);
	bad |= add_latency(o, "get", &t->get);
	bad |= add_latency(o, "put", &t->put_time);
	bad |= add_latency(o, "request", &t->request);
	bad |= add_pool(o, f);
	bad |= json_object_set_new(o, "clients", clients_json(f));
	if (bad) {
		json_decref(o);
		return NULL;
	}
	return o;
}

#define FIELDS 8

/*
 * Lists the fields of one kind of call, which moved @bytes in @ns altogether.
 */
static void fields_of(const struct figures *f, const char *call,
		      const struct tei_histogram *h, double bytes, uint64_t ns,
		      struct tei_field out[FIELDS])
{
	const struct tei_field fields[FIELDS] = {
		TEI_TEXT("call", call),
		TEI_COUNT("calls", h->n),
		TEI_REAL("p50_us", tei_histogram_us(h, 0.5)),
		TEI_REAL("p99_us", tei_histogram_us(h, 0.99)),
		TEI_REAL("p999_us", tei_histogram_us(h, 0.999)),
		TEI_REAL("gb", bytes / 1e9),
		TEI_REAL("gb_per_s", rate_of_clients(f, bytes, ns)),
		TEI_REAL("hit_ratio", f->hit_ratio),
	};

	memcpy(out, fields, sizeof(fields));
}

static void report_csv(const struct figures *f)
{
	const struct tally *s = f->sum;
	struct tei_csv csv = {.out = stdout};
	struct tei_field fields[FIELDS];

	fields_of(f, "lookup", &s->lookup, 0, s->lookup_ns, fields);
	tei_fields_csv_names(fields, FIELDS, &csv);
	tei_fields_csv(fields, FIELDS, &csv);
	fields_of(f, "get", &s->get, got_bytes(f), s->get_ns, fields);
	tei_fields_csv(fields, FIELDS, &csv);
	fields_of(f, "put", &s->put_time, put_bytes(f), s->put_ns, fields);
	tei_fields_csv(fields, FIELDS, &csv);
	fields_of(f, "request", &s->request, 0, 0, fields);
	tei_fields_csv(fields, FIELDS, &csv);
}

void figures_percentiles(const struct figures *f, struct tei_percentiles *p)
{
	tei_percentiles_add(p, "lookup of a request", &f->sum->lookup);
	tei_percentiles_add(p, "get of a request", &f->sum->get);
	tei_percentiles_add(p, "put of a request", &f->sum->put_time);
	tei_percentiles_add(p, "request", &f->sum->request);
}

/* ---- for people ---- */

static void print_line(const char *name, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void print_line(const char *name, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("  %-16s", name);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
}

static void print_work(const struct figures *f, const struct options *o,
		       const char *trace)
{
	char a[32], b[32], c[24];

	printf("replay of %s\n", trace);
	print_line("requests",
		   "%s in %.1f s, by %" PRIu64 " clients of %" PRIu64
		   " tenants",
		   tei_text_count(f->sum->requests, a), f->seconds,
		   f->n_clients, f->n_tenants);
	print_line("blocks", "%s of %s, value check %s",
		   tei_text_count(f->sum->blocks, b),
		   tei_text_bytes(f->block_bytes, c),
		   o->value_check ? "on" : "off");
	print_line("wrong bytes", "%s", tei_text_count(f->sum->wrong_bytes, a));
	print_line("errors", "%s", tei_text_count(f->sum->errors, a));
	putchar('\n');
}

static void print_hits(const struct figures *f)
{
	char a[32];

	print_line("hit ratio", "%6.2f %%  of blocks, %.2f %% of tokens",
		   100 * f->hit_ratio, 100 * f->token_hit_ratio);
	print_line("LRU", "%6.2f %%  (%s blocks, the bytes really kept)",
		   100 * f->lru_hit_ratio, tei_text_count(f->kept_blocks, a));
	print_line("ideal", "%6.2f %%  (a pool without limit)",
		   100 * f->ideal_hit_ratio);
	print_line("lost", "%s blocks evicted between look-up and get",
		   tei_text_count(f->sum->lost, a));
	putchar('\n');
}

static void latency_row(struct tei_table *t, const char *what,
			const struct tei_histogram *h, double bytes,
			double gb_per_s)
{
	char count[32];

	tei_table_row(t);
	tei_table_cell(t, "  %s", what);
	tei_table_cell(t, "%s", tei_text_count(h->n, count));
	tei_table_cell(t, "%.1f", tei_histogram_us(h, 0.5));
	tei_table_cell(t, "%.1f", tei_histogram_us(h, 0.99));
	tei_table_cell(t, "%.1f", tei_histogram_us(h, 0.999));
	if (bytes > 0) {
		tei_table_cell(t, "%.3f", bytes / 1e9);
		tei_table_cell(t, "%.2f", gb_per_s);
	}
}

static int print_calls(const struct figures *f)
{
	static const char *const head[] = {"  per request", "calls",   "p50 us",
					   "p99 us",        "p999 us", "GB",
					   "GB/s"};
	struct tei_table *t = tei_calloc(1, sizeof(*t));
	const struct tally *s = f->sum;

	if (!t)
		return -ENOMEM;
	tei_table_texts(t, head, sizeof(head) / sizeof(*head));
	latency_row(t, "look-up", &s->lookup, 0, 0);
	latency_row(t, "get", &s->get, got_bytes(f),
		    rate_of_clients(f, got_bytes(f), s->get_ns));
	latency_row(t, "put", &s->put_time, put_bytes(f),
		    rate_of_clients(f, put_bytes(f), s->put_ns));
	latency_row(t, "all of it", &s->request, 0, 0);
	tei_table_print(t, stdout);
	tei_free(t);
	putchar('\n');
	return 0;
}

static void client_row(struct tei_table *t, const struct figures *f, uint64_t i)
{
	const struct tally *c = &f->each[i];
	double bytes = (double)(c->got + c->put) * (double)f->block_bytes;
	char text[32];

	tei_table_row(t);
	tei_table_cell(t, "  client %d", (int)i);
	tei_table_cell(t, "%d", (int)(i % f->n_tenants));
	tei_table_cell(t, "%s", tei_text_count(c->requests, text));
	tei_table_cell(t, "%.2f %%",
		       100 * ratio((double)c->got, (double)c->blocks));
	tei_table_cell(t, "%.1f", tei_histogram_us(&c->get, 0.5));
	tei_table_cell(t, "%.1f", tei_histogram_us(&c->get, 0.99));
	tei_table_cell(t, "%.1f", tei_histogram_us(&c->put_time, 0.5));
	tei_table_cell(t, "%.1f", tei_histogram_us(&c->put_time, 0.99));
	tei_table_cell(t, "%.3f", bytes / 1e9);
	tei_table_cell(t, "%s", tei_text_count(c->no_room, text));
}

static int print_clients(const struct figures *f)
{
	static const char *const head[] = {
		"  each", "tenant",  "requests", "hit ratio", "get p50",
		"p99 us", "put p50", "p99 us",   "GB",        "no room"};
	struct tei_table *t = tei_calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	tei_table_texts(t, head, sizeof(head) / sizeof(*head));
	for (uint64_t i = 0; i < f->n_clients; i++)
		client_row(t, f, i);
	tei_table_print(t, stdout);
	tei_free(t);
	putchar('\n');
	return 0;
}

static void print_pool(const struct figures *f)
{
	const struct te_store_pool *p = &f->pool;
	char a[32], b[32];

	print_line(
		"pool", "%s of %s used (%.1f %%), %s objects",
		tei_text_bytes(p->used_bytes, a),
		tei_text_bytes(p->capacity_bytes, b),
		100 * ratio((double)p->used_bytes, (double)p->capacity_bytes),
		tei_text_count(p->objects, (char[32]){0}));
	print_line("evicted", "%s objects, %s",
		   tei_text_count(f->evicted_objects, a),
		   tei_text_bytes(f->evicted_bytes, b));
	print_line("put failed", "%s blocks, %s for want of room (-200)",
		   tei_text_count(f->sum->put_failed, a),
		   tei_text_count(f->sum->no_room, b));
	print_line("put again", "%s blocks, when there was no room at once",
		   tei_text_count(f->sum->put_retries, a));
	print_line("master", "%.0f bytes an object, %.0f of them its key",
		   bytes_per_object(f, p->master_metadata_bytes),
		   bytes_per_object(f, p->master_key_bytes));
	if (f->master_rss)
		print_line("", "%s resident", tei_text_bytes(f->master_rss, a));
	if (f->idle_percent >= 0)
		print_line("idle afterwards",
			   "%.2f %% of a core, busiest process",
			   f->idle_percent);
}

int figures_report(const struct figures *f, const struct options *o,
		   const char *trace)
{
	int rc;

	if (o->json)
		return tei_report_json(PROGRAM, to_json(f));
	if (o->csv) {
		report_csv(f);
		return 0;
	}
	print_work(f, o, trace);
	print_hits(f);
	rc = print_calls(f);
	if (!rc && f->n_clients > 1)
		rc = print_clients(f);
	print_pool(f);
	return rc;
}
