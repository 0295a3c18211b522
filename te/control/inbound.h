/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbound.h - remote engines as they access our regions
 *
 * A guest is known by its incarnation and has an access epoch, which only
 * grows. A visitor is one control connection of a guest: groups are proven,
 * and count, per visitor, since anybody may claim an incarnation. The guest's
 * target links outlive its visitors until they are dropped or their lanes
 * close.
 *
 * An epoch that was never revoked equals `floor`, so guests that are not
 * connected need to be remembered only above it. When there are too many,
 * the floor is raised and they are forgotten: that revokes all, which is safe.
 * Guests that have notified are remembered, too, as long as few others have
 * left since.
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
struct tei_guest;
struct tei_link;

#define TEI_GUESTS_MAX      65536u
#define TEI_GUEST_LINKS_MAX 64u
#define TEI_ABSENT_MAX      4096u
#define TEI_EPOCH_FIRST     1u

struct tei_guest {
	struct tei_hash_node node;
	uint8_t incarnation[TE_INCARNATION_LEN];
	_Atomic uint64_t epoch; /* written by control, seq_cst; read by all */
	uint64_t told; /* what the guest is told: all before it is settled */
	struct tei_list links;    /* target links */
	struct tei_list visitors; /* by of_guest */
	uint32_t n_links;
	/* Of its notifications; kept when it leaves, so that none comes twice. */
	uint64_t taken;              /* number of the last one in the inbox */
	struct tei_account *account; /* NULL: none yet */
	struct tei_list absent;      /* guests.absent: kept only for that */
};

/* What a visitor has shown to know; kept for regions that are added later. */
struct tei_shown_proof {
	uint8_t tag[TEI_GROUP_TAG_LEN];
	uint8_t proof[TEI_GROUP_PROOF_LEN];
	bool wrong;
};

struct tei_visitor {
	struct tei_list link;     /* guests.visitors */
	struct tei_list of_guest; /* once it has said hello */
	struct te_engine *engine;
	struct tei_frame_conn *conn;
	struct tei_guest *guest; /* NULL before hello */
	struct tei_group_challenge challenge;
	char name[TE_NAME_LEN_MAX + 1]; /* that it gives itself; not proven */
	tei_group_mask groups;          /* of regions.groups, proven */
	unsigned int n_proofs;
	struct tei_shown_proof *proofs; /* proofs[n_proofs]; owned */
	uint64_t told_version;          /* of the regions; 0: never described */
};

/* Who awaits that a link is gone. */
struct tei_dropper {
	struct tei_list link; /* link.in.droppers */
	struct tei_visitor *visitor;
	uint64_t id; /* of the Drop frame */
};

struct tei_guests {
	struct tei_hash table;
	uint64_t seed; /* of the table */
	uint64_t floor;
	struct tei_list visitors;
	struct tei_list absent; /* guests, who left longest ago first */
	uint32_t n_absent;
	uint64_t n_losses;       /* guests forgotten though they had notified */
	struct tei_list revokes; /* struct revocation, on callers' stacks */
	struct tei_guest self;   /* this engine; in no table */
	_Atomic bool push_posted;
	struct tei_call push_call;
	struct tei_timer *push_timer; /* for those who do not read; NULL */
};

int tei_guests_init(struct te_engine *engine); /* -ENOMEM. Set-up */
/* Both threads have ended: free all, links included. */
void tei_guests_fini(struct te_engine *engine);
/* When control has ended: the guests' links are broken, and closed by who drives. */
void tei_guests_break_links(struct te_engine *engine);

/* Found or made, with epoch >= floor. NULL: out of memory. */
struct tei_guest *tei_guest_get(struct te_engine *engine,
				const uint8_t incarnation[TE_INCARNATION_LEN]);
struct tei_guest *tei_guest_find(struct te_engine *engine,
				 const uint8_t incarnation[TE_INCARNATION_LEN]);
/* Forget it if nothing is known that its absence would not say. */
void tei_guest_release(struct te_engine *engine, struct tei_guest *guest);

/* Stop what comes by @link; tei_guest_link_gone() follows. */
void tei_guest_drop_link(struct tei_link *link);
/* Calls from the worker: opened or failed to; closed; was closed already. */
void tei_guest_link_gone(struct tei_call *call);
void tei_guest_link_late(struct tei_call *call);

/* Nobody has proven the group in that place. Any thread. */
void tei_guests_forget_group(struct te_engine *engine, unsigned int place);

/* Drop target links that pin a region. Any thread but ours; waits for none. */
void tei_guests_drop_pinning(struct te_engine *engine);

/* ---- ending access epochs ---- */

/*
 * An epoch ends in three steps: the number grows (from then on no slice of
 * the old one gets at a region), the target links of the old one are dropped
 * (so what had begun ends), and when the last is gone the caller returns and
 * the guest is told. Not before: it takes the news for a promise that nothing
 * of the old epoch can land any more.
 */

/* Tell the guest of its new epoch once nothing of the old one is left. */
void tei_guest_settle(struct tei_guest *guest);
/* End the epochs of all and raise the floor; waits for nothing. Control. */
void tei_revoke_all(struct te_engine *engine);
/* A link is gone: is a revocation complete? Control. */
void tei_revokes_check(struct te_engine *engine);

/* ---- one who has come to our control port, and its questions ---- */

/*
 * Threads: control.
 */

/* Serve a new connection. -ENOMEM: it stays the caller's. */
int tei_visitor_came(struct te_engine *engine, struct tei_frame_conn *conn);
/* Close its connection and forget it. Its guest's links live on. */
void tei_visitor_leave(struct tei_visitor *visitor);
/* Without memory for it, its connection ends. */
void tei_visitor_reply(struct tei_visitor *visitor, const struct tei_frame *to,
		       const struct ProtobufCMessage *m);
/* visit_notify.c: it has sent a Notify. */
void tei_visitor_notify(struct tei_visitor *visitor, const struct tei_frame *f);
/*
 * Tell it of our regions, if it has asked before and they have changed. False:
 * not now, it has not read what was sent before.
 */
bool tei_visitor_push(struct tei_visitor *visitor);

/* inbox.room(): tell the peer that it may notify again. */
void tei_notify_room(struct te_engine *engine, struct tei_guest *guest);

#endif
