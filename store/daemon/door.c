/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door.c - the unix socket: who may come in, the greeting
 *
 * Who connects is asked who he is: the kernel says.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "store/daemon/agent_private.h"

#define GREETERS_MAX  64
#define GREETERS_EACH 32 /* of one user */
#define GREETING_S    2
#define AT_ONCE       16
#define PAUSE_MS      100
#define GROUPS_MAX    256

/* Somebody who has connected and not yet said what he wants. */
struct greeter {
	struct tes_agent *agent;
	struct tei_list link; /* in agent->greeters */
	int fd;
	struct ucred cred;
	struct event readable;
};

/* ---- who may come in ---- */

static bool is_in_group(int fd, const struct ucred *cred, gid_t group)
{
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(groups);

	if (cred->gid == group)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len))
		return false;
	for (size_t i = 0; i < len / sizeof(groups[0]); i++)
		if (groups[i] == group)
			return true;
	return false;
}

static bool is_allowed(const struct tes_agent *agent, int fd,
		       const struct ucred *cred)
{
	return cred->uid == geteuid() || cred->uid == 0 ||
	       (agent->has_group && is_in_group(fd, cred, agent->group));
}

/* ---- the greeting ---- */

/* Takes the socket out of @greeter, which is freed. */
static int leave(struct greeter *greeter)
{
	int fd = greeter->fd;

	(void)event_del(&greeter->readable);
	tei_list_del(&greeter->link);
	greeter->agent->n_greeters--;
	tei_free(greeter);
	return fd;
}

static enum tes_greeting_status judge(struct greeter *greeter,
				      const struct tes_greeting *g, int fd,
				      unsigned int n_fds,
				      struct tes_agent_session **out)
{
	struct tes_agent *agent = greeter->agent;

	if (g->version != TES_AGENT_VERSION)
		return TES_GREETING_VERSION;
	if (!is_allowed(agent, greeter->fd, &greeter->cred))
		return TES_GREETING_NOT_ALLOWED;
	if (g->word == TES_GREETING_JOIN || g->word == TES_GREETING_BUFFERS)
		return n_fds ? TES_GREETING_FDS
			     : tes_session_find(agent, g, greeter->cred.pid,
						out);
	if (g->word != TES_GREETING_NEW)
		return TES_GREETING_BAD;
	if (n_fds != 1)
		return n_fds ? TES_GREETING_FDS : TES_GREETING_NO_FD;
	return tes_session_open(agent, fd, g->length, greeter->cred.pid, out);
}

/* What whoever runs the daemon may want to change. */
static const char *way_out(enum tes_greeting_status status)
{
	switch (status) {
	case TES_GREETING_NOT_ALLOWED:
		return "; neither our user nor in --socket_group";
	case TES_GREETING_TOO_LARGE:
		return "; more than --dummy_memory_each_max";
	case TES_GREETING_NO_MEMORY:
		return "; no room in --dummy_memory_max, or none to map";
	default:
		return "";
	}
}

static void warn_refused(const struct greeter *greeter,
			 enum tes_greeting_status status)
{
	if (tei_log_allowed(&greeter->agent->refusals))
		LOG_WARN("dummies: refused: %s (pid %d, uid %u)%s",
			 tes_greeting_status_name(status),
			 (int)greeter->cred.pid,
			 (unsigned int)greeter->cred.uid, way_out(status));
}

static void answer(struct greeter *greeter, enum tes_greeting_status status,
		   struct tes_agent_session *session)
{
	struct tes_agent *agent = greeter->agent;
	struct tes_greeting g = {
		.version = TES_AGENT_VERSION,
		.word = (uint16_t)status,
	};
	int fd;

	if (status != TES_GREETED && status != TES_GREETING_NO_BUFFERS)
		warn_refused(greeter, status);
	agent->stats.refused[status]++;
	fd = leave(greeter);
	if (session) {
		g.session = session->id;
		g.region = session->memory.id;
		memcpy(g.token, session->token, sizeof(g.token));
	}
	if (!tes_greeting_send(fd, &g, -1) && session) {
		tes_session_connect(session, fd);
		return;
	}
	(void)close(fd);
	if (session && !session->n_conns)
		tes_session_end(session);
}

/* The memory that its values may lie in; then the connection ends. */
static void hand_out_buffers(struct greeter *greeter,
			     struct tes_agent_session *session)
{
	struct tes_agent *agent = greeter->agent;
	struct tes_greeting g = {.version = TES_AGENT_VERSION};
	int fd;

	if (!session->buffers &&
	    tes_agent_buffers_create(agent->store, &agent->budget,
				     &session->buffers)) {
		answer(greeter, TES_GREETING_NO_BUFFERS, NULL);
		return;
	}
	g.length = session->buffers->length;
	agent->stats.refused[TES_GREETED]++;
	fd = leave(greeter);
	(void)tes_greeting_send(fd, &g, session->buffers->fd);
	(void)close(fd);
}

