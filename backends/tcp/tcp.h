/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - what the files of the tcp backend share
 *
 * tcp.c       settings, endpoints, slices; table of operations
 * lane.c      lanes: made, watched, closed and freed
 * send.c      one vectored write of a lane: planned, sent, accounted for
 * receive.c   bytes that come in on a lane, read into their final place
 * memory.c    where payload lies: pieces of a slice, pinned ranges of regions
 * zerocopy.c  payload that the kernel sends from where it lies
 * copied.c    a target's memory that is a GPU's, which the host copies
 * rail.c      listening socket, accepting, epoll, timer, progress
 * devices.c   which interfaces are rails, which reach each other, their links
 * wire.h      frames to bytes and back
 *
 * A write goes from post_slices() in tcp.c to sendmsg() in send.c.
 *
 * Everything belongs to the holder of the rail's drive token. No pin of a
 * region outlives a call from the core, so a peer that stops in the middle of
 * a frame keeps no region.
 */
#ifndef TCP_TCP_H
#define TCP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "backends/tcp/wire.h"
#include "base/faster.h"
#include "base/list.h"
#include "te/backend.h"

#define TCP_SCRATCH_LEN (64u << 10)
#define TCP_BULK_LEN    (16u << 10)  /* from here on a system call less pays */
#define TCP_CRC_LEN     (256u << 10) /* read again while the cache has it */
#define TCP_IOV_MAX     1024
#define TCP_HEADERS_MAX 512
#define TCP_PINS_MAX    16
#define TCP_POLLED_MAX  4
/* Connections that have not said hello: of all hosts together, and of one. */
#define TCP_OPENING_MAX  256
#define TCP_OPENING_EACH 192
#define TCP_LENT_MAX     64 /* calls; as many as tcp_zerocopy.over has bits */
#define TCP_LENT_SIZES   8  /* of bursts, by powers of two from 32 KiB on */

struct tcp_config {
	uint64_t lanes, port, sndbuf, rcvbuf, frame, send_chunk;
	uint64_t connect_timeout, stall_timeout, unresponsive_timeout; /* ms */
	uint64_t busy_poll;                                            /* us */
	uint64_t zerocopy; /* bytes; 0: never */
	char *congestion;
	char *devices; /* NULL or "": one rail, and the kernel routes */
};

enum tcp_source_kind {
	TCP_SOURCE_LISTENER,
	TCP_SOURCE_SIGNAL,
	TCP_SOURCE_LINK,
	TCP_SOURCE_LANE,
};

struct tcp_source { /* what an epoll event points to */
	enum tcp_source_kind kind;
};

/* ---- slices ---- */

struct tcp_cursor {
	uint32_t piece;  /* index in iov */
	uint64_t offset; /* in that piece */
	uint64_t at;     /* in the slice */
};

struct tcp_slice {
	struct tcp_lane *lane; /* NULL: refused by post(), done() is due */
	uint64_t id;           /* 0: nothing of it was sent */
	struct tcp_cursor announced; /* by headers sent, or received */
	struct tcp_cursor passed;    /* sent or received */
	bool sent;                   /* wholly announced, or asked for */
	bool lent; /* to the kernel, last by number @lent_by */
	uint32_t lent_by;
	int over; /* how it ended for the peer, while its end is deferred */
};

/* ---- payload on its way ---- */

/* The owner of a payload. */
enum tcp_stream {
	TCP_STREAM_SLICE,  /* of this initiator's slice */
	TCP_STREAM_REGION, /* of this target's region */
	TCP_STREAM_ORPHAN, /* out: of a slice that is over; in: to be drained */
	TCP_STREAM_FETCHED, /* out: of this target's region, copied */
};

/* The payload of one frame whose header was sent, or received. */
struct tcp_payload {
	uint8_t stream; /* enum tcp_stream */
	bool last;      /* of its id */
	bool data;      /* DATA; else WRITE */
	int err;        /* incoming: to be refused for this */
	uint64_t id;
	uint64_t left; /* bytes still to go */
	union {
		struct { /* REGION: where the rest of it is */
			uint64_t key, address;
			struct tei_region_copy *staged; /* in a call */
		};
		struct { /* FETCHED */
			struct tcp_fetch *fetch;
			const uint8_t *bytes;
			uint64_t fetch_at;
		};
		struct tei_slice *slice; /* SLICE; not owned */
		struct {                 /* ORPHAN that goes out */
			uint8_t *copy;   /* owned */
			uint64_t copy_at;
		};
	};
};

