/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_io.c - a connection's bytes: the header, input, output
 *
 * Input: reads go to a buffer on the stack, and frames that lie in it whole are
 * handed over from there: small messages cost no allocation and one read for
 * many. A body that is not there whole is collected in memory of its own, which
 * grows with what has come, not with what was announced; the rest of a large
 * one is read straight into it. A user who takes turns may leave a frame that
 * is whole where it is: then nothing more is read, so that a peer is limited by
 * its own socket.
 *
 * Output: a message is packed into the send queue and offered to the kernel at
 * once, unless it is one of several small answers to what one read has brought,
 * or was sent lazily. What the kernel does not take waits for the socket to
 * become writable. A peer that asks but does not read is not read from either,
 * once PAUSE_LEN bytes wait for it.
 */
#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/frame_private.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define SCRATCH_LEN (32 * 1024)
#define FIRST_ROOM  (64 * 1024)
#define READ_LEN    (64 * 1024)
#define N_READS     16   /* then other connections have their turn */
#define PIECE_LEN   8192 /* shared by small frames that have to wait */
/* Corked, but this much goes out at once: its asker goes on while we work. */
#define CORK_LEN 256
#define N_IOV    16
/*
 * Reads end when a turn of a loop that is measured has lasted so long; the next
 * one goes on. Large bodies leave the rest of it to others.
 */
#define READS_NS   (TEI_NS_PER_MS / 2)
#define BODIES_NS  (TEI_NS_PER_MS / 4)
#define PAUSE_LEN  (4 * 1024 * 1024)
#define RESUME_LEN (1024 * 1024)
/* So many make way for one that grows; if that is too little, it goes. */
#define N_MAKE_WAY 4

/* ---- the header, and what a protocol allows ---- */

void tei_frame_encode_header(uint8_t to[TEI_FRAME_HEADER_LEN],
			     const struct tei_frame *f)
{
	struct tei_writer w;

	tei_writer_init(&w, to, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, (uint32_t)f->len);
	tei_write_u16(&w, f->type);
	tei_write_u16(&w, f->flags);
	tei_write_u64(&w, f->id);
}

void tei_frame_decode_header(const uint8_t from[TEI_FRAME_HEADER_LEN],
			     struct tei_frame *out)
{
	struct tei_reader r;

	tei_reader_init(&r, from, TEI_FRAME_HEADER_LEN);
	out->len = tei_read_u32(&r);
	out->type = tei_read_u16(&r);
	out->flags = tei_read_u16(&r);
	out->id = tei_read_u64(&r);
	out->body = NULL;
}

/* Returns the cap of a body; @asks: of one from the side that connected. */
static uint32_t max_body(const struct tei_frame_conn *conn, uint16_t type,
			 bool asks)
{
	const struct tei_frame_protocol *protocol = conn->protocol;

	if (type == TEI_FRAME_REFUSED)
		return TEI_FRAME_TEXT_MAX;
	if (type >= TEI_FRAME_TYPES)
		return 0;
	return asks ? protocol->request[type] : protocol->reply[type];
}

/* ---- input: from bytes to frames ---- */

/* Counts the memory of what has come and is not delivered yet. */
static void count_input(struct tei_frame_conn *conn)
{
	size_t bytes = conn->room_body + conn->n_stash;

	if (conn->holder && conn->usage[TEI_FRAME_INPUT].bytes != bytes)
		tei_frame_peers_use(&conn->server->peers, conn, TEI_FRAME_INPUT,
				    bytes);
}

/*
 * Counts it after it has grown. False: it was too much, and this connection is
 * the one that is refused for it.
 */
static bool keep_to_budget(struct tei_frame_conn *conn)
{
	struct tei_frame_conn *most;

	if (!conn->holder)
		return true;
	count_input(conn);
	for (int i = 0; conn->holder; i++) {
		most = tei_frame_peers_heaviest(&conn->server->peers, conn,
						TEI_FRAME_INPUT);
		if (!most)
			break;
		tei_frame_make_way(i < N_MAKE_WAY ? most : conn,
				   TEI_FRAME_UNFINISHED,
				   "too many unfinished messages");
	}
	return conn->holder != NULL;
}

