/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - settings of te-replay
 */
#ifndef PERF_TE_REPLAY_OPTIONS_H
#define PERF_TE_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	char *trace, *rate, *master, *host, *role, *histogram;
	uint64_t block_bytes, clients, owners, pool_bytes, limit, idle, tenants;
	uint64_t share_fd, index; /* of a client process */
	bool value_check, json, csv;
};

#endif
