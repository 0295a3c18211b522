/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h - the registry of settings
 *
 * A setting is one row. Defaults, command line, environment, --help and the
 * documentation all come from the rows, so they cannot disagree. A folder has
 * one table over one struct; values are written at the row's offset.
 *
 * Precedence: command line over environment over file over default. Names are
 * compared with '-' and '_' equal. Spellings: -name=v, --name=v, --name v, and
 * for booleans --name and --noname.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tei_conf_type {
	TEI_CONF_BOOL, /* bool: 1/0, true/false, yes/no, on/off, en-/disable */
	TEI_CONF_UINT, /* uint64_t */
	TEI_CONF_SIZE, /* uint64_t bytes: 4096, 64k, 1.5g, "4 GB"; powers of 2 */
	TEI_CONF_DURATION, /* uint64_t ms: 500ms, 10s; bare: row's unit */
	TEI_CONF_RATIO,    /* double, within min .. max */
	TEI_CONF_STRING,   /* char *: owned, tei_free()d by fini() */
	TEI_CONF_CHOICE, /* const char *: one of choices, "a|b|c"; owned too */
	TEI_CONF_UIDS,   /* char *: as STRING; what tei_uids_parse() takes */
};

struct tei_conf;

#define TEI_CONF_ERROR_LEN 256

struct tei_setting {
	const char *name;   /* snake_case, "." for groups: flag and key */
	const char *alias;  /* other spellings, "a|b", or NULL */
	const char *env;    /* environment name, or NULL */
	const char *no_env; /* value of env that is as none, or NULL */
	const char *group;  /* heading in --help; NULL: as the row before */
	enum tei_conf_type type;
	const char *def;  /* in the syntax of the type; NULL string = unset */
	const char *unit; /* for --help; "s" makes a bare DURATION seconds */
	const char *choices; /* TEI_CONF_CHOICE */
	const char *help;    /* one line */
	double min, max;     /* numbers; both 0: no limits but the type's */
	size_t offset;
	bool expert;   /* for tuning; only --help=all shows it */
	bool hidden;   /* accepted without effect; only --help=all shows it */
	bool internal; /* of tests, or between own processes: not shown */
	/* The value is the name of a file of settings, to be read by this. */
	int (*file)(struct tei_conf *c, const char *path,
		    char error[TEI_CONF_ERROR_LEN]);
};

/* Name and place of a row; _AS: where the name is not that of the field. */
#define TEI_SETTING(strct, field) TEI_SETTING_AS(strct, field, #field)
#define TEI_SETTING_AS(strct, field, name_) \
	.name = (name_), .offset = offsetof(strct, field)

struct tei_conf {
	const struct tei_setting *rows; /* rows[n] */
	size_t n;
	void *values; /* the struct that the offsets are into */
};

/* Write all defaults. -ENOMEM. */
int tei_conf_init(struct tei_conf *c, const struct tei_setting *rows, size_t n,
		  void *values);
/* Free what strings own; values are zeroed. */
void tei_conf_fini(struct tei_conf *c);

/*
 * Set one by name or alias. On error nothing has changed and @error says the
 * name, the value and what would be right. -ENOENT: no such setting. -EINVAL:
 * malformed. -ERANGE: outside min .. max. -ENOMEM.
 */
int tei_conf_set(struct tei_conf *c, const char *name, const char *value,
		 char error[TEI_CONF_ERROR_LEN]);
/* Apply every row's variable that is set and not empty; errors as set(). */
int tei_conf_env(struct tei_conf *c, char error[TEI_CONF_ERROR_LEN]);
/*
 * Apply a file: flat YAML (.yaml, .yml) or JSON (.json), names as on the
 * command line. Anything else in it is an error that names the file and, in
 * YAML, the line: unknown names (and the one most like it), the same setting
 * twice, values of a wrong type, lists and maps. Some settings may have been
 * applied by then. -EINVAL, -ENOENT, -ENOMEM, or that of reading it.
 */
int tei_conf_file(struct tei_conf *c, const char *path,
		  char error[TEI_CONF_ERROR_LEN]);
/*
 * Apply argv[1 .. argc). Stops at the first error, which names the argument.
 * --help, --version and --help=all (or --help-all) are returned as 1, 2 and 3
 * and left to the caller.
 */
int tei_conf_args(struct tei_conf *c, int argc, char **argv,
		  char error[TEI_CONF_ERROR_LEN]);

/*
 * Names of hidden rows whose value is not their default, "a, b, c": they were
 * set without effect. Returns how many; @out is "" when none and cut off
 * when @room is short.
 */
size_t tei_conf_ignored(const struct tei_conf *c, char *out, size_t room);

/*
 * "usage" line, @about, then a row a setting with default, unit and env, under
 * the headings of their groups. @all: also expert rows and those without
 * effect.
 */
void tei_conf_help(const struct tei_conf *c, FILE *out, const char *program,
		   const char *about, bool all);
/* The same rows as a Markdown table, for the documentation. */
void tei_conf_markdown(const struct tei_conf *c, FILE *out);

/*
 * The whole start of a main() after tei_conf_init(): environment, command
 * line, and the file that one of them names; prints help, version or the
 * one-line error. Returns -1 to go on, else the exit code (0 after help and
 * version, 2 after an error).
 */
int tei_conf_main(struct tei_conf *c, int argc, char **argv, const char *about);
/*
 * The whole of a main(): tei_conf_init() with the rows and values that @c has,
 * tei_conf_main(), and, unless that was all, @run. Returns the exit code: that
 * of @run, or as tei_conf_main(), 1 when there is no memory.
 */
int tei_conf_program(struct tei_conf *c, int argc, char **argv,
		     const char *about, int (*run)(const struct tei_conf *c));

/* Parsers on their own. 0, -EINVAL, -ERANGE. */
int tei_parse_size(const char *text, uint64_t *out);
int tei_parse_duration_ms(const char *text, const char *unit, uint64_t *out);
int tei_parse_bool(const char *text, bool *out);
int tei_parse_uint(const char *text, uint64_t *out);

/* ---- for conf_file.c ---- */

/*
 * Parse @text, check and store it; an error says what was wrong. @from: where
 * it stood, or "". -EINVAL, -ERANGE, -ENOMEM.
 */
int tei_conf_assign_said(const struct tei_conf *c, const struct tei_setting *s,
			 const char *text, const char *from,
			 char error[TEI_CONF_ERROR_LEN]);
/* Finds a setting by name or alias; NULL: there is none. */
const struct tei_setting *tei_conf_find(const struct tei_conf *c,
					const char *name, size_t len);
/* Say that there is no such setting, and which is like it. -ENOENT. */
int tei_conf_unknown(const struct tei_conf *c, const char *name, size_t len,
		     const char *from, char error[TEI_CONF_ERROR_LEN]);
void tei_conf_say(char error[TEI_CONF_ERROR_LEN], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "true|false", "N", ...: what may be given, for people. */
const char *tei_conf_hint(const struct tei_setting *s);

#endif
