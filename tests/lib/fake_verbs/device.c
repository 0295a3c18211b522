/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - devices, contexts, ports, GIDs and events of the fake provider */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/fake_verbs/private.h"

static struct fake_context *context_of(struct ibv_context *context)
{
	return (struct fake_context *)(void *)context;
}

struct ibv_device **fake_get_device_list(int *n)
{
	struct ibv_device **list;

	if (fake_fails())
		return NULL;
	list = tei_calloc(fake.n_devices + 1, sizeof(struct ibv_device *));
	if (!list)
		return NULL;
	for (unsigned int i = 0; i < fake.n_devices; i++)
		list[i] = &fake.devices[i].base;
	*n = (int)fake.n_devices;
	return list;
}

void fake_free_device_list(struct ibv_device **list)
{
	tei_free(list);
}

struct ibv_context *fake_open_device(struct ibv_device *device)
{
	struct fake_context *c;

	if (fake_fails())
		return NULL;
	c = tei_calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->base.device = device;
	c->base.num_comp_vectors = 1;
	c->base.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	assert(c->base.async_fd >= 0);
	tei_mutex_lock(&fake.mu);
	tei_list_add_tail(&fake.contexts, &c->link);
	tei_mutex_unlock(&fake.mu);
	return &c->base;
}

int fake_close_device(struct ibv_context *context)
{
	struct fake_context *c = context_of(context);

	fake_reap(context);
	tei_mutex_lock(&fake.mu);
	assert(!c->n_children);
	tei_list_del(&c->link);
	tei_mutex_unlock(&fake.mu);
	close(c->base.async_fd);
	tei_free(c);
	return 0;
}

int fake_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (fake_fails())
		return errno;
	*attr = fake_device_of(context)->attr;
	return 0;
}

int fake_query_port(struct ibv_context *context, uint8_t port,
		    struct ibv_port_attr *attr)
{
	struct fake_device *device = fake_device_of(context);

	if (fake_fails())
		return errno;
	if (port < 1 || port > device->attr.phys_port_cnt)
		return EINVAL;
	tei_mutex_lock(&fake.mu);
	*attr = device->ports[port - 1];
	tei_mutex_unlock(&fake.mu);
	return 0;
}

ssize_t fake_query_gid_table(struct ibv_context *context,
			     struct ibv_gid_entry *entries, size_t max)
{
	struct fake_device *device = fake_device_of(context);
	size_t n = 0;

	if (fake_fails())
		return -errno;
	for (int port = 0; port < device->attr.phys_port_cnt; port++) {
		for (int i = 0; i < FAKE_GIDS_MAX; i++) {
			if (!device->used[port][i])
				continue;
			if (n == max)
				return -EINVAL;
			entries[n++] = device->gids[port][i];
		}
	}
	return (ssize_t)n;
}

/* ---- events ---- */

void fake_raise(struct ibv_context *context,
		const struct ibv_async_event *event)
{
	struct fake_context *c = context_of(context);

	if (c->n_events == FAKE_EVENTS_MAX)
		return; /* the kernel's queue has an end as well */
	c->events[c->n_events++] = *event;
	if (eventfd_write(c->base.async_fd, 1))
		assert(!"an event");
}

void fake_forget_events(struct ibv_context *context, const struct ibv_qp *qp)
{
	struct fake_context *c = context_of(context);
	unsigned int kept = 0;
	eventfd_t one;

	for (unsigned int i = 0; i < c->n_events; i++) {
		const struct ibv_async_event *event = &c->events[i];

		if (event->event_type >= IBV_EVENT_QP_FATAL &&
		    event->event_type <= IBV_EVENT_QP_ACCESS_ERR &&
		    event->element.qp == qp) {
			if (eventfd_read(c->base.async_fd, &one))
				assert(!"the event's count");
		} else {
			c->events[kept++] = *event;
		}
	}
	c->n_events = kept;
}

int fake_get_async_event(struct ibv_context *context,
			 struct ibv_async_event *event)
{
	struct fake_context *c = context_of(context);
	eventfd_t one;

	tei_mutex_lock(&fake.mu);
	if (!c->n_events || eventfd_read(c->base.async_fd, &one)) {
		tei_mutex_unlock(&fake.mu);
		errno = EAGAIN;
		return -1; /* as libibverbs */
	}
	*event = c->events[0];
	c->n_events--;
	fake.n_unacked++;
	memmove(c->events, c->events + 1, c->n_events * sizeof(c->events[0]));
	tei_mutex_unlock(&fake.mu);
	return 0;
}

void fake_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	tei_mutex_lock(&fake.mu);
	assert(fake.n_unacked);
	fake.n_unacked--;
	tei_cond_broadcast(&fake.acked);
	tei_mutex_unlock(&fake.mu);
}
