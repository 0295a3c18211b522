/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - what a target does: it lends memory, and answers lines
 *
 * The target answers "open LEN FOREIGN LOCATIONS" by "ready NAME" (of its
 * engine), "usage" by "usage CPU_NS RSS", "reference LEN" by "reference PORT" (of
 * a peer for raw sockets), "notify" by
 * "notify" (it takes notifications from then on), and a request that it cannot serve by "error" and why.
 * As an agent it also submits requests, by the lines of agent.h. It ends when
 * its input does, or is no such line, and closes a connection that
 * says nothing at first. It never looks at its memory, which belongs to the
 * initiator.
 */
#ifndef PERF_TE_PERF_SERVE_H
#define PERF_TE_PERF_SERVE_H

#include "base/net.h"
#include "perf/te-perf/options.h"

/* Role "target": lines on stdin and stdout. An exit code. */
int serve_main(const struct options *o);
/*
 * --listen: such a process for each connection, one after another, until
 * SIGINT or SIGTERM. An exit code.
 */
int serve_listen(const struct options *o);

/* The address of our end of a connection, without port. 0, -errno. */
int serve_own_host(int fd, char host[TEI_HOST_LEN_MAX + 1]);

#endif
