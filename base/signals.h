/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - the signals that ask a program to end */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>

/* Block SIGINT and SIGTERM in this thread, which will wait for them: *out. */
void tei_end_signals_block(sigset_t *out);

#endif
