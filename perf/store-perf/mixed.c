/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixed.c - the parent's part of a mixed load: processes, stages, sums
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <te/store.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/cluster.h"
#include "perf/lib/fields.h"
#include "perf/lib/interrupt.h"
#include "perf/lib/percentiles.h"
#include "perf/lib/process.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/lib/room.h"
#include "perf/store-perf/mix.h"
#include "perf/store-perf/results.h"

/* CPU time of a kind of process, in ns. */
struct mixed_cpu {
	uint64_t master, owners, workers;
};

struct mixed_results {
	const struct mix_plan *plan;
	struct mix_tally sum;
	double seconds;
	uint64_t put_retries, location_hits, location_misses;
	struct mixed_cpu cpu; /* with a running master only the workers' */
	struct te_store_pool before, after;
	struct tei_reference reference; /* with --reference */
	struct tei_percentiles percentiles;
	struct intervals intervals;
};

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
		json_object_set_new(o, name,
				    json_integer((json_int_t)f->code[i].n));
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
	json_object_set_new(j, "codes", codes_json(&r->sum.op[op]));
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
			json_object_set_new(o, mix_op_name(i), op_json(r, i));
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
		"{s:o, s:f, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}",
		"plan", plan_json(r->plan, o), "seconds", r->seconds,
		"operations", ops_json(r), "pool", pool_json(r),
		"cpu_ns_per_key", cpu_json(r, sum), "wrong_bytes",
		(json_int_t)r->sum.wrong_bytes, "retried",
		(json_int_t)r->sum.retried, "put_retries",
		(json_int_t)r->put_retries, "location_hits",
		(json_int_t)r->location_hits, "location_misses",
		(json_int_t)r->location_misses, "behind",
		(json_int_t)r->sum.behind, "gb_per_s",
		per_second(r, sum->bytes) / 1e9);

	if (report && o->reference)
		json_object_set_new(report, "reference",
				    tei_reference_json(&r->reference));
	if (report && o->interval)
		json_object_set_new(report, "series",
				    intervals_json(&r->intervals));
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
	tei_table_row(t);
	for (size_t i = 0; i < sizeof(head) / sizeof(*head); i++)
		tei_table_cell(t, "%s", head[i]);
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

static void write_percentiles(struct mixed_results *r, const struct options *o)
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

/* Print them to stdout. -ENOMEM, -EIO. */
static int report_mixed(const struct mixed_results *r, const struct options *o)
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
	printf("%s of %s keys (%s), %.1f s, %" PRIu64 " clients in %" PRIu64
	       " processes\n",
	       o->mix, tei_text_count(r->plan->n_keys, text), o->popularity,
	       r->seconds, r->plan->clients, r->plan->processes);
	rc = print_operations(r);
	print_rest(r, o, sum);
	tei_free(sum);
	return rc;
}

#define STOP_MS 30000
#define LOOK_MS 5                   /* between two looks at the workers */
#define LATE_NS (60 * TEI_NS_PER_S) /* a stage that ought to be over */

/* Keys of which half as many again as there is room for are asked for. */
#define KEYS_PER_ROOM 1.5

struct mixed {
	const struct options *o;
	struct tei_cluster cluster; /* all zero with --master */
	struct mix_plan plan;
	struct mix_share *share;
	int share_fd;
	struct tei_process worker[MIX_PROCESSES_MAX];
	unsigned int n_workers;
	struct tei_progress bar;
	struct te_store *store; /* the parent's own, for figures */
	struct tei_reference_run reference;
	struct mixed_results results;
};

static _Atomic bool interrupted;

/* ---- start ---- */

static uint64_t own_pool(const struct options *o)
{
	return o->pool_bytes ? o->pool_bytes
			     : o->working_set + o->working_set / 4;
}

/* Tells whether this host has the memory for workers, pool and all objects. */
static bool memory_fits(const struct mixed *m)
{
	const struct mix_plan *plan = &m->plan;
	uint64_t pool = m->o->master ? 0 : own_pool(m->o);
	uint64_t objects =
		pool / tei_pool_extent_bytes((uint64_t)mix_mean_size(plan));
	uint64_t need = pool + objects * TEI_ROOM_OBJECT_BYTES;
	char what[80], count[32];

	need += mix_workers(plan) * plan->batch * plan->max_size;
	need += plan->processes * (plan->max_size + MIX_SPARE_BYTES);
	if (m->o->reference)
		need += TEI_REFERENCE_SETS * m->o->working_set;
	snprintf(what, sizeof(what), "up to %s keys in the own pool take",
		 tei_text_count(objects, count));
	return tei_room_fits("store-perf", what, need,
			     "give a smaller --pool-bytes or --working-set, "
			     "or fewer --clients");
}

