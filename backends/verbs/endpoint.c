/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c - the ops of an endpoint, both halves */
#include "backends/verbs/verbs.h"

#include <errno.h>

#include "base/log.h"

int tei_verbs_endpoint_open(struct tei_endpoint *base, void *addr, size_t *len)
{
	struct verbs_rail *rail = verbs_rail(base->rail);
	struct verbs_address mine;
	struct verbs_pair *pair;
	int rc;

	if (!rail->link_up)
		return -ENETDOWN;
	rc = tei_verbs_pair_make(rail, base, &pair, &mine);
	if (rc)
		return rc;
	rc = tei_verbs_address_encode(&mine, addr, len);
	if (rc) {
		pair->ep = NULL;
		tei_verbs_pair_end(pair);
		return rc;
	}
	verbs_endpoint(base)->pair = pair;
	return 0;
}

int tei_verbs_endpoint_connect(struct tei_endpoint *base, const void *addr,
			       size_t len)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct verbs_rail *rail = verbs_rail(base->rail);
	struct verbs_pair *pair = verbs_endpoint(base)->pair;
	struct verbs_address theirs;
	const char *fault = tei_verbs_address_decode(addr, len, &theirs);

	if (!fault && theirs.link != rail->port.link)
		fault = "another kind of link";
	if (fault) {
		base->rail->bad_frames++;
		if (tei_log_allowed(&limit))
			LOG_WARN("rail %s: a peer's address is refused: %s",
				 rail->port.name, fault);
		return -EPROTO;
	}
	tei_verbs_pair_agree(pair, &theirs);
	pair->state = VERBS_PAIR_CONNECTING;
	tei_verbs_clerk_give(&rail->clerk, pair);
	return -EINPROGRESS;
}

void tei_verbs_handed_back(struct verbs_pair *pair)
{
	struct tei_endpoint *ep = pair->ep;

	if (pair->state == VERBS_PAIR_ENDING) {
		if (ep && pair->confirm) {
			verbs_endpoint(ep)->pair = NULL;
			tei_endpoint_down(ep, -ESTALE);
		}
		tei_verbs_pair_free(pair);
		return;
	}
	pair->state = VERBS_PAIR_UP;
	if (atomic_load_explicit(&pair->abandoned, memory_order_relaxed))
		tei_verbs_pair_end(pair);
	else if (pair->err)
		tei_verbs_pair_break(pair, pair->err);
	else
		tei_endpoint_up(ep);
}

/*
 * The queue pairs are destroyed before it is confirmed: then no driver lets
 * anything more of theirs into memory.
 */
int tei_verbs_drop(struct tei_endpoint *base)
{
	struct verbs_pair *pair = verbs_endpoint(base)->pair;

	if (!pair)
		return 0;
	pair->confirm = true;
	tei_verbs_pair_end(pair);
	return -EINPROGRESS;
}

/* ---- the end ---- */

static void end_all(struct tei_list *slices, int err)
{
	struct tei_list *node;

	while ((node = tei_list_pop(slices))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		tei_verbs_slice_end(slice, err);
	}
}

static void end_refused(struct tei_endpoint *base, int err)
{
	struct verbs_rail *rail = verbs_rail(base->rail);

	tei_list_for_each_safe (node, tmp, &rail->refused) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		if (slice->ep != base)
			continue;
		tei_list_del(node);
		tei_verbs_slice_end(slice, err);
	}
}

void tei_verbs_flush(struct tei_endpoint *base, int err)
{
	struct verbs_pair *pair = verbs_endpoint(base)->pair;

	end_refused(base, err);
	if (!pair || pair->state == VERBS_PAIR_ENDING ||
	    pair->state == VERBS_PAIR_CONNECTING)
		return; /* nothing was ever posted */
	if (pair->state != VERBS_PAIR_BROKEN) {
		pair->state = VERBS_PAIR_BROKEN;
		tei_verbs_pair_stop(pair);
	}
	tei_list_del(&pair->link);
	tei_list_del(&pair->waiting);
	tei_verbs_drain(pair);
	end_all(&pair->queue, err);
	end_all(&pair->held, err);
}

void tei_verbs_endpoint_close(struct tei_endpoint *base)
{
	struct verbs_pair *pair = verbs_endpoint(base)->pair;

	if (!pair)
		return;
	pair->ep = NULL;
	verbs_endpoint(base)->pair = NULL;
	tei_verbs_pair_end(pair);
}
