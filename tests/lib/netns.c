/* SPDX-License-Identifier: Apache-2.0 */
/* netns.c - network namespaces and the interfaces between them */
#include "tests/lib/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_MAX 1024

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Root of a user namespace of our own, where only that is allowed. */
static int become_root(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER))
		return -errno;
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", (unsigned int)uid);
	if (write_file("/proc/self/uid_map", map))
		return -EPERM;
	snprintf(map, sizeof(map), "0 %u 1", (unsigned int)gid);
	return write_file("/proc/self/gid_map", map) ? -EPERM : 0;
}

int test_netns_enter(const char **why)
{
	*why = "network namespaces are not allowed here";
	if (unshare(CLONE_NEWNET)) {
		if (become_root() || unshare(CLONE_NEWNET))
			return -EPERM;
	}
	*why = "the ip command is missing (package iproute2)";
	if (test_netns_run(0, "ip link set lo up"))
		return -ENOENT;
	return 0;
}

static void child(pid_t pid, const char *command)
{
	char path[64];
	int fd;

	if (pid) {
		snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || setns(fd, CLONE_NEWNET))
			_exit(126);
	}
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

int test_netns_run(pid_t pid, const char *format, ...)
{
	char command[COMMAND_MAX];
	va_list args;
	pid_t worker;
	int status;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	worker = fork();
	if (worker < 0)
		return -errno;
	if (!worker)
		child(pid, command);
	while (waitpid(worker, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static bool set_up(pid_t pid, const char *side, int index, int host,
		   unsigned int mbit)
{
	if (test_netns_run(pid,
			   "ip addr add 10.99.%d.%d/24 dev %s%d && "
			   "ip link set %s%d up",
			   index, host, side, index, side, index))
		return false;
	if (!mbit)
		return true;
	/* A burst of a few ms: shorter ones waste the virtual link. */
	return !test_netns_run(pid,
			       "tc qdisc add dev %s%d root tbf rate %umbit "
			       "burst %uk latency 20ms",
			       side, index, mbit, mbit > 1000 ? 1024 : 256);
}

/* The kernel tells of a carrier some time after both ends are up. */
static bool await_carrier(pid_t pid, const char *side, int index)
{
	return !test_netns_run(
		pid,
		"n=0; until ip -o link show dev %s%d | grep -q 'state UP'; do "
		"n=$((n + 1)); [ $n -lt 1000 ] || exit 1; sleep 0.01; done",
		side, index);
}

bool test_netns_join(pid_t pid, int index, unsigned int mbit)
{
	if (test_netns_run(0,
			   "ip link add rail%d type veth peer name peer%d "
			   "netns %d",
			   index, index, (int)pid))
		return false;
	return set_up(0, "rail", index, 1, mbit) &&
	       set_up(pid, "peer", index, 2, mbit) &&
	       await_carrier(0, "rail", index) &&
	       await_carrier(pid, "peer", index);
}
