/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - a small HTTP server for people and scrapers
 *
 *   accept --head complete--> answering --written--> lingering --EOF--> gone
 *      |                          ^
 *      +-- stranger, malformed ---+        any state --deadline--> gone
 *
 * Lingering: what the peer still sends is read and thrown away for a moment,
 * because closing with unread bytes would reset the connection and take the
 * answer from the peer.
 */
#include "store/server/http.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/net.h"

#define HEAD_MAX    (16u << 10)
#define PATH_ROOM   256u
#define DEADLINE_S  10
#define LINGER_S    1
#define CONNS_MAX   128u
#define REFUSED_MAX 16u /* strangers that are being told so; more are not */
#define PAUSE_MS    100 /* after running out of descriptors */
#define ACCEPTS_MAX 16  /* a wake-up, so that others get their turn */

struct tei_server_http {
	struct tei_server_http_config config;
	struct event_base *base;
	struct event *readable, *resume;
	int fd;
	struct tei_list conns;
	unsigned int n_conns, n_refused;
};

struct conn {
	struct tei_list link;
	struct tei_server_http *http;
	struct bufferevent *bev;
	struct event *deadline;
	bool answered, eof, head_only;
	bool refused; /* counts as that, not as connection */
};

static void conn_free(struct conn *c)
{
	tei_list_del(&c->link);
	if (c->refused)
		c->http->n_refused--;
	else
		c->http->n_conns--;
	if (c->deadline)
		event_free(c->deadline);
	bufferevent_free(c->bev);
	tei_free(c);
}

static void refuse(struct conn *c, enum tei_server_http_refusal why)
{
	c->http->config.refused[why]++;
}

static const char *reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 413:
		return "Content Too Large";
	case 414:
		return "URI Too Long";
	case 431:
		return "Request Header Fields Too Large";
	default:
		return "Internal Server Error";
	}
}

/* Send head and @body (drained), then linger. */
static void answer(struct conn *c, int status, const char *type,
		   struct evbuffer *body)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	c->answered = true;
	evbuffer_add_printf(out,
			    "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n"
			    "Content-Length: %zu\r\n%sConnection: close\r\n"
			    "\r\n",
			    status, reason(status), type,
			    evbuffer_get_length(body),
			    status == 405 ? "Allow: GET, HEAD\r\n" : "");
	if (!c->head_only)
		evbuffer_add_buffer(out, body);
}

static void answer_text(struct conn *c, int status, const char *text)
{
	struct evbuffer *body = evbuffer_new();

	if (!body) {
		conn_free(c);
		return;
	}
	evbuffer_add_printf(body, "%s\n", text);
	answer(c, status, "text/plain; charset=utf-8", body);
	evbuffer_free(body);
}

static void answer_get(struct conn *c, const char *path)
{
	struct tei_server_http_reply reply = {
		.body = evbuffer_new(),
		.type = "text/plain; charset=utf-8",
	};
	int status;

	if (!reply.body) {
		conn_free(c);
		return;
	}
	status = c->http->config.get(path, &reply, c->http->config.arg);
	answer(c, status, reply.type, reply.body);
	evbuffer_free(reply.body);
}

/* "name: value" lines; a request with a body is none that we take. */
static int check_fields(const char *at, const char *end)
{
	static const char encoding[] = "transfer-encoding";
	static const char length[] = "content-length";

	while (at < end) {
		const char *eol = memmem(at, (size_t)(end - at), "\r\n", 2);
		const char *colon;
		size_t n;

		assert(eol); /* the head ends with one */
		colon = memchr(at, ':', (size_t)(eol - at));
		if (!colon || colon == at || *at == ' ' || *at == '\t' ||
		    memchr(at, '\0', (size_t)(eol - at)))
			return 400;
		n = (size_t)(colon - at);
		if (n == strlen(encoding) && !strncasecmp(at, encoding, n))
			return 413;
		for (colon++; colon < eol && *colon == ' ';)
			colon++;
		if (n == strlen(length) && !strncasecmp(at, length, n) &&
		    (eol - colon != 1 || *colon != '0'))
			return 413;
		at = eol + 2;
	}
	return 0;
}

