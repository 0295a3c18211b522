/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixed.c - the parent of a mixed load: starts processes, leads them through
 * the stages, and adds up what they did
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <te/store.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/cluster.h"
#include "perf/lib/interrupt.h"
#include "perf/lib/percentiles.h"
#include "perf/lib/process.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/lib/room.h"
#include "perf/store-perf/mix.h"
#include "perf/store-perf/mixed_report.h"
#include "perf/store-perf/results.h"

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
		tei_process_tell_end(&m->worker[i], "store-perf", i, rc);
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
 * A worker that ends before fails all. @meanwhile is called again and again, if
 * it is not NULL.
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

	for (unsigned int i = 0; !rc && i < m->n_workers; i++) {
		rc = tei_process_say(&m->worker[i], word);
		if (rc)
			tei_process_tell_end(&m->worker[i], "store-perf", i,
					     rc);
	}
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

/* Returns how long the workers may take, in ns. */
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

/* Ends all. -EIO: a process did not end well, so its figures prove nothing. */
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
	mixed_write_percentiles(&m->results, m->o);
	results_warn_behind(m->results.sum.behind, mix_workers(&m->plan),
			    m->plan.rate);
	rc = mixed_report(&m->results, m->o);
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