static int start_pool(struct mixed *m)
{
	const struct options *o = m->o;
	int rc;

	if (o->master) {
		snprintf(m->plan.master, sizeof(m->plan.master), "%s",
			 o->master);
		return 0;
	}
	rc = tei_cluster_start(&m->cluster, (unsigned int)o->owners,
			       own_pool(o), o->remote_node);
	memcpy(m->plan.master, m->cluster.name, sizeof(m->cluster.name));
	return rc;
}

static void choose_keys(struct mixed *m, const struct te_store_pool *pool)
{
	double each = (double)tei_pool_extent_bytes(
		(uint64_t)mix_mean_size(&m->plan));
	double room = (double)pool->capacity_bytes / each;
	char keys[32], size[24], fit[32];

	if (!m->plan.n_keys)
		m->plan.n_keys = (uint64_t)(KEYS_PER_ROOM * room) + 1;
	tei_popularity_init(&m->plan.popularity, m->plan.n_keys,
			    m->plan.popularity.theta);
	if (!m->plan.prefill)
		return;
	fprintf(stderr,
		"store-perf: puts %s keys of %s first; the pool has room for "
		"%s\n",
		tei_text_count(m->plan.n_keys, keys),
		tei_text_bytes((uint64_t)mix_mean_size(&m->plan), size),
		tei_text_count((uint64_t)room, fit));
}

static int ask_pool(struct mixed *m, struct te_store_pool *out)
{
	int code = te_store_pool(m->store, out);

	if (code)
		fprintf(stderr, "store-perf: figures of the pool: %s\n",
			te_store_strerror(code));
	return code ? -EIO : 0;
}

/* Joins to see the pool, and leaves: workers shall not inherit a store. */
static int look_at_pool(struct mixed *m)
{
	int rc = tei_pool_join(m->plan.master, m->o->host, NULL, &m->store);
	struct te_store_pool pool;

	if (rc)
		return rc;
	rc = tei_cluster_await(&m->cluster, m->store);
	if (!rc)
		rc = ask_pool(m, &pool);
	if (!rc)
		choose_keys(m, &pool);
	te_store_close(m->store);
	m->store = NULL;
	return rc;
}

static int make_share(struct mixed *m)
{
	int rc;

	m->plan.run = (uint64_t)getpid() << 40 ^ tei_wall_us();
	rc = mix_share_create(&m->plan, &m->share, &m->share_fd);
	if (rc)
		fprintf(stderr, "store-perf: shared memory: %s\n",
			strerror(-rc));
	return rc;
}

static int start_worker(struct mixed *m)
{
	char exe[PATH_MAX], role[] = "--role=worker", fd[48], index[48];
	char cache[64];
	char *argv[] = {exe, role, fd, index, cache, NULL};
	int rc = tei_process_path(NULL, exe);

	if (rc)
		return rc;
	snprintf(fd, sizeof(fd), "--share_fd=%d", m->share_fd);
	snprintf(index, sizeof(index), "--index=%u", m->n_workers);
	snprintf(cache, sizeof(cache), "--location_cache=%" PRIu64,
		 m->o->location_cache);
	rc = tei_process_start_helper(&m->worker[m->n_workers], "worker", argv,
				      m->share_fd);
	m->n_workers += !rc;
	return rc;
}

/* ---- stages ---- */

static int hear_one(struct mixed *m, unsigned int i, const char *word)
{
	char line[TEI_PROCESS_LINE];
	int rc = tei_process_hear(&m->worker[i], line, 0);

	if (rc == -ETIMEDOUT)
		return -EAGAIN;
	if (!rc && strcmp(line, word) != 0)
		rc = -EPROTO;
	if (rc)
		fprintf(stderr,
			"store-perf: worker %u (pid %d) ended early: %s\n", i,
			(int)m->worker[i].pid, strerror(-rc));
	return rc;
}