/*
 * Parse "GET /path?query HTTP/1.1" and the fields. Returns 0 with @path, or
 * the status of a refusal.
 */
static int parse_head(struct conn *c, const char *head, size_t len,
		      char path[PATH_ROOM])
{
	const char *eol = memmem(head, len, "\r\n", 2);
	const char *target, *version, *stop;
	size_t n;

	target = memchr(head, ' ', (size_t)(eol - head));
	if (!target || target == head || target[1] != '/')
		return 400;
	target++;
	version = memchr(target, ' ', (size_t)(eol - target));
	if (!version || eol - version != 9 ||
	    (memcmp(version, " HTTP/1.1", 9) &&
	     memcmp(version, " HTTP/1.0", 9)))
		return 400;
	for (stop = target; stop < version && *stop != '?'; stop++)
		if (*stop < '!' || *stop > '~')
			return 400;
	n = (size_t)(stop - target);
	if (n >= PATH_ROOM)
		return 414;
	memcpy(path, target, n);
	path[n] = '\0';
	c->head_only = !strncmp(head, "HEAD ", 5);
	if (!c->head_only && strncmp(head, "GET ", 4))
		return 405;
	return check_fields(eol + 2, head + len);
}

static void refuse_status(struct conn *c, int status)
{
	refuse(c, status == 405   ? TEI_SERVER_HTTP_METHOD
		  : status == 400 ? TEI_SERVER_HTTP_MALFORMED
				  : TEI_SERVER_HTTP_TOO_LONG);
	answer_text(c, status, reason(status));
}

/* The first bytes of a request are a method: TLS and noise end here. */
static bool starts_well(struct evbuffer *in)
{
	char at[16];
	ev_ssize_t n = evbuffer_copyout(in, at, sizeof(at));
	ev_ssize_t i = 0;

	while (i < n && at[i] >= 'A' && at[i] <= 'Z')
		i++;
	return i == n ? n < (ev_ssize_t)sizeof(at) : i > 0 && at[i] == ' ';
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct conn *c = arg;
	struct evbuffer_ptr end;
	char path[PATH_ROOM];
	const char *head;
	size_t len;
	int status;

	if (c->answered) {
		evbuffer_drain(in, evbuffer_get_length(in));
		return;
	}
	if (!starts_well(in)) {
		evbuffer_drain(in, evbuffer_get_length(in));
		refuse_status(c, 400);
		return;
	}
	end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	if (end.pos < 0) {
		if (evbuffer_get_length(in) < HEAD_MAX)
			return;
		evbuffer_drain(in, evbuffer_get_length(in));
		refuse_status(c, 431);
		return;
	}
	len = (size_t)end.pos + 2; /* with the last field's line end */
	head = (const char *)evbuffer_pullup(in, (ev_ssize_t)len);
	if (!head) {
		conn_free(c);
		return;
	}
	status = parse_head(c, head, len, path);
	evbuffer_drain(in, evbuffer_get_length(in));
	if (status)
		refuse_status(c, status);
	else
		answer_get(c, path);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct timeval linger = {.tv_sec = LINGER_S};
	struct conn *c = arg;

	if (!c->answered)
		return;
	if (c->eof) {
		conn_free(c);
		return;
	}
	shutdown(bufferevent_getfd(bev), SHUT_WR);
	event_add(c->deadline, &linger);
}

