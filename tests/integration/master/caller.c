/* SPDX-License-Identifier: Apache-2.0 */
/* caller.c - raw conversations with a master */
#include "tests/integration/master/caller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/incarnation.h"
#include "base/loop.h"
#include "base/net.h"
#include "store/proto/identity.h"
#include "store/proto/protocol.h"
#include "tests/lib/test.h"

struct caller {
	struct tei_loop *loop;
	struct tei_frame_conn *conn;
	struct tei_frame_call call;
	const ProtobufCMessageDescriptor *expected;
	void *reply;
	bool answered, down, fenced;
	uint64_t fence;
	uint8_t writer[16];
	bool tasked;
	Store__Task *task; /* the last one */
	char text[256];
};

static void on_frame(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	struct caller *c = arg;
	Store__Fence *m;

	(void)conn;
	if (f->type == STORE__STORE_TYPE__STORE_TASK) {
		caller_free(c->task);
		c->task = (Store__Task *)store__task__unpack(NULL, f->len,
							     f->body);
		assert_non_null(c->task);
		c->tasked = true;
		return;
	}
	assert_int_equal(f->type, STORE__STORE_TYPE__STORE_FENCE);
	/* No owner that is woken by so much overlooks it. */
	assert_true(TEI_FRAME_HEADER_LEN + f->len >= TES_STORE_PADDED);
	m = store__fence__unpack(NULL, f->len, f->body);
	assert_non_null(m);
	assert_int_equal(m->writer.len, sizeof(c->writer));
	memcpy(c->writer, m->writer.data, sizeof(c->writer));
	c->fence = m->fence;
	c->fenced = true;
	store__fence__free_unpacked(m, NULL);
}

static void on_down(struct tei_frame_conn *conn, int err, const char *text,
		    void *arg)
{
	struct caller *c = arg;

	(void)err;
	if (text)
		strncpy(c->text, text, sizeof(c->text) - 1);
	tei_frame_close(conn);
	c->conn = NULL;
	c->down = true;
}

static const struct tei_frame_ops ops = {.frame = on_frame, .down = on_down};

/* Run the loop until *@flag or @c is down; false: neither in SOON_MS. */
static bool run_until(struct caller *c, const bool *flag)
{
	struct event_base *base = tei_loop_base(c->loop);
	uint64_t end = tei_now_ms() + SOON_MS;

	while (!*flag && !c->down && tei_now_ms() < end) {
		struct timeval turn = {.tv_usec = 20000};

		event_base_loopexit(base, &turn);
		event_base_loop(base, EVLOOP_ONCE);
	}
	return *flag || c->down;
}

struct caller *caller_open(const struct master *m)
{
	struct caller *c = calloc(1, sizeof(*c));
	struct tei_address to;

	assert_non_null(c);
	assert_int_equal(tei_loop_create_bare(&c->loop), 0);
	assert_int_equal(tei_resolve("127.0.0.1", m->rpc, &to, 1), 1);
	assert_int_equal(tei_frame_connect(c->loop, &tes_store_protocol, &to,
					   SOON_MS, &ops, c, &c->conn),
			 0);
	return c;
}

void caller_close(struct caller *c)
{
	if (!c)
		return;
	if (c->conn)
		tei_frame_close(c->conn);
	tei_loop_destroy(c->loop);
	caller_free(c->task);
	free(c);
}

static void on_reply(struct tei_frame_call *call, int err,
		     const struct tei_frame *f)
{
	struct caller *c = TEI_CONTAINER(call, struct caller, call);

	c->answered = true;
	if (err)
		return;
	c->reply =
		protobuf_c_message_unpack(c->expected, NULL, f->len, f->body);
	assert_non_null(c->reply);
}

void *caller_call(struct caller *c, uint16_t type, const void *message,
		  const ProtobufCMessageDescriptor *reply)
{
	if (!c->conn)
		return NULL;
	c->expected = reply;
	c->reply = NULL;
	c->answered = false;
	c->call.done = on_reply;
	assert_int_equal(
		tei_frame_call(c->conn, &c->call, type, message, SOON_MS), 0);
	assert_true(run_until(c, &c->answered));
	return c->reply;
}

void caller_free(void *reply)
{
	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
}

void caller_send(struct caller *c, uint16_t type, uint16_t flags, uint64_t id,
		 const void *message)
{
	assert_int_equal(tei_frame_send(c->conn, type, flags, id, message), 0);
}

bool caller_wait_down(struct caller *c)
{
	return run_until(c, &c->down);
}

const char *caller_text(const struct caller *c)
{
	return c->text;
}

