/* SPDX-License-Identifier: Apache-2.0 */
/* staging.c - memory of the host in place of a GPU's, part by part */
#include "te/transfer/staging.h"

#include <assert.h>
#include <errno.h>

#include <te/te.h>

#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "te/core/engine.h"
#include "te/device/stage.h"
#include "te/region/region.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

#define PIECES_MAX TEI_STAGE_COPIES_MAX /* of a part */
/* Of a part: the first bytes of a request go on while the next are copied. */
#define PART_LEN ((uint64_t)256 << 10)
#define SHARE    4u /* of a stage, for one part at most */

struct tei_staged {
	struct tei_stage_job job;
	struct te_engine *engine;
	void (*done)(void *arg, int err);
	void *arg;
	struct tei_stage *stage; /* held; NULL: no piece so far needs one */
	uint8_t *memory;         /* memory[length], of the stage */
	uint64_t length;
	uint32_t n_iov, n_copies, most;
	struct iovec *iov;        /* iov[most], as backends see the part */
	struct tei_copy copies[]; /* copies[most], of those that are a GPU's */
};

/* Returns how many pieces the next @length bytes are at most. */
static uint32_t count_pieces(const struct iovec *pieces, uint64_t skip,
			     uint64_t length)
{
	uint64_t covered = pieces[0].iov_len - skip;
	uint32_t n = 1;

	while (covered < length && n < PIECES_MAX)
		covered += pieces[n++].iov_len;
	return n;
}

/* Allocates it for a part of @most pieces. NULL: no memory. */
static struct tei_staged *staged_new(uint32_t most)
{
	size_t per_piece = sizeof(struct tei_copy) + sizeof(struct iovec);
	struct tei_staged *staged =
		tei_malloc(sizeof(*staged) + most * per_piece);

	if (!staged)
		return NULL;
	staged->stage = NULL;
	staged->memory = NULL;
	staged->length = staged->n_iov = staged->n_copies = 0;
	staged->most = most;
	staged->iov = (struct iovec *)(void *)(staged->copies + most);
	return staged;
}

/* ---- memory that is not there ---- */

static bool is_gone(const struct tei_request *r, const struct iovec *piece)
{
	uint64_t at = (uintptr_t)piece->iov_base;
	bool writable = r->op == TE_READ;

	return piece->iov_len &&
	       (!tei_is_touchable(at, writable) ||
		!tei_is_touchable(at + piece->iov_len - 1, writable)) &&
	       !tei_region_is_gpu(r->peer->engine, at);
}

bool tei_local_is_gone(const struct tei_request *r)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	uint32_t i = 0;

	while (i < r->n_pieces && !is_gone(r, &r->pieces[i]))
		i++;
	if (i < r->n_pieces && tei_log_allowed(&limit))
		LOG_WARN("engine %s: request %u to %s: pieces[%u], %zu bytes "
			 "at %p, is no memory that this host may %s, nor a "
			 "region of a GPU's: register that first",
			 r->peer->engine->name, r->index, r->peer->name, i,
			 r->pieces[i].iov_len, r->pieces[i].iov_base,
			 r->op == TE_READ ? "write" : "read");
	return i < r->n_pieces;
}

/* ---- laying a part out ---- */

/* Adds memory that backends reach, and which may be any. */
static void add_plain(struct tei_staged *staged, void *addr, uint64_t length)
{
	staged->iov[staged->n_iov].iov_base = addr;
	staged->iov[staged->n_iov++].iov_len = length;
}

/*
 * Adds memory of a GPU, whose stage it takes over. Returns how many bytes of
 * it: fewer than @length where the part is full, 0 where it has another stage.
 */
static uint64_t add_staged(struct te_engine *engine, struct tei_staged *staged,
			   struct tei_stage *stage, uint64_t addr,
			   uint64_t length)
{
	uint64_t room = stage->length / SHARE - staged->length;
	bool other = staged->stage && staged->stage != stage;

	if (staged->stage)
		tei_stage_put(engine, stage);
	if (other)
		return 0;
	staged->stage = stage;
	if (length > room)
		length = room;
	if (!length)
		return 0;
	staged->copies[staged->n_copies++] =
		(struct tei_copy){.gpu = addr, .length = length};
	add_plain(staged, NULL, length);
	staged->length += length;
	return length;
}

/*
 * Adds up to @length bytes at @addr; *@added: how many. -EFAULT: it is neither
 * a GPU's any more, nor the host's.
 */
