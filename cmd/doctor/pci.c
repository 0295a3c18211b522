/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci.c - what is between NICs and memory: links, IOMMU, NUMA nodes
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/host.h"

static const struct tei_rule link_rule = {
	"pci.link", "all lanes, at the speed that both ends can",
	"put the card into a slot with as many lanes, look for bifurcation in "
	"the firmware; lspci -vv shows LnkCap and LnkSta"};
static const struct tei_rule iommu_rule = {
	"pci.iommu", "no IOMMU, or pass-through",
	"iommu=pt on the kernel's command line; of arm64 iommu.passthrough=1"};
static const struct tei_rule node_rule = {
	"numa.nic", "a NIC that says which NUMA node it is near",
	"switch the firmware to report affinities (SRAT, _PXM), or give the "
	"engine a corrected topology: te-topo --json, setting topology"};
static const struct tei_rule here_rule = {
	"numa.cpus", "CPUs in a NUMA node with a NIC that is up",
	"numactl --cpunodebind=NODE --membind=NODE, or a NIC in that node"};
static const struct tei_rule balancing_rule = {
	"numa.balancing", "off: moving pages breaks large pages and stalls",
	"sysctl kernel.numa_balancing=0"};

/* ---- links ---- */

static void check_link(const struct te_topo_nic *nic, struct tei_report *r)
{
	const struct te_topo_pci *pci = &nic->pci;
	enum tei_mark mark = TEI_MARK_OK;

	if (!pci->width || !pci->mtps)
		return;
	if (pci->width < pci->max_width || pci->mtps < pci->max_mtps ||
	    (pci->path_bps && nic->speed_bps > pci->path_bps))
		mark = TEI_MARK_WARN;
	tei_report_add(r, mark, &link_rule, nic->name,
		       "%u of %u lanes at %g of %g GT/s; %.4g Gbit/s on the "
		       "way to the CPU",
		       pci->width, pci->max_width, pci->mtps / 1e3,
		       pci->max_mtps / 1e3, (double)pci->path_bps / 1e9);
}

/* Tells whether the kernel was started with IOMMUs that pass all through. */
static bool passes_through(const struct tei_host *h)
{
	char line[4096], *word, *rest = NULL;

	(void)tei_host_line(h, line, sizeof(line), "proc/cmdline");
	for (word = strtok_r(line, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest))
		if (!strcmp(word, "iommu=pt") ||
		    !strcmp(word, "iommu.passthrough=1"))
			return true;
	return false;
}

/* Judges by the command line: before 4.19, groups do not show their type. */
static void check_group(const struct tei_host *h, const char *object,
			struct tei_report *r)
{
	bool through = passes_through(h);

	tei_report_add(r, through ? TEI_MARK_OK : TEI_MARK_UNKNOWN, &iommu_rule,
		       object, "the type of its group is not shown%s",
		       through ? "; the kernel was started with pass-through"
			       : "");
}

void tei_check_iommu(const struct tei_host *h, const char *object,
		     const char *bus_id, struct tei_report *r)
{
	char type[32];

	if (!*bus_id)
		return;
	if (tei_host_line(h, type, sizeof(type),
			  "sys/bus/pci/devices/%s/iommu_group/type", bus_id))
		tei_report_add(
			r,
			strcmp(type, "identity") ? TEI_MARK_WARN : TEI_MARK_OK,
			&iommu_rule, object, "its group is of type %s", type);
	else if (tei_host_exists(h, "sys/bus/pci/devices/%s/iommu_group",
				 bus_id))
		check_group(h, object, r);
	else
		tei_report_add(r, TEI_MARK_OK, &iommu_rule, object, "none");
}

void tei_check_pci(const struct tei_host *h, struct tei_report *r)
{
	struct te_topo_nic nic;
	uint32_t i;

	for (i = 0; !te_topo_nic(h->topo, i, &nic); i++) {
		if (nic.state == TE_TOPO_DOWN)
			continue;
		check_link(&nic, r);
		tei_check_iommu(h, nic.name, nic.pci.bus_id, r);
	}
}

/* ---- NUMA nodes ---- */

static bool has_nic(const struct tei_host *h, int32_t number)
{
	struct te_topo_nic nic;
	uint32_t i;

	for (i = 0; !te_topo_nic(h->topo, i, &nic); i++)
		if (nic.numa_node == number && nic.state != TE_TOPO_DOWN)
			return true;
	return false;
}

/* Tells whether "0-3,8" holds a number. */
static bool list_has(const char *list, uint32_t number)
{
	unsigned long first, last;
	char *end;

	for (;; list = end + 1) {
		first = last = strtoul(list, &end, 10);
		if (end == list)
			return false;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (number >= first && number <= last)
			return true;
		if (*end != ',')
			return false;
	}
}

static bool node_is_allowed(const struct tei_host *h, int32_t number,
			    const char *cpus)
{
	uint32_t of_node[1024];
	size_t n = sizeof(of_node) / sizeof(of_node[0]), i;

	if (te_topo_node_cpus(h->topo, number, of_node, &n))
		return false;
	for (i = 0; i < n && i < sizeof(of_node) / sizeof(of_node[0]); i++)
		if (list_has(cpus, of_node[i]))
			return true;
	return false;
}

#define CPUS_LEN 32768 /* every other one of 6000 */

static void check_here(const struct tei_host *h, struct tei_report *r)
{
	char cpus[CPUS_LEN];
	struct te_topo_node node;
	bool near = false;
	uint32_t i;

	if (!tei_host_field(h, cpus, sizeof(cpus), "proc/self/status",
			    "Cpus_allowed_list:"))
		return;
	for (i = 0; !te_topo_node(h->topo, i, &node); i++)
		near |= has_nic(h, node.number) &&
			node_is_allowed(h, node.number, cpus);
	tei_report_add(r, near ? TEI_MARK_OK : TEI_MARK_WARN, &here_rule, "",
		       "this process may use CPUs %.80s", cpus);
}

void tei_check_numa(const struct tei_host *h, struct tei_report *r)
{
	struct te_topo_machine m;
	struct te_topo_nic nic;
	int64_t balancing;
	uint32_t i;

	te_topo_machine(h->topo, &m);
	if (m.n_nodes < 2)
		return;
	for (i = 0; !te_topo_nic(h->topo, i, &nic); i++)
		tei_report_add(
			r, nic.numa_node < 0 ? TEI_MARK_WARN : TEI_MARK_OK,
			&node_rule, nic.name,
			nic.numa_node < 0 ? "it does not say" : "node %d",
			nic.numa_node);
	if (m.n_nics)
		check_here(h, r);
	balancing = tei_host_number(h, -1, "proc/sys/kernel/numa_balancing");
	if (balancing >= 0)
		tei_report_add(r, balancing ? TEI_MARK_WARN : TEI_MARK_OK,
			       &balancing_rule, "", balancing ? "on" : "off");
}
