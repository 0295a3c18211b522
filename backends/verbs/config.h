/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - settings of the verbs backend
 *
 * The same in every build, also where the headers of libibverbs were missing.
 */
#ifndef VERBS_CONFIG_H
#define VERBS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"

#define VERBS_LANES_MAX 8
#define VERBS_DEPTH_MAX 32768 /* work requests of one lane in flight */
#define VERBS_SGE_MAX   16
#define VERBS_READS_MAX 128
#define VERBS_MTU_MAX   4096

struct verbs_config {
	char *devices;   /* "mlx5_0,mlx5_1/2"; NULL, "", "all": every one */
	char *exclude;   /* as devices, but left out; NULL, "": none */
	uint64_t port;   /* of each device; 0: every one */
	char *peers;     /* see match.h */
	char *gid_index; /* a number; NULL, "", "auto", "-1": the best */
	uint64_t pkey_index, service_level, traffic_class;
	uint64_t lanes, depth, mtu, reads, inline_max, pieces;
	uint64_t timeout, retries; /* as IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT */
	uint64_t chunk;            /* most bytes of one key */
	uint64_t cqe;              /* completions that a rail has room for */
	uint64_t prefault;         /* from so many bytes on; 0: never */
	uint64_t bounce;           /* bytes of bounce buffers */
	bool relaxed; /* relaxed ordering where the device has it */
};

#define VERBS_SETTINGS 21
extern const struct tei_setting tei_verbs_settings[VERBS_SETTINGS];

#endif
