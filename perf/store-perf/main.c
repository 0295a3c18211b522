/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - store-perf: how fast a pool puts, gets and knows
 *
 * Measures one kind of call (walk.h), or a mixed load (mix.h); options are the
 * same.
 */
#include <string.h>
#include <te/store.h>

#include "base/conf.h"
#include "perf/lib/backends.h"
#include "perf/lib/cluster.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/lib/schedule.h"
#include "perf/store-perf/mix.h"
#include "perf/store-perf/options.h"
#include "perf/store-perf/walk.h"

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
	  .def = "3", .unit = "s", .max = 86400000,
	  .help = "time of a row; 0: one row, until interrupted" },
	{ TEI_SETTING(struct options, rate), .type = TEI_CONF_UINT,
	  .def = "0", .max = TEI_SCHEDULE_RATE_MAX, .unit = "/s",
	  .help = "calls begin so often, of all threads together, and their "
		  "latency counts from when they should have begun; 0: each "
		  "when the one before has ended" },
	{ TEI_SETTING(struct options, first_call), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "before each row, also measure what one more client "
		  "costs: joining, registering its memory, its first call" },
	{ TEI_SETTING(struct options, processes), .expert = true,
	  .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = MIX_PROCESSES_MAX,
	  .group = "Mixed load (--mix)",
	  .help = "that the clients are dealt to, at least one each" },
	{ TEI_SETTING(struct options, keys), .type = TEI_CONF_UINT,
	  .def = "0", .max = (double)KEYS_MAX,
	  .help = "that all calls but put draw from; 0: half as many again as "
		  "the pool has room for; of --op: the most that are walked "
		  "over; 0: as many as the working set has room for" },
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
	  .help = "of all clients' objects in the pool, walked over" },
	{ TEI_SETTING(struct options, location), .type = TEI_CONF_STRING,
	  .help = "of the clients' memory: cpu:1 of a NUMA node" },
	{ TEI_SETTING(struct options, remote_location),
	  .type = TEI_CONF_STRING,
	  .help = "of the memory that owners lend to the own pool, the same "
		  "words" },
	{ TEI_SETTING(struct options, unaligned), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "all values of clients at odd addresses" },
	{ TEI_SETTING(struct options, owners), .type = TEI_CONF_UINT,
	  .def = "1", .min = 1, .max = TEI_CLUSTER_OWNERS_MAX,
	  .help = "processes that lend memory to the own pool" },
	{ TEI_SETTING(struct options, pool_bytes), .type = TEI_CONF_SIZE,
	  .def = "0", .max = 1LL << 46,
	  .help = "its memory; 0: a quarter more than the objects take" },
	{ TEI_SETTING(struct options, master), .type = TEI_CONF_STRING,
	  .help = "host:port of a running pool, instead of an own one" },
	{ TEI_SETTING(struct options, host), .type = TEI_CONF_STRING,
	  .def = "127.0.0.1",
	  .help = "this host's name for the owners of a running pool" },
	{ TEI_SETTING(struct options, backends), .alias = "backend",
	  .type = TEI_CONF_STRING,
	  .help = "of the clients' engines: auto (the default), "
		  TEI_BACKENDS_OF_PEERS ", or a list" },
	{ TEI_SETTING(struct options, reference), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "also measure the bare system in this run" },
	{ TEI_SETTING(struct options, pin), .expert = true,
	  .type = TEI_CONF_BOOL,
	  .def = "0", .help = "clients on core 0; the pool's processes and the reference's peer on core 1" },
	{ TEI_SETTING(struct options, interval), .expert = true,
	  .type = TEI_CONF_DURATION,
	  .def = "0", .unit = "s", .max = 3600000,
	  .help = "also report each such interval; 0: not, or without an "
		  "end each second" },
	{ TEI_SETTING(struct options, histogram), .type = TEI_CONF_STRING,
	  .help = "write all latencies of each row to this file, as "
		  "HdrHistogram's tools read it" },
	{ TEI_SETTING(struct options, json), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as one JSON object" },
	{ TEI_SETTING(struct options, csv), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as CSV, a line a row" },
	{ TEI_SETTING(struct options, role), .type = TEI_CONF_CHOICE,
	  .def = "client", .choices = "client|worker|reference", .internal = true,
	  .help = "which of its processes this is" },
	{ TEI_SETTING(struct options, share_fd), .type = TEI_CONF_UINT,
	  .def = "0", .internal = true, .help = "memory shared with the parent" },
	{ TEI_SETTING(struct options, index), .type = TEI_CONF_UINT,
	  .def = "0", .internal = true, .help = "which worker this is" },
};
/* clang-format on */

static int run_role(const struct tei_conf *conf)
{
	struct options *o = conf->values;

	if (!strcmp(o->role, "reference"))
		return tei_reference_peer_main(o->working_set, o->pin, false);
	if (!strcmp(o->role, "worker"))
		return workers_main(o);
	if (options_check(o))
		return 2;
	if (tei_backends_check("store-perf", o->backends))
		return 2;
	if (o->mix)
		return mixed_run(o);
	return options_derive(o) ? 2 : walk_run(o);
}

int main(int argc, char **argv)
{
	static struct options options;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(*rows), &options};

	return tei_tool_main(&conf, argc, argv, about, run_role);
}
