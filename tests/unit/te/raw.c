/* SPDX-License-Identifier: Apache-2.0 */
/* raw.c - frames by hand */
#include "tests/unit/te/raw.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <te/te.h>

#include "base/bytes.h"
#include "base/net.h"
#include "tests/lib/dial.h"
#include "tests/lib/test.h"

#define HEADER      16
#define MESSAGE_MAX 80000

int raw_connect(const struct te_engine *engine)
{
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;

	assert_int_equal(tei_name_split(te_engine_name(engine), host, &port),
			 0);
	return test_dial(port);
}

/* The engine may close in the middle: that is not what is tested here. */
void raw_send(int fd, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		at += n;
		len -= (size_t)n;
	}
}

size_t raw_frame(uint8_t *out, size_t room, uint32_t claimed, uint16_t type,
		 uint64_t id, const void *body, size_t len)
{
	struct tei_writer w;

	tei_writer_init(&w, out, room);
	tei_write_u32(&w, claimed);
	tei_write_u16(&w, type);
	tei_write_u16(&w, 0);
	tei_write_u64(&w, id);
	tei_write_bytes(&w, body, len);
	assert_false(w.bad);
	return HEADER + len;
}

void raw_send_message(int fd, uint16_t type, uint64_t id,
		      const ProtobufCMessage *m)
{
	static uint8_t body[MESSAGE_MAX], frame[MESSAGE_MAX + HEADER];
	size_t len = protobuf_c_message_get_packed_size(m);

	assert_true(len <= sizeof(body));
	protobuf_c_message_pack(m, body);
	raw_send(fd, frame,
		 raw_frame(frame, sizeof(frame), (uint32_t)len, type, id, body,
			   len));
}

/* False: the connection has ended. */
static bool read_all(int fd, void *out, size_t len)
{
	uint8_t *at = out;

	while (len) {
		ssize_t n = recv(fd, at, len, 0);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			fail_msg("the engine says nothing");
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

int raw_receive(int fd, uint8_t *body, size_t *len)
{
	uint8_t header[HEADER];
	struct tei_reader r;
	uint32_t claimed;
	uint16_t type;

	if (!read_all(fd, header, HEADER))
		return -1;
	tei_reader_init(&r, header, HEADER);
	claimed = tei_read_u32(&r);
	type = tei_read_u16(&r);
	assert_true(claimed <= *len);
	if (!read_all(fd, body, claimed))
		return -1;
	*len = claimed;
	return type;
}

void raw_await_close(int fd)
{
	uint8_t byte;

	while (read_all(fd, &byte, 1))
		;
	close(fd);
}

void raw_fill_hello(Te__Hello *m, uint8_t incarnation[16], uint8_t nonce[32])
{
	static char name[] = "127.0.0.1:1";

	te__hello__init(m);
	m->version = 1;
	m->name = name;
	m->incarnation = (ProtobufCBinaryData){16, incarnation};
	m->nonce = (ProtobufCBinaryData){32, nonce};
}

int raw_greet_with(const struct te_engine *engine, const Te__Hello *hello,
		   uint64_t *epoch)
{
	uint8_t body[4096];
	size_t len = sizeof(body);
	int fd = raw_connect(engine);
	Te__Hello *answer;

	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_HELLO, 1, &hello->base);
	assert_int_equal(raw_receive(fd, body, &len),
			 TE__CONTROL_TYPE__CONTROL_HELLO);
	answer = te__hello__unpack(NULL, len, body);
	assert_non_null(answer);
	assert_int_equal(answer->status, 0);
	assert_int_equal(answer->version, 1);
	assert_int_equal(answer->incarnation.len, 16);
	assert_int_equal(answer->nonce.len, 32);
	if (epoch)
		*epoch = answer->epoch;
	te__hello__free_unpacked(answer, NULL);
	return fd;
}

int raw_greet(const struct te_engine *engine, uint8_t incarnation[16],
	      uint64_t *epoch)
{
	uint8_t nonce[32] = {1};
	Te__Hello m;

	raw_fill_hello(&m, incarnation, nonce);
	return raw_greet_with(engine, &m, epoch);
}
