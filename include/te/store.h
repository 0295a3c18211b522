/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - client of the key/value pool
 *
 * A client belongs to a pool, that is to a master. It may lend memory to the
 * pool (then it is an owner too), and it puts and gets values, in batches
 * first: a single key is a batch of one. Values move between the caller's
 * memory and the owners' directly.
 *
 * A get returns the right bytes or a miss, never other bytes. Every call ends
 * within its deadline. Results are Mooncake's numbers (enum te_store_code), so
 * that no layer above translates. Threads: any, on one client too, unless a
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

/* Mooncake's values; docs/compatibility/codes.md says who returns which. */
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
	TE_STORE_RPC_TIMEOUT = -901, /* it did not answer in time */
	TE_STORE_UNAVAILABLE_IN_CURRENT_STATUS = -1010,
	TE_STORE_TASK_NOT_FOUND = -1400,
	TE_STORE_TASK_PENDING_LIMIT_EXCEEDED = -1401,
	TE_STORE_TENANT_QUOTA_EXCEEDED = -1700, /* and nothing of it can go */
	TE_STORE_TENANT_NOT_REGISTERED =
		-1701, /* it has no quota, so no keys */
	TE_STORE_TENANT_NOT_EMPTY = -1702,
};

/* "OBJECT_NOT_FOUND", static; "UNKNOWN" for other numbers. */
TE_API const char *te_store_strerror(int code);

#define TE_STORE_KEY_MAX   1024u /* bytes of a key; any bytes */
#define TE_STORE_BATCH_MAX 4096u /* keys of one call to the master */
#define TE_STORE_VALUE_MAX (1ull << 40)

/* setup_timeout_ms: do not wait; te_store_health() says when we have joined. */
#define TE_STORE_NO_WAIT UINT32_MAX

#define TE_STORE_LOCATIONS_MAX (1u << 24)

struct te_store;

struct te_store_config {
	uint32_t size;               /* sizeof(struct te_store_config) */
	uint32_t call_timeout_ms;    /* of one call to the master; 0: 1000 */
	uint32_t replica_timeout_ms; /* of reading one replica; 0: 1000 */
	/* To reach the master first; 0: 5000. Or TE_STORE_NO_WAIT. */
	uint32_t setup_timeout_ms;
	const char *master;       /* "host:port"; NULL: "127.0.0.1:50051" */
	const char *host;         /* name of the own engine, host[:port]; NULL:
				     * "127.0.0.1" */
	uint64_t segment_bytes;   /* memory lent to the pool; 0: none. A value
				   * takes 64 bytes beside its own */
	struct te_engine *engine; /* use this one (not owned); NULL: make one */
	const struct te_config
		*engine_config;      /* for an own one; NULL: default */
	uint64_t local_buffer_bytes; /* for te_store_get_buffers(); 0: none */
	/*
	 * Objects whose place is remembered for as long as its lease lasts, so
	 * that reading them again asks the master nothing; 0: none. Until it
	 * ends, a read may find a value that others have removed or replaced
	 * while its owner did not answer the master; else it never does.
	 */
	uint32_t location_cache_entries; /* at most TE_STORE_LOCATIONS_MAX */
	/* How often of late a key is to be asked for, before its value is kept
	 * in the hot cache; at most 255; 0: 2. */
	uint32_t hot_cache_threshold;
	/*
	 * "127.0.0.1:50052", or the path of its socket: be a dummy, a client
	 * without an engine, for whom the daemon of this host (mooncake_client)
	 * does the work. Master, host, engine and segment are its then, and are
	 * left out here; local_buffer_bytes is what values are copied through
	 * that do not lie in the memory that the two share. NULL: no dummy.
	 */
	const char *daemon;
	uint64_t pool_bytes; /* of te_store_pool_alloc(), a dummy's */
	/*
	 * Keep the bytes of others' objects that are read again and again, in
	 * so much memory; 0: none. A get still proves which value the key has,
	 * by the master or by the owner, but the bytes come from here: what was
	 * removed or replaced is never read.
	 */
	uint64_t hot_cache_bytes;
	uint64_t
		hot_cache_value_bytes; /* larger ones are not kept; 0: 16 MiB */
	/*
	 * Whose keys this client means: 1 .. 64 bytes, no control characters,
	 * not beginning with '_'; NULL or "": "default". Each tenant of the
	 * master has keys of its own and a quota; who has none is answered with
	 * -1701. A master without tenants takes all for one, which is warned
	 * of. A dummy's is its daemon's: NULL.
	 */
	const char *tenant;
	/*
	 * For how long te_store_close() has what lies in our segments moved to
	 * others first, as te_store_drain() does; 0: not at all. At most 10
	 * minutes.
	 */
	uint32_t drain_timeout_ms;
	uint32_t reserved[1]; /* must be 0 */
};

