/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare.c - raw sockets: set up, whole sends and receives, waiting or spinning
 *
 * Tuned by trial over loopback, 90 combinations of write and read lengths
 * (64 KiB .. 4 MiB), buffers (the system's, 1 .. 16 MiB), blocking or spinning:
 * writes and reads of 1 MiB with buffers of 4 MiB were among the best both cold
 * (6.9 GB/s where memory allows no more) and hot (12 GB/s); the system's own
 * buffers lose a tenth cold, reads of 256 KiB a fifth hot. cubic and reno are
 * equal; bbr paces, which costs half. Whether spinning or blocking wins
 * changes with the machine's mood, so both are run and the better one counts.
 */
#include "perf/lib/bare.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/histogram.h"
#include "perf/lib/process.h"
#include "perf/lib/sleep.h"

#define ROOM       (4 << 20) /* socket buffers */
#define SPIN_TRIES 1024      /* between two looks at the clock */

/* ---- set-up ---- */

/* All best effort: the reference is what the machine allows. */
static void tune_socket(int fd)
{
	struct timeval limit = {.tv_sec = TEI_BARE_LIMIT_S};
	int one = 1, room = ROOM;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static void choose_congestion(int fd, const char *name)
{
	size_t len = strnlen(name, TEI_CONGESTION);

	if (len && len < TEI_CONGESTION)
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name,
			   (socklen_t)len);
}

int tei_bare_listen(uint16_t *out_port)
{
	int fd = tei_listen(NULL, 0, "reference port", out_port);

	if (fd >= 0)
		tune_socket(fd); /* what is accepted inherits it */
	return fd;
}

static struct tei_bare_work work_of(const struct tei_bare_peer *peer,
				    enum tei_bare_kind kind,
				    const struct tei_bare_shape *shape)
{
	struct tei_bare_work work = {.kind = kind};

	if (shape) {
		work.batch = shape->batch;
		work.size = shape->size;
		work.duration_ns = (uint64_t)(shape->seconds * 1e9);
		work.read = shape->read;
		work.spin = shape->spin;
		work.span = shape->span;
	}
	memcpy(work.congestion, peer->congestion, sizeof(work.congestion));
	return work;
}

int tei_bare_connect(const struct tei_bare_peer *peer, size_t i,
		     enum tei_bare_kind kind,
		     const struct tei_bare_shape *shape)
{
	struct tei_bare_work work = work_of(peer, kind, shape);
	const struct tei_address *a = &peer->at[i];
	int fd = socket(a->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	tune_socket(fd);
	choose_congestion(fd, peer->congestion);
	if (connect(fd, (const struct sockaddr *)&a->ss, a->len))
		rc = -errno;
	else
		rc = tei_bare_send(fd, &work, sizeof(work), false);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

void tei_bare_congestion(const struct tei_bare_peer *peer,
			 char out[TEI_CONGESTION])
{
	int fd = tei_bare_connect(peer, 0, TEI_BARE_USAGE, NULL);
	socklen_t len = TEI_CONGESTION;

	out[0] = 0;
	if (fd < 0)
		return;
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out, &len))
		out[0] = 0;
	out[TEI_CONGESTION - 1] = 0;
	close(fd);
}

/* ---- moving bytes ---- */

struct patience {
	unsigned int tries;
	uint64_t end_ns;
};

/* Decides after a call that failed: 0 to try again, or why not. */
static int retry_call(struct patience *p, bool spin)
{
	if (errno == EINTR)
		return 0;
	if (errno != EAGAIN)
		return -errno;
	if (!spin)
		return -ETIMEDOUT;
	if (++p->tries % SPIN_TRIES)
		return 0;
	if (!p->end_ns)
		p->end_ns = tei_now_ns() + TEI_BARE_LIMIT_S * TEI_NS_PER_S;
	return tei_now_ns() > p->end_ns ? -ETIMEDOUT : 0;
}

ssize_t tei_bare_recv_some(int fd, void *to, size_t room, bool spin)
{
	struct patience patience = {0};
	ssize_t n;
	int rc = 0;

	do {
		n = recv(fd, to, room, spin ? MSG_DONTWAIT : 0);
		if (n >= 0)
			return n;
		rc = retry_call(&patience, spin);
	} while (!rc);
	return rc;
}

/* Drops the first @done bytes of pieces[n]. */
static void advance_pieces(struct iovec **pieces, uint32_t *n, size_t done)
{
	while (*n && done >= (*pieces)->iov_len) {
		done -= (*pieces)->iov_len;
		++*pieces;
		--*n;
	}
	if (!*n)
		return;
	(*pieces)->iov_base = (char *)(*pieces)->iov_base + done;
	(*pieces)->iov_len -= done;
}

int tei_bare_send_pieces(int fd, struct iovec *pieces, uint32_t n, bool spin)
{
	int rc = 0, flags = MSG_NOSIGNAL | (spin ? MSG_DONTWAIT : 0);
	struct patience patience = {0};
	ssize_t moved;

	while (n && !rc) {
		struct msghdr m = {.msg_iov = pieces, .msg_iovlen = n};

		moved = sendmsg(fd, &m, flags);
		if (moved >= 0)
			advance_pieces(&pieces, &n, (size_t)moved);
		else
			rc = retry_call(&patience, spin);
	}
	return rc;
}

int tei_bare_recv_pieces(int fd, struct iovec *pieces, uint32_t n, bool spin)
{
	struct patience patience = {0};
	ssize_t moved;
	int rc = 0;

	while (n && !rc) {
		struct msghdr m = {.msg_iov = pieces, .msg_iovlen = n};

		moved = recvmsg(fd, &m, spin ? MSG_DONTWAIT : 0);
		if (moved > 0)
			advance_pieces(&pieces, &n, (size_t)moved);
		else
			rc = moved ? retry_call(&patience, spin) : -EPIPE;
	}
	return rc;
}

int tei_bare_send(int fd, const void *from, uint64_t len, bool spin)
{
	struct iovec piece = {.iov_len = len};

	memcpy(&piece.iov_base, &from, sizeof(from)); /* only read */
	return tei_bare_send_pieces(fd, &piece, 1, spin);
}

int tei_bare_recv(int fd, void *to, uint64_t len, bool spin)
{
	char *at = to;
	ssize_t n;

	for (; len; len -= (uint64_t)n, at += n) {
		n = tei_bare_recv_some(fd, at, len, spin);
		if (n <= 0)
			return n ? (int)n : -EPIPE;
	}
	return 0;
}

/* ---- both ways ---- */

int tei_bare_cpu_ns(const struct tei_bare_peer *peer, uint64_t *out)
{
	int fd = tei_bare_connect(peer, 0, TEI_BARE_USAGE, NULL), rc;
	uint64_t theirs = 0;

	if (fd < 0)
		return fd;
	rc = tei_bare_recv(fd, &theirs, sizeof(theirs), false);
	close(fd);
	*out = theirs + tei_process_own_cpu_ns();
	return rc;
}

static int run_with_cpu(tei_bare_fn *run, const struct tei_bare_peer *peer,
			const struct tei_bare_shape *shape,
			struct tei_bare_figure *out)
{
	uint64_t before, after;
	int rc = tei_bare_cpu_ns(peer, &before);

	*out = (struct tei_bare_figure){0};
	if (!rc)
		rc = run(peer, shape, out);
	if (!rc)
		rc = tei_bare_cpu_ns(peer, &after);
	if (!rc && out->bytes)
		out->cpu_s_per_gb =
			(double)(after - before) / (double)out->bytes;
	return rc;
}

int tei_bare_best(tei_bare_fn *run, const struct tei_bare_peer *peer,
		  const struct tei_bare_shape *shape,
		  struct tei_bare_figure *out)
{
	struct tei_bare_shape half = *shape;
	struct tei_bare_figure spinning;
	double cpu;
	int rc;

	half.seconds /= 2;
	half.spin = false;
	rc = run_with_cpu(run, peer, &half, out);
	half.spin = true;
	if (!rc)
		rc = run_with_cpu(run, peer, &half, &spinning);
	if (rc)
		return rc;
	/* Spinning is no excuse for the CPU time of others. */
	cpu = out->cpu_s_per_gb < spinning.cpu_s_per_gb ? out->cpu_s_per_gb
							: spinning.cpu_s_per_gb;
	if (spinning.gb_per_s > out->gb_per_s)
		*out = spinning;
	out->cpu_s_per_gb = cpu;
	return 0;
}

/* ---- the peer ---- */

static int answer_usage(int fd)
{
	uint64_t ns = tei_process_own_cpu_ns();

	return tei_bare_send(fd, &ns, sizeof(ns), false);
}

int tei_bare_serve(int fd, char *memory, uint64_t len)
{
	struct tei_bare_work work;
	int rc;

	tune_socket(fd);
	rc = tei_bare_recv(fd, &work, sizeof(work), false);
	if (rc)
		return rc;
	work.congestion[TEI_CONGESTION - 1] = 0;
	choose_congestion(fd, work.congestion);
	if (work.span && work.span < len)
		len = work.span;
	switch (work.kind) {
	case TEI_BARE_STREAM:
		return tei_stream_serve(fd, &work, memory, len);
	case TEI_BARE_EXCHANGE:
		return tei_exchange_serve(fd, &work, memory, len);
	case TEI_BARE_PINGPONG:
		return tei_pingpong_serve(fd, &work);
	case TEI_BARE_USAGE:
		return answer_usage(fd);
	default:
		return -EPROTO;
	}
}

#define CHUNK (1u << 20) /* of a write and of a read; bare.c says why */

/* Memory walked over in chunks. */
struct walk {
	char *memory;
	uint64_t len, at, chunk;
};

static struct walk walk_of(char *memory, uint64_t len)
{
	return (struct walk){
		.memory = memory,
		.len = len,
		.chunk = len < CHUNK ? len : CHUNK,
	};
}

/*
 * Returns the next piece, up to the end of the memory, also when parts of
 * chunks have come.
 */
static uint64_t next_piece(const struct walk *w)
{
	uint64_t rest = w->len - w->at;

	return rest < w->chunk ? rest : w->chunk;
}

static void advance_walk(struct walk *w, uint64_t done)
{
	w->at += done;
	if (w->at == w->len)
		w->at = 0;
}

static int receive_all(int fd, struct walk w, bool spin, uint64_t *bytes)
{
	ssize_t n;

	*bytes = 0;
	while ((n = tei_bare_recv_some(fd, w.memory + w.at, next_piece(&w),
				       spin)) > 0) {
		*bytes += (uint64_t)n;
		advance_walk(&w, (uint64_t)n);
	}
	return (int)n;
}

static int send_for(int fd, struct walk w, bool spin, uint64_t duration_ns,
		    uint64_t *bytes)
{
	uint64_t end = tei_now_ns() + duration_ns, n;
	int rc;

	*bytes = 0;
	do {
		n = next_piece(&w);
		rc = tei_bare_send(fd, w.memory + w.at, n, spin);
		advance_walk(&w, n);
		*bytes += n;
	} while (!rc && tei_now_ns() < end);
	shutdown(fd, SHUT_WR);
	return rc;
}

int tei_stream_serve(int fd, const struct tei_bare_work *work, char *memory,
		     uint64_t len)
{
	struct walk w = walk_of(memory, len);
	uint64_t bytes;
	int rc;

	if (work->read)
		return send_for(fd, w, work->spin, work->duration_ns, &bytes);
	rc = receive_all(fd, w, work->spin, &bytes);
	/* All has arrived. */
	return rc ? rc : tei_bare_send(fd, "", 1, false);
}

static int move_stream(int fd, const struct tei_bare_peer *peer,
		       const struct tei_bare_shape *s, uint64_t *bytes)
{
	struct walk w = walk_of(s->read ? peer->to : peer->from,
				tei_bare_span(peer, s));
	char done;
	int rc;

	if (s->read)
		return receive_all(fd, w, s->spin, bytes);
	rc = send_for(fd, w, s->spin, (uint64_t)(s->seconds * 1e9), bytes);
	return rc ? rc : tei_bare_recv(fd, &done, 1, false);
}

static int run_one(const struct tei_bare_peer *peer, size_t i,
		   const struct tei_bare_shape *shape,
		   struct tei_bare_figure *out)
{
	int fd = tei_bare_connect(peer, i, TEI_BARE_STREAM, shape), rc;
	uint64_t start, bytes;

	if (fd < 0)
		return fd;
	start = tei_now_ns();
	rc = move_stream(fd, peer, shape, &bytes);
	close(fd);
	if (rc)
		return rc;
	out->bytes += bytes;
	out->gb_per_s += (double)bytes / (double)(tei_now_ns() - start);
	return 0;
}

int tei_stream_run(const struct tei_bare_peer *peer,
		   const struct tei_bare_shape *shape,
		   struct tei_bare_figure *out)
{
	int rc = 0;

	*out = (struct tei_bare_figure){0};
	for (size_t i = 0; !rc && i < peer->n_at; i++)
		rc = run_one(peer, i, shape, out);
	return rc;
}

#define BALL 8

/* A batch of pieces that walks over memory. */
struct batch {
	char *memory;
	uint64_t len, at, size;
	uint32_t n;
	struct iovec pieces[TEI_BARE_BATCH];
};

static struct batch *batch_create(char *memory, uint64_t len,
				  const struct tei_bare_work *work)
{
	struct batch *b;

	if (!work->batch || work->batch > TEI_BARE_BATCH || !work->size ||
	    work->size > len)
		return NULL;
	b = tei_malloc(sizeof(*b));
	if (!b)
		return NULL;
	b->memory = memory;
	b->len = len;
	b->at = 0;
	b->size = work->size;
	b->n = work->batch;
	return b;
}

/* Returns the next pieces, which the calls that move them use up. */
static struct iovec *next_iovec(struct batch *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		b->pieces[i] = (struct iovec){b->memory + b->at, b->size};
		b->at += b->size;
		if (b->at + b->size > b->len)
			b->at = 0;
	}
	return b->pieces;
}

