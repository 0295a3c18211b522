/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - blobs and messages to bytes and back; descriptors */
#include "backends/shm/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <te/te.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/net.h"

#define MAGIC 0x31534554u /* "TES1" */

static void write_zeros(struct tei_writer *w, size_t n)
{
	while (n--)
		tei_write_u8(w, 0);
}

/* ---- blobs ---- */

void tei_shm_host_encode(const struct shm_host *h, uint8_t out[SHM_HOST_LEN])
{
	struct tei_writer w;

	tei_writer_init(&w, out, SHM_HOST_LEN);
	tei_write_u32(&w, SHM_VERSION);
	tei_write_u32(&w, h->uid);
	tei_write_bytes(&w, h->boot, sizeof(h->boot));
	tei_write_u64(&w, h->pid_ns);
	tei_write_u64(&w, h->user_ns);
	tei_write_u64(&w, h->start);
	tei_write_u32(&w, h->pid);
	tei_write_u32(&w, 0);
}

bool tei_shm_host_decode(const void *in, size_t len, struct shm_host *h)
{
	const void *boot;
	struct tei_reader r;
	uint32_t version;

	tei_reader_init(&r, in, len);
	version = tei_read_u32(&r);
	h->uid = tei_read_u32(&r);
	boot = tei_read_bytes(&r, sizeof(h->boot));
	h->pid_ns = tei_read_u64(&r);
	h->user_ns = tei_read_u64(&r);
	h->start = tei_read_u64(&r);
	h->pid = tei_read_u32(&r);
	tei_read_u32(&r);
	if (!tei_reader_done(&r) || version != SHM_VERSION)
		return false;
	memcpy(h->boot, boot, sizeof(h->boot));
	return true;
}

void tei_shm_key_encode(const struct shm_key *k, uint8_t out[SHM_KEY_LEN])
{
	struct tei_writer w;

	tei_writer_init(&w, out, SHM_KEY_LEN);
	tei_write_u64(&w, k->id);
	tei_write_u64(&w, k->addr);
	tei_write_u64(&w, k->length);
	tei_write_u8(&w, (uint8_t)SHM_VERSION);
	tei_write_u8(&w, k->kind);
	tei_write_u16(&w, k->access);
	tei_write_u32(&w, 0);
}

bool tei_shm_key_decode(const void *in, size_t len, struct shm_key *k)
{
	struct tei_reader r;
	uint8_t version;

	tei_reader_init(&r, in, len);
	k->id = tei_read_u64(&r);
	k->addr = tei_read_u64(&r);
	k->length = tei_read_u64(&r);
	version = tei_read_u8(&r);
	k->kind = tei_read_u8(&r);
	k->access = tei_read_u16(&r);
	tei_read_u32(&r);
	return tei_reader_done(&r) && version == SHM_VERSION &&
	       (k->kind == SHM_ARENA || k->kind == SHM_FOREIGN) && k->length &&
	       k->length <= TE_LENGTH_MAX && k->addr + k->length > k->addr;
}

size_t tei_shm_address_encode(const struct shm_address *a,
			      uint8_t out[SHM_ADDRESS_MAX])
{
	size_t path_len = strlen(a->path);
	struct tei_writer w;

	tei_writer_init(&w, out, SHM_ADDRESS_MAX);
	tei_write_u32(&w, SHM_VERSION);
	tei_write_u32(&w, a->uid);
	tei_write_u32(&w, a->pid);
	tei_write_u32(&w, 0);
	tei_write_u64(&w, a->start);
	tei_write_bytes(&w, a->token, SHM_TOKEN_LEN);
	tei_write_bytes(&w, a->path, path_len);
	return SHM_ADDRESS_HEAD + path_len;
}

