/* SPDX-License-Identifier: Apache-2.0 */
/*
 * post.c - slices to operations, completions to slices
 *
 * A slice that was taken stands in its endpoint's queue until all of it is
 * posted. It is cut where a key ends and where an operation has no room for
 * another local piece. Local memory that the provider wants registered and that
 * is not goes by way of a bounce block. Every write asks for
 * FI_DELIVERY_COMPLETE: without it some providers report success when the bytes
 * have left, also with a key that the peer refuses.
 */
#include <errno.h>
#include <string.h>

#include "backends/ofi/ofi.h"
#include "base/log.h"
#include "base/mapped.h"

/* ---- causes ---- */

/*
 * A request that is wrong in itself ends its slice at once, and breaks the
 * endpoint with -ESTALE, so no rail is paused.
 * All else that comes back is held until the core, which has heard that the
 * endpoint is down, calls flush().
 */
struct cause {
	int slice;    /* what the slice ends with; 0: it waits for flush() */
	int endpoint; /* what its endpoint goes down with; 0: it is lost */
};

static struct cause cause_of(int err)
{
	switch (err) {
	case FI_EACCES:
	case FI_EKEYREJECTED:
	case FI_ENOKEY:
		return (struct cause){-EACCES, -ESTALE};
	case FI_EFAULT:
		return (struct cause){-EFAULT, -ESTALE};
	case FI_EMSGSIZE:
	case FI_ETRUNC:
	case FI_ETOOSMALL:
		return (struct cause){-EMSGSIZE, -ESTALE};
	case FI_ETIMEDOUT:
	case FI_EHOSTUNREACH:
	case FI_ENETUNREACH:
	case FI_EHOSTDOWN:
	case FI_ENETDOWN:
	case FI_EREMOTEIO:
		return (struct cause){0, -err};
	case FI_ECANCELED:
	case FI_ECONNRESET:
	case FI_ECONNABORTED:
	case FI_ENOTCONN:
	case EPIPE:
	case FI_ESHUTDOWN:
		return (struct cause){0, 0};
	default:
		return (struct cause){0, -EIO};
	}
}

/* ---- the end of slices ---- */

void tei_ofi_slice_end(struct tei_slice *slice, int err)
{
	struct ofi_rail *rail = ofi_rail(slice->ep->rail);

	if (rail->watched == slice)
		rail->watched = NULL;
	tei_rdma_slice_end(slice, err, NULL); /* providers may pin nothing */
}

static void end_or_hold(struct ofi_endpoint *ep, struct tei_slice *slice)
{
	const struct ofi_slice *s = ofi_slice(slice);

	if (s->canceled)
		tei_ofi_slice_end(slice, -ECANCELED);
	else if (!s->waits)
		tei_ofi_slice_end(slice, s->err);
	else if (ep->flushed)
		tei_ofi_slice_end(slice, ep->err);
	else
		tei_list_add_tail(&ep->held, &slice->link);
}

/* ---- operations ---- */

static struct ofi_work *take_work(struct ofi_window *window,
				  struct tei_slice *slice)
{
	struct ofi_work *work = window->free;

	if (!work)
		return NULL;
	window->free = work->next;
	*work = (struct ofi_work){
		.window = window, .slice = slice, .number = window->n_ever++};
	return work;
}

static void give_work(struct ofi_work *work)
{
	struct ofi_window *window = work->window;

	work->slice = NULL;
	work->next = window->free;
	window->free = work;
}

static void give_block(struct ofi_rail *rail, struct ofi_work *work)
{
	tei_bounce_give(&rail->regions.bounce, work->block.bytes);
	work->block.bytes = NULL;
	if (rail->wants_block)
		tei_ofi_kick(rail);
	rail->wants_block = false;
}

/*
 * Ends the use of local memory. @good: the bytes that it reads have come.
 * -EFAULT: the memory to copy them to is unmapped.
 */
static int leave_memory(struct ofi_rail *rail, struct ofi_work *work, bool good)
{
	int rc = 0;

	tei_rdma_uses_end(&work->uses);
	if (!work->block.bytes)
		return 0;
	if (good && work->slice->op == TEI_READ)
		rc = tei_rdma_block_empty(&work->block, work->slice,
					  work->length);
	give_block(rail, work);
	return rc;
}

