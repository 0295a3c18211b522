/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - a client's HTTP port: /health and /metrics
 *
 * Served by the loop of the store, which ends it.
 */
#ifndef STORE_API_HTTP_H
#define STORE_API_HTTP_H

#include <stdbool.h>
#include <stdint.h>

struct te_store;

/*
 * Serves HTTP of a store that is set up; to be called once. @port 0: any.
 * Errors as tei_http_start().
 */
int tes_store_http_start(struct te_store *store, uint16_t port, bool insecure,
			 const char *allow_host);

#endif
