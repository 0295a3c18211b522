/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - what the fake NICs do: carry out work requests, in order */
#include <assert.h>
#include <string.h>

#include "base/chance.h"
#include "tests/lib/fake_verbs/private.h"

/*
 * The other half is not ready to receive yet: a NIC sends again for a while, and
 * this one until it is.
 */
static bool is_early(const struct fake_qp *qp)
{
	const struct fake_qp *peer =
		fake.pairs[qp->attr.dest_qp_num % FAKE_PAIRS_MAX];

	return qp->base.state == IBV_QPS_RTS && peer &&
	       peer->base.qp_num == qp->attr.dest_qp_num &&
	       (peer->base.state == IBV_QPS_RESET ||
		peer->base.state == IBV_QPS_INIT);
}

/* Who is at the other end; NULL: nobody answers. */
static struct fake_qp *peer_of(const struct fake_qp *qp)
{
	const union ibv_gid *to = &qp->attr.ah_attr.grh.dgid;
	const struct fake_device *device;
	struct fake_qp *peer =
		fake.pairs[qp->attr.dest_qp_num % FAKE_PAIRS_MAX];
	const struct ibv_ah_attr *ah;

	if (!peer || peer->base.qp_num != qp->attr.dest_qp_num ||
	    (peer->base.state != IBV_QPS_RTR &&
	     peer->base.state != IBV_QPS_RTS))
		return NULL;
	device = fake_device_of(peer->base.context);
	ah = &peer->attr.ah_attr;
	if (memcmp(to, &device->gids[ah->port_num - 1][ah->grh.sgid_index].gid,
		   sizeof(*to)) != 0)
		return NULL;
	if (peer->attr.dest_qp_num != qp->base.qp_num ||
	    peer->attr.rq_psn != qp->attr.sq_psn)
		return NULL;
	return peer;
}

static bool port_is_up(const struct fake_qp *qp)
{
	const struct fake_device *device = fake_device_of(qp->base.context);

	return device->ports[qp->attr.ah_attr.port_num - 1].state ==
	       IBV_PORT_ACTIVE;
}

/* Packets that are larger than what a port lets by are lost. */
static bool packets_pass(const struct fake_qp *qp, const struct fake_qp *peer)
{
	const struct fake_device *near = fake_device_of(qp->base.context);
	const struct fake_device *far = fake_device_of(peer->base.context);
	enum ibv_mtu mtu = qp->attr.path_mtu;

	return mtu <= near->ports[qp->attr.ah_attr.port_num - 1].active_mtu &&
	       mtu <= far->ports[peer->attr.ah_attr.port_num - 1].active_mtu;
}

/* Whether @mr has that range, for somebody with that right. */
static bool covers(const struct fake_mr *mr, uint64_t addr, uint64_t length,
		   unsigned int access)
{
	uint64_t base;

	if (!mr || (mr->access & access) != access)
		return false;
	base = (uintptr_t)mr->base.addr;
	return addr >= base && length <= mr->base.length &&
	       addr - base <= mr->base.length - length;
}

static uint64_t length_of(const struct fake_work *work)
{
	uint64_t length = 0;

	for (int i = 0; i < work->wr.num_sge; i++)
		length += work->sges[i].length;
	return length;
}

static enum ibv_wc_status check_local(const struct fake_qp *qp,
				      const struct fake_work *work)
{
	bool read = work->wr.opcode == IBV_WR_RDMA_READ;
	const struct fake_device *device = fake_device_of(qp->base.context);

	if (length_of(work) >
	    device->ports[qp->attr.ah_attr.port_num - 1].max_msg_sz)
		return IBV_WC_LOC_LEN_ERR;
	for (int i = 0; i < work->wr.num_sge; i++) {
		const struct ibv_sge *sge = &work->sges[i];

		if (work->wr.send_flags & IBV_SEND_INLINE)
			break;
		if (!covers(fake_mr_find(qp->base.pd, sge->lkey), sge->addr,
			    sge->length, read ? IBV_ACCESS_LOCAL_WRITE : 0))
			return IBV_WC_LOC_PROT_ERR;
	}
	return IBV_WC_SUCCESS;
}

/* A request that the peer's NIC refuses breaks the peer's queue pair, too. */
static enum ibv_wc_status refuse(struct fake_qp *peer,
				 enum ibv_wc_status status)
{
	const struct ibv_async_event event = {
		.event_type = status == IBV_WC_REM_ACCESS_ERR
				      ? IBV_EVENT_QP_ACCESS_ERR
				      : IBV_EVENT_QP_REQ_ERR,
		.element.qp = &peer->base};

	peer->base.state = IBV_QPS_ERR;
	fake_raise(peer->base.context, &event);
	return status;
}

static enum ibv_wc_status check_remote(const struct fake_qp *qp,
				       const struct fake_work *work,
				       struct fake_qp *peer)
{
	bool read = work->wr.opcode == IBV_WR_RDMA_READ;
	unsigned int need =
		read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	const struct fake_mr *mr;