/* Ends an operation that is not posted any more. @err: 0, or a number FI_E*. */
static void finish_work(struct ofi_work *work, int err, int provider_code)
{
	struct ofi_endpoint *ep = work->window->ep;
	struct tei_slice *slice = work->slice;
	struct ofi_slice *s = ofi_slice(slice);
	int rc = leave_memory(ofi_rail_of(ep), work, !err);

	work->window->n_posted--;
	give_work(work);
	if (rc && !s->err)
		s->err = rc; /* the rest of it is reported so, too */
	if (err && !s->err && !s->waits) {
		s->err = cause_of(err).slice;
		s->waits = !s->err;
		slice->provider_code = provider_code ? provider_code : err;
	}
	if (!--s->n_works && !s->queued)
		end_or_hold(ep, slice);
}

/* An operation comes back whose endpoint has ended without it. */
static void finish_lost(struct ofi_work *work)
{
	struct ofi_window *window = work->window;

	give_work(work);
	window->n_posted--;
}

static struct ofi_work *oldest_work(const struct ofi_endpoint *ep)
{
	struct ofi_work *found = NULL;

	for (uint32_t i = 0; i < ofi_rail_of(ep)->nic.depth; i++) {
		struct ofi_work *work = &ep->window->works[i];

		if (work->slice && (!found || work->number < found->number))
			found = work;
	}
	return found;
}

/* Notes the slice; true: the one noted last asked for the same. */
static bool is_suspected_again(struct ofi_rail *rail,
			       const struct tei_slice *slice)
{
	struct ofi_suspect last = rail->suspect;

	rail->suspect = (struct ofi_suspect){
		.remote = slice->remote,
		.length = slice->length,
		.op = slice->op,
	};
	return last.length == slice->length && last.remote == slice->remote &&
	       last.op == slice->op;
}

/*
 * The peer's end is closed, so the way to it works. If it did something since
 * it was connected, the core opens another endpoint at once.
 *
 * A provider that is software refuses an operation, for its key, by closing the
 * connection, and tells neither side which one it was. Peers handle operations
 * in order: so it may have been the oldest that is posted. If nothing was done,
 * or if the last connection ended with the same one as its oldest, its slice
 * ends with -EACCES. That has the core ask the owner, and try again if it says
 * that the key is right.
 */
void tei_ofi_lose(struct ofi_endpoint *ep)
{
	struct ofi_work *work = NULL;

	if (ep->flushed)
		return; /* it is this end that closes */
	if (ep->state != OFI_UP) {
		tei_ofi_break(ep, -ECONNRESET);
		return;
	}
	if (ep->window && ofi_rail_of(ep)->nic.kind->software)
		work = oldest_work(ep);
	if (work && !is_suspected_again(ofi_rail_of(ep), work->slice) &&
	    ep->has_done)
		work = NULL;
	if (work && !ofi_slice(work->slice)->err) {
		ofi_slice(work->slice)->err = -EACCES;
		work->slice->provider_code = FI_EKEYREJECTED;
	}
	tei_ofi_break(ep, work || ep->has_done || !ep->window ? -ESTALE
							      : -ECONNRESET);
}

static void take_success(struct ofi_work *work)
{
	struct ofi_endpoint *ep = work->window->ep;
	struct ofi_rail *rail;

	if (!ep) {
		finish_lost(work);
		return;
	}
	if (!work->slice)
		return; /* it has ended already */
	rail = ofi_rail_of(ep);
	ep->has_done = true;
	finish_work(work, 0, 0);
	if (!tei_list_empty(&ep->queue) && ep->state == OFI_UP &&
	    tei_list_empty(&ep->link))
		tei_list_add_tail(&rail->waiting, &ep->link);
}

/* Returns what has failed as a number FI_E*. */
static int error_of(const struct ofi_rail *rail,
		    const struct fi_cq_err_entry *e)
{
	const struct ofi_kind *kind = rail->nic.kind;
	int err = kind->error_of ? kind->error_of(e->prov_errno) : 0;

	if (err)
		return err;
	return e->err > 0 ? e->err : FI_EIO;
}

/* @err: as error_of() has it. */
static void log_error(struct ofi_rail *rail, const struct ofi_endpoint *ep,
		      const struct fi_cq_err_entry *e, int err)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	char room[128] = "";
	const char *text;

	/* An operation lost with its connection needs no line. */
	if (ep->state != OFI_UP || !cause_of(err).endpoint ||
	    !tei_log_allowed(&limit))
		return;
	text = rail->nic.api->cq_strerror(rail->cq, e->prov_errno, e->err_data,
					  room, sizeof(room));
	LOG_WARN("rail %s: an operation failed: %s (%d; provider %s: %d, %s)",
		 rail->nic.name, rail->nic.api->strerror(err), e->err,
		 rail->nic.kind->name, e->prov_errno, text ? text : "");
}

