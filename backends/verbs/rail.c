/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rail.c - the rail: opened, driven, closed
 *
 * Four descriptors wake a driver: the queue's channel, which tells only while
 * it is armed, the device's events, news of the system's interfaces, and a kick
 * by the driver or a background thread. A driver that is awake polls the queue
 * and looks at the others now and then.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "backends/verbs/verbs.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"

/* ---- background threads that connect queue pairs and destroy them ---- */

/*
 * Going to ready-to-receive may ask the network for a neighbour's address, and
 * every change of a queue pair may wait for firmware: not on the thread that
 * moves bytes. Some drivers destroy a queue pair only when its last packet is
 * answered. So new ones are connected by a thread of their own, and a destroy
 * waits only behind VERBS_ENDERS others that do not return. A queue pair that
 * the device refuses to destroy is tried for ever, since nothing else proves
 * that memory is quiet.
 */

#define AGAIN_MS 100 /* until what the device refused is tried once more */

/* False: the device refused to destroy it. */
static bool change_bundle(struct verbs_bundle *bundle)
{
	if (bundle->state != VERBS_BUNDLE_CONNECTING)
		return tei_verbs_bundle_destroy(bundle);
	bundle->err = tei_verbs_bundle_connect(bundle);
	return true;
}

static void postpone(struct verbs_background *bg, struct tei_list *node)
	TEI_REQUIRES(bg->mu)
{
	if (tei_list_empty(&bg->again))
		bg->again_at = tei_now_ns() + AGAIN_MS * TEI_NS_PER_MS;
	tei_list_add_tail(&bg->again, node);
}

static void handle_bundle(struct verbs_background *bg, struct tei_list *node)
	TEI_REQUIRES(bg->mu)
{
	bool done;

	tei_mutex_unlock(&bg->mu);
	done = change_bundle(tei_list_entry(node, struct verbs_bundle, link));
	tei_mutex_lock(&bg->mu);
	if (done)
		tei_list_add_tail(&bg->done, node);
	else
		postpone(bg, node);
	tei_verbs_kick(bg->rail);
}

/* Queues what the device refused to destroy, once it is due. */
static void requeue_refused(struct verbs_background *bg) TEI_REQUIRES(bg->mu)
{
	if (tei_list_empty(&bg->again) || tei_now_ns() < bg->again_at)
		return;
	tei_list_splice_tail(&bg->queued, &bg->again);
	tei_cond_broadcast(&bg->work); /* the first one may not return */
}

/* Waits until a bundle is queued or one is to be tried again. */
static void await_work(struct verbs_background *bg) TEI_REQUIRES(bg->mu)
{
	uint64_t until = tei_list_empty(&bg->again) ? UINT64_MAX : bg->again_at;

	(void)tei_cond_wait(&bg->work, &bg->mu, until);
}

static void *run_background(void *arg)
{
	struct verbs_background *bg = arg;
	struct tei_list *node;

	tei_mutex_lock(&bg->mu);
	for (;;) {
		if (!bg->stop)
			requeue_refused(bg);
		node = tei_list_pop(&bg->queued);
		if (node)
			handle_bundle(bg, node);
		else if (bg->stop)
			break;
		else
			await_work(bg);
	}
	tei_list_splice_tail(&bg->done, &bg->again);
	tei_mutex_unlock(&bg->mu);
	return NULL;
}

static void free_background(struct verbs_background *bg)
{
	tei_cond_fini(&bg->work);
	tei_mutex_fini(&bg->mu);
}

static void stop_background(struct verbs_background *bg)
{
	tei_mutex_lock(&bg->mu);
	bg->stop = true;
	tei_cond_broadcast(&bg->work);
	tei_mutex_unlock(&bg->mu);
	for (; bg->n_threads; bg->n_threads--)
		pthread_join(bg->threads[bg->n_threads - 1], NULL);
}

static int start_background(struct verbs_background *bg,
			    const struct verbs_rail *rail, uint32_t n)
{
	int rc = 0;

	bg->rail = rail;
	tei_mutex_init(&bg->mu);
	tei_cond_init(&bg->work);
	tei_list_init(&bg->queued);
	tei_list_init(&bg->again);
	tei_list_init(&bg->done);
	while (!rc && bg->n_threads < n) {
		rc = tei_thread_start(&bg->threads[bg->n_threads], "te-verbs",
				      run_background, bg);
		bg->n_threads += !rc;
	}
	if (rc) {
		stop_background(bg);
		free_background(bg);
	}
	return rc;
}

