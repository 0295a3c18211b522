/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf_file.c - the registry of settings: files
 *
 * A file is a flat list of names and values. It is read whole, then parsed;
 * the first thing that does not belong there ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <yaml.h>

#include "base/conf.h"
#include "base/mem.h"

#define FILE_MAX (1 << 20)
#define FROM_LEN 128 /* "(PATH line N)" */
#define PATH_LEN 80  /* of it: the end of the path */

struct file {
	struct tei_conf *c;
	const char *path; /* its end, when it is long */
	char *text;
	size_t len;
	bool *given; /* given[c->n]: the setting was in it */
	char *error;
};

/* Apply a setting of the file; @line 0: its line is unknown. */
static int put_value(struct file *f, const char *name, size_t len,
		     const char *text, size_t line)
{
	const struct tei_setting *s = tei_conf_find(f->c, name, len);
	char from[FROM_LEN];

	if (line)
		snprintf(from, sizeof(from), " (%s line %zu)", f->path, line);
	else
		snprintf(from, sizeof(from), " (%s)", f->path);
	if (!s)
		return tei_conf_unknown(f->c, name, len, from, f->error);
	if (s->file) {
		tei_conf_say(f->error, "setting %s%s: not from a file", s->name,
			     from);
		return -EINVAL;
	}
	if (f->given[s - f->c->rows]) {
		tei_conf_say(f->error, "setting %s%s: given twice", s->name,
			     from);
		return -EINVAL;
	}
	f->given[s - f->c->rows] = true;
	return tei_conf_assign_said(f->c, s, text, from, f->error);
}

/* ---- YAML ---- */

static int yaml_bad(struct file *f, const yaml_event_t *event, const char *why)
{
	tei_conf_say(f->error, "%s line %zu: %s", f->path,
		     event->start_mark.line + 1, why);
	return -EINVAL;
}

static int yaml_next(struct file *f, yaml_parser_t *parser, yaml_event_t *event)
{
	if (yaml_parser_parse(parser, event))
		return 0;
	if (parser->error == YAML_MEMORY_ERROR) {
		tei_conf_say(f->error, "%s: out of memory", f->path);
		return -ENOMEM;
	}
	tei_conf_say(f->error, "%s line %zu: %s", f->path,
		     parser->problem_mark.line + 1,
		     parser->problem ? parser->problem : "not YAML");
	return -EINVAL;
}

/* A text without a 0 byte; what it says, or NULL. */
static const char *yaml_text(const yaml_event_t *event)
{
	const char *text;

	if (event->type != YAML_SCALAR_EVENT)
		return NULL;
	text = (const char *)event->data.scalar.value;
	return strlen(text) == event->data.scalar.length ? text : NULL;
}

static bool yaml_is_null(const yaml_event_t *event, const char *text)
{
	return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*text || !strcmp(text, "~") || !strcasecmp(text, "null"));
}

/* @name was read, its value is next. */
static int yaml_pair(struct file *f, yaml_parser_t *parser,
		     const yaml_event_t *name)
{
	const char *key = yaml_text(name), *text;
	yaml_event_t value;
	int rc;

	if (!key)
		return yaml_bad(f, name, "a setting's name is expected");
	rc = yaml_next(f, parser, &value);
	if (rc)
		return rc;
	text = yaml_text(&value);
	if (!text)
		rc = yaml_bad(f, &value,
			      "one value is expected, no list or map");
	else if (yaml_is_null(&value, text))
		rc = yaml_bad(f, &value, "a value is missing");
	else
		rc = put_value(f, key, strlen(key), text,
			       value.start_mark.line + 1);
	yaml_event_delete(&value);
	return rc;
}

/* Reads a map, from behind its beginning up to the end of it. */
static int yaml_map(struct file *f, yaml_parser_t *parser)
{
	yaml_event_t event;
	bool end = false;
	int rc;

	do {
		rc = yaml_next(f, parser, &event);
		if (rc)
			return rc;
		end = event.type == YAML_MAPPING_END_EVENT;
		if (!end)
			rc = yaml_pair(f, parser, &event);
		yaml_event_delete(&event);
	} while (!rc && !end);
	return rc;
}

/* The stream may be empty; else there is one document, which is a map. */
static int yaml_stream(struct file *f, yaml_parser_t *parser)
{
	yaml_event_type_t type = YAML_NO_EVENT;
	bool map = false;
	int rc = 0;

	while (!rc && type != YAML_STREAM_END_EVENT) {
		yaml_event_t event;

		rc = yaml_next(f, parser, &event);
		if (rc)
			return rc;
		type = event.type;
		if (type == YAML_MAPPING_START_EVENT && !map)
			rc = yaml_map(f, parser);
		else if (type == YAML_DOCUMENT_START_EVENT && map)
			rc = yaml_bad(f, &event, "one document is expected");
		else if (type != YAML_STREAM_START_EVENT &&
			 type != YAML_STREAM_END_EVENT &&
			 type != YAML_DOCUMENT_START_EVENT &&
			 type != YAML_DOCUMENT_END_EVENT)
			rc = yaml_bad(f, &event, "name: value is expected");
		map = map || type == YAML_MAPPING_START_EVENT;
		yaml_event_delete(&event);
	}
	return rc;
}