static bool has_work(const struct ofi_rail *rail,
		     const struct ofi_window *window, uintptr_t at)
{
	uintptr_t first = (uintptr_t)&window->works[0];

	return at >= first && at < (uintptr_t)&window->works[rail->nic.depth] &&
	       (at - first) % sizeof(window->works[0]) == 0;
}

/*
 * Finds the operation that an error is of, or NULL. Providers also report
 * errors of what they did for peers, with a context that is not ours.
 */
static struct ofi_work *find_work(const struct ofi_rail *rail, void *context)
{
	uintptr_t at = (uintptr_t)context;

	tei_list_for_each (node, &rail->endpoints) {
		const struct ofi_endpoint *ep =
			tei_list_entry(node, struct ofi_endpoint, of_rail);

		if (ep->window && has_work(rail, ep->window, at))
			return ((struct ofi_work *)context)->slice ? context
								   : NULL;
	}
	tei_list_for_each (node, &rail->lost) {
		if (has_work(rail,
			     tei_list_entry(node, struct ofi_window, lost), at))
			return context;
	}
	return NULL;
}

static void take_error(struct ofi_rail *rail, const struct fi_cq_err_entry *e)
{
	struct ofi_work *work = find_work(rail, e->op_context);
	struct ofi_endpoint *ep = work ? work->window->ep : NULL;
	int err = error_of(rail, e), why = cause_of(err).endpoint;

	if (!work)
		return; /* nothing that was posted here */
	if (!ep) {
		finish_lost(work);
		return;
	}
	log_error(rail, ep, e, err);
	if (why)
		tei_ofi_break(ep, why);
	else
		tei_ofi_lose(ep);
	finish_work(work, err, e->prov_errno);
}

static int cq_died(struct ofi_rail *rail, ssize_t rc)
{
	rail->cq_dead = true;
	LOG_ERROR("rail %s: its completion queue failed: %s", rail->nic.name,
		  rail->nic.api->strerror((int)-rc));
	return -EIO;
}

static int read_error(struct ofi_rail *rail)
{
	uint64_t data[8] = {0}; /* else some providers need memory for it */
	struct fi_cq_err_entry e = {.err_data = data,
				    .err_data_size = sizeof(data)};
	ssize_t rc = rail->nic.api->cq_readerr(rail->cq, &e, 0);

	if (rc == -FI_EAGAIN || rc == -FI_ENOMEM)
		return 0; /* it is tried again */
	if (rc < 0)
		return cq_died(rail, rc);
	take_error(rail, &e);
	return 1;
}

/* Peers may have a target's queue told of what they do, with any context. */
static bool is_of_ours(const struct fi_cq_msg_entry *entry)
{
	const uint64_t of_peers =
		FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;

	return entry->op_context && !(entry->flags & of_peers);
}

/* Reads up to @most completions; how many, or -FI_EAVAIL, or -EIO. */
static int read_some(struct ofi_rail *rail, size_t most)
{
	struct fi_cq_msg_entry entries[OFI_POLL_MAX];
	ssize_t n;

	tei_ofi_nic_lock(&rail->nic);
	n = rail->nic.api->cq_read(rail->cq, entries, most);
	tei_ofi_nic_unlock(&rail->nic);
	if (n == -FI_EAGAIN) {
		tei_ofi_windows_free(rail);
		return 0;
	}
	if (n == -FI_EAVAIL)
		return -FI_EAVAIL;
	if (n < 0 || (size_t)n > most)
		return cq_died(rail, n < 0 ? n : -FI_ETOOSMALL);
	for (ssize_t i = 0; i < n; i++) {
		if (is_of_ours(&entries[i]))
			take_success(entries[i].op_context);
	}
	return (int)n;
}

/* Errors come one by one, and where a connection ends there are many. */
int tei_ofi_poll(struct ofi_rail *rail, int budget)
{
	int total = 0, n;

	if (rail->cq_dead)
		return -EIO;
	if (budget > OFI_POLL_MAX)
		budget = OFI_POLL_MAX;
	do {
		n = read_some(rail, budget < 1 ? 1 : (size_t)budget);
		if (n != -FI_EAVAIL)
			return n < 0 ? n : total + n;
		n = read_error(rail);
		if (n < 0)
			return n;
		total += n;
	} while (n && total < OFI_POLL_MAX);
	return total;
}

