/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_peer.h - a server, clients and raw sockets on one loop, one thread
 *
 * Nothing happens but in pump(), so that a test can force every order.
 */
#ifndef TESTS_UNIT_BASE_FRAME_PEER_H
#define TESTS_UNIT_BASE_FRAME_PEER_H

#include <stdbool.h>

#include "base/frame.h"
#include "base/loop.h"
#include "tests/lib/test.h"

#define SOON_MS 60000
#define BIG_LEN (256 * 1024)
#define CAP_BIG (16 * 1024 * 1024)

/* What the server does with a frame; also the frame types. */
enum {
	ECHO = 1, /* replies with what came */
	SILENT,   /* nothing; the frame is kept in server.last */
	CLOSE,    /* closes the connection in the callback */
	BAD,      /* calls the body bad */
	BIG,      /* replies with BIG_LEN bytes */
	REFUSE,   /* replies, refuses and closes in the callback */
	N_KINDS,
};

/* What one side has seen. */
struct side {
	int n_up, n_frames, n_accepted, n_down, n_closed, err;
	char text[256];
	struct tei_frame last; /* body NULL */
	struct tei_frame_conn *conn;
	unsigned int faults[TEI_FRAME_FAULTS];
	bool close_in_up, close_in_frame, close_in_accepted;
	bool busy;   /* not ready for frames */
	int n_asked; /* whether it is */
	bool takes;  /* bodies */
	void *taken; /* the last one, or NULL */
};

extern const struct tei_frame_protocol peer_protocol;
extern const struct tei_frame_ops side_ops;
extern struct tei_loop *loop;
extern struct tei_frame_server *listener;
extern struct side server, client;
extern uint16_t port;

/* cmocka set-up and tear-down: a loop and a listening server on it. */
int peers_setup(void **state);
int peers_teardown(void **state);
void serve(unsigned int n_max, uint64_t hello_ms);
void stop_serving(void);

/* Runs the loop until @cond(@arg); fails the test when that takes too long. */
void pump_until(bool (*cond)(void *), void *arg);
/* Runs what is due now. */
void pump(void);
bool int_is_set(void *arg); /* int * != 0 */
bool server_is_empty(void *arg);

/* client.conn, up() not yet called. */
int client_connect(uint16_t to_port);
int client_send(uint16_t type, uint64_t id, size_t len);

/* A call with what became of it. */
struct asked {
	struct tei_frame_call call;
	int n_done, err;
	size_t len; /* of the answer's bytes */
	bool close; /* close client.conn in done() */
};
int client_ask(struct asked *a, uint16_t type, size_t len, uint64_t ms);

/* A blocking-connect, then non-blocking plain socket to the server. */
int raw_connect(void);
void raw_send(int fd, const void *bytes, size_t len);
/* A header, @len as claimed; returns its length, 16. */
size_t raw_header(uint8_t *out, uint32_t len, uint16_t type, uint64_t id);
/*
 * Reads to the end of the stream and closes; the text of the refusal that
 * came, or "" for none.
 */
const char *raw_refusal(int fd);

#endif
