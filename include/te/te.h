/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te.h - the transfer engine: move bytes between memory of two processes
 *
 * An engine has a name, host:port, under which other engines reach it. It
 * publishes regions of memory; whoever may opens its segment by that name and
 * reads or writes the regions one-sided, in batches of requests.
 *
 * Three promises hold for every request, whatever fails:
 *  - it ends within its deadline as done, failed or cancelled;
 *  - once it has ended this engine touches its local memory no more;
 *  - a write that has succeeded is in the target's memory, and a failed one
 *    says whether anything of it can still arrive (TE_REMOTE_QUIET).
 *
 * Functions return 0 or a negative errno unless they say otherwise. Arguments
 * are borrowed for the call; strings and arrays are copied. Threads: any,
 * unless a function says otherwise.
 *
 * An engine belongs to the process that created it. In a fork child its handles
 * are dead: functions that can fail return -ESTALE, the others do nothing, and
 * whatever the child does with them, or how long it lives, parent and peers
 * notice nothing. What te_memory_alloc() returned is the same memory in both.
 */
#ifndef TE_TE_H
#define TE_TE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <te/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct te_config;
struct te_engine;
struct te_batch;

typedef uint64_t te_region_id;  /* 0 is no region */
typedef uint64_t te_segment_id; /* 0 is no segment */

#define TE_INCARNATION_LEN  16 /* random bytes that name one engine's life */
#define TE_GROUP_SECRET_LEN 32
#define TE_PIECES_MAX       1024         /* local pieces of one request */
#define TE_LENGTH_MAX       (1ull << 40) /* bytes of one request */
#define TE_NOTIFY_MAX       65536        /* bytes of one message */
#define TE_NAME_LEN_MAX     263          /* of an engine, without the 0 */

/* ---- configuration ---- */

/**
 * te_config_create - an empty configuration: every setting at its default
 *
 * Environment variables of the settings are read by te_engine_create() and
 * have less weight than te_config_set(). Returns 0 or -ENOMEM.
 */
TE_API int te_config_create(struct te_config **out);
TE_API void te_config_destroy(struct te_config *config); /* NULL is fine */

/**
 * te_config_set - change one setting
 * @name:  "tcp.lanes", "insecure", ...; docs/settings.md lists them
 * @value: text in the syntax of the setting: 4096, 64k, 500ms, true, ...
 * @error: error[error_len] or NULL; on failure one line that names the
 *         setting, the value and what would be right
 *
 * Threads: one per config at a time. Returns 0, or nothing has changed and:
 *   -ENOENT  there is no such setting
 *   -EINVAL  the value is malformed
 *   -ERANGE  the value is outside the setting's limits
 *   -ENOMEM
 */
TE_API int te_config_set(struct te_config *config, const char *name,
			 const char *value, char *error, size_t error_len);

/* ---- engine ---- */

/**
 * te_engine_create - open the backends, listen and start
 * @config: borrowed for the call; NULL: all defaults
 * @name:   "host", "host:port" or "[v6]:port" that peers will use to reach
 *          this engine; port absent or 0: the kernel chooses. NULL: "127.0.0.1".
 *          With a directory (setting metadata_server) and without ":port" any
 *          other word is a name that peers find there, as "prefill-0"
 *
 * Listens on the wildcard address (setting "bind" narrows it), and without
 * setting "insecure" serves peers on this same host only.
 *
 * Blocks: for name look-up and opening of devices.
 * Returns 0, or *out is untouched, the cause is logged and:
 *   -EINVAL         the name, metadata_server or an environment setting is
 *                   malformed, or a device that a setting names is not there
 *   -ENODEV         none of the backends has a device
 *   -EADDRINUSE     the port is taken
 *   -EADDRNOTAVAIL  "bind" is no address of this host
 *   -EMFILE, -ENOMEM, -EAGAIN (threads)
 */
TE_API int te_engine_create(const struct te_config *config, const char *name,
			    struct te_engine **out);

