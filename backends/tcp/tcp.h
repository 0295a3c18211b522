/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - what the files of the tcp backend share
 *
 * rail.c      listening socket, epoll, progress, young connections
 * lane.c      one connection: socket, hello, interest, end
 * endpoint.c  the ops of an endpoint: open, connect, post, cancel, drop
 * send.c      what goes out next on a lane, in one vectored write
 * receive.c   what came in on a lane, read into its final place
 * slice.c     walking a slice's local pieces, with checksum
 * wire.c      frames to bytes and back
 * devices.c   which interfaces are rails, and which reach each other
 * netlink.c   whether a rail's interface has its link
 *
 * Everything belongs to the holder of the rail's drive token. No pin of a
 * region outlives a call from the core: the memory is pinned for each system
 * call anew, so a peer that stops in the middle of a frame keeps no region.
 */
#ifndef TCP_TCP_H
#define TCP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "backends/tcp/wire.h"
#include "base/list.h"
#include "te/backend.h"

#define TCP_WINDOW       256 /* unanswered requests of a lane; on the wire */
#define TCP_WINDOW_BYTES (8u << 20) /* and their bytes, but one at least */
#define TCP_SCRATCH_LEN  (64u << 10)
#define TCP_BULK_LEN     (16u << 10) /* from here on reading in place pays */
#define TCP_IOV_MAX      1024
#define TCP_ITEMS_MAX    512
#define TCP_YOUNG_MAX    256 /* connections that have not said hello */
#define TCP_TICK_MS      250

struct tcp_config {
	uint64_t lanes, port, sndbuf, rcvbuf, frame, send_chunk;
	uint64_t connect_timeout; /* ms */
	char *congestion;
	char *devices; /* NULL or "": one rail, and the kernel routes */
};

enum tcp_source_kind {
	TCP_SOURCE_LISTENER,
	TCP_SOURCE_KICK,
	TCP_SOURCE_TICK,
	TCP_SOURCE_LINK,
	TCP_SOURCE_LANE,
};

struct tcp_source { /* what an epoll event points to */
	enum tcp_source_kind kind;
};

enum tcp_lane_state {
	TCP_LANE_CONNECTING, /* initiator */
	TCP_LANE_HELLO,      /* target: awaits HELLO; initiator: WELCOME */
	TCP_LANE_OPEN,
	TCP_LANE_CLOSED,
};

/* Whose payload is half sent, or comes in now. */
enum tcp_stream {
	TCP_STREAM_NONE,
	TCP_STREAM_SLICE,  /* of this initiator's slice */
	TCP_STREAM_REGION, /* of this target's region */
	TCP_STREAM_ORPHAN, /* out: of a slice that is over; in: to be drained */
};

struct tcp_answer {
	uint64_t id;
	uint64_t status;
};

struct tcp_served { /* a READ that is being answered */
	struct tcp_frame ask;
	uint64_t sent;
	int err; /* refused in the middle: answered once it is first */
};

/* A target's debts on one lane; TCP_WINDOW bounds both together. */
struct tcp_debts {
	uint32_t first_answer, n_answers;
	uint32_t first_read, n_reads;
	struct tcp_answer answers[TCP_WINDOW];
	struct tcp_served reads[TCP_WINDOW];
};

struct tcp_lane {
	struct tcp_source source;
	enum tcp_lane_state state;
	int fd; /* -1: closed */
	uint32_t interest;
	uint32_t index;          /* in ep->lanes */
	struct tcp_rail *rail;   /* not owned */
	struct tcp_endpoint *ep; /* not owned; NULL: accepted, no hello yet */
	struct tei_list link;    /* rail->young, rail->dead or none */
	uint64_t deadline_ms;    /* while young */

	/* Coming in. */
	uint8_t head[TCP_HEAD_LEN];
	uint32_t head_have;
	bool bulk; /* the last payload was big: do not read past headers */
	enum tcp_stream in;
	struct tcp_frame frame; /* its address and offset move with `in_left` */
	uint64_t in_left;       /* payload still to come */
	struct tei_slice *slice; /* with TCP_STREAM_SLICE; not owned */
	uint64_t refused_id; /* target: of the WRITE that was refused last */

	/* Going out. */
	uint8_t stub[TCP_HEAD_LEN]; /* rest of a header that is half sent */
	uint32_t stub_at, stub_len;
	enum tcp_stream out;
	uint64_t out_left; /* payload of the frame begun, still to go */
	uint8_t *orphan;   /* private copy of it */
	uint64_t orphan_at;

	/* Initiator. Slices in order of id. */
	struct tei_list reads, writes; /* not, or not wholly, sent */
	struct tei_list sent_reads, sent_writes;
	uint64_t next_id;
	uint64_t
		abort_id; /* WRITE given up between frames, peer not told yet */
	uint64_t n_unanswered, bytes_unanswered;

