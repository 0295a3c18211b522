/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door.c - the daemon's ports: the unix socket with its greeting, and the TCP
 * port
 *
 * The kernel says who connects (SO_PEERCRED); nothing of the greeting is
 * believed for that.
 */
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "store/daemon/agent_private.h"

/* ---- the path of the unix socket ---- */

/*
 * The directory is the user's alone. A socket that lies there already is
 * somebody's who serves, or was left by one who was killed; only then is it
 * taken away.
 */

#define SWEEP_MAX 1024
#define YOUNG_S   60 /* by the wall clock: a file's age, no more */

static int own_dir(char dir[TES_AGENT_PATH_MAX])
{
	int rc = -ENOENT;

	for (unsigned int i = 0; i < TES_AGENT_DIRS; i++) {
		if (tes_agent_dir(i, dir))
			continue;
		if (mkdir(dir, 0700) && errno != EEXIST)
			rc = -errno;
		else
			rc = tes_agent_dir_check(dir);
		if (!rc)
			return 0;
		LOG_WARN("dummies: directory %s: %s", dir,
			 rc == -EPERM ? "not ours alone" : strerror(-rc));
	}
	return rc;
}

/*
 * Nobody listens there: what a killed daemon has left. Only of a socket, a
 * plain file refuses in the same way.
 */
static bool is_left(const struct sockaddr_un *un)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err = 0;

	if (fd < 0)
		return false;
	if (connect(fd, (const struct sockaddr *)un, sizeof(*un)))
		err = errno;
	(void)close(fd);
	return err == ECONNREFUSED;
}

/*
 * Removes sockets of daemons that were killed, whose port may never come again;
 * not those made a moment ago: their daemon may not listen yet.
 */
static void sweep(const char *dir)
{
	DIR *entries = opendir(dir);
	struct dirent *entry;

	for (int i = 0; entries && i < SWEEP_MAX && (entry = readdir(entries));
	     i++) {
		struct sockaddr_un un = {.sun_family = AF_UNIX};
		struct stat st;
		int n;

		if (strncmp(entry->d_name, "client-", 7))
			continue;
		n = snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s", dir,
			     entry->d_name);
		if (n > 0 && (size_t)n < sizeof(un.sun_path) &&
		    !lstat(un.sun_path, &st) && S_ISSOCK(st.st_mode) &&
		    st.st_ctime + YOUNG_S < time(NULL) && is_left(&un))
			(void)unlink(un.sun_path);
	}
	if (entries)
		(void)closedir(entries);
}