/**
 * te_engine_destroy - cancel what is in flight, close and free
 *
 * Batches are destroyed with their engine; requests end as cancelled. NULL is
 * fine. Threads: set-up only: no other call on the engine during or after it.
 * Blocks: 2 s at most, even with dead peers; longer only while a device does not
 * answer that it has let go of memory, or is just taking some.
 */
TE_API void te_engine_destroy(struct te_engine *engine);

/**
 * te_engine_drive - do what the engine's worker thread would do
 * @timeout_ms: 0: only what is there to do; UINT32_MAX: until there is
 *
 * For engines with the setting worker_thread off. They move bytes, serve peers
 * and see deadlines only while a thread is in te_batch_wait(),
 * te_batch_poll(), here, or in a call that waits for those (as
 * te_peer_revoke()); a batch's eventfd is rung from there, too. Control
 * messages are still handled by a thread of the engine.
 *
 * Blocks: until something was done, @timeout_ms at most. Threads: any. Returns
 * 1 (something was done), 0 (nothing), -EBUSY (another thread drives).
 */
TE_API int te_engine_drive(struct te_engine *engine, uint32_t timeout_ms);

/*
 * The name with the port bound, "127.0.0.1:40123", or as a directory knows it;
 * lives as long as @engine.
 */
TE_API const char *te_engine_name(const struct te_engine *engine);
TE_API void te_engine_incarnation(const struct te_engine *engine,
				  uint8_t out[TE_INCARNATION_LEN]);

/* ---- memory ---- */

enum te_access {
	TE_ACCESS_LOCAL = 0, /* unreachable for peers */
	TE_ACCESS_REMOTE_READ = 1 << 0,
	TE_ACCESS_REMOTE_WRITE = 1 << 1,
};

struct te_region {
	void *addr;
	uint64_t length; /* bytes, 1 .. TE_LENGTH_MAX */
	/*
	 * "cpu:0", "cuda:1" ..., as te_topo_memory() names them. "*" or NULL:
	 * host memory, where its first page is. What touches memory by itself,
	 * as RDMA NICs do, is chosen near it.
	 */
	const char *location;
	/*
	 * group[TE_GROUP_SECRET_LEN]: only engines that prove they know this
	 * secret (te_group_join()) see and reach the region. NULL: every peer
	 * that may connect.
	 */
	const uint8_t *group;
	uint32_t access;        /* TE_ACCESS_* */
	uint32_t reserved_0;    /* must be 0 */
	uint64_t reserved_1[3]; /* must be 0 */
};

/**
 * te_region_add - register memory and publish it to those who may reach it
 *
 * The memory stays the caller's and must stay mapped until
 * te_region_remove(). Peers with an open segment are told at once.
 *
 * Blocks: for the registration. Returns 0, or nothing has changed and:
 *   -EEXIST  exactly this range is registered already
 *   -EINVAL  it overlaps another region, wraps around, has length 0, an
 *            unknown access bit, or reserved fields that are not 0
 *   -ENOBUFS  64 other groups have regions, or a device has no keys left for it
 *   -ENOMEM   also: more than this process may lock for a device
 *   -EFAULT   a device needs it mapped, and writable
 *   -EMFILE, -EOPNOTSUPP (no backend can reach this kind of memory)
 * What a device refuses is logged with the reason. Where some NICs are near the
 * memory, one that is far and cannot take it is done without, which is logged; so is
 * one that has no link. Such a NIC is asked again, when it has its link and from
 * time to time, by a thread of the engine.
 */
TE_API int te_region_add(struct te_engine *engine,
			 const struct te_region *region, te_region_id *out);

/**
 * te_region_remove - nobody reaches the memory once this returns
 *
 * Blocks: until transfers that are just touching it are over, and while a NIC is
 * just asked again to take it; those that have not begun are refused. Returns 0,
 * -ENOENT (no such region).
 */
TE_API int te_region_remove(struct te_engine *engine, te_region_id region);

/**
 * te_region_remove_within - the same, but do not wait for ever
 *
 * A process of this host that stands still in the middle of a copy may touch
 * the memory once it goes on: how long that takes, nobody knows. So may a device
 * that is slow to register it.
 *
 * Returns also -ETIMEDOUT: it is refused to all, but the memory must stay until
 * this or te_region_remove() returns 0, or te_engine_destroy() has returned.
 */
