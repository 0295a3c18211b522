/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - a metadata server as directory
 *
 * GET, PUT and DELETE of /metadata?key=. What te-metad adds are parameters that
 * other metadata servers ignore: `incarnation` and `ttl_ms` of what is written,
 * and `if_incarnation`, whose value is to be replaced or removed ("none": there
 * must be none); and, since everybody can read those, a token that shows that
 * the value is ours.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "te/directory/directory.h"

#define URL_MAX   8192
#define UNCHANGED "metadata unchanged"
#define UPDATED   "metadata updated"

struct text {
	char *at, *end;
};

static void add_words(struct text *t, const char *words)
{
	size_t len = strlen(words);

	if (len < (size_t)(t->end - t->at)) {
		memcpy(t->at, words, len + 1);
		t->at += len;
	}
}

static void add_escaped(struct text *t, const char *words)
{
	char hex[4];

	for (; *words; words++) {
		unsigned char c = (unsigned char)*words;
		bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z') ||
			     (c && strchr("-._~/", c));

		(void)snprintf(hex, sizeof(hex), plain ? "%c" : "%%%02X", c);
		add_words(t, hex);
	}
}

/* A key has 1 KiB at most, so there is room for all of it. */
static void make_url(const struct tei_directory *dir, const char *key,
		     const char *more, char out[URL_MAX])
{
	struct text t = {out, out + URL_MAX};
	char name[TEI_NAME_LEN_MAX + 1];

	tei_name_join(dir->place.at[0].host, dir->place.at[0].port, name);
	add_words(&t, dir->place.tls ? "https://" : "http://");
	add_words(&t, name);
	add_words(&t, dir->place.path);
	add_words(&t, "?key=");
	add_escaped(&t, key);
	add_words(&t, more);
}

/*
 * The status, or what went wrong. @answer[TEI_ENTRY_MAX] gets a 0 at its end.
 */
static int call(struct tei_dir_link *link, const char *method, const char *key,
		const char *more, const char *body, char *answer)
{
	const struct tei_http_module *module = link->dir->module;
	char url[URL_MAX];
	struct tei_http_call c = {
		.method = method,
		.url = url,
		.body = body,
		.body_len = body ? strlen(body) : 0,
		.answer = answer,
		.room = TEI_ENTRY_MAX - 1,
		.timeout_ms = tei_dir_link_left(link, 1),
	};
	char token[TEI_DIR_TOKEN_LEN + 1];
	int rc;

	if (!c.timeout_ms)
		return tei_dir_link_fail(link, -ETIMEDOUT, "no time is left");
	if (!link->client)
		link->client = module->open();
	if (!link->client)
		return tei_dir_link_fail(link, -ENOMEM, "out of memory");
	if (strcmp(method, "GET") != 0) { /* readers show none */
		rc = tei_dir_token(link->dir, key, token);
		if (rc)
			return tei_dir_link_fail(link, rc, "%s",
						 te_strerror(rc));
		c.token = token;
	}
	make_url(link->dir, key, more, url);
	rc = module->call(link->client, &c);
	if (rc)
		return tei_dir_link_fail(link, rc, "%s", c.error);
	answer[c.len] = '\0';
	return (int)c.status;
}

static int odd(struct tei_dir_link *link, int status)
{
	if (status < 0)
		return status;
	return tei_dir_link_fail(
		link, -EPROTO, "answers %d, not as a metadata server", status);
}

static int get_value(struct tei_dir_link *link, const char *key, char *value)
{
	int status = call(link, "GET", key, "", NULL, value);

	if (status == 200)
		return (int)strlen(value);
	return status == 404 ? -ENOENT : odd(link, status);
}

/* Incarnation that @value belongs to, "": the value has none. */
static void life_of(const char *value, char out[TEI_ENTRY_LIFE_LEN + 1])
{
	struct tei_entry entry;

	out[0] = '\0';
	if (!tei_entry_decode(value, strlen(value), &entry))
		memcpy(out, entry.life, sizeof(entry.life));
}

static int put_value(struct tei_dir_link *link, const char *key,
		     const char *value, const char *old)
{
	char mine[TEI_ENTRY_LIFE_LEN + 1], his[TEI_ENTRY_LIFE_LEN + 1] = "none";
	char more[256], answer[TEI_ENTRY_MAX];
	int status;

	life_of(value, mine);
	if (old)
		life_of(old, his);
	(void)snprintf(more, sizeof(more), "&incarnation=%s&ttl_ms=%llu%s%s",
		       mine, (unsigned long long)link->dir->ttl_ms,
		       *his ? "&if_incarnation=" : "", his);
	status = call(link, "PUT", key, more, value, answer);
	if (status == 412 && strstr(answer, "token"))
		return -EACCES;
	/* 400: of a server that knows no conditions. */
	if (status == 412 || (status == 400 && strstr(answer, "Duplicate")))
		return -EEXIST;
	/* Not any web server that likes everything. */
	if (status == 200 &&
	    (strstr(answer, UPDATED) || strstr(answer, UNCHANGED)))
		return 0;
	return odd(link, status);
}

/* A server that knows no conditions may refuse what it has already. */
static int refresh(struct tei_dir_link *link, const char *key,
		   const char *value)
{
	char found[TEI_ENTRY_MAX];
	int rc = put_value(link, key, value, value);

	if (rc == -EEXIST && get_value(link, key, found) > 0 &&
	    !strcmp(found, value))
		return 0;
	return rc == -EACCES ? -EEXIST : rc;
}

static int remove_key(struct tei_dir_link *link, const char *key,
		      const char *value)
{
	char mine[TEI_ENTRY_LIFE_LEN + 1];
	char more[256], answer[TEI_ENTRY_MAX];
	int status;

	life_of(value, mine);
	(void)snprintf(more, sizeof(more), "&if_incarnation=%s", mine);
	status = call(link, "DELETE", key, more, NULL, answer);
	if (status == 200)
		return 0;
	if (status == 404)
		return -ENOENT;
	return status == 412 ? -EEXIST : odd(link, status);
}

const struct tei_directory_ops tei_directory_http = {
	.module = "te_directory_curl",
	.symbol = "tei_module_curl",
	.get = get_value,
	.put = put_value,
	.refresh = refresh,
	.remove = remove_key,
};
