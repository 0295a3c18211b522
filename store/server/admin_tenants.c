/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_tenants.c - tenants and their quotas: at the start, and the admin pages
 *
 * A change counts when it is in the file; before that no session is notified.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/core/codes.h"
#include "store/server/admin.h"
#include "store/server/admin_reply.h"
#include "store/server/quotas.h"
#include "store/server/state.h"

/* ---- the file ---- */

/* NULL: there is none. */
static const char *path_of(const struct tes_server *s)
{
	const char *uri = s->settings.tenant_quota_connector_uri;

	if (!uri || !*uri)
		return NULL;
	return strncmp(uri, "file://", 7) == 0 ? uri + 7 : uri;
}

static int load(struct tes_server *s, const char *path,
		char error[TEI_CONF_ERROR_LEN])
{
	struct tes_quotas q;
	char why[TEI_CONF_ERROR_LEN];
	int rc = tes_quotas_read(path, &q, why);

	for (size_t i = 0; !rc && i < q.n; i++)
		rc = tes_core_tenant_set(s->core, q.at[i].name, q.at[i].bytes);
	if (rc)
		snprintf(error, TEI_CONF_ERROR_LEN,
			 "--tenant_quota_connector_uri: %.200s",
			 rc == -ENOMEM ? "out of memory" : why);
	tes_quotas_free(&q);
	return rc;
}

int tes_server_tenants_start(struct tes_server *s,
			     char error[TEI_CONF_ERROR_LEN])
{
	const char *path = path_of(s);

	if (!s->settings.enable_multi_tenants) {
		if (path)
			LOG_WARN("master: --tenant_quota_connector_uri means "
				 "nothing without --enable_multi_tenants");
		return 0;
	}
	if (strcmp(s->settings.tenant_quota_connector_type, "file") != 0) {
		snprintf(error, TEI_CONF_ERROR_LEN,
			 "--tenant_quota_connector_type: only file is here");
		return -ENOTSUP;
	}
	if (path)
		return load(s, path, error);
	LOG_WARN("master: quotas of tenants are not saved: there is no "
		 "--tenant_quota_connector_uri");
	return 0;
}

/* Saves the quotas as they will be when @name has @bytes; 0: no quota. */
static int save(const struct tes_server *s, const char *name, uint64_t bytes)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	const char *path = path_of(s);
	struct tes_quotas q = {.n = 0};
	struct tes_core_tenant t;
	size_t cursor = 0;
	int rc = 0;

	if (!path)
		return 0;
	while (!rc && tes_core_tenant_next(s->core, &cursor, &t))
		if (t.registered && strcmp(t.name, name) != 0)
			rc = tes_quotas_add(&q, t.name, t.requested);
	if (!rc && bytes)
		rc = tes_quotas_add(&q, name, bytes);
	if (!rc)
		rc = tes_quotas_write(path, &q);
	if (rc && tei_log_allowed(&limit))
		LOG_ERROR("master: %s could not be written: %s", path,
			  strerror(-rc));
	tes_quotas_free(&q);
	return rc;
}

/* ---- what all pages share ---- */

const char *tes_server_admin_tenant(const struct tes_server *s,
				    const struct tei_http_request *request,
				    struct tei_http_reply *reply, int *status)
{
	struct tes_core_tenant t;
	const char *name;
	size_t len;

	*status = 0;
	if (!tei_http_query(request, "tenant_id", &len))
		return NULL;
	name = tes_server_admin_text(request, "tenant_id", reply);
	if (!name) {
		*status = 400;
		return NULL;
	}
	if (tes_core_tenant_query(s->core, name, &t))
		return name;
	*status = tes_server_admin_code(reply, CODE_NO_TENANT);
	return NULL;
}

static json_t *tenant_json(const struct tes_core_tenant *t)
{
	return json_pack("{s:o,s:I,s:I,s:I,s:b,s:b,s:b}", "tenant_id",
			 tes_server_admin_string(t->name),
			 "requested_quota_bytes", (json_int_t)t->requested,
			 "effective_quota_bytes", (json_int_t)t->effective,
			 "charged_bytes", (json_int_t)t->charged,
			 "admission_closed", !t->effective, "over_quota",
			 t->charged > t->effective, "has_explicit_policy",
			 (int)t->registered);
}

/* False: an answer was made that says why not. */
static bool enabled(const struct tes_server *s, struct tei_http_reply *reply,
		    int *status)
{
	if (s->settings.enable_multi_tenants)
		return true;
	*status = tes_server_admin_error(
		reply, 409, CODE_MODE,
		"tenants are not enabled (--enable_multi_tenants)");
	return false;
}

static int one(const struct tes_server *s, const char *name,
	       struct tei_http_reply *reply)
{
	struct tes_core_tenant t;

	if (!tes_core_tenant_query(s->core, name, &t))
		return tes_server_admin_code(reply, CODE_NO_TENANT);
	return tes_server_admin_json(reply, 200, tenant_json(&t));
}

/* The parameter tenant_id as a name that may be one's; or NULL, answered. */
static const char *name_of(const struct tei_http_request *request,
			   struct tei_http_reply *reply)
{
	const char *name = tes_server_admin_text(request, "tenant_id", reply);

	if (!name)
		return NULL;
	if (tes_core_tenant_name_valid(name) &&
	    tei_utf8_is_text(name, strlen(name)))
		return name;
	tes_server_admin_wrong(reply,
			       "a tenant's name has 1 to 64 bytes of UTF-8, no "
			       "control characters and no _ at the beginning");
	return NULL;
}

