/* SPDX-License-Identifier: Apache-2.0 */
/* log_api.c - the public face of base/log.h */
#include <te/te.h>

#include "base/log.h"

void te_log_set(te_log_fn *fn, void *arg)
{
	tei_log_set_sink(fn, arg);
}

void te_log_set_level(int level)
{
	tei_log_set_level(level);
}

void te_log_refusal(const char *call, const char *why)
{
	tei_log_refusal(call, why);
}

void te_log_write(int level, const char *line)
{
	tei_log_line(level, line);
}
