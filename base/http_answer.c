/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_answer.c - a small HTTP server: its answers
 *
 * An answer in pieces is one chunk a piece, or, for HTTP/1.0, ends with the
 * connection. A piece is made when nothing of the one before is left here, so
 * that what a slow reader costs is one piece, and at most one is made in a turn
 * of the loop for a connection.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/http_private.h"

#define RENEW_LEN (1u << 20) /* of an answer in pieces: time for each */
#define LINGER_S  1

void tei_http_answer_over(struct tei_http_conn *c)
{
	void (*done)(void *state) = c->done;

	c->more = NULL;
	c->done = NULL;
	if (done)
		done(c->state);
}

static void linger(struct tei_http_conn *c)
{
	struct timeval linger = {.tv_sec = LINGER_S};

	if (c->eof) {
		tei_http_conn_free(c);
		return;
	}
	shutdown(bufferevent_getfd(c->bev), SHUT_WR);
	event_add(c->deadline, &linger);
}

/* "Allow: GET, HEAD, PUT\r\n" for @path; false: nobody knows it. */
static bool allowed(const struct tei_http *http, const char *path,
		    struct evbuffer *out)
{
	static const char *const names[TEI_HTTP_METHODS] = {
		[TEI_HTTP_GET] = "GET, HEAD",
		[TEI_HTTP_PUT] = "PUT",
		[TEI_HTTP_POST] = "POST",
		[TEI_HTTP_DELETE] = "DELETE",
	};
	bool any = false;

	for (size_t i = 0; i < http->config.n_routes; i++) {
		const struct tei_http_route *r = &http->config.routes[i];

		if (strcmp(r->path, path))
			continue;
		evbuffer_add_printf(out, "%s%s",
				    any ? ", " : "Allow: ", names[r->method]);
		any = true;
	}
	if (any)
		evbuffer_add_printf(out, "\r\n");
	return any;
}

void tei_http_answer(struct tei_http_conn *c, int status, const char *type,
		     struct evbuffer *body)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	c->phase = TEI_HTTP_IN_ANSWER;
	evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n",
			    status, tei_http_reason(status), type);
	if (status == 405)
		allowed(c->http, c->head.path, out);
	if (!c->more)
		evbuffer_add_printf(out, "Content-Length: %zu\r\n",
				    evbuffer_get_length(body));
	else if (!c->head.old)
		evbuffer_add_printf(out, "Transfer-Encoding: chunked\r\n");
	evbuffer_add_printf(out, "Connection: close\r\n\r\n");
	if (c->head.head_only) {
		tei_http_answer_over(c);
		return;
	}
	if (c->more && !c->head.old && evbuffer_get_length(body)) {
		evbuffer_add_printf(out, "%zx\r\n", evbuffer_get_length(body));
		evbuffer_add(body, "\r\n", 2);
	}
	evbuffer_add_buffer(out, body);
}

void tei_http_answer_text(struct tei_http_conn *c, int status, const char *text)
{
	struct tei_http_reply reply = {.type = TEI_HTTP_TEXT};

	reply.body = evbuffer_new();
	if (!reply.body) {
		tei_http_conn_free(c);
		return;
	}
	if (c->http->config.refusal)
		c->http->config.refusal(status, text, &reply);
	else
		evbuffer_add_printf(reply.body, "%s\n", text);
	tei_http_answer(c, status, reply.type, reply.body);
	evbuffer_free(reply.body);
}

void tei_http_answer_index(struct tei_http_conn *c)
{
	const struct tei_http_config *config = &c->http->config;
	struct evbuffer *body = evbuffer_new();
	const char *text;

	if (!body) {
		tei_http_conn_free(c);
		return;
	}
	evbuffer_add_printf(body, "no such page; there are");
	for (size_t i = 0; i < config->n_routes; i++)
		if (!i ||
		    strcmp(config->routes[i].path, config->routes[i - 1].path))
			evbuffer_add_printf(body, "%s %s", i ? "," : "",
					    config->routes[i].path);
	evbuffer_add(body, "", 1);
	text = (const char *)evbuffer_pullup(body, -1);
	tei_http_answer_text(c, 404, text ? text : "no such page");
	evbuffer_free(body);
}

/* The next piece. @add: where it is built, because its length goes first. */
static int add_piece(struct tei_http_conn *c, struct evbuffer *add)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);
	int rc = c->more(add, c->state);
	size_t n = evbuffer_get_length(add);

	if (rc < 0)
		return rc;
	c->streamed += n;
	if (n && !c->head.old) {
		evbuffer_add_printf(out, "%zx\r\n", n);
		evbuffer_add(add, "\r\n", 2);
	}
	if (evbuffer_add_buffer(out, add))
		return -ENOMEM;
	if (!rc && !c->head.old)
		evbuffer_add_printf(out, "0\r\n\r\n");
	return rc;
}

/* Called when all that was there has been written. */
static void pump(struct tei_http_conn *c)
{
	struct timeval limit = {.tv_sec = TEI_HTTP_DEADLINE_S}, soon = {0};
	struct evbuffer *add = evbuffer_new();
	int rc = -ENOMEM;

	if (c->streamed >= RENEW_LEN) {
		c->streamed = 0;
		event_add(c->deadline, &limit);
	}
	if (add)
		rc = add_piece(c, add);
	if (add)
		evbuffer_free(add);
	if (rc < 0) {
		tei_http_conn_free(c);
		return;
	}
	if (!rc)
		tei_http_answer_over(c);
	if (evbuffer_get_length(bufferevent_get_output(c->bev)))
		return; /* tei_http_written() will come */
	if (!c->more) {
		linger(c);
		return;
	}
	event_add(c->deadline, &limit); /* the peer is not what is slow */
	if (rc == TEI_HTTP_NOT_YET)
		soon.tv_usec = 1000;
	event_add(c->turn, &soon);
}

void tei_http_turn(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pump(arg);
}

void tei_http_written(struct bufferevent *bev, void *arg)
{
	struct tei_http_conn *c = arg;

	(void)bev;
	if (c->phase != TEI_HTTP_IN_ANSWER)
		return;
	if (c->more)
		pump(c);
	else
		linger(c);
}
