/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - how one peer is reached, and how fast
 *
 * The engine decides by what a peer is reached: memory of it is read for a moment,
 * and the rails that carried the bytes tell. Judging what was seen is apart from
 * seeing it.
 */
#ifndef CMD_DOCTOR_PEER_H
#define CMD_DOCTOR_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <te/te.h>

#include "cmd/doctor/report.h"

#define TEI_PEER_RAILS 64

/* One of our rails, in the engine's order of preference. */
struct tei_peer_rail {
	const char *name, *backend; /* not owned */
	uint32_t state;             /* enum te_rail_state */
	uint64_t speed_bps;         /* 0: unknown */
	uint64_t bytes;             /* read by it */
	uint32_t link;              /* enum te_link_state, after that */
	int error;                  /* of its last link that failed; 0: none */
	char way[TE_LINK_WAY_LEN]; /* "": its link is not up, or does not say */
};

/* What a visit has seen of one peer. */
struct tei_peer_visit {
	const char *name;   /* not owned */
	int error;          /* of opening its segment; the rest is then empty */
	uint64_t rtt_us;    /* of a control message */
	bool readable;      /* it publishes memory that we may read */
	int read_error;     /* of the first read that failed */
	uint64_t bytes, ns; /* read, and in which time */
	bool has_rdma;      /* this host has a port with RDMA that is up */
	size_t n_rails;
	struct tei_peer_rail rails[TEI_PEER_RAILS];
};

/* Add the findings about a peer. */
void tei_peer_judge(const struct tei_peer_visit *v, struct tei_report *r);

/*
 * Read from a peer for @time_ms and judge. Blocks: some seconds longer than that, at
 * most. 0, or what creating a batch or getting memory failed with.
 */
int tei_peer_visit(struct te_engine *engine, const char *name, uint64_t time_ms,
		   bool has_rdma, struct tei_report *r);

/*
 * Publish memory to be read, say where on stdout, and wait for SIGINT or SIGTERM.
 * 0, or a negative errno. Threads: one, and before others are started.
 */
int tei_peer_listen(const struct te_config *config, const char *name);

#endif
