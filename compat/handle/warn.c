/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/handle/warn.h"

#include <stdarg.h>
#include <stdio.h>

#include <te/te.h>

void mc_warn(const char *function, const char *format, ...)
{
	char why[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	te_log_refusal(function, why);
}
