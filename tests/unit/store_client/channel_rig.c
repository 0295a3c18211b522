/* SPDX-License-Identifier: Apache-2.0 */
/* channel_rig.c - a channel, a peer of it in a thread, and callers */
#include "tests/unit/store_client/channel_rig.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "store/proto/store.pb-c.h"
#include "tests/lib/test.h"

static void on_broke(struct tes_channel *channel)
{
	atomic_fetch_add(&TEI_CONTAINER(channel, struct rig, channel)->n_broke,
			 1);
}

static void open_rig(struct rig *r, const int fds[2])
{
	memset(r, 0, sizeof(*r));
	tes_channel_init(&r->channel, on_broke);
	assert_int_equal(
		tes_channel_open(&r->channel, fds[0], RIG_GENERATION, 77), 0);
	r->peer = fds[1];
}

void rig_init(struct rig *r)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	open_rig(r, fds);
}

void rig_init_tcp(struct rig *r)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM, 0), fds[2], on = 1;
	struct sockaddr *any = (struct sockaddr *)&at;
	socklen_t len = sizeof(at);

	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, any, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, any, &len), 0);
	assert_int_equal(connect(fds[0], any, len), 0);
	fds[1] = accept(listener, NULL, NULL);
	assert_true(fds[1] >= 0);
	assert_int_equal(
		setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)),
		0);
	close(listener);
	open_rig(r, fds);
}

void rig_fini(struct rig *r)
{
	tes_channel_close(&r->channel);
	tes_channel_fini(&r->channel);
	if (r->peer >= 0)
		close(r->peer);
}

/* ---- the peer ---- */

void peer_write(int fd, const uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

		if (n <= 0)
			return; /* the other side has had enough */
		bytes += n;
		len -= (size_t)n;
	}
}

static bool read_all(int fd, uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t n = read(fd, bytes, len);

		if (n <= 0)
			return false;
		bytes += n;
		len -= (size_t)n;
	}
	return true;
}

void peer_header(uint8_t *to, const struct frame *f)
{
	struct tei_writer w;

	tei_writer_init(&w, to, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, f->len);
	tei_write_u16(&w, f->type);
	tei_write_u16(&w, f->flags);
	tei_write_u64(&w, f->id);
}

/* False: the other side has closed. */
static bool peer_take(int fd, struct frame *f)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	struct tei_reader r;

	if (!read_all(fd, head, sizeof(head)))
		return false;
	tei_reader_init(&r, head, sizeof(head));
	f->len = tei_read_u32(&r);
	f->type = tei_read_u16(&r);
	f->flags = tei_read_u16(&r);
	f->id = tei_read_u64(&r);
	f->bytes = malloc(TEI_FRAME_HEADER_LEN + f->len);
	assert_non_null(f->bytes);
	if (read_all(fd, f->bytes + TEI_FRAME_HEADER_LEN, f->len))
		return true;
	free(f->bytes);
	return false;
}

void peer_expect(int fd, struct frame *f)
{
	if (peer_take(fd, f))
		return;
	fail_msg("the other side has closed");
	abort();
}

void peer_answer(int fd, struct frame *f)
{
	f->flags = TEI_FRAME_REPLY;
	peer_header(f->bytes, f);
	peer_write(fd, f->bytes, TEI_FRAME_HEADER_LEN + f->len);
	free(f->bytes);
}

void peer_say(int fd, uint16_t type, uint16_t flags, const char *text)
{
	uint8_t bytes[TEI_FRAME_HEADER_LEN + 64];
	const struct frame f = {.len = (uint32_t)strlen(text),
				.type = type,
				.flags = flags,
				.id = 1};

	peer_header(bytes, &f);
	memcpy(bytes + TEI_FRAME_HEADER_LEN, text, f.len);
	peer_write(fd, bytes, TEI_FRAME_HEADER_LEN + f.len);
}

void *peer_echo(void *arg)
{
	const int *fd = arg;
	struct frame f, g;

	while (peer_take(*fd, &f)) {
		uint8_t byte;

		if (f.id % 3 == 0 &&
		    recv(*fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
		    peer_take(*fd, &g))
			peer_answer(*fd, &g);
		peer_answer(*fd, &f);
	}
	return NULL;
}

/* ---- a caller ---- */

void rig_tell_later(struct rig *r, size_t len)
{
	Store__Release msg = STORE__RELEASE__INIT;
	struct tei_arena arena;

	tei_arena_init(&arena, 64u << 20);
	msg.keys.data = calloc(1, len);
	assert_non_null(msg.keys.data);
	msg.keys.len = len;
	tes_channel_tell_later(&r->channel, STORE__STORE_TYPE__STORE_RELEASE,
			       &msg.base, &arena);
	free(msg.keys.data);
	tei_arena_fini(&arena);
}

int rig_ask(struct rig *r, uint8_t seed, size_t len, uint64_t wait_ns)
{
	Store__Keys msg = STORE__KEYS__INIT;
	Store__Keys *back;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	tei_arena_init(&arena, 64u << 20);
	msg.keys.data = malloc(len);
	assert_non_null(msg.keys.data);
	msg.keys.len = len;
	memset(msg.keys.data, seed, len);
	code = tes_channel_call(&r->channel, 0, RIG_TYPE, &msg.base, &arena,
				tei_now_ns() + wait_ns, &reply);
	if (!code) {
		back = store__keys__unpack(NULL, reply.len, reply.body);
		assert_non_null(back);
		assert_int_equal(back->keys.len, len);
		assert_memory_equal(back->keys.data, msg.keys.data, len);
		assert_int_equal(reply.digest_seed, 77);
		store__keys__free_unpacked(back, NULL);
	}
	free(msg.keys.data);
	tei_arena_fini(&arena);
	return code;
}

static void *call_often(void *arg)
{
	struct caller *c = arg;

	for (unsigned int i = 0; i < c->n && !c->code; i++)
		c->code = rig_ask(c->rig, (uint8_t)(c->seed + i), c->len + i,
				  c->wait_ns);
	return NULL;
}

void caller_start(struct caller *c)
{
	assert_int_equal(pthread_create(&c->thread, NULL, call_often, c), 0);
}
