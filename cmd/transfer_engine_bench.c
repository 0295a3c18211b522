/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_engine_bench.c - how fast blocks move between two processes
 *
 * With the flags and the last line of Mooncake's program of this name; te-perf
 * says more. A target publishes memory, says under which name, and stays until
 * SIGTERM or SIGINT; an initiator reads or writes it for a while. Exit codes: 0
 * done, 1 it broke while running, 2 it could not start as told.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cmd/transfer_engine_bench.h"

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
	  .choices = "rdma|tcp",
	  .help = "rdma: the best there is; tcp: as without RDMA devices" },
	{ ROW(device_name), .alias = "device_names", .type = TEI_CONF_STRING,
	  .def = "", .help = "with rdma: go by these devices, a list with commas" },
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
	  .help = "memory of a GPU: refused, CUDA is not here yet" },
	{ ROW(gpu_id), .type = TEI_CONF_STRING, .def = "0", .hidden = true,
	  .help = "accepted, no meaning here" },
	{ ROW(auto_discovery), .type = TEI_CONF_BOOL, .def = "0", .hidden = true,
	  .help = "accepted: NICs are always found by themselves" },
	{ ROW(backend), .type = TEI_CONF_CHOICE, .def = "classic",
	  .choices = "classic|tent", .hidden = true,
	  .help = "accepted: there is one engine" },
	TEI_GLOG_ROWS(struct bench_settings),
};
/* clang-format on */

/* ---- memory ---- */

/* What all threads need; 0: more than there can be. */
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

static int open_memory(const struct bench_settings *s, struct te_engine *engine,
		       uint32_t access, void **memory, te_region_id *id)
{
	struct te_region region = {.length = buffer_length(s),
				   .access = access};
	int rc = te_memory_alloc(engine, region.length, &region.addr);

	if (!rc) {
		if (s->init_mem)
			memset(region.addr, 0x55, region.length);
		rc = te_region_add(engine, &region, id);
		if (rc)
			te_memory_free(engine, region.addr);
	}
	if (rc) {
		(void)fprintf(stderr,
			      BENCH ": %" PRIu64 " bytes of memory: %s\n",
			      region.length, te_strerror(rc));
		return 1;
	}
	*memory = region.addr;
	return 0;
}

static void close_memory(struct te_engine *engine, void *memory,
			 te_region_id id)
{
	(void)te_region_remove(engine, id);
	te_memory_free(engine, memory);
}

/* ---- target ---- */

static int serve(const struct bench_settings *s, struct te_engine *engine,
		 const sigset_t *set)
{
	te_region_id id;
	void *memory;
	int number;
	int code = open_memory(s, engine,
			       TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE,
			       &memory, &id);

	if (code)
		return code;
	/* Scripts take the name from this line. */
	printf("Transfer Engine RPC using %s, listening on %s\n",
	       bench_is_p2p(s) ? "P2P handshake" : s->metadata_server,
	       te_engine_name(engine));
	(void)fflush(stdout);
	(void)sigwait(set, &number);
	close_memory(engine, memory, id);
	return 0;
}

/* ---- initiator ---- */

/* Where there is room for all blocks. -ENODATA: nowhere. */
static int find_region(const struct bench_settings *s, struct te_engine *engine,
		       te_segment_id segment, uint64_t *addr)
{
	uint32_t access = !strcmp(s->operation, "read")
				  ? TE_ACCESS_REMOTE_READ
				  : TE_ACCESS_REMOTE_WRITE;
	struct te_segment_region *regions = NULL;
	size_t n = 0, room;
	bool found = false;
	int rc = te_segment_regions(engine, segment, NULL, &n);

	room = n;
	if (!rc && n) {
		regions = tei_calloc(room, sizeof(*regions));
		rc = regions ? te_segment_regions(engine, segment, regions, &n)
			     : -ENOMEM;
	}
	for (size_t i = 0; !rc && i < n && i < room && !found; i++) {
		found = regions[i].length >= required(s) &&
			(regions[i].access & access);
		*addr = regions[i].addr;
	}
	tei_free(regions);
	return rc || found ? rc : -ENODATA;
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

static void report(const struct bench_settings *s, struct te_engine *engine,
		   const struct bench_result *r)
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

static int measure(const struct bench_settings *s, struct te_engine *engine,
		   struct bench *bench)
{
	struct bench_result result;
	te_region_id id;
	void *memory;
	int rc, code = open_memory(s, engine, TE_ACCESS_LOCAL, &memory, &id);

	if (code)
		return code;
	bench->local = memory;
	rc = bench_run(bench, &result);
	if (rc)
		(void)fprintf(stderr, BENCH ": --%s of %s: %s\n", s->operation,
			      s->segment_id, te_strerror(rc));
	else
		report(s, engine, &result);
	close_memory(engine, memory, id);
	return rc ? 1 : 0;
}

static int initiate(const struct bench_settings *s, struct te_engine *engine)
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
		bench_complain("segment_id", s->segment_id, te_strerror(rc));
		return 1;
	}
	rc = find_region(s, engine, bench.segment, &bench.remote);
	if (rc == -ENODATA) {
		(void)fprintf(stderr,
			      BENCH ": --segment_id %s: no memory of %" PRIu64
				    " bytes is published there: %s\n",
			      s->segment_id, required(s),
			      "the target's --buffer_size should be larger");
		code = 1;
	} else if (rc) {
		bench_complain("segment_id", s->segment_id, te_strerror(rc));
		code = 1;
	} else {
		code = measure(s, engine, &bench);
	}
	te_segment_close(engine, bench.segment);
	return code;
}

/* ---- start ---- */

/* What the rows cannot say. */
static int check(const struct bench_settings *s, bool is_target)
{
	if (s->use_vram)
		return bench_complain("use_vram", "true",
				      "memory of GPUs is not here yet");
	if (!required(s))
		return bench_complain(
			"block_size", "",
			"with --batch_size and --threads that is more "
			"than 1 TiB");
	if (!is_target && !*s->segment_id)
		return bench_complain(
			"segment_id", "",
			"is needed: the name that the target says");
	return 0;
}

static int run(const struct tei_conf *conf)
{
	const struct bench_settings *s = conf->values;
	bool is_target = !strcmp(s->mode, "target");
	struct te_engine *engine;
	char names[512];
	sigset_t set;
	int code = check(s, is_target);

	if (code)
		return code;
	if (is_target) /* before there are threads that could take them */
		tei_end_signals_block(&set);
	if (s->v)
		te_log_set_level(TEI_LOG_DEBUG);
	if (tei_conf_ignored(conf, names, sizeof(names)))
		LOG_WARN(BENCH ": accepted without effect: %s", names);
	code = bench_open_engine(s, &engine);
	if (code)
		return code;
	code = is_target ? serve(s, engine, &set) : initiate(s, engine);
	te_engine_destroy(engine);
	return code;
}

int main(int argc, char **argv)
{
	struct bench_settings settings;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(rows[0]),
				&settings};

	return tei_conf_program(&conf, argc, argv, ABOUT, run);
}
