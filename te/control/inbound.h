/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbound.h - remote engines as they access our regions
 *
 * An inbound peer is known by its incarnation and by a secret that only it and
 * we know, and has an access epoch, which only grows. Anybody may claim an
 * incarnation, so without the secret he is another inbound peer, who gets
 * nothing that is this one's and takes nothing from it. What is asked by
 * incarnation, to end epochs, is for all that claim it.
 *
 * An inbound connection is one control connection of an inbound peer: groups
 * are proven, and count, per inbound connection. The inbound peer's target
 * links outlive its inbound connections until they are dropped or their lanes
 * close, or until nobody has come back for a while: where a NIC serves, nothing
 * else shows that the other half is gone.
 *
 * An epoch that was never revoked equals `floor`, so inbound peers that are not
 * connected need to be remembered only above it. Those with a secret need it
 * not even then: the one without, which a revocation makes, has the epoch of
 * all who claim its incarnation. When there are too many, the floor is raised
 * and they are forgotten: that revokes all, which is safe. Inbound peers that
 * have notified are remembered, too, as long as few others have left since.
 *
 * Threads: control, unless said otherwise.
 */
#ifndef TE_CONTROL_INBOUND_H
#define TE_CONTROL_INBOUND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/thread.h"
#include "te/region/group.h"

struct ProtobufCMessage;
struct te_engine;
struct tei_frame;
struct tei_frame_conn;
struct tei_inbound_peer;
struct tei_link;

#define TEI_INBOUND_PEERS_MAX 65536u
#define TEI_INBOUND_LINKS_MAX 64u
#define TEI_ABSENT_MAX        4096u
#define TEI_EPOCH_FIRST       1u

/* Identity of an inbound peer. */
struct tei_inbound_id {
	uint8_t incarnation[TE_INCARNATION_LEN];
	uint8_t secret[TEI_PEER_SECRET_LEN]; /* all 0: none */
};

struct tei_inbound_peer {
	struct tei_hash_node node;
	struct tei_inbound_id id;
	_Atomic uint64_t epoch; /* written by control, seq_cst; read by all */
	/* acknowledged to the inbound peer: all before it is settled */
	uint64_t announced_epoch;
	struct tei_list links; /* target links */
	struct tei_list conns; /* by of_peer */
	uint32_t n_links;
	struct tei_timer *alone; /* ends its links: no connection; NULL */
	/* Kept when the peer leaves, so that no notification comes twice. */
	uint64_t taken;              /* number of the last one in the inbox */
	struct tei_account *account; /* NULL: none yet */
	struct tei_list absent;      /* inbound.absent: kept only for that */
};

/*
 * Proof of a group secret that an inbound connection has shown; kept for
 * regions that are added later.
 */
struct tei_shown_proof {
	uint8_t tag[TEI_GROUP_TAG_LEN];
	uint8_t proof[TEI_GROUP_PROOF_LEN];
	bool wrong;
};

struct tei_inbound_conn {
	struct tei_list link;    /* inbound.conns */
	struct tei_list of_peer; /* once it has said hello */
	struct te_engine *engine;
	struct tei_frame_conn *conn;
	struct tei_inbound_peer *inbound; /* NULL before hello */
	struct tei_group_challenge challenge;
	uint64_t features; /* that it knows, as it said in its hello */
	char name[TE_NAME_LEN_MAX + 1]; /* that it gives itself; not proven */
	tei_group_mask groups;          /* of regions.groups, proven */
	unsigned int n_proofs;
	struct tei_shown_proof *proofs; /* proofs[n_proofs]; owned */
	/* of the regions; 0: never described */
	uint64_t announced_version;
};

/* Waits for the end of a link; one for each connection that asked for it. */
struct tei_dropper {
	struct tei_list link; /* link.in.droppers */
	struct tei_inbound_conn *conn;
	uint64_t id; /* of the Drop frame */
};

struct tei_inbound_peers {
	struct tei_hash table;
	uint64_t seed; /* of the table */
	uint64_t floor;
	struct tei_list conns;
	struct tei_list absent; /* inbound peers, who left longest ago first */
	uint32_t n_absent;
	/* inbound peers forgotten though they had notified */
	uint64_t n_losses;
	struct tei_list revokes; /* struct revocation, on callers' stacks */
	struct tei_inbound_peer self; /* this engine; in no table */
	_Atomic bool push_posted;
	struct tei_call push_call;
	struct tei_timer *push_timer; /* for those who do not read; NULL */
};

