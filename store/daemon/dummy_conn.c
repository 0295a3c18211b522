/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_conn.c - connections to the daemon: made, kept, used by one at a time
 *
 * The first one tells the daemon our memory and opens a session, the others
 * join it. A daemon that has been restarted knows nothing of the session: then
 * the next connection opens another one, with the same memory.
 *
 * A connection whose call has ended without the daemon's word is kept, late,
 * until there is one: only then is what was lent on it free.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/daemon/dummy.h"
#include "store/daemon/dummy_shelf.h"

/*
 * The daemon's unix socket lies in a known place, or its TCP port names it. A
 * process that has taken the port could name any socket: so the kernel has to
 * say that the listener runs as this user or root.
 */

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
	if (*reply->path != '/' || n >= sizeof(dummy->announced))
		return -EPROTO;
	memcpy(dummy->announced, reply->path, n + 1);
	return 0;
}

static int ask_path(struct tes_dummy *dummy, uint64_t deadline_ns)
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
	int rc, fd = *dummy->announced ? open_path(dummy->announced) : -ENOENT;

	if (fd >= 0)
		return fd;
	dummy->announced[0] = 0;
	rc = ask_path(dummy, deadline_ns);
	return rc ? rc : open_path(dummy->announced);
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
		LOG_WARN("daemon: the process at port %u runs as neither our "
			 "user nor root: refused; name it by the path of its "
			 "socket to trust it",
			 (unsigned int)dummy->port);
	return -EPERM;
}

#define ASK_AGAIN_NS (20 * TEI_NS_PER_MS)

/* ---- bytes, with a deadline ---- */

static int send_all(int fd, const uint8_t *bytes, size_t len,
		    uint64_t deadline_ns)
{
	while (len) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			if (tes_dummy_await(fd, POLLOUT, deadline_ns))
				return -ETIMEDOUT;
		} else if (errno != EINTR) {
			return -ECONNRESET;
		}
	}
	return 0;
}

static int receive_all(int fd, uint8_t *bytes, size_t len, uint64_t deadline_ns)
{
	while (len) {
		ssize_t n = recv(fd, bytes, len, MSG_DONTWAIT);

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (n == 0) {
			return -ECONNRESET;
		} else if (errno == EAGAIN) {
			if (tes_dummy_await(fd, POLLIN, deadline_ns))
				return -ETIMEDOUT;
		} else if (errno != EINTR) {
			return -ECONNRESET;
		}
	}
	return 0;
}

/* ---- the way to the daemon ---- */

static void say_refused(unsigned int status)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("daemon: refused us: %s",
			 tes_greeting_status_name(
				 (enum tes_greeting_status)status));
}

/* The daemon's status, or -ETIMEDOUT, -ECONNRESET. */
static int greet(struct tes_dummy *dummy, int fd,
		 struct tes_dummy_session *session, uint64_t deadline_ns)
{
	struct tes_greeting g = {
		.version = TES_AGENT_VERSION,
		.word = session->known ? TES_GREETING_JOIN : TES_GREETING_NEW,
		.length = session->known ? 0 : dummy->bytes,
		.session = session->id,
	};
	unsigned int n_fds;
	int stray, rc;

	memcpy(g.token, session->token, sizeof(g.token));
	rc = tes_greeting_send(fd, &g, session->known ? -1 : dummy->memfd);
	if (!rc)
		rc = tes_dummy_await(fd, POLLIN, deadline_ns);
	if (!rc) {
		rc = tes_greeting_receive(fd, &g, &stray, &n_fds);
		if (stray >= 0)
			(void)close(stray);
	}
	if (rc)
		return rc == -ETIMEDOUT ? rc : -ECONNRESET;
	if (g.word == TES_GREETED && g.version == TES_AGENT_VERSION) {
		session->known = true;
		session->id = g.session;
		session->region = g.region;
		memcpy(session->token, g.token, sizeof(g.token));
	}
	return g.word;
}

/* Tries once: the daemon's status, or -errno. *out_fd is set on TES_GREETED. */
static int try_open(struct tes_dummy *dummy, struct tes_dummy_session *session,
		    uint64_t deadline_ns, int *out_fd)
{
	int fd = tes_dummy_find(dummy, deadline_ns), rc;

	if (fd < 0)
		return fd;
	rc = greet(dummy, fd, session, deadline_ns);
	if (rc == TES_GREETED)
		*out_fd = fd;
	else
		(void)close(fd);
	return rc;
}

