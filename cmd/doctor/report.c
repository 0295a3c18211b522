/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - findings as text for people and as JSON for scripts */
#include "cmd/doctor/report.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>

#include "base/mem.h"

static struct tei_finding *next_finding(struct tei_report *r)
{
	struct tei_finding *more;
	size_t room = r->room ? 2 * r->room : 64;

	if (r->n == r->room) {
		more = tei_realloc(r->findings, room * sizeof(*more));
		if (!more)
			return NULL;
		r->findings = more;
		r->room = room;
	}
	return &r->findings[r->n++];
}

/* Names and files hold any bytes; neither terminals nor JSON take all. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void tei_report_add(struct tei_report *r, enum tei_mark mark,
		    const struct tei_rule *rule, const char *object,
		    const char *format, ...)
{
	struct tei_finding *f = next_finding(r);
	va_list args;

	if (!f) {
		r->short_of_memory = true;
		return;
	}
	*f = (struct tei_finding){.rule = rule, .mark = mark};
	(void)snprintf(f->object, sizeof(f->object), "%s", object);
	va_start(args, format);
	(void)vsnprintf(f->found, sizeof(f->found), format, args);
	va_end(args);
	make_printable(f->object);
	make_printable(f->found);
	r->count[mark]++;
}

void tei_report_fini(struct tei_report *r)
{
	tei_free(r->findings);
	*r = (struct tei_report){0};
}

const char *tei_mark_name(enum tei_mark mark)
{
	static const char *const names[TEI_MARKS] = {"ok", "unknown", "warn",
						     "fail"};

	return names[mark];
}

static void print(const struct tei_finding *f, FILE *out)
{
	(void)fprintf(out, "%-7s  %s%s%s: %s\n", tei_mark_name(f->mark),
		      f->rule->check, *f->object ? " " : "", f->object,
		      f->found);
}

static bool same_kind(const struct tei_finding *a, const struct tei_finding *b)
{
	return a->rule == b->rule && a->mark == b->mark;
}

static bool is_first(const struct tei_report *r, size_t at)
{
	size_t i;

	for (i = 0; i < at; i++)
		if (same_kind(&r->findings[i], &r->findings[at]))
			return false;
	return true;
}

/* All that one rule says so of, and once what to do about it. */
static void print_kind(const struct tei_report *r, size_t at, FILE *out)
{
	const struct tei_finding *f = &r->findings[at];
	size_t i;

	for (i = at; i < r->n; i++)
		if (same_kind(&r->findings[i], f))
			print(&r->findings[i], out);
	if (f->mark != TEI_MARK_OK)
		(void)fprintf(out,
			      "           wanted: %s\n           mend:   %s\n",
			      f->rule->wanted, f->rule->mend);
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

int tei_report_text(const struct tei_report *r, FILE *out)
{
	size_t fails = r->count[TEI_MARK_FAIL], warns = r->count[TEI_MARK_WARN];
	size_t i;
	int mark;

	(void)fprintf(out,
		      "%zu failure%s, %zu warning%s, %zu unknown, %zu ok\n\n",
		      fails, plural(fails), warns, plural(warns),
		      r->count[TEI_MARK_UNKNOWN], r->count[TEI_MARK_OK]);
	for (mark = TEI_MARK_FAIL; mark >= TEI_MARK_OK; mark--) {
		for (i = 0; i < r->n; i++)
			if (r->findings[i].mark == (enum tei_mark)mark &&
			    is_first(r, i))
				print_kind(r, i, out);
	}
	return ferror(out) ? -EIO : 0;
}

static json_t *finding_json(const struct tei_finding *f)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "check",
			 f->rule->check, "object", f->object, "mark",
			 tei_mark_name(f->mark), "found", f->found, "wanted",
			 f->rule->wanted, "mend", f->rule->mend);
}

int tei_report_json(const struct tei_report *r, const char *name, json_t *more,
		    FILE *out)
{
	json_t *list = json_array(), *all;
	size_t i;
	int rc = 0;

	for (i = 0; i < r->n; i++)
		rc |= json_array_append_new(list,
					    finding_json(&r->findings[i]));
	all = json_pack("{s:I, s:I, s:I, s:I, s:o}", "fail",
			(json_int_t)r->count[TEI_MARK_FAIL], "warn",
			(json_int_t)r->count[TEI_MARK_WARN], "unknown",
			(json_int_t)r->count[TEI_MARK_UNKNOWN], "ok",
			(json_int_t)r->count[TEI_MARK_OK], "findings", list);
	if (name && json_object_set_new(all, name, more))
		rc = -ENOMEM;
	if (rc || !all) {
		json_decref(all);
		return -ENOMEM;
	}
	rc = json_dumpf(all, out, JSON_INDENT(2));
	json_decref(all);
	if (rc || fputc('\n', out) == EOF)
		return -EIO;
	return 0;
}
