/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.c - the registry of settings: values, environment, command line, help
 *
 * All sources end in assign(), which parses into a temporary, checks the limits
 * and only then touches the value. Numbers are not parsed by strtod(): the host
 * program may have set a locale with a decimal comma.
 */
#include "base/conf.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <te/version.h>

#include "base/mem.h"
#include "base/peer.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit sizes[] = {
	{"", 1},
	{"b", 1},
	{"k", 1u << 10},
	{"kb", 1u << 10},
	{"kib", 1 << 10},
	{"m", 1u << 20},
	{"mb", 1u << 20},
	{"mib", 1u << 20},
	{"g", 1u << 30},
	{"gb", 1u << 30},
	{"gib", 1u << 30},
	{"t", 1ull << 40},
	{"tb", 1ull << 40},
	{"tib", 1ull << 40},
};

static const struct unit durations[] = {
	{"ms", 1},          {"s", 1000},           {"m", 60 * 1000},
	{"min", 60 * 1000}, {"h", 60 * 60 * 1000},
};

static const struct unit *find_unit(const struct unit *units, size_t n,
				    const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Digits, perhaps a point and more digits. *whole is exact; *part is what
 * stands behind the point, below 1. *end: the first byte not taken.
 */
static int parse_decimal(const char *text, uint64_t *whole, double *part,
			 const char **end)
{
	double scale = 1, digits = 0;
	const char *p = text;

	*whole = 0;
	for (; is_digit(*p); p++)
		if (__builtin_mul_overflow(*whole, 10, whole) ||
		    __builtin_add_overflow(*whole, *p - '0', whole))
			return -ERANGE;
	if (p == text)
		return -EINVAL;
	if (*p == '.') {
		if (!is_digit(*++p))
			return -EINVAL;
		for (; is_digit(*p); p++) {
			if (scale > 1e14) /* beyond what a double tells apart */
				continue;
			digits = digits * 10 + (*p - '0');
			scale *= 10;
		}
	}
	*part = digits / scale;
	*end = p;
	return 0;
}

/* @bare: the unit of a number without one. */
static int parse_with_unit(const char *text, const struct unit *units, size_t n,
			   const char *bare, uint64_t *out)
{
	const struct unit *unit;
	const char *end;
	uint64_t whole;
	double part;
	int rc;

	rc = parse_decimal(text, &whole, &part, &end);
	if (rc)
		return rc;
	while (*end == ' ')
		end++;
	unit = find_unit(units, n, *end ? end : bare);
	if (!unit)
		return -EINVAL;
	if (__builtin_mul_overflow(whole, unit->factor, &whole) ||
	    __builtin_add_overflow(
		    whole, (uint64_t)(part * (double)unit->factor), &whole))
		return -ERANGE;
	*out = whole;
	return 0;
}

int tei_parse_size(const char *text, uint64_t *out)
{
	return parse_with_unit(text, sizes, sizeof(sizes) / sizeof(sizes[0]),
			       "", out);
}

int tei_parse_duration_ms(const char *text, const char *unit, uint64_t *out)
{
	return parse_with_unit(text, durations,
			       sizeof(durations) / sizeof(durations[0]),
			       unit ? unit : "ms", out);
}

int tei_parse_uint(const char *text, uint64_t *out)
{
	const char *end;
	double part;
	uint64_t v;
	int rc;

	rc = parse_decimal(text, &v, &part, &end);
	if (rc)
		return rc;
	if (*end || strchr(text, '.'))
		return -EINVAL;
	*out = v;
	return 0;
}

/* A decimal number, perhaps negative. 0, -EINVAL, -ERANGE. */
static int parse_double(const char *text, double *out)
{
	bool minus = *text == '-';
	const char *end;
	uint64_t whole;
	double part;
	int rc;

	rc = parse_decimal(text + minus, &whole, &part, &end);
	if (rc)
		return rc;
	if (*end)
		return -EINVAL;
	*out = (double)whole + part;
	if (minus)
		*out = -*out;
	return 0;
}

int tei_parse_bool(const char *text, bool *out)
{
	static const char *const words[2][5] = {
		{"0", "false", "no", "off", "disable"},
		{"1", "true", "yes", "on", "enable"},
	};

	for (unsigned int i = 0; i < 10; i++) {
		if (strcasecmp(text, words[i & 1][i >> 1]) == 0) {
			*out = i & 1;
			return 0;
		}
	}
	return -EINVAL;
}

/* A value of any type; text is owned until stored. */
struct value {
	bool truth;
	uint64_t number;
	double ratio;
	char *text;
};

static bool owns_text(const struct tei_setting *s)
{
	return s->type == TEI_CONF_STRING || s->type == TEI_CONF_CHOICE ||
	       s->type == TEI_CONF_UIDS;
}

static void *value_at(const struct tei_conf *c, const struct tei_setting *s)
{
	return (char *)c->values + s->offset;
}

/* "true|false", "N", ...: what may be given, for people. */
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
	case TEI_CONF_UIDS:
		return "a list of user ids (1000,2000-2999) or any";
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

static int parse_value(const struct tei_setting *s, const char *text,
		       struct value *out)
{
	struct tei_uids uids;

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
		return parse_double(text, &out->ratio);
	case TEI_CONF_CHOICE:
		if (!is_choice(s->choices, text))
			return -EINVAL;
		break;
	case TEI_CONF_UIDS:
		if (tei_uids_parse(text, &uids))
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

static void store_value(const struct tei_conf *c, const struct tei_setting *s,
			const struct value *v)
{
	void *to = value_at(c, s);

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
	case TEI_CONF_UIDS:
		tei_free(*(char **)to);
		*(char **)to = v->text;
		break;
	}
}

/* Parse @text, check it, store it. -EINVAL, -ERANGE, -ENOMEM. */
static int assign(const struct tei_conf *c, const struct tei_setting *s,
		  const char *text)
{
	struct value v = {0};
	int rc;

	rc = parse_value(s, text, &v);
	if (rc)
		return rc;
	rc = check_limits(s, &v);
	if (!rc)
		store_value(c, s, &v);
	return rc;
}

int tei_conf_init(struct tei_conf *c, const struct tei_setting *rows, size_t n,
		  void *values)
{
	const struct value none = {0};

	c->rows = rows;
	c->n = n;
	c->values = values;
	for (size_t i = 0; i < n; i++) /* so that store_value() frees nothing */
		if (owns_text(&rows[i]))
			*(char **)value_at(c, &rows[i]) = NULL;
	for (size_t i = 0; i < n; i++) {
		int rc = 0;

		if (rows[i].def)
			rc = assign(c, &rows[i], rows[i].def);
		else
			store_value(c, &rows[i], &none);
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
		store_value(c, &c->rows[i], &none);
}

/* ---- what was asked for without effect ---- */

static bool is_value(const struct tei_conf *c, const struct tei_setting *s,
		     const struct value *v)
{
	const void *at = value_at(c, s);
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
	case TEI_CONF_UIDS:
		break;
	}
	text = *(char *const *)at;
	return text && v->text ? strcmp(text, v->text) == 0 : text == v->text;
}

static bool is_default(const struct tei_conf *c, const struct tei_setting *s)
{
	struct value v = {0};
	bool is;

	if (s->def && parse_value(s, s->def, &v))
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

#define NAME_LEN_MAX 80

static char fold(char ch)
{
	return ch == '-' ? '_' : ch;
}

/* Tells whether a[len] is b[b_len], with '-' and '_' equal. */
static bool is_same_name(const char *a, size_t len, const char *b, size_t b_len)
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
			if (is_same_name(name, len, is, is_len))
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
static void find_nearest(const struct tei_conf *c, const char *name, size_t len,
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
	int rc = assign(c, s, text);

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
static void print_escaped(const char *name, size_t len, char *out, size_t room)
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

	find_nearest(c, name, len, like, sizeof(like));
	print_escaped(name, len, shown, sizeof(shown));
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

/*
 * Apply an argument and perhaps the next, @value. Returns how many were used.
 */
static int apply_arg(struct tei_conf *c, const char *arg, const char *value,
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
		if (is_arg(arg, "help=all") || is_arg(arg, "help-all") ||
		    is_arg(arg, "help_all"))
			return 3;
		n = apply_arg(c, arg, i + 1 < argc ? argv[i + 1] : NULL, error);
		if (n < 0)
			return n;
		i += n;
	}
	return 0;
}

static const char *type_name(const struct tei_setting *s)
{
	static const char *const names[] = {
		[TEI_CONF_BOOL] = "BOOL",    [TEI_CONF_UINT] = "N",
		[TEI_CONF_SIZE] = "SIZE",    [TEI_CONF_DURATION] = "TIME",
		[TEI_CONF_RATIO] = "NUMBER", [TEI_CONF_STRING] = "TEXT",
		[TEI_CONF_UIDS] = "UIDS",
	};

	return s->type == TEI_CONF_CHOICE ? s->choices : names[s->type];
}

/* A bare number of a duration row carries the row's unit. */
static const char *def_unit(const struct tei_setting *s)
{
	if (!s->unit || !s->def || !*s->def)
		return "";
	if (strspn(s->def, "0123456789.") != strlen(s->def))
		return "";
	return s->unit;
}

/* Words for a switch, whichever spelling the row has. */
static void print_default(const struct tei_setting *s, FILE *out)
{
	const char *unit = def_unit(s);
	bool on;

	if (s->type == TEI_CONF_BOOL && !tei_parse_bool(s->def, &on))
		fputs(on ? "true" : "false", out);
	else
		fprintf(out, "%s%s%s", s->def, *unit ? " " : "", unit);
}

static void print_alias(const struct tei_setting *s, FILE *out)
{
	if (!s->alias)
		return;
	fputs(", also --", out);
	for (const char *p = s->alias; *p; p++)
		if (*p == '|')
			fputs(", --", out);
		else
			fputc(*p, out);
}

static void print_row(const struct tei_setting *s, FILE *out)
{
	fprintf(out, "  --%s=%s\n", s->name, type_name(s));
	fprintf(out, "        %s\n        ", s->help);
	fputs(s->expert ? "expert; " : "", out);
	fputs(s->def && *s->def ? "default " : "no default", out);
	if (s->def && *s->def)
		print_default(s, out);
	if (s->env)
		fprintf(out, ", environment %s", s->env);
	print_alias(s, out);
	fputc('\n', out);
}

/* Returns whether there are headings. */
static bool print_shown(const struct tei_conf *c, FILE *out, bool all)
{
	const char *group = NULL;
	bool any = false;

	for (size_t i = 0; i < c->n; i++) {
		const struct tei_setting *s = &c->rows[i];

		if (s->group)
			group = s->group;
		if (s->hidden || s->internal || (s->expert && !all))
			continue;
		if (group)
			fprintf(out, "%s%s:\n\n", any ? "\n" : "", group);
		any = any || group;
		group = NULL; /* until another one begins */
		print_row(s, out);
	}
	return any;
}

/* Print a line for each: they have no effect to describe. */
static void print_hidden(const struct tei_conf *c, FILE *out)
{
	bool any = false;

	for (size_t i = 0; i < c->n; i++) {
		const struct tei_setting *s = &c->rows[i];

		if (!s->hidden)
			continue;
		if (!any)
			fputs("\naccepted without effect, for existing command "
			      "lines and files:\n\n",
			      out);
		any = true;
		fprintf(out, "  --%s=%s", s->name, type_name(s));
		if (s->def && *s->def) {
			fputs(" (", out);
			print_default(s, out);
			fputc(')', out);
		}
		print_alias(s, out);
		fputc('\n', out);
	}
}

static bool has_file(const struct tei_conf *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->rows[i].file)
			return true;
	return false;
}

/* A line that says what --help leaves out, where it leaves out anything. */
static void print_help_all(const struct tei_conf *c, FILE *out)
{
	bool expert = false, hidden = false;

	for (size_t i = 0; i < c->n; i++) {
		expert = expert || c->rows[i].expert;
		hidden = hidden || c->rows[i].hidden;
	}
	if (expert || hidden)
		fprintf(out, "  --help=all\n        also %s%s%s\n",
			expert ? "expert settings, for tuning" : "",
			expert && hidden ? ", and " : "",
			hidden ? "what is accepted without effect" : "");
}

void tei_conf_help(const struct tei_conf *c, FILE *out, const char *program,
		   const char *about, bool all)
{
	fprintf(out, "usage: %s [--setting=value ...]\n\n%s\n\n", program,
		about);
	if (print_shown(c, out, all))
		fputs("\nhelp:\n\n", out);
	fputs("  --help\n        this text\n", out);
	print_help_all(c, out);
	fputs("  --version\n        the version\n", out);
	if (all)
		print_hidden(c, out);
	fprintf(out,
		"\nCommand line before environment before %sdefault.\n"
		"--name value and -name=value work too; for booleans --name "
		"and --noname.\n",
		has_file(c) ? "file before " : "");
}

/* A '|' would end the cell. */
static void print_cell(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputs(" | ", out);
}

void tei_conf_markdown(const struct tei_conf *c, FILE *out)
{
	fputs("| setting | value | default | environment | meaning |\n"
	      "|---|---|---|---|---|\n",
	      out);
	for (size_t i = 0; i < c->n; i++) {
		const struct tei_setting *s = &c->rows[i];

		if (s->hidden || s->internal)
			continue;
		fprintf(out, "| `%s` | ", s->name);
		print_cell(out, type_name(s));
		if (s->def)
			print_default(s, out);
		fputs(" | ", out);
		print_cell(out, s->env ? s->env : "");
		fprintf(out, "%s%s |\n", s->expert ? "*expert*; " : "",
			s->help);
	}
}

static const char *program_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int read_file(struct tei_conf *c, char error[TEI_CONF_ERROR_LEN],
		     bool *any)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct tei_setting *s = &c->rows[i];
		const char *path;

		if (!s->file)
			continue;
		path = *(char **)((char *)c->values + s->offset);
		if (path && *path) {
			*any = true;
			return s->file(c, path, error);
		}
	}
	return 0;
}

