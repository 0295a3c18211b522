/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.c - which interfaces are rails, which reach each other, their links
 *
 * By default one rail stands for the whole network and the kernel routes. With
 * tcp.devices each interface that is named is a rail of its own: it listens at
 * the interface's address, connects from it, and goes down with its link.
 *
 * A rail's description (docs/wire.md): family, prefix length, address.
 *
 * rtnetlink only says that something has changed; the state of the link is then
 * asked for, so that messages lost in a crowd do no harm and nothing that comes
 * from the socket has to be understood.
 */
#include "backends/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/net.h"

enum { RANK_NONE = 0, RANK_ANY = 1, RANK_ROUTED = 2, RANK_SAME_NET = 3 };

enum tcp_link_state { LINK_DOWN, LINK_UP, LINK_UNKNOWN };

/* ---- what the system has ---- */

static const void *ip_of(const struct sockaddr *sa, size_t *len)
{
	if (sa->sa_family == AF_INET) {
		*len = 4;
		return &((const struct sockaddr_in *)(const void *)sa)
				->sin_addr;
	}
	*len = 16;
	return &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
}

static bool is_link_local(const struct sockaddr *sa)
{
	size_t len;

	return sa->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)ip_of(sa, &len));
}

/* The number in a file of /sys, or @otherwise. */
static long sys_number(const char *ifname, const char *file, long otherwise)
{
	char path[128], text[32], *end;
	long value = otherwise;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", ifname, file);
	f = fopen(path, "re");
	if (!f)
		return otherwise;
	if (fgets(text, sizeof(text), f)) {
		value = strtol(text, &end, 10);
		if (end == text)
			value = otherwise;
	}
	fclose(f);
	return value;
}

static void fill_device(const struct ifaddrs *ifa, struct tei_device *device)
{
	long mbps = sys_number(ifa->ifa_name, "speed", 0);

	*device = (struct tei_device){
		.speed_bps = mbps > 0 ? (uint64_t)mbps * 1000000 : 0,
		.numa_node =
			(int)sys_number(ifa->ifa_name, "device/numa_node", -1),
	};
	snprintf(device->name, sizeof(device->name), "%s", ifa->ifa_name);
	device->address.len = ifa->ifa_addr->sa_family == AF_INET
				      ? sizeof(struct sockaddr_in)
				      : sizeof(struct sockaddr_in6);
	memcpy(&device->address.ss, ifa->ifa_addr, device->address.len);
}

/* ---- choosing ---- */

static bool has_usable_address(const struct ifaddrs *ifa)
{
	return ifa->ifa_addr &&
	       (ifa->ifa_addr->sa_family == AF_INET ||
		ifa->ifa_addr->sa_family == AF_INET6) &&
	       !is_link_local(ifa->ifa_addr);
}

/* Tells whether @word is this interface, or this very address of it. */
static bool is_named(const struct ifaddrs *ifa, const char *word)
{
	char text[INET6_ADDRSTRLEN];
	size_t len;
	const void *ip = ip_of(ifa->ifa_addr, &len);

	if (!strcmp(ifa->ifa_name, word))
		return true;
	return inet_ntop(ifa->ifa_addr->sa_family, ip, text, sizeof(text)) &&
	       !strcmp(text, word);
}

/* The first address of an interface, IPv4 before IPv6. */
static const struct ifaddrs *find_address(const struct ifaddrs *all,
					  const char *word)
{
	const struct ifaddrs *ifa, *v6 = NULL;

	for (ifa = all; ifa; ifa = ifa->ifa_next) {
		if (!has_usable_address(ifa) || !is_named(ifa, word))
			continue;
		if (ifa->ifa_addr->sa_family == AF_INET)
			return ifa;
		if (!v6)
			v6 = ifa;
	}
	return v6;
}

/* An address of 127.0.0.0/8 needs no interface of its own. */
static bool loopback_device(const char *word, struct tei_device *device)
{
	struct sockaddr_in *in = (void *)&device->address.ss;

	*device = (struct tei_device){.numa_node = -1};
	if (inet_pton(AF_INET, word, &in->sin_addr) != 1 ||
	    ntohl(in->sin_addr.s_addr) >> 24 != 127)
		return false;
	in->sin_family = AF_INET;
	device->address.len = sizeof(*in);
	snprintf(device->name, sizeof(device->name), "%s", word);
	return true;
}

static int found_named(const struct ifaddrs *all, const char *word,
		       tei_device_fn *found, void *arg)
{
	const struct ifaddrs *ifa = find_address(all, word);
	struct tei_device device;

	if (ifa)
		fill_device(ifa, &device);
	else if (!loopback_device(word, &device)) {
		LOG_ERROR("tcp.devices: \"%s\" is no interface with an address "
			  "and no address of this host",
			  word);
		return -EINVAL;
	}
	/* Two addresses of one interface are two rails. */
	snprintf(device.name, sizeof(device.name), "%s", word);
	return found(&device, arg);
}

static int found_list(const struct ifaddrs *all, const char *list,
		      tei_device_fn *found, void *arg)
{
	char copy[1024], *word, *rest = copy;
	int rc = 0;

	if (snprintf(copy, sizeof(copy), "%s", list) >= (int)sizeof(copy)) {
		LOG_ERROR("tcp.devices: longer than %zu bytes", sizeof(copy));
		return -EINVAL;
	}
	while (!rc && (word = strsep(&rest, ", ")))
		rc = *word ? found_named(all, word, found, arg) : 0;
	return rc;
}

