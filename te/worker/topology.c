/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - the engine's topology of its machine */
#include "te/worker/topology.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "topology/topo.h"

/* ---- taking it ---- */

/* Many engines of one process see the same: one line is enough. */
static bool first_time(atomic_flag *said)
{
	return !atomic_flag_test_and_set_explicit(said, memory_order_relaxed);
}

static void report_topology(struct te_engine *engine)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *first = NULL;
	struct te_topo_note note;
	uint32_t i, n = 0;

	for (i = 0; !te_topo_note(engine->topo, i, &note); i++) {
		if (note.kind != TE_TOPO_NOTE_AFFINITY)
			continue;
		if (!first)
			first = note.text;
		n++;
	}
	TEI_COUNT_BY(engine, topo_affinity, n);
	if (!n || !first_time(&said))
		return;
	if (n > 1)
		LOG_WARN("topology: %s; %u more (te-topo lists them)", first,
			 n - 1);
	else
		LOG_WARN("topology: %s", first);
}

/* A file that is wrong is no reason to know nothing of the machine. */
static struct te_topo *from_file(struct te_engine *engine)
{
	const struct te_topo_source source = {.json = engine->config.topology};
	struct te_topo *topo = NULL;
	char error[256];

	if (!source.json || !*source.json)
		return NULL;
	if (!te_topo_load(&source, &topo, error, sizeof(error)))
		return topo;
	TEI_COUNT(engine, topo_file);
	LOG_WARN("topology: %s; looking at the machine itself", error);
	return NULL;
}

void tei_topology_load(struct te_engine *engine)
{
	char error[256];

	engine->topo = from_file(engine);
	if (!engine->topo &&
	    te_topo_load(NULL, &engine->topo, error, sizeof(error))) {
		engine->topo = NULL;
		TEI_COUNT(engine, topo_file);
		LOG_WARN("topology: %s; every distance is unknown", error);
	}
	if (engine->topo)
		report_topology(engine);
}

/* ---- using it ---- */

/* Notes a device that the user's own topology file lacks or places wrongly. */
static void note_unplaced_device(struct te_engine *engine,
				 const struct tei_device *device)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!engine->config.topology || device->numa_node < 0)
		return;
	TEI_COUNT(engine, topo_rail);
	if (first_time(&said))
		LOG_WARN("topology: %s is not in %s", device->name,
			 engine->config.topology);
}

/* A port of a device, "mlx5_0/2", may be known by itself or as its device. */
static int find_port(const struct te_topo *topo, const char *name, size_t len,
		     uint32_t port, uint32_t *index)
{
	char device[sizeof(((struct tei_device *)0)->name)];
	struct te_topo_nic nic;
	uint32_t i;

	snprintf(device, sizeof(device), "%.*s", (int)len, name);
	for (i = 0; !te_topo_nic(topo, i, &nic); i++) {
		if (nic.rdma_port == port && !strcmp(nic.rdma, device)) {
			*index = i;
			return 0;
		}
	}
	return te_topo_find_nic(topo, device, index);
}

/* Finds the device of a domain of libfabric, "rdmap0s6-rdm". */
static int find_domain(const struct te_topo *topo, const char *name,
		       uint32_t *index)
{
	static const char kind[] = "-rdm";
	char device[sizeof(((struct tei_device *)0)->name)];
	size_t len = strlen(name), tail = sizeof(kind) - 1;

	if (len <= tail || strcmp(name + len - tail, kind) != 0)
		return -ENOENT;
	snprintf(device, sizeof(device), "%.*s", (int)(len - tail), name);
	return te_topo_find_nic(topo, device, index);
}

static int find_nic(const struct te_topo *topo, const char *name,
		    uint32_t *index)
{
	const char *slash = strrchr(name, '/');
	uint64_t port;

	if (!te_topo_find_nic(topo, name, index) ||
	    !find_domain(topo, name, index))
		return 0;
	if (!slash || tei_parse_uint(slash + 1, &port) || port > UINT8_MAX)
		return -ENOENT;
	return find_port(topo, name, (size_t)(slash - name), (uint32_t)port,
			 index);
}

int tei_topology_place(struct te_engine *engine, struct tei_device *device)
{
	struct te_topo_nic nic;
	uint32_t index;

	if (!engine->topo)
		return -1;
	if (find_nic(engine->topo, device->name, &index) ||
	    te_topo_nic(engine->topo, index, &nic)) {
		note_unplaced_device(engine, device);
		return -1;
	}
	if (nic.numa_node >= 0)
		device->numa_node = nic.numa_node;
	if (!device->speed_bps)
		device->speed_bps = nic.speed_bps;
	return (int)index;
}

