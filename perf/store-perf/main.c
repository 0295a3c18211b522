/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - store-perf: how fast a pool puts, gets and knows
 *
 * Puts are of fresh keys into a pool that is full, so they evict. Gets and
 * existence checks walk over a set of keys larger than any cache. Each client
 * is a thread, or several, with a store of its own.
 *
 * A mixed load (mix.h) is another program behind the same options.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/mem.h"
#include "base/thread.h"
#include "perf/lib/cluster.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/store-perf/client.h"
#include "perf/store-perf/mix.h"
#include "perf/store-perf/options.h"
#include "perf/store-perf/results.h"

#define PROGRAM     "store-perf"
#define STREAM_S    1.0 /* of a reference stream, or the duration if shorter */
#define CLIENTS_MAX 256
#define THREADS_MAX 1024
#define KEYS_MAX    (1ll << 39)

static const char about[] =
	"Puts, gets or checks batches of keys in a pool that it starts, or in "
	"a running one, and reports rates and latencies of a batch.";

/* clang-format off */
static const struct tei_setting rows[] = {
	{ .group = "What to do",
	  TEI_SETTING(struct options, mix), .type = TEI_CONF_STRING,
	  .help = "shares of calls, as get:80,put:15,exist:5,upsert:1,remove:1"
		  "; default: --op" },
	{ TEI_SETTING(struct options, op), .type = TEI_CONF_CHOICE,
	  .def = "put", .choices = "put|get|exist", .help = "one kind of call, walking over keys that none shares" },
	{ TEI_SETTING(struct options, value_size), .type = TEI_CONF_STRING,
	  .def = "1m", .help = "bytes of a value, or rows of several: 4k,64k,1m; of a mix: "
		  "shares, 4k:70,256k:30" },
	{ TEI_SETTING(struct options, batch), .type = TEI_CONF_UINT,
	  .def = "32", .min = 1, .max = TE_STORE_BATCH_MAX,
	  .help = "keys of one call" },
	{ TEI_SETTING(struct options, clients), .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = CLIENTS_MAX,
	  .help = "clients, each with its own engine" },
	{ TEI_SETTING(struct options, threads), .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = THREADS_MAX,
	  .help = "of each client: batches that it has under way at a time" },
	{ TEI_SETTING(struct options, duration), .type = TEI_CONF_DURATION,
	  .def = "3", .unit = "s", .min = 1, .max = 86400000,
	  .help = "time of a row" },
	{ TEI_SETTING(struct options, processes), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = MIX_PROCESSES_MAX,
	  .group = "Mixed load (--mix)",
	  .help = "that the clients are dealt to, at least one each" },
	{ TEI_SETTING(struct options, keys), .type = TEI_CONF_UINT,
	  .def = "0", .max = (double)KEYS_MAX,
	  .help = "that all calls but put draw from; 0: half as many again as "
		  "the pool has room for" },
	{ TEI_SETTING(struct options, popularity), .type = TEI_CONF_CHOICE,
	  .def = "zipf", .choices = "uniform|zipf",
	  .help = "how often each of them is drawn" },
	{ TEI_SETTING(struct options, theta), .expert = true,
	  .type = TEI_CONF_RATIO,
	  .def = "0.99", .min = 0.01, .max = 5, .help = "of zipf" },
	{ TEI_SETTING(struct options, seed), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "1", .help = "of what is drawn" },
	{ TEI_SETTING(struct options, prefill), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "1", .help = "first put all keys" },
	{ TEI_SETTING(struct options, fill), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "1", .help = "put what a get has missed" },
	{ TEI_SETTING(struct options, verify), .type = TEI_CONF_BOOL,
	  .def = "1", .help = "compare every byte that is got" },
	{ TEI_SETTING(struct options, retries), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "0", .max = 1000,
	  .help = "of keys put without room, 1, 2, 4 .. 64 ms later" },
	{ TEI_SETTING(struct options, count), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "0", .help = "calls after which it is over; 0: by time" },
	{ TEI_SETTING(struct options, warm_up), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "0", .unit = "s", .max = 86400000,
	  .help = "time before anything is counted" },
	{ TEI_SETTING(struct options, location_cache), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "0", .max = TE_STORE_LOCATIONS_MAX,
	  .help = "objects whose place each client remembers" },
	{ TEI_SETTING(struct options, working_set), .type = TEI_CONF_SIZE,
	  .def = "1g", .min = 1048576, .max = 1LL << 40,
	  .group = "The pool and the report",
	  .help = "memory of all clients together, walked over" },
	{ TEI_SETTING(struct options, owners), .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = TEI_CLUSTER_OWNERS_MAX,
	  .help = "processes that lend memory to the own pool" },
	{ TEI_SETTING(struct options, pool_bytes), .type = TEI_CONF_SIZE,
	  .def = "0", .max = 1LL << 46,
	  .help = "its memory; 0: a quarter more than the working set" },
	{ TEI_SETTING(struct options, master), .type = TEI_CONF_STRING,
	  .help = "host:port of a running pool, instead of an own one" },
	{ TEI_SETTING(struct options, host), .type = TEI_CONF_STRING,
	  .def = "127.0.0.1",
	  .help = "this host's name for the owners of a running pool" },
	{ TEI_SETTING(struct options, backends), .expert = true,
	  .type = TEI_CONF_STRING,
	  .help = "of the clients' engines, as \"tcp\" (default: all)" },
	{ TEI_SETTING(struct options, reference), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "also measure the bare system in this run" },
	{ TEI_SETTING(struct options, pin), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "0", .help = "clients on core 0; the pool's processes and the reference's peer on core 1" },
	{ TEI_SETTING(struct options, json), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as one JSON object" },
	{ TEI_SETTING(struct options, role), .type = TEI_CONF_CHOICE,
	  .def = "client", .choices = "client|worker|reference", .internal = true,
	  .help = "which of its processes this is" },
	{ TEI_SETTING(struct options, share_fd), .type = TEI_CONF_UINT,
	  .def = "0", .internal = true, .help = "memory shared with the parent" },
	{ TEI_SETTING(struct options, index), .type = TEI_CONF_UINT,
	  .def = "0", .internal = true, .help = "which worker this is" },
};
/* clang-format on */

struct worker {
	struct client client;
	pthread_t thread;
	enum client_op op;
	uint64_t warm; /* keys to put before the clock starts */
	uint64_t start_ns, end_ns;
	bool failed; /* a whole batch did */
};

struct run {
	const struct options *o;
	enum client_op op;
	struct tei_cluster cluster; /* all zero with --master */
	const char *master;
	struct worker *worker; /* worker[n_workers] */
	unsigned int n_workers;
	struct tei_reference_run reference;
	struct results results;
};

/* ---- threads ---- */

static void *warm_up(void *arg)
{
	struct worker *w = arg;

	client_put_many(&w->client, w->warm);
	w->failed = w->client.n_failed > 0 && w->client.n_done == 0;
	return NULL;
}

static void *run_thread(void *arg)
{
	struct worker *w = arg;
	uint64_t now;

	do {
		w->failed = !client_batch(&w->client, w->op);
		now = tei_now_ns();
	} while (!w->failed && now < w->end_ns);
	w->end_ns = now;
	return NULL;
}

/* Run @fn in a thread for each worker. -errno; -EIO when one has failed. */
static int on_all(struct run *run, void *(*fn)(void *))
{
	unsigned int n = 0;
	int rc = 0;

	while (!rc && n < run->n_workers) {
		rc = tei_thread_start(&run->worker[n].thread, "client", fn,
				      &run->worker[n]);
		n += !rc;
	}
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(run->worker[i].thread, NULL);
		if (!rc && run->worker[i].failed) {
			fprintf(stderr, PROGRAM ": a client's batch: %s\n",
				te_store_strerror(
					run->worker[i].client.last_code));
			rc = -EIO;
		}
	}
	return rc;
}

