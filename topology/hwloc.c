/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc.c - read a topology by hwloc: its XML, or names for this machine
 *
 * An XML file of lstopo is a whole machine: nodes, CPUs, PCI devices and what
 * the system calls them. It does not say how fast a port is or whether it is
 * up. For the running machine it only adds names, because looking takes it
 * tens of milliseconds where /sys takes one.
 */
#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topology/topo.h"

#define CLASS_DISPLAY     0x03
#define CLASS_ACCELERATOR 0x12
#define VENDOR_NVIDIA     0x10de
#define VENDOR_AMD        0x1002
#define DEPTH_MAX         16 /* bridges in a row */

struct source {
	struct te_topo *t;
	hwloc_topology_t h;
	struct tei_topo_error *e;
};

static int full(struct source *s, int rc)
{
	if (rc == -E2BIG)
		return tei_topo_fail(s->e, -EBADMSG,
				     "hwloc: larger than any machine");
	return tei_topo_fail(s->e, rc, "out of memory");
}

static const char *text_of(const char *text)
{
	return text ? text : "";
}

static const char *property(hwloc_obj_t obj, const char *name)
{
	return text_of(hwloc_obj_get_info_by_name(obj, name));
}

/* ---- opening ---- */

static int set_up(hwloc_topology_t h, const char *xml)
{
	if (xml && hwloc_topology_set_xml(h, xml))
		return -EBADMSG;
	if (hwloc_topology_set_io_types_filter(
		    h, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) ||
	    hwloc_topology_set_type_filter(h, HWLOC_OBJ_BRIDGE,
					   HWLOC_TYPE_FILTER_KEEP_ALL) ||
	    hwloc_topology_set_flags(h, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED))
		return -EINVAL;
	return hwloc_topology_load(h) ? -EBADMSG : 0;
}

static int open_source(struct source *s, const char *xml)
{
	int rc;

	if (xml && access(xml, R_OK))
		return tei_topo_fail(s->e, -errno, "%s: %s", xml,
				     strerror(errno));
	if (hwloc_topology_init(&s->h))
		return tei_topo_fail(s->e, -ENOMEM, "out of memory");
	rc = set_up(s->h, xml);
	if (!rc)
		return 0;
	hwloc_topology_destroy(s->h);
	if (xml)
		return tei_topo_fail(s->e, rc, "%s: no XML of hwloc 2", xml);
	return tei_topo_fail(s->e, rc, "hwloc: cannot look at this machine");
}

/* ---- nodes and CPUs ---- */

static int32_t package_of(hwloc_obj_t obj)
{
	for (; obj; obj = obj->parent) {
		if (obj->type == HWLOC_OBJ_PACKAGE &&
		    obj->os_index < TEI_TOPO_NODE_NUMBERS)
			return (int32_t)obj->os_index;
	}
	return -1;
}

static int add_node(struct source *s, hwloc_obj_t obj)
{
	struct tei_topo_memory *m;
	struct tei_topo_node *node;
	int rc;

	if (obj->os_index >= TEI_TOPO_NODE_NUMBERS)
		return 0;
	node = tei_topo_add_node(s->t, (int32_t)obj->os_index, &rc);
	if (!node)
		return full(s, rc);
	node->package = package_of(obj);
	node->bytes = obj->attr ? obj->attr->numanode.local_memory : 0;
	m = tei_topo_add_memory(s->t, &rc);
	if (!m)
		return full(s, rc);
	snprintf(m->name, sizeof(m->name), "cpu:%d", node->number);
	m->kind = TE_TOPO_HOST;
	m->numa_node = node->number;
	m->bytes = node->bytes;
	return 0;
}

/* The node of a set of nodes that has but one; else -1. */
static int32_t node_of(hwloc_obj_t obj)
{
	while (obj && !obj->nodeset)
		obj = obj->parent;
	if (!obj || hwloc_bitmap_weight(obj->nodeset) != 1)
		return -1;
	return hwloc_bitmap_first(obj->nodeset);
}