/* Payload in the order in which it passes; payload[at] is passing now. */
struct tcp_burst {
	uint32_t at, n;
	struct tcp_payload payload[TCP_BURST_MAX];
};

struct tcp_answer { /* @count ids from @id on have ended so */
	uint64_t id;
	uint16_t count;
	uint16_t status;
};

struct tcp_served { /* a READ that is being answered */
	uint64_t id, key, address, length;
	uint64_t sent;    /* announced, that is */
	uint64_t fetched; /* copied out, or being */
	bool copied;      /* by the host: see copied.c */
	int err;          /* refused in the middle: answered once it is first */
};

/* A target's answers and READs of one lane; TCP_WINDOW bounds them together. */
struct tcp_backlog {
	uint32_t first_answer, n_answers;
	uint32_t n_ids; /* that the answers are about */
	uint32_t first_read, n_reads;
	struct tcp_answer answers[TCP_WINDOW];
	struct tcp_served reads[TCP_WINDOW];
};

/*
 * Payload that was sent without a copy and is still the kernel's. The kernel
 * numbers such calls from 0 on and tells when it is through with each.
 */
struct tcp_zerocopy {
	uint32_t next, upto;      /* all before @upto are over */
	uint64_t over;            /* a bit for each from @upto on */
	uint32_t n_copied;        /* in a row that it has copied after all */
	bool sending;             /* what goes just now is number next - 1 */
	bool chosen;              /* for the burst that was announced last */
	uint64_t notices_ns;      /* of reading them, not in a sample yet */
	struct tei_list deferred; /* slices that end when it is through */
};

/* ---- lanes and endpoints ---- */

enum tcp_lane_state {
	TCP_LANE_CONNECTING, /* initiator */
	TCP_LANE_HELLO,      /* target: awaits HELLO; initiator: WELCOME */
	TCP_LANE_OPEN,
	TCP_LANE_CLOSED,
};

struct tcp_lane {
	struct tcp_source source;
	enum tcp_lane_state state;
	int fd;                  /* -1: closed */
	uint32_t interest;       /* events that epoll tells of */
	uint32_t index;          /* in ep->lanes */
	struct tcp_rail *rail;   /* not owned */
	struct tcp_endpoint *ep; /* not owned; NULL: accepted, no hello yet */
	struct tei_list dead;    /* rail->dead, once it is destroyed */
	uint32_t polls_left;     /* until epoll has to tell; 0: not polled */
	uint32_t n_good;         /* polls with success since somebody slept */

	/* The reasons for which rail->timed has it, see rail.c. */
	struct tei_list timed;
	uint64_t deadline_ms; /* to be open by then; 0: it is */
	uint64_t stalled_ms;  /* since when nothing owed has moved */
	uint64_t quiet_ms;    /* since when no answer has come, */
	uint64_t n_answered;  /* and how many had by then */
	bool probed;          /* the kernel is to ask the peer's often */

	/* Coming in. */
	uint8_t host[16]; /* of who was accepted */
	uint8_t head[TCP_HEAD_LEN];
	uint32_t head_have;
	bool headers_end;     /* all headers of the burst are here */
	uint32_t read_on;     /* bytes worth reading past a burst */
	uint64_t refused_id;  /* target: of the WRITE that was refused last */
	uint64_t last_read;   /* target: id of the READ that came last */
	struct tcp_burst *in; /* owned; from the first frame on */

	/* Going out. */
	uint8_t *headers; /* owned; headers that are half sent, or NULL */
	uint32_t headers_at, headers_len;
	struct tcp_burst *out; /* owned; from the first frame on */
	uint32_t n_owed; /* payloads of orphans, and FETCHED, not taken yet */

	/* Initiator. The sent ones in order of id. */
	struct tei_list reads, writes; /* not, or not wholly, announced */
	struct tei_list sent_reads, sent_writes;
	uint32_t n_overtakes; /* in a row */
	uint64_t next_id;
	uint64_t abort_id;   /* WRITE given up half-way, to be announced */
	uint64_t n_requests; /* all that were ever given to it */
	uint64_t n_unanswered, bytes_unanswered;

	struct tcp_backlog *backlog;   /* owned; target, once open */
	struct tcp_zerocopy *zerocopy; /* owned; NULL: every byte is copied */
	struct tei_list deferring;     /* rail->deferring, while slices are */

