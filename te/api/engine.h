/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - what one engine is made of
 *
 * Two threads of ours work for an engine, and each piece of state belongs to
 * one of them or to a lock:
 *
 *   control thread (loop)   peers' control sides, guests, visitors, server
 *   holder of the worker's  rails, endpoints, slices, requests in flight,
 *   drive token             deadlines
 *   mu                      names: peers, segments, groups, batches, memory
 *   regions.mu              the region table
 *
 * They talk by closures (struct tei_call): tei_loop_post(), tei_worker_post().
 * docs/locking.md has the order of the locks.
 */
#ifndef TE_API_ENGINE_H
#define TE_API_ENGINE_H

#include <te/te.h>

#include "base/arena.h"
#include "base/frame.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/thread.h"
#include "te/api/config.h"
#include "te/api/devices.h"
#include "te/api/handle.h"
#include "te/api/stats.h"
#include "te/api/topology.h"
#include "te/backend.h"
#include "te/control/guest.h"
#include "te/control/names.h"
#include "te/notify/inbox.h"
#include "te/region/group.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

/* What a backend may point to; it looks at nothing inside. */
struct tei_engine_core {
	struct te_engine *engine;
};

struct te_engine {
	struct tei_engine_core core;
	unsigned int forks; /* tei_forks() when it was created */
	char host[TEI_HOST_LEN_MAX + 1];
	char name[TEI_NAME_LEN_MAX + 1];
	uint8_t incarnation[TE_INCARNATION_LEN];
	struct tei_config config;
	struct tei_stats stats;
	struct te_topo *topo;            /* NULL: none; made before the rails */
	struct tei_devices devices;      /* fixed once the rails are made */
	struct tei_directory *directory; /* NULL: none */
	/* NULL: nothing is published. Written under mu; the creator's to read */
	struct tei_publisher *publisher;
	bool is_bare; /* its name has no port and is the directory's */
	struct tei_worker worker;
	struct tei_regions regions;

	struct tei_mutex mu;     /* lock 10 */
	struct tei_list peers;   /* guarded by mu; live as long as the engine */
	struct tei_list batches; /* guarded by mu */
	bool closing;            /* guarded by mu: no batch is made any more */
	struct tei_list memories;    /* guarded by mu */
	struct tei_handles segments; /* guarded by mu */
	struct tei_group_set joined; /* guarded by mu */

	/* Control thread. */
	struct tei_loop *loop;
	struct tei_frame_server *server;
	struct tei_arena arena; /* of the frame being handled */
	struct tei_inbox inbox;
	struct tei_guests guests;
	struct tei_names names;
	bool closed;                /* connects nowhere any more */
	uint16_t port;              /* of server */
	struct tei_call links_lost; /* some rail's `lost` is set */
	_Atomic bool links_lost_posted;
};

/* How often this process is a fork child of one that had engines. */
unsigned int tei_forks(void);

/* False in a fork child: the threads and sockets are the parent's. */
static inline bool tei_engine_alive(const struct te_engine *engine)
{
	return engine->forks == tei_forks();
}

#endif
