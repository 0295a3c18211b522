/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what engines on one host tell each other; docs/wire.md has the bytes
 *
 * Three blobs go over the control connection: what a rail says of itself, a
 * region's key, an endpoint's address. Messages of one size go over a unix
 * socket, some with a descriptor. Nothing here blocks or allocates.
 */
#ifndef SHM_WIRE_H
#define SHM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHM_VERSION      1u
#define SHM_TOKEN_LEN    16
#define SHM_KEY_LEN      32
#define SHM_KEY_KIND     25 /* where the kind is in it */
#define SHM_KEY_FLAGS    28 /* and these */
#define SHM_NAME_LEN     64
#define SHM_HOST_LEN     56
#define SHM_MESSAGE_LEN  128
#define SHM_PATH_MAX     200 /* with the terminating 0 */
#define SHM_ADDRESS_HEAD 40
#define SHM_ADDRESS_MAX  (SHM_ADDRESS_HEAD + SHM_PATH_MAX)

/*
 * Names the host and namespaces in which processes see each other's memory and
 * descriptors.
 */
struct shm_host {
	uint8_t boot[16];
	uint64_t pid_ns, user_ns; /* inodes of the namespaces */
	uint64_t start;           /* of the process, in ticks since boot */
	uint32_t uid, pid;
};

enum shm_kind {
	SHM_ARENA = 1,   /* the owner hands out a descriptor to map */
	SHM_FOREIGN = 2, /* other memory: process_vm_readv(), _writev() */
	SHM_GPU = 3,     /* a GPU's: the driver's name of it is handed out */
	SHM_CHUNKS = 4,  /* GRANT only: a GPU's, of which chunks are */
};

struct shm_key {
	uint64_t id, addr, length;
	uint16_t access; /* TE_ACCESS_* */
	uint8_t kind;
};

/* The initiator's half has no path. */
struct shm_address {
	uint32_t pid, uid;
	uint64_t start;
	uint8_t token[SHM_TOKEN_LEN];
	char path[SHM_PATH_MAX]; /* of the target's socket */
};

enum shm_op {
	SHM_HELLO = 1,   /* initiator: token of the target's half */
	SHM_WELCOME = 2, /* target: token of the initiator's; control pages */
	SHM_ASK = 3,     /* initiator: let me use the region of that key */
	SHM_GRANT = 4,   /* target: status; slot, generation; the arena */
	SHM_FORGET = 5,  /* target: that region is gone, unmap it */
	SHM_RETURN = 6,  /* initiator: a GPU's, which is closed here */
};

#define SHM_TAKES_GPU    1u /* ASK, access: knows kinds 3 and 4 of a GRANT */
#define SHM_CHUNKS_BURST 8u /* in one GRANT, each with its descriptor */

struct shm_message {
	uint8_t op, status, kind; /* enum shm_op, tei_status, shm_kind */
	uint64_t id;              /* of the region */
	uint8_t token[SHM_TOKEN_LEN];
	uint64_t generation, addr, length;
	uint32_t slot, access;
	uint8_t key[SHM_KEY_LEN];
	/* GRANT of a GPU's, in place of the key; of chunks, 0: there is none */
	uint8_t name[SHM_NAME_LEN];
	uint64_t lengths[SHM_CHUNKS_BURST];
};

/* Descriptors that come with a message. */
struct shm_fds {
	int at[SHM_CHUNKS_BURST];
	unsigned int n;
};

void tei_shm_host_encode(const struct shm_host *h, uint8_t out[SHM_HOST_LEN]);
bool tei_shm_host_decode(const void *in, size_t len, struct shm_host *h);

void tei_shm_key_encode(const struct shm_key *k, uint8_t out[SHM_KEY_LEN]);
/* False: malformed, empty or it wraps around. */
bool tei_shm_key_decode(const void *in, size_t len, struct shm_key *k);

/* Returns the bytes used. */
size_t tei_shm_address_encode(const struct shm_address *a,
			      uint8_t out[SHM_ADDRESS_MAX]);
bool tei_shm_address_decode(const void *in, size_t len, struct shm_address *a);

/*
 * Send one message, with @fd unless it is -1. 0; -EAGAIN: the other side does
 * not read; -ECONNRESET and others.
 */
int tei_shm_send(int socket, const struct shm_message *m, int fd);
/* The same with several, also none, which stay the caller's. */
int tei_shm_send_fds(int socket, const struct shm_message *m,
		     const struct shm_fds *fds);
/*
 * Take one message; *fd: what came with it, the caller's to close, or -1. 0;
 * -EAGAIN; -ECONNRESET: the other side is gone; -EBADMSG: malformed, too long
 * or with more than one descriptor. On error nothing stays open. A descriptor
 * that this process has no room for does not come.
 */
int tei_shm_receive(int socket, struct shm_message *m, int *fd);
/*
 * The same for who is granted chunks, whose message may have several: those
 * that there is no room for are missing at the end.
 */
int tei_shm_receive_fds(int socket, struct shm_message *m, struct shm_fds *fds);
/* Closes all, and leaves none in @fds. */
void tei_shm_fds_close(struct shm_fds *fds);

#endif
