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

#include <stddef.h>

#include "base/http.h"

/* Their arg is the struct tei_server. */
extern const struct tei_http_route tei_server_routes[];
extern const size_t tei_server_n_routes;

#endif
