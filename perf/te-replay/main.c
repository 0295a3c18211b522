/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - te-replay: a real request trace through a real pool
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "perf/lib/cluster.h"
#include "perf/lib/process.h"
#include "perf/lib/report.h"
#include "perf/lib/trace.h"
#include "perf/te-replay/client.h"
#include "perf/te-replay/replay.h"
#include "perf/te-replay/share.h"

#define PROGRAM "te-replay"
/*
 * Path of the excerpt, seen from the program in the build tree and where
 * installed.
 */
#define EXCERPT     "../share/te/traces/conversation_2000.jsonl"
#define IDLE_MS_MAX 60000

static const char about[] =
	"Replays a trace of LLM requests through a pool: each request looks up "
	"its blocks, gets the prefix that is there and puts the rest. Starts "
	"master, owners and clients as processes of their own, compares every "
	"byte, and reports hit ratios, rates and latencies.";

/* clang-format off */
static const struct tei_setting rows[] = {
	{ TEI_SETTING(struct options, trace), .type = TEI_CONF_STRING,
	  .help = "JSON lines; default: the excerpt that comes with this" },
	{ TEI_SETTING(struct options, block_bytes), .type = TEI_CONF_SIZE,
	  .def = "16k", .min = 1, .max = 1 << 30,
	  .help = "size of each block's value" },
	{ TEI_SETTING(struct options, clients), .type = TEI_CONF_UINT,
	  .def = "2", .min = 1, .max = CLIENTS_MAX,
	  .help = "client processes" },
	{ TEI_SETTING(struct options, tenants), .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = CLIENTS_MAX,
	  .help = "that requests and clients are dealt to in turn, each with "
		  "keys of its own" },
	{ TEI_SETTING(struct options, owners), .type = TEI_CONF_UINT,
	  .def = "2", .min = 1, .max = TEI_CLUSTER_OWNERS_MAX,
	  .help = "processes that lend memory to the pool" },
	{ TEI_SETTING(struct options, pool_bytes), .type = TEI_CONF_SIZE,
	  .def = "160m", .min = 65536, .max = 1LL << 46,
	  .help = "memory of all owners together" },
	{ TEI_SETTING(struct options, rate), .type = TEI_CONF_STRING,
	  .def = "max",
	  .help = "max, or times the trace's own speed: 1x, 10x" },
	{ TEI_SETTING(struct options, limit), .type = TEI_CONF_UINT,
	  .def = "0", .help = "first requests of the trace; 0: all" },
	{ TEI_SETTING(struct options, value_check), .type = TEI_CONF_BOOL,
	  .def = "1", .help = "compare every byte that is got" },
	{ TEI_SETTING(struct options, idle), .type = TEI_CONF_DURATION,
	  .def = "1s", .unit = "s", .max = IDLE_MS_MAX,
	  .help = "how long to watch the idle processes afterwards" },
	{ TEI_SETTING(struct options, master), .type = TEI_CONF_STRING,
	  .help = "host:port of a running pool, instead of an own one" },
	{ TEI_SETTING(struct options, host), .type = TEI_CONF_STRING,
	  .def = "127.0.0.1",
	  .help = "this host's name for the owners of a running pool" },
	{ TEI_SETTING(struct options, histogram), .type = TEI_CONF_STRING,
	  .help = "write all latencies to this file, as HdrHistogram's tools "
		  "read it" },
	{ TEI_SETTING(struct options, json), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as one JSON object" },
	{ TEI_SETTING(struct options, csv), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report the calls as CSV, a line a kind" },
	{ TEI_SETTING(struct options, role), .type = TEI_CONF_CHOICE,
	  .def = "parent", .choices = "parent|client", .internal = true,
	  .help = "which of its processes this is" },
	{ TEI_SETTING(struct options, share_fd), .type = TEI_CONF_UINT,
	  .def = "0", .internal = true, .help = "memory shared with the parent" },
	{ TEI_SETTING(struct options, index), .type = TEI_CONF_UINT,
	  .def = "0", .internal = true, .help = "which client this is" },
};
/* clang-format on */

/* "max", "1x", "0.5x", "10". *out 0: as fast as possible. */
static bool parse_rate(const char *text, double *out)
{
	char *end;

	*out = 0;
	if (!strcmp(text, "max"))
		return true;
	*out = strtod(text, &end);
	if (end == text || (*end == 'x' && end[1]) || (*end && *end != 'x'))
		return false;
	return *out > 0 && *out <= 1e9;
}

static int replay_file(const struct options *o, const char *path, double rate)
{
	char error[TEI_TRACE_ERROR_LEN];
	struct tei_trace trace;
	int code;

	if (tei_trace_load(path, o->limit, &trace, error)) {
		fprintf(stderr, "%s\n", error);
		return 2;
	}
	code = replay_run(o, &trace, path, rate);
	tei_trace_free(&trace);
	return code;
}

static int run_replay(const struct tei_conf *conf)
{
	const struct options *o = conf->values;
	char path[PATH_MAX];
	double rate;

	if (!strcmp(o->role, "client"))
		return client_main(o);
	if (o->tenants > o->clients) {
		fprintf(stderr,
			PROGRAM ": tenants: %d are more than the %d clients\n",
			(int)o->tenants, (int)o->clients);
		return 2;
	}
	if (o->csv && o->json) {
		fprintf(stderr, PROGRAM ": csv: not together with json\n");
		return 2;
	}
	if (!parse_rate(o->rate, &rate)) {
		fprintf(stderr,
			PROGRAM ": rate: \"%s\" is wrong, give max, 1x, "
				"0.5x ...\n",
			o->rate);
		return 2;
	}
	if (tei_path_given(o->trace))
		return replay_file(o, o->trace, rate);
	if (tei_process_path(EXCERPT, path)) {
		fprintf(stderr, PROGRAM ": trace: give a file\n");
		return 2;
	}
	return replay_file(o, path, rate);
}

int main(int argc, char **argv)
{
	static struct options options;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(*rows), &options};

	return tei_tool_main(&conf, argc, argv, about, run_replay);
}
