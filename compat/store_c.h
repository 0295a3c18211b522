/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_c.h - Mooncake's C interface of the store
 *
 * For programs written for Mooncake: names, values and meaning are its own
 * (libmooncake_store.so), what does the work is libte-store. New programs are
 * better off with te/store.h. Below Mooncake's functions are some of our own,
 * for keys of any bytes, for values in several pieces, and for setup by pairs.
 *
 * Handles are numbers that look like pointers, not addresses: one that was
 * destroyed, or never created, is refused in every function with -600, and so
 * is one that is not set up. Those of a process are no handles in its fork
 * children, which may create their own. Strings and arrays are borrowed for the
 * call, and so is memory: when a call has returned nothing touches it. Threads:
 * any, on one store too. A line of the log says which argument is wrong and
 * why.
 *
 * Results are Mooncake's numbers, 0 or more for success. Any function that
 * talks to others may return -900 (the master cannot be reached), -901 (no
 * answer in time), -1 (no memory), and -600 (an argument, or the handle).
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
 * Replication of values. NULL where one is asked for: one replica, nothing
 * more.
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

/* A store that is not set up. NULL: no memory. */
MOONCAKE_STORE_API mooncake_store_t mooncake_store_create(void);
/*
 * Closes it, and ends the handle. NULL is fine. Blocks: for calls that others
 * are in, and 2 s at most, also when the master is dead.
 */
MOONCAKE_STORE_API void mooncake_store_destroy(mooncake_store_t store);
/**
 * mooncake_store_setup - join a pool
 * @local_hostname:      host, or host:port
 * @metadata_server:     P2PHANDSHAKE, http://, etcd://, redis://; NULL or "":
 *                       P2PHANDSHAKE
 * @global_segment_size: bytes lent to the pool; 0: none; else 1024 at least
 * @local_buffer_size:   bytes; 0: none; not committed before they are used
 * @protocol:            "tcp", or "rdma", which goes by tcp without such a
 *                       device; NULL: tcp
 * @device_name:         with rdma: those to use; NULL: whichever
 * @master_server_addr:  host:port; NULL: 127.0.0.1:50051
 *
 * By the rules of te_store_setup_pairs(). Blocks: 5 s at most, for the
 * master (environment MC_RPC_CONNECT_TIMEOUT_MS).
 * Returns 0; -600 (also: set up already); -300 (the master speaks another
 * version); -900.
 */
MOONCAKE_STORE_API int
mooncake_store_setup(mooncake_store_t store, const char *local_hostname,
		     const char *metadata_server, uint64_t global_segment_size,
		     uint64_t local_buffer_size, const char *protocol,
		     const char *device_name, const char *master_server_addr);
/* The same as "localhost", without a directory, at the master of this host. */
MOONCAKE_STORE_API int mooncake_store_init_all(mooncake_store_t store,
					       const char *protocol,
					       const char *device_name,
					       uint64_t mount_segment_size);
/* 0: joined; 1: not set up; 2: the master cannot be reached now. */
MOONCAKE_STORE_API int mooncake_store_health_check(mooncake_store_t store);
/* "host:port" by which others know it into out[len], cut off. 0. */
MOONCAKE_STORE_API int mooncake_store_get_hostname(mooncake_store_t store,
						   char *out, size_t len);

/* ---- memory ---- */

/*
 * Memory of values need not be registered; some devices find it faster then.
 * Must stay mapped until it is unregistered. 0; -600: part of it is registered
 * already.
 */
MOONCAKE_STORE_API int mooncake_store_register_buffer(mooncake_store_t store,
						      void *buffer,
						      size_t size);
/* 0; -600: nothing is registered at this address. */
MOONCAKE_STORE_API int mooncake_store_unregister_buffer(mooncake_store_t store,
							void *buffer);

/* ---- writing ---- */

/*
 * An object that is there is left as it is: 0. -200: the pool is full, and
 * eviction could not help; -800: no owner could be written to; -1700: beyond
 * the quota.
 */
MOONCAKE_STORE_API int
mooncake_store_put(mooncake_store_t store, const char *key, const void *value,
		   size_t size, const mooncake_replicate_config_t *config);
/*
 * The same, but nothing is stored of @size 0, and 0 returned, with a warning.
 */
