/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - where a directory is */
#include "te/directory/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FORMS                                                            \
	"P2PHANDSHAKE, http://host:port/metadata, etcd://host:port;... " \
	"or redis://host:port"

struct scheme {
	const char *prefix;
	enum tei_place_kind kind;
	bool tls;
	uint16_t port;
};

static const struct scheme schemes[] = {
	{"http://", TEI_PLACE_HTTP, false, 80},
	{"https://", TEI_PLACE_HTTP, true, 443},
	{"etcd://", TEI_PLACE_ETCD, false, 2379},
	{"redis://", TEI_PLACE_REDIS, false, 6379},
	/* Of old, an address alone was etcd's. */
	{"", TEI_PLACE_ETCD, false, 0},
};

static const struct scheme *scheme_of(const char *text)
{
	const struct scheme *s = schemes;

	while (strncasecmp(text, s->prefix, strlen(s->prefix)) != 0)
		s++; /* the last one fits all */
	return s;
}

static int wrong(char *error, const char *why)
{
	(void)snprintf(error, TEI_PLACE_ERROR_LEN, "%s; should be " FORMS, why);
	return -EINVAL;
}

static int take_host(const char *text, size_t len, const struct scheme *s,
		     struct tei_place *out, char *error)
{
	char name[TEI_NAME_LEN_MAX + 1];

	if (out->n == TEI_PLACE_HOSTS)
		return wrong(error, "more than 8 hosts");
	if (len >= sizeof(name))
		return wrong(error, "a host's name is too long");
	memcpy(name, text, len);
	name[len] = '\0';
	if (tei_name_split(name, out->at[out->n].host, &out->at[out->n].port))
		return wrong(error, "no host, or a malformed one");
	if (!out->at[out->n].port)
		out->at[out->n].port = s->port;
	if (!out->at[out->n].port)
		return wrong(error, "neither a scheme nor a port");
	out->n++;
	return 0;
}

static int take_hosts(const char *text, size_t len, const struct scheme *s,
		      struct tei_place *out, char *error)
{
	const char *end = text + len;
	int rc;

	for (;;) {
		size_t part = strcspn(text, ";,");

		if (part > (size_t)(end - text))
			part = (size_t)(end - text);
		rc = take_host(text, part, s, out, error);
		text += part;
		if (rc || text == end)
			break;
		text++;
	}
	if (!rc && out->n > 1 && s->kind != TEI_PLACE_ETCD)
		return wrong(error, "more than one host");
	return rc;
}

static int take_path(const char *path, const struct scheme *s,
		     struct tei_place *out, char *error)
{
	if (s->kind != TEI_PLACE_HTTP)
		return strcmp(path, "/") != 0 && *path ? wrong(error, "a path")
						       : 0;
	if (strlen(path) >= sizeof(out->path))
		return wrong(error, "the path is too long");
	memcpy(out->path, path, strlen(path) + 1);
	if (!*path || strcmp(path, "/") == 0)
		(void)snprintf(out->path, sizeof(out->path), "/metadata");
	return 0;
}

/* What has a meaning of its own in a URL, and what cannot stand in one. */
static const char *what_is_odd(const char *text)
{
	for (; *text; text++) {
		if (*text == '@')
			return "a user or password belongs into settings of its own";
		if (*text <= ' ' || *text > '~' ||
		    strchr("?#\"<>\\^`{|}", *text))
			return "a space, or another character that a URL cannot have";
	}
	return NULL;
}

int tei_place_parse(const char *text, struct tei_place *out,
		    char error[TEI_PLACE_ERROR_LEN])
{
	const struct scheme *s;
	const char *odd, *at;
	size_t len;
	int rc;

	*out = (struct tei_place){0};
	if (!text || !*text || strcasecmp(text, "P2PHANDSHAKE") == 0)
		return 0;
	odd = what_is_odd(text);
	if (odd)
		return wrong(error, odd);
	s = scheme_of(text);
	at = text + strlen(s->prefix);
	if (!*s->prefix && strstr(text, "://"))
		return wrong(error, "no such kind of directory");
	out->kind = s->kind;
	out->tls = s->tls;
	len = strcspn(at, "/");
	rc = take_hosts(at, len, s, out, error);
	return rc ? rc : take_path(at + len, s, out, error);
}
