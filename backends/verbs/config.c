/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - the rows of the verbs backend's settings */
#include "backends/verbs/config.h"

#include <stddef.h>

/* With Mooncake's name for it. */
#define ROW_ENV(field_, name_, env_, type_, def_, unit_, help_, min_, ...) \
	{                                                                  \
		.name = "verbs." name_, .env = (env_), .type = (type_),    \
		.def = (def_), .unit = (unit_), .help = (help_),           \
		.min = (min_),                                             \
		.offset = offsetof(struct verbs_config, field_),           \
		.max = __VA_ARGS__                                         \
	}
#define ROW(field_, name_, ...) ROW_ENV(field_, name_, NULL, __VA_ARGS__)

const struct tei_setting tei_verbs_settings[VERBS_SETTINGS] = {
	ROW_ENV(devices, "devices", "MC_TE_FILTERS", TEI_CONF_STRING, NULL,
		NULL,
		"devices (mlx5_0) or ports (mlx5_0/1), each a rail; default: all",
		0, 0),
	ROW_ENV(exclude, "exclude", "MC_TE_FILTERS_EXCLUDE", TEI_CONF_STRING,
		NULL, NULL, "devices or ports that are left out", 0, 0),
	ROW_ENV(port, "port", "MC_IB_PORT", TEI_CONF_UINT, "0", NULL,
		"port of each device; 0: all of them", 0, 255),
	ROW_ENV(gid_index, "gid_index", "MC_GID_INDEX", TEI_CONF_STRING, NULL,
		NULL, "GID of each port; default, auto and -1: the best", 0, 0),
	ROW_ENV(peers, "peers", "MC_NIC_PEER_AFFINITY", TEI_CONF_STRING, NULL,
		NULL,
		"rails of ours and the peers' they may go with, best first: mlx5_0=mlx5_1,mlx5_2;... (default: by network and name)",
		0, 0),
	ROW_ENV(pkey_index, "pkey_index", "MC_PKEY_INDEX", TEI_CONF_UINT, "0",
		NULL, "partition, by its place in the port's table", 0, 65535),
	ROW_ENV(service_level, "service_level", "MC_IB_SL", TEI_CONF_UINT, "0",
		NULL, "InfiniBand service level", 0, 15, .no_env = "-1"),
	ROW_ENV(traffic_class, "traffic_class", "MC_IB_TC", TEI_CONF_UINT, "0",
		NULL, "of the GRH; on RoCE the type of service", 0, 255,
		.no_env = "-1"),
	ROW(lanes, "lanes", TEI_CONF_UINT, "2", NULL,
	    "queue pairs between two rails", 1, VERBS_LANES_MAX),
	ROW(depth, "depth", TEI_CONF_UINT, "256", NULL,
	    "work requests in flight on a lane", 1, VERBS_DEPTH_MAX),
	ROW_ENV(mtu, "mtu", "MC_MTU", TEI_CONF_SIZE, "4096", "bytes",
		"most of a packet; 256, 512, 1024, 2048 or 4096", 256,
		VERBS_MTU_MAX),
	ROW(reads, "reads", TEI_CONF_UINT, "16", NULL,
	    "reads in flight on a lane, as the device counts them", 0,
	    VERBS_READS_MAX),
	ROW(inline_max, "inline", TEI_CONF_SIZE, "64", "bytes",
	    "writes up to so many go with their work request", 0, 1024),
	ROW(pieces, "pieces", TEI_CONF_UINT, "4", NULL,
	    "local pieces of a work request", 1, VERBS_SGE_MAX),
	ROW(timeout, "timeout", TEI_CONF_UINT, "14", NULL,
	    "of an acknowledgement: 4.096 us x 2^timeout", 1, 31),
	ROW(retries, "retries", TEI_CONF_UINT, "7", NULL,
	    "of a packet that is not acknowledged", 0, 7),
	ROW(chunk, "chunk", TEI_CONF_SIZE, "0", "bytes",
	    "most memory of one key; 0: what the device takes", 0, 1LL << 46),
	ROW(cqe, "completions", TEI_CONF_UINT, "32768", NULL,
	    "that a rail has room for", 16, 1 << 24),
	ROW(prefault, "prefault", TEI_CONF_SIZE, "268435456", "bytes",
	    "regions from so many bytes on are brought into memory by several "
	    "threads before they are registered; 0: none",
	    0, 1LL << 46),
	ROW(bounce, "bounce", TEI_CONF_SIZE, "4194304", "bytes",
	    "registered memory of a rail, by way of which local memory is "
	    "copied that is not registered; 0: none",
	    0, 1 << 30),
	ROW(relaxed, "relaxed_ordering", TEI_CONF_BOOL, "true", NULL,
	    "PCIe may reorder writes, where the device can tell", 0, 0),
};
