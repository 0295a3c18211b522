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
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "te/api/engine.h"
#include "te/transfer/link.h"

/* The other half may be slow to come, but not for ever. */
#define CONNECT_STEPS 2

static void never_came(struct tei_due *due)
{
	tei_link_break(TEI_CONTAINER(due, struct tei_link, in.due), -ETIMEDOUT);
}

static int connect_half(struct tei_link *link)
{
	struct tei_worker *w = &link->engine->worker;
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
		link->engine->worker.n_guests--;
	tei_list_del(&link->of_rail);
	tei_list_del(&link->broken);
	tei_due_clear(&link->engine->worker, &link->in.due);
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
		link->engine->worker.n_guests++;
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
	return link->ep.epoch == atomic_load(&link->in.guest->epoch);
}
