/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - what the files of the tcp backend share
 *
 * rail.c      listening socket, epoll, progress
 * young.c     accepting, and what must happen in time
 * deaf.c      connections that the network has stopped carrying
 * lane.c      one connection: socket, hello, interest, end
 * endpoint.c  the ops of an endpoint: open, connect, post, cancel, drop
 * backlog.c     what a target owes: answers, data
 * plan.c      what goes out next on a lane
 * send.c      one vectored write of it, and what the kernel took
 * receive.c   the bytes that come in on a lane, read into their final place
 * frame.c     what the frames among them mean
 * hold.c      a target's memory, pinned for the time of one call
 * gone.c      memory that is not there when the kernel comes to it
 * slice.c     walking a slice's local pieces, with checksum: slice.h
 * zerocopy.c  payload that the kernel sends from where it lies
 * wire.c      frames to bytes and back
 * devices.c   which interfaces are rails, and which reach each other
 * netlink.c   whether a rail's interface has its link
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

#include "backends/tcp/slice.h"
#include "backends/tcp/wire.h"
#include "base/list.h"
#include "te/backend.h"

#define TCP_WINDOW_BYTES (8u << 20) /* unanswered; but one request at least */
#define TCP_SCRATCH_LEN  (64u << 10)
#define TCP_BULK_LEN     (16u << 10)  /* from here on a system call less pays */
#define TCP_CRC_LEN      (256u << 10) /* read again while the cache has it */
#define TCP_CACHE_LINE   64
#define TCP_EXPRESS_LEN  (16u << 10) /* up to here it is no bulk */
#define TCP_OVERTAKE_MAX 16          /* then who has waited goes first */
#define TCP_IOV_MAX      1024
#define TCP_HEADERS_MAX  512
#define TCP_PINS_MAX     16
#define TCP_POLLED_MAX   4
#define TCP_OPENING_MAX  256 /* connections that have not said hello */
#define TCP_TICK_MS      250

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

/* Whose payload it is. */
enum tcp_stream {
	TCP_STREAM_SLICE,  /* of this initiator's slice */
	TCP_STREAM_REGION, /* of this target's region */
	TCP_STREAM_ORPHAN, /* out: of a slice that is over; in: to be drained */
};

/* The payload of one frame whose header has gone, or come. */
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
	uint64_t sent; /* announced, that is */
	int err;       /* refused in the middle: answered once it is first */
};

/*
 * What was sent without a copy and is still the kernel's. It numbers such
 * calls from 0 on and tells when it is through with each.
 */
struct tcp_zerocopy {
	uint32_t next, upto;      /* all before @upto are over */
	uint64_t over;            /* a bit for each from @upto on */
	uint32_t n_copied;        /* in a row that it has copied after all */
	bool sending;             /* what goes just now is number next - 1 */
	struct tei_list deferred; /* slices that end when it is through */
	struct tei_list of_rail;  /* rail->deferring, while there are some */
};

/* A target's backlog on one lane; TCP_WINDOW bounds both together. */
struct tcp_backlog {
	uint32_t first_answer, n_answers;
	uint32_t n_ids; /* that the answers are about */
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
	uint32_t polls_left; /* tries left until epoll has to tell; 0: cold */
	uint32_t n_good;     /* tries with success since somebody slept */
	bool unheard;        /* epoll does not listen for what comes in */

	/* Coming in. */
	uint8_t head[TCP_HEAD_LEN];
	uint32_t head_have;
	bool headers_end;     /* all headers of the burst are here */
	uint32_t read_on;     /* bytes worth reading past a burst */
	uint64_t refused_id;  /* target: of the WRITE that was refused last */
	struct tcp_burst *in; /* owned; from the first frame on */

	/* Going out. */
	uint8_t *headers; /* owned; headers that are half sent, or NULL */
	uint32_t headers_at, headers_len;
	struct tcp_burst *out;   /* owned; from the first frame on */
	uint32_t n_orphans;      /* in it */
	uint64_t stalled_ms;     /* since when they have not moved */
	struct tei_list stalled; /* rail->stalled, while there are some */

