/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_path.c - where the unix socket lies
 *
 * The directory is the user's alone. A socket that lies there already is
 * somebody's who serves, or was left by one who was killed; only then is it
 * taken away.
 */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "store/daemon/agent_private.h"

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

int tes_door_bind(struct tes_agent *agent, int fd)
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
	return chmod(agent->path, agent->has_group ? 0660 : 0600) ? -errno : 0;
}

void tes_door_unlink(struct tes_agent *agent)
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
	int rc = find_path(agent, config);

	if (!rc)
		return find_group(agent, config->socket_group);
	LOG_ERROR("dummies: no place for the socket: %s", strerror(-rc));
	return rc;
}
