/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.c - calls over the main connection: who waits, who drives
 *
 * Whoever leaves while nobody drives wakes one that sleeps, for whatever
 * reason it leaves; so there is a driver as long as anybody waits.
 */
#include "store/client/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <protobuf-c/protobuf-c.h>
#include <te/store.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "store/proto/protocol.h"

#define IN_ROOM (64u << 10)
#define SPIN_NS (100 * TEI_NS_PER_US)

/* ---- life ---- */

void tes_channel_init(struct tes_channel *ch,
		      void (*broke)(struct tes_channel *channel))
{
	memset(ch, 0, sizeof(*ch));
	ch->broke = broke;
	ch->fd = ch->kick = -1;
	ch->spin = (struct tei_spin){SPIN_NS, SPIN_NS};
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
	ch->part_ns = 0;
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

static void finish(struct tes_channel_call *call, int code)
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
		finish(tei_list_entry(ch->calls.next, struct tes_channel_call,
				      link),
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

void tes_channel_break(struct tes_channel *ch, const char *why)
{
	if (ch->broken)
		return;
	ch->broken = ch->mute = true;
	(void)snprintf(ch->why, sizeof(ch->why), "%s", why);
	fail_all(ch);
	ch->broke(ch);
}

/* ---- calls ---- */

static struct tes_channel_call *find(struct tes_channel *ch, uint64_t id)
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

void tes_channel_answer(struct tes_channel *ch, const struct tei_frame *f)
{
	struct tes_channel_call *call = find(ch, f->id);

	if (!call)
		return; /* it was late */
	call->reply.digest_seed = ch->digest_seed;
	finish(call, keep_body(call, f));
}

/* Nobody drives: one that sleeps shall. */
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
	while (!call->done && tes_channel_receive(ch, call->deadline_ns))
		;
	ch->driving = false;
	if (ch->closing)
		tei_cond_broadcast(&ch->left);
}

static void await(struct tes_channel *ch, struct tes_channel_call *call)
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
		finish(call, TE_STORE_RPC_TIMEOUT);
	if (!ch->driving)
		call_one(ch);
}

/* A frame with @msg and no id yet; NULL: no memory, or too long. */
static uint8_t *pack(uint16_t type, const struct ProtobufCMessage *msg,
		     struct tei_arena *arena, size_t *out_len)
{
	size_t len = protobuf_c_message_get_packed_size(msg);
	struct tei_writer w;
	uint8_t *frame;

	if (len > tes_store_protocol.cap[type])
		return NULL;
	*out_len = TEI_FRAME_HEADER_LEN + len;
	frame = tei_arena_alloc(arena, *out_len);
	if (!frame)
		return NULL;
	tei_writer_init(&w, frame, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, (uint32_t)len);
	tei_write_u16(&w, type);
	tei_write_u16(&w, 0);
	tei_write_u64(&w, 0);
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

static int ask(struct tes_channel *ch, struct tes_channel_call *call,
	       uint8_t *frame, size_t len) TEI_REQUIRES(ch->mu)
{
	call->id = ++ch->last_id;
	number(frame, call->id);
	tei_list_add_tail(&ch->calls, &call->link);
	if (!tes_channel_send(ch, frame, len))
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
		code = ask(ch, call, frame, len);
	tei_mutex_unlock(&ch->mu);
	if (code)
		tei_cond_fini(&call->cond);
	return code;
}

int tes_channel_await(struct tes_channel *ch, struct tes_channel_call *call,
		      struct tes_reply *out)
{
	tei_mutex_lock(&ch->mu);
	await(ch, call);
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

void tes_channel_tell(struct tes_channel *ch, uint16_t type,
		      const struct ProtobufCMessage *msg,
		      struct tei_arena *arena)
{
	size_t len;
	uint8_t *frame = pack(type, msg, arena, &len);

	if (!frame)
		return;
	tei_mutex_lock(&ch->mu);
	if (usable(ch, 0))
		(void)tes_channel_send(ch, frame, len);
	tei_mutex_unlock(&ch->mu);
}

void tes_channel_look(struct tes_channel *ch)
{
	tei_mutex_lock(&ch->mu);
	if (usable(ch, 0) && !ch->driving) {
		ch->driving = true;
		while (tes_channel_receive(ch, 0))
			;
		ch->driving = false;
		call_one(ch);
	}
	tei_mutex_unlock(&ch->mu);
}
