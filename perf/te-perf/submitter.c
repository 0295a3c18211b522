/* SPDX-License-Identifier: Apache-2.0 */
/* submitter.c - a target that also submits requests */
#include "perf/te-perf/submitter.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "perf/te-perf/errors.h"
#include "perf/te-perf/load.h"
#include "perf/te-perf/target.h"
#include "perf/te-perf/verify.h"

#define OPEN_MS 300000 /* other hosts are as busy as ours */

struct submitter_pair {
	te_segment_id segment;
	struct side remote;  /* its share of the other's memory */
	uint32_t out;        /* its share of ours */
	struct memory local; /* that share; while there is a load */
	struct load load;
	struct load_result result;
	struct series series;
	uint64_t seed;
	pthread_t thread;
	bool started;         /* its thread is to be joined */
	_Atomic bool running; /* cleared by its thread */
	int error;
	struct rails before;
};

static void say_error(const char *what, int error)
{
	printf("error %s: %s\n", what, te_strerror(error));
}

/* ---- pairs ---- */

static int open_pair(struct submitter *s, struct submitter_pair *p,
		     const char *name, const struct locations *theirs,
		     uint64_t len)
{
	int rc = te_segment_open(s->engine, name, OPEN_MS, &p->segment);

	return rc ? rc
		  : target_side(s->engine, p->segment, theirs, len, &p->remote);
}

static void close_pair(struct submitter *s, struct submitter_pair *p)
{
	series_fini(&p->series);
	memory_share_close(&p->local);
	if (p->segment)
		te_segment_close(s->engine, p->segment);
	tei_free(p);
}

static void add_pair(struct submitter *s, const char *line)
{
	char name[TEI_PROCESS_LINE], text[LOCATIONS_LEN];
	struct submitter_pair *p = tei_calloc(1, sizeof(*p));
	struct locations theirs;
	uint32_t in, shares;
	uint64_t len;
	int rc = -EINVAL;

	if (!p) {
		say_error("pair", -ENOMEM);
		return;
	}
	if (s->n_pairs < sizeof(s->pair) / sizeof(*s->pair) &&
	    sscanf(line, "pair %511s %u %u %u %" SCNu64 " %255s", name, &in,
		   &p->out, &shares, &len, text) == 6 &&
	    shares && in < shares && p->out < shares &&
	    (!s->n_pairs || shares == s->shares) && len &&
	    !locations_parse(&theirs, text))
		rc = open_pair(s, p, name, &theirs, len);
	if (rc) {
		close_pair(s, p);
		say_error("pair", rc);
		return;
	}
	s->shares = shares;
	p->remote = side_share(&p->remote, in, shares);
	s->pair[s->n_pairs++] = p;
	puts("pair");
}

static void open_local(struct submitter *s, const char *line)
{
	char text[LOCATIONS_LEN];
	struct locations locations;
	uint64_t len;
	int foreign, rc = -EINVAL;

	if (!s->local.side.n &&
	    sscanf(line, "local %" SCNu64 " %d %255s", &len, &foreign, text) ==
		    3 &&
	    len && len <= s->options->working_set &&
	    !locations_parse(&locations, text))
		rc = memory_open(&s->local, s->engine, &locations, foreign, len,
				 TE_ACCESS_LOCAL);
	if (rc)
		say_error("local memory", rc);
	else
		puts("local");
}

/* ---- a load ---- */

static int read_load(const char *line, struct load *l, uint64_t *interval_ns,
		     uint64_t *seed)
{
	unsigned int flags;
	int n = sscanf(line,
		       "load %u %" SCNu64 " %u %u %" SCNu64 " %u %" SCNu64
		       " %" SCNu64 " %" SCNu64 " %u %" SCNu64,
		       &l->read_share, &l->size, &l->batch, &l->n_threads,
		       &l->duration_ms, &l->timeout_ms, &l->rate, &l->pause_ns,
		       interval_ns, &flags, seed);

	if (n != 11 || l->read_share > 100 || !l->size || !l->batch ||
	    l->batch > LOAD_BATCH_MAX || !l->n_threads ||
	    l->n_threads > LOAD_THREADS_MAX || l->rate > LOAD_RATE_MAX)
		return -EINVAL;
	l->hot = flags & SUBMITTER_HOT;
	l->random = flags & SUBMITTER_RANDOM;
	l->unaligned = flags & SUBMITTER_UNALIGNED;
	l->stamp = flags & SUBMITTER_STAMP;
	l->keep_going = flags & SUBMITTER_KEEP_GOING;
	return 0;
}

/* Gives the pair its share of memory and new bytes in it. */
static int prepare_pair(struct submitter *s, struct submitter_pair *p,
			const struct load *wanted, uint64_t interval_ns)
{
	memory_share_close(&p->local);
	p->local = memory_share(&s->local, p->out, s->shares);
	p->load = *wanted;
	p->load.engine = s->engine;
	p->load.segment = p->segment;
	p->load.local = p->local.side;
	p->load.remote = p->remote;
	p->series.interval_ns = interval_ns;
	p->series.last_only = true;
	p->error = 0;
	memset(&p->result, 0, sizeof(p->result));
	if (load_share(&p->load) < p->load.batch)
		return -EINVAL;
	return verify_prepare(&p->load, &p->local, p->seed);
}

