/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the master: store/core behind sockets
 *
 * Everything runs on one loop. The core decides; this folder listens, decodes
 * frames to events, carries out actions, ticks, and answers admin HTTP.
 *
 * Threads: the loop's.
 */
#ifndef STORE_SERVER_SERVER_H
#define STORE_SERVER_SERVER_H

#include <stdint.h>

#include "base/conf.h"
#include "store/server/settings.h"

struct tei_loop;
struct tes_server;

/*
 * Open all ports and serve as soon as @loop runs. @settings is borrowed while
 * the server lives. On error everything is closed again and @error is one line
 * that names the setting: -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, -EHOSTUNREACH
 * (an address or port), -EINVAL (settings that exclude each other), -ENOMEM,
 * -EMFILE.
 */
int tes_server_create(struct tei_loop *loop,
		      const struct tes_server_settings *settings,
		      struct tes_server **out, char error[TEI_CONF_ERROR_LEN]);
/* Close all connections; clients see them end. NULL is fine. */
void tes_server_destroy(struct tes_server *server);

/* The ports that were bound. */
uint16_t tes_server_rpc_port(const struct tes_server *server);
uint16_t tes_server_http_port(const struct tes_server *server);
/* 0: there is no metadata server. */
uint16_t tes_server_metadata_port(const struct tes_server *server);
/* Returns where events are published; NULL: nowhere. */
const char *tes_server_events_endpoint(const struct tes_server *server);

#endif
