/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.c - calls over the main connection: who waits, who drives
 *
 * A thread that leaves while nobody drives signals one that sleeps, whatever
 * the reason it leaves; so there is a driver as long as anybody waits.
 */
#include "store/client/channel.h"

#include <errno.h>
#include <poll.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <te/store.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/protocol.h"

/* ---- frames on the socket: send, receive, parse ---- */

/*
 * System calls are made without the lock, by the one that sends and the one
 * that drives.
 */

#define IN_ROOM     (64u << 10)
#define REFUSAL_MAX 1024u
#define OUT_LEAST   4096u
#define OUT_KEEP    (256u << 10)        /* of a queue that has become empty */
#define PART_NS     (30 * TEI_NS_PER_S) /* for a frame from its first byte on */
#define OUT_MAX     (64u << 20) /* a master that reads none of it is gone */
#define SERIES_NS   (10 * TEI_NS_PER_MS) /* between frames that can wait */

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

/*
 * Returns how many bytes the kernel took; -1: none now, or never again. @flags:
 * MSG_MORE, for what can wait for the bytes after it.
 */
static ssize_t put_bytes(struct tes_channel *ch, const uint8_t *bytes,
			 size_t len, int flags) TEI_REQUIRES(ch->mu)
{
	ssize_t n = -1;
	int fd = ch->fd, err = ECONNRESET;

	tei_mutex_unlock(&ch->mu);
	if (!tei_fault_check(TEI_FAULT_IO)) {
		n = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
		err = errno;
	}
	tei_mutex_lock(&ch->mu);
	if (n < 0 && err != EAGAIN && err != EINTR)
		go_mute(ch);
	return n;
}

/* Sends the bytes that wait, as far as the kernel takes them. */
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
		n = put_bytes(ch, ch->going.at + ch->going.from,
			      left(&ch->going), 0);
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
	if (ch->driving && !ch->watching)
		tei_event_signal(ch->kick);
}

/* Sends straight from @bytes: nothing waits before them. */
static int send_now(struct tes_channel *ch, const uint8_t *bytes, size_t len,
		    int flags) TEI_REQUIRES(ch->mu)
{
	size_t went;
	ssize_t n;
	int rc = 0;

	ch->sending = true;
	n = put_bytes(ch, bytes, len, flags);
	went = n < 0 ? 0 : (size_t)n;
	if (went < len && !ch->mute)
		rc = append(&ch->going, bytes + went, len - went);
	if (rc && went)
		go_mute(ch); /* nothing can follow half a frame */
	flush(ch);
	return went ? 0 : rc;
}

/* Send @bytes[len], or leave them to who sends or will. -ENOMEM. */
static int channel_send(struct tes_channel *ch, const uint8_t *bytes,
			size_t len, int flags) TEI_REQUIRES(ch->mu)
{
	int rc;

	if (ch->mute)
		return 0; /* soon it will be known */
	if (ch->sending || has_output(ch))
		rc = append(&ch->out, bytes, len);
	else
		rc = send_now(ch, bytes, len, flags);
	if (!ch->sending && has_output(ch))
		flush(ch);
	if (!ch->sending && has_output(ch))
		kick_driver(ch);
	return rc;
}

/* ---- taking apart ---- */

static void channel_break(struct tes_channel *ch, const char *why)
	TEI_REQUIRES(ch->mu);

static void refused(struct tes_channel *ch, const struct tei_frame *f)
	TEI_REQUIRES(ch->mu)
{
	char text[TES_CHANNEL_WHY_LEN];

	ch->for_good = !(f->flags & TEI_FRAME_RETRY);
	(void)snprintf(text, sizeof(text), "%.*s", (int)f->len,
		       (const char *)f->body);
	channel_break(ch, text);
}

static bool header_holds(const struct tei_frame *f)
{
	uint32_t cap = 0;

	if (f->type < TEI_FRAME_TYPES)
		cap = tes_store_protocol.reply[f->type];
	if (f->type == TEI_FRAME_REFUSED)
		return f->len <= REFUSAL_MAX && !(f->flags & ~TEI_FRAME_RETRY);
	if (!cap || f->len > cap)
		return false;
	return !(f->flags & ~TEI_FRAME_REPLY);
}

static struct tei_frame header_at(const uint8_t *at)
{
	struct tei_frame f;

	tei_frame_decode_header(at, &f);
	f.body = at + TEI_FRAME_HEADER_LEN;
	return f;
}

static void channel_answer(struct tes_channel *ch, const struct tei_frame *f)
	TEI_REQUIRES(ch->mu);