bool tei_shm_address_decode(const void *in, size_t len, struct shm_address *a)
{
	const void *token, *path;
	size_t path_len;
	struct tei_reader r;
	uint32_t version;

	if (len < SHM_ADDRESS_HEAD || len - SHM_ADDRESS_HEAD >= SHM_PATH_MAX)
		return false;
	path_len = len - SHM_ADDRESS_HEAD;
	tei_reader_init(&r, in, len);
	version = tei_read_u32(&r);
	a->uid = tei_read_u32(&r);
	a->pid = tei_read_u32(&r);
	tei_read_u32(&r);
	a->start = tei_read_u64(&r);
	token = tei_read_bytes(&r, SHM_TOKEN_LEN);
	path = tei_read_bytes(&r, path_len);
	if (!tei_reader_done(&r) || version != SHM_VERSION ||
	    memchr(path, 0, path_len))
		return false;
	memcpy(a->token, token, SHM_TOKEN_LEN);
	memcpy(a->path, path, path_len);
	a->path[path_len] = 0;
	return true;
}

/* ---- messages ---- */

static void encode(const struct shm_message *m, uint8_t out[SHM_MESSAGE_LEN])
{
	struct tei_writer w;

	tei_writer_init(&w, out, SHM_MESSAGE_LEN);
	tei_write_u32(&w, MAGIC);
	tei_write_u8(&w, (uint8_t)SHM_VERSION);
	tei_write_u8(&w, m->op);
	tei_write_u8(&w, m->status);
	tei_write_u8(&w, m->kind);
	tei_write_u64(&w, m->id);
	tei_write_bytes(&w, m->token, SHM_TOKEN_LEN);
	tei_write_u64(&w, m->generation);
	tei_write_u64(&w, m->addr);
	tei_write_u64(&w, m->length);
	tei_write_u32(&w, m->slot);
	tei_write_u32(&w, m->access);
	tei_write_bytes(&w, m->key, SHM_KEY_LEN);
	write_zeros(&w, 32);
}

static bool decode(const uint8_t in[SHM_MESSAGE_LEN], struct shm_message *m)
{
	struct tei_reader r;
	uint32_t magic;
	uint8_t version;

	tei_reader_init(&r, in, SHM_MESSAGE_LEN);
	magic = tei_read_u32(&r);
	version = tei_read_u8(&r);
	m->op = tei_read_u8(&r);
	m->status = tei_read_u8(&r);
	m->kind = tei_read_u8(&r);
	m->id = tei_read_u64(&r);
	memcpy(m->token, tei_read_bytes(&r, SHM_TOKEN_LEN), SHM_TOKEN_LEN);
	m->generation = tei_read_u64(&r);
	m->addr = tei_read_u64(&r);
	m->length = tei_read_u64(&r);
	m->slot = tei_read_u32(&r);
	m->access = tei_read_u32(&r);
	memcpy(m->key, tei_read_bytes(&r, SHM_KEY_LEN), SHM_KEY_LEN);
	return magic == MAGIC && version == SHM_VERSION && m->op >= SHM_HELLO &&
	       m->op <= SHM_FORGET;
}

int tei_shm_send(int socket, const struct shm_message *m, int fd)
{
	union tei_fds_room room;
	uint8_t bytes[SHM_MESSAGE_LEN];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	encode(m, bytes);
	if (fd >= 0)
		tei_fds_attach(&msg, &room, fd);
	if (sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 0;
	return errno == EPIPE ? -ECONNRESET : -errno;
}

int tei_shm_receive(int socket, struct shm_message *m, int *fd)
{
	union tei_fds_room room;
	uint8_t bytes[SHM_MESSAGE_LEN];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = sizeof(room.bytes)};
	unsigned int n_fds;
	ssize_t n;

	*fd = -1;
	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	n_fds = tei_fds_take(&msg, fd);
	/* One that this process has no room for is missing, and that is all. */
	if (n_fds && (msg.msg_flags & MSG_CTRUNC))
		n_fds++;
	if (n == SHM_MESSAGE_LEN && n_fds <= 1 &&
	    !(msg.msg_flags & MSG_TRUNC) && decode(bytes, m))
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return n || n_fds ? -EBADMSG : -ECONNRESET;
}
