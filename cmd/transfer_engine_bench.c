/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_engine_bench.c - how fast blocks move between two processes
 *
 * With the flags and the last line of Mooncake's program of this name; te-perf
 * says more. A target publishes memory, says under which name, and stays until
 * SIGTERM or SIGINT; an initiator reads or writes it for a while. Exit codes: 0
 * done, 1 it broke while running, 2 its settings are wrong.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <te/gpu.h>
#include <te/te.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/glog.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/thread.h"

#define BENCH "transfer_engine_bench"

#define BUFFERS_MAX 64 /* of each side */

struct bench_settings {
	char *mode, *operation, *protocol, *device_name, *nic_priority_matrix;
	char *local_server_name, *metadata_server, *segment_id;
	char *report_unit, *backend, *gpu_id;
	uint64_t buffer_size, block_size, batch_size, threads;
	uint64_t duration; /* ms */
	uint64_t report_precision, v;
	bool init_mem, use_vram, insecure, auto_discovery;
	struct tei_glog glog;
};

/* GPUs that have the memory: @n from @first on; 0: the host has it. */
struct gpus {
	int first, n;
};

/* Memory of this side: a buffer of each GPU, or one of the host. */
struct buffers {
	uint32_t n;
	void *addr[BUFFERS_MAX];
	te_region_id region[BUFFERS_MAX];
};

/*
 * Benchmark in which each thread has one batch in flight at a time, over @batch
 * blocks of its own, which lie at the same offsets on both sides, one thread's
 * behind the other's. Threads take the buffers of either side by turns.
 */
struct bench {
	struct te_engine *engine; /* not owned */
	te_segment_id segment;
	uint32_t op;                  /* TE_READ, TE_WRITE */
	struct buffers local;         /* each addr[n_threads * batch * block] */
	uint64_t remote[BUFFERS_MAX]; /* addresses of as much in the segment */
	uint32_t n_remote;
	uint64_t block; /* bytes */
	uint32_t batch, n_threads;
	uint64_t duration_ms;
};

struct bench_result {
	uint64_t n_batches;  /* of all threads */
	uint64_t elapsed_ns; /* until the last of them ended */
	uint32_t rail;       /* the last one that carried; ~0: none */
};

/* "--setting value: why" on stderr; 2. */
static int refuse_setting(const char *setting, const char *value,
			  const char *why)
{
	(void)fprintf(stderr, BENCH ": --%s%s%s: %s\n", setting,
		      *value ? " " : "", value, why);
	return 2;
}

/* A variable as Mooncake's: on unless it is "", 0, false, off or no. */
static bool is_on(const char *variable)
{
	const char *value = getenv(variable);
	bool on;

	return value && *value && (tei_parse_bool(value, &on) || on);
}

static int set_config(struct te_config *config, const char *name,
		      const char *value)
{
	char why[256];
	int rc = te_config_set(config, name, value, why, sizeof(why));

	if (rc)
		(void)fprintf(stderr, BENCH ": %s\n", why);
	return rc;
}

static int configure(const struct bench_settings *s, struct te_config *config)
{
	int rc = set_config(config, "metadata_server", s->metadata_server);

	if (!rc && s->insecure)
		rc = set_config(config, "insecure", "true");
	if (!rc)
		rc = set_config(config, "protocol", s->protocol);
	if (!rc && is_on("MC_FORCE_TCP"))
		rc = set_config(config, "backends", "tcp");
	else if (!rc && *s->device_name && !strcmp(s->protocol, "rdma"))
		rc = set_config(config, "devices", s->device_name);
	else if (!rc && *s->device_name && !strcmp(s->protocol, "efa"))
		rc = set_config(config, "ofi.devices", s->device_name);
	if (!rc && *s->nic_priority_matrix)
		rc = set_config(config, "topology", s->nic_priority_matrix);
	return rc;
}

/* Tells whether names are addresses: there is no directory. */
static bool is_p2p(const struct bench_settings *s)
{
	return !*s->metadata_server ||
	       !strcmp(s->metadata_server, "P2PHANDSHAKE");
}

/*
 * Names the engine as Mooncake does: without a directory the port is chosen,
 * and printed.
 */