/* 0, or a store's code. */
static int open_conn(struct tes_dummy *dummy, struct tes_dummy_session *session,
		     uint64_t deadline_ns, struct tes_dummy_conn **out)
{
	struct tes_dummy_conn *conn = tei_calloc(1, sizeof(*conn));
	int rc;

	if (!conn)
		return TE_STORE_INTERNAL_ERROR;
	rc = try_open(dummy, session, deadline_ns, &conn->fd);
	if (session->known && rc == TES_GREETING_NO_SESSION) {
		memset(session, 0, sizeof(*session));
		rc = try_open(dummy, session, deadline_ns, &conn->fd);
	}
	if (rc == TES_GREETED) {
		tei_list_init(&conn->link);
		conn->region = session->region;
		memcpy(conn->token, session->token, sizeof(conn->token));
		*out = conn;
		return 0;
	}
	tei_free(conn);
	if (rc > 0)
		say_refused((unsigned int)rc);
	/* A backlog that is full is one that nobody empties. */
	return rc == -ETIMEDOUT || rc == -EAGAIN ? TE_STORE_RPC_TIMEOUT
						 : TE_STORE_RPC_FAIL;
}

/* ---- connections kept ---- */

static void close_conn(struct tes_dummy *dummy, struct tes_dummy_conn *conn)
	TEI_REQUIRES(dummy->mu)
{
	(void)close(conn->fd);
	tei_free(conn);
	dummy->n_conns--;
	tei_cond_broadcast(&dummy->freed);
}

/* Something came that nobody has asked for: its end, or a late answer. */
static bool has_news(const struct tes_dummy_conn *conn)
{
	struct pollfd pfd = {.fd = conn->fd, .events = POLLIN};

	return poll(&pfd, 1, 0) > 0;
}

/* References that are let go of go when the lock has been given back. */
static void let_go(struct tes_dummy *dummy, struct tes_dummy_conn *conn)
	TEI_REQUIRES(dummy->mu)
{
	struct tes_shelf *shelf = conn->shelf;

	tes_buffer_destroy(conn->lent);
	close_conn(dummy, conn);
	if (!shelf)
		return;
	tei_mutex_unlock(&dummy->mu);
	tes_shelf_put(shelf);
	tei_mutex_lock(&dummy->mu);
}

static struct tes_dummy_conn *settled(struct tes_dummy *dummy)
	TEI_REQUIRES(dummy->mu)
{
	tei_list_for_each (pos, &dummy->late) {
		struct tes_dummy_conn *conn =
			tei_list_entry(pos, struct tes_dummy_conn, link);

		if (conn->shelf ? tes_shelf_late(dummy, conn) : has_news(conn))
			return conn;
	}
	return NULL;
}

void tes_dummy_sweep(struct tes_dummy *dummy)
{
	struct tes_dummy_conn *conn;

	while ((conn = settled(dummy))) {
		tei_list_del(&conn->link);
		let_go(dummy, conn);
	}
}

bool tes_dummy_wait_freed(struct tes_dummy *dummy, uint64_t deadline_ns)
{
	uint64_t now = tei_now_ns(), next = now + ASK_AGAIN_NS;

	if (now >= deadline_ns)
		return false;
	(void)tei_cond_wait(&dummy->freed, &dummy->mu,
			    next < deadline_ns ? next : deadline_ns);
	return true;
}

static struct tes_dummy_conn *take_idle(struct tes_dummy *dummy)
	TEI_REQUIRES(dummy->mu)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&dummy->idle))) {
		struct tes_dummy_conn *conn =
			tei_list_entry(node, struct tes_dummy_conn, link);

		if (!has_news(conn))
			return conn;
		close_conn(dummy, conn);
	}
	return NULL;
}

static int connect_one(struct tes_dummy *dummy, uint64_t deadline_ns,
		       struct tes_dummy_conn **out) TEI_REQUIRES(dummy->mu)
{
	struct tes_dummy_session session = dummy->session;
	int code;

	dummy->connecting = true;
	dummy->n_conns++;
	tei_mutex_unlock(&dummy->mu);
	code = open_conn(dummy, &session, deadline_ns, out);
	tei_mutex_lock(&dummy->mu);
	dummy->connecting = false;
	dummy->session = session;
	if (code)
		dummy->n_conns--;
	tei_cond_broadcast(&dummy->freed);
	return code;
}

static void say_forked(const struct tes_dummy *dummy)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("store: this client of a daemon is of process %d, "
			 "which this one was forked off: open another one",
			 (int)dummy->pid);
}

int tes_dummy_connect(struct tes_dummy *dummy, uint64_t deadline_ns,
		      struct tes_dummy_conn **out)
{
	int code = TE_STORE_RPC_TIMEOUT;

