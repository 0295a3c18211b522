/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rail.c - the rail: opened, driven, closed
 *
 * Three descriptors wake a driver: those of the two queues of the provider, for
 * completions and for events of connections, and a kick by the driver or by who
 * removes a region. A driver that is awake polls completions, which also has
 * the provider make progress, and looks at the others now and then.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backends/ofi/ofi.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"

#define LOOK_EVERY  64 /* rounds */
#define EVENTS_MAX  64 /* of one look */
#define CM_DATA_MAX 256
#define LATER_MS    1

union ofi_event { /* of a connection, with what its initiator says */
	struct fi_eq_cm_entry cm;
	uint8_t room[sizeof(struct fi_eq_cm_entry) + CM_DATA_MAX];
};

void tei_ofi_kick(const struct ofi_rail *rail)
{
	(void)eventfd_write(rail->kick_fd, 1);
}

void tei_ofi_kick_after(const struct ofi_rail *rail, uint64_t ms)
{
	uint64_t at = tei_now_ns() + ms * TEI_NS_PER_MS;

	if (!rail->base->timer_ns || at < rail->base->timer_ns)
		rail->base->timer_ns = at;
}

void tei_ofi_kick_later(const struct ofi_rail *rail)
{
	tei_ofi_kick_after(rail, LATER_MS);
}

/* ---- opened ---- */

static int watch_fd(const struct ofi_rail *rail, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(rail->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno
								    : 0;
}

static int watch_queue(const struct ofi_rail *rail, struct fid *queue)
{
	int fd, rc = rail->nic.api->getwait(queue, &fd);

	return rc ? tei_ofi_error(rc) : watch_fd(rail, fd);
}

static int open_fds(struct ofi_rail *rail)
{
	int rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rail->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rail->epoll_fd < 0 || rail->kick_fd < 0)
		return -errno;
	rc = watch_fd(rail, rail->kick_fd);
	if (!rc && !rail->polled)
		rc = watch_queue(rail, &rail->cq->fid);
	if (!rc && !rail->nic.kind->rdm)
		rc = watch_queue(rail, &rail->eq->fid);
	return rc;
}

/*
 * Opens the completion queue, with less room where the device has not as much
 * as the settings ask for.
 */
static int open_cq(struct ofi_rail *rail, enum fi_wait_obj wait)
{
	const struct ofi_provider *api = rail->nic.api;
	uint32_t size = (uint32_t)rail->nic.config->completions;
	uint32_t least = (uint32_t)rail->nic.depth;
	struct fi_cq_attr attr;
	int rc;

	for (;; size = size / 2 > least ? size / 2 : least) {
		attr = (struct fi_cq_attr){.size = size,
					   .format = FI_CQ_FORMAT_MSG,
					   .wait_obj = wait};
		rc = api->cq_open(rail->nic.domain, &attr, &rail->cq, NULL);
		if ((rc != -FI_EINVAL && rc != -FI_ENOMEM) || size <= least)
			break;
	}
	if (rc) {
		rail->cq = NULL;
		return rc;
	}
	rail->room = attr.size && attr.size < size ? (uint32_t)attr.size : size;
	if (rail->room < rail->nic.config->completions)
		LOG_INFO("rail %s: the device has room for %u completions",
			 rail->nic.name, rail->room);
	return 0;
}

static int open_queues(struct ofi_rail *rail)
{
	const struct ofi_provider *api = rail->nic.api;
	bool rdm = rail->nic.kind->rdm;
	struct fi_eq_attr events = {.wait_obj =
					    rdm ? FI_WAIT_NONE : FI_WAIT_FD};
	int rc = api->eq_open(rail->nic.fabric, &events, &rail->eq, NULL);

	if (rc) {
		rail->eq = NULL;
		return rc;
	}
	rc = open_cq(rail, FI_WAIT_FD);
	if (!rc || !rdm)
		return rc;
	rail->polled = true;
	return open_cq(rail, FI_WAIT_NONE);
}

