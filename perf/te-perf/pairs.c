/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.c - rows of many pairs of hosts that move bytes at once
 *
 * A block of the report is one shape of load: a row for each pair, and one for
 * all of them. This process moves nothing; it tells the hosts when to begin,
 * and gathers what came of it.
 */
#include "perf/te-perf/pairs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/report.h"
#include "perf/lib/sleep.h"
#include "perf/te-perf/errors.h"
#include "perf/te-perf/hosts.h"
#include "perf/te-perf/results.h"
#include "perf/te-perf/submitter.h"

#define LOOK_NS (100 * TEI_NS_PER_MS)

struct run {
	const struct options *options;
	struct hosts hosts;
	struct tei_progress progress;
	struct results results;
	struct load_result *pair; /* pair[options->pairs.n], of one round */
	struct load_result all;
	uint64_t seed;
	uint64_t done_ms, total_ms;
	bool failed; /* the load of a pair has failed, which was said */
};

/* ---- while it runs ---- */

/*
 * Asks for the requests of all hosts and the pairs that run. -EIO: one is lost.
 */
static int ask_progress(struct run *run, uint64_t *requests, uint32_t *running)
{
	struct hosts *h = &run->hosts;
	char answer[TEI_PROCESS_LINE];
	uint64_t n;
	uint32_t pairs;

	*requests = *running = 0;
	hosts_say(h, "progress");
	for (uint32_t i = 0; i < h->n; i++) {
		if (!h->host[i].submits ||
		    host_hear(&h->host[i], "progress ", answer))
			continue;
		if (sscanf(answer, "progress %" SCNu64 " %u", &n, &pairs) !=
		    2) {
			(void)host_misheard(&h->host[i], answer);
			continue;
		}
		*requests += n;
		*running += pairs;
	}
	return hosts_lost(h) ? -EIO : 0;
}

static void print_interval(const struct run *run, const struct row *row,
			   double end_s, double seconds, uint64_t requests)
{
	double rate = (double)requests / seconds;

	if (run->options->json || run->options->csv)
		return;
	printf("%8.2f s  %7.2f GB/s  %10.0f requests/s\n", end_s,
	       rate * (double)row->size / 1e9, rate);
	fflush(stdout);
}

/* Waits until all loads are over. -EIO: a host is lost. */
static int watch_loads(struct run *run, const struct row *row)
{
	uint64_t start = tei_now_ns(), now = start, begin = now, counted = 0;
	uint64_t interval = run->options->interval * TEI_NS_PER_MS;
	uint64_t tick = start + interval, requests;
	bool stopped = false;
	uint32_t running;
	int rc;

	do {
		tei_sleep_ns(interval && interval < LOOK_NS ? interval
							    : LOOK_NS);
		now = tei_now_ns();
		tei_progress_show(&run->progress,
				  run->done_ms + (now - start) / TEI_NS_PER_MS,
				  run->total_ms);
		if (load_is_ended() && !stopped) {
			stopped = true;
			(void)hosts_ask(&run->hosts, false, "stop", "stopping");
		}
		rc = ask_progress(run, &requests, &running);
		if (rc || !interval || now < tick)
			continue;
		print_interval(run, row, (double)(now - start) / 1e9,
			       (double)(now - begin) / 1e9, requests - counted);
		counted = requests;
		begin = now;
		tick += interval;
	} while (!rc && running);
	if (rc)
		hosts_hurry(&run->hosts);
	return rc;
}

/* ---- results ---- */

static void say_pair(const struct row *row, int error)
{
	fprintf(stderr, "te-perf: %s to %s: %s\n", row->from, row->to,
		te_strerror(error));
}

/* Reads a line "failed ERROR N", or returns false. */
static bool read_failed(const char *line, struct load_error errors[LOAD_ERRORS])
{
	struct load_error kind[LOAD_ERRORS] = {{0}};
	char name[ERROR_NAME_MAX];

	if (sscanf(line, "failed %31s %" SCNu64, name, &kind[0].n) != 2)
		return false;
	kind[0].error = error_named(name);
	load_add_errors(errors, kind);
	return true;
}

/* Reads a line "bucket I N", or returns false. */
static bool read_bucket(const char *line, struct tei_histogram *h)
{
	unsigned int i;
	uint64_t n;

	if (sscanf(line, "bucket %u %" SCNu64, &i, &n) != 2 ||
	    i >= TEI_HISTOGRAM_BUCKETS)
		return false;
	h->n += n - h->bucket[i];
	h->bucket[i] = n;
	return true;
}

/* Hears what follows "moved" for a pair, to its "end". */
static int hear_rest(struct host *host, struct load_result *r)
{
	struct tei_histogram *h = &r->latency;
	char answer[TEI_PROCESS_LINE];
	bool good;

	for (;;) {
		if (host_hear(host, "failed |latency |bucket |end", answer))
			return -EIO;
		if (!strncmp(answer, "end", 3))
			return 0;
		if (*answer == 'f')
			good = read_failed(answer, r->errors);
		else if (*answer == 'b')
			good = read_bucket(answer, h);
		else
			good = sscanf(answer, "latency %" SCNu64 " %" SCNu64,
				      &h->sum, &h->max) == 2;
		if (!good)
			return host_misheard(host, answer);
	}
}

