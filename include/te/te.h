/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te.h - the transfer engine: move bytes between the memory of two processes
 *
 * An engine has a name, host:port, under which other engines reach it. It
 * publishes regions of its memory. Any engine that may connect opens the
 * segment of that name and reads or writes its regions one-sided, in batches
 * of requests.
 *
 * Three promises hold for every request, whatever fails:
 *  - the request ends within its deadline as done, failed or cancelled;
 *  - once it has ended, this engine no longer touches its local memory;
 *  - a write that succeeded is in the target's memory, and a write that failed
 *    says whether any of it can still arrive there (TE_REMOTE_QUIET).
 *
 * Functions return 0 or a negative errno unless they say otherwise. Arguments
 * are borrowed for the call; strings and arrays are copied. Threads: any,
 * unless a function says otherwise.
 *
 * An engine belongs to the process that created it. In a forked child its
 * handles are dead: functions that can fail return -ESTALE and the others do
 * nothing. The parent and its peers are not affected by the child. Memory of
 * te_memory_alloc() is shared by parent and child.
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

#define TE_INCARNATION_LEN   16   /* bytes, new for each engine created */
#define TE_ENGINE_SECRET_LEN 32   /* random bytes, as new */
#define TE_GROUP_SECRET_LEN  32   /* bytes */
#define TE_PIECES_MAX        1024 /* local pieces of one request */
#define TE_LENGTH_MAX        (1ull << 40) /* bytes of one request */
#define TE_NOTIFY_MAX        65536        /* bytes of one message */
#define TE_NAME_LEN_MAX      263 /* bytes of an engine's name, no NUL */

/* ---- configuration ---- */

/**
 * te_config_create - create a configuration with every setting at its default
 *
 * te_engine_create() also reads the environment variables of the settings; a
 * value of te_config_set() takes precedence over them. Returns 0 or -ENOMEM.
 */
TE_API int te_config_create(struct te_config **out);
TE_API void te_config_destroy(struct te_config *config); /* NULL is fine */

/**
 * te_config_set - change one setting
 * @name:  "tcp.lanes", "insecure", ...; docs/settings.md lists them
 * @value: text in the syntax of the setting: 4096, 64k, 500ms, true, ...
 * @error: error[error_len] or NULL; on failure one line that names the
 *         setting, the value and the values that are valid
 *
 * Threads: one per config at a time. Returns 0, or nothing has changed and:
 *   -ENOENT  no setting has this name
 *   -EINVAL  the value is malformed or names a backend that does not exist
 *   -ERANGE  the value is outside the setting's limits
 *   -ENOMEM
 */
TE_API int te_config_set(struct te_config *config, const char *name,
			 const char *value, char *error, size_t error_len);

/* ---- engine ---- */

/**
 * te_engine_create - open the backends, listen and start
 * @config: borrowed for the call; NULL: all defaults
 * @name:   "host", "host:port" or "[v6]:port" that peers use to reach this
 *          engine; without a port, or with port 0, the kernel chooses one.
 *          NULL: "127.0.0.1". With a directory (setting metadata_server) any
 *          other word without ":port" is a name that peers look up there, for
 *          example "prefill-0"
 *
 * The engine listens on the wildcard address; the setting "bind" narrows that.
 * Without the setting "insecure" it serves processes of this host only that
 * belong to its own user, to root, or to users of the setting "allow_uids".
 *
 * Blocks: while a name is looked up and devices are opened.
 * Returns 0, or *out is untouched, the cause is logged and:
 *   -EINVAL         the name, metadata_server or an environment setting is
 *                   malformed, a device or backend that a setting names is
 *                   absent, or NVLink is to reach GPUs of other trays
 *   -EOPNOTSUPP     this processor cannot run the copy_kernel that is set
 *   -ENODEV         no backend has a device
 *   -EADDRINUSE     another process uses the port
 *   -EADDRNOTAVAIL  "bind" is no address of this host
 *   -EAGAIN         the system refuses another thread
 *   -EMFILE, -ENOMEM
 */
TE_API int te_engine_create(const struct te_config *config, const char *name,
			    struct te_engine **out);

/**
 * te_engine_destroy - cancel requests in flight, close and free
 *
 * Destroys the engine's batches too; their requests end as cancelled. NULL is
 * fine. Threads: set-up only: no other call on the engine during or after it.
 * Blocks: 2 s at most, even with dead peers; longer only while a device has
 * not confirmed that it released memory, or is registering some.
 */
TE_API void te_engine_destroy(struct te_engine *engine);

/**
 * te_engine_drive - do the work of the engine's worker thread once
 * @timeout_ms: 0: do not wait for work; UINT32_MAX: wait without a limit
 *
 * Meant for engines whose setting worker_thread is off, which have one worker;
 * of several only the first is driven. Such an engine moves bytes, serves peers
 * and notices deadlines only while a thread is in this function, in
 * te_batch_wait(), te_batch_poll(), or in a call that waits for the same work
 * (te_peer_revoke(), for example). Eventfds of batches are signalled from
 * there, too. Control messages are still handled by a thread of the engine.
 *
 * Threads: any. Blocks: until some work was done, @timeout_ms at most.
 * Returns 1 (some work was done), 0 (none), -EBUSY (another thread drives).
 */
