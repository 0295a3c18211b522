/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - one client process of a replay
 */
#ifndef PERF_TE_REPLAY_CLIENT_H
#define PERF_TE_REPLAY_CLIENT_H

#include "perf/te-replay/options.h"

/* Bytes that one call moves, in the client's own memory; at least one block. */
#define CLIENT_BUFFER_BYTES (8u << 20)

/*
 * Plays the role "client" of main(): joins the pool, says "ready", waits for
 * "go", replays, says "done", and stays idle in the pool until the input ends.
 * Returns an exit code.
 */
int client_main(const struct options *o);

#endif
