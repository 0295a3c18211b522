/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd.c - etcd as directory, by its HTTP gateway (JSON, bytes in base64)
 *
 * A value hangs on a lease that the publisher keeps alive: when it dies, both
 * go when the lease ends. Conditions are transactions that compare the value.
 * Of several hosts, the one that worked last is asked first.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/evp.h>

#include "te/directory/directory.h"

#define ANSWER_MAX 16384
#define BASE64_MAX (4 * ((TEI_ENTRY_MAX + 2) / 3) + 1)

/* ---- a call ---- */

static int call_at(struct tei_dir_link *link, const char *path,
		   struct tei_http_call *c)
{
	const struct tei_http_module *module = link->dir->module;
	char name[TEI_NAME_LEN_MAX + 1], url[TEI_NAME_LEN_MAX + 64];
	int rc;

	tei_name_join(link->dir->place.at[link->at].host,
		      link->dir->place.at[link->at].port, name);
	(void)snprintf(url, sizeof(url), "http://%s/v3/%s", name, path);
	c->url = url;
	rc = module->call(link->client, c);
	if (rc)
		return tei_dir_link_fail(link, rc, "%s", c->error);
	if (c->status == 200)
		return 0;
	c->answer[c->len] = '\0';
	return tei_dir_link_fail(link, -EPROTO, "answers %ld to /v3/%s",
				 c->status, path);
}

/* Any host will do; each gets its share of the time. */
static int call_any(struct tei_dir_link *link, const char *path,
		    struct tei_http_call *c)
{
	uint32_t n = link->dir->place.n;
	int rc = 0; /* of the last that was asked */

	for (uint32_t left = n; left; left--) {
		c->timeout_ms = tei_dir_link_left(link, left);
		if (!c->timeout_ms)
			break;
		rc = call_at(link, path, c);
		if (!rc)
			return 0;
		link->at = (link->at + 1) % n;
	}
	return rc ? rc : tei_dir_link_fail(link, -ETIMEDOUT, "no time is left");
}

/* Takes @body. The answer to be released by json_decref(), or an error. */
static int call(struct tei_dir_link *link, const char *path, json_t *body,
		json_t **out)
{
	const struct tei_http_module *module = link->dir->module;
	char answer[ANSWER_MAX];
	struct tei_http_call c = {
		.method = "POST", .answer = answer, .room = sizeof(answer) - 1};
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	int rc = -ENOMEM;

	json_decref(body);
	if (text && !link->client)
		link->client = module->open();
	if (!text || !link->client) {
		(void)tei_dir_link_fail(link, rc, "out of memory");
		goto free_text;
	}
	c.body = text;
	c.body_len = strlen(text);
	rc = call_any(link, path, &c);
	if (rc)
		goto free_text;
	*out = json_loadb(answer, c.len, 0, NULL);
	if (!json_is_object(*out)) {
		json_decref(*out);
		rc = tei_dir_link_fail(link, -EPROTO,
				       "answers with other words than etcd's");
	}
free_text:
	free(text); /* of jansson, which takes malloc()'s */
	return rc;
}

/* ---- pieces of JSON ---- */

static json_t *base64(const char *text)
{
	unsigned char out[BASE64_MAX];

	if (strlen(text) >= TEI_ENTRY_MAX)
		return NULL;
	(void)EVP_EncodeBlock(out, (const unsigned char *)text,
			      (int)strlen(text));
	return json_string((const char *)out);
}

/* The bytes with a 0 behind; their number or -EPROTO. */
static int from_base64(const json_t *value, char out[TEI_ENTRY_MAX])
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);
	unsigned char bytes[BASE64_MAX];
	int n;

	if (!text || len >= BASE64_MAX - 4)
		return -EPROTO;
	n = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);
	if (n < 0)
		return -EPROTO;
	/* The decoder counts the padding, '=', as bytes. */
	for (; n > 0 && len > 0 && text[len - 1] == '='; len--)
		n--;
	if (n >= TEI_ENTRY_MAX)
		return -EPROTO;
	memcpy(out, bytes, (size_t)n);
	out[n] = '\0';
	return n;
}

/* Numbers of 64 bits come as strings. */
static int64_t number(const json_t *value)
{
	const char *text = json_string_value(value);

	return text ? strtoll(text, NULL, 10) : json_integer_value(value);
}

/* Absent when @old is NULL. */
static json_t *compare(const char *key, const char *old)
{
	if (old)
		return json_pack("{s:s, s:s, s:o, s:o}", "target", "VALUE",
				 "result", "EQUAL", "key", base64(key), "value",
				 base64(old));
	return json_pack("{s:s, s:s, s:o, s:s}", "target", "CREATE", "result",
			 "EQUAL", "key", base64(key), "create_revision", "0");
}