TE_API int te_engine_drive(struct te_engine *engine, uint32_t timeout_ms);

/*
 * Returns the engine's name with the port that was bound, "127.0.0.1:40123",
 * or its name in the directory. The text lives as long as @engine.
 */
TE_API const char *te_engine_name(const struct te_engine *engine);
TE_API void te_engine_incarnation(const struct te_engine *engine,
				  uint8_t out[TE_INCARNATION_LEN]);
/*
 * Copies the secret of which the engine's incarnation is a hash: who shows it
 * is this engine. For a service that the engine trusts, as a pool's master
 * is; peers, which know the incarnation, must not learn it.
 */
TE_API void te_engine_secret(const struct te_engine *engine,
			     uint8_t out[TE_ENGINE_SECRET_LEN]);

/* ---- memory ---- */

enum te_access {
	TE_ACCESS_LOCAL = 0, /* peers cannot reach the region */
	TE_ACCESS_REMOTE_READ = 1 << 0,
	TE_ACCESS_REMOTE_WRITE = 1 << 1,
};

struct te_region {
	void *addr;
	uint64_t length; /* bytes, 1 .. TE_LENGTH_MAX */
	/*
	 * Names the memory as te_topo_memory() does: "cpu:0", "cuda:1", ...
	 * "*" or NULL: found out; of host memory the NUMA node of its first page
	 * counts. A GPU has the number by which this process knows it.
	 * Devices that access memory by themselves, such as RDMA NICs, are
	 * chosen near this location.
	 */
	const char *location;
	/*
	 * Restricts the region to engines that have proved that they know this
	 * secret, group[TE_GROUP_SECRET_LEN] (te_group_join()); others neither
	 * see nor reach it. NULL: every peer that may connect.
	 */
	const uint8_t *group;
	uint32_t access;        /* TE_ACCESS_* */
	uint32_t reserved_0;    /* must be 0 */
	uint64_t reserved_1[3]; /* must be 0 */
};

/**
 * te_region_add - register memory and publish it to the peers that may reach it
 *
 * The memory stays the caller's and must stay mapped until te_region_remove().
 * Peers that have the segment open are notified immediately.
 *
 * Blocks: for the registration. Returns 0, or nothing has changed and:
 *   -EEXIST      exactly this range is registered already
 *   -EINVAL      the range overlaps another region, wraps around or has length
 *                0; an access bit is unknown; a reserved field is not 0; the
 *                location names another GPU than the memory's, or a GPU where
 *                it is the host's
 *   -ENOBUFS     64 other groups have regions, a device has no key left, or
 *                devices have room for parts of it that are not all of it
 *   -ENOMEM      also: more than this process may lock for a device
 *   -EFAULT      nothing is at the address, or a device needs the memory
 *                mapped and writable; of a GPU's memory: it was freed, or the
 *                range ends behind what was allocated
 *   -EIO         the driver of a GPU fails
 *   -EOPNOTSUPP  no backend can reach this kind of memory
 *   -EMFILE
 * The reason for which a device refuses is logged.
 *
 * Where some NICs are near the memory, a NIC that is far and cannot register
 * it is left out, and so is a NIC without a link; both are logged. A thread of
 * the engine tries such a NIC again when its link comes up, and periodically.
 */
TE_API int te_region_add(struct te_engine *engine,
			 const struct te_region *region, te_region_id *out);

enum te_memory {
	TE_MEMORY_HOST = 0, /* also what GPUs reach in the host */
	TE_MEMORY_GPU = 1,  /* no processor may touch it */
};

/* Facts about a region. */
struct te_region_facts {
	char location[32]; /* as in struct te_region; "": not known */
	uint32_t memory;   /* enum te_memory */
	uint32_t reserved[7];
};

/**
 * te_region_describe - tell what memory a region is of
 *
 * Any thread. Returns 0, -ENOENT (no such region), -EINVAL (NULL).
 */
TE_API int te_region_describe(struct te_engine *engine, te_region_id region,
			      struct te_region_facts *out);

/**
 * te_region_remove - withdraw a region; no peer reaches it after the return
 *
 * Transfers that have not begun are refused. Blocks: until transfers that are
 * touching the memory have ended, and while a NIC is registering it.
 * Returns 0, -ENOENT (no such region).
 */
TE_API int te_region_remove(struct te_engine *engine, te_region_id region);

/**
 * te_region_remove_within - withdraw a region, and wait for a limited time
 *
 * A process of this host that is stopped in the middle of a copy may touch the
 * memory when it continues, and a slow device may still be registering it. The
 * time that either takes has no bound.
 *
 * Returns as te_region_remove(), and also -ETIMEDOUT: new transfers are
 * refused, but the memory must stay mapped until this function or
 * te_region_remove() returns 0, or te_engine_destroy() has returned.
 */
TE_API int te_region_remove_within(struct te_engine *engine,
				   te_region_id region, uint32_t timeout_ms);

