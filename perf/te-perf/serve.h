/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - what a target does: it lends memory, and answers lines
 *
 * Lines, with their answers:
 *
 *	open LEN FOREIGN LOCATIONS   ready NAME: of its engine
 *	usage                        usage CPU_NS RSS
 *	reference LEN                reference PORT: of a peer for raw sockets
 *	notify                       notify: from then on it takes notifications
 *
 * and the lines of submitter.h, by which it submits requests, too. A line that
 * it cannot serve is answered by "error" and why. It ends when its input does,
 * or is no such line, and closes a connection that says nothing at first. It
 * never looks at its memory, which belongs to the initiator.
 */
#ifndef PERF_TE_PERF_SERVE_H
#define PERF_TE_PERF_SERVE_H

#include "base/net.h"
#include "perf/te-perf/options.h"

/* Serves lines of stdin, in role "target". Returns an exit code. */
int serve_main(const struct options *o);
/*
 * Starts such a process for each connection to --listen, one after another,
 * until SIGINT or SIGTERM. Returns an exit code.
 */
int serve_listen(const struct options *o);

/* Writes the address of this end of a connection, without port. -errno. */
int serve_own_host(int fd, char host[TEI_HOST_LEN_MAX + 1]);

#endif
