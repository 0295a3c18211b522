/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - framed messages over a stream, and calls that await an answer
 *
 * Every control connection (engine to engine, client to master) speaks it:
 * a 16-byte little-endian header {length u32, type u16, flags u16,
 * request id u64}, then `length` bytes of body. docs/wire.md has the table.
 * The body is a protobuf message; this file does not look inside.
 *
 * A frame whose length exceeds the cap of its type is refused before anything
 * is allocated: the connection is closed and counted, as is one whose frame is
 * not whole in time: an answer 30 s after its first byte, what is asked 10 s.
 * Type 0 is "refused": a text for people,
 * after which the sender closes; a flag says whether to try again.
 *
 * Threads: everything here belongs to the connection's loop. Memory of an idle
 * connection: under 4 KiB of ours.
 */
#ifndef BASE_FRAME_H
#define BASE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/net.h"

#define TEI_FRAME_HEADER_LEN 16
#define TEI_FRAME_REFUSED    0 /* type: body is UTF-8 text, sender closes */
#define TEI_FRAME_REPLY      (1u << 0) /* flag: answers that request id */
#define TEI_FRAME_RETRY      (1u << 1) /* flag of "refused": only for now */
#define TEI_FRAME_TYPES      64        /* types are 0 .. 63 */
#define TEI_FRAME_NAME_LEN   16

struct tei_loop;
struct tei_frame_conn;

struct tei_frame {
	uint16_t type;
	uint16_t flags;
	uint64_t id;      /* 0: a push that nobody answers */
	const void *body; /* body[len], borrowed for the call */
	size_t len;
};

/* Agreed on by the two sides of a protocol; static const. */
struct tei_frame_protocol {
	const char *name; /* "control", "master"; for logs */
	/*
	 * Most bytes of a body per type, from the side that has connected and
	 * from the one that has accepted; 0: the type is refused.
	 */
	uint32_t request[TEI_FRAME_TYPES], reply[TEI_FRAME_TYPES];
};

/* Reasons to refuse or close a connection; counted per protocol user. */
enum tei_frame_fault {
	TEI_FRAME_BAD_TYPE,
	TEI_FRAME_TOO_LONG,
	TEI_FRAME_BAD_BODY,   /* reported by the user with tei_frame_bad() */
	TEI_FRAME_TIMEOUT,    /* a step did not end in time */
	TEI_FRAME_PROTECTED,  /* protected mode */
	TEI_FRAME_FULL,       /* too many connections, and none makes way */
	TEI_FRAME_IDLE,       /* it made way for others */
	TEI_FRAME_UNFINISHED, /* the part of a body that it sent took room */
	TEI_FRAME_UNREAD,     /* what it does not read took room */
	TEI_FRAME_FAULTS,
};

/* The one codec of the header; its body pointer is not part of it (NULL). */
void tei_frame_encode_header(uint8_t to[TEI_FRAME_HEADER_LEN],
			     const struct tei_frame *f);
void tei_frame_decode_header(const uint8_t from[TEI_FRAME_HEADER_LEN],
			     struct tei_frame *out);

struct tei_frame_ops {
	/* A frame that is no reply to one of our calls. */
	void (*frame)(struct tei_frame_conn *conn, const struct tei_frame *f,
		      void *arg);
	/*
	 * The connection has ended and all calls on it have been answered with
	 * that error: -ECONNREFUSED (nobody there, or refused: then @text is
	 * what the peer said, else NULL), -EAGAIN (refused for now, @text as
	 * well), -ECONNRESET (also when the peer just closed), -ETIMEDOUT,
	 * -EPROTO (refused by us), -ENOMEM or what the socket said. Once; the
	 * callee closes it, in here or afterwards.
	 */
	void (*down)(struct tei_frame_conn *conn, int err, const char *text,
		     void *arg);
	/* Outgoing only, optional: connected. */
	void (*up)(struct tei_frame_conn *conn, void *arg);
	/*
	 * Optional: whether frame() may be called with @f, which is whole, now.
	 * False: the connection keeps it and reads no more, until
	 * tei_frame_resume(). For users that give each peer a turn.
	 */
	bool (*ready)(struct tei_frame_conn *conn, const struct tei_frame *f,
		      void *arg);
	/* Optional, counts refusals. */
	void (*fault)(enum tei_frame_fault fault, void *arg);
	/*
	 * Optional, of a server's connections: an answer is owed, or the peer
	 * would lose something by its end, so idle ones make way before it:
	 * for up to 64 connections of a source, since it is cheap to be needed.
	 */
	bool (*needed)(void *arg);
};

