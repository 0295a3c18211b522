/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netlink.c - a rail that stands for an interface hears when its link goes
 *
 * rtnetlink only says that something has changed; the state itself is then
 * asked for, so that messages lost in a crowd do no harm and nothing that
 * comes from the socket has to be understood.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/fault.h"
#include "base/log.h"

enum link_state { LINK_DOWN, LINK_UP, LINK_UNKNOWN };

/* By a socket that is open already: one more may not be to be had. */
static int ask(const struct tcp_rail *rail, unsigned long what,
	       struct ifreq *ifr)
{
	return ioctl(rail->listen_fd, what, ifr) ? -errno : 0;
}

/*
 * An interface that is gone is down, until another one has its address: a
 * driver that was loaded again, a virtual one that was made again.
 */
static int ask_name(struct tcp_rail *rail, struct ifreq *ifr)
{
	int rc, index;

	ifr->ifr_ifindex = rail->ifindex;
	rc = ask(rail, SIOCGIFNAME, ifr);
	if (rc != -ENODEV)
		return rc;
	index = tei_tcp_ifindex(rail);
	if (index <= 0)
		return index ? index : -ENODEV;
	ifr->ifr_ifindex = rail->ifindex = index;
	return ask(rail, SIOCGIFNAME, ifr);
}

/* Only an answer counts, not that there was none. */
static enum link_state link_state(struct tcp_rail *rail)
{
	const unsigned int want = IFF_UP | IFF_RUNNING;
	struct ifreq ifr = {0};
	int rc = ask_name(rail, &ifr);

	if (!rc)
		rc = ask(rail, SIOCGIFFLAGS, &ifr);
	if (rc)
		return rc == -ENODEV ? LINK_DOWN : LINK_UNKNOWN;
	return ((unsigned short)ifr.ifr_flags & want) == want ? LINK_UP
							      : LINK_DOWN;
}

int tei_tcp_netlink_open(struct tcp_rail *rail)
{
	/* A link that is made again is up before it has its address. */
	struct sockaddr_nl local = {
		.nl_family = AF_NETLINK,
		.nl_groups =
			RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int rc;

	rail->link_fd = -1;
	rail->link_up = true; /* until it is known better */
	if (!rail->ifindex)
		return 0;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->link_fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       NETLINK_ROUTE);
	if (rail->link_fd < 0)
		return -errno;
	rail->link.kind = TCP_SOURCE_LINK;
	rc = bind(rail->link_fd, (struct sockaddr *)&local, sizeof(local));
	rc = rc ? -errno
		: tei_tcp_watch(rail, rail->link_fd, &rail->link, EPOLLIN);
	if (rc)
		tei_tcp_netlink_close(rail);
	else if (link_state(rail) != LINK_UP)
		tei_tcp_signal(rail); /* progress() finds out, and tells */
	return rc;
}

void tei_tcp_netlink_close(struct tcp_rail *rail)
{
	if (rail->link_fd >= 0)
		close(rail->link_fd);
	rail->link_fd = -1;
}

void tei_tcp_netlink_event(struct tcp_rail *rail)
{
	uint8_t message[8192];
	enum link_state state;
	ssize_t n;

	if (rail->link_fd < 0)
		return;
	do {
		n = recv(rail->link_fd, message, sizeof(message), 0);
	} while (n > 0 || (n < 0 && (errno == ENOBUFS || errno == EINTR)));
	state = link_state(rail);
	rail->link_unsure = state == LINK_UNKNOWN;
	if (rail->link_unsure)
		tei_tcp_tick_start(rail);
	if (rail->link_unsure || (state == LINK_UP) == rail->link_up)
		return;
	rail->link_up = state == LINK_UP;
	tei_rail_changed(rail->base, rail->link_up);
}
