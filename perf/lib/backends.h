/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backends.h - the backends that the help of the benchmarks lists, and the
 * check of such a setting before an engine has it
 */
#ifndef PERF_LIB_BACKENDS_H
#define PERF_LIB_BACKENDS_H

#include <stdbool.h>
#include <stdio.h>

/* Values for engines that reach another process; a test compares the names. */
#define TEI_BACKENDS_OF_PEERS "shm, verbs, ofi, tcp"

/*
 * Tells whether @list (NULL: it is not set) may go to an engine, which would
 * take "" for auto; else says on stderr what is wrong with @setting.
 */
static inline bool tei_backends_given(const char *program, const char *setting,
				      const char *list)
{
	if (!list || *list)
		return true;
	fprintf(stderr,
		"%s: setting %s: \"\" names no backend; there are auto, loop, "
		"%s\n",
		program, setting, TEI_BACKENDS_OF_PEERS);
	return false;
}

#endif
