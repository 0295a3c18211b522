/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - what a backend must do, and what the core promises it
 *
 * A backend moves slices between memory of two engines. It knows nothing of
 * batches, segments, retries or the store. Unless an op says otherwise the
 * core calls it from one thread per rail at a time (the holder of the drive
 * token), so a backend needs no lock around its rail, endpoints or slices.
 *
 * An endpoint is one side of a connection between a rail and a peer's rail.
 * The initiator's side sends slices; the target's side applies them. A backend
 * may keep several lanes (connections, queue pairs) in one endpoint; the
 * endpoint is what fails, is dropped and is confirmed as a whole.
 *
 *   initiator: endpoint_open -> address A --control--> target: endpoint_open,
 *   endpoint_connect(A) -> address B --control--> initiator:
 *   endpoint_connect(B) -> tei_endpoint_up() -> post() ...
 */
#ifndef TE_BACKEND_H
#define TE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/conf.h"
#include "base/crc.h" /* tei_crc32c_raw() */
#include "base/list.h"
#include "base/net.h"
#include "base/peer.h"

struct te_topo;         /* machine picture */
struct tei_copier;      /* base/copy.h */
struct tei_engine_core; /* the core's side of an engine; opaque here */
struct tei_link;        /* the core's side of an endpoint; opaque here */
struct tei_work;        /* the core's side of a slice; opaque here */

#define TEI_BACKEND_ABI 1u
#define TEI_BLOB_MAX    256   /* bytes of an address, or of what a rail says */
#define TEI_KEY_MAX     16384 /* bytes of a region's key; most need a few */

enum tei_backend_caps {
	TEI_CAP_REMOTE = 1u << 0,     /* reaches other hosts */
	TEI_CAP_ONE_SIDED = 1u << 1,  /* the target's CPU is not involved */
	TEI_CAP_DEVICE_MEM = 1u << 2, /* region_add() takes GPU memory */
	TEI_CAP_SELF = 1u << 3,       /* reaches this very engine only */
	TEI_CAP_BACKING = 1u << 4,    /* likes memory that has an fd */
	TEI_CAP_BY_NAME = 1u << 5,    /* opened only where settings name it */
	TEI_CAP_COPIES = 1u << 6,     /* has GPU memory of targets copied */
	TEI_CAP_ACROSS = 1u << 7,     /* copies it from and to GPU memory */
	TEI_CAP_EFA = 1u << 8,        /* is the RDMA that protocol efa means */
};

struct tei_device {
	char name[48];      /* "0", "eth0", "mlx5_0/1"; unique per backend */
	uint64_t speed_bps; /* 0: unknown */
	int numa_node;      /* -1: unknown */
	/*
	 * Address at which IP reaches the device, without port; family 0:
	 * nowhere, or anywhere.
	 */
	struct tei_address address;
};

