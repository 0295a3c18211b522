/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.c - links as target, on the worker's side
 *
 * Control hands a link over by in.open, gets it back by in.done (open or not)
 * and at last by in.gone. A drop that meets a closed link says so by in.late,
 * so that control frees the link only when no call of it is queued any more.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mapped.h"
#include "te/common/engine.h"
#include "te/region/region.h"
#include "te/transfer/link.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

/* The other half may be slow to come, but not for ever. */
#define CONNECT_STEPS 2

static void never_came(struct tei_due *due)
{
	tei_link_break(TEI_CONTAINER(due, struct tei_link, in.due), -ETIMEDOUT);
}

static int connect_half(struct tei_link *link)
{
	struct tei_worker *w = link->engine->worker;
	int rc;

	rc = link->ep.rail->ops->endpoint_connect(&link->ep, link->in.address,
						  link->in.address_len);
	if (rc != -EINPROGRESS)
		return rc;
	link->in.due.fn = never_came;
	return tei_due_set(
		w, &link->in.due,
		w->now + CONNECT_STEPS * link->engine->config.connect_timeout *
				 TEI_NS_PER_MS);
}

/* It is flushed. */
static void close_half(struct tei_link *link)
{
	link->ep.rail->ops->endpoint_close(&link->ep);
	link->open = false;
	if (!link->in.self_of)
		link->engine->worker->n_guests--;
	tei_list_del(&link->of_rail);
	tei_list_del(&link->broken);
	tei_due_clear(link->engine->worker, &link->in.due);
}

int tei_target_open_half(struct tei_link *link)
{
	uint8_t mine[TEI_BLOB_MAX];
	size_t len = sizeof(mine);
	int rc;

	if (link->rail->dead)
		return -EIO;
	link->ep.target = true;
	rc = link->ep.rail->ops->endpoint_open(&link->ep, mine, &len);
	if (rc)
		return rc;
	link->open = true;
	if (!link->in.self_of)
		link->engine->worker->n_guests++;
	tei_list_add_tail(&link->rail->links, &link->of_rail);
	rc = connect_half(link);
	if (rc) {
		bool flushed = tei_link_flush(link);

		assert(flushed); /* it never was connected */
		close_half(link);
		return rc;
	}
	memcpy(link->in.address, mine, len);
	link->in.address_len = len;
	return 0;
}

void tei_target_open(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, in.open);

	link->in.err = tei_target_open_half(link);
	tei_loop_post(link->engine->loop, &link->in.done);
}

void tei_target_drop(struct tei_call *call)
{
	struct tei_link *link = TEI_CONTAINER(call, struct tei_link, in.drop);
	int rc;

	if (!link->open) {
		tei_loop_post(link->engine->loop, &link->in.late);
		return;
	}
	atomic_store_explicit(&link->in.drop_ran, true, memory_order_relaxed);
	if (link->flushing)
		return; /* closed soon, which says the same */
	rc = link->ep.rail->ops->drop(&link->ep);
	if (rc != -EINPROGRESS)
		tei_link_break(link, rc ? rc : -ESTALE);
}

void tei_target_close_half(struct tei_link *link)
{
	if (link->open)
		close_half(link);
}

void tei_target_close(struct tei_link *link)
{
	if (link->in.self_of) {
		tei_link_break(link->in.self_of, link->why);
		return;
	}
	if (!tei_link_flush(link))
		return;
	LOG_DEBUG("guest: endpoint %llu on %s: %s",
		  (unsigned long long)link->number, link->rail->name,
		  strerror(-link->why));
	close_half(link);
	tei_loop_post(link->engine->loop, &link->in.gone);
}

bool tei_link_epoch_holds(const struct tei_link *link)
{
	return link->ep.epoch == atomic_load(link->in.epoch_now);
}

/* ---- both halves are ours ---- */

