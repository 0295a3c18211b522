/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_where.c - the way to the daemon: a socket in a place that is known, or
 * that the daemon's port tells
 *
 * Whoever has the port could name any socket, so that who listens there has to
 * be ourselves or root: the kernel says.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "store/daemon/dummy.h"

int tes_dummy_await(int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd pfd = {.fd = fd, .events = events};
		uint64_t now = tei_now_ns(), left;
		struct timespec limit;

		left = deadline_ns > now ? deadline_ns - now : 0;
		limit.tv_sec = (time_t)(left / TEI_NS_PER_S);
		limit.tv_nsec = (long)(left % TEI_NS_PER_S);
		if (ppoll(&pfd, 1, &limit, NULL) > 0)
			return 0;
		if (!left)
			return -ETIMEDOUT;
	}
}

/* ---- who, and where ---- */

/* The daemon is ours, or root's. */
static bool is_trusted(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	       (cred.uid == geteuid() || cred.uid == 0);
}

static int open_path(const char *path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd, rc;

	memcpy(un.sun_path, path, strlen(path) + 1);
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (const struct sockaddr *)&un, sizeof(un)))
		return fd;
	rc = -errno;
	(void)close(fd);
	return rc;
}

/* ---- the usual places ---- */

static int open_usual(const struct tes_dummy *dummy)
{
	char dir[TES_AGENT_PATH_MAX], path[TES_AGENT_PATH_MAX];
	int fd = -ENOENT;

	for (unsigned int i = 0; fd < 0 && i < TES_AGENT_DIRS; i++)
		if (!tes_agent_dir(i, dir) && !tes_agent_dir_check(dir) &&
		    !tes_agent_path(dir, dummy->port, path))
			fd = open_path(path);
	return fd;
}

/* ---- asking ---- */

static int open_port(const struct tes_dummy *dummy, uint64_t deadline_ns)
{
	const struct sockaddr *at = (const struct sockaddr *)&dummy->at.ss;
	socklen_t len = sizeof(int);
	int fd, rc = 0;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0);
	if (fd < 0)
		return -errno;
	if (connect(fd, at, dummy->at.len)) {
		rc = errno == EINPROGRESS
			     ? tes_dummy_await(fd, POLLOUT, deadline_ns)
			     : -errno;
		if (!rc && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &rc, &len))
			rc = -rc;
	}
	if (!rc)
		return fd;
	(void)close(fd);
	return rc;
}

static int take_path(struct tes_dummy *dummy, struct tei_arena *arena,
		     const uint8_t *body, size_t len)
{
	Agent__WhereReply *reply =
		agent__where_reply__unpack(&arena->pb, len, body);
	size_t n;

	if (!reply)
		return -EPROTO;
	n = strlen(reply->path);
	if (*reply->path != '/' || n >= sizeof(dummy->told))
		return -EPROTO;
	memcpy(dummy->told, reply->path, n + 1);
	return 0;
}

static int ask(struct tes_dummy *dummy, uint64_t deadline_ns)
{
	struct tes_dummy_conn conn = {.fd = open_port(dummy, deadline_ns)};
	struct tei_arena arena;
	const uint8_t *body;
	size_t len;
	int rc;

	if (conn.fd < 0)
		return conn.fd;
	tei_arena_init(&arena, 4096);
	rc = tes_dummy_exchange(&conn, AGENT__AGENT_TYPE__AGENT_WHERE, NULL,
				&arena, deadline_ns, &body, &len);
	if (rc)
		rc = rc == TE_STORE_RPC_TIMEOUT ? -ETIMEDOUT : -EPROTO;
	else
		rc = take_path(dummy, &arena, body, len);
	tei_arena_fini(&arena);
	(void)close(conn.fd);
	return rc;
}

static int open_told(struct tes_dummy *dummy, uint64_t deadline_ns)
{
	int rc, fd = *dummy->told ? open_path(dummy->told) : -ENOENT;

	if (fd >= 0)
		return fd;
	dummy->told[0] = 0;
	rc = ask(dummy, deadline_ns);
	return rc ? rc : open_path(dummy->told);
}

int tes_dummy_find(struct tes_dummy *dummy, uint64_t deadline_ns)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	int fd;

	if (dummy->path)
		return open_path(dummy->path);
	fd = open_usual(dummy);
	if (fd < 0)
		fd = open_told(dummy, deadline_ns);
	if (fd < 0 || is_trusted(fd))
		return fd;
	(void)close(fd);
	if (tei_log_allowed(&limit))
		LOG_WARN("daemon: who serves port %u is neither our user nor "
			 "root: to be trusted it is to be named by the path of "
			 "its socket",
			 (unsigned int)dummy->port);
	return -EPERM;
}
