/* SPDX-License-Identifier: Apache-2.0 */
/* pair.c - queue pairs of the fake provider: their states, and posting */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/fake_verbs/private.h"

#define INIT_MASK \
	(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK                                                        \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | \
	 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                               \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

static struct fake_qp *qp_of(struct ibv_qp *qp)
{
	return (struct fake_qp *)(void *)qp;
}

static bool fits(const struct fake_device *fake_device,
		 const struct ibv_qp_init_attr *attr)
{
	const struct ibv_device_attr *device = &fake_device->attr;
	const struct ibv_qp_cap *cap = &attr->cap;
	bool no_inline = fake.no_inline || fake_device->no_inline;

	return attr->qp_type == IBV_QPT_RC && cap->max_send_wr &&
	       cap->max_send_wr <= (unsigned)device->max_qp_wr &&
	       cap->max_send_sge <= (unsigned)device->max_sge &&
	       cap->max_send_sge <= FAKE_SGE_MAX &&
	       cap->max_inline_data <= (no_inline ? 0 : FAKE_INLINE_MAX) &&
	       attr->send_cq == attr->recv_cq;
}

static bool place_pair(struct fake_qp *qp)
{
	for (uint32_t i = 0; i < FAKE_PAIRS_MAX; i++) {
		uint32_t number = fake.next_pair + i;

		if (number < 2 || fake.pairs[number % FAKE_PAIRS_MAX])
			continue;
		fake.pairs[number % FAKE_PAIRS_MAX] = qp;
		qp->base.qp_num = number & 0xffffff;
		fake.next_pair = (number + 1) & 0xffffff;
		fake.counts.pairs++;
		return true;
	}
	return false;
}

struct ibv_qp *fake_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	const struct fake_device *device = fake_device_of(pd->context);
	struct fake_cq *cq = (struct fake_cq *)(void *)attr->send_cq;
	struct fake_qp *qp;

	if (fake_fails())
		return NULL;
	errno = EINVAL;
	if (!fits(device, attr))
		return NULL;
	qp = tei_calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->ring = tei_calloc(attr->cap.max_send_wr, sizeof(*qp->ring));
	tei_mutex_lock(&fake.mu);
	if (!qp->ring || fake.counts.pairs >= (unsigned)device->attr.max_qp ||
	    !place_pair(qp)) {
		tei_mutex_unlock(&fake.mu);
		tei_free(qp->ring);
		tei_free(qp);
		errno = ENOMEM;
		return NULL;
	}
	qp->base.context = pd->context;
	qp->base.qp_context = attr->qp_context;
	qp->base.pd = pd;
	qp->base.send_cq = qp->base.recv_cq = attr->send_cq;
	qp->base.state = IBV_QPS_RESET;
	qp->cap = attr->cap;
	tei_list_add_tail(&cq->pairs, &qp->of_cq);
	((struct fake_pd *)(void *)pd)->n_children++;
	tei_mutex_unlock(&fake.mu);
	return &qp->base;
}

/* What of it is not polled yet is not seen any more. */
static void destroy(struct fake_qp *qp)
{
	struct ibv_qp *base = &qp->base;
	struct fake_cq *cq = (struct fake_cq *)(void *)base->send_cq;
	uint32_t kept = 0;

	tei_mutex_lock(&fake.mu);
	while (fake.n_unacked) /* as libibverbs: one may be of this pair */
		(void)tei_cond_wait(&fake.acked, &fake.mu, UINT64_MAX);
	for (uint32_t i = 0; i < cq->n; i++) {
		struct ibv_wc *wc = &cq->ring[(cq->head + i) % cq->room];

		if (wc->qp_num != base->qp_num)
			cq->ring[(cq->head + kept++) % cq->room] = *wc;
	}
	cq->n = kept;
	fake_forget_events(base->context, base);
	tei_list_del(&qp->of_cq);
	fake.pairs[base->qp_num % FAKE_PAIRS_MAX] = NULL;
	fake.counts.pairs--;
	((struct fake_pd *)(void *)base->pd)->n_children--;
	tei_mutex_unlock(&fake.mu);
	tei_free(qp->ring);
	tei_free(qp);
}

