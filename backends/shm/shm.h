/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.h - what the files of the shm backend share
 *
 * shm.c       settings and directory; the rail: epoll, accepted connections,
 *             progress; the table of operations
 * host.c      which host, namespaces, user and process this is
 * endpoint.c  the ops of an endpoint: open, connect, close, drop
 * attach.c    the initiator's messages: welcome, asking for regions; mappings
 * owner.c     the target's messages: hello, granting; its table of regions
 * move.c      slices: queued, copied chunk by chunk, done
 * gpu.c       slices between memory of GPUs, by copies that a GPU makes
 * orphan.c    the target's regions that a peer has open yet, without endpoint
 * slice.c     walking the local pieces of a slice
 * foreign.c   memory that cannot be mapped: process_vm_readv() and _writev()
 * copy.c      streaming copies
 * wire.c      blobs, messages and the sockets that carry them
 * fence.h     the words that both sides see
 *
 * The target does nothing while bytes move: it hands out its memory once, after
 * the checks of tei_region_pin(), and takes it back by fence and slots. All
 * belongs to the holder of the rail's drive token, but for the owner's regions
 * and grants, which rail.mu guards.
 */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "backends/shm/fence.h"
#include "backends/shm/wire.h"
#include "base/clock.h"
#include "base/copy_choice.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/thread.h"
#include "te/backend.h"

#define SHM_ACCEPTED_MAX 64   /* connections that have not said hello */
#define SHM_QUEUE_MAX    1024 /* slices of an endpoint, taken and not done */
#define SHM_ASKS_MAX     32   /* unanswered; what a socket holds in any case */
#define SHM_VIEWS_MAX    4096 /* regions of a peer that are remembered */
#define SHM_SHORT_MAX    4    /* tries to map before others have to help */
#define SHM_NAME_MAX     40   /* "te-PID-RANDOM" */
#define SHM_DIR_MAX      (SHM_PATH_MAX - SHM_NAME_MAX)
#define SHM_BATCH_MAX    64         /* slices in one marked chunk */
#define SHM_TURN         (1u << 20) /* bytes of one progress() */
#define SHM_CHUNK_MAX    (64u << 10)
#define SHM_BOUNCE_LEN   (TEI_COPY_GROUP + TEI_COPY_LINE)
#define SHM_RECENT_BITS  16 /* of the pieces of memory whose writes are kept */
#define SHM_RECENT_LEN   64

struct shm_config {
	bool enabled, foreign, gpu, gpu_parts;
	uint64_t stream_from, hot, chunk, foreign_chunk;
	uint64_t connect_timeout; /* ms */
	char *dir, *allow_uids;
};

enum shm_source_kind {
	SHM_SOURCE_LISTENER,
	SHM_SOURCE_KICK,
	SHM_SOURCE_ACCEPTED, /* a struct shm_accepted */
	SHM_SOURCE_SOCKET,   /* of a struct shm_endpoint */
	SHM_SOURCE_PROCESS,  /* likewise: its peer has ended */
};

struct shm_source { /* what an epoll event points to */
	enum shm_source_kind kind;
	int fd; /* -1: closed */
};

struct shm_accepted { /* accepted, no hello yet */
	struct shm_source source;
	struct tei_list link; /* rail->accepted, oldest first, or rail->dead */
	uint64_t deadline_ms;
};

/* ---- as target ---- */

struct shm_region {
	struct tei_hash_node node; /* rail->regions */
	struct shm_key key;
	int fd;           /* to be handed out; -1: foreign, or a GPU's */
	uint32_t n_looks; /* since it is being removed */
	struct tei_list grants;
	struct tei_gpu_shared shared; /* of kind SHM_GPU */
};

/*
 * Descriptors by which a peer without endpoint shows that it has closed the
 * memory of GPUs that it was granted.
 */
struct shm_orphan {
	struct tei_list link; /* rail->orphans, once its endpoint is closed */
	int socket, process;  /* -1: tells nothing */
	struct shm_pages *pages;
	struct shm_seen seen;
	struct tei_list grants;
};

struct shm_grant {
	struct tei_list of_region;
	struct tei_list of_endpoint; /* or of the orphan */
	struct shm_region *region;   /* not owned; NULL: removed */
	struct shm_endpoint *ep;     /* not owned; NULL: see orphan */
	struct shm_orphan *orphan;   /* not owned; NULL: see ep */
	uint32_t slot;
	uint64_t generation;
	struct shm_seen seen; /* when it was revoked */
};

