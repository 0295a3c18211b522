/* SPDX-License-Identifier: Apache-2.0 */
/* http_private.h - what the files of the HTTP server share */
#ifndef BASE_HTTP_PRIVATE_H
#define BASE_HTTP_PRIVATE_H

#include <event2/util.h>

#include "base/http.h"
#include "base/list.h"

struct bufferevent;
struct event;
struct event_base;

#define TEI_HTTP_PATH_ROOM  256u
#define TEI_HTTP_DEADLINE_S 10
#define TEI_HTTP_TEXT       "text/plain; charset=utf-8"

/* A request's first line and fields. */
struct tei_http_head {
	struct tei_http_request request; /* but for the body */
	struct tei_http_param params[TEI_HTTP_PARAMS_MAX];
	char path[TEI_HTTP_PATH_ROOM];
	char *query;      /* owned: decoded in place, or NULL */
	const char *why;  /* static: words for a refusal, or NULL */
	const char *host; /* in the bytes that were parsed, or NULL */
	size_t host_len;
	uint64_t length;
	bool known; /* the method is one of ours */
	bool head_only;
	bool old;     /* HTTP/1.0 */
	bool expects; /* to be told that the body may come */
	bool foreign; /* sent by the page of another site */
};

struct tei_http {
	struct tei_http_config config;
	char *allow_host; /* what config says, or NULL */
	struct event_base *base;
	struct event *readable, *resume;
	int fd;
	struct tei_list conns;
	unsigned int n_conns, n_refused;
};

enum tei_http_phase {
	TEI_HTTP_IN_HEAD,
	TEI_HTTP_IN_BODY,
	TEI_HTTP_IN_ANSWER, /* being written, or lingering */
};

struct tei_http_conn {
	struct tei_list link;
	struct tei_http *http;
	struct bufferevent *bev;
	struct event *deadline;
	struct event *turn; /* a piece in the loop's next turn */
	enum tei_http_phase phase;
	bool eof;
	bool refused; /* counts as that, not as connection */
	struct tei_http_head head;
	const struct tei_http_route *route;
	/* The answer. Its pieces: more is NULL when there are none (left). */
	int (*more)(struct evbuffer *out, void *state);
	void (*done)(void *state);
	void *state;
	size_t streamed; /* since the deadline was renewed */
};

static inline void tei_http_count(struct tei_http_conn *c,
				  enum tei_http_refusal why)
{
	c->http->config.refused[why]++;
}

/* http.c */
void tei_http_conn_free(struct tei_http_conn *c);

/* http_answer.c; each of these may free the connection */
/* Head and @body (drained); pieces or lingering follow once it is written. */
void tei_http_answer(struct tei_http_conn *c, int status, const char *type,
		     struct evbuffer *body);
/* A refusal in @text's words, as the server words them. */
void tei_http_answer_text(struct tei_http_conn *c, int status,
			  const char *text);
/* 404, with a list of what there is. */
void tei_http_answer_index(struct tei_http_conn *c);
/* There are no more pieces, or nobody to take them. */
void tei_http_answer_over(struct tei_http_conn *c);
void tei_http_turn(evutil_socket_t fd, short what, void *conn);
void tei_http_written(struct bufferevent *bev, void *conn);

/* http_request.c */
/*
 * @head[len] ends with the line end of its last field. 0, or the status of a
 * refusal; fini() is due in both cases.
 */
int tei_http_head_parse(struct tei_http_head *out, const char *head,
			size_t len);
void tei_http_head_fini(struct tei_http_head *head);

const char *tei_http_reason(int status);

/* http_host.c */
/* May a request be for @host[len], a field's value? NULL: it does not say. */
bool tei_http_host_meant(const struct tei_http_config *config, const char *host,
			 size_t len);

#endif
