/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - the raw stream: the most that one TCP connection carries
 */
#include "perf/lib/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

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

/* Up to the end of the memory, also when parts of chunks have come. */
static uint64_t next(const struct walk *w)
{
	uint64_t rest = w->len - w->at;

	return rest < w->chunk ? rest : w->chunk;
}

static void step(struct walk *w, uint64_t done)
{
	w->at += done;
	if (w->at == w->len)
		w->at = 0;
}

static int receive_all(int fd, struct walk w, bool spin, uint64_t *bytes)
{
	ssize_t n;

	*bytes = 0;
	while ((n = tei_bare_recv_some(fd, w.memory + w.at, next(&w), spin)) >
	       0) {
		*bytes += (uint64_t)n;
		step(&w, (uint64_t)n);
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
		n = next(&w);
		rc = tei_bare_send(fd, w.memory + w.at, n, spin);
		step(&w, n);
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

static int move(int fd, const struct tei_bare_peer *peer,
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
	rc = move(fd, peer, shape, &bytes);
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