static void deliver_reply(struct tes_channel *ch, const struct tei_frame *f)
	TEI_REQUIRES(ch->mu)
{
	if (f->type == TEI_FRAME_REFUSED)
		refused(ch, f);
	else if (f->flags & TEI_FRAME_REPLY)
		channel_answer(ch, f);
	else /* The master pushes on the other connection. */
		LOG_DEBUG("master: unexpected frame of type %u", f->type);
}

/* Makes room for more of a frame of @len bytes, when what came fills all. */
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
		channel_break(ch, "no memory for an answer");
		return;
	}
	ch->in = in;
	ch->room_in = room;
}

/* Gives back the room of a large answer: the next one will be small. */
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
			channel_break(ch, "malformed frame");
			return;
		}
		whole = TEI_FRAME_HEADER_LEN + f.len;
		if (ch->n_in - at < whole)
			break;
		deliver_reply(ch, &f);
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

/* Returns how many bytes came; 0: the other side has ended; -errno. */
static ssize_t receive_bytes(struct tes_channel *ch)
{
	ssize_t n;

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	n = recv(ch->fd, ch->in + ch->n_in, ch->room_in - ch->n_in,
		 MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

/* Sleeps until something comes, @deadline_ns, or a kick. */
static void sleep_on_socket(struct tes_channel *ch, uint64_t deadline_ns)
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
	       tei_contention_yield(&ch->crowd, &now))
		n = receive_bytes(ch);
	return n;
}

static void came(struct tes_channel *ch, ssize_t n) TEI_REQUIRES(ch->mu)
{
	if (n > 0) {
		ch->n_in += (size_t)n;
		take_apart(ch);
	} else if (n == 0) {
		channel_break(ch, strerror(ECONNRESET));
	} else {
		channel_break(ch, strerror((int)-n));
	}
}

/*
 * Receive once and hand out what came; nobody else drives. Waits for it, until
 * @deadline_ns (0: not at all). False: nothing came.
 */
static bool channel_receive(struct tes_channel *ch, uint64_t deadline_ns)
	TEI_REQUIRES(ch->mu)
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
			channel_break(ch, "the rest of a frame is late");
		if (ch->broken || now >= deadline_ns)
			return false;
		sleep_on_socket(ch, deadline_ns);
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

#define SPIN_MAX_NS (100 * TEI_NS_PER_US)

/* ---- life ---- */

void tes_channel_init(struct tes_channel *ch,
		      void (*broke)(struct tes_channel *channel))
{
	memset(ch, 0, sizeof(*ch));
	ch->broke = broke;
	ch->fd = ch->kick = -1;
	ch->spin = (struct tei_spin){
		.now = SPIN_MAX_NS, .max = SPIN_MAX_NS, .wakes = true};
	tei_mutex_init(&ch->mu);
	tei_cond_init(&ch->left);
	tei_list_init(&ch->calls);
}

void tes_channel_fini(struct tes_channel *ch)
{
	tei_cond_fini(&ch->left);
	tei_mutex_fini(&ch->mu);
}

