/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - a small HTTP server: its connections
 *
 *   HEAD --> BODY --> ANSWERED (pieces ... last byte written) --> lingering
 *    |  \_______________^                                             |
 *    +-- stranger, malformed --^                  EOF, deadline --> gone
 *
 * Lingering: what the peer still sends is read and thrown away for a moment,
 * because closing with unread bytes would reset the connection and take the
 * answer from the peer. A body that is refused is thrown away like this, too.
 */
#include "base/http.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/http_private.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/net.h"

#define HEAD_MAX    (16u << 10)
#define WRITE_MAX   (256u << 10)
#define CONNS_MAX   128u
#define REFUSED_MAX 16u /* strangers that are being told so; more are not */
#define PAUSE_MS    100 /* after running out of descriptors */
#define ACCEPTS_MAX 16  /* a wake-up, so that others get their turn */

void tei_http_conn_free(struct tei_http_conn *c)
{
	tei_list_del(&c->link);
	if (c->refused)
		c->http->n_refused--;
	else
		c->http->n_conns--;
	tei_http_answer_over(c);
	tei_http_head_fini(&c->head);
	if (c->turn)
		event_free(c->turn);
	if (c->deadline)
		event_free(c->deadline);
	bufferevent_free(c->bev);
	tei_free(c);
}

/* ---- requests ---- */

/* "a body has at most 1 MiB" */
static void word_cap(size_t cap, char *out, size_t room)
{
	if (cap % (1u << 20))
		(void)snprintf(out, room, "a body has at most %zu bytes", cap);
	else
		(void)snprintf(out, room, "a body has at most %zu MiB",
			       cap >> 20);
}

static void refuse(struct tei_http_conn *c, int status)
{
	enum tei_http_refusal why = TEI_HTTP_TOO_LONG;
	const char *words = c->head.why;
	char cap[64];

	if (status == 405)
		why = TEI_HTTP_METHOD;
	else if (status == 403)
		why = TEI_HTTP_STRANGER;
	else if (status == 400 || status == 411 || status == 417)
		why = TEI_HTTP_MALFORMED;
	tei_http_count(c, why);
	if (!words && status == 413) {
		word_cap(c->http->config.body_max, cap, sizeof(cap));
		words = cap;
	}
	tei_http_answer_text(c, status,
			     words ? words : tei_http_reason(status));
}

static void serve_request(struct tei_http_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	struct tei_http_request *request = &c->head.request;
	struct tei_http_reply reply = {.type = TEI_HTTP_TEXT};
	int status;

	request->len = (size_t)c->head.length;
	if (request->len) {
		request->body = evbuffer_pullup(in, (ev_ssize_t)request->len);
		if (!request->body) {
			tei_http_conn_free(c);
			return;
		}
	}
	reply.body = evbuffer_new();
	if (!reply.body) {
		tei_http_conn_free(c);
		return;
	}
	status = c->route->handle(request, &reply, c->http->config.arg);
	c->more = reply.more;
	c->done = reply.done;
	c->state = reply.state;
	tei_http_answer(c, status, reply.type, reply.body);
	evbuffer_free(reply.body);
	evbuffer_drain(in, evbuffer_get_length(in));
}

/* 0 with @c->route, or the status of a refusal. */
static int find_route(struct tei_http_conn *c)
{
	const struct tei_http_config *config = &c->http->config;
	struct tei_http_head *head = &c->head;
	bool path = false;

	if (!tei_http_host_meant(config, head->host, head->host_len)) {
		head->why = "this host has another name: allow_host says "
			    "otherwise";
		return 403;
	}

	for (size_t i = 0; i < config->n_routes; i++) {
		const struct tei_http_route *r = &config->routes[i];

		if (strcmp(r->path, head->path))
			continue;
		path = true;
		if (head->known && r->method == head->request.method)
			c->route = r;
	}
	if (!c->route)
		return path ? 405 : 404;
	/* Whoever is local may change things, a page in his browser may not. */
	if (head->foreign && head->request.method != TEI_HTTP_GET) {
		head->why = "a page of another site may change nothing";
		return 403;
	}
	if (head->length && head->request.method == TEI_HTTP_GET) {
		head->why = "no body expected";
		return 400;
	}
	return head->length > config->body_max ? 413 : 0;
}