static int open_listener(struct ofi_rail *rail)
{
	const struct ofi_provider *api = rail->nic.api;
	size_t len = OFI_ADDRESS_MAX;
	int rc = api->passive_ep(rail->nic.fabric, rail->nic.info,
				 &rail->listener, NULL);

	if (!rc)
		rc = api->pep_bind(rail->listener, &rail->eq->fid, 0);
	if (!rc)
		rc = api->listen(rail->listener);
	if (!rc)
		rc = api->getname(&rail->listener->fid, rail->address.bytes,
				  &len);
	rail->address.len = len;
	return rc || len <= OFI_ADDRESS_MAX ? rc : -FI_ETOOSMALL;
}

static void close_fid(const struct ofi_rail *rail, struct fid *fid,
		      const char *what)
{
	int rc = rail->nic.api->close(fid);

	if (rc)
		LOG_ERROR("rail %s: close its %s: %s", rail->nic.name, what,
			  rail->nic.api->strerror(-rc));
}

#define QUIET_ROUNDS 8    /* a connection takes some to become an event */
#define REFUSED_MAX  4096 /* events at the end of a rail */

/* Reads an event that nobody waits for any more. False: there is none. */
static bool discard_event(struct ofi_rail *rail)
{
	const struct ofi_provider *api = rail->nic.api;
	struct fi_eq_err_entry error = {.err_data_size = 0};
	union ofi_event buf;
	uint32_t event;
	ssize_t n;

	n = api->eq_read(rail->eq, &event, &buf, sizeof(buf), 0);
	if (n == -FI_EAVAIL)
		return api->eq_readerr(rail->eq, &error, 0) > 0;
	if (n < 0)
		return false;
	if (event != FI_CONNREQ || n < (ssize_t)sizeof(buf.cm))
		return true;
	if (rail->listener)
		(void)api->reject(rail->listener, buf.cm.info->handle, NULL, 0);
	api->freeinfo(buf.cm.info);
	return true;
}

/*
 * Ends listening. Initiators that have come and were not answered are refused,
 * since providers do not free by themselves what they keep of them.
 */
static void close_listener(struct ofi_rail *rail)
{
	int quiet = 0;

	for (int i = 0; i < REFUSED_MAX && quiet < QUIET_ROUNDS; i++)
		quiet = discard_event(rail) ? 0 : quiet + 1;
	close_fid(rail, &rail->listener->fid, "listener");
	rail->listener = NULL;
	for (int i = 0; i < REFUSED_MAX && discard_event(rail); i++)
		;
}

/* Closes whatever of the rail is open. */
static void close_all(struct ofi_rail *rail)
{
	if (rail->epoll_fd >= 0)
		close(rail->epoll_fd);
	if (rail->kick_fd >= 0)
		close(rail->kick_fd);
	if (rail->listener)
		close_listener(rail);
	if (rail->cq)
		close_fid(rail, &rail->cq->fid, "completion queue");
	if (rail->eq)
		close_fid(rail, &rail->eq->fid, "event queue");
	tei_ofi_nic_close(&rail->nic);
}

/*
 * How many endpoints to peers there may be. Without connections each is a queue
 * pair of the device, or what it has instead, and peers that come need one,
 * too.
 */
static uint64_t limit_of(const struct ofi_nic *nic)
{
	uint64_t all = nic->info->domain_attr->ep_cnt;

	if (nic->config->endpoints || !nic->kind->rdm)
		return nic->config->endpoints;
	return all == 1 ? 1 : all / 2;
}

