/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h - a pool of real processes on loopback: a master and its owners
 *
 * Programs are looked for beside the caller's own. Ports are the kernel's
 * choice. Threads: the main thread.
 */
#ifndef PERF_LIB_CLUSTER_H
#define PERF_LIB_CLUSTER_H

#include <stdint.h>
#include <te/store.h>

#include "perf/lib/node.h"
#include "perf/lib/process.h"

#define TEI_CLUSTER_OWNERS_MAX 64

struct tei_cluster {
	struct tei_process master;
	struct tei_process owner[TEI_CLUSTER_OWNERS_MAX];
	unsigned int n_owners;
	char name[TE_NAME_LEN_MAX + 1]; /* of the master, host:port */
};

/*
 * Start a master and 1 .. TEI_CLUSTER_OWNERS_MAX owners that lend it
 * @pool_bytes together, of NUMA node @node (TEI_NODE_ANY). Owners mount by and
 * by: see tei_cluster_await(). -errno, said on stderr; nothing is left then.
 */
int tei_cluster_start(struct tei_cluster *c, unsigned int n_owners,
		      uint64_t pool_bytes, int node);
/* Wait until all owners have mounted, as seen by @store. -errno, said. */
int tei_cluster_await(struct tei_cluster *c, struct te_store *store);
/*
 * Owners first, then the master; all zero is fine. -EIO: one of them did not
 * end well, said on stderr with its output.
 */
int tei_cluster_stop(struct tei_cluster *c);

/*
 * Tells whether engines of this host take @backends (a list, "auto", or NULL:
 * all), before anything is started. -EINVAL: there is none of such a name, or
 * the list is empty, -ENODEV: none of them has a device; said on stderr, with
 * the names that there are.
 */
int tei_backends_check(const char *program, const char *backends);
/*
 * Joins the pool of master @master as a client that lends nothing. -errno, said
 * on stderr; of the store's own codes -ECONNREFUSED.
 */
int tei_pool_join(const char *master, const char *host, const char *backends,
		  struct te_store **out);
/*
 * The same as @config says, whose size and timeouts are set here, with the
 * engine's @backends (a list, "auto" or NULL).
 */
int tei_pool_join_as(struct te_store_config *config, const char *backends,
		     struct te_store **out);
/* Returns the bytes of a block's extent in the pool, header included. */
uint64_t tei_pool_extent_bytes(uint64_t block_bytes);

#endif