bool caller_take_fence(struct caller *c, uint64_t *fence, uint8_t writer[16])
{
	if (!c->fenced)
		return false;
	*fence = c->fence;
	memcpy(writer, c->writer, sizeof(c->writer));
	c->fenced = false;
	return true;
}

Store__Task *caller_wait_task(struct caller *c)
{
	Store__Task *task;

	assert_true(run_until(c, &c->tasked));
	task = c->task;
	assert_non_null(task);
	c->tasked = false;
	c->task = NULL;
	return task;
}

uint64_t caller_features, caller_epoch;
const uint8_t *caller_claims;
const char *caller_engine;

Store__HelloReply *caller_hello(struct caller *c, uint8_t who, bool heartbeat)
{
	Store__Hello m = STORE__HELLO__INIT;
	uint8_t secret[TES_STORE_SECRET_LEN], own[TES_STORE_ENGINE_LEN];
	uint8_t claimed[1 + TES_STORE_LIFE_LEN] = {TES_STORE_LIFE_LEN};
	ProtobufCMessageUnknownField incarnation = {
		.tag = 5, /* of version 2 */
		.wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
		.len = sizeof(claimed),
		.data = claimed,
	};
	char engine[32];

	memset(secret, who, sizeof(secret));
	memset(own, who + 100, sizeof(own));
	snprintf(engine, sizeof(engine), "127.0.0.1:%u", 1000u + who);
	m.version = TES_STORE_VERSION;
	m.client_secret.data = secret;
	m.client_secret.len = sizeof(secret);
	m.engine = caller_engine ? (char *)(uintptr_t)caller_engine : engine;
	m.engine_secret.data = own;
	m.engine_secret.len = sizeof(own);
	if (caller_claims) {
		memcpy(claimed + 1, caller_claims, TES_STORE_LIFE_LEN);
		m.base.unknown_fields = &incarnation;
		m.base.n_unknown_fields = 1;
	}
	m.features = caller_features;
	m.heartbeat = heartbeat;
	m.epoch = caller_epoch;
	return caller_call(c, STORE__STORE_TYPE__STORE_HELLO, &m,
			   &store__hello_reply__descriptor);
}

struct caller *caller_join(const struct master *m, uint8_t who, bool heartbeat)
{
	struct caller *c = caller_open(m);
	Store__HelloReply *reply = caller_hello(c, who, heartbeat);

	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	caller_free(reply);
	return c;
}

void caller_client_id(uint8_t who, uint8_t id[16])
{
	uint8_t secret[TES_STORE_SECRET_LEN];

	memset(secret, who, sizeof(secret));
	assert_int_equal(tes_client_id(secret, id), 0);
}

void caller_incarnation(uint8_t who, uint8_t incarnation[16])
{
	uint8_t own[TES_STORE_ENGINE_LEN];

	memset(own, who + 100, sizeof(own));
	assert_int_equal(tei_incarnation(own, incarnation), 0);
}

int32_t caller_mount(struct caller *c, uint8_t id, uint64_t size)
{
	return caller_mount_at(c, id, CALLER_BASE, size);
}

/* The status that is all the reply to @message. */
static int32_t ask_status(struct caller *c, uint16_t type, const void *message)
{
	Store__Status *reply =
		caller_call(c, type, message, &store__status__descriptor);
	int32_t status;

	assert_non_null(reply);
	status = reply->status;
	caller_free(reply);
	return status;
}

int32_t caller_mount_at(struct caller *c, uint8_t id, uint64_t address,
			uint64_t size)
{
	Store__Mount m = STORE__MOUNT__INIT;
	uint8_t segment[16];
	char name[32];

	memset(segment, id, sizeof(segment));
	snprintf(name, sizeof(name), "owner-%u", id);
	m.segment.data = segment;
	m.segment.len = sizeof(segment);
	m.name = name;
	m.address = address;
	m.size = size;
	return ask_status(c, STORE__STORE_TYPE__STORE_MOUNT, &m);
}

int32_t caller_mount_as(struct caller *c, uint8_t id, const char *name,
			char why[128])
{
	Store__Mount m = STORE__MOUNT__INIT;
	Store__Status *reply;
	uint8_t segment[16];
	int32_t status;

	memset(segment, id, sizeof(segment));
	m.segment.data = segment;
	m.segment.len = sizeof(segment);
	m.name = (char *)(uintptr_t)name;
	m.address = CALLER_BASE;
	m.size = 1u << 20;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_MOUNT, &m,
			    &store__status__descriptor);
	assert_non_null(reply);
	status = reply->status;
	if (why)
		(void)snprintf(why, 128, "%s", reply->why);
	caller_free(reply);
	return status;
}