/* ---- as initiator ---- */

enum shm_view_state {
	SHM_VIEW_NEW,   /* still to be asked for */
	SHM_VIEW_ASKED, /* slices wait for the answer */
	SHM_VIEW_READY,
	SHM_VIEW_BARRED, /* not to be reached by us now: others must */
	SHM_VIEW_GONE,   /* forgotten; freed when no slice names it any more */
};

/* A peer's region as we see it. */
struct shm_view {
	struct tei_hash_node node; /* ep->views, by id */
	struct tei_list link;      /* ep->all_views, or ep->to_ask */
	struct tei_list waiting;   /* slices, until it is ready */
	struct shm_key key;
	uint8_t key_bytes[SHM_KEY_LEN];
	enum shm_view_state state;
	uint32_t slot, n_slices;
	uint64_t barred_ms;
	int refused; /* errno the owner gave; 0: removed */
	uint64_t generation;
	uint8_t *base; /* mapped; NULL: foreign, or a GPU's */
	size_t mapped;
	bool huge;                  /* by huge pages, as far as its file says */
	struct tei_mapping mapping; /* of it; length 0: not handed over */
	/* Window of a GPU's; NULL: not open. Some chunks may be to come. */
	struct tei_gpu_window *window;
	uint64_t chunks_at, chunks_len; /* its chunks' own address; 0: none */
	uint64_t chunks_mapped;
	uint32_t n_chunks;
	struct tei_list window_link; /* ep->windows, while it is open */
	uint64_t window_at;          /* offset of the region in it */
};

struct shm_endpoint {
	struct tei_endpoint *base;         /* not owned */
	struct shm_source socket, process; /* target: closed under rail.mu */
	struct shm_pages *pages;           /* NULL: not there yet */
	uint8_t token[SHM_TOKEN_LEN], peer_token[SHM_TOKEN_LEN];
	uint32_t pid;                /* of the peer */
	uint64_t start;              /* of the peer, as it says */
	struct tei_list broken_link; /* rail->broken: down() is due */
	int broken;                  /* why, negative; 0: it is not */

	/* Target. */
	struct tei_list waiting;  /* rail->waiting: hello to come */
	struct tei_list draining; /* rail->draining: one chunk may be late */
	struct tei_list grants;   /* guarded by rail.mu */
	uint64_t taken[(SHM_SLOTS + 63) / 64]; /* slots; guarded by rail.mu */
	uint64_t last_generation;              /* guarded by rail.mu */
	struct shm_seen seen;                  /* when it was fenced */
	struct shm_orphan *orphan; /* made with the first grant of a GPU's */
	/* Written under rail.mu; dead: its memory is. */
	bool fenced, dead;

	/* Initiator. */
	bool up, foreign;       /* foreign: process_vm_readv() is allowed */
	bool to_sweep;          /* a FORGET has come */
	struct tei_list active; /* rail->active: has a queue */
	struct tei_list urgent, queue;     /* slices */
	struct tei_list all_views, to_ask; /* views */
	struct tei_hash views;
	struct shm_view *last; /* looked up; not owned */
	uint32_t n_slices, n_views, n_asked, n_turns;
	uint32_t n_short; /* arenas in a row that could not be mapped */
	uint64_t mark;
	/* Copies between memory of GPUs, see gpu.c. */
	struct tei_list gpu_link;    /* rail->gpus: something is to be done */
	struct tei_list gpu_queue;   /* slices, without a copy under way */
	struct tei_list gpu_burst;   /* slices of the burst under way */
	struct tei_list windows;     /* views, whatever their state */
	struct tei_gpu_burst *burst; /* NULL: none was needed yet */
	uint64_t gpu_mark;
	bool bursting, landed, flushing; /* landed: the burst has ended */
	int burst_err;
};

struct shm_slice {
	struct shm_view *view; /* NULL: refused by post() */
	uint64_t at;           /* bytes done */
	uint8_t *start;        /* of the pieces that are one run */
	uint64_t run, offset;  /* its length, and where in it we are */
	uint32_t piece;        /* the first after it */
	int err;               /* it is to end with */
	bool bursting;         /* in ep->gpu_burst */
};

