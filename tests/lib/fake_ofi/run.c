/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - what the fake NICs do: carry out operations */
#include <assert.h>
#include <string.h>

#include "base/chance.h"
#include "tests/lib/fake_ofi/private.h"

/* How an operation ends; WAITS: it does not yet. */
struct fate {
	int err, code;
	bool waits, breaks;
};

#define REFUSED_ADDRESS 4111 /* what a target of efa says of it */

static const struct fate waits = {.waits = true};

/* ---- checks ---- */

static bool covers(const struct fake_ofi_mr *mr, uint64_t addr, uint64_t length,
		   uint64_t access)
{
	return !mr->kept && (mr->access & access) && addr >= mr->addr &&
	       length <= mr->length && addr - mr->addr <= mr->length - length;
}

/* Only where local memory is registered. */
static bool check_local(const struct fake_ofi_ep *ep,
			const struct fake_ofi_work *work)
{
	for (unsigned int i = 0; i < work->n; i++) {
		const struct iovec *piece = &work->iov[i];
		const struct fake_ofi_mr *mr =
			fake_ofi_mr_by_desc(work->desc[i]);

		if (!mr || mr->domain != ep->domain ||
		    !covers(mr, (uintptr_t)piece->iov_base, piece->iov_len,
			    work->read ? FI_READ : FI_WRITE))
			return false;
	}
	return true;
}

/* The memory that an operation names at its target; NULL: it is refused. */
static struct fake_ofi_mr *find_remote(const struct fake_ofi_ep *target,
				       const struct fake_ofi_work *work,
				       uint64_t *addr)
{
	int mode = ofi_net.rules->mr_mode;
	struct fake_ofi_mr *mr = fake_ofi_mr_by_key(target->domain, work->key);

	if (!mr || !mr->enabled ||
	    ((mode & FI_MR_ENDPOINT) && mr->ep != target))
		return NULL;
	*addr = work->addr;
	if (!(mode & FI_MR_VIRT_ADDR)) {
		if (work->addr > mr->length)
			return NULL;
		*addr += mr->addr;
	}
	return covers(mr, *addr, work->length,
		      work->read ? FI_REMOTE_READ : FI_REMOTE_WRITE)
		       ? mr
		       : NULL;
}

/* ---- targets ---- */

/* Who has the address; *device: where it is, or would be. */
static struct fake_ofi_ep *find_target(const struct fake_ofi_ep *ep,
				       const struct fake_ofi_work *work,
				       const struct fake_ofi_device **device)
{
	const struct fake_ofi_address *a;
	struct fake_ofi_ep *target;

	if (ofi_net.rules->type == FI_EP_MSG) {
		*device = ep->peer ? ep->peer->domain->device : NULL;
		return ep->peer;
	}
	a = &ep->av->ring[work->to];
	target = ofi_net.eps[a->number % FAKE_OFI_EPS_MAX];
	*device = &ofi_net.devices[a->device];
	if (!a->magic || !target || target->number != a->number ||
	    target->domain->device != *device)
		return NULL;
	return target;
}

static bool answers(const struct fake_ofi_ep *ep, fi_addr_t addr)
{
	const struct fake_ofi_address *a = &ep->av->ring[addr];
	const struct fake_ofi_ep *peer =
		ofi_net.eps[a->number % FAKE_OFI_EPS_MAX];

	return peer && peer->number == a->number && peer->cq &&
	       !peer->domain->device->silent &&
	       peer->cq->n_reads > ep->asked_at;
}

bool fake_ofi_shake_hands(struct fake_ofi_ep *ep, fi_addr_t addr)
{
	const struct fake_ofi_address *a;
	const struct fake_ofi_ep *peer;

	if (!ep->av)
		return true;
	a = &ep->av->ring[addr];
	if (!ofi_net.devices[a->device].limits.handshakes)
		return true;
	if (ep->asked_at == UINT64_MAX || ep->asks != a->number) {
		peer = ofi_net.eps[a->number % FAKE_OFI_EPS_MAX];
		ep->asks = a->number;
		ep->asked_at = peer && peer->cq ? peer->cq->n_reads : 0;
		ep->shaken = false;
	}
	ep->shaken = ep->shaken || answers(ep, addr);
	return ep->shaken;
}

bool fake_ofi_is_kept(const struct fake_ofi_ep *ep)
{
	return FI_VERSION_GE(ofi_net.version, FI_VERSION(2, 0)) &&
	       ep->asked_at != UINT64_MAX && !ep->shaken;
}

/* Nobody answers: how often a queue is read until that is noticed. */
static struct fate wait_for(struct fake_ofi_work *work, unsigned int looks)
{
	const struct fake_ofi_rules *rules = ofi_net.rules;

	if (!looks || ++work->late < looks)
		return waits;
	return (struct fate){rules->lost_err, rules->lost_code,
			     .breaks = rules->type == FI_EP_MSG};
}

/* ---- carried out ---- */

