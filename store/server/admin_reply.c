/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_reply.c - answers of the admin HTTP port as JSON
 */
#include "store/server/admin_reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "store/core/codes.h"

#define REASON_ROOM 512

static int add(const char *bytes, size_t len, void *out)
{
	return evbuffer_add(out, bytes, len);
}

int tes_server_admin_print(struct evbuffer *out, json_t *root)
{
	int rc = json_dump_callback(root, add, out,
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

static bool is_dash(size_t at)
{
	return at == 8 || at == 13 || at == 18 || at == 23;
}

void tes_server_id_text(const uint8_t id[TES_CORE_ID_LEN],
			char out[TES_SERVER_ID_ROOM])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0, n = 0; i < TES_SERVER_ID_ROOM - 1; i++) {
		if (is_dash(i)) {
			out[i] = '-';
			continue;
		}
		out[i] = digits[n % 2 ? id[n / 2] & 15 : id[n / 2] >> 4];
		n++;
	}
	out[TES_SERVER_ID_ROOM - 1] = '\0';
}

bool tes_server_id_parse(const char *text, uint8_t out[TES_CORE_ID_LEN])
{
	if (strlen(text) != TES_SERVER_ID_ROOM - 1)
		return false;
	for (size_t i = 0, n = 0; text[i]; i++) {
		int digit = tei_hex_digit(text[i]);

		if (is_dash(i) && text[i] == '-')
			continue;
		if (is_dash(i) || digit < 0)
			return false;
		out[n / 2] = (uint8_t)(out[n / 2] << 4 | digit);
		n++;
	}
	return true;
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