struct tei_rail {
	const struct tei_backend_ops *ops;
	struct tei_engine_core *core; /* not owned */
	/*
	 * Address and speed: by tei_rail_renewed(), with the token and lock 10.
	 */
	struct tei_device device;
	uint32_t index;            /* in the engine's list of rails */
	const void *config;        /* ops->config_size bytes by ops->settings */
	const char *bind;          /* address to listen on; NULL: wildcard */
	struct tei_peer_rule rule; /* whom to serve */
	/* Kernel that copies cold memory; NULL: the fastest one. */
	const struct tei_copier *copier;
	/*
	 * Set by rail_open(): the device has no link yet, or no address. It is
	 * used once tei_rail_changed() says that it is up.
	 */
	bool down;
	/*
	 * Set by the backend: progress() has work, such as copies, that no fd
	 * announces. Drivers then do not sleep, and submitting leaves the rail
	 * alone unless very little was posted. Token.
	 */
	bool busy;
	/*
	 * Set by rail_open(): most endpoints to peers that it has at once,
	 * beyond which the one unused for longest gives way; 0: as many as the
	 * setting `endpoints` says, which is never exceeded.
	 */
	uint64_t endpoints;
	/*
	 * Timer of the rail, set by the backend: progress() is called at this
	 * time (monotonic, ns) or soon after; 0: none. The core then clears it
	 * and sets timed_out, which the backend clears. Token.
	 */
	uint64_t timer_ns;
	bool timed_out;
	/*
	 * Set by the core, cleared by the backend if it cares: wait_fd() has
	 * been seen readable since the last progress(). Token.
	 */
	bool woken;
	/*
	 * Set by progress(): a connected socket from which it has read as
	 * target. -1: none; so the core sets it again. Token.
	 */
	int read_fd;
	/*
	 * Set by the core: the engine ends. What a device refuses to let go of
	 * is said in the log then, not waited for. Token.
	 */
	bool closing;
	/* Counters that the backend keeps; read by te_engine_stats(). */
	_Atomic uint64_t sent_bytes, received_bytes; /* payload */
	_Atomic uint64_t bad_frames; /* unreadable input, connection closed */
	_Atomic uint64_t refused_slices; /* as target: access, range, epoch */
	/*
	 * Number of endpoints that the device refuses to end now, so that what
	 * they use stays in use.
	 */
	_Atomic uint64_t stuck_endpoints;
	_Alignas(max_align_t) unsigned char priv[];
};

struct tei_endpoint {
	struct tei_rail *rail;
	struct tei_link *link; /* not owned */
	bool target;           /* applies slices of the peer; else sends ours */
	uint64_t epoch;        /* access epoch it was opened for */
	/* Initiator: where the peer's control connection leads, port unset. */
	struct tei_address peer;
	_Alignas(max_align_t) unsigned char priv[];
};

enum tei_op {
	TEI_READ = 1, /* remote to local */
	TEI_WRITE = 2,
};

struct tei_slice {
	struct tei_list link;    /* in the list of whoever owns it now */
	struct tei_endpoint *ep; /* not owned; set by the core before post() */
	struct tei_work *work;   /* not owned */
	uint32_t op;             /* enum tei_op */
	uint32_t priority;       /* enum te_priority; a hint */
	uint32_t n_iov;          /* >= 1 */
	const struct iovec *iov; /* iov[n_iov]; not owned */
	uint64_t skip;           /* bytes to leave out of iov[0] */
	uint64_t remote;         /* address at the target */
	uint64_t length;    /* bytes, >= 1; iov after skip has at least these */
	const uint8_t *key; /* key[key_len], as the target's region_add() */
	uint32_t key_len;
	/*
	 * CRC32C (reflected, no final inversion) over crc_len bytes from
	 * crc_from of this slice, taken as they pass, or crc_len 0. In: the
	 * state to start from. Out, when done with err 0: the state after.
	 * tei_crc32c_raw() takes it.
	 */
	uint32_t crc;
	uint64_t crc_from, crc_len;
	int32_t provider_code; /* set by the backend before a failed done() */
	_Alignas(max_align_t) unsigned char priv[];
};

/*
 * Returns how many of the @n bytes from @at of the slice its checksum covers;
 * *from, unless none: how far behind @at they begin.
 */
static inline uint64_t tei_slice_summed(const struct tei_slice *slice,
					uint64_t at, uint64_t n, uint64_t *from)
{
	uint64_t first = slice->crc_from > at ? slice->crc_from : at;
	uint64_t end = slice->crc_from + slice->crc_len;

	if (end > at + n)
		end = at + n;
	if (!slice->crc_len || first >= end)
		return 0;
	*from = first - at;
	return end - first;
}

typedef int tei_device_fn(const struct tei_device *device, void *arg);

/* Arguments of probe(); all memory is the core's. */
struct tei_search {
	const struct te_topo *topo; /* NULL: the machine was not looked at */
	const void *config;         /* as every rail will have it */
	const char *module_path;    /* as tei_module_load() takes it */
	bool named; /* by the settings: why it has no device is said aloud */
	tei_device_fn *found;
	void *arg;
};

