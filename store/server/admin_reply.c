/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_reply.c - requests and answers of the admin HTTP port, as JSON
 */
#include "store/server/admin_reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/server/state.h"

#define REASON_ROOM 512

static int add_bytes(const char *bytes, size_t len, void *out)
{
	return evbuffer_add(out, bytes, len);
}

int tes_server_admin_print(struct evbuffer *out, json_t *root)
{
	int rc = json_dump_callback(root, add_bytes, out,
				    JSON_COMPACT | JSON_ENCODE_ANY);

	json_decref(root);
	return rc ? -ENOMEM : 0;
}

int tes_server_admin_json(struct tei_http_reply *reply, int status,
			  json_t *root)
{
	int rc;

	if (!root)
		return 500;
	reply->type = "application/json";
	rc = tes_server_admin_print(reply->body, root);
	evbuffer_add(reply->body, "\n", 1);
	return rc ? 500 : status;
}

int tes_server_admin_error(struct tei_http_reply *reply, int status,
			   int32_t code, const char *message)
{
	return tes_server_admin_json(
		reply, status,
		json_pack("{s:b,s:i,s:o}", "success", 0, "error_code", code,
			  "error_message", tes_server_admin_string(message)));
}

int tes_server_admin_wrong(struct tei_http_reply *reply, const char *format,
			   ...)
{
	char reason[REASON_ROOM];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return tes_server_admin_error(reply, 400, CODE_ARGUMENT, reason);
}

void tes_server_admin_refusal(int status, const char *words,
			      struct tei_http_reply *reply)
{
	(void)tes_server_admin_error(reply, status, CODE_ARGUMENT, words);
}

const char *tes_server_code_name(int32_t code)
{
	switch (code) {
	case CODE_NO_SEGMENT:
		return "SEGMENT_NOT_FOUND";
	case CODE_ARGUMENT:
		return "INVALID_PARAMS";
	case CODE_NOT_NOW:
		return "UNAVAILABLE_IN_CURRENT_STATUS";
	case CODE_TASKS_FULL:
		return "TASK_PENDING_LIMIT_EXCEEDED";
	case CODE_NO_JOB:
		return "JOB_NOT_FOUND";
	case CODE_NOT_READY:
		return "REPLICA_IS_NOT_READY";
	case CODE_NOT_FOUND:
		return "OBJECT_NOT_FOUND";
	case CODE_NO_TENANT:
		return "TENANT_NOT_REGISTERED";
	case CODE_MODE:
		return "UNAVAILABLE_IN_CURRENT_MODE";
	default:
		return "INTERNAL_ERROR";
	}
}

int tes_server_admin_code(struct tei_http_reply *reply, int32_t code)
{
	return tes_server_admin_error(reply, code == CODE_ARGUMENT ? 400 : 404,
				      code, tes_server_code_name(code));
}

const char *tes_server_admin_text(const struct tei_http_request *request,
				  const char *name,
				  struct tei_http_reply *reply)
{
	size_t len;
	const char *value = tei_http_query(request, name, &len);

	if (value && len && strlen(value) == len)
		return value;
	tes_server_admin_wrong(reply, "parameter %s is %s", name,
			       value ? "empty, or has a 0 byte" : "missing");
	return NULL;
}

json_t *tes_server_admin_string(const char *text)
{
	json_t *string = json_string(text);
	char *copy;

	if (string)
		return string;
	copy = tei_strdup(text);
	if (!copy)
		return NULL;
	for (char *p = copy; *p; p++)
		if (*p & 0x80)
			*p = '?';
	string = json_string(copy);
	tei_free(copy);
	return string;
}

void tes_server_bytes(uint64_t n, char out[TES_SERVER_BYTES_ROOM])
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
	double value = (double)n;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	snprintf(out, TES_SERVER_BYTES_ROOM, unit ? "%.2f %s" : "%.0f %s",
		 value, units[unit]);
}

/* Bounds the time that parsing takes: some 100 ns each. */
#define VALUES_MAX 1024

/*
 * Counts values before it is parsed; what strings hold of these bytes counts,
 * too.
 */
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
