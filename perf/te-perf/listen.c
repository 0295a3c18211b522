/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.c - a target for initiators on other hosts
 *
 * Each connection gets a process of its own, with the connection as its input
 * and output, so that CPU time and memory are those of one session and nothing
 * is left of it. One at a time: two at once would measure each other. Engine
 * and reference decide themselves whom they serve, so only --insecure opens
 * this to other hosts.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "perf/lib/process.h"
#include "perf/te-perf/serve.h"

#define STOP_MS 5000

struct listener {
	const struct options *options;
	int fd, signals;
	struct tei_process session; /* pid 0: none */
};

static int start_session(struct listener *l, int fd)
{
	struct role_args args;
	int rc = role_args(&args, l->options, "target");

	return rc ? rc
		  : tei_process_start_session(&l->session, "session", args.argv,
					      fd);
}

static void refuse(int fd)
{
	static const char why[] = "error " TEI_PROTECTED_TEXT "\n";

	(void)send(fd, why, sizeof(why) - 1, MSG_NOSIGNAL);
}

static void accept_one(struct listener *l)
{
	struct tei_address from = {.len = sizeof(from.ss)};
	char text[TEI_NAME_LEN_MAX + 1];
	int fd = accept4(l->fd, (struct sockaddr *)&from.ss, &from.len,
			 SOCK_CLOEXEC);

	if (fd < 0)
		return;
	tei_address_text(&from, text);
	if (!tei_peer_allowed(&from, l->options->insecure, "te-perf"))
		refuse(fd);
	else if (!start_session(l, fd))
		printf("session with %s\n", text);
	fflush(stdout);
	close(fd);
}

static void end_session(struct listener *l)
{
	int code = tei_process_stop(&l->session, STOP_MS);

	if (code)
		printf("session ended with %d\n", code);
	else
		puts("session ended");
	fflush(stdout);
}

/* While a session runs, others wait in the backlog. */
static void run(struct listener *l)
{
	struct pollfd pfd[2] = {{.fd = l->signals, .events = POLLIN}};

	for (;;) {
		pfd[1].fd = l->session.pid ? l->session.pidfd : l->fd;
		pfd[1].events = POLLIN;
		if (poll(pfd, 2, -1) < 0 && errno != EINTR)
			return;
		if (pfd[0].revents)
			return;
		if (!pfd[1].revents)
			continue;
		if (l->session.pid)
			end_session(l);
		else
			accept_one(l);
	}
}

static int open_signals(void)
{
	sigset_t set;

	tei_end_signals_block(&set);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* "port" or "host:port". */
static int split(const char *text, char host[TEI_HOST_LEN_MAX + 1],
		 uint16_t *port)
{
	char name[TEI_HOST_LEN_MAX + 16];

	if (strspn(text, "0123456789") != strlen(text))
		return tei_name_split(text, host, port);
	snprintf(name, sizeof(name), "0.0.0.0:%s", text);
	if (tei_name_split(name, host, port))
		return -EINVAL;
	host[0] = 0; /* the wildcard */
	return 0;
}

int serve_listen(const struct options *o)
{
	struct listener l = {.options = o, .session = TEI_PROCESS_NONE};
	char host[TEI_HOST_LEN_MAX + 1], name[TEI_NAME_LEN_MAX + 1];
	uint16_t port;

	if (split(o->listen, host, &port)) {
		fprintf(stderr,
			"te-perf: listen: \"%s\" is wrong, give port "
			"or host:port\n",
			o->listen);
		return 2;
	}
	l.signals = open_signals();
	l.fd = tei_listen(host, port, "te-perf", &port);
	if (l.fd < 0 || l.signals < 0)
		return 1;
	tei_name_join(host[0] ? host : "*", port, name);
	printf("te-perf listens on %s\n", name);
	fflush(stdout);
	run(&l);
	close(l.fd);
	tei_process_terminate(&l.session, STOP_MS);
	close(l.signals);
	return 0;
}