/* Remembers which addresses were written lately, and so lie in the caches. */
struct shm_recent {
	uint64_t clock; /* bytes copied so far */
	struct shm_recent_place {
		uint64_t place;     /* address >> SHM_RECENT_BITS */
		uint64_t written;   /* by that clock */
		const uint8_t *end; /* of the last copy there */
		bool hot;           /* that copy was */
	} at[SHM_RECENT_LEN];
};

struct shm_rail {
	struct tei_rail *base; /* not owned */
	struct shm_source listener, kick;
	int epoll_fd, dir_fd;
	char dir[SHM_DIR_MAX], name[SHM_NAME_MAX]; /* of the socket */
	struct shm_host host;
	struct tei_uids uids; /* allowed beside our own */
	bool listening, in_progress, foreign, dir_is_temporary;
	uint32_t n_accepted,
		unlooked;  /* unlooked: copies since the last epoll */
	uint64_t timer_ms; /* that the timer was set to last; 0: off */
	struct tei_list accepted, dead;
	struct tei_list waiting, draining; /* target endpoints */
	struct tei_list active;            /* initiator endpoints, by turns */
	struct tei_list gpus;              /* of them, by gpu_link */
	struct tei_list broken;            /* endpoints */
	struct tei_list refused;           /* slices */
	struct tei_copy_use copies;
	bool unfenced; /* streamed to, since the last fence */
	struct shm_recent recent;
	uint8_t *bounce; /* bounce[SHM_BOUNCE_LEN] */

	struct tei_mutex mu;     /* lock 14 */
	struct tei_hash regions; /* guarded by mu */
	struct tei_list orphans; /* guarded by mu */
};

static inline struct shm_rail *shm_rail(const struct tei_rail *rail)
{
	return (struct shm_rail *)(uintptr_t)rail->priv;
}

static inline struct shm_endpoint *shm_endpoint(const struct tei_endpoint *ep)
{
	return (struct shm_endpoint *)(uintptr_t)ep->priv;
}

static inline struct shm_slice *shm_slice(const struct tei_slice *slice)
{
	return (struct shm_slice *)(uintptr_t)slice->priv;
}

/* Moves a slice from its queue to @ended and keeps its error in it. */
static inline void tei_shm_to_ended(struct tei_list *ended,
				    struct tei_slice *slice, int err)
{
	shm_slice(slice)->err = err;
	tei_list_del(&slice->link);
	tei_list_add_tail(ended, &slice->link);
}

static inline const struct shm_config *shm_config(const struct shm_rail *rail)
{
	return rail->base->config;
}

/* ---- host.c ---- */

/* -ENOSYS: /proc does not say. */
int tei_shm_host_read(struct shm_host *host);
/* Compares our host with another's: same boot, same namespaces. */
bool tei_shm_host_is_same(const struct shm_host *a, const struct shm_host *b);
/* False: that number is another process by now. True also: unknown. */
bool tei_shm_is_process(uint32_t pid, uint64_t start);
bool tei_shm_uid_is_allowed(const struct shm_rail *rail, uint32_t uid);

/* ---- wire.c ---- */

/* Listens in the rail's directory; fills listener.fd and name. */
int tei_shm_listen(struct shm_rail *rail);
void tei_shm_unlisten(struct shm_rail *rail);
/* Returns the path of the socket where peers find the rail. */
void tei_shm_path(const struct shm_rail *rail, char out[SHM_PATH_MAX]);
/* Connect to the target at @to and see that it is it. The fd, or -errno. */
int tei_shm_connect(const struct shm_rail *rail, const struct shm_address *to);
/* Credentials of the process at the other end. -errno. */
int tei_shm_peer(int socket, uint32_t *uid, uint32_t *pid);
/* A pidfd of it; @pid as of tei_shm_peer(). -errno. */
int tei_shm_peer_process(int socket, uint32_t pid, uint64_t start);

/* ---- shm.c ---- */

/* Have progress() called soon, for what is refused or broken. */
void tei_shm_kick(struct shm_rail *rail);
int tei_shm_watch(const struct shm_rail *rail, struct shm_source *source);
static inline void tei_shm_unwatch(const struct shm_rail *rail,
				   const struct shm_source *source)
{
	if (source->fd >= 0)
		epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}
void tei_shm_source_close(const struct shm_rail *rail,
			  struct shm_source *source);
