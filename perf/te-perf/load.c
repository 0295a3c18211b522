/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - threads that submit batches for a while, and what came of it
 *
 * A thread has one batch in flight: submit, wait for all of it, look at every
 * result, start over. Latency is therefore that of the batch's last request;
 * with a batch of 1 it is that of the request. A batch with a failure has none.
 * With a rate (perf/lib/schedule.h) batches begin when they are due, and
 * latency counts from then on.
 */
#include "perf/te-perf/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "perf/lib/interrupt.h"
#include "perf/lib/schedule.h"
#include "perf/lib/sleep.h"

#define PROBE_EVERY_NS TEI_NS_PER_MS
#define PROBE_LEN      8
_Static_assert(LOAD_RATE_MAX <= TEI_SCHEDULE_RATE_MAX, "a load's rate");

struct run;

struct worker {
	struct run *run;
	pthread_t thread;
	struct te_batch *batch;
	struct te_request *requests; /* requests[load->batch] */
	struct iovec *pieces;        /* pieces[load->batch] */
	struct tei_schedule schedule;
	uint32_t index;
	uint64_t next;              /* place in the order of slots */
	uint64_t n_slots;           /* load_slots() */
	uint64_t share;             /* load_share() */
	uint64_t n_used;            /* slots that were used so far */
	uint64_t pass;              /* number of the last stamp */
	_Atomic uint64_t n_done;    /* written by its thread only */
	uint64_t start_ns, last_ns; /* of the last batch */
	int64_t late_ns;            /* as in load_result */
	_Atomic int error;
	struct load_error errors[LOAD_ERRORS];
	struct tei_histogram latency;
};

struct run {
	const struct load *load;
	struct series *series;
	uint64_t end_ns; /* threads stop after the batch in flight then */
	uint32_t n;
	struct worker *workers;
	struct worker *probe; /* or NULL */
};

/* Relaxed: each thread looks again after its batch. */
static _Atomic bool ended;

void load_end(void)
{
	atomic_store_explicit(&ended, true, memory_order_relaxed);
}

void load_end_at_interrupt(void)
{
	tei_interrupt_catch(&ended);
}

bool load_is_ended(void)
{
	return atomic_load_explicit(&ended, memory_order_relaxed);
}

/* Writes bytes that no earlier pass has written to the slot. */
static void stamp_slot(struct worker *w, char *local, uint64_t size)
{
	uint64_t word = ++w->pass << 16 | w->index;

	memcpy(local, &word, size < sizeof(word) ? size : sizeof(word));
}

/* Returns an address of either side; the remote one is not of this process. */
static char *place_at(const struct side *side, const struct load *l,
		      uint64_t place)
{
	return (char *)(uintptr_t)side_at(side, load_position(l, side, place));
}

static void prepare_one(struct worker *w, uint32_t i)
{
	const struct load *l = w->run->load;
	uint64_t slot = load_slot(l, w->n_slots, w->next);
	uint64_t place = load_place(w->share, w->index, slot);
	char *local = place_at(&l->local, l, place);
	bool read = load_reads(l, slot);

	w->pieces[i] = (struct iovec){local, l->size};
	w->requests[i] = (struct te_request){
		.op = read ? TE_READ : TE_WRITE,
		.segment = l->segment,
		.remote = (uintptr_t)place_at(&l->remote, l, place),
		.pieces = &w->pieces[i],
		.n_pieces = 1,
		.timeout_ms = l->timeout_ms,
		.priority = l->probe ? TE_PRIORITY_BULK : TE_PRIORITY_NORMAL,
	};
	if (l->notify) {
		w->requests[i].op = TE_NOTIFY;
		w->requests[i].remote = 0;
	}
	if (l->stamp && !read)
		stamp_slot(w, local, l->size);
}

static void prepare_batch(struct worker *w)
{
	for (uint32_t i = 0; i < w->run->load->batch; i++) {
		prepare_one(w, i);
		if (++w->next > w->n_used)
			w->n_used = w->next;
		if (w->next == w->n_slots)
			w->next = 0;
	}
}

static void count_errors(struct load_error to[LOAD_ERRORS], int error,
			 uint64_t n)
{
	struct load_error *e = to;

	while (e < to + LOAD_ERRORS - 1 && e->n && e->error != error)
		e++;
	e->error = error;
	e->n += n;
}

void load_add_errors(struct load_error to[LOAD_ERRORS],
		     const struct load_error from[LOAD_ERRORS])
{
	for (size_t i = 0; i < LOAD_ERRORS; i++)
		if (from[i].n)
			count_errors(to, from[i].error, from[i].n);
}