static int parse_yaml(struct file *f)
{
	yaml_parser_t parser;
	int rc;

	if (!yaml_parser_initialize(&parser)) {
		tei_conf_say(f->error, "%s: out of memory", f->path);
		return -ENOMEM;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)f->text,
				     f->len);
	rc = yaml_stream(f, &parser);
	yaml_parser_delete(&parser);
	return rc;
}

/* ---- JSON ---- */

static bool json_fits(const struct tei_setting *s, const json_t *value)
{
	switch (s->type) {
	case TEI_CONF_BOOL:
		return json_is_boolean(value);
	case TEI_CONF_UINT:
		return json_is_integer(value);
	case TEI_CONF_RATIO:
		return json_is_number(value);
	case TEI_CONF_SIZE:
	case TEI_CONF_DURATION:
	case TEI_CONF_UIDS:
		return json_is_number(value) || json_is_string(value);
	case TEI_CONF_STRING:
	case TEI_CONF_CHOICE:
		break;
	}
	return json_is_string(value);
}

static int json_pair(struct file *f, const char *name, const json_t *value)
{
	const struct tei_setting *s = tei_conf_find(f->c, name, strlen(name));
	char number[64];
	const char *text = number;

	if (s && !json_fits(s, value)) {
		tei_conf_say(f->error, "setting %s (%s): %s is expected",
			     s->name, f->path, tei_conf_hint(s));
		return -EINVAL;
	}
	if (json_is_string(value))
		text = json_string_value(value);
	else if (json_is_integer(value))
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
			 json_integer_value(value));
	else if (json_is_real(value))
		snprintf(number, sizeof(number), "%.15f",
			 json_real_value(value));
	else
		text = json_is_true(value) ? "true" : "false";
	return put_value(f, name, strlen(name), text, 0);
}

static int parse_json(struct file *f)
{
	json_error_t error;
	json_t *root =
		json_loadb(f->text, f->len, JSON_REJECT_DUPLICATES, &error);
	const char *name;
	json_t *value;
	int rc = 0;

	if (!root) {
		tei_conf_say(f->error, "%s line %d: %s", f->path, error.line,
			     error.text);
		return -EINVAL;
	}
	if (!json_is_object(root)) {
		tei_conf_say(f->error, "%s: an object is expected", f->path);
		rc = -EINVAL;
	}
	json_object_foreach(root, name, value)
	{
		rc = json_pair(f, name, value);
		if (rc)
			break;
	}
	json_decref(root);
	return rc;
}

/* ---- files ---- */

static int read_fd(struct file *f, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if (st.st_size > FILE_MAX)
		return -EFBIG;
	f->text = tei_malloc((size_t)st.st_size + 1);
	if (!f->text)
		return -ENOMEM;
	while (f->len < (size_t)st.st_size) {
		ssize_t n =
			read(fd, f->text + f->len, (size_t)st.st_size - f->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break; /* it has become shorter */
		f->len += (size_t)n;
	}
	return 0;
}

static int read_text(struct file *f, const char *path)
{
	/* Not to wait for the other end of a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc = fd < 0 ? -errno : read_fd(f, fd);

	if (fd >= 0)
		close(fd);
	if (rc)
		tei_conf_say(f->error, "cannot read %s: %s", f->path,
			     strerror(-rc));
	return rc;
}

static bool ends_with(const char *path, const char *end)
{
	size_t len = strlen(path), end_len = strlen(end);

	return len >= end_len && !strcasecmp(path + len - end_len, end);
}

static const char *tail(const char *path)
{
	size_t len = strlen(path);

	return len > PATH_LEN ? path + len - PATH_LEN : path;
}

int tei_conf_file(struct tei_conf *c, const char *path,
		  char error[TEI_CONF_ERROR_LEN])
{
	struct file f = {.c = c, .path = tail(path), .error = error};
	bool json = ends_with(path, ".json");
	int rc;

	if (!json && !ends_with(path, ".yaml") && !ends_with(path, ".yml")) {
		tei_conf_say(error,
			     "%s: a file of settings is called .yaml, .yml or "
			     ".json",
			     f.path);
		return -EINVAL;
	}
	f.given = tei_calloc(c->n, sizeof(*f.given));
	if (!f.given) {
		tei_conf_say(error, "%s: out of memory", f.path);
		return -ENOMEM;
	}
	rc = read_text(&f, path);
	if (!rc)
		rc = json ? parse_json(&f) : parse_yaml(&f);
	tei_free(f.text);
	tei_free(f.given);
	return rc;
}