/* 0, -EADDRINUSE, -EEXIST: that is no socket, and not ours to remove. */
static int take_away(const struct sockaddr_un *un)
{
	struct stat st;

	if (lstat(un->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	if (!is_left(un))
		return -EADDRINUSE;
	return unlink(un->sun_path) ? -errno : 0;
}

/* Users that are allowed by name need to connect to be looked at. */
static mode_t door_mode(const struct tes_agent *agent)
{
	if (agent->rule.uids.n)
		return 0666;
	return agent->has_group ? 0660 : 0600;
}

/*
 * Bind the socket @fd there. 0, -EADDRINUSE, -EEXIST: what lies there is no
 * socket; or what a call said.
 */
static int door_bind(struct tes_agent *agent, int fd)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	const struct sockaddr *addr = (const struct sockaddr *)&un;
	struct stat st;
	int rc;

	memcpy(un.sun_path, agent->path, sizeof(un.sun_path));
	if (bind(fd, addr, sizeof(un))) {
		if (errno != EADDRINUSE)
			return -errno;
		rc = take_away(&un);
		if (rc)
			return rc;
		if (bind(fd, addr, sizeof(un)))
			return -errno;
	}
	if (lstat(agent->path, &st))
		return -errno;
	agent->path_dev = st.st_dev;
	agent->path_ino = st.st_ino;
	if (agent->has_group && chown(agent->path, (uid_t)-1, agent->group))
		return -errno;
	return chmod(agent->path, door_mode(agent)) ? -errno : 0;
}

/* Take ours away, and nothing that somebody else has put in its place. */
static void door_unlink(struct tes_agent *agent)
{
	struct stat st;

	if (agent->path_ino && !lstat(agent->path, &st) &&
	    st.st_dev == agent->path_dev && st.st_ino == agent->path_ino)
		(void)unlink(agent->path);
	agent->path_ino = 0;
}

static int find_path(struct tes_agent *agent,
		     const struct tes_agent_config *config)
{
	char dir[TES_AGENT_PATH_MAX];
	int rc;

	if (config->socket_path && *config->socket_path) {
		if (strlen(config->socket_path) >= sizeof(agent->path))
			return -ENAMETOOLONG;
		memcpy(agent->path, config->socket_path,
		       strlen(config->socket_path) + 1);
		return 0;
	}
	rc = own_dir(dir);
	if (rc)
		return rc;
	sweep(dir);
	return tes_agent_path(dir, agent->port, agent->path);
}

static int find_group(struct tes_agent *agent, const char *name)
{
	struct group group, *found = NULL;
	char text[4096];

	if (!name || !*name)
		return 0;
	if (getgrnam_r(name, &group, text, sizeof(text), &found) || !found) {
		LOG_ERROR("dummies: no group %s", name);
		return -ENOENT;
	}
	agent->group = group.gr_gid;
	agent->has_group = true;
	return 0;
}

int tes_door_find(struct tes_agent *agent,
		  const struct tes_agent_config *config)
{
	int rc = tei_peer_rule_init(&agent->rule, false, config->allow_uids);

	if (rc) {
		LOG_ERROR("dummies: allow_uids \"%s\" is no list of users",
			  config->allow_uids);
		return rc;
	}
	rc = find_path(agent, config);
	if (!rc)
		return find_group(agent, config->socket_group);
	LOG_ERROR("dummies: no directory for the socket: %s: name a "
		  "path by socket_path",
		  strerror(-rc));
	return rc;
}

#define GREETERS_MAX  64
#define GREETERS_EACH 32 /* of one user */
#define GREETING_S    2
#define AT_ONCE       16
#define PAUSE_MS      100
#define GROUPS_MAX    256

/* Connection of a process that has not yet said what it wants. */
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
	return tei_peer_is_member(&agent->rule, cred->uid) ||
	       (agent->has_group && is_in_group(fd, cred, agent->group));
}

/* ---- the greeting ---- */

/* Takes the socket out of @greeter, which is freed. */
static int leave_door(struct greeter *greeter)
{
	int fd = greeter->fd;

	(void)event_del(&greeter->readable);
	tei_list_del(&greeter->link);
	greeter->agent->n_greeters--;
	tei_free(greeter);
	return fd;
}

static enum tes_greeting_status check_greeting(struct greeter *greeter,
					       const struct tes_greeting *g,
					       int fd, unsigned int n_fds,
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
	return tes_session_open(agent, fd, g->length, &greeter->cred, out);
}

/* Advice for the log: the setting that the operator may want to change. */
static const char *way_out(enum tes_greeting_status status)
{
	switch (status) {
	case TES_GREETING_NOT_ALLOWED:
		return "; neither our user nor in --allow_uids or --socket_group";
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

static void answer_greeting(struct greeter *greeter,
			    enum tes_greeting_status status,
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
	fd = leave_door(greeter);
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
		answer_greeting(greeter, TES_GREETING_NO_BUFFERS, NULL);
		return;
	}
	g.length = session->buffers->length;
	agent->stats.refused[TES_GREETED]++;
	fd = leave_door(greeter);
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
		(void)close(leave_door(greeter));
		return;
	}
	rc = tes_greeting_receive(greeter->fd, &g, &fd, &n_fds);
	if (rc == -EAGAIN)
		return;
	if (rc == -EBADMSG)
		answer_greeting(greeter, TES_GREETING_BAD, NULL);
	else if (rc)
		(void)close(leave_door(greeter));
	if (!rc) {
		status = check_greeting(greeter, &g, fd, n_fds, &session);
		if (session && g.word == TES_GREETING_BUFFERS)
			hand_out_buffers(greeter, session);
		else
			answer_greeting(greeter, status, session);
	}
	if (fd >= 0)
		(void)close(fd); /* a mapping needs it no more */
}