	/* Initiator. The sent ones in order of id. */
	struct tei_list reads, writes; /* not, or not wholly, announced */
	struct tei_list sent_reads, sent_writes;
	uint32_t n_overtakes; /* in a row */
	uint64_t next_id;
	uint64_t abort_id; /* WRITE given up half-way, peer not told yet */
	uint64_t n_unanswered, bytes_unanswered;
	struct tei_list asking; /* rail->asking, while some are unanswered */
	uint64_t n_requests;    /* all that were ever given to it */
	uint64_t quiet_ms;      /* since when no answer has come */
	uint64_t n_answered;    /* by then */
	bool probed;            /* the kernel is to ask the peer's often */

	struct tcp_backlog *backlog;   /* owned; target, once open */
	struct tcp_zerocopy *zerocopy; /* owned; NULL: every byte is copied */
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

/* One vectored write being put together; shared by the lanes of a rail. */
struct tcp_plan {
	uint32_t n_iov;
	size_t bytes;     /* in iov */
	size_t old_bytes; /* of them, what was announced before */
	bool lends;       /* all of it is payload, to be sent without a copy */
	bool headless;    /* the payload follows at once, in another call */
	/* What the new headers say, in this order. */
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
};

struct tcp_rail {
	struct tei_rail *base; /* not owned */
	struct tcp_source listener, signal, tick, link;
	int epoll_fd, listen_fd, signal_fd, tick_fd;
	int link_fd;      /* rtnetlink, -1: stands for no interface */
	int ifindex;      /* 0: none */
	bool link_up;     /* as the core was told last */
	bool link_unsure; /* there was no way to ask: to be asked again */
	struct tcp_network network;
	uint16_t port;
	bool ticking, listening;
	bool in_progress; /* then what is broken is reported without a kick */
	unsigned int n_opening;
	struct tei_list young;     /* lanes, oldest first */
	struct tei_list dead;      /* closed lanes that an event may point to */
	struct tei_list waiting;   /* endpoints with lanes to come */
	struct tei_list broken;    /* endpoints */
	struct tei_list refused;   /* slices */
	struct tei_list stalled;   /* lanes with orphans that go out */
	struct tei_list asking;    /* lanes with requests unanswered */
	struct tei_list deferring; /* struct tcp_zerocopy with held slices */
	struct tcp_plan *plan;
	uint8_t *scratch; /* scratch[TCP_SCRATCH_LEN], of scratch_fd */
	int scratch_fd;
	/* Lanes that were busy just now: asked without epoll. */
	struct tcp_lane *polled[TCP_POLLED_MAX];
	uint32_t n_unasked; /* times that epoll was left out in a row */
	/* Only during a call of one lane. */
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

static inline const struct tcp_config *tcp_config(const struct tcp_rail *rail)
{
	return rail->base->config;
}

/* ---- rail.c ---- */

int tei_tcp_rail_open(struct tei_rail *rail);
void tei_tcp_rail_close(struct tei_rail *rail);
int tei_tcp_progress(struct tei_rail *rail, int budget);
int tei_tcp_wait_fd(struct tei_rail *rail);
void tei_tcp_doze(struct tei_rail *rail);
/* Have progress() called soon, for refused slices and broken endpoints. */
void tei_tcp_signal(struct tcp_rail *rail);
/* Ask this lane for bytes at each progress(), and no more. */
void tei_tcp_heat(struct tcp_lane *lane);
void tei_tcp_cool(struct tcp_lane *lane);
int tei_tcp_watch(struct tcp_rail *rail, int fd, struct tcp_source *source,
		  uint32_t events);

/* ---- young.c ---- */

/* Give a lane connect_timeout to get open, or stop the clock. */
void tei_tcp_young_add(struct tcp_lane *lane);
void tei_tcp_young_remove(struct tcp_lane *lane);
/* It owes the peer payload of a slice that is over: not for ever. */
void tei_tcp_stalled_add(struct tcp_lane *lane);
void tei_tcp_accept(struct tcp_rail *rail);
/* Have tick() called, now and then, for as long as it finds a reason. */
void tei_tcp_tick_start(struct tcp_rail *rail);
void tei_tcp_tick(struct tcp_rail *rail);

/* ---- deaf.c ---- */

/* A request has been given to it. */
void tei_tcp_asking_add(struct tcp_lane *lane);
/* Break what is deaf; from tick(). */
void tei_tcp_asking_look(struct tcp_rail *rail, uint64_t now_ms);

/* ---- devices.c ---- */

int tei_tcp_probe(const struct tei_search *search);
/*
 * Fill rail->network and ->ifindex by the address of the rail's device. Fails
 * for want of memory or descriptors only.
 */
int tei_tcp_identify(struct tcp_rail *rail);
/* The interface that has the rail's address now; 0: none. -errno: unknown. */
int tei_tcp_ifindex(const struct tcp_rail *rail);
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
/* Close its socket. The memory stays until tei_tcp_lane_destroy(), or till the
 * end of progress(). */
void tei_tcp_lane_close(struct tcp_lane *lane);
void tei_tcp_lane_destroy(struct tcp_lane *lane);
/* What was destroyed during progress(). */
void tei_tcp_lanes_free(struct tcp_rail *rail);
/* An event of its socket. */
void tei_tcp_lane_event(struct tcp_lane *lane, uint32_t events);
void tei_tcp_lane_want_out(struct tcp_lane *lane, bool want);
/* Whether epoll listens for what comes in. */
void tei_tcp_lane_listen(struct tcp_lane *lane, bool on);
/*
 * The lane cannot go on. With it ends its endpoint, if it has one; that is
 * reported by progress().
 */
void tei_tcp_lane_fail(struct tcp_lane *lane, int err);
/* The same because of what the peer sent: counted. */
void tei_tcp_lane_bad(struct tcp_lane *lane, const char *what);
/* How soon the kernel asks the peer's after the last packet, and how often. */
void tei_tcp_keep(int fd, bool often);
/* Options of every data socket. */
void tei_tcp_socket_tune(const struct tcp_rail *rail, int fd);

/* ---- endpoint.c ---- */

int tei_tcp_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len);
int tei_tcp_endpoint_connect(struct tei_endpoint *ep, const void *addr,
			     size_t len);
void tei_tcp_endpoint_way(const struct tei_endpoint *ep, char *out,
			  size_t room);
void tei_tcp_endpoint_close(struct tei_endpoint *ep);
int tei_tcp_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		 int n);
void tei_tcp_cancel(struct tei_endpoint *ep, struct tei_slice *slice);
int tei_tcp_flush(struct tei_endpoint *ep, int err);
int tei_tcp_drop(struct tei_endpoint *ep);
/* Close all lanes; down(@err) follows from progress(). */
void tei_tcp_endpoint_break(struct tcp_endpoint *ep, int err);
/*
 * The target's endpoint that waits for this lane, or NULL. A lane is taken
 * once. */