/**
 * te_memory_alloc - allocate memory that every backend can use at full speed
 * @length: bytes, rounded up to whole pages
 *
 * The memory is zeroed, and committed when it is first touched; with the
 * setting `hugetlb` it is committed before the return. Once it is a region that
 * peers may write, it is committed in the background as well, as far as the
 * setting `prefault` and the memory of the host permit. Free it with
 * te_memory_free() after removing its region.
 *
 * Returns 0, -EINVAL (length 0), -ENOMEM, -ESTALE (in a forked child).
 */
TE_API int te_memory_alloc(struct te_engine *engine, uint64_t length,
			   void **out);
/**
 * te_memory_alloc_at - allocate memory of a place
 * @length:   bytes
 * @location: "cuda:1": of that GPU, as the process numbers them; "cpu:0": of
 *            that NUMA node of the host, as far as it has room, and locked for
 *            copies of GPUs if the process uses any; NULL, "" or "*": as
 *            te_memory_alloc()
 *
 * The host's is else as of te_memory_alloc(). A GPU's is not zeroed, and must
 * not be touched by the processor. It is of the GPU's primary context, which is
 * made if nobody uses it, and stays in use until the memory is freed.
 *
 * Blocks: for the driver, also when it is freed. Returns 0, -EINVAL (length 0,
 * or no such location), -ENODEV (no such GPU or node, or no driver), -ENOMEM,
 * -EIO (the driver fails), -ESTALE (in a forked child). A line in the log says
 * what is wrong with a location, or with the driver.
 */
TE_API int te_memory_alloc_at(struct te_engine *engine, uint64_t length,
			      const char *location, void **out);
/* Frees memory of either; any other is left alone. */
TE_API void te_memory_free(struct te_engine *engine, void *addr);

/**
 * te_group_join - learn the secret of a group, to reach the group's regions
 *
 * Connected peers receive the proof immediately, others with the first message
 * to them. A group may be joined several times; joins are counted.
 * Returns 0, -ENOMEM, -ENOBUFS (64 groups are joined).
 */
TE_API int te_group_join(struct te_engine *engine,
			 const uint8_t secret[TE_GROUP_SECRET_LEN]);

/**
 * te_group_leave - undo one te_group_join()
 *
 * After the last leave no further peer receives a proof. Peers that received
 * it remember it until their control connection ends. Regions of the group
 * that this engine has added stay as they are.
 * Returns 0, -ENOENT (not joined).
 */
TE_API int te_group_leave(struct te_engine *engine,
			  const uint8_t secret[TE_GROUP_SECRET_LEN]);

/* ---- peers and segments ---- */

/**
 * te_segment_open - connect to the engine of a name and see its regions
 * @name:       "host:port", or a name that the directory knows; an engine may
 *              open its own segment by its own name
 * @timeout_ms: for the first contact; 0: the setting open_timeout
 *
 * Opening a name again returns the same segment; opens are counted. When the
 * peer restarts, requests to the segment fail with -ESTALE, and the next open
 * of the name returns the segment of the restarted engine.
 *
 * Blocks: up to @timeout_ms. Returns 0, or *out is untouched and:
 *   -EINVAL        the name is malformed, or has no port and this engine no
 *                  directory
 *   -EHOSTUNREACH  no such host
 *   -ETIMEDOUT     the peer was not reached, or not found in the directory, in
 *                  time, retries included
 *   -EACCES        the peer refuses this engine (its reason is logged)
 *   -EAGAIN        the peer refused until the deadline because it is short of
 *                  memory or connections (its reason is logged)
 *   -EPROTO        the answer is not that of an engine of this version
 *   -EMFILE        no descriptor was free for the last attempt
 *   -ENOMEM
 */
TE_API int te_segment_open(struct te_engine *engine, const char *name,
			   uint32_t timeout_ms, te_segment_id *out);
/**
 * te_segment_expect - name a segment whose engine may not be running yet
 * @name: as for te_segment_open()
 *
 * Opens the segment as te_segment_open() does, without waiting. If the engine
 * was met before, the segment is that of its last known incarnation. If not,
 * it is that of the first incarnation that will be met: the first request
 * starts to connect, and requests wait until the engine is reached. They end
 * with -ETIMEDOUT at their deadlines, or earlier with -EHOSTUNREACH, -EACCES
 * or -EPROTO where te_segment_open() would return these.
 *
 * Blocks: never. Returns 0, or *out is untouched and: -EINVAL, as for
 * te_segment_open(), -ENOMEM, -ESTALE (in a forked child).
 */
TE_API int te_segment_expect(struct te_engine *engine, const char *name,
			     te_segment_id *out);
/*
 * Undoes one open or expect. Unknown ids are ignored. Requests in flight are
 * not affected.
 */
TE_API void te_segment_close(struct te_engine *engine, te_segment_id segment);

struct te_segment_region {
	uint64_t addr; /* in the owner's address space: te_request.remote */
	uint64_t length;
	char location[32];
	uint32_t access;
	uint32_t reserved;
};

