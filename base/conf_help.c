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

static void print_row(const struct tei_setting *s, FILE *out)
{
	const char *unit = def_unit(s);

	fprintf(out, "  --%s=%s\n", s->name, type_name(s));
	fprintf(out, "        %s\n        ", s->help);
	if (s->def && *s->def)
		fprintf(out, "default %s%s%s", s->def, *unit ? " " : "", unit);
	else
		fputs("no default", out);
	if (s->env)
		fprintf(out, ", environment %s", s->env);
	if (s->alias)
		fprintf(out, ", also --%s", s->alias);
	fputc('\n', out);
}

void tei_conf_help(const struct tei_conf *c, FILE *out, const char *program,
		   const char *about)
{
	fprintf(out, "usage: %s [--setting=value ...]\n\n%s\n\n", program,
		about);
	for (size_t i = 0; i < c->n; i++)
		if (!c->rows[i].hidden)
			print_row(&c->rows[i], out);
	fputs("  --help\n        this text\n"
	      "  --version\n        the version\n\n"
	      "Command line before environment before default. --name value and "
	      "-name=value\nwork too; for booleans --name and --noname.\n",
	      out);
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

		if (s->hidden)
			continue;
		fprintf(out, "| `%s` | ", s->name);
		print_cell(out, type_name(s));
		fprintf(out, "%s%s%s | ", s->def ? s->def : "",
			*def_unit(s) ? " " : "", def_unit(s));
		print_cell(out, s->env ? s->env : "");
		fprintf(out, "%s |\n", s->help);
	}
}

static const char *program_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A bad variable must not keep anybody from reading the help. */
static int apply(struct tei_conf *c, int argc, char **argv,
		 char error[TEI_CONF_ERROR_LEN])
{
	char env_error[TEI_CONF_ERROR_LEN];
	int env_rc, rc;

	env_rc = tei_conf_env(c, env_error);
	rc = tei_conf_args(c, argc, argv, error);
	if (!env_rc || rc > 0)
		return rc;
	memcpy(error, env_error, sizeof(env_error));
	return env_rc;
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
	if (rc == 1)
		tei_conf_help(c, stdout, program, about);
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
