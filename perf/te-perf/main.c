/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - te-perf: how fast an engine moves bytes between two processes
 */
#include <string.h>

#include "perf/lib/backends.h"
#include "perf/lib/process.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/te-perf/costs.h"
#include "perf/te-perf/load.h"
#include "perf/te-perf/options.h"
#include "perf/te-perf/pairs.h"
#include "perf/te-perf/peers.h"
#include "perf/te-perf/run.h"
#include "perf/te-perf/serve.h"

static const char about[] =
	"Moves requests between this process and a target, over working sets "
	"that no cache holds, and reports rates, latencies (from the submit of "
	"a batch to its end) and CPU time of both processes. The target is "
	"started here, or reached on another host (--listen there, --connect "
	"here). With --reference each row is held against the bare system, "
	"measured in the same run.";

/* clang-format off */
static const struct tei_setting rows[] = {
	{ TEI_SETTING(struct options, backend), .alias = "backends",
	  .type = TEI_CONF_STRING, .def = "tcp",
	  .help = "auto, " TEI_BACKENDS_OF_PEERS ", a list, or in this process: "
		  "loop" },
	{ TEI_SETTING(struct options, op), .type = TEI_CONF_CHOICE,
	  .def = "write", .choices = "write|read|both|mixed|notify",
	  .help = "direction; both: a row each; notify: messages" },
	{ TEI_SETTING(struct options, read_share), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "50", .max = 100, .unit = "%",
	  .help = "reads among mixed requests" },
	{ TEI_SETTING(struct options, size), .type = TEI_CONF_STRING,
	  .def = "1m", .help = "bytes of a request; a list: 4k,64k or 4k..16m" },
	{ TEI_SETTING(struct options, batch), .type = TEI_CONF_STRING,
	  .def = "16", .help = "requests awaited together, or a list" },
	{ TEI_SETTING(struct options, threads), .type = TEI_CONF_STRING,
	  .def = "1", .help = "threads with a batch in flight each, or a list" },
	{ TEI_SETTING(struct options, duration), .type = TEI_CONF_DURATION,
	  .def = "3", .unit = "s", .max = 86400000,
	  .help = "time of a row in a round; 0: one row, until interrupted" },
	{ TEI_SETTING(struct options, rate), .type = TEI_CONF_UINT,
	  .def = "0", .max = LOAD_RATE_MAX, .unit = "/s",
	  .help = "batches begin so often, of all threads together, and their "
		  "latency counts from when they should have begun; 0: each "
		  "when the one before has ended" },
	{ TEI_SETTING(struct options, rounds), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = ROUNDS_MAX,
	  .help = "measure all rows so often; medians are reported" },
	{ TEI_SETTING(struct options, working_set), .type = TEI_CONF_SIZE,
	  .def = "1g", .min = 1048576, .max = 1LL << 40,
	  .help = "memory walked over on each side" },
	{ TEI_SETTING(struct options, hot), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "walk over 1 MiB a thread instead, which caches hold" },
	{ TEI_SETTING(struct options, bidirectional), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "both sides submit requests at once" },
	{ TEI_SETTING(struct options, scheme), .type = TEI_CONF_CHOICE,
	  .def = "none", .choices = SCHEMES,
	  .help = "which hosts of --connect submit requests to which others, "
		  "all at once: each first to its second, all others to the "
		  "first, the first to all others, each to each" },
	{ TEI_SETTING(struct options, processes), .type = TEI_CONF_UINT,
	  .def = "4", .min = 2, .max = HOSTS_MAX,
	  .help = "processes of this host that are a scheme's, without "
		  "--connect" },
	{ TEI_SETTING(struct options, random), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "walk in random order, each place once a pass" },
	{ TEI_SETTING(struct options, unaligned), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "all requests at odd addresses, on both sides" },
	{ TEI_SETTING(struct options, location), .type = TEI_CONF_STRING,
	  .help = "of our memory: cuda:0 of a GPU, cpu:1 of a NUMA node; a list "
		  "(cuda:0,cuda:1) is used by turns" },
	{ TEI_SETTING(struct options, remote_location), .type = TEI_CONF_STRING,
	  .help = "of the target's memory, the same words and lists" },
	{ TEI_SETTING(struct options, foreign), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "0", .help = "memory of malloc's kind, not te_memory_alloc()" },
	{ TEI_SETTING(struct options, pause), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "0", .unit = "ms", .max = 3600000,
	  .help = "sleep before each batch, so that all is asleep" },
	{ TEI_SETTING(struct options, timeout), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "0", .unit = "ms", .max = 3600000,
	  .help = "of a request; 0: the engine's default" },
	{ TEI_SETTING(struct options, verify), .type = TEI_CONF_RATIO,
	  .def = "1", .max = 100, .unit = "%",
	  .help = "blocks compared afterwards; 0: none, 100: all" },
	{ TEI_SETTING(struct options, reference), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "also measure the bare system in this run" },
	{ TEI_SETTING(struct options, reference_at), .expert = true,
	  .type = TEI_CONF_STRING,
	  .help = "addresses of the target, one a rail: streams are added" },
	{ TEI_SETTING(struct options, congestion), .expert = true,
	  .type = TEI_CONF_STRING,
	  .def = TEI_REFERENCE_CONGESTION,
	  .help = "congestion control of the raw sockets" },
	{ TEI_SETTING(struct options, interval), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "0", .unit = "s", .max = 3600000,
	  .help = "also report each such interval; 0: not, or without an end "
		  "each second" },
	{ TEI_SETTING(struct options, svg), .type = TEI_CONF_STRING,
	  .help = "draw the sweep of sizes to this file" },
	{ TEI_SETTING(struct options, priority_probe), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "0", .help = "urgent 8-byte requests beside bulk ones" },
	{ TEI_SETTING(struct options, keep_going), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "0", .help = "count requests that fail, and go on" },
	{ TEI_SETTING(struct options, fault), .expert = true,
	  .type = TEI_CONF_CHOICE,
	  .def = "none", .choices = "none|kill|stop",
	  .help = "what happens to the target after half of the duration" },
	{ TEI_SETTING(struct options, idle), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "0", .help = "measure what idle peers cost, instead of rows" },
	{ TEI_SETTING(struct options, peers), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "100", .min = 1, .max = 10000,
	  .help = "engines that are connected for --idle" },
	{ TEI_SETTING(struct options, connects), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "0", .max = 10000,
	  .help = "measure so many engines that connect at once, instead" },
	{ TEI_SETTING(struct options, registration), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "measure what registering memory of each size "
			      "costs, instead of rows" },
	{ TEI_SETTING(struct options, first_request), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "measure what connecting costs, and the first "
			      "request of an engine, instead of rows" },
	{ TEI_SETTING(struct options, connect), .type = TEI_CONF_STRING,
	  .help = "host:port of the target, which runs with --listen; for a "
		  "scheme a list" },
	{ TEI_SETTING(struct options, listen), .type = TEI_CONF_STRING,
	  .help = "be a target at [host:]port until interrupted" },
	{ TEI_SETTING(struct options, insecure), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "serve and reach other hosts" },
	{ TEI_SETTING(struct options, pin), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "initiator on core 0, target on core 1" },
	{ TEI_SETTING(struct options, engine), .expert = true,
	  .type = TEI_CONF_STRING,
	  .help = "settings of both engines: tcp.lanes=2,slice_max=4m" },
	{ TEI_SETTING(struct options, json), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as one JSON object" },
	{ TEI_SETTING(struct options, csv), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as CSV, a line a row" },
	{ TEI_SETTING(struct options, histogram), .type = TEI_CONF_STRING,
	  .help = "write all latencies of each row to this file, as "
		  "HdrHistogram's tools read it" },
	{ TEI_SETTING(struct options, role), .type = TEI_CONF_CHOICE,
	  .def = "initiator", .choices = "initiator|target|reference",
	  .help = "which of its processes this is", .internal = true },
	{ TEI_SETTING(struct options, host), .type = TEI_CONF_STRING,
	  .help = "name of this host for the engines of others",
	  .internal = true },
	{ TEI_SETTING(struct options, spoil), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "make one byte wrong, for tests",
	  .internal = true },
};
/* clang-format on */

/* Before anything is started that would say the same. */
static bool backend_exists(const struct options *o)
{
	struct te_engine *engine = NULL;
	int rc = engine_open(o, "127.0.0.1", &engine);

	te_engine_destroy(engine);
	return !rc;
}

static int run_role(const struct tei_conf *conf)
{
	struct options *o = conf->values;

	if (!strcmp(o->role, "reference"))
		return tei_reference_peer_main(o->working_set, o->pin,
					       o->insecure);
	if (!strcmp(o->role, "target"))
		return serve_main(o);
	if (!options_derive(o))
		return 2;
	if ((o->listen || o->pairs.n) && !backend_exists(o))
		return 2;
	if (o->listen)
		return serve_listen(o);
	if (o->idle || o->connects)
		return peers_main(o);
	if (o->registration || o->first_request)
		return costs_main(o);
	return o->pairs.n ? pairs_main(o) : run_main(o);
}

int main(int argc, char **argv)
{
	static struct options options;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(*rows), &options};

	return tei_tool_main(&conf, argc, argv, about, run_role);
}