static struct verbs_bundle *take_done(struct verbs_background *bg)
{
	struct tei_list *node;

	tei_mutex_lock(&bg->mu);
	node = tei_list_pop(&bg->done);
	tei_mutex_unlock(&bg->mu);
	return node ? tei_list_entry(node, struct verbs_bundle, link) : NULL;
}

static int start_threads(struct verbs_rail *rail)
{
	int rc = start_background(&rail->connector, rail, 1);

	if (rc)
		return rc;
	rc = start_background(&rail->ender, rail, VERBS_ENDERS);
	if (!rc)
		return 0;
	stop_background(&rail->connector);
	free_background(&rail->connector);
	return rc;
}

/* Blocks until every bundle is done or refused, and can be taken. */
static void stop_threads(struct verbs_rail *rail)
{
	stop_background(&rail->connector);
	stop_background(&rail->ender);
}

static void free_threads(struct verbs_rail *rail)
{
	free_background(&rail->connector);
	free_background(&rail->ender);
}

void tei_verbs_hand_over(struct verbs_bundle *bundle)
{
	struct verbs_rail *rail = bundle->rail;
	struct verbs_background *bg = bundle->state == VERBS_BUNDLE_CONNECTING
					      ? &rail->connector
					      : &rail->ender;

	tei_mutex_lock(&bg->mu);
	tei_list_add_tail(&bg->queued, &bundle->link);
	tei_cond_signal(&bg->work);
	tei_mutex_unlock(&bg->mu);
}

/* Takes a bundle that a thread has handed back; NULL: none. Token. */
static struct verbs_bundle *take_handed_back(struct verbs_rail *rail)
{
	struct verbs_bundle *bundle = take_done(&rail->connector);

	return bundle ? bundle : take_done(&rail->ender);
}

/* ---- asynchronous events of the device ---- */

/*
 * Handles an event of a target: the peer's NIC asked for what it may not, or
 * the device failed.
 */
static void bundle_event(struct verbs_rail *rail, const struct ibv_qp *qp,
			 enum ibv_event_type type)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct verbs_lane *lane = qp->qp_context;
	struct verbs_bundle *bundle = lane->bundle;

	if (type == IBV_EVENT_QP_ACCESS_ERR)
		rail->base->refused_slices++;
	if (tei_log_allowed(&limit))
		LOG_WARN(
			"rail %s: queue pair %u: %s", rail->port.name,
			qp->qp_num,
			type == IBV_EVENT_QP_ACCESS_ERR
				? "a peer used a key, range or access it has not"
			: type == IBV_EVENT_QP_REQ_ERR
				? "a peer's request is malformed"
				: "failed in the device");
	tei_verbs_bundle_break(bundle,
			       type == IBV_EVENT_QP_FATAL ? -EIO : -EPROTO);
}

static void set_link(struct verbs_rail *rail, bool up)
{
	if (rail->link_up == up)
		return;
	rail->link_up = up;
	rail->mtu_fell = false;
	LOG_INFO("rail %s: link %s", rail->port.name, up ? "up" : "down");
	tei_rail_changed(rail->base, up);
}

static void verbs_rail_identify(struct verbs_rail *rail);

/* Notes that the offered MTU was @before; true: it is smaller now. */
static bool note_mtu(struct verbs_rail *rail, uint32_t before)
{
	uint32_t now = rail->port.offer.mtu;

	if (now == before || !rail->link_up)
		return false;
	LOG_WARN("rail %s: MTU of its packets changed from %u to %u bytes%s",
		 rail->port.name, before, now,
		 now < before ? ": its connections are made anew" : "");
	return now < before;
}

int tei_verbs_rail_measure(struct verbs_rail *rail)
{
	uint32_t mtu = rail->port.offer.mtu;
	int rc = tei_verbs_port_measure(&rail->port);

	if (rc || !note_mtu(rail, mtu))
		return rc;
	rail->mtu_fell = true;
	tei_verbs_kick(rail);
	return 0;
}