/* Waits for all requests of a batch. *ok: how many went well. */
static int finish_batch(struct worker *w, uint32_t n, uint32_t *ok)
{
	struct te_completion done;
	int rc = te_batch_wait(w->batch, UINT32_MAX);

	*ok = 0;
	for (uint32_t i = 0; !rc && i < n; i++) {
		rc = te_batch_result(w->batch, i, &done);
		if (rc)
			break;
		if (!done.error)
			++*ok;
		else if (w->run->load->keep_going)
			count_errors(w->errors, done.error, 1);
		else
			rc = done.error;
	}
	return rc ? rc : te_batch_reset(w->batch);
}

/* Notes that a batch with a failure has taken @took_ns. */
static void note_late(struct worker *w, uint64_t took_ns)
{
	uint64_t timeout_ns = w->run->load->timeout_ms * TEI_NS_PER_MS;
	int64_t late = (int64_t)took_ns - (int64_t)timeout_ns;

	if (timeout_ns && late > w->late_ns)
		w->late_ns = late;
}

static int run_batch(struct worker *w)
{
	const struct load *l = w->run->load;
	uint64_t counted_from;
	uint32_t ok;
	int rc;

	tei_sleep_ns(l->pause_ns);
	prepare_batch(w);
	w->start_ns = tei_now_ns();
	counted_from = tei_schedule_take(&w->schedule, w->start_ns);
	rc = te_batch_submit(w->batch, w->requests, l->batch);
	if (!rc)
		rc = finish_batch(w, l->batch, &ok);
	w->last_ns = tei_now_ns();
	if (rc)
		return rc;
	if (ok)
		series_completed(w->run->series, w->last_ns);
	if (ok < l->batch)
		note_late(w, w->last_ns - w->start_ns);
	else
		tei_histogram_add(&w->latency, w->last_ns - counted_from);
	atomic_store_explicit(
		&w->n_done,
		atomic_load_explicit(&w->n_done, memory_order_relaxed) + ok,
		memory_order_relaxed);
	return 0;
}

static bool is_over(const struct worker *w)
{
	const struct load *l = w->run->load;
	uint64_t event;

	if (load_is_ended())
		return true;
	if (w->last_ns < w->run->end_ns || !l->event_ns)
		return w->last_ns >= w->run->end_ns;
	event = atomic_load(l->event_ns);
	return w->start_ns >= event && w->last_ns - event >= l->after_event_ns;
}

/* Runs batches as they are due; those that cannot begin in time are dropped. */
static void run_schedule(struct worker *w)
{
	const struct run *run = w->run;
	uint64_t end = run->load->event_ns ? UINT64_MAX : run->end_ns;

	while (!w->error && tei_schedule_await(&w->schedule, end, &ended) &&
	       !is_over(w))
		w->error = run_batch(w);
}

static void *run_thread(void *arg)
{
	struct worker *w = arg;

	if (w->run->load->rate) {
		run_schedule(w);
		return NULL;
	}
	/* A busy machine may start this thread when the time is over. */
	do
		w->error = run_batch(w);
	while (!w->error && !is_over(w));
	return NULL;
}

/* ---- urgent requests beside ---- */

static int send_probe(struct worker *w)
{
	const struct load *l = w->run->load;
	uint32_t ok;
	int rc;

	tei_sleep_ns(PROBE_EVERY_NS);
	w->pieces[0] = (struct iovec){
		(void *)(uintptr_t)(l->local.at[0] + l->local.span), PROBE_LEN};
	w->requests[0] = (struct te_request){
		.op = TE_WRITE,
		.segment = l->segment,
		.remote = l->remote.at[0] + l->remote.span,
		.pieces = w->pieces,
		.n_pieces = 1,
		.timeout_ms = l->timeout_ms,
		.priority = TE_PRIORITY_URGENT,
	};
	w->start_ns = tei_now_ns();
	rc = te_batch_submit(w->batch, w->requests, 1);
	if (!rc)
		rc = finish_batch(w, 1, &ok);
	w->last_ns = tei_now_ns();
	if (!rc)
		tei_histogram_add(&w->latency, w->last_ns - w->start_ns);
	return rc;
}

static void *send_probes(void *arg)
{
	struct worker *w = arg;

	do
		w->error = send_probe(w);
	while (!w->error && !is_over(w));
	return NULL;
}

/* ---- all together ---- */

static void worker_fini(struct worker *w)
{
	te_batch_destroy(w->batch);
	tei_free(w->requests);
	tei_free(w->pieces);
}

static int worker_init(struct worker *w, struct run *run, uint32_t index,
		       uint32_t batch)
{
	int rc;

	w->run = run;
	w->index = index;
	w->late_ns = LOAD_NEVER_LATE;
	w->n_slots = load_slots(run->load);
	w->share = load_share(run->load);
	w->requests = tei_calloc(batch, sizeof(*w->requests));
	w->pieces = tei_calloc(batch, sizeof(*w->pieces));
	rc = w->requests && w->pieces
		     ? te_batch_create(run->load->engine, batch, &w->batch)
		     : -ENOMEM;
	if (rc)
		worker_fini(w);
	return rc;
}

