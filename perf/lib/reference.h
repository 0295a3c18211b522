/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.h - what this machine gives without us, measured in the same run
 *
 * Four figures of the bare system: one tuned TCP stream between two processes
 * over loopback, a spinning 8-byte ping-pong over TCP, a cold memcpy and a cold
 * copy by the kernel that is fastest. All walk over whole working sets, as the
 * benchmarks do, so that nothing is found in a cache. Rounds are taken before,
 * between and after the benchmark's own rows; the median of them counts.
 *
 * Threads: one.
 */
#ifndef PERF_LIB_REFERENCE_H
#define PERF_LIB_REFERENCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "perf/lib/bare.h"
#include "perf/lib/process.h"

#define TEI_REFERENCE_ROUNDS 64
#define TEI_REFERENCE_SETS   3 /* working sets in memory, the peer's included */

struct tei_reference {
	double stream_gb_per_s, pingpong_us;
	double copy_gb_per_s, best_copy_gb_per_s;
	const char *kernel; /* of the best copy; static */
};

/*
 * Congestion control that our tcp asks for as well; where refused the default
 * stays.
 */
#define TEI_REFERENCE_CONGESTION "cubic"

struct tei_reference_run {
	struct tei_process process;
	struct tei_bare_peer peer; /* peer.from: also for the caller */
	double seconds;            /* of the stream in each round */
	size_t n_rounds;
	const struct tei_copier *kernel; /* fastest in the last round */
	struct tei_reference round[TEI_REFERENCE_ROUNDS];
};

/*
 * Start the peer, which is this program with --role reference, --working-set
 * and, when @pin, --pin; map and touch the memory. -errno, said on stderr.
 */
int tei_reference_open(struct tei_reference_run *r, uint64_t working_set,
		       double seconds, bool pin);
/* Measure once more; rounds beyond the room are not kept. -errno, said. */
int tei_reference_round(struct tei_reference_run *r);
/* Returns the median of each figure over all rounds. */
struct tei_reference tei_reference_median(const struct tei_reference_run *r);
void tei_reference_close(struct tei_reference_run *r);

/*
 * The parts, for other figures: the peer's process, reached over loopback, and
 * our own memory. @peer gets what is known. @shared: of a file in memory, as
 * engines of one host share it, not of malloc's kind. -errno.
 */
int tei_reference_peer_start(struct tei_process *process,
			     struct tei_bare_peer *peer, uint64_t len, bool pin,
			     bool insecure);
int tei_reference_memory(struct tei_bare_peer *peer, uint64_t len, bool shared);
void tei_reference_memory_free(struct tei_bare_peer *peer);

/*
 * The other side: what main() does in role "reference". Serves, unless
 * @insecure, members alone (base/peer.h), with those of MOONCAKE_ALLOW_UIDS. An
 * exit code.
 */
int tei_reference_peer_main(uint64_t working_set, bool pin, bool insecure);

/* Returns a new object of the figures; NULL: no memory. */
json_t *tei_reference_json(const struct tei_reference *ref);
void tei_reference_print(const struct tei_reference *ref, FILE *out);

/* Returns the median of v[n], which it sorts; 0 when @n is 0. */
double tei_median(double *v, size_t n);
/*
 * Maps @len bytes, 1 or more, for munmap(), and touches them. They begin at a
 * huge page whatever @len is, so that runs do not differ by where the kernel
 * puts them. Returns NULL: no memory.
 */
void *tei_map_touched(uint64_t len);

#endif
