/* SPDX-License-Identifier: Apache-2.0 */
/* mover.c - batches of requests, one after the other, for a while */
#include "cmd/doctor/mover.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define PIECE (1ull << 20)
#define DEPTH 16

int tei_mover_open(struct tei_mover *m, struct te_engine *engine,
		   te_segment_id segment)
{
	struct te_region mine = {.length = DEPTH * PIECE};
	int rc;

	*m = (struct tei_mover){.engine = engine, .segment = segment};
	rc = te_batch_create(engine, DEPTH, &m->batch);
	if (rc)
		return rc;
	rc = te_memory_alloc(engine, mine.length, &m->memory);
	if (rc)
		goto destroy_batch;
	mine.addr = m->memory;
	memset(m->memory, 1, mine.length); /* pages of its own, to be read */
	rc = te_region_add(engine, &mine, &m->region);
	if (rc)
		goto free_memory;
	return 0;

free_memory:
	te_memory_free(engine, m->memory);
destroy_batch:
	te_batch_destroy(m->batch);
	return rc;
}

void tei_mover_close(struct tei_mover *m)
{
	(void)te_region_remove(m->engine, m->region);
	te_memory_free(m->engine, m->memory);
	te_batch_destroy(m->batch);
}

/* What is submitted; 0, or the error of one of its requests. */
static int end_batch(struct tei_mover *m, uint32_t n)
{
	struct te_completion done;
	int rc = te_batch_wait(m->batch, UINT32_MAX);
	uint32_t i;

	for (i = 0; !rc && i < n; i++) {
		rc = te_batch_result(m->batch, i, &done);
		if (!rc)
			rc = done.error;
	}
	if (te_batch_reset(m->batch) && !rc)
		rc = -EBUSY;
	return rc;
}

static int move_once(struct tei_mover *m, uint32_t op,
		     const struct te_segment_region *there, uint64_t piece,
		     uint64_t round)
{
	uint64_t places = there->length / piece;
	struct te_request requests[DEPTH] = {0};
	struct iovec pieces[DEPTH];
	uint32_t i;
	int rc;

	for (i = 0; i < DEPTH; i++) {
		pieces[i] = (struct iovec){
			(unsigned char *)m->memory + i * PIECE, piece};
		requests[i] = (struct te_request){
			.op = op,
			.segment = m->segment,
			.remote = there->addr +
				  (round * DEPTH + i) % places * piece,
			.pieces = &pieces[i],
			.n_pieces = 1,
			.timeout_ms = TEI_MOVER_TIMEOUT_MS,
		};
	}
	rc = te_batch_submit(m->batch, requests, DEPTH);
	return rc ? rc : end_batch(m, DEPTH);
}

void tei_mover_run(struct tei_mover *m, uint32_t op,
		   const struct te_segment_region *there, uint64_t time_ms,
		   struct tei_run *out)
{
	uint64_t piece = there->length < PIECE ? there->length : PIECE;
	uint64_t begun, round = 0;

	*out = (struct tei_run){.possible = true};
	out->error = move_once(m, op, there, piece, round);
	begun = tei_now_ns();
	while (!out->error && out->ns < time_ms * TEI_NS_PER_MS) {
		out->error = move_once(m, op, there, piece, ++round);
		out->ns = tei_now_ns() - begun;
	}
	out->bytes = round * DEPTH * piece;
}

int tei_mover_head(struct tei_mover *m, const struct te_segment_region *there,
		   size_t len, const void **out)
{
	struct iovec piece = {m->memory, len};
	struct te_request request = {.op = TE_READ,
				     .segment = m->segment,
				     .remote = there->addr,
				     .pieces = &piece,
				     .n_pieces = 1,
				     .timeout_ms = TEI_MOVER_TIMEOUT_MS};
	int rc;

	if (there->length < len)
		return -EFAULT;
	rc = te_batch_submit(m->batch, &request, 1);
	if (!rc)
		rc = end_batch(m, 1);
	*out = m->memory;
	return rc;
}
