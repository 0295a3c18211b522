/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf_args.c - the registry of settings: names, environment, command line
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/conf_private.h"

#define NAME_LEN_MAX 80

static char fold(char ch)
{
	return ch == '-' ? '_' : ch;
}

/* Whether a[len] is b[b_len], with '-' and '_' equal. */
static bool same_name(const char *a, size_t len, const char *b, size_t b_len)
{
	if (len != b_len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (fold(a[i]) != fold(b[i]))
			return false;
	return true;
}

/*
 * The names of @s one after the other: @at is NULL at first, then what this
 * returned. NULL: there is no further one.
 */
static const char *next_name(const struct tei_setting *s, const char *at,
			     size_t *len)
{
	if (!at) {
		*len = strlen(s->name);
		return s->name;
	}
	at = at == s->name ? s->alias : strchr(at, '|');
	if (!at)
		return NULL;
	at += *at == '|';
	*len = strcspn(at, "|");
	return at;
}

const struct tei_setting *tei_conf_find(const struct tei_conf *c,
					const char *name, size_t len)
{
	for (size_t i = 0; i < c->n; i++) {
		const char *is = NULL;
		size_t is_len;

		while ((is = next_name(&c->rows[i], is, &is_len)))
			if (same_name(name, len, is, is_len))
				return &c->rows[i];
	}
	return NULL;
}

/* Least number of bytes to change, add or take away. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t row[NAME_LEN_MAX + 1];

	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 0; i < a_len; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < b_len; j++) {
			size_t best = diagonal + (fold(a[i]) != fold(b[j]));

			diagonal = row[j + 1];
			if (best > row[j] + 1)
				best = row[j] + 1;
			if (best > diagonal + 1)
				best = diagonal + 1;
			row[j + 1] = best;
		}
	}
	return row[b_len];
}

/* The name most like @name[len], cut to @room; "": none is much like it. */
static void nearest(const struct tei_conf *c, const char *name, size_t len,
		    char *out, size_t room)
{
	size_t best = 2 + len / 4; /* as many are too many */

	*out = '\0';
	for (size_t i = 0; len <= NAME_LEN_MAX && i < c->n; i++) {
		const char *is = NULL;
		size_t n, far;

		while ((is = next_name(&c->rows[i], is, &n))) {
			if (n > NAME_LEN_MAX)
				continue;
			far = distance(name, len, is, n);
			if (far >= best)
				continue;
			best = far;
			snprintf(out, room, "%.*s", (int)n, is);
		}
	}
}

void tei_conf_say(char error[TEI_CONF_ERROR_LEN], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(error, TEI_CONF_ERROR_LEN, format, ap);
	va_end(ap);
}

int tei_conf_assign_said(const struct tei_conf *c, const struct tei_setting *s,
			 const char *text, const char *from,
			 char error[TEI_CONF_ERROR_LEN])
{
	int rc = tei_conf_assign(c, s, text);

	if (rc == -EINVAL)
		tei_conf_say(error, "setting %s%s: '%.80s' is not %s%s",
			     s->name, from, text,
			     s->type == TEI_CONF_CHOICE ? "one of " : "",
			     tei_conf_hint(s));
	else if (rc == -ERANGE && (s->min != 0 || s->max != 0))
		tei_conf_say(error,
			     "setting %s%s: '%.80s' is outside %.15g to "
			     "%.15g%s",
			     s->name, from, text, s->min, s->max,
			     s->type == TEI_CONF_DURATION ? " ms" : "");
	else if (rc == -ERANGE)
		tei_conf_say(error, "setting %s%s: '%.80s' is too large",
			     s->name, from, text);
	else if (rc)
		tei_conf_say(error, "setting %s%s: out of memory", s->name,
			     from);
	return rc;
}

/* @name[len] as it may stand in a line of a log; cut where it is too long. */
static void printable(const char *name, size_t len, char *out, size_t room)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < len && n + 5 <= room; i++) {
		unsigned char c = (unsigned char)name[i];
		bool control = c < ' ' || c == 0x7f;

		n += (size_t)snprintf(out + n, room - n,
				      control ? "\\x%02x" : "%c", c);
	}
}