/* Sets the timer for draining endpoints and accepted connections. */
void tei_shm_set_timer(struct shm_rail *rail);
/* Something unreadable came: counted, logged at a bounded rate. */
void tei_shm_bad(struct shm_rail *rail, const char *what);

/* ---- endpoint.c ---- */

int tei_shm_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len);
int tei_shm_endpoint_connect(struct tei_endpoint *ep, const void *addr,
			     size_t len);
void tei_shm_endpoint_close(struct tei_endpoint *ep);
int tei_shm_flush(struct tei_endpoint *ep, int err);
int tei_shm_drop(struct tei_endpoint *ep);
/* An event of one of its descriptors. */
void tei_shm_endpoint_event(struct shm_endpoint *ep, struct shm_source *source);
/*
 * Breaks an endpoint: down(@err) follows from progress(), at a target once
 * nothing can land any more.
 */
void tei_shm_break(struct shm_endpoint *ep, int err);
/*
 * Target: the peer's process has ended or has become another program; its
 * memory is gone. Under rail.mu, or with the drive token.
 */
bool tei_shm_has_left(const struct shm_endpoint *ep);
/* Tells whether the peer's process has ended. Threads as has_left(). */
bool tei_shm_has_ended(const struct shm_endpoint *ep);
/* Tells whether no GPU copies for the peer of what it was granted just now. */
bool tei_shm_is_gpu_still(const struct shm_endpoint *ep);
/* The same: it has closed what it was granted of GPUs, or has ended. */
bool tei_shm_has_let_go(const struct shm_endpoint *ep);
/* Target: look whether draining is over. */
void tei_shm_drained(struct shm_endpoint *ep);

/* ---- gpu.c ---- */

/* region_is_across(). */
bool tei_shm_is_across(const void *key, size_t len);
/* Tells whether progress() has something to do that no fd announces. */
static inline bool tei_shm_is_busy(const struct shm_rail *rail)
{
	return !tei_list_empty(&rail->active) || !tei_list_empty(&rail->gpus);
}
/*
 * Opens the region that was granted, or adds the chunks that @m brings. Returns
 * 0; -EINPROGRESS: the chunks from chunks_mapped on are to be asked for;
 * -EBADMSG; or -EOPNOTSUPP, -ENOMEM, -EMFILE (not all descriptors have come),
 * -EAGAIN (its context has ended meanwhile): it is not open.
 */
int tei_shm_gpu_open(struct shm_endpoint *ep, struct shm_view *view,
		     const struct shm_message *m, const struct shm_fds *fds);
/* Closes it, and tells the owner. No copy is under way. */
void tei_shm_gpu_close(struct shm_endpoint *ep, struct shm_view *view);
/* Takes a slice of a view that is open. */
void tei_shm_gpu_enqueue(struct shm_endpoint *ep, struct tei_slice *slice);
/* Begins and ends copies. From inside progress() only. Returns how many. */
int tei_shm_gpu_move(struct shm_rail *rail);
/*
 * Closes all views of an endpoint that ends. False: copies are under way;
 * progress() does it then.
 */
bool tei_shm_gpu_end(struct shm_endpoint *ep);
/*
 * Ends slices that have been copied; others are in gpu_queue then. False: some
 * have copies under way.
 */
bool tei_shm_gpu_flush(struct shm_endpoint *ep);

/* ---- orphan.c ---- */

/* Prepares for a grant of a GPU's memory. -ENOMEM. */
int tei_shm_orphan_prepare(struct shm_endpoint *ep);
/*
 * Keeps what its peer has open of GPUs, and how that is seen, when an endpoint
 * is closed, which was prepared for it. Under rail.mu.
 */
void tei_shm_orphan_keep(struct shm_rail *rail, struct shm_endpoint *ep);
/* Tells whether its peer has let go. Under rail.mu. */
bool tei_shm_orphan_is_over(const struct shm_orphan *orphan);
/* Frees it, if it has no grant. Under rail.mu. */
void tei_shm_orphan_put(struct shm_orphan *orphan);
/* Waits for peers to let go, not for long, and frees all. */
void tei_shm_orphans_end(struct shm_rail *rail);

/* ---- attach.c ---- */

/*
 * Handles a message to the initiator, and closes @fds. 0 or why the endpoint
 * breaks.
 */