/**
 * te_store_setup - join a pool
 *
 * Connects to the master, starts an engine unless one is given, joins the
 * pool's access group and mounts segment_bytes of fresh memory. Reconnects and
 * mounts again by itself when the master comes back.
 *
 * Blocks: setup_timeout_ms at most. Returns 0, or *out is untouched, the
 * cause is logged and:
 *   -600  a field is out of range or a name malformed
 *   -900  the master cannot be reached or refuses us
 *   -300  the master speaks another version
 *   -1    no memory, threads, ports
 */
TE_API int te_store_setup(const struct te_store_config *config,
			  struct te_store **out);

/**
 * te_store_close - leave: unmount, close, free
 *
 * NULL is fine. Threads: set-up only. Blocks: 2 s at most, also when the
 * master is dead, and before that for drain_timeout_ms of the configuration.
 * What still lies in our own segments is gone for the others.
 */
TE_API void te_store_close(struct te_store *store);

TE_API struct te_engine *te_store_engine(struct te_store *store);
/* Name of the own engine, "127.0.0.1:40123". */
TE_API const char *te_store_hostname(struct te_store *store);
/* 0: connected and mounted; -900: not now. Blocks: never. */
TE_API int te_store_health(struct te_store *store);

/**
 * te_store_register - register memory of the caller, so that it need not be
 * looked up or staged per transfer; local only, nobody else can reach it
 *
 * Memory given to put and get need not be registered. 0, -600 (overlaps,
 * length 0), -1.
 */
TE_API int te_store_register(struct te_store *store, void *addr,
			     uint64_t length);
/* 0, -600 (not registered with exactly this address). */
TE_API int te_store_unregister(struct te_store *store, void *addr);

#define TE_STORE_SEGMENT_ID_LEN 16

/**
 * te_store_mount - lend more memory to the pool
 * @bytes: of fresh memory, 1024 at least
 * @id:    out: names the segment for te_store_unmount()
 *
 * It lasts until it is unmounted or the store is closed, and is mounted again
 * by itself when the master comes back. Blocks: call timeout. Returns 0, or
 * nothing is mounted and -600 (@bytes), -900, -1.
 */
TE_API int te_store_mount(struct te_store *store, uint64_t bytes,
			  uint8_t id[TE_STORE_SEGMENT_ID_LEN]);
/**
 * te_store_mount_shared - lend part of a file, as one in /dev/shm
 * @offset, @bytes: whole pages, inside the file
 *
 * What it contains is overwritten. If it is made shorter while it is mounted,
 * what lay beyond is lost, and space there fails puts until it is unmounted; a
 * copy that is under way just then may end the process by SIGBUS. As
 * te_store_mount(); -600 also when the file cannot be mapped,
 * is too short, or this part of it is mounted already.
 */
TE_API int te_store_mount_shared(struct te_store *store, const char *path,
				 uint64_t offset, uint64_t bytes,
				 uint8_t id[TE_STORE_SEGMENT_ID_LEN]);
#define TE_STORE_GRACE_MAX_MS 86400000u

/**
 * te_store_unmount - take a segment back; replicas in it are gone
 * @grace_ms: 0: at once; else it goes by itself after that long, and until then
 *            it can be read, but gets nothing new
 *
 * Unmounting it once more is fine while it has a grace: the earlier end holds,
 * and with 0 it goes at once. Also when the master is away: it is told when it
 * is back. Blocks: call timeout + 0.5 s, whatever the grace. Returns 0, -101
 * (no such segment of ours, or it has gone), -600, -1 (no memory: it stays).
 */
TE_API int te_store_unmount(struct te_store *store,
			    const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
			    uint64_t grace_ms);

/* What became of the values (replicas, to be exact) in segments that leave. */
struct te_store_drained {
	uint64_t total; /* that were there */
	uint64_t moved, moved_bytes;
	uint64_t left; /* still there; they go with their segment */
};

