/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rail.c - the rail: opened, driven, closed
 *
 * Three descriptors wake a driver: the queue's channel, which tells only while
 * it is armed, the device's events, and a kick by ourselves or the clerk. A
 * driver that is awake polls the queue, and looks at the others now and then.
 */
#include "backends/verbs/verbs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"

#define LOOK_EVERY 64 /* rounds */
#define ACK_EVERY  64 /* events of the channel; each call takes a lock */

void tei_verbs_kick(const struct verbs_rail *rail)
{
	(void)eventfd_write(rail->kick_fd, 1);
}

/* ---- opened ---- */

static int watch(struct verbs_rail *rail, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ||
	    epoll_ctl(rail->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	return 0;
}

static int open_fds(struct verbs_rail *rail)
{
	int rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rail->kick_fd = eventfd(0, EFD_CLOEXEC);
	if (rail->epoll_fd < 0 || rail->kick_fd < 0)
		return -errno;
	rc = watch(rail, rail->kick_fd);
	if (!rc)
		rc = watch(rail, rail->channel->fd);
	if (!rc)
		rc = watch(rail, rail->port.context->async_fd);
	return rc;
}

static int open_queue(struct verbs_rail *rail)
{
	struct verbs_port *port = &rail->port;
	uint64_t room = port->config->cqe;

	rail->pd = port->api->alloc_pd(port->context);
	if (!rail->pd)
		return tei_verbs_error(-1);
	rail->channel = port->api->create_comp_channel(port->context);
	if (!rail->channel)
		return tei_verbs_error(-1);
	if (room > (uint64_t)port->device.max_cqe)
		room = (uint64_t)port->device.max_cqe;
	rail->cq = port->api->create_cq(port->context, (int)room, rail,
					rail->channel, 0);
	if (!rail->cq)
		return tei_verbs_error(-1);
	rail->room = (uint32_t)room;
	return 0;
}

/* Whatever of it is open. */
static void close_all(struct verbs_rail *rail)
{
	const struct verbs_provider *api = rail->port.api;

	if (rail->kick_fd >= 0)
		close(rail->kick_fd);
	if (rail->epoll_fd >= 0)
		close(rail->epoll_fd);
	if (rail->n_left)
		LOG_ERROR("rail %s: %u queue pairs are left to the kernel",
			  rail->port.name, rail->n_left);
	if (rail->cq && !rail->n_left)
		api->destroy_cq(rail->cq);
	if (rail->channel && !rail->n_left)
		api->destroy_comp_channel(rail->channel);
	if (rail->pd && !rail->n_left)
		api->dealloc_pd(rail->pd);
	tei_free(rail->tagged);
	tei_verbs_port_close(&rail->port);
	tei_mutex_fini(&rail->mu);
}

/* What the port makes of it now. -errno: its network could not be looked up. */
static int look_at_self(const struct verbs_port *port, struct verbs_self *self)
{
	int rc;

	*self = (struct verbs_self){.link = port->link, .gid = port->gid.gid};
	memcpy(self->name, port->name, sizeof(self->name));
	rc = tei_verbs_prefix_of(self->link, &self->gid);
	if (rc < 0)
		return rc;
	self->prefix = (uint8_t)rc;
	return 0;
}

static bool is_same(const struct verbs_self *a, const struct verbs_self *b)
{
	return a->link == b->link && a->prefix == b->prefix &&
	       !memcmp(&a->gid, &b->gid, sizeof(a->gid));
}

void tei_verbs_rail_identify(struct verbs_rail *rail)
{
	struct tei_device device;
	struct verbs_self self;

	(void)look_at_self(&rail->port, &self); /* else network unknown */
	if (is_same(&self, &rail->self))
		return;
	tei_mutex_lock(&rail->mu);
	rail->self = self;
	tei_mutex_unlock(&rail->mu);
	tei_verbs_port_report(&rail->port, &device);
	tei_rail_renewed(rail->base, &device);
}

int tei_verbs_rail_open(struct tei_rail *base)
{
	struct verbs_rail *rail = verbs_rail(base);
	int rc;

	*rail = (struct verbs_rail){
		.base = base, .epoll_fd = -1, .kick_fd = -1};
	tei_mutex_init(&rail->mu);
	tei_list_init(&rail->waiting);
	tei_list_init(&rail->broken);
	tei_list_init(&rail->flushing);
	tei_list_init(&rail->drained);
	tei_list_init(&rail->refused);
	rc = tei_verbs_port_open(&rail->port, tei_verbs_in_use(), base->config,
				 base->device.name);
	if (rc)
		goto close_all;
	rail->link_up = !rail->port.why;
	base->down = !rail->link_up;
	if (rail->link_up)
		rc = look_at_self(&rail->port, &rail->self);
	if (rc)
		goto close_all;
	rail->tagged = tei_calloc(VERBS_TAGS, sizeof(struct verbs_lane *));
	rc = rail->tagged ? open_queue(rail) : -ENOMEM;
	if (!rc)
		rc = open_fds(rail);
	if (rc)
		goto close_all;
	tei_verbs_regions_init(&rail->regions, &rail->port, rail->pd);
	tei_verbs_bounce_init(&rail->bounce, &rail->port, rail->pd);
	rc = tei_verbs_clerks_start(rail);
	if (rc)
		goto fini_memory;
	return 0;

fini_memory:
	tei_verbs_bounce_fini(&rail->bounce, &rail->port);
	tei_verbs_regions_fini(&rail->regions);
close_all:
	close_all(rail);
	assert(rc < 0);
	return rc;
}

static void ack(struct verbs_rail *rail)
{
	if (rail->n_events)
		rail->port.api->ack_cq_events(rail->cq, rail->n_events);
	rail->n_events = 0;
}

void tei_verbs_rail_close(struct tei_rail *base)
{
	struct verbs_rail *rail = verbs_rail(base);
	struct verbs_bundle *bundle;

	tei_verbs_clerks_stop(rail);
	while ((bundle = tei_verbs_clerk_take(rail))) {
		/* One that was abandoned, or is stuck. */
		(void)tei_verbs_bundle_destroy(bundle);
		tei_verbs_bundle_free(bundle);
	}
	assert(!rail->n_bundles);
	tei_verbs_clerks_fini(rail);
	tei_verbs_bounce_fini(&rail->bounce, &rail->port);
	tei_verbs_regions_fini(&rail->regions);
	ack(rail);
	close_all(rail);
}

/* ---- who reaches whom ---- */

int tei_verbs_rail_describe(struct tei_rail *base, void *blob, size_t *len)
{
	struct verbs_rail *rail = verbs_rail(base);
	struct verbs_self self;

	tei_mutex_lock(&rail->mu);
	self = rail->self;
	tei_mutex_unlock(&rail->mu);
	if (self.link)
		return tei_verbs_self_encode(&self, blob, len);
	*len = 0;
	return 0;
}

int tei_verbs_rail_match(struct tei_rail *base, const struct tei_address *peer,
			 const void *blob, size_t len)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct verbs_rail *rail = verbs_rail(base);
	struct verbs_self other;
	const char *fault;

	(void)peer;
	if (!len || !rail->self.link)
		return 0;
	fault = tei_verbs_self_decode(blob, len, &other);
	if (!fault)
		return tei_verbs_match(rail->port.config->peers, &rail->self,
				       &other);
	base->bad_frames++;
	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: what a peer's rail says of itself is "
			 "refused: %s",
			 rail->port.name, fault);
	return 0;
}