int tei_inbound_peers_init(struct te_engine *engine); /* -ENOMEM. Set-up */
/* Frees all inbound peers and their links; both threads have ended. */
void tei_inbound_peers_fini(struct te_engine *engine);
/* Waits for nobody any more to come back: the engine's ports are closed. */
void tei_inbound_peers_stop_waiting(struct te_engine *engine);
/*
 * Breaks the inbound peers' links when control has ended; who drives closes
 * them.
 */
void tei_inbound_peers_break_links(struct te_engine *engine);

/* Found or made, with epoch >= floor. NULL: out of memory. */
struct tei_inbound_peer *tei_inbound_peer_get(struct te_engine *engine,
					      const struct tei_inbound_id *id);
struct tei_inbound_peer *tei_inbound_peer_find(struct te_engine *engine,
					       const struct tei_inbound_id *id);
/*
 * inbound_peers.c: a new one, with the epoch of its incarnation. NULL: out of
 * memory.
 */
struct tei_inbound_peer *tei_inbound_peer_add(struct te_engine *engine,
					      const struct tei_inbound_id *id);
/* inbound_peers.c: forget all that have neither links nor connections. */
void tei_inbound_peers_forget(struct te_engine *engine);
/* Forget it if nothing is known that its absence would not say. */
void tei_inbound_peer_release(struct te_engine *engine,
			      struct tei_inbound_peer *inbound);

/* Stop what comes by @link; tei_inbound_peer_link_gone() follows. */
void tei_inbound_peer_drop_link(struct tei_link *link);
/* Calls from the worker: opened or failed to; closed; was closed already. */
void tei_inbound_peer_link_gone(struct tei_call *call);
void tei_inbound_peer_link_late(struct tei_call *call);

/* Makes all forget that they proved the group in that place. Any thread. */
void tei_inbound_peers_forget_group(struct te_engine *engine,
				    unsigned int place);

/* Drop target links that pin a region. Any thread but ours; waits for none. */
void tei_inbound_peers_drop_pinning(struct te_engine *engine);

/* ---- ending access epochs ---- */

/*
 * An epoch ends in three steps: the number grows (from then on no slice of the
 * old one gets at a region), the target links of the old one are dropped (so
 * what had begun ends), and when the last is gone the caller returns and the
 * inbound peer is notified. Not before: it takes this for a promise that
 * nothing of the old epoch can land any more.
 */

/*
 * Tell the inbound peer of its new epoch once nothing of the old one is left.
 */
void tei_inbound_peer_settle(struct tei_inbound_peer *inbound);
/* End the epochs of all and raise the floor; waits for nothing. Control. */
void tei_revoke_all(struct te_engine *engine);
/* A link is gone: is a revocation complete? Control. */
void tei_revokes_check(struct te_engine *engine);

/* ---- one who has come to our control port, and its questions ---- */

/*
 * Threads: control.
 */

/* Serve a new connection. -ENOMEM: it stays the caller's. */
int tei_inbound_conn_came(struct te_engine *engine,
			  struct tei_frame_conn *conn);
/* Close its connection and forget it. Its inbound peer's links live on. */
void tei_inbound_conn_leave(struct tei_inbound_conn *conn);
/* Sends a reply; without memory for it, ends the connection. */
void tei_inbound_conn_reply(struct tei_inbound_conn *conn,
			    const struct tei_frame *to,
			    const struct ProtobufCMessage *m);
/* notifications.c: the peer has sent a Notify. */
void tei_inbound_conn_notify(struct tei_inbound_conn *conn,
			     const struct tei_frame *f);
/*
 * Tell it of our regions, if it has asked before and they have changed. False:
 * not now, it has not read what was sent before.
 */
bool tei_inbound_conn_push(struct tei_inbound_conn *conn);

/* inbox.room(): tell the peer that it may notify again. */
void tei_notify_room(struct te_engine *engine,
		     struct tei_inbound_peer *inbound);

#endif