int fake_destroy_qp(struct ibv_qp *base)
{
	int err;

	tei_mutex_lock(&fake.mu);
	fake.counts.held++;
	while (fake.hold_destroys || qp_of(base)->held)
		(void)tei_cond_wait(&fake.released, &fake.mu, UINT64_MAX);
	fake.counts.held--;
	err = fake.refuse_destroys;
	fake.counts.refused += err != 0;
	tei_mutex_unlock(&fake.mu);
	if (!err)
		destroy(qp_of(base));
	return err;
}

static struct fake_qp *left_in(const struct ibv_context *context)
{
	struct fake_qp *left = NULL;

	tei_mutex_lock(&fake.mu);
	for (uint32_t i = 0; i < FAKE_PAIRS_MAX && !left; i++) {
		if (fake.pairs[i] && fake.pairs[i]->base.context == context)
			left = fake.pairs[i];
	}
	tei_mutex_unlock(&fake.mu);
	return left;
}

/* With the last of them go the queue and the domain that they kept. */
void fake_reap(struct ibv_context *context)
{
	struct fake_qp *qp;

	while ((qp = left_in(context))) {
		struct ibv_cq *cq = qp->base.send_cq;
		struct ibv_comp_channel *channel = cq->channel;
		struct ibv_pd *pd = qp->base.pd;

		destroy(qp);
		if (left_in(context))
			continue;
		(void)fake_destroy_cq(cq);
		(void)fake_destroy_comp_channel(channel);
		(void)fake_dealloc_pd(pd);
	}
}

/* ---- states ---- */

static bool may_become(const struct fake_qp *qp, enum ibv_qp_state state,
		       int mask)
{
	switch (state) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_INIT:
		return qp->base.state == IBV_QPS_RESET && mask == INIT_MASK;
	case IBV_QPS_RTR:
		return qp->base.state == IBV_QPS_INIT && mask == RTR_MASK;
	case IBV_QPS_RTS:
		return qp->base.state == IBV_QPS_RTR && mask == RTS_MASK;
	default:
		return false;
	}
}

static bool reachable(const struct fake_device *device,
		      const struct ibv_qp_attr *attr)
{
	uint8_t port = attr->ah_attr.port_num;

	return port >= 1 && port <= device->attr.phys_port_cnt &&
	       attr->ah_attr.is_global &&
	       attr->ah_attr.grh.sgid_index < FAKE_GIDS_MAX &&
	       device->used[port - 1][attr->ah_attr.grh.sgid_index] &&
	       attr->path_mtu >= IBV_MTU_256 &&
	       attr->path_mtu <= device->ports[port - 1].active_mtu &&
	       attr->max_dest_rd_atomic <= device->attr.max_qp_rd_atom;
}

static int become(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct fake_device *device = fake_device_of(qp->base.context);

	if (!(mask & IBV_QP_STATE) || !may_become(qp, attr->qp_state, mask))
		return EINVAL;
	if (attr->qp_state == IBV_QPS_RTR && !reachable(device, attr))
		return EINVAL;
	if (attr->qp_state == IBV_QPS_RTS &&
	    attr->max_rd_atomic > device->attr.max_qp_init_rd_atom)
		return EINVAL;
	if (mask & IBV_QP_ACCESS_FLAGS) {
		qp->attr.qp_access_flags = attr->qp_access_flags;
		qp->attr.port_num = attr->port_num;
		qp->attr.pkey_index = attr->pkey_index;
	}
	if (mask & IBV_QP_AV) {
		qp->attr.ah_attr = attr->ah_attr;
		qp->attr.path_mtu = attr->path_mtu;
		qp->attr.dest_qp_num = attr->dest_qp_num;
		qp->attr.rq_psn = attr->rq_psn;
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	}
	if (mask & IBV_QP_SQ_PSN) {
		qp->attr.sq_psn = attr->sq_psn;
		qp->attr.max_rd_atomic = attr->max_rd_atomic;
		qp->attr.timeout = attr->timeout;
		qp->attr.retry_cnt = attr->retry_cnt;
	}
	qp->base.state = qp->attr.qp_state = attr->qp_state;
	return 0;
}

