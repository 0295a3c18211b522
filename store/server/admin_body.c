/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_body.c - what requests to the admin HTTP port bring with them
 */
#include "store/server/admin_body.h"

#include <string.h>

#include "store/server/admin_reply.h"

/* Bounds the time that parsing takes: some 100 ns each. */
#define VALUES_MAX 1024

/* Before it is parsed; what strings hold of these bytes counts, too. */
static bool has_few_values(const char *at, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += at[i] == ',' || at[i] == '[' || at[i] == '{';
	return n <= VALUES_MAX;
}

json_t *tes_server_admin_body(const struct tei_http_request *request,
			      struct tei_http_reply *reply)
{
	json_error_t error;
	json_t *root;

	if (!request->len) {
		tes_server_admin_wrong(reply, "a JSON object is expected");
		return NULL;
	}
	if (!has_few_values(request->body, request->len)) {
		tes_server_admin_wrong(reply, "the body has too many values");
		return NULL;
	}
	root = json_loadb(request->body, request->len, JSON_REJECT_DUPLICATES,
			  &error);
	if (!root)
		tes_server_admin_wrong(reply, "invalid JSON, byte %d: %s",
				       error.position, error.text);
	else if (!json_is_object(root))
		tes_server_admin_wrong(reply, "a JSON object is expected");
	if (json_is_object(root))
		return root;
	json_decref(root);
	return NULL;
}

bool tes_server_among(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

bool tes_server_admin_members(json_t *root, const char *const *names, size_t n,
			      struct tei_http_reply *reply)
{
	const char *name;
	json_t *value;

	json_object_foreach(root, name, value)
	{
		if (tes_server_among(name, names, n))
			continue;
		tes_server_admin_wrong(reply, "%.100s is no member of this",
				       name);
		return false;
	}
	return true;
}

bool tes_server_admin_params(const struct tei_http_request *request,
			     const char *const *names, size_t n,
			     struct tei_http_reply *reply)
{
	for (size_t i = 0; i < request->n_params; i++) {
		const struct tei_http_param *p = &request->params[i];

		if (strlen(p->name) == p->name_len &&
		    tes_server_among(p->name, names, n))
			continue;
		tes_server_admin_wrong(reply, "%.100s is no parameter of this",
				       p->name);
		return false;
	}
	return true;
}