/*
 * Only the command line and the environment say which file to read; because
 * they go before it, they are applied again. A bad variable must not keep
 * anybody from reading the help.
 */
static int apply_sources(struct tei_conf *c, int argc, char **argv,
			 char error[TEI_CONF_ERROR_LEN])
{
	char env_error[TEI_CONF_ERROR_LEN];
	bool file = false;
	int env_rc, rc;

	env_rc = tei_conf_env(c, env_error);
	rc = tei_conf_args(c, argc, argv, error);
	if (rc)
		return rc;
	if (env_rc) {
		memcpy(error, env_error, sizeof(env_error));
		return env_rc;
	}
	rc = read_file(c, error, &file);
	if (!rc && file)
		rc = tei_conf_env(c, error);
	if (!rc && file)
		rc = tei_conf_args(c, argc, argv, error);
	return rc;
}

int tei_conf_main(struct tei_conf *c, int argc, char **argv, const char *about)
{
	const char *program = program_name(argc > 0 ? argv[0] : "te");
	char error[TEI_CONF_ERROR_LEN];
	int rc;

	rc = apply_sources(c, argc, argv, error);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", program, error);
		return 2;
	}
	if (rc == 0)
		return -1;
	if (rc != 2)
		tei_conf_help(c, stdout, program, about, rc == 3);
	else
		printf("%s %s\n", program, TE_VERSION);
	return 0;
}

int tei_conf_program(struct tei_conf *c, int argc, char **argv,
		     const char *about, int (*run)(const struct tei_conf *c))
{
	int code;

	if (tei_conf_init(c, c->rows, c->n, c->values)) {
		fprintf(stderr, "%s: out of memory\n",
			program_name(argc > 0 ? argv[0] : "te"));
		return 1;
	}
	code = tei_conf_main(c, argc, argv, about);
	if (code < 0)
		code = run(c);
	tei_conf_fini(c);
	return code;
}
