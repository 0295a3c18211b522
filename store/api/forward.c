/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - our log lines go where the engine's go
 *
 * Only in the shared library: it has a hidden copy of base/, whose lines
 * te_log_set() would not catch otherwise. Where both libraries are linked
 * statically there is one copy, and nothing to forward.
 */
#include <te/te.h>

#include "base/log.h"

static void forward(int level, const char *line, void *arg)
{
	(void)arg;
	te_log_write(level, line);
}

/*
 * Forwards all lines: which are wanted is the engine's setting; it drops the
 * others.
 */
__attribute__((constructor)) static void forward_lines(void)
{
	tei_log_set_sink(forward, NULL);
	tei_log_set_level(TEI_LOG_DEBUG);
}