static int engine_name(const struct bench_settings *s,
		       char name[TE_NAME_LEN_MAX + 1])
{
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;

	if (strlen(s->local_server_name) > TE_NAME_LEN_MAX)
		return -EINVAL;
	memcpy(name, s->local_server_name, strlen(s->local_server_name) + 1);
	if (!is_p2p(s) || is_on("MC_LEGACY_RPC_PORT_BINDING"))
		return 0;
	if (tei_name_split(name, host, &port))
		return -EINVAL;
	tei_name_join(host, 0, name);
	return 0;
}

/* 0, or the exit code; what is wrong has been said. */
static int open_engine(const struct bench_settings *s, struct te_engine **out)
{
	char name[TE_NAME_LEN_MAX + 1];
	struct te_config *config;
	int rc;

	if (engine_name(s, name))
		return refuse_setting("local_server_name", s->local_server_name,
				      "should be a host, or host:port");
	rc = te_config_create(&config);
	if (rc)
		return 1;
	rc = configure(s, config);
	if (!rc) {
		rc = te_engine_create(config, name, out);
		if (rc)
			refuse_setting("local_server_name", name,
				       te_strerror(rc));
	}
	te_config_destroy(config);
	return rc ? 2 : 0;
}

struct worker_run;

struct worker {
	struct worker_run *run; /* not owned */
	pthread_t thread;
	struct te_batch *batch;
	struct te_request *requests; /* requests[bench->batch] */
	struct iovec *pieces;        /* pieces[bench->batch] */
	uint64_t n_batches, last_ns;
	uint32_t rail;
	int error;
};

struct worker_run {
	const struct bench *bench; /* not owned */
	uint64_t end_ns;
	/* A worker has failed: the others end. Relaxed: a hint. */
	atomic_bool is_over;
	struct worker *workers; /* workers[n] */
	uint32_t n;
};

/* 0 when every request went well. */
static int results(struct worker *w)
{
	struct te_completion done = {.rail = UINT32_MAX};
	int rc;

	for (uint32_t i = 0; i < w->run->bench->batch; i++) {
		rc = te_batch_result(w->batch, i, &done);
		if (rc || done.error)
			return rc ? rc : done.error;
	}
	w->rail = done.rail;
	return 0;
}

static int one_batch(struct worker *w)
{
	int rc = te_batch_submit(w->batch, w->requests, w->run->bench->batch);

	if (!rc)
		rc = te_batch_wait(w->batch, UINT32_MAX);
	if (!rc)
		rc = results(w);
	return rc ? rc : te_batch_reset(w->batch);
}

static void *run_thread(void *arg)
{
	struct worker *w = arg;
	struct worker_run *run = w->run;

	do {
		w->error = one_batch(w);
		w->n_batches += !w->error;
		w->last_ns = tei_now_ns();
	} while (!w->error && w->last_ns < run->end_ns &&
		 !atomic_load_explicit(&run->is_over, memory_order_relaxed));
	if (w->error)
		atomic_store_explicit(&run->is_over, true,
				      memory_order_relaxed);
	return NULL;
}

static void worker_fini(struct worker *w)
{
	te_batch_destroy(w->batch);
	tei_free(w->pieces);
	tei_free(w->requests);
}

static int worker_init(struct worker *w, struct worker_run *run, uint32_t index)
{
	const struct bench *b = run->bench;
	char *local = b->local.addr[index % b->local.n];
	uint64_t remote = b->remote[index % b->n_remote];

	w->run = run;
	w->rail = UINT32_MAX;
	w->requests = tei_calloc(b->batch, sizeof(*w->requests));
	w->pieces = tei_calloc(b->batch, sizeof(*w->pieces));
	for (uint32_t i = 0; w->requests && w->pieces && i < b->batch; i++) {
		uint64_t at = ((uint64_t)index * b->batch + i) * b->block;

		w->pieces[i] = (struct iovec){local + at, b->block};
		w->requests[i] = (struct te_request){
			.op = b->op,
			.segment = b->segment,
			.remote = remote + at,
			.pieces = &w->pieces[i],
			.n_pieces = 1,
		};
	}
	if (!w->requests || !w->pieces)
		return -ENOMEM;
	return te_batch_create(b->engine, b->batch, &w->batch);
}