/* Does @action when the value is @old. -EEXIST: it is another. */
static int transact(struct tei_dir_link *link, const char *key, const char *old,
		    const char *action, json_t *request)
{
	json_t *body, *answer;
	bool done;
	int rc;

	body = json_pack("{s:[o], s:[{s:o}]}", "compare", compare(key, old),
			 "success", action, request);
	rc = call(link, "kv/txn", body, &answer);
	if (rc)
		return rc;
	done = json_is_true(json_object_get(answer, "succeeded"));
	rc = done || json_object_get(answer, "header")
		     ? 0
		     : tei_dir_link_fail(link, -EPROTO, "no transaction");
	json_decref(answer);
	if (rc)
		return rc;
	return done ? 0 : -EEXIST;
}

/* ---- leases ---- */

static int grant(struct tei_dir_link *link)
{
	uint64_t seconds = (link->dir->ttl_ms + 999) / 1000;
	json_t *answer;
	int rc;

	rc = call(link, "lease/grant",
		  json_pack("{s:I}", "TTL", (json_int_t)seconds), &answer);
	if (rc)
		return rc;
	link->lease = number(json_object_get(answer, "ID"));
	json_decref(answer);
	return link->lease ? 0
			   : tei_dir_link_fail(link, -EPROTO, "gives no lease");
}

static json_t *lease_id(const struct tei_dir_link *link)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%lld", (long long)link->lease);
	return json_pack("{s:s}", "ID", text);
}

/* -ENOENT: the lease has ended. */
static int keep_alive(struct tei_dir_link *link)
{
	json_t *answer;
	int64_t ttl;
	int rc;

	if (!link->lease)
		return -ENOENT;
	rc = call(link, "lease/keepalive", lease_id(link), &answer);
	if (rc)
		return rc;
	ttl = number(json_object_get(json_object_get(answer, "result"), "TTL"));
	json_decref(answer);
	if (ttl > 0)
		return 0;
	link->lease = 0;
	return -ENOENT;
}

/* ---- what a directory does ---- */

static int take_value(struct tei_dir_link *link, const json_t *answer,
		      char *value)
{
	const json_t *kvs = json_object_get(answer, "kvs");
	int n;

	if (!json_object_get(answer, "header"))
		return tei_dir_link_fail(link, -EPROTO, "no range");
	if (!json_array_size(kvs))
		return -ENOENT;
	n = from_base64(json_object_get(json_array_get(kvs, 0), "value"),
			value);
	return n < 0 ? tei_dir_link_fail(link, n, "no value, or one too long")
		     : n;
}

static int get_value(struct tei_dir_link *link, const char *key, char *value)
{
	json_t *answer;
	int rc;

	rc = call(link, "kv/range", json_pack("{s:o}", "key", base64(key)),
		  &answer);
	if (rc)
		return rc;
	rc = take_value(link, answer, value);
	json_decref(answer);
	return rc;
}

static int put_value(struct tei_dir_link *link, const char *key,
		     const char *value, const char *old)
{
	char lease[24];
	json_t *request;
	int rc = keep_alive(link);

	if (rc == -ENOENT)
		rc = grant(link);
	if (rc)
		return rc;
	(void)snprintf(lease, sizeof(lease), "%lld", (long long)link->lease);
	request = json_pack("{s:o, s:o, s:s}", "key", base64(key), "value",
			    base64(value), "lease", lease);
	return transact(link, key, old, "request_put", request);
}

/* The lease keeps the value; here we only see that it is still ours. */
static int refresh(struct tei_dir_link *link, const char *key,
		   const char *value)
{
	int rc = keep_alive(link);

	if (rc)
		return rc;
	return transact(
		link, key, value, "request_range",
		json_pack("{s:o, s:b}", "key", base64(key), "keys_only", 1));
}

/* The lease goes, too; if that fails it ends by itself. */
static int remove_key(struct tei_dir_link *link, const char *key,
		      const char *value)
{
	json_t *answer;
	int rc;

	rc = transact(link, key, value, "request_delete_range",
		      json_pack("{s:o}", "key", base64(key)));
	if (link->lease && !call(link, "lease/revoke", lease_id(link), &answer))
		json_decref(answer);
	link->lease = 0;
	return rc;
}

const struct tei_directory_ops tei_directory_etcd = {
	.module = "te_directory_curl",
	.symbol = "tei_module_curl",
	.get = get_value,
	.put = put_value,
	.refresh = refresh,
	.remove = remove_key,
};
