/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provider.h - the calls of libibverbs that this backend makes, as a table
 *
 * Each entry is the call of that name without "ibv_", with its arguments and
 * errors: a pointer or NULL and errno, or 0 and a positive errno as result
 * (some of the oldest return -1 and set errno: tei_verbs_error() reads both).
 * The one exception is reg_mr, which takes the flags of ibv_reg_mr_iova2().
 * VERBS_PROVIDER_ABI grows with every change of the table.
 *
 * Threads: as libibverbs, any; one at a time per queue pair and queue is
 * enough.
 */
#ifndef VERBS_PROVIDER_H
#define VERBS_PROVIDER_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "base/module.h"

#define VERBS_PROVIDER_ABI 2u

struct verbs_provider {
	struct tei_module module; /* .abi: VERBS_PROVIDER_ABI */

	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context,
			    struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port,
			  struct ibv_port_attr *attr);
	/* Entries that are in use; how many, or a negative errno. */
	ssize_t (*query_gid_table)(struct ibv_context *context,
				   struct ibv_gid_entry *entries, size_t max);

	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length,
				 unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset,
					size_t length, uint64_t iova, int fd,
					int access);
	int (*dereg_mr)(struct ibv_mr *mr);

	struct ibv_comp_channel *(*create_comp_channel)(
		struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe,
				    void *cq_context,
				    struct ibv_comp_channel *channel,
				    int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*get_cq_event)(struct ibv_comp_channel *channel,
			    struct ibv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int n);
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);

	struct ibv_qp *(*create_qp)(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad);

	int (*get_async_event)(struct ibv_context *context,
			       struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
};

/* Turns the result of an integer call into 0 or a negative errno. */
static inline int tei_verbs_error(int rc)
{
	if (rc >= 0)
		return -rc;
	return errno ? -errno : -EIO;
}

#endif