static void show_filled(struct mixed *m)
{
	tei_progress_show(
		&m->bar,
		atomic_load_explicit(&m->share->n_filled, memory_order_relaxed),
		m->plan.n_keys);
}

/* Passes an interrupt on to the workers, and takes points. */
static void watch_load(struct mixed *m)
{
	if (atomic_load_explicit(&interrupted, memory_order_relaxed))
		atomic_store_explicit(&m->share->ended, true,
				      memory_order_relaxed);
	(void)intervals_look(&m->results.intervals, tei_now_ns(), LOOK_MS);
}

/*
 * Waits until each worker has said @word, for @limit_ns (UINT64_MAX: for ever).
 * One that ends before fails all. @meanwhile is called again and again, if it
 * is not NULL.
 */
static int await_all(struct mixed *m, const char *word, uint64_t limit_ns,
		     void (*meanwhile)(struct mixed *m))
{
	uint64_t now = tei_now_ns();
	uint64_t deadline =
		limit_ns < UINT64_MAX - now ? now + limit_ns : UINT64_MAX;
	bool said[MIX_PROCESSES_MAX] = {false};
	unsigned int n = 0;
	int rc;

	while (n < m->n_workers) {
		for (unsigned int i = 0; i < m->n_workers; i++) {
			rc = said[i] ? -EAGAIN : hear_one(m, i, word);
			if (rc && rc != -EAGAIN)
				return rc;
			said[i] |= !rc;
			n += !rc;
		}
		if (n < m->n_workers && tei_now_ns() > deadline) {
			fprintf(stderr,
				"store-perf: %u workers not %s in time\n",
				m->n_workers - n, word);
			return -ETIMEDOUT;
		}
		if (meanwhile)
			meanwhile(m);
		if (n < m->n_workers)
			usleep(LOOK_MS * 1000);
	}
	return 0;
}

static int say_all(struct mixed *m, const char *word)
{
	int rc = 0;

	for (unsigned int i = 0; !rc && i < m->n_workers; i++)
		rc = tei_process_say(&m->worker[i], word);
	return rc;
}

static struct mixed_cpu cpu_of_all(const struct mixed *m)
{
	struct mixed_cpu cpu = {.master =
					tei_process_cpu_ns(&m->cluster.master)};

	for (unsigned int i = 0; i < m->cluster.n_owners; i++)
		cpu.owners += tei_process_cpu_ns(&m->cluster.owner[i]);
	for (unsigned int i = 0; i < m->n_workers; i++)
		cpu.workers += tei_process_cpu_ns(&m->worker[i]);
	return cpu;
}

/* For how long the workers may take, in ns. */
static uint64_t longest_load(const struct mix_plan *plan)
{
	return plan->duration_ns
		       ? plan->warm_up_ns + plan->duration_ns + LATE_NS
		       : UINT64_MAX;
}

static void begin_load(struct mixed *m)
{
	struct intervals *intervals = &m->results.intervals;
	uint64_t now = tei_now_ns(), begin = now + m->plan.warm_up_ns;

	tei_interrupt_catch(&interrupted);
	intervals->interval_ns = m->o->interval * TEI_NS_PER_MS;
	intervals->print = !m->o->json && !m->o->csv;
	intervals->keep = m->o->json;
	m->share->start_ns = now;
	pace_begin(&m->share->pace, begin);
	intervals_begin(intervals, &m->share->pace, begin);
}

static int run_stages(struct mixed *m)
{
	struct mixed_results *r = &m->results;
	struct mixed_cpu before;
	int rc = say_all(m, "fill");

	tei_progress_begin(&m->bar, "preparing");
	if (!rc)
		rc = await_all(m, "filled", 600 * TEI_NS_PER_S, show_filled);
	tei_progress_end(&m->bar);
	if (!rc)
		rc = ask_pool(m, &r->before);
	if (rc)
		return rc;
	before = cpu_of_all(m);
	begin_load(m);
	rc = say_all(m, "go");
	if (!rc)
		rc = await_all(m, "done", longest_load(&m->plan), watch_load);
	r->cpu = cpu_of_all(m);
	r->cpu.master -= before.master;
	r->cpu.owners -= before.owners;
	r->cpu.workers -= before.workers;
	return rc ? rc : ask_pool(m, &r->after);
}

/* ---- the whole ---- */

