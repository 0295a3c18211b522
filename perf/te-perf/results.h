/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.h - the rows that te-perf has measured
 */
#ifndef PERF_TE_PERF_RESULTS_H
#define PERF_TE_PERF_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/lib/bare.h"
#include "perf/lib/percentiles.h"
#include "perf/te-perf/load.h"
#include "perf/te-perf/options.h"
#include "perf/te-perf/rails.h"
#include "perf/te-perf/series.h"

/*
 * Each figure is measured once a round, or is NAN; figure_names[] has its name.
 */
enum figure {
	/* ours */
	GB_PER_S,
	OPS_PER_S,
	P50_US,
	P99_US,
	P999_US,
	CPU_S_PER_GB,
	CPU_US_PER_REQUEST,
	GAP_MS,
	LATE_MS,
	PROBE_P50_US,
	PROBE_P99_US,
	PROBE_P999_US,
	/* the bare system's: these and all that follow need --reference */
	STREAM_GB_PER_S,
	STREAM_CPU_S_PER_GB,
	EXCHANGE_GB_PER_S,
	EXCHANGE_CPU_S_PER_GB,
	EXCHANGE_P50_US,
	PINGPONG_SPINNING_US,
	PINGPONG_BLOCKING_US,
	MEMCPY_GB_PER_S,
	BEST_COPY_GB_PER_S,
	PROCESS_VM_GB_PER_S,
	RAW_GB_PER_S,   /* the same shape without the engine */
	BOUND_GB_PER_S, /* the most that this way of moving bytes allows */
	/* ours divided by the bare system's, of the same round */
	OF_RAW,
	OF_BOUND,
	OF_PINGPONG_SPINNING,
	OF_PINGPONG_BLOCKING,
	CPU_OF_STREAM,
	P99_OF_IDEAL, /* divided by the time of a batch at the bound's rate */
	N_FIGURES,
};
#define FIGURES_OURS STREAM_GB_PER_S /* figures below it are the engine's */

extern const char *const figure_names[N_FIGURES];

struct row {
	const char *op;        /* of a direction */
	const char *from, *to; /* hosts of a scheme, not owned; else NULL */
	uint64_t size;
	uint32_t batch, threads, read_share;
	char carrier[32];        /* backend that has moved the bytes */
	const char *raw, *bound; /* static: "stream", "exchange"...; or NULL */
	const char *kernel;      /* static: of the best copy; or NULL */
	size_t n_rounds;
	double v[ROUNDS_MAX][N_FIGURES];
	struct rails rails; /* bytes of all rounds */
	size_t n_points;    /* of the last round */
	struct series_point *points;
	struct rails point_rails; /* names of their columns */
	struct load_error errors[LOAD_ERRORS];
	uint64_t checked_bytes, wrong_bytes;
	struct tei_histogram *latency; /* of all rounds; with --histogram */
	uint64_t behind; /* batches due and not begun, of all rounds */
	/* --fault sets these after the load. */
	bool fault_quiet;
	uint64_t bystander_requests, bystander_errors;
};

/* A kernel that the initiator's engine has chosen for its copies. */
struct copy_choice {
	const char *copies, *kernel; /* static: "te_copy_...", "avx512-4" */
	double gb_per_s;
};

#define CHOICES_MAX 8

struct results {
	size_t n_rows;
	struct row row[ROWS_MAX];
	char congestion[TEI_CONGESTION]; /* of the raw sockets */
	size_t n_choices;
	struct copy_choice choices[CHOICES_MAX];
	double wakeup_us; /* te_wakeup_ns; 0: not known */
	struct tei_percentiles histograms;
};

/*
 * Opens the file of --histogram, so that a wrong path is known before anything
 * is measured. -errno, said on stderr.
 */
int results_open(struct results *r, const struct options *o);

/* Describes what a row does, of those of one size, batch and threads. */
struct direction {
	const char *op;      /* static: "write", "read", "mixed", "notify" */
	uint32_t read_share; /* percent of the requests */
};
/* Lists the directions that --op asks for; returns how many, 1 or 2. */
size_t results_directions(const struct options *o, struct direction out[2]);

/*
 * Sets the engine's figures of a round; those that it does not have stay as
 * they are. @cpu_ns: CPU time of all processes; 0: not known.
 */
void row_figures(const struct row *row, const struct load_result *result,
		 uint64_t cpu_ns, double v[N_FIGURES]);
/* Adds errors and latencies of a round to those of the row. -ENOMEM. */
int row_add(struct row *row, const struct options *o,
	    const struct load_result *result);
/*
 * Return a figure's median, least and greatest of all rounds; NAN: it has none.
 */
double row_median(const struct row *row, enum figure f);
double row_min(const struct row *row, enum figure f);
double row_max(const struct row *row, enum figure f);
/* Tells whether a row has a value of the figure. */
bool results_have(const struct results *r, enum figure f);
uint64_t results_wrong_bytes(const struct results *r);
/* Returns how many requests of the row have failed. */
uint64_t row_failed(const struct row *row);
/* Removes the last rows that have no round, as the run was interrupted. */
void results_forget_unmeasured(struct results *r);
void results_fini(struct results *r);

/* Prints all rows as one JSON object. -ENOMEM, -EIO: said on stderr. */
int results_json(const struct results *r, const struct options *o);
/* Prints a line of names and a line for each row; stdout tells of errors. */
void results_csv(const struct results *r, const struct options *o);
/* Draws the sweep to the file of --svg. -errno, said on stderr. */
int results_draw(const struct results *r, const struct options *o);
/*
 * Prints all rows to stdout, as asked for, and writes the files of --svg and
 * --histogram. -ENOMEM; -EIO also when bytes are wrong, said on stderr.
 */
int results_report(struct results *r, const struct options *o);

#endif
