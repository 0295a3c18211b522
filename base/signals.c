/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - the signals that ask a program to end */
#include "base/signals.h"

void tei_end_signals_block(sigset_t *out)
{
	sigemptyset(out);
	sigaddset(out, SIGINT);
	sigaddset(out, SIGTERM);
	pthread_sigmask(SIG_BLOCK, out, NULL);
}
