/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_out.c - from messages to bytes
 *
 * A message is packed into the send queue and offered to the kernel at once,
 * unless it is one of several small answers to what one read has brought, or of
 * no hurry. What the kernel does not take waits for the socket to become
 * writable. A peer that asks but does not read is not read from either, once
 * much waits for it.
 */
#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/frame_private.h"
#include "base/mem.h"
#include "base/thread.h"

#define PIECE_LEN 8192 /* shared by small frames that have to wait */
/* Corked, but this much goes out at once: its asker goes on while we work. */
#define CORK_LEN   256
#define N_IOV      16
#define PAUSE_LEN  (4 * 1024 * 1024)
#define RESUME_LEN (1024 * 1024)

uint32_t tei_frame_cap(const struct tei_frame_protocol *protocol, uint16_t type)
{
	if (type == TEI_FRAME_REFUSED)
		return TEI_FRAME_TEXT_MAX;
	return type < TEI_FRAME_TYPES ? protocol->cap[type] : 0;
}

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

/* @size bytes at the end of the queue, to be written now; NULL: -ENOMEM. */
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

/* A header and room for the body; NULL: -ENOMEM. */
static uint8_t *add_frame(struct tei_frame_conn *conn, uint16_t type,
			  uint16_t flags, uint64_t id, size_t len)
{
	uint8_t *at = add_room(conn, TEI_FRAME_HEADER_LEN + len);
	struct tei_writer w;

	if (!at)
		return NULL;
	tei_writer_init(&w, at, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, (uint32_t)len);
	tei_write_u16(&w, type);
	tei_write_u16(&w, flags);
	tei_write_u64(&w, id);
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

static void took(struct tei_frame_conn *conn, size_t n)
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
		event_del(&conn->readable);
	}
}

static void resume(struct tei_frame_conn *conn)
{
	if (!conn->paused)
		return;
	if (conn->n_out > RESUME_LEN && conn->state == TEI_FRAME_UP)
		return;
	conn->paused = false;
	if (event_add(&conn->readable, NULL))
		tei_frame_end(conn, -ENOMEM);
	else if (conn->n_stash)
		tei_frame_tick_now(conn);
}

void tei_frame_flush(struct tei_frame_conn *conn)
{
	while (conn->oldest) {
		ssize_t n = send_some(conn);

		if (n >= 0) {
			took(conn, (size_t)n);
		} else if (errno == EAGAIN) {
			wait_writable(conn);
			break;
		} else if (errno != EINTR) {
			wire_broke(conn, errno == EPIPE ? ECONNRESET : errno);
			return;
		}
	}
	if (conn->state == TEI_FRAME_ENDED)
		return;
	resume(conn);
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
	if (len > tei_frame_cap(conn->protocol, type))
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
