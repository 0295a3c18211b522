/* SPDX-License-Identifier: Apache-2.0 */
/* http_request.h - the head of an HTTP request, parsed; hosts it may name */
#ifndef BASE_HTTP_REQUEST_H
#define BASE_HTTP_REQUEST_H

#include "base/http.h"

#define TEI_HTTP_PATH_ROOM 256u

/* A request's first line and fields. */
struct tei_http_head {
	struct tei_http_request request; /* but for the body */
	struct tei_http_param params[TEI_HTTP_PARAMS_MAX];
	char path[TEI_HTTP_PATH_ROOM];
	char bearer[TEI_HTTP_BEARER_MAX + 1];
	char *query;      /* owned: decoded in place, or NULL */
	const char *why;  /* words for a refusal, or NULL; not owned */
	const char *host; /* within the parsed bytes, or NULL */
	size_t host_len;
	uint64_t length;
	bool known; /* the method is one of enum tei_http_method */
	bool head_only;
	bool old;     /* HTTP/1.0 */
	bool expects; /* 100 Continue before the body */
	bool foreign; /* sent by the page of another site */
};

/*
 * Parses @head[len], which ends with the line end of its last field. 0, or the
 * status of a refusal; fini() is due in both cases.
 */
int tei_http_head_parse(struct tei_http_head *out, const char *head,
			size_t len);
void tei_http_head_fini(struct tei_http_head *head);

/*
 * Tells whether @config serves requests for @host[len]; NULL: the field is
 * absent.
 */
bool tei_http_host_allowed(const struct tei_http_config *config,
			   const char *host, size_t len);

#endif
