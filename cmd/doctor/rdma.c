/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma.c - can this process open RDMA devices, and are their ports ready
 *
 * By sysfs alone: it says the same without libibverbs, and also when that
 * library is what cannot open them.
 */
#include <errno.h>
#include <string.h>

#include "cmd/doctor/host.h"

#define ROCE_OVERHEAD 96 /* bytes of headers around the payload, at most */
#define MELLANOX      0x15b3

static const struct tei_rule devices = {
	"rdma.devices", "at least one RDMA device",
	"load the driver of the NIC (modprobe mlx5_ib, irdma, bnxt_re, ...); "
	"without one other hosts are reached by tcp"};
static const struct tei_rule driver = {
	"rdma.driver", "an RDMA device beside the interface",
	"modprobe mlx5_ib; in a container its /sys/class/infiniband is the "
	"host's only with --network=host"};
static const struct tei_rule node = {
	"rdma.node", "a device node that this user may open",
	"modprobe ib_uverbs; in a container --device=/dev/infiniband; mode 666 "
	"by the udev rules of rdma-core"};
static const struct tei_rule transport = {
	"rdma.transport", "a device of InfiniBand or RoCE, not of iWARP",
	"eRDMA: options erdma compat_mode=Y in /etc/modprobe.d, then rmmod "
	"erdma, modprobe erdma; others: the RoCE mode of the driver, if it has "
	"one"};
static const struct tei_rule port_state = {
	"rdma.port", "ACTIVE, LinkUp",
	"Ethernet: ip link set INTERFACE up; InfiniBand in INIT: start a subnet "
	"manager; else cable, module and port of the switch"};
static const struct tei_rule mtu_rule = {
	"rdma.mtu", "an interface MTU of 4200 or more: 4096 bytes a packet",
	"ip link set INTERFACE mtu 9000, the same at all peers and switches"};
static const struct tei_rule errors = {
	"rdma.errors", "no packet lost or sent again",
	"congestion (ECN, PFC), cables, and the MTU on the way; the counters "
	"are in ports/1/hw_counters and ports/1/counters"};

/* ---- devices ---- */

static void check_drivers(const struct tei_host *h, struct tei_report *r)
{
	struct te_topo_nic nic;
	uint32_t i;

	for (i = 0; !te_topo_nic(h->topo, i, &nic); i++) {
		if (*nic.rdma || !*nic.pci.bus_id ||
		    tei_host_number(h, 0, "sys/bus/pci/devices/%s/vendor",
				    nic.pci.bus_id) != MELLANOX)
			continue;
		tei_report_add(r, TEI_MARK_WARN, &driver, nic.name,
			       "a NIC that has RDMA, shown without it");
	}
}

/* "uverbs0" of a device. */
static bool find_node(const struct tei_host *h, const char *dev,
		      char out[TEI_HOST_NAME])
{
	static const char folder[] = "sys/class/infiniband_verbs";
	char name[TEI_HOST_NAME];
	size_t i;

	for (i = 0; tei_host_entry(h, folder, i, out); i++) {
		if (tei_host_line(h, name, sizeof(name), "%s/%s/ibdev", folder,
				  out) &&
		    !strcmp(name, dev))
			return true;
	}
	return false;
}

static void check_node(const struct tei_host *h, const char *dev,
		       struct tei_report *r)
{
	char name[TEI_HOST_NAME], path[TEI_HOST_NAME + 32];
	int rc;

	if (!find_node(h, dev, name)) {
		tei_report_add(r, TEI_MARK_FAIL, &node, dev,
			       "the kernel offers it to no process");
		return;
	}
	(void)snprintf(path, sizeof(path), "dev/infiniband/%s", name);
	rc = tei_host_may_open(h, path);
	tei_report_add(r, rc ? TEI_MARK_FAIL : TEI_MARK_OK, &node, dev,
		       "/%s%s%s", path, rc ? ": " : "",
		       rc ? strerror(-rc) : "");
}

/* libibverbs, too, takes it from the node type: 4 is that of iWARP. */
static void check_transport(const struct tei_host *h, const char *dev,
			    struct tei_report *r)
{
	char type[32], compat[8] = "";
	bool iwarp;

	if (!tei_host_line(h, type, sizeof(type),
			   "sys/class/infiniband/%s/node_type", dev))
		return;
	iwarp = type[0] == '4';
	if (iwarp)
		(void)tei_host_line(h, compat, sizeof(compat),
				    "sys/module/erdma/parameters/compat_mode");
	tei_report_add(r, iwarp ? TEI_MARK_WARN : TEI_MARK_OK, &transport, dev,
		       "node type %s%s%s", type,
		       *compat ? ", erdma loaded with compat_mode=" : "",
		       compat);
}