/* Waits for those that were started, also after an error. */
static int start_and_join(struct worker_run *run)
{
	uint32_t started = 0;
	int rc = 0;

	while (!rc && started < run->n) {
		rc = tei_thread_start(&run->workers[started].thread, "bench",
				      run_thread, &run->workers[started]);
		started += !rc;
	}
	if (rc)
		atomic_store_explicit(&run->is_over, true,
				      memory_order_relaxed);
	for (uint32_t i = 0; i < started; i++) {
		(void)pthread_join(run->workers[i].thread, NULL);
		if (!rc)
			rc = run->workers[i].error;
	}
	return rc;
}

static void sum_up(const struct worker_run *run, uint64_t start_ns,
		   struct bench_result *out)
{
	uint64_t last_ns = start_ns;

	*out = (struct bench_result){.rail = UINT32_MAX};
	for (uint32_t i = 0; i < run->n; i++) {
		const struct worker *w = &run->workers[i];

		out->n_batches += w->n_batches;
		if (w->last_ns > last_ns)
			last_ns = w->last_ns;
		if (w->rail != UINT32_MAX)
			out->rail = w->rail;
	}
	out->elapsed_ns = last_ns - start_ns;
}

/*
 * Blocks for the duration, and until what is in flight then has ended. The
 * first request that fails ends all of it and is the error; or -ENOMEM, -EAGAIN
 * (threads).
 */
static int run_threads(const struct bench *bench, struct bench_result *out)
{
	struct worker_run run = {.bench = bench};
	uint64_t start_ns;
	int rc = 0;

	run.workers = tei_calloc(bench->n_threads, sizeof(*run.workers));
	if (!run.workers)
		return -ENOMEM;
	while (!rc && run.n < bench->n_threads) {
		rc = worker_init(&run.workers[run.n], &run, run.n);
		run.n++;
	}
	start_ns = tei_now_ns();
	run.end_ns = start_ns + bench->duration_ms * TEI_NS_PER_MS;
	if (!rc)
		rc = start_and_join(&run);
	if (!rc)
		sum_up(&run, start_ns, out);
	for (uint32_t i = 0; i < run.n; i++)
		worker_fini(&run.workers[i]);
	tei_free(run.workers);
	return rc;
}

#define ABOUT                                                                 \
	"Measures how fast blocks move between two processes: a target, and " \
	"an initiator that is told the name that the target says "            \
	"(--segment_id). Flags and last line are Mooncake's; te-perf says "   \
	"more. MC_FORCE_TCP=1: by tcp, also between processes of this host."

#define ROW(field) TEI_SETTING(struct bench_settings, field)