TE_API int te_region_remove_within(struct te_engine *engine,
				   te_region_id region, uint32_t timeout_ms);

/**
 * te_memory_alloc - memory that every backend likes best
 * @length: bytes, rounded up to whole pages
 *
 * Filled with zeros, and touched lazily; with the setting `hugetlb` all pages are
 * there when this returns. Free with te_memory_free() after removing its region.
 *
 * Returns 0, -EINVAL (length 0), -ENOMEM, -ESTALE (a fork child).
 */
TE_API int te_memory_alloc(struct te_engine *engine, uint64_t length,
			   void **out);
TE_API void te_memory_free(struct te_engine *engine, void *addr);

/**
 * te_group_join - know a group's secret, so that its regions can be reached
 *
 * Peers that are connected get the proof at once; others with the first
 * message. Joining twice is fine, and counted. Returns 0, -ENOMEM, -ENOBUFS
 * (64 groups).
 */
TE_API int te_group_join(struct te_engine *engine,
			 const uint8_t secret[TE_GROUP_SECRET_LEN]);

/**
 * te_group_leave - undo one te_group_join()
 *
 * After the last one no peer is given a proof any more; those that have it
 * remember it until their control connection ends. Our own regions of the
 * group stay as they are. Returns 0, -ENOENT (not joined).
 */
TE_API int te_group_leave(struct te_engine *engine,
			  const uint8_t secret[TE_GROUP_SECRET_LEN]);

/* ---- peers and segments ---- */

/**
 * te_segment_open - what the engine of that name publishes to us
 * @name:       "host:port", or a name that the directory knows; the engine's
 *              own name opens its own segment
 * @timeout_ms: for the first contact; 0: the setting open_timeout
 *
 * Opening the same name twice gives the same segment, counted. When the peer
 * restarts, requests to the old one fail with -ESTALE and the next open by
 * the same name reaches the new one.
 *
 * Blocks: up to @timeout_ms. Returns 0, or *out is untouched and:
 *   -EINVAL        the name is malformed, or has no port and this engine no
 *                  directory
 *   -EHOSTUNREACH  no such host
 *   -ETIMEDOUT     not reached, or not in the directory, in time, retries
 *                  included
 *   -EACCES        the peer refuses us (its words are logged)
 *   -EAGAIN        it has refused us for want of memory or of room for one more
 *                  connection, for all that time (its words are logged)
 *   -EPROTO        whoever answers there is no engine, or of another version
 *   -EMFILE        no descriptor was free for the last try, or any before
 *   -ENOMEM
 */
TE_API int te_segment_open(struct te_engine *engine, const char *name,
			   uint32_t timeout_ms, te_segment_id *out);
/**
 * te_segment_expect - the segment of that name, whether its engine is there or not
 * @name: as for te_segment_open()
 *
 * As te_segment_open(), but waits for nothing: of an engine that was never met it is
 * the segment of whichever life is met first. Requests to it begin to reach for the
 * engine, wait for it as for one that is away, and end with -ETIMEDOUT at their
 * deadlines, or before with -EHOSTUNREACH, -EACCES or -EPROTO when te_segment_open()
 * would. Of one that was met it is the segment of the last life that is known.
 *
 * Blocks: never. Returns 0, or *out is untouched and: -EINVAL, as for
 * te_segment_open(), -ENOMEM, -ESTALE (a fork child).
 */
TE_API int te_segment_expect(struct te_engine *engine, const char *name,
			     te_segment_id *out);
/* Undo one open, or expect; unknown ids are ignored. Requests in flight go on. */
TE_API void te_segment_close(struct te_engine *engine, te_segment_id segment);

struct te_segment_region {
	uint64_t addr; /* in the owner's address space: te_request.remote */
	uint64_t length;
	char location[32];
	uint32_t access;
	uint32_t reserved;
};

