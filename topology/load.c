/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - taking a picture: which source, and how it ends */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "topology/topo.h"

#define FLAGS_ALL    (TE_TOPO_DETAIL | TE_TOPO_VIRTUAL)
#define JSON_MAX_LEN ((size_t)4 << 20)

/* ---- files ---- */

static int read_all(int fd, char *out, size_t room, size_t *len)
{
	ssize_t n = 1;

	for (*len = 0; n > 0 && *len<room; *len += n> 0 ? (size_t)n : 0)
		n = read(fd, out + *len, room - *len);
	return n < 0 ? -errno : 0;
}

static int slurp(const char *path, char **out, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	struct stat st;
	int rc;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) ? -errno : 0;
	if (!rc && !S_ISREG(st.st_mode))
		rc = S_ISDIR(st.st_mode) ? -EISDIR : -EBADMSG;
	if (!rc && (size_t)st.st_size > JSON_MAX_LEN)
		rc = -EFBIG;
	if (!rc) {
		text = tei_malloc((size_t)st.st_size + 1);
		rc = text ? read_all(fd, text, (size_t)st.st_size + 1, len)
			  : -ENOMEM;
	}
	close(fd);
	if (rc)
		tei_free(text);
	else
		*out = text;
	return rc;
}

static int from_file(struct te_topo *t, const char *path,
		     struct tei_topo_error *e)
{
	size_t len = 0;
	char *text = NULL;
	int rc = slurp(path, &text, &len);

	if (rc)
		return tei_topo_fail(e, rc, "%s: %s", path, strerror(-rc));
	rc = tei_topo_from_json(t, text, len, path, e);
	tei_free(text);
	return rc;
}

/* ---- which ---- */

static int from_machine(struct te_topo *t, const struct te_topo_source *s,
			struct tei_topo_error *e)
{
	struct tei_topo_error ignored = {""};
	int rc;

	if (s->hwloc_xml && !s->sysfs_root)
		return tei_topo_from_hwloc(t, s->hwloc_xml, false, e);
	rc = tei_topo_from_sysfs(t, s->sysfs_root, s->flags, e);
	if (rc)
		return rc;
	if (s->hwloc_xml)
		return tei_topo_from_hwloc(t, s->hwloc_xml, true, e);
	/* Names are a courtesy: without them the picture is right, too. */
	if (!s->sysfs_root && s->flags & TE_TOPO_DETAIL)
		(void)tei_topo_from_hwloc(t, NULL, true, &ignored);
	return 0;
}

static int check(const struct te_topo_source *s)
{
	return s->flags & ~(uint32_t)FLAGS_ALL || s->reserved_0 ||
			       s->reserved[0] || s->reserved[1] ||
			       s->reserved[2] || s->reserved[3]
		       ? -EINVAL
		       : 0;
}

static int end(struct te_topo *t, int rc, struct tei_topo_error *e,
	       struct te_topo **out, char *error, size_t error_len)
{
	if (!rc)
		rc = tei_topo_finish(t, e);
	if (rc) {
		te_topo_destroy(t);
		if (error && error_len)
			snprintf(error, error_len, "%s", e->text);
		return rc;
	}
	*out = t;
	return 0;
}

int te_topo_load(const struct te_topo_source *source, struct te_topo **out,
		 char *error, size_t error_len)
{
	static const struct te_topo_source here;
	struct tei_topo_error e = {"out of memory"};
	const struct te_topo_source *s = source ? source : &here;
	struct te_topo *t = NULL;
	int rc = -EINVAL;

	if (!out || check(s)) {
		tei_topo_fail(&e, rc, "a flag or reserved field is unknown");
		return end(t, rc, &e, out, error, error_len);
	}
	t = tei_topo_make();
	if (!t)
		rc = -ENOMEM;
	else if (s->json)
		rc = from_file(t, s->json, &e);
	else
		rc = from_machine(t, s, &e);
	return end(t, rc, &e, out, error, error_len);
}

int te_topo_parse(const char *text, size_t len, struct te_topo **out,
		  char *error, size_t error_len)
{
	struct tei_topo_error e = {"out of memory"};
	struct te_topo *t = tei_topo_make();
	int rc = -ENOMEM;

	if (t && len > JSON_MAX_LEN)
		rc = tei_topo_fail(&e, -EBADMSG, "topology: longer than 4 MiB");
	else if (t)
		rc = tei_topo_from_json(t, text, len, "topology", &e);
	return end(t, rc, &e, out, error, error_len);
}
