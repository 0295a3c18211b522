/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c - endpoints of the fake libfabric: opened, posted to, closed */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/fake_ofi/private.h"

static struct fake_ofi_ep *ep_of(struct fid_ep *ep)
{
	return (struct fake_ofi_ep *)(void *)ep;
}

/* ---- opened ---- */

static bool place_ep(struct fake_ofi_ep *ep)
{
	struct fake_ofi_device *device = ep->domain->device;

	if (device->n_eps >= device->limits.endpoints)
		return false;
	for (uint32_t i = 0; i < FAKE_OFI_EPS_MAX; i++) {
		uint32_t number = ofi_net.next_ep + i;

		if (ofi_net.eps[number % FAKE_OFI_EPS_MAX])
			continue;
		ofi_net.eps[number % FAKE_OFI_EPS_MAX] = ep;
		ep->number = number;
		ofi_net.next_ep = number + 1;
		device->n_eps++;
		ep->domain->n_children++;
		ofi_net.counts.endpoints++;
		return true;
	}
	return false;
}

/* False: the request has been taken by another endpoint. */
static bool take_request(struct fake_ofi_ep *ep, struct fid *handle)
{
	struct fake_ofi_request *request = (void *)handle;

	if (!request)
		return true;
	assert(handle->fclass == FI_CLASS_CONNREQ);
	if (request->taken)
		return false;
	request->taken = true;
	ep->request = request;
	return true;
}

static struct fake_ofi_ep *make_ep(struct fake_ofi_domain *domain)
{
	size_t depth = domain->device->limits.depth;
	struct fake_ofi_ep *ep = tei_calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->memory = tei_calloc(depth, sizeof(*ep->memory));
	if (!ep->memory) {
		tei_free(ep);
		return NULL;
	}
	ep->domain = domain;
	ep->asked_at = UINT64_MAX;
	tei_list_init(&ep->of_cq);
	tei_list_init(&ep->mrs);
	tei_list_init(&ep->works);
	tei_list_init(&ep->free);
	for (size_t i = 0; i < depth; i++)
		tei_list_add_tail(&ep->free, &ep->memory[i].link);
	return ep;
}

int fake_ofi_endpoint(struct fid_domain *base, struct fi_info *info,
		      struct fid_ep **out, void *context)
{
	struct fake_ofi_ep *ep;
	int rc = fake_ofi_check(FAKE_OFI_ENDPOINT);

	if (rc)
		return rc;
	if (info->ep_attr->type != ofi_net.rules->type)
		return -FI_EINVAL;
	ep = make_ep((void *)base);
	if (!ep)
		return -FI_ENOMEM;
	ep->base.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context};
	tei_mutex_lock(&ofi_net.mu);
	if (ofi_net.counts.receives < info->rx_attr->size)
		ofi_net.counts.receives = info->rx_attr->size;
	if (!place_ep(ep))
		rc = -FI_ENOMEM;
	else if (!take_request(ep, info->handle))
		assert(!"one endpoint for each request");
	tei_mutex_unlock(&ofi_net.mu);
	if (!rc) {
		*out = &ep->base;
		return 0;
	}
	tei_free(ep->memory);
	tei_free(ep);
	return rc;
}

static int bind_to(struct fake_ofi_ep *ep, struct fid *bfid, uint64_t flags)
{
	switch (bfid->fclass) {
	case FI_CLASS_EQ:
		if (ep->eq)
			return -FI_EINVAL;
		ep->eq = (void *)bfid;
		ep->eq->n_children++;
		return 0;
	case FI_CLASS_CQ:
		if (ep->cq || !(flags & FI_TRANSMIT))
			return -FI_EINVAL;
		ep->cq = (void *)bfid;
		tei_list_add_tail(&ep->cq->eps, &ep->of_cq);
		return 0;
	case FI_CLASS_AV:
		if (ep->av || ofi_net.rules->type != FI_EP_RDM)
			return -FI_EINVAL;
		if (ofi_net.rules->av_of_one &&
		    ((struct fake_ofi_av *)(void *)bfid)->n_eps)
			return -FI_ENOSYS;
		ep->av = (void *)bfid;
		ep->av->n_eps++;
		ep->av->had_ep = true;
		return 0;
	default:
		return -FI_EINVAL;
	}
}

int fake_ofi_ep_bind(struct fid_ep *base, struct fid *bfid, uint64_t flags)
{
	struct fake_ofi_ep *ep = ep_of(base);
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_BIND);
	if (!rc && ep->state != FAKE_OFI_IDLE)
		rc = -FI_EOPBADSTATE;
	if (!rc)
		rc = bind_to(ep, bfid, flags);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