/*
 * A dummy greets at once. When too many connections wait for a greeting, of all
 * users or of one, the oldest is closed: connections that never greet cannot
 * keep dummies out.
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
	(void)close(leave_door(oldest));
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
		(void)close(leave_door(greeter));
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
		if (!tei_is_shortage(-errno))
			return;
		if (!tes_session_make_way(agent)) {
			(void)event_del(&agent->acceptable);
			(void)tei_alarm_set(&agent->again, PAUSE_MS);
			return;
		}
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
		rc = door_bind(agent, agent->listener);
	if (!rc && listen(agent->listener, GREETERS_MAX))
		rc = -errno;
	if (rc) {
		LOG_ERROR("dummies: socket %s: %s", agent->path,
			  rc == -EEXIST ? "this file is no socket"
					: strerror(-rc));
		door_unlink(agent);
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
	door_unlink(agent);
	(void)close(agent->listener);
	agent->listener = -1;
	while (!tei_list_empty(&agent->greeters))
		(void)close(leave_door(tei_list_entry(agent->greeters.next,
						      struct greeter, link)));
}

/*
 * The TCP port answers one question a connection: the path of the unix socket.
 * Credentials are checked when the asker connects there.
 */

#define ASKERS_MAX 64
#define ASK_MS     2000
#define ASK_BYTES  64

struct asker {
	struct tes_agent *agent;
	struct tei_list link; /* in agent->askers */
	struct tei_frame_conn *conn;
};

static void leave_where(struct asker *asker)
{
	tei_list_del(&asker->link);
	tei_frame_close(asker->conn);
	tei_free(asker);
}

static void on_question(struct tei_frame_conn *conn, const struct tei_frame *f,
			void *arg)
{
	Agent__WhereReply reply = AGENT__WHERE_REPLY__INIT;
	struct asker *asker = arg;

	if (f->type != AGENT__AGENT_TYPE__AGENT_WHERE || f->flags || !f->id) {
		tei_frame_bad(conn, "only asked where dummies are served");
		return;
	}
	/* Relaxed: a number for people. */
	atomic_fetch_add_explicit(&asker->agent->stats.calls[f->type], 1,
				  memory_order_relaxed);
	reply.path = asker->agent->path;
	(void)tei_frame_reply(conn, f, &reply.base);
	leave_where(asker);
}

static void on_end(struct tei_frame_conn *conn, int err, const char *text,
		   void *arg)
{
	(void)conn;
	(void)err;
	(void)text;
	leave_where(arg);
}

static void on_fault(enum tei_frame_fault fault, void *arg)
{
	struct tes_agent *agent = arg;

	agent->stats.faults[fault]++;
}

static void on_asker_fault(enum tei_frame_fault fault, void *arg)
{
	const struct asker *asker = arg;

	on_fault(fault, asker->agent);
}

static const struct tei_frame_ops ask_ops = {
	.frame = on_question,
	.down = on_end,
	.fault = on_asker_fault,
};

/* Nobody stays who has not become an asker. */
static const struct tei_frame_ops port_ops = {.fault = on_fault};

static void on_accepted(struct tei_frame_conn *conn, void *arg)
{
	struct tes_agent *agent = arg;
	struct asker *asker = tei_calloc(1, sizeof(*asker));

	if (!asker) {
		tei_frame_refuse_for_now(conn, "out of memory");
		tei_frame_close(conn);
		return;
	}
	asker->agent = agent;
	asker->conn = conn;
	tei_list_add_tail(&agent->askers, &asker->link);
	tei_frame_set_ops(conn, &ask_ops, asker);
}

int tes_where_open(struct tes_agent *agent,
		   const struct tes_agent_config *config)
{
	const struct tei_frame_server_config server = {
		.protocol = &tes_agent_protocol,
		.host = config->host,
		.port = config->port,
		.insecure = config->insecure,
		.allow_uids = config->allow_uids,
		.n_max = ASKERS_MAX,
		.hello_ms = ASK_MS,
		.hello_max = ASK_BYTES,
		.ops = &port_ops,
		.arg = agent,
		.accepted = on_accepted,
	};

	return tei_frame_listen(agent->loop, &server, &agent->port,
				&agent->port_server);
}

void tes_where_close(struct tes_agent *agent)
{
	if (!agent->port_server)
		return;
	tei_frame_server_close(agent->port_server);
	agent->port_server = NULL;
	while (!tei_list_empty(&agent->askers))
		leave_where(
			tei_list_entry(agent->askers.next, struct asker, link));
}
