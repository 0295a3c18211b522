/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - the master's figures as text
 */
#ifndef STORE_SERVER_METRICS_H
#define STORE_SERVER_METRICS_H

#include <stddef.h>

struct evbuffer;
struct tei_server;

#define TEI_SERVER_LABEL_ROOM 1024

/* Prometheus text format. */
void tei_server_metrics(const struct tei_server *s, struct evbuffer *out);
/*
 * @value as it may stand between the quotes of a label: backslash, quote and
 * newline escaped, cut at @room.
 */
void tei_server_label(const char *value, char *out, size_t room);

#endif
