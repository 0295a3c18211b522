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

/*
 * Words of --scheme; "none" has no pairs, and scheme_init() does not take it.
 */
#define SCHEMES "none|pairs|pairwise|manytoone|onetomany|all"

/* A host that submits requests, and the host whose memory they name. */
struct pair {
	uint32_t from, to; /* numbers of hosts */
	uint32_t out;      /* number of this pair among those from @from */
	uint32_t in;       /* number of this pair among those to @to */
};

struct scheme {
	uint32_t n;
	struct pair pair[PAIRS_MAX];
	uint32_t shares; /* most pairs that one host is first in, or second */
};

/*
 * Sets the pairs of @n_hosts by a word of SCHEMES. Who submits requests: with
 * "pairs" (or "pairwise") the first host to the second, the third to the
 * fourth; with "manytoone" all others to the first; with "onetomany" the first
 * to all others; with "all" each to each other. @bidirectional: each pair is
 * also there the other way round. Returns NULL, or static words that tell what
 * is wrong.
 */
const char *scheme_init(struct scheme *s, const char *word, uint32_t n_hosts,
			bool bidirectional);

#endif
