/* SPDX-License-Identifier: Apache-2.0 */
/* warn.h - the line that says why a function of an interface refuses */
#ifndef COMPAT_HANDLE_WARN_H
#define COMPAT_HANDLE_WARN_H

/* A line of the log, "function: ...", as te_log_refusal() has it. */
__attribute__((format(printf, 2, 3))) void mc_warn(const char *function,
						   const char *format, ...);

#endif
