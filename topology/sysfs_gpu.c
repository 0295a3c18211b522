/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysfs_gpu.c - GPUs, by the driver that holds them
 *
 * Only a GPU that its compute driver has taken can be used, so the drivers'
 * folders are asked, which are short, and not every device of the bus. Their
 * order is that of bus ids, as CUDA_DEVICE_ORDER=PCI_BUS_ID counts.
 */
#include <stdio.h>
#include <string.h>

#include "topology/sysfs.h"

#define CLASS_DISPLAY     0x03
#define CLASS_ACCELERATOR 0x12

static bool is_gpu(const struct tei_sysfs *s, const char *bus_id)
{
	int64_t class =
		tei_sysfs_number(s, 0, "bus/pci/devices/%s/class", bus_id);

	return class >> 16 == CLASS_DISPLAY || class >> 16 == CLASS_ACCELERATOR;
}

static uint32_t count(const struct te_topo *t, uint32_t kind)
{
	uint32_t i, n = 0;

	for (i = 0; i < t->n_memories; i++)
		n += t->memories[i].kind == kind;
	return n;
}

static int add_gpu(struct tei_sysfs *s, const char *bus_id, uint32_t kind,
		   const char *prefix)
{
	char device[TEI_TOPO_PATH_MAX];
	uint32_t number = count(s->t, kind);
	struct tei_topo_memory *m;
	int rc;

	if (!tei_topo_is_bus_id(bus_id, strlen(bus_id)) || !is_gpu(s, bus_id))
		return 0;
	m = tei_topo_add_memory(s->t, &rc);
	if (!m)
		return tei_sysfs_full(s, rc, "GPUs");
	snprintf(m->name, sizeof(m->name), "%s:%u", prefix, number);
	m->kind = kind;
	if (!tei_sysfs_device(s, device, "bus/pci/devices/%s", bus_id) ||
	    !tei_sysfs_pci(s, device, &m->pci, &m->numa_node))
		tei_topo_add_note(s->t, TE_TOPO_NOTE_AFFINITY,
				  "%s: where %s is cannot be seen", m->name,
				  bus_id);
	return 0;
}

static int each_nvidia(struct tei_sysfs *s, const char *bus_id)
{
	return add_gpu(s, bus_id, TE_TOPO_CUDA, "cuda");
}

static int each_amd(struct tei_sysfs *s, const char *bus_id)
{
	return add_gpu(s, bus_id, TE_TOPO_HIP, "hip");
}

int tei_sysfs_add_gpus(struct tei_sysfs *s)
{
	int rc = tei_sysfs_each(s, "bus/pci/drivers/nvidia", each_nvidia);

	return rc ? rc : tei_sysfs_each(s, "bus/pci/drivers/amdgpu", each_amd);
}
