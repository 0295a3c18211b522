/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare.h - raw sockets between two processes, as fast as we know to make them
 *
 * The measuring side and its peer: a process with memory of its own that
 * serves one raw exchange a connection: a stream, batches of pieces, or single
 * balls. The first bytes of a connection say what is wanted.
 *
 * Threads: one per peer at a time.
 */
#ifndef PERF_LIB_BARE_H
#define PERF_LIB_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/net.h"

#define TEI_BARE_RAILS   8    /* addresses of one peer */
#define TEI_BARE_BATCH   1024 /* pieces of one exchange, IOV_MAX */
#define TEI_CONGESTION   16   /* TCP_CA_NAME_MAX */
#define TEI_BARE_LIMIT_S 60   /* of silence: the other side is given up */

/* A peer as the measuring side sees it, and the memory on both sides. */
struct tei_bare_peer {
	struct tei_address at[TEI_BARE_RAILS]; /* at[n_at], n_at >= 1 */
	size_t n_at;
	char congestion[TEI_CONGESTION]; /* wanted; "": leave the default */
	uint64_t len;                    /* of the memory of either side */
	char *from, *to;                 /* ours: sources and destinations */
	pid_t pid;                       /* 0: on another host */
	uint64_t remote;                 /* where its memory lies there */
};

/* Shape of a measurement: what to move and how. */
struct tei_bare_shape {
	bool read;      /* from the peer to us */
	bool spin;      /* neither side ever sleeps */
	uint32_t batch; /* pieces together, 1 .. TEI_BARE_BATCH */
	uint64_t size;  /* of a piece, 1 .. span */
	uint64_t span;  /* bytes walked over, 0: all the memory (cold) */
	double seconds;
	uint64_t pause_ns; /* ping-pong: sleep between two */
};

struct tei_bare_figure {
	uint64_t bytes;
	double gb_per_s;
	double cpu_s_per_gb; /* of both sides */
	double p50_us;       /* of a batch or ball, there and back */
};

typedef int tei_bare_fn(const struct tei_bare_peer *peer,
			const struct tei_bare_shape *shape,
			struct tei_bare_figure *out);

/* ---- between the two sides ---- */

enum tei_bare_kind {
	TEI_BARE_STREAM = 1,
	TEI_BARE_EXCHANGE,
	TEI_BARE_PINGPONG,
	TEI_BARE_USAGE, /* answers with the ns of CPU of the peer so far */
};

/* The first bytes of a connection; both sides are of one build. */
struct tei_bare_work {
	uint32_t kind, batch;
	uint64_t size, span;
	uint64_t duration_ns; /* of a stream that the peer sends */
	uint8_t read, spin, reserved[6];
	char congestion[TEI_CONGESTION];
};

/* Opens a socket that listens on all addresses. Returns its fd, or -errno. */
int tei_bare_listen(uint16_t *out_port);
/* Serve one connection until its end. memory[len] is source and destination. */
int tei_bare_serve(int fd, char *memory, uint64_t len);

/* Connect to address @i of the peer and say what is wanted. fd or -errno. */
int tei_bare_connect(const struct tei_bare_peer *peer, size_t i,
		     enum tei_bare_kind kind,
		     const struct tei_bare_shape *shape);
/* Sets the CPU time of both sides so far. -errno. */
int tei_bare_cpu_ns(const struct tei_bare_peer *peer, uint64_t *out);
/* Congestion control that sockets to the peer really have; "" when unknown. */
void tei_bare_congestion(const struct tei_bare_peer *peer,
			 char out[TEI_CONGESTION]);

/* Returns the bytes that a shape walks over. */
static inline uint64_t tei_bare_span(const struct tei_bare_peer *peer,
				     const struct tei_bare_shape *shape)
{
	return shape->span && shape->span < peer->len ? shape->span : peer->len;
}

/* All of it or -errno (-EPIPE: the other side has ended, -ETIMEDOUT). */
int tei_bare_send(int fd, const void *from, uint64_t len, bool spin);
int tei_bare_recv(int fd, void *to, uint64_t len, bool spin);
/* Receive what is there, 1 .. @room; 0: the other side has ended. -errno. */
ssize_t tei_bare_recv_some(int fd, void *to, size_t room, bool spin);
/* pieces[n] are used up on the way. */
int tei_bare_send_pieces(int fd, struct iovec *pieces, uint32_t n, bool spin);
int tei_bare_recv_pieces(int fd, struct iovec *pieces, uint32_t n, bool spin);

/*
 * Calls @run with both sides spinning, then with both blocking; *out gets the
 * better rate and the lesser CPU time of the two.
 */
int tei_bare_best(tei_bare_fn *run, const struct tei_bare_peer *peer,
		  const struct tei_bare_shape *shape,
		  struct tei_bare_figure *out);

/*
 * Sends one stream for shape->seconds, whatever size and batch are, and waits
 * until all of it has arrived. Several addresses are measured one after the
 * other and their rates added: so much could rails of their own carry together.
 */
int tei_stream_run(const struct tei_bare_peer *peer,
		   const struct tei_bare_shape *shape,
		   struct tei_bare_figure *out);
/* Serves the other side of a connection. */
int tei_stream_serve(int fd, const struct tei_bare_work *work, char *memory,
		     uint64_t len);

/*
 * The bare shape of a closed loop of batches. Write: one sendmsg() of all the
 * pieces, received into as many, then 8 bytes back. Read: 8 bytes there, the
 * pieces back.
 */
int tei_exchange_run(const struct tei_bare_peer *peer,
		     const struct tei_bare_shape *shape,
		     struct tei_bare_figure *out);
/* 8 bytes there and back, after a pause each; only p50_us comes out. */
int tei_pingpong_run(const struct tei_bare_peer *peer,
		     const struct tei_bare_shape *shape,
		     struct tei_bare_figure *out);

/* The other sides of a connection. */
int tei_exchange_serve(int fd, const struct tei_bare_work *work, char *memory,
		       uint64_t len);
int tei_pingpong_serve(int fd, const struct tei_bare_work *work);

#endif