/**
 * te_segment_regions - list the regions that this engine may see, by address
 * @out: out[*n], or NULL with *n 0 to ask for the number
 * @n:   in: room; out: number of regions, which may exceed the room
 *
 * Returns 0, -ENOENT (no such segment), -ESTALE (its engine has restarted),
 * -EAGAIN (its engine has not been met yet, see te_segment_expect()).
 */
TE_API int te_segment_regions(struct te_engine *engine, te_segment_id segment,
			      struct te_segment_region *out, size_t *n);
/*
 * Copies the incarnation of the engine that the segment belongs to; all bytes
 * are 0 before the engine is met. Returns 0, -ENOENT (no such segment).
 */
TE_API int te_segment_incarnation(struct te_engine *engine,
				  te_segment_id segment,
				  uint8_t out[TE_INCARNATION_LEN]);

/**
 * te_segment_epoch - return the access epoch under which the owner serves us
 * @epoch:    starts at 1; each te_peer_revoke() of this engine there raises it
 * @since_ns: CLOCK_MONOTONIC at which this engine learned of the epoch
 *
 * A request with this value in te_request.epoch is void after the next
 * revocation, even if it is sent after it. Returns 0, -ENOENT (no such
 * segment).
 */
TE_API int te_segment_epoch(struct te_engine *engine, te_segment_id segment,
			    uint64_t *epoch, uint64_t *since_ns);

/**
 * te_segment_warm_up - open the connections that requests to a segment will use
 * @timeout_ms: 0: as for te_segment_open()
 * @n_rails:    out, may be NULL: endpoints that are up; also on -ETIMEDOUT
 *
 * Without it the first requests open the control connection and the endpoints.
 * The call waits until each endpoint is up or has failed. If none is up,
 * requests still keep trying until their deadlines.
 *
 * Blocks: up to @timeout_ms. Returns 0, or:
 *   -ENOENT     no such segment
 *   -ESTALE     its engine has restarted
 *   -ETIMEDOUT  some endpoint is neither up nor has failed in time
 *   -EDEADLK    called by a te_done_fn
 *   and as te_segment_open()
 */
TE_API int te_segment_warm_up(struct te_engine *engine, te_segment_id segment,
			      uint32_t timeout_ms, uint32_t *n_rails);

/**
 * te_peer_revoke - end the access epoch of a peer at this engine
 * @incarnation: of the peer; NULL: every peer that is or was connected
 *
 * After a return of 0 nothing that the peer sent, or sends for the old epoch,
 * is applied to this engine's memory. The peer's requests to this engine fail
 * with -ESTALE; it then shakes hands again by itself and continues. Transfers
 * between the peer and other engines are not affected. A peer that has never
 * connected may be revoked too.
 *
 * Blocks: until confirmed, @timeout_ms at most (0: 2 s).
 * Returns 0, -ETIMEDOUT (not confirmed: assume that the memory is still
 * written to), -ESTALE (in a forked child).
 */
TE_API int te_peer_revoke(struct te_engine *engine,
			  const uint8_t incarnation[TE_INCARNATION_LEN],
			  uint32_t timeout_ms);
/**
 * te_peer_revoke_wait - continue to wait for a te_peer_revoke() that timed out
 *
 * Ends no further epoch: peers that have shaken hands since are not affected.
 * Returns as te_peer_revoke(), and 0 when nothing was revoked.
 */
TE_API int te_peer_revoke_wait(struct te_engine *engine,
			       const uint8_t incarnation[TE_INCARNATION_LEN],
			       uint32_t timeout_ms);

/**
 * te_peer_probe - check whether an engine answers under a name, and how fast
 * @timeout_ms: limit for a peer that is silent; 0: the setting open_timeout
 * @rtt_us:     round trip time in microseconds, may be NULL
 *
 * A refusal is returned immediately, without retries: an engine that is about
 * to start counts as absent.
 *
 * Blocks: up to @timeout_ms. Returns 0, or *rtt_us is untouched and:
 *   -ECONNREFUSED  no process listens there, or the directory has no such name
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
	 * Sends the local pieces as one message of 1 .. TE_NOTIFY_MAX bytes to
	 * the engine of the segment, which receives it by te_notify_take().
	 * `remote` must be 0, and the priority is ignored.
	 *
	 * The message is sent once every earlier request of the batch to the
	 * same segment has succeeded, so the receiver finds what they wrote. If
	 * one of them fails, the notification ends with -ECANCELED. When it
	 * has succeeded, the other engine has the message, once. If it failed
	 * without TE_REMOTE_QUIET, the message may have arrived or may still
	 * arrive.
	 *
	 * Messages of one batch arrive in the order of submission, messages of
	 * different batches in the order in which they became ready. While the
	 * receiver's queue is full, the message waits until its deadline.
	 */
	TE_NOTIFY = 3,
};

/*
 * Decides which requests go first where several wait for the same rails.
 * Urgent requests overtake normal ones, and both overtake bulk requests. No
 * priority starves: about one slice in 16 goes to a lower priority.
 */
