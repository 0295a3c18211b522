/* SPDX-License-Identifier: Apache-2.0 */
/* attack.c - children that hold connections */
#include "tests/lib/attack.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define EACH   900u
#define WAIT_S 60

unsigned int attack_size(unsigned int brief, unsigned int full)
{
	const char *size = getenv("TE_TEST_ATTACKS");

	return size && !strcmp(size, "full") ? full : brief;
}

bool attack_send(int fd, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static void hold(uint16_t port, unsigned int from, unsigned int to,
		 attack_fn *say)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	struct timeval limit = {.tv_sec = WAIT_S};
	int fds[EACH], n = 0;
	char byte;

	at.sin_port = htons(port);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (unsigned int i = from; i < to; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			_exit(1);
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
			continue;
		say(fd, i);
		fds[n++] = fd;
	}
	while (n--)
		(void)recv(fds[n], &byte, 1, 0);
}

static pid_t start_child(uint16_t port, unsigned int from, unsigned int to,
			 attack_fn *say, int done)
{
	pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	hold(port, from, to, say);
	if (write(done, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

void attack_start(struct attack *a, uint16_t port, unsigned int n,
		  attack_fn *say)
{
	int done[2];
	char byte;

	a->n = 0;
	assert_int_equal(pipe(done), 0);
	for (unsigned int from = 0; from < n; from += EACH) {
		assert_true(a->n < ATTACK_CHILDREN);
		a->child[a->n++] = start_child(
			port, from, n - from < EACH ? n : from + EACH, say,
			done[1]);
	}
	close(done[1]);
	for (unsigned int i = 0; i < a->n; i++)
		assert_int_equal(read(done[0], &byte, 1), 1);
	close(done[0]);
}

void attack_end(struct attack *a)
{
	for (unsigned int i = 0; i < a->n; i++) {
		kill(a->child[i], SIGKILL);
		assert_int_equal(waitpid(a->child[i], NULL, 0), a->child[i]);
	}
	a->n = 0;
}

uint64_t attack_memory(pid_t pid)
{
	unsigned long long kib = 0;
	char path[64], line[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (!kib && fgets(line, sizeof(line), file))
		if (!strncmp(line, "VmHWM:", 6))
			kib = strtoull(line + 6, NULL, 10);
	fclose(file);
	assert_true(kib > 0);
	return kib << 10;
}
