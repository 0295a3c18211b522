/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attacker.c - somebody who keeps a master as busy as it lets him
 *
 * usage: store_attacker RPC_PORT HTTP_PORT HOW N KEYS, HOW being one of:
 *   lookups, exists   N connections, each a client of its own, that ask for
 *                     4096 of KEYS keys again and again and do not wait for
 *                     answers before the next question
 *   bodies            the same, with keys of 1 KiB
 *   short             the same, with look-ups of keys of 3 bytes
 *   crumbs            the same, in messages of 5 MiB of tiny fields: they are
 *                     refused, and the next connection goes on
 *   hellos            N connections that say hello and go, again and again
 *   returns           N connections that come and go as clients of one engine
 *                     that lends 3072 segments under two names
 *   pages             N readers of /batch_query_keys, who begin anew when they
 *                     have all of it
 * Prints "ready" once all are at work; ends when it is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/frame.h"
#include "store/proto/protocol.h"
#include "store/proto/store.pb-c.h"
#include "tests/integration/store/turns.h"
#include "tests/lib/dial.h"

#define N_MAX      512
#define PAGE_KEYS  1024
#define KEY_MAX    1024u
#define CRUMBS_LEN ((5u << 20) - 2)
#define OWNERS     12u /* lend all that one source may */
#define SEGMENTS   256u

struct bytes {
	uint8_t *at;
	size_t len;
};

enum way {
	LOOKUPS,
	EXISTS,
	BODIES,
	SHORT,
	CRUMBS,
	HELLOS,
	RETURNS,
	PAGES,
	N_WAYS,
};

static const char *const ways[N_WAYS] = {
	"lookups", "exists", "bodies",  "short",
	"crumbs",  "hellos", "returns", "pages",
};

/* A connection that says hello once, and the same again and again. */
struct talker {
	int fd;
	size_t sent;
};

static enum way way;

static struct bytes frame(uint16_t type, uint64_t id, const void *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	struct tei_frame f = {.type = type, .id = id, .len = len};
	struct bytes b = {calloc(1, TEI_FRAME_HEADER_LEN + len),
			  TEI_FRAME_HEADER_LEN + len};

	if (!b.at)
		abort();
	tei_frame_encode_header(b.at, &f);
	protobuf_c_message_pack(message, b.at + TEI_FRAME_HEADER_LEN);
	return b;
}

static void send_message(int fd, uint16_t type, const void *message)
{
	struct bytes b = frame(type, 1, message);

	if (send(fd, b.at, b.len, MSG_NOSIGNAL) != (ssize_t)b.len)
		abort();
	free(b.at);
}

/* Names a client of its own for each connection. */
static void say_hello(int fd, uint32_t who)
{
	uint8_t id[TES_STORE_SECRET_LEN] = "an attacker";
	uint8_t engine[TES_STORE_SECRET_LEN] = "an engine";
	Store__Hello m = STORE__HELLO__INIT;

	if (way == RETURNS)
		who %= OWNERS;
	memcpy(id + 12, &who, sizeof(who));
	m.version = TES_STORE_VERSION;
	m.client_secret.data = id;
	m.engine_secret.data = way == RETURNS ? engine : id;
	m.client_secret.len = m.engine_secret.len = sizeof(id);
	m.engine = (char *)(uintptr_t) "attacker:1";
	send_message(fd, STORE__STORE_TYPE__STORE_HELLO, &m);
}

static void receive(int fd, void *to, size_t len)
{
	if (len && recv(fd, to, len, MSG_WAITALL) != (ssize_t)len)
		abort();
}

static void await_answer(int fd)
{
	uint8_t head[TEI_FRAME_HEADER_LEN], body[1024];
	struct tei_frame f;

	receive(fd, head, sizeof(head));
	tei_frame_decode_header(head, &f);
	if (f.len > sizeof(body))
		abort();
	receive(fd, body, f.len);
}

/* Lends, as the client @who, segments under two names in turn. */
static void lend(uint16_t port, uint32_t who)
{
	uint32_t id[4] = {0};
	Store__Mount m = STORE__MOUNT__INIT;
	int fd = test_dial(port);

	say_hello(fd, who);
	await_answer(fd);
	m.segment.data = (uint8_t *)id;
	m.segment.len = sizeof(id);
	m.size = 4096;
	for (id[0] = 0; id[0] < SEGMENTS; id[0]++) {
		m.name = (char *)(uintptr_t)(id[0] % 2 ? "odd:1" : "even:1");
		m.address = (id[0] + 1) * m.size;
		send_message(fd, STORE__STORE_TYPE__STORE_MOUNT, &m);
		await_answer(fd);
	}
	close(fd);
}

static struct bytes batch(uint16_t type, size_t n_keys)
{
	static uint8_t keys[TURNS_BATCH * KEY_MAX];
	static uint32_t lens[TURNS_BATCH];
	Store__Lookup lookup = STORE__LOOKUP__INIT;
	Store__Keys m = STORE__KEYS__INIT;
	size_t at = 0;

