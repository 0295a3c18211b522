/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c - what the benchmarks share at their edges: lists in, JSON out
 */
#include "perf/lib/report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PART_LEN 32

static int bad_part(const char *program, const char *setting, const char *text)
{
	fprintf(stderr,
		"%s: %s: \"%s\" is wrong, give up to %d numbers such as "
		"4k,64k or 4k..16m\n",
		program, setting, text, TEI_SIZES_MAX);
	return -EINVAL;
}

/* "4k" or "4k..1m", the latter doubling; how many have been put to @out. */
static int parse_part(char *part, uint64_t max, uint64_t *out, int room)
{
	char *to = strstr(part, "..");
	uint64_t first, last;
	int n = 0;

	if (to)
		*to = 0;
	if (tei_parse_size(part, &first) || !first)
		return -EINVAL;
	last = first;
	if (to && tei_parse_size(to + 2, &last))
		return -EINVAL;
	if (last < first || last > max)
		return -EINVAL;
	for (; first <= last; first *= 2) {
		if (n == room)
			return -EINVAL;
		out[n++] = first;
	}
	return n;
}

int tei_sizes_parse(const char *program, const char *setting, const char *text,
		    uint64_t max, uint64_t out[TEI_SIZES_MAX])
{
	char part[PART_LEN];
	const char *at = text;
	size_t len;
	int n = 0, more;

	do {
		len = strcspn(at, ",");
		if (len >= sizeof(part))
			return bad_part(program, setting, text);
		memcpy(part, at, len);
		part[len] = 0;
		more = parse_part(part, max, out + n, TEI_SIZES_MAX - n);
		if (more < 0)
			return bad_part(program, setting, text);
		n += more;
		at += len;
	} while (*at++ == ',');
	return n;
}

int tei_report_json(const char *program, json_t *object)
{
	int rc;

	if (!object) {
		fprintf(stderr, "%s: no memory for the report\n", program);
		return -ENOMEM;
	}
	rc = json_dumpf(object, stdout,
			JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	json_decref(object);
	if (rc || fputc('\n', stdout) == EOF || fflush(stdout)) {
		fprintf(stderr, "%s: cannot write to stdout\n", program);
		return -EIO;
	}
	return 0;
}

int tei_tool_main(struct tei_conf *conf, int argc, char **argv,
		  const char *about, int (*run)(const struct tei_conf *conf))
{
	signal(SIGPIPE, SIG_IGN);
	return tei_conf_program(conf, argc, argv, about, run);
}