static int lack_of(const struct fake_ofi_ep *ep)
{
	if (!ep->cq)
		return -FI_ENOCQ;
	if (ofi_net.rules->type == FI_EP_RDM)
		return ep->av ? 0 : -FI_ENOAV;
	return ep->eq ? 0 : -FI_ENOEQ;
}

int fake_ofi_enable(struct fid_ep *base)
{
	struct fake_ofi_ep *ep = ep_of(base);
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_ENABLE);
	assert(ep->eq || !ofi_net.rules->needs_eq);
	if (!rc)
		rc = lack_of(ep);
	if (!rc && ep->state == FAKE_OFI_IDLE)
		ep->state = FAKE_OFI_ENABLED;
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

/* Options of efa: whether reads, or writes, are emulated. */
int fake_ofi_getopt(struct fid_ep *base, int name, void *value, size_t *len)
{
	const struct fake_ofi_ep *ep = ep_of(base);
	int first = -(0xefa << 16), rc = fake_ofi_check(FAKE_OFI_GETOPT);

	if (rc)
		return rc;
	if (ofi_net.shape != FAKE_OFI_EFA ||
	    (name != first + 1 && name != first + 2))
		return -FI_ENOPROTOOPT;
	if (*len < sizeof(bool))
		return -FI_ETOOSMALL;
	*(bool *)value = ep->domain->device->limits.emulated;
	*len = sizeof(bool);
	return 0;
}

/* ---- posting ---- */

/* 0, or what is wrong with it; its length. */
static int check_post(const struct fake_ofi_ep *ep,
		      const struct fi_msg_rma *msg, uint64_t *length)
{
	const struct fake_ofi_limits *limits = &ep->domain->device->limits;

	*length = 0;
	if (msg->iov_count < 1 || msg->iov_count > limits->pieces ||
	    msg->iov_count > FAKE_OFI_PIECES_MAX || msg->rma_iov_count != 1)
		return -FI_EINVAL;
	for (size_t i = 0; i < msg->iov_count; i++) {
		*length += msg->msg_iov[i].iov_len;
		/* Who need not register local memory names none that is. */
		assert(ofi_net.rules->mr_mode & FI_MR_LOCAL || !msg->desc ||
		       !msg->desc[i]);
	}
	if (*length > limits->message)
		return -FI_EMSGSIZE;
	if (*length != msg->rma_iov->len || !msg->context)
		return -FI_EINVAL;
	if (ep->av && (msg->addr >= FAKE_OFI_ADDRESSES_MAX ||
		       !ep->av->ring[msg->addr].magic))
		return -FI_EINVAL;
	return 0;
}

static void take(struct fake_ofi_ep *ep, const struct fi_msg_rma *msg,
		 uint64_t flags, bool read)
{
	struct fake_ofi_work *work = tei_list_entry(tei_list_pop(&ep->free),
						    struct fake_ofi_work, link);

	work->context = msg->context;
	work->read = read;
	work->delivery = flags & FI_DELIVERY_COMPLETE;
	work->late = 0;
	work->begun = NULL;
	work->n = (unsigned int)msg->iov_count;
	work->length = 0;
	for (unsigned int i = 0; i < work->n; i++) {
		work->iov[i] = msg->msg_iov[i];
		work->desc[i] = msg->desc ? (uintptr_t)msg->desc[i] : 0;
		work->length += work->iov[i].iov_len;
	}
	work->addr = msg->rma_iov->addr;
	work->key = msg->rma_iov->key;
	work->to = msg->addr;
	tei_list_add_tail(&ep->works, &work->link);
	ep->n_works++;
	ep->n_held++;
	ofi_net.counts.posted++;
}

static ssize_t post_one(struct fake_ofi_ep *ep, const struct fi_msg_rma *msg,
			uint64_t flags, bool read) TEI_REQUIRES(ofi_net.mu)
{
	enum fake_ofi_state usable = ofi_net.rules->type == FI_EP_MSG
					     ? FAKE_OFI_CONNECTED
					     : FAKE_OFI_ENABLED;
	uint64_t length;
	int rc = fake_ofi_fails(FAKE_OFI_POST);

	if (rc)
		return rc;
	if (ep->state != usable)
		return ep->state == FAKE_OFI_ENDED ? -FI_ENOTCONN
						   : -FI_EOPBADSTATE;
	rc = check_post(ep, msg, &length);
	if (rc)
		return rc;
	if (fake_ofi_is_busy() ||
	    (!fake_ofi_shake_hands(ep, msg->addr) && !fake_ofi_is_kept(ep)) ||
	    ep->n_held >= ep->domain->device->limits.depth ||
	    tei_list_empty(&ep->free))
		return -FI_EAGAIN;
	take(ep, msg, flags, read);
	if (ep->cq->wait.armed)
		fake_ofi_run(ep->cq, SIZE_MAX);
	return 0;
}