static int open_kick(void)
{
	int fd;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int tes_channel_open(struct tes_channel *ch, int fd, uint64_t generation,
		     uint64_t digest_seed)
{
	uint8_t *in = tei_malloc(IN_ROOM);
	int kick = in ? open_kick() : -ENOMEM;

	if (kick < 0) {
		tei_free(in);
		close(fd);
		return kick;
	}
	tei_mutex_lock(&ch->mu);
	ch->fd = fd;
	ch->kick = kick;
	ch->in = in;
	ch->n_in = 0;
	ch->part_ns = ch->told_ns = 0;
	ch->room_in = IN_ROOM;
	ch->generation = generation;
	ch->digest_seed = digest_seed;
	ch->broken = ch->mute = ch->for_good = false;
	tei_mutex_unlock(&ch->mu);
	return 0;
}

static void free_out(struct tes_channel_out *out)
{
	tei_free(out->at);
	memset(out, 0, sizeof(*out));
}

static void finish_call(struct tes_channel_call *call, int code)
{
	tei_list_del(&call->link);
	call->code = code;
	call->done = true;
	if (call->asleep)
		tei_cond_signal(&call->cond);
}

static void fail_all(struct tes_channel *ch)
{
	while (!tei_list_empty(&ch->calls))
		finish_call(tei_list_entry(ch->calls.next,
					   struct tes_channel_call, link),
			    TE_STORE_RPC_FAIL);
}

void tes_channel_close(struct tes_channel *ch)
{
	tei_mutex_lock(&ch->mu);
	if (ch->fd < 0)
		goto unlock;
	ch->broken = ch->mute = ch->closing = true;
	fail_all(ch);
	/* Wakes who drives; a forked child has it too, so close() would not. */
	(void)shutdown(ch->fd, SHUT_RDWR);
	while (ch->driving || ch->sending)
		(void)tei_cond_wait(&ch->left, &ch->mu, UINT64_MAX);
	close(ch->fd);
	close(ch->kick);
	ch->fd = ch->kick = -1;
	ch->closing = false;
	free_out(&ch->out);
	free_out(&ch->going);
	tei_free(ch->in);
	ch->in = NULL;
unlock:
	tei_mutex_unlock(&ch->mu);
}

/* Breaks the channel for the reason @why: all its calls fail. */
static void channel_break(struct tes_channel *ch, const char *why)
{
	if (ch->broken)
		return;
	ch->broken = ch->mute = true;
	(void)snprintf(ch->why, sizeof(ch->why), "%s", why);
	fail_all(ch);
	ch->broke(ch);
}

/* ---- calls ---- */

static struct tes_channel_call *find_call(struct tes_channel *ch, uint64_t id)
{
	tei_list_for_each (node, &ch->calls) {
		struct tes_channel_call *call =
			tei_list_entry(node, struct tes_channel_call, link);

		if (call->id >= id)
			return call->id == id ? call : NULL;
	}
	return NULL;
}

static int keep_body(struct tes_channel_call *call, const struct tei_frame *f)
{
	uint8_t *body = tei_arena_alloc(call->arena, f->len + 1);

	if (!body)
		return TE_STORE_INTERNAL_ERROR;
	if (f->len)
		memcpy(body, f->body, f->len);
	call->reply.body = body;
	call->reply.len = f->len;
	return 0;
}

/* The answer to a call that may still be there. */
static void channel_answer(struct tes_channel *ch, const struct tei_frame *f)
{
	struct tes_channel_call *call = find_call(ch, f->id);

	if (!call)
		return; /* it was late */
	call->reply.digest_seed = ch->digest_seed;
	finish_call(call, keep_body(call, f));
}

/* Wakes a sleeping call, which shall drive since nobody else does. */
static void call_one(struct tes_channel *ch) TEI_REQUIRES(ch->mu)
{
	tei_list_for_each (node, &ch->calls) {
		struct tes_channel_call *call =
			tei_list_entry(node, struct tes_channel_call, link);

		if (!call->asleep)
			continue;
		tei_cond_signal(&call->cond);
		return;
	}
}

static void drive(struct tes_channel *ch, const struct tes_channel_call *call)
	TEI_REQUIRES(ch->mu)
{
	ch->driving = true;
	while (!call->done && channel_receive(ch, call->deadline_ns))
		;
	ch->driving = false;
	if (ch->closing)
		tei_cond_broadcast(&ch->left);
}

static void await_reply(struct tes_channel *ch, struct tes_channel_call *call)
	TEI_REQUIRES(ch->mu)
{
	bool in_time = true;

	while (!call->done && in_time) {
		if (!ch->driving) {
			drive(ch, call);
			in_time = tei_now_ns() < call->deadline_ns;
			continue;
		}
		call->asleep = true;
		in_time =
			tei_cond_wait(&call->cond, &ch->mu, call->deadline_ns);
		call->asleep = false;
	}
	if (!call->done)
		finish_call(call, TE_STORE_RPC_TIMEOUT);
	if (!ch->driving)
		call_one(ch);
}

/* Makes a frame of @msg, without its id; NULL: no memory, or too long. */
static uint8_t *pack(uint16_t type, const struct ProtobufCMessage *msg,
		     struct tei_arena *arena, size_t *out_len)
{
	const struct tei_frame f = {
		.type = type, .len = protobuf_c_message_get_packed_size(msg)};
	uint8_t *frame;

	if (f.len > tes_store_protocol.request[type])
		return NULL;
	*out_len = TEI_FRAME_HEADER_LEN + f.len;
	frame = tei_arena_alloc(arena, *out_len);
	if (!frame)
		return NULL;
	tei_frame_encode_header(frame, &f);
	protobuf_c_message_pack(msg, frame + TEI_FRAME_HEADER_LEN);
	return frame;
}

static void number(uint8_t *frame, uint64_t id)
{
	struct tei_writer w;

	tei_writer_init(&w, frame + 8, 8);
	tei_write_u64(&w, id);
}

static bool usable(const struct tes_channel *ch, uint64_t generation)
{
	return ch->fd >= 0 && !ch->broken &&
	       (!generation || generation == ch->generation);
}

static int ask_master(struct tes_channel *ch, struct tes_channel_call *call,
		      uint8_t *frame, size_t len) TEI_REQUIRES(ch->mu)
{
	call->id = ++ch->last_id;
	number(frame, call->id);
	tei_list_add_tail(&ch->calls, &call->link);
	if (!channel_send(ch, frame, len, 0))
		return 0;
	tei_list_del(&call->link);
	return TE_STORE_INTERNAL_ERROR;
}

int tes_channel_begin(struct tes_channel *ch, uint64_t generation,
		      uint16_t type, const struct ProtobufCMessage *msg,
		      struct tes_channel_call *call)
{
	int code = TES_CHANNEL_SHUT;
	uint8_t *frame;
	size_t len;

	frame = pack(type, msg, call->arena, &len);
	if (!frame)
		return TE_STORE_INTERNAL_ERROR;
	call->asleep = call->done = false;
	tei_list_init(&call->link);
	tei_cond_init(&call->cond);
	tei_mutex_lock(&ch->mu);
	if (usable(ch, generation))
		code = ask_master(ch, call, frame, len);
	tei_mutex_unlock(&ch->mu);
	if (code)
		tei_cond_fini(&call->cond);
	return code;
}

int tes_channel_await(struct tes_channel *ch, struct tes_channel_call *call,
		      struct tes_reply *out)
{
	tei_mutex_lock(&ch->mu);
	await_reply(ch, call);
	tei_mutex_unlock(&ch->mu);
	tei_cond_fini(&call->cond);
	if (!call->code)
		*out = call->reply;
	return call->code;
}

int tes_channel_call(struct tes_channel *ch, uint64_t generation, uint16_t type,
		     const struct ProtobufCMessage *msg,
		     struct tei_arena *arena, uint64_t deadline_ns,
		     struct tes_reply *out)
{
	struct tes_channel_call call = {.arena = arena,
					.deadline_ns = deadline_ns};
	int code = tes_channel_begin(ch, generation, type, msg, &call);

	return code ? code : tes_channel_await(ch, &call, out);
}

/* Returns MSG_MORE in a series of what can wait, else 0; notes the time. */
static int flags_of_series(struct tes_channel *ch) TEI_REQUIRES(ch->mu)
{
	uint64_t now = tei_now_ns(), before = ch->told_ns;

	ch->told_ns = now;
	return before && now - before < SERIES_NS ? MSG_MORE : 0;
}

static void tell_master(struct tes_channel *ch, uint16_t type,
			const struct ProtobufCMessage *msg,
			struct tei_arena *arena, bool can_wait)
{
	size_t len;
	uint8_t *frame = pack(type, msg, arena, &len);

	if (!frame)
		return;
	tei_mutex_lock(&ch->mu);
	if (usable(ch, 0))
		(void)channel_send(ch, frame, len,
				   can_wait ? flags_of_series(ch) : 0);
	tei_mutex_unlock(&ch->mu);
}

void tes_channel_tell(struct tes_channel *ch, uint16_t type,
		      const struct ProtobufCMessage *msg,
		      struct tei_arena *arena)
{
	tell_master(ch, type, msg, arena, false);
}

void tes_channel_tell_later(struct tes_channel *ch, uint16_t type,
			    const struct ProtobufCMessage *msg,
			    struct tei_arena *arena)
{
	tell_master(ch, type, msg, arena, true);
}

void tes_channel_look(struct tes_channel *ch)
{
	tei_mutex_lock(&ch->mu);
	if (usable(ch, 0) && !ch->driving) {
		ch->driving = true;
		while (channel_receive(ch, 0))
			;
		ch->driving = false;
		call_one(ch);
	}
	tei_mutex_unlock(&ch->mu);
}

/* ---- calls to the master from any thread ---- */

/*
 * While the link is up the caller uses the channel itself. Else it waits at the
 * loop, which knows whether that is worth while; when its deadline passes it
 * takes itself back through the loop, so that nothing points to a caller that
 * has gone.
 */

uint64_t tes_call_deadline(const struct te_store *store)
{
	return tei_now_ns() + store->call_timeout_ms * TEI_NS_PER_MS;
}

int tes_bad_reply(const char *what)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("master: malformed reply to %s", what);
	return TE_STORE_RPC_FAIL;
}

