/* SPDX-License-Identifier: Apache-2.0 */
/* frame_peer.c - a server, clients and raw sockets on one loop */
#include "frame_peer.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/log.h"
#include "te/core/control.pb-c.h"
#include "tests/lib/wait.h"

const struct tei_frame_protocol peer_protocol = {
	.name = "test",
	.request = {[ECHO] = CAP_BIG,
		    [SILENT] = 1024,
		    [CLOSE] = 1024,
		    [BAD] = 1024,
		    [BIG] = 1024,
		    [REFUSE] = 1024},
	.reply = {[ECHO] = CAP_BIG,
		  [SILENT] = 1024,
		  [CLOSE] = 1024,
		  [BAD] = 1024,
		  [BIG] = CAP_BIG,
		  [REFUSE] = 1024},
};

struct tei_loop *loop;
struct tei_frame_server *listener;
struct side server, client;
uint16_t port;

static unsigned char filler[CAP_BIG];

static Te__Connected message(size_t len)
{
	Te__Connected m = TE__CONNECTED__INIT;

	m.address.data = filler;
	m.address.len = len;
	return m;
}

static void close_side(struct side *s, struct tei_frame_conn *conn)
{
	if (s->conn == conn)
		s->conn = NULL;
	s->n_closed++;
	tei_frame_close(conn);
}

static void reply(struct tei_frame_conn *conn, const struct tei_frame *f,
		  size_t len, struct side *s)
{
	Te__Connected m = message(len);

	/* Out of memory: the caller learns it from the end of the wire. */
	if (tei_frame_reply(conn, f, &m.base))
		close_side(s, conn);
}

static void echo(struct tei_frame_conn *conn, const struct tei_frame *f,
		 struct side *s)
{
	Te__Connected *m = te__connected__unpack(NULL, f->len, f->body);

	if (!m) {
		tei_frame_bad(conn, "does not decode");
		return;
	}
	reply(conn, f, m->address.len, s);
	te__connected__free_unpacked(m, NULL);
}

static void on_frame(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	struct side *s = arg;

	s->n_frames++;
	s->last = *f;
	s->last.body = NULL;
	if (s->takes)
		s->taken = tei_frame_take_body(conn);
	if (s->close_in_frame || f->type == CLOSE) {
		close_side(s, conn);
	} else if (s == &client) {
		return;
	} else if (f->type == ECHO) {
		echo(conn, f, s);
	} else if (f->type == BAD) {
		tei_frame_bad(conn, "body does not decode");
	} else if (f->type == BIG) {
		reply(conn, f, BIG_LEN, s);
	} else if (f->type == REFUSE) {
		tei_frame_reply(conn, f, NULL);
		tei_frame_refuse(conn, "go away");
		close_side(s, conn);
	}
}

static void on_down(struct tei_frame_conn *conn, int err, const char *text,
		    void *arg)
{
	struct side *s = arg;

	s->n_down++;
	s->err = err;
	snprintf(s->text, sizeof(s->text), "%s", text ? text : "");
	close_side(s, conn);
}

static void on_up(struct tei_frame_conn *conn, void *arg)
{
	struct side *s = arg;

	s->n_up++;
	if (s->close_in_up)
		close_side(s, conn);
}

static void on_fault(enum tei_frame_fault fault, void *arg)
{
	((struct side *)arg)->faults[fault]++;
}

static bool is_ready(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	struct side *s = arg;

	(void)conn;
	(void)f;
	s->n_asked++;
	return !s->busy;
}

const struct tei_frame_ops side_ops = {
	.frame = on_frame,
	.ready = is_ready,
	.down = on_down,
	.up = on_up,
	.fault = on_fault,
};

static void on_accepted(struct tei_frame_conn *conn, void *arg)
{
	struct side *s = arg;

	s->n_accepted++;
	s->conn = conn;
	if (s->close_in_accepted)
		close_side(s, conn);
}

static bool pumped(void *arg)
{
	(void)arg;
	assert_true(event_base_loop(tei_loop_base(loop), EVLOOP_NONBLOCK) >= 0);
	return true;
}

void pump(void)
{
	pumped(NULL);
}

struct condition {
	bool (*cond)(void *);
	void *arg;
};

static bool pump_and_ask(void *arg)
{
	struct condition *c = arg;

	pump();
	return c->cond(c->arg);
}

void pump_until(bool (*cond)(void *), void *arg)
{
	struct condition c = {cond, arg};

	assert_true(test_wait_until(pump_and_ask, &c, SOON_MS));
}

bool int_is_set(void *arg)
{
	return *(int *)arg != 0;
}

