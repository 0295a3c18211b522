/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - what dummy clients and their daemon agree on besides agent.proto
 *
 * A dummy connects to the daemon's unix stream socket and says one greeting of
 * TES_GREETING_LEN bytes: a new session, with exactly one descriptor, that of
 * its memory; or one more connection of a session that it has. The daemon
 * answers with as many bytes. After an answer with status 0 both sides speak
 * frames; after any other the daemon closes.
 *
 * The memory is a sealed memfd: its size can change no more, so that nobody
 * can pull pages from under the daemon.
 */
#ifndef STORE_PROTO_AGENT_H
#define STORE_PROTO_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/un.h>

#include "base/frame.h"

#define TES_AGENT_VERSION   1
#define TES_GREETING_LEN    64
#define TES_AGENT_TOKEN_LEN 16
#define TES_AGENT_PATH_MAX  sizeof(((struct sockaddr_un *)NULL)->sun_path)
/* Limits of a batch: keys, bytes of keys, pieces. A dummy cuts larger calls. */
#define TES_AGENT_KEYS_MAX          4096u
#define TES_AGENT_KEY_BYTES_MAX     ((1u << 20) + 1024u)
#define TES_AGENT_PIECES_MAX        65536u
#define TES_AGENT_REPLICAS_KEYS_MAX 256u /* of one call for replicas */
#define TES_AGENT_PATTERN_MAX       2048u
/*
 * Time limit of a walk through the whole table, and of waiting for another's.
 */
#define TES_AGENT_WALK_MS    60000u
#define TES_AGENT_CONNS_MAX  64u /* of a session */
#define TES_AGENT_REGION_MIN 4096u

enum tes_greeting_kind {
	TES_GREETING_NEW = 1,  /* with a descriptor */
	TES_GREETING_JOIN = 2, /* with session and token, without descriptor */
	/* The same, but for the memory of its buffers: the answer comes with a
	 * descriptor and with its length, and is the last word. */
	TES_GREETING_BUFFERS = 3,
};

/* Answers of the daemon to a greeting; on the wire. */
enum tes_greeting_status {
	TES_GREETED = 0,
	TES_GREETING_BAD = 1,         /* not a greeting */
	TES_GREETING_VERSION = 2,     /* not of this version */
	TES_GREETING_NO_FD = 3,       /* none where one is due */
	TES_GREETING_FDS = 4,         /* one where none is due, or several */
	TES_GREETING_MEMORY = 5,      /* no memfd, not sealed, wrong size */
	TES_GREETING_NO_SESSION = 6,  /* unknown, or another's */
	TES_GREETING_CROWD = 7,       /* too many sessions or connections */
	TES_GREETING_NOT_ALLOWED = 8, /* this user is not served */
	TES_GREETING_NO_MEMORY = 9,   /* the daemon cannot map it */
	TES_GREETING_TOO_LARGE = 10,  /* more memory than one may have */
	TES_GREETING_NO_BUFFERS = 11, /* the daemon lends none */
	TES_GREETING_STATUSES
};

/* "not_allowed"; "greeted" is none. For logs and metrics. */
const char *tes_greeting_status_name(enum tes_greeting_status status);

struct tes_greeting {
	uint16_t version;
	uint16_t word;   /* kind, or status in an answer */
	uint64_t length; /* of memory that is sent, a multiple of 4096 */
	uint64_t session;
	uint8_t token[TES_AGENT_TOKEN_LEN];
	uint64_t region; /* answer to new: what batches name it by */
};

void tes_greeting_encode(const struct tes_greeting *g,
			 uint8_t out[TES_GREETING_LEN]);
/* False: the magic is not there or reserved bytes are not 0. */
bool tes_greeting_decode(const uint8_t bytes[TES_GREETING_LEN],
			 struct tes_greeting *out);

/*
 * Send the greeting, and @fd unless it is negative. Never blocks. 0, -EAGAIN,
 * -ECONNRESET or what the socket says.
 */
int tes_greeting_send(int socket, const struct tes_greeting *g, int fd);
/*
 * Take one greeting. *n_fds: how many descriptors came; the first is *fd (the
 * caller's; -1: none), the others have been closed. 0, -EAGAIN, -ECONNRESET
 * (the peer has gone), -EBADMSG (no greeting; *fd may be set).
 */
int tes_greeting_receive(int socket, struct tes_greeting *g, int *fd,
			 unsigned int *n_fds);

/* A memfd of exactly @length bytes, its size sealed. An fd or -errno. */
int tes_sealed_create(uint64_t length);
/*
 * The same, but to be written to by its maker alone: create, map, close to all
 * later writers. -EOPNOTSUPP: the kernel cannot.
 */
int tes_sealed_create_open(uint64_t length);
int tes_sealed_close(int fd);
/*
 * Tells whether @fd is memory that can be mapped without fear: a memfd of
 * ordinary pages, of @length bytes, that can neither shrink nor grow any more.
 * 0, -EINVAL.
 */
int tes_sealed_check(int fd, uint64_t length);

/*
 * Returns the folder where the daemon of @port puts its socket, unless
 * configured: the user's own runtime directory. @which counts the candidates,
 * best first: $XDG_RUNTIME_DIR, /run/user/UID, /tmp/te-UID. -ENOENT: no such
 * candidate here.
 */
#define TES_AGENT_DIRS 3
int tes_agent_dir(unsigned int which, char out[TES_AGENT_PATH_MAX]);
/* Path of the socket in @dir. -ENAMETOOLONG. */
int tes_agent_path(const char *dir, uint16_t port,
		   char out[TES_AGENT_PATH_MAX]);
/* 0: a directory of this user's, that nobody else may enter. -EPERM, -errno. */
int tes_agent_dir_check(const char *dir);

/* Caps of every type, for both directions. */
extern const struct tei_frame_protocol tes_agent_protocol;

#endif
