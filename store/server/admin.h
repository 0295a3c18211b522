/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - what the admin HTTP port answers
 *
 *   /health            JSON: is it serving, since when
 *   /metrics           Prometheus text; Mooncake's names where they apply
 *   /metrics/summary   the same for people, in one line
 *   /get_all_segments  names of mounted segments, one a line
 */
#ifndef STORE_SERVER_ADMIN_H
#define STORE_SERVER_ADMIN_H

struct tei_server;
struct tei_server_http_reply;

/* For tei_server_http_config.get; @arg is the struct tei_server. */
int tei_server_admin_get(const char *path, struct tei_server_http_reply *reply,
			 void *arg);

#endif
