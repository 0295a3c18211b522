/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - a small HTTP server: a table of routes, one request a connection
 *
 * For people, scrapers and small bodies. A head has 16 KiB at most, a body the
 * configured cap (a longer one is refused before a byte of it is read). From
 * accept to the last byte of the answer there are 10 s, whatever the peer does.
 * Other hosts are refused at accept. Requests that change something are
 * answered for members alone (base/peer.h), others for every user of this host.
 * When all connections are in use, the one that has been idle for longest is
 * closed. Bytes that all have sent or do not read take as much memory as 64 of
 * the largest bodies: beyond that the oldest connection of those that hold most
 * is closed. docs/decisions/008-http-of-our-own.md says why it is no library.
 *
 * Handlers answer at once. A long answer is made in pieces, each when the peer
 * has taken the one before: struct tei_http_reply. A turn of the loop has time
 * for one handler or piece, or for several short ones.
 *
 * Threads: the loop's, unless a function says otherwise.
 */
#ifndef BASE_HTTP_H
#define BASE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evbuffer;
struct tei_http;
struct tei_loop;

/* A HEAD is a GET whose body is not sent: routes have no HEAD. */
enum tei_http_method {
	TEI_HTTP_GET,
	TEI_HTTP_PUT,
	TEI_HTTP_POST,
	TEI_HTTP_DELETE,
	TEI_HTTP_METHODS,
};

enum tei_http_refusal {
	TEI_HTTP_MALFORMED,
	TEI_HTTP_TOO_LONG,
	TEI_HTTP_METHOD, /* the path has no such method */
	TEI_HTTP_TIMEOUT,
	TEI_HTTP_FORBIDDEN, /* peer, foreign Origin, or Host not allowed */
	TEI_HTTP_FULL, /* a connection was closed to make room, or refused */
	TEI_HTTP_REFUSALS,
};

#define TEI_HTTP_PARAMS_MAX 16
#define TEI_HTTP_BODY_MAX   (1u << 20) /* unless the server says otherwise */
#define TEI_HTTP_BEARER_MAX 128u       /* bytes of a token; longer ones: 400 */

/* name=value behind the '?', decoded; both also end with a 0 byte. */
struct tei_http_param {
	const char *name, *value;
	size_t name_len, len;
};

struct tei_http_request {
	enum tei_http_method method;
	const char *path; /* as received: never decoded */
	const struct tei_http_param *params;
	size_t n_params;
	const void *body; /* NULL when len is 0 */
	size_t len;
	bool has_length; /* there was a Content-Length, also 0 */
	/* Token of "Authorization: Bearer", ends with a 0; NULL: none. */
	const char *bearer;
};

/*
 * A handler fills in what it needs. With @more the answer goes on after @body:
 * more() is called when the peer has taken what there was, adds the next piece
 * (64 KiB or so, 1 ms of work at most; none is allowed) and returns 1, or 0
 * with the last one, or TEI_HTTP_NOT_YET to be called again in a ms, or a
 * negative number to cut the connection. done() is called exactly once, at the
 * end or when the peer has gone before.
 */
#define TEI_HTTP_NOT_YET 2

struct tei_http_reply {
	struct evbuffer *body;
	const char *type; /* static; text/plain unless set */
	int (*more)(struct evbuffer *out, void *state);
	void (*done)(void *state); /* may be NULL */
	void *state;
};

struct tei_http_route {
	enum tei_http_method method;
	const char *path;
	/* Returns the status; @request is borrowed for the call. */
	int (*handle)(const struct tei_http_request *request,
		      struct tei_http_reply *reply, void *arg);
};

struct tei_http_config {
	const char *what; /* static: "HTTP metrics port", for the log */
	const char *host; /* NULL: wildcard */
	uint16_t port;    /* 0: kernel's choice */
	/* Whom to serve, base/peer.h. */
	bool insecure;
	const char *allow_uids; /* NULL: nobody else; borrowed for the call */
	/*
	 * Names, separated by commas, that Host may have beside localhost,
	 * addresses and the machine's name; a port or a final dot is ignored,
	 * as in requests. NULL or "": no other, or any if insecure.
	 */
	const char *allow_host;
	const struct tei_http_route *routes; /* routes[n_routes], static */
	size_t n_routes;
	void *arg;
	size_t body_max;        /* 0: TEI_HTTP_BODY_MAX */
	unsigned int conns_max; /* at a time; 0: 128 */
	uint64_t *refused;      /* refused[TEI_HTTP_REFUSALS], the user's */
	/*
	 * Words the answer to a request that no handler sees: fills @reply's
	 * body and type. NULL: @words as a line of text.
	 */
	void (*refusal)(int status, const char *words,
			struct tei_http_reply *reply);
};

/*
 * Listens and serves. Errors as tei_listen(), -ENOMEM, or -EINVAL: allow_uids.
 * @config is copied.
 */
int tei_http_start(struct tei_loop *loop, const struct tei_http_config *config,
		   uint16_t *out_port, struct tei_http **out);
/* Cuts all connections; NULL is fine. */
void tei_http_stop(struct tei_http *http);

/*
 * The value of parameter @name, *len bytes that may hold 0; NULL: absent. A
 * request that has a name twice is refused before its handler.
 */
const char *tei_http_query(const struct tei_http_request *request,
			   const char *name, size_t *len);

/* ---- what the ports of programs share ---- */

/*
 * Starts like tei_http_start(), from any thread. -ECANCELED: the loop has
 * stopped.
 */
int tei_http_start_from(struct tei_loop *loop,
			const struct tei_http_config *config,
			uint16_t *out_port, struct tei_http **out);

/* A number for Prometheus; @type is "counter" or "gauge". */
void tei_http_metric(struct evbuffer *out, const char *name, const char *type,
		     const char *help, uint64_t value);
/* The head of a metric with labels: its lines follow. */
void tei_http_metric_head(struct evbuffer *out, const char *name,
			  const char *type, const char *help);
/* Content type of a page of metrics: tei_http_reply.type. */
#define TEI_HTTP_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The answer of /health: 200 "OK", or 503 and @why. */
int tei_http_health(struct tei_http_reply *reply, bool well, const char *why);

#endif
