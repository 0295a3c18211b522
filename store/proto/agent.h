/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - what dummy clients and their daemon agree on besides agent.proto
 *
 * A dummy connects to the daemon's unix stream socket and says one greeting of
 * TEI_GREETING_LEN bytes: a new session, with exactly one descriptor, that of
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

#define TEI_AGENT_VERSION   1
#define TEI_GREETING_LEN    64
#define TEI_AGENT_TOKEN_LEN 16
#define TEI_AGENT_PATH_MAX  sizeof(((struct sockaddr_un *)NULL)->sun_path)
/* Of one batch: keys, bytes of keys, pieces. A dummy cuts larger calls. */
#define TEI_AGENT_KEYS_MAX          4096u
#define TEI_AGENT_KEY_BYTES_MAX     ((1u << 20) + 1024u)
#define TEI_AGENT_PIECES_MAX        65536u
#define TEI_AGENT_REPLICAS_KEYS_MAX 256u /* of one call for replicas */
#define TEI_AGENT_PATTERN_MAX       2048u
/* What a walk through the whole table may take, and waiting for another's. */
#define TEI_AGENT_WALK_MS    60000u
#define TEI_AGENT_CONNS_MAX  64u /* of a session */
#define TEI_AGENT_REGION_MIN 4096u

enum tei_greeting_kind {
	TEI_GREETING_NEW = 1,  /* with a descriptor */
	TEI_GREETING_JOIN = 2, /* with session and token, without descriptor */
	/* The same, but for the memory of its buffers: the answer comes with a
	 * descriptor and with its length, and is the last word. */
	TEI_GREETING_BUFFERS = 3,
};

/* What the daemon answers; on the wire. */
enum tei_greeting_status {
	TEI_GREETED = 0,
	TEI_GREETING_BAD = 1,         /* not a greeting */
	TEI_GREETING_VERSION = 2,     /* not of this version */
	TEI_GREETING_NO_FD = 3,       /* none where one is due */
	TEI_GREETING_FDS = 4,         /* one where none is due, or several */
	TEI_GREETING_MEMORY = 5,      /* no memfd, not sealed, wrong size */
	TEI_GREETING_NO_SESSION = 6,  /* unknown, or another's */
	TEI_GREETING_CROWD = 7,       /* too many sessions or connections */
	TEI_GREETING_NOT_ALLOWED = 8, /* this user is not served */
	TEI_GREETING_NO_MEMORY = 9,   /* the daemon cannot map it */
	TEI_GREETING_TOO_LARGE = 10,  /* more memory than one may have */
	TEI_GREETING_NO_BUFFERS = 11, /* the daemon lends none */
	TEI_GREETING_STATUSES
};

/* "not_allowed"; "greeted" is none. For logs and metrics. */
const char *tei_greeting_status_name(enum tei_greeting_status status);

struct tei_greeting {
	uint16_t version;
	uint16_t word;   /* kind, or status in an answer */
	uint64_t length; /* of memory that is sent, a multiple of 4096 */
	uint64_t session;
	uint8_t token[TEI_AGENT_TOKEN_LEN];
	uint64_t region; /* answer to new: what batches name it by */
};

void tei_greeting_encode(const struct tei_greeting *g,
			 uint8_t out[TEI_GREETING_LEN]);
/* False: the magic is not there or reserved bytes are not 0. */
bool tei_greeting_decode(const uint8_t bytes[TEI_GREETING_LEN],
			 struct tei_greeting *out);

/*
 * Send the greeting, and @fd unless it is negative. Never blocks. 0, -EAGAIN,
 * -ECONNRESET or what the socket says.
 */
int tei_greeting_send(int socket, const struct tei_greeting *g, int fd);
/*
 * Take one greeting. *n_fds: how many descriptors came; the first is *fd (the
 * caller's; -1: none), the others have been closed. 0, -EAGAIN, -ECONNRESET
 * (the peer has gone), -EBADMSG (no greeting; *fd may be set).
 */
int tei_greeting_receive(int socket, struct tei_greeting *g, int *fd,
			 unsigned int *n_fds);

/* A memfd of exactly @length bytes, its size sealed. An fd or -errno. */
int tei_sealed_create(uint64_t length);
/*
 * The same, but to be written to by its maker alone: create, map, close to all
 * later writers. -EOPNOTSUPP: the kernel cannot.
 */
int tei_sealed_create_open(uint64_t length);
int tei_sealed_close(int fd);
/*
 * Whether @fd is memory that can be mapped without fear: a memfd of ordinary
 * pages, of @length bytes, that can neither shrink nor grow any more. 0,
 * -EINVAL.
 */
int tei_sealed_check(int fd, uint64_t length);

/*
 * Where the daemon of @port puts its socket, unless it is told: the user's own
 * runtime directory. @which counts the candidates, best first: $XDG_RUNTIME_DIR,
 * /run/user/UID, /tmp/te-UID. -ENOENT: no such candidate here.
 */
#define TEI_AGENT_DIRS 3
int tei_agent_dir(unsigned int which, char out[TEI_AGENT_PATH_MAX]);
/* Its name in there. -ENAMETOOLONG. */
int tei_agent_path(const char *dir, uint16_t port,
		   char out[TEI_AGENT_PATH_MAX]);
/* 0: a directory of this user's, that nobody else may enter. -EPERM, -errno. */
int tei_agent_dir_check(const char *dir);

/* Caps of every type, for both directions. */
extern const struct tei_frame_protocol tei_agent_protocol;

#endif
