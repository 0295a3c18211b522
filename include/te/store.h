/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - client of the key/value pool
 *
 * A client joins a pool by connecting to its master. It puts and gets values,
 * in batches: a single key is a batch of one. It may also lend memory to the
 * pool, which makes it an owner. Values move directly between the caller's
 * memory and the owners' memory.
 *
 * A get returns the right bytes or a miss, never other bytes. Every call ends
 * within its deadline. Results are Mooncake's numbers (enum te_store_code), so
 * that no layer above translates them. Arguments are borrowed for the call;
 * strings are copied. Threads: any, also several on one client, unless a
 * function says otherwise.
 */
#ifndef TE_STORE_H
#define TE_STORE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <te/te.h>
#include <te/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Results of calls. The values are Mooncake's; docs/compatibility/codes.md
 * says which calls return each of them.
 */
enum te_store_code {
	TE_STORE_OK = 0,
	TE_STORE_INTERNAL_ERROR = -1,
	TE_STORE_BUFFER_OVERFLOW = -10, /* returned by no call */
	TE_STORE_SEGMENT_NOT_FOUND = -101,
	TE_STORE_SEGMENT_ALREADY_EXISTS = -102,
	TE_STORE_CLIENT_NOT_FOUND = -103,
	TE_STORE_NO_AVAILABLE_HANDLE = -200, /* the pool is full */
	TE_STORE_INVALID_VERSION = -300,
	TE_STORE_INVALID_KEY = -400,
	TE_STORE_INVALID_PARAMS = -600,
	TE_STORE_ILLEGAL_CLIENT = -601,
	TE_STORE_INVALID_WRITE = -700,
	TE_STORE_REPLICA_IS_NOT_READY = -703,
	TE_STORE_OBJECT_NOT_FOUND = -704,
	TE_STORE_OBJECT_ALREADY_EXISTS = -705,
	TE_STORE_OBJECT_HAS_LEASE = -706,
	TE_STORE_LEASE_EXPIRED = -707,
	TE_STORE_OBJECT_HAS_REPLICATION_TASK = -708,
	TE_STORE_REPLICA_NOT_FOUND = -710,
	TE_STORE_REPLICA_ALREADY_EXISTS = -711,
	TE_STORE_TRANSFER_FAIL = -800,
	TE_STORE_CHECKSUM_MISMATCH = -801,
	TE_STORE_RPC_FAIL = -900,    /* the master cannot be reached */
	TE_STORE_RPC_TIMEOUT = -901, /* the master did not answer in time */
	TE_STORE_UNAVAILABLE_IN_CURRENT_STATUS = -1010,
	TE_STORE_TASK_NOT_FOUND = -1400,
	TE_STORE_TASK_PENDING_LIMIT_EXCEEDED = -1401,
	/* Eviction of the tenant's own objects could not make room. */
	TE_STORE_TENANT_QUOTA_EXCEEDED = -1700,
	/* The tenant has no quota, so it can have no keys. */
	TE_STORE_TENANT_NOT_REGISTERED = -1701,
	TE_STORE_TENANT_NOT_EMPTY = -1702,
};

/* Returns the name of a code, "OBJECT_NOT_FOUND"; else "UNKNOWN". Static. */
TE_API const char *te_store_strerror(int code);

#define TE_STORE_KEY_MAX   1024u        /* bytes of a key; any bytes */
#define TE_STORE_BATCH_MAX 4096u        /* keys of one message to the master */
#define TE_STORE_VALUE_MAX (1ull << 40) /* bytes of a value */

/* Value of setup_timeout_ms: do not wait, see te_store_health(). */
#define TE_STORE_NO_WAIT UINT32_MAX

#define TE_STORE_LOCATIONS_MAX (1u << 24)

struct te_store;

