/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.c - raw request and answer: batches of pieces, and single balls
 */
#include "perf/lib/exchange.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/histogram.h"

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

/* The next pieces; the calls that move them use them up. */
static struct iovec *next(struct batch *b)
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
			rc = tei_bare_send_pieces(fd, next(b), b->n, spin);
	}
	while (!rc) {
		rc = tei_bare_recv_pieces(fd, next(b), b->n, spin);
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
			  : tei_bare_recv_pieces(fd, next(b), b->n, s->spin);
	}
	rc = tei_bare_send_pieces(fd, next(b), b->n, s->spin);
	return rc ? rc : tei_bare_recv(fd, ball, BALL, s->spin);
}

static void rest(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / TEI_NS_PER_S),
			      (long)(ns % TEI_NS_PER_S)};

	if (ns)
		nanosleep(&ts, NULL);
}

static int one_ball(int fd, bool spin)
{
	char ball[BALL] = "ball";
	int rc = tei_bare_send(fd, ball, BALL, spin);

	return rc ? rc : tei_bare_recv(fd, ball, BALL, spin);
}

/* @b NULL: balls. */
static int loop(int fd, struct batch *b, const struct tei_bare_shape *s,
		struct tei_histogram *rtt, uint64_t *elapsed)
{
	uint64_t start = tei_now_ns(), now = start, sent;
	uint64_t end = start + (uint64_t)(s->seconds * 1e9);
	int rc;

	do {
		rest(s->pause_ns);
		sent = s->pause_ns ? tei_now_ns() : now;
		rc = b ? one_batch(fd, b, s) : one_ball(fd, s->spin);
		now = tei_now_ns();
		tei_histogram_add(rtt, now - sent);
	} while (!rc && now < end);
	*elapsed = now - start;
	return rc;
}

static int run(const struct tei_bare_peer *peer, enum tei_bare_kind kind,
	       const struct tei_bare_shape *s, struct batch *b,
	       struct tei_bare_figure *out)
{
	struct tei_histogram *rtt = tei_calloc(1, sizeof(*rtt));
	uint64_t elapsed;
	int fd, rc;

	if (!rtt)
		return -ENOMEM;
	fd = tei_bare_connect(peer, 0, kind, s);
	rc = fd < 0 ? fd : loop(fd, b, s, rtt, &elapsed);
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
	rc = run(peer, TEI_BARE_EXCHANGE, shape, b, out);
	tei_free(b);
	return rc;
}

int tei_pingpong_run(const struct tei_bare_peer *peer,
		     const struct tei_bare_shape *shape,
		     struct tei_bare_figure *out)
{
	return run(peer, TEI_BARE_PINGPONG, shape, NULL, out);
}