static ssize_t post(struct fid_ep *base, const struct fi_msg_rma *msg,
		    uint64_t flags, bool read)
{
	ssize_t rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = post_one(ep_of(base), msg, flags, read);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

ssize_t fake_ofi_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			 uint64_t flags)
{
	return post(ep, msg, flags, true);
}

ssize_t fake_ofi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			  uint64_t flags)
{
	return post(ep, msg, flags, false);
}

/* ---- ended ---- */

void fake_ofi_end_one(struct fake_ofi_ep *ep, struct fake_ofi_work *work,
		      int err, int code)
{
	const struct fake_ofi_done done = {
		.context = work->context,
		.ep = ep,
		.flags = FI_RMA | (work->read ? FI_READ : FI_WRITE),
		.len = err ? 0 : work->length,
		.err = err,
		.code = code};

	tei_list_del(&work->link);
	tei_list_add_head(&ep->free, &work->link);
	ep->n_works--;
	ofi_net.counts.done += !err;
	ofi_net.counts.canceled += err == FI_ECANCELED;
	ofi_net.counts.spoiled += err && err != FI_ECANCELED;
	fake_ofi_cq_add(ep->cq, &done);
}

void fake_ofi_end_all(struct fake_ofi_ep *ep, int err, int code)
{
	while (!tei_list_empty(&ep->works))
		fake_ofi_end_one(ep,
				 tei_list_entry(ep->works.next,
						struct fake_ofi_work, link),
				 err, code);
}

/*
 * The device ends all, and whoever closes the endpoint waits for that, for
 * ever where the device does nothing: what the fake cannot do, it counts. Ends
 * of operations to addresses that were removed are not told.
 */
static void wait_for_works(struct fake_ofi_ep *ep)
{
	bool kept = fake_ofi_is_kept(ep);

	ofi_net.counts.waited += ep->n_works && !ep->cq->dead && !kept;
	while (ep->n_works) {
		struct fake_ofi_work *work = tei_list_entry(
			ep->works.next, struct fake_ofi_work, link);

		if (ep->av->ring[work->to].magic && !kept) {
			fake_ofi_end_one(ep, work, ofi_net.rules->lost_err,
					 ofi_net.rules->lost_code);
			continue;
		}
		tei_list_del(&work->link);
		tei_list_add_head(&ep->free, &work->link);
		ep->n_works--;
	}
}

/* What is in the queue of it is seen no more, or is seen as nobody's. */
static void leave_queue(struct fake_ofi_ep *ep)
{
	struct fake_ofi_cq *cq = ep->cq;
	size_t kept = 0;

	for (size_t i = 0; i < cq->n; i++) {
		struct fake_ofi_done *done =
			&cq->ring[(cq->head + i) & (cq->room - 1)];

		if (done->ep == ep && !ep->domain->comes_back &&
		    !ep->domain->waits)
			continue;
		if (done->ep == ep)
			done->ep = NULL;
		cq->ring[(cq->head + kept++) & (cq->room - 1)] = *done;
	}
	cq->n = kept;
	tei_list_del(&ep->of_cq);
}

int fake_ofi_ep_close(struct fid *fid)
{
	struct fake_ofi_ep *ep = (void *)fid;
	int rc = fake_ofi_fails(FAKE_OFI_CLOSE);

	if (!rc)
		rc = -ofi_net.refuse_closes;
	if (rc)
		return rc;
	if (ep->n_mrs)
		return -FI_EBUSY;
	if (ofi_net.rules->type == FI_EP_MSG)
		fake_ofi_leave(ep);
	if (ep->domain->waits)
		wait_for_works(ep);
	fake_ofi_forget(ep->eq, fid);
	if (ep->eq)
		ep->eq->n_children--;
	if (ep->cq)
		leave_queue(ep);
	if (ep->av)
		ep->av->n_eps--;
	ofi_net.eps[ep->number % FAKE_OFI_EPS_MAX] = NULL;
	ep->domain->device->n_eps--;
	ep->domain->n_children--;
	ofi_net.counts.endpoints--;
	tei_free(ep->memory);
	return 0;
}
