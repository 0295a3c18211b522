/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_listen.c - a listening port: whom it lets in, and who makes way for it
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/frame_private.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/thread.h"

/*
 * A turn accepts so many, and no more than begin within ACCEPT_NS: each takes
 * some 50 us, half of it to find the peer's user.
 */
#define N_ACCEPT_AT_ONCE 16
#define ACCEPT_NS        (TEI_NS_PER_MS / 8)
#define N_REFUSED_MAX    64
#define NO_FDS_PAUSE_US  (100 * 1000)
/*
 * Up to 128 KiB are read of a connection before it makes way: one that is
 * sending a large message has more behind that, and others wait.
 */
#define UNREAD_PIECE (16 * 1024)
#define N_UNREAD     8

/* ---- who makes way ---- */

void tei_frame_leave_server(struct tei_frame_conn *conn)
{
	struct tei_frame_server *server = conn->server;

	if (!server)
		return;
	tei_frame_peers_leave(&server->peers, conn);
	tei_list_del(&conn->link);
	conn->server = NULL;
	if (conn->refused)
		server->n_refused--;
	else
		server->n_conns--;
}

/* A close with unread input resets the connection, and the text is lost. */
static void drop_unread(int fd)
{
	uint8_t sink[UNREAD_PIECE];

	for (int i = 0; i < N_UNREAD; i++)
		if (recv(fd, sink, sizeof(sink), MSG_DONTWAIT | MSG_TRUNC) <= 0)
			return;
}

/* Closes the socket at once: who waits for its place needs the descriptor. */
void tei_frame_make_way(struct tei_frame_conn *conn, enum tei_frame_fault fault,
			const char *text)
{
	tei_frame_enter(conn);
	tei_frame_count(conn, fault);
	tei_frame_refuse_for_now(conn, text);
	if (conn->state != TEI_FRAME_ENDED)
		drop_unread(conn->fd);
	tei_frame_end(conn, -EPROTO);
	tei_frame_leave(conn);
}

#define IDLE_TEXT "it was idle, and others need its place"

void tei_frame_name(struct tei_frame_conn *conn,
		    const uint8_t name[TEI_FRAME_NAME_LEN])
{
	struct tei_frame_server *server = conn->server;
	struct tei_frame_conn *older;

	if (!server || !conn->holder)
		return;
	tei_frame_peers_name(&server->peers, conn, name);
	if (!server->config.n_each || conn->holder->n <= server->config.n_each)
		return;
	older = tei_frame_peers_older(&server->peers, conn);
	if (older)
		tei_frame_make_way(older, TEI_FRAME_IDLE, IDLE_TEXT);
}

/*
 * ---- newcomers ----
 *
 * A client that is not admitted (no member in protected mode, or one too
 * many) gets a connection without a user that delivers the reason. At most
 * N_REFUSED_MAX of those exist at a time; beyond that the socket is closed
 * without a text.
 */

/* Adds one that counts as refused, or else belongs to its source. */
static struct tei_frame_conn *add_conn(struct tei_frame_server *server, int fd,
				       const struct tei_address *peer,
				       uint32_t uid, bool refused)
{
	const struct tei_frame_server_config *config = &server->config;
	struct tei_frame_conn *conn;

	conn = tei_frame_create(server->loop, config->protocol, fd, peer,
				config->ops, config->arg);
	if (!conn)
		return NULL;
	conn->state = TEI_FRAME_UP;
	conn->server = server;
	/* A round ends however many come. */
	conn->round = server->round;
	conn->read_ns = UINT64_MAX / 2;
	tei_list_add_tail(&server->conns, &conn->link);
	conn->refused = refused;
	if (refused)
		server->n_refused++;
	else
		server->n_conns++;
	if ((!refused && tei_frame_peers_enter(&server->peers, conn, uid)) ||
	    event_add(&conn->readable, NULL)) {
		tei_frame_close(conn);
		return NULL;
	}
	return conn;
}

static void reject(struct tei_frame_server *server, int fd,
		   const struct tei_address *peer, enum tei_frame_fault fault,
		   const char *why)
{
	struct tei_frame_conn *conn;

	if (server->config.ops->fault)
		server->config.ops->fault(fault, server->config.arg);
	if (server->n_refused >= N_REFUSED_MAX) {
		close(fd);
		return;
	}
	conn = add_conn(server, fd, peer, TEI_PEER_NO_UID, true);
	if (!conn)
		return;
	if (fault == TEI_FRAME_FULL)
		tei_frame_refuse_for_now(conn, why);
	else
		tei_frame_refuse(conn, why);
	tei_frame_close(conn);
}

/* False: the peer is not served, and @fd is taken care of. */
static bool judge(struct tei_frame_server *server, int fd,
		  const struct tei_address *peer, uint32_t *uid)
{
	char why[TEI_PEER_TEXT_MAX];

	switch (tei_peer_admit_user(&server->rule, fd, peer,
				    server->config.protocol->name, why, uid)) {
	case TEI_PEER_REFUSED:
		reject(server, fd, peer, TEI_FRAME_PROTECTED, why);
		return false;
	case TEI_PEER_BUSY:
		reject(server, fd, peer, TEI_FRAME_FULL, why);
		return false;
	case TEI_PEER_GONE:
		close(fd);
		return false;
	default:
		return true;
	}
}

/* No connection makes way for this one. */
static void turn_away(struct tei_frame_server *server,
		      struct tei_frame_conn *conn)
{
	tei_frame_count(conn, TEI_FRAME_FULL);
	if (server->n_refused < N_REFUSED_MAX) {
		tei_frame_peers_leave(&server->peers, conn);
		conn->refused = true;
		server->n_conns--;
		server->n_refused++;
		tei_frame_refuse_for_now(conn, "too many connections");
	}
	tei_frame_close(conn);
}

