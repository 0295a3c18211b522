/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.c - host names, addresses and interfaces, listening, and descriptors that
 * are passed to another process of this host
 *
 * An address of one of this host's interfaces can only be the source of a
 * connection that this host made itself. Interfaces come and go, so the list of
 * addresses is read again when it is older than a second.
 */
#include "base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define BACKLOG      1024
#define RESOLVED_MAX 8
#define SPARE_MAX    64

static int port_parse(const char *text, uint16_t *out)
{
	unsigned int port = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		port = port * 10 + (unsigned int)(*text - '0');
		if (port > UINT16_MAX)
			return -EINVAL;
	}
	*out = (uint16_t)port;
	return 0;
}

static int host_copy(const char *from, size_t len,
		     char host[TEI_HOST_LEN_MAX + 1])
{
	if (len == 0 || len > TEI_HOST_LEN_MAX)
		return -EINVAL;
	memcpy(host, from, len);
	host[len] = '\0';
	return 0;
}

/* "[v6]" or "[v6]:port" */
static int bracketed_split(const char *name, char host[TEI_HOST_LEN_MAX + 1],
			   uint16_t *port)
{
	const char *close = strchr(name, ']');

	if (!close)
		return -EINVAL;
	if (close[1] == ':') {
		if (port_parse(close + 2, port))
			return -EINVAL;
	} else if (close[1]) {
		return -EINVAL;
	}
	return host_copy(name + 1, (size_t)(close - name - 1), host);
}

int tei_name_split(const char *name, char host[TEI_HOST_LEN_MAX + 1],
		   uint16_t *port)
{
	const char *colon = strchr(name, ':');

	*port = 0;
	if (name[0] == '[')
		return bracketed_split(name, host, port);
	if (strpbrk(name, "[]"))
		return -EINVAL;
	if (!colon || strchr(colon + 1, ':'))
		return host_copy(name, strlen(name), host);
	if (port_parse(colon + 1, port))
		return -EINVAL;
	return host_copy(name, (size_t)(colon - name), host);
}

void tei_name_join(const char *host, uint16_t port,
		   char out[TEI_NAME_LEN_MAX + 1])
{
	bool v6 = strchr(host, ':');

	snprintf(out, TEI_NAME_LEN_MAX + 1, "%s%.*s%s:%u", v6 ? "[" : "",
		 TEI_HOST_LEN_MAX, host, v6 ? "]" : "", port);
}

static int gai_errno(int rc)
{
	switch (rc) {
	case EAI_AGAIN:
		return -EAGAIN;
	case EAI_MEMORY:
		return -ENOMEM;
	default:
		return -EHOSTUNREACH;
	}
}

static int take_found(const struct addrinfo *list, uint16_t port,
		      struct tei_address *out, int max)
{
	const struct addrinfo *ai;
	int n = 0;

	for (ai = list; ai && n < max; ai = ai->ai_next) {
		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		memset(&out[n], 0, sizeof(out[n]));
		memcpy(&out[n].ss, ai->ai_addr, ai->ai_addrlen);
		out[n].len = ai->ai_addrlen;
		tei_address_set_port(&out[n++], port);
	}
	return n ? n : -EHOSTUNREACH;
}

int tei_resolve_numeric(const char *host, uint16_t port,
			struct tei_address *out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICHOST};
	struct addrinfo *list;
	int n;

	if (getaddrinfo(host, NULL, &hints, &list))
		return -EINVAL;
	n = take_found(list, port, out, 1);
	freeaddrinfo(list);
	return n == 1 ? 0 : -EINVAL;
}

int tei_resolve(const char *host, uint16_t port, struct tei_address *out,
		int max)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list;
	int rc;

	if (max > 0 && !tei_resolve_numeric(host, port, out))
		return 1;
	tei_fault_wait_for_name();
	rc = getaddrinfo(host, NULL, &hints, &list);
	if (rc)
		return gai_errno(rc);
	rc = take_found(list, port, out, max);
	freeaddrinfo(list);
	return rc;
}

static int listen_at(const struct tei_address *a, uint16_t *out_port)
{
	struct tei_address bound = {.len = sizeof(bound.ss)};
	int fd, rc, on = 1, off = 0;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = socket(a->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->ss.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (const struct sockaddr *)&a->ss, a->len) ||
	    listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&bound.ss, &bound.len)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*out_port = tei_address_port(&bound);
	return fd;
}