int32_t caller_unmount(struct caller *c, uint8_t id)
{
	Store__Unmount m = STORE__UNMOUNT__INIT;
	uint8_t segment[16];

	memset(segment, id, sizeof(segment));
	m.segment.data = segment;
	m.segment.len = sizeof(segment);
	return ask_status(c, STORE__STORE_TYPE__STORE_UNMOUNT, &m);
}

void caller_heartbeat(struct caller *c, uint64_t epoch, bool *remount)
{
	caller_heartbeat_of(c, epoch, 0, remount);
}

void caller_heartbeat_of(struct caller *c, uint64_t epoch, uint32_t mounts,
			 bool *remount)
{
	Store__Heartbeat m = STORE__HEARTBEAT__INIT;
	Store__HeartbeatReply *reply;

	m.epoch = epoch;
	m.mounts = mounts;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_HEARTBEAT, &m,
			    &store__heartbeat_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	*remount = reply->remount;
	caller_free(reply);
}

/* protobuf-c wants them writable and only reads them. */
static ProtobufCBinaryData key_of(const char *key)
{
	return (ProtobufCBinaryData){strlen(key), (uint8_t *)(uintptr_t)key};
}

int32_t caller_put_start(struct caller *c, const char *key, uint64_t size,
			 uint64_t *generation, uint64_t *epoch)
{
	uint32_t len = (uint32_t)strlen(key);
	Store__PutStart m = STORE__PUT_START__INIT;
	Store__PutStartReply *reply;
	int32_t status;

	m.n_key_lens = m.n_sizes = 1;
	m.keys = key_of(key);
	m.key_lens = &len;
	m.sizes = &size;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_PUT_START, &m,
			    &store__put_start_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->n_status, 1);
	assert_int_equal(reply->n_generation, 1);
	assert_int_equal(reply->n_segment, 1);
	assert_int_equal(reply->n_address, 1);
	status = reply->status[0];
	if (!status) {
		assert_int_equal(reply->n_segments, 1);
		assert_int_equal(reply->segment[0], 0);
	}
	*generation = reply->generation[0];
	*epoch = reply->epoch;
	caller_free(reply);
	return status;
}

int32_t caller_put_end(struct caller *c, const char *key, uint64_t generation,
		       uint64_t epoch, bool written)
{
	uint32_t len = (uint32_t)strlen(key);
	uint32_t mask = written;
	uint32_t crc = 0x12345678;
	Store__PutEnd m = STORE__PUT_END__INIT;
	Store__PutEndReply *reply;
	int32_t status;

	m.n_key_lens = m.n_generation = m.n_crc = m.n_written = 1;
	m.keys = key_of(key);
	m.key_lens = &len;
	m.generation = &generation;
	m.crc = &crc;
	m.written = &mask;
	m.epoch = epoch;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_PUT_END, &m,
			    &store__put_end_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->n_status, 1);
	status = reply->status[0];
	caller_free(reply);
	return status;
}

void caller_put(struct caller *c, const char *key)
{
	uint64_t generation, epoch;

	assert_int_equal(caller_put_start(c, key, 100, &generation, &epoch), 0);
	assert_int_equal(caller_put_end(c, key, generation, epoch, true), 0);
}

int32_t caller_lookup(struct caller *c, const char *key, uint64_t *size)
{
	uint32_t len = (uint32_t)strlen(key);
	Store__Lookup m = STORE__LOOKUP__INIT;
	Store__LookupReply *reply;
	int32_t status;

	m.n_key_lens = 1;
	m.keys = key_of(key);
	m.key_lens = &len;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_LOOKUP, &m,
			    &store__lookup_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->n_status, 1);
	assert_int_equal(reply->n_size, 1);
	assert_int_equal(reply->n_crc, 1);
	status = reply->status[0];
	*size = reply->size[0];
	if (!status)
		assert_int_equal(reply->crc[0], 0x12345678);
	caller_free(reply);
	return status;
}

int32_t caller_remove(struct caller *c, const char *key, bool force)
{
	uint32_t len = (uint32_t)strlen(key);
	Store__Keys m = STORE__KEYS__INIT;
	Store__KeysReply *reply;
	int32_t status;

	m.n_key_lens = 1;
	m.keys = key_of(key);
	m.key_lens = &len;
	m.force = force;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_REMOVE, &m,
			    &store__keys_reply__descriptor);
	assert_non_null(reply);
	status = reply->status[0];
	caller_free(reply);
	return status;
}