static int hear_pair(struct run *run, struct host *host, struct row *row,
		     struct load_result *r)
{
	char answer[TEI_PROCESS_LINE], carrier[sizeof(row->carrier)];
	char error[ERROR_NAME_MAX];

	memset(r, 0, sizeof(*r));
	r->late_ns = LOAD_NEVER_LATE;
	if (host_hear(host, "moved ", answer))
		return -EIO;
	if (sscanf(answer,
		   "moved %31s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNd64
		   " %" SCNu64 " %31s",
		   error, &r->requests, &r->elapsed_ns, &r->gap_ns, &r->late_ns,
		   &r->behind, carrier) != 7)
		return host_misheard(host, answer);
	if (strcmp(carrier, "-") != 0)
		snprintf(row->carrier, sizeof(row->carrier), "%s", carrier);
	if (error_named(error)) {
		say_pair(row, error_named(error));
		run->failed = true;
	}
	return hear_rest(host, r);
}

/* Hears results; each host tells of its pairs in their order. */
static int hear_results(struct run *run, struct row *block)
{
	const struct scheme *s = &run->options->pairs;
	int rc = 0;

	hosts_say(&run->hosts, "result");
	for (uint32_t i = 0; i < s->n; i++) {
		struct host *host = &run->hosts.host[s->pair[i].from];

		if (hear_pair(run, host, &block[i], &run->pair[i]))
			rc = -EIO;
	}
	return rc;
}

static int hear_checks(struct run *run, struct row *block)
{
	const struct scheme *s = &run->options->pairs;
	char line[64], answer[TEI_PROCESS_LINE], error[ERROR_NAME_MAX];
	uint64_t checked, wrong;

	if (run->options->verify <= 0)
		return 0;
	snprintf(line, sizeof(line), "check %.17g", run->options->verify);
	hosts_say(&run->hosts, line);
	for (uint32_t i = 0; i < s->n; i++) {
		struct host *host = &run->hosts.host[s->pair[i].from];

		if (host_hear(host, "checked ", answer))
			continue;
		if (sscanf(answer, "checked %31s %" SCNu64 " %" SCNu64, error,
			   &checked, &wrong) != 3) {
			(void)host_misheard(host, answer);
			continue;
		}
		block[i].checked_bytes += checked;
		block[i].wrong_bytes += wrong;
		if (!error_named(error))
			continue;
		say_pair(&block[i], error_named(error));
		run->failed = true;
	}
	return hosts_lost(&run->hosts) ? -EIO : 0;
}

static void add_to_all(struct load_result *all, const struct load_result *r)
{
	all->requests += r->requests;
	all->behind += r->behind;
	load_add_errors(all->errors, r->errors);
	if (r->late_ns > all->late_ns)
		all->late_ns = r->late_ns;
	if (r->elapsed_ns > all->elapsed_ns)
		all->elapsed_ns = r->elapsed_ns;
	if (r->gap_ns > all->gap_ns)
		all->gap_ns = r->gap_ns;
	tei_histogram_merge(&all->latency, &r->latency);
}

static int fill_row(struct run *run, struct row *row,
		    const struct load_result *r, uint64_t cpu_ns)
{
	double *v = row->v[row->n_rounds];

	for (enum figure f = 0; f < N_FIGURES; f++)
		v[f] = NAN;
	if (r->elapsed_ns)
		row_figures(row, r, cpu_ns, v);
	row->n_rounds++;
	return row_add(row, run->options, r);
}

/* Fills all rows but for compared bytes, which the rows of pairs have alone. */
static int fill_block(struct run *run, struct row *block, uint64_t cpu_ns)
{
	uint32_t n = run->options->pairs.n;
	struct row *total = &block[n];
	int rc = 0;

	memset(&run->all, 0, sizeof(run->all));
	run->all.late_ns = LOAD_NEVER_LATE;
	for (uint32_t i = 0; !rc && i < n; i++) {
		add_to_all(&run->all, &run->pair[i]);
		rc = fill_row(run, &block[i], &run->pair[i], 0);
		if (*block[i].carrier)
			memcpy(total->carrier, block[i].carrier,
			       sizeof(total->carrier));
	}
	return rc ? rc : fill_row(run, total, &run->all, cpu_ns);
}

/* ---- a round of a block ---- */

static unsigned int flags_of(const struct options *o)
{
	bool stamp = o->verify >= 100 && !locations_have_gpu(&o->ours);

	return (o->hot ? SUBMITTER_HOT : 0) |
	       (o->random ? SUBMITTER_RANDOM : 0) |
	       (o->unaligned ? SUBMITTER_UNALIGNED : 0) |
	       (stamp ? SUBMITTER_STAMP : 0) |
	       (o->keep_going ? SUBMITTER_KEEP_GOING : 0);
}

