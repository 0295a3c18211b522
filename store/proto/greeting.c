/* SPDX-License-Identifier: Apache-2.0 */
/* greeting.c - the first bytes between a dummy and its daemon, and a memfd */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/net.h"
#include "store/proto/agent.h"

#define MAGIC 0x47414554u /* "TEAG" */

void tes_greeting_encode(const struct tes_greeting *g,
			 uint8_t out[TES_GREETING_LEN])
{
	struct tei_writer w;

	memset(out, 0, TES_GREETING_LEN);
	tei_writer_init(&w, out, TES_GREETING_LEN);
	tei_write_u32(&w, MAGIC);
	tei_write_u16(&w, g->version);
	tei_write_u16(&w, g->word);
	tei_write_u64(&w, g->length);
	tei_write_u64(&w, g->session);
	tei_write_bytes(&w, g->token, sizeof(g->token));
	tei_write_u64(&w, g->region);
}

bool tes_greeting_decode(const uint8_t bytes[TES_GREETING_LEN],
			 struct tes_greeting *out)
{
	struct tes_greeting g;
	struct tei_reader r;
	const void *token;
	uint32_t magic;

	tei_reader_init(&r, bytes, TES_GREETING_LEN);
	magic = tei_read_u32(&r);
	g.version = tei_read_u16(&r);
	g.word = tei_read_u16(&r);
	g.length = tei_read_u64(&r);
	g.session = tei_read_u64(&r);
	token = tei_read_bytes(&r, sizeof(g.token));
	g.region = tei_read_u64(&r);
	if (magic != MAGIC || tei_read_u64(&r) || tei_read_u64(&r))
		return false;
	memcpy(g.token, token, sizeof(g.token));
	*out = g;
	return true;
}

int tes_greeting_send(int socket, const struct tes_greeting *g, int fd)
{
	uint8_t bytes[TES_GREETING_LEN];
	union tei_fds_room room;
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	tes_greeting_encode(g, bytes);
	if (fd >= 0)
		tei_fds_attach(&msg, &room, fd);
	n = sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EPIPE ? -ECONNRESET : -errno;
	return (size_t)n == sizeof(bytes) ? 0 : -ECONNRESET;
}

int tes_greeting_receive(int socket, struct tes_greeting *g, int *fd,
			 unsigned int *n_fds)
{
	uint8_t bytes[TES_GREETING_LEN];
	union tei_fds_room room;
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = sizeof(room.bytes)};
	ssize_t n;

	*fd = -1;
	*n_fds = 0;
	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	*n_fds = tei_fds_take(&msg, fd);
	if (msg.msg_flags & MSG_CTRUNC)
		*n_fds = TEI_FDS_MAX + 1;
	if (n == 0)
		return -ECONNRESET;
	/* A greeting is sent in one call, so it arrives whole. */
	if ((size_t)n != sizeof(bytes) || !tes_greeting_decode(bytes, g))
		return -EBADMSG;
	return 0;
}

const char *tes_greeting_status_name(enum tes_greeting_status status)
{
	static const char *const names[TES_GREETING_STATUSES] = {
		[TES_GREETED] = "greeted",
		[TES_GREETING_BAD] = "bad_greeting",
		[TES_GREETING_VERSION] = "version",
		[TES_GREETING_NO_FD] = "no_memory_sent",
		[TES_GREETING_FDS] = "descriptors",
		[TES_GREETING_MEMORY] = "bad_memory",
		[TES_GREETING_NO_SESSION] = "no_session",
		[TES_GREETING_CROWD] = "crowd",
		[TES_GREETING_NOT_ALLOWED] = "not_allowed",
		[TES_GREETING_NO_MEMORY] = "no_memory",
		[TES_GREETING_TOO_LARGE] = "too_large",
		[TES_GREETING_NO_BUFFERS] = "no_buffers",
	};

	return (unsigned int)status < TES_GREETING_STATUSES ? names[status]
							    : "unknown";
}