enum te_priority {
	TE_PRIORITY_NORMAL = 0,
	TE_PRIORITY_URGENT = 1,
	TE_PRIORITY_BULK = 2,
};

enum te_request_flags {
	/* Ends the request at a refused or reset connection: no retries. */
	TE_FAIL_FAST = 1 << 0,
	/* Takes the CRC32C of crc_len bytes from crc_from on as they pass. */
	TE_CRC = 1 << 1,
	/*
	 * Ends the request with -EHOSTDOWN when no slice of the segment's
	 * engine, of this or any other request, has ended for the time of the
	 * setting suspect_after, counted from the submission at the earliest.
	 * For callers that have another source. For reads over tcp, each
	 * received part of a slice counts, so that a slow engine is not taken
	 * for a silent one. Not allowed with TE_NOTIFY.
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
	uint32_t timeout_ms;  /* 0: 30 s + 1 s per GiB of the call up to it */
	uint64_t epoch;       /* from te_segment_epoch(); 0: the current one */
	uint64_t crc_from;    /* with TE_CRC: first byte, within the request */
	uint64_t crc_len;     /* with TE_CRC: bytes, within the request */
	uint64_t user;        /* returned in the completion */
	uint32_t priority;    /* TE_PRIORITY_* */
	uint32_t reserved_0;  /* must be 0 */
	uint64_t reserved[3]; /* must be 0 */
};

enum te_completion_flags {
	/*
	 * The request can no longer reach the target's memory or inbox. Always
	 * set for reads and when error is 0.
	 */
	TE_REMOTE_QUIET = 1 << 0,
};

struct te_completion {
	uint64_t user;  /* te_request.user */
	uint64_t bytes; /* moved; the whole length when error is 0 */
	uint32_t index; /* place of the request in the batch, from 0 */
	/*
	 * 0: the request succeeded. Else:
	 *   -ETIMEDOUT   its deadline passed
	 *   -ECANCELED   it was cancelled, or its engine destroyed; TE_NOTIFY:
	 *                also when an earlier request of the batch failed
	 *   -ESTALE      the peer restarted, or revoked this engine's epoch
	 *   -EACCES      the owner does not allow this access
	 *   -EFAULT      the remote range is not inside one region of the
	 *                segment; or remote or local memory is not mapped,
	 *                noticed where the kernel copies: over tcp, and over
	 *                shm for memory not of te_memory_alloc(); or local
	 *                memory is a GPU's and in no region, which a line of
	 *                the log tells (over shm to memory of
	 *                te_memory_alloc(): once the engine has had a region
	 *                of a GPU's); TE_NOTIFY: the message lies in a GPU's
	 *                memory
	 *   -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH  with TE_FAIL_FAST only
	 *   -EHOSTDOWN   with TE_FAIL_SILENT only
	 *   -EHOSTUNREACH, -EACCES, -EPROTO  also for an engine that was never
	 *                met: see te_segment_expect()
	 *   -ENOENT      the segment was closed
	 *   -EIO         a backend failed for good; see provider_code
	 */
	int32_t error;
	int32_t provider_code; /* of the backend, 0: none; for tcp an errno */
	uint32_t retries;      /* attempts after the first */
	uint32_t flags;        /* TE_REMOTE_QUIET */
	uint32_t crc;          /* CRC32C, when requested and error is 0 */
	uint32_t rail; /* last rail used, for te_rail_name(); ~0: none */
	uint64_t reserved[2];
};

/**
 * te_batch_create - make room for requests that are awaited together
 * @capacity: requests, 1 .. 65536
 *
 * Allocates all memory that submissions need, except lists of pieces, for
 * which the batch grows by chunks. Returns 0, -EINVAL (@capacity), -ENOMEM,
 * -ECANCELED (the engine is being destroyed).
 */
TE_API int te_batch_create(struct te_engine *engine, uint32_t capacity,
			   struct te_batch **out);

/**
 * te_batch_destroy - cancel requests in flight, wait until they end, and free
 *
 * NULL is fine. Blocks: until no thread or device of this engine touches local
 * memory of the batch; bounded also when peers are dead.
 */
TE_API void te_batch_destroy(struct te_batch *batch);

/**
 * te_batch_submit - start moving bytes
 * @reqs: reqs[n]; copied with their lists of pieces
 * @n:    1 .. room left in the batch
 *
 * Either all requests are accepted or none is. Local memory is borrowed until
 * its request has ended. Whether the remote range exists and may be accessed
 * is checked later and reported in the completion.
 *
 * Threads: one per batch at a time. Blocks: never. Returns 0, or nothing has
 * started and:
 *   -EINVAL     an op, flag, priority, length, piece or reserved field is
 *               invalid
 *   -ENOENT     a segment is not open
 *   -ENOBUFS    fewer than @n places are left in the batch
 *   -EBUSY      requests of te_batch_submit_on_stream() are in flight
 *   -ECANCELED  the batch or the engine is being destroyed
 *   -ENOMEM
 */
TE_API int te_batch_submit(struct te_batch *batch,
			   const struct te_request *reqs, size_t n);