struct tei_backend_ops {
	const char *name; /* "tcp"; lower case, unique; it goes on the wire */
	uint32_t abi;     /* TEI_BACKEND_ABI */
	uint32_t caps;

	/* Private bytes the core keeps behind each object, zeroed. */
	size_t rail_size, endpoint_size, slice_size;

	/* "tcp.lanes" ...: filled into config_size bytes for each rail. */
	const struct tei_setting *settings;
	size_t n_settings, config_size;

	/*
	 * Report every device that is usable or may become so, best first; stop
	 * when found() returns non-zero and return that. No device: 0 and no
	 * call. May block. Called by te_engine_create(), before any rail
	 * exists. -EINVAL: a setting names what is not there; logged.
	 */
	int (*probe)(const struct tei_search *search);

	/*
	 * Tells whether with such settings a device can have one rail only, for
	 * one worker: its port is fixed, say. NULL: it can have several.
	 */
	bool (*opens_once)(const void *config);

	/* On error nothing stays allocated. -ENODEV: gone since probe(). */
	int (*rail_open)(struct tei_rail *rail);
	/*
	 * Closes the rail; every endpoint is closed and every region removed by
	 * now.
	 */
	void (*rail_close)(struct tei_rail *rail);

	/*
	 * Describes the rail, so that peers see whether they reach it. *len:
	 * in, room in @blob (TEI_BLOB_MAX); out, bytes used; 0: nobody reaches
	 * it yet, and tei_rail_renewed() follows. NULL: no description is
	 * needed. Any thread, once the rail is open. Peers see 0 bytes also
	 * while the core holds the rail back (te/region/deferred.h).
	 */
	int (*rail_describe)(struct tei_rail *rail, void *blob, size_t *len);
	/*
	 * Tells whether @rail reaches the rail that said @blob of itself, which
	 * comes from outside: 0: no; else a rank, and the higher the better.
	 * @peer: where the control connection to it leads, port unset. NULL:
	 * always 1. Any thread, once the rail is open: workers look at each
	 * other's rails. Never blocks.
	 */
	int (*rail_match)(struct tei_rail *rail, const struct tei_address *peer,
			  const void *blob, size_t len);

	/*
	 * Make memory reachable through @rail under @id and write the key that
	 * a peer needs. *len: in, room in @key (TEI_KEY_MAX); out, bytes used.
	 * Called from any thread, may block: guard what it shares with
	 * progress(). -EOPNOTSUPP: this kind of memory cannot be reached. A
	 * rail that has no room for all of it may take some, where key_covers()
	 * says what: see tei_region_spread().
	 */
	int (*region_add)(struct tei_rail *rail, uint64_t id, void *addr,
			  uint64_t length, uint32_t access, void *key,
			  size_t *len);
	/*
	 * Tells whether slices to the region of @key have GPU memory only as
	 * their local memory, which comes as it is. NULL: none has. Never
	 * blocks.
	 */
	bool (*region_is_across)(const void *key, size_t len);
	/*
	 * Tells whether the byte at @address, of its region, is reached by
	 * @key; *room: bytes from there on, at least 1, of which the same
	 * holds. NULL: a key reaches all of its region. Any thread. Never
	 * blocks.
	 */
	bool (*key_covers)(const void *key, size_t len, uint64_t address,
			   uint64_t *room);
	/*
	 * Let nobody begin to touch it any more. 0: nobody does; -EBUSY: ask
	 * again. NULL: by then nobody can. Same threads as region_add().
	 */
	int (*region_hide)(struct tei_rail *rail, uint64_t id);
	/*
	 * Removes a region, on the same threads; no slice of it is in flight,
	 * and region_hide() has said 0 or every endpoint is closed.
	 */
	void (*region_remove)(struct tei_rail *rail, uint64_t id);

