/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_c.h - Mooncake's C interface of the store
 *
 * For programs written for Mooncake: names, values and meaning are those of its
 * libmooncake_store.so, implemented by libte-store. New programs should use
 * te/store.h. After Mooncake's functions the header has some of this project,
 * for keys of any bytes, values in several pieces, and setup by pairs.
 *
 * Handles are numbers that look like pointers, not addresses. Every function
 * refuses with -600 a handle that was destroyed, never created, or not set up.
 * Handles are invalid in a forked child, which may create its own. Strings,
 * arrays and memory of values are borrowed for the call. Threads: any, also
 * several on one store. A line of the log says which argument is wrong and
 * why.
 *
 * Results are Mooncake's numbers; 0 or more is success. Any function that
 * talks to other processes may return -900 (the master cannot be reached), -901
 * (no answer in time), -1 (no memory), and -600 (an argument or the handle is
 * invalid).
 */
#ifndef MOONCAKE_STORE_C_H
#define MOONCAKE_STORE_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MOONCAKE_STORE_API __attribute__((visibility("default")))
#else
#define MOONCAKE_STORE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef void *mooncake_store_t; /* NULL is none */

/*
 * Options of a put. NULL instead of a pointer to them means one replica and no
 * other option.
 */
struct mooncake_replicate_config {
	size_t replica_num; /* 0 is 1; at most 32 */
	int with_soft_pin;
	int with_hard_pin;               /* never evicted */
	const char **preferred_segments; /* names of owners, at most 32 */
	size_t preferred_segments_count;
};
typedef struct mooncake_replicate_config mooncake_replicate_config_t;

/* ---- life ---- */

/* Creates a store that is not set up. Returns NULL if there is no memory. */
MOONCAKE_STORE_API mooncake_store_t mooncake_store_create(void);
/*
 * Leaves the pool and invalidates the handle. NULL is fine. Blocks: until calls
 * of other threads on the store have returned, and 2 s at most, also when the
 * master is dead; before that, for drain_timeout at most (10 s, see
 * te/store_setup.h), what lies in its memory goes to other owners.
 */
MOONCAKE_STORE_API void mooncake_store_destroy(mooncake_store_t store);
/**
 * mooncake_store_setup - join a pool
 * @local_hostname:      host, or host:port
 * @metadata_server:     P2PHANDSHAKE, http://, etcd://, redis://; NULL or "":
 *                       P2PHANDSHAKE
 * @global_segment_size: bytes lent to the pool; 0: none; else 1024 at least
 * @local_buffer_size:   bytes; 0: none; committed when first used
 * @protocol:            "tcp", or "rdma", which falls back to tcp without an
 *                       RDMA device; NULL: tcp
 * @device_name:         devices to use with rdma; NULL: any
 * @master_server_addr:  host:port; NULL: 127.0.0.1:50051
 *
 * Follows the rules of te_store_setup_pairs(). Blocks: for the master, 5 s at
 * most (environment MC_RPC_CONNECT_TIMEOUT_MS). Returns 0, -600 (an argument is
 * invalid, or the store is set up already), -300 (the master speaks another
 * version of the protocol), -900.
 */
MOONCAKE_STORE_API int
mooncake_store_setup(mooncake_store_t store, const char *local_hostname,
		     const char *metadata_server, uint64_t global_segment_size,
		     uint64_t local_buffer_size, const char *protocol,
		     const char *device_name, const char *master_server_addr);
/*
 * Joins the pool of the master on this host as "localhost", without a
 * directory. Blocks and returns as mooncake_store_setup().
 */
MOONCAKE_STORE_API int mooncake_store_init_all(mooncake_store_t store,
					       const char *protocol,
					       const char *device_name,
					       uint64_t mount_segment_size);
/* Returns 0 (joined), 1 (not set up), 2 (the master cannot be reached). */
MOONCAKE_STORE_API int mooncake_store_health_check(mooncake_store_t store);
/*
 * Writes the name of the store's engine, "host:port", to out[len], truncated if
 * it is too long. Returns 0.
 */
MOONCAKE_STORE_API int mooncake_store_get_hostname(mooncake_store_t store,
						   char *out, size_t len);

/* ---- memory ---- */

/*
 * Registers memory. Memory of values need not be registered; transfers of some
 * devices are faster if it is. The memory must stay mapped until it is
 * unregistered. Returns 0, -600 (part of it is registered already).
 */
MOONCAKE_STORE_API int mooncake_store_register_buffer(mooncake_store_t store,
						      void *buffer,
						      size_t size);
/* Undoes a registration. Returns 0, -600 (none at this address). */
MOONCAKE_STORE_API int mooncake_store_unregister_buffer(mooncake_store_t store,
							void *buffer);

/* ---- writing ---- */

/*
 * Stores a value. If the key exists, its value is left as it is. Returns 0,
 * -200 (the pool is full and eviction could not help), -800 (no owner could be
 * written to), -1700 (the quota of the tenant is exceeded).
 */
MOONCAKE_STORE_API int
mooncake_store_put(mooncake_store_t store, const char *key, const void *value,
		   size_t size, const mooncake_replicate_config_t *config);
/*
 * Stores a value as mooncake_store_put() does; with @size 0 stores nothing,
 * logs a warning and returns 0.
 */
MOONCAKE_STORE_API int
mooncake_store_put_from(mooncake_store_t store, const char *key, void *buffer,
			size_t size, const mooncake_replicate_config_t *config);
