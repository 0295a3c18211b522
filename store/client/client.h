/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - the inside of struct te_store
 *
 * Three kinds of threads meet here. The caller's does all the work of put and
 * get: it digests keys, drives an engine batch, verifies, and writes and reads
 * the main connection to the master itself (channel.c). The loop's connects it,
 * and keeps the heartbeat connection (link.c). The helper's does what blocks:
 * resolving, revoking writers, publishing the segment. Locks are leaves: none
 * is held while another is taken, nor over a call into the engine that may
 * block.
 *
 *   caller --channel.c--> master <--heartbeats-- loop (link.c)
 *   caller --batch--> engine <--> owners      loop --jobs--> helper --> engine
 */
#ifndef STORE_CLIENT_CLIENT_H
#define STORE_CLIENT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#include "base/arena.h"
#include "base/faster.h"
#include "base/frame.h"
#include "base/http.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/thread.h"
#include "store/client/addresses.h"
#include "store/client/buffers.h"
#include "store/client/channel.h"
#include "store/client/draft.h"
#include "store/client/helper.h"
#include "store/client/hot.h"
#include "store/client/link.h"
#include "store/client/locations.h"
#include "store/client/ops.h"
#include "store/client/owners.h"
#include "store/client/pins.h"
#include "store/client/renewal.h"
#include "store/client/work.h"
#include "store/owner/executor.h"
#include "store/owner/segment.h"
#include "store/proto/protocol.h"

struct tes_dummy;

#define TES_LOST_KEYS 65536u /* bits */

/*
 * Keys whose start had no answer in time, or no memory to go on with, as bits
 * by their hash: one too many does no harm. Relaxed: starts of other threads
 * need no order.
 */
struct tes_lost_starts {
	atomic_ullong at_ns; /* the last, monotonic; 0: none */
	atomic_uint bits[TES_LOST_KEYS / 32];
};

struct te_store {
	const struct tes_store_ops *ops;
	struct tes_addresses addresses; /* of the caller's memory */
	struct tes_dummy *dummy; /* NULL: direct; else all that there is */
	uint64_t call_timeout_ms, replica_timeout_ms;
	uint32_t drain_timeout_ms;             /* of a close; 0: none */
	char host[TES_STORE_HOST_MAX + 1];     /* names this machine */
	char tenant[TES_STORE_TENANT_MAX + 1]; /* "": `default` */
	struct te_engine *engine;
	bool own_engine;
	uint8_t client_secret[TES_STORE_SECRET_LEN]; /* for the master only */
	uint8_t incarnation[TE_INCARNATION_LEN];
	uint8_t engine_secret[TE_ENGINE_SECRET_LEN]; /* for the master only */

	struct tei_loop *loop;
	struct tei_http *http; /* NULL: none was asked for */
	uint64_t http_refused[TEI_HTTP_REFUSALS];
	struct tes_helper helper;
	struct tes_master_link link; /* the loop's */
	struct tes_channel channel;  /* to the master, while the link is up */
	struct tes_segments segments;
	struct tes_executor executor;
	struct tes_owners owners;
	struct tes_works works;
	struct tes_locations locations;
	struct tes_renewal renewal;
	struct tes_hot hot;
	struct tes_pins pins;
	struct tes_buffers buffers;
	struct tes_drafts drafts;
	atomic_ullong digest_seed; /* of the master we are with */
	atomic_uint turn;          /* which of equal replicas is next */
	atomic_ullong n_put_retries;
	struct tes_lost_starts lost_starts;
	struct tei_faster put_pipelines; /* one, or two */

	struct tei_mutex mu;     /* lock 40 */
	struct tei_cond changed; /* of what follows */
	bool ready;              /* guarded by mu: connected and mounted */
	int verdict;             /* guarded by mu: why not, a store code */
};

/* Tell who waits in setup, and health: ready, or why not. Any thread. */
void tes_store_set_ready(struct te_store *store, bool ready, int verdict);

#define TES_DRAIN_MAX_MS 600000u