MOONCAKE_STORE_API int
mooncake_store_put_from(mooncake_store_t store, const char *key, void *buffer,
			size_t size, const mooncake_replicate_config_t *config);
/*
 * results_out[count]: as of mooncake_store_put(), each on its own. Returns 0,
 * or a code that is every result as well.
 */
MOONCAKE_STORE_API int
mooncake_store_batch_put_from(mooncake_store_t store, const char **keys,
			      void **buffers, const size_t *sizes, size_t count,
			      const mooncake_replicate_config_t *config,
			      int *results_out);

/* ---- reading ---- */

/*
 * The size of the object, whose bytes are in @buffer then; -704: there is none;
 * -600: it is larger than @size; -800: no owner could be read in time.
 */
MOONCAKE_STORE_API int64_t mooncake_store_get_into(mooncake_store_t store,
						   const char *key,
						   void *buffer, size_t size);
/* results_out[count]: the same for each. Returns as batch_put_from. */
MOONCAKE_STORE_API int
mooncake_store_batch_get_into(mooncake_store_t store, const char **keys,
			      void **buffers, const size_t *sizes, size_t count,
			      int64_t *results_out);
/* 1: it is there; 0: it is not. */
MOONCAKE_STORE_API int mooncake_store_is_exist(mooncake_store_t store,
					       const char *key);
MOONCAKE_STORE_API int mooncake_store_batch_is_exist(mooncake_store_t store,
						     const char **keys,
						     size_t count,
						     int *results_out);
/* Bytes; -704: there is no such object. */
MOONCAKE_STORE_API int64_t mooncake_store_get_size(mooncake_store_t store,
						   const char *key);

/* ---- removing ---- */

/* 0; -704: not there; -706: leased, unless @force; -703: being put. */
MOONCAKE_STORE_API int mooncake_store_remove(mooncake_store_t store,
					     const char *key, int force);
/*
 * How many were removed: those whose key the pattern (PCRE2) matches somewhere,
 * or all; without @force not those that are leased. Blocks: 60 s at most.
 */
MOONCAKE_STORE_API int64_t mooncake_store_remove_by_regex(
	mooncake_store_t store, const char *pattern, int force);
MOONCAKE_STORE_API int64_t mooncake_store_remove_all(mooncake_store_t store,
						     int force);

/* ---- not in Mooncake's header ---- */

/*
 * Setup by the keys and values of te/store_setup.h: keys[n] and values[n], as
 * "master_server_addr" and "10.0.0.1:50051". Returns as mooncake_store_setup().
 */
MOONCAKE_STORE_API int mooncake_store_setup_pairs(mooncake_store_t store,
						  const char *const *keys,
						  const char *const *values,
						  size_t n);
/* Leave the pool; it may be set up again. 0, also when it is not set up. */
MOONCAKE_STORE_API int mooncake_store_close(mooncake_store_t store);

struct mooncake_key {
	const void *bytes; /* any; 1 .. 1024 of them */
	size_t length;
};

/* Memory of values: the pieces of all keys in a row. */
struct mooncake_pieces {
	void *const *buffers;  /* buffers[sum of per_key] */
	const size_t *sizes;   /* sizes[sum of per_key], each at least 1 */
	const size_t *per_key; /* per_key[n], 1 .. 1023; NULL: one for each */
};

#define MOONCAKE_SOFT_PIN_PRESERVE 0
#define MOONCAKE_SOFT_PIN_ENABLE   1
#define MOONCAKE_SOFT_PIN_DISABLE  2

struct mooncake_put_options {
	size_t size; /* sizeof(struct mooncake_put_options) */
	struct mooncake_replicate_config config;
	int soft_pin_action; /* MOONCAKE_SOFT_PIN_*; config.with_soft_pin: ENABLE */
	uint64_t soft_pin_ttl_ms; /* 0: the master's default */
	int same_node; /* all of the call in one segment if it fits */
	int data_type; /* 0 .. 9, Mooncake's ObjectDataType */
	/* Keys of a group are evicted together; one for each key, or none. */
	const char *const *group_ids;
	size_t group_ids_count;
};

/*
 * As the batches above, for keys of any bytes and values in pieces. results[n]
 * are all written whatever happens, unless it is NULL. Return as
 * batch_put_from.
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