/* A CPU belongs to the first node that is local to it (others may be HBM). */
static int32_t node_of_cpu(hwloc_obj_t obj)
{
	return obj->nodeset ? hwloc_bitmap_first(obj->nodeset) : -1;
}

static int add_cpu(struct source *s, hwloc_obj_t obj)
{
	hwloc_obj_t core = obj;
	struct tei_topo_cpu *cpu;
	int rc;

	if (obj->os_index >= TEI_TOPO_CPUS_MAX)
		return 0;
	cpu = tei_topo_add_cpu(s->t, obj->os_index, &rc);
	if (!cpu)
		return full(s, rc);
	while (core && core->type != HWLOC_OBJ_CORE)
		core = core->parent;
	if (core && core->cpuset && hwloc_bitmap_first(core->cpuset) >= 0)
		cpu->core = (uint32_t)hwloc_bitmap_first(core->cpuset);
	cpu->node = node_of_cpu(obj);
	return 0;
}

static int add_all(struct source *s, hwloc_obj_type_t type,
		   int (*fn)(struct source *s, hwloc_obj_t obj))
{
	hwloc_obj_t obj = NULL;
	int rc = 0;

	while (!rc && (obj = hwloc_get_next_obj_by_type(s->h, type, obj)))
		rc = fn(s, obj);
	return rc;
}

/* The place of the i-th object of a matrix among our nodes. */
static struct tei_topo_node *
node_at(struct te_topo *t, const struct hwloc_distances_s *d, unsigned int i)
{
	uint32_t k;

	for (k = 0; k < t->n_nodes; k++) {
		if (d->objs[i] && t->nodes[k].number >= 0 &&
		    (uint32_t)t->nodes[k].number == d->objs[i]->os_index)
			return &t->nodes[k];
	}
	return NULL;
}

static void fill_distances(struct te_topo *t, const struct hwloc_distances_s *d)
{
	unsigned int from, to;

	for (from = 0; from < d->nbobjs; from++) {
		struct tei_topo_node *a = node_at(t, d, from);

		for (to = 0; a && to < d->nbobjs; to++) {
			struct tei_topo_node *b = node_at(t, d, to);
			hwloc_uint64_t v = d->values[from * d->nbobjs + to];

			if (b && v <= 255)
				a->distance[b - t->nodes] = (uint16_t)v;
		}
	}
}

static void find_distances(struct source *s)
{
	struct hwloc_distances_s *d = NULL;
	unsigned int n = 1;

	if (hwloc_distances_get_by_type(s->h, HWLOC_OBJ_NUMANODE, &n, &d,
					HWLOC_DISTANCES_KIND_MEANS_LATENCY,
					0) ||
	    !n || !d)
		return;
	fill_distances(s->t, d);
	hwloc_distances_release(s->h, d);
}

/* ---- PCI devices ---- */

/* Append a component to a path. */
static void add_part(hwloc_obj_t obj, char out[TEI_TOPO_PATH_MAX])
{
	size_t n = strlen(out);
	int len = 0;

	if (obj->type == HWLOC_OBJ_BRIDGE &&
	    obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST)
		len = snprintf(out, TEI_TOPO_PATH_MAX, "pci%04x:%02x",
			       obj->attr->bridge.downstream.pci.domain,
			       obj->attr->bridge.downstream.pci.secondary_bus);
	else if (n)
		len = snprintf(out + n, TEI_TOPO_PATH_MAX - n,
			       "/%04x:%02x:%02x.%01x", obj->attr->pcidev.domain,
			       obj->attr->pcidev.bus, obj->attr->pcidev.dev,
			       obj->attr->pcidev.func);
	if (len < 0 || (size_t)len >= TEI_TOPO_PATH_MAX - n)
		out[n] = '\0';
}