/**
 * te_segment_regions - the regions that we may see, sorted by address
 * @out: out[*n], or NULL with *n 0 to ask for the number
 * @n:   in: room; out: how many there are, which may exceed the room
 *
 * Returns 0, -ENOENT (no such segment), -ESTALE (its engine has restarted),
 * -EAGAIN (its engine was not met yet, see te_segment_expect()).
 */
TE_API int te_segment_regions(struct te_engine *engine, te_segment_id segment,
			      struct te_segment_region *out, size_t *n);
/* Whose life the segment belongs to, all 0 before it is met. 0, -ENOENT. */
TE_API int te_segment_incarnation(struct te_engine *engine,
				  te_segment_id segment,
				  uint8_t out[TE_INCARNATION_LEN]);

/**
 * te_segment_epoch - the access epoch under which the owner serves us
 * @epoch:    starts at 1 and grows with every te_peer_revoke() of us there
 * @since_ns: CLOCK_MONOTONIC at which we learned it
 *
 * Put it into te_request.epoch to make requests that are void after the next
 * revocation even if they are sent only then. Returns 0, -ENOENT.
 */
TE_API int te_segment_epoch(struct te_engine *engine, te_segment_id segment,
			    uint64_t *epoch, uint64_t *since_ns);

/**
 * te_segment_warm_up - open what requests to the segment would use
 * @timeout_ms: 0: as for te_segment_open()
 * @n_rails:    out, may be NULL: endpoints that are up, also on -ETIMEDOUT
 *
 * Otherwise the first requests open the control connection and the endpoints.
 * Waits until each is up or has failed; with 0 endpoints up, requests still go
 * on trying until their deadlines.
 *
 * Blocks: up to @timeout_ms. Returns 0, or:
 *   -ENOENT     no such segment
 *   -ESTALE     its engine has restarted
 *   -ETIMEDOUT  not each of them is up or has failed in time
 *   -EDEADLK    called by a te_done_fn
 *   and as te_segment_open()
 */
TE_API int te_segment_warm_up(struct te_engine *engine, te_segment_id segment,
			      uint32_t timeout_ms, uint32_t *n_rails);

/**
 * te_peer_revoke - end the access epoch of a peer with us
 * @incarnation: of the peer; NULL: every peer there is or was
 *
 * When it returns 0, nothing that the peer has sent, or will send for the old
 * epoch, is applied to our memory any more. The peer's requests to us fail
 * with -ESTALE; it shakes hands again by itself and goes on. Its other peers
 * are untouched. Also valid for a peer that has never connected.
 *
 * Blocks: until confirmed, @timeout_ms at most (0: 2 s).
 * Returns 0, -ETIMEDOUT (not confirmed: treat the memory as still written to),
 * -ESTALE (a fork child).
 */
TE_API int te_peer_revoke(struct te_engine *engine,
			  const uint8_t incarnation[TE_INCARNATION_LEN],
			  uint32_t timeout_ms);
/**
 * te_peer_revoke_wait - wait on for a te_peer_revoke() that ran out of time
 *
 * As that, but ends nothing anew: who has shaken hands since goes on. Returns 0
 * also when nothing was revoked.
 */
TE_API int te_peer_revoke_wait(struct te_engine *engine,
			       const uint8_t incarnation[TE_INCARNATION_LEN],
			       uint32_t timeout_ms);

/**
 * te_peer_probe - whether an engine answers under a name, and how fast
 * @timeout_ms: for one that is silent; 0: the setting open_timeout
 * @rtt_us:     round trip, may be NULL
 *
 * A no is not waited out: an engine that is about to start is not there yet.
 *
 * Blocks: up to @timeout_ms. Returns 0, or *rtt_us is untouched and:
 *   -ECONNREFUSED  nobody listens there, or the directory has no such name
 *   -ETIMEDOUT     no answer in time
 *   and otherwise as te_segment_open()
 */
TE_API int te_peer_probe(struct te_engine *engine, const char *name,
			 uint32_t timeout_ms, uint64_t *rtt_us);

/* ---- requests and batches ---- */

