/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - looking a name up in a directory, on a look-up's own thread */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/lookup.h"
#include "base/mem.h"
#include "te/directory/directory.h"

struct finding {
	struct tei_directory *dir;
	char name[TEI_HOST_LEN_MAX + 1];
};

static int get(struct finding *f, struct tei_entry *out)
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
static int find(void *arg, struct tei_address *out, int max)
{
	struct tei_entry entry;
	int n = get(arg, &entry);

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
	static const struct tei_lookup_by by = {find, finding_free};
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