/* The rest of the descriptors is for data connections and files. */
static bool is_full(const struct tei_frame_server *server)
{
	unsigned int n_max = server->config.n_max;
	struct rlimit limit;

	if (!n_max)
		return false;
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / 2 < n_max)
		n_max = (unsigned int)(limit.rlim_cur / 2);
	return server->n_conns > n_max;
}

/* False: none makes way. */
static bool make_room(struct tei_frame_server *server,
		      const struct tei_frame_conn *comer)
{
	struct tei_frame_conn *idlest =
		tei_frame_peers_idlest(&server->peers, comer);

	if (idlest)
		tei_frame_make_way(idlest, TEI_FRAME_IDLE, IDLE_TEXT);
	return idlest != NULL;
}

static void admit(struct tei_frame_server *server, int fd,
		  const struct tei_address *peer)
{
	const struct tei_frame_server_config *config = &server->config;
	struct tei_frame_conn *conn;
	uint32_t uid;

	if (!judge(server, fd, peer, &uid))
		return;
	conn = add_conn(server, fd, peer, uid, false);
	if (!conn)
		return; /* out of memory: the peer sees a reset and tries on */
	if (is_full(server) && !make_room(server, conn)) {
		turn_away(server, conn);
		return;
	}
	tei_frame_enter(conn);
	conn->hello_max = config->hello_max;
	tei_frame_expect(conn, config->hello_ms);
	if (config->accepted)
		config->accepted(conn, config->arg);
	tei_frame_leave(conn);
}

static int accept_one(int listener, struct tei_address *peer)
{
	int fd;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	memset(peer, 0, sizeof(*peer));
	peer->len = sizeof(peer->ss);
	fd = accept4(listener, (struct sockaddr *)&peer->ss, &peer->len,
		     SOCK_CLOEXEC | SOCK_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Level-triggered, a backlog that cannot be taken would spin the loop. */
static void pause_accepting(struct tei_frame_server *server, int err)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	const struct timeval pause = {.tv_usec = NO_FDS_PAUSE_US};

	if (tei_log_allowed(&limit))
		LOG_WARN("%s: accept: %s", server->config.protocol->name,
			 strerror(-err));
	event_del(&server->acceptable);
	event_add(&server->resume, &pause);
}

static void free_server(struct tei_frame_server *server)
{
	tei_frame_peers_fini(&server->peers);
	tei_free(server);
}

static void on_acceptable(evutil_socket_t listener, short what, void *arg)
{
	struct tei_frame_server *server = arg;
	uint64_t until_ns = tei_now_ns() + ACCEPT_NS;
	struct tei_address peer;
	bool made_room = false;

	(void)what;
	tei_loop_note(server->loop);
	server->accepting = true;
	for (int i = 0; i < N_ACCEPT_AT_ONCE && !server->closed; i++) {
		int fd = accept_one((int)listener, &peer);

		if (fd >= 0) {
			admit(server, fd, &peer);
			made_room = false;
			if (tei_now_ns() >= until_ns)
				break;
		} else if (tei_is_shortage(fd)) {
			made_room = !made_room && make_room(server, NULL);
			if (made_room)
				continue;
			pause_accepting(server, fd);
			break;
		} else if (fd == -EAGAIN) {
			break;
		} /* else that peer's trouble, as -ECONNABORTED */
	}
	server->accepting = false;
	if (server->closed)
		free_server(server);
}

static void on_resume_accepting(evutil_socket_t fd, short what, void *arg)
{
	struct tei_frame_server *server = arg;

	(void)fd;
	(void)what;
	if (event_add(&server->acceptable, NULL))
		pause_accepting(server, -ENOMEM);
}

int tei_frame_listen(struct tei_loop *loop,
		     const struct tei_frame_server_config *config,
		     uint16_t *out_port, struct tei_frame_server **out)
{
	struct event_base *base = tei_loop_base(loop);
	struct tei_frame_server *server;
	int rc;

	TEI_DEBUG_ASSERT(tei_loop_is_mine(loop));
	server = tei_calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->loop = loop;
	server->config = *config;
	tei_list_init(&server->conns);
	rc = tei_peer_rule_init(&server->rule, config->insecure,
				config->allow_uids);
	if (rc)
		goto free_memory;
	rc = tei_frame_peers_init(&server->peers);
	if (rc)
		goto free_memory;
	rc = tei_listen(config->host, config->port, config->protocol->name,
			out_port);
	if (rc < 0)
		goto fini_peers;
	server->fd = rc;
	event_assign(&server->acceptable, base, server->fd,
		     EV_READ | EV_PERSIST, on_acceptable, server);
	event_assign(&server->resume, base, -1, 0, on_resume_accepting, server);
	if (event_add(&server->acceptable, NULL)) {
		rc = -ENOMEM;
		goto close_fd;
	}
	*out = server;
	return 0;

close_fd:
	close(server->fd);
fini_peers:
	tei_frame_peers_fini(&server->peers);
free_memory:
	tei_free(server);
	assert(rc < 0);
	return rc;
}

void tei_frame_server_close(struct tei_frame_server *server)
{
	event_del(&server->acceptable);
	event_del(&server->resume);
	/* A forked child has it too, so close() alone would keep the port. */
	(void)shutdown(server->fd, SHUT_RDWR);
	close(server->fd);
	while (!tei_list_empty(&server->conns))
		tei_frame_leave_server(tei_list_entry(
			server->conns.next, struct tei_frame_conn, link));
	if (server->accepting)
		server->closed = true;
	else
		free_server(server);
}
