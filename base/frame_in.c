/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_in.c - from bytes to frames
 *
 * Reads go to a buffer on the stack, and frames that lie in it whole are
 * handed over from there: small messages cost no allocation and one read for
 * many. A body that is not there whole is collected in memory of its own,
 * which grows with what has come, not with what was announced; the rest of a
 * large one is read straight into it.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/frame_private.h"
#include "base/log.h"
#include "base/mem.h"

#define SCRATCH_LEN (32 * 1024)
#define FIRST_ROOM  (64 * 1024)
#define N_READS     16 /* then other connections have their turn */

void tei_frame_drop_input(struct tei_frame_conn *conn)
{
	tei_free(conn->body);
	tei_free(conn->stash);
	conn->body = conn->stash = NULL;
	conn->n_stash = 0;
	conn->n_body = conn->room_body = conn->n_head = 0;
	conn->in_body = false;
	conn->part_ms = TEI_FRAME_NEVER;
}

static void refuse(struct tei_frame_conn *conn, enum tei_frame_fault fault,
		   const char *text)
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
		known = TEI_FRAME_LATER;
	return !(f->flags & ~known);
}

/* Takes the header apart; false: the connection is being refused. */
static bool take_header(struct tei_frame_conn *conn, const uint8_t *bytes)
{
	struct tei_reader r;
	uint32_t cap;

	tei_reader_init(&r, bytes, TEI_FRAME_HEADER_LEN);
	conn->in.len = tei_read_u32(&r);
	conn->in.type = tei_read_u16(&r);
	conn->in.flags = tei_read_u16(&r);
	conn->in.id = tei_read_u64(&r);
	cap = tei_frame_cap(conn->protocol, conn->in.type);
	if (cap == 0)
		refuse(conn, TEI_FRAME_BAD_TYPE, "unknown frame type");
	else if (conn->in.len > cap ||
		 (conn->hello_max && conn->in.len > conn->hello_max))
		refuse(conn, TEI_FRAME_TOO_LONG, "frame too long");
	else if (!flags_are_known(&conn->in))
		refuse(conn, TEI_FRAME_BAD_TYPE, "unknown frame flag");
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
		      f->flags & TEI_FRAME_LATER ? -EAGAIN : -ECONNREFUSED);
}

/* A whole frame with the header conn->in. */
static void deliver(struct tei_frame_conn *conn, const void *body)
{
	struct tei_frame f = conn->in;

	f.body = body;
	conn->part_ms = TEI_FRAME_NEVER;
	if (f.type == TEI_FRAME_REFUSED) {
		refused_by_peer(conn, &f);
	} else if (f.flags & TEI_FRAME_REPLY) {
		/* Not what expect() waits for: a stranger could say it too. */
		tei_frame_answer(conn, &f);
	} else if (conn->ops->frame) {
		conn->step_ms = TEI_FRAME_NEVER;
		conn->hello_max = 0;
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
	deliver(conn, body);
	tei_free(body);
}

/* Room for at least one byte more of an unfinished body. */
static bool grow(struct tei_frame_conn *conn)
{
	size_t room = 2 * conn->room_body;
	uint8_t *body;

	if (conn->n_body < conn->room_body)
		return true;
	if (room < FIRST_ROOM)
		room = FIRST_ROOM;
	if (room > conn->in.len)
		room = conn->in.len;
	body = tei_realloc(conn->body, room);
	if (!body) {
		tei_frame_end(conn, -ENOMEM);
		return false;
	}
	conn->body = body;
	conn->room_body = room;
	return true;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Part of a header, or a whole one with perhaps its body. */
static size_t consume_head(struct tei_frame_conn *conn, const uint8_t *p,
			   size_t n)
{
	size_t take = min_size(n, TEI_FRAME_HEADER_LEN - conn->n_head);

	memcpy(conn->head + conn->n_head, p, take);
	conn->n_head += take;
	if (conn->n_head < TEI_FRAME_HEADER_LEN)
		return take;
	conn->n_head = 0;
	if (!take_header(conn, conn->head))
		return n;
	if (n - take < conn->in.len) {
		conn->in_body = true;
		return take;
	}
	deliver(conn, p + take);
	return take + conn->in.len;
}

static size_t consume_body(struct tei_frame_conn *conn, const uint8_t *p,
			   size_t n)
{
	size_t take;

	if (!grow(conn))
		return n;
	take = min_size(n, conn->room_body - conn->n_body);
	memcpy(conn->body + conn->n_body, p, take);
	conn->n_body += take;
	if (conn->n_body == conn->in.len)
		deliver_own(conn);
	return take;
}

/* What the answers to these bytes' frames are too long for, waits. */
static void stash(struct tei_frame_conn *conn, const uint8_t *p, size_t n)
{
	conn->stash = tei_malloc(n);
	if (!conn->stash) {
		tei_frame_end(conn, -ENOMEM);
		return;
	}
	memcpy(conn->stash, p, n);
	conn->n_stash = n;
}

static bool is_wanted(const struct tei_frame_conn *conn)
{
	return conn->state == TEI_FRAME_UP && !conn->closed;
}

static void consume(struct tei_frame_conn *conn, const uint8_t *p, size_t n)
{
	while (n && is_wanted(conn) && !conn->paused) {
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
	consume(conn, p, n);
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

/* One read; false: there was less than asked for, or the wire has ended. */
static bool receive_once(struct tei_frame_conn *conn, uint8_t *scratch)
{
	bool straight =
		conn->in_body && conn->in.len - conn->n_body >= SCRATCH_LEN;
	size_t room = SCRATCH_LEN;
	ssize_t n;

	if (straight) {
		if (!grow(conn))
			return false;
		room = conn->room_body - conn->n_body;
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
		deliver_own(conn);
	return (size_t)n == room;
}

static void watch_part(struct tei_frame_conn *conn)
{
	if (!conn->in_body && !conn->n_head)
		return;
	if (conn->part_ms != TEI_FRAME_NEVER)
		return;
	conn->part_ms = tei_frame_due_ms(TEI_FRAME_PART_MS);
	tei_frame_rearm(conn);
}

void tei_frame_receive(struct tei_frame_conn *conn)
{
	uint8_t scratch[SCRATCH_LEN];
	bool was_corked = conn->corked;

	conn->corked = true; /* answers of one read go out in one write */
	consume_stash(conn);
	for (int i = 0; i < N_READS; i++)
		if (conn->paused || conn->state == TEI_FRAME_ENDED ||
		    !receive_once(conn, scratch))
			break;
	conn->corked = was_corked;
	if (conn->state != TEI_FRAME_UP)
		return;
	watch_part(conn);
	tei_frame_flush(conn);
}
