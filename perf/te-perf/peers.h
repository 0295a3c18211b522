/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - what many peers cost a target: idle, and connecting at once
 */
#ifndef PERF_TE_PERF_PEERS_H
#define PERF_TE_PERF_PEERS_H

#include "perf/te-perf/options.h"

/*
 * --idle: connect --peers engines, each writes once, then nothing happens for
 * --duration. --connects N: N engines open the target at the same time and
 * write once each. Both report and return an exit code.
 */
int peers_main(const struct options *o);

#endif
