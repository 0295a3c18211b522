/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_server.c - a listening port and who is let in
 *
 * Strangers, and whoever comes when all places are taken, are told so: they
 * get a connection without user that delivers the text. Those are few at a
 * time; beyond that the door is shut without a word.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/frame_private.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/thread.h"

#define N_ACCEPT_AT_ONCE 64
#define N_REFUSED_MAX    64
#define NO_FDS_PAUSE_US  (100 * 1000)

struct tei_frame_server {
	struct tei_loop *loop;
	struct tei_frame_server_config config;
	int fd;
	struct event acceptable, again;
	struct tei_list conns; /* all that count here */
	unsigned int n_conns, n_refused;
	bool accepting, closed; /* inside on_acceptable(); closed in there */
};

void tei_frame_server_forget(struct tei_frame_conn *conn)
{
	struct tei_frame_server *server = conn->server;

	if (!server)
		return;
	tei_list_del(&conn->link);
	conn->server = NULL;
	if (conn->stranger)
		server->n_refused--;
	else
		server->n_conns--;
}

static struct tei_frame_conn *add_conn(struct tei_frame_server *server, int fd,
				       const struct tei_address *peer)
{
	const struct tei_frame_server_config *config = &server->config;
	struct tei_frame_conn *conn;

	conn = tei_frame_conn_create(server->loop, config->protocol, fd, peer,
				     config->ops, config->arg);
	if (!conn)
		return NULL;
	conn->state = TEI_FRAME_UP;
	conn->server = server;
	tei_list_add_tail(&server->conns, &conn->link);
	server->n_conns++;
	if (event_add(&conn->readable, NULL)) {
		tei_frame_close(conn);
		return NULL;
	}
	return conn;
}

static void turn_away(struct tei_frame_server *server, int fd,
		      const struct tei_address *peer,
		      enum tei_frame_fault fault, const char *text)
{
	struct tei_frame_conn *conn;

	if (server->config.ops->fault)
		server->config.ops->fault(fault, server->config.arg);
	if (server->n_refused >= N_REFUSED_MAX) {
		close(fd);
		return;
	}
	conn = add_conn(server, fd, peer);
	if (!conn)
		return;
	conn->stranger = true;
	server->n_conns--;
	server->n_refused++;
	if (fault == TEI_FRAME_CROWD)
		tei_frame_refuse_for_now(conn, text);
	else
		tei_frame_refuse(conn, text);
	tei_frame_close(conn);
}

static void let_in(struct tei_frame_server *server, int fd,
		   const struct tei_address *peer)
{
	const struct tei_frame_server_config *config = &server->config;
	struct tei_frame_conn *conn;

	if (!tei_peer_allowed(peer, config->insecure, config->protocol->name)) {
		turn_away(server, fd, peer, TEI_FRAME_STRANGER,
			  TEI_PROTECTED_TEXT);
		return;
	}
	if (config->n_max && server->n_conns >= config->n_max) {
		turn_away(server, fd, peer, TEI_FRAME_CROWD,
			  "too many connections");
		return;
	}
	conn = add_conn(server, fd, peer);
	if (!conn)
		return; /* out of memory: the peer sees a reset and tries on */
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
	event_add(&server->again, &pause);
}

static void on_acceptable(evutil_socket_t listener, short what, void *arg)
{
	struct tei_frame_server *server = arg;
	struct tei_address peer;

	(void)what;
	tei_loop_note(server->loop);
	server->accepting = true;
	for (int i = 0; i < N_ACCEPT_AT_ONCE && !server->closed; i++) {
		int fd = accept_one((int)listener, &peer);

		if (fd >= 0) {
			let_in(server, fd, &peer);
		} else if (tei_is_shortage(fd)) {
			pause_accepting(server, fd);
			break;
		} else if (fd == -EAGAIN) {
			break;
		} /* else that peer's trouble, as -ECONNABORTED */
	}
	server->accepting = false;
	if (server->closed)
		tei_free(server);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
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
	rc = tei_listen(config->host, config->port, config->protocol->name,
			out_port);
	if (rc < 0)
		goto free_server;
	server->fd = rc;
	event_assign(&server->acceptable, base, server->fd,
		     EV_READ | EV_PERSIST, on_acceptable, server);
	event_assign(&server->again, base, -1, 0, on_again, server);
	if (event_add(&server->acceptable, NULL)) {
		rc = -ENOMEM;
		goto close_fd;
	}
	*out = server;
	return 0;

close_fd:
	close(server->fd);
free_server:
	tei_free(server);
	assert(rc < 0);
	return rc;
}

void tei_frame_server_close(struct tei_frame_server *server)
{
	struct tei_list *node;

	event_del(&server->acceptable);
	event_del(&server->again);
	/* A forked child has it too, so close() alone would keep the port. */
	(void)shutdown(server->fd, SHUT_RDWR);
	close(server->fd);
	while ((node = tei_list_pop(&server->conns)))
		TEI_CONTAINER(node, struct tei_frame_conn, link)->server = NULL;
	if (server->accepting)
		server->closed = true;
	else
		tei_free(server);
}
