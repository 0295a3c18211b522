/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.c - end a connection so that the provider finds that out by itself
 *
 * libfabric's provider tcp frees the entry of a read twice if its endpoint is
 * shut down or closed while the answer comes in: the entry is in the queue of
 * reads and is the one being received. Later two operations get the same entry,
 * and the provider reads through a null pointer. Where the provider meets the
 * end of the connection as it receives, it frees the entry once. So the socket
 * is shut down first, and the provider makes progress until all has come back.
 */
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "backends/ofi/ofi.h"
#include "base/log.h"

#define ROUNDS_MAX 100000 /* each takes all that its socket has */
#define FDS_MAX    65536

struct names {
	struct sockaddr_storage self, peer;
	size_t self_len, peer_len;
};

static bool reads_are_posted(const struct ofi_endpoint *ep)
{
	if (!ep->window || !ep->window->n_posted)
		return false;
	for (uint32_t i = 0; i < ofi_rail_of(ep)->nic.depth; i++) {
		const struct tei_slice *slice = ep->window->works[i].slice;

		if (slice && slice->op == TEI_READ)
			return true;
	}
	return false;
}

static bool has_names(int fd, const struct names *names)
{
	struct sockaddr_storage self, peer;
	socklen_t self_len = sizeof(self), peer_len = sizeof(peer);

	return !getsockname(fd, (struct sockaddr *)&self, &self_len) &&
	       !getpeername(fd, (struct sockaddr *)&peer, &peer_len) &&
	       self_len == names->self_len && peer_len == names->peer_len &&
	       !memcmp(&self, &names->self, self_len) &&
	       !memcmp(&peer, &names->peer, peer_len);
}

/*
 * The provider does not give its sockets away, so the one of a connection is
 * looked for by its two names. It stays open while its endpoint is, so the
 * number cannot become another file's in between. Numbers are tried one by one:
 * to open the folder of them would take a descriptor. -1: there is none.
 */
static int find_socket(const struct names *names)
{
	struct rlimit limit = {.rlim_cur = FDS_MAX};

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	for (int fd = 0; fd < FDS_MAX && (rlim_t)fd < limit.rlim_cur; fd++) {
		if (has_names(fd, names))
			return fd;
	}
	return -1;
}

/* False: the socket is not found. */
static bool shut_socket(const struct ofi_endpoint *ep)
{
	const struct ofi_provider *api = ofi_rail_of(ep)->nic.api;
	struct names names = {.self_len = sizeof(names.self),
			      .peer_len = sizeof(names.peer)};
	int fd;

	if (api->getname(&ep->fid->fid, &names.self, &names.self_len) ||
	    api->getpeer(ep->fid, &names.peer, &names.peer_len))
		return true; /* the connection is over, as the provider finds */
	fd = find_socket(&names);
	if (fd < 0) /* or it has ended since */
		return api->getpeer(ep->fid, &names.peer, &names.peer_len);
	(void)shutdown(fd, SHUT_RDWR); /* fails if it has just ended */
	return true;
}

void tei_ofi_shut_socket(struct ofi_endpoint *ep)
{
	struct ofi_rail *rail = ofi_rail_of(ep);

	if (!rail->nic.kind->software || !reads_are_posted(ep) ||
	    !shut_socket(ep))
		return;
	for (int i = 0; i < ROUNDS_MAX && ep->window->n_posted; i++) {
		if (tei_ofi_poll(rail, OFI_POLL_MAX) < 0)
			return;
	}
	if (ep->window->n_posted)
		LOG_WARN("rail %s: %u operations did not end with their "
			 "connection",
			 rail->nic.name, ep->window->n_posted);
}