/* clang-format off */
static const struct tei_setting rows[] = {
	{ ROW(mode), .group = "what", .type = TEI_CONF_CHOICE, .def = "initiator",
	  .choices = "initiator|target", .help = "which of the two this is" },
	{ ROW(operation), .type = TEI_CONF_CHOICE, .def = "read",
	  .choices = "read|write", .help = "what the initiator does" },
	{ ROW(block_size), .type = TEI_CONF_SIZE, .def = "65536",
	  .min = 1, .max = 1LL << 40, .help = "bytes of a request" },
	{ ROW(batch_size), .type = TEI_CONF_UINT, .def = "128",
	  .min = 1, .max = 65536, .help = "requests awaited together" },
	{ ROW(threads), .type = TEI_CONF_UINT, .def = "12",
	  .min = 1, .max = 1024, .help = "each with a batch in flight" },
	{ ROW(duration), .type = TEI_CONF_DURATION, .def = "10", .unit = "s",
	  .min = 1, .max = 86400000, .help = "how long" },
	{ ROW(buffer_size), .type = TEI_CONF_SIZE, .def = "1073741824",
	  .min = 1, .max = 1LL << 40,
	  .help = "memory on each side; at least as much as all threads need" },
	{ ROW(init_mem), .type = TEI_CONF_BOOL, .def = "1",
	  .help = "touch all of it before" },

	{ ROW(local_server_name), .group = "network", .type = TEI_CONF_STRING,
	  .def = "127.0.0.1",
	  .help = "name of this engine; its port counts with a metadata server, "
		  "or MC_LEGACY_RPC_PORT_BINDING" },
	{ ROW(segment_id), .type = TEI_CONF_STRING, .def = "",
	  .help = "name of the target, as it says" },
	{ ROW(metadata_server), .type = TEI_CONF_STRING, .def = "P2PHANDSHAKE",
	  .help = "directory of names; P2PHANDSHAKE: none" },
	{ ROW(protocol), .type = TEI_CONF_CHOICE, .def = "rdma",
	  .choices = "rdma|efa|tcp|nvlink_intra|nvlink",
	  .help = "rdma: the best there is; efa: by libfabric; tcp, "
		  "nvlink_intra, nvlink: as without RDMA devices" },
	{ ROW(device_name), .alias = "device_names", .type = TEI_CONF_STRING,
	  .def = "", .help = "with rdma, efa: go by these devices, a list with commas" },
	{ ROW(nic_priority_matrix), .type = TEI_CONF_STRING, .def = "",
	  .help = "JSON file that says which NICs are near which memory" },
	{ ROW(insecure), .env = "MOONCAKE_INSECURE", .type = TEI_CONF_BOOL,
	  .def = "0", .help = "serve and reach other hosts, without any key" },

	{ ROW(report_unit), .group = "report", .type = TEI_CONF_CHOICE,
	  .def = "GB", .choices = "GB|GiB|Gb|MB|MiB|Mb|KB|KiB|Kb",
	  .help = "of the rate; b: bits" },
	{ ROW(report_precision), .type = TEI_CONF_UINT, .def = "2", .max = 9,
	  .help = "digits behind its point" },
	{ ROW(v), .type = TEI_CONF_UINT, .def = "0", .max = 9,
	  .help = "verbosity: 0 warnings, 1 a line per object" },

	{ ROW(use_vram), .group = "GPUs", .type = TEI_CONF_BOOL, .def = "0",
	  .help = "memory of GPUs instead of the host's" },
	{ ROW(gpu_id), .type = TEI_CONF_STRING, .def = "0",
	  .help = "with use_vram: number of the GPU, as this process counts; -1: "
		  "a buffer at each, which threads take by turns" },
	{ ROW(auto_discovery), .type = TEI_CONF_BOOL, .def = "0", .hidden = true,
	  .help = "accepted: NICs are always found by themselves" },
	{ ROW(backend), .type = TEI_CONF_CHOICE, .def = "classic",
	  .choices = "classic|tent", .hidden = true,
	  .help = "accepted: there is one engine" },
	TEI_GLOG_ROWS(struct bench_settings),
};
/* clang-format on */

/* ---- memory ---- */

#define FILL     0x55
#define FILL_LEN ((uint64_t)16 << 20) /* copied at once */

/* Memory that all threads need; 0: more than there can be. */
static uint64_t required(const struct bench_settings *s)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(s->block_size, s->batch_size * s->threads,
				   &bytes) ||
	    bytes > TE_LENGTH_MAX)
		return 0;
	return bytes;
}

static uint64_t buffer_length(const struct bench_settings *s)
{
	uint64_t wanted = required(s);

	if (s->buffer_size >= wanted)
		return s->buffer_size;
	LOG_WARN(BENCH ": buffer_size %" PRIu64 " is too small, it is %" PRIu64,
		 s->buffer_size, wanted);
	return wanted;
}

/* Fills memory of a GPU. -errno. */
static int fill_gpu(uint64_t addr, uint64_t length)
{
	uint64_t each = length < FILL_LEN ? length : FILL_LEN;
	void *bytes = tei_malloc(each);
	struct te_gpu_copy copy = {.host = bytes};
	int rc = bytes ? 0 : -ENOMEM;

	if (!rc)
		memset(bytes, FILL, each);
	for (uint64_t at = 0; !rc && at < length; at += copy.length) {
		copy.gpu = addr + at;
		copy.length = length - at < each ? length - at : each;
		rc = te_gpu_copy_in(&copy, 1);
	}
	tei_free(bytes);
	return rc;
}

/*
 * Adds a buffer of the GPU, or of the host (-1), with what @region says of
 * length and access. -errno: it is not there.
 */
static int add_buffer(const struct bench_settings *s, struct te_engine *engine,
		      int gpu, struct te_region region, struct buffers *memory)
{
	char location[16] = "*";
	int rc;

	if (gpu >= 0)
		(void)snprintf(location, sizeof(location), "cuda:%d", gpu);
	region.location = location;
	rc = te_memory_alloc_at(engine, region.length, location, &region.addr);
	if (rc)
		return rc;
	if (s->init_mem && gpu >= 0)
		rc = fill_gpu((uintptr_t)region.addr, region.length);
	else if (s->init_mem)
		memset(region.addr, FILL, region.length);
	if (!rc)
		rc = te_region_add(engine, &region, &memory->region[memory->n]);
	if (rc)
		te_memory_free(engine, region.addr);
	else
		memory->addr[memory->n++] = region.addr;
	return rc;
}