struct te_store_config {
	uint32_t size;            /* sizeof(struct te_store_config) */
	uint32_t call_timeout_ms; /* of one call to the master; 0: 1000 */
	/*
	 * Time to read one replica, plus 16 ms for each MiB that the call
	 * reads; 0: 1000.
	 */
	uint32_t replica_timeout_ms;
	/* Limit for the first contact; 0: 5000. Or TE_STORE_NO_WAIT. */
	uint32_t setup_timeout_ms;
	const char *master; /* "host:port"; NULL: "127.0.0.1:50051" */
	/* Name of the client's engine, host[:port]; NULL: "127.0.0.1". */
	const char *host;
	/*
	 * Bytes of memory to lend to the pool; 0: none. Each value takes 64
	 * bytes beside its own.
	 */
	uint64_t segment_bytes;
	struct te_engine *engine; /* engine to use (not owned); NULL: create */
	const struct te_config
		*engine_config;      /* for a created engine; NULL: default */
	uint64_t local_buffer_bytes; /* for te_store_get_buffers(); 0: none */
	/*
	 * Number of objects whose place is remembered while their lease lasts,
	 * so that reading them again does not ask the master; 0: none. Until
	 * the lease ends, a read may find a value that another client has
	 * removed or replaced, if its owner did not answer the master then.
	 */
	uint32_t location_cache_entries; /* at most TE_STORE_LOCATIONS_MAX */
	/*
	 * Number of recent reads of a key after which its value is kept in the
	 * hot cache; at most 255; 0: 2.
	 */
	uint32_t hot_cache_threshold;
	/*
	 * Address of the daemon of this host (mooncake_client),
	 * "127.0.0.1:50052", or the path of its socket. Makes the client a
	 * dummy: it has no engine, and the daemon does the work. Master, host,
	 * engine and segment are then the daemon's and must not be set here.
	 * Values outside the memory that both share are copied through
	 * local_buffer_bytes. NULL: no dummy.
	 */
	const char *daemon;
	uint64_t pool_bytes; /* for te_store_pool_alloc() of a dummy */
	/*
	 * Bytes of memory for the hot cache, which keeps values of other owners
	 * that are read again and again; 0: no cache. Each get still verifies
	 * with the master or the owner which value the key has, so removed and
	 * replaced values are never returned.
	 */
	uint64_t hot_cache_bytes;
	uint64_t
		hot_cache_value_bytes; /* larger ones are not kept; 0: 16 MiB */
	/*
	 * Tenant whose keys this client uses: 1 .. 64 bytes, no control
	 * characters, not beginning with '_'; NULL or "": "default". Each
	 * tenant of the master has its own keys and a quota; calls of a tenant
	 * without a quota return -1701. A master without tenants treats all
	 * names as one tenant, and a warning is logged. Must be NULL for a
	 * dummy, which has the tenant of its daemon.
	 */
	const char *tenant;
	/*
	 * Time for which te_store_close() first moves the contents of the
	 * client's segments to other owners, as te_store_drain() does; at most
	 * 10 minutes; 0: it moves nothing.
	 */
	uint32_t drain_timeout_ms;
	/*
	 * MiB of memory that is pinned at most (te_gpu_pin()) for copies by
	 * GPUs that the process uses: segments, then the local buffer; of a
	 * dummy the memory that it shares with the daemon. Each is pinned as a
	 * whole or not at all; where it is not, a warning says why and it is
	 * used as it is. Pinning commits the memory, so calls that allocate it
	 * take as long as touching all of it. 0: none; UINT32_MAX: no limit.
	 */
	uint32_t pin_mib;
};

/**
 * te_store_setup - join a pool
 *
 * Connects to the master, creates an engine unless one is given, joins the
 * pool's access group and mounts segment_bytes of fresh memory. The client
 * reconnects and mounts again by itself when the master comes back.
 *
 * Blocks: setup_timeout_ms at most. Returns 0, or *out is untouched, the
 * cause is logged and:
 *   -600  a field is out of range or a name malformed
 *   -900  the master cannot be reached or refuses this client
 *   -300  the master speaks another version of the protocol
 *   -1    no memory, threads or ports are left
 */
TE_API int te_store_setup(const struct te_store_config *config,
			  struct te_store **out);

/**
 * te_store_close - leave the pool: unmount, close and free
 *
 * Other clients lose the values that remain in this client's segments. NULL is
 * fine. Threads: set-up only. Blocks: 2 s at most, also when the master is
 * dead; before that, drain_timeout_ms of the configuration at most.
 */
TE_API void te_store_close(struct te_store *store);

/* Returns the client's engine; NULL: a dummy has none of its own. */
TE_API struct te_engine *te_store_engine(struct te_store *store);
/* Returns the name of the client's engine, "127.0.0.1:40123". */
TE_API const char *te_store_hostname(struct te_store *store);
/* Returns 0 (connected and mounted), -900 (not now). Blocks: never. */
TE_API int te_store_health(struct te_store *store);

