/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - one client process of a replay
 */
#ifndef PERF_TE_REPLAY_CLIENT_H
#define PERF_TE_REPLAY_CLIENT_H

#include "perf/te-replay/options.h"

/* Bytes moved by one call, in memory of the client's own; at least one block. */
#define CLIENT_BUFFER_BYTES (8u << 20)

/*
 * What main() does in role "client": join the pool, say "ready", wait for
 * "go", replay, say "done", stay idle in the pool until the input ends. An
 * exit code.
 */
int client_main(const struct options *o);

#endif