	if (qp->attr.path_mtu != peer->attr.path_mtu)
		return refuse(peer, IBV_WC_REM_INV_REQ_ERR);
	if (read && (!qp->attr.max_rd_atomic ||
		     qp->attr.max_rd_atomic > peer->attr.max_dest_rd_atomic))
		return refuse(peer, IBV_WC_REM_INV_REQ_ERR);
	mr = fake_mr_find(peer->base.pd, work->wr.wr.rdma.rkey);
	if (!(peer->attr.qp_access_flags & need) ||
	    !covers(mr, work->wr.wr.rdma.remote_addr, length_of(work), need))
		return refuse(peer, IBV_WC_REM_ACCESS_ERR);
	return IBV_WC_SUCCESS;
}

static void carry(const struct fake_qp *qp, const struct fake_qp *peer,
		  const struct fake_work *work)
{
	uint8_t *remote = fake_mr_bytes(
		fake_mr_find(peer->base.pd, work->wr.wr.rdma.rkey),
		work->wr.wr.rdma.remote_addr);

	if (work->wr.send_flags & IBV_SEND_INLINE) {
		memcpy(remote, work->bytes, length_of(work));
		return;
	}
	for (int i = 0; i < work->wr.num_sge; i++) {
		const struct ibv_sge *sge = &work->sges[i];
		uint8_t *local = fake_mr_bytes(
			fake_mr_find(qp->base.pd, sge->lkey), sge->addr);

		if (work->wr.opcode == IBV_WR_RDMA_READ)
			memcpy(local, remote, sge->length);
		else
			memcpy(remote, local, sge->length);
		remote += sge->length;
	}
}

static enum ibv_wc_status spoiled(void)
{
	static const enum ibv_wc_status some[] = {
		IBV_WC_LOC_QP_OP_ERR, IBV_WC_BAD_RESP_ERR,   IBV_WC_REM_OP_ERR,
		IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_GENERAL_ERR,
	};
	uint64_t n;

	if (fake.spoil_nth && !--fake.spoil_nth)
		return fake.spoil_status;
	if (fake.spoil_next) {
		fake.spoil_next--;
		return fake.spoil_status;
	}
	if (!fake.spoil_per_million)
		return IBV_WC_SUCCESS;
	n = tei_chance(&fake.chance);
	if (n % 1000000 >= fake.spoil_per_million)
		return IBV_WC_SUCCESS;
	return some[n / 1000000 % (sizeof(some) / sizeof(some[0]))];
}

static enum ibv_wc_status perform(struct fake_qp *qp, struct fake_work *work)
{
	enum ibv_wc_status status;
	struct fake_qp *peer;

	if (qp->base.state != IBV_QPS_RTS)
		return IBV_WC_WR_FLUSH_ERR;
	status = check_local(qp, work);
	if (!status)
		status = spoiled();
	if (status)
		return status;
	peer = peer_of(qp);
	if (!peer || !port_is_up(qp) || !port_is_up(peer) ||
	    !packets_pass(qp, peer))
		return IBV_WC_RETRY_EXC_ERR;
	status = check_remote(qp, work, peer);
	if (!status && !fake.carries_nothing)
		carry(qp, peer, work);
	return status;
}

/* The first failure breaks the queue pair; what is behind it is flushed. */
static void finish(struct fake_qp *qp, const struct fake_work *work,
		   enum ibv_wc_status status)
{
	const struct ibv_wc wc = {.wr_id = work->wr.wr_id,
				  .status = status,
				  .qp_num = qp->base.qp_num,
				  .vendor_err = status ? 0x80u + status : 0,
				  .opcode = work->wr.opcode == IBV_WR_RDMA_READ
						    ? IBV_WC_RDMA_READ
						    : IBV_WC_RDMA_WRITE};
	bool signalled = work->wr.send_flags & IBV_SEND_SIGNALED;

	fake.counts.requests += !status;
	fake.counts.flushed += status == IBV_WC_WR_FLUSH_ERR;
	fake.counts.spoiled += status && status != IBV_WC_WR_FLUSH_ERR;
	fake.counts.signalled += !status && signalled;
	qp->n_reads -= work->wr.opcode == IBV_WR_RDMA_READ;
	qp->head = (qp->head + 1) % qp->cap.max_send_wr;
	qp->n--;
	if (status)
		qp->base.state = IBV_QPS_ERR;
	/* Slots of what was not signalled come free with what is. */
	if (!status && !signalled)
		return;
	qp->n_held = qp->n;
	fake_cq_add((struct fake_cq *)(void *)qp->base.send_cq, &wc);
}

void fake_run(struct fake_cq *cq, unsigned int each)
{
	if (fake_device_of(cq->base.context)->hangs)
		return;
	tei_list_for_each (node, &cq->pairs) {
		struct fake_qp *qp =
			tei_list_entry(node, struct fake_qp, of_cq);

		for (unsigned int i = 0;
		     i < each && qp->n && !qp->hangs && !is_early(qp); i++) {
			struct fake_work *work = &qp->ring[qp->head];

			finish(qp, work, perform(qp, work));
		}
	}
}
