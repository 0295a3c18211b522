/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quotas.c - the file of tenants' quotas: reading
 */
#include "store/server/quotas.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "base/log.h"
#include "base/mem.h"

#define FILE_MAX (1 << 20)

int tes_quotas_add(struct tes_quotas *q, const char *name, uint64_t bytes)
{
	size_t len = strlen(name);

	if (q->n == q->room) {
		size_t room = q->room ? 2 * q->room : 8;
		struct tes_quota *grown =
			tei_realloc(q->at, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		q->at = grown;
		q->room = room;
	}
	memcpy(q->at[q->n].name, name, len + 1);
	q->at[q->n++].bytes = bytes;
	return 0;
}

void tes_quotas_free(struct tes_quotas *q)
{
	tei_free(q->at);
	*q = (struct tes_quotas){.n = 0};
}

struct reader {
	yaml_parser_t parser;
	const char *path;
	char *error;
	struct tes_quotas *out;
	bool version, tenants; /* were there */
};

static int bad_line(struct reader *r, size_t line, const char *why)
{
	snprintf(r->error, TEI_CONF_ERROR_LEN, "%.120s line %zu: %.80s",
		 r->path, line + 1, why);
	return -EINVAL;
}

static int refuse_event(struct reader *r, const yaml_event_t *event,
			const char *why)
{
	return bad_line(r, event->start_mark.line, why);
}

static int next_event(struct reader *r, yaml_event_t *event)
{
	if (yaml_parser_parse(&r->parser, event))
		return 0;
	if (r->parser.error == YAML_MEMORY_ERROR) {
		snprintf(r->error, TEI_CONF_ERROR_LEN, "%.120s: out of memory",
			 r->path);
		return -ENOMEM;
	}
	return bad_line(r, r->parser.problem_mark.line,
			r->parser.problem ? r->parser.problem : "not YAML");
}

/* A text without a 0 byte; NULL: it is something else. */
static const char *text_of(const yaml_event_t *event)
{
	const char *text;

	if (event->type != YAML_SCALAR_EVENT)
		return NULL;
	text = (const char *)event->data.scalar.value;
	return strlen(text) == event->data.scalar.length ? text : NULL;
}

static bool is_null(const yaml_event_t *event)
{
	const char *text = text_of(event);

	return text && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*text || !strcmp(text, "~") || !strcasecmp(text, "null"));
}

static bool is(const yaml_event_t *event, const char *word)
{
	const char *text = text_of(event);

	return text && strcmp(text, word) == 0;
}

/* ---- a tenant ---- */

static int take_name(struct reader *r, const yaml_event_t *event,
		     struct tes_quota *to)
{
	const char *text = text_of(event);

	if (*to->name)
		return refuse_event(r, event, "name is given twice");
	if (!text || is_null(event) || !tes_core_tenant_name_valid(text))
		return refuse_event(
			r, event,
			"a tenant's name has 1 to 64 bytes, no control "
			"characters and no _ at the beginning");
	for (size_t i = 0; i < r->out->n; i++)
		if (strcmp(r->out->at[i].name, text) == 0)
			return refuse_event(r, event,
					    "a tenant of this name is there");
	memcpy(to->name, text, strlen(text) + 1);
	return 0;
}

static int take_quota(struct reader *r, const yaml_event_t *event,
		      struct tes_quota *to)
{
	const char *text = text_of(event);

	if (to->bytes)
		return refuse_event(r, event, "quota is given twice");
	if (!text || strchr(text, '.') || tei_parse_size(text, &to->bytes) ||
	    !to->bytes)
		return refuse_event(
			r, event,
			"a quota is a whole number above 0, with B, KB, MB, "
			"GB or TB");
	return 0;
}

/* Calls @take for each event until an @end. */
static int take_all(struct reader *r, yaml_event_type_t end,
		    int (*take)(struct reader *r, const yaml_event_t *event,
				void *arg),
		    void *arg)
{
	yaml_event_t event;
	bool over = false;
	int rc;

	do {
		rc = next_event(r, &event);
		if (rc)
			return rc;
		over = event.type == end;
		if (!over)
			rc = take(r, &event, arg);
		yaml_event_delete(&event);
	} while (!rc && !over);
	return rc;
}

static int take_field(struct reader *r, const yaml_event_t *name, void *quota)
{
	struct tes_quota *to = quota;
	yaml_event_t value;
	int rc;

	if (!is(name, "name") && !is(name, "quota"))
		return refuse_event(r, name, "a tenant has name and quota");
	rc = next_event(r, &value);
	if (rc)
		return rc;
	rc = is(name, "name") ? take_name(r, &value, to)
			      : take_quota(r, &value, to);
	yaml_event_delete(&value);
	return rc;
}