/*
 * Breaks all connections by a moment without a link: peers that still send
 * packets of the old size hear of it, and both sides agree anew.
 */
static void replace_all(struct verbs_rail *rail)
{
	set_link(rail, false);
	set_link(rail, true);
}

/*
 * Endpoints of an address that is gone, or whose packets are too large, are of
 * no use: all are made anew.
 */
static void port_event(struct verbs_rail *rail)
{
	union ibv_gid gid = rail->port.gid.gid;
	uint16_t lid = rail->port.attr.lid;
	uint32_t mtu = rail->port.offer.mtu;

	if (tei_verbs_port_look(&rail->port)) {
		set_link(rail, false);
		return;
	}
	if (memcmp(&gid, &rail->port.gid.gid, sizeof(gid)) != 0 ||
	    lid != rail->port.attr.lid || note_mtu(rail, mtu))
		set_link(rail, false);
	if (!rail->link_up)
		verbs_rail_identify(rail);
	set_link(rail, true);
}

/* 0, or -EIO: nothing works any more. */
static int handle_event(struct verbs_rail *rail,
			const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		LOG_ERROR("rail %s: fatal error of the device",
			  rail->port.name);
		atomic_store_explicit(&rail->gone, true, memory_order_relaxed);
		return -EIO;
	case IBV_EVENT_CQ_ERR:
		LOG_ERROR("rail %s: its completion queue failed",
			  rail->port.name);
		return -EIO;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		bundle_event(rail, event->element.qp, event->event_type);
		return 0;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
		if (event->element.port_num == rail->port.number)
			port_event(rail);
		return 0;
	default:
		return 0; /* of features that are not used, or only news */
	}
}

/* Handles asynchronous events. How many, or -EIO: the device is dead. */
static int verbs_events(struct verbs_rail *rail)
{
	const struct verbs_provider *api = rail->port.api;
	struct ibv_async_event event;
	int n = 0, rc = 0;

	while (!rc && !api->get_async_event(rail->port.context, &event)) {
		rc = handle_event(rail, &event);
		api->ack_async_event(&event);
		n++;
	}
	return rc ? rc : n;
}

/* ---- news of interfaces ---- */

/*
 * On RoCE a port has the MTU of its interface, of whose change drivers raise no
 * event. rtnetlink says that some interface has changed, to us maybe before the
 * driver; so the port is asked a moment later, once for all that is said until
 * then.
 */
#define NEWS_MS 100

/* Opens the socket for news of links; it stays -1 where the system has none of
 * the kind. */
static int open_news(struct verbs_rail *rail)
{
	struct sockaddr_nl local = {.nl_family = AF_NETLINK,
				    .nl_groups = RTMGRP_LINK};
	int rc = 0;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->news_fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       NETLINK_ROUTE);
	if (rail->news_fd < 0 ||
	    bind(rail->news_fd, (struct sockaddr *)&local, sizeof(local)))
		rc = -errno;
	if (!rc || tei_is_shortage(rc))
		return rc;
	LOG_INFO("rail %s: changes of its interface are not noticed: "
		 "rtnetlink: %s",
		 rail->port.name, strerror(-rc));
	if (rail->news_fd >= 0)
		close(rail->news_fd);
	rail->news_fd = -1;
	return 0;
}

static void read_news(struct verbs_rail *rail)
{
	bool any = false;
	uint8_t start;
	ssize_t n;

	if (rail->news_fd < 0)
		return;
	do {
		n = recv(rail->news_fd, &start, sizeof(start), 0);
		any |= n >= 0 || errno == ENOBUFS;
	} while (n >= 0 || errno == ENOBUFS || errno == EINTR);
	if (any && !rail->base->timer_ns)
		rail->base->timer_ns = tei_now_ns() + NEWS_MS * TEI_NS_PER_MS;
}

static void follow_news(struct verbs_rail *rail)
{
	rail->base->timed_out = false;
	if (rail->link_up)
		(void)tei_verbs_rail_measure(rail);
}

