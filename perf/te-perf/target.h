/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h - the initiator's view of the side that is written and read
 *
 * Three kinds: a process that we start (this program with --role target), one
 * that a `te-perf --listen` starts for us on another host, and, for backends
 * that cannot leave a process, our own engine. The first two are talked to by
 * lines; serve.h has the words.
 */
#ifndef PERF_TE_PERF_TARGET_H
#define PERF_TE_PERF_TARGET_H

#include <stdint.h>
#include <te/te.h>

#include "perf/lib/bare.h"
#include "perf/lib/process.h"
#include "perf/te-perf/inbox.h"
#include "perf/te-perf/memory.h"
#include "perf/te-perf/options.h"

struct target {
	const struct options *options; /* not owned */
	struct tei_process process; /* pid 0: remote, or we are it ourselves */
	bool remote_host;
	struct tei_address at;           /* of a remote one */
	char host[TEI_HOST_LEN_MAX + 1]; /* ours, as the target sees it */
	struct te_engine *engine;        /* the initiator's; not owned */
	uint64_t len;                    /* of its working set */
	struct memory memory;            /* when it is ours */
	struct inbox inbox;              /* then, too */
	char name[TEI_PROCESS_LINE];
	te_segment_id segment; /* where to send to */
	struct side side;      /* addresses of its memory */
};

/*
 * Reaches a remote target, and has it open a working set of @len bytes; sets
 * t->host. -errno, said on stderr. Blocks: for its answers.
 */
int target_start(struct target *t, const struct options *o, uint64_t len);
/*
 * Starts a target that is not remote, with a working set of as many bytes,
 * opens its segment and finds its memory. -errno, said on stderr.
 */
int target_open(struct target *t, struct te_engine *engine);
/* Has the target take notifications from now on. -errno. */
int target_take(struct target *t);
/* Sets CPU time and resident bytes of its process so far; 0: it is this one. */
int target_usage(struct target *t, uint64_t *cpu_ns, uint64_t *rss);
/*
 * Has a remote target start a peer for raw sockets with @len bytes, and sets
 * where @peer is. -errno.
 */
int target_reference(struct target *t, uint64_t len,
		     struct tei_bare_peer *peer);
/*
 * Connects to a te-perf that listens at @name, "host:port": lines go by
 * @process. @at gets its address, @host ours as it sees it. -errno; -EINVAL:
 * the name is wrong, said on stderr.
 */
int target_connect(const char *name, struct tei_process *process,
		   struct tei_address *at, char host[TEI_HOST_LEN_MAX + 1]);
/*
 * Finds the addresses of memory that a target lends: @len bytes at @locations.
 * -errno; -EPROTO: it is not there.
 */
int target_side(struct te_engine *engine, te_segment_id segment,
		const struct locations *locations, uint64_t len,
		struct side *out);
/* Ends it, also after a failure. -EIO: its process did not end well. */
int target_close(struct target *t);

#endif