enum te_op {
	TE_READ = 1,  /* remote to local */
	TE_WRITE = 2, /* local to remote */
	/*
	 * The local pieces are a message, 1 .. TE_NOTIFY_MAX bytes, for the
	 * engine of the segment: see te_notify_take(). `remote` is 0. It is
	 * sent once every request before it in the batch to the same segment
	 * has ended well, so what those have written is there when it is
	 * taken; when one has not, it ends with -ECANCELED. Done: the other
	 * engine has it, once. Messages of a batch arrive in the order in which
	 * they were submitted, those of different batches in the order in which
	 * they were free to go. While that engine's queue is full it waits,
	 * until its deadline. Failed without TE_REMOTE_QUIET: the message may
	 * have arrived, or may still arrive. The priority says nothing here.
	 */
	TE_NOTIFY = 3,
};

/*
 * Which request goes first where several wait for the same rails. Urgent ones
 * overtake normal ones and those bulk ones, but none waits for ever: a lower
 * priority keeps a small share of the way (about one slice in 16).
 */
enum te_priority {
	TE_PRIORITY_NORMAL = 0,
	TE_PRIORITY_URGENT = 1,
	TE_PRIORITY_BULK = 2,
};

enum te_request_flags {
	/* A refused or reset connection ends it at once, without retries. */
	TE_FAIL_FAST = 1 << 0,
	/* Take the CRC32C of crc_len bytes from crc_from on as they pass. */
	TE_CRC = 1 << 1,
	/*
	 * For who can go elsewhere: it ends, too, when no slice of the engine of
	 * the segment has ended for the setting suspect_after, be it of this
	 * request or another one, counted from its submission at the earliest.
	 * Of a read over tcp every part of one counts, so that an engine that is
	 * only slow is waited for. Not for TE_NOTIFY.
	 */
	TE_FAIL_SILENT = 1 << 2,
};

struct te_request {
	uint32_t op;           /* enum te_op */
	uint32_t flags;        /* enum te_request_flags */
	te_segment_id segment; /* te_segment_open(), _expect() */
	uint64_t remote;       /* address in the segment */
	const struct iovec
		*pieces;      /* pieces[n_pieces]: local memory, in order */
	uint32_t n_pieces;    /* 1 .. TE_PIECES_MAX; their sum is the length */
	uint32_t timeout_ms;  /* 0: 30 s + 1 s per GiB */
	uint64_t epoch;       /* from te_segment_epoch(); 0: the current one */
	uint64_t crc_from;    /* with TE_CRC: first byte of the request */
	uint64_t crc_len;     /* with TE_CRC: bytes, within the request */
	uint64_t user;        /* comes back in the completion */
	uint32_t priority;    /* TE_PRIORITY_* */
	uint32_t reserved_0;  /* must be 0 */
	uint64_t reserved[3]; /* must be 0 */
};

enum te_completion_flags {
	/*
	 * Nothing of the request can reach the target's memory, or its inbox,
	 * any more. Always set when error is 0 and for reads.
	 */
	TE_REMOTE_QUIET = 1 << 0,
};

struct te_completion {
	uint64_t user;  /* te_request.user */
	uint64_t bytes; /* moved; the whole length when error is 0 */
	uint32_t index; /* place of the request in the batch, from 0 */
	/*
	 * 0: done. Else why not:
	 *   -ETIMEDOUT   its deadline passed
	 *   -ECANCELED   cancelled, or its engine was destroyed; TE_NOTIFY:
	 *                also when a request before it has failed
	 *   -ESTALE      the peer restarted, or has revoked our access epoch
	 *   -EACCES      the owner does not allow this access
	 *   -EFAULT      the remote range is not inside one region of the
	 *                segment; or it, or local memory, is not mapped (any
	 *                more): seen where the kernel copies, that is over tcp
	 *                and for memory of shm that is no arena
	 *   -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH  with TE_FAIL_FAST only
	 *   -EHOSTDOWN   with TE_FAIL_SILENT only
	 *   -EHOSTUNREACH, -EACCES, -EPROTO  also of an engine that was never
	 *                met: see te_segment_expect()
	 *   -ENOENT      the segment was closed
	 *   -EIO         a backend failed for good; provider_code says how
	 */
	int32_t error;
	int32_t provider_code; /* of the backend, 0: none; for tcp an errno */
	uint32_t retries;      /* attempts after the first */
	uint32_t flags;        /* TE_REMOTE_QUIET */
	uint32_t crc;          /* CRC32C, when asked for and error is 0 */
	uint32_t rail; /* last rail used, for te_rail_name(); ~0: none */
	uint64_t reserved[2];
};