/**
 * te_store_drain - have what lies in our segments moved to others
 * @id:         one segment; NULL: all that we have
 * @timeout_ms: at most 10 minutes
 * @out:        what became of it, as far as the master has said; or NULL
 *
 * To be called before te_store_unmount() or te_store_close(): from now on the
 * segment gets nothing new, whatever comes of this, though until it is unmounted
 * it can be read. Values are moved whatever leases and pins they have. Ends
 * early when all is moved or nothing more can be: without others to move to, or
 * without room there, at once. A master that is started anew meanwhile knows
 * nothing of it.
 *
 * Blocks: timeout + call timeout. Returns 0 (all is moved), -101 (no such
 * segment, none at all, or it went meanwhile), -200 (no room for what is left),
 * -600, -800 or -801 (copies failed), -900 (the master is away, or went), -901
 * (the time is over), -1010 (a drain of it is under way), -1401 (too many are),
 * -1 (no memory).
 */
TE_API int te_store_drain(struct te_store *store,
			  const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
			  uint32_t timeout_ms, struct te_store_drained *out);

struct te_store_key {
	const void *bytes;
	uint32_t len;      /* 1 .. TE_STORE_KEY_MAX */
	uint32_t reserved; /* must be 0 */
};

/* One value: where it lies, or where it shall go, in pieces. */
struct te_store_value {
	const struct iovec *pieces; /* pieces[n_pieces] */
	uint32_t n_pieces;          /* 1 .. TE_PIECES_MAX - 1 */
	uint32_t reserved;          /* must be 0 */
};

/* ---- writing ---- */

enum te_store_soft_pin {
	TE_STORE_SOFT_PIN_PRESERVE = 0, /* as the value that is replaced */
	TE_STORE_SOFT_PIN_ENABLE = 1,
	TE_STORE_SOFT_PIN_DISABLE = 2,
};

/* What the values are; kept with them and shown, without any other effect. */
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
	TE_STORE_SAME_NODE =
		1 << 1, /* all of the call in one segment if it fits */
	TE_STORE_REPLICATE_FLAGS = (1 << 2) - 1,
};

#define TE_STORE_REPLICAS_MAX    32u
#define TE_STORE_PREFERRED_MAX   32u
#define TE_STORE_SOFT_PIN_MAX_MS 86400000u

/* How objects are to be kept. Names have no spaces and at most 263 bytes. */
struct te_store_replicate {
	uint32_t size;            /* sizeof(struct te_store_replicate) */
	uint32_t replica_num;     /* 1 .. TE_STORE_REPLICAS_MAX; fewer are made
			       * where there is no room for all */
	uint32_t soft_pin_action; /* enum te_store_soft_pin */
	uint32_t data_type;       /* enum te_store_data_type */
	uint64_t flags;           /* enum te_store_replicate_flags */
	/* With ENABLE: from when it can be read; 0: the master's default. */
	uint64_t soft_pin_ttl_ms;
	/* Owners' names (te_store_hostname()): hints, tried in this order. */
	const char *const *preferred_segments;
	size_t n_preferred_segments; /* at most TE_STORE_PREFERRED_MAX */
	/* Objects of a group are evicted together. One for each key of the
	 * call, or none; NULL or "": the key has no group. */
	const char *const *group_ids;
	size_t n_group_ids;
	uint64_t reserved[4]; /* must be 0 */
};

/**
 * te_store_put - store n values
 * @keys:    keys[n]; a key twice in one call counts once, the first
 * @values:  values[n]; at least 1 byte each
 * @how:     NULL: one replica of each, nothing special
 * @results: results[n]: 0 stored or already there (an existing object is left
 *           as it is), or a negative code per key
 *
 * A value is stored when one replica of it is; each is tried. An object that
 * another put is just writing counts as there. Blocks: until
 * all are stored or have failed; for each TE_STORE_BATCH_MAX keys or 1 MiB of
 * keys bounded by the call timeout per step to the master, the wait for space
 * (1 s) and the transfer's deadline (30 s + 1 s per GiB; some 2 s for an owner
 * that does not answer at all). Returns 0 when every result is 0, else the
 * first result that is not, or -600 with results untouched when an argument is
 * out of range. Codes: -200 (pool full, eviction could not help; also a value
 * larger than the largest segment of the pool), -1700 (beyond the quota of our
 * tenant, and nothing of it could be evicted), -800 (transfer failed), -900,
 * -901, -600 (this key or value), -1.
 */
TE_API int te_store_put(struct te_store *store, const struct te_store_key *keys,
			const struct te_store_value *values, size_t n,
			const struct te_store_replicate *how, int *results);

