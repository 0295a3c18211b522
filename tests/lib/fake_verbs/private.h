/* SPDX-License-Identifier: Apache-2.0 */
/* private.h - what the files of the fake provider share; all under fake.mu */
#ifndef FAKE_VERBS_PRIVATE_H
#define FAKE_VERBS_PRIVATE_H

#include "base/list.h"
#include "base/thread.h"
#include "tests/lib/fake_verbs/fake_verbs.h"

#define FAKE_KEYS_MAX   16384
#define FAKE_PAIRS_MAX  8192
#define FAKE_SGE_MAX    16
#define FAKE_INLINE_MAX 256
#define FAKE_EVENTS_MAX 64

struct fake_device {
	struct ibv_device base; /* first: libibverbs casts the same way */
	struct ibv_device_attr attr;
	struct ibv_port_attr ports[FAKE_PORTS_MAX];
	struct ibv_gid_entry gids[FAKE_PORTS_MAX][FAKE_GIDS_MAX];
	bool used[FAKE_PORTS_MAX][FAKE_GIDS_MAX];
	bool hangs, no_inline;
	int refuses_memory; /* errno; 0: it does not */
	bool holds_memory;  /* reg_mr() does not return */
};

struct fake_context {
	struct ibv_context base;
	struct tei_list link; /* fake.contexts */
	struct ibv_async_event events[FAKE_EVENTS_MAX];
	unsigned int n_events, n_children;
};

struct fake_pd {
	struct ibv_pd base;
	unsigned int n_children;
};

struct fake_mr {
	struct ibv_mr base;
	uint8_t *bytes; /* of a dma-buf, mapped; NULL: at the address */
	unsigned int access;
};

struct fake_channel {
	struct ibv_comp_channel base;
	struct fake_cq *told; /* has an event not fetched yet */
};

struct fake_cq {
	struct ibv_cq base;
	struct fake_channel *channel;
	struct ibv_wc *ring; /* ring[room] */
	uint32_t room, head, n;
	bool armed, overrun;
	unsigned int n_unacked, n_children;
	struct tei_list pairs; /* of fake_qp.of_cq */
};

struct fake_work { /* a posted work request */
	struct ibv_send_wr wr;
	struct ibv_sge sges[FAKE_SGE_MAX];
	uint8_t bytes[FAKE_INLINE_MAX];
};

struct fake_qp {
	struct ibv_qp base;
	struct tei_list of_cq;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr; /* as modify_qp() has set it */
	struct fake_work *ring;  /* ring[cap.max_send_wr] */
	uint32_t head, n;        /* not carried out yet */
	uint32_t n_held;         /* slots of the queue: until a completion */
	uint32_t n_reads;
	bool hangs;
	bool held; /* destroy_qp() does not return */
};

struct fake_fabric {
	struct tei_mutex mu;
	unsigned int n_devices;
	struct fake_device devices[FAKE_DEVICES_MAX];
	struct tei_list contexts;
	struct fake_mr *keys[FAKE_KEYS_MAX]; /* by key >> 8 */
	struct fake_qp *pairs[FAKE_PAIRS_MAX];
	uint32_t next_key, next_pair;
	struct fake_verbs_counts counts;
	unsigned int n_unacked; /* asynchronous events */

	unsigned int fail_nth;
	int fail_err;
	bool struck;
	unsigned int spoil_nth, spoil_next, spoil_per_million;
	enum ibv_wc_status spoil_status;
	uint64_t chance;
	unsigned int take;
	bool no_inline;
	bool carries_nothing;
	bool hold_destroys;
	int refuse_destroys;
	int refuse_dmabufs;
	void *(*translate)(uint64_t addr);
	struct tei_cond released, acked;
};

extern struct fake_fabric fake;

static inline struct fake_device *fake_device_of(struct ibv_context *context)
{
	return (struct fake_device *)(void *)context->device;
}

/* True, with errno set: this call is to fail. Any call that can. */
bool fake_fails(void);

/* device.c */
void fake_raise(struct ibv_context *context,
		const struct ibv_async_event *event);
/* Of a queue pair that is being destroyed. */
void fake_forget_events(struct ibv_context *context, const struct ibv_qp *qp);

/* pair.c: what the kernel does when queue pairs of a context are left. */
void fake_reap(struct ibv_context *context);

/* memory.c: NULL: there is no such key in that domain. */
struct fake_mr *fake_mr_find(const struct ibv_pd *pd, uint32_t key);

/* queue.c */
void fake_cq_add(struct fake_cq *cq, const struct ibv_wc *wc);

/* run.c: carry out what is posted to pairs of the queue, so much each. */
void fake_run(struct fake_cq *cq, unsigned int each);

struct ibv_device **fake_get_device_list(int *n);
void fake_free_device_list(struct ibv_device **list);
struct ibv_context *fake_open_device(struct ibv_device *device);
int fake_close_device(struct ibv_context *context);
int fake_query_device(struct ibv_context *context,
		      struct ibv_device_attr *attr);
int fake_query_port(struct ibv_context *context, uint8_t port,
		    struct ibv_port_attr *attr);
ssize_t fake_query_gid_table(struct ibv_context *context,
			     struct ibv_gid_entry *entries, size_t max);
int fake_get_async_event(struct ibv_context *context,
			 struct ibv_async_event *event);
void fake_ack_async_event(struct ibv_async_event *event);
struct ibv_pd *fake_alloc_pd(struct ibv_context *context);
int fake_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			   unsigned int access);
struct ibv_mr *fake_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access);
int fake_dereg_mr(struct ibv_mr *mr);
/* Bytes that a device finds at an address which @mr covers. */
uint8_t *fake_mr_bytes(const struct fake_mr *mr, uint64_t addr);
struct ibv_comp_channel *fake_create_comp_channel(struct ibv_context *context);
int fake_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *fake_create_cq(struct ibv_context *context, int cqe, void *arg,
			      struct ibv_comp_channel *channel, int vector);
int fake_destroy_cq(struct ibv_cq *cq);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int fake_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		      void **arg);
void fake_ack_cq_events(struct ibv_cq *cq, unsigned int n);
int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
struct ibv_qp *fake_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int fake_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int fake_destroy_qp(struct ibv_qp *qp);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad);

#endif
