/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - settings of te-perf, and engines made by them
 */
#ifndef PERF_TE_PERF_OPTIONS_H
#define PERF_TE_PERF_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

#include "perf/lib/report.h"
#include "perf/te-perf/locations.h"
#include "perf/te-perf/scheme.h"

#define ROUNDS_MAX 64
#define ROWS_MAX   240 /* of a report: a table has no more */

/* The most of each set of a reference: some caches hold half of that. */
#define REFERENCE_MEMORY_MAX (1ull << 30)

struct list {
	uint64_t v[TEI_SIZES_MAX];
	int n;
};

struct options {
	char *backend, *op, *size, *batch, *threads, *engine, *role;
	char *location, *remote_location; /* of ours, of the target's memory */
	char *histogram, *scheme, *host;
	char *connect, *listen, *svg, *congestion, *reference_at, *fault;
	uint64_t duration, working_set, interval, rounds, pause, timeout;
	uint64_t read_share, peers, connects, rate, processes;
	double verify; /* percent */
	bool reference, json, pin, hot, foreign, insecure, idle;
	bool random, unaligned, csv, bidirectional;
	bool registration, first_request;
	bool priority_probe, keep_going, spoil;
	/* Derived from them: */
	struct list sizes, batches, thread_counts;
	struct locations ours, theirs;
	struct scheme pairs; /* n 0: one initiator and its target */
	uint32_t n_hosts;    /* of the pairs */
	uint64_t walked;     /* of working_set: whole words at each location */
};

/* The command line of this program in another role. */
struct role_args {
	char exe[PATH_MAX], role[32], backend[64], set[48], engine[1024];
	char pin[8], insecure[16], spoil[8], host[TE_NAME_LEN_MAX + 8];
	char *argv[10];
};
/* Makes the command line of @role. -ENAMETOOLONG. */
int role_args(struct role_args *a, const struct options *o, const char *role);

/* Derives and checks; false: a setting is wrong, said on stderr. */
bool options_derive(struct options *o);
/* Counts the hosts of "a:1,b:2"; 0: one has no name, or is there twice. */
uint32_t options_count_hosts(const char *list);
/* Tells whether the backend cannot leave a process. */
bool options_in_process(const struct options *o);

/*
 * Creates an engine named @host with --backend, --insecure and what --engine
 * asks for. -errno, said on stderr; -EINVAL: one of the settings is wrong.
 */
int engine_open(const struct options *o, const char *host,
		struct te_engine **out);

#endif