	/*
	 * Open this side's half and write what the other half needs; *len as in
	 * rail_describe(). On error nothing stays allocated, no close() comes.
	 */
	int (*endpoint_open)(struct tei_endpoint *ep, void *addr, size_t *len);
	/*
	 * @addr: the other half's, from outside: check it. Never blocks. 0:
	 * connected. -EINPROGRESS: progress() will call tei_endpoint_up() or
	 * _down(). Else failed, and neither will come.
	 */
	int (*endpoint_connect)(struct tei_endpoint *ep, const void *addr,
				size_t len);
	/*
	 * The way that an initiator's endpoint which is up goes, in words for
	 * people: addresses, MTU. @room > 0, cut where it is too long. NULL: it
	 * has none.
	 */
	void (*endpoint_way)(const struct tei_endpoint *ep, char *out,
			     size_t room);
	/* Closes a flushed endpoint. Stops applying at a target. */
	void (*endpoint_close)(struct tei_endpoint *ep);

	/*
	 * Post up to @n slices in order; returns how many were taken, 0 .. n.
	 * Fewer than @n: no room, call progress() first. A taken slice gets
	 * exactly one tei_slice_done(), never from inside post(); one not taken
	 * gets none. Negative: the endpoint is broken and none was taken.
	 * done(-EOPNOTSUPP): this endpoint does not reach the region after all,
	 * nothing was touched; the core takes the way of another backend.
	 */
	int (*post)(struct tei_endpoint *ep, struct tei_slice *const slices[],
		    int n);
	/*
	 * Take one slice back: its one done(-ECANCELED or what it ended with)
	 * comes from inside this call or of progress() soon, whatever the peer
	 * does. Local memory is quiet then. Where only breaking the connection
	 * makes it so, the endpoint goes down and flush() has it come. Not
	 * called any more once flush() has been.
	 */
	void (*cancel)(struct tei_endpoint *ep, struct tei_slice *slice);
	/*
	 * Break the endpoint: nothing is sent afterwards. Never blocks. Called
	 * once; close() follows, and nothing else before it.
	 * 0: every slice has been handed back with done(@err, or what it ended
	 * with) from inside this call. Always, if it never was connected.
	 * -EINPROGRESS: a device may still touch memory, which stays reserved.
	 * progress() hands slices back as they become quiet, and calls
	 * tei_endpoint_flushed() when that is all; close() waits for it.
	 */
	int (*flush)(struct tei_endpoint *ep, int err);
	/*
	 * Stops a target: it applies nothing more that came by this endpoint.
	 * Returns 0 when that is so (remote quiet), -EINPROGRESS: progress()
	 * reports it by tei_endpoint_down(ep, -ESTALE).
	 */
	int (*drop)(struct tei_endpoint *ep);

	/*
	 * Handle at most @budget completions and events. Never blocks. Returns
	 * how many; negative: the device is dead, the core flushes and closes,
	 * and calls it only for endpoints that are still being flushed.
	 */
	int (*progress)(struct tei_rail *rail, int budget);
	/*
	 * Returns an fd that is readable when progress() has something to do
	 * (level-triggered, the same fd every time; while rail->busy it need
	 * not be), or -1: only what post() brought is ever to be done, and
	 * progress() says 0 when that is over.
	 */
	int (*wait_fd)(struct tei_rail *rail);
	/*
	 * Arms wait_fd(): until the next progress() it must become readable
	 * when there is something to do. Before arm() it need not. Takes
	 * no time where nothing is to be done. NULL: it is always armed.
	 */
	void (*arm)(struct tei_rail *rail);
};

#define TEI_PIN_COPIED 1 /* returned by tei_region_pin() */

