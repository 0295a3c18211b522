/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the control port: the protocol, and our side as an owner
 *
 * Threads: control, unless said otherwise.
 */
#ifndef TE_CONTROL_CONTROL_H
#define TE_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/frame.h"
#include "te/control/inbound.h"
#include "te/control/peer.h"
#include "te/region/group.h"

struct Te__Description;
struct Te__GroupProof;
struct te_engine;
struct tei_arena;
struct tei_entry;
struct tei_link;
struct tei_inbound_conn;

#define TEI_CONTROL_VERSION 1u
/* Feature bits of an initiator's hello; an older one ends at what is new. */
#define TEI_CONTROL_GONE (1u << 0) /* heeds Gone */

/* Control thread, but for what says otherwise. */
struct tei_control {
	struct te_engine *engine;
	struct tei_frame_server *server;
	struct tei_arena arena; /* of the frame being handled */
	struct tei_inbound_peers inbound;
	struct tei_names names;
	/* Random bytes of this life, for tei_peer_secret(). */
	uint8_t secret[TEI_PEER_SECRET_LEN];
	bool closed;                 /* connects nowhere any more */
	struct tei_group_set joined; /* guarded by engine->mu */
	struct tei_call links_lost;  /* some rail's `lost` is set */
	_Atomic bool links_lost_posted;
};

extern const struct tei_frame_protocol tei_control_protocol;

/* Messages of the transfer room to control. */
extern const struct tei_transfer_messages tei_control_messages;

void tei_control_init(struct te_engine *engine);
void tei_control_fini(struct te_engine *engine);
/* Listen, and complete the engine's name by the port bound. Set-up. */
int tei_control_listen(struct te_engine *engine, uint16_t port);
/* Closes all inbound connections; no more come. */
void tei_control_close(struct te_engine *engine);

/* Tell everybody who may see them of changed regions. Any thread. */
void tei_control_push_regions(struct te_engine *engine);

/*
 * Answers that come later, by links; no-ops once the inbound connection has
 * left.
 */
void tei_control_revoked(struct tei_inbound_conn *conn, uint64_t epoch);

/*
 * Proofs of every group in @set for @side, in engine->control->arena. Returns
 * how many, -ENOMEM.
 */
int tei_control_proofs(struct te_engine *engine,
		       const struct tei_group_set *set,
		       const struct tei_group_challenge *challenge, char side,
		       struct Te__GroupProof ***out);

/* Count what frame.h reports. */
void tei_control_count_fault(struct te_engine *engine,
			     enum tei_frame_fault fault);

/* ---- what we let a directory say of us ---- */

/* Listening. Any thread, not with mu held. */
void tei_advertise(const struct te_engine *engine, struct tei_entry *out);
/* An address of a rail may be another: the entry is written again if it is. */
void tei_advertise_again(struct te_engine *engine);

#endif