	if (getpid() != dummy->pid) {
		say_forked(dummy);
		return TE_STORE_INVALID_PARAMS;
	}
	tei_mutex_lock(&dummy->mu);
	do {
		struct tes_dummy_conn *conn;

		tes_dummy_sweep(dummy);
		conn = take_idle(dummy);
		if (conn) {
			*out = conn;
			code = 0;
			break;
		}
		if (!dummy->connecting &&
		    dummy->n_conns < TES_DUMMY_CONNS_MAX) {
			code = connect_one(dummy, deadline_ns, out);
			break;
		}
	} while (tes_dummy_wait_freed(dummy, deadline_ns));
	tei_mutex_unlock(&dummy->mu);
	return code;
}

void tes_dummy_release(struct tes_dummy *dummy, struct tes_dummy_conn *conn,
		       int code, struct te_store_buffer *lent)
{
	tei_mutex_lock(&dummy->mu);
	if (!code) {
		tei_list_add_head(&dummy->idle, &conn->link);
		tei_cond_broadcast(&dummy->freed);
	} else if (code == TE_STORE_RPC_TIMEOUT) {
		conn->lent = lent;
		tei_list_add_tail(&dummy->late, &conn->link);
	} else {
		close_conn(dummy, conn);
	}
	tei_mutex_unlock(&dummy->mu);
}

void tes_dummy_disconnect(struct tes_dummy *dummy)
{
	struct tes_shelf *shelf;
	struct tei_list *node;

	tei_mutex_lock(&dummy->mu);
	tei_list_splice_tail(&dummy->idle, &dummy->late);
	while ((node = tei_list_pop(&dummy->idle)))
		let_go(dummy,
		       tei_list_entry(node, struct tes_dummy_conn, link));
	shelf = dummy->shelf;
	dummy->shelf = NULL;
	tei_mutex_unlock(&dummy->mu);
	tes_shelf_put(shelf);
}

/* ---- a call ---- */

static uint8_t *pack(struct tei_arena *arena, uint16_t type, uint64_t id,
		     const ProtobufCMessage *msg, size_t *len)
{
	const struct tei_frame f = {
		.type = type,
		.id = id,
		.len = msg ? protobuf_c_message_get_packed_size(msg) : 0};
	uint8_t *bytes;

	if (f.len > tes_agent_protocol.request[type])
		return NULL;
	*len = TEI_FRAME_HEADER_LEN + f.len;
	bytes = tei_arena_alloc(arena, *len);
	if (!bytes)
		return NULL;
	tei_frame_encode_header(bytes, &f);
	if (f.len)
		(void)protobuf_c_message_pack(msg,
					      bytes + TEI_FRAME_HEADER_LEN);
	return bytes;
}

/* Only the answer that we wait for may come. 0, -EPROTO. */
static int take_header(const uint8_t head[TEI_FRAME_HEADER_LEN], uint16_t type,
		       uint64_t id, size_t *len)
{
	struct tei_frame f;

	tei_frame_decode_header(head, &f);
	if (f.type != type || f.flags != TEI_FRAME_REPLY || f.id != id ||
	    f.len > tes_agent_protocol.reply[type])
		return -EPROTO;
	*len = f.len;
	return 0;
}

int tes_dummy_receive(struct tes_dummy_conn *conn, uint16_t type,
		      struct tei_arena *arena, uint64_t deadline_ns,
		      const uint8_t **body, size_t *len)
{
	uint8_t head[TEI_FRAME_HEADER_LEN], *bytes;
	int rc = receive_all(conn->fd, head, sizeof(head), deadline_ns);

	if (!rc)
		rc = take_header(head, type, conn->last_id, len);
	if (rc)
		return rc;
	/* An answer has begun: the daemon has let go. */
	bytes = tei_arena_alloc(arena, *len + 1);
	if (!bytes)
		return -ENOMEM;
	rc = receive_all(conn->fd, bytes, *len, deadline_ns);
	*body = bytes;
	return rc == -ETIMEDOUT ? -EPROTO : rc;
}

int tes_dummy_exchange(struct tes_dummy_conn *conn, uint16_t type,
		       const ProtobufCMessage *msg, struct tei_arena *arena,
		       uint64_t deadline_ns, const uint8_t **body, size_t *len)
{
	size_t n;
	uint8_t *bytes = pack(arena, type, ++conn->last_id, msg, &n);
	int rc;

	if (!bytes)
		return TE_STORE_INTERNAL_ERROR;
	rc = send_all(conn->fd, bytes, n, deadline_ns);
	if (!rc)
		rc = tes_dummy_receive(conn, type, arena, deadline_ns, body,
				       len);
	if (rc == -ETIMEDOUT)
		return TE_STORE_RPC_TIMEOUT;
	return rc ? TE_STORE_RPC_FAIL : 0;
}