/*
 * Checks, as a target, before touching memory that a peer named: key, range,
 * access rights, group and the endpoint's access epoch, and keeps the region
 * from being removed until unpin. Holder of the rail's drive token only.
 * @access: TE_ACCESS_REMOTE_READ or _WRITE. *pin: for unpin. Returns 0;
 * TEI_PIN_COPIED, of backends with TEI_CAP_COPIES: *local is a GPU's, reached
 * only by tei_region_copy_open(); -EACCES, -EFAULT (no such region, key or
 * range), -ESTALE (epoch is over).
 */
int tei_region_pin(struct tei_endpoint *ep, const void *key, size_t key_len,
		   uint64_t address, uint64_t length, uint32_t access,
		   void **local, uint64_t *pin);
void tei_region_unpin(struct tei_endpoint *ep, uint64_t pin);
/* False: there was no TEI_PIN_COPIED yet, nor is one to come just now. */
bool tei_region_any_copied(const struct tei_endpoint *ep);
/*
 * The kernel could not touch memory that @pin holds: who registered it has
 * unmapped it. From now on tei_region_pin() says -EFAULT of a range of this
 * region that is not there. Logged once a region.
 */
void tei_region_doubt(struct tei_endpoint *ep, uint64_t pin);

/*
 * A copy between a GPU's memory in a region and memory of the host, of a target
 * that cannot touch the former. Token.
 */
struct tei_region_copy {
	void *memory; /* memory[length], the host's */
	uint64_t length;
	/*
	 * Ends it, called with the token from outside the backend's calls.
	 * @err: 0 or -EIO. Its region is touched no more, nor pinned by it.
	 */
	void (*done)(struct tei_region_copy *copy, int err);
	void *arg; /* the backend's */
};

/*
 * Takes memory for @length bytes at @local, 1 to TEI_REGION_COPY_MAX, of the
 * region that @pin holds; @write: they go into it. Returns 0 and *out, the
 * caller's to end, of fewer bytes where there is little room; -EAGAIN: there is
 * none before other copies have ended, or a peer takes what it asked for;
 * -ENOMEM.
 */
#define TEI_REGION_COPY_MAX (256u << 10)
int tei_region_copy_open(struct tei_endpoint *ep, uint64_t pin, void *local,
			 uint64_t length, bool write,
			 struct tei_region_copy **out);
/*
 * Begins it, of the first @length bytes; done() follows, not from inside. It
 * touches the region whatever becomes of the endpoint, so drop() and flush()
 * say -EINPROGRESS until then.
 */
void tei_region_copy_begin(struct tei_region_copy *copy, uint64_t length);
/* Gives its memory back; it is not under way. */
void tei_region_copy_end(struct tei_region_copy *copy);

/*
 * Calls a backend makes, only from inside its progress(), flush() or cancel().
 * After done() the slice belongs to the core. After down() the core calls
 * flush(), and after flushed() close(), not from inside of them. The error of
 * down() says whose fault it is: -ESTALE and -ECANCELED nobody's, -EREMOTEIO
 * the peer's, anything else that of the route between two rails, or of the
 * device where no peer is reached.
 */
void tei_slice_done(struct tei_slice *slice, int err, uint64_t bytes);
/* Says that bytes of a peer arrive, though no slice is done by them yet. */
void tei_endpoint_moved(struct tei_endpoint *ep);
void tei_endpoint_up(struct tei_endpoint *ep);
void tei_endpoint_down(struct tei_endpoint *ep, int err);
/* Reports that what flush() left is done. From inside progress() only. */
void tei_endpoint_flushed(struct tei_endpoint *ep);
/*
 * Reports that the device has lost its link, or has it again. From inside
 * progress() only. Lost: the core breaks every endpoint of the rail and opens
 * none.
 */
void tei_rail_changed(struct tei_rail *rail, bool up);
/*
 * The same, while it is down: rail_describe() says something else than before,
 * and the address and speed of its device are those of @device. Peers are
 * notified.
 */
void tei_rail_renewed(struct tei_rail *rail, const struct tei_device *device);