/*
 * Memory of the caller, given to a call by its address. The call refuses with
 * -600, before it changes anything, a value or range of whose memory
 *  - a piece begins in registered memory and does not end in the same
 *    registration. Where two registrations are adjacent, the first one still
 *    ends at its end. The memory that a dummy shares with its daemon is as one
 *    registration, outside of those in it;
 *  - a piece is not mapped from end to end so that the call can use it (a get
 *    needs it writable). Of a piece outside of registrations that a get writes
 *    to, kernels before Linux 6.11 look at the first and the last page only.
 * Other values of the call are not affected. Memory that goes away during the
 * call may end it with a signal, or with -600 of that value; so may registered
 * memory whose protection was taken away after te_store_register().
 */

/**
 * te_store_register - register memory of the caller with the engine
 *
 * Memory given to put and get need not be registered; registered memory is
 * moved without a look-up or a copy per transfer. Peers cannot reach it. The
 * memory must stay mapped until te_store_unregister(). A GPU's memory has to be
 * registered: it is then moved by a NIC that accesses it, or copied by way of
 * the host; a dummy has none. Returns 0, -600 (the range is not mapped, or
 * overlaps another one), -1.
 */
TE_API int te_store_register(struct te_store *store, void *addr,
			     uint64_t length);
/* Undoes a registration. Returns 0, -600 (no registration at this address). */
TE_API int te_store_unregister(struct te_store *store, void *addr);

/*
 * Returns the number of bytes from @addr to the end of its registration, or of
 * what te_store_pool_alloc() returned; 0: it is in neither. So far should a
 * value that begins there reach.
 */
TE_API uint64_t te_store_registered_bytes(struct te_store *store,
					  const void *addr);

#define TE_STORE_SEGMENT_ID_LEN 16

/**
 * te_store_mount - lend more memory to the pool
 * @bytes: of fresh memory, 1024 at least
 * @id:    out: names the segment for te_store_unmount()
 *
 * The segment lasts until it is unmounted or the store is closed, and is
 * mounted again by itself when the master comes back. Blocks: call timeout.
 * Returns 0, or nothing is mounted and -600 (@bytes), -601 (another engine that
 * is there lends memory under our name), -1010 (this client lends 256 segments,
 * those of its user or address 3072, or all together 4096), -900, -1.
 */
TE_API int te_store_mount(struct te_store *store, uint64_t bytes,
			  uint8_t id[TE_STORE_SEGMENT_ID_LEN]);
/**
 * te_store_mount_shared - lend part of a file, for example one in /dev/shm
 * @offset, @bytes: whole pages, inside the file
 *
 * The contents of the range are overwritten. If the file is truncated while it
 * is mounted, the values beyond its end are lost, and puts into that space
 * fail until the segment is unmounted; a copy in progress at that moment may
 * end the process by SIGBUS.
 *
 * Blocks and returns as te_store_mount(); -600 also when the file cannot be
 * mapped, is too short, or this range of it is mounted already.
 */
TE_API int te_store_mount_shared(struct te_store *store, const char *path,
				 uint64_t offset, uint64_t bytes,
				 uint8_t id[TE_STORE_SEGMENT_ID_LEN]);
#define TE_STORE_GRACE_MAX_MS 86400000u

/**
 * te_store_unmount - take a segment back; replicas in it are lost
 * @grace_ms: 0: immediately; else the segment is unmounted after this time, up
 *            to TE_STORE_GRACE_MAX_MS, and until then it can be read but gets
 *            no new values
 *
 * A segment in its grace may be unmounted again: the earlier end counts, and
 * with 0 it is unmounted immediately. If the master is away, it is informed
 * when it comes back. Blocks: call timeout + 0.5 s, whatever the grace.
 * Returns 0, -101 (no such segment of this client), -600, -1 (no memory: the
 * segment stays).
 */
TE_API int te_store_unmount(struct te_store *store,
			    const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
			    uint64_t grace_ms);

/* Counts of replicas in segments that are drained. */
struct te_store_drained {
	uint64_t total; /* replicas at the beginning */
	uint64_t moved, moved_bytes;
	uint64_t left; /* replicas still there; lost with their segment */
};

