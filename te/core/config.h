/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - settings of an engine, and the one table of its deadlines
 *
 * A te_config only remembers names and values that were found right; the
 * values themselves are made anew for each engine, so that environment and
 * te_config_set() have their weight whatever the order of the calls.
 */
#ifndef TE_CORE_CONFIG_H
#define TE_CORE_CONFIG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/list.h"
#include "base/mem.h"
#include "te/backend.h"

/* A setting that the user has made; its value was found right. */
struct tei_config_entry {
	struct tei_list link;
	char *name, *value;
};

struct te_config {
	struct tei_list entries; /* in the order they were set */
};

#define TEI_WORKERS_MAX 16 /* of an engine */

/* Fields of different writers share no cache line, wherever the struct lies. */
#define TEI_APART(type, before, after)                                 \
	static_assert(offsetof(type, after) - offsetof(type, before) - \
				      sizeof(((type *)0)->before) >=   \
			      TEI_CACHE_LINE,                          \
		      #before " and " #after)

struct tei_config {
	char *bind;       /* NULL: wildcard */
	bool insecure;    /* serve everybody, other hosts too */
	char *allow_uids; /* users that are served, too; base/peer.h */
	char *backends;   /* comma list; NULL: those of protocol */
	char *protocol;   /* any, rdma, efa, tcp, nvlink_intra, nvlink */
	bool intranode_nvlink, force_mnnvl, nvlink_ipc;
	char *devices;  /* comma list; NULL: all there are */
	char *topology; /* file; NULL: look at the machine */
	/* Directory, see te/directory/. */
	char *metadata_server, *metadata_cluster_id; /* NULL: none */
	uint64_t metadata_ttl, metadata_timeout;     /* ms */
	char *redis_username, *redis_password;       /* NULL: none */
	uint64_t redis_db_index;
	char *module_path;    /* NULL: the library's own folder */
	char *cuda_library;   /* file; NULL: where it usually is */
	char *nvidia_peermem; /* "1", "0"; NULL: whether it is loaded */
	uint64_t gpu_staging; /* bytes of a GPU's stage */
	/* Deadlines, ms. */
	uint64_t connect_timeout;  /* a step of a connection or exchange */
	uint64_t open_timeout;     /* te_segment_open() with retries */
	uint64_t transfer_timeout; /* a request, and more per GiB */
	uint64_t transfer_timeout_per_gib;
	uint64_t suspect_after;        /* silence though data is owed */
	uint64_t reroute_after;        /* the same, while another rail works */
	uint64_t pause_min, pause_max; /* of a rail that fails */
	uint64_t endpoints;            /* of a rail to peers, at once */
	uint64_t seed;
	uint64_t spin_us; /* stay awake after the last work */
	bool worker_thread;
	uint64_t workers; /* 0: one for each NUMA node that has rails */
	uint64_t slice_min, slice_max, window; /* bytes */
	/* Notifications not taken: of one peer, their bytes, memory of all. */
	uint64_t notify_queue, notify_queue_bytes, notify_memory;
	bool hugetlb;        /* te_memory_alloc() takes reserved huge pages */
	uint64_t prefault;   /* bytes of lent memory to bring in; 0: none */
	char *prefault_root; /* folder of /proc and /sys; NULL: "" */
	const char *copy_kernel; /* auto, or of TEI_COPY_KERNELS */
};

/* The registry's rows over struct tei_config. */
extern const struct tei_setting tei_config_rows[];
extern const size_t tei_config_n_rows;

/*
 * Defaults, then environment, then @from (NULL: nothing). @backends: those that
 * TE_BACKENDS may list, up to NULL; NULL: the caller opens none, and its names
 * are not checked. -EINVAL, -ERANGE (an environment variable; logged), -ENOMEM.
 * tei_config_fini() in any case but an error.
 */
int tei_config_make(const struct te_config *from,
		    const struct tei_backend_ops *const *backends,
		    struct tei_config *out);
/*
 * Checks the setting backends: @list is NULL, "", auto, or names of @backends
 * (up to NULL) that are separated by commas; spaces around them do not count.
 * Returns 0, or -EINVAL and says in @error which entry is no backend and which
 * names there are. @from: " (environment X)", where the list stood, or "".
 */
int tei_config_check_backends(const struct tei_backend_ops *const *backends,
			      const char *list, const char *from,
			      char error[TEI_CONF_ERROR_LEN]);
/* Tells whether a list of backends names some; NULL, "" and auto name none. */
bool tei_config_names_backends(const char *list);
/*
 * Checks what is asked of NVLink. -EINVAL: GPUs of other trays by NVLink and by
 * nothing else, which is not supported; logged, as is what has no effect.
 */
int tei_config_check_nvlink(const struct tei_config *c);
struct tei_copier;
/*
 * Finds the kernel that copy_kernel names; *out: NULL, the fastest one. Returns
 * 0; -EOPNOTSUPP: this processor cannot run it; logged.
 */
int tei_config_check_copies(const struct tei_config *c,
			    const struct tei_copier **out);
/* Tells whether the protocol lets no rail with RDMA in. */
bool tei_config_is_tcp(const struct tei_config *c);
void tei_config_fini(struct tei_config *config);
/*
 * The same for the rows of one backend; @values: ops->config_size zero bytes.
 * @devices, @allow_uids: for its settings of these names, unless @from has
 * them; NULL: nothing.
 */
int tei_config_make_backend(const struct te_config *from,
			    const struct tei_backend_ops *ops,
			    const char *devices, const char *allow_uids,
			    void *values);
void tei_config_fini_backend(const struct tei_backend_ops *ops, void *values);

/*
 * Tells whether @name is in the comma list @list (NULL or "": everything is).
 */
bool tei_config_lists(const char *list, const char *name);

/* ms that a request of @length bytes may take by default. */
uint64_t tei_config_transfer_ms(const struct tei_config *c, uint64_t length);

#endif
