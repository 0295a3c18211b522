/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/warn.h"

#include <stdarg.h>
#include <stdio.h>

#include <te/te.h>

#define LEVEL_WARN 1

void py_warn(const char *method, const char *format, ...)
{
	char line[512];
	va_list args;
	int n = snprintf(line, sizeof(line), "%s: ", method);

	va_start(args, format);
	(void)vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	va_end(args);
	te_log_write(LEVEL_WARN, line);
}