/**
 * te_store_drain - move the contents of this client's segments to other owners
 * @id:         one segment; NULL: all segments of this client
 * @timeout_ms: at most 10 minutes
 * @out:        progress as last reported by the master; or NULL
 *
 * Call it before te_store_unmount() or te_store_close(). Whatever the result,
 * the segment gets no new values from now on; until it is unmounted it can be
 * read. Values are moved in spite of leases and pins. The call ends early when
 * all is moved or nothing more can be: immediately, if no other owner has
 * room. A master that restarts meanwhile forgets the drain.
 *
 * Blocks: timeout + call timeout. Returns 0 (all is moved), or:
 *   -101   no such segment, no segment at all, or unmounted meanwhile
 *   -200   no room for the rest
 *   -600   an argument is out of range
 *   -800, -801  copies failed
 *   -900   the master is away
 *   -901   the time is over
 *   -1010  the segment is being drained already
 *   -1401  too many drains are in progress
 *   -1     no memory
 */
TE_API int te_store_drain(struct te_store *store,
			  const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
			  uint32_t timeout_ms, struct te_store_drained *out);

struct te_store_key {
	const void *bytes;
	uint32_t len;      /* 1 .. TE_STORE_KEY_MAX */
	uint32_t reserved; /* must be 0 */
};

/* Local memory of one value, to read it from or to write it to. */
struct te_store_value {
	const struct iovec *pieces; /* pieces[n_pieces]; some may be empty */
	uint32_t n_pieces;          /* 1 .. TE_PIECES_MAX - 1 */
	uint32_t reserved;          /* must be 0 */
};

/* ---- writing ---- */

enum te_store_soft_pin {
	TE_STORE_SOFT_PIN_PRESERVE = 0, /* as the value that is replaced */
	TE_STORE_SOFT_PIN_ENABLE = 1,
	TE_STORE_SOFT_PIN_DISABLE = 2,
};

/* Kind of a value. Stored and displayed; has no other effect. */
enum te_store_data_type {
	TE_STORE_DATA_UNKNOWN = 0,
	TE_STORE_DATA_KVCACHE = 1,
	TE_STORE_DATA_TENSOR = 2,
	TE_STORE_DATA_WEIGHT = 3,
	TE_STORE_DATA_SAMPLE = 4,
	TE_STORE_DATA_ACTIVATION = 5,
	TE_STORE_DATA_GRADIENT = 6,
	TE_STORE_DATA_OPTIMIZER_STATE = 7,
	TE_STORE_DATA_METADATA = 8,
	TE_STORE_DATA_GENERAL = 9,
};

enum te_store_replicate_flags {
	TE_STORE_HARD_PIN = 1 << 0, /* never evicted */
	/* All values of the call go to one segment if they fit there. */
	TE_STORE_SAME_NODE = 1 << 1,
	TE_STORE_REPLICATE_FLAGS = (1 << 2) - 1,
};

#define TE_STORE_REPLICAS_MAX    32u
#define TE_STORE_PREFERRED_MAX   32u
#define TE_STORE_SOFT_PIN_MAX_MS 86400000u

/*
 * Options of a put. Names (of owners, of groups) have no spaces and at most
 * 263 bytes.
 */
struct te_store_replicate {
	uint32_t size; /* sizeof(struct te_store_replicate) */
	/*
	 * Number of replicas, 1 .. TE_STORE_REPLICAS_MAX. Fewer are made where
	 * there is no room for all.
	 */
	uint32_t replica_num;
	uint32_t soft_pin_action; /* enum te_store_soft_pin */
	uint32_t data_type;       /* enum te_store_data_type */
	uint64_t flags;           /* enum te_store_replicate_flags */
	/*
	 * Duration of the pin with ENABLE, from when the value can be read, at
	 * most TE_STORE_SOFT_PIN_MAX_MS; 0: the master's default. With the
	 * other actions it must be 0.
	 */
	uint64_t soft_pin_ttl_ms;
	/* Owners' names (te_store_hostname()): hints, tried in this order. */
	const char *const *preferred_segments;
	size_t n_preferred_segments; /* at most TE_STORE_PREFERRED_MAX */
	/*
	 * Groups, one for each key of the call, or none at all; NULL or "": the
	 * key has no group. Objects of a group are evicted together.
	 */
	const char *const *group_ids;
	size_t n_group_ids;
	uint64_t reserved[4]; /* must be 0 */
};