static int open_mate(struct tei_link *link, struct tei_link *mate)
{
	struct te_engine *engine = link->engine;
	int rc;

	mate->in.epoch_now = engine->transfer->own_epoch;
	mate->in.self_of = link;
	mate->number = link->number;
	mate->ep.epoch = link->ep.epoch;
	atomic_init(&mate->groups, ~(tei_group_mask)0);
	mate->in.address_len = link->out.address_len;
	memcpy(mate->in.address, link->out.address, link->out.address_len);
	rc = tei_target_open_half(mate);
	if (rc)
		return rc;
	link->out.address_len = mate->in.address_len;
	memcpy(link->out.address, mate->in.address, mate->in.address_len);
	return 0;
}

void tei_self_connect(struct tei_link *link)
{
	struct tei_link *mate = tei_link_make(link->engine, link->rail);
	int rc = -ENOMEM;

	if (mate) {
		rc = open_mate(link, mate);
		if (rc)
			tei_link_free(mate);
		else
			link->out.mate = mate;
	}
	tei_self_connected(link, rc);
}

void tei_self_close(struct tei_link *link)
{
	struct tei_link *mate = link->out.mate;

	link->out.mate = NULL;
	tei_target_close_half(mate);
	tei_link_free(mate);
}

/* region_pin.c - whether a peer may touch a range, and that it just does */

static int check_pin(const struct tei_region *region, struct tei_link *link,
		     const void *key, size_t key_len, uint32_t access)
{
	const struct tei_key *right = region->key[link->rail->rail.index];

	if (!right || key_len != right->len ||
	    memcmp(key, right->bytes, key_len))
		return -EFAULT;
	if (region->group >= 0 &&
	    !(atomic_load_explicit(&link->groups, memory_order_relaxed) >>
		      region->group &
	      1))
		return -EACCES;
	if (access & ~region->access)
		return -EACCES;
	if (!tei_link_epoch_holds(link))
		return -ESTALE;
	return 0;
}

int tei_region_pin(struct tei_endpoint *ep, const void *key, size_t key_len,
		   uint64_t address, uint64_t length, uint32_t access,
		   void **local, uint64_t *pin)
{
	struct tei_link *link = ep->link;
	struct tei_regions *r = link->engine->regions;
	struct tei_region *region = NULL;
	bool doubted = false;
	int rc = -EFAULT;
	size_t place;

	tei_mutex_lock(&r->mu);
	place = tei_regions_place(r, address);
	if (place < r->n)
		region = r->sorted[place];
	if (region && region->shown && address >= region->addr &&
	    length <= region->length &&
	    address - region->addr <= region->length - length)
		rc = check_pin(region, link, key, key_len, access);
	if (!rc) {
		region->pins++;
		link->n_pins++;
		doubted = region->doubted;
	}
	tei_mutex_unlock(&r->mu);
	if (doubted &&
	    !tei_is_usable(address, length, access & TE_ACCESS_REMOTE_WRITE)) {
		tei_region_unpin(ep, (uintptr_t)region);
		rc = -EFAULT;
	}
	if (rc) {
		TEI_COUNT(link->engine, refused_pins);
		return rc;
	}
	*local = (void *)(uintptr_t)address;
	*pin = (uintptr_t)region;
	return 0;
}

void tei_region_unpin(struct tei_endpoint *ep, uint64_t pin)
{
	struct tei_region *region = (struct tei_region *)(uintptr_t)pin;
	struct tei_link *link = ep->link;
	struct tei_regions *r = link->engine->regions;

	tei_mutex_lock(&r->mu);
	assert(region->pins && link->n_pins);
	region->pins--;
	link->n_pins--;
	if (!region->pins && !region->shown)
		tei_cond_broadcast(&r->unpinned);
	tei_mutex_unlock(&r->mu);
}

void tei_region_doubt(struct tei_endpoint *ep, uint64_t pin)
{
	struct tei_region *region = (struct tei_region *)(uintptr_t)pin;
	struct tei_regions *r = ep->link->engine->regions;
	bool known;

	tei_mutex_lock(&r->mu);
	known = region->doubted;
	region->doubted = true;
	tei_mutex_unlock(&r->mu);
	if (!known)
		LOG_WARN("region 0x%" PRIx64 " of %" PRIu64
			 " bytes: some of its memory is not there any more: "
			 "peers that need it get EFAULT",
			 region->addr, region->length);
}