struct tcp_endpoint *tei_tcp_endpoint_claim(struct tcp_rail *rail,
					    const struct tcp_hello *hello);
/*
 * End a slice. What was announced of it still goes out, from a copy, and what
 * comes in for it is drained; without memory for the copy the endpoint breaks.
 */
void tei_tcp_slice_end(struct tei_slice *slice, int err, uint64_t bytes);
/*
 * The peer has answered it. It ends now, or once the kernel has given its
 * memory back.
 */
void tei_tcp_slice_answered(struct tei_slice *slice, int err);
/* Its own memory is not there: give it up; done() comes from progress(). */
void tei_tcp_slice_unmapped(struct tei_slice *slice);

/* ---- zerocopy.c ---- */

/* For a socket just made, when the settings want it; else nothing. */
void tei_tcp_zerocopy_open(struct tcp_lane *lane);
/* What is left of the burst may be lent to the kernel, and is worth it. */
bool tei_tcp_may_lend(const struct tcp_lane *lane,
		      const struct tcp_burst *burst);
/* sendmsg() by which the kernel borrows. As sendmsg(), with errno. */
ssize_t tei_tcp_lend(struct tcp_lane *lane, const struct msghdr *msg);
/* Ask the kernel first. The memory of the slice is not being sent any more. */
bool tei_tcp_is_quiet(const struct tei_slice *slice);
/* Hear what the kernel is through with. */
void tei_tcp_zerocopy_hear(struct tcp_lane *lane);
void tei_tcp_defer(struct tei_slice *slice, int err);
/* End the held ones whose memory is quiet; how many. From progress(). */
int tei_tcp_zerocopy_release(struct tcp_rail *rail);
/* The lane is closed: end all of them. */
void tei_tcp_zerocopy_end(struct tcp_lane *lane);
/* Before close(): take back what the kernel still has to send. */
void tei_tcp_zerocopy_recall(struct tcp_lane *lane);