struct ibv_qp_attr fake_verbs_pair(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;

	tei_mutex_lock(&fake.mu);
	attr = qp_of(qp)->attr;
	tei_mutex_unlock(&fake.mu);
	return attr;
}

void fake_verbs_break_pair(struct ibv_qp *qp)
{
	const struct ibv_async_event event = {.event_type = IBV_EVENT_QP_FATAL,
					      .element.qp = qp};

	tei_mutex_lock(&fake.mu);
	qp->state = qp_of(qp)->attr.qp_state = IBV_QPS_ERR;
	fake_raise(qp->context, &event);
	tei_mutex_unlock(&fake.mu);
}

/* The other half, if it was early, sends again, also while nobody polls. */
static void hear_other(const struct fake_qp *qp) TEI_REQUIRES(fake.mu)
{
	const struct fake_qp *other =
		fake.pairs[qp->attr.dest_qp_num % FAKE_PAIRS_MAX];
	struct fake_cq *cq;

	if (!other || other->base.qp_num != qp->attr.dest_qp_num)
		return;
	cq = (struct fake_cq *)(void *)other->base.send_cq;
	if (cq->armed)
		fake_run(cq, UINT32_MAX);
}

int fake_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	int rc;

	/* Into error always works, but on a device that is gone. */
	if (attr->qp_state != IBV_QPS_ERR && fake_fails())
		return errno;
	tei_mutex_lock(&fake.mu);
	rc = become(qp_of(base), attr, mask);
	if (!rc && attr->qp_state == IBV_QPS_RTR)
		hear_other(qp_of(base));
	tei_mutex_unlock(&fake.mu);
	return rc;
}

/* ---- posting ---- */

static int take(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct fake_work *work;
	uint32_t at = 0;

	if (qp->base.state < IBV_QPS_RTS || wr->num_sge < 1 ||
	    (unsigned)wr->num_sge > qp->cap.max_send_sge ||
	    (wr->opcode != IBV_WR_RDMA_READ && wr->opcode != IBV_WR_RDMA_WRITE))
		return EINVAL;
	if (qp->n_held == qp->cap.max_send_wr || !fake.take)
		return ENOMEM;
	fake.take -= fake.take != UINT32_MAX;
	work = &qp->ring[(qp->head + qp->n) % qp->cap.max_send_wr];
	work->wr = *wr;
	memcpy(work->sges, wr->sg_list,
	       (size_t)wr->num_sge * sizeof(work->sges[0]));
	if (wr->send_flags & IBV_SEND_INLINE) {
		for (int i = 0; i < wr->num_sge; i++) {
			const struct ibv_sge *sge = &wr->sg_list[i];

			if (sge->length > qp->cap.max_inline_data - at)
				return EINVAL;
			memcpy(work->bytes + at, (void *)(uintptr_t)sge->addr,
			       sge->length);
			at += sge->length;
		}
		fake.counts.inlined++;
	}
	qp->n_reads += wr->opcode == IBV_WR_RDMA_READ;
	if (qp->n_reads > fake.counts.most_reads)
		fake.counts.most_reads = qp->n_reads;
	qp->n++;
	qp->n_held++;
	return 0;
}

int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad)
{
	struct fake_qp *qp = qp_of(base);
	struct fake_cq *cq = (struct fake_cq *)(void *)base->send_cq;
	bool any = false;
	int rc = 0;

	tei_mutex_lock(&fake.mu);
	for (; wr && !rc; wr = rc ? wr : wr->next) {
		rc = take(qp, wr);
		any |= !rc;
	}
	if (rc)
		*bad = wr;
	fake.counts.doorbells += any;
	if (cq->armed)
		fake_run(cq, UINT32_MAX);
	tei_mutex_unlock(&fake.mu);
	return rc;
}