/**
 * te_store_put - store n values
 * @keys:    keys[n]; of equal keys in one call only the first counts
 * @values:  values[n]; at least 1 byte each
 * @how:     NULL: one replica of each, no other option
 * @results: results[n]: 0 (stored, or the key exists and its value is left as
 *           it is), or a negative code of this key
 *
 * A value counts as stored when one of its replicas is; the call tries to
 * write each. A key that another client is putting counts as existing while
 * that client lives; one that is silent is missed after three heartbeats.
 *
 * Blocks: until every value is stored or has failed. For each
 * TE_STORE_BATCH_MAX keys or 1 MiB of keys that is limited by the call timeout
 * for each step to the master, 1 s of waiting for space, and the deadline of
 * the transfer: 30 s + 1 s per GiB, about 2 s for an owner that does not answer
 * at all.
 * Returns 0 when every result is 0, else the first other result; or -600 with
 * results untouched when an argument is out of range. Codes:
 *   -200   the pool is full and eviction could not help, or the value is larger
 *          than the largest segment of the pool
 *   -1700  the quota of the tenant is exceeded and none of its objects could
 *          be evicted
 *   -800   the transfer failed
 *   -600   this key, value or its memory is invalid
 *   -900, -901, -1
 */
TE_API int te_store_put(struct te_store *store, const struct te_store_key *keys,
			const struct te_store_value *values, size_t n,
			const struct te_store_replicate *how, int *results);

/**
 * te_store_upsert - store n values, replacing existing ones
 *
 * The old value can be read until the new one replaces it, and stays if that
 * fails. An unfinished put or upsert of the key by another client is aborted.
 * A hard pin of the object stays as it was. Otherwise as te_store_put(), but a
 * result of 0 always means stored. Also -708 (the object is being moved), -600
 * (the object belongs to another group).
 */
TE_API int te_store_upsert(struct te_store *store,
			   const struct te_store_key *keys,
			   const struct te_store_value *values, size_t n,
			   const struct te_store_replicate *how, int *results);

/* Part of a value, and the local memory to read it from or write it to. */
struct te_store_range {
	uint32_t key;      /* index into the call's keys */
	uint32_t reserved; /* must be 0 */
	uint64_t offset;   /* in the value, bytes */
	void *addr;        /* addr[length] */
	uint64_t length;   /* 0: nothing is moved, and addr is not looked at */
};
#define TE_STORE_RANGES_MAX 65536u /* of one call */

/**
 * te_store_put_open - begin to put n values in parts
 * @sizes:   sizes[n]: of the values, 1 .. TE_STORE_VALUE_MAX
 * @results: results[n]: 0 (begun), -705 (the key exists or is being put), or a
 *           code of te_store_put()
 *
 * Write all bytes with te_store_put_ranges(), then call te_store_put_commit();
 * no client sees the object before. The master waits for the commit as long as
 * its setting put_start_discard_timeout_sec says. Blocks and returns as
 * te_store_put().
 */
TE_API int te_store_put_open(struct te_store *store,
			     const struct te_store_key *keys,
			     const uint64_t *sizes, size_t n,
			     const struct te_store_replicate *how,
			     int *results);
/**
 * te_store_put_ranges - write parts of values that were begun
 * @ranges:  ranges[n_ranges]: memory to read from; in any order, repeatable
 * @results: results[n_ranges]: the range's length, or a negative code
 *
 * Blocks: the transfer's deadline. Returns the number of ranges written, or
 * -600 with results untouched, or -1. Codes: -704 (this key was not begun),
 * -600 (the range is not inside the value, or its memory invalid),
 * -800 (no replica is left), -1.
 */
TE_API int te_store_put_ranges(struct te_store *store,
			       const struct te_store_key *keys, size_t n_keys,
			       const struct te_store_range *ranges,
			       size_t n_ranges, int64_t *results);