static uint8_t *local_at(const struct fake_ofi_work *work, unsigned int i)
{
	uint64_t addr = (uintptr_t)work->iov[i].iov_base;
	const struct fake_ofi_mr *mr =
		ofi_net.rules->mr_mode & FI_MR_LOCAL
			? fake_ofi_mr_by_desc(work->desc[i])
			: NULL;

	return mr ? fake_ofi_mr_bytes(mr, addr) : (uint8_t *)(uintptr_t)addr;
}

static void carry(const struct fake_ofi_work *work, uint8_t *remote)
{
	for (unsigned int i = 0; i < work->n; i++) {
		size_t len = work->iov[i].iov_len;

		if (work->read)
			memcpy(local_at(work, i), remote, len);
		else
			memcpy(remote, local_at(work, i), len);
		remote += len;
	}
}

static struct fate refuse(const struct fake_ofi_work *work)
{
	const struct fake_ofi_rules *rules = ofi_net.rules;

	ofi_net.counts.refused++;
	if (rules->early && !work->read && !work->delivery)
		return (struct fate){.breaks = true};
	return (struct fate){rules->refused_err, rules->refused_code,
			     .breaks = rules->type == FI_EP_MSG};
}

/* The processes read and write where either end has them do so. */
static bool is_emulated(const struct fake_ofi_ep *ep,
			const struct fake_ofi_device *target)
{
	return target->limits.emulated || ep->domain->device->limits.emulated;
}

static struct fate perform(struct fake_ofi_ep *ep, struct fake_ofi_work *work)
	TEI_REQUIRES(ofi_net.mu)
{
	const struct fake_ofi_rules *rules = ofi_net.rules;
	const struct fake_ofi_device *device;
	struct fake_ofi_ep *target = find_target(ep, work, &device);
	const struct fake_ofi_mr *mr;
	uint64_t addr;
	int err;

	if (!device || device->silent)
		return wait_for(work, device ? device->looks : 0);
	if (!target)
		return wait_for(work, FAKE_OFI_LATE);
	err = fake_ofi_spoils();
	if (err)
		return (struct fate){err, err + 1000,
				     .breaks = rules->type == FI_EP_MSG};
	if ((rules->mr_mode & FI_MR_LOCAL) && !check_local(ep, work))
		return (struct fate){FI_EINVAL, 14,
				     .breaks = rules->type == FI_EP_MSG};
	if (target->av && device->limits.both_know &&
	    !fake_ofi_av_has(target->av, ep))
		return (struct fate){rules->lost_err, 15, .breaks = false};
	if (work->begun) {
		carry(work, work->begun);
		return (struct fate){.err = 0};
	}
	mr = find_remote(target, work, &addr);
	if (!mr && is_emulated(ep, device))
		fake_ofi_tell(target->eq, FI_NOTIFY, NULL, FI_EINVAL)->code =
			REFUSED_ADDRESS;
	if (!mr)
		return refuse(work);
	if (is_emulated(ep, device)) {
		work->begun = fake_ofi_mr_bytes(mr, addr);
		return waits;
	}
	carry(work, fake_ofi_mr_bytes(mr, addr));
	ofi_net.counts.events += (mr->flags & FI_RMA_EVENT) != 0;
	return (struct fate){.err = 0};
}

/* The oldest, or where operations overtake each other any one. */
static struct fake_ofi_work *choose(const struct fake_ofi_ep *ep)
{
	struct tei_list *node = ep->works.next;
	uint64_t ahead;

	if (ofi_net.rules->unordered) {
		ahead = tei_chance(&ofi_net.chances.seed) % ep->n_works % 8;
		while (ahead--)
			node = node->next;
	}
	return tei_list_entry(node, struct fake_ofi_work, link);
}

/* Carries out one operation. False: that has to wait, with all behind it. */
static bool run_one(struct fake_ofi_ep *ep) TEI_REQUIRES(ofi_net.mu)
{
	struct fake_ofi_work *work = choose(ep);
	struct fate fate;

	if (ep->state == FAKE_OFI_CONNECTED &&
	    fake_ofi_happens(ofi_net.chances.reset)) {
		fake_ofi_break(ep, FI_ECONNRESET);
		return false;
	}
	fate = perform(ep, work);

	if (fate.waits) {
		tei_list_del(&work->link);
		if (ofi_net.rules->unordered)
			tei_list_add_tail(&ep->works, &work->link);
		else
			tei_list_add_head(&ep->works, &work->link);
		return ofi_net.rules->unordered;
	}
	fake_ofi_end_one(ep, work, fate.err, fate.code);
	if (fate.breaks)
		fake_ofi_break(ep, FI_ECANCELED);
	return true;
}

void fake_ofi_run(struct fake_ofi_cq *cq, size_t each)
{
	if (cq->domain->device->hangs)
		return;
	tei_list_for_each (node, &cq->eps) {
		struct fake_ofi_ep *ep =
			tei_list_entry(node, struct fake_ofi_ep, of_cq);
		size_t n = ep->n_works < each ? ep->n_works : each;

		if (n && fake_ofi_is_kept(ep) &&
		    !fake_ofi_shake_hands(ep, choose(ep)->to))
			continue;
		while (n-- && ep->n_works && run_one(ep))
			;
	}
}
