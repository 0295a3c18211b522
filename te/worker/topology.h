/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.h - the engine's topology of its machine, and what it is used for
 *
 * Taken once, before the rails are opened, and not changed after that. Without
 * one everything works, only not near. Whatever is wrong with it is counted
 * (te_topology_faults_total) and logged once a process.
 *
 * Threads: made before the worker runs, read by any.
 */
#ifndef TE_WORKER_TOPOLOGY_H
#define TE_WORKER_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include <te/topo.h>

struct te_engine;
struct tei_device;

/* Fills engine->topo; NULL when there is none. Set-up only. */
void tei_topology_load(struct te_engine *engine);
/*
 * Complete what the topology knows of a device that a backend has found. Its
 * place among the NICs there, -1: it is none of them.
 */
int tei_topology_place(struct te_engine *engine, struct tei_device *device);
/*
 * A bit for each rail whose device touches memory by itself and is as near the
 * memory at @location as such rails come; 0: unknown, or all are. Once the
 * rails are open.
 */
uint64_t tei_topology_near(const struct te_engine *engine,
			   const char *location);
/*
 * Keeps the calling thread on the processors of the NUMA node @node, of those
 * that it may use. Where none of them is there it stays where it is.
 */
void tei_topology_stay_near(const struct te_engine *engine, int node);
/*
 * Finds the name in the topology of the GPU at @bus_id, "0000:1a:00.0", which
 * is not the number that a process gives it. NULL: it is not there. The text
 * lives as long as the topology.
 */
const char *tei_topology_gpu(const struct te_engine *engine,
			     const char *bus_id);
/*
 * The location of memory at @addr: @wanted when it names one, else (NULL, "*")
 * the NUMA node of its first page, "cpu:0".
 */
void tei_topology_locate(struct te_engine *engine, const void *addr,
			 const char *wanted, char *out, size_t room);

#endif
