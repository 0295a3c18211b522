/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel_wire.c - the bytes of a channel: sending, receiving, taking apart
 *
 * System calls are made without the lock, by the one that sends and the one
 * that drives.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/channel.h"
#include "store/proto/protocol.h"

#define IN_ROOM   (64u << 10)
#define OUT_LEAST 4096u
#define OUT_KEEP  (256u << 10)        /* of a queue that has become empty */
#define PART_NS   (30 * TEI_NS_PER_S) /* for a frame from its first byte on */
#define OUT_MAX   (64u << 20) /* a master that does not read so much is gone */
#define SPIN_NS   (20 * TEI_NS_PER_US)

/* ---- sending ---- */

static size_t left(const struct tes_channel_out *out)
{
	return out->to - out->from;
}

static int append(struct tes_channel_out *out, const uint8_t *bytes, size_t len)
{
	size_t room = out->room ? out->room : OUT_LEAST;
	uint8_t *at;

	if (left(out) + len > OUT_MAX)
		return -ENOMEM;
	if (out->from == out->to)
		out->from = out->to = 0;
	if (out->room - out->to < len) {
		while (room - out->to < len)
			room *= 2;
		at = tei_realloc(out->at, room);
		if (!at)
			return -ENOMEM;
		out->at = at;
		out->room = room;
	}
	memcpy(out->at + out->to, bytes, len);
	out->to += len;
	return 0;
}

static void took(struct tes_channel_out *out, size_t n)
{
	out->from += n;
	if (left(out))
		return;
	out->from = out->to = 0;
	if (out->room <= OUT_KEEP)
		return;
	tei_free(out->at);
	out->at = NULL;
	out->room = 0;
}

/*
 * The peer has gone, but what it said before may still be unread, as the reason
 * why. So the wire ends for who receives, and that one tells.
 */
static void go_mute(struct tes_channel *ch) TEI_REQUIRES(ch->mu)
{
	ch->mute = true;
	took(&ch->going, left(&ch->going));
	took(&ch->out, left(&ch->out));
	(void)shutdown(ch->fd, SHUT_RDWR);
}

/* How many bytes the kernel took; -1: none now, or never again. */
static ssize_t put(struct tes_channel *ch, const uint8_t *bytes, size_t len)
	TEI_REQUIRES(ch->mu)
{
	ssize_t n = -1;
	int fd = ch->fd, err = ECONNRESET;

	tei_mutex_unlock(&ch->mu);
	if (!tei_fault_check(TEI_FAULT_IO)) {
		n = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		err = errno;
	}
	tei_mutex_lock(&ch->mu);
	if (n < 0 && err != EAGAIN && err != EINTR)
		go_mute(ch);
	return n;
}

/* What waits, as far as the kernel takes it. */
static void flush(struct tes_channel *ch) TEI_REQUIRES(ch->mu)
{
	ch->sending = true;
	while (!ch->mute) {
		ssize_t n;

		if (!left(&ch->going)) {
			struct tes_channel_out spare = ch->going;

			ch->going = ch->out;
			ch->out = spare;
		}
		if (!left(&ch->going))
			break;
		n = put(ch, ch->going.at + ch->going.from, left(&ch->going));
		if (n < 0)
			break;
		took(&ch->going, (size_t)n);
	}
	ch->sending = false;
	if (ch->closing)
		tei_cond_broadcast(&ch->left);
}

static bool has_output(const struct tes_channel *ch)
{
	return left(&ch->going) || left(&ch->out);
}

static void kick_driver(const struct tes_channel *ch)
{
	uint64_t one = 1;
	ssize_t n;

	if (!ch->driving || ch->watching)
		return;
	n = write(ch->kick, &one, sizeof(one));
	(void)n; /* full: it is kicked already */
}