/* ---- ports ---- */

static void port_name(const struct te_topo_nic *nic, char out[TEI_HOST_NAME])
{
	(void)snprintf(out, TEI_HOST_NAME, "%s/%u", nic->rdma, nic->rdma_port);
}

static bool any_port_is_up(const struct tei_host *h)
{
	struct te_topo_nic nic;
	uint32_t i;

	for (i = 0; !te_topo_nic(h->topo, i, &nic); i++)
		if (*nic.rdma && nic.state == TE_TOPO_UP)
			return true;
	return false;
}

static void check_state(const struct tei_host *h, const struct te_topo_nic *nic,
			struct tei_report *r)
{
	char state[32], link[32], name[TEI_HOST_NAME];
	enum tei_mark mark = TEI_MARK_OK;

	if (!tei_host_line(h, state, sizeof(state),
			   "sys/class/infiniband/%s/ports/%u/state", nic->rdma,
			   nic->rdma_port))
		(void)snprintf(state, sizeof(state), "unknown");
	if (!tei_host_line(h, link, sizeof(link),
			   "sys/class/infiniband/%s/ports/%u/phys_state",
			   nic->rdma, nic->rdma_port))
		(void)snprintf(link, sizeof(link), "unknown");
	if (nic->state != TE_TOPO_UP)
		mark = any_port_is_up(h) ? TEI_MARK_WARN : TEI_MARK_FAIL;
	port_name(nic, name);
	tei_report_add(r, mark, &port_state, name, "state %s, link %s", state,
		       link);
}

/* The largest packet of RDMA that fits into one of the interface. */
static int64_t payload_of(int64_t mtu)
{
	int64_t size = 4096;

	while (size > 128 && size + ROCE_OVERHEAD > mtu)
		size /= 2;
	return size;
}

static void check_mtu(const struct tei_host *h, const struct te_topo_nic *nic,
		      struct tei_report *r)
{
	int64_t mtu =
		tei_host_number(h, 0, "sys/class/net/%s/mtu", nic->interface);
	char name[TEI_HOST_NAME];

	port_name(nic, name);
	if (!*nic->interface || !mtu) {
		tei_report_add(r, TEI_MARK_UNKNOWN, &mtu_rule, name,
			       "its interface is not seen here");
		return;
	}
	tei_report_add(r, payload_of(mtu) < 4096 ? TEI_MARK_WARN : TEI_MARK_OK,
		       &mtu_rule, name, "MTU %lld on %s: %lld bytes a packet",
		       (long long)mtu, nic->interface,
		       (long long)payload_of(mtu));
}

static void check_errors(const struct tei_host *h,
			 const struct te_topo_nic *nic, struct tei_report *r)
{
	static const char *const counters[] = {
		"hw_counters/packet_seq_err",
		"hw_counters/local_ack_timeout_err",
		"hw_counters/out_of_sequence",
		"hw_counters/rcvd_seq_err",
		"hw_counters/retry_exceeded_err",
		"counters/symbol_error",
		"counters/port_rcv_errors",
	};
	char name[TEI_HOST_NAME];
	bool bad = false;
	size_t i;

	port_name(nic, name);
	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		int64_t n = tei_host_number(
			h, 0, "sys/class/infiniband/%s/ports/%u/%s", nic->rdma,
			nic->rdma_port, counters[i]);

		if (n <= 0)
			continue;
		tei_report_add(r, TEI_MARK_WARN, &errors, name, "%s %lld",
			       strchr(counters[i], '/') + 1, (long long)n);
		bad = true;
	}
	if (!bad)
		tei_report_add(r, TEI_MARK_OK, &errors, name, "none counted");
}

static void check_ports(const struct tei_host *h, struct tei_report *r)
{
	struct te_topo_nic nic;
	uint32_t i;

	for (i = 0; !te_topo_nic(h->topo, i, &nic); i++) {
		if (!*nic.rdma)
			continue;
		check_state(h, &nic, r);
		if (nic.kind == TE_TOPO_ROCE)
			check_mtu(h, &nic, r);
		check_errors(h, &nic, r);
	}
}

void tei_check_rdma(const struct tei_host *h, struct tei_report *r)
{
	char dev[TEI_HOST_NAME];
	size_t n;

	for (n = 0; tei_host_entry(h, "sys/class/infiniband", n, dev); n++) {
		check_node(h, dev, r);
		check_transport(h, dev, r);
	}
	tei_report_add(r, n ? TEI_MARK_OK : TEI_MARK_WARN, &devices, "",
		       n ? "%zu in /sys/class/infiniband"
			 : "none in /sys/class/infiniband",
		       n);
	check_drivers(h, r);
	check_ports(h, r);
}