/**
 * te_store_upsert - store n values, in place of those that are there
 *
 * The old value is readable until the new one takes its place, and stays when
 * that fails. An unfinished put or upsert of the key by anybody else is given
 * up. As te_store_put() otherwise, but 0 means stored; also -708 (the object
 * is just being moved), -600 (its group would be another one). Whether it is
 * pinned for good stays as it was.
 */
TE_API int te_store_upsert(struct te_store *store,
			   const struct te_store_key *keys,
			   const struct te_store_value *values, size_t n,
			   const struct te_store_replicate *how, int *results);

/* Part of a value, and where in local memory it lies or shall go. */
struct te_store_range {
	uint32_t key;      /* index into the call's keys */
	uint32_t reserved; /* must be 0 */
	uint64_t offset;   /* in the value */
	void *addr;        /* addr[length] */
	uint64_t length;   /* at least 1 */
};
#define TE_STORE_RANGES_MAX 65536u /* of one call */

/**
 * te_store_put_open - begin to put n values in parts
 * @sizes:   sizes[n]: of the values, 1 .. TE_STORE_VALUE_MAX
 * @results: results[n]: 0 begun, -705 (there already, or being put), or as of
 *           te_store_put()
 *
 * Then te_store_put_ranges() until all bytes are there, and
 * te_store_put_commit(); nobody sees the object before. The master waits for
 * that as long as its setting put_start_discard_timeout_sec says. Blocks and
 * returns as te_store_put().
 */
TE_API int te_store_put_open(struct te_store *store,
			     const struct te_store_key *keys,
			     const uint64_t *sizes, size_t n,
			     const struct te_store_replicate *how,
			     int *results);
/**
 * te_store_put_ranges - write parts of values that were begun
 * @ranges:  ranges[n_ranges]: memory to read from; in any order, also again
 * @results: results[n_ranges]: its length, or a negative code
 *
 * Blocks: the transfer's deadline. Returns how many were written, or -600 with
 * results untouched, or -1. Codes: -704 (this key was not begun), -600 (empty,
 * or not inside the value), -800 (no replica is left), -1.
 */
TE_API int te_store_put_ranges(struct te_store *store,
			       const struct te_store_key *keys, size_t n_keys,
			       const struct te_store_range *ranges,
			       size_t n_ranges, int64_t *results);
/**
 * te_store_put_commit - make n values visible that were put in parts
 * @results: results[n]: 0, -704 (it was not begun, or has ended), -700 (bytes
 *           are missing: write them, or give up), -703 (parts are just being
 *           written), -800 (no replica is left, or it came too late), -900,
 *           -901, -600, -1
 *
 * After -700 and -703 the key is still open, after all others not. Objects whose
 * parts came in order, each once, have a checksum; the others are proved to
 * readers by their headers and the lease.
 * Returns 0 or the first result that is not.
 */
TE_API int te_store_put_commit(struct te_store *store,
			       const struct te_store_key *keys, size_t n,
			       int *results);
/* Give up: nothing is stored. As te_store_put_commit(), but never -700, -800. */
TE_API int te_store_put_abort(struct te_store *store,
			      const struct te_store_key *keys, size_t n,
			      int *results);

/* ---- reading ---- */

/**
 * te_store_get - fetch n values into the caller's memory
 * @values:  values[n]: room; only as many bytes as the object has are written
 * @results: results[n]: the object's size in bytes, or a negative code
 *
 * The bytes are verified. After a negative result the room's content is
 * undefined. Blocks: call timeout + replica timeout, for each
 * TE_STORE_BATCH_MAX keys or 1 MiB of keys. Returns the number of keys with a
 * size, or -600 with results untouched. Codes: -704 (miss), -600 (object larger
 * than the room, or this key), -800 (owner did not answer in time), -900, -901,
 * -1.
 */
TE_API int te_store_get(struct te_store *store, const struct te_store_key *keys,
			const struct te_store_value *values, size_t n,
			int64_t *results);

/*
 * A value in memory of the client's: data[length], the caller's to read and
 * write until free, which has to come before te_store_close(). A dummy's may
 * lie in memory of its daemon's, which can only be read. free(NULL) is fine.
 * Threads: any.
 */
struct te_store_buffer;
TE_API void *te_store_buffer_data(const struct te_store_buffer *buffer);
TE_API uint64_t te_store_buffer_length(const struct te_store_buffer *buffer);
TE_API void te_store_buffer_free(struct te_store_buffer *buffer);