/**
 * te_batch_create - room for @capacity requests that are awaited together
 * @capacity: 1 .. 65536
 *
 * All memory that submitting needs is taken here, piece lists apart, which
 * grow a slab of the batch by chunks. Returns 0, -EINVAL, -ENOMEM, -ECANCELED
 * (the engine is being destroyed).
 */
TE_API int te_batch_create(struct te_engine *engine, uint32_t capacity,
			   struct te_batch **out);

/**
 * te_batch_destroy - cancel what is in flight, wait until it is quiet, free
 *
 * NULL is fine. Blocks: until local memory is quiet; bounded also when peers
 * are dead.
 */
TE_API void te_batch_destroy(struct te_batch *batch);

/**
 * te_batch_submit - start moving bytes
 * @reqs: reqs[n]; copied with their piece lists
 * @n:    1 .. room left in the batch
 *
 * All requests are accepted or none is. The local memory is borrowed until
 * the request has ended. Whether the remote range exists and may be accessed
 * is found out on the way and reported in the completion.
 *
 * Threads: one per batch at a time. Blocks: never. Returns 0, or nothing has
 * started and:
 *   -EINVAL   an op, flag, priority, length, piece or reserved field is out
 *             of range
 *   -ENOENT   a segment is not open
 *   -ENOBUFS  fewer than @n places are left in the batch
 *   -ECANCELED  the batch or the engine is being destroyed
 *   -ENOMEM
 */
TE_API int te_batch_submit(struct te_batch *batch,
			   const struct te_request *reqs, size_t n);

/**
 * te_batch_wait - wait until every submitted request has ended
 * @timeout_ms: 0: only look; UINT32_MAX: as long as the requests' deadlines
 *
 * The waiting thread may drive the rails itself. Threads: one per batch at a
 * time. Returns 0 (all ended, well or not), -ETIMEDOUT, -EDEADLK (called from a
 * te_done_fn).
 */
TE_API int te_batch_wait(struct te_batch *batch, uint32_t timeout_ms);

typedef void te_done_fn(struct te_batch *batch,
			const struct te_completion *completion, void *arg);

/**
 * te_batch_on_done - call @fn for each request that ends, instead of polling
 * @fn: NULL: completions are polled for again
 *
 * Each request that is submitted from now on is told once, in the order in
 * which they end, also when it is cancelled or its engine is destroyed. What
 * has ended before counts as taken. te_batch_wait() returns only after the
 * calls for all requests have returned; te_batch_poll() returns 0 and
 * te_batch_eventfd() stays silent.
 *
 * @fn runs on the engine's own thread, or on one that is inside
 * te_batch_wait(), _poll(), _reset() or _destroy() of any batch of the engine,
 * in te_engine_drive() or te_engine_destroy(); never inside a submission or cancellation, and
 * one at a time. No lock is held, but nothing moves by the engine's rails
 * until it returns, so it should be short. It may submit, to this batch too,
 * cancel, and create batches; it may not wait, reset or destroy, nor call
 * anything else that blocks.
 *
 * Threads: one per batch at a time. Returns 0, -EBUSY (some are in flight).
 */
TE_API int te_batch_on_done(struct te_batch *batch, te_done_fn *fn, void *arg);

/**
 * te_batch_poll - take completions that have not been taken yet
 * @out: out[max]
 *
 * Drives the rails once if nobody does. Threads: one per batch at a time.
 * Blocks: never. Returns how many, 0 .. max.
 */
TE_API int te_batch_poll(struct te_batch *batch, struct te_completion *out,
			 int max);

