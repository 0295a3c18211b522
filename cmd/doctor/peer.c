/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - read memory of a peer for a moment, or let it be read */
#include "cmd/doctor/peer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/signals.h"

#define OPEN_MS    5000
#define REQUEST_MS 5000
#define PIECE      (1ull << 20)
#define DEPTH      16
#define SET_LEN    (DEPTH * PIECE) /* of the one who listens */
#define REGIONS    64

/* ---- reading ---- */

struct reader {
	struct te_engine *engine;
	struct te_batch *batch;
	te_segment_id segment;
	struct te_segment_region from;
	unsigned char *to; /* DEPTH pieces */
	uint64_t piece;
};

/* A region that we may read; the largest, so that caches help less. */
static bool find_region(struct reader *reader)
{
	struct te_segment_region all[REGIONS];
	size_t n = REGIONS, i;
	bool found = false;

	if (te_segment_regions(reader->engine, reader->segment, all, &n))
		return false;
	for (i = 0; i < n && i < REGIONS; i++) {
		if (!(all[i].access & TE_ACCESS_REMOTE_READ) ||
		    (found && all[i].length <= reader->from.length))
			continue;
		reader->from = all[i];
		found = true;
	}
	reader->piece = found && reader->from.length < PIECE
				? reader->from.length
				: PIECE;
	return found;
}

/* One batch; 0, or the error of one of its requests. */
static int read_once(struct reader *reader, uint64_t round)
{
	uint64_t places = reader->from.length / reader->piece;
	struct te_request requests[DEPTH] = {0};
	struct iovec pieces[DEPTH];
	struct te_completion done;
	uint32_t i;
	int rc;

	for (i = 0; i < DEPTH; i++) {
		pieces[i] =
			(struct iovec){reader->to + i * PIECE, reader->piece};
		requests[i] = (struct te_request){
			.op = TE_READ,
			.segment = reader->segment,
			.remote = reader->from.addr +
				  (round * DEPTH + i) % places * reader->piece,
			.pieces = &pieces[i],
			.n_pieces = 1,
			.timeout_ms = REQUEST_MS,
		};
	}
	rc = te_batch_submit(reader->batch, requests, DEPTH);
	if (!rc)
		rc = te_batch_wait(reader->batch, UINT32_MAX);
	for (i = 0; !rc && i < DEPTH; i++) {
		rc = te_batch_result(reader->batch, i, &done);
		if (!rc)
			rc = done.error;
	}
	if (te_batch_reset(reader->batch) && !rc)
		rc = -EBUSY;
	return rc;
}

static void read_rails(struct te_engine *engine, struct te_rail_info *out,
		       size_t *n)
{
	*n = TEI_PEER_RAILS;
	(void)te_engine_rails(engine, out, n);
	if (*n > TEI_PEER_RAILS)
		*n = TEI_PEER_RAILS;
}

static void keep_rails(struct reader *reader, const struct te_rail_info *before,
		       struct tei_peer_visit *v)
{
	struct te_rail_info after[TEI_PEER_RAILS];
	size_t i;

	read_rails(reader->engine, after, &v->n_rails);
	for (i = 0; i < v->n_rails; i++)
		v->rails[i] = (struct tei_peer_rail){
			.name = after[i].name,
			.backend = after[i].backend,
			.state = after[i].state,
			.speed_bps = after[i].speed_bps,
			.bytes = after[i].received_bytes -
				 before[i].received_bytes,
		};
}

static void keep_links(struct reader *reader, struct tei_peer_visit *v)
{
	struct te_link_info links[TEI_PEER_RAILS];
	size_t n = TEI_PEER_RAILS, i;

	if (te_segment_links(reader->engine, reader->segment, links, &n))
		return;
	for (i = 0; i < n && i < v->n_rails; i++) {
		v->rails[i].link = links[i].state;
		v->rails[i].error = links[i].error;
		memcpy(v->rails[i].way, links[i].way, sizeof(links[i].way));
	}
}

/* For a time, and once at least; what the first batch connects is not timed. */
static void read_for(struct reader *reader, uint64_t time_ms,
		     struct tei_peer_visit *v)
{
	struct te_rail_info before[TEI_PEER_RAILS];
	uint64_t begun, round = 0;
	size_t n;

	(void)te_segment_warm_up(reader->engine, reader->segment, OPEN_MS,
				 NULL);
	v->read_error = read_once(reader, round);
	read_rails(reader->engine, before, &n);
	begun = tei_now_ns();
	while (!v->read_error && v->ns < time_ms * TEI_NS_PER_MS) {
		v->read_error = read_once(reader, ++round);
		v->ns = tei_now_ns() - begun;
	}
	v->bytes = round * DEPTH * reader->piece;
	keep_rails(reader, before, v);
	keep_links(reader, v);
}

static int read_from(struct reader *reader, uint64_t time_ms,
		     struct tei_peer_visit *v)
{
	te_region_id region;
	struct te_region mine = {.length = DEPTH * PIECE};
	int rc = te_batch_create(reader->engine, DEPTH, &reader->batch);

	if (rc)
		return rc;
	rc = te_memory_alloc(reader->engine, mine.length, &mine.addr);
	if (rc)
		goto destroy_batch;
	rc = te_region_add(reader->engine, &mine, &region);
	if (rc)
		goto free_memory;
	reader->to = mine.addr;
	read_for(reader, time_ms, v);
	(void)te_region_remove(reader->engine, region);
free_memory:
	te_memory_free(reader->engine, mine.addr);
destroy_batch:
	te_batch_destroy(reader->batch);
	return rc;
}

int tei_peer_visit(struct te_engine *engine, const char *name, uint64_t time_ms,
		   bool has_rdma, struct tei_report *r)
{
	struct reader reader = {.engine = engine};
	struct tei_peer_visit v = {.name = name, .has_rdma = has_rdma};
	int rc = 0;

	v.error = te_segment_open(engine, name, OPEN_MS, &reader.segment);
	if (!v.error) {
		(void)te_peer_probe(engine, name, OPEN_MS, &v.rtt_us);
		v.readable = find_region(&reader);
		if (v.readable)
			rc = read_from(&reader, time_ms, &v);
		te_segment_close(engine, reader.segment);
	}
	if (!rc)
		tei_peer_judge(&v, r);
	return rc;
}

/* ---- being read ---- */

static int publish(struct te_engine *engine, const sigset_t *signals)
{
	struct te_region region = {.length = SET_LEN,
				   .access = TE_ACCESS_REMOTE_READ};
	te_region_id id;
	int rc, sig;

	rc = te_memory_alloc(engine, region.length, &region.addr);
	if (rc)
		return rc;
	memset(region.addr, 1, region.length); /* pages of its own */
	rc = te_region_add(engine, &region, &id);
	if (!rc) {
		/* Scripts wait for this line. */
		(void)printf("te-doctor listens as %s\n",
			     te_engine_name(engine));
		(void)fflush(stdout);
		(void)sigwait(signals, &sig);
		rc = te_region_remove(engine, id);
	}
	te_memory_free(engine, region.addr);
	return rc;
}

int tei_peer_listen(const struct te_config *config, const char *name)
{
	struct te_engine *engine;
	sigset_t signals;
	int rc;

	/* Before the engine's threads, which inherit it. */
	tei_end_signals_block(&signals);
	rc = te_engine_create(config, name, &engine);
	if (rc)
		return rc;
	rc = publish(engine, &signals);
	te_engine_destroy(engine);
	return rc;
}
