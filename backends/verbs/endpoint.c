/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c - the ops of an endpoint, both halves */
#include "backends/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"

int tei_verbs_endpoint_open(struct tei_endpoint *base, void *addr, size_t *len)
{
	struct verbs_rail *rail = verbs_rail(base->rail);
	struct verbs_address mine;
	struct verbs_bundle *bundle;
	int rc;

	if (!rail->link_up)
		return -ENETDOWN;
	rc = tei_verbs_bundle_make(rail, base, &bundle, &mine);
	if (rc)
		return rc;
	rc = tei_verbs_address_encode(&mine, addr, len);
	if (rc) {
		bundle->ep = NULL;
		tei_verbs_bundle_end(bundle);
		return rc;
	}
	verbs_endpoint(base)->bundle = bundle;
	return 0;
}

int tei_verbs_endpoint_connect(struct tei_endpoint *base, const void *addr,
			       size_t len)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct verbs_rail *rail = verbs_rail(base->rail);
	struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;
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
	tei_verbs_bundle_agree(bundle, &theirs);
	bundle->state = VERBS_BUNDLE_CONNECTING;
	tei_verbs_clerk_give(bundle);
	return -EINPROGRESS;
}

void tei_verbs_endpoint_way(const struct tei_endpoint *base, char *out,
			    size_t room)
{
	const struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;
	const struct verbs_port *port = &bundle->rail->port;
	char here[VERBS_GID_TEXT_LEN], there[VERBS_GID_TEXT_LEN];

	tei_verbs_gid_text(&port->gid.gid, here);
	tei_verbs_gid_text(&bundle->way.ah_attr.grh.dgid, there);
	(void)snprintf(out, room,
		       "GID %u %s to %s, MTU %u (%u here, %u there), %u queue "
		       "pairs",
		       port->gid.index, here, there,
		       tei_verbs_mtu_bytes(bundle->way.path_mtu),
		       port->offer.mtu, bundle->their_mtu, bundle->n_used);
}

/* Nobody hears of it any more. */
static struct tei_endpoint *part_with(struct verbs_bundle *bundle)
{
	struct tei_endpoint *ep = bundle->ep;

	bundle->ep = NULL;
	verbs_endpoint(ep)->bundle = NULL;
	return ep;
}

void tei_verbs_flushed(struct verbs_bundle *bundle)
{
	tei_verbs_bundle_give_room(bundle);
	tei_endpoint_flushed(part_with(bundle));
}

/* Its queue pairs are destroyed. */
static void ended(struct verbs_bundle *bundle)
{
	tei_verbs_give_up(bundle);
	if (bundle->ep && bundle->flushed)
		tei_verbs_flushed(bundle);
	else if (bundle->ep && bundle->confirm)
		tei_endpoint_down(part_with(bundle), -ESTALE);
	tei_verbs_bundle_free(bundle);
}

void tei_verbs_handed_back(struct verbs_bundle *bundle)
{
	struct tei_endpoint *ep = bundle->ep;

	if (bundle->state == VERBS_BUNDLE_ENDING) {
		ended(bundle);
		return;
	}
	bundle->state = VERBS_BUNDLE_UP;
	if (atomic_load_explicit(&bundle->abandoned, memory_order_relaxed))
		tei_verbs_bundle_end(bundle);
	else if (bundle->err)
		tei_verbs_bundle_break(bundle, bundle->err);
	else
		tei_endpoint_up(ep);
}

/*
 * The queue pairs are destroyed before it is confirmed: then no driver lets
 * anything more of theirs into memory.
 */
int tei_verbs_drop(struct tei_endpoint *base)
{
	struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;

	if (!bundle)
		return 0;
	bundle->confirm = true;
	tei_verbs_bundle_end(bundle);
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

/* What is posted of a slice in the queue has to come back first. */
static void end_queued(struct verbs_bundle *bundle, int err)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&bundle->queue))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);
		struct verbs_slice *s = verbs_slice(slice);

		s->queued = false;
		s->waits = true;
		if (!s->n_works)
			tei_verbs_slice_end(slice, err);
	}
	bundle->n_queue = 0;
}

/*
 * Whoever has nothing posted is quiet at once, but not what a target serves: that
 * ends with its queue pairs.
 */
static bool is_quiet(const struct verbs_bundle *bundle)
{
	return bundle->state == VERBS_BUNDLE_MADE ||
	       (!bundle->target && !bundle->n_posted);
}

int tei_verbs_flush(struct tei_endpoint *base, int err)
{
	struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;

	end_refused(base, err);
	if (!bundle)
		return 0;
	bundle->flushed = true;
	if (bundle->state != VERBS_BUNDLE_CONNECTING)
		bundle->err = err; /* else it is the clerk's to say */
	if (bundle->state == VERBS_BUNDLE_BROKEN)
		tei_list_del(&bundle->link);
	tei_list_del(&bundle->waiting);
	end_queued(bundle, err);
	end_all(&bundle->held, err);
	if (bundle->n_posted) /* done meanwhile? */
		(void)tei_verbs_poll(bundle->rail, VERBS_POLL_MAX);
	if (is_quiet(bundle))
		return 0;
	tei_list_add_tail(&bundle->rail->flushing, &bundle->waiting);
	tei_verbs_bundle_end(bundle);
	return -EINPROGRESS;
}

static struct verbs_bundle *first_stuck(const struct verbs_rail *rail)
{
	tei_list_for_each (node, &rail->flushing) {
		struct verbs_bundle *bundle =
			tei_list_entry(node, struct verbs_bundle, waiting);

		if (atomic_load_explicit(&bundle->stuck, memory_order_relaxed))
			return bundle;
	}
	return NULL;
}

void tei_verbs_leave_stuck(struct verbs_rail *rail)
{
	struct verbs_bundle *bundle;

	/* Anew each time: others may drain meanwhile. */
	while ((bundle = first_stuck(rail))) {
		if (bundle->n_posted)
			LOG_ERROR("rail %s: memory of %u work requests may "
				  "still be written to",
				  rail->port.name, bundle->n_posted);
		tei_verbs_give_up(bundle);
		tei_list_del(&bundle->waiting); /* or it has drained by that */
		tei_verbs_flushed(bundle);
	}
}

void tei_verbs_endpoint_close(struct tei_endpoint *base)
{
	struct verbs_bundle *bundle = verbs_endpoint(base)->bundle;

	if (!bundle)
		return;
	(void)part_with(bundle);
	tei_verbs_bundle_end(bundle);
}
