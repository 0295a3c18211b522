/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysfs_nic.c - NICs: ports of class/infiniband and interfaces of class/net
 *
 * A port with RDMA is added first; the interface that lies on the same device
 * and port then joins it. What is left over on either side stands alone: an
 * InfiniBand port without IP, an Ethernet interface without RDMA. RDMA in
 * software (rxe, siw) has no device; it lies where its interface does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "topology/sysfs.h"

#define ARPHRD_ETHER_TYPE      1
#define ARPHRD_INFINIBAND_TYPE 32
#define PORTS_MAX              8
#define SPEED_MAX_MBPS         100000000 /* 100 Tbit/s: beyond is nonsense */

static bool is_function_of_ours(const struct tei_sysfs *s, const char *pci)
{
	return tei_sysfs_exists(s, "bus/pci/devices/%s/physfn", pci);
}

static void locate(const struct tei_sysfs *s, struct tei_topo_nic *nic,
		   const char *device)
{
	if (!tei_sysfs_pci(s, device, &nic->pci, &nic->numa_node))
		return;
	if (is_function_of_ours(s, nic->pci.bus_id))
		nic->is_virtual = true;
}

/* ---- ports with RDMA ---- */

static uint32_t kind_of_port(const struct tei_sysfs *s, const char *dev,
			     unsigned int port)
{
	char layer[32];

	if (tei_sysfs_text(s, layer, sizeof(layer),
			   "class/infiniband/%s/ports/%u/link_layer", dev,
			   port))
		return TE_TOPO_RDMA;
	if (!strcmp(layer, "InfiniBand"))
		return TE_TOPO_IB;
	return strcmp(layer, "Ethernet") ? TE_TOPO_RDMA : TE_TOPO_ROCE;
}

/* "4: ACTIVE" */
static uint32_t state_of_port(const struct tei_sysfs *s, const char *dev,
			      unsigned int port)
{
	int64_t state = tei_sysfs_number(
		s, 0, "class/infiniband/%s/ports/%u/state", dev, port);

	if (!state)
		return TE_TOPO_STATE_UNKNOWN;
	return state == 4 ? TE_TOPO_UP : TE_TOPO_DOWN;
}

/* "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)" */
static uint64_t rate_of_port(const struct tei_sysfs *s, const char *dev,
			     unsigned int port)
{
	char text[64];
	double gbps = 0;

	if (tei_sysfs_text(s, text, sizeof(text),
			   "class/infiniband/%s/ports/%u/rate", dev, port) ||
	    sscanf(text, "%lf Gb/sec", &gbps) != 1)
		return 0;
	if (!(gbps > 0 && gbps * 1000 <= SPEED_MAX_MBPS))
		return 0;
	return (uint64_t)(gbps * 1e9 + 0.5);
}

/* The interface below a port of RDMA in software, and its device. */
static bool find_below(const struct tei_sysfs *s, const char *dev,
		       unsigned int port, char out[TEI_TOPO_PATH_MAX])
{
	char name[TEI_TOPO_NAME_MAX];

	/* The first says so only while the port has an address. */
	if (tei_sysfs_text(s, name, sizeof(name),
			   "class/infiniband/%s/ports/%u/gid_attrs/ndevs/0",
			   dev, port) &&
	    tei_sysfs_text(s, name, sizeof(name), "class/infiniband/%s/parent",
			   dev))
		return false;
	return tei_topo_is_name(name) &&
	       tei_sysfs_device(s, out, "class/net/%s/device", name);
}

static void locate_port(const struct tei_sysfs *s, struct tei_topo_nic *nic)
{
	char device[TEI_TOPO_PATH_MAX];

	if (tei_sysfs_device(s, device, "class/infiniband/%s/device",
			     nic->rdma)) {
		locate(s, nic, device);
	} else if (find_below(s, nic->rdma, nic->rdma_port, device)) {
		locate(s, nic, device);
		nic->speed_bps = 0; /* made up; the interface may know */
	}
}