void tei_frame_drop_input(struct tei_frame_conn *conn)
{
	tei_free(conn->body);
	tei_free(conn->stash);
	conn->body = conn->stash = NULL;
	conn->n_stash = 0;
	conn->n_body = conn->room_body = conn->n_head = 0;
	conn->in_body = conn->deferred = false;
	conn->part_ms = TEI_FRAME_NEVER;
	count_input(conn);
}

static void refuse_frame(struct tei_frame_conn *conn,
			 enum tei_frame_fault fault, const char *text)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	char name[TEI_NAME_LEN_MAX + 1];

	if (tei_log_allowed(&limit)) {
		tei_address_text(&conn->peer, name);
		LOG_WARN("%s: peer %s: type %u, %zu bytes: %s",
			 conn->protocol->name, name, conn->in.type,
			 conn->in.len, text);
	}
	tei_frame_count(conn, fault);
	tei_frame_refuse(conn, text);
}

static bool flags_are_known(const struct tei_frame *f)
{
	unsigned int known = TEI_FRAME_REPLY;

	if (f->type == TEI_FRAME_REFUSED)
		known = TEI_FRAME_RETRY;
	return !(f->flags & ~known);
}

/* Decodes and checks a header; false: the connection is being refused. */
static bool accept_header(struct tei_frame_conn *conn, const uint8_t *bytes)
{
	uint32_t cap;

	tei_frame_decode_header(bytes, &conn->in);
	cap = max_body(conn, conn->in.type, !conn->outgoing);
	if (cap == 0)
		refuse_frame(conn, TEI_FRAME_BAD_TYPE, "unknown frame type");
	else if (conn->in.len > cap ||
		 (conn->hello_max && conn->in.len > conn->hello_max))
		refuse_frame(conn, TEI_FRAME_TOO_LONG, "frame too long");
	else if (!flags_are_known(&conn->in))
		refuse_frame(conn, TEI_FRAME_BAD_TYPE, "unknown frame flag");
	else
		return true;
	return false;
}

static void refused_by_peer(struct tei_frame_conn *conn,
			    const struct tei_frame *f)
{
	size_t len = f->len < TEI_FRAME_TEXT_MAX ? f->len : TEI_FRAME_TEXT_MAX;

	conn->text = tei_malloc(len + 1);
	if (conn->text) {
		if (len)
			memcpy(conn->text, f->body, len);
		conn->text[len] = '\0';
	}
	tei_frame_end(conn,
		      f->flags & TEI_FRAME_RETRY ? -EAGAIN : -ECONNREFUSED);
}

/* Hands a whole frame, whose header is conn->in, to the owner. */
static void deliver_frame(struct tei_frame_conn *conn, const void *body)
{
	struct tei_frame f = conn->in;

	f.body = body;
	conn->part_ms = TEI_FRAME_NEVER;
	if (f.type == TEI_FRAME_REFUSED) {
		refused_by_peer(conn, &f);
	} else if (f.flags & TEI_FRAME_REPLY) {
		/* No end of expect(): an unknown peer could send it. */
		tei_frame_answer(conn, &f);
	} else if (conn->ops->frame) {
		conn->step_ms = TEI_FRAME_NEVER;
		conn->hello_max = 0;
		if (conn->server)
			tei_frame_peers_note(&conn->server->peers, conn);
		conn->ops->frame(conn, &f, conn->arg);
	}
}

/* The body lives while it is delivered, whatever becomes of @conn. */
static void deliver_own(struct tei_frame_conn *conn)
{
	uint8_t *body = conn->body;

	conn->body = NULL;
	conn->n_body = conn->room_body = 0;
	conn->in_body = false;
	count_input(conn);
	conn->lent = body;
	deliver_frame(conn, body);
	tei_free(conn->lent);
	conn->lent = NULL;
}

void *tei_frame_take_body(struct tei_frame_conn *conn)
{
	void *body = conn->lent;

	conn->lent = NULL;
	return body;
}