/* ---- one row ---- */

/* Keys to put first: all of the set, or as many as the pool has room for. */
static uint64_t warm_keys(const struct run *run, const struct client *c)
{
	struct te_store_pool pool;
	uint64_t most = 2 * c->n_slots, fit;

	if (run->op != CLIENT_PUT)
		return c->n_slots;
	if (te_store_pool(c->store, &pool))
		return 0;
	fit = pool.capacity_bytes / tei_pool_extent_bytes(c->value_size) /
	      run->n_workers;
	return fit < most ? fit : most;
}

static void begin_row(struct run *run, uint64_t value_size, uint64_t seed)
{
	char prefix[48];

	for (unsigned int i = 0; i < run->n_workers; i++) {
		struct worker *w = &run->worker[i];

		snprintf(prefix, sizeof(prefix),
			 PROGRAM "/%x/%" PRIx64 "/%zu/%u", (unsigned)getpid(),
			 tei_wall_us(), run->results.n_rows, i);
		client_begin(&w->client, prefix, value_size);
		client_fill(&w->client, seed);
		w->op = run->op;
		w->warm = warm_keys(run, &w->client);
	}
}

static uint64_t cpu_ns(const struct run *run)
{
	uint64_t sum = tei_process_own_cpu_ns() +
		       tei_process_cpu_ns(&run->cluster.master);

	for (unsigned int i = 0; i < run->cluster.n_owners; i++)
		sum += tei_process_cpu_ns(&run->cluster.owner[i]);
	return sum;
}

