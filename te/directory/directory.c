/* SPDX-License-Identifier: Apache-2.0 */
/* directory.c - opening a directory, and links to it */
#include "te/directory/directory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/common/config.h"

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

static struct tei_directory *make(const struct tei_config *config,
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
	dir = make(config, &place);
	if (!dir)
		return -ENOMEM;
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
	if (link->client)
		link->dir->ops->close(link);
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