/* IPv6 serves IPv4 too; without IPv6 in the kernel IPv4 alone. */
static int listen_wildcard(uint16_t port, uint16_t *out_port)
{
	struct tei_address a;
	int fd;

	if (tei_resolve("::", port, &a, 1) == 1) {
		fd = listen_at(&a, out_port);
		if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL)
			return fd;
	}
	fd = tei_resolve("0.0.0.0", port, &a, 1);
	return fd < 0 ? fd : listen_at(&a, out_port);
}

static int listen_host(const char *host, uint16_t port, uint16_t *out_port)
{
	struct tei_address a[RESOLVED_MAX];
	int n = tei_resolve(host, port, a, RESOLVED_MAX);
	int fd = n;

	for (int i = 0; i < n; i++) {
		fd = listen_at(&a[i], out_port);
		if (fd >= 0)
			break;
	}
	return fd;
}

int tei_listen(const char *host, uint16_t port, const char *what,
	       uint16_t *out_port)
{
	char name[TEI_NAME_LEN_MAX + 1];
	int fd;

	if (host && *host)
		fd = listen_host(host, port, out_port);
	else
		fd = listen_wildcard(port, out_port);
	if (fd < 0) {
		tei_name_join(host && *host ? host : "*", port, name);
		LOG_ERROR("%s: listen at %s: %s", what, name, strerror(-fd));
	}
	return fd;
}

/* The IPv4 part of a v4-mapped address, or NULL. */
static const void *mapped_v4(const struct in6_addr *a6)
{
	return IN6_IS_ADDR_V4MAPPED(a6) ? &a6->s6_addr[12] : NULL;
}

bool tei_is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS ||
	       err == -ENOMEM;
}

int tei_fds_spare(unsigned int n)
{
	int fds[SPARE_MAX], rc = 0;
	unsigned int i = 0;

	while (i < n && i < SPARE_MAX && !rc) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fds[i] < 0)
			rc = -errno;
		else
			i++;
	}
	while (i)
		(void)close(fds[--i]);
	return rc == -EMFILE || rc == -ENFILE ? rc : 0;
}

void tei_address_text(const struct tei_address *a,
		      char out[TEI_NAME_LEN_MAX + 1])
{
	const struct sockaddr_in6 *in6 = (const void *)&a->ss;
	const struct sockaddr_in *in = (const void *)&a->ss;
	char host[INET6_ADDRSTRLEN] = "?";

	if (a->ss.ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
	} else if (a->ss.ss_family == AF_INET6) {
		const void *v4 = mapped_v4(&in6->sin6_addr);

		if (v4)
			inet_ntop(AF_INET, v4, host, sizeof(host));
		else
			inet_ntop(AF_INET6, &in6->sin6_addr, host,
				  sizeof(host));
	}
	tei_name_join(host, tei_address_port(a), out);
}

uint16_t tei_address_port(const struct tei_address *a)
{
	const struct sockaddr_in6 *in6 = (const void *)&a->ss;
	const struct sockaddr_in *in = (const void *)&a->ss;

	if (a->ss.ss_family == AF_INET)
		return ntohs(in->sin_port);
	return a->ss.ss_family == AF_INET6 ? ntohs(in6->sin6_port) : 0;
}

void tei_address_set_port(struct tei_address *a, uint16_t port)
{
	struct sockaddr_in6 *in6 = (void *)&a->ss;
	struct sockaddr_in *in = (void *)&a->ss;

	if (a->ss.ss_family == AF_INET)
		in->sin_port = htons(port);
	else if (a->ss.ss_family == AF_INET6)
		in6->sin6_port = htons(port);
}

size_t tei_address_bytes(const struct tei_address *a, uint8_t out[16])
{
	const struct sockaddr_in6 *in6 = (const void *)&a->ss;
	const struct sockaddr_in *in = (const void *)&a->ss;
	const void *from = &in->sin_addr;
	size_t len = 4;

	if (a->ss.ss_family == AF_INET6) {
		from = mapped_v4(&in6->sin6_addr);
		if (!from) {
			from = &in6->sin6_addr;
			len = 16;
		}
	} else if (a->ss.ss_family != AF_INET) {
		return 0;
	}
	memcpy(out, from, len);
	return len;
}

bool tei_address_from_bytes(const uint8_t *bytes, size_t len, uint16_t port,
			    struct tei_address *out)
{
	struct sockaddr_in6 *in6 = (void *)&out->ss;
	struct sockaddr_in *in = (void *)&out->ss;

	memset(out, 0, sizeof(*out));
	if (len == 4) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, bytes, len);
		out->len = sizeof(*in);
	} else if (len == 16) {
		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, bytes, len);
		out->len = sizeof(*in6);
	} else {
		return false;
	}
	tei_address_set_port(out, port);
	return true;
}