/* False: the user takes the frame, which is whole, later. */
static bool may_deliver(struct tei_frame_conn *conn, const void *body)
{
	struct tei_frame f = conn->in;

	f.body = body;
	return f.type == TEI_FRAME_REFUSED || (f.flags & TEI_FRAME_REPLY) ||
	       !conn->ops->ready || conn->ops->ready(conn, &f, conn->arg);
}

/* Puts the frame whose body is conn->body off until resume(). */
static void defer(struct tei_frame_conn *conn)
{
	conn->deferred = true;
	conn->part_ms = TEI_FRAME_NEVER;
	conn->step_ms = TEI_FRAME_NEVER; /* what was awaited has come */
	event_del(&conn->readable);
}

/* Puts a frame off whose body lies in a buffer that ends: copies it. */
static void defer_copy(struct tei_frame_conn *conn, const uint8_t *body)
{
	size_t len = conn->in.len;

	if (len) {
		conn->body = tei_malloc(len);
		if (!conn->body) {
			tei_frame_end(conn, -ENOMEM);
			return;
		}
		memcpy(conn->body, body, len);
	}
	conn->n_body = conn->room_body = len;
	conn->in_body = true;
	defer(conn);
	(void)keep_to_budget(conn);
}

/*
 * Grants room for at least one byte more of an unfinished body. The first piece
 * is for who announces much and sends little. Memory for the whole is asked for
 * with the second, once: growing it by and by would copy megabytes in one go.
 * The kernel gives its pages as they are filled, so the room that is granted is
 * what counts.
 */
static bool grow_body(struct tei_frame_conn *conn)
{
	size_t before = conn->room_body, room = 2 * before, size;
	uint8_t *body;

	if (conn->n_body < before)
		return true;
	if (room < FIRST_ROOM)
		room = FIRST_ROOM;
	if (room > conn->in.len)
		room = conn->in.len;
	if (before <= FIRST_ROOM) {
		size = before ? conn->in.len : room;
		body = tei_realloc(conn->body, size);
		if (!body) {
			tei_frame_end(conn, -ENOMEM);
			return false;
		}
		conn->body = body;
	}
	conn->room_body = room;
	return keep_to_budget(conn);
}

static bool is_wanted(const struct tei_frame_conn *conn)
{
	return conn->state == TEI_FRAME_UP && !conn->closed;
}