void tei_ofi_give_up(struct ofi_endpoint *ep)
{
	struct ofi_window *window = ep->window;
	uint32_t depth = ofi_rail_of(ep)->nic.depth;

	if (!window || !window->n_posted)
		return;
	LOG_DEBUG("rail %s: %u operations did not come back",
		  ofi_rail_of(ep)->nic.name, window->n_posted);
	ep->window = NULL;
	window->ep = NULL;
	window->room = ep->room;
	ep->room = 0;
	tei_list_add_tail(&ofi_rail_of(ep)->lost, &window->lost);
	for (uint32_t i = 0; i < depth; i++) {
		struct ofi_work *work = &window->works[i];
		struct tei_slice *slice = work->slice;
		struct ofi_slice *s;

		if (!slice)
			continue;
		s = ofi_slice(slice);
		(void)leave_memory(ofi_rail_of(ep), work, false);
		work->slice = NULL;
		s->waits |= !s->err;
		if (!--s->n_works && !s->queued)
			end_or_hold(ep, slice);
	}
}

/* ---- cutting ---- */

enum cut {
	CUT_ONE,    /* an operation was built */
	CUT_NONE,   /* there is no room */
	CUT_FAILED, /* the slice is out of the queue */
};

/* An operation while it is built. */
struct draft {
	struct ofi_work *work;
	struct iovec iov[OFI_PIECES_MAX];
	void *desc[OFI_PIECES_MAX];
	size_t n;
	struct fi_rma_iov remote;
};

static void leave_queue(struct ofi_endpoint *ep, struct tei_slice *slice)
{
	tei_list_del(&slice->link);
	ofi_slice(slice)->queued = false;
	ep->n_queue--;
}

/* Fails a slice; its operations that are posted have to come back first. */
static void refuse_slice(struct ofi_endpoint *ep, struct tei_slice *slice,
			 int err)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	struct ofi_slice *s = ofi_slice(slice);

	leave_queue(ep, slice);
	s->err = err;
	if (s->n_works)
		return;
	tei_list_add_tail(&rail->refused, &slice->link);
	tei_ofi_kick(rail);
}

static bool needs_local(const struct ofi_nic *nic)
{
	return nic->info->domain_attr->mr_mode & FI_MR_LOCAL;
}

/*
 * Finds what the provider needs of the local memory at @addr, and lowers *n to
 * what goes with that. Registered memory is there, says who registered it;
 * other memory is looked at, since a provider may touch it by the processor.
 * -EFAULT: it is not there; -EOPNOTSUPP: it needs to be registered, and the
 * device does not have it; -EAGAIN: the operation names other regions.
 */
static int find_local(struct ofi_rail *rail, struct ofi_work *work,
		      uint64_t addr, uint64_t *n, void **desc)
	TEI_REQUIRES(rail->regions.table.mu)
{
	struct rdma_region *region =
		tei_rdma_region_find(&rail->regions.table, addr);
	uint64_t room;

	*desc = NULL;
	if (!region && needs_local(&rail->nic))
		return -EOPNOTSUPP;
	if (!region)
		return tei_is_there(addr, *n, work->slice->op == TEI_READ)
			       ? 0
			       : -EFAULT;
	*n = tei_rdma_least(*n, tei_rdma_range_rest(&region->range, addr));
	if (!needs_local(&rail->nic))
		return 0;
	if (!tei_ofi_region_desc(&rail->regions, region, addr, &room, desc))
		return -EOPNOTSUPP;
	if (!tei_rdma_use(&rail->regions.table, &work->uses, region))
		return -EAGAIN;
	*n = tei_rdma_least(*n, room);
	return 0;
}

/* Has a block stand in for memory; cut_one() fills it. */
static int gather_block(struct ofi_rail *rail, struct draft *d, uint64_t limit)
	TEI_REQUIRES(rail->regions.table.mu)
{
	struct ofi_work *work = d->work;
	uint64_t length;
	int rc = tei_rdma_block_take(
		&rail->regions.table, &rail->regions.bounce, work->slice,
		&ofi_slice(work->slice)->cursor, limit, &work->block, &length);

	rail->wants_block |= rc == -EAGAIN;
	if (rc)
		return rc;
	d->remote.len = length;
	work->length = (uint32_t)length;
	d->iov[0] = (struct iovec){work->block.bytes, work->length};
	d->desc[0] = rail->nic.api->mr_desc(rail->regions.bounce_mr);
	d->n = 1;
	return 0;
}