static void try_body(struct tei_http_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);

	if (evbuffer_get_length(in) >= c->head.length)
		serve_request(c);
}

static void begin_body(struct tei_http_conn *c)
{
	c->phase = TEI_HTTP_IN_BODY;
	if (c->head.expects && c->head.length && !c->head.old)
		evbuffer_add_printf(bufferevent_get_output(c->bev),
				    "HTTP/1.1 100 Continue\r\n\r\n");
	if (c->head.length > HEAD_MAX)
		bufferevent_setwatermark(c->bev, EV_READ, 0,
					 (size_t)c->head.length);
	try_body(c);
}

static void take_head(struct tei_http_conn *c, size_t len)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	const char *head = (char *)evbuffer_pullup(in, (ev_ssize_t)len);
	int status;

	if (!head) {
		tei_http_conn_free(c);
		return;
	}
	status = tei_http_head_parse(&c->head, head, len);
	if (!status)
		status = find_route(c);
	evbuffer_drain(in, status ? evbuffer_get_length(in) : len + 2);
	if (status == 404)
		tei_http_answer_index(c);
	else if (status)
		refuse(c, status);
	else
		begin_body(c);
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

static void try_head(struct tei_http_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	struct evbuffer_ptr end;

	if (!starts_well(in)) {
		evbuffer_drain(in, evbuffer_get_length(in));
		refuse(c, 400);
		return;
	}
	end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	if (end.pos >= 0) {
		take_head(c, (size_t)end.pos + 2); /* with a last line end */
	} else if (evbuffer_get_length(in) >= HEAD_MAX) {
		evbuffer_drain(in, evbuffer_get_length(in));
		refuse(c, 431);
	}
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct tei_http_conn *c = arg;

	if (c->phase == TEI_HTTP_IN_HEAD)
		try_head(c);
	else if (c->phase == TEI_HTTP_IN_BODY)
		try_body(c);
	else
		evbuffer_drain(in, evbuffer_get_length(in));
}

/* ---- connections ---- */

static void on_end(struct bufferevent *bev, short what, void *arg)
{
	struct tei_http_conn *c = arg;
	bool writing = evbuffer_get_length(bufferevent_get_output(bev)) > 0;

	if (c->phase == TEI_HTTP_IN_BODY ||
	    (c->phase == TEI_HTTP_IN_HEAD &&
	     evbuffer_get_length(bufferevent_get_input(bev))))
		tei_http_count(c, TEI_HTTP_MALFORMED);
	if ((what & BEV_EVENT_EOF) && c->phase == TEI_HTTP_IN_ANSWER &&
	    (writing || c->more))
		c->eof = true;
	else
		tei_http_conn_free(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct tei_http_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->phase != TEI_HTTP_IN_ANSWER || c->more)
		tei_http_count(c, TEI_HTTP_LATE);
	tei_http_conn_free(c);
}

static int conn_events(struct tei_http_conn *c)
{
	struct timeval deadline = {.tv_sec = TEI_HTTP_DEADLINE_S};
	struct event_base *base = c->http->base;

	c->deadline = evtimer_new(base, on_deadline, c);
	c->turn = evtimer_new(base, tei_http_turn, c);
	if (!c->deadline || !c->turn)
		return -ENOMEM;
	return event_add(c->deadline, &deadline);
}

/* Takes @fd, also when it fails. NULL: out of memory. */
static struct tei_http_conn *conn_new(struct tei_http *http, int fd)
{
	struct tei_http_conn *c = tei_calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	c->http = http;
	tei_list_add_tail(&http->conns, &c->link);
	http->n_conns++;
	c->bev = bufferevent_socket_new(http->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c->bev) {
		close(fd);
		goto undo;
	}
	if (conn_events(c))
		goto free_all;
	bufferevent_setcb(c->bev, on_read, tei_http_written, on_end, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, HEAD_MAX);
	bufferevent_set_max_single_write(c->bev, WRITE_MAX);
	return c;

free_all:
	tei_http_conn_free(c);
	return NULL;
undo:
	tei_list_del(&c->link);
	http->n_conns--;
	tei_free(c);
	return NULL;
}

