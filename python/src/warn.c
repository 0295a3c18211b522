/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/warn.h"

#include <stdarg.h>
#include <stdio.h>

#include <te/te.h>

void py_warn(const char *method, const char *format, ...)
{
	char why[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	te_log_refusal(method, why);
}