/*
 * Name of the tenant whose quota is to change; or NULL, answered with *status.
 */
static const char *whose(const struct tes_server *s,
			 const struct tei_http_request *request,
			 struct tei_http_reply *reply, int *status)
{
	static const char *const params[] = {"tenant_id"};
	const char *name;

	if (!enabled(s, reply, status))
		return NULL;
	*status = 400;
	name = name_of(request, reply);
	return name && tes_server_admin_params(request, params, 1, reply)
		       ? name
		       : NULL;
}

/* ---- pages ---- */

/* Tenants of a piece of the listing: there may be thousands. */
#define PIECE 64

struct listing {
	const struct tes_server *server;
	size_t cursor;
	bool any;
};

static int more_tenants(struct evbuffer *out, void *state)
{
	struct listing *l = state;
	struct tes_core_tenant t;

	for (int i = 0; i < PIECE; i++) {
		if (!tes_core_tenant_next(l->server->core, &l->cursor, &t)) {
			evbuffer_add_printf(out, "]\n");
			return 0;
		}
		if (l->any)
			evbuffer_add(out, ",", 1);
		l->any = true;
		if (tes_server_admin_print(out, tenant_json(&t)))
			return -ENOMEM;
	}
	return 1;
}

static int all(const struct tes_server *s, struct tei_http_reply *reply)
{
	struct listing *l = tei_calloc(1, sizeof(*l));

	if (!l)
		return 500;
	l->server = s;
	reply->type = "application/json";
	evbuffer_add(reply->body, "[", 1);
	reply->more = more_tenants;
	reply->done = tei_free;
	reply->state = l;
	return 200;
}

int tes_server_admin_quotas(const struct tei_http_request *request,
			    struct tei_http_reply *reply, void *arg)
{
	const struct tes_server *s = arg;
	const char *name;
	size_t len;
	int status;

	if (!enabled(s, reply, &status))
		return status;
	if (!tei_http_query(request, "tenant_id", &len))
		return all(s, reply);
	name = tes_server_admin_text(request, "tenant_id", reply);
	return name ? one(s, name, reply) : 400;
}

/* Decodes the quota that the body asks for; 0: refused, and answered why. */
static uint64_t wanted(const struct tei_http_request *request,
		       struct tei_http_reply *reply)
{
	static const char *const members[] = {"requested_quota_bytes"};
	json_t *root = tes_server_admin_body(request, reply);
	json_int_t bytes = 0;

	if (!root)
		return 0;
	if (tes_server_admin_members(root, members, 1, reply)) {
		bytes = json_integer_value(
			json_object_get(root, "requested_quota_bytes"));
		if (bytes <= 0)
			tes_server_admin_wrong(reply,
					       "requested_quota_bytes is a "
					       "whole number above 0");
	}
	json_decref(root);
	return bytes > 0 ? (uint64_t)bytes : 0;
}

static int not_written(struct tei_http_reply *reply)
{
	return tes_server_admin_error(reply, 500, CODE_INTERNAL,
				      "the file of quotas cannot be written; "
				      "nothing was changed");
}

/* A line of the log; @bytes 0: there is no quota any more. */
static void tell_quota(const char *name, uint64_t bytes)
{
	static struct tei_log_limit limit = {.per_minute = 60};

	if (!tei_log_info_allowed(&limit))
		return;
	if (bytes)
		LOG_INFO("master: tenant '%s' has a quota of %llu bytes now",
			 name, (unsigned long long)bytes);
	else
		LOG_INFO("master: tenant '%s' has no quota any more", name);
}

int tes_server_admin_set_quota(const struct tei_http_request *request,
			       struct tei_http_reply *reply, void *arg)
{
	struct tes_core_tenant before = {.registered = false};
	struct tes_server *s = arg;
	const char *name;
	uint64_t bytes;
	int status, rc;

	name = whose(s, request, reply, &status);
	if (!name)
		return status;
	bytes = wanted(request, reply);
	if (!bytes)
		return 400;
	(void)tes_core_tenant_query(s->core, name, &before);
	if (save(s, name, bytes))
		return not_written(reply);
	rc = tes_core_tenant_set(s->core, name, bytes);
	if (rc)
		(void)save(s, name, before.requested);
	if (rc == -ENOSPC)
		return tes_server_admin_error(reply, 409, CODE_MODE,
					      "there are too many tenants");
	if (rc)
		return 500;
	tell_quota(name, bytes);
	return one(s, name, reply);
}

int tes_server_admin_unset_quota(const struct tei_http_request *request,
				 struct tei_http_reply *reply, void *arg)
{
	struct tes_core_tenant before = {.registered = false};
	struct tes_server *s = arg;
	const char *name;
	int status, rc;

	name = whose(s, request, reply, &status);
	if (!name)
		return status;
	if (request->len)
		return tes_server_admin_wrong(reply, "no body is expected");
	(void)tes_core_tenant_query(s->core, name, &before);
	rc = tes_core_tenant_unset(s->core, name);
	if (rc == -ENOENT)
		return tes_server_admin_code(reply, CODE_NO_TENANT);
	if (rc)
		return tes_server_admin_error(
			reply, 409, CODE_NOT_EMPTY,
			"TENANT_NOT_EMPTY: remove its objects first");
	if (save(s, name, 0)) {
		/* Undoing needs no memory: the tenant exists. */
		(void)tes_core_tenant_set(s->core, name, before.requested);
		return not_written(reply);
	}
	tell_quota(name, 0);
	return tes_server_admin_json(reply, 200,
				     json_pack("{s:b}", "success", 1));
}