/**
 * te_store_put_commit - make n values visible that were put in parts
 * @results: results[n]:
 *           0     the value is visible
 *           -704  the key was not begun, or its put has ended
 *           -700  bytes are missing: write them, or abort
 *           -703  parts are being written at this moment
 *           -800  no replica is left, or the commit came too late
 *           -900, -901, -600, -1
 *
 * After -700 and -703 the put of the key is still open; after all other results
 * it has ended. Objects whose parts were written in order, each once, have a
 * checksum. Readers verify the others by their headers and the lease.
 * Returns 0 or the first result that is not 0.
 */
TE_API int te_store_put_commit(struct te_store *store,
			       const struct te_store_key *keys, size_t n,
			       int *results);
/*
 * Aborts puts in parts: nothing is stored. Returns as te_store_put_commit(),
 * but never -700 or -800.
 */
TE_API int te_store_put_abort(struct te_store *store,
			      const struct te_store_key *keys, size_t n,
			      int *results);

/* ---- reading ---- */

/**
 * te_store_get - fetch n values into the caller's memory
 * @values:  values[n]: room; only as many bytes as the object has are written
 * @results: results[n]: the object's size in bytes, or a negative code
 *
 * The bytes are verified. After a negative result the contents of the room are
 * undefined. Blocks: call timeout + replica timeout + 16 ms for each MiB, for
 * each TE_STORE_BATCH_MAX keys or 1 MiB of keys. Returns the number of keys
 * with a size, or -600 with results untouched. Codes: -704 (miss), -600 (this
 * key or the room's memory is invalid, or the object larger than the room),
 * -800 (no owner answered in time), -900, -901, -1.
 */
TE_API int te_store_get(struct te_store *store, const struct te_store_key *keys,
			const struct te_store_value *values, size_t n,
			int64_t *results);

/*
 * Value in memory of the client: data[length], which the caller may read and
 * write until it frees the buffer, before te_store_close(). The data of a dummy
 * may lie in memory of its daemon, which can only be read. free(NULL) is fine.
 * Threads: any.
 */
struct te_store_buffer;
TE_API void *te_store_buffer_data(const struct te_store_buffer *buffer);
TE_API uint64_t te_store_buffer_length(const struct te_store_buffer *buffer);
TE_API void te_store_buffer_free(struct te_store_buffer *buffer);

/**
 * te_store_get_buffers - fetch n values into memory of the client
 * @out:     out[n]: the value, to be freed by the caller; NULL where the result
 *           is negative
 * @results: as of te_store_get(), but the room always suffices
 *
 * The memory comes from the local buffer (te_store_config.local_buffer_bytes),
 * and from the heap where that is full. Otherwise as te_store_get().
 */
TE_API int te_store_get_buffers(struct te_store *store,
				const struct te_store_key *keys, size_t n,
				struct te_store_buffer **out, int64_t *results);

/**
 * te_store_get_ranges - fetch parts of values
 * @keys:    keys[n_keys]; ranges refer to them in any order
 * @results: results[n_ranges]: the range's length, or a negative code
 *
 * All ranges of a key come from one unchanged value; their bytes have no
 * checksum. Blocks as te_store_get(). Returns the number of ranges fetched, or
 * -600 with results untouched (too many ranges, a pointer is NULL), or -1 (no
 * memory). Codes: as te_store_get(); -600 also for a range that is not inside
 * the value or of invalid memory, while other ranges of that value are fetched.
 */
TE_API int te_store_get_ranges(struct te_store *store,
			       const struct te_store_key *keys, size_t n_keys,
			       const struct te_store_range *ranges,
			       size_t n_ranges, int64_t *results);

/**
 * te_store_get_open - remember where n objects lie, so that te_store_get(),
 * te_store_get_buffers() and te_store_get_ranges() need not ask the master
 * @results: results[n]: 0, -704 (no such key), -800 (no owner can be reached),
 *           -900, -901, -600, -1
 *
 * The objects are leased while they are open, and the leases renewed: none of
 * them is evicted, or removed without force. If a lease ends all the same, for
 * example while the master is away, the next read asks for it again. After
 * another client has replaced a value, the old one may still be read. A key may
 * be opened several times. It stays open until te_store_get_close(), or until
 * another master takes over. Returns 0 or the first result that is not 0.
 */
TE_API int te_store_get_open(struct te_store *store,
			     const struct te_store_key *keys, size_t n,
			     int *results);
/*
 * Undoes one te_store_get_open() of each key; keys that are not open are fine.
 * Returns 0, -600.
 */