static int serve_batches(int fd, struct batch *b, bool read, bool spin)
{
	char ball[BALL];
	int rc = 0;

	while (!rc && read) {
		rc = tei_bare_recv(fd, ball, BALL, spin);
		if (!rc)
			rc = tei_bare_send_pieces(fd, next_iovec(b), b->n,
						  spin);
	}
	while (!rc) {
		rc = tei_bare_recv_pieces(fd, next_iovec(b), b->n, spin);
		if (!rc)
			rc = tei_bare_send(fd, ball, BALL, spin);
	}
	return rc == -EPIPE ? 0 : rc;
}

int tei_exchange_serve(int fd, const struct tei_bare_work *work, char *memory,
		       uint64_t len)
{
	struct batch *b = batch_create(memory, len, work);
	int rc;

	if (!b)
		return -EINVAL;
	rc = serve_batches(fd, b, work->read, work->spin);
	tei_free(b);
	return rc;
}

int tei_pingpong_serve(int fd, const struct tei_bare_work *work)
{
	char ball[BALL];
	int rc = 0;

	while (!rc) {
		rc = tei_bare_recv(fd, ball, BALL, work->spin);
		if (!rc)
			rc = tei_bare_send(fd, ball, BALL, work->spin);
	}
	return rc == -EPIPE ? 0 : rc;
}