	/* A GPU's memory, see copied.c; target. */
	struct tei_list copied_writes, fetches; /* owned; writes by id */
	uint32_t n_copied_writes;
	uint64_t fetching;   /* bytes of fetches, and of those announced */
	struct tei_list due; /* rail->due */
	struct tei_list awaiting_room; /* rail->awaiting_room */
	bool paused;                   /* not read until it is due */
	bool any_copied;               /* of the READs that it has served */
};

struct tcp_endpoint {
	struct tei_endpoint *base;   /* not owned */
	struct tei_list waiting;     /* rail->waiting: target, lanes to come */
	struct tei_list broken_link; /* rail->broken: down() is due */
	int broken;                  /* why, negative; 0: it is not */
	bool dropped, flushing;
	uint32_t n_copies;        /* under way, of its region's memory */
	struct tei_list quieting; /* rail->quieting: until they have ended */
	uint32_t n_lanes, n_open;
	struct tcp_lane *lanes[TCP_LANES_MAX];
	uint8_t token[TCP_TOKEN_LEN];
};

/* ---- rails ---- */

/* A vectored write being put together; shared by the lanes of a rail. */
struct tcp_plan {
	uint32_t n_iov;
	size_t bytes;     /* in iov */
	size_t old_bytes; /* of them, what was announced before */
	bool lends;       /* all of it is payload, to be sent without a copy */
	bool headless;    /* the payload follows at once, in another call */
	/* Bytes of the new burst if it may be lent or copied, timed; else 0. */
	uint64_t lendable;
	/* The content of the new headers, in this order. */
	uint64_t abort_id;
	uint32_t n_answers, n_asked, n_headers;
	struct tcp_burst burst; /* new; its headers are the last ones */
	struct iovec iov[TCP_IOV_MAX];
	uint8_t headers[TCP_HEADERS_MAX][TCP_HEAD_LEN];
	struct tcp_frame frames[TCP_BURST_MAX]; /* those of the burst */
};

struct tcp_pin { /* [from, to) of the region of @key is pinned */
	uint64_t key, from, to, id;
	uint8_t *local; /* of @from */
	uint32_t access;
	bool copied; /* not to be touched */
};