/* Every interface that is up, but for the loopback; each once. */
static int found_all(const struct ifaddrs *all, tei_device_fn *found, void *arg)
{
	const struct ifaddrs *ifa;
	struct tei_device device;
	int rc = 0;

	for (ifa = all; !rc && ifa; ifa = ifa->ifa_next) {
		if (!has_usable_address(ifa) || !(ifa->ifa_flags & IFF_UP) ||
		    (ifa->ifa_flags & IFF_LOOPBACK) ||
		    find_address(all, ifa->ifa_name) != ifa)
			continue;
		fill_device(ifa, &device);
		rc = found(&device, arg);
	}
	return rc;
}

int tei_tcp_probe(const struct tei_search *search)
{
	static const struct tei_device any = {.name = "0", .numa_node = -1};
	const struct tcp_config *config = search->config;
	const char *list = config->devices;
	struct ifaddrs *all;
	int rc;

	if (!list || !*list)
		return search->found(&any, search->arg);
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	if (getifaddrs(&all))
		return -errno;
	if (strcmp(list, "all"))
		rc = found_list(all, list, search->found, search->arg);
	else
		rc = found_all(all, search->found, search->arg);
	freeifaddrs(all);
	return rc;
}

/* ---- reaching each other ---- */

static bool is_loopback(const struct tcp_network *net)
{
	static const uint8_t one[16] = {[15] = 1};

	return net->family == 4 ? net->ip[0] == 127
				: !memcmp(net->ip, one, sizeof(one));
}

int tei_tcp_rail_match(struct tei_rail *rail, const struct tei_address *peer,
		       const void *blob, size_t len)
{
	const struct tcp_network *mine = &tcp_rail(rail)->network;
	struct tcp_network other;
	unsigned int bits;

	(void)peer;
	if (!len) /* it says nothing: try */
		return RANK_ANY;
	if (len != TCP_NETWORK_LEN || !tei_tcp_network_decode(blob, &other))
		return RANK_NONE;
	if (!mine->family || !other.family)
		return RANK_ANY;
	if (mine->family != other.family ||
	    is_loopback(mine) != is_loopback(&other))
		return RANK_NONE;
	bits = mine->prefix < other.prefix ? mine->prefix : other.prefix;
	return tei_same_network(mine->ip, other.ip, bits) ? RANK_SAME_NET
							  : RANK_ROUTED;
}

/* ---- the link of an interface ---- */

/* Ask by a socket that is open already: one more may not be to be had. */
static int ask_interface(const struct tcp_rail *rail, unsigned long what,
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
	uint8_t prefix;
	int rc, index;

	ifr->ifr_ifindex = rail->ifindex;
	rc = ask_interface(rail, SIOCGIFNAME, ifr);
	if (rc != -ENODEV)
		return rc;
	index = tei_interface_of(&rail->base->device.address, &prefix);
	if (index <= 0)
		return index ? index : -ENODEV;
	ifr->ifr_ifindex = rail->ifindex = index;
	return ask_interface(rail, SIOCGIFNAME, ifr);
}

/* An error other than ENODEV is no answer: the state is unknown. */
static enum tcp_link_state link_state(struct tcp_rail *rail)
{
	const unsigned int want = IFF_UP | IFF_RUNNING;
	struct ifreq ifr = {0};
	int rc = ask_name(rail, &ifr);

	if (!rc)
		rc = ask_interface(rail, SIOCGIFFLAGS, &ifr);
	if (rc)
		return rc == -ENODEV ? LINK_DOWN : LINK_UNKNOWN;
	return ((unsigned short)ifr.ifr_flags & want) == want ? LINK_UP
							      : LINK_DOWN;
}

/* Find the interface and the network of the device's address. */
static int identify_network(struct tcp_rail *rail)
{
	const struct tei_address *address = &rail->base->device.address;
	struct tcp_network *net = &rail->network;
	const void *ip;
	size_t len;
	int rc;

	memset(net, 0, sizeof(*net));
	if (!address->ss.ss_family)
		return 0;
	ip = ip_of((const struct sockaddr *)&address->ss, &len);
	net->family = len == 4 ? 4 : 6;
	memcpy(net->ip, ip, len);
	rc = tei_interface_of(address, &net->prefix);
	rail->ifindex = rc > 0 ? rc : 0;
	return tei_is_shortage(rc) ? rc : 0;
}

/* Listen for changes of rail->ifindex. */
static int watch_link(struct tcp_rail *rail)
{
	/* A link that is made again is up before it has its address. */
	struct sockaddr_nl local = {
		.nl_family = AF_NETLINK,
		.nl_groups =
			RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int rc;

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
	if (!rc)
		return 0;
	close(rail->link_fd);
	rail->link_fd = -1;
	return rc;
}

int tei_tcp_link_open(struct tcp_rail *rail)
{
	int rc = identify_network(rail);

	rail->link_fd = -1;
	rail->link_up = true; /* until it is known better */
	if (rc || !rail->ifindex)
		return rc;
	rc = watch_link(rail);
	if (!rc && link_state(rail) != LINK_UP)
		tei_tcp_signal(rail); /* progress() finds out, and reports */
	return rc;
}

void tei_tcp_link_check(struct tcp_rail *rail)
{
	uint8_t message[8192];
	enum tcp_link_state state;
	ssize_t n;

	if (rail->link_fd < 0)
		return;
	do {
		n = recv(rail->link_fd, message, sizeof(message), 0);
	} while (n > 0 || (n < 0 && (errno == ENOBUFS || errno == EINTR)));
	state = link_state(rail);
	rail->link_unsure = state == LINK_UNKNOWN;
	if (rail->link_unsure)
		tei_tcp_timer_start(rail);
	if (rail->link_unsure || (state == LINK_UP) == rail->link_up)
		return;
	rail->link_up = state == LINK_UP;
	tei_rail_changed(rail->base, rail->link_up);
}
