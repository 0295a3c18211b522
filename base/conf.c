/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.c - the registry of settings: values in, from all sources
 *
 * All sources end in tei_conf_assign(), which parses into a temporary, checks
 * the limits and only then touches the value.
 */
#include "base/conf.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/conf_private.h"
#include "base/mem.h"

/* One value of any type; text is owned until stored. */
struct value {
	bool truth;
	uint64_t number;
	double ratio;
	char *text;
};

static bool owns_text(const struct tei_setting *s)
{
	return s->type == TEI_CONF_STRING || s->type == TEI_CONF_CHOICE;
}

static void *place(const struct tei_conf *c, const struct tei_setting *s)
{
	return (char *)c->values + s->offset;
}

const char *tei_conf_hint(const struct tei_setting *s)
{
	switch (s->type) {
	case TEI_CONF_BOOL:
		return "true or false";
	case TEI_CONF_UINT:
		return "a whole number";
	case TEI_CONF_SIZE:
		return "a size (4096, 64k, 1.5g)";
	case TEI_CONF_DURATION:
		return "a duration (500ms, 10s, 5m, 1h)";
	case TEI_CONF_RATIO:
		return "a number";
	case TEI_CONF_CHOICE:
		return s->choices;
	case TEI_CONF_STRING:
		break;
	}
	return "a text";
}

static bool is_choice(const char *choices, const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || strchr(text, '|'))
		return false;
	while (choices) {
		if (strncmp(choices, text, len) == 0 &&
		    (choices[len] == '|' || choices[len] == '\0'))
			return true;
		choices = strchr(choices, '|');
		if (choices)
			choices++;
	}
	return false;
}

static int parse(const struct tei_setting *s, const char *text,
		 struct value *out)
{
	switch (s->type) {
	case TEI_CONF_BOOL:
		return tei_parse_bool(text, &out->truth);
	case TEI_CONF_UINT:
		return tei_parse_uint(text, &out->number);
	case TEI_CONF_SIZE:
		return tei_parse_size(text, &out->number);
	case TEI_CONF_DURATION:
		return tei_parse_duration_ms(text, s->unit, &out->number);
	case TEI_CONF_RATIO:
		return tei_parse_double(text, &out->ratio);
	case TEI_CONF_CHOICE:
		if (!is_choice(s->choices, text))
			return -EINVAL;
		break;
	case TEI_CONF_STRING:
		break;
	}
	out->text = tei_strdup(text);
	return out->text ? 0 : -ENOMEM;
}

static int check_limits(const struct tei_setting *s, const struct value *v)
{
	double d;

	if (owns_text(s) || s->type == TEI_CONF_BOOL)
		return 0;
	if (s->min == 0 && s->max == 0)
		return 0;
	d = s->type == TEI_CONF_RATIO ? v->ratio : (double)v->number;
	return d < s->min || d > s->max ? -ERANGE : 0;
}

static void store(const struct tei_conf *c, const struct tei_setting *s,
		  const struct value *v)
{
	void *to = place(c, s);

	switch (s->type) {
	case TEI_CONF_BOOL:
		*(bool *)to = v->truth;
		break;
	case TEI_CONF_UINT:
	case TEI_CONF_SIZE:
	case TEI_CONF_DURATION:
		*(uint64_t *)to = v->number;
		break;
	case TEI_CONF_RATIO:
		*(double *)to = v->ratio;
		break;
	case TEI_CONF_STRING:
	case TEI_CONF_CHOICE:
		tei_free(*(char **)to);
		*(char **)to = v->text;
		break;
	}
}

int tei_conf_assign(const struct tei_conf *c, const struct tei_setting *s,
		    const char *text)
{
	struct value v = {0};
	int rc;

	rc = parse(s, text, &v);
	if (rc)
		return rc;
	rc = check_limits(s, &v);
	if (!rc)
		store(c, s, &v);
	return rc;
}

int tei_conf_init(struct tei_conf *c, const struct tei_setting *rows, size_t n,
		  void *values)
{
	const struct value none = {0};

	c->rows = rows;
	c->n = n;
	c->values = values;
	for (size_t i = 0; i < n; i++) /* so that store() frees nothing */
		if (owns_text(&rows[i]))
			*(char **)place(c, &rows[i]) = NULL;
	for (size_t i = 0; i < n; i++) {
		int rc = 0;

		if (rows[i].def)
			rc = tei_conf_assign(c, &rows[i], rows[i].def);
		else
			store(c, &rows[i], &none);
		if (rc == -ENOMEM) {
			tei_conf_fini(c);
			return rc;
		}
		assert(rc == 0); /* the row's own default is malformed */
	}
	return 0;
}

void tei_conf_fini(struct tei_conf *c)
{
	const struct value none = {0};

	for (size_t i = 0; i < c->n; i++)
		store(c, &c->rows[i], &none);
}

/* ---- what was asked for without effect ---- */

static bool is_value(const struct tei_conf *c, const struct tei_setting *s,
		     const struct value *v)
{
	const void *at = place(c, s);
	const char *text;

	switch (s->type) {
	case TEI_CONF_BOOL:
		return *(const bool *)at == v->truth;
	case TEI_CONF_UINT:
	case TEI_CONF_SIZE:
	case TEI_CONF_DURATION:
		return *(const uint64_t *)at == v->number;
	case TEI_CONF_RATIO:
		return *(const double *)at == v->ratio;
	case TEI_CONF_STRING:
	case TEI_CONF_CHOICE:
		break;
	}
	text = *(char *const *)at;
	return text && v->text ? strcmp(text, v->text) == 0 : text == v->text;
}

static bool is_default(const struct tei_conf *c, const struct tei_setting *s)
{
	struct value v = {0};
	bool is;

	if (s->def && parse(s, s->def, &v))
		return true; /* no memory to tell */
	is = is_value(c, s, &v);
	tei_free(v.text);
	return is;
}

size_t tei_conf_ignored(const struct tei_conf *c, char *out, size_t room)
{
	size_t n = 0, used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < c->n; i++) {
		const struct tei_setting *s = &c->rows[i];
		int len;

		if (!s->hidden || is_default(c, s))
			continue;
		len = snprintf(out + used, room - used, "%s%s", n ? ", " : "",
			       s->name);
		used += (size_t)len < room - used ? (size_t)len
						  : room - used - 1;
		n++;
	}
	return n;
}
