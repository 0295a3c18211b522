/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_pipelines.h - whether puts of many keys are faster in one pipeline or two
 *
 * Both are used by turns. A round is compared with the one just before it when
 * that one used the other number of pipelines and moved about as many keys and
 * bytes; the faster of the two gets a vote. So one round that was held up, or
 * slow first rounds, in which memory is touched and connections are made, count
 * no more than any other, and sizes do not mix.
 *
 * Threads: any. A vote that another thread overwrites is lost, no more.
 */
#ifndef STORE_CLIENT_PUT_PIPELINES_H
#define STORE_CLIENT_PUT_PIPELINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed at first. */
struct tes_put_pipelines {
	atomic_uint n_rounds;
	atomic_int votes;   /* above 0: two are faster; below: one is */
	atomic_ullong last; /* the round before; 0: none */
};

/* Tells whether the next round uses two pipelines. */
bool tes_put_pipelines_two(struct tes_put_pipelines *pipelines);
/* Records that @n keys of @bytes in all took @ns, in two pipelines or one. */
void tes_put_pipelines_learn(struct tes_put_pipelines *pipelines, bool two,
			     size_t n, uint64_t bytes, uint64_t ns);

#endif