/* Nothing waits before @bytes: straight from where they are. */
static int send_now(struct tes_channel *ch, const uint8_t *bytes, size_t len)
	TEI_REQUIRES(ch->mu)
{
	size_t went;
	ssize_t n;
	int rc = 0;

	ch->sending = true;
	n = put(ch, bytes, len);
	went = n < 0 ? 0 : (size_t)n;
	if (went < len && !ch->mute)
		rc = append(&ch->going, bytes + went, len - went);
	if (rc && went)
		go_mute(ch); /* nothing can follow half a frame */
	flush(ch);
	return went ? 0 : rc;
}

int tes_channel_send(struct tes_channel *ch, const uint8_t *bytes, size_t len)
{
	int rc;

	if (ch->mute)
		return 0; /* soon it will be known */
	if (ch->sending || has_output(ch))
		rc = append(&ch->out, bytes, len);
	else
		rc = send_now(ch, bytes, len);
	if (!ch->sending && has_output(ch))
		flush(ch);
	if (!ch->sending && has_output(ch))
		kick_driver(ch);
	return rc;
}

/* ---- taking apart ---- */

static void refused(struct tes_channel *ch, const struct tei_frame *f)
	TEI_REQUIRES(ch->mu)
{
	char text[TES_CHANNEL_WHY_LEN];

	ch->for_good = !(f->flags & TEI_FRAME_LATER);
	(void)snprintf(text, sizeof(text), "%.*s", (int)f->len,
		       (const char *)f->body);
	tes_channel_break(ch, text);
}

static bool header_holds(const struct tei_frame *f)
{
	uint32_t cap = 0;

	if (f->type < TEI_FRAME_TYPES)
		cap = tes_store_protocol.cap[f->type];
	if (!cap || f->len > cap)
		return false;
	if (f->type == TEI_FRAME_REFUSED)
		return !(f->flags & ~TEI_FRAME_LATER);
	return !(f->flags & ~TEI_FRAME_REPLY);
}

static struct tei_frame header_at(const uint8_t *at)
{
	struct tei_frame f = {0};
	struct tei_reader r;

	tei_reader_init(&r, at, TEI_FRAME_HEADER_LEN);
	f.len = tei_read_u32(&r);
	f.type = tei_read_u16(&r);
	f.flags = tei_read_u16(&r);
	f.id = tei_read_u64(&r);
	f.body = at + TEI_FRAME_HEADER_LEN;
	return f;
}

static void deliver(struct tes_channel *ch, const struct tei_frame *f)
	TEI_REQUIRES(ch->mu)
{
	if (f->type == TEI_FRAME_REFUSED)
		refused(ch, f);
	else if (f->flags & TEI_FRAME_REPLY)
		tes_channel_answer(ch, f);
	else /* The master pushes on the other connection. */
		LOG_DEBUG("master: unexpected frame of type %u", f->type);
}

/* Room for what is missing of a frame of @len bytes, as far as it has come. */
static void make_room(struct tes_channel *ch, size_t len) TEI_REQUIRES(ch->mu)
{
	size_t room = 2 * ch->room_in;
	uint8_t *in;

	if (ch->n_in < ch->room_in)
		return;
	if (room > len && len > ch->room_in)
		room = len;
	in = tei_realloc(ch->in, room);
	if (!in) {
		tes_channel_break(ch, "no memory for an answer");
		return;
	}
	ch->in = in;
	ch->room_in = room;
}

/* A large answer came; the next one will be small. */
static void shrink(struct tes_channel *ch)
{
	uint8_t *in;

	if (ch->n_in || ch->room_in <= IN_ROOM)
		return;
	in = tei_realloc(ch->in, IN_ROOM);
	if (!in)
		return;
	ch->in = in;
	ch->room_in = IN_ROOM;
}

