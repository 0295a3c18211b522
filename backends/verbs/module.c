/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - the provider that is libibverbs: te_verbs.so
 *
 * The only file that needs the library: a module of its own, which holds one
 * table and calls nothing of this tree. Many of the calls are macros or inline
 * functions, so each has a function here.
 */
#include "backends/verbs/provider.h"

static int query_port(struct ibv_context *context, uint8_t port,
		      struct ibv_port_attr *attr)
{
	return ibv_query_port(context, port, attr);
}

static ssize_t query_gid_table(struct ibv_context *context,
			       struct ibv_gid_entry *entries, size_t max)
{
	return ibv_query_gid_table(context, entries, max, 0);
}

/* Takes optional flags out where the kernel does not know them. */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			     unsigned int access)
{
	return ibv_reg_mr(pd, addr, length, access);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq, solicited_only);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, n, wc);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, wr, bad);
}

extern const struct verbs_provider tei_verbs_provider;
TEI_MODULE_EXPORT const struct verbs_provider tei_verbs_provider = {
	.module.abi = VERBS_PROVIDER_ABI,
	.get_device_list = ibv_get_device_list,
	.free_device_list = ibv_free_device_list,
	.open_device = ibv_open_device,
	.close_device = ibv_close_device,
	.query_device = ibv_query_device,
	.query_port = query_port,
	.query_gid_table = query_gid_table,
	.alloc_pd = ibv_alloc_pd,
	.dealloc_pd = ibv_dealloc_pd,
	.reg_mr = reg_mr,
	.reg_dmabuf_mr = ibv_reg_dmabuf_mr,
	.dereg_mr = ibv_dereg_mr,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.create_cq = ibv_create_cq,
	.destroy_cq = ibv_destroy_cq,
	.req_notify_cq = req_notify_cq,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.poll_cq = poll_cq,
	.create_qp = ibv_create_qp,
	.modify_qp = ibv_modify_qp,
	.destroy_qp = ibv_destroy_qp,
	.post_send = post_send,
	.get_async_event = ibv_get_async_event,
	.ack_async_event = ibv_ack_async_event,
};