/**
 * te_store_get_buffers - fetch n values into memory of the client's
 * @out:     out[n]: the value, to be freed; NULL where the result is negative
 * @results: as of te_store_get(), but there is always room
 *
 * The memory comes from the local buffer (te_store_config.local_buffer_bytes),
 * and from the heap where that has no room. As te_store_get() otherwise.
 */
TE_API int te_store_get_buffers(struct te_store *store,
				const struct te_store_key *keys, size_t n,
				struct te_store_buffer **out, int64_t *results);

/**
 * te_store_get_ranges - fetch parts of values
 * @keys:    keys[n_keys]; named by ranges, which may come in any order
 * @results: results[n_ranges]: its length, or a negative code
 *
 * All ranges of a key come from one value, which has not changed meanwhile;
 * their bytes have no checksum. Blocks as te_store_get(). Returns how many have
 * been fetched, or -600 with results untouched (too many ranges, a pointer that
 * is NULL), or -1 (no memory). Codes: as te_store_get(); -600 also for a range
 * that is empty or not inside the value, whose others are fetched.
 */
TE_API int te_store_get_ranges(struct te_store *store,
			       const struct te_store_key *keys, size_t n_keys,
			       const struct te_store_range *ranges,
			       size_t n_ranges, int64_t *results);

/**
 * te_store_get_open - keep where n objects lie, so that te_store_get(),
 * te_store_get_buffers() and te_store_get_ranges() of them need not ask
 * @results: results[n]: 0, -704 (not there), -800 (no owner can be reached),
 *           -900, -901, -600, -1
 *
 * They are leased, and their leases renewed, for as long as they are open: none
 * of them is evicted, nor removed without force. A lease that ends all the same,
 * as while the master is away, is asked for by the next read, which keeps what
 * it learns. A value that others replace meanwhile may be read as it was. A key may be opened several times. Returns 0 or the first
 * result that is not. Lasts until te_store_get_close(), or until another
 * master takes over.
 */
TE_API int te_store_get_open(struct te_store *store,
			     const struct te_store_key *keys, size_t n,
			     int *results);
/* Undo one te_store_get_open() of each key; others are fine. 0, -600. */
TE_API int te_store_get_close(struct te_store *store,
			      const struct te_store_key *keys, size_t n);

/**
 * te_store_exist - which of n keys are there
 * @results: results[n]: 1 there, 0 not, negative code
 *
 * Returns 0 or the first negative result, or -600 with results untouched.
 */
TE_API int te_store_exist(struct te_store *store,
			  const struct te_store_key *keys, size_t n,
			  int *results);

/* As exist, but results[n] are sizes in bytes; a missing key is -704. */
TE_API int te_store_size(struct te_store *store,
			 const struct te_store_key *keys, size_t n,
			 int64_t *results);

/**
 * te_store_remove - remove n keys
 * @force:   also when leased
 * @results: results[n]: 0, -704 (not there), -706 (leased), -703 (being put)
 */
TE_API int te_store_remove(struct te_store *store,
			   const struct te_store_key *keys, size_t n, int force,
			   int *results);

/**
 * te_store_remove_all - remove every object
 * @force:   also those under a lease; else they stay
 * @removed: how many were removed; may be NULL
 *
 * Blocks: until the master has looked at all objects, 60 s at most; when it is
 * away, until that is noticed and the call timeout has passed. Returns 0,
 * -600 (a call of this client is under way already), -900, -901, -1.
 */
TE_API int te_store_remove_all(struct te_store *store, int force,
			       uint64_t *removed);
/**
 * te_store_remove_matching - remove the objects whose key matches somewhere
 * @pattern: PCRE2, at most 2048 bytes
 *
 * As te_store_remove_all(); -600 also for a pattern that is malformed.
 */
TE_API int te_store_remove_matching(struct te_store *store, const char *pattern,
				    int force, uint64_t *removed);
/**
 * te_store_replica_clear - give up the replicas of n keys in a segment
 * @segment: name of its owner; NULL or "": in all segments
 * @results: results[n]: 0, -704, -706 (leased), -703 (being put), -710 (no
 *           replica of it is there)
 *
 * An object without any replica left is gone. Returns as te_store_remove().
 */
TE_API int te_store_replica_clear(struct te_store *store,
				  const struct te_store_key *keys, size_t n,
				  const char *segment, int *results);

/* Mooncake's values. */
enum te_store_replica_status {
	TE_STORE_REPLICA_COMPLETE = 3,
};

