/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - how one peer is reached, and how fast
 *
 * The engine decides by what a peer is reached: memory of it is read for a
 * moment, and the rails that carried the bytes tell. Judging what was seen is
 * apart from seeing it.
 *
 * Written to is only memory that begins with TEI_SCRATCH_MARK, which te-doctor
 * publishes for that; never that of others.
 */
#ifndef CMD_DOCTOR_PEER_H
#define CMD_DOCTOR_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <te/te.h>

#include "cmd/doctor/report.h"

#define TEI_PEER_RAILS 64

#define TEI_SCRATCH_MARK "te-doctor: this memory may be written to\n"
#define TEI_SCRATCH_HEAD 4096 /* bytes that are not written to */

/* The outcome of moving bytes in one direction. */
struct tei_run {
	bool possible;      /* there is memory of the peer's for it */
	int error;          /* of the first request that failed */
	uint64_t bytes, ns; /* moved, and in which time */
};

/* A rail of ours, in the engine's order of preference. */
struct tei_peer_rail {
	const char *name, *backend; /* not owned; of the engine */
	uint32_t state;             /* enum te_rail_state */
	uint64_t speed_bps;         /* 0: unknown */
	uint64_t bytes;             /* read by it */
	uint32_t link;              /* enum te_link_state, after that */
	int error;                  /* of its last link that failed; 0: none */
	char way[TE_LINK_WAY_LEN]; /* "": its link is not up, or does not say */
	uint64_t written;          /* bytes, by it */
};

/* Findings of a visit to one peer. */
struct tei_peer_visit {
	const char *name; /* not owned */
	int error;        /* of opening its segment; the rest is then empty */
	uint64_t rtt_us;  /* of a control message; 0: not known */
	struct tei_run read, write;
	bool has_rdma; /* this host has a port with RDMA that is up */
	size_t n_rails;
	struct tei_peer_rail rails[TEI_PEER_RAILS];
};

/* Plan of a visit. */
struct tei_peer_plan {
	uint64_t time_ms; /* in each direction */
	bool write;       /* too, where there is memory for it */
	bool has_rdma;
};

/*
 * Read from a peer, and write. Blocks: some seconds longer than planned, at
 * most. 0, or what creating a batch or getting memory failed with. *out names
 * what belongs to @engine and to the caller.
 */
int tei_peer_visit(struct te_engine *engine, const char *name,
		   const struct tei_peer_plan *plan,
		   struct tei_peer_visit *out);

/* Add the findings about a peer. */
void tei_peer_judge(const struct tei_peer_visit *v, struct tei_report *r);
/* The backend that has read or written most; NULL: none. */
const char *tei_peer_carrier(const struct tei_peer_visit *v);
/* "; before it shm, which the peer does not have": why not a preferred one. */
void tei_peer_why(const struct tei_peer_visit *v, const char *chosen, char *out,
		  size_t room);

#endif