#define LOOK_EVERY 64 /* rounds */
#define NEWS_EVERY 16 /* looks; each is one more call of the system */
#define ACK_EVERY  64 /* events of the channel; each call takes a lock */

void tei_verbs_kick(const struct verbs_rail *rail)
{
	(void)eventfd_write(rail->kick_fd, 1);
}

/* ---- opened ---- */

static int watch_fd(struct verbs_rail *rail, int fd)
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
	rc = watch_fd(rail, rail->kick_fd);
	if (!rc)
		rc = watch_fd(rail, rail->channel->fd);
	if (!rc)
		rc = watch_fd(rail, rail->port.context->async_fd);
	if (!rc)
		rc = open_news(rail);
	if (!rc && rail->news_fd >= 0)
		rc = watch_fd(rail, rail->news_fd);
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

/* Closes whatever of the rail is open. */
static void close_all(struct verbs_rail *rail)
{
	const struct verbs_provider *api = rail->port.api;

	if (rail->kick_fd >= 0)
		close(rail->kick_fd);
	if (rail->epoll_fd >= 0)
		close(rail->epoll_fd);
	if (rail->news_fd >= 0)
		close(rail->news_fd);
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

/*
 * Describes the port as it is now. -errno: its network could not be looked up.
 */
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

static void verbs_rail_identify(struct verbs_rail *rail)
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
		.base = base, .epoll_fd = -1, .kick_fd = -1, .news_fd = -1};
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
	rail->regions.core = rail->base->core;
	tei_verbs_bounce_init(rail);
	rc = start_threads(rail);
	if (rc)
		goto fini_memory;
	return 0;

fini_memory:
	tei_verbs_bounce_fini(rail);
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

	stop_threads(rail);
	while ((bundle = take_handed_back(rail))) {
		/* This bundle was abandoned, or its device is stuck. */
		(void)tei_verbs_bundle_destroy(bundle);
		tei_verbs_bundle_free(bundle);
	}
	assert(!rail->n_bundles);
	free_threads(rail);
	tei_verbs_bounce_fini(rail);
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
	struct verbs_self self, other;
	const char *fault;

	(void)peer;
	tei_mutex_lock(&rail->mu);
	self = rail->self;
	tei_mutex_unlock(&rail->mu);
	if (!len || !self.link)
		return 0;
	fault = tei_verbs_self_decode(blob, len, &other);
	if (!fault)
		return tei_verbs_match(rail->port.config->peers, &self, &other);
	base->bad_frames++;
	if (tei_log_allowed(&limit))
		LOG_WARN(
			"rail %s: a peer's description of its rail is refused: "
			"%s",
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

/* Returns how many completions and events were handled, or -EIO. */
static int poll_device(struct verbs_rail *rail)
{
	struct verbs_bundle *bundle;
	eventfd_t times;
	int n;

	if (rail->base->woken || ++rail->n_looks % NEWS_EVERY == 0)
		read_news(rail);
	rail->n_quiet = 0;
	rail->base->woken = false;
	(void)eventfd_read(rail->kick_fd, &times);
	read_channel(rail);
	n = verbs_events(rail);
	if (n >= 0 && rail->mtu_fell)
		replace_all(rail);
	while ((bundle = take_handed_back(rail))) {
		tei_verbs_handed_back(bundle);
		n += n >= 0;
	}
	if (rail->base->closing)
		tei_verbs_leave_stuck(rail);
	return n;
}

/* Reports ends that could not be reported where they were found. */
static int report_broken(struct verbs_rail *rail)
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
	int n = tei_verbs_poll(rail, budget), more = 0, reported;

	if (n >= 0)
		pump_all(rail);
	if (base->timed_out)
		follow_news(rail);
	if (base->woken || ++rail->n_quiet >= LOOK_EVERY)
		more = poll_device(rail);
	reported = report_broken(rail);
	if (n < 0 || more < 0)
		return -EIO;
	return n + more + reported;
}

int tei_verbs_wait_fd(struct tei_rail *base)
{
	return verbs_rail(base)->epoll_fd;
}

/*
 * The device does not signal completions that came before the queue was armed:
 * they are taken here, for the next progress(), and the eventfd is signalled.
 */
void tei_verbs_arm(struct tei_rail *base)
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
