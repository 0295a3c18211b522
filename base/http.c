/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - a small HTTP server: connections, requests, answers
 *
 *   HEAD --> PARSING --> BODY --> READY --> ANSWER (pieces ...) --> lingering
 *    |              \______________^          ^                        |
 *    +-- refused, malformed ------------------+    EOF, deadline --> closed
 *
 * Lingering: after the answer, what the peer still sends is read and discarded
 * for a moment, because a close with unread bytes resets the connection and
 * takes the answer from the peer. A refused body is discarded in the same way.
 *
 * An answer in pieces is one chunk a piece, or, for HTTP/1.0, ends with the
 * connection. A piece is made when nothing of the one before is left here, so
 * that a slow reader costs the memory of one piece.
 *
 * To parse a head, to handle a request and to make a piece is work, which
 * others on the loop wait for. So connections queue for it, and a turn of the
 * loop does one such thing, or several short ones: however many connections
 * there are, others wait for one.
 */
#include "base/http.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/http_request.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/peer.h"

#define HEAD_MAX    (16u << 10)
#define WRITE_MAX   (256u << 10)
#define CONNS_MAX   128u
#define REFUSED_MAX 16u /* answered with 403 at a time; more are closed */
#define PAUSE_MS    100 /* after running out of descriptors */
#define ACCEPTS_MAX 16  /* in one turn of the loop */
#define DEADLINE_S  10  /* from accept to the end of the answer */
#define WORK_NS     (TEI_NS_PER_MS / 4) /* in one turn, plus one piece */
#define RENEW_LEN   (1u << 20) /* bytes of pieces that renew the deadline */
#define HELD_BODIES 64u /* of the largest, that all connections may hold */
#define LINGER_S    1
#define TEXT_TYPE   "text/plain; charset=utf-8"

struct tei_http {
	struct tei_http_config config;
	struct tei_peer_rule rule;
	char *allow_host; /* owned copy of the config's, or NULL */
	struct event_base *base;
	struct event *readable, *resume;
	struct event *work; /* set: some connection is in `queue` */
	struct tei_list queue;
	int fd;
	struct tei_list conns;
	unsigned int n_conns, n_refused;
	size_t held; /* bytes that all connections hold */
};

enum phase {
	IN_HEAD,
	IN_PARSING, /* the head is there whole, and queues to be parsed */
	IN_BODY,
	IS_READY,  /* the request is there whole, and queues for its handler */
	IN_ANSWER, /* being written, or lingering */
};

struct conn {
	struct tei_list link;
	struct tei_http *http;
	struct bufferevent *bev;
	struct event *deadline;
	struct event *later;    /* queues again after a while */
	struct tei_list queued; /* http's queue: its handler, or a piece */
	enum phase phase;
	bool eof;
	bool refused; /* counted in n_refused, not in n_conns */
	struct tei_address peer;
	size_t head_len;
	struct tei_http_head head;
	char why[TEI_PEER_TEXT_MAX]; /* of a refusal to its user */
	const struct tei_http_route *route;
	/* The answer; more is NULL when no piece is left. */
	int (*more)(struct evbuffer *out, void *state);
	void (*done)(void *state);
	void *state;
	size_t streamed; /* bytes since the deadline was renewed */
	size_t held;     /* of a body that comes, or an answer that waits */
};

static void count_refusal(struct conn *c, enum tei_http_refusal why)
{
	c->http->config.refused[why]++;
}

/* No piece is left to make, or no peer to take it. */
static void end_pieces(struct conn *c)
{
	void (*done)(void *state) = c->done;

	c->more = NULL;
	c->done = NULL;
	if (done)
		done(c->state);
}

/* Counts what @c holds from now on. */
static void hold(struct conn *c, size_t bytes)
{
	c->http->held += bytes;
	c->http->held -= c->held;
	c->held = bytes;
}

static void conn_free(struct conn *c)
{
	hold(c, 0);
	tei_list_del(&c->link);
	tei_list_del(&c->queued);
	if (c->refused)
		c->http->n_refused--;
	else
		c->http->n_conns--;
	end_pieces(c);
	tei_http_head_fini(&c->head);
	if (c->later)
		event_free(c->later);
	if (c->deadline)
		event_free(c->deadline);
	bufferevent_free(c->bev);
	tei_free(c);
}

/* Finds the oldest that holds half as much as another one at least. */
static struct conn *find_heaviest(const struct tei_http *http)
{
	size_t most = 0;