static void close_memory(struct te_engine *engine, const struct buffers *memory)
{
	for (uint32_t i = 0; i < memory->n; i++) {
		(void)te_region_remove(engine, memory->region[i]);
		te_memory_free(engine, memory->addr[i]);
	}
}

/* 0, or the exit code; what is wrong has been said. */
static int open_memory(const struct bench_settings *s, const struct gpus *gpus,
		       struct te_engine *engine, uint32_t access,
		       struct buffers *memory)
{
	const struct te_region region = {.length = buffer_length(s),
					 .access = access};
	int rc = 0;

	memory->n = 0;
	if (!gpus->n)
		rc = add_buffer(s, engine, -1, region, memory);
	for (int i = 0; !rc && i < gpus->n; i++)
		rc = add_buffer(s, engine, gpus->first + i, region, memory);
	if (!rc)
		return 0;
	(void)fprintf(stderr, BENCH ": %" PRIu64 " bytes of memory%s: %s\n",
		      region.length, gpus->n ? " of a GPU" : "",
		      te_strerror(rc));
	close_memory(engine, memory);
	return 1;
}

/* ---- target ---- */

static int serve_target(const struct bench_settings *s, const struct gpus *gpus,
			struct te_engine *engine, const sigset_t *set)
{
	struct buffers memory;
	int number;
	int code = open_memory(s, gpus, engine,
			       TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE,
			       &memory);

	if (code)
		return code;
	/* Scripts take the name from this line. */
	printf("Transfer Engine RPC using %s, listening on %s\n",
	       is_p2p(s) ? "P2P handshake" : s->metadata_server,
	       te_engine_name(engine));
	(void)fflush(stdout);
	(void)sigwait(set, &number);
	close_memory(engine, &memory);
	return 0;
}

/* ---- initiator ---- */

/* Finds the regions with room for all blocks. -ENODATA: none. */
static int find_regions(const struct bench_settings *s,
			struct te_engine *engine, struct bench *bench)
{
	uint32_t access = bench->op == TE_READ ? TE_ACCESS_REMOTE_READ
					       : TE_ACCESS_REMOTE_WRITE;
	struct te_segment_region *regions = NULL;
	size_t n = 0, room;
	int rc = te_segment_regions(engine, bench->segment, NULL, &n);

	room = n;
	if (!rc && n) {
		regions = tei_calloc(room, sizeof(*regions));
		rc = regions ? te_segment_regions(engine, bench->segment,
						  regions, &n)
			     : -ENOMEM;
	}
	for (size_t i = 0; !rc && i < n && i < room; i++)
		if (regions[i].length >= required(s) &&
		    (regions[i].access & access) &&
		    bench->n_remote < BUFFERS_MAX)
			bench->remote[bench->n_remote++] = regions[i].addr;
	tei_free(regions);
	return rc || bench->n_remote ? rc : -ENODATA;
}

static const struct unit {
	const char *name;
	double bytes;
} units[] = {
	{"GB", 1e9}, {"GiB", 1 << 30}, {"Gb", 1e9 / 8},
	{"MB", 1e6}, {"MiB", 1 << 20}, {"Mb", 1e6 / 8},
	{"KB", 1e3}, {"KiB", 1 << 10}, {"Kb", 1e3 / 8},
};

static double in_unit(const char *name, double bytes)
{
	const struct unit *u = units;

	while (strcmp(u->name, name) != 0) /* the setting has no others */
		u++;
	return bytes / u->bytes;
}

static void report_round(const struct bench_settings *s,
			 struct te_engine *engine, const struct bench_result *r)
{
	double seconds = (double)r->elapsed_ns / 1e9;
	double bytes = (double)r->n_batches * (double)s->batch_size *
		       (double)s->block_size;

	(void)fprintf(stderr, BENCH ": by %s\n", te_rail_name(engine, r->rail));
	/* Scripts take the rate from this line. */
	printf("Test completed: duration %.2f, batch count %" PRIu64
	       ", throughput %.*f %s/s\n",
	       seconds, r->n_batches, (int)s->report_precision,
	       in_unit(s->report_unit, bytes / seconds), s->report_unit);
	(void)fflush(stdout);
}