/* ---- the measuring side ---- */

static int one_batch(int fd, struct batch *b, const struct tei_bare_shape *s)
{
	char ball[BALL] = "ball";
	int rc;

	if (s->read) {
		rc = tei_bare_send(fd, ball, BALL, s->spin);
		return rc ? rc
			  : tei_bare_recv_pieces(fd, next_iovec(b), b->n,
						 s->spin);
	}
	rc = tei_bare_send_pieces(fd, next_iovec(b), b->n, s->spin);
	return rc ? rc : tei_bare_recv(fd, ball, BALL, s->spin);
}

static int one_ball(int fd, bool spin)
{
	char ball[BALL] = "ball";
	int rc = tei_bare_send(fd, ball, BALL, spin);

	return rc ? rc : tei_bare_recv(fd, ball, BALL, spin);
}

/* @b NULL: balls. */
static int run_loop(int fd, struct batch *b, const struct tei_bare_shape *s,
		    struct tei_histogram *rtt, uint64_t *elapsed)
{
	uint64_t start = tei_now_ns(), now = start, sent;
	uint64_t end = start + (uint64_t)(s->seconds * 1e9);
	int rc;

	do {
		tei_sleep_ns(s->pause_ns);
		sent = s->pause_ns ? tei_now_ns() : now;
		rc = b ? one_batch(fd, b, s) : one_ball(fd, s->spin);
		now = tei_now_ns();
		tei_histogram_add(rtt, now - sent);
	} while (!rc && now < end);
	*elapsed = now - start;
	return rc;
}