	tei_list_for_each (link, &http->conns) {
		const struct conn *c = tei_list_entry(link, struct conn, link);

		if (c->held > most)
			most = c->held;
	}
	tei_list_for_each (link, &http->conns) {
		struct conn *c = tei_list_entry(link, struct conn, link);

		if (c->held >= most - most / 2)
			return c;
	}
	return NULL;
}

/*
 * Frees those that hold most while all hold too much: an honest body is whole
 * in a moment, so the oldest goes first. False: @c, which has grown, went too.
 */
static bool keep_to_budget(struct conn *c)
{
	struct tei_http *http = c->http;
	bool stays = true;

	while (stays && http->held > HELD_BODIES * http->config.body_max) {
		struct conn *going = find_heaviest(http);

		count_refusal(going, TEI_HTTP_FULL);
		stays = going != c;
		conn_free(going);
	}
	return stays;
}

/* ---- work that waits for its turn ---- */

static void queue_work(struct conn *c)
{
	static const struct timeval soon = {0};
	struct tei_http *http = c->http;

	if (!tei_list_empty(&c->queued))
		return;
	if (tei_list_empty(&http->queue))
		event_add(http->work, &soon);
	tei_list_add_tail(&http->queue, &c->queued);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	queue_work(arg);
}

static void parse_head(struct conn *c);
static void serve_request(struct conn *c);
static void pump(struct conn *c);

static void on_work(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval soon = {0};
	uint64_t since = tei_now_ns();
	struct tei_http *http = arg;
	struct tei_list *first;

	(void)fd;
	(void)what;
	while ((first = tei_list_pop(&http->queue))) {
		struct conn *c = TEI_CONTAINER(first, struct conn, queued);

		if (c->phase == IN_PARSING)
			parse_head(c);
		else if (c->phase == IS_READY)
			serve_request(c);
		else
			pump(c);
		if (tei_now_ns() - since >= WORK_NS)
			break;
	}
	if (!tei_list_empty(&http->queue))
		event_add(http->work, &soon);
}

/* ---- answers; each function may free the connection ---- */