#define ANY_NIC UINT32_MAX

/* Rails that touch memory by themselves: those of one NIC, or all. */
static uint64_t rails_at(const struct te_engine *engine, uint32_t nic)
{
	const struct tei_worker *w = engine->worker;
	uint64_t rails = 0;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		const struct tei_rail_box *box = w->rails[i];

		if ((box->rail.ops->caps & TEI_CAP_ONE_SIDED) &&
		    (nic == ANY_NIC || box->nic == (int)nic))
			rails |= (uint64_t)1 << i;
	}
	return rails;
}

static bool as_near(const struct te_topo_distance *a,
		    const struct te_topo_distance *b)
{
	return a->near == b->near && a->numa == b->numa;
}

/*
 * Rails nearest to a memory: its preferred NICs that are rails, or else the
 * first NIC that is one, and those that are as near.
 */
static uint64_t nearest(const struct te_engine *engine, uint32_t memory,
			const uint32_t *nics, size_t n, size_t n_preferred)
{
	struct te_topo_distance best, d;
	uint64_t near = 0, rails;
	size_t i;

	for (i = 0; i < n; i++) {
		if (i == n_preferred && near)
			break;
		rails = rails_at(engine, nics[i]);
		if (!rails ||
		    te_topo_distance(engine->topo, memory, nics[i], &d))
			continue;
		if (!near)
			best = d;
		if (i < n_preferred || as_near(&best, &d))
			near |= rails;
	}
	return near;
}

uint64_t tei_topology_near(const struct te_engine *engine, const char *location)
{
	uint32_t memory, nics[TEI_TOPO_NICS_MAX];
	size_t n = TEI_TOPO_NICS_MAX, n_preferred;
	uint64_t near;

	if (!engine->topo ||
	    te_topo_find_memory(engine->topo, location, &memory) ||
	    te_topo_rails(engine->topo, memory, nics, &n, &n_preferred))
		return 0;
	near = nearest(engine, memory, nics, n, n_preferred);
	return near == rails_at(engine, ANY_NIC) ? 0 : near;
}

/* ---- threads near them ---- */

#define CPUS_MAX CPU_SETSIZE

void tei_topology_stay_near(const struct te_engine *engine, int node)
{
	uint32_t cpus[CPUS_MAX];
	size_t i, n = CPUS_MAX;
	cpu_set_t may, near;

	if (!engine->topo || sched_getaffinity(0, sizeof(may), &may) ||
	    te_topo_node_cpus(engine->topo, node, cpus, &n))
		return;
	CPU_ZERO(&near);
	for (i = 0; i < n && i < CPUS_MAX; i++)
		if (cpus[i] < CPU_SETSIZE && CPU_ISSET(cpus[i], &may))
			CPU_SET(cpus[i], &near);
	if (CPU_COUNT(&near) && sched_setaffinity(0, sizeof(near), &near))
		LOG_DEBUG("worker: sched_setaffinity: %s", strerror(errno));
}

const char *tei_topology_gpu(const struct te_engine *engine, const char *bus_id)
{
	struct te_topo_memory memory;
	uint32_t i;

	for (i = 0; engine->topo && !te_topo_memory(engine->topo, i, &memory);
	     i++)
		if (memory.kind != TE_TOPO_HOST && memory.pci.bus_id &&
		    !strcmp(memory.pci.bus_id, bus_id))
			return memory.name;
	return NULL;
}

static void note_location(struct te_engine *engine, const char *location)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	uint32_t index;

	if (!engine->topo ||
	    !te_topo_find_memory(engine->topo, location, &index))
		return;
	TEI_COUNT(engine, topo_location);
	if (first_time(&said))
		LOG_WARN("topology: a region is said to be at \"%s\", which "
			 "this machine does not have",
			 location);
}

void tei_topology_locate(struct te_engine *engine, const void *addr,
			 const char *wanted, char *out, size_t room)
{
	if (!tei_location_is_any(wanted)) {
		snprintf(out, room, "%s", wanted);
		note_location(engine, wanted);
		return;
	}
	snprintf(out, room, "cpu:%d", tei_topo_node_at(addr));
}