/* Reads a tenant's map, from behind its beginning, on line @line. */
static int take_tenant(struct reader *r, size_t line)
{
	struct tes_quota quota = {.bytes = 0};
	int rc = take_all(r, YAML_MAPPING_END_EVENT, take_field, &quota);

	if (rc)
		return rc;
	if (!*quota.name || !quota.bytes)
		return bad_line(r, line, "a tenant has name and quota");
	if (r->out->n == TES_CORE_TENANTS_MAX / 2)
		return bad_line(r, line, "too many tenants");
	rc = tes_quotas_add(r->out, quota.name, quota.bytes);
	if (rc)
		snprintf(r->error, TEI_CONF_ERROR_LEN, "%.120s: out of memory",
			 r->path);
	return rc;
}

static int take_entry(struct reader *r, const yaml_event_t *entry, void *arg)
{
	(void)arg;
	if (entry->type != YAML_MAPPING_START_EVENT)
		return refuse_event(r, entry, "a tenant has name and quota");
	return take_tenant(r, entry->start_mark.line);
}

/* The value of `tenants`: a list; nothing is an empty one. */
static int take_tenants(struct reader *r, const yaml_event_t *value)
{
	if (is_null(value))
		return 0;
	if (value->type != YAML_SEQUENCE_START_EVENT)
		return refuse_event(r, value, "tenants is a list");
	return take_all(r, YAML_SEQUENCE_END_EVENT, take_entry, NULL);
}

/* ---- the file ---- */

static int take_version(struct reader *r, const yaml_event_t *value)
{
	return is(value, "1") ? 0 : refuse_event(r, value, "version is 1");
}

static int take_pair(struct reader *r, const yaml_event_t *name, void *arg)
{
	bool version = is(name, "version");
	bool *seen = version ? &r->version : &r->tenants;
	yaml_event_t value;
	int rc;

	(void)arg;
	if (!version && !is(name, "tenants"))
		return refuse_event(r, name,
				    "version and tenants are expected");
	if (*seen)
		return refuse_event(r, name, "given twice");
	*seen = true;
	rc = next_event(r, &value);
	if (rc)
		return rc;
	rc = version ? take_version(r, &value) : take_tenants(r, &value);
	yaml_event_delete(&value);
	return rc;
}

/* Reads a stream of one document, which is a map. */
static int take_stream(struct reader *r)
{
	yaml_event_type_t type = YAML_NO_EVENT;
	bool map = false;
	int rc = 0;

	while (!rc && type != YAML_STREAM_END_EVENT) {
		yaml_event_t event;

		rc = next_event(r, &event);
		if (rc)
			return rc;
		type = event.type;
		if (type == YAML_MAPPING_START_EVENT && !map) {
			map = true;
			rc = take_all(r, YAML_MAPPING_END_EVENT, take_pair,
				      NULL);
		} else if (type == YAML_DOCUMENT_START_EVENT && map) {
			rc = refuse_event(r, &event,
					  "one document is expected");
		} else if (type != YAML_STREAM_START_EVENT &&
			   type != YAML_STREAM_END_EVENT &&
			   type != YAML_DOCUMENT_START_EVENT &&
			   type != YAML_DOCUMENT_END_EVENT) {
			rc = refuse_event(r, &event,
					  "version and tenants are expected");
		}
		yaml_event_delete(&event);
	}
	if (!rc && (!r->version || !r->tenants))
		return bad_line(r, 0, "version and tenants are expected");
	return rc;
}

static int parse(struct reader *r, FILE *f)
{
	int rc;

	if (!yaml_parser_initialize(&r->parser)) {
		snprintf(r->error, TEI_CONF_ERROR_LEN, "out of memory");
		return -ENOMEM;
	}
	yaml_parser_set_input_file(&r->parser, f);
	rc = take_stream(r);
	yaml_parser_delete(&r->parser);
	return rc;
}