static uint64_t requests_done(const struct run *run)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < run->n; i++)
		sum += atomic_load_explicit(&run->workers[i].n_done,
					    memory_order_relaxed);
	return sum;
}

static uint64_t count_moved(void *arg)
{
	const struct run *run = arg;

	if (load_is_ended())
		return SERIES_STOP;
	for (uint32_t i = 0; i < run->n; i++)
		if (run->workers[i].error)
			return SERIES_STOP;
	return requests_done(run);
}

static int start_and_join(struct run *run)
{
	uint32_t started = 0;
	bool probing;
	int rc = 0;

	while (!rc && started < run->n) {
		rc = tei_thread_start(&run->workers[started].thread, "load",
				      run_thread, &run->workers[started]);
		started += !rc;
	}
	probing = !rc && run->probe;
	if (probing)
		rc = tei_thread_start(&run->probe->thread, "probe", send_probes,
				      run->probe);
	if (!rc)
		series_watch(run->series, run->end_ns, count_moved, run);
	for (uint32_t i = 0; i < started; i++) {
		pthread_join(run->workers[i].thread, NULL);
		if (!rc)
			rc = run->workers[i].error;
	}
	if (probing && run->probe->thread)
		pthread_join(run->probe->thread, NULL);
	return rc ? rc : probing ? run->probe->error : 0;
}

static void begin_schedules(struct run *run, uint64_t start)
{
	for (uint32_t i = 0; i < run->n; i++)
		tei_schedule_init(&run->workers[i].schedule, run->load->rate, i,
				  run->n, start);
}

/*
 * The end of the time that a rate is of: without an end that came early, of all
 * the time in which batches could be due.
 */
static uint64_t end_of_time(const struct run *run, uint64_t last)
{
	bool whole = run->load->rate && !load_is_ended() && run->end_ns > last;

	return whole ? run->end_ns : last;
}

/* Returns how many batches were due before @end and have not begun. */
static uint64_t batches_behind(const struct run *run, const struct worker *w,
			       uint64_t last)
{
	uint64_t end = last < run->end_ns ? last : run->end_ns;

	return tei_schedule_behind(&w->schedule, end - 1);
}

static void sum_up(struct run *run, uint64_t start, struct load_result *out)
{
	uint64_t last = start;

	out->late_ns = LOAD_NEVER_LATE;
	for (uint32_t i = 0; i < run->n; i++) {
		struct worker *w = &run->workers[i];

		if (w->last_ns > last)
			last = w->last_ns;
		if (w->late_ns > out->late_ns)
			out->late_ns = w->late_ns;
		out->slots[i] = w->n_used;
		tei_histogram_merge(&out->latency, &w->latency);
		load_add_errors(out->errors, w->errors);
	}
	if (run->probe)
		tei_histogram_merge(&out->probe, &run->probe->latency);
	out->requests = requests_done(run);
	last = end_of_time(run, last);
	for (uint32_t i = 0; i < run->n; i++)
		out->behind += batches_behind(run, &run->workers[i], last);
	out->elapsed_ns = last - start;
	out->gap_ns = series_gap_ns(run->series, last);
}

static int open_probe(struct run *run)
{
	int rc;

	if (!run->load->probe)
		return 0;
	run->probe = tei_calloc(1, sizeof(*run->probe));
	if (!run->probe)
		return -ENOMEM;
	rc = worker_init(run->probe, run, 0, 1);
	if (rc) {
		tei_free(run->probe);
		run->probe = NULL;
	}
	return rc;
}

int load_run(const struct load *l, struct series *series,
	     struct load_result *out)
{
	struct run run = {.load = l, .series = series};
	uint64_t start;
	int rc;

	memset(out, 0, sizeof(*out));
	run.workers = tei_calloc(l->n_threads, sizeof(*run.workers));
	rc = run.workers ? open_probe(&run) : -ENOMEM;
	while (!rc && run.n < l->n_threads) {
		rc = worker_init(&run.workers[run.n], &run, run.n, l->batch);
		run.n += !rc;
	}
	start = tei_now_ns();
	run.end_ns = l->duration_ms ? start + l->duration_ms * TEI_NS_PER_MS
				    : UINT64_MAX;
	begin_schedules(&run, start);
	series_begin(series, start, l->size);
	if (!rc)
		rc = start_and_join(&run);
	sum_up(&run, start, out);
	for (uint32_t i = 0; i < run.n; i++)
		worker_fini(&run.workers[i]);
	if (run.probe)
		worker_fini(run.probe);
	tei_free(run.probe);
	tei_free(run.workers);
	return rc;
}