static int run_rounds(const struct tei_bare_peer *peer, enum tei_bare_kind kind,
		      const struct tei_bare_shape *s, struct batch *b,
		      struct tei_bare_figure *out)
{
	struct tei_histogram *rtt = tei_calloc(1, sizeof(*rtt));
	uint64_t elapsed;
	int fd, rc;

	if (!rtt)
		return -ENOMEM;
	fd = tei_bare_connect(peer, 0, kind, s);
	rc = fd < 0 ? fd : run_loop(fd, b, s, rtt, &elapsed);
	*out = (struct tei_bare_figure){0};
	if (!rc)
		out->p50_us = tei_histogram_us(rtt, 0.5);
	if (!rc && b) {
		out->bytes = rtt->n * b->n * b->size;
		out->gb_per_s = (double)out->bytes / (double)elapsed;
	}
	if (fd >= 0)
		close(fd);
	tei_free(rtt);
	return rc;
}

int tei_exchange_run(const struct tei_bare_peer *peer,
		     const struct tei_bare_shape *shape,
		     struct tei_bare_figure *out)
{
	struct tei_bare_work work = {.batch = shape->batch,
				     .size = shape->size};
	struct batch *b = batch_create(shape->read ? peer->to : peer->from,
				       tei_bare_span(peer, shape), &work);
	int rc;

	if (!b)
		return -EINVAL;
	rc = run_rounds(peer, TEI_BARE_EXCHANGE, shape, b, out);
	tei_free(b);
	return rc;
}

int tei_pingpong_run(const struct tei_bare_peer *peer,
		     const struct tei_bare_shape *shape,
		     struct tei_bare_figure *out)
{
	return run_rounds(peer, TEI_BARE_PINGPONG, shape, NULL, out);
}
