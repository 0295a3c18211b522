/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - what the admin HTTP port answers; docs/admin.md lists the pages
 */
#ifndef STORE_SERVER_ADMIN_H
#define STORE_SERVER_ADMIN_H

#include <stddef.h>

#include "base/http.h"

struct tei_action;
struct tei_server;

/* Their arg is the struct tei_server. */
extern const struct tei_http_route tei_server_routes[];
extern const size_t tei_server_n_routes;

/* admin_all.c: the core has answered a removal of the shell's own. */
void tei_server_admin_removed(struct tei_server *s,
			      const struct tei_action *action);

/* admin_drains.c: the core has answered what the shell asked of a drain. */
void tei_server_admin_drained(struct tei_server *s,
			      const struct tei_action *action);

/*
 * admin_tenants.c: whose keys a request is about, by its parameter tenant_id;
 * NULL with *status 0: nobody was named, which means `default`; else *status
 * is that of an answer which says what is wrong.
 */
const char *tei_server_admin_tenant(const struct tei_server *s,
				    const struct tei_http_request *request,
				    struct tei_http_reply *reply, int *status);

/* Handlers, for the table. */
#define TEI_SERVER_PAGE(name)                                        \
	int tei_server_admin_##name(const struct tei_http_request *, \
				    struct tei_http_reply *, void *)
/* admin_keys.c */
TEI_SERVER_PAGE(query_key);
TEI_SERVER_PAGE(query_keys);
/* admin_all.c */
TEI_SERVER_PAGE(all_keys);
TEI_SERVER_PAGE(remove_all);
/* admin_drains.c */
TEI_SERVER_PAGE(drain);
TEI_SERVER_PAGE(query_drain);
TEI_SERVER_PAGE(cancel_drain);
/* admin_tenants.c */
TEI_SERVER_PAGE(quotas);
TEI_SERVER_PAGE(set_quota);
TEI_SERVER_PAGE(unset_quota);
/* admin_segments.c */
TEI_SERVER_PAGE(segment_names);
TEI_SERVER_PAGE(segments_detail);
TEI_SERVER_PAGE(segment);
TEI_SERVER_PAGE(segment_status);

#endif