/**
 * te_batch_submit_on_stream - start moving bytes when a GPU's stream gets there
 * @batch:  has no request in flight
 * @reqs:   reqs[n]; copied with their lists of pieces
 * @n:      1 .. room left in the batch
 * @kind:   "cuda": whose stream it is
 * @stream: its handle (CUstream, cudaStream_t); 0, 1 and 2 are the default
 *          streams: of the GPU that the first piece's memory is of, and for
 *          memory of the host of the context that is current in this thread
 * @why:    why[why_len] or NULL; on failure one line
 *
 * The requests begin when the work that was put into the stream before has
 * ended, and what is put there later begins when all of them have ended: so it
 * sees what was read, and may overwrite what was written. It begins also when
 * they failed, which the completions tell; a line of the log names the first
 * one that did. Deadlines count from the begin. A stream waits no longer than
 * 5 s after the last of them, even where a device has not confirmed by then
 * that it no longer touches the memory; that is logged. Memory may also be the
 * host's.
 *
 * From now on the requests are in flight as any others: te_batch_wait() waits
 * for the stream, too. te_batch_cancel(), te_batch_destroy() and
 * te_engine_destroy() end those whose stream has not got there yet and let it
 * pass; te_request_cancel() is heeded when it gets there. Whoever waits for the
 * stream holds up neither: the engine's worker thread moves the bytes.
 *
 * Local memory is borrowed as by te_batch_submit(). The stream's context must
 * not be destroyed before the engine. The driver may run streams of a process
 * one after the other where there are many; copies by the host of one transfer
 * then wait for the stream that waits for them, and it fails at its deadline.
 *
 * Threads: one per batch at a time. Blocks: for the driver, not for the
 * stream. Returns 0, or nothing has started, the stream goes on and:
 *   -EINVAL      as te_batch_submit(); no such @kind or @stream
 *   -ENODEV      no driver, or no GPU that this process may use
 *   -EBUSY       requests of the batch are in flight, or the stream is being
 *                recorded into a graph
 *   -EOPNOTSUPP  the driver or the GPU cannot do it, or the setting
 *                worker_thread is off
 *   -EIO         the driver fails
 *   -EDEADLK     called by a te_done_fn
 *   -ENOENT, -ENOBUFS, -ECANCELED, -ENOMEM  as te_batch_submit()
 */
TE_API int te_batch_submit_on_stream(struct te_batch *batch,
				     const struct te_request *reqs, size_t n,
				     const char *kind, uint64_t stream,
				     char *why, size_t why_len);

/**
 * te_gpu_probe - tell whether this process can use GPUs
 * @config: borrowed for the call; NULL: all defaults
 * @kind:   "cuda"
 * @why:    why[why_len] or NULL; on failure one line
 *
 * Loads their driver and starts it, as the first use of a GPU does: a process
 * that forks afterwards has none in its children. Makes no context.
 *
 * Blocks: for the disk and the driver, up to a second at the first call.
 * Returns 0, or:
 *   -ENODEV  no driver, or no GPU that this process may use
 *   -EINVAL  no such @kind, or an environment setting is malformed
 *   -EIO     the driver fails
 *   -ENOMEM
 */
TE_API int te_gpu_probe(const struct te_config *config, const char *kind,
			char *why, size_t why_len);

/**
 * te_batch_wait - wait until every submitted request has ended
 * @timeout_ms: 0: check without waiting; UINT32_MAX: until the last deadline
 *
 * The waiting thread may drive the rails itself. Threads: one per batch at a
 * time. Returns 0 (every request has ended, successfully or not), -ETIMEDOUT,
 * -EDEADLK (called by a te_done_fn).
 */
TE_API int te_batch_wait(struct te_batch *batch, uint32_t timeout_ms);

typedef void te_done_fn(struct te_batch *batch,
			const struct te_completion *completion, void *arg);

/**
 * te_batch_on_done - call @fn for each request that ends, instead of polling
 * @fn: NULL: return to polling for completions
 *
 * @fn is called once for each request submitted from now on, in the order in
 * which they end, also when a request is cancelled or its engine destroyed.
 * Completions from before count as taken. te_batch_wait() returns only after
 * the calls for all requests have returned; te_batch_poll() returns 0, and the
 * descriptor of te_batch_eventfd() does not become readable.
 *
 * @fn runs on the engine's worker thread, or on a thread inside
 * te_batch_wait(), _poll(), _reset() or _destroy() of any batch of the engine,
 * te_engine_drive() or te_engine_destroy(); never inside a submission or
 * cancellation, and never twice at the same time in an engine. The rails of its
 * worker, and of others that have a call to make, stand still meanwhile, so it
 * should be short. @fn may submit, also to this batch, cancel, and create some.
 * It must not wait, reset, destroy or block, nor await a thread that does so.
 *
 * Threads: one per batch at a time. Returns 0, -EBUSY (requests are in flight).
 */
TE_API int te_batch_on_done(struct te_batch *batch, te_done_fn *fn, void *arg);

/**
 * te_batch_poll - take completions that have not been taken yet
 * @out: out[max]
 *
 * Drives the rails once unless another thread does. Threads: one per batch at
 * a time. Blocks: never. Returns the number of completions, 0 .. max.
 */