TE_API int te_store_get_close(struct te_store *store,
			      const struct te_store_key *keys, size_t n);

/**
 * te_store_exist - check which of n keys exist
 * @results: results[n]: 1 (exists), 0 (does not), or a negative code
 *
 * Returns 0 or the first negative result, or -600 with results untouched.
 */
TE_API int te_store_exist(struct te_store *store,
			  const struct te_store_key *keys, size_t n,
			  int *results);

/*
 * Returns as te_store_exist(), but results[n] are sizes in bytes; -704 for a
 * key that does not exist.
 */
TE_API int te_store_size(struct te_store *store,
			 const struct te_store_key *keys, size_t n,
			 int64_t *results);

/**
 * te_store_remove - remove n keys
 * @force:   remove leased objects too
 * @results: results[n]: 0, -704 (no such key), -706 (leased), -703 (being put)
 */
TE_API int te_store_remove(struct te_store *store,
			   const struct te_store_key *keys, size_t n, int force,
			   int *results);

/**
 * te_store_remove_all - remove every object
 * @force:   remove leased objects too; else they stay
 * @removed: number of objects removed; may be NULL
 *
 * Blocks: until the master has looked at all objects, 60 s at most; if the
 * master is away, until that is noticed and the call timeout has passed.
 * Returns 0, -600 (another such call of this client is in progress), -900,
 * -901, -1.
 */
TE_API int te_store_remove_all(struct te_store *store, int force,
			       uint64_t *removed);
/**
 * te_store_remove_matching - remove the objects whose key matches a pattern
 * @pattern: PCRE2, at most 2048 bytes; it may match anywhere in the key
 *
 * Blocks and returns as te_store_remove_all(); -600 also for a malformed
 * pattern.
 */
TE_API int te_store_remove_matching(struct te_store *store, const char *pattern,
				    int force, uint64_t *removed);
/**
 * te_store_replica_clear - remove the replicas of n keys from a segment
 * @segment: name of its owner; NULL or "": in all segments
 * @results: results[n]: 0, -704 (no such key), -706 (leased), -703 (being put),
 *           -601 (another client has written it), -710 (no replica of the key
 *           is there)
 *
 * An object without any replica left is removed. Who has written what owners
 * brought to a new master is not known; any client may clear it. Returns as
 * te_store_remove().
 */
TE_API int te_store_replica_clear(struct te_store *store,
				  const struct te_store_key *keys, size_t n,
				  const char *segment, int *results);

/* State of a replica. The values are Mooncake's. */
enum te_store_replica_status {
	TE_STORE_REPLICA_COMPLETE = 3,
};

/* Location of a replica. */
struct te_store_replica {
	uint32_t status;    /* enum te_store_replica_status */
	uint32_t n_extents; /* contiguous parts that it consists of */
	uint64_t address;   /* of the first part's data, in its owner */
	uint64_t size;      /* bytes of the object */
	char segment[TE_NAME_LEN_MAX + 1]; /* name of its owner */
	uint64_t reserved[2];
};

/**
 * te_store_replicas - locate the replicas of n objects
 * @results: results[n]: number of replicas, or a negative code
 * @out:     out[*n_out]: replicas of the first key, of the second, and so on
 * @n_out:   in: room; out: number of replicas, which may exceed the room
 *
 * Takes a lease, as reading does. Returns the number of keys that were found,
 * or -600 with nothing touched. Codes: -704, -900, -901, -600, -1.
 */
TE_API int te_store_replicas(struct te_store *store,
			     const struct te_store_key *keys, size_t n,
			     int *results, struct te_store_replica *out,
			     size_t *n_out);

/* ---- copying and moving ---- */

#define TE_STORE_TASK_ID_LEN 16

/**
 * te_store_copy - start a task that makes further replicas of an object
 * @targets: targets[n]: names of owners (te_store_hostname()), 1 ..
 *           TE_STORE_REPLICAS_MAX; each gets a replica unless it has one
 * @id:      out: names the task for te_store_task()
 *
 * An owner that has the object copies it. Until the task ends, the object can
 * be neither removed nor replaced (-708). Blocks: call timeout, but not for the
 * copy. Returns 0, -704 (no such key), -703 (being put), -708 (the object has a
 * task), -101 (no such target), -1010 (a target is being drained or unmounted),
 * -1401 (too many tasks wait), -600 (an argument is invalid, or the client a
 * dummy), -900, -901, -1.
 */
