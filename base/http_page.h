/* SPDX-License-Identifier: Apache-2.0 */
/* http_page.h - what the HTTP ports of programs have in common */
#ifndef BASE_HTTP_PAGE_H
#define BASE_HTTP_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/http.h"

/* As tei_http_start(), from any thread. -ECANCELED: the loop has stopped. */
int tei_http_start_from(struct tei_loop *loop,
			const struct tei_http_config *config,
			uint16_t *out_port, struct tei_http **out);

/* A number for Prometheus; @type is "counter" or "gauge". */
void tei_http_metric(struct evbuffer *out, const char *name, const char *type,
		     const char *help, uint64_t value);
/* The head of one that has labels: its lines follow. */
void tei_http_metric_head(struct evbuffer *out, const char *name,
			  const char *type, const char *help);
/* Content type of a page of metrics: tei_http_reply.type. */
#define TEI_HTTP_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The answer of /health: 200 "OK", or 503 and @why. */
int tei_http_health(struct tei_http_reply *reply, bool well, const char *why);

#endif