/* Write "pci0000:3a/0000:3a:00.0/..." from the host bridge down. */
static void path_of(hwloc_obj_t obj, char out[TEI_TOPO_PATH_MAX])
{
	hwloc_obj_t chain[DEPTH_MAX];
	size_t n = 0;

	out[0] = '\0';
	while (obj && n < DEPTH_MAX &&
	       (obj->type == HWLOC_OBJ_PCI_DEVICE ||
		obj->type == HWLOC_OBJ_BRIDGE)) {
		chain[n++] = obj;
		obj = obj->parent;
	}
	while (n)
		add_part(chain[--n], out);
}

/* hwloc gives the rate of a link in GB/s, rounded in older versions. */
static uint64_t bps_of(float gigabytes)
{
	return gigabytes > 0 && gigabytes < 10000
		       ? (uint64_t)((double)gigabytes * 8e9)
		       : 0;
}

static uint64_t path_bps(hwloc_obj_t obj)
{
	uint64_t best = 0, bps;

	for (; obj; obj = obj->parent) {
		if (obj->type != HWLOC_OBJ_PCI_DEVICE &&
		    (obj->type != HWLOC_OBJ_BRIDGE ||
		     obj->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI))
			continue;
		bps = bps_of(obj->attr->pcidev.linkspeed);
		if (bps && (!best || bps < best))
			best = bps;
	}
	return best;
}

static void locate(hwloc_obj_t pci, struct tei_topo_pci *out, int32_t *node)
{
	char path[TEI_TOPO_PATH_MAX];

	*node = node_of(pci);
	path_of(pci, path);
	if (tei_topo_pci_from_path(out, path))
		out->path_bps = path_bps(pci);
}

static hwloc_obj_t pci_of(hwloc_obj_t obj)
{
	while (obj && obj->type != HWLOC_OBJ_PCI_DEVICE)
		obj = obj->parent;
	return obj;
}

static const char *model_of(hwloc_obj_t pci)
{
	return *text_of(pci->name) ? pci->name : property(pci, "PCIDevice");
}

/* ---- NICs ---- */

static struct tei_topo_nic *nic_at(struct te_topo *t, const char *bus_id)
{
	uint32_t i;

	for (i = 0; *bus_id && i < t->n_nics; i++) {
		if (!strcmp(t->nics[i].pci.bus_id, bus_id))
			return &t->nics[i];
	}
	return NULL;
}

static struct tei_topo_nic *new_nic(struct source *s, hwloc_obj_t pci,
				    const char *name, int *rc)
{
	struct tei_topo_nic *nic = tei_topo_add_nic(s->t, rc);

	if (!nic) {
		*rc = full(s, *rc);
		return NULL;
	}
	locate(pci, &nic->pci, &nic->numa_node);
	snprintf(nic->name, sizeof(nic->name), "%s", name);
	tei_topo_copy_model(nic->model, sizeof(nic->model), model_of(pci));
	return nic;
}

static int add_rdma(struct source *s, hwloc_obj_t obj)
{
	hwloc_obj_t pci = pci_of(obj);
	const char *name = text_of(obj->name);
	const char *state = property(obj, "Port1State");
	struct tei_topo_nic *nic;
	int rc;

	if (!pci || obj->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS ||
	    !tei_topo_is_name(name))
		return 0;
	nic = new_nic(s, pci, name, &rc);
	if (!nic)
		return rc;
	snprintf(nic->rdma, sizeof(nic->rdma), "%s", name);
	nic->rdma_port = 1;
	nic->kind = TE_TOPO_IB; /* until an Ethernet interface joins it */
	if (*state)
		nic->state = strcmp(state, "4") ? TE_TOPO_DOWN : TE_TOPO_UP;
	return 0;
}

/* Addresses of IP over InfiniBand have 20 bytes. */
static bool is_ethernet(hwloc_obj_t obj)
{
	return strlen(property(obj, "Address")) < 20;
}

