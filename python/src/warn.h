/* SPDX-License-Identifier: Apache-2.0 */
/* warn.h - the line that says why a method refuses */
#ifndef PYTHON_WARN_H
#define PYTHON_WARN_H

/* A line of the log, "method: ...", as te_log_refusal() has it. */
__attribute__((format(printf, 2, 3))) void py_warn(const char *method,
						   const char *format, ...);

#endif
