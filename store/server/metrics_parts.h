/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_parts.h - what the files of the master's figures share
 */
#ifndef STORE_SERVER_METRICS_PARTS_H
#define STORE_SERVER_METRICS_PARTS_H

#include "base/arena.h"
#include "store/core/core.h"
#include "store/proto/protocol.h"
#include "store/server/metrics.h"

/* The names of all segments, each behind 16 bytes at most. */
#define TES_SERVER_METRICS_NAMES_MAX \
	((size_t)TES_CORE_MOUNTS_MAX * (TEI_NAME_LEN_MAX + 32))

/* A page that is being told. */
struct tes_server_metrics {
	const struct tes_server *server;
	size_t part;                 /* that comes next */
	size_t series, at;           /* in it: where it goes on */
	struct tes_server_sum *sums; /* sums[n_sums]: segments by name */
	size_t n_sums;
	struct tei_arena names; /* of theirs: segments may go meanwhile */
};

/* Adds its next piece. 1: it has more, 0, or -ENOMEM. */
typedef int tes_server_metrics_part(struct tes_server_metrics *m,
				    struct evbuffer *out);

/* metrics_series.c */
tes_server_metrics_part tes_server_metrics_collect;
tes_server_metrics_part tes_server_metrics_sum;
tes_server_metrics_part tes_server_metrics_segments;
tes_server_metrics_part tes_server_metrics_tenants;
/* metrics_timing.c */
tes_server_metrics_part tes_server_metrics_timing;

/* metrics.c: what goes before the series of a metric. */
void tes_server_metric_head(struct evbuffer *out, const char *name,
			    const char *type, const char *help);

#endif