/* Refuses what is no plain file, or a huge one. */
static int check_file(FILE *f)
{
	struct stat st;

	if (fstat(fileno(f), &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return st.st_size > FILE_MAX ? -EFBIG : 0;
}

int tes_quotas_read(const char *path, struct tes_quotas *out,
		    char error[TEI_CONF_ERROR_LEN])
{
	struct reader r = {.path = path, .error = error, .out = out};
	/* Opening a FIFO or a device must not block. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
	int rc = f ? check_file(f) : -errno;

	*out = (struct tes_quotas){.n = 0};
	if (rc)
		snprintf(error, TEI_CONF_ERROR_LEN, "%.120s: %s", path,
			 rc == -EINVAL ? "not a plain file" : strerror(-rc));
	else
		rc = parse(&r, f);
	if (f)
		(void)fclose(f);
	else if (fd >= 0)
		(void)close(fd);
	if (rc)
		tes_quotas_free(out);
	return rc;
}

/*
 * The file of tenants' quotas: writing.
 *
 * A new file beside the old one, which takes its place when it is on the disk.
 */

#define HEAD                                                                \
	"# Written by mooncake_master when a quota was changed; read when " \
	"it starts.\n"

/* Prints with the largest unit that leaves the number whole. */
static void print_bytes(FILE *f, uint64_t bytes)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
	size_t unit = 0;

	while (bytes % 1024 == 0 &&
	       unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		unit++;
	}
	(void)fprintf(f, "%" PRIu64 "%s", bytes, units[unit]);
}

/* Bytes of the character at @at that YAML does not take as it is, or takes for
 * the end of a line: it is U+@out; 0: it takes it. */
static size_t special(const char *at, unsigned int *out)
{
	static const struct {
		const char bytes[4];
		unsigned int number;
	} others[] = {{"\xe2\x80\xa8", 0x2028},
		      {"\xe2\x80\xa9", 0x2029},
		      {"\xef\xbb\xbf", 0xfeff},
		      {"\xef\xbf\xbe", 0xfffe},
		      {"\xef\xbf\xbf", 0xffff}};
	unsigned char second = (unsigned char)at[1];

	*out = second;
	if (*at == '\xc2' && second < 0xa0)
		return 2;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		*out = others[i].number;
		if (strncmp(at, others[i].bytes, 3) == 0)
			return 3;
	}
	return 0;
}

static void print_name(FILE *f, const char *name)
{
	unsigned int number;
	size_t len;

	(void)fputc('"', f);
	for (; *name; name += len ? len : 1) {
		len = special(name, &number);
		if (len) {
			(void)fprintf(f, "\\u%04X", number);
			continue;
		}
		if (*name == '"' || *name == '\\')
			(void)fputc('\\', f);
		(void)fputc(*name, f);
	}
	(void)fputc('"', f);
}

/* Every error shows in ferror(). */
static void print(FILE *f, const struct tes_quotas *q)
{
	(void)fprintf(f, HEAD "version: 1\ntenants:%s\n", q->n ? "" : " []");
	for (size_t i = 0; i < q->n; i++) {
		(void)fprintf(f, "  - name: ");
		print_name(f, q->at[i].name);
		(void)fprintf(f, "\n    quota: ");
		print_bytes(f, q->at[i].bytes);
		(void)fputc('\n', f);
	}
}

static int fill_file(int fd, mode_t mode, const struct tes_quotas *q)
{
	FILE *f = fdopen(fd, "wb");
	int rc = 0;

	if (!f) {
		rc = -errno;
		(void)close(fd);
		return rc;
	}
	print(f, q);
	if (ferror(f) || fflush(f) || fchmod(fd, mode) || fsync(fd))
		rc = errno ? -errno : -EIO;
	if (fclose(f) && !rc)
		rc = -errno;
	return rc;
}

/* The folder of @path; negative: errno. */
static int open_folder(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) + 1 : 0;
	int fd;

	memcpy(folder, path, len);
	folder[len] = '\0';
	fd = open(len ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int fill_beside(char *beside, const char *path, mode_t mode,
		       const struct tes_quotas *q)
{
	int fd = mkostemp(beside, O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = fill_file(fd, mode, q);
	if (!rc && rename(beside, path))
		rc = -errno;
	if (rc)
		(void)unlink(beside);
	return rc;
}

/*
 * The change is made once the file has its name. A folder that cannot be synced
 * is no error: not every file system can.
 */
static int replace_file(const char *path, mode_t mode,
			const struct tes_quotas *q)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	char beside[PATH_MAX + 16];
	int folder = open_folder(path), rc;

	if (folder < 0)
		return folder;
	(void)snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
	rc = fill_beside(beside, path, mode, q);
	if (!rc && fsync(folder) && tei_log_allowed(&limit))
		LOG_WARN("master: %s: folder not synced, so a crash of this "
			 "host may undo the change: %s",
			 path, strerror(errno));
	(void)close(folder);
	return rc;
}

int tes_quotas_write(const char *path, const struct tes_quotas *q)
{
	char real[PATH_MAX];
	struct stat st;

	if (!realpath(path, real) || stat(real, &st))
		return -errno;
	return replace_file(real, st.st_mode & 0777, q);
}
