/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - the bare sockets of the reference: one stream, one ping-pong
 *
 * Tuned by trial on loopback: cubic (bbr paces, which halves loopback), fixed
 * buffers, 1 MiB writes, reads of 256 KiB. The first byte of a connection says
 * which of the two exchanges follows.
 */
#include "perf/lib/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/histogram.h"

#define SEND_LEN    (1u << 20)
#define RECV_LEN    (256u << 10)
#define SEND_ROOM   (4 << 20)
#define RECV_ROOM   (1 << 20)
#define BALL        8
#define SILENCE_S   10 /* of the other side: give up */
#define KIND_SEND   'S'
#define KIND_BOUNCE 'B'

/* All best effort: the reference is what the machine allows. */
static void tune(int fd)
{
	struct timeval limit = {.tv_sec = SILENCE_S};
	int one = 1, send_room = SEND_ROOM, recv_room = RECV_ROOM;

	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_room, sizeof(send_room));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &recv_room, sizeof(recv_room));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

int tei_stream_listen(uint16_t *out_port)
{
	struct sockaddr_in at = loopback(0);
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	tune(fd); /* what is accepted inherits it */
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)&at, &len)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*out_port = ntohs(at.sin_port);
	return fd;
}

static int connect_to(uint16_t port, char kind)
{
	struct sockaddr_in at = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	tune(fd);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    send(fd, &kind, 1, MSG_NOSIGNAL) != 1) {
		rc = errno ? -errno : -EPIPE;
		close(fd);
		return rc;
	}
	return fd;
}

/* ---- stream ---- */

static int receive_stream(int fd, char *to, uint64_t len)
{
	uint64_t at = 0;
	ssize_t n;

	while ((n = recv(fd, to + at, RECV_LEN, 0)) > 0) {
		at += (uint64_t)n;
		if (at + RECV_LEN > len)
			at = 0;
	}
	if (n < 0)
		return -errno;
	return send(fd, "", 1, MSG_NOSIGNAL) == 1 ? 0 : -EPIPE;
}

static int send_all(int fd, const char *from, uint64_t len)
{
	ssize_t n;

	while (len) {
		n = send(fd, from, len, MSG_NOSIGNAL);
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		from += n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int send_for(int fd, const char *from, uint64_t len, double seconds,
		    uint64_t *sent)
{
	uint64_t end = tei_now_ns() + (uint64_t)(seconds * 1e9), at = 0;
	char done;
	int rc = 0;

	for (*sent = 0; !rc && tei_now_ns() < end; *sent += SEND_LEN) {
		rc = send_all(fd, from + at, SEND_LEN);
		at += SEND_LEN;
		if (at + SEND_LEN > len)
			at = 0;
	}
	if (rc)
		return rc;
	shutdown(fd, SHUT_WR);
	return recv(fd, &done, 1, 0) == 1 ? 0 : -EPIPE;
}

int tei_stream_send(uint16_t port, const char *from, uint64_t len,
		    double seconds, double *out)
{
	int fd = connect_to(port, KIND_SEND), rc;
	uint64_t start, sent;

	if (fd < 0)
		return fd;
	start = tei_now_ns();
	rc = send_for(fd, from, len, seconds, &sent);
	if (!rc)
		*out = (double)sent / (double)(tei_now_ns() - start);
	close(fd);
	return rc;
}

/* ---- ping-pong ---- */

/* Receive exactly one ball without sleeping. False: the other side is gone. */
static bool spin_for_ball(int fd, char ball[BALL])
{
	uint64_t end = tei_now_ns() + SILENCE_S * TEI_NS_PER_S;
	size_t have = 0;
	ssize_t n;

	while (have < BALL) {
		n = recv(fd, ball + have, BALL - have, MSG_DONTWAIT);
		if (n > 0)
			have += (size_t)n;
		else if (n == 0 || errno != EAGAIN || tei_now_ns() > end)
			return false;
	}
	return true;
}

static int bounce(int fd)
{
	char ball[BALL];

	while (spin_for_ball(fd, ball))
		if (send(fd, ball, BALL, MSG_NOSIGNAL) != BALL)
			return -EPIPE;
	return 0;
}

static int play(int fd, double seconds, struct tei_histogram *rtt)
{
	uint64_t now = tei_now_ns(), end = now + (uint64_t)(seconds * 1e9);
	char ball[BALL] = "ball";
	uint64_t sent;

	while (now < end) {
		sent = now;
		if (send(fd, ball, BALL, MSG_NOSIGNAL) != BALL ||
		    !spin_for_ball(fd, ball))
			return -EPIPE;
		now = tei_now_ns();
		tei_histogram_add(rtt, now - sent);
	}
	return 0;
}

int tei_stream_pingpong(uint16_t port, double seconds, double *out)
{
	struct tei_histogram *rtt = tei_calloc(1, sizeof(*rtt));
	int fd, rc;

	if (!rtt)
		return -ENOMEM;
	fd = connect_to(port, KIND_BOUNCE);
	rc = fd < 0 ? fd : play(fd, seconds, rtt);
	if (!rc)
		*out = tei_histogram_us(rtt, 0.5);
	if (fd >= 0)
		close(fd);
	tei_free(rtt);
	return rc;
}

int tei_stream_serve(int fd, char *to, uint64_t len)
{
	char kind;

	if (recv(fd, &kind, 1, MSG_WAITALL) != 1)
		return -EPIPE;
	return kind == KIND_SEND ? receive_stream(fd, to, len) : bounce(fd);
}
