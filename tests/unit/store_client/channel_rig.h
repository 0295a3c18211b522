/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel_rig.h - a channel of a client's, the other end of it, and callers
 *
 * The peer holds the other end of a socket pair, or of a connection. Callers
 * compare what they are answered with what they have asked: the peer answers
 * with the same body.
 */
#ifndef TESTS_UNIT_STORE_CLIENT_CHANNEL_RIG_H
#define TESTS_UNIT_STORE_CLIENT_CHANNEL_RIG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "store/client/channel.h"

#define RIG_SOON_NS    (60 * TEI_NS_PER_S)
#define RIG_TYPE       STORE__STORE_TYPE__STORE_EXIST
#define RIG_GENERATION 5 /* of the connection */

struct rig {
	struct tes_channel channel;
	int peer; /* the other end */
	atomic_int n_broke;
};

void rig_init(struct rig *r);
/* Connects the two ends over TCP on loopback. */
void rig_init_tcp(struct rig *r);
void rig_fini(struct rig *r);
/* Asks with a body of @len bytes; the code. Wrong answers fail the test. */
int rig_ask(struct rig *r, uint8_t seed, size_t len, uint64_t wait_ns);
/* Says what can wait, a release with @len bytes of keys. */
void rig_tell_later(struct rig *r, size_t len);

/* ---- the peer ---- */

struct frame {
	uint32_t len;
	uint16_t type, flags;
	uint64_t id;
	uint8_t *bytes; /* header and body */
};

void peer_write(int fd, const uint8_t *bytes, size_t len);
/* TEI_FRAME_HEADER_LEN bytes. */
void peer_header(uint8_t *to, const struct frame *f);
/* The next frame, which must come. */
void peer_expect(int fd, struct frame *f);
/* With the same body; frees it. */
void peer_answer(int fd, struct frame *f);
void peer_say(int fd, uint16_t type, uint16_t flags, const char *text);
/*
 * A thread's function; @fd: int *. Answers everything until the other side has
 * closed, the second of two before the first now and then.
 */
void *peer_echo(void *fd);

/* ---- callers ---- */

struct caller {
	struct rig *rig;
	pthread_t thread;
	uint8_t seed;
	size_t len;
	uint64_t wait_ns; /* of each call */
	unsigned int n;   /* calls, until one fails */
	int code;         /* of the last one */
};

void caller_start(struct caller *c);

#endif
