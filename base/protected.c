/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protected.c - protected mode: is a peer this same host?
 *
 * An address of one of this host's interfaces can only be the source of a
 * connection that this host made itself. Interfaces come and go, so the list
 * of addresses is read again when it is older than a second.
 */
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/thread.h"

#define CACHE_NS TEI_NS_PER_S

/* An address in one form: IPv4 as v4-mapped. */
struct plain {
	struct in6_addr a6;
	uint32_t scope; /* of link-local addresses, else 0 */
};

static struct tei_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static struct plain *own; /* own[n_own]; these four guarded by mu */
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

static bool same(const struct plain *a, const struct plain *b)
{
	return a->scope == b->scope && IN6_ARE_ADDR_EQUAL(&a->a6, &b->a6);
}

/* An address that finds no memory is left out: its peers are refused. */
static void add_own_locked(const struct plain *p) TEI_REQUIRES(mu)
{
	size_t room = room_own ? 2 * room_own : 16;
	struct plain *bigger;

	if (n_own == room_own) {
		bigger = tei_realloc(own, room * sizeof(*own));
		if (!bigger)
			return;
		own = bigger;
		room_own = room;
	}
	own[n_own++] = *p;
}

static void read_own_locked(void) TEI_REQUIRES(mu)
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
	tei_mutex_lock(&mu);
	read_own_locked();
	for (size_t i = 0; i < n_own && !local; i++)
		local = same(&own[i], &p);
	tei_mutex_unlock(&mu);
	return local;
}

bool tei_peer_allowed(const struct tei_address *peer, bool insecure,
		      const char *what)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	char name[TEI_NAME_LEN_MAX + 1];

	if (insecure || tei_address_is_local(peer))
		return true;
	if (tei_log_allowed(&limit)) {
		tei_address_text(peer, name);
		LOG_WARN("%s: refused %s: " TEI_PROTECTED_TEXT, what, name);
	}
	return false;
}