static const char *reason_of(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{400, "Bad Request"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{409, "Conflict"},
		{411, "Length Required"},
		{412, "Precondition Failed"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{417, "Expectation Failed"},
		{431, "Request Header Fields Too Large"},
		{501, "Not Implemented"},
		{503, "Service Unavailable"},
		{507, "Insufficient Storage"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return status < 500 ? "Error" : "Internal Server Error";
}

static void linger(struct conn *c)
{
	struct timeval linger = {.tv_sec = LINGER_S};

	if (c->eof) {
		conn_free(c);
		return;
	}
	shutdown(bufferevent_getfd(c->bev), SHUT_WR);
	event_add(c->deadline, &linger);
}

/* "Allow: GET, HEAD, PUT\r\n" for @path. False: no route has the path. */
static bool add_allow(const struct tei_http *http, const char *path,
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

/* Sends head and @body, which is drained; then pieces, then it lingers. */
static void send_answer(struct conn *c, int status, const char *type,
			struct evbuffer *body)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	c->phase = IN_ANSWER;
	evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n",
			    status, reason_of(status), type);
	if (status == 405)
		add_allow(c->http, c->head.path, out);
	if (!c->more)
		evbuffer_add_printf(out, "Content-Length: %zu\r\n",
				    evbuffer_get_length(body));
	else if (!c->head.old)
		evbuffer_add_printf(out, "Transfer-Encoding: chunked\r\n");
	evbuffer_add_printf(out, "Connection: close\r\n\r\n");
	if (c->head.head_only) {
		end_pieces(c);
		return;
	}
	if (c->more && !c->head.old && evbuffer_get_length(body)) {
		evbuffer_add_printf(out, "%zx\r\n", evbuffer_get_length(body));
		evbuffer_add(body, "\r\n", 2);
	}
	evbuffer_add_buffer(out, body);
}

/* Sends a refusal with @text, in the form that the config gives it. */
static void answer_text(struct conn *c, int status, const char *text)
{
	struct tei_http_reply reply = {.type = TEXT_TYPE};

	reply.body = evbuffer_new();
	if (!reply.body) {
		conn_free(c);
		return;
	}
	if (c->http->config.refusal)
		c->http->config.refusal(status, text, &reply);
	else
		evbuffer_add_printf(reply.body, "%s\n", text);
	send_answer(c, status, reply.type, reply.body);
	evbuffer_free(reply.body);
}

/* Sends 404 with a list of the paths. */
static void answer_index(struct conn *c)
{
	const struct tei_http_config *config = &c->http->config;
	struct evbuffer *body = evbuffer_new();
	const char *text;

	if (!body) {
		conn_free(c);
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
	answer_text(c, 404, text ? text : "no such page");
	evbuffer_free(body);
}

/* Adds the next piece, built in @add because its length goes first. */
static int add_piece(struct conn *c, struct evbuffer *add)
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

/* Makes the next piece; everything before it is written. */
static void pump(struct conn *c)
{
	struct timeval limit = {.tv_sec = DEADLINE_S},
		       later = {.tv_usec = 1000};
	struct evbuffer *add;
	int rc = -ENOMEM;

	if (!c->more)
		return; /* that was the last */
	add = evbuffer_new();
	if (c->streamed >= RENEW_LEN) {
		c->streamed = 0;
		event_add(c->deadline, &limit);
	}
	if (add)
		rc = add_piece(c, add);
	if (add)
		evbuffer_free(add);
	if (rc < 0) {
		conn_free(c);
		return;
	}
	if (!rc)
		end_pieces(c);
	if (evbuffer_get_length(bufferevent_get_output(c->bev))) {
		hold(c, evbuffer_get_length(bufferevent_get_output(c->bev)));
		(void)keep_to_budget(c);
		return; /* on_written() follows */
	}
	if (!c->more) {
		linger(c);
		return;
	}
	event_add(c->deadline, &limit); /* the handler is slow, not the peer */
	if (rc == TEI_HTTP_NOT_YET)
		event_add(c->later, &later);
	else
		queue_work(c);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct conn *c = arg;

	(void)bev;
	if (c->phase != IN_ANSWER)
		return;
	hold(c, 0);
	if (c->more)
		queue_work(c);
	else
		linger(c);
}

/* ---- requests ---- */

/* "a body has at most 1 MiB" */
static void print_cap(size_t cap, char *out, size_t room)
{
	if (cap % (1u << 20))
		(void)snprintf(out, room, "a body has at most %zu bytes", cap);
	else
		(void)snprintf(out, room, "a body has at most %zu MiB",
			       cap >> 20);
}

static void refuse_request(struct conn *c, int status)
{
	enum tei_http_refusal why = TEI_HTTP_TOO_LONG;
	const char *words = c->head.why;
	char cap[64];

	if (status == 405)
		why = TEI_HTTP_METHOD;
	else if (status == 403)
		why = TEI_HTTP_FORBIDDEN;
	else if (status == 400 || status == 411 || status == 417)
		why = TEI_HTTP_MALFORMED;
	count_refusal(c, why);
	if (!words && status == 413) {
		print_cap(c->http->config.body_max, cap, sizeof(cap));
		words = cap;
	}
	answer_text(c, status, words ? words : reason_of(status));
}

static void serve_request(struct conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	struct tei_http_request *request = &c->head.request;
	struct tei_http_reply reply = {.type = TEXT_TYPE};
	int status;

	request->len = (size_t)c->head.length;
	if (request->len) {
		request->body = evbuffer_pullup(in, (ev_ssize_t)request->len);
		if (!request->body) {
			conn_free(c);
			return;
		}
	}
	reply.body = evbuffer_new();
	if (!reply.body) {
		conn_free(c);
		return;
	}
	status = c->route->handle(request, &reply, c->http->config.arg);
	c->more = reply.more;
	c->done = reply.done;
	c->state = reply.state;
	send_answer(c, status, reply.type, reply.body);
	evbuffer_free(reply.body);
	evbuffer_drain(in, evbuffer_get_length(in));
	hold(c, evbuffer_get_length(bufferevent_get_output(c->bev)));
	(void)keep_to_budget(c);
}

/* Lets members change something, but no page of another site. */
static int check_writer(struct conn *c)
{
	const struct tei_http *http = c->http;
	struct tei_http_head *head = &c->head;
	enum tei_peer_verdict verdict;

	if (head->foreign) {
		head->why = "a page of another site may change nothing";
		return 403;
	}
	verdict = tei_peer_admit(&http->rule, bufferevent_getfd(c->bev),
				 &c->peer, http->config.what, c->why);
	if (verdict == TEI_PEER_MEMBER || verdict == TEI_PEER_GUEST)
		return 0;
	head->why = c->why[0] ? c->why : NULL;
	return verdict == TEI_PEER_BUSY ? 503 : 403;
}

/* 0 with @c->route, or the status of a refusal. */
static int find_route(struct conn *c)
{
	const struct tei_http_config *config = &c->http->config;
	struct tei_http_head *head = &c->head;
	bool path = false;

	if (!tei_http_host_allowed(config, head->host, head->host_len)) {
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
	if (head->request.method != TEI_HTTP_GET) {
		int status = check_writer(c);

		if (status)
			return status;
	}
	if (head->length && head->request.method == TEI_HTTP_GET) {
		head->why = "no body expected";
		return 400;
	}
	return head->length > config->body_max ? 413 : 0;
}

static void try_body(struct conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);

	if (evbuffer_get_length(in) < c->head.length) {
		if (!c->eof)
			return;
		count_refusal(c, TEI_HTTP_MALFORMED);
		conn_free(c);
		return;
	}
	c->phase = IS_READY;
	queue_work(c);
}

static void begin_body(struct conn *c)
{
	c->phase = IN_BODY;
	if (c->head.expects && c->head.length && !c->head.old)
		evbuffer_add_printf(bufferevent_get_output(c->bev),
				    "HTTP/1.1 100 Continue\r\n\r\n");
	if (c->head.length > HEAD_MAX)
		bufferevent_setwatermark(c->bev, EV_READ, 0,
					 (size_t)c->head.length);
	try_body(c);
}

static void parse_head(struct conn *c)
{
	size_t len = c->head_len;
	struct evbuffer *in = bufferevent_get_input(c->bev);
	const char *head = (char *)evbuffer_pullup(in, (ev_ssize_t)len);
	int status;

	if (!head) {
		conn_free(c);
		return;
	}
	status = tei_http_head_parse(&c->head, head, len);
	if (!status)
		status = find_route(c);
	evbuffer_drain(in, status ? evbuffer_get_length(in) : len + 2);
	if (status == 404)
		answer_index(c);
	else if (status)
		refuse_request(c, status);
	else
		begin_body(c);
}

/* The first bytes of a request are a method: refuses TLS and noise early. */
static bool starts_with_method(struct evbuffer *in)
{
	char at[16];
	ev_ssize_t n = evbuffer_copyout(in, at, sizeof(at));
	ev_ssize_t i = 0;

	while (i < n && at[i] >= 'A' && at[i] <= 'Z')
		i++;
	return i == n ? n < (ev_ssize_t)sizeof(at) : i > 0 && at[i] == ' ';
}

static void try_head(struct conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	struct evbuffer_ptr end;

	if (!starts_with_method(in)) {
		evbuffer_drain(in, evbuffer_get_length(in));
		refuse_request(c, 400);
		return;
	}
	end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	if (end.pos >= 0) {
		c->head_len = (size_t)end.pos + 2; /* with a last line end */
		c->phase = IN_PARSING;
		queue_work(c);
	} else if (evbuffer_get_length(in) >= HEAD_MAX) {
		evbuffer_drain(in, evbuffer_get_length(in));
		refuse_request(c, 431);
	}
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct conn *c = arg;

	if (c->phase == IN_HEAD) {
		try_head(c);
	} else if (c->phase == IN_BODY) {
		hold(c, evbuffer_get_length(in));
		if (keep_to_budget(c))
			try_body(c);
	} else if (c->phase == IN_ANSWER) {
		evbuffer_drain(in, evbuffer_get_length(in));
	}
}

/* ---- connections ---- */

static void on_end(struct bufferevent *bev, short what, void *arg)
{
	struct conn *c = arg;
	bool writing = evbuffer_get_length(bufferevent_get_output(bev)) > 0;

	if (c->phase == IN_BODY ||
	    (c->phase == IN_HEAD &&
	     evbuffer_get_length(bufferevent_get_input(bev))))
		count_refusal(c, TEI_HTTP_MALFORMED);
	if ((what & BEV_EVENT_EOF) &&
	    (c->phase == IN_PARSING || c->phase == IS_READY ||
	     (c->phase == IN_ANSWER && (writing || c->more))))
		c->eof = true;
	else
		conn_free(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	if (c->phase != IN_ANSWER || c->more)
		count_refusal(c, TEI_HTTP_TIMEOUT);
	conn_free(c);
}

static int conn_events(struct conn *c)
{
	struct timeval deadline = {.tv_sec = DEADLINE_S};
	struct event_base *base = c->http->base;

	c->deadline = evtimer_new(base, on_deadline, c);
	c->later = evtimer_new(base, on_later, c);
	if (!c->deadline || !c->later)
		return -ENOMEM;
	return event_add(c->deadline, &deadline);
}

/* Owns @fd, also when it fails. NULL: out of memory. */
static struct conn *conn_new(struct tei_http *http, int fd)
{
	struct conn *c = tei_calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	c->http = http;
	tei_list_init(&c->queued);
	tei_list_add_tail(&http->conns, &c->link);
	http->n_conns++;
	c->bev = bufferevent_socket_new(http->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c->bev) {
		close(fd);
		goto undo;
	}
	if (conn_events(c))
		goto free_all;
	bufferevent_setcb(c->bev, on_read, on_written, on_end, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, HEAD_MAX);
	bufferevent_set_max_single_write(c->bev, WRITE_MAX);
	return c;

free_all:
	conn_free(c);
	return NULL;
undo:
	tei_list_del(&c->link);
	http->n_conns--;
	tei_free(c);
	return NULL;
}

/* No answer is under way: no request came, or all is written. */
static bool is_idle(const struct conn *c)
{
	if (c->phase == IN_PARSING || c->phase == IS_READY)
		return false;
	return c->phase != IN_ANSWER ||
	       (!c->more &&
		!evbuffer_get_length(bufferevent_get_output(c->bev)));
}

/*
 * Closes the connection that has been idle for longest: so no peer keeps others
 * out by silent connections. False: none is idle.
 */
static bool make_room(struct tei_http *http)
{
	tei_list_for_each (link, &http->conns) {
		struct conn *c = tei_list_entry(link, struct conn, link);

		if (c->refused || !is_idle(c))
			continue;
		conn_free(c);
		return true;
	}
	return false;
}

static void accept_conn(struct tei_http *http, int fd,
			const struct tei_address *peer)
{
	const struct tei_http_config *config = &http->config;
	bool allowed = tei_peer_host_allowed(&http->rule, peer, config->what);
	unsigned int max = config->conns_max ? config->conns_max : CONNS_MAX;
	bool full =
		allowed ? http->n_conns >= max : http->n_refused >= REFUSED_MAX;
	struct conn *c;

	if (!allowed)
		config->refused[TEI_HTTP_FORBIDDEN]++;
	else if (full)
		config->refused[TEI_HTTP_FULL]++;
	if (full && !(allowed && make_room(http))) {
		close(fd);
		return;
	}
	c = conn_new(http, fd);
	if (!c)
		return;
	c->peer = *peer;
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	if (allowed)
		return;
	c->refused = true;
	http->n_conns--;
	http->n_refused++;
	answer_text(c, 403, TEI_PROTECTED_TEXT);
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
			accept_conn(http, conn, &peer);
			continue;
		}
		if (tei_is_shortage(-errno)) {
			/* The socket stays readable: do not spin. */
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
	http->config.allow_uids = NULL;
	if (tei_peer_rule_init(&http->rule, config->insecure,
			       config->allow_uids)) {
		rc = -EINVAL;
		goto free_http;
	}
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
	tei_list_init(&http->queue);
	http->fd =
		tei_listen(config->host, config->port, config->what, out_port);
	if (http->fd < 0) {
		rc = http->fd;
		goto free_names;
	}
	http->readable = event_new(http->base, http->fd, EV_READ | EV_PERSIST,
				   on_readable, http);
	http->resume = evtimer_new(http->base, on_resume, http);
	http->work = evtimer_new(http->base, on_work, http);
	if (!http->readable || !http->resume || !http->work ||
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
		conn_free(tei_list_entry(pos, struct conn, link));
	if (http->readable)
		event_free(http->readable);
	if (http->resume)
		event_free(http->resume);
	if (http->work)
		event_free(http->work);
	close(http->fd);
	tei_free(http->allow_host);
	tei_free(http);
}

/* ---- what the ports of programs share ---- */

struct start {
	struct tei_loop *loop;
	const struct tei_http_config *config;
	uint16_t *out_port;
	struct tei_http **out;
	int rc;
};

static void start_server(void *arg)
{
	struct start *s = arg;

	s->rc = tei_http_start(s->loop, s->config, s->out_port, s->out);
}

int tei_http_start_from(struct tei_loop *loop,
			const struct tei_http_config *config,
			uint16_t *out_port, struct tei_http **out)
{
	struct start s = {loop, config, out_port, out, 0};

	return tei_loop_do(loop, start_server, &s) ? s.rc : -ECANCELED;
}

void tei_http_metric_head(struct evbuffer *out, const char *name,
			  const char *type, const char *help)
{
	(void)evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name,
				  help, name, type);
}

void tei_http_metric(struct evbuffer *out, const char *name, const char *type,
		     const char *help, uint64_t value)
{
	tei_http_metric_head(out, name, type, help);
	(void)evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

int tei_http_health(struct tei_http_reply *reply, bool well, const char *why)
{
	(void)evbuffer_add_printf(reply->body, "%s\n", well ? "OK" : why);
	return well ? 200 : 503;
}