/*
 * Adds local memory of the next @limit bytes, as far as there is room. Memory
 * that has to be registered and is not goes by a block, in an operation of its
 * own.
 */
static int gather(struct ofi_rail *rail, struct draft *d, uint64_t limit)
	TEI_REQUIRES(rail->regions.table.mu)
{
	struct tei_slice *slice = d->work->slice;
	struct rdma_cursor *cursor = &ofi_slice(slice)->cursor;
	int rc = 0;

	while (d->remote.len < limit && d->n < rail->nic.pieces) {
		uint64_t addr, n = tei_rdma_piece_at(slice, cursor, &addr);

		n = tei_rdma_least(n, limit - d->remote.len);
		rc = find_local(rail, d->work, addr, &n, &d->desc[d->n]);
		if (rc)
			break;
		d->iov[d->n++] = (struct iovec){(void *)(uintptr_t)addr, n};
		d->remote.len += n;
		cursor->in_piece += n;
	}
	if (d->n)
		return 0;
	return rc == -EOPNOTSUPP ? gather_block(rail, d, limit) : rc;
}

/* Takes back what was built and not posted. */
static void take_back(struct draft *d, const struct ofi_slice *before)
{
	ofi_slice(d->work->slice)->cursor = before->cursor;
	(void)leave_memory(ofi_rail_of(d->work->window->ep), d->work, false);
	give_work(d->work);
}

static ssize_t send_draft(struct ofi_endpoint *ep, struct draft *d, bool read)
{
	const struct ofi_provider *api = ofi_rail_of(ep)->nic.api;
	struct fi_msg_rma msg = {
		.msg_iov = d->iov,
		.desc = d->desc,
		.iov_count = d->n,
		.addr = ep->to,
		.rma_iov = &d->remote,
		.rma_iov_count = 1,
		.context = &d->work->context,
	};

	return read ? api->readmsg(ep->fid, &msg, FI_COMPLETION)
		    : api->writemsg(ep->fid, &msg,
				    FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

/*
 * Handles an operation that the provider did not take. Where it says that the
 * connection has ended, what was posted before may tell why when it comes back,
 * which is not handled from inside post().
 */
static void refuse_post(struct ofi_endpoint *ep, int err)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct ofi_rail *rail = ofi_rail_of(ep);
	int why = cause_of(err).endpoint;

	if (err == FI_EAGAIN) {
		if (!ep->window->n_posted)
			tei_ofi_kick_later(rail); /* no completion tells */
		return;
	}
	if (!why) {
		ep->lost = true;
		tei_ofi_kick(rail);
		return;
	}
	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: an operation is refused: %s", rail->nic.name,
			 rail->nic.api->strerror(err));
	tei_ofi_break(ep, why);
}

/* Posts an operation that is built. */
static enum cut post_draft(struct ofi_endpoint *ep, struct draft *d,
			   const struct ofi_slice *before)
{
	struct tei_slice *slice = d->work->slice;
	struct ofi_slice *s = ofi_slice(slice);
	ssize_t rc = send_draft(ep, d, slice->op == TEI_READ);

	if (rc) {
		take_back(d, before);
		refuse_post(ep, (int)-rc);
		return CUT_NONE;
	}
	ep->window->n_posted++;
	s->n_works++;
	s->at += d->remote.len;
	if (s->at == slice->length)
		leave_queue(ep, slice);
	return CUT_ONE;
}

/*
 * Returns why a key does not reach @address: another rail may have that part of
 * the region, or nobody has it.
 */
static int why_beyond(const struct ofi_key *key, uint64_t address)
{
	return key->lacks && tei_rdma_range_has(&key->range, address)
		       ? -EOPNOTSUPP
		       : -EFAULT;
}