	for (size_t i = 0; i < TURNS_BATCH; i++) {
		char key[KEY_MAX] = "xyz";

		lens[i] = way == SHORT ? 3 : KEY_MAX;
		if (way == LOOKUPS || way == EXISTS)
			lens[i] = (uint32_t)turns_key(key, i * 977 % n_keys);
		memcpy(keys + at, key, lens[i]);
		at += lens[i];
	}
	m.keys.data = lookup.keys.data = keys;
	m.keys.len = lookup.keys.len = at;
	m.key_lens = lookup.key_lens = lens;
	m.n_key_lens = lookup.n_key_lens = TURNS_BATCH;
	if (type == STORE__STORE_TYPE__STORE_LOOKUP)
		return frame(type, 2, &lookup);
	return frame(type, 2, &m);
}

/* Fields that nobody knows. */
static struct bytes crumbs(void)
{
	struct tei_frame f = {.type = STORE__STORE_TYPE__STORE_EXIST,
			      .id = 2,
			      .len = CRUMBS_LEN};
	struct bytes b = {calloc(1, TEI_FRAME_HEADER_LEN + CRUMBS_LEN),
			  TEI_FRAME_HEADER_LEN + CRUMBS_LEN};

	if (!b.at)
		abort();
	tei_frame_encode_header(b.at, &f);
	for (size_t i = 0; i < CRUMBS_LEN; i += 2)
		b.at[TEI_FRAME_HEADER_LEN + i] = 0x78;
	return b;
}

static struct bytes page(size_t n_keys)
{
	size_t room = 200 + PAGE_KEYS * (TURNS_KEY_LEN + 1), n;
	char *text = malloc(room);

	if (!text)
		abort();
	n = (size_t)snprintf(text, room, "GET /batch_query_keys?keys=");
	for (size_t i = 0; i < PAGE_KEYS && n < TURNS_HEAD_MAX; i++) {
		if (i)
			text[n++] = ',';
		n += turns_key(text + n, i * 977 % n_keys);
	}
	n += (size_t)snprintf(text + n, room - n,
			      " HTTP/1.1\r\nHost: localhost\r\n\r\n");
	return (struct bytes){(uint8_t *)text, n};
}

static void open_talker(struct talker *t, uint16_t port, uint32_t who)
{
	t->fd = test_dial(port);
	t->sent = 0;
	if (way != PAGES)
		say_hello(t->fd, who);
	if (fcntl(t->fd, F_SETFL, O_NONBLOCK))
		abort();
}

/* False: the other side has closed. */
static bool drain(int fd)
{
	static char waste[1 << 18];
	ssize_t n = recv(fd, waste, sizeof(waste), 0);

	return n > 0 || (n < 0 && errno == EAGAIN);
}

static void say_more(struct talker *t, const struct bytes *b)
{
	ssize_t n =
		send(t->fd, b->at + t->sent, b->len - t->sent, MSG_NOSIGNAL);

	if (n > 0)
		t->sent += (size_t)n;
	if (t->sent == b->len && way != PAGES)
		t->sent = 0;
}

static bool comes_and_goes(void)
{
	return way == HELLOS || way == RETURNS;
}

static void attack(struct talker *talkers, size_t n, uint16_t port,
		   const struct bytes *b)
{
	struct pollfd fds[N_MAX];
	uint32_t who = (uint32_t)n;

	for (;;) {
		for (size_t i = 0; i < n; i++)
			fds[i] = (struct pollfd){
				talkers[i].fd,
				(short)(POLLIN |
					(talkers[i].sent < b->len ? POLLOUT
								  : 0)),
				0};
		if (poll(fds, n, -1) < 0)
			abort();
		for (size_t i = 0; i < n; i++) {
			if (fds[i].revents & POLLOUT)
				say_more(&talkers[i], b);
			if (!(fds[i].revents & (POLLIN | POLLHUP | POLLERR)) ||
			    (drain(talkers[i].fd) && !comes_and_goes()))
				continue;
			close(talkers[i].fd);
			open_talker(&talkers[i], port, who++);
		}
	}
}

static struct bytes what_to_say(size_t n_keys)
{
	switch (way) {
	case PAGES:
		return page(n_keys);
	case CRUMBS:
		return crumbs();
	case HELLOS:
	case RETURNS:
		return (struct bytes){NULL, 0};
	case LOOKUPS:
	case SHORT:
		return batch(STORE__STORE_TYPE__STORE_LOOKUP, n_keys);
	default:
		return batch(STORE__STORE_TYPE__STORE_EXIST, n_keys);
	}
}

int main(int argc, char **argv)
{
	static struct talker talkers[N_MAX];
	size_t n, n_keys;
	uint16_t port;
	struct bytes b;

	if (argc != 6)
		return 2;
	n = strtoul(argv[4], NULL, 10);
	n_keys = strtoul(argv[5], NULL, 10);
	if (!n || n > N_MAX || !n_keys)
		return 2;
	while (way < N_WAYS && strcmp(argv[3], ways[way]))
		way++;
	if (way == N_WAYS)
		return 2;
	port = (uint16_t)atoi(way == PAGES ? argv[2] : argv[1]);
	b = what_to_say(n_keys);
	for (uint32_t i = 0; way == RETURNS && i < OWNERS; i++)
		lend(port, i);
	for (size_t i = 0; i < n; i++)
		open_talker(&talkers[i], port, (uint32_t)i);
	printf("ready\n");
	fflush(stdout);
	attack(talkers, n, port, &b);
	return 0;
}
