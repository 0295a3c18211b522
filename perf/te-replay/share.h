/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h - what te-replay's processes have in common, in one memfd
 *
 * The parent writes the plan and the trace before it starts clients; from then
 * on they are constant. Clients take requests from one cursor a tenant, so that
 * the order stays that of the trace except among those in flight at once. Each
 * client alone writes its tally; the parent reads it after the client has said
 * that it is done.
 */
#ifndef PERF_TE_REPLAY_SHARE_H
#define PERF_TE_REPLAY_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

#include "perf/lib/histogram.h"
#include "perf/lib/trace.h"

#define CLIENTS_MAX 64

struct tally {
	uint64_t requests, blocks;
	uint64_t got, lost; /* lost: there when looked up, then a miss */
	uint64_t tokens, got_tokens;
	uint64_t put, put_failed;
	uint64_t no_room;     /* of those that failed: -200 */
	uint64_t put_retries; /* blocks that the store asked for room again */
	uint64_t errors;      /* calls or keys that failed for other reasons */
	int last_error;       /* of those, a store code */
	uint64_t wrong_bytes;
	uint64_t lookup_ns, get_ns, put_ns;
	uint64_t start_ns, end_ns; /* until it found no more request */
	/* Samples of the pool's use since it first evicted. */
	uint64_t n_samples, sampled_used;
	/* Per request, ns. */
	struct tei_histogram lookup, get, put_time;
	/*
	 * The whole request, from when the trace at its rate has it begin; making
	 * and comparing bytes included.
	 */
	struct tei_histogram request;
};

struct share {
	uint64_t len; /* of the whole mapping */
	char master[TE_NAME_LEN_MAX + 1], host[TE_NAME_LEN_MAX + 1];
	uint64_t block_bytes;
	double rate; /* times the trace's own speed; 0: as fast as possible */
	bool value_check;
	uint64_t n_tenants;    /* client i is tenant i mod it */
	uint64_t sample_every; /* requests */
	uint64_t n_requests, n_ids, max_blocks; /* max: of one request */
	uint64_t requests_at, ids_at;           /* offsets into the mapping */
	uint64_t evicted_before; /* set before "go", as start_ns */
	uint64_t start_ns;
	/* Plain counts: nothing else is published by them, so relaxed. */
	/* Number of requests taken, of each tenant. */
	_Alignas(64) _Atomic uint64_t next[CLIENTS_MAX];
	_Alignas(64) _Atomic uint64_t done;
	_Alignas(64) struct tally tally[CLIENTS_MAX];
};

/* Maps a new memfd with a copy of @t. *out_fd: the memfd. -errno. */
int share_create(const struct tei_trace *t, struct share **out, int *out_fd);
/* Maps the memfd of another process. -errno. */
int share_open(int fd, struct share **out);
void share_close(struct share *s); /* NULL is fine */

const struct tei_trace_request *share_request(const struct share *s,
					      uint64_t index);
const uint64_t *share_ids(const struct share *s,
			  const struct tei_trace_request *r);

#endif
