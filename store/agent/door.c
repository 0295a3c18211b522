/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door.c - the unix socket: where it lies, who may come in, the greeting
 *
 * The directory is the user's alone, and who connects is asked who he is: the
 * kernel says. A socket that lies there already is somebody's who serves, or
 * was left by one who was killed; only then is it taken away.
 */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "store/agent/agent_private.h"

#define GREETERS_MAX  64
#define GREETERS_EACH 32 /* of one user */
#define GREETING_S    2
#define AT_ONCE       16
#define PAUSE_MS      100
#define GROUPS_MAX    256
#define SWEEP_MAX     1024
#define YOUNG_S       60 /* by the wall clock: a file's age, no more */

/* Somebody who has connected and not yet said what he wants. */
struct greeter {
	struct tei_agent *agent;
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

static bool is_allowed(const struct tei_agent *agent, int fd,
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

static enum tei_greeting_status judge(struct greeter *greeter,
				      const struct tei_greeting *g, int fd,
				      unsigned int n_fds,
				      struct tei_agent_session **out)
{
	struct tei_agent *agent = greeter->agent;

	if (g->version != TEI_AGENT_VERSION)
		return TEI_GREETING_VERSION;
	if (!is_allowed(agent, greeter->fd, &greeter->cred))
		return TEI_GREETING_NOT_ALLOWED;
	if (g->word == TEI_GREETING_JOIN || g->word == TEI_GREETING_BUFFERS)
		return n_fds ? TEI_GREETING_FDS
			     : tei_session_find(agent, g, greeter->cred.pid,
						out);
	if (g->word != TEI_GREETING_NEW)
		return TEI_GREETING_BAD;
	if (n_fds != 1)
		return n_fds ? TEI_GREETING_FDS : TEI_GREETING_NO_FD;
	return tei_session_open(agent, fd, g->length, greeter->cred.pid, out);
}

/* What whoever runs the daemon may want to change. */
static const char *way_out(enum tei_greeting_status status)
{
	switch (status) {
	case TEI_GREETING_NOT_ALLOWED:
		return "; neither our user nor in --socket_group";
	case TEI_GREETING_TOO_LARGE:
		return "; more than --dummy_memory_each_max";
	case TEI_GREETING_NO_MEMORY:
		return "; no room in --dummy_memory_max, or none to map";
	default:
		return "";
	}
}

static void warn_refused(const struct greeter *greeter,
			 enum tei_greeting_status status)
{
	if (tei_log_allowed(&greeter->agent->refusals))
		LOG_WARN("dummies: refused: %s (pid %d, uid %u)%s",
			 tei_greeting_status_name(status),
			 (int)greeter->cred.pid,
			 (unsigned int)greeter->cred.uid, way_out(status));
}

static void answer(struct greeter *greeter, enum tei_greeting_status status,
		   struct tei_agent_session *session)
{
	struct tei_agent *agent = greeter->agent;
	struct tei_greeting g = {
		.version = TEI_AGENT_VERSION,
		.word = (uint16_t)status,
	};
	int fd;

	if (status != TEI_GREETED && status != TEI_GREETING_NO_BUFFERS)
		warn_refused(greeter, status);
	agent->stats.refused[status]++;
	fd = leave(greeter);
	if (session) {
		g.session = session->id;
		g.region = session->memory.id;
		memcpy(g.token, session->token, sizeof(g.token));
	}
	if (!tei_greeting_send(fd, &g, -1) && session) {
		tei_session_connect(session, fd);
		return;
	}
	(void)close(fd);
	if (session && !session->n_conns)
		tei_session_end(session);
}

/* The memory that its values may lie in; then the connection ends. */
static void hand_out_buffers(struct greeter *greeter,
			     struct tei_agent_session *session)
{
	struct tei_agent *agent = greeter->agent;
	struct tei_greeting g = {.version = TEI_AGENT_VERSION};
	int fd;

	if (!session->buffers &&
	    tei_agent_buffers_create(agent->store, &agent->budget,
				     &session->buffers)) {
		answer(greeter, TEI_GREETING_NO_BUFFERS, NULL);
		return;
	}
	g.length = session->buffers->length;
	agent->stats.refused[TEI_GREETED]++;
	fd = leave(greeter);
	(void)tei_greeting_send(fd, &g, session->buffers->fd);
	(void)close(fd);
}

static void on_greeting(evutil_socket_t socket, short what, void *arg)
{
	struct greeter *greeter = arg;
	struct tei_agent_session *session = NULL;
	enum tei_greeting_status status;
	struct tei_greeting g;
	unsigned int n_fds;
	int fd, rc;

	(void)socket;
	tei_loop_note(greeter->agent->loop);
	if (what & EV_TIMEOUT) {
		greeter->agent->stats.silent++;
		(void)close(leave(greeter));
		return;
	}
	rc = tei_greeting_receive(greeter->fd, &g, &fd, &n_fds);
	if (rc == -EAGAIN)
		return;
	if (rc == -EBADMSG)
		answer(greeter, TEI_GREETING_BAD, NULL);
	else if (rc)
		(void)close(leave(greeter));
	if (!rc) {
		status = judge(greeter, &g, fd, n_fds, &session);
		if (session && g.word == TEI_GREETING_BUFFERS)
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
static void make_room(struct tei_agent *agent, uid_t uid)
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

static void greet(struct tei_agent *agent, int fd)
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
	struct tei_agent *agent = arg;

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
	struct tei_agent *agent = arg;

	if (event_add(&agent->acceptable, NULL))
		(void)tei_alarm_set(&agent->again, PAUSE_MS);
}

/* ---- the socket ---- */

static int own_dir(char dir[TEI_AGENT_PATH_MAX])
{
	int rc = -ENOENT;

	for (unsigned int i = 0; i < TEI_AGENT_DIRS; i++) {
		if (tei_agent_dir(i, dir))
			continue;
		if (mkdir(dir, 0700) && errno != EEXIST)
			rc = -errno;
		else
			rc = tei_agent_dir_check(dir);
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
 * Sockets of daemons that were killed, whose port may never come again. Young
 * ones are let alone: their daemon may not listen yet.
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

static int bind_path(struct tei_agent *agent, int fd)
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
	if (chmod(agent->path, agent->has_group ? 0660 : 0600) ||
	    listen(fd, GREETERS_MAX))
		return -errno;
	return 0;
}

/* Not what somebody else has put in its place. */
static void unlink_ours(struct tei_agent *agent)
{
	struct stat st;

	if (agent->path_ino && !lstat(agent->path, &st) &&
	    st.st_dev == agent->path_dev && st.st_ino == agent->path_ino)
		(void)unlink(agent->path);
	agent->path_ino = 0;
}

static int find_path(struct tei_agent *agent,
		     const struct tei_agent_config *config)
{
	char dir[TEI_AGENT_PATH_MAX];
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
	return tei_agent_path(dir, agent->port, agent->path);
}

static int find_group(struct tei_agent *agent, const char *name)
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

int tei_door_find(struct tei_agent *agent,
		  const struct tei_agent_config *config)
{
	int rc = find_path(agent, config);

	if (!rc)
		return find_group(agent, config->socket_group);
	LOG_ERROR("dummies: no place for the socket: %s", strerror(-rc));
	return rc;
}

int tei_door_open(struct tei_agent *agent)
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
		rc = bind_path(agent, agent->listener);
	if (rc) {
		LOG_ERROR("dummies: socket %s: %s", agent->path,
			  rc == -EEXIST ? "this file is no socket"
					: strerror(-rc));
		unlink_ours(agent);
		if (agent->listener >= 0)
			(void)close(agent->listener);
		agent->listener = -1;
		return rc;
	}
	(void)event_assign(&agent->acceptable, tei_loop_base(agent->loop),
			   agent->listener, EV_READ | EV_PERSIST, on_acceptable,
			   agent);
	if (event_add(&agent->acceptable, NULL)) {
		tei_door_close(agent);
		return -ENOMEM;
	}
	return 0;
}

void tei_door_close(struct tei_agent *agent)
{
	if (agent->listener < 0)
		return;
	(void)event_del(&agent->acceptable);
	tei_alarm_clear(&agent->again);
	unlink_ours(agent);
	(void)close(agent->listener);
	agent->listener = -1;
	while (!tei_list_empty(&agent->greeters))
		(void)close(leave(tei_list_entry(agent->greeters.next,
						 struct greeter, link)));
}