int tei_conf_unknown(const struct tei_conf *c, const char *name, size_t len,
		     const char *from, char error[TEI_CONF_ERROR_LEN])
{
	char like[NAME_LEN_MAX + 1], shown[NAME_LEN_MAX + 5];

	nearest(c, name, len, like, sizeof(like));
	printable(name, len, shown, sizeof(shown));
	tei_conf_say(error, "setting %s%s: there is no such setting%s%s%s",
		     shown, from, *like ? "; did you mean " : "", like,
		     *like ? "?" : "");
	return -ENOENT;
}

int tei_conf_set(struct tei_conf *c, const char *name, const char *value,
		 char error[TEI_CONF_ERROR_LEN])
{
	const struct tei_setting *s = tei_conf_find(c, name, strlen(name));

	if (!s)
		return tei_conf_unknown(c, name, strlen(name), "", error);
	return tei_conf_assign_said(c, s, value, "", error);
}

int tei_conf_env(struct tei_conf *c, char error[TEI_CONF_ERROR_LEN])
{
	char from[NAME_LEN_MAX];

	for (size_t i = 0; i < c->n; i++) {
		const struct tei_setting *s = &c->rows[i];
		const char *text = s->env ? getenv(s->env) : NULL;
		int rc;

		if (!text || !*text || (s->no_env && !strcmp(text, s->no_env)))
			continue;
		snprintf(from, sizeof(from), " (environment %s)", s->env);
		rc = tei_conf_assign_said(c, s, text, from, error);
		if (rc)
			return rc;
	}
	return 0;
}

/* --noflag and --no-flag of a boolean; NULL: it is none. */
static const struct tei_setting *find_negated(const struct tei_conf *c,
					      const char *name, size_t len)
{
	const struct tei_setting *s;
	size_t skip = 2;

	if (len <= 3 || strncmp(name, "no", 2) != 0)
		return NULL;
	if (fold(name[2]) == '_')
		skip = 3;
	s = tei_conf_find(c, name + skip, len - skip);
	return s && s->type == TEI_CONF_BOOL ? s : NULL;
}

/* One argument and perhaps the next, @value. Returns how many were used. */
static int one_arg(struct tei_conf *c, const char *arg, const char *value,
		   char error[TEI_CONF_ERROR_LEN])
{
	const char *name = arg + strspn(arg, "-"), *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct tei_setting *s = tei_conf_find(c, name, len);
	int rc;

	if (!s && !equals) {
		s = find_negated(c, name, len);
		if (s)
			return tei_conf_assign_said(c, s, "false", "", error)
				       ? -EINVAL
				       : 1;
	}
	if (!s)
		return tei_conf_unknown(c, name, len, "", error);
	if (equals) {
		rc = tei_conf_assign_said(c, s, equals + 1, "", error);
		return rc ? rc : 1;
	}
	if (s->type == TEI_CONF_BOOL) {
		rc = tei_conf_assign_said(c, s, "true", "", error);
		return rc ? rc : 1;
	}
	if (!value) {
		tei_conf_say(error, "setting %s: %s must follow", s->name,
			     tei_conf_hint(s));
		return -EINVAL;
	}
	rc = tei_conf_assign_said(c, s, value, "", error);
	return rc ? rc : 2;
}

static bool is_arg(const char *arg, const char *name)
{
	return strcmp(arg + strspn(arg, "-"), name) == 0;
}

int tei_conf_args(struct tei_conf *c, int argc, char **argv,
		  char error[TEI_CONF_ERROR_LEN])
{
	int i = 1, n;

	while (i < argc) {
		const char *arg = argv[i];
		size_t dashes = strspn(arg, "-");

		if (dashes == 0 || dashes > 2 || !arg[dashes]) {
			tei_conf_say(error,
				     "argument '%.*s': settings start with --",
				     NAME_LEN_MAX, arg);
			return -EINVAL;
		}
		if (is_arg(arg, "help") || is_arg(arg, "h"))
			return 1;
		if (is_arg(arg, "version"))
			return 2;
		if (is_arg(arg, "help-all") || is_arg(arg, "help_all"))
			return 3;
		n = one_arg(c, arg, i + 1 < argc ? argv[i + 1] : NULL, error);
		if (n < 0)
			return n;
		i += n;
	}
	return 0;
}
