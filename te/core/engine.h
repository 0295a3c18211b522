/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - what all rooms of an engine share
 *
 * Each room (a folder of te/) keeps its state in a struct of its own, which
 * only that room and those above it look into:
 *
 *   api        the functions that callers call, and how the rooms are joined
 *   control    control connections, both ways. Control thread
 *   transfer   peers, links, requests. Holder of the worker's drive token
 *   region     memory of ours, and descriptions of peers' memory. regions.mu
 *   worker     rails, the drive token, who drives. Any thread, or the token
 *   notify     notifications that have come. inbox.mu
 *   directory  names in a directory. Threads of its own
 *   device     drivers of GPUs, and whose memory is whose. Any thread
 *   core       this, settings, ids, errors. Any thread
 *
 * Threads talk by closures (struct tei_call): tei_loop_post() to control,
 * tei_worker_post() to the holder of the token. What is here is fixed once the
 * engine is made, or guarded by mu. docs/locking.md has the order of the locks.
 */
#ifndef TE_CORE_ENGINE_H
#define TE_CORE_ENGINE_H

#include <string.h>

#include <te/te.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/peer.h"
#include "base/thread.h"
#include "te/core/config.h"
#include "te/core/handle.h"
#include "te/core/stats.h"

struct te_topo;
struct tei_control;
struct tei_gpus;
struct tei_directory;
struct tei_inbox;
struct tei_publisher;
struct tei_regions;
struct tei_transfer;
struct tei_worker;

/* Handle of the engine for backends, which look at nothing inside. */
struct tei_engine_core {
	struct te_engine *engine;
};

struct te_engine {
	struct tei_engine_core core;
	unsigned int forks; /* of this process when the engine was created */
	char host[TEI_HOST_LEN_MAX + 1];
	char name[TEI_NAME_LEN_MAX + 1];
	uint8_t secret[TE_ENGINE_SECRET_LEN];    /* for those it trusts */
	uint8_t incarnation[TE_INCARNATION_LEN]; /* hash of the secret */
	bool is_bare;  /* its name has no port and is the directory's */
	uint16_t port; /* that control listens on */
	struct tei_config config;
	struct tei_peer_rule rule;       /* of it: whom to serve */
	const struct tei_copier *copier; /* of it; NULL: the fastest one */
	struct te_topo *topo;            /* NULL: none; made before the rails */
	struct tei_directory *directory; /* NULL: none */
	/*
	 * NULL: nothing is published. Written under mu; the creator's to read
	 */
	struct tei_publisher *publisher;
	struct tei_loop *loop; /* the control thread */

	/* The rooms' own, in the same allocation. */
	struct tei_worker *worker; /* worker[n_workers]; fixed once made */
	uint32_t n_workers;
	/* Submissions are shared out: there are processors for it. Fixed. */
	bool shares;
	struct tei_regions *regions;
	struct tei_transfer *transfer;
	struct tei_control *control;
	struct tei_inbox *inbox;
	struct tei_gpus *gpus;

	char apart[TEI_CACHE_LINE]; /* what is fixed from what is written */
	struct tei_stats stats;     /* any thread adds to it */
	char apart_too[TEI_CACHE_LINE];
	/*
	 * Lock 9, where several workers are: one batch's callbacks at a time.
	 */
	struct tei_mutex calling;
	char apart_three[TEI_CACHE_LINE];
	struct tei_mutex mu;     /* lock 10 */
	struct tei_list peers;   /* guarded by mu; live as long as the engine */
	struct tei_list batches; /* guarded by mu */
	bool closing;            /* guarded by mu: no batch is made any more */
	struct tei_list memories;        /* guarded by mu */
	struct tei_handles segments;     /* guarded by mu */
	char apart_last[TEI_CACHE_LINE]; /* from the rooms' own */
};

TEI_APART(struct te_engine, gpus, stats);    /* all read; any adds */
TEI_APART(struct te_engine, stats, calling); /* any adds; callbacks lock */
TEI_APART(struct te_engine, calling, mu);    /* callbacks, look-ups lock */

/* Fork children are counted from now on. Any thread. */
void tei_watch_forks(void);
/* Returns how often this process is a fork child of one that had engines. */
unsigned int tei_forks(void);

/* False in a fork child: the threads and sockets are the parent's. */
static inline bool tei_engine_alive(const struct te_engine *engine)
{
	return engine->forks == tei_forks();
}

/* Counts a request that has failed by its error. Any thread. */
void tei_count_failed(struct te_engine *engine, int error);

/* Tells whether a location of memory names no place: NULL, "", "*". */
static inline bool tei_location_is_any(const char *location)
{
	return !location || !*location || !strcmp(location, "*");
}

/* Tells whether this thread is just inside a te_done_fn. */
extern _Thread_local bool tei_calling_back;
static inline bool tei_in_callback(void)
{
	return tei_calling_back;
}

/*
 * Tells whether this thread is not to drive a worker of the engine: it is
 * inside a callback, in which the token of another worker might be free.
 */
static inline bool tei_must_not_drive(const struct te_engine *engine)
{
	return engine->n_workers > 1 && tei_calling_back;
}

#endif