/*
 * Connect to @to; up() or down() follows, never from inside this call. -ENOMEM,
 * -EMFILE. @timeout_ms: for the connection to be established.
 */
int tei_frame_connect(struct tei_loop *loop,
		      const struct tei_frame_protocol *protocol,
		      const struct tei_address *to, uint64_t timeout_ms,
		      const struct tei_frame_ops *ops, void *arg,
		      struct tei_frame_conn **out);

/*
 * Speak frames on @fd from now on, a connected stream socket that the caller
 * has accepted himself, as one of a unix socket. Takes @fd, also on failure; it
 * becomes non-blocking. up() is not called. -ENOMEM.
 */
int tei_frame_adopt(struct tei_loop *loop,
		    const struct tei_frame_protocol *protocol, int fd,
		    const struct tei_frame_ops *ops, void *arg,
		    struct tei_frame_conn **out);

/*
 * Any time, also inside its own callbacks. Frees @conn: no callback after it,
 * but calls in flight are answered -ECANCELED first, inside this call. What
 * was sent is offered to the kernel once more; a refusal is still delivered.
 */
void tei_frame_close(struct tei_frame_conn *conn);
/*
 * Closes the connection but not the socket, which is returned and the caller's
 * from now on. Bytes read behind the frame that is being delivered are lost, so
 * only to be used where nothing can follow it. -ENOTCONN, -EBUSY (something is
 * still to be sent): @conn is as it was.
 */
int tei_frame_detach(struct tei_frame_conn *conn);
/*
 * Send "refused" with @text; what the peer sends from now on is dropped. The
 * wire ends once the text is written (2 s at most). @conn stays the user's:
 * either close it at once, or down(-EPROTO) follows soon, not from inside.
 */
void tei_frame_refuse(struct tei_frame_conn *conn, const char *text);
/* The same, for lack of memory or room: the peer may try again. */
void tei_frame_refuse_for_now(struct tei_frame_conn *conn, const char *text);
/* The peer's body did not decode: count TEI_FRAME_BAD_BODY, then refuse(). */
void tei_frame_bad(struct tei_frame_conn *conn, const char *text);
/*
 * Inside frame(): takes the memory of the body, which the caller frees by
 * tei_free(). NULL: it has none of its own, as a body of less than 32 KiB may.
 */
void *tei_frame_take_body(struct tei_frame_conn *conn);
/* Replace ops and arg, e.g. once the peer has said hello. */
void tei_frame_set_ops(struct tei_frame_conn *conn,
		       const struct tei_frame_ops *ops, void *arg);
/*
 * The peer has said who it is, which nobody has proven: connections of a source
 * with the same name are counted together. More than the server's n_each of
 * them: the idlest other one makes way.
 */
void tei_frame_name(struct tei_frame_conn *conn,
		    const uint8_t name[TEI_FRAME_NAME_LEN]);
/*
 * The next frame() must come within @ms (0: no limit), else down(-ETIMEDOUT);
 * replies do not count.
 */
void tei_frame_expect(struct tei_frame_conn *conn, uint64_t ms);
/*
 * Delivers the frame for which ready() said no, without asking again, and goes
 * on with those behind it. Not from inside ready(); nothing is kept: no effect.
 */
void tei_frame_resume(struct tei_frame_conn *conn);
/* Address of our end; false: it has ended, or has none yet. */
bool tei_frame_local(const struct tei_frame_conn *conn,
		     struct tei_address *out);
const struct tei_address *tei_frame_peer(const struct tei_frame_conn *conn);
/*
 * Number of the source from which the peer has come to our port, as below.
 * Peers cannot choose it. 0: not of a port.
 */
uint64_t tei_frame_source(const struct tei_frame_conn *conn);
/* Bytes queued and not yet taken by the kernel. */
size_t tei_frame_backlog(const struct tei_frame_conn *conn);

struct ProtobufCMessage;
/*
 * Send @msg packed (NULL: an empty body); it is not kept. Also before up():
 * then it goes out once connected. -ENOMEM, -EMSGSIZE (above the cap),
 * -ENOTCONN (has ended or is refused; down() has been or will be called).
 * A wire that breaks in here is reported by down(), after this call.
 */