static void deliver_or_defer(struct tei_frame_conn *conn)
{
	if (may_deliver(conn, conn->body))
		deliver_own(conn);
	else if (is_wanted(conn))
		defer(conn);
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Takes part of a header, or a whole one with perhaps its body. */
static size_t consume_head(struct tei_frame_conn *conn, const uint8_t *p,
			   size_t n)
{
	size_t take = min_size(n, TEI_FRAME_HEADER_LEN - conn->n_head);

	memcpy(conn->head + conn->n_head, p, take);
	conn->n_head += take;
	if (conn->n_head < TEI_FRAME_HEADER_LEN)
		return take;
	conn->n_head = 0;
	if (!accept_header(conn, conn->head))
		return n;
	if (n - take < conn->in.len) {
		conn->in_body = true;
		return take;
	}
	if (may_deliver(conn, p + take))
		deliver_frame(conn, p + take);
	else if (is_wanted(conn))
		defer_copy(conn, p + take);
	return take + conn->in.len;
}

static size_t consume_body(struct tei_frame_conn *conn, const uint8_t *p,
			   size_t n)
{
	size_t take;

	if (!grow_body(conn))
		return n;
	take = min_size(n, conn->room_body - conn->n_body);
	memcpy(conn->body + conn->n_body, p, take);
	conn->n_body += take;
	if (conn->n_body == conn->in.len)
		deliver_or_defer(conn);
	return take;
}

/*
 * Keep input whose frames must wait: the send queue is too long for their
 * answers.
 */
static void stash(struct tei_frame_conn *conn, const uint8_t *p, size_t n)
{
	conn->stash = tei_malloc(n);
	if (!conn->stash) {
		tei_frame_end(conn, -ENOMEM);
		return;
	}
	memcpy(conn->stash, p, n);
	conn->n_stash = n;
	(void)keep_to_budget(conn);
}

static void consume(struct tei_frame_conn *conn, const uint8_t *p, size_t n)
{
	while (n && is_wanted(conn) && !conn->paused && !conn->deferred) {
		size_t took = conn->in_body ? consume_body(conn, p, n)
					    : consume_head(conn, p, n);

		p += took;
		n -= took;
	}
	if (n && is_wanted(conn))
		stash(conn, p, n);
}

static void consume_stash(struct tei_frame_conn *conn)
{
	uint8_t *p = conn->stash;
	size_t n = conn->n_stash;

	conn->stash = NULL;
	conn->n_stash = 0;
	if (!p)
		return;
	consume(conn, p, n);
	count_input(conn);
	tei_free(p);
}

static ssize_t receive_bytes(struct tei_frame_conn *conn, void *to, size_t room)
{
	if (tei_fault_check(TEI_FAULT_IO)) {
		errno = ECONNRESET;
		return -1;
	}
	return recv(conn->fd, to, room, 0);
}

/* True: what comes next is read to where it belongs. */
static bool reads_straight(const struct tei_frame_conn *conn)
{
	return conn->in_body && conn->in.len - conn->n_body >= SCRATCH_LEN;
}

/* Read once; false: there was less than asked for, or the wire has ended. */
static bool receive_once(struct tei_frame_conn *conn, uint8_t *scratch)
{
	bool straight = reads_straight(conn);
	size_t room = SCRATCH_LEN;
	ssize_t n;

	if (straight) {
		if (!grow_body(conn))
			return false;
		room = min_size(conn->room_body - conn->n_body, READ_LEN);
	}
	n = receive_bytes(conn, straight ? conn->body + conn->n_body : scratch,
			  room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false; /* level-triggered: comes again */
	if (n <= 0) {
		tei_frame_end(conn, n < 0 ? -errno : -ECONNRESET);
		return false;
	}
	if (!straight)
		consume(conn, scratch, (size_t)n);
	else if ((conn->n_body += (size_t)n) == conn->in.len)
		deliver_or_defer(conn);
	return (size_t)n == room;
}

static void watch_part(struct tei_frame_conn *conn)
{
	if (conn->deferred || conn->paused || (!conn->in_body && !conn->n_head))
		return;
	if (conn->part_ms != TEI_FRAME_NEVER)
		return;
	conn->part_ms = tei_frame_due_ms(conn->outgoing ? TEI_FRAME_PART_MS
							: TEI_FRAME_ASKED_MS);
	tei_frame_rearm(conn);
}

bool tei_frame_is_late(const struct tei_frame_conn *conn)
{
	return tei_loop_turn_ns(conn->loop) >=
	       (reads_straight(conn) ? BODIES_NS : READS_NS);
}

bool tei_frame_receive(struct tei_frame_conn *conn)
{
	uint8_t scratch[SCRATCH_LEN];
	bool was_corked = conn->corked, more = true;

	if (conn->deferred)
		return false;
	conn->corked = true; /* answers of one read go out in one write */
	consume_stash(conn);
	for (int i = 0; more && i < N_READS && !(i && tei_frame_is_late(conn));
	     i++)
		more = !conn->paused && !conn->deferred &&
		       conn->state != TEI_FRAME_ENDED &&
		       receive_once(conn, scratch);
	conn->corked = was_corked;
	if (conn->state != TEI_FRAME_UP)
		return false;
	watch_part(conn);
	tei_frame_flush(conn);
	return more;
}

void tei_frame_resume(struct tei_frame_conn *conn)
{
	if (!conn->deferred || !is_wanted(conn))
		return;
	tei_frame_enter(conn);
	conn->deferred = false;
	conn->corked = true;
	deliver_own(conn);
	if (!conn->deferred && !conn->paused)
		consume_stash(conn);
	conn->corked = false;
	if (conn->state == TEI_FRAME_UP) {
		watch_part(conn);
		tei_frame_flush(conn);
	}
	if (is_wanted(conn) && !conn->deferred && !conn->paused &&
	    event_add(&conn->readable, NULL))
		tei_frame_end(conn, -ENOMEM);
	tei_frame_leave(conn);
}

/* ---- output: from messages to bytes ---- */

void tei_frame_drop_output(struct tei_frame_conn *conn)
{
	struct tei_frame_out *out, *next;

	for (out = conn->oldest; out; out = next) {
		next = out->next;
		tei_free(out);
	}
	conn->oldest = conn->newest = NULL;
	conn->n_out = 0;
}

/* Adds @size bytes to the queue, to be written now; NULL: -ENOMEM. */
static uint8_t *add_room(struct tei_frame_conn *conn, size_t size)
{
	struct tei_frame_out *out = conn->newest;
	size_t room = size;

	if (!out || out->room - out->to < size) {
		if (room < PIECE_LEN && (out || conn->corked))
			room = PIECE_LEN;
		out = tei_malloc(sizeof(*out) + room);
		if (!out)
			return NULL;
		out->next = NULL;
		out->from = out->to = 0;
		out->room = room;
		if (conn->newest)
			conn->newest->next = out;
		else
			conn->oldest = out;
		conn->newest = out;
	}
	out->to += size;
	conn->n_out += size;
	return out->bytes + out->to - size;
}

/* Adds a header and room for the body; NULL: -ENOMEM. */
static uint8_t *add_frame(struct tei_frame_conn *conn, uint16_t type,
			  uint16_t flags, uint64_t id, size_t len)
{
	uint8_t *at = add_room(conn, TEI_FRAME_HEADER_LEN + len);
	const struct tei_frame f = {
		.type = type, .flags = flags, .id = id, .len = len};

	if (!at)
		return NULL;
	tei_frame_encode_header(at, &f);
	return at + TEI_FRAME_HEADER_LEN;
}

int tei_frame_queue(struct tei_frame_conn *conn, uint16_t type, uint16_t flags,
		    uint64_t id, const void *body, size_t len)
{
	uint8_t *at = add_frame(conn, type, flags, id, len);

	if (!at)
		return -ENOMEM;
	if (len)
		memcpy(at, body, len);
	return 0;
}

static void drop_sent(struct tei_frame_conn *conn, size_t n)
{
	struct tei_frame_out *out;

	conn->n_out -= n;
	while ((out = conn->oldest) && n >= out->to - out->from) {
		n -= out->to - out->from;
		conn->oldest = out->next;
		tei_free(out);
	}
	if (out)
		out->from += n;
	else
		conn->newest = NULL;
}

static ssize_t send_some(struct tei_frame_conn *conn)
{
	struct iovec iov[N_IOV];
	struct msghdr msg = {.msg_iov = iov};

	for (struct tei_frame_out *out = conn->oldest;
	     out && msg.msg_iovlen < N_IOV; out = out->next) {
		iov[msg.msg_iovlen].iov_base = out->bytes + out->from;
		iov[msg.msg_iovlen++].iov_len = out->to - out->from;
	}
	if (tei_fault_check(TEI_FAULT_IO)) {
		errno = ECONNRESET;
		return -1;
	}
	return sendmsg(conn->fd, &msg, MSG_NOSIGNAL);
}

/*
 * The peer has gone, but what it sent before may still be unread, as the
 * reason why: the tick reads it and then ends the connection.
 */
static void wire_broke(struct tei_frame_conn *conn, int err)
{
	tei_frame_drop_output(conn);
	if (conn->state != TEI_FRAME_UP || conn->closed) {
		tei_frame_end(conn, -err);
		return;
	}
	event_del(&conn->writable);
	conn->broken = err;
	tei_frame_tick_now(conn);
}

static void wait_writable(struct tei_frame_conn *conn)
{
	if (event_add(&conn->writable, NULL)) {
		tei_frame_end(conn, -ENOMEM);
		return;
	}
	if (!conn->outgoing && !conn->paused && conn->n_out > PAUSE_LEN &&
	    conn->state == TEI_FRAME_UP) {
		conn->paused = true;
		conn->part_ms = TEI_FRAME_NEVER; /* it is we who do not read */
		event_del(&conn->readable);
	}
}

static void resume_reading(struct tei_frame_conn *conn)
{
	if (!conn->paused)
		return;
	if (conn->n_out > RESUME_LEN && conn->state == TEI_FRAME_UP)
		return;
	conn->paused = false;
	if (conn->deferred)
		return;
	if (event_add(&conn->readable, NULL))
		tei_frame_end(conn, -ENOMEM);
	else if (conn->n_stash)
		tei_frame_tick_now(conn);
}

/* Ends @conn without a word: what it does not read would be before it. */
static void cut_off(struct tei_frame_conn *conn)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	char name[TEI_NAME_LEN_MAX + 1];

	if (tei_log_allowed(&limit)) {
		tei_address_text(&conn->peer, name);
		LOG_WARN("%s: peer %s does not read %zu bytes of answers, and "
			 "unread answers take too much memory: closed",
			 conn->protocol->name, name, conn->n_out);
	}
	tei_frame_enter(conn);
	tei_frame_count(conn, TEI_FRAME_UNREAD);
	tei_frame_end(conn, -EPROTO);
	tei_frame_leave(conn);
}

/* Counts what the kernel did not take; @conn may be the one that goes. */
static void count_output(struct tei_frame_conn *conn)
{
	struct tei_frame_server *server = conn->server;
	struct tei_frame_conn *most;

	if (!conn->holder || conn->usage[TEI_FRAME_OUTPUT].bytes == conn->n_out)
		return;
	tei_frame_peers_use(&server->peers, conn, TEI_FRAME_OUTPUT,
			    conn->n_out);
	for (int i = 0; conn->holder; i++) {
		most = tei_frame_peers_heaviest(&server->peers, conn,
						TEI_FRAME_OUTPUT);
		if (!most)
			break;
		cut_off(i < N_MAKE_WAY ? most : conn);
	}
}

void tei_frame_flush(struct tei_frame_conn *conn)
{
	while (conn->oldest) {
		ssize_t n = send_some(conn);

		if (n >= 0) {
			drop_sent(conn, (size_t)n);
		} else if (errno == EAGAIN) {
			wait_writable(conn);
			break;
		} else if (errno != EINTR) {
			wire_broke(conn, errno == EPIPE ? ECONNRESET : errno);
			return;
		}
	}
	count_output(conn);
	if (conn->state == TEI_FRAME_ENDED)
		return;
	resume_reading(conn);
	if (conn->oldest || conn->state == TEI_FRAME_ENDED)
		return;
	event_del(&conn->writable);
	if (conn->state == TEI_FRAME_REFUSING)
		shutdown(conn->fd, SHUT_WR); /* the peer's end follows */
}

/* -ENOMEM, -EMSGSIZE, -ENOTCONN. */
static int add_message(struct tei_frame_conn *conn, uint16_t type,
		       uint16_t flags, uint64_t id,
		       const struct ProtobufCMessage *msg)
{
	size_t len = msg ? protobuf_c_message_get_packed_size(msg) : 0;
	uint8_t *at;

	if (!tei_frame_is_open(conn) || conn->broken)
		return -ENOTCONN;
	if (len > max_body(conn, type, conn->outgoing))
		return -EMSGSIZE;
	at = add_frame(conn, type, flags, id, len);
	if (!at)
		return -ENOMEM;
	if (len)
		protobuf_c_message_pack(msg, at);
	return 0;
}

int tei_frame_send(struct tei_frame_conn *conn, uint16_t type, uint16_t flags,
		   uint64_t id, const struct ProtobufCMessage *msg)
{
	int rc = add_message(conn, type, flags, id, msg);

	if (!rc && !(conn->corked && conn->n_out < CORK_LEN))
		tei_frame_hurry(conn);
	return rc;
}

int tei_frame_send_lazily(struct tei_frame_conn *conn, uint16_t type,
			  const struct ProtobufCMessage *msg)
{
	return add_message(conn, type, 0, 0, msg);
}

void tei_frame_hurry(struct tei_frame_conn *conn)
{
	if (conn->state != TEI_FRAME_UP)
		return;
	tei_frame_enter(conn);
	tei_frame_flush(conn);
	tei_frame_leave(conn);
}

int tei_frame_reply(struct tei_frame_conn *conn, const struct tei_frame *to,
		    const struct ProtobufCMessage *msg)
{
	return tei_frame_send(conn, to->type, TEI_FRAME_REPLY, to->id, msg);
}
