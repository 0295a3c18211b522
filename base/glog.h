/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glog.h - flags of glog, which command lines of Mooncake's programs may have
 *
 * Taken and checked; nothing depends on them, since there is one log, to
 * stderr.
 */
#ifndef BASE_GLOG_H
#define BASE_GLOG_H

#include "base/conf.h"

struct tei_glog {
	char *log_dir, *vmodule, *logbuflevel;
	uint64_t minloglevel, max_log_size, stderrthreshold, logbufsecs;
	bool logtostderr, alsologtostderr, colorlogtostderr, logtostdout;
	bool stop_logging_if_full_disk;
};

/* clang-format off */
#define TEI_GLOG_ROW(strct, field, kind, value)                              \
	.name = #field, .offset = offsetof(strct, glog.field), .type = kind, \
	.def = value, .hidden = true, .help = "accepted: one log, to stderr"
#define TEI_GLOG_TEXT(strct, field, value) \
	{ TEI_GLOG_ROW(strct, field, TEI_CONF_STRING, value) }
#define TEI_GLOG_NUMBER(strct, field, value, most) \
	{ TEI_GLOG_ROW(strct, field, TEI_CONF_UINT, value), .max = most }
#define TEI_GLOG_SWITCH(strct, field) \
	{ TEI_GLOG_ROW(strct, field, TEI_CONF_BOOL, "0") }

/* Rows for a table over @strct, which has a struct tei_glog glog. */
#define TEI_GLOG_ROWS(strct)                              \
	TEI_GLOG_TEXT(strct, log_dir, ""),                \
	TEI_GLOG_TEXT(strct, vmodule, ""),                \
	TEI_GLOG_NUMBER(strct, minloglevel, "0", 3),      \
	TEI_GLOG_NUMBER(strct, max_log_size, "1800", 1e9),\
	TEI_GLOG_NUMBER(strct, stderrthreshold, "2", 3),  \
	TEI_GLOG_TEXT(strct, logbuflevel, "0"),           \
	TEI_GLOG_NUMBER(strct, logbufsecs, "30", 1e9),    \
	TEI_GLOG_SWITCH(strct, logtostderr),              \
	TEI_GLOG_SWITCH(strct, alsologtostderr),          \
	TEI_GLOG_SWITCH(strct, colorlogtostderr),         \
	TEI_GLOG_SWITCH(strct, logtostdout),              \
	TEI_GLOG_SWITCH(strct, stop_logging_if_full_disk)
/* clang-format on */

#endif
