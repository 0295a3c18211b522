/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_body.h - bodies and parameters of requests to the admin HTTP port
 *
 * A function that says "or 400" here answers a wrong request itself, with status
 * 400 and a text that says what is wrong.
 */
#ifndef STORE_SERVER_ADMIN_BODY_H
#define STORE_SERVER_ADMIN_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/http.h"

/* Whether @name is one of names[n]. */
bool tes_server_among(const char *name, const char *const *names, size_t n);
/* An object without members of one name, to be freed. NULL: or 400. */
json_t *tes_server_admin_body(const struct tei_http_request *request,
			      struct tei_http_reply *reply);
/* Whether all members are among names[n]; or 400. */
bool tes_server_admin_members(json_t *root, const char *const *names, size_t n,
			      struct tei_http_reply *reply);
/* The same of parameters, where a misspelt one could do harm. */
bool tes_server_admin_params(const struct tei_http_request *request,
			     const char *const *names, size_t n,
			     struct tei_http_reply *reply);

#endif
