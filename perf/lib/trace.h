/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - request traces: which KV blocks each request reads
 *
 * The format is that of perf/traces/README.md, one JSON object a line.
 */
#ifndef PERF_LIB_TRACE_H
#define PERF_LIB_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define TEI_TRACE_ERROR_LEN 512

struct tei_trace_request {
	uint64_t timestamp_ms;
	uint64_t input_tokens, output_tokens;
	uint64_t first;    /* of its ids in tei_trace.ids */
	uint64_t n_blocks; /* may be 0 */
};

struct tei_trace {
	size_t n_requests, n_ids;
	size_t n_requests_room, n_ids_room;
	struct tei_trace_request *requests; /* requests[n_requests] */
	uint64_t *ids;                      /* ids[n_ids] */
};

/*
 * Read the first @limit requests (0: all) of a file. Blank lines are skipped.
 * On error @out is empty, and @error says "trace FILE line N: reason":
 * -EINVAL (malformed, or no request at all), -ENOMEM, or errno of the file.
 */
int tei_trace_load(const char *path, uint64_t limit, struct tei_trace *out,
		   char error[TEI_TRACE_ERROR_LEN]);
void tei_trace_free(struct tei_trace *t);

#define TEI_TRACE_BLOCK_TOKENS 512u

/*
 * Returns the tokens of the request's first @n blocks; its last block may be
 * partial.
 */
uint64_t tei_trace_tokens(const struct tei_trace_request *r, uint64_t n);

/*
 * Requests are dealt to tenants in turn: request i to tenant i modulo their
 * number. The block @id of one is another block than that of another; 0 keeps
 * ids as they are.
 */
uint64_t tei_trace_tenant_id(uint64_t id, uint64_t tenant);
/*
 * Returns the ids of a trace, each once and sorted: ids[*n]; tei_free(). NULL:
 * no memory.
 */
uint64_t *tei_trace_distinct(const struct tei_trace *t, size_t *n);
/* Returns the place of @id, which is one of them. */
size_t tei_trace_rank(const uint64_t *distinct, size_t n, uint64_t id);
/* Returns ids of requests dealt to @n tenants; tei_free(). NULL: no memory. */
uint64_t *tei_trace_deal(const struct tei_trace *t, uint64_t n);

#define TEI_LRU_UNLIMITED UINT64_MAX

/*
 * Blocks of @t, in the trace's order, that are in an LRU of @capacity blocks
 * when they are read; each is in it afterwards. -ENOMEM.
 */
int tei_lru_hits(const struct tei_trace *t, uint64_t capacity,
		 uint64_t *out_hits);

#endif