static void on_greeting(evutil_socket_t socket, short what, void *arg)
{
	struct greeter *greeter = arg;
	struct tes_agent_session *session = NULL;
	enum tes_greeting_status status;
	struct tes_greeting g;
	unsigned int n_fds;
	int fd, rc;

	(void)socket;
	tei_loop_note(greeter->agent->loop);
	if (what & EV_TIMEOUT) {
		greeter->agent->stats.silent++;
		(void)close(leave(greeter));
		return;
	}
	rc = tes_greeting_receive(greeter->fd, &g, &fd, &n_fds);
	if (rc == -EAGAIN)
		return;
	if (rc == -EBADMSG)
		answer(greeter, TES_GREETING_BAD, NULL);
	else if (rc)
		(void)close(leave(greeter));
	if (!rc) {
		status = judge(greeter, &g, fd, n_fds, &session);
		if (session && g.word == TES_GREETING_BUFFERS)
			hand_out_buffers(greeter, session);
		else
			answer(greeter, status, session);
	}
	if (fd >= 0)
		(void)close(fd); /* a mapping needs it no more */
}

/*
 * Who greets does so at once. When there are too many, of all or of one user,
 * the one that has been silent for longest makes room: nobody who means it is
 * shut out by those who only connect.
 */
static void make_room(struct tes_agent *agent, uid_t uid)
{
	struct greeter *oldest = NULL;
	unsigned int n = 0;

	tei_list_for_each (pos, &agent->greeters) {
		struct greeter *g = tei_list_entry(pos, struct greeter, link);

		if (g->cred.uid != uid)
			continue;
		if (!n++)
			oldest = g;
	}
	if (n < GREETERS_EACH && agent->n_greeters < GREETERS_MAX)
		return;
	if (!oldest)
		oldest = tei_list_entry(agent->greeters.next, struct greeter,
					link);
	agent->stats.silent++;
	(void)close(leave(oldest));
}

static void greet(struct tes_agent *agent, int fd)
{
	const struct timeval limit = {.tv_sec = GREETING_S};
	struct greeter *greeter = NULL;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len)) {
		make_room(agent, cred.uid);
		greeter = tei_calloc(1, sizeof(*greeter));
	}
	if (!greeter) {
		(void)close(fd);
		return;
	}
	greeter->agent = agent;
	greeter->fd = fd;
	greeter->cred = cred;
	tei_list_add_tail(&agent->greeters, &greeter->link);
	agent->n_greeters++;
	(void)event_assign(&greeter->readable, tei_loop_base(agent->loop), fd,
			   EV_READ | EV_PERSIST, on_greeting, greeter);
	if (event_add(&greeter->readable, &limit))
		(void)close(leave(greeter));
}

static void on_acceptable(evutil_socket_t listener, short what, void *arg)
{
	struct tes_agent *agent = arg;

	(void)what;
	tei_loop_note(agent->loop);
	for (int i = 0; i < AT_ONCE; i++) {
		int fd = -1;

		errno = EMFILE;
		if (!tei_fault_check(TEI_FAULT_SOCKET))
			fd = accept4((int)listener, NULL, NULL,
				     SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			greet(agent, fd);
			continue;
		}
		if (tei_is_shortage(-errno)) {
			(void)event_del(&agent->acceptable);
			(void)tei_alarm_set(&agent->again, PAUSE_MS);
		}
		return;
	}
}

static void on_again(void *arg)
{
	struct tes_agent *agent = arg;

	if (event_add(&agent->acceptable, NULL))
		(void)tei_alarm_set(&agent->again, PAUSE_MS);
}

/* ---- the socket ---- */

int tes_door_open(struct tes_agent *agent)
{
	int rc = -EMFILE;

	agent->listener = -1;
	tei_alarm_init(&agent->again, agent->loop, on_again, agent);
	if (!tei_fault_check(TEI_FAULT_SOCKET)) {
		agent->listener = socket(
			AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		rc = agent->listener < 0 ? -errno : 0;
	}
	if (!rc)
		rc = tes_door_bind(agent, agent->listener);
	if (!rc && listen(agent->listener, GREETERS_MAX))
		rc = -errno;
	if (rc) {
		LOG_ERROR("dummies: socket %s: %s", agent->path,
			  rc == -EEXIST ? "this file is no socket"
					: strerror(-rc));
		tes_door_unlink(agent);
		if (agent->listener >= 0)
			(void)close(agent->listener);
		agent->listener = -1;
		return rc;
	}
	(void)event_assign(&agent->acceptable, tei_loop_base(agent->loop),
			   agent->listener, EV_READ | EV_PERSIST, on_acceptable,
			   agent);
	if (event_add(&agent->acceptable, NULL)) {
		tes_door_close(agent);
		return -ENOMEM;
	}
	return 0;
}

void tes_door_close(struct tes_agent *agent)
{
	if (agent->listener < 0)
		return;
	(void)event_del(&agent->acceptable);
	tei_alarm_clear(&agent->again);
	tes_door_unlink(agent);
	(void)close(agent->listener);
	agent->listener = -1;
	while (!tei_list_empty(&agent->greeters))
		(void)close(leave(tei_list_entry(agent->greeters.next,
						 struct greeter, link)));
}
