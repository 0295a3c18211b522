/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphan.c - memory of GPUs that a peer has open, whose endpoint is closed
 *
 * A driver does not take such memory back from another process, and its owner
 * must not free it before that has closed it. An initiator does so when its
 * endpoint ends, and closes its socket afterwards: that, with the mark over, or
 * the end of its process is waited for when a region is removed.
 */
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define WAIT_MS 1000 /* at the end of a rail, for all of them */

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

static void free_orphan(struct shm_orphan *orphan)
{
	tei_list_del(&orphan->link);
	if (orphan->socket >= 0)
		close(orphan->socket);
	if (orphan->process >= 0)
		close(orphan->process);
	if (orphan->pages)
		munmap(orphan->pages, SHM_PAGES_LEN);
	tei_free(orphan);
}

void tei_shm_orphan_put(struct shm_orphan *orphan)
{
	if (tei_list_empty(&orphan->grants))
		free_orphan(orphan);
}

bool tei_shm_orphan_is_over(const struct shm_orphan *orphan)
{
	struct pollfd fds[2] = {{.fd = orphan->process, .events = POLLIN},
				{.fd = orphan->socket}};

	if (poll(fds, 2, 0) <= 0)
		return false;
	return fds[0].revents ||
	       (fds[1].revents & POLLHUP &&
		tei_shm_is_gpu_past(orphan->pages, orphan->seen));
}

static void forget(struct shm_orphan *orphan)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&orphan->grants))) {
		struct shm_grant *grant =
			tei_list_entry(node, struct shm_grant, of_endpoint);

		tei_list_del(&grant->of_region);
		tei_free(grant);
	}
	free_orphan(orphan);
}

/* Frees those whose peers have let go: regions may live for long. */
static void sweep(struct shm_rail *rail)
{
	tei_list_for_each_safe (node, tmp, &rail->orphans) {
		struct shm_orphan *orphan =
			tei_list_entry(node, struct shm_orphan, link);

		if (tei_shm_orphan_is_over(orphan))
			forget(orphan);
	}
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

void tei_shm_orphan_keep(struct shm_rail *rail, struct shm_endpoint *ep)
{
	struct shm_orphan *orphan = ep->orphan;

	sweep(rail);
	tei_list_for_each_safe (node, tmp, &ep->grants) {
		struct shm_grant *grant =
			tei_list_entry(node, struct shm_grant, of_endpoint);

		if (grant->region->key.kind == SHM_GPU)
			adopt(orphan, grant);
	}
	if (tei_list_empty(&orphan->grants))
		return;
	ep->orphan = NULL;
	tei_list_add_tail(&rail->orphans, &orphan->link);
	orphan->process = take_over(rail, &ep->process);
	orphan->socket = take_over(rail, &ep->socket);
	if (orphan->socket >= 0)
		(void)shutdown(orphan->socket, SHUT_WR);
	orphan->pages = ep->pages;
	orphan->seen = ep->seen;
	ep->pages = NULL;
}

static void await_end(const struct shm_orphan *orphan, uint64_t until)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	while (!tei_shm_orphan_is_over(orphan)) {
		struct pollfd process = {.fd = orphan->process,
					 .events = POLLIN};

		if (tei_now_ms() < until) {
			(void)poll(&process, 1, 1);
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

		await_end(orphan, until);
		forget(orphan);
	}
}