/* Memory of te_memory_alloc() that others can map, too. */
struct tei_backing {
	int fd; /* memfd that cannot shrink; ours to close, not yours */
	uint64_t offset; /* of the range in it */
	uint64_t length; /* of all of it; asked: without what rounding added */
	uint64_t asked;
};
/*
 * Finds the arena and fd behind the range. -ENOENT: other memory, or memory
 * without an fd. Any thread. Takes lock 10.
 */
int tei_memory_backing(struct tei_engine_core *core, const void *addr,
		       uint64_t length, struct tei_backing *out);

/*
 * Memory of a peer's te_memory_alloc() that a backend has mapped. The engine's
 * background thread (te/region/prefault.c) enters pages into the page tables of
 * this process before they are used: only pages that are in memory, so that no
 * memory is committed for the owner.
 */
struct tei_mapping { /* zeroed by the backend, then the core's */
	struct tei_list link;
	uint8_t *addr;
	uint64_t length, done; /* done: bytes from @addr on that are entered */
	bool busy, leaving;
};
/*
 * Hands over a shared mapping of whole pages, whose file belongs to this user:
 * of others mincore() does not tell. Without a thread, or with the setting
 * `prefault` at 0, pages come when they are touched. Any thread. Takes lock 12.
 */
void tei_mapping_add(struct tei_engine_core *core, struct tei_mapping *mapping,
		     void *addr, uint64_t length);
/*
 * Takes it back before it is unmapped; of one that was not handed over does
 * nothing. Waits while the thread is at a piece of it, 1 MiB. Any thread. Takes
 * lock 12.
 */
void tei_mapping_remove(struct tei_engine_core *core,
			struct tei_mapping *mapping);

/* Memory of a GPU that a region is of, for devices that access it alone. */
struct tei_gpu_memory {
	int gpu; /* the driver's number of it; -1: unknown */
	int fd;  /* dma-buf, not yours to close; -1: there is none */
	/* Part of the region's memory that it is; its first byte is at addr. */
	uint64_t addr, length;
	bool by_address; /* drivers of devices also take addresses of it */
	/* Reasons for which there is no fd, and for which not by_address. */
	const char *why, *how;
};
/*
 * Finds the part of region @id that has the byte at @addr. To be called only by
 * region_add(): descriptor and texts are valid until that returns. -ENOENT: it
 * is memory of the host. Takes lock 12.
 */
int tei_region_gpu(struct tei_engine_core *core, uint64_t id, uint64_t addr,
		   struct tei_gpu_memory *out);

/*
 * Returns which of the rails that share region @id, from 0 on, @rail is, and in
 * *@n how many they are: those of its backend that are near the region, or all
 * where none is. A rail that has no room for all of it begins at byte length *
 * place / n, and goes on at the first byte after the last. 0: it is far, and to
 * take all or nothing. To be called only by region_add(). Takes lock 12.
 */
uint32_t tei_region_spread(const struct tei_rail *rail, uint64_t id,
			   uint32_t *n);

/*
 * Memory of GPUs of one host, for backends with TEI_CAP_ACROSS: a target's that
 * other processes open, and copies between it and our own.
 */
#define TEI_GPU_NAME_LEN   64u
#define TEI_GPU_CHUNKS_MAX 4096u /* of a region that is shared */

struct tei_gpu_shared {
	uint8_t name[TEI_GPU_NAME_LEN]; /* for other processes */
	uint64_t base, length; /* of all that the name gives access to */
	bool chunked;          /* no name: of the chunks that have the region */
};
/*
 * Names the allocation that region @id is of, or says which chunks have it, all
 * of which can be exported. To be called only by region_add(). Returns 0;
 * -ENOENT: it is memory of the host; -EOPNOTSUPP: it cannot be shared, logged.
 * Blocks: for the driver. Takes lock 12.
 */
int tei_region_share(struct tei_engine_core *core, uint64_t id,
		     struct tei_gpu_shared *out);
