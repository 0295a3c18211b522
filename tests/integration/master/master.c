/* SPDX-License-Identifier: Apache-2.0 */
/* master.c - a real mooncake_master, its port and its HTTP port */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/dial.h"
#include "tests/lib/test.h"

#define ARGS_MAX   16
#define ANSWER_MAX (1u << 20)

static uint16_t port_in(struct test_process *p, const char *line)
{
	const char *said = test_process_line(p, line, SOON_MS);

	assert_non_null(said);
	return (uint16_t)strtoul(strstr(said, line) + strlen(line), NULL, 10);
}

void master_start(struct master *m, const char *const args[])
{
	const char *all[ARGS_MAX + 3] = {"--port=0", "-metrics_port=0"};

	for (size_t i = 0; args[i]; i++) {
		assert_true(i < ARGS_MAX);
		all[i + 2] = args[i];
	}
	m->process = test_process_start("mooncake_master", all);
	m->rpc = port_in(m->process, "Master service started on port ");
	m->http = port_in(m->process, "HTTP metrics server started on port ");
	assert_int_not_equal(m->rpc, 0);
	assert_int_not_equal(m->http, 0);
}

void master_stop(struct master *m)
{
	int code;

	test_process_signal(m->process, SIGTERM);
	code = test_process_wait(m->process, SOON_MS);
	if (code)
		print_error("%s", test_process_output(m->process));
	test_process_end(m->process);
	assert_int_equal(code, 0);
}

/* Until the end; a reset is an end too, a time-out is not. */
static size_t read_all(int fd, char *to, size_t room)
{
	size_t n = 0;

	for (;;) {
		char waste[4096];
		bool full = n == room;
		ssize_t got = recv(fd, full ? waste : to + n,
				   full ? sizeof(waste) : room - n, 0);

		if (got == 0)
			return n;
		if (got < 0) {
			assert_int_equal(errno, ECONNRESET);
			return n;
		}
		n += full ? 0 : (size_t)got;
	}
}

size_t master_throw(uint16_t port, const void *bytes, size_t len, char *answer,
		    size_t room)
{
	int fd = test_dial(port);
	const char *at = bytes;
	size_t n;

	while (len > 0) {
		ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

		if (sent < 0) { /* it has had enough */
			assert_true(errno == EPIPE || errno == ECONNRESET);
			break;
		}
		at += sent;
		len -= (size_t)sent;
	}
	shutdown(fd, SHUT_WR);
	n = read_all(fd, answer, room);
	close(fd);
	return n;
}

char *master_send(const struct master *m, const char *request, const void *body,
		  size_t len, int *status)
{
	char *text, *all = calloc(1, ANSWER_MAX + 1), *answer;
	int n;

	assert_non_null(all);
	n = asprintf(
		&text,
		"%s HTTP/1.0\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
		request, len);
	assert_true(n > 0);
	text = realloc(text, (size_t)n + len + 1);
	assert_non_null(text);
	memcpy(text + n, body, len);
	master_throw(m->http, text, (size_t)n + len, all, ANSWER_MAX);
	free(text);
	assert_int_equal(sscanf(all, "HTTP/1.1 %d ", status), 1);
	answer = strstr(all, "\r\n\r\n");
	assert_non_null(answer);
	memmove(all, answer + 4, strlen(answer + 4) + 1);
	return all;
}

char *master_ask(const struct master *m, const char *request, int *status)
{
	return master_send(m, request, "", 0, status);
}

char *master_get(const struct master *m, const char *path, int *status)
{
	char request[256];

	snprintf(request, sizeof(request), "GET %s", path);
	return master_ask(m, request, status);
}

uint64_t master_metric_sum(const struct master *m, const char *prefix)
{
	size_t len = strlen(prefix), found = 0;
	uint64_t sum = 0;
	int status;
	char *text = master_get(m, "/metrics", &status), *rest;

	assert_int_equal(status, 200);
	for (char *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, prefix, len))
			continue;
		sum += strtoull(strrchr(line, ' '), NULL, 10);
		found++;
	}
	free(text);
	assert_int_not_equal(found, 0);
	return sum;
}

uint64_t master_metric(const struct master *m, const char *name)
{
	char prefix[160];

	snprintf(prefix, sizeof(prefix), "%s ", name);
	return master_metric_sum(m, prefix);
}