int tei_shm_attach_message(struct shm_endpoint *ep, const struct shm_message *m,
			   struct shm_fds *fds);
/*
 * The view of a key, asked for if it is new. NULL: *err says why the slice
 * cannot be.
 */
struct shm_view *tei_shm_view_get(struct shm_endpoint *ep,
				  const struct tei_slice *slice, int *err);
/* A slice is done with it. */
void tei_shm_view_put(struct shm_endpoint *ep, struct shm_view *view);
/* Bars the view for a while; requests go over other rails. */
static inline void tei_shm_view_bar(struct shm_view *view)
{
	view->state = SHM_VIEW_BARRED;
	view->barred_ms = tei_now_ms();
}
/* Forget all that the owner has taken back. From inside progress() only. */
void tei_shm_views_sweep(struct shm_endpoint *ep);
/* The owner has taken it back. */
void tei_shm_view_forget(struct shm_endpoint *ep, struct shm_view *view);
void tei_shm_views_free(struct shm_endpoint *ep);

/* ---- owner.c ---- */

int tei_shm_region_add(struct tei_rail *rail, uint64_t id, void *addr,
		       uint64_t length, uint32_t access, void *key,
		       size_t *len);
int tei_shm_region_hide(struct tei_rail *rail, uint64_t id);
void tei_shm_region_remove(struct tei_rail *rail, uint64_t id);
/* A accepted connections's first message. Takes its socket, or closes it. */
void tei_shm_hello(struct shm_rail *rail, struct shm_accepted *accepted,
		   const struct shm_message *m);
/* The target's messages. 0 or why the endpoint breaks. */
int tei_shm_owner_message(struct shm_endpoint *ep, const struct shm_message *m);
/*
 * Frees the grants of an endpoint that is quiet, but for what its peer has open
 * of GPUs.
 */
void tei_shm_grants_free(struct shm_endpoint *ep);
/* Tells whether it was granted memory of a GPU, and has not returned it. */
bool tei_shm_has_gpu_grant(const struct shm_endpoint *ep);

/* ---- attach.c ---- */

/* Control pages. The fd to hand out, or -errno. */
int tei_shm_pages_make(struct shm_pages **out);
/* -EPROTO: it is not what it should be. Both map functions take no fd. */
int tei_shm_pages_map(int fd, struct shm_pages **out);
void tei_shm_pages_unmap(struct shm_pages *pages);

/* ---- move.c ---- */

int tei_shm_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		 int n);
void tei_shm_cancel(struct tei_endpoint *ep, struct tei_slice *slice);
/* Copy for a while. Returns how much happened. */
int tei_shm_move(struct shm_rail *rail);
/* The view's slices can go on, or end. From inside progress() only. */
void tei_shm_view_settled(struct shm_endpoint *ep, struct shm_view *view);
/* The error that slices to a view which is not READY, or revoked, end with. */
int tei_shm_verdict(const struct shm_view *view);
/* done(): @slice is in no list any more. */
void tei_shm_slice_end(struct tei_slice *slice, int err);

/* ---- slice.c ---- */

/* Sets out at the slice's first byte; @view: NULL, it is refused. */
void tei_shm_slice_init(struct tei_slice *slice, struct shm_view *view);
/* Returns where the slice's next bytes are, and how many in one piece. */
uint8_t *tei_shm_slice_at(const struct tei_slice *slice, uint64_t *room);
/* The next @n bytes of that piece have passed; they are counted. */
void tei_shm_slice_pass(struct tei_slice *slice, uint64_t n);
/* The part of the next @n bytes that is under the checksum; 0: none. */
uint64_t tei_shm_slice_crc(const struct tei_slice *slice, uint64_t n,
			   uint64_t *from);

/* ---- foreign.c ---- */

/*
 * Tells whether this process may copy: looks for the token at @addr of the
 * peer.
 */
bool tei_shm_foreign_probe(const struct shm_endpoint *ep, uint64_t addr);
/*
 * Copies one chunk of the slices at the head of @queue, whose views are all
 * foreign. Slices that this ends go to @ended with their err; *moved: bytes.
 * Returns 0, or the error for which the endpoint breaks.
 */
int tei_shm_foreign_move(struct shm_endpoint *ep, struct tei_list *queue,
			 struct tei_list *ended, uint64_t *moved);

#endif