/*
 * Exports the chunk that begins at @addr, of a region that is pinned and was
 * shared so. *@length: bytes of the chunk; *@fd: the caller's to close. Returns
 * 0, or -EOPNOTSUPP, logged: no chunk begins there, or the driver refuses. Any
 * thread. Blocks: for the driver. Takes lock 12.
 */
int tei_region_share_chunk(struct tei_engine_core *core, uint64_t id,
			   uint64_t addr, uint64_t *length, int *fd);

/* Memory of a peer's GPU that is open here. */
struct tei_gpu_window;
/*
 * Opens what a peer has shared, for copies in the context of our own memory at
 * @local. @name: NULL if the peer is this very process. Returns 0;
 * -EOPNOTSUPP: this process does not get to it, or @local is in no region of a
 * GPU, logged; -ENOMEM. Blocks: for the driver. Token.
 */
int tei_gpu_window_open(struct tei_engine_core *core, const void *local,
			const uint8_t *name, uint64_t base,
			struct tei_gpu_window **out);
/*
 * The same of chunks, @length bytes in all, none of which is there yet. No copy
 * may be added before all are.
 */
int tei_gpu_window_reserve(struct tei_engine_core *core, const void *local,
			   uint64_t length, struct tei_gpu_window **out);
/*
 * Adds the next chunk, for which there is room; @fd stays the caller's. Returns
 * 0; -EOPNOTSUPP: this process does not get to it, logged; -ENXIO: as
 * burst_add(). Blocks: for the driver. Token.
 */
int tei_gpu_window_add(struct tei_gpu_window *window, uint64_t length, int fd);
/* Closes it; no copy touches it. Token. */
void tei_gpu_window_close(struct tei_gpu_window *window);

/* Copies that are begun together, and end together. Token. */
struct tei_gpu_burst;
/* NULL: no memory. */
struct tei_gpu_burst *tei_gpu_burst_new(struct tei_engine_core *core);
void tei_gpu_burst_free(struct tei_gpu_burst *burst); /* not under way */
/*
 * Adds a copy of *@length bytes between @local and @offset in the window, into
 * it if @write; of fewer where @local's region ends, or 0 where the burst is
 * full or of another context. *@length: how many. -EFAULT: @local is in no
 * region of a GPU. -ENXIO: the window has been closed, as its context may end.
 */
int tei_gpu_burst_add(struct tei_gpu_burst *burst,
		      const struct tei_gpu_window *window, uint64_t offset,
		      void *local, uint64_t *length, bool write);
/*
 * Begins what was added, something. @done(@arg, 0 or -EIO) follows with the
 * token from outside the backend's calls, when nothing is touched any more; the
 * burst is empty again. Until then flush() says -EINPROGRESS.
 */
void tei_gpu_burst_begin(struct tei_gpu_burst *burst,
			 void (*done)(void *arg, int err), void *arg);

/* NULL at the end; in order of preference. In backends/list.c. */
extern const struct tei_backend_ops *const tei_backends[];

/* Protocol statuses, one per error, so that no errno goes on the wire. */
enum tei_status {
	TEI_STATUS_OK = 0,
	TEI_STATUS_ACCESS = 1,      /* EACCES */
	TEI_STATUS_RANGE = 2,       /* EFAULT */
	TEI_STATUS_STALE = 3,       /* ESTALE */
	TEI_STATUS_BAD = 4,         /* EBADMSG */
	TEI_STATUS_NO_MEMORY = 5,   /* ENOMEM */
	TEI_STATUS_BUSY = 6,        /* EAGAIN */
	TEI_STATUS_CANCELED = 7,    /* ECANCELED */
	TEI_STATUS_UNSUPPORTED = 8, /* EOPNOTSUPP */
	TEI_STATUS_VERSION = 9,     /* EPROTO */
	TEI_STATUS_INTERNAL = 10,   /* EIO, and whatever has no row */
};
int tei_status_to_errno(uint32_t status); /* 0 or negative */
uint32_t tei_status_from_errno(int error);

#endif