TE_API int te_batch_poll(struct te_batch *batch, struct te_completion *out,
			 int max);

/**
 * te_batch_result - copy the completion of one request, without taking it
 *
 * Returns 0, -EAGAIN (in flight), -EINVAL (no such index).
 */
TE_API int te_batch_result(struct te_batch *batch, uint32_t index,
			   struct te_completion *out);

/**
 * te_batch_eventfd - return an fd that is readable while completions wait
 *
 * The batch owns the descriptor. Use it with poll and epoll; do not read it.
 * Returns the fd, or -EMFILE.
 */
TE_API int te_batch_eventfd(struct te_batch *batch);

/**
 * te_batch_cancel, te_request_cancel - end all or one of the requests early
 *
 * The requests end with -ECANCELED, soon, and also when the peer is dead, but
 * not while a device may still touch their memory. Requests that have
 * ended are not affected. Blocks: never. Returns 0, -EINVAL (no such index).
 */
TE_API int te_batch_cancel(struct te_batch *batch);
TE_API int te_request_cancel(struct te_batch *batch, uint32_t index);

/**
 * te_batch_reset - discard ended requests, so that all room is free again
 *
 * Threads: one per batch at a time. Returns 0, -EBUSY (requests are in
 * flight), -EDEADLK (called by a te_done_fn).
 */
TE_API int te_batch_reset(struct te_batch *batch);

/* ---- notifications ---- */

struct te_notify {
	/*
	 * Names the sender as it says itself; the claim is not verified. ""
	 * when it is malformed, or this engine's name. Lives as long as the
	 * message.
	 */
	const char *from;
	const void *bytes;                       /* bytes[length] */
	uint32_t length;                         /* 1 .. TE_NOTIFY_MAX */
	uint32_t reserved_0;                     /* 0 */
	uint8_t incarnation[TE_INCARNATION_LEN]; /* of the sender */
	uint64_t reserved_1[2];                  /* 0 */
};

/**
 * te_notify_take - take the next message that a peer sent with TE_NOTIFY
 *
 * Messages of one sender come in the order in which it sent them. The engine
 * queues as many as the settings notify_queue, notify_queue_bytes and
 * notify_memory allow; beyond that senders wait. Any peer that may connect may
 * send. Release the message with te_notify_free().
 *
 * Blocks: never. Returns 0, -EAGAIN (no message), -EINVAL.
 */
TE_API int te_notify_take(struct te_engine *engine, struct te_notify *out);
/*
 * Frees the message, also after its engine was destroyed. NULL and a message
 * of zeros are fine.
 */
TE_API void te_notify_free(struct te_notify *notify);
/**
 * te_notify_eventfd - return an fd that is readable while messages wait
 *
 * The engine owns the descriptor. Use it with poll and epoll; do not read it.
 * Returns the fd, or -EMFILE.
 */
TE_API int te_notify_eventfd(struct te_engine *engine);

/* ---- statistics and state ---- */

struct te_stat {
	const char *name; /* "te_rail_sent_bytes_total"; static */
	/* Rail, reason or copy kernel, "" when there is none; static. */
	const char *label;
	uint64_t value;
};

/**
 * te_engine_stats - copy every counter and gauge of the engine
 * @out: out[*n]
 * @n:   in: room; out: number of values, which may exceed the room
 *
 * Names of counters end in _total; they never decrease. te_copy_* are what this
 * process has measured of its own large copies, once it has: the label is the
 * kernel that is used, the value bytes a second. te_wakeup_ns is the time
 * from waking a thread on this host until it runs, as this library has measured
 * it once, ns; on a busy host a wait for a core is part of it. 0: it is not
 * known (yet). Returns 0.
 */
TE_API int te_engine_stats(struct te_engine *engine, struct te_stat *out,
			   size_t *n);

enum te_rail_state {
	TE_RAIL_UP = 0,
	TE_RAIL_DOWN = 1, /* its device is gone, or has no link (yet) */
	TE_RAIL_PAUSED =
		2, /* failed with several peers; retried after a pause */
};

struct te_rail_info {
	const char *name;                    /* as te_rail_name() */
	const char *backend;                 /* "tcp"; static */
	uint64_t speed_bps;                  /* of its device; 0: unknown */
	int32_t numa_node;                   /* -1: unknown */
	uint32_t state;                      /* enum te_rail_state */
	uint64_t sent_bytes, received_bytes; /* payload; never decrease */
	/* Peers that have rails of this backend, none of which it can reach. */
	uint32_t unmatched_peers;
	uint32_t reserved_0;
	uint64_t reserved[3];
};

/**
 * te_engine_rails - list the engine's rails, most preferred backend first
 * @out: out[*n]
 * @n:   in: room; out: number of rails, which may exceed the room
 *
 * The list of rails of an engine never changes; out[i] is rail i of
 * te_rail_name() and te_completion. Returns 0.
 */
TE_API int te_engine_rails(struct te_engine *engine, struct te_rail_info *out,
			   size_t *n);

