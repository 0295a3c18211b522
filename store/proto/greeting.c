/* SPDX-License-Identifier: Apache-2.0 */
/* greeting.c - the first bytes between a dummy and its daemon, and a memfd */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/fds.h"
#include "store/proto/agent.h"

#define MAGIC 0x47414554u /* "TEAG" */

void tei_greeting_encode(const struct tei_greeting *g,
			 uint8_t out[TEI_GREETING_LEN])
{
	struct tei_writer w;

	memset(out, 0, TEI_GREETING_LEN);
	tei_writer_init(&w, out, TEI_GREETING_LEN);
	tei_write_u32(&w, MAGIC);
	tei_write_u16(&w, g->version);
	tei_write_u16(&w, g->word);
	tei_write_u64(&w, g->length);
	tei_write_u64(&w, g->session);
	tei_write_bytes(&w, g->token, sizeof(g->token));
	tei_write_u64(&w, g->region);
}

bool tei_greeting_decode(const uint8_t bytes[TEI_GREETING_LEN],
			 struct tei_greeting *out)
{
	struct tei_greeting g;
	struct tei_reader r;
	const void *token;
	uint32_t magic;

	tei_reader_init(&r, bytes, TEI_GREETING_LEN);
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

int tei_greeting_send(int socket, const struct tei_greeting *g, int fd)
{
	uint8_t bytes[TEI_GREETING_LEN];
	union tei_fds_room room;
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	tei_greeting_encode(g, bytes);
	if (fd >= 0)
		tei_fds_attach(&msg, &room, fd);
	n = sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EPIPE ? -ECONNRESET : -errno;
	return (size_t)n == sizeof(bytes) ? 0 : -ECONNRESET;
}

int tei_greeting_receive(int socket, struct tei_greeting *g, int *fd,
			 unsigned int *n_fds)
{
	uint8_t bytes[TEI_GREETING_LEN];
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
	/* It was sent at once, so it comes at once. */
	if ((size_t)n != sizeof(bytes) || !tei_greeting_decode(bytes, g))
		return -EBADMSG;
	return 0;
}

const char *tei_greeting_status_name(enum tei_greeting_status status)
{
	static const char *const names[TEI_GREETING_STATUSES] = {
		[TEI_GREETED] = "greeted",
		[TEI_GREETING_BAD] = "bad_greeting",
		[TEI_GREETING_VERSION] = "version",
		[TEI_GREETING_NO_FD] = "no_memory_sent",
		[TEI_GREETING_FDS] = "descriptors",
		[TEI_GREETING_MEMORY] = "bad_memory",
		[TEI_GREETING_NO_SESSION] = "no_session",
		[TEI_GREETING_CROWD] = "crowd",
		[TEI_GREETING_NOT_ALLOWED] = "not_allowed",
		[TEI_GREETING_NO_MEMORY] = "no_memory",
		[TEI_GREETING_TOO_LARGE] = "too_large",
		[TEI_GREETING_NO_BUFFERS] = "no_buffers",
	};

	return (unsigned int)status < TEI_GREETING_STATUSES ? names[status]
							    : "unknown";
}
