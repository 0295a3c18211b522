/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errors.h - names by which hosts tell each other of errors
 *
 * Values of errno differ between architectures, so none is sent.
 */
#ifndef PERF_TE_PERF_ERRORS_H
#define PERF_TE_PERF_ERRORS_H

#define ERROR_NAME_MAX 32 /* with its 0 */

/* Names -errno: "ETIMEDOUT"; 0: "none". One that the table lacks: "EIO". */
const char *error_name(int error);
/* Returns the -errno that is called @name, or -EIO for one not in the table. */
int error_named(const char *name);

#endif