static int add_interface(struct source *s, hwloc_obj_t obj)
{
	hwloc_obj_t pci = pci_of(obj);
	const char *name = text_of(obj->name);
	struct tei_topo_pci where = {.path = ""};
	struct tei_topo_nic *nic;
	int32_t node;
	int rc;

	if (!pci || obj->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK ||
	    !tei_topo_is_name(name))
		return 0;
	locate(pci, &where, &node);
	nic = nic_at(s->t, where.bus_id);
	if (nic && !*nic->interface) {
		if (is_ethernet(obj))
			nic->kind = TE_TOPO_ROCE;
	} else {
		nic = new_nic(s, pci, name, &rc);
		if (!nic)
			return rc;
		nic->kind = is_ethernet(obj) ? TE_TOPO_ETH : TE_TOPO_IB;
	}
	snprintf(nic->interface, sizeof(nic->interface), "%s", name);
	return 0;
}

/* ---- GPUs ---- */

static uint32_t gpu_kind(hwloc_obj_t pci)
{
	unsigned int class = pci->attr->pcidev.class_id >> 8;

	if (class != CLASS_DISPLAY && class != CLASS_ACCELERATOR)
		return 0;
	if (pci->attr->pcidev.vendor_id == VENDOR_NVIDIA)
		return TE_TOPO_CUDA;
	return pci->attr->pcidev.vendor_id == VENDOR_AMD ? TE_TOPO_HIP : 0;
}

static int add_gpu(struct source *s, hwloc_obj_t pci)
{
	uint32_t kind = gpu_kind(pci), i, n = 0;
	struct tei_topo_memory *m;
	int rc;

	if (!kind)
		return 0;
	for (i = 0; i < s->t->n_memories; i++)
		n += s->t->memories[i].kind == kind;
	m = tei_topo_add_memory(s->t, &rc);
	if (!m)
		return full(s, rc);
	m->kind = kind;
	snprintf(m->name, sizeof(m->name), "%s:%u",
		 kind == TE_TOPO_CUDA ? "cuda" : "hip", n);
	locate(pci, &m->pci, &m->numa_node);
	tei_topo_copy_model(m->model, sizeof(m->model), model_of(pci));
	return 0;
}

/* ---- all of it ---- */

static void name_machine(struct source *s)
{
	hwloc_obj_t package = hwloc_get_obj_by_type(s->h, HWLOC_OBJ_PACKAGE, 0);

	if (package)
		tei_topo_copy_model(s->t->model, sizeof(s->t->model),
				    property(package, "CPUModel"));
}

static int add_everything(struct source *s)
{
	int rc = add_all(s, HWLOC_OBJ_NUMANODE, add_node);

	tei_topo_sort_nodes(s->t);
	if (!rc)
		rc = add_all(s, HWLOC_OBJ_PU, add_cpu);
	if (!rc)
		rc = add_all(s, HWLOC_OBJ_OS_DEVICE, add_rdma);
	if (!rc)
		rc = add_all(s, HWLOC_OBJ_OS_DEVICE, add_interface);
	if (!rc)
		rc = add_all(s, HWLOC_OBJ_PCI_DEVICE, add_gpu);
	if (!rc)
		find_distances(s);
	return rc;
}

static int add_names(struct source *s, hwloc_obj_t pci)
{
	struct tei_topo_pci where = {.path = ""};
	struct tei_topo_nic *nic;
	int32_t node;
	uint32_t i;

	locate(pci, &where, &node);
	nic = nic_at(s->t, where.bus_id);
	if (nic)
		tei_topo_copy_model(nic->model, sizeof(nic->model),
				    model_of(pci));
	for (i = 0; *where.bus_id && i < s->t->n_memories; i++) {
		struct tei_topo_memory *m = &s->t->memories[i];

		if (!strcmp(m->pci.bus_id, where.bus_id))
			tei_topo_copy_model(m->model, sizeof(m->model),
					    model_of(pci));
	}
	return 0;
}

int tei_topo_from_hwloc(struct te_topo *t, const char *xml, bool names_only,
			struct tei_topo_error *e)
{
	struct source s = {.t = t, .e = e};
	int rc = open_source(&s, xml);

	if (rc)
		return rc;
	name_machine(&s);
	if (names_only)
		rc = add_all(&s, HWLOC_OBJ_PCI_DEVICE, add_names);
	else
		rc = add_everything(&s);
	hwloc_topology_destroy(s.h);
	return rc;
}