/* ---- the loop's side ---- */

void tes_link_wait_done(struct tes_link_wait *wait, int code)
{
	tei_mutex_lock(&wait->mu);
	wait->done = true;
	wait->code = code;
	/* Under the lock: the caller frees @wait once it has it. */
	tei_cond_signal(&wait->cond);
	tei_mutex_unlock(&wait->mu);
}

/*
 * A master that has just gone may be back in a moment, so calls wait for it;
 * one that has been away for a while costs no call its whole timeout.
 */
static bool worth_waiting(const struct te_store *store)
{
	const struct tes_master_link *link = &store->link;

	return !link->stopped && tei_now_ns() - link->down_since_ns <
					 store->call_timeout_ms * TEI_NS_PER_MS;
}

static void on_post(struct tei_call *post)
{
	struct tes_link_wait *wait =
		TEI_CONTAINER(post, struct tes_link_wait, post);
	struct tes_master_link *link = &wait->store->link;

	if (link->state == TES_MASTER_LINK_UP && !link->losing)
		tes_link_wait_done(wait, 0);
	else if (link->losing || worth_waiting(wait->store))
		tei_list_add_tail(&link->waiting, &wait->waiting);
	else
		tes_link_wait_done(wait, TE_STORE_RPC_FAIL);
}

/* The deadline has passed. Order on the loop: on_post() ran before this. */
static void take_back(void *arg)
{
	struct tes_link_wait *wait = arg;

	if (wait->done) /* only this thread sets it */
		return;
	tei_list_del(&wait->waiting);
	tes_link_wait_done(wait, TE_STORE_RPC_FAIL);
}

