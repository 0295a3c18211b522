/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - completion queues and channels of the fake provider */
#include <assert.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/fake_verbs/private.h"

#define POLL_EACH 4 /* work requests of a pair that one poll carries out */

static struct fake_cq *cq_of(struct ibv_cq *cq)
{
	return (struct fake_cq *)(void *)cq;
}

struct ibv_comp_channel *fake_create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *channel;

	if (fake_fails())
		return NULL;
	channel = tei_calloc(1, sizeof(*channel));
	if (!channel)
		return NULL;
	channel->base.context = context;
	channel->base.fd = eventfd(0, EFD_CLOEXEC);
	assert(channel->base.fd >= 0);
	return &channel->base;
}

int fake_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	assert(!channel->refcnt);
	close(channel->fd);
	tei_free(channel);
	return 0;
}

struct ibv_cq *fake_create_cq(struct ibv_context *context, int cqe, void *arg,
			      struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq;

	if (fake_fails())
		return NULL;
	errno = EINVAL;
	if (cqe < 1 || cqe > fake_device_of(context)->attr.max_cqe || vector)
		return NULL;
	cq = tei_calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->ring = tei_calloc((size_t)cqe, sizeof(*cq->ring));
	if (!cq->ring) {
		tei_free(cq);
		return NULL;
	}
	cq->base.context = context;
	cq->base.cq_context = arg;
	cq->base.channel = channel;
	cq->base.cqe = cqe;
	cq->channel = (struct fake_channel *)(void *)channel;
	cq->room = (uint32_t)cqe;
	tei_list_init(&cq->pairs);
	tei_mutex_lock(&fake.mu);
	if (channel)
		channel->refcnt++;
	((struct fake_context *)(void *)context)->n_children++;
	tei_mutex_unlock(&fake.mu);
	return &cq->base;
}

int fake_destroy_cq(struct ibv_cq *base)
{
	struct fake_cq *cq = cq_of(base);

	tei_mutex_lock(&fake.mu);
	assert(tei_list_empty(&cq->pairs) && !cq->n_unacked);
	if (cq->channel) {
		cq->channel->base.refcnt--;
		if (cq->channel->told == cq)
			cq->channel->told = NULL;
	}
	((struct fake_context *)(void *)base->context)->n_children--;
	tei_mutex_unlock(&fake.mu);
	tei_free(cq->ring);
	tei_free(cq);
	return 0;
}

static void wake(struct fake_cq *cq)
{
	cq->armed = false;
	if (!cq->channel)
		return;
	cq->channel->told = cq;
	if (eventfd_write(cq->channel->base.fd, 1))
		assert(!"an event");
}

void fake_cq_add(struct fake_cq *cq, const struct ibv_wc *wc)
{
	if (cq->n == cq->room) {
		const struct ibv_async_event event = {.event_type =
							      IBV_EVENT_CQ_ERR,
						      .element.cq = &cq->base};

		if (!cq->overrun)
			fake_raise(cq->base.context, &event);
		cq->overrun = true;
		return;
	}
	cq->ring[(cq->head + cq->n++) % cq->room] = *wc;
	if (cq->armed)
		wake(cq);
}

/* While nobody polls the device goes on by itself. */
int fake_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	struct fake_cq *cq = cq_of(base);

	assert(!solicited_only);
	if (fake_fails())
		return errno;
	tei_mutex_lock(&fake.mu);
	cq->armed = true;
	fake_run(cq, UINT32_MAX);
	tei_mutex_unlock(&fake.mu);
	return 0;
}

int fake_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq,
		      void **arg)
{
	struct fake_channel *channel = (struct fake_channel *)(void *)base;
	eventfd_t times;

	if (eventfd_read(base->fd, &times))
		return -1;
	tei_mutex_lock(&fake.mu);
	assert(channel->told);
	*cq = &channel->told->base;
	*arg = (*cq)->cq_context;
	channel->told->n_unacked++;
	channel->told = NULL;
	tei_mutex_unlock(&fake.mu);
	return 0;
}

void fake_ack_cq_events(struct ibv_cq *base, unsigned int n)
{
	tei_mutex_lock(&fake.mu);
	assert(cq_of(base)->n_unacked >= n);
	cq_of(base)->n_unacked -= n;
	tei_mutex_unlock(&fake.mu);
}

int fake_poll_cq(struct ibv_cq *base, int n, struct ibv_wc *wc)
{
	struct fake_cq *cq = cq_of(base);
	int got = 0;

	tei_mutex_lock(&fake.mu);
	fake_run(cq, POLL_EACH);
	for (; got < n && cq->n; cq->n--) {
		wc[got++] = cq->ring[cq->head];
		cq->head = (cq->head + 1) % cq->room;
	}
	if (cq->overrun)
		got = -1;
	tei_mutex_unlock(&fake.mu);
	return got;
}
