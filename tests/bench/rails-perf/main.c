/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - te-rails-perf: what slices of many NICs cost the engine
 *
 * Two engines of this process, with NICs of the fake provider, which carries out
 * work requests but no bytes: what is left is the work of a worker, of the backend
 * verbs, and of the provider's checks. The memory is never touched.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include <te/te.h>

#include "backends/verbs/verbs.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "perf/lib/report.h"
#include "tests/lib/fake_verbs/fake_verbs.h"

#define THREADS_MAX 64
#define BATCH_MAX   4096
#define WAIT_MS     10000
#define CONNECT_MS  30000 /* a first request, which connects all rails */

struct options {
	uint64_t nics, workers, threads, batch, size, duration;
	bool json;
};

static const char about[] =
	"Measures how many slices a second the engine plans, posts and completes: "
	"two engines of one process, with NICs in memory that carry no bytes. Rates "
	"by CPU time are those of one thread that has a core for itself.";

/* clang-format off */
static const struct tei_setting rows[] = {
	{ TEI_SETTING(struct options, nics), .type = TEI_CONF_UINT,
	  .def = "8", .min = 1, .max = FAKE_DEVICES_MAX,
	  .help = "of each engine" },
	{ TEI_SETTING(struct options, workers), .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = FAKE_DEVICES_MAX,
	  .help = "of each engine" },
	{ TEI_SETTING(struct options, threads), .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = THREADS_MAX,
	  .help = "that submit a batch and wait for it, again and again" },
	{ TEI_SETTING(struct options, batch), .type = TEI_CONF_UINT,
	  .def = "128", .min = 1, .max = BATCH_MAX,
	  .help = "requests of a batch" },
	{ TEI_SETTING(struct options, size), .type = TEI_CONF_SIZE,
	  .def = "64k", .min = 1, .max = 1 << 30,
	  .help = "bytes of a request; none is beside another" },
	{ TEI_SETTING(struct options, duration), .type = TEI_CONF_DURATION,
	  .def = "1s", .min = 1, .max = 1e6, .help = "of the measurement" },
	{ TEI_SETTING(struct options, json), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as one JSON object" },
};
/* clang-format on */

struct bench {
	const struct options *o;
	struct te_engine *owner, *user;
	te_segment_id segment;
	uint8_t *remote, *local; /* remote[length], local[length]: reserved */
	size_t length;
	uint64_t end_ns;
	double seconds, cpu_s;
	uint64_t slices; /* work requests that were carried out */
};

struct thread {
	struct bench *bench;
	pthread_t id;
	struct te_batch *batch;
	struct te_request *requests; /* requests[o->batch] */
	struct iovec *pieces;        /* pieces[o->batch] */
	int rc;
};

static int fail(const char *what, int rc)
{
	fprintf(stderr, "te-rails-perf: %s: %s\n", what, te_strerror(rc));
	return rc;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * TEI_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* ---- the engines ---- */

static int set_up_engine(const struct options *o, uint8_t *memory,
			 size_t length, struct te_engine **out)
{
	const struct te_region region = {.addr = memory,
					 .length = length,
					 .access = TE_ACCESS_REMOTE_WRITE};
	struct te_config *config;
	te_region_id id;
	char workers[8];
	int rc = te_config_create(&config);

	if (rc)
		return rc;
	snprintf(workers, sizeof(workers), "%" PRIu64, o->workers);
	rc = te_config_set(config, "backends", "verbs", NULL, 0);
	if (!rc)
		rc = te_config_set(config, "workers", workers, NULL, 0);
	if (!rc)
		rc = te_config_set(config, "prefault", "0", NULL, 0);
	if (!rc)
		rc = te_engine_create(config, "127.0.0.1", out);
	te_config_destroy(config);
	return rc ? rc : te_region_add(*out, &region, &id);
}

static uint8_t *reserve(size_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int open_engines(struct bench *b)
{
	const struct options *o = b->o;
	int rc;

	b->length = 2 * o->size * o->batch * o->threads;
	b->remote = reserve(b->length);
	b->local = reserve(b->length);
	if (!b->remote || !b->local)
		return fail("memory", -ENOMEM);
	rc = set_up_engine(o, b->remote, b->length, &b->owner);
	if (!rc)
		rc = set_up_engine(o, b->local, b->length, &b->user);
	if (!rc)
		rc = te_segment_open(b->user, te_engine_name(b->owner),
				     CONNECT_MS, &b->segment);
	return rc ? fail("engines", rc) : 0;
}

static void close_engines(struct bench *b)
{
	te_engine_destroy(b->user);
	te_engine_destroy(b->owner);
	if (b->local)
		munmap(b->local, b->length);
	if (b->remote)
		munmap(b->remote, b->length);
}

/* ---- the load ---- */

/* Every other stretch of the memory, so that no two requests make one slice. */
static void prepare(struct thread *t, uint64_t number)
{
	const struct bench *b = t->bench;
	uint64_t first = number * b->o->batch;

	for (uint64_t i = 0; i < b->o->batch; i++) {
		uint64_t at = 2 * b->o->size * (first + i);

		t->pieces[i] = (struct iovec){b->local + at, b->o->size};
		t->requests[i] = (struct te_request){
			.op = TE_WRITE,
			.segment = b->segment,
			.remote = (uintptr_t)(b->remote + at),
			.pieces = &t->pieces[i],
			.n_pieces = 1,
		};
	}
}

static int open_thread(struct thread *t, struct bench *b, uint64_t number)
{
	uint32_t n = (uint32_t)b->o->batch;

	t->bench = b;
	t->requests = tei_calloc(n, sizeof(*t->requests));
	t->pieces = tei_calloc(n, sizeof(*t->pieces));
	if (!t->requests || !t->pieces)
		return -ENOMEM;
	prepare(t, number);
	return te_batch_create(b->user, n, &t->batch);
}

static void close_thread(struct thread *t)
{
	te_batch_destroy(t->batch);
	tei_free(t->pieces);
	tei_free(t->requests);
}

/* -errno of a request that failed, or of the wait. */
static int run_batch(struct thread *t)
{
	uint32_t n = (uint32_t)t->bench->o->batch;
	struct te_completion done;
	int rc = te_batch_submit(t->batch, t->requests, n);

	if (!rc)
		rc = te_batch_wait(t->batch, WAIT_MS);
	for (uint32_t i = 0; !rc && i < n; i++) {
		rc = te_batch_result(t->batch, i, &done);
		if (!rc)
			rc = done.error;
	}
	return rc ? rc : te_batch_reset(t->batch);
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;

	do
		t->rc = run_batch(t);
	while (!t->rc && tei_now_ns() < t->bench->end_ns);
	return NULL;
}

static int run_threads(struct thread *threads, uint64_t n)
{
	uint64_t started = 0;
	int rc = 0;

	while (!rc && started < n) {
		rc = tei_thread_start(&threads[started].id, "load", run_thread,
				      &threads[started]);
		started += !rc;
	}
	for (uint64_t i = 0; i < started; i++) {
		pthread_join(threads[i].id, NULL);
		rc = rc ? rc : threads[i].rc;
	}
	return rc;
}

static int measure(struct bench *b, struct thread *threads)
{
	uint64_t start, slices, cpu;
	int rc = run_threads(threads, b->o->threads); /* connects */

	if (rc)
		return fail("a first request", rc);
	start = tei_now_ns();
	slices = fake_verbs_counts().requests;
	cpu = cpu_ns();
	b->end_ns = start + b->o->duration * TEI_NS_PER_MS;
	rc = run_threads(threads, b->o->threads);
	if (rc)
		return fail("a request", rc);
	b->seconds = (double)(tei_now_ns() - start) / 1e9;
	b->cpu_s = (double)(cpu_ns() - cpu) / 1e9;
	b->slices = fake_verbs_counts().requests - slices;
	return 0;
}

static int run_load(struct bench *b)
{
	struct thread threads[THREADS_MAX] = {{.bench = NULL}};
	int rc = 0;

	for (uint64_t i = 0; !rc && i < b->o->threads; i++)
		rc = open_thread(&threads[i], b, i);
	rc = rc ? fail("threads", rc) : measure(b, threads);
	for (uint64_t i = 0; i < b->o->threads; i++)
		close_thread(&threads[i]);
	return rc;
}

/* ---- the report ---- */

static int report(const struct bench *b)
{
	double n = (double)b->slices;

	if (b->o->json)
		return tei_report_json(
			"te-rails-perf",
			json_pack("{s:I, s:f, s:f, s:f}", "slices",
				  (json_int_t)b->slices, "slices_per_s",
				  n / b->seconds, "slices_per_cpu_s",
				  n / b->cpu_s, "ns_per_slice",
				  b->cpu_s * 1e9 / n));
	printf("%.2f M slices a second; by CPU time %.2f M, %.0f ns each\n",
	       n / b->seconds / 1e6, n / b->cpu_s / 1e6, b->cpu_s * 1e9 / n);
	return 0;
}

static int run(const struct tei_conf *conf)
{
	struct bench bench = {.o = conf->values};
	int rc;

	fake_verbs_start((unsigned int)bench.o->nics);
	fake_verbs_carry(false);
	tei_verbs_use(&fake_verbs);
	rc = open_engines(&bench);
	if (!rc)
		rc = run_load(&bench);
	close_engines(&bench);
	tei_verbs_use(NULL);
	fake_verbs_stop();
	if (!rc)
		rc = report(&bench);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct options options;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(*rows), &options};

	return tei_tool_main(&conf, argc, argv, about, run);
}
