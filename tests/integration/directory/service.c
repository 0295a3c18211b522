/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - a directory of each kind as a process of the test's own */
#include "tests/integration/directory/service.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/process.h"
#include "tests/lib/test.h"

/* Below the ports that the kernel gives to others meanwhile. */
#define PORT_FIRST 20000u
#define PORTS      10000u
#define TRIES      20

static const struct program {
	const char *kind, *path, *ready;
} programs[] = {
	{"etcd", "/usr/bin/etcd", "ready to serve client requests"},
	{"redis", "/usr/bin/redis-server", "Ready to accept connections"},
	{"http", "te-metad", "Metadata server started"},
};

static const struct program *program_of(const char *kind)
{
	const struct program *p = programs;

	while (strcmp(p->kind, kind) != 0)
		p++;
	return p;
}

static bool is_free(unsigned int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	bool free;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	free = !bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 1);
	close(fd);
	return free;
}

/* Tests beside this one begin elsewhere. */
static uint16_t free_port(void)
{
	static unsigned int n;

	for (;;) {
		unsigned int port = PORT_FIRST +
				    ((unsigned int)getpid() * 37 + n++) % PORTS;

		if (is_free(port))
			return (uint16_t)port;
	}
}

static struct test_process *run_etcd(const struct service *s)
{
	char dir[TEST_PATH_MAX + 16], client[64], peer[64], cluster[80];
	const char *const args[] = {"--data-dir",
				    dir,
				    "--listen-client-urls",
				    client,
				    "--advertise-client-urls",
				    client,
				    "--listen-peer-urls",
				    peer,
				    "--initial-advertise-peer-urls",
				    peer,
				    "--initial-cluster",
				    cluster,
				    NULL};
	static unsigned int lives;

	snprintf(dir, sizeof(dir), "%s/%u", s->files, lives++);
	snprintf(client, sizeof(client), "http://127.0.0.1:%u", s->port);
	snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", free_port());
	snprintf(cluster, sizeof(cluster), "default=%s", peer);
	return test_process_start("/usr/bin/etcd", args);
}

static struct test_process *run_redis(const struct service *s)
{
	char port[8];
	const char *const args[] = {"--port",
				    port,
				    "--bind",
				    "127.0.0.1",
				    "--save",
				    "",
				    "--appendonly",
				    "no",
				    "--dir",
				    s->files,
				    "--requirepass",
				    s->password ? s->password : "",
				    NULL};

	snprintf(port, sizeof(port), "%u", s->port);
	return test_process_start("/usr/bin/redis-server", args);
}

static struct test_process *run_http(const struct service *s)
{
	char port[8];
	const char *const args[] = {"--port", port, "--host", "127.0.0.1",
				    NULL};

	snprintf(port, sizeof(port), "%u", s->port);
	return test_process_start("te-metad", args);
}

static bool run(struct service *s)
{
	if (!strcmp(s->kind, "etcd"))
		s->process = run_etcd(s);
	else if (!strcmp(s->kind, "redis"))
		s->process = run_redis(s);
	else
		s->process = run_http(s);
	if (test_process_line(s->process, program_of(s->kind)->ready,
			      SERVICE_WAIT_MS))
		return true;
	service_kill(s);
	return false;
}

static bool start(struct service *s, const char *kind, const char *password)
{
	const char *path = program_of(kind)->path;

	if (*path == '/' && access(path, X_OK))
		return false;
	*s = (struct service){.kind = kind, .password = password};
	test_tmpdir_create(s->files);
	for (int i = 0; i < TRIES; i++) {
		s->port = free_port();
		if (run(s)) {
			snprintf(s->url, sizeof(s->url), "%s://127.0.0.1:%u%s",
				 kind, s->port,
				 strcmp(kind, "http") ? "" : "/metadata");
			return true;
		}
	}
	fail_msg("%s does not start", kind);
	return false;
}

bool service_start(struct service *s, const char *kind)
{
	return start(s, kind, NULL);
}

bool service_start_locked(struct service *s, const char *password)
{
	return start(s, "redis", password);
}

void service_kill(struct service *s)
{
	if (s->process)
		test_process_signal(s->process, SIGKILL);
	test_process_end(s->process);
	s->process = NULL;
}

void service_restart(struct service *s)
{
	service_kill(s);
	for (int i = 0; i < TRIES; i++) {
		if (run(s))
			return;
	}
	fail_msg("%s does not start again", s->kind);
}

void service_end(struct service *s)
{
	service_kill(s);
	if (*s->files)
		test_tmpdir_remove(s->files);
}