/* True: memory of ours is in the pool (owner/mount.c). Any thread. */
bool tes_lends(struct te_store *store);
/* Tell the master, as far as there is time (owner/mount.c). Set-up only. */
void tes_unmount_all(struct te_store *store, uint64_t deadline_ns);
/* Whatever kind of store it is for. */
bool tes_config_holds(const struct te_store_config *config);
/* Checks a name by the rules of te_store_config.tenant. */
bool tes_tenant_holds(const char *name);

/* ---- calls to the master (channel.c) ---- */

struct ProtobufCMessage;

/*
 * Ask the master and wait. @msg is borrowed for the call. Returns 0, -900 (not
 * connected, or the connection broke), -901 (no answer by @deadline_ns), -1.
 * Threads: any but the loop's.
 */
int tes_store_call(struct te_store *store, uint16_t type,
		   const struct ProtobufCMessage *msg, struct tei_arena *arena,
		   uint64_t deadline_ns, struct tes_reply *out);
/* A call that is answered while its caller does something else. */
struct tes_store_asked {
	struct tes_channel_call call;
	uint16_t type;
	const struct ProtobufCMessage *msg; /* borrowed until answered */
	int code;                           /* not 0: it has not begun */
};
/*
 * The two halves of tes_store_call(); between them @msg and @arena are not the
 * caller's. The second must follow, and returns what the whole would have.
 */
void tes_store_ask(struct te_store *store, uint16_t type,
		   const struct ProtobufCMessage *msg, struct tei_arena *arena,
		   uint64_t deadline_ns, struct tes_store_asked *asked);
int tes_store_answered(struct te_store *store, struct tes_store_asked *asked,
		       struct tes_reply *out);
/* now + call timeout, in ns. */
uint64_t tes_call_deadline(const struct te_store *store);
/* The reply does not decode or its columns have the wrong length: -900. */
int tes_bad_reply(const char *what);

/* Call that waits for the link to be up. Belongs to the loop until done. */
struct tes_link_wait {
	struct tei_call post;    /* to the loop */
	struct tei_list waiting; /* in link->waiting while not connected */
	struct te_store *store;
	struct tei_mutex mu; /* lock 47 */
	struct tei_cond cond;
	bool done; /* guarded by mu */
	int code;  /* guarded by mu */
};
/* Loop thread: the link is up (0), or @wait is in vain. */
void tes_link_wait_done(struct tes_link_wait *wait, int code);

/*
 * Reports a silent owner to the master (query.c); for owners->silent, @arg is
 * a store. Any thread.
 */
void tes_report_silent(void *arg,
		       const uint8_t incarnation[TE_INCARNATION_LEN]);

/* Drops cached locations and values of @keys, which may be removed by now. */
void tes_forget_keys(struct te_store *store, const struct te_store_key *keys,
		     size_t n);

/* ---- codes (results.c) ---- */

/* The store's code for a negative errno of the engine. */
int tes_store_code(int error);
/* Returns the first result that is not 0, or 0: the code of a whole call. */
int tes_first_code(const int *results, size_t n);

/* ---- arguments (args.c) ---- */

bool tes_keys_given(const struct te_store *store,
		    const struct te_store_key *keys, size_t n,
		    const void *results);
bool tes_key_holds(const struct te_store_key *key);
/* Bytes of those of @keys that hold. */
size_t tes_keys_bytes(const struct te_store_key *keys, size_t n);
/* Bytes of all pieces, or 0: malformed, empty or above TE_STORE_VALUE_MAX. */
uint64_t tes_value_bytes(const struct te_store_value *value);
/* Tells whether put may take @how (NULL: it may) for a call of @n keys. */
bool tes_replicate_holds(const struct te_store_replicate *how, size_t n);
/*
 * Returns how many of the keys from keys[from] on fit one call to the master:
 * at least one, TE_STORE_BATCH_MAX at most.
 */
size_t tes_chunk(const struct te_store_key *keys, size_t from, size_t n);

#endif