struct tcp_rail {
	struct tei_rail *base; /* not owned */
	struct tcp_source listener, signal, link;
	int epoll_fd, listen_fd, signal_fd;
	int link_fd;      /* rtnetlink, -1: stands for no interface */
	int ifindex;      /* 0: none */
	bool link_up;     /* as last reported to the core */
	bool link_unsure; /* there was no way to ask: to be asked again */
	struct tcp_network network;
	uint16_t port;
	bool listening;
	bool in_progress; /* broken endpoints are reported without a signal */
	unsigned int n_opening;    /* lanes with a deadline */
	struct tei_list timed;     /* lanes that time limits */
	struct tei_list dead;      /* closed lanes that an event may point to */
	struct tei_list waiting;   /* endpoints with lanes to come */
	struct tei_list broken;    /* endpoints */
	struct tei_list refused;   /* slices */
	struct tei_list deferring; /* lanes with slices whose end is deferred */
	struct tei_faster lending[TCP_LENT_SIZES]; /* second: lent */
	struct tei_list due, awaiting_room;        /* lanes; see copied.c */
	struct tei_list quieting;                  /* endpoints; the same */
	uint32_t n_staged; /* payloads with memory to be read to */
	struct tcp_plan *plan;
	uint8_t *scratch; /* scratch[TCP_SCRATCH_LEN], of scratch_fd */
	int scratch_fd;
	/* Lanes that were busy just now: asked without epoll. */
	struct tcp_lane *polled[TCP_POLLED_MAX];
	uint32_t n_unasked; /* times that epoll was left out in a row */
	/* Pins of one call of one lane. */
	uint32_t n_pins;
	struct tcp_pin pins[TCP_PINS_MAX];
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

/* ---- lane.c ---- */

/*
 * Takes @fd, a connection that was accepted. NULL: out of memory, or of room
 * in epoll; @fd is closed.
 */
struct tcp_lane *tei_tcp_lane_create(struct tcp_rail *rail, int fd,
				     enum tcp_lane_state state);
/* Counts a payload that the peer has to take within the stall_timeout. */
void tei_tcp_lane_owes(struct tcp_lane *lane);
/* Have epoll tell of these @events, EPOLLIN and EPOLLOUT. */
void tei_tcp_lane_watch(struct tcp_lane *lane, uint32_t events);
/*
 * The lane cannot go on: it is closed, and its memory stays until the end of
 * progress(). With it ends its endpoint, if it has one; progress() reports it.
 */
void tei_tcp_lane_fail(struct tcp_lane *lane, int err);
/* Does the same because of what the peer sent, and counts it. */
void tei_tcp_lane_bad(struct tcp_lane *lane, const char *what);
/* Free the lanes that were destroyed during progress(). */
void tei_tcp_lanes_free(struct tcp_rail *rail);
/* The rail's timer looks at the lane. */
void tei_tcp_lane_watch_time(struct tcp_lane *lane);
/* The lane is open, or will never be: its deadline is void. */
void tei_tcp_lane_opened(struct tcp_lane *lane);
/* Closes the lane, and frees it once no event may point to it. */
void tei_tcp_lane_destroy(struct tcp_lane *lane);
void tei_tcp_lanes_close(struct tcp_endpoint *ep);
/* Closes all lanes; down(@err) follows from progress(). */
void tei_tcp_endpoint_break(struct tcp_endpoint *ep, int err);

/* ---- tcp.c ---- */

/* An event of its socket. True: it has brought something, poll it. */
bool tei_tcp_lane_event(struct tcp_lane *lane, uint32_t events);
/*
 * The peer has answered the slice. It ends now, or once the kernel has given
 * its memory back; then progress() comes here again.
 */
void tei_tcp_slice_answered(struct tei_slice *slice, int err);
/* Give up a slice whose memory is unmapped; done() comes from progress(). */
void tei_tcp_slice_unmapped(struct tei_slice *slice);

/* ---- send.c ---- */

/* Send what the socket takes, about one chunk at most. */
void tei_tcp_send(struct tcp_lane *lane);
/* Queue an answer, or data of a READ. False: the peer exceeds the window. */
bool tei_tcp_backlog_answer(struct tcp_lane *lane, uint64_t id, int err);
bool tei_tcp_backlog_read(struct tcp_lane *lane, const struct tcp_frame *ask,
			  bool copied);
/* Has a READ whose memory cannot be had answered so, once it is the first. */
void tei_tcp_backlog_fail_read(struct tcp_lane *lane, uint64_t id, int err);

static inline struct tcp_served *tei_tcp_served_at(struct tcp_backlog *b,
						   uint32_t i)
{
	return &b->reads[(b->first_read + i) % TCP_WINDOW];
}

/* ---- receive.c ---- */

/* Returns how many bytes have come. */
size_t tei_tcp_receive(struct tcp_lane *lane);
/* readv() with injected faults: > 0, 0 at the end, -EAGAIN, other -errno. */
ssize_t tei_tcp_readv(const struct tcp_lane *lane, const struct iovec *iov,
		      uint32_t n);

/* ---- memory.c ---- */

/*
 * Put the memory of the next @len bytes into iov[max] and move @c past it.
 * Returns the bytes covered: fewer when @max is reached.
 */
uint64_t tei_tcp_gather(const struct tei_slice *slice, struct tcp_cursor *c,
			uint64_t len, struct iovec *iov, uint32_t max,
			uint32_t *n_iov);
/* The next @n bytes have passed: move slice's own cursor, take the CRC. */
void tei_tcp_pass(struct tei_slice *slice, uint64_t n);
/*
 * Find payload[0] in this target's memory, pinned until
 * tei_tcp_pins_release(); those of the following n - 1 that go to the same
 * region are pinned along with it. 0, TEI_PIN_COPIED; -EAGAIN: release first;
 * or as tei_region_pin().
 */
int tei_tcp_pin(struct tcp_lane *lane, const struct tcp_payload *payload,
		uint32_t n, uint32_t access, void **local);
void tei_tcp_pins_release(struct tcp_lane *lane);
/* The pin that covers the payload; NULL: none. */
const struct tcp_pin *tei_tcp_find_pin(const struct tcp_rail *rail,
				       const struct tcp_payload *payload,
				       uint32_t access);

/* ---- zerocopy.c ---- */

/* Returns the bytes of the rest of @burst if it could be lent, else 0. */
uint64_t tei_tcp_lendable(const struct tcp_lane *lane,
			  const struct tcp_burst *burst);
/*
 * Chooses whether the plan's new burst is lent: where it may be, by what has
 * taken less time for bursts of its size. Sets plan->lendable.
 */
bool tei_tcp_choose_lending(struct tcp_lane *lane, struct tcp_plan *plan);
/*
 * Records that @sent bytes of a burst of @burst bytes, which could go either
 * way, took @ns. What notices of the kernel took since the last one that was
 * lent is added to one that is.
 */
void tei_tcp_lending_learn(struct tcp_lane *lane, uint64_t burst, uint64_t sent,
			   uint64_t ns);
/* The memory of the slice is not being sent any more. */
bool tei_tcp_is_quiet(const struct tei_slice *slice);
/* End the slice, which was answered with @err, when it is quiet. */
void tei_tcp_defer(struct tei_slice *slice, int err);
/*
 * Read what the kernel is through with, and end those deferred slices that are
 * quiet. Returns how many.
 */
int tei_tcp_deferred_end(struct tcp_lane *lane);
/* Take back what the kernel still has to send; before close(). */
void tei_tcp_zerocopy_recall(struct tcp_lane *lane);

/* ---- copied.c ---- */

/*
 * Takes memory to read the payload to, until the end of the call, in place of
 * @local. -EAGAIN: there is no room; -ENOMEM.
 */
int tei_tcp_stage_payload(struct tcp_lane *lane, struct tcp_payload *payload,
			  const struct tcp_pin *pin, void *local);
/* Copies on the first @n bytes of it, which have come. */
void tei_tcp_staged_passed(struct tcp_lane *lane, struct tcp_payload *payload,
			   uint64_t n);
/* Gives back what nothing was read to; lane->in is there. */
void tei_tcp_staged_release(struct tcp_lane *lane);
/* Ends a WRITE with @err. True: it is answered once its copies have ended. */
bool tei_tcp_copied_write_end(struct tcp_lane *lane, uint64_t id, int err);
/* Leaves what comes in the socket, as there is no room. */
void tei_tcp_pause(struct tcp_lane *lane);
/* Begins copies of what was asked for, as many as may be ahead. */
void tei_tcp_fetch(struct tcp_lane *lane);
/* Forgets what was fetched of a READ, and not announced. */
void tei_tcp_fetches_drop(struct tcp_lane *lane, uint64_t id);
/* Returns the piece behind @last (NULL: the first), if copied and of @id. */
struct tcp_fetch *tei_tcp_next_fetch(const struct tcp_lane *lane,
				     const struct tcp_fetch *last, uint64_t id);
/* Returns memory[*@length], a frame. */
void *tei_tcp_fetch_memory(const struct tcp_fetch *fetch, uint64_t *length);
/* Gives it to the payload, which says when it was sent. */
void tei_tcp_fetch_announced(struct tcp_fetch *fetch);
void tei_tcp_fetch_sent(struct tcp_fetch *fetch);
/* Goes on with lanes that are due. Returns how many things happened. */
int tei_tcp_copied_progress(struct tcp_rail *rail);
/* Has lanes that wait for room look again. */
void tei_tcp_room_came(struct tcp_rail *rail);
/* True: copies are under way; progress() reports when they have ended. */
bool tei_tcp_await_quiet(struct tcp_endpoint *ep, bool flushing);
/* Frees what a lane has of it beside lane->out; no copy is under way. */
void tei_tcp_copied_free(struct tcp_lane *lane);

/* ---- rail.c ---- */

int tei_tcp_rail_open(struct tei_rail *rail);
void tei_tcp_rail_close(struct tei_rail *rail);
int tei_tcp_progress(struct tei_rail *rail, int budget);
void tei_tcp_arm(struct tei_rail *rail);
/* Have progress() called soon, for refused slices and broken endpoints. */
void tei_tcp_signal(struct tcp_rail *rail);
int tei_tcp_watch(struct tcp_rail *rail, int fd, struct tcp_source *source,
		  uint32_t events);
/* Returns a socket on its way to @to, or -errno. */
int tei_tcp_connect(const struct tcp_rail *rail, const struct tei_address *to);
/* Run the timer for as long as it finds a reason. */
void tei_tcp_timer_start(struct tcp_rail *rail);

/* ---- devices.c ---- */

int tei_tcp_probe(const struct tei_search *search);
int tei_tcp_rail_match(struct tei_rail *rail, const struct tei_address *peer,
		       const void *blob, size_t len);
/*
 * Fill rail->network and ->ifindex by the address of the rail's device, and
 * listen for changes of that interface, if there is one. Fails for want of
 * memory or descriptors only.
 */
int tei_tcp_link_open(struct tcp_rail *rail);
/* Look whether the link is up, and report it; from progress(). */
void tei_tcp_link_check(struct tcp_rail *rail);

#endif