int tei_frame_send(struct tei_frame_conn *conn, uint16_t type, uint16_t flags,
		   uint64_t id, const struct ProtobufCMessage *msg);
/*
 * A push that may wait: it goes out with the next message, or with hurry(),
 * which the caller must call in the end. Returns like send().
 */
int tei_frame_send_lazily(struct tei_frame_conn *conn, uint16_t type,
			  const struct ProtobufCMessage *msg);
/* Offer all that is queued to the kernel. */
void tei_frame_hurry(struct tei_frame_conn *conn);
/*
 * Leave what the peer sends unread until @bytes of it have come; 1: read it as
 * it comes. The end of the connection is noticed, and what came before it is
 * read, whatever this says.
 */
void tei_frame_low_water(struct tei_frame_conn *conn, int bytes);
/*
 * Read what has come; true: there may be more. Not from inside a callback of
 * @conn. frame() and done() of calls may be called from inside; down() comes
 * later.
 */
bool tei_frame_read(struct tei_frame_conn *conn);
/* Answer @to with @msg: its type, its id, TEI_FRAME_REPLY. */
int tei_frame_reply(struct tei_frame_conn *conn, const struct tei_frame *to,
		    const struct ProtobufCMessage *msg);

/*
 * A call: a frame with an id of its own, answered exactly once: with the reply
 * frame, or with f NULL and err -ETIMEDOUT, -ECONNRESET, -ECANCELED. Embed it;
 * it belongs to the connection until answered.
 */
struct tei_frame_call {
	struct tei_heap_node due;
	struct tei_list link;
	uint64_t id;
	void (*done)(struct tei_frame_call *call, int err,
		     const struct tei_frame *f);
};
/* Returns like send(), and then done() will not be called. */
int tei_frame_call(struct tei_frame_conn *conn, struct tei_frame_call *call,
		   uint16_t type, const struct ProtobufCMessage *msg,
		   uint64_t timeout_ms);
/* Take a call back: no done() any more. A later reply is ignored. */
void tei_frame_call_cancel(struct tei_frame_conn *conn,
			   struct tei_frame_call *call);

/*
 * A listening port. When it has n_max connections, or half of the descriptors
 * that the process may have, or none is left to accept with, a connection makes
 * way for the next: of the source (a user of this host where protected mode has
 * asked for it, else the address) that has most, there of the name that has
 * most, the one without a frame for longest; if possible one that is not
 * needed. It is refused for now, so an honest peer comes back when it wants
 * something. A source that has least makes way for none with more; then the
 * newcomer is refused for now.
 *
 * Bodies that have come in part, or whole ones that wait for ready(), may take
 * 64 MiB, those of a source 32 MiB; beyond that the oldest of who has most is
 * refused for now. Frames that peers do not read may take 256 MiB, those of a
 * source 128 MiB; beyond that who has most loses its connection, with a line in
 * the log. Its user hears -EPROTO.
 */
struct tei_frame_server;
struct tei_frame_server_config {
	const struct tei_frame_protocol *protocol;
	const char *host; /* NULL: wildcard */
	uint16_t port;    /* 0: kernel's choice */
	/* Whom to serve, base/peer.h. */
	bool insecure;
	const char *allow_uids; /* NULL: nobody else */
	unsigned int n_max;     /* connections at a time; 0: no limit */
	unsigned int n_each;    /* of the same name; 0: no limit */
	uint64_t hello_ms; /* the first frame must come within; 0: no limit */
	/* Most bytes of a first frame, whatever its type; 0: as its type. A
	 * peer that is not identified must not cost much memory. */
	uint32_t hello_max;
	const struct tei_frame_ops *ops; /* of new connections */
	void *arg;                       /* borrowed while the server lives */
	/* Optional: a new connection, before its first frame. */
	void (*accepted)(struct tei_frame_conn *conn, void *arg);
};
/* -EINVAL: allow_uids. -ENOMEM, or as tei_listen(). */
int tei_frame_listen(struct tei_loop *loop,
		     const struct tei_frame_server_config *config,
		     uint16_t *out_port, struct tei_frame_server **out);
/* Stops accepting; its connections live on and are closed by their users. */
void tei_frame_server_close(struct tei_frame_server *server);

#endif
