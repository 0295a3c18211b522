/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.c - addresses of RDMA ports, the way to their peers, and congestion
 *
 * A RoCE port is reached by a GID, which is an address of its interface: that
 * needs a route, and a network that no other interface of the host is in, or
 * answers leave by the wrong one. An InfiniBand port is reached by its LID.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/net.h"
#include "cmd/doctor/host.h"

#define GIDS_MAX   256
#define ROUTES_MAX 32768 /* nodes of a large cluster have thousands */
#define ROUTE_LINE 160   /* bytes of an IPv6 one; one of IPv4 has 128 */

static const struct tei_rule gid_rule = {
	"rdma.gid", "a GID of type RoCE v2 that is a routable address",
	"ip address add ADDRESS/LENGTH dev INTERFACE; in a container the "
	"interface must be in its network namespace"};
static const struct tei_rule route_rule = {
	"rdma.route", "a route to the GID's network by its own interface",
	"ip address add ADDRESS/LENGTH dev INTERFACE, not /32; ip route show "
	"dev INTERFACE"};
static const struct tei_rule subnet_rule = {
	"rdma.subnet", "a network for each RDMA interface",
	"give each rail its own subnet, or sysctl net.ipv4.conf.all."
	"arp_ignore=1, arp_announce=2, rp_filter=2 and a routing table each"};
static const struct tei_rule lid_rule = {
	"rdma.lid", "a LID from a subnet manager",
	"start opensm on a host of the fabric, or the switch's own"};
static const struct tei_rule congestion = {
	"rdma.congestion", "ECN on for a priority, as sender and as receiver",
	"mlnx_qos -i INTERFACE --trust dscp --pfc 0,0,0,1,0,0,0,0; echo 1 > "
	"/sys/class/net/INTERFACE/ecn/roce_{rp,np}/enable/3; the switches too"};

/* ---- GIDs ---- */

enum gid_kind { GID_NONE, GID_V1, GID_V2 };

struct gid {
	enum gid_kind kind;
	enum tei_scope scope; /* of GID_V2, never TEI_SCOPE_NONE */
	unsigned int index;
	struct in6_addr addr;
	char interface[TEI_HOST_NAME];
};

static enum gid_kind kind_of(const struct in6_addr *addr, const char *type)
{
	if (IN6_IS_ADDR_UNSPECIFIED(addr))
		return GID_NONE;
	if (strcmp(type, "RoCE v2") != 0)
		return GID_V1;
	return tei_scope_of(addr->s6_addr) ? GID_V2 : GID_NONE;
}

/* False: there is no such place in the table. An empty one is GID_NONE. */
static bool read_gid(const struct tei_host *h, const struct te_topo_nic *nic,
		     unsigned int index, struct gid *out)
{
	char path[128], text[64], type[32];

	(void)snprintf(path, sizeof(path), "sys/class/infiniband/%s/ports/%u",
		       nic->rdma, nic->rdma_port);
	*out = (struct gid){.index = index};
	if (!tei_host_line(h, text, sizeof(text), "%s/gids/%u", path, index))
		return false;
	if (!tei_host_line(h, type, sizeof(type), "%s/gid_attrs/types/%u", path,
			   index) ||
	    inet_pton(AF_INET6, text, &out->addr) != 1)
		return true;
	(void)tei_host_line(h, out->interface, sizeof(out->interface),
			    "%s/gid_attrs/ndevs/%u", path, index);
	out->kind = kind_of(&out->addr, type);
	out->scope = tei_scope_of(out->addr.s6_addr);
	return true;
}

/* Ranks as an engine does; one of version 1 is better than none. */
static unsigned int rank_of(const struct gid *gid)
{
	if (gid->kind != GID_V2)
		return gid->kind == GID_V1;
	return 1 + tei_gid_rank(gid->scope, *gid->interface != '\0');
}

static bool is_routable(const struct gid *gid)
{
	return gid->kind == GID_V2 && gid->scope > TEI_SCOPE_LINK;
}

static void best_gid(const struct tei_host *h, const struct te_topo_nic *nic,
		     struct gid *best)
{
	struct gid gid;
	unsigned int i;