static int open_reference(struct mixed *m)
{
	m->reference.process = TEI_PROCESS_NONE;
	if (!m->o->reference)
		return 0;
	return tei_reference_open(&m->reference, m->o->working_set, 1,
				  m->o->pin);
}

static int reference_round(struct mixed *m)
{
	return m->o->reference ? tei_reference_round(&m->reference) : 0;
}

static int start_all(struct mixed *m)
{
	int rc = open_reference(m);

	if (m->o->pin)
		tei_process_pin(1);
	if (!rc)
		rc = start_pool(m);
	if (m->o->pin)
		tei_process_pin(0);
	if (!rc)
		rc = look_at_pool(m);
	if (!rc)
		rc = make_share(m);
	while (!rc && m->n_workers < m->plan.processes)
		rc = start_worker(m);
	if (!rc)
		rc = await_all(m, "ready", LATE_NS, NULL);
	if (!rc)
		rc = tei_pool_join(m->plan.master, m->o->host, NULL, &m->store);
	return rc;
}

static void sum_up(struct mixed *m)
{
	struct mixed_results *r = &m->results;

	r->plan = &m->plan;
	for (uint64_t i = 0; i < mix_workers(&m->plan); i++)
		mix_tally_add(&r->sum, &m->share->tally[i]);
	r->seconds = (double)(r->sum.end_ns - r->sum.start_ns) / 1e9;
	intervals_end(&r->intervals, r->sum.end_ns);
	r->put_retries = atomic_load(&m->share->put_retries);
	r->location_hits = atomic_load(&m->share->location_hits);
	r->location_misses = atomic_load(&m->share->location_misses);
	r->reference = tei_reference_median(&m->reference);
}

/* Tells whether it proves anything: right bytes, and anything at all. */
static int check_result(const struct mixed *m)
{
	const struct mix_tally *t = &m->results.sum;
	uint64_t keys = 0, failed = 0;

	for (unsigned int i = 0; i < MIX_OPS; i++) {
		keys += t->op[i].keys;
		failed += t->op[i].failed;
	}
	if (t->wrong_bytes)
		fprintf(stderr, "store-perf: %" PRIu64 " wrong bytes\n",
			t->wrong_bytes);
	if (keys == failed)
		fprintf(stderr, "store-perf: no key of %" PRIu64 " succeeded\n",
			keys);
	return t->wrong_bytes || keys == failed ? -EIO : 0;
}

/* -EIO when a process did not end well: then its figures prove nothing. */
static int stop_all(struct mixed *m, bool early)
{
	int bad = 0, code;

	for (unsigned int i = 0; early && i < m->n_workers; i++)
		(void)tei_process_terminate(&m->worker[i], STOP_MS);
	while (m->n_workers) {
		code = tei_process_stop(&m->worker[--m->n_workers], STOP_MS);
		if (code)
			fprintf(stderr, "store-perf: worker %u ended with %d\n",
				m->n_workers, code);
		bad |= code;
	}
	te_store_close(m->store);
	bad |= tei_cluster_stop(&m->cluster);
	tei_reference_close(&m->reference);
	if (m->share_fd >= 0)
		close(m->share_fd);
	mix_share_close(m->share);
	return bad ? -EIO : 0;
}

static int measure_mix(struct mixed *m)
{
	int rc = start_all(m);

	if (!rc)
		rc = reference_round(m);
	if (!rc)
		rc = run_stages(m);
	if (!rc)
		rc = reference_round(m);
	if (rc)
		return rc;
	sum_up(m);
	write_percentiles(&m->results, m->o);
	results_warn_behind(m->results.sum.behind, mix_workers(&m->plan),
			    m->plan.rate);
	rc = report_mixed(&m->results, m->o);
	return check_result(m) ? -EIO : rc;
}

int mixed_run(const struct options *o)
{
	struct mixed *m = tei_calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return 1;
	m->o = o;
	m->share_fd = -1;
	if (mix_plan_make(o, &m->plan) || !memory_fits(m) ||
	    tei_percentiles_open(&m->results.percentiles, "store-perf",
				 o->histogram)) {
		tei_free(m);
		return 2;
	}
	rc = measure_mix(m);
	if (stop_all(m, rc != 0))
		rc = -EIO;
	if (tei_percentiles_close(&m->results.percentiles))
		rc = -EIO;
	intervals_fini(&m->results.intervals);
	tei_free(m);
	return rc ? 1 : 0;
}
