/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - the master's figures as text, in the format of Prometheus
 *
 * Made in pieces, because there may be thousands of segments and tenants: each
 * takes well below a millisecond, and clients are served in between.
 */
#ifndef STORE_SERVER_METRICS_H
#define STORE_SERVER_METRICS_H

#include <stddef.h>

struct evbuffer;
struct tes_server;
struct tes_server_metrics;

#define TES_SERVER_LABEL_ROOM 1024

/* NULL: out of memory. */
struct tes_server_metrics *tes_server_metrics_new(struct tes_server *s);
/* Callbacks more() and done() of struct tei_http_reply. */
int tes_server_metrics_more(struct evbuffer *out, void *page);
void tes_server_metrics_free(void *page);

/*
 * @value as it may stand between the quotes of a label: backslash, quote and
 * newline escaped, bytes that are no UTF-8 as '?', cut at @room.
 */
void tes_server_label(const char *value, char *out, size_t room);

#endif