static void take_apart(struct tes_channel *ch) TEI_REQUIRES(ch->mu)
{
	size_t at = 0, whole = 0;

	while (!ch->broken && ch->n_in - at >= TEI_FRAME_HEADER_LEN) {
		struct tei_frame f = header_at(ch->in + at);

		if (!header_holds(&f)) {
			tes_channel_break(ch, "malformed frame");
			return;
		}
		whole = TEI_FRAME_HEADER_LEN + f.len;
		if (ch->n_in - at < whole)
			break;
		deliver(ch, &f);
		at += whole;
		whole = 0;
	}
	ch->n_in -= at;
	if (!ch->n_in)
		ch->part_ns = 0;
	else if (at || !ch->part_ns)
		ch->part_ns = tei_now_ns();
	if (at && ch->n_in)
		memmove(ch->in, ch->in + at, ch->n_in);
	make_room(ch, whole);
	shrink(ch);
}

/* ---- receiving ---- */

/* Bytes; 0: the other side's end; -errno. */
static ssize_t receive_bytes(struct tes_channel *ch)
{
	ssize_t n;

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	n = recv(ch->fd, ch->in + ch->n_in, ch->room_in - ch->n_in,
		 MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

/* A poll that ends when something comes, at @deadline_ns, or when kicked. */
static void doze(struct tes_channel *ch, uint64_t deadline_ns)
	TEI_REQUIRES(ch->mu)
{
	struct pollfd fds[2] = {{.fd = ch->fd, .events = POLLIN},
				{.fd = ch->kick, .events = POLLIN}};
	uint64_t now = tei_now_ns(), kicks;
	struct timespec ts = {0};

	if (has_output(ch) && !ch->sending)
		flush(ch);
	ch->watching = has_output(ch) && !ch->sending;
	if (ch->watching)
		fds[0].events |= POLLOUT;
	tei_mutex_unlock(&ch->mu);
	if (now < deadline_ns) {
		ts.tv_sec = (time_t)((deadline_ns - now) / TEI_NS_PER_S);
		ts.tv_nsec = (long)((deadline_ns - now) % TEI_NS_PER_S);
	}
	(void)ppoll(fds, 2, &ts, NULL);
	if (fds[1].revents && read(ch->kick, &kicks, sizeof(kicks)) < 0)
		kicks = 0; /* another one has read it */
	tei_mutex_lock(&ch->mu);
	ch->watching = false;
}

/*
 * The answer is often there before a thread could fall asleep. *since: when the
 * waiting began, unless there is none.
 */
static ssize_t spin(struct tes_channel *ch, uint64_t *since)
{
	ssize_t n = receive_bytes(ch);
	uint64_t now;

	if (n != -EAGAIN)
		return n;
	now = tei_now_ns();
	if (!*since)
		*since = now;
	while (n == -EAGAIN && now - *since < ch->spin.now &&
	       tei_crowd_yield(&ch->crowd, &now))
		n = receive_bytes(ch);
	return n;
}

static void came(struct tes_channel *ch, ssize_t n) TEI_REQUIRES(ch->mu)
{
	if (n > 0) {
		ch->n_in += (size_t)n;
		take_apart(ch);
	} else if (n == 0) {
		tes_channel_break(ch, strerror(ECONNRESET));
	} else {
		tes_channel_break(ch, strerror((int)-n));
	}
}

bool tes_channel_receive(struct tes_channel *ch, uint64_t deadline_ns)
{
	uint64_t since = 0;
	ssize_t n;

	if (ch->broken)
		return false;
	tei_mutex_unlock(&ch->mu);
	n = deadline_ns ? spin(ch, &since) : receive_bytes(ch);
	tei_mutex_lock(&ch->mu);
	if (n == -EAGAIN && deadline_ns && !ch->broken) {
		uint64_t now = tei_now_ns();

		if (ch->part_ns && now - ch->part_ns > PART_NS)
			tes_channel_break(ch, "the rest of a frame is late");
		if (ch->broken || now >= deadline_ns)
			return false;
		doze(ch, deadline_ns);
		tei_spin_learn(&ch->spin, tei_now_ns() - since);
		return true; /* also when late: it may have come in time */
	}
	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (since)
		tei_spin_learn(&ch->spin, 0);
	came(ch, n);
	return n > 0 && !ch->broken;
}