bool server_is_empty(void *arg)
{
	(void)arg;
	return server.n_accepted == server.n_closed;
}

void serve(unsigned int n_max, uint64_t hello_ms)
{
	const struct tei_frame_server_config config = {
		.protocol = &peer_protocol,
		.host = "127.0.0.1",
		.n_max = n_max,
		.hello_ms = hello_ms,
		.ops = &side_ops,
		.arg = &server,
		.accepted = on_accepted,
	};

	stop_serving();
	assert_int_equal(tei_frame_listen(loop, &config, &port, &listener), 0);
}

void stop_serving(void)
{
	if (listener)
		tei_frame_server_close(listener);
	listener = NULL;
}

int peers_setup(void **state)
{
	(void)state;
	tei_log_set_level(TEI_LOG_ERROR);
	memset(&server, 0, sizeof(server));
	memset(&client, 0, sizeof(client));
	for (size_t i = 0; i < sizeof(filler); i++)
		filler[i] = (unsigned char)(i * 131 >> 3);
	assert_int_equal(tei_loop_create_bare(&loop), 0);
	serve(0, 0);
	return 0;
}

int peers_teardown(void **state)
{
	(void)state;
	if (client.conn)
		close_side(&client, client.conn);
	pump_until(server_is_empty, NULL);
	stop_serving();
	tei_loop_destroy(loop);
	return 0;
}

int client_connect(uint16_t to_port)
{
	struct tei_address to;

	assert_int_equal(tei_resolve("127.0.0.1", to_port, &to, 1), 1);
	return tei_frame_connect(loop, &peer_protocol, &to, SOON_MS, &side_ops,
				 &client, &client.conn);
}

int client_send(uint16_t type, uint64_t id, size_t len)
{
	Te__Connected m = message(len);

	return tei_frame_send(client.conn, type, 0, id, &m.base);
}

static void on_done(struct tei_frame_call *call, int err,
		    const struct tei_frame *f)
{
	struct asked *a = TEI_CONTAINER(call, struct asked, call);
	Te__Connected *m;

	a->n_done++;
	a->err = err;
	if (f) {
		m = te__connected__unpack(NULL, f->len, f->body);
		assert_non_null(m);
		a->len = m->address.len;
		if (a->len)
			assert_memory_equal(m->address.data, filler, a->len);
		te__connected__free_unpacked(m, NULL);
	}
	if (a->close)
		close_side(&client, client.conn);
}

int client_ask(struct asked *a, uint16_t type, size_t len, uint64_t ms)
{
	Te__Connected m = message(len);

	a->call.done = on_done;
	return tei_frame_call(client.conn, &a->call, type, &m.base, ms);
}

int raw_connect(void)
{
	struct tei_address to;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(tei_resolve("127.0.0.1", port, &to, 1), 1);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to.ss, to.len),
			 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

void raw_send(int fd, const void *bytes, size_t len)
{
	const char *p = bytes;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return; /* refused meanwhile: the test sees it */
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
		pump();
	}
}

size_t raw_header(uint8_t *out, uint32_t len, uint16_t type, uint64_t id)
{
	struct tei_writer w;

	tei_writer_init(&w, out, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, len);
	tei_write_u16(&w, type);
	tei_write_u16(&w, 0);
	tei_write_u64(&w, id);
	return TEI_FRAME_HEADER_LEN;
}

struct stream {
	int fd;
	size_t n;
	uint8_t bytes[4096];
};

static bool stream_has_ended(void *arg)
{
	struct stream *s = arg;
	ssize_t n;

	do {
		n = recv(s->fd, s->bytes + s->n, sizeof(s->bytes) - s->n, 0);
		if (n > 0)
			s->n += (size_t)n;
	} while (n > 0);
	return n == 0 || errno != EAGAIN;
}

const char *raw_refusal(int fd)
{
	static char text[TEI_FRAME_HEADER_LEN + 4096];
	struct stream s = {.fd = fd};
	struct tei_reader r;

	text[0] = '\0';
	pump_until(stream_has_ended, &s);
	close(fd);
	tei_reader_init(&r, s.bytes, s.n);
	while (!r.bad && r.at < r.end) {
		uint32_t len = tei_read_u32(&r);
		uint16_t type = tei_read_u16(&r);
		const void *body;

		tei_read_u16(&r);
		tei_read_u64(&r);
		body = tei_read_bytes(&r, len);
		if (body && type == TEI_FRAME_REFUSED)
			snprintf(text, sizeof(text), "%.*s", (int)len,
				 (const char *)body);
	}
	assert_false(r.bad);
	return text;
}
