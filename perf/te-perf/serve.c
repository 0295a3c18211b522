/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - what a target does: it lends memory, and answers lines
 */
#include "perf/te-perf/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/peer.h"
#include "base/thread.h"
#include "perf/lib/process.h"
#include "perf/lib/reference.h"
#include "perf/te-perf/inbox.h"
#include "perf/te-perf/memory.h"
#include "perf/te-perf/submitter.h"

#define STOP_MS 5000
#define FIRST_S 3 /* an initiator says something at once, or holds up others */

struct server {
	const struct options *options; /* working_set: the most it lends */
	struct te_engine *engine;
	struct memory memory;
	struct tei_process reference;
	struct submitter submitter;
	struct inbox inbox;
};

int serve_own_host(int fd, char host[TEI_HOST_LEN_MAX + 1])
{
	struct tei_address a = {.len = sizeof(a.ss)};
	char text[TEI_NAME_LEN_MAX + 1];
	uint16_t port;

	if (getsockname(fd, (struct sockaddr *)&a.ss, &a.len))
		return -errno;
	tei_address_text(&a, text);
	return tei_name_split(text, host, &port);
}

static void say_error(const char *what, int error)
{
	printf("error %s: %s\n", what, te_strerror(error));
}

/* ---- answers ---- */

/* Reads what is to be opened. False: an error has been answered. */
static bool read_open(const struct server *s, const char *line, uint64_t *len,
		      int *foreign, struct locations *locations)
{
	char text[LOCATIONS_LEN] = "*";
	const char *wrong;

	/* An older initiator names no location. */
	if (s->memory.side.n ||
	    sscanf(line, "open %" SCNu64 " %d %255s", len, foreign, text) < 2) {
		say_error("open", -EINVAL);
		return false;
	}
	wrong = locations_parse(locations, text);
	if (wrong) {
		printf("error remote_location: %s\n", wrong);
		return false;
	}
	if (*len <= PROBE_ROOM || *len > s->options->working_set + PROBE_ROOM) {
		printf("error the working set of this target is %" PRIu64
		       " bytes, start it with more\n",
		       s->options->working_set);
		return false;
	}
	return true;
}

static void open_memory(struct server *s, const char *line)
{
	struct locations locations;
	const char *failed;
	uint64_t len;
	int foreign, rc;

	if (!read_open(s, line, &len, &foreign, &locations))
		return;
	alarm(0); /* it is at work */
	rc = memory_open(&s->memory, s->engine, &locations, foreign,
			 len - PROBE_ROOM,
			 TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE);
	if (rc) {
		failed = locations.name[s->memory.side.n - 1];
		memory_close(&s->memory);
		printf("error memory: location %s: %s\n", failed,
		       te_strerror(rc));
		return;
	}
	printf("ready %s\n", te_engine_name(s->engine));
}

static void open_reference(struct server *s, const char *line)
{
	struct tei_bare_peer peer = {0};
	uint64_t len;
	int rc = -EINVAL;

	if (!s->reference.pid &&
	    sscanf(line, "reference %" SCNu64, &len) == 1 && len &&
	    len <= s->options->working_set)
		rc = tei_reference_peer_start(&s->reference, &peer, len,
					      s->options->pin,
					      s->options->insecure);
	if (rc)
		say_error("reference", rc);
	else
		printf("reference %u\n", tei_address_port(&peer.at[0]));
}

static void tell_usage(void)
{
	struct tei_process self = {.pid = getpid()};

	printf("usage %" PRIu64 " %" PRIu64 "\n", tei_process_own_cpu_ns(),
	       tei_process_rss(&self));
}

static void open_inbox(struct server *s)
{
	int rc = s->inbox.engine ? -EBUSY : inbox_open(&s->inbox, s->engine);

	if (rc)
		say_error("notify", rc);
	else
		puts("notify");
}

/* Answers a line. Returns false if it is none of an initiator's. */
static bool answer_line(struct server *s, const char *line)
{
	bool known = true;

	if (!strncmp(line, "open ", 5))
		open_memory(s, line);
	else if (!strncmp(line, "usage", 5))
		tell_usage();
	else if (!strncmp(line, "notify", 6))
		open_inbox(s);
	else if (!strncmp(line, "reference ", 10))
		open_reference(s, line);
	else
		known = submitter_answer(&s->submitter, line);
	if (!known)
		say_error("command", -EINVAL);
	fflush(stdout);
	return known;
}