static int prepare_loads(struct run *run, const struct row *row)
{
	const struct options *o = run->options;
	uint64_t pause_ns = o->pause * TEI_NS_PER_MS;
	uint64_t interval_ns = o->interval * TEI_NS_PER_MS;
	char line[TEI_PROCESS_LINE];

	run->seed += PAIRS_MAX; /* each pair has a seed of its own */
	snprintf(line, sizeof(line),
		 "load %u %" PRIu64 " %u %u %" PRIu64 " %" PRIu64 " %" PRIu64
		 " %" PRIu64 " %" PRIu64 " %u %" PRIu64,
		 row->read_share, row->size, row->batch, row->threads,
		 o->duration, o->timeout, o->rate, pause_ns, interval_ns,
		 flags_of(o), run->seed);
	return hosts_ask(&run->hosts, false, line, "prepared");
}

static int measure_block(struct run *run, struct row *block)
{
	uint64_t before, after;
	int rc = prepare_loads(run, block), lost;

	if (rc)
		return rc;
	before = hosts_cpu_ns(&run->hosts);
	rc = hosts_ask(&run->hosts, false, "go", "going");
	if (!rc)
		rc = watch_loads(run, block);
	/* When a host is lost, the others still tell what they have done. */
	if (rc)
		(void)hosts_ask(&run->hosts, false, "stop", "stopping");
	lost = hear_results(run, block);
	after = hosts_cpu_ns(&run->hosts);
	if (!rc)
		rc = lost;
	if (!rc)
		rc = hear_checks(run, block);
	lost = fill_block(run, block, before && after ? after - before : 0);
	return rc ? rc : lost;
}

static int measure_all(struct run *run)
{
	const struct options *o = run->options;
	size_t each = o->pairs.n + 1, n = run->results.n_rows / each;
	int rc = 0;

	tei_progress_begin(&run->progress, "measuring");
	if (o->interval || !o->duration)
		run->progress.shown = false;
	run->total_ms = n * o->rounds * o->duration;
	for (uint64_t round = 0; !rc && round < o->rounds; round++) {
		for (size_t i = 0; !rc && i < n && !load_is_ended(); i++) {
			rc = measure_block(run, &run->results.row[i * each]);
			run->done_ms += o->duration;
		}
	}
	tei_progress_end(&run->progress);
	results_forget_unmeasured(&run->results);
	return rc;
}

/* ---- rows ---- */

static void add_block(struct run *run, const struct row *shape)
{
	const struct scheme *s = &run->options->pairs;
	struct results *r = &run->results;

	for (uint32_t i = 0; i <= s->n; i++) {
		struct row *row = &r->row[r->n_rows++];

		*row = *shape;
		row->from = row->to = "all";
		if (i == s->n)
			continue;
		row->from = run->hosts.host[s->pair[i].from].name;
		row->to = run->hosts.host[s->pair[i].to].name;
	}
}

static void add_directions(struct run *run, struct row *shape)
{
	struct direction each[2];
	size_t n = results_directions(run->options, each);

	for (size_t i = 0; i < n; i++) {
		shape->op = each[i].op;
		shape->read_share = each[i].read_share;
		add_block(run, shape);
	}
}

static int add_rows(struct run *run)
{
	const struct options *o = run->options;
	struct row *shape = tei_calloc(1, sizeof(*shape));

	if (!shape)
		return -ENOMEM;
	for (int s = 0; s < o->sizes.n; s++)
		for (int b = 0; b < o->batches.n; b++)
			for (int t = 0; t < o->thread_counts.n; t++) {
				shape->size = o->sizes.v[s];
				shape->batch = (uint32_t)o->batches.v[b];
				shape->threads =
					(uint32_t)o->thread_counts.v[t];
				add_directions(run, shape);
			}
	tei_free(shape);
	return 0;
}

/* ---- set-up ---- */

static int measure_pairs(struct run *run)
{
	int rc = hosts_open(&run->hosts, run->options), reported;

	if (!rc)
		rc = add_rows(run);
	if (rc)
		return rc;
	rc = measure_all(run);
	reported = results_report(&run->results, run->options);
	if (!rc && run->failed)
		rc = -EIO;
	return rc ? rc : reported;
}

int pairs_main(const struct options *o)
{
	struct run *run = tei_calloc(1, sizeof(*run));
	int rc, closed, code = 1;

	if (!run)
		return 1;
	load_end_at_interrupt();
	run->options = o;
	run->pair = tei_calloc(o->pairs.n, sizeof(*run->pair));
	if (!run->pair)
		goto free_run;
	if (results_open(&run->results, o)) {
		code = 2;
		goto free_run;
	}
	rc = measure_pairs(run);
	closed = hosts_close(&run->hosts);
	code = rc == -EINVAL ? 2 : rc || closed ? 1 : 0;
	results_fini(&run->results);
free_run:
	tei_free(run->pair);
	tei_free(run);
	return code;
}