	*best = (struct gid){.kind = GID_NONE};
	for (i = 0; i < GIDS_MAX && read_gid(h, nic, i, &gid); i++)
		if (rank_of(&gid) > rank_of(best))
			*best = gid;
}

static void check_gid(const char *port, const struct gid *gid,
		      struct tei_report *r)
{
	const char *words = "RoCE v2";
	enum tei_mark mark = TEI_MARK_OK;
	char text[INET6_ADDRSTRLEN];

	if (gid->kind == GID_NONE) {
		tei_report_add(r, TEI_MARK_FAIL, &gid_rule, port,
			       "the table is empty");
		return;
	}
	if (gid->kind == GID_V1) {
		mark = TEI_MARK_FAIL;
		words = "RoCE v1 only";
	} else if (!is_routable(gid)) {
		mark = TEI_MARK_WARN;
		words = "RoCE v2, but link-local only";
	}
	(void)inet_ntop(AF_INET6, &gid->addr, text, sizeof(text));
	tei_report_add(
		r, mark, &gid_rule, port, "index %u: %s by %s, %s", gid->index,
		text, *gid->interface ? gid->interface : "no interface", words);
}

/* ---- routes ---- */

/* A network next to an interface, an IPv4 one as in a GID. */
struct route {
	char interface[TEI_HOST_NAME];
	uint8_t to[16];
	unsigned int prefix; /* bits */
};

/* A line of /proc/net/route; addresses stand there as they are in memory. */
static bool parse_v4(const char *line, struct route *out)
{
	unsigned int to, gateway, mask;
	uint32_t addr;

	*out = (struct route){.to = {[10] = 0xff, [11] = 0xff}};
	if (sscanf(line, "%63s %x %x %*x %*d %*d %*d %x", out->interface, &to,
		   &gateway, &mask) != 4)
		return false;
	addr = to;
	memcpy(out->to + 12, &addr, sizeof(addr));
	out->prefix = 96 + (unsigned int)__builtin_popcount(mask);
	return gateway == 0 && mask != 0;
}

/* A line of /proc/net/ipv6_route: to, its bits, from, its bits, gateway ... */
static bool parse_v6(const char *line, struct route *out)
{
	char to[33], gateway[33];
	unsigned int byte;

	*out = (struct route){.prefix = 0};
	if (sscanf(line, "%32s %x %*s %*s %32s %*s %*s %*s %*s %63s", to,
		   &out->prefix, gateway, out->interface) != 4)
		return false;
	for (size_t i = 0; i < sizeof(out->to); i++) {
		if (sscanf(to + 2 * i, "%2x", &byte) != 1)
			return false;
		out->to[i] = (uint8_t)byte;
	}
	/* Routes to single addresses are the host's own. */
	return out->prefix > 0 && out->prefix < 128 &&
	       strspn(gateway, "0") == strlen(gateway);
}

static bool leads_to(const struct route *route, const uint8_t addr[16])
{
	unsigned int bytes = route->prefix / 8, bits = route->prefix % 8;

	return !memcmp(route->to, addr, bytes) &&
	       (!bits || !((route->to[bytes] ^ addr[bytes]) >> (8 - bits)));
}

struct ways {
	bool by_own;
	char other[TEI_HOST_NAME]; /* another interface in the same network */
};

static void find_ways(const struct tei_host *h, const struct gid *gid,
		      struct ways *out)
{
	static char table[ROUTES_MAX * ROUTE_LINE];
	bool v4 = IN6_IS_ADDR_V4MAPPED(&gid->addr);
	char *line, *rest = NULL;
	struct route route;