static void prepare_load(struct submitter *s, const char *line)
{
	struct load wanted = {.size = 0};
	uint64_t interval_ns, seed;
	int rc = read_load(line, &wanted, &interval_ns, &seed);

	if (!s->local.side.n)
		rc = -EINVAL;
	for (uint32_t i = 0; !rc && i < s->n_pairs; i++) {
		s->pair[i]->seed = seed + i;
		if (s->pair[i]->started)
			rc = -EBUSY;
		else
			rc = prepare_pair(s, s->pair[i], &wanted, interval_ns);
	}
	if (rc)
		say_error("load", rc);
	else
		puts("prepared");
}

static void *run_pair(void *arg)
{
	struct submitter_pair *p = arg;

	p->error = load_run(&p->load, &p->series, &p->result);
	atomic_store(&p->running, false);
	return NULL;
}

static void start_pair(struct submitter *s, struct submitter_pair *p)
{
	int rc;

	if (p->started || !p->load.size)
		return;
	rails_read(s->engine, &p->before);
	atomic_store(&p->series.counted, 0);
	atomic_store(&p->running, true);
	rc = tei_thread_start(&p->thread, "pair", run_pair, p);
	p->started = !rc; /* from then on the error is the thread's */
	if (!rc)
		return;
	p->error = rc;
	atomic_store(&p->running, false);
}

static void start_pairs(struct submitter *s)
{
	for (uint32_t i = 0; i < s->n_pairs; i++)
		start_pair(s, s->pair[i]);
	puts("going");
}

static void tell_progress(const struct submitter *s)
{
	uint64_t requests = 0;
	uint32_t running = 0;

	for (uint32_t i = 0; i < s->n_pairs; i++) {
		requests += atomic_load(&s->pair[i]->series.counted);
		running += atomic_load(&s->pair[i]->running);
	}
	printf("progress %" PRIu64 " %u\n", requests, running);
}

/* ---- what came of it ---- */

static void join_pair(struct submitter_pair *p)
{
	if (p->started)
		pthread_join(p->thread, NULL);
	p->started = false;
}

static void tell_failures(const struct load_error errors[LOAD_ERRORS])
{
	for (size_t i = 0; i < LOAD_ERRORS; i++)
		if (errors[i].n)
			printf("failed %s %" PRIu64 "\n",
			       error_name(errors[i].error), errors[i].n);
}

static void tell_latency(const struct tei_histogram *h)
{
	printf("latency %" PRIu64 " %" PRIu64 "\n", h->sum, h->max);
	for (unsigned int i = 0; i < TEI_HISTOGRAM_BUCKETS; i++)
		if (h->bucket[i])
			printf("bucket %u %" PRIu64 "\n", i, h->bucket[i]);
}

static void tell_pair(const struct submitter *s, const struct submitter_pair *p)
{
	const struct load_result *r = &p->result;
	struct rails after, moved;
	const char *carrier;

	rails_read(s->engine, &after);
	rails_since(&p->before, &after, &moved);
	carrier = rails_carrier(&moved);
	printf("moved %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64
	       " %" PRIu64 " %s\n",
	       error_name(p->error), r->requests, r->elapsed_ns, r->gap_ns,
	       r->late_ns, r->behind, *carrier ? carrier : "-");
	tell_failures(r->errors);
	tell_latency(&r->latency);
	puts("end");
}

static void tell_result(struct submitter *s)
{
	for (uint32_t i = 0; i < s->n_pairs; i++)
		join_pair(s->pair[i]);
	for (uint32_t i = 0; i < s->n_pairs; i++)
		tell_pair(s, s->pair[i]);
}

/* Bytes of requests that failed are not known. */
static bool is_comparable(const struct submitter_pair *p)
{
	return !p->started && !p->error && p->load.size &&
	       !p->result.errors[0].n;
}

static void check_pairs(struct submitter *s, const char *line)
{
	uint64_t checked, wrong;
	double percent;
	int rc;

	if (sscanf(line, "check %lf", &percent) != 1 || !(percent > 0) ||
	    percent > 100) {
		say_error("check", -EINVAL);
		return;
	}
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		struct submitter_pair *p = s->pair[i];

		checked = wrong = 0;
		rc = s->options->spoil && is_comparable(p)
			     ? memory_spoil(&p->local)
			     : 0;
		if (!rc && is_comparable(p))
			rc = verify_check(&p->load, &p->local, &p->result,
					  p->seed, percent, &checked, &wrong);
		printf("checked %s %" PRIu64 " %" PRIu64 "\n", error_name(rc),
		       checked, wrong);
	}
}

/* ---- lines ---- */

bool submitter_answer(struct submitter *s, const char *line)
{
	if (!strncmp(line, "pair ", 5))
		add_pair(s, line);
	else if (!strncmp(line, "local ", 6))
		open_local(s, line);
	else if (!strncmp(line, "load ", 5))
		prepare_load(s, line);
	else if (!strncmp(line, "go", 2))
		start_pairs(s);
	else if (!strncmp(line, "progress", 8))
		tell_progress(s);
	else if (!strncmp(line, "result", 6))
		tell_result(s);
	else if (!strncmp(line, "check ", 6))
		check_pairs(s, line);
	else if (strncmp(line, "stop", 4) != 0)
		return false;
	else {
		load_end();
		puts("stopping");
	}
	return true;
}

void submitter_fini(struct submitter *s)
{
	if (!s->n_pairs && !s->local.side.n)
		return;
	load_end();
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		join_pair(s->pair[i]);
		close_pair(s, s->pair[i]);
	}
	s->n_pairs = 0;
	memory_close(&s->local);
}