/**
 * te_batch_result - the completion of one request, without taking it
 *
 * Returns 0, -EAGAIN (in flight), -EINVAL (no such index).
 */
TE_API int te_batch_result(struct te_batch *batch, uint32_t index,
			   struct te_completion *out);

/**
 * te_batch_eventfd - an fd that is readable while completions can be taken
 *
 * Owned by the batch; for poll and epoll, not to be read. Returns the fd,
 * -EMFILE.
 */
TE_API int te_batch_eventfd(struct te_batch *batch);

/**
 * te_batch_cancel, te_request_cancel - end requests early
 *
 * They end with -ECANCELED, soon and also when the peer is dead, but not while a
 * device may still touch their memory; those that have ended already stay as they
 * are. Blocks: never. Returns 0, -EINVAL (no
 * such index).
 */
TE_API int te_batch_cancel(struct te_batch *batch);
TE_API int te_request_cancel(struct te_batch *batch, uint32_t index);

/**
 * te_batch_reset - forget ended requests, so that all room is free again
 *
 * Threads: one per batch at a time. Returns 0, -EBUSY (some are in flight),
 * -EDEADLK (called from a te_done_fn).
 */
TE_API int te_batch_reset(struct te_batch *batch);

/* ---- notifications ---- */

struct te_notify {
	/*
	 * The name that the sender gives itself, which anybody may claim; ""
	 * when it is malformed, or ours. Lives as long as the message.
	 */
	const char *from;
	const void *bytes;                       /* bytes[length] */
	uint32_t length;                         /* 1 .. TE_NOTIFY_MAX */
	uint32_t reserved_0;                     /* 0 */
	uint8_t incarnation[TE_INCARNATION_LEN]; /* of the sender's life */
	uint64_t reserved_1[2];                  /* 0 */
};

/**
 * te_notify_take - the next message that a peer has sent with TE_NOTIFY
 *
 * Messages of one sender come in its order. Those that are not taken wait, as
 * many as the settings notify_queue, notify_queue_bytes and notify_memory say;
 * then senders wait. Any peer that may connect may send.
 *
 * Blocks: never. Returns 0, -EAGAIN (there is none), -EINVAL.
 */
TE_API int te_notify_take(struct te_engine *engine, struct te_notify *out);
/* Frees the message, also after its engine; NULL or all zero is fine. */
TE_API void te_notify_free(struct te_notify *notify);
/**
 * te_notify_eventfd - an fd that is readable while there is a message to take
 *
 * Owned by the engine; for poll and epoll, not to be read. Returns the fd,
 * -EMFILE.
 */
TE_API int te_notify_eventfd(struct te_engine *engine);

/* ---- looking inside ---- */

struct te_stat {
	const char *name;  /* "te_rail_sent_bytes_total"; static */
	const char *label; /* rail or reason, "" when there is none; static */
	uint64_t value;
};

/**
 * te_engine_stats - every counter of the engine
 * @out: out[*n]; *n in: room, out: how many there are
 *
 * Counters only grow; gauges do not end in _total. Returns 0.
 */
TE_API int te_engine_stats(struct te_engine *engine, struct te_stat *out,
			   size_t *n);

enum te_rail_state {
	TE_RAIL_UP = 0,
	TE_RAIL_DOWN = 1,   /* its device is gone, or has no link (yet) */
	TE_RAIL_PAUSED = 2, /* it failed with several peers; tried in a while */
};

struct te_rail_info {
	const char *name;                    /* as te_rail_name() */
	const char *backend;                 /* "tcp"; static */
	uint64_t speed_bps;                  /* of its device; 0: unknown */
	int32_t numa_node;                   /* -1: unknown */
	uint32_t state;                      /* enum te_rail_state */
	uint64_t sent_bytes, received_bytes; /* payload; only grow */
	/* Peers with rails of its backend, none of which it reaches. */
	uint32_t unmatched_peers;
	uint32_t reserved_0;
	uint64_t reserved[3];
};

/**
 * te_engine_rails - the rails of the engine, most preferred backend first
 * @out: out[*n]; *n in: room, out: how many there are
 *
 * Which rails there are never changes; place i is rail i of te_rail_name() and
 * te_completion. Returns 0.
 */
