/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scheme.h - which hosts of a list move bytes to or from which others
 */
#ifndef PERF_TE_PERF_SCHEME_H
#define PERF_TE_PERF_SCHEME_H

#include <stdbool.h>
#include <stdint.h>

#define HOSTS_MAX 64
#define PAIRS_MAX (HOSTS_MAX * (HOSTS_MAX - 1))

/* Words for --scheme. */
#define SCHEMES "none|pairs|pairwise|manytoone|onetomany|all"

/* One host that submits requests, and the one whose memory they name. */
struct pair {
	uint32_t from, to; /* numbers of hosts */
	uint32_t out, in;  /* counts @from's and @to's pairs from 0 on */
};

struct scheme {
	uint32_t n;
	struct pair pair[PAIRS_MAX];
	uint32_t shares; /* most pairs of a host in one role */
};

/*
 * Sets the pairs of @n_hosts by a word of SCHEMES: "pairs" (or "pairwise") the
 * first with the second, the third with the fourth; "manytoone" all others with
 * the first; "onetomany" the first with all others; "all" each with each other.
 * @bidirectional: each the other way, too. Returns NULL, or static words that
 * tell what is wrong.
 */
const char *scheme_init(struct scheme *s, const char *word, uint32_t n_hosts,
			bool bidirectional);

#endif
