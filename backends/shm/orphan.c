/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphan.c - memory of GPUs that a peer has open, whose endpoint is closed
 *
 * A driver does not take such memory back from another process, and its owner
 * must not free it before that has closed it. An initiator does so when its
 * endpoint ends, and closes its socket afterwards: that, or the end of its
 * process, is waited for when a region is removed.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define WAIT_MS 200 /* at the end of a rail */

int tei_shm_orphan_prepare(struct shm_endpoint *ep)
{
	struct shm_orphan *orphan;

	if (ep->orphan)
		return 0;
	orphan = tei_calloc(1, sizeof(*orphan));
	if (!orphan)
		return -ENOMEM;
	orphan->socket = orphan->process = -1;
	tei_list_init(&orphan->link);
	tei_list_init(&orphan->grants);
	ep->orphan = orphan;
	return 0;
}

static int take_over(const struct shm_rail *rail, struct shm_source *source)
{
	int fd = source->fd;

	tei_shm_unwatch(rail, source);
	source->fd = -1;
	return fd;
}

static void adopt(struct shm_orphan *orphan, struct shm_grant *grant)
{
	tei_list_del(&grant->of_endpoint);
	tei_list_add_tail(&orphan->grants, &grant->of_endpoint);
	grant->ep = NULL;
	grant->orphan = orphan;
}

void tei_shm_orphan_keep(struct shm_rail *rail, struct shm_endpoint *ep,
			 bool still)
{
	struct shm_orphan *orphan = ep->orphan;

	ep->orphan = NULL;
	tei_list_for_each_safe (node, tmp, &ep->grants) {
		struct shm_grant *grant =
			tei_list_entry(node, struct shm_grant, of_endpoint);

		if (grant->region->key.kind == SHM_GPU)
			adopt(orphan, grant);
	}
	if (tei_list_empty(&orphan->grants)) {
		tei_free(orphan);
		return;
	}
	tei_list_add_tail(&rail->orphans, &orphan->link);
	orphan->process = take_over(rail, &ep->process);
	if (!still) /* copies may go on behind the socket's end */
		return;
	orphan->socket = take_over(rail, &ep->socket);
	(void)shutdown(orphan->socket, SHUT_WR);
}

bool tei_shm_orphan_is_over(const struct shm_orphan *orphan)
{
	struct pollfd fds[2] = {{.fd = orphan->process, .events = POLLIN},
				{.fd = orphan->socket}};

	if (poll(fds, 2, 0) <= 0)
		return false;
	return fds[0].revents || fds[1].revents & POLLHUP;
}

static void free_orphan(struct shm_orphan *orphan)
{
	tei_list_del(&orphan->link);
	if (orphan->socket >= 0)
		close(orphan->socket);
	if (orphan->process >= 0)
		close(orphan->process);
	tei_free(orphan);
}

void tei_shm_orphan_put(struct shm_orphan *orphan)
{
	if (tei_list_empty(&orphan->grants))
		free_orphan(orphan);
}

static void await_end(const struct shm_orphan *orphan, uint64_t until)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	while (!tei_shm_orphan_is_over(orphan)) {
		struct pollfd fds[2] = {
			{.fd = orphan->process, .events = POLLIN},
			{.fd = orphan->socket}};
		uint64_t now = tei_now_ms();

		if (now < until) {
			(void)poll(fds, 2, (int)(until - now));
			continue;
		}
		if (tei_log_allowed(&limit))
			LOG_WARN("rail shm/0: a process of this host still has "
				 "memory of a GPU open: do not free it yet");
		return;
	}
}

/* The regions are removed, so the grants are of none. */
void tei_shm_orphans_end(struct shm_rail *rail)
{
	uint64_t until = tei_now_ms() + WAIT_MS;

	while (!tei_list_empty(&rail->orphans)) {
		struct shm_orphan *orphan = tei_list_entry(
			rail->orphans.next, struct shm_orphan, link);
		struct tei_list *node;

		await_end(orphan, until);
		while ((node = tei_list_pop(&orphan->grants)))
			tei_free(tei_list_entry(node, struct shm_grant,
						of_endpoint));
		free_orphan(orphan);
	}
}
