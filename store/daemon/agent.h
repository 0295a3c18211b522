/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - serve dummy clients: processes of this host without an engine
 *
 * A dummy shares memory with us and names places in it; we put and get for it
 * with our own client of the pool. Sockets live on a loop of the agent's own;
 * calls, which block, run on a bounded number of workers, which the dummies
 * share in turns. docs/wire.md has the protocol.
 */
#ifndef STORE_DAEMON_AGENT_H
#define STORE_DAEMON_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include <te/store.h>

struct tes_agent;

struct tes_agent_config {
	struct te_store *store; /* not owned; outlives the agent */
	/*
	 * Port where dummies ask for the socket; names it, too, unless there is
	 * a path. 0: any free one.
	 */
	uint16_t port;
	const char *host; /* of that port; NULL: all addresses */
	bool insecure;    /* tell everybody on that port, other hosts, too */
	/* Users to serve beside our own and root: base/peer.h; NULL: none. */
	const char *allow_uids;
	/* Absolute; "": in the user's runtime directory, client-PORT.sock. */
	const char *socket_path;
	/* "": those users only; else members of this group as well. */
	const char *socket_group;
	unsigned int n_threads; /* calls at a time, at least 1 */
	uint64_t memory_max;    /* bytes of all dummies' memory together */
	/*
	 * Bytes that one dummy may share, as it announces them. 0: memory_max.
	 */
	uint64_t memory_each_max;
	/*
	 * Bytes of the daemon's memory that dummies read values from; 0: none.
	 */
	uint64_t buffers_max;
};

/*
 * 0, or a negative errno, and the cause is logged: -EADDRINUSE (another daemon
 * serves there), -EEXIST (what lies there is no socket), -EACCES, -EPERM (the
 * directory is not ours alone), -ENOENT (no such group, no such directory),
 * -EINVAL (allow_uids), -ENAMETOOLONG, -ENOMEM, -EMFILE, -EAGAIN.
 */
int tes_agent_start(const struct tes_agent_config *config,
		    struct tes_agent **out);
/*
 * No new calls; waits for those under way for up to @wait_ms, then everything
 * is freed. False: some are still under way, and nothing has been freed. Then
 * the process has to end; its memory must not go before it does.
 */
bool tes_agent_stop(struct tes_agent *agent, uint64_t wait_ms);

/* GET /health, /metrics, /metrics/summary. As tei_http_start(). */
int tes_agent_http(struct tes_agent *agent, const char *host, uint16_t port,
		   bool insecure, const char *allow_host, uint16_t *out_port);

#endif