	struct tcp_debts *debts; /* target, once open */
};

struct tcp_endpoint {
	struct tei_endpoint *base;   /* not owned */
	struct tei_list waiting;     /* rail->waiting: target, lanes to come */
	struct tei_list broken_link; /* rail->broken: down() is due */
	int broken;                  /* why, negative; 0: it is not */
	bool dropped;
	uint32_t n_lanes, n_open;
	struct tcp_lane *lanes[TCP_LANES_MAX];
	uint8_t token[TCP_TOKEN_LEN];
};

struct tcp_cursor {
	uint32_t piece;  /* index in iov */
	uint64_t offset; /* in that piece */
	uint64_t at;     /* in the slice */
};

struct tcp_slice {
	struct tcp_lane *lane; /* NULL: refused by post(), done() is due */
	uint64_t id;
	struct tcp_cursor passed; /* sent or received so far */
	bool sent;                /* wholly, as far as the kernel goes */
};

enum tcp_item_kind {
	TCP_ITEM_STUB,
	TCP_ITEM_REST, /* payload of the frame that is half sent */
	TCP_ITEM_ABORT,
	TCP_ITEM_ANSWER,
	TCP_ITEM_ASK,   /* READ */
	TCP_ITEM_WRITE, /* frame with payload */
	TCP_ITEM_DATA,  /* likewise */
};

struct tcp_item {
	enum tcp_item_kind kind;
	uint32_t head_len;
	uint64_t payload; /* planned now */
	uint64_t length;  /* of the frame's payload */
};

/* One vectored write being put together; shared by the lanes of a rail. */
struct tcp_plan {
	uint32_t n_items, n_iov, n_pins;
	size_t bytes;
	struct tcp_item items[TCP_ITEMS_MAX];
	struct iovec iov[TCP_IOV_MAX];
	uint64_t pins[TCP_ITEMS_MAX];
	uint8_t heads[TCP_ITEMS_MAX][TCP_HEAD_LEN];
};

struct tcp_rail {
	struct tei_rail *base; /* not owned */
	struct tcp_source listener, kick, tick, link;
	int epoll_fd, listen_fd, kick_fd, tick_fd;
	int link_fd;          /* rtnetlink, -1: stands for no interface */
	unsigned int ifindex; /* 0: none */
	bool link_up;         /* as the core was told last */
	struct tcp_network network;
	uint16_t port;
	bool ticking, listening;
	bool in_progress; /* then what is broken is reported without a kick */
	unsigned int n_young;
	struct tei_list young;   /* lanes, oldest first */
	struct tei_list dead;    /* closed lanes that an event may point to */
	struct tei_list waiting; /* endpoints with lanes to come */
	struct tei_list broken;  /* endpoints */
	struct tei_list refused; /* slices */
	struct tcp_plan *plan;
	uint8_t *scratch; /* scratch[TCP_SCRATCH_LEN] */
};

static inline struct tcp_rail *tcp_rail(const struct tei_rail *rail)
{
	return (struct tcp_rail *)(uintptr_t)rail->priv;
}

static inline struct tcp_endpoint *tcp_endpoint(const struct tei_endpoint *ep)
{
	return (struct tcp_endpoint *)(uintptr_t)ep->priv;
}

static inline struct tcp_slice *tcp_slice(const struct tei_slice *slice)
{
	return (struct tcp_slice *)(uintptr_t)slice->priv;
}

static inline const struct tcp_config *tcp_config(const struct tcp_rail *rail)
{
	return rail->base->config;
}

/* ---- rail.c ---- */

int tei_tcp_rail_open(struct tei_rail *rail);
void tei_tcp_rail_close(struct tei_rail *rail);
int tei_tcp_progress(struct tei_rail *rail, int budget);
int tei_tcp_wait_fd(struct tei_rail *rail);
/* Have progress() called soon, for refused slices and broken endpoints. */
void tei_tcp_kick(struct tcp_rail *rail);
/* Give a lane connect_timeout to get open, or stop the clock. */
void tei_tcp_young_add(struct tcp_lane *lane);
void tei_tcp_young_remove(struct tcp_lane *lane);
int tei_tcp_watch(struct tcp_rail *rail, int fd, struct tcp_source *source,
		  uint32_t events);

/* ---- devices.c ---- */

int tei_tcp_probe(const struct te_topo *topo, const void *config,
		  tei_device_fn *found, void *arg);