static int measure_rounds(const struct bench_settings *s,
			  const struct gpus *gpus, struct te_engine *engine,
			  struct bench *bench)
{
	struct bench_result result = {0};
	int rc, code = open_memory(s, gpus, engine, TE_ACCESS_LOCAL,
				   &bench->local);

	if (code)
		return code;
	rc = run_threads(bench, &result);
	if (rc)
		(void)fprintf(stderr, BENCH ": --%s of %s: %s\n", s->operation,
			      s->segment_id, te_strerror(rc));
	else
		report_round(s, engine, &result);
	close_memory(engine, &bench->local);
	return rc ? 1 : 0;
}

static int initiate(const struct bench_settings *s, const struct gpus *gpus,
		    struct te_engine *engine)
{
	struct bench bench = {
		.engine = engine,
		.op = !strcmp(s->operation, "read") ? TE_READ : TE_WRITE,
		.block = s->block_size,
		.batch = (uint32_t)s->batch_size,
		.n_threads = (uint32_t)s->threads,
		.duration_ms = s->duration,
	};
	int code,
		rc = te_segment_open(engine, s->segment_id, 0, &bench.segment);

	if (rc) {
		refuse_setting("segment_id", s->segment_id, te_strerror(rc));
		return 1;
	}
	rc = find_regions(s, engine, &bench);
	if (rc == -ENODATA) {
		(void)fprintf(stderr,
			      BENCH ": --segment_id %s: no memory of %" PRIu64
				    " bytes is published there: %s\n",
			      s->segment_id, required(s),
			      "the target's --buffer_size should be larger");
		code = 1;
	} else if (rc) {
		refuse_setting("segment_id", s->segment_id, te_strerror(rc));
		code = 1;
	} else {
		code = measure_rounds(s, gpus, engine, &bench);
	}
	te_segment_close(engine, bench.segment);
	return code;
}

/* ---- start ---- */

/* Check what the rows cannot say. */
static int check_settings(const struct bench_settings *s, bool is_target)
{
	if (!required(s))
		return refuse_setting(
			"block_size", "",
			"with --batch_size and --threads that is more "
			"than 1 TiB");
	if (!is_target && !*s->segment_id)
		return refuse_setting(
			"segment_id", "",
			"is needed: the name that the target says");
	return 0;
}

/* Starts the GPUs' driver, with threads, if needed. 0, or the exit code. */
static int choose_gpus(const struct bench_settings *s, struct gpus *out)
{
	uint64_t number = 0;
	bool all = !strcmp(s->gpu_id, "-1");
	char why[256];

	*out = (struct gpus){.n = 0};
	if (!all && (tei_parse_uint(s->gpu_id, &number) || number > INT_MAX))
		return refuse_setting("gpu_id", s->gpu_id,
				      "should be a GPU's number, or -1: all");
	if (!s->use_vram)
		return 0;
	if (te_gpu_probe(NULL, "cuda", why, sizeof(why)))
		return refuse_setting("use_vram", "true", why);
	out->first = (int)number;
	while (out->n < (all ? BUFFERS_MAX : 1) &&
	       te_gpu_can_alloc(out->first + out->n) != -ENODEV)
		out->n++;
	if (!out->n)
		return refuse_setting("gpu_id", s->gpu_id,
				      "this process sees no such GPU");
	return 0;
}

static int run_bench(const struct tei_conf *conf)
{
	const struct bench_settings *s = conf->values;
	bool is_target = !strcmp(s->mode, "target");
	struct te_engine *engine;
	struct gpus gpus;
	char names[512];
	sigset_t set;
	int code = check_settings(s, is_target);

	if (code)
		return code;
	if (is_target) /* before there are threads that could take them */
		tei_end_signals_block(&set);
	if (s->v)
		te_log_set_level(TEI_LOG_DEBUG);
	if (tei_conf_ignored(conf, names, sizeof(names)))
		LOG_WARN(BENCH ": accepted without effect: %s", names);
	code = choose_gpus(s, &gpus);
	if (!code)
		code = open_engine(s, &engine);
	if (code)
		return code;
	code = is_target ? serve_target(s, &gpus, engine, &set)
			 : initiate(s, &gpus, engine);
	te_engine_destroy(engine);
	return code;
}

int main(int argc, char **argv)
{
	struct bench_settings settings;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(rows[0]),
				&settings};

	return tei_conf_program(&conf, argc, argv, ABOUT, run_bench);
}