TE_API int te_engine_rails(struct te_engine *engine, struct te_rail_info *out,
			   size_t *n);

/*
 * Whether the engine has a rail of @backend ("verbs"), whatever its state: a
 * backend that is known but has found no device has none. Any thread, any time;
 * false in a fork child.
 */
TE_API bool te_engine_has_backend(struct te_engine *engine,
				  const char *backend);

/* "up", "down", "paused"; "unknown" for none of te_rail_state. Static. */
TE_API const char *te_rail_state_name(uint32_t state);

/* "tcp/0"; "" for an unknown rail. Lives as long as @engine. */
TE_API const char *te_rail_name(const struct te_engine *engine, uint32_t rail);

enum te_link_state {
	TE_LINK_NONE = 0, /* not opened: nothing has needed it */
	TE_LINK_OPENING = 1,
	TE_LINK_UP = 2,
	TE_LINK_PAUSED = 3, /* it has failed; tried again in a while */
	TE_LINK_ABSENT = 4, /* the peer has no rail of this backend */
	TE_LINK_APART = 5,  /* it has, but none that this rail reaches */
};

#define TE_LINK_WAY_LEN 160

struct te_link_info {
	uint32_t rail;       /* ours, its place in te_engine_rails() */
	uint32_t state;      /* enum te_link_state */
	int32_t error;       /* of the last one that failed; 0: none has */
	uint32_t reserved_0; /* 0 */
	uint64_t remote_speed_bps; /* of the peer's rail; 0: unknown */
	/* While it is up, for people: addresses, MTU; "": the backend has none */
	char way[TE_LINK_WAY_LEN];
	uint64_t reserved[4]; /* 0 */
};

/**
 * te_segment_links - how each of our rails stands with a segment's peer
 * @out: out[*n], or NULL with *n 0 to ask for the number
 * @n:   in: room; out: how many rails there are, which may exceed the room
 *
 * Requests go by the most preferred backend of te_engine_rails() that has a
 * rail which is up and a link that is not absent, apart or paused, and that
 * reaches the region. te_segment_warm_up() opens what they would use.
 *
 * Blocks: until the worker has looked, for one round of its. Returns 0, or:
 *   -ENOENT   no such segment
 *   -ESTALE   its engine has restarted
 *   -EDEADLK  called by a te_done_fn
 */
TE_API int te_segment_links(struct te_engine *engine, te_segment_id segment,
			    struct te_link_info *out, size_t *n);
/* "none", "opening" ...; "unknown" for none of te_link_state. Static. */
TE_API const char *te_link_state_name(uint32_t state);

/* Text for an error of this library (a negative errno), static. */
TE_API const char *te_strerror(int error);

/* CRC32C (Castagnoli) of @bytes continuing @crc; start with 0. */
TE_API uint32_t te_crc32c(uint32_t crc, const void *bytes, size_t len);
/* CRC32C of A followed by B from those of A and B. */
TE_API uint32_t te_crc32c_combine(uint32_t crc_a, uint32_t crc_b,
				  uint64_t len_b);

/**
 * te_log_set - receive log lines instead of having them on stderr
 * @fn:    level 0 error, 1 warn, 2 info, 3 debug; @line is borrowed. NULL: stderr
 *
 * Threads: set-up only; @fn is called from any thread.
 */
typedef void te_log_fn(int level, const char *line, void *arg);
TE_API void te_log_set(te_log_fn *fn, void *arg);
/* Default 1, or environment TE_LOG (error, warn, info, debug or 0 .. 3). */
TE_API void te_log_set_level(int level);
/* Log a line as the library does, for libraries on top of this one. */
TE_API void te_log_write(int level, const char *line);
/*
 * For the same: the warning "@call: @why". The same one is written 6 times a
 * minute at most, for callers do again and again what is refused; then a line
 * says how many were left out.
 */
TE_API void te_log_refusal(const char *call, const char *why);

#ifdef __cplusplus
}
#endif

#endif