static void begin_clock(struct run *run)
{
	uint64_t start;

	for (unsigned int i = 0; i < run->n_workers; i++) {
		struct client *c = &run->worker[i].client;

		client_reset(c);
		if (run->op == CLIENT_GET) /* so that only gets make it right */
			memset(c->memory, 0, c->memory_len);
	}
	start = tei_now_ns();
	for (unsigned int i = 0; i < run->n_workers; i++) {
		run->worker[i].start_ns = start;
		run->worker[i].end_ns =
			start + run->o->duration * TEI_NS_PER_MS;
	}
}

static void sum_row(const struct run *run, struct row *row,
		    struct tei_histogram *latency, uint64_t cpu)
{
	uint64_t done = 0, first = UINT64_MAX, last = 0;
	double ns, bytes;

	for (unsigned int i = 0; i < run->n_workers; i++) {
		const struct worker *w = &run->worker[i];

		done += w->client.n_done;
		row->missed += w->client.n_missed;
		row->failed += w->client.n_failed;
		tei_histogram_merge(latency, &w->client.latency);
		if (w->start_ns < first)
			first = w->start_ns;
		if (w->end_ns > last)
			last = w->end_ns;
	}
	ns = (double)(last - first);
	bytes = run->op == CLIENT_EXIST
			? 0
			: (double)done * (double)row->value_size;
	row->keys_per_s = (double)done / ns * 1e9;
	row->gb_per_s = bytes / ns;
	/* CPU time of processes that others have started is unknown. */
	row->cpu_s_per_gb =
		bytes > 0 && !run->o->master ? (double)cpu / bytes : NAN;
	row->p50_us = tei_histogram_us(latency, 0.5);
	row->p99_us = tei_histogram_us(latency, 0.99);
	row->p999_us = tei_histogram_us(latency, 0.999);
}

static int measure_row(struct run *run, struct row *row,
		       struct tei_histogram *latency)
{
	uint64_t seed = run->results.n_rows + 1, cpu;
	int rc;

	begin_row(run, row->value_size, seed);
	rc = on_all(run, warm_up);
	if (rc)
		return rc;
	begin_clock(run);
	cpu = cpu_ns(run);
	rc = on_all(run, run_thread);
	if (rc)
		return rc;
	sum_row(run, row, latency, cpu_ns(run) - cpu);
	for (unsigned int i = 0; i < run->n_workers; i++) {
		struct client *c = &run->worker[i].client;

		row->wrong_bytes += client_check(c, run->op, seed);
		if (run->op != CLIENT_PUT)
			client_remove_all(c);
	}
	return 0;
}

static int add_row(struct run *run, uint64_t value_size)
{
	struct tei_histogram *latency = tei_calloc(1, sizeof(*latency));
	struct row *row = &run->results.row[run->results.n_rows];
	int rc;

	if (!latency)
		return -ENOMEM;
	*row = (struct row){.value_size = value_size};
	rc = measure_row(run, row, latency);
	tei_free(latency);
	if (rc)
		return rc;
	run->results.n_rows++;
	return run->o->reference ? tei_reference_round(&run->reference) : 0;
}