static enum cut cut_one(struct ofi_endpoint *ep, struct tei_slice *slice)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	struct ofi_slice *s = ofi_slice(slice), before = *s;
	struct ofi_place place;
	struct draft d = {.n = 0};
	int rc;

	d.work = take_work(ep->window, slice);
	if (!d.work)
		return CUT_NONE;
	rc = tei_ofi_key_at(&s->key, slice->remote + s->at, &place)
		     ? 0
		     : why_beyond(&s->key, slice->remote + s->at);
	if (!rc) {
		d.remote.addr = place.addr;
		d.remote.key = s->key.bound
				       ? tei_ofi_bound_key(ep->token, place.key,
							   s->key.bound)
				       : place.key;
		tei_rdma_regions_lock(&rail->regions.table);
		rc = gather(rail, &d,
			    tei_rdma_least(tei_rdma_least(slice->length - s->at,
							  place.room),
					   rail->nic.message));
		tei_rdma_regions_unlock(&rail->regions.table);
	}
	/* Without the lock, as it may take long. */
	if (!rc && d.work->block.bytes && slice->op == TEI_WRITE)
		tei_rdma_block_fill(&d.work->block, slice, d.work->length);
	if (!rc)
		return post_draft(ep, &d, &before);
	take_back(&d, &before);
	if (rc == -EAGAIN)
		return CUT_NONE;
	refuse_slice(ep, slice, rc);
	return CUT_FAILED;
}

void tei_ofi_pump(struct ofi_endpoint *ep)
{
	enum cut how = CUT_ONE;

	while (how != CUT_NONE && ep->state == OFI_UP && !ep->lost &&
	       !tei_list_empty(&ep->queue))
		how = cut_one(ep, tei_list_entry(ep->queue.next,
						 struct tei_slice, link));
	tei_bounce_tell(&ofi_rail_of(ep)->regions.bounce,
			ofi_rail_of(ep)->nic.name);
	if (ep->state != OFI_UP)
		return; /* it is in the list of the broken ones */
	tei_list_del(&ep->link);
	if (!tei_list_empty(&ep->queue))
		tei_list_add_tail(&ofi_rail_of(ep)->waiting, &ep->link);
}

/* ---- the ops ---- */

/*
 * Tells whether the slice can be carried. Without blocks its local memory has
 * to be registered: other memory is left to another backend, as are checksums
 * that no processor may compute.
 */
static bool is_carried(struct ofi_rail *rail, const struct tei_slice *slice)
{
	bool only_registered =
		needs_local(&rail->nic) && !rail->regions.bounce.n;
	bool carried = true;

	if (!only_registered && (!slice->crc_len || !rail->nic.gpus))
		return true;
	tei_rdma_regions_lock(&rail->regions.table);
	if (only_registered)
		carried = tei_rdma_has_all(&rail->regions.table, slice);
	if (tei_rdma_wants_crc_of_gpu(&rail->regions.table, slice))
		carried = false;
	tei_rdma_regions_unlock(&rail->regions.table);
	return carried;
}

static void enqueue(struct ofi_endpoint *ep, struct tei_slice *slice)
{
	struct ofi_slice *s = ofi_slice(slice);

	*s = (struct ofi_slice){.cursor = {.in_piece = slice->skip},
				.queued = true};
	tei_list_add_tail(&ep->queue, &slice->link);
	ep->n_queue++;
	if (!is_carried(ofi_rail_of(ep), slice))
		refuse_slice(ep, slice, -EOPNOTSUPP);
	else if (tei_ofi_key_decode(slice->key, slice->key_len, &s->key))
		refuse_slice(ep, slice, -EFAULT);
}

int tei_ofi_post(struct tei_endpoint *base, struct tei_slice *const slices[],
		 int n)
{
	struct ofi_endpoint *ep = ofi_endpoint(base);
	int taken = 0;

	if (ep->state != OFI_UP)
		return -ECONNRESET;
	while (taken < n && ep->n_queue < OFI_QUEUE_MAX)
		enqueue(ep, slices[taken++]);
	tei_ofi_pump(ep);
	return taken;
}

/* Posted operations cannot be called back, only their endpoint closed. */
void tei_ofi_cancel(struct tei_endpoint *base, struct tei_slice *slice)
{
	struct ofi_endpoint *ep = ofi_endpoint(base);
	struct ofi_rail *rail = ofi_rail(base->rail);
	struct ofi_slice *s = ofi_slice(slice);

	rail->watched = slice;
	if (s->n_works)
		(void)tei_ofi_poll(rail, OFI_POLL_MAX);
	if (!rail->watched)
		return; /* it has ended by itself */
	rail->watched = NULL;
	if (s->queued)
		leave_queue(ep, slice);
	s->canceled = true;
	if (s->n_works) {
		tei_ofi_break(ep, -ECANCELED);
		return;
	}
	tei_list_del(&slice->link); /* refused or held */
	tei_ofi_slice_end(slice, -ECANCELED);
}