TE_API int te_store_copy(struct te_store *store, const struct te_store_key *key,
			 const char *const *targets, size_t n,
			 uint8_t id[TE_STORE_TASK_ID_LEN]);
/**
 * te_store_move - start a task that moves a replica of an object
 * @source, @target: names of owners
 *
 * The replica of the source is removed once the target has one and readers of
 * the source have finished. The task fails if the target has a replica already.
 * Blocks and returns as te_store_copy(); also -710 (the source has no replica).
 */
TE_API int te_store_move(struct te_store *store, const struct te_store_key *key,
			 const char *source, const char *target,
			 uint8_t id[TE_STORE_TASK_ID_LEN]);

/* Kind and state of a task. The values are Mooncake's. */
enum te_store_task_type {
	TE_STORE_TASK_COPY = 0,
	TE_STORE_TASK_MOVE = 1,
};
enum te_store_task_status {
	TE_STORE_TASK_PENDING = 0,
	TE_STORE_TASK_PROCESSING = 1,
	TE_STORE_TASK_SUCCESS = 2,
	TE_STORE_TASK_FAILED = 3,
};

struct te_store_task {
	uint32_t type;                   /* enum te_store_task_type */
	uint32_t status;                 /* enum te_store_task_status */
	uint64_t created_ms, updated_ms; /* since 1970, by the master's clock */
	uint8_t client[16]; /* owner that copies or copied; zeros: none yet */
	char message[96];   /* reason of FAILED, for people */
	uint64_t reserved[4];
};
/*
 * Copies the state of a task. Returns 0, -1400 (no such task, or it is
 * forgotten), -900, -901, -600, -1.
 */
TE_API int te_store_task(struct te_store *store,
			 const uint8_t id[TE_STORE_TASK_ID_LEN],
			 struct te_store_task *out);

/**
 * te_store_pool_alloc - allocate memory that a dummy shares with its daemon
 *
 * Values in this memory are not copied on their way to the daemon. The memory
 * is the caller's until te_store_pool_free() or te_store_close(); it consists
 * of whole pages, zeroed at their first use. Two values that are read at the
 * same time should not share a page of 4096 bytes: when the daemon is stopped
 * and one of the calls is abandoned, the other may fail as well.
 *
 * Returns NULL if te_store_config.pool_bytes is used up or @store is no dummy.
 */
TE_API void *te_store_pool_alloc(struct te_store *store, uint64_t length);
/*
 * Frees such memory; no call may be using it. Returns 0, -600 (@addr is not
 * from te_store_pool_alloc()).
 */
TE_API int te_store_pool_free(struct te_store *store, void *addr);

/* Statistics of the pool, from the master. */
struct te_store_pool {
	uint64_t capacity_bytes, used_bytes;
	uint64_t objects, owners, clients;
	uint64_t evicted_objects, evicted_bytes;
	uint64_t master_metadata_bytes; /* object table, extents, keys */
	uint64_t master_key_bytes;      /* part of these: keys alone */
	uint64_t reserved[8];
};
/* Copies the pool's statistics. Blocks: call timeout. Returns 0, -900, -901. */
TE_API int te_store_pool(struct te_store *store, struct te_store_pool *out);

/* Statistics of this client; counters never decrease. */
struct te_store_stats {
	/*
	 * Keys read at their remembered location; keys whose location was not
	 * remembered; keys that were no longer at it.
	 */
	uint64_t location_hits, location_misses, location_stale;
	uint64_t location_bytes; /* memory of remembered locations */
	/* Keys of puts that were tried again, mostly for want of space. */
	uint64_t put_retries;
	/*
	 * Keys whose bytes came from the hot cache, and that were not in it;
	 * values added to it, and evicted from it.
	 */
	uint64_t hot_hits, hot_misses, hot_added, hot_evicted;
	uint64_t hot_bytes; /* memory of the hot cache */
	/* Size of the local buffer, used or not (local_buffer_bytes). */
	uint64_t local_buffer_bytes;
	uint64_t reserved[1];
};
/* Copies the client's statistics. Blocks: never. */
TE_API void te_store_stats(struct te_store *store, struct te_store_stats *out);

#ifdef __cplusplus
}
#endif

#endif
