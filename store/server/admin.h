/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - what the admin HTTP port answers; docs/admin.md lists the pages
 */
#ifndef STORE_SERVER_ADMIN_H
#define STORE_SERVER_ADMIN_H

#include <stddef.h>

#include "base/http.h"

struct tes_action;
struct tes_server;

/* Routes whose arg is the struct tes_server. */
extern const struct tei_http_route tes_server_routes[];
extern const size_t tes_server_n_routes;

/* admin_keys.c: the core has answered a removal of the shell's own. */
void tes_server_admin_removed(struct tes_server *s,
			      const struct tes_action *action);

/* admin_segments.c: the core has answered what the shell asked of a drain. */
void tes_server_admin_drained(struct tes_server *s,
			      const struct tes_action *action);

/*
 * admin_tenants.c: whose keys a request is about, by its parameter tenant_id;
 * NULL with *status 0: nobody was named, which means `default`; else *status
 * is that of an answer which says what is wrong.
 */
const char *tes_server_admin_tenant(const struct tes_server *s,
				    const struct tei_http_request *request,
				    struct tei_http_reply *reply, int *status);

/* Handlers, for the table. */
#define TES_SERVER_PAGE(name)                                        \
	int tes_server_admin_##name(const struct tei_http_request *, \
				    struct tei_http_reply *, void *)
/* admin_keys.c */
TES_SERVER_PAGE(query_key);
TES_SERVER_PAGE(query_keys);
TES_SERVER_PAGE(all_keys);
TES_SERVER_PAGE(remove_all);
/* admin_segments.c */
TES_SERVER_PAGE(drain);
TES_SERVER_PAGE(query_drain);
TES_SERVER_PAGE(cancel_drain);
/* admin_tenants.c */
TES_SERVER_PAGE(quotas);
TES_SERVER_PAGE(set_quota);
TES_SERVER_PAGE(unset_quota);
/* admin_segments.c */
TES_SERVER_PAGE(segment_names);
TES_SERVER_PAGE(segments_detail);
TES_SERVER_PAGE(segment);
TES_SERVER_PAGE(segment_status);

#endif
