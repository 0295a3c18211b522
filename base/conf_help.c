/* SPDX-License-Identifier: Apache-2.0 */
/* conf_help.c - the registry of settings shown to people, and main()'s start */
#include <string.h>

#include <te/version.h>

#include "base/conf.h"
#include "base/conf_private.h"

static const char *type_name(const struct tei_setting *s)
{
	static const char *const names[] = {
		[TEI_CONF_BOOL] = "BOOL",    [TEI_CONF_UINT] = "N",
		[TEI_CONF_SIZE] = "SIZE",    [TEI_CONF_DURATION] = "TIME",
		[TEI_CONF_RATIO] = "NUMBER", [TEI_CONF_STRING] = "TEXT",
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
	fputs(s->def && *s->def ? "default " : "no default", out);
	if (s->def && *s->def)
		print_default(s, out);
	if (s->env)
		fprintf(out, ", environment %s", s->env);
	print_alias(s, out);
	fputc('\n', out);
}

/* Returns whether there are headings. */
static bool print_shown(const struct tei_conf *c, FILE *out)
{
	const char *group = NULL;
	bool any = false;

	for (size_t i = 0; i < c->n; i++) {
		const struct tei_setting *s = &c->rows[i];

		if (s->group)
			group = s->group;
		if (s->hidden || s->internal)
			continue;
		if (group)
			fprintf(out, "%s%s:\n\n", any ? "\n" : "", group);
		any = any || group;
		group = NULL; /* until another one begins */
		print_row(s, out);
	}
	return any;
}

/* One line each: there is nothing to say about them. */
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

static bool has(const struct tei_conf *c, bool hidden)
{
	for (size_t i = 0; i < c->n; i++)
		if (hidden ? c->rows[i].hidden : c->rows[i].file != NULL)
			return true;
	return false;
}

void tei_conf_help(const struct tei_conf *c, FILE *out, const char *program,
		   const char *about, bool all)
{
	fprintf(out, "usage: %s [--setting=value ...]\n\n%s\n\n", program,
		about);
	if (print_shown(c, out))
		fputs("\nhelp:\n\n", out);
	fputs("  --help\n        this text\n", out);
	if (has(c, true))
		fputs("  --help-all\n        also what is accepted without "
		      "effect\n",
		      out);
	fputs("  --version\n        the version\n", out);
	if (all)
		print_hidden(c, out);
	fprintf(out,
		"\nCommand line before environment before %sdefault.\n"
		"--name value and -name=value work too; for booleans --name "
		"and --noname.\n",
		has(c, false) ? "file before " : "");
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
		fprintf(out, "%s |\n", s->help);
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
static int apply(struct tei_conf *c, int argc, char **argv,
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

	rc = apply(c, argc, argv, error);
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