int tei_ofi_rail_open(struct tei_rail *base)
{
	struct ofi_rail *rail = ofi_rail(base);
	int rc;

	*rail = (struct ofi_rail){.base = base, .epoll_fd = -1, .kick_fd = -1};
	tei_list_init(&rail->endpoints);
	tei_list_init(&rail->waiting);
	tei_list_init(&rail->broken);
	tei_list_init(&rail->stuck);
	tei_list_init(&rail->refused);
	tei_list_init(&rail->lost);
	rc = tei_ofi_nic_open(&rail->nic, tei_ofi_in_use(), base->config,
			      base->device.name);
	if (rc)
		return rc;
	rc = open_queues(rail);
	if (!rc && !rail->nic.kind->rdm)
		rc = open_listener(rail);
	if (rc) {
		rc = tei_ofi_nic_failed(&rail->nic, "open its queues", rc);
		goto close_all;
	}
	rc = open_fds(rail);
	if (rc) {
		LOG_ERROR("rail %s: descriptors to wait on: %s", rail->nic.name,
			  strerror(-rc));
		goto close_all;
	}
	tei_ofi_regions_init(&rail->regions, &rail->nic, base);
	base->endpoints = limit_of(&rail->nic);
	return 0;

close_all:
	close_all(rail);
	assert(rc < 0);
	return rc;
}

void tei_ofi_rail_close(struct tei_rail *base)
{
	struct ofi_rail *rail = ofi_rail(base);

	assert(tei_list_empty(&rail->endpoints));
	tei_ofi_windows_free(rail);
	tei_ofi_regions_fini(&rail->regions);
	close_all(rail);
}

/* ---- events of connections ---- */

/* Nothing connects any more, nor is an end of a connection told. */
static int eq_died(struct ofi_rail *rail, ssize_t rc)
{
	rail->eq_dead = true;
	LOG_ERROR("rail %s: its event queue failed: %s", rail->nic.name,
		  rail->nic.api->strerror((int)-rc));
	return 0;
}

/*
 * Logs what failed aside from operations, as the provider efa says of packets
 * of its own. Peers that do not answer are found by the operations to them.
 */
static void log_aside(const struct ofi_rail *rail,
		      const struct fi_eq_err_entry *e)
{
	static struct tei_log_limit limit = {.per_minute = 60};

	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: the provider failed: %s (%d; provider %s: "
			 "%d)",
			 rail->nic.name, rail->nic.api->strerror(e->err),
			 e->err, rail->nic.kind->name, e->prov_errno);
}

/* Returns 1, or 0: there was none. */
static int read_failure(struct ofi_rail *rail)
{
	struct fi_eq_err_entry e = {.err_data_size = 0};
	ssize_t rc = rail->nic.api->eq_readerr(rail->eq, &e, 0);

	if (rc == -FI_EAGAIN)
		return 0;
	if (rc < 0)
		return eq_died(rail, rc);
	if (!e.fid) {
		log_aside(rail, &e);
		return 1;
	}
	rc = tei_ofi_error(-(e.err > 0 ? e.err : FI_EIO));
	LOG_DEBUG("rail %s: a connection failed: %s (provider %d)",
		  rail->nic.name, rail->nic.api->strerror(e.err), e.prov_errno);
	tei_ofi_ended(rail, e.fid, (int)rc);
	return 1;
}

static int read_event(struct ofi_rail *rail)
{
	union ofi_event buf;
	uint32_t event;
	ssize_t n;

	tei_ofi_nic_lock(&rail->nic);
	n = rail->nic.api->eq_read(rail->eq, &event, &buf, sizeof(buf), 0);
	tei_ofi_nic_unlock(&rail->nic);

	if (n == -FI_EAVAIL)
		return read_failure(rail);
	if (n == -FI_EAGAIN)
		return 0;
	if (n < 0 || (size_t)n > sizeof(buf))
		return eq_died(rail, n < 0 ? n : -FI_ETOOSMALL);
	if (n < (ssize_t)sizeof(buf.cm))
		return 1; /* none that is of a connection */
	if (event == FI_CONNREQ)
		tei_ofi_came(rail, buf.cm.info, buf.cm.data,
			     (size_t)n - sizeof(buf.cm));
	else if (event == FI_CONNECTED)
		tei_ofi_connected(rail, buf.cm.fid);
	else if (event == FI_SHUTDOWN)
		tei_ofi_ended(rail, buf.cm.fid, 0);
	return 1;
}

