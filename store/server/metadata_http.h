/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metadata_http.h - a metadata server: its HTTP port and what it keeps
 *
 * GET, PUT and DELETE of /metadata?key=, GET /health and /metrics;
 * docs/directories.md.
 *
 * Threads: the loop's.
 */
#ifndef STORE_SERVER_METADATA_HTTP_H
#define STORE_SERVER_METADATA_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "store/server/metadata.h"

struct tei_loop;
struct tes_metadata_server;

struct tes_metadata_config {
	const char *host; /* NULL: wildcard */
	uint16_t port;    /* 0: kernel's choice */
	bool insecure;
	const char *allow_uids; /* as tei_http_config has it */
	const char *allow_host; /* as tei_http_config has it */
	struct tes_metadata_limits limits;
};

#define TES_METADATA_ENTRIES 1000000u
#define TES_METADATA_VALUE   (1u << 20)
#define TES_METADATA_BYTES   (256u << 20)

/* Starts the server; errors as tei_http_start(). */
int tes_metadata_server_start(struct tei_loop *loop,
			      const struct tes_metadata_config *config,
			      uint16_t *out_port,
			      struct tes_metadata_server **out);
/* NULL is fine. */
void tes_metadata_server_stop(struct tes_metadata_server *server);
/*
 * An engine is gone for good: what it, or nobody in particular, has written
 * under its name goes, unless it was written with a token: the name and the
 * incarnation can be anybody's words, and it expires soon. NULL is fine.
 */
void tes_metadata_server_forget(struct tes_metadata_server *server,
				const char *name,
				const uint8_t incarnation[16]);

#endif