/* Where a replica lies. */
struct te_store_replica {
	uint32_t status;    /* enum te_store_replica_status */
	uint32_t n_extents; /* parts it lies in */
	uint64_t address;   /* of the first part's data, in its owner */
	uint64_t size;      /* of the object */
	char segment[TE_NAME_LEN_MAX + 1]; /* name of its owner */
	uint64_t reserved[2];
};

/**
 * te_store_replicas - where n objects lie
 * @results: results[n]: how many replicas, or a negative code
 * @out:     out[*n_out]: those of the first key, of the second, and so on
 * @n_out:   in: room; out: how many there are, which may exceed the room
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
 * te_store_copy - have further replicas of an object made
 * @targets: targets[n]: names of owners (te_store_hostname()); each gets one
 *           unless it has one; 1 .. TE_STORE_REPLICAS_MAX
 * @id:      out: to ask by, with te_store_task()
 *
 * An owner that has the object copies it; meanwhile it cannot be removed or
 * replaced (-708). Blocks: call timeout, but not for the copy. Returns 0, -704
 * (no such key), -703 (it is being put), -708 (it has a task already), -101 (no
 * such target), -1401 (too many tasks wait), -900, -901, -600, -1. A dummy
 * answers -600.
 */
TE_API int te_store_copy(struct te_store *store, const struct te_store_key *key,
			 const char *const *targets, size_t n,
			 uint8_t id[TE_STORE_TASK_ID_LEN]);
/**
 * te_store_move - have a replica of an object moved
 * @source, @target: names of owners
 *
 * As te_store_copy(); the source's replica is given up once the target has
 * one, and its readers are done. Also -710: there is none at the source; the
 * task fails where the target has one already.
 */
TE_API int te_store_move(struct te_store *store, const struct te_store_key *key,
			 const char *source, const char *target,
			 uint8_t id[TE_STORE_TASK_ID_LEN]);

/* Mooncake's values. */
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
	uint8_t client[16]; /* who executes it, or did; zeros: nobody yet */
	char message[96];   /* FAILED: why, for people */
	uint64_t reserved[4];
};
/* 0, -1400 (no such task, or it is forgotten), -900, -901, -600, -1. */
TE_API int te_store_task(struct te_store *store,
			 const uint8_t id[TE_STORE_TASK_ID_LEN],
			 struct te_store_task *out);

/**
 * te_store_pool_alloc - memory that a dummy shares with its daemon
 *
 * Values that lie in it are not copied on their way to the daemon. It is the
 * caller's until te_store_pool_free() or te_store_close(), whole pages, zeroed
 * when it is first used. Two values that are read at the same time should not
 * share a page of 4096 bytes: when the daemon stands still and one of the calls
 * is given up, the other may fail as well.
 *
 * NULL: no room in te_store_config.pool_bytes, or @store is no dummy.
 */
TE_API void *te_store_pool_alloc(struct te_store *store, uint64_t length);
/* 0, -600 (not from te_store_pool_alloc()). No call may be using it. */
TE_API int te_store_pool_free(struct te_store *store, void *addr);

/* Figures of the pool, from the master. */
struct te_store_pool {
	uint64_t capacity_bytes, used_bytes;
	uint64_t objects, owners, clients;
	uint64_t evicted_objects, evicted_bytes;
	uint64_t master_metadata_bytes; /* object table, extents, keys */
	uint64_t master_key_bytes;      /* of it: the keys themselves */
	uint64_t reserved[8];
};
/* 0, -900, -901. */
TE_API int te_store_pool(struct te_store *store, struct te_store_pool *out);

/* Figures of this client; counters only grow. */
struct te_store_stats {
	/* Keys read from where they were remembered to be; not remembered; and
	 * remembered, but not there any more. */
	uint64_t location_hits, location_misses, location_stale;
	uint64_t location_bytes; /* memory of what is remembered */
	/* Keys of puts that were tried again, for want of space mostly. */
	uint64_t put_retries;
	/* Keys whose bytes came from the hot cache, and that were not there;
	 * values that came into it, and that had to go for others. */
	uint64_t hot_hits, hot_misses, hot_added, hot_evicted;
	uint64_t hot_bytes; /* memory of the hot cache */
	uint64_t reserved[2];
};
/* Blocks: never. */
TE_API void te_store_stats(struct te_store *store, struct te_store_stats *out);

#ifdef __cplusplus
}
#endif

#endif