/* ---- the caller's side ---- */

static int wait_done(struct tes_link_wait *wait, uint64_t deadline_ns)
{
	int code;

	tei_mutex_lock(&wait->mu);
	while (!wait->done)
		if (!tei_cond_wait(&wait->cond, &wait->mu, deadline_ns))
			break;
	if (!wait->done) {
		tei_mutex_unlock(&wait->mu);
		if (!tei_loop_do(wait->store->loop, take_back, wait))
			return TE_STORE_RPC_FAIL;
		tei_mutex_lock(&wait->mu);
	}
	code = wait->code;
	tei_mutex_unlock(&wait->mu);
	return code;
}

/* Waits for the call timeout at most, also where an answer may take longer. */
static int wait_for_link(struct te_store *store, uint64_t deadline_ns)
{
	uint64_t patience_ns = tes_call_deadline(store);
	struct tes_link_wait wait;
	int code = TE_STORE_RPC_FAIL;

	memset(&wait, 0, sizeof(wait));
	wait.post.fn = on_post;
	tei_list_init(&wait.waiting);
	wait.store = store;
	tei_mutex_init(&wait.mu);
	tei_cond_init(&wait.cond);
	if (tei_loop_post(store->loop, &wait.post))
		code = wait_done(&wait, deadline_ns < patience_ns
						? deadline_ns
						: patience_ns);
	tei_cond_fini(&wait.cond);
	tei_mutex_fini(&wait.mu);
	return code;
}

void tes_store_ask(struct te_store *store, uint16_t type,
		   const struct ProtobufCMessage *msg, struct tei_arena *arena,
		   uint64_t deadline_ns, struct tes_store_asked *asked)
{
	asked->type = type;
	asked->msg = msg;
	asked->call.arena = arena;
	asked->call.deadline_ns = deadline_ns;
	asked->code =
		tes_channel_begin(&store->channel, 0, type, msg, &asked->call);
}

int tes_store_answered(struct te_store *store, struct tes_store_asked *asked,
		       struct tes_reply *out)
{
	const struct tes_channel_call *call = &asked->call;
	int code = asked->code;

	if (!code)
		code = tes_channel_await(&store->channel, &asked->call, out);
	while (code == TES_CHANNEL_SHUT) {
		code = wait_for_link(store, call->deadline_ns);
		if (!code)
			code = tes_channel_call(&store->channel, 0, asked->type,
						asked->msg, call->arena,
						call->deadline_ns, out);
		if (code == TES_CHANNEL_SHUT &&
		    tei_now_ns() >= call->deadline_ns)
			code = TE_STORE_RPC_FAIL;
	}
	return code;
}

int tes_store_call(struct te_store *store, uint16_t type,
		   const struct ProtobufCMessage *msg, struct tei_arena *arena,
		   uint64_t deadline_ns, struct tes_reply *out)
{
	struct tes_store_asked asked;

	tes_store_ask(store, type, msg, arena, deadline_ns, &asked);
	return tes_store_answered(store, &asked, out);
}