static void on_end(struct bufferevent *bev, short what, void *arg)
{
	struct conn *c = arg;
	bool writing = evbuffer_get_length(bufferevent_get_output(bev)) > 0;

	if (!c->answered && evbuffer_get_length(bufferevent_get_input(bev)))
		refuse(c, TEI_SERVER_HTTP_MALFORMED);
	if ((what & BEV_EVENT_EOF) && c->answered && writing)
		c->eof = true;
	else
		conn_free(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	if (!c->answered)
		refuse(c, TEI_SERVER_HTTP_LATE);
	conn_free(c);
}

/* Takes @fd, also when it fails. NULL: out of memory. */
static struct conn *conn_new(struct tei_server_http *http, int fd)
{
	struct timeval deadline = {.tv_sec = DEADLINE_S};
	struct conn *c = tei_calloc(1, sizeof(*c));

	if (!c)
		goto close_fd;
	c->http = http;
	c->bev = bufferevent_socket_new(http->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c->bev)
		goto free_conn;
	c->deadline = evtimer_new(http->base, on_deadline, c);
	if (!c->deadline || event_add(c->deadline, &deadline))
		goto free_bev;
	bufferevent_setcb(c->bev, on_read, on_written, on_end, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, HEAD_MAX);
	tei_list_add_tail(&http->conns, &c->link);
	http->n_conns++;
	return c;

free_bev:
	if (c->deadline)
		event_free(c->deadline);
	bufferevent_free(c->bev);
	fd = -1; /* went with it */
free_conn:
	tei_free(c);
close_fd:
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void serve(struct tei_server_http *http, int fd,
		  const struct tei_address *peer)
{
	bool welcome = tei_peer_allowed(peer, http->config.insecure,
					"HTTP metrics port");
	bool crowd = welcome ? http->n_conns >= CONNS_MAX
			     : http->n_refused >= REFUSED_MAX;
	struct conn *c;

	if (!welcome)
		http->config.refused[TEI_SERVER_HTTP_STRANGER]++;
	else if (crowd)
		http->config.refused[TEI_SERVER_HTTP_CROWD]++;
	if (crowd) {
		close(fd);
		return;
	}
	c = conn_new(http, fd);
	if (!c)
		return;
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	if (welcome)
		return;
	c->refused = true;
	http->n_conns--;
	http->n_refused++;
	answer_text(c, 403, TEI_PROTECTED_TEXT);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct tei_server_http *http = arg;

	(void)fd;
	(void)what;
	event_add(http->readable, NULL);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct timeval pause = {.tv_usec = PAUSE_MS * 1000};
	struct tei_server_http *http = arg;

	(void)what;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct tei_address peer = {.len = sizeof(peer.ss)};
		int conn = accept4((int)fd, (struct sockaddr *)&peer.ss,
				   &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (conn >= 0) {
			serve(http, conn, &peer);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		    errno == ENOMEM) {
			/* The port stays readable: do not spin on it. */
			event_del(http->readable);
			event_add(http->resume, &pause);
		}
		return;
	}
}

int tei_server_http_start(struct tei_loop *loop,
			  const struct tei_server_http_config *config,
			  uint16_t *out_port, struct tei_server_http **out)
{
	struct tei_server_http *http = tei_calloc(1, sizeof(*http));
	int rc = -ENOMEM;

	if (!http)
		return -ENOMEM;
	http->config = *config;
	http->base = tei_loop_base(loop);
	tei_list_init(&http->conns);
	http->fd = tei_listen(config->host, config->port, "HTTP metrics port",
			      out_port);
	if (http->fd < 0) {
		rc = http->fd;
		goto free_http;
	}
	http->readable = event_new(http->base, http->fd, EV_READ | EV_PERSIST,
				   on_readable, http);
	http->resume = evtimer_new(http->base, on_resume, http);
	if (!http->readable || !http->resume ||
	    event_add(http->readable, NULL)) {
		tei_server_http_stop(http);
		return -ENOMEM;
	}
	*out = http;
	return 0;

free_http:
	tei_free(http);
	assert(rc < 0);
	return rc;
}

void tei_server_http_stop(struct tei_server_http *http)
{
	if (!http)
		return;
	tei_list_for_each_safe (pos, tmp, &http->conns)
		conn_free(tei_list_entry(pos, struct conn, link));
	if (http->readable)
		event_free(http->readable);
	if (http->resume)
		event_free(http->resume);
	close(http->fd);
	tei_free(http);
}
