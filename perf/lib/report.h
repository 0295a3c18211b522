/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what the benchmarks share at their edges: lists in, JSON out
 */
#ifndef PERF_LIB_REPORT_H
#define PERF_LIB_REPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"

#define TEI_SIZES_MAX 32

/*
 * "4k,64k,1m" or "4k..16m" (doubling) or both mixed into out[]; each within
 * 1 .. @max. Returns how many, 1 or more, or -EINVAL after a line on stderr
 * that names @setting and what is wrong.
 */
int tei_sizes_parse(const char *program, const char *setting, const char *text,
		    uint64_t max, uint64_t out[TEI_SIZES_MAX]);

/*
 * What every main() here does: as tei_conf_program(), but SIGPIPE is ignored,
 * so that a helper that died is an error and not our end.
 */
int tei_tool_main(struct tei_conf *conf, int argc, char **argv,
		  const char *about, int (*run)(const struct tei_conf *conf));

/*
 * Print an object to stdout and take the caller's reference. -ENOMEM when it
 * is NULL, -EIO when stdout cannot be written; said on stderr.
 */
int tei_report_json(const char *program, json_t *object);

#endif