/* ---- driven ---- */

static int look_at_events(struct ofi_rail *rail)
{
	eventfd_t times;
	int n = 0;

	rail->n_quiet = 0;
	rail->base->woken = false;
	(void)eventfd_read(rail->kick_fd, &times);
	while (!rail->eq_dead && n < EVENTS_MAX && read_event(rail))
		n++;
	if (n == EVENTS_MAX)
		tei_ofi_kick(rail); /* there may be more */
	return n;
}

/* @again: it is time to try what the provider refused. */
static void make_fence(struct ofi_rail *rail, bool again)
{
	uint64_t fence = tei_ofi_fence_asked(&rail->regions);

	if (!fence || (fence == rail->fence && !again))
		return;
	rail->fence = fence;
	if (tei_ofi_close_targets(rail))
		tei_ofi_fence_done(&rail->regions, fence);
	else
		tei_ofi_kick_later(rail);
}

/* Reports ends that could not be reported where they were found. */
static int report_broken(struct ofi_rail *rail)
{
	struct tei_list *node;
	int n = 0;

	for (; (node = tei_list_pop(&rail->refused)); n++) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		tei_ofi_slice_end(slice, ofi_slice(slice)->err);
	}
	for (; (node = tei_list_pop(&rail->broken)); n++) {
		struct ofi_endpoint *ep =
			tei_list_entry(node, struct ofi_endpoint, link);

		tei_endpoint_down(ep->base, ep->err);
	}
	return n;
}

static void pump_all(struct ofi_rail *rail)
{
	struct tei_list due, *node;

	/* Each once: those who still have no room wait in the list again. */
	tei_list_init(&due);
	tei_list_splice_tail(&due, &rail->waiting);
	while ((node = tei_list_pop(&due))) {
		struct ofi_endpoint *ep =
			tei_list_entry(node, struct ofi_endpoint, link);

		if (ep->lost)
			tei_ofi_ended(rail, &ep->fid->fid, 0);
		else
			tei_ofi_pump(ep);
	}
}

int tei_ofi_progress(struct tei_rail *base, int budget)
{
	struct ofi_rail *rail = ofi_rail(base);
	int n = tei_ofi_poll(rail, budget), more = 0;
	bool again = base->timed_out || base->closing;

	if (n >= 0)
		pump_all(rail);
	base->timed_out = false;
	if (again)
		tei_ofi_retry_stuck(rail);
	if (base->woken || ++rail->n_quiet >= LOOK_EVERY)
		more = look_at_events(rail);
	make_fence(rail, again);
	more += report_broken(rail);
	base->busy = rail->polled && !tei_list_empty(&rail->endpoints);
	if (rail->eq_dead)
		return -EIO;
	return n < 0 ? n : n + more;
}

int tei_ofi_wait_fd(struct tei_rail *base)
{
	return ofi_rail(base)->epoll_fd;
}

/*
 * The provider says whether its descriptors tell of all that is there; if not,
 * the eventfd is signalled.
 */
void tei_ofi_arm(struct tei_rail *base)
{
	struct ofi_rail *rail = ofi_rail(base);
	struct fid *queues[] = {&rail->cq->fid, &rail->eq->fid};
	int rc;

	if (rail->polled)
		return; /* it is busy, unless it has no endpoint */

	tei_ofi_nic_lock(&rail->nic);
	rc = rail->nic.api->trywait(rail->nic.fabric, queues,
				    rail->nic.kind->rdm ? 1 : 2);
	tei_ofi_nic_unlock(&rail->nic);
	if (rc)
		tei_ofi_kick(rail);
}