static int add_piece(struct te_engine *engine, struct tei_staged *staged,
		     void *addr, uint64_t length, uint64_t *added)
{
	uint64_t at = (uintptr_t)addr, within = length;
	struct tei_stage *stage = tei_region_stage(engine, at, &within);

	*added = length;
	if (stage)
		*added = add_staged(engine, staged, stage, at, within);
	else if (!tei_is_touchable(at, false))
		return -EFAULT;
	else
		add_plain(staged, addr, length);
	return 0;
}

/* Lays out *@length bytes, or fewer: *@length. -EFAULT. */
static int lay_out(struct te_engine *engine, struct tei_staged *staged,
		   const struct iovec *pieces, uint64_t skip, uint64_t *length)
{
	uint64_t wanted = *length;
	int rc = 0;

	*length = 0;
	while (*length < wanted && staged->n_iov < staged->most) {
		const struct iovec *iov = pieces++;
		uint64_t part = iov->iov_len - skip, added = 0;

		if (part > wanted - *length)
			part = wanted - *length;
		if (part)
			rc = add_piece(engine, staged,
				       (uint8_t *)iov->iov_base + skip, part,
				       &added);
		*length += added;
		skip = 0;
		if (rc || added < part)
			break;
	}
	return rc;
}

/* Says where in the stage each copy and each piece is. */
static void place(struct tei_staged *staged)
{
	uint8_t *at = staged->memory;

	for (uint32_t i = 0, k = 0; i < staged->n_iov; i++) {
		if (staged->iov[i].iov_base)
			continue;
		staged->iov[i].iov_base = at;
		staged->copies[k++].host = at;
		at += staged->iov[i].iov_len;
	}
}

int tei_staging_prepare(struct tei_request *r, uint32_t at, uint64_t skip,
			uint64_t *length, struct tei_staged **out)
{
	struct te_engine *engine = r->peer->engine;
	const struct iovec *pieces = &r->pieces[at];
	struct tei_staged *staged =
		staged_new(count_pieces(pieces, skip, *length));
	int rc;

	*out = NULL;
	if (!staged)
		return -ENOMEM;
	if (*length > PART_LEN)
		*length = PART_LEN;
	rc = lay_out(engine, staged, pieces, skip, length);
	if (rc || !staged->stage) {
		if (rc)
			(void)tei_local_is_gone(r);
		tei_staging_end(engine, staged);
		return rc;
	}
	staged->memory =
		tei_stage_take(staged->stage, TEI_STAGE_PART, staged->length);
	if (!staged->memory) {
		tei_staging_end(engine, staged);
		return -EAGAIN;
	}
	place(staged);
	*out = staged;
	return 0;
}

void tei_staging_end(struct te_engine *engine, struct tei_staged *staged)
{
	if (staged->memory)
		tei_stage_give(staged->stage, TEI_STAGE_PART, staged->memory,
			       staged->length);
	tei_stage_put(engine, staged->stage);
	tei_free(staged);
}

const struct iovec *tei_staging_iov(const struct tei_staged *staged,
				    uint32_t *n)
{
	*n = staged->n_iov;
	return staged->iov;
}

/* ---- copies ---- */

static void copied(struct tei_stage_job *job, int err)
{
	struct tei_staged *staged = TEI_CONTAINER(job, struct tei_staged, job);

	staged->engine->worker->n_copying--;
	staged->done(staged->arg, err);
}

void tei_staging_begin(struct tei_worker *w, struct tei_stage *stage,
		       struct tei_stage_job *job)
{
	assert(!w->index);
	if (tei_list_empty(&stage->active))
		tei_list_add_tail(&w->engine->transfer->stages,
				  &tei_stage_hold(stage)->active);
	w->n_copying++;
	tei_stage_submit(stage, job);
}

void tei_staging_copy(struct tei_worker *w, struct tei_staged *staged,
		      enum tei_copy_way way, void (*done)(void *arg, int err),
		      void *arg)
{
	staged->engine = w->engine;
	staged->done = done;
	staged->arg = arg;
	staged->job = (struct tei_stage_job){.way = way,
					     .copies = staged->copies,
					     .n = staged->n_copies,
					     .length = staged->length,
					     .done = copied};
	tei_staging_begin(w, staged->stage, &staged->job);
}

bool tei_staging_turn(struct tei_worker *w)
{
	struct tei_list now, *node;
	struct tei_transfer *transfer = w->engine->transfer;
	bool any = false;

	tei_list_init(&now);
	tei_list_splice_tail(&now, &transfer->stages);
	while ((node = tei_list_pop(&now))) {
		struct tei_stage *stage =
			tei_list_entry(node, struct tei_stage, active);

		tei_list_add_tail(&transfer->stages, &stage->active);
		any |= tei_stage_turn(stage);
		if (stage->n_jobs)
			continue;
		tei_list_del(&stage->active);
		tei_stage_put(w->engine, stage);
	}
	return any;
}
