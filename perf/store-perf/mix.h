/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mix.h - mixed load: what all its processes know and count
 *
 * Everything lies in one memfd. The parent writes the plan before it starts
 * processes; from then on it is constant. Each worker, a thread of one of
 * them, alone writes its tally; the parent reads it when the process has said
 * that it is done.
 *
 * Keys are numbers. Those below n_keys are what gets, checks and replacements
 * draw from; puts are of numbers that no other has used. Size and bytes of a
 * value follow from the number, so every byte that comes back can be compared.
 */
#ifndef PERF_STORE_PERF_MIX_H
#define PERF_STORE_PERF_MIX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

#include "perf/lib/histogram.h"
#include "perf/lib/popularity.h"
#include "perf/lib/report.h"
#include "perf/lib/weights.h"
#include "perf/store-perf/intervals.h"
#include "perf/store-perf/options.h"

#define MIX_WORKERS_MAX   4096
#define MIX_PROCESSES_MAX 64
#define MIX_CODES         8          /* different ones of an operation */
#define MIX_SPARE_BYTES   (4u << 20) /* by which places of values differ */

enum mix_op {
	MIX_GET,
	MIX_PUT,
	MIX_EXIST,
	MIX_UPSERT,
	MIX_REMOVE,
	MIX_FILL, /* puts of what gets have missed; not to be asked for */
	MIX_OPS,
};

/* Returns the word of --mix: "get". */
const char *mix_op_name(enum mix_op op);

struct mix_plan {
	char master[TE_NAME_LEN_MAX + 1], host[TE_NAME_LEN_MAX + 1];
	char backends[64]; /* the engine's setting; "": as without it */
	uint64_t run;      /* part of every key */
	uint64_t n_keys, seed, batch, clients, threads, processes;
	uint64_t retries;
	uint64_t count; /* calls of all workers; 0: until the time is over */
	uint64_t rate;  /* calls a second of all workers; 0: a closed loop */
	uint64_t warm_up_ns, duration_ns; /* duration 0: no end */
	bool prefill, fill, verify, paced, unaligned;
	int node;               /* of the workers' memory */
	struct tei_weights ops; /* of op_of[], by the same index */
	enum mix_op op_of[TEI_WEIGHTS_MAX];
	struct tei_weights sizes; /* of size[], by the same index */
	uint64_t size[TEI_WEIGHTS_MAX], max_size;
	struct tei_popularity popularity;
};

struct mix_code {
	int code;
	uint64_t n;
};

/* Counts of one operation. keys = good + missed + failed. */
struct mix_figures {
	uint64_t calls, keys, good, missed, failed;
	uint64_t bytes;                  /* of good gets and puts */
	struct mix_code code[MIX_CODES]; /* the last also has all that follow */
	struct tei_histogram latency;    /* ns of a call */
};

struct mix_tally {
	struct mix_figures op[MIX_OPS];
	uint64_t wrong_bytes;
	uint64_t retried;          /* keys that were put again by us */
	uint64_t behind;           /* calls of the rate that never began */
	uint64_t start_ns, end_ns; /* of what is counted */
};

struct mix_share {
	uint64_t len; /* of the whole mapping */
	struct mix_plan plan;
	uint64_t start_ns;  /* set before "go" */
	_Atomic bool ended; /* interrupted; relaxed, it is looked at again */
	struct pace pace;   /* of a plan that is paced */
	/* Sums over the processes' clients, said at the end. */
	_Atomic uint64_t put_retries, location_hits, location_misses;
	_Alignas(64) _Atomic uint64_t next_call;
	_Alignas(64) _Atomic uint64_t n_filled; /* keys, for the parent's bar */
	_Alignas(64) struct mix_tally tally[];  /* of clients * threads */
};

/*
 * Makes the plan of the options. The caller adds what is known later: master,
 * run, and n_keys where the options leave that 0. -EINVAL after a line on
 * stderr that names the setting.
 */
int mix_plan_make(const struct options *o, struct mix_plan *out);
/* Returns the bytes from one value to the next in a worker's memory. */
static inline uint64_t mix_stride(const struct mix_plan *plan)
{
	return (plan->max_size + 7) & ~7ull;
}
/* Returns the bytes of the value of key @number. */
uint64_t mix_value_size(const struct mix_plan *plan, uint64_t number);
/* Returns the mean of the bytes of all values. */
double mix_mean_size(const struct mix_plan *plan);
static inline uint64_t mix_workers(const struct mix_plan *plan)
{
	return plan->clients * plan->threads;
}

/* Maps a new memfd with the plan in it. *out_fd: the memfd. -errno. */
int mix_share_create(const struct mix_plan *plan, struct mix_share **out,
		     int *out_fd);
/* Maps the memfd of another process. -errno. */
int mix_share_open(int fd, struct mix_share **out);
void mix_share_close(struct mix_share *s); /* NULL is fine */

void mix_count_code(struct mix_figures *f, int code, uint64_t n);
/* Adds what one worker counted to a sum. */
void mix_tally_add(struct mix_tally *sum, const struct mix_tally *t);

/*
 * Runs clients @o->index, @o->index + processes, ... of the plan; main() in
 * role "worker" does this. Says "ready"; hears "fill", says "filled"; hears
 * "go", says "done"; ends with its input. Returns an exit code.
 */
int workers_main(const struct options *o);

/* Runs a mixed load as @o says, and reports. An exit code; errors are said. */
int mixed_run(const struct options *o);

#endif