static int add_rows(struct run *run)
{
	int rc = 0;

	if (run->o->reference)
		rc = tei_reference_round(&run->reference);
	for (int i = 0; !rc && i < run->o->n_sizes; i++)
		rc = add_row(run, run->o->sizes[i]);
	return rc;
}

/* ---- set-up ---- */

static int open_reference(struct run *run)
{
	double seconds = (double)run->o->duration / 1e3;

	run->reference.process = TEI_PROCESS_NONE;
	if (!run->o->reference)
		return 0;
	return tei_reference_open(&run->reference, run->o->working_set,
				  seconds < STREAM_S ? seconds : STREAM_S,
				  run->o->pin);
}

static int open_pool(struct run *run)
{
	const struct options *o = run->o;
	uint64_t bytes = o->pool_bytes;
	int rc;

	run->master = o->master;
	if (o->master)
		return 0;
	if (!bytes)
		bytes = o->working_set + o->working_set / 4;
	rc = tei_cluster_start(&run->cluster, (unsigned int)o->owners, bytes);
	run->master = run->cluster.name;
	return rc;
}

static int open_clients(struct run *run)
{
	const struct options *o = run->o;
	uint64_t n = o->clients * o->threads;
	uint64_t each = o->working_set / n & ~4095ull;
	const struct client_place place = {run->master, o->host, o->backends};
	int rc = 0;

	run->worker = tei_calloc(n, sizeof(*run->worker));
	if (!run->worker)
		return -ENOMEM;
	while (!rc && run->n_workers < n) {
		size_t first = run->n_workers - run->n_workers % o->threads;

		rc = client_open(&run->worker[run->n_workers].client, &place,
				 each, (uint32_t)o->batch,
				 first == run->n_workers
					 ? NULL
					 : &run->worker[first].client);
		run->n_workers += !rc;
	}
	if (!rc)
		rc = tei_cluster_await(&run->cluster,
				       run->worker[0].client.store);
	return rc;
}

static int close_all(struct run *run)
{
	int rc;

	while (run->n_workers)
		client_close(&run->worker[--run->n_workers].client);
	tei_free(run->worker);
	rc = tei_cluster_stop(&run->cluster);
	tei_reference_close(&run->reference);
	return rc;
}

static int measure_all(struct run *run)
{
	int rc = open_reference(run);

	if (run->o->pin)
		tei_process_pin(1);
	if (!rc)
		rc = open_pool(run);
	if (run->o->pin)
		tei_process_pin(0);
	if (!rc)
		rc = open_clients(run);
	if (!rc)
		rc = add_rows(run);
	run->results.reference = tei_reference_median(&run->reference);
	if (close_all(run))
		rc = -EIO;
	return rc;
}

/* Sizes, and that a batch of each client fits. */
static int derive(struct options *o)
{
	int n = tei_sizes_parse(PROGRAM, "value_size", o->value_size,
				o->working_set, o->sizes);
	char text[24];

	if (n < 0)
		return n;
	o->n_sizes = n;
	for (int i = 0; i < n; i++) {
		if (o->working_set / o->clients / o->threads / o->batch >=
		    o->sizes[i] + 8)
			continue;
		fprintf(stderr,
			PROGRAM ": working_set: a batch of values of %s for "
				"each thread does not fit, give more\n",
			tei_text_bytes(o->sizes[i], text));
		return -EINVAL;
	}
	return 0;
}

static enum client_op op_of(const char *name)
{
	if (!strcmp(name, "get"))
		return CLIENT_GET;
	return strcmp(name, "put") ? CLIENT_EXIST : CLIENT_PUT;
}

static int run_role(const struct tei_conf *conf)
{
	struct options *o = conf->values;
	struct run *run;
	int rc;

	if (!strcmp(o->role, "reference"))
		return tei_reference_peer_main(o->working_set, o->pin, false);
	if (!strcmp(o->role, "worker"))
		return workers_main(o);
	if (o->mix)
		return mixed_run(o);
	if (derive(o))
		return 2;
	run = tei_calloc(1, sizeof(*run));
	if (!run)
		return 1;
	run->o = o;
	run->op = op_of(o->op);
	rc = measure_all(run);
	if (!rc)
		rc = results_report(&run->results, o);
	tei_free(run);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct options options;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(*rows), &options};

	return tei_tool_main(&conf, argc, argv, about, run_role);
}
