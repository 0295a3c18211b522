/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what te-doctor has found: kept, counted, printed
 *
 * A rule says what is looked at, what should be there and how to get it; a
 * finding is what was there, of one object.
 */
#ifndef CMD_DOCTOR_REPORT_H
#define CMD_DOCTOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum tei_mark {
	TEI_MARK_OK,
	TEI_MARK_UNKNOWN, /* the system does not say */
	TEI_MARK_WARN,    /* works, but slower or less far than it could */
	TEI_MARK_FAIL,    /* something does not work */
	TEI_MARKS,
};

struct tei_rule {
	const char *check;  /* "rdma.mtu"; docs/te-doctor.md lists them */
	const char *wanted; /* what is right */
	const char *mend;   /* how to make it so */
};

struct tei_finding {
	const struct tei_rule *rule;
	enum tei_mark mark;
	char object[64]; /* "rxe0/1"; "": the host */
	char found[192];
};

/* All zero is an empty one. */
struct tei_report {
	struct tei_finding
		*findings; /* findings[n], in the order of the checks */
	size_t n, room;
	size_t count[TEI_MARKS];
	bool short_of_memory; /* something was dropped */
};

/*
 * Keep a finding. @rule is static; @object and what @format gives are copied,
 * cut where they are too long, with '?' for what is not printable ASCII.
 */
void tei_report_add(struct tei_report *r, enum tei_mark mark,
		    const struct tei_rule *rule, const char *object,
		    const char *format, ...)
	__attribute__((format(printf, 5, 6)));
void tei_report_fini(struct tei_report *r);

/* "ok", "unknown", "warn", "fail". */
const char *tei_mark_name(enum tei_mark mark);

/* The worst first. 0, -EIO. */
int tei_report_text(const struct tei_report *r, FILE *out);
struct json_t;
/*
 * Prints the report in the format of docs/te-doctor.md, with @more, which is
 * taken, under @name; both NULL: nothing more. 0, -ENOMEM, -EIO.
 */
int tei_report_json(const struct tei_report *r, const char *name,
		    struct json_t *more, FILE *out);

#endif