/*
 * Stores @count values; results_out[count] are results of mooncake_store_put()
 * for each key. Returns 0, or a code that is every result as well.
 */
MOONCAKE_STORE_API int
mooncake_store_batch_put_from(mooncake_store_t store, const char **keys,
			      void **buffers, const size_t *sizes, size_t count,
			      const mooncake_replicate_config_t *config,
			      int *results_out);

/* ---- reading ---- */

/*
 * Reads an object into buffer[size]. Returns its size in bytes, -704 (no such
 * object), -600 (the object is larger than @size), -800 (no owner could be read
 * in time).
 */
MOONCAKE_STORE_API int64_t mooncake_store_get_into(mooncake_store_t store,
						   const char *key,
						   void *buffer, size_t size);
/* Reads @count objects. Returns as mooncake_store_batch_put_from(). */
MOONCAKE_STORE_API int
mooncake_store_batch_get_into(mooncake_store_t store, const char **keys,
			      void **buffers, const size_t *sizes, size_t count,
			      int64_t *results_out);
/* Returns 1 (the key exists), 0 (it does not), or a negative code. */
MOONCAKE_STORE_API int mooncake_store_is_exist(mooncake_store_t store,
					       const char *key);
MOONCAKE_STORE_API int mooncake_store_batch_is_exist(mooncake_store_t store,
						     const char **keys,
						     size_t count,
						     int *results_out);
/* Returns the object's size in bytes, or -704 (no such object). */
MOONCAKE_STORE_API int64_t mooncake_store_get_size(mooncake_store_t store,
						   const char *key);

/* ---- removing ---- */

/*
 * Removes an object, leased ones only with @force. Returns 0, -704 (no such
 * key), -706 (leased), -703 (being put).
 */
MOONCAKE_STORE_API int mooncake_store_remove(mooncake_store_t store,
					     const char *key, int force);
/*
 * Remove the objects whose key matches the pattern (PCRE2) anywhere, or all
 * objects; leased ones only with @force. Return the number of objects removed.
 * Block: 60 s at most.
 */
MOONCAKE_STORE_API int64_t mooncake_store_remove_by_regex(
	mooncake_store_t store, const char *pattern, int force);
MOONCAKE_STORE_API int64_t mooncake_store_remove_all(mooncake_store_t store,
						     int force);

/* ---- beyond Mooncake's header ---- */

/*
 * Joins a pool by the keys and values of te/store_setup.h: keys[n], values[n];
 * for example "master_server_addr" and "10.0.0.1:50051". Blocks and returns as
 * mooncake_store_setup().
 */
MOONCAKE_STORE_API int mooncake_store_setup_pairs(mooncake_store_t store,
						  const char *const *keys,
						  const char *const *values,
						  size_t n);
/*
 * Leaves the pool as mooncake_store_destroy(); the store may be set up again.
 * Returns 0 in any case.
 */
MOONCAKE_STORE_API int mooncake_store_close(mooncake_store_t store);

struct mooncake_key {
	const void *bytes; /* any values; length 1 .. 1024 */
	size_t length;
};

/* Memory of values: the pieces of all keys, one key after the other. */
struct mooncake_pieces {
	void *const *buffers;  /* buffers[sum of per_key] */
	const size_t *sizes;   /* sizes[sum of per_key], their sum at least 1 */
	const size_t *per_key; /* per_key[n], 1 .. 1023; NULL: one piece each */
};

#define MOONCAKE_SOFT_PIN_PRESERVE 0
#define MOONCAKE_SOFT_PIN_ENABLE   1
#define MOONCAKE_SOFT_PIN_DISABLE  2

struct mooncake_put_options {
	size_t size; /* sizeof(struct mooncake_put_options) */
	struct mooncake_replicate_config config;
	/* MOONCAKE_SOFT_PIN_*; config.with_soft_pin means ENABLE. */
	int soft_pin_action;
	uint64_t soft_pin_ttl_ms; /* 0: the master's default */
	int same_node; /* put all values into one segment if they fit */
	int data_type; /* 0 .. 9, Mooncake's ObjectDataType */
	/* Groups, one for each key, or none. A group is evicted as a whole. */
	const char *const *group_ids;
	size_t group_ids_count;
};

/*
 * Batches for keys of any bytes and values in pieces; otherwise as those above.
 * They write every result of results[n] in any case, unless @results is NULL,
 * and return as mooncake_store_batch_put_from().
 */
MOONCAKE_STORE_API int
mooncake_store_put_keys(mooncake_store_t store, const struct mooncake_key *keys,
			const struct mooncake_pieces *values, size_t n,
			const struct mooncake_put_options *options,
			int *results);
MOONCAKE_STORE_API int
mooncake_store_get_keys(mooncake_store_t store, const struct mooncake_key *keys,
			const struct mooncake_pieces *values, size_t n,
			int64_t *results);
MOONCAKE_STORE_API int
mooncake_store_exist_keys(mooncake_store_t store,
			  const struct mooncake_key *keys, size_t n,
			  int *results);
MOONCAKE_STORE_API int mooncake_store_size_keys(mooncake_store_t store,
						const struct mooncake_key *keys,
						size_t n, int64_t *results);
MOONCAKE_STORE_API int
mooncake_store_remove_keys(mooncake_store_t store,
			   const struct mooncake_key *keys, size_t n, int force,
			   int *results);

#ifdef __cplusplus
}
#endif

#endif
