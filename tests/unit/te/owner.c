/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c - a plain socket that an engine takes for its peer */
#include "tests/unit/te/owner.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/frame.h"
#include "te/control/control.h"
#include "te/core/control.pb-c.h"
#include "te/region/group.h"
#include "tests/unit/te/raw.h"
#include "tests/unit/te/rig.h"

#define FRAME_MAX 131072

static void put_header(uint8_t *bytes, size_t len, uint16_t type,
		       uint16_t flags, uint64_t id)
{
	struct tei_writer w;

	assert_true(len + TEI_FRAME_HEADER_LEN <= FRAME_MAX);
	tei_writer_init(&w, bytes, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, (uint32_t)len);
	tei_write_u16(&w, type);
	tei_write_u16(&w, flags);
	tei_write_u64(&w, id);
}

static void put_reply(int fd, uint16_t type, uint64_t id,
		      const ProtobufCMessage *m)
{
	uint8_t bytes[FRAME_MAX];
	size_t len = protobuf_c_message_get_packed_size(m);

	put_header(bytes, len, type, TEI_FRAME_REPLY, id);
	protobuf_c_message_pack(m, bytes + TEI_FRAME_HEADER_LEN);
	len += TEI_FRAME_HEADER_LEN;
	(void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

static void refuse(int fd, const struct owner_script *script)
{
	uint8_t bytes[FRAME_MAX];
	size_t len = strlen(script->refusal);

	put_header(bytes, len, TEI_FRAME_REFUSED,
		   script->for_now ? TEI_FRAME_RETRY : 0, 0);
	memcpy(bytes + TEI_FRAME_HEADER_LEN, script->refusal, len);
	(void)!send(fd, bytes, TEI_FRAME_HEADER_LEN + len, MSG_NOSIGNAL);
}

/* The length of the next frame's body; its type and id. */
static size_t get_frame(int fd, uint8_t *body, uint16_t *type, uint64_t *id)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	struct tei_reader r;
	size_t len;

	if (recv(fd, head, sizeof(head), MSG_WAITALL) != sizeof(head))
		return SIZE_MAX;
	tei_reader_init(&r, head, sizeof(head));
	len = tei_read_u32(&r);
	*type = tei_read_u16(&r);
	tei_read_u16(&r);
	*id = tei_read_u64(&r);
	assert_true(len <= FRAME_MAX);
	if (len)
		assert_int_equal(recv(fd, body, len, MSG_WAITALL), len);
	return len;
}

static void answer_hello(int fd, uint64_t id, const struct owner_script *script)
{
	uint8_t who[TE_INCARNATION_LEN] = "an owner", nonce[TEI_NONCE_LEN];
	Te__Hello m = TE__HELLO__INIT;

	raw_fill_hello(&m, who, nonce);
	m.epoch = 1;
	if (script->hello_version)
		m.version = script->hello_version;
	m.status = script->hello_status;
	m.notify_taken = script->hello_taken;
	m.notify_losses = script->hello_losses;
	put_reply(fd, TE__CONTROL_TYPE__CONTROL_HELLO, id, &m.base);
}

/* One region of 4096 bytes at 4096, reached by a tcp rail. */
static void answer_describe(int fd, uint64_t id)
{
	Te__Description m = TE__DESCRIPTION__INIT;
	Te__Rail rail = TE__RAIL__INIT, *rails = &rail;
	uint64_t number = 4096;
	uint32_t access = RIG_ANY;
	char *location = (char *)(uintptr_t) "cpu:0";
	ProtobufCBinaryData key = {8, (uint8_t *)&number};

	rail.backend = (char *)(uintptr_t) "tcp";
	rail.device = (char *)(uintptr_t) "0";
	m.version = 1;
	m.rails = &rails;
	m.id = m.addr = m.length = &number;
	m.access = &access;
	m.location = &location;
	m.key = &key;
	m.n_rails = m.n_id = m.n_addr = m.n_length = m.n_access = 1;
	m.n_location = m.n_key = 1;
	put_reply(fd, TE__CONTROL_TYPE__CONTROL_DESCRIBE, id, &m.base);
}

static void answer_notify(int fd, uint64_t id,
			  const struct owner_script *script)
{
	Te__Notified m = TE__NOTIFIED__INIT;
	Te__GroupProof other = TE__GROUP_PROOF__INIT;
	uint8_t bytes[] = {0xff};

	m.status = script->status;
	m.taken = script->taken;
	other.tag = (ProtobufCBinaryData){sizeof(bytes), bytes};
	/* Where numbers are awaited there are bytes then. */
	put_reply(fd, TE__CONTROL_TYPE__CONTROL_NOTIFY, id,
		  script->garbage ? &other.base : &m.base);
}

static bool answer(struct owner *o, int fd, const struct owner_script *script)
{
	uint8_t body[FRAME_MAX];
	uint16_t type;
	uint64_t id;

	if (get_frame(fd, body, &type, &id) == SIZE_MAX)
		return false;
	if (script->refusal) {
		refuse(fd, script);
		return false;
	}
	if (type == TE__CONTROL_TYPE__CONTROL_NOTIFY) {
		atomic_fetch_add(&o->n_notified, 1);
		if (!script->hangs_up)
			answer_notify(fd, id, script);
		return !script->hangs_up;
	}
	if (o->n_answered >= o->n_answers)
		return true;
	if (o->n_answered++ == 0)
		answer_hello(fd, id, script);
	else
		answer_describe(fd, id);
	return true;
}

/* Each connection gets so many answers, until the listener is shut. */
static void *own(void *arg)
{
	static const struct owner_script plain;
	struct owner *o = arg;
	const struct owner_script *script = o->scripts ? o->scripts : &plain;
	int fd;

	while ((fd = accept(o->listener, NULL, NULL)) >= 0) {
		o->n_answered = 0;
		while (answer(o, fd, script))
			;
		close(fd);
		if (o->scripts && !script->is_last)
			script++;
	}
	return NULL;
}

void owner_start(struct owner *o, unsigned int n_answers,
		 const struct owner_script *scripts)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);

	o->n_answers = n_answers;
	o->scripts = scripts;
	o->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(o->listener >= 0);
	assert_int_equal(bind(o->listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(o->listener, 16), 0);
	assert_int_equal(getsockname(o->listener, (struct sockaddr *)&at, &len),
			 0);
	snprintf(o->name, sizeof(o->name), "127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(pthread_create(&o->thread, NULL, own, o), 0);
}

void owner_stop(struct owner *o)
{
	shutdown(o->listener, SHUT_RDWR);
	pthread_join(o->thread, NULL);
	close(o->listener);
}
