/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/handle/warn.h"

#include <stdarg.h>
#include <stdio.h>

#include <te/te.h>

#define LEVEL_WARN 1

void mc_warn(const char *function, const char *format, ...)
{
	char line[512];
	va_list args;
	int n = snprintf(line, sizeof(line), "%s: ", function);

	va_start(args, format);
	(void)vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	va_end(args);
	te_log_write(LEVEL_WARN, line);
}