/* Fill rail->network and ->ifindex by the address of the rail's device. */
void tei_tcp_identify(struct tcp_rail *rail);
int tei_tcp_rail_describe(struct tei_rail *rail, void *blob, size_t *len);
int tei_tcp_rail_match(struct tei_rail *rail, const struct tei_address *peer,
		       const void *blob, size_t len);

/* ---- netlink.c ---- */

/* Listen for changes of rail->ifindex, if there is one. */
int tei_tcp_netlink_open(struct tcp_rail *rail);
void tei_tcp_netlink_close(struct tcp_rail *rail);
/* Look whether the link is up, and tell the core; from progress(). */
void tei_tcp_netlink_event(struct tcp_rail *rail);

/* ---- lane.c ---- */

/* Takes @fd. NULL: out of memory, or of room in epoll; @fd is closed. */
struct tcp_lane *tei_tcp_lane_create(struct tcp_rail *rail, int fd,
				     enum tcp_lane_state state);
/* The initiator's: a socket on its way to @to. */
int tei_tcp_lane_connect(struct tcp_endpoint *ep, uint32_t index,
			 const struct tei_address *to);
/* Close its socket. The memory stays until tei_tcp_lane_destroy(). */
void tei_tcp_lane_close(struct tcp_lane *lane);
void tei_tcp_lane_destroy(struct tcp_lane *lane);
/* An event of its socket. */
void tei_tcp_lane_event(struct tcp_lane *lane, uint32_t events);
void tei_tcp_lane_want_out(struct tcp_lane *lane, bool want);
/*
 * The lane cannot go on. With it ends its endpoint, if it has one; that is
 * reported by progress().
 */
void tei_tcp_lane_fail(struct tcp_lane *lane, int err);
/* The same because of what the peer sent: counted. */
void tei_tcp_lane_bad(struct tcp_lane *lane, const char *what);
/* Options of every data socket. */
void tei_tcp_socket_tune(const struct tcp_rail *rail, int fd);

/* ---- endpoint.c ---- */

int tei_tcp_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len);
int tei_tcp_endpoint_connect(struct tei_endpoint *ep, const void *addr,
			     size_t len);
void tei_tcp_endpoint_close(struct tei_endpoint *ep);
int tei_tcp_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		 int n);
void tei_tcp_cancel(struct tei_endpoint *ep, struct tei_slice *slice);
void tei_tcp_flush(struct tei_endpoint *ep, int err);
int tei_tcp_drop(struct tei_endpoint *ep);
/* Close all lanes; down(@err) follows from progress(). */
void tei_tcp_endpoint_break(struct tcp_endpoint *ep, int err);
/*
 * The target's endpoint that waits for this lane, or NULL. A lane is taken
 * once. */
struct tcp_endpoint *tei_tcp_endpoint_claim(struct tcp_rail *rail,
					    const struct tcp_hello *hello);
/*
 * Leave a slice that is not done yet: off the lane's lists, the rest of its
 * half-sent frame copied. -ENOMEM: not copied.
 */
int tei_tcp_slice_leave(struct tcp_lane *lane, struct tei_slice *slice);
void tei_tcp_slice_end(struct tei_slice *slice, int err, uint64_t bytes);

/* ---- send.c ---- */

/* Send what the socket takes, about one chunk at most. */
void tei_tcp_send(struct tcp_lane *lane);
/* As target: owe an answer. False: the peer exceeds the window. */
bool tei_tcp_owe_answer(struct tcp_lane *lane, uint64_t id, int err);
bool tei_tcp_owe_data(struct tcp_lane *lane, const struct tcp_frame *ask);

/* ---- receive.c ---- */

void tei_tcp_receive(struct tcp_lane *lane);
/* recv() with injected faults: > 0, 0 at the end, -EAGAIN, other -errno. */
ssize_t tei_tcp_readv(const struct tcp_lane *lane, const struct iovec *iov,
		      uint32_t n);

/* ---- slice.c ---- */

void tei_tcp_cursor_init(struct tcp_cursor *c, const struct tei_slice *slice);
/*
 * Put the memory of the next @want bytes into iov[max] and move @c past it.
 * Returns the bytes covered: fewer when @max is reached.
 */
uint64_t tei_tcp_gather(const struct tei_slice *slice, struct tcp_cursor *c,
			uint64_t want, struct iovec *iov, uint32_t max,
			uint32_t *n_iov);
/* The next @n bytes have passed: move slice's own cursor, take the CRC. */
void tei_tcp_pass(struct tei_slice *slice, uint64_t n);
/* Copy the next @n bytes out of or into the slice; the cursor stays. */
void tei_tcp_copy_out(const struct tei_slice *slice, uint8_t *to, uint64_t n);
void tei_tcp_copy_in(const struct tei_slice *slice, const uint8_t *from,
		     uint64_t n);

#endif