/* ---- driven ---- */

static void read_channel(struct verbs_rail *rail)
{
	struct ibv_cq *cq;
	void *arg;

	while (!rail->port.api->get_cq_event(rail->channel, &cq, &arg))
		rail->n_events++;
	if (rail->n_events >= ACK_EVERY)
		ack(rail);
}

/* How many things, or -EIO. */
static int look(struct verbs_rail *rail)
{
	struct verbs_bundle *bundle;
	eventfd_t times;
	int n;

	rail->n_quiet = 0;
	rail->base->woken = false;
	(void)eventfd_read(rail->kick_fd, &times);
	read_channel(rail);
	n = tei_verbs_events(rail);
	while ((bundle = tei_verbs_clerk_take(rail))) {
		tei_verbs_handed_back(bundle);
		n += n >= 0;
	}
	if (rail->base->closing)
		tei_verbs_leave_stuck(rail);
	return n;
}

/* What could not be told where it was found. */
static int report(struct verbs_rail *rail)
{
	struct tei_list *node;
	int n = 0;

	for (; (node = tei_list_pop(&rail->refused)); n++) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		tei_verbs_slice_end(slice, verbs_slice(slice)->err);
	}
	for (; (node = tei_list_pop(&rail->broken)); n++) {
		struct verbs_bundle *bundle =
			tei_list_entry(node, struct verbs_bundle, link);

		tei_endpoint_down(bundle->ep, bundle->err);
	}
	for (; (node = tei_list_pop(&rail->drained)); n++)
		tei_verbs_flushed(
			tei_list_entry(node, struct verbs_bundle, waiting));
	return n;
}

static void pump_all(struct verbs_rail *rail)
{
	struct tei_list due, *node;

	/* Each once: those who still have no room wait in the list again. */
	tei_list_init(&due);
	tei_list_splice_tail(&due, &rail->waiting);
	while ((node = tei_list_pop(&due)))
		tei_verbs_pump(
			tei_list_entry(node, struct verbs_bundle, waiting));
}

int tei_verbs_progress(struct tei_rail *base, int budget)
{
	struct verbs_rail *rail = verbs_rail(base);
	int n = tei_verbs_poll(rail, budget), more = 0, told;

	if (n >= 0)
		pump_all(rail);
	if (base->woken || ++rail->n_quiet >= LOOK_EVERY)
		more = look(rail);
	told = report(rail);
	if (n < 0 || more < 0)
		return -EIO;
	return n + more + told;
}

int tei_verbs_wait_fd(struct tei_rail *base)
{
	return verbs_rail(base)->epoll_fd;
}

/*
 * What came before the queue was armed is told by nobody: it is taken now, for
 * the next progress(), and the kick says so.
 */
void tei_verbs_doze(struct tei_rail *base)
{
	struct verbs_rail *rail = verbs_rail(base);
	int n;

	if (!rail->n_wcs) {
		(void)rail->port.api->req_notify_cq(rail->cq, 0);
		n = rail->port.api->poll_cq(rail->cq, VERBS_POLL_MAX,
					    rail->wcs);
		rail->n_wcs = n > 0 ? n : 0;
	}
	if (rail->n_wcs)
		tei_verbs_kick(rail);
}