/* ---- connections that are no te-perf ---- */

static void hang_up(int sig)
{
	(void)sig;
	shutdown(STDIN_FILENO, SHUT_RDWR);
}

/* A connection that has not asked for memory by then is no te-perf. */
static void expect_work(void)
{
	struct sigaction action = {.sa_handler = hang_up};

	sigaction(SIGALRM, &action, NULL);
	alarm(FIRST_S);
}

int serve_main(const struct options *o)
{
	struct server s = {.options = o, .reference = TEI_PROCESS_NONE};
	char line[TEI_PROCESS_LINE], host[TEI_HOST_LEN_MAX + 1];
	bool remote = !serve_own_host(STDIN_FILENO, host);

	signal(SIGINT, SIG_IGN); /* of a terminal: the initiator ends it */
	if (o->pin)
		tei_process_pin(1);
	tei_process_many_files();
	if (!remote) /* a pipe: started by us */
		snprintf(host, sizeof(host), "%s",
			 o->host ? o->host : "127.0.0.1");
	if (engine_open(o, host, &s.engine))
		return 1;
	s.submitter = (struct submitter){.options = o, .engine = s.engine};
	if (remote)
		expect_work();
	while (fgets(line, sizeof(line), stdin) && answer_line(&s, line))
		;
	tei_process_stop(&s.reference, STOP_MS);
	submitter_fini(&s.submitter);
	inbox_close(&s.inbox);
	memory_close(&s.memory);
	te_engine_destroy(s.engine);
	return 0;
}

#define LISTEN_STOP_MS 5000

struct listener {
	const struct options *options;
	struct tei_peer_rule rule;
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

/* Tells whether the client is served; if not, it has been told why. */
static bool check_client(const struct listener *l, int fd,
			 const struct tei_address *from)
{
	char why[TEI_PEER_TEXT_MAX], line[TEI_PEER_TEXT_MAX + 8];
	enum tei_peer_verdict verdict =
		tei_peer_admit(&l->rule, fd, from, "te-perf", why);

	if (verdict == TEI_PEER_MEMBER || verdict == TEI_PEER_GUEST)
		return true;
	(void)snprintf(line, sizeof(line), "error %s\n", why);
	(void)send(fd, line, strlen(line), MSG_NOSIGNAL);
	return false;
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
	if (check_client(l, fd, &from) && !start_session(l, fd))
		printf("session with %s\n", text);
	fflush(stdout);
	close(fd);
}

static void end_session(struct listener *l)
{
	int code = tei_process_stop(&l->session, LISTEN_STOP_MS);

	if (code)
		printf("session ended with %d\n", code);
	else
		puts("session ended");
	fflush(stdout);
}

/* Serves one session after another; meanwhile others wait in the backlog. */
static void serve_session(struct listener *l)
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

/* Splits "port" or "host:port"; without a host it is "". */
static int split_address(const char *text, char host[TEI_HOST_LEN_MAX + 1],
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

	if (split_address(o->listen, host, &port)) {
		fprintf(stderr,
			"te-perf: listen: \"%s\" is wrong, give port "
			"or host:port\n",
			o->listen);
		return 2;
	}
	if (tei_peer_rule_init(&l.rule, o->insecure,
			       getenv("MOONCAKE_ALLOW_UIDS"))) {
		fprintf(stderr, "te-perf: MOONCAKE_ALLOW_UIDS: give user ids "
				"(1000,2000-2999) or any\n");
		return 2;
	}
	l.signals = open_signals();
	l.fd = tei_listen(host, port, "te-perf", &port);
	if (l.fd < 0 || l.signals < 0)
		return 1;
	tei_name_join(host[0] ? host : "*", port, name);
	printf("te-perf listens on %s\n", name);
	fflush(stdout);
	serve_session(&l);
	close(l.fd);
	tei_process_terminate(&l.session, LISTEN_STOP_MS);
	close(l.signals);
	return 0;
}
