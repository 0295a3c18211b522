/* SPDX-License-Identifier: Apache-2.0 */
/* directory.c - opening a directory, and links to it */
#include "te/directory/directory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/lookup.h"
#include "base/mem.h"
#include "te/core/config.h"
#include "te/directory/crypto.h"

/* ---- where a directory is ---- */

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
	/* An address without a scheme means etcd, as it does for Mooncake. */
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

/* Finds a character that is special in a URL, or cannot stand in one. */
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

/* ---- opening ---- */

static const struct tei_directory_ops *const kinds[] = {
	[TEI_PLACE_HTTP] = &tei_directory_http,
	[TEI_PLACE_ETCD] = &tei_directory_etcd,
	[TEI_PLACE_REDIS] = &tei_directory_redis,
};

static void destroy(struct tei_directory *dir)
{
	tei_free(dir->text);
	tei_free(dir->cluster);
	tei_free(dir->user);
	tei_free(dir->password);
	tei_free(dir);
}

struct tei_directory *tei_directory_get(struct tei_directory *dir)
{
	atomic_fetch_add(&dir->refs, 1);
	return dir;
}

void tei_directory_put(struct tei_directory *dir)
{
	if (dir && atomic_fetch_sub(&dir->refs, 1) == 1)
		destroy(dir);
}

/* False: no memory. */
static bool copy(char **to, const char *from)
{
	*to = from && *from ? tei_strdup(from) : NULL;
	return *to || !from || !*from;
}

static struct tei_directory *make_directory(const struct tei_config *config,
					    const struct tei_place *place)
{
	struct tei_directory *dir = tei_calloc(1, sizeof(*dir));

	if (!dir)
		return NULL;
	atomic_init(&dir->refs, 1);
	dir->ops = kinds[place->kind];
	dir->place = *place;
	dir->db = config->redis_db_index;
	dir->ttl_ms = config->metadata_ttl;
	dir->timeout_ms = config->metadata_timeout;
	if (copy(&dir->text, config->metadata_server) &&
	    copy(&dir->cluster, config->metadata_cluster_id) &&
	    copy(&dir->user, config->redis_username) &&
	    copy(&dir->password, config->redis_password))
		return dir;
	destroy(dir);
	return NULL;
}

int tei_directory_open(const struct tei_config *config,
		       struct tei_directory **out)
{
	char error[TEI_PLACE_ERROR_LEN], why[TEI_MODULE_ERROR_LEN];
	struct tei_directory *dir;
	struct tei_place place;
	int rc;

	*out = NULL;
	rc = tei_place_parse(config->metadata_server, &place, error);
	if (rc) {
		LOG_ERROR("metadata_server: %s", error);
		return rc;
	}
	if (place.kind == TEI_PLACE_NONE)
		return 0;
	rc = tei_dir_crypto_start();
	if (rc)
		return rc;
	dir = make_directory(config, &place);
	if (!dir)
		return -ENOMEM;
	if (place.kind == TEI_PLACE_HTTP) /* tokens are shown to no others */
		rc = tei_dir_secret(dir->secret);
	if (rc) {
		tei_directory_put(dir);
		return rc;
	}
	dir->module = tei_module_load(config->module_path, dir->ops->module,
				      dir->ops->symbol, TEI_DIRECTORY_ABI, why);
	if (!dir->module) {
		LOG_WARN("directory %s: not used: %s; names host:port work "
			 "without it",
			 dir->text, why);
		tei_directory_put(dir);
		return 0;
	}
	*out = dir;
	return 0;
}

/* ---- links ---- */

void tei_dir_link_init(struct tei_dir_link *link,
		       const struct tei_directory *dir)
{
	*link = (struct tei_dir_link){.dir = dir};
}

void tei_dir_link_close(struct tei_dir_link *link)
{
	const struct tei_client_module *module = link->dir->module;

	if (link->client)
		module->close(link->client);
	link->client = NULL;
}

void tei_dir_link_begin(struct tei_dir_link *link)
{
	link->until = tei_now_ms() + link->dir->timeout_ms;
	link->error[0] = '\0';
}

uint32_t tei_dir_link_left(const struct tei_dir_link *link, uint32_t parts)
{
	uint64_t now = tei_now_ms();
	uint64_t left = now < link->until ? link->until - now : 0;

	if (!left)
		return 0;
	return (uint32_t)(left / parts ? left / parts : 1);
}

int tei_dir_link_fail(struct tei_dir_link *link, int rc, const char *format,
		      ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(link->error, sizeof(link->error), format, args);
	va_end(args);
	return rc;
}

/* ---- looking a name up in a directory, on a look-up's own thread ---- */

struct finding {
	struct tei_directory *dir;
	char name[TEI_HOST_LEN_MAX + 1];
};

static int get_entry(struct finding *f, struct tei_entry *out)
{
	char key[TEI_ENTRY_KEY_MAX], value[TEI_ENTRY_MAX];
	struct tei_dir_link link;
	int rc;

	rc = tei_entry_key(f->dir->cluster, f->name, key);
	if (rc)
		return rc;
	tei_dir_link_init(&link, f->dir);
	tei_dir_link_begin(&link);
	rc = f->dir->ops->get(&link, key, value);
	tei_dir_link_close(&link);
	if (rc == -ENOENT)
		LOG_DEBUG("directory %s: no %s there", f->dir->text, f->name);
	else if (rc < 0)
		LOG_DEBUG("directory %s: look up %s: %s", f->dir->text, f->name,
			  link.error);
	if (rc < 0)
		return rc;
	rc = tei_entry_decode(value, (size_t)rc, out);
	if (rc)
		LOG_DEBUG("directory %s: no address in the value of %s",
			  f->dir->text, f->name);
	return rc;
}

/* Whatever is wrong, it may be right the next time. */
static int find_address(void *arg, struct tei_address *out, int max)
{
	struct tei_entry entry;
	int n = get_entry(arg, &entry);

	tei_dir_crypto_end_thread();
	if (!n)
		n = tei_entry_addresses(&entry, out, max);
	return n > 0 || n == -ENOMEM ? n : -ECONNREFUSED;
}

static void finding_free(void *arg)
{
	struct finding *f = arg;

	tei_directory_put(f->dir);
	tei_free(f);
}

int tei_directory_look_up(struct tei_directory *dir, struct tei_loop *loop,
			  const char *name, tei_lookup_fn *fn, void *arg,
			  struct tei_lookup **out)
{
	static const struct tei_lookup_by by = {find_address, finding_free};
	struct finding *f = tei_calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return -ENOMEM;
	f->dir = tei_directory_get(dir);
	(void)strncpy(f->name, name, sizeof(f->name) - 1);
	rc = tei_lookup_start_by(loop, &by, f, fn, arg, out);
	if (rc)
		finding_free(f);
	return rc;
}
