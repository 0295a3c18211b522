/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - the way to the master: two connections that live and die together
 *
 *   DOWN --retry--> LOOKING_UP --> GREETING --main's hello--> UP
 *    ^                   |            |                       |
 *    +-------------------+------------+-----------------------+
 *              anything failed: both closed, back off 50 ms .. 1 s
 *
 * Calls go over the main connection from UP on: then its socket is the
 * channel's (channel.h), and only its end is watched here. The heartbeat's is
 * opened then; its replies say whether our segment has to be mounted (again),
 * and it brings the fences. A new digest seed is a new master; the epoch of one
 * may grow.
 *
 * Threads: all on the loop's thread unless a function says otherwise.
 */
#ifndef STORE_CLIENT_LINK_H
#define STORE_CLIENT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>
#include <te/te.h>

#include "base/frame.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "store/client/unread.h"
#include "store/proto/protocol.h"

struct event;
struct te_store;
struct tei_lookup;

enum tes_master_link_state {
	TES_MASTER_LINK_DOWN,
	TES_MASTER_LINK_LOOKING_UP,
	TES_MASTER_LINK_GREETING,
	TES_MASTER_LINK_UP,
};

struct tes_master_link;

/*
 * Messages to the owner's side, whose segments the heartbeat is about. All are
 * called on the loop's thread.
 */
struct tes_owner_messages {
	/* Returns how many segments are mounted; goes with each heartbeat. */
	uint32_t (*count_mounts)(const struct tes_master_link *link);
	/* A heartbeat was answered; @remount: the master lacks segments. */
	void (*heartbeat_done)(struct tes_master_link *link, bool remount);
	/*
	 * The master wants a writer's access ended; tes_master_link_fenced()
	 * answers. -ENOMEM.
	 */
	int (*fence)(struct te_store *store, uint64_t generation,
		     uint64_t fence, const uint8_t writer[TE_INCARNATION_LEN]);
	/* Pushes of the master, decoded there. */
	void (*committed)(struct tes_master_link *link,
			  const struct tei_frame *f);
	void (*bury)(struct tes_master_link *link, const struct tei_frame *f);
	void (*task)(struct tes_master_link *link, const struct tei_frame *f);
};

struct tes_master_link {
	struct te_store *store; /* not owned */
	const struct tes_owner_messages *owner;
	char *master; /* host:port */
	enum tes_master_link_state state;
	uint64_t generation; /* of the pair of connections; late answers of
			      * helpers belong to an older one */
	struct tei_lookup *lookup;
	struct tei_address to; /* the one that was connected */
	struct tei_frame_conn *main, *heartbeat; /* main: until it is greeted */
	struct tei_frame_call hello, heartbeat_hello, beat;
	bool beating;              /* beat is under way */
	bool mounting, unmounting; /* and these, see owner/mount.c */
	bool more;                 /* segments came while mounting */
	bool beaten;               /* a heartbeat of this pair was answered */
	struct tes_unread unread;  /* of heartbeat */
	struct tei_call lost;      /* posted when the pair has to be closed */
	bool losing;
	struct tei_call broke;     /* posted by the channel, once each open */
	uint64_t broke_generation; /* of the channel then; guarded by its mu */
	struct event *hangup;      /* of the channel's socket; or NULL */
	struct event *retry;
	struct tei_timer *heartbeat_timer, *awake_timer;
	uint64_t beat_ns;  /* when the last heartbeat was sent */
	uint64_t awake_ns; /* when the loop was last seen to run */
	/* Time when it ran again after so long that a master may have given
	 * up a silent owner; 0: never. */
	uint64_t slept_ns;
	uint64_t backoff_ms;
	uint64_t down_since_ns;
	char told
		[128]; /* reason that was told last; "": none since it was up */
	struct tei_log_limit tells;
	bool tenant_warned; /* that tenants are off at the master */
	bool stopped;

	/* Fields from the hello of the master that the link leads to. */
	uint64_t epoch, digest_seed, heartbeat_ms, client_ttl_ms, n_beats;
	uint8_t epoch_proof[TES_STORE_PROOF_LEN]; /* the next master's to see */
	size_t epoch_proof_len;                   /* 0: none */
	uint8_t name_proof[TES_STORE_NAME_LEN];   /* as well */
	size_t name_proof_len;
	uint8_t group[TES_STORE_GROUP_LEN];
	bool pads;   /* see TES_STORE_PADS */
	bool joined; /* the engine knows the group */

	struct tei_list waiting; /* struct tes_link_wait */
};

/* @master is copied. -ENOMEM. */
int tes_master_link_init(struct tes_master_link *link, struct te_store *store,
			 const struct tes_owner_messages *owner,
			 const char *master);
/* Frees the link after the loop has stopped. */
void tes_master_link_fini(struct tes_master_link *link);
/* -ENOMEM. */
int tes_master_link_start(struct tes_master_link *link);
/* Close both and never come back; who waits for UP fails. */
void tes_master_link_stop(struct tes_master_link *link);
/* The pair is of no use any more: close it soon, and try again. */
void tes_master_link_lose(struct tes_master_link *link, const char *why);
/*
 * The master has told us its epoch: the same one has gone above that of another
 * master. An earlier one changes nothing.
 */
void tes_master_link_epoch(struct tes_master_link *link, uint64_t epoch,
			   const ProtobufCBinaryData *proof);
/*
 * The helper has ended a writer's access (or not): tell the master. -EBUSY: not
 * yet.
 */
void tes_master_link_fenced(struct tes_master_link *link, uint64_t generation,
			    uint64_t fence, int rc);

#endif