bool tei_address_same_host(const struct tei_address *a,
			   const struct tei_address *b)
{
	uint8_t x[16], y[16];
	size_t len = tei_address_bytes(a, x);

	return len && len == tei_address_bytes(b, y) && !memcmp(x, y, len);
}

bool tei_socket_ends(int fd, struct tei_address *own, struct tei_address *peer)
{
	own->len = sizeof(own->ss);
	peer->len = sizeof(peer->ss);
	return !getsockname(fd, (struct sockaddr *)&own->ss, &own->len) &&
	       !getpeername(fd, (struct sockaddr *)&peer->ss, &peer->len);
}

static size_t bytes_of(const struct sockaddr *sa, uint8_t out[16])
{
	struct tei_address a = {.len = sizeof(struct sockaddr_in6)};

	if (!sa)
		return 0;
	if (sa->sa_family == AF_INET)
		a.len = sizeof(struct sockaddr_in);
	else if (sa->sa_family != AF_INET6)
		return 0;
	memcpy(&a.ss, sa, a.len);
	return tei_address_bytes(&a, out);
}

static uint8_t bits_of(const struct sockaddr *mask)
{
	uint8_t bytes[16];
	size_t i, len = bytes_of(mask, bytes);
	unsigned int bits = 0;

	for (i = 0; i < len; i++)
		bits += (unsigned int)__builtin_popcount(bytes[i]);
	return (uint8_t)bits;
}

int tei_interface_of(const struct tei_address *address, uint8_t *prefix)
{
	const struct ifaddrs *ifa;
	struct ifaddrs *all;
	uint8_t ip[16], other[16];
	size_t len = tei_address_bytes(address, ip);
	int index = 0;

	*prefix = (uint8_t)(8 * len);
	if (!len)
		return 0;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	if (getifaddrs(&all))
		return -errno;
	for (ifa = all; ifa; ifa = ifa->ifa_next) {
		if (bytes_of(ifa->ifa_addr, other) != len ||
		    memcmp(ip, other, len) != 0)
			continue;
		*prefix = bits_of(ifa->ifa_netmask);
		index = (int)if_nametoindex(ifa->ifa_name);
		if (!index && tei_is_shortage(-errno))
			index = -errno;
	}
	freeifaddrs(all);
	return index;
}

bool tei_same_network(const uint8_t *a, const uint8_t *b, unsigned int prefix)
{
	unsigned int whole = prefix / 8, rest = prefix % 8;

	if (!prefix || memcmp(a, b, whole) != 0)
		return false;
	return !rest || !((a[whole] ^ b[whole]) >> (8 - rest));
}

static enum tei_scope scope_of_v4(const uint8_t a[4])
{
	if (a[0] == 0 || a[0] == 127 || a[0] >= 224)
		return TEI_SCOPE_NONE;
	if (a[0] == 169 && a[1] == 254)
		return TEI_SCOPE_LINK;
	if (a[0] == 10 || (a[0] == 172 && (a[1] & 0xf0) == 16) ||
	    (a[0] == 192 && a[1] == 168) ||
	    (a[0] == 100 && (a[1] & 0xc0) == 64))
		return TEI_SCOPE_PRIVATE;
	return TEI_SCOPE_GLOBAL;
}

enum tei_scope tei_scope_of(const uint8_t addr[16])
{
	static const uint8_t zero[16], loopback[16] = {[15] = 1};
	static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

	if (!memcmp(addr, v4_prefix, sizeof(v4_prefix)))
		return scope_of_v4(addr + 12);
	if (!memcmp(addr, zero, sizeof(zero)) ||
	    !memcmp(addr, loopback, sizeof(loopback)) || addr[0] == 0xff)
		return TEI_SCOPE_NONE;
	/* The interface's half is zero: a GID entry that was never filled. */
	if (!memcmp(addr + 8, zero, 8) && addr[0] == 0xfe)
		return TEI_SCOPE_NONE;
	if (addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80)
		return TEI_SCOPE_LINK;
	if ((addr[0] & 0xfe) == 0xfc)
		return TEI_SCOPE_PRIVATE;
	return TEI_SCOPE_GLOBAL;
}

/*
 * Ranks GIDs. In a container the interface of a good address may be out of
 * sight, so a global address without one comes before a private address with
 * one.
 */