/* It is not being answered: nobody asked, or all is written. */
static bool is_idle(const struct tei_http_conn *c)
{
	return c->phase != TEI_HTTP_IN_ANSWER ||
	       (!c->more &&
		!evbuffer_get_length(bufferevent_get_output(c->bev)));
}

/*
 * Who has been idle for longest goes: so nobody keeps others out by taking all
 * places and saying nothing. False: none is.
 */
static bool make_room(struct tei_http *http)
{
	tei_list_for_each (link, &http->conns) {
		struct tei_http_conn *c =
			tei_list_entry(link, struct tei_http_conn, link);

		if (c->refused || !is_idle(c))
			continue;
		tei_http_conn_free(c);
		return true;
	}
	return false;
}

static void serve(struct tei_http *http, int fd, const struct tei_address *peer)
{
	const struct tei_http_config *config = &http->config;
	bool welcome = tei_peer_allowed(peer, config->insecure, config->what);
	unsigned int most = config->conns_max ? config->conns_max : CONNS_MAX;
	bool crowd = welcome ? http->n_conns >= most
			     : http->n_refused >= REFUSED_MAX;
	struct tei_http_conn *c;

	if (!welcome)
		config->refused[TEI_HTTP_STRANGER]++;
	else if (crowd)
		config->refused[TEI_HTTP_CROWD]++;
	if (crowd && !(welcome && make_room(http))) {
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
	tei_http_answer_text(c, 403, TEI_PROTECTED_TEXT);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct tei_http *http = arg;

	(void)fd;
	(void)what;
	event_add(http->readable, NULL);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct timeval pause = {.tv_usec = PAUSE_MS * 1000};
	struct tei_http *http = arg;

	(void)what;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct tei_address peer = {.len = sizeof(peer.ss)};
		int conn = accept4((int)fd, (struct sockaddr *)&peer.ss,
				   &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (conn >= 0) {
			serve(http, conn, &peer);
			continue;
		}
		if (tei_is_shortage(-errno)) {
			/* The port stays readable: do not spin on it. */
			event_del(http->readable);
			event_add(http->resume, &pause);
		}
		return;
	}
}

int tei_http_start(struct tei_loop *loop, const struct tei_http_config *config,
		   uint16_t *out_port, struct tei_http **out)
{
	struct tei_http *http = tei_calloc(1, sizeof(*http));
	int rc = -ENOMEM;

	if (!http)
		return -ENOMEM;
	http->config = *config;
	if (!http->config.body_max)
		http->config.body_max = TEI_HTTP_BODY_MAX;
	if (config->allow_host) {
		http->allow_host = tei_strdup(config->allow_host);
		if (!http->allow_host)
			goto free_http;
		http->config.allow_host = http->allow_host;
	}
	http->base = tei_loop_base(loop);
	tei_list_init(&http->conns);
	http->fd =
		tei_listen(config->host, config->port, config->what, out_port);
	if (http->fd < 0) {
		rc = http->fd;
		goto free_names;
	}
	http->readable = event_new(http->base, http->fd, EV_READ | EV_PERSIST,
				   on_readable, http);
	http->resume = evtimer_new(http->base, on_resume, http);
	if (!http->readable || !http->resume ||
	    event_add(http->readable, NULL)) {
		tei_http_stop(http);
		return -ENOMEM;
	}
	*out = http;
	return 0;

free_names:
	tei_free(http->allow_host);
free_http:
	tei_free(http);
	assert(rc < 0);
	return rc;
}

void tei_http_stop(struct tei_http *http)
{
	if (!http)
		return;
	tei_list_for_each_safe (pos, tmp, &http->conns)
		tei_http_conn_free(
			tei_list_entry(pos, struct tei_http_conn, link));
	if (http->readable)
		event_free(http->readable);
	if (http->resume)
		event_free(http->resume);
	close(http->fd);
	tei_free(http->allow_host);
	tei_free(http);
}
