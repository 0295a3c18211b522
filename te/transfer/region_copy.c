/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region_copy.c - copies to and from a GPU's memory that peers write and read
 *
 * A backend of the target moves bytes between a peer and a stage's memory; this
 * moves them on. The region is pinned while it is touched, not while a peer is
 * waited for, and so is the link, whose end waits for the copy.
 */
#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "te/core/engine.h"
#include "te/core/stats.h"
#include "te/device/stage.h"
#include "te/region/region.h"
#include "te/transfer/link.h"
#include "te/transfer/parts.h"
#include "te/transfer/staging.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

struct region_copy {
	struct tei_region_copy base;
	struct tei_stage_job job;
	struct tei_copy copy;
	struct tei_endpoint *ep; /* not owned; stays until done() */
	struct te_engine *engine;
	struct tei_stage *stage; /* held */
	struct tei_region *region;
	enum tei_stage_use use;
	uint64_t taken; /* bytes of the stage */
	bool pinned;
};

bool tei_region_any_copied(const struct tei_endpoint *ep)
{
	return atomic_load_explicit(&ep->link->engine->regions->any_copied,
				    memory_order_relaxed);
}

/* Adds a pin to the one that the backend has. */
static void pin_again(struct region_copy *c)
{
	struct tei_link *link = c->ep->link;
	struct tei_region_pins *pins =
		&c->region->pins[link->rail->worker->index];
	struct tei_mutex *mu = tei_link_pin_lock(link);

	tei_mutex_lock(mu);
	assert(pins->n);
	pins->n++;
	link->n_pins++;
	tei_mutex_unlock(mu);
	c->pinned = true;
}

static void unpin(struct region_copy *c)
{
	if (c->pinned)
		tei_region_unpin(c->ep, (uintptr_t)c->region);
	c->pinned = false;
}

int tei_region_copy_open(struct tei_endpoint *ep, uint64_t pin, void *local,
			 uint64_t length, bool write,
			 struct tei_region_copy **out)
{
	struct tei_region *region = (struct tei_region *)(uintptr_t)pin;
	struct region_copy *c = tei_calloc(1, sizeof(*c));

	assert(region->stage && length && length <= TEI_REGION_COPY_MAX);
	if (!c)
		return -ENOMEM;
	/* What we asked for ourselves waits for no peer to take it. */
	c->use = write || ep->link->in.self_of ? TEI_STAGE_IN : TEI_STAGE_ASKED;
	c->base.memory = tei_stage_take_some(region->stage, c->use, &length);
	if (!c->base.memory) {
		tei_free(c);
		return -EAGAIN;
	}
	c->base.length = c->taken = length;
	c->ep = ep;
	c->engine = ep->link->engine;
	c->region = region;
	c->stage = tei_stage_hold(region->stage);
	c->copy.gpu = (uintptr_t)local;
	c->copy.host = c->base.memory;
	c->job.way = write ? TEI_COPY_IN : TEI_COPY_OUT;
	pin_again(c);
	*out = &c->base;
	return 0;
}

static void job_done(struct tei_stage_job *job, int err)
{
	struct region_copy *c = TEI_CONTAINER(job, struct region_copy, job);

	c->engine->worker->n_copying--;
	if (!err)
		TEI_COUNT_OWN(c->engine->worker, gpu_staged, c->base.length);
	unpin(c);
	c->base.done(&c->base, err);
}

/* Gives back what is behind the first @length bytes. */
static void shrink(struct region_copy *c, uint64_t length)
{
	uint64_t kept = (length + TEI_STAGE_BLOCK - 1) / TEI_STAGE_BLOCK *
			TEI_STAGE_BLOCK;

	if (kept >= c->taken)
		return;
	tei_stage_give(c->stage, c->use, (uint8_t *)c->base.memory + kept,
		       c->taken - kept);
	c->taken = kept;
}

void tei_region_copy_begin(struct tei_region_copy *copy, uint64_t length)
{
	struct region_copy *c = TEI_CONTAINER(copy, struct region_copy, base);

	assert(length && length <= copy->length);
	shrink(c, length);
	copy->length = c->copy.length = c->job.length = length;
	c->job.copies = &c->copy;
	c->job.n = 1;
	c->job.done = job_done;
	tei_staging_begin(c->ep->link->rail->worker, c->stage, &c->job);
}

void tei_region_copy_end(struct tei_region_copy *copy)
{
	struct region_copy *c = TEI_CONTAINER(copy, struct region_copy, base);
	struct te_engine *engine = c->engine;

	unpin(c);
	tei_stage_give(c->stage, c->use, copy->memory, c->taken);
	tei_stage_put(engine, c->stage);
	tei_free(c);
	tei_works_have_room(engine->transfer);
}
