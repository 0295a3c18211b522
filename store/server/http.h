/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - a small HTTP server for people and scrapers: GET and HEAD only
 *
 * One request a connection, no bodies, a head of 16 KiB at most, 10 s from
 * accept to the last byte of the answer whatever the peer does, strangers
 * refused at accept. Why not evhttp: docs/decisions/008-http-of-our-own.md.
 *
 * Threads: the loop's.
 */
#ifndef STORE_SERVER_HTTP_H
#define STORE_SERVER_HTTP_H

#include <stdbool.h>
#include <stdint.h>

struct evbuffer;
struct tei_loop;
struct tei_server_http;

enum tei_server_http_refusal {
	TEI_SERVER_HTTP_MALFORMED,
	TEI_SERVER_HTTP_TOO_LONG,
	TEI_SERVER_HTTP_METHOD,
	TEI_SERVER_HTTP_LATE,
	TEI_SERVER_HTTP_STRANGER,
	TEI_SERVER_HTTP_CROWD,
	TEI_SERVER_HTTP_REFUSALS,
};

struct tei_server_http_reply {
	struct evbuffer *body;
	const char *type; /* static; text/plain unless set */
};

struct tei_server_http_config {
	const char *host; /* NULL: wildcard */
	uint16_t port;    /* 0: kernel's choice */
	bool insecure;
	/* Answer GET @path (without query); returns the status, 200 or 404. */
	int (*get)(const char *path, struct tei_server_http_reply *reply,
		   void *arg);
	void *arg;
	uint64_t *refused; /* refused[TEI_SERVER_HTTP_REFUSALS], the user's */
};

/* As tei_listen(), or -ENOMEM. @config is copied. */
int tei_server_http_start(struct tei_loop *loop,
			  const struct tei_server_http_config *config,
			  uint16_t *out_port, struct tei_server_http **out);
void tei_server_http_stop(struct tei_server_http *http); /* NULL is fine */

#endif