unsigned int tei_gid_rank(enum tei_scope scope, bool interface)
{
	static const unsigned int ranks[][2] = {
		[TEI_SCOPE_NONE] = {0, 0},
		[TEI_SCOPE_LINK] = {1, 3},
		[TEI_SCOPE_PRIVATE] = {2, 4},
		[TEI_SCOPE_GLOBAL] = {5, 6},
	};

	return ranks[scope][interface];
}

#define CACHE_NS TEI_NS_PER_S

/* An address in one form: IPv4 as v4-mapped. */
struct plain {
	struct in6_addr a6;
	uint32_t scope; /* of link-local addresses, else 0 */
};

static struct tei_mutex own_mu = {PTHREAD_MUTEX_INITIALIZER};
static struct plain *own_addresses; /* own[n_own]; these four guarded by mu */
static size_t n_own, room_own;
static uint64_t read_at_ns;

static bool plain_from(const struct sockaddr *sa, struct plain *out)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	memset(out, 0, sizeof(*out));
	if (sa->sa_family == AF_INET) {
		out->a6.s6_addr[10] = out->a6.s6_addr[11] = 0xff;
		memcpy(&out->a6.s6_addr[12], &in->sin_addr, 4);
		return true;
	}
	if (sa->sa_family != AF_INET6)
		return false;
	out->a6 = in6->sin6_addr;
	if (IN6_IS_ADDR_LINKLOCAL(&out->a6))
		out->scope = in6->sin6_scope_id;
	return true;
}

static bool is_loopback(const struct plain *p)
{
	if (IN6_IS_ADDR_V4MAPPED(&p->a6))
		return p->a6.s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(&p->a6);
}

static bool same_plain(const struct plain *a, const struct plain *b)
{
	return a->scope == b->scope && IN6_ARE_ADDR_EQUAL(&a->a6, &b->a6);
}

/* An address that finds no memory is left out: its peers are refused. */
static void add_own_locked(const struct plain *p) TEI_REQUIRES(own_mu)
{
	size_t room = room_own ? 2 * room_own : 16;
	struct plain *bigger;

	if (n_own == room_own) {
		bigger = tei_realloc(own_addresses,
				     room * sizeof(*own_addresses));
		if (!bigger)
			return;
		own_addresses = bigger;
		room_own = room;
	}
	own_addresses[n_own++] = *p;
}

static void read_own_locked(void) TEI_REQUIRES(own_mu)
{
	uint64_t now = tei_now_ns();
	struct ifaddrs *list, *i;
	struct plain p;

	if (read_at_ns && now - read_at_ns < CACHE_NS)
		return;
	if (getifaddrs(&list))
		return; /* go on with the old list */
	n_own = 0;
	for (i = list; i; i = i->ifa_next)
		if (i->ifa_addr && plain_from(i->ifa_addr, &p))
			add_own_locked(&p);
	freeifaddrs(list);
	read_at_ns = now;
}

bool tei_address_is_local(const struct tei_address *peer)
{
	struct plain p;
	bool local;

	if (!plain_from((const struct sockaddr *)&peer->ss, &p))
		return false;
	local = is_loopback(&p);
	if (local)
		return true;
	tei_mutex_lock(&own_mu);
	read_own_locked();
	for (size_t i = 0; i < n_own && !local; i++)
		local = same_plain(&own_addresses[i], &p);
	tei_mutex_unlock(&own_mu);
	return local;
}

void tei_fds_attach_all(struct msghdr *msg, union tei_fds_room *room,
			const int *fds, unsigned int n)
{
	struct cmsghdr *c;

	memset(room, 0, sizeof(*room));
	msg->msg_control = room->bytes;
	msg->msg_controllen = CMSG_SPACE(n * sizeof(*fds));
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(*fds));
	memcpy(CMSG_DATA(c), fds, n * sizeof(*fds));
}

void tei_fds_attach(struct msghdr *msg, union tei_fds_room *room, int fd)
{
	tei_fds_attach_all(msg, room, &fd, 1);
}

/* Takes @room descriptors, and closes those beyond. How many there were. */
static unsigned int take_fds(struct msghdr *msg, int *fds, unsigned int room)
{
	struct cmsghdr *c;
	unsigned int n = 0;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t i, count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof(one),
			       sizeof(one));
			if (n >= room)
				close(one);
			else
				fds[n] = one;
			n++;
		}
	}
	return n;
}

unsigned int tei_fds_take(struct msghdr *msg, int *fd)
{
	return take_fds(msg, fd, 1);
}

unsigned int tei_fds_take_all(struct msghdr *msg, int fds[TEI_FDS_MAX])
{
	return take_fds(msg, fds, TEI_FDS_MAX);
}
