/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h - how fast each of some peers reaches each other one
 *
 * Each of them is te-doctor listen --pairs. One pair at a time is measured, so
 * that none disturbs another.
 */
#ifndef CMD_DOCTOR_PAIRS_H
#define CMD_DOCTOR_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <te/te.h>

#include "cmd/doctor/order.h"
#include "cmd/doctor/report.h"

struct json_t;

/*
 * Results by backend, then by who measures, then by whom it is measured
 * towards.
 */
struct tei_matrix {
	const char *const *names;    /* names[n], not owned */
	const char *const *backends; /* backends[n_backends]; "": any */
	size_t n, n_backends;
	struct tei_answer *cells; /* owned */
};

/* 0, -ENOMEM. fini() of one that is all zero is fine. */
int tei_matrix_init(struct tei_matrix *m, const char *const names[], size_t n,
		    const char *const backends[], size_t n_backends);
void tei_matrix_fini(struct tei_matrix *m);
struct tei_answer *tei_matrix_cell(const struct tei_matrix *m, size_t backend,
				   size_t from, size_t to);

/*
 * Ask all of them, which fills every cell but those of a peer and itself.
 * @announce, if not NULL, is called before each pair. Blocks: 2 x @time_ms a
 * pair and what it takes to connect; 30 s more, once, for each peer that does
 * not answer. 0 or a negative errno of our own engine.
 */
typedef void tei_pair_fn(const char *from, const char *to, size_t done,
			 size_t total, void *arg);
int tei_pairs_ask(struct te_engine *engine, struct tei_matrix *m,
		  uint64_t time_ms, tei_pair_fn *announce, void *arg);

/* Report pairs that fail or are slow, and the likely cause. */
void tei_pairs_judge(const struct tei_matrix *m, struct tei_report *r);

/* Tables of what was written and read. 0, -EIO. */
int tei_pairs_text(const struct tei_matrix *m, FILE *out);
/* An array with an object for each pair; NULL: no memory. */
struct json_t *tei_pairs_pack(const struct tei_matrix *m);

#endif