	*out = (struct ways){.by_own = false};
	(void)tei_host_bytes(h, table, sizeof(table),
			     v4 ? "proc/net/route" : "proc/net/ipv6_route");
	for (line = strtok_r(table, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (!(v4 ? parse_v4(line, &route) : parse_v6(line, &route)) ||
		    !leads_to(&route, gid->addr.s6_addr))
			continue;
		if (!strcmp(route.interface, gid->interface))
			out->by_own = true;
		else
			memcpy(out->other, route.interface, sizeof(out->other));
	}
}

static void check_route(const struct tei_host *h, const char *port,
			const struct gid *gid, struct tei_report *r)
{
	struct ways ways;

	if (!is_routable(gid) || !*gid->interface)
		return;
	find_ways(h, gid, &ways);
	tei_report_add(r, ways.by_own ? TEI_MARK_OK : TEI_MARK_FAIL,
		       &route_rule, port, ways.by_own ? "by %s" : "none by %s",
		       gid->interface);
	if (*ways.other)
		tei_report_add(r, TEI_MARK_WARN, &subnet_rule, port,
			       "%s and %s are in one network", gid->interface,
			       ways.other);
	else
		tei_report_add(r, TEI_MARK_OK, &subnet_rule, port,
			       "%s is alone in its network", gid->interface);
}

/* ---- InfiniBand ---- */

static void check_lid(const struct tei_host *h, const char *port,
		      const struct te_topo_nic *nic, struct tei_report *r)
{
	int64_t lid =
		tei_host_number(h, 0, "sys/class/infiniband/%s/ports/%u/lid",
				nic->rdma, nic->rdma_port);

	tei_report_add(r, lid > 0 ? TEI_MARK_OK : TEI_MARK_FAIL, &lid_rule,
		       port, "LID %lld", (long long)lid);
}

/* ---- congestion control ---- */

static bool ecn_is_on(const struct tei_host *h, const char *interface,
		      const char *side)
{
	int priority;

	for (priority = 0; priority < 8; priority++)
		if (tei_host_number(h, 0, "sys/class/net/%s/ecn/%s/enable/%d",
				    interface, side, priority) == 1)
			return true;
	return false;
}

/*
 * Checks counters, which can tell even without a switch in the driver's files.
 */
static void check_notices(const struct tei_host *h, const char *port,
			  const struct te_topo_nic *nic, struct tei_report *r)
{
	static const char counter[] =
		"sys/class/infiniband/%s/ports/%u/hw_counters/%s";
	int64_t sent = tei_host_number(h, -1, counter, nic->rdma,
				       nic->rdma_port, "np_cnp_sent");
	int64_t heeded = tei_host_number(h, -1, counter, nic->rdma,
					 nic->rdma_port, "rp_cnp_handled");

	if (sent < 0 && heeded < 0)
		tei_report_add(r, TEI_MARK_UNKNOWN, &congestion, port,
			       "the driver shows nothing in sysfs");
	else
		tei_report_add(
			r,
			sent > 0 || heeded > 0 ? TEI_MARK_OK : TEI_MARK_UNKNOWN,
			&congestion, port, "%lld notices sent, %lld heeded",
			(long long)(sent < 0 ? 0 : sent),
			(long long)(heeded < 0 ? 0 : heeded));
}

static void check_congestion(const struct tei_host *h, const char *port,
			     const struct te_topo_nic *nic,
			     struct tei_report *r)
{
	bool sender, receiver;

	if (!*nic->interface ||
	    !tei_host_exists(h, "sys/class/net/%s/ecn", nic->interface)) {
		check_notices(h, port, nic, r);
		return;
	}
	sender = ecn_is_on(h, nic->interface, "roce_rp");
	receiver = ecn_is_on(h, nic->interface, "roce_np");
	tei_report_add(r, sender && receiver ? TEI_MARK_OK : TEI_MARK_WARN,
		       &congestion, port, "ECN as sender %s, as receiver %s",
		       sender ? "on" : "off", receiver ? "on" : "off");
}

/* ---- all ports that are up ---- */

void tei_check_fabric(const struct tei_host *h, struct tei_report *r)
{
	struct te_topo_nic nic;
	char port[TEI_HOST_NAME];
	struct gid gid;
	uint32_t i;

	for (i = 0; !te_topo_nic(h->topo, i, &nic); i++) {
		if (!*nic.rdma || nic.state != TE_TOPO_UP)
			continue;
		(void)snprintf(port, sizeof(port), "%s/%u", nic.rdma,
			       nic.rdma_port);
		if (nic.kind == TE_TOPO_IB)
			check_lid(h, port, &nic, r);
		if (nic.kind != TE_TOPO_ROCE)
			continue;
		best_gid(h, &nic, &gid);
		check_gid(port, &gid, r);
		check_route(h, port, &gid, r);
		check_congestion(h, port, &nic, r);
	}
}