static int add_port(struct tei_sysfs *s, const char *dev, unsigned int port)
{
	struct tei_topo_nic *nic;
	int rc, len;

	nic = tei_topo_add_nic(s->t, &rc);
	if (!nic)
		return tei_sysfs_full(s, rc, "NICs");
	len = snprintf(nic->name, sizeof(nic->name), port > 1 ? "%s/%u" : "%s",
		       dev, port);
	if (len < 0 || (size_t)len >= sizeof(nic->name)) {
		s->t->n_nics--;
		return 0;
	}
	snprintf(nic->rdma, sizeof(nic->rdma), "%s", dev);
	nic->rdma_port = port;
	nic->kind = kind_of_port(s, dev, port);
	nic->state = state_of_port(s, dev, port);
	nic->speed_bps = rate_of_port(s, dev, port);
	locate_port(s, nic);
	return 0;
}

static int each_rdma(struct tei_sysfs *s, const char *dev)
{
	unsigned int port;
	int rc = 0;

	for (port = 1; !rc && port <= PORTS_MAX; port++) {
		if (tei_sysfs_exists(s, "class/infiniband/%s/ports/%u", dev,
				     port))
			rc = add_port(s, dev, port);
	}
	return rc;
}

/* ---- interfaces ---- */

static uint64_t speed_of(const struct tei_sysfs *s, const char *name)
{
	int64_t mbps = tei_sysfs_number(s, 0, "class/net/%s/speed", name);

	return mbps > 0 && mbps <= SPEED_MAX_MBPS ? (uint64_t)mbps * 1000000
						  : 0;
}

static uint32_t state_of(const struct tei_sysfs *s, const char *name)
{
	char text[32];

	if (tei_sysfs_text(s, text, sizeof(text), "class/net/%s/operstate",
			   name) ||
	    !strcmp(text, "unknown"))
		return TE_TOPO_STATE_UNKNOWN;
	return strcmp(text, "up") ? TE_TOPO_DOWN : TE_TOPO_UP;
}

/* The port with RDMA of this device that has no interface yet. */
static struct tei_topo_nic *port_for(struct tei_sysfs *s, const char *name,
				     const char *path)
{
	int64_t port = tei_sysfs_number(s, 0, "class/net/%s/dev_port", name);
	uint32_t i;

	for (i = 0; i < s->t->n_nics; i++) {
		struct tei_topo_nic *nic = &s->t->nics[i];

		if (nic->rdma_port == port + 1 && !*nic->interface &&
		    *nic->pci.path && !strcmp(nic->pci.path, path))
			return nic;
	}
	return NULL;
}

static void name_interface(struct tei_topo_nic *nic, const char *name)
{
	snprintf(nic->interface, sizeof(nic->interface), "%s", name);
	if (!*nic->name)
		snprintf(nic->name, sizeof(nic->name), "%s", name);
}

static int add_interface(struct tei_sysfs *s, const char *name,
			 const char *device, int64_t type)
{
	struct tei_topo_nic *nic;
	int rc;

	nic = tei_topo_add_nic(s->t, &rc);
	if (!nic)
		return tei_sysfs_full(s, rc, "NICs");
	name_interface(nic, name);
	nic->kind = type == ARPHRD_ETHER_TYPE ? TE_TOPO_ETH : TE_TOPO_IB;
	nic->state = state_of(s, name);
	nic->speed_bps = speed_of(s, name);
	if (*device)
		locate(s, nic, device);
	else
		nic->is_virtual = true;
	return 0;
}

static int each_interface(struct tei_sysfs *s, const char *name)
{
	int64_t type = tei_sysfs_number(s, 0, "class/net/%s/type", name);
	char device[TEI_TOPO_PATH_MAX];
	struct tei_topo_pci pci = {.path = ""};
	struct tei_topo_nic *nic;

	if (type != ARPHRD_ETHER_TYPE && type != ARPHRD_INFINIBAND_TYPE)
		return 0; /* loopback, tunnels */
	if (!tei_sysfs_device(s, device, "class/net/%s/device", name)) {
		if (!(s->flags & TE_TOPO_VIRTUAL))
			return 0;
	} else if (tei_topo_pci_from_path(&pci, device)) {
		nic = port_for(s, name, pci.path);
		if (nic) {
			name_interface(nic, name);
			if (!nic->speed_bps)
				nic->speed_bps = speed_of(s, name);
			return 0;
		}
	}
	return add_interface(s, name, device, type);
}

int tei_sysfs_add_nics(struct tei_sysfs *s)
{
	int rc = tei_sysfs_each(s, "class/infiniband", each_rdma);

	return rc ? rc : tei_sysfs_each(s, "class/net", each_interface);
}
