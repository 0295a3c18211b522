/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - names of the form host:port, resolving, listening sockets */
#include "base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"

#define BACKLOG      1024
#define RESOLVED_MAX 8

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