/*
 * Returns whether the engine has a rail of @backend ("verbs"), in any state. A
 * backend that found no device has no rail. False in a forked child.
 */
TE_API bool te_engine_has_backend(struct te_engine *engine,
				  const char *backend);

/*
 * Returns "up", "down" or "paused"; "unknown" for other values. The text is
 * static.
 */
TE_API const char *te_rail_state_name(uint32_t state);

/*
 * Returns the name of a rail, "tcp/0", or "" for an unknown one. The text
 * lives as long as @engine.
 */
TE_API const char *te_rail_name(const struct te_engine *engine, uint32_t rail);

enum te_link_state {
	TE_LINK_NONE = 0, /* not opened: no request has needed it */
	TE_LINK_OPENING = 1,
	TE_LINK_UP = 2,
	TE_LINK_PAUSED = 3, /* failed; retried after a pause */
	TE_LINK_ABSENT = 4, /* the peer has no rail of this backend */
	TE_LINK_APART = 5,  /* the peer's rails of it cannot be reached */
};

#define TE_LINK_WAY_LEN 160

struct te_link_info {
	uint32_t rail;  /* of this engine, its place in te_engine_rails() */
	uint32_t state; /* enum te_link_state */
	int32_t error;  /* of the last failure; 0: it never failed */
	uint32_t reserved_0;       /* 0 */
	uint64_t remote_speed_bps; /* of the peer's rail; 0: unknown */
	/*
	 * Route of a link that is up, for people to read: addresses, MTU. "":
	 * the backend has nothing to tell.
	 */
	char way[TE_LINK_WAY_LEN];
	uint64_t reserved[4]; /* 0 */
};

/**
 * te_segment_links - describe the link of each rail to a segment's peer
 * @out: out[*n], or NULL with *n 0 to ask for the number
 * @n:   in: room; out: number of rails, which may exceed the room
 *
 * Requests use the first backend in the order of te_engine_rails() that
 * reaches the region and has a rail that is up and whose link is not absent,
 * apart or paused. te_segment_warm_up() opens the links that they would use.
 *
 * Blocks: for one round of the worker. Returns 0, or:
 *   -ENOENT   no such segment
 *   -ESTALE   its engine has restarted
 *   -EDEADLK  called by a te_done_fn
 */
TE_API int te_segment_links(struct te_engine *engine, te_segment_id segment,
			    struct te_link_info *out, size_t *n);
/*
 * Returns "none", "opening", ...; "unknown" for values not of te_link_state.
 * The text is static.
 */
TE_API const char *te_link_state_name(uint32_t state);

/* Returns static text for an error of this library, a negative errno. */
TE_API const char *te_strerror(int error);

/**
 * te_peer_allowed - apply the rule of engines to a connection of the caller's
 * @fd:         a connected socket, tcp or AF_UNIX, as accept(2) returned it
 * @allow_uids: users to serve beside this process's and root: "1000,2000-2999"
 *              or "any"; NULL: nobody else
 * @why:        why[why_len] or NULL; with -EACCES one line for the peer that
 *              says who is served and what to do
 *
 * For programs that listen beside an engine and have no keys. Whether setting
 * "insecure" lets everybody in is the caller's to know, and to log a refusal:
 * which port it was of.
 *
 * Blocks: for a question to the kernel, 20 us or so. Returns 0, or:
 *   -EACCES    not to be served
 *   -ENOTCONN  the peer has closed the connection
 *   -EAGAIN    no descriptor, memory or time is left to find out
 *   -EINVAL    @allow_uids is malformed
 */
TE_API int te_peer_allowed(int fd, const char *allow_uids, char *why,
			   size_t why_len);

/* Continues @crc, a CRC32C (Castagnoli), over @bytes; start with 0. */
TE_API uint32_t te_crc32c(uint32_t crc, const void *bytes, size_t len);
/* Returns the CRC32C of A followed by B from the CRC32C of each. */
TE_API uint32_t te_crc32c_combine(uint32_t crc_a, uint32_t crc_b,
				  uint64_t len_b);

/**
 * te_log_set - receive log lines in a function instead of on stderr
 * @fn: gets level 0 error, 1 warn, 2 info, 3 debug, and a line that is
 *      borrowed for the call; NULL: stderr
 *
 * Threads: set-up only; @fn is called from any thread.
 */
typedef void te_log_fn(int level, const char *line, void *arg);
TE_API void te_log_set(te_log_fn *fn, void *arg);
/*
 * Sets the highest level that is logged. Default 1, or the environment
 * variable TE_LOG (error, warn, info, debug or 0 .. 3).
 */
TE_API void te_log_set_level(int level);
/* Logs a line as the library does; for libraries on top of this one. */
TE_API void te_log_write(int level, const char *line);
/*
 * Logs the warning "@call: @why"; for libraries on top of this one. The same
 * warning is written at most 6 times a minute, because callers repeat refused
 * calls; a later line gives the number of warnings left out.
 */
TE_API void te_log_refusal(const char *call, const char *why);

#ifdef __cplusplus
}
#endif

#endif
