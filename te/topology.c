/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - the engine's picture of its machine */
#include "te/topology.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "te/engine.h"
#include "topology/topo.h"

/* ---- taking it ---- */

/* Many engines of one process see the same: one line is enough. */
static bool first_time(atomic_flag *said)
{
	return !atomic_flag_test_and_set_explicit(said, memory_order_relaxed);
}

static void report(struct te_engine *engine)
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
		report(engine);
}

/* ---- using it ---- */

/* What only our own file can say wrongly of an interface. */
static void note_stranger(struct te_engine *engine,
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

void tei_topology_place(struct te_engine *engine, struct tei_device *device)
{
	struct te_topo_nic nic;
	uint32_t index;

	if (!engine->topo)
		return;
	if (te_topo_find_nic(engine->topo, device->name, &index) ||
	    te_topo_nic(engine->topo, index, &nic)) {
		note_stranger(engine, device);
		return;
	}
	if (nic.numa_node >= 0)
		device->numa_node = nic.numa_node;
	if (!device->speed_bps)
		device->speed_bps = nic.speed_bps;
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
	if (wanted && *wanted && strcmp(wanted, "*") != 0) {
		snprintf(out, room, "%s", wanted);
		note_location(engine, wanted);
		return;
	}
	snprintf(out, room, "cpu:%d", tei_topo_node_at(addr));
}