/* ---- backlog.c ---- */

/* As target: owe an answer. False: the peer exceeds the window. */
bool tei_tcp_backlog_answer(struct tcp_lane *lane, uint64_t id, int err);
bool tei_tcp_backlog_read(struct tcp_lane *lane, const struct tcp_frame *ask);
struct tcp_answer *answer_at(struct tcp_backlog *d, uint32_t i);
struct tcp_served *read_at(struct tcp_backlog *d, uint32_t i);
/* The first @n answers are on their way. */
void answers_sent(struct tcp_backlog *d, uint32_t n);
/* @length bytes more of the first READ have been announced. */
void read_sent(struct tcp_backlog *d, uint64_t length);
/* READs that were refused once their turn came become answers. */
void answer_refused_reads(struct tcp_lane *lane);

/* ---- plan.c ---- */

/* Fill rail->plan; changes nothing else. < 0: what is half sent cannot end. */
int tei_tcp_plan(struct tcp_lane *lane);
bool tei_tcp_has_more(const struct tcp_lane *lane);

/* ---- send.c ---- */

/* Send what the socket takes, about one chunk at most. */
void tei_tcp_send(struct tcp_lane *lane);

/* ---- receive.c ---- */

/* Returns how many bytes have come. */
size_t tei_tcp_receive(struct tcp_lane *lane);
/* recv() with injected faults: > 0, 0 at the end, -EAGAIN, other -errno. */
ssize_t tei_tcp_readv(const struct tcp_lane *lane, const struct iovec *iov,
		      uint32_t n);

/* ---- frame.c ---- */

/* A header has come. It may close the lane. */
void tei_tcp_take_frame(struct tcp_lane *lane, const uint8_t *head);
/* The first payload of the burst has passed wholly. It may close the lane. */
void tei_tcp_payload_end(struct tcp_lane *lane);
/* As target: answer why not, and let the payload's payload pass by. */
void tei_tcp_refuse(struct tcp_lane *lane, struct tcp_payload *payload,
		    int err);

/* ---- hold.c ---- */

/*
 * Where payload[0] is in this target's memory, pinned until
 * tei_tcp_pins_release(); those of the following n - 1 payloads that go to the
 * same region are pinned along with it. -EAGAIN: release first; or as
 * tei_region_pin().
 */
int tei_tcp_pin(struct tcp_lane *lane, const struct tcp_payload *payload,
		uint32_t n, uint32_t access, void **local);
void tei_tcp_pins_release(struct tcp_lane *lane);
/* The hold that the payload has got; NULL: none. */
const struct tcp_pin *tei_tcp_find_pin(const struct tcp_rail *rail,
				       const struct tcp_payload *payload,
				       uint32_t access);

/* ---- gone.c ---- */

/* The kernel could not write where the first payload that comes in goes. */
void tei_tcp_gone_in(struct tcp_lane *lane);
/*
 * The kernel could not read something of the plan: those whose memory it is
 * are told, and the others go on. -EFAULT: the lane cannot.
 */
int tei_tcp_gone_out(struct tcp_lane *lane);

#endif
