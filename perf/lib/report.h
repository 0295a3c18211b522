/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - the edges of the benchmarks: lists in; tables, JSON, the machine
 * that was measured on and a bar of progress (only on a terminal) out
 */
#ifndef PERF_LIB_REPORT_H
#define PERF_LIB_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/conf.h"

#define TEI_SIZES_MAX 32

/*
 * Reads "4k,64k,1m" or "4k..16m" (doubling) or both mixed into out[]; each is
 * within 1 .. @max. Returns how many, 1 or more, or -EINVAL after a line on
 * stderr that names @setting and what is wrong.
 */
int tei_sizes_parse(const char *program, const char *setting, const char *text,
		    uint64_t max, uint64_t out[TEI_SIZES_MAX]);

/*
 * Runs a program as tei_conf_program() does, for every main() here. It ignores
 * SIGPIPE, so a helper that died is an error and does not end us. Returns 1,
 * with a message, when what was printed cannot be written.
 */
int tei_tool_main(struct tei_conf *conf, int argc, char **argv,
		  const char *about, int (*run)(const struct tei_conf *conf));

/* Tells whether a setting names a file; "" is none, as NULL is. */
static inline bool tei_path_given(const char *path)
{
	return path && *path;
}

/*
 * Prints an object to stdout and takes the caller's reference. Says on stderr
 * why it could not: -ENOMEM, @object is NULL; -EIO, stdout cannot be written.
 */
int tei_report_json(const char *program, json_t *object);

/*
 * Describes this machine in a new object: version, kernel, cpu, cores,
 * governor, congestion, load_average. What is not known is "". NULL: no memory.
 */
json_t *tei_machine_json(void);

#define TEI_TABLE_COLUMNS 16
#define TEI_TABLE_ROWS    256
#define TEI_TABLE_CELL    40

/* A table of texts; the first row is the head. All zero is an empty one. */
struct tei_table {
	size_t n_rows, n_columns, column;
	char cell[TEI_TABLE_ROWS][TEI_TABLE_COLUMNS][TEI_TABLE_CELL];
};

/* Begins the next row; rows and cells beyond the room are dropped. */
void tei_table_row(struct tei_table *t);
/* Sets the row's next cell; longer texts are cut. */
void tei_table_cell(struct tei_table *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Begins a row of these texts, as the head has; @n: how many. */
void tei_table_texts(struct tei_table *t, const char *const texts[], size_t n);
/*
 * Prints the first column to the left, others to the right, a line below the
 * head.
 */
void tei_table_print(const struct tei_table *t, FILE *out);

/* Writes "16 KiB", "1.5 GiB", "100 B". Returns @out. */
const char *tei_text_bytes(uint64_t bytes, char out[24]);
/* Writes "288,500". Returns @out. */
const char *tei_text_count(uint64_t n, char out[32]);

struct tei_progress {
	const char *what; /* not owned */
	bool shown;
	uint64_t start_ns, last_ns;
};

void tei_progress_begin(struct tei_progress *p, const char *what);
/* Draws at most ten times a second. */
void tei_progress_show(struct tei_progress *p, uint64_t done, uint64_t total);
/* Remove the bar. */
void tei_progress_end(struct tei_progress *p);

#endif
