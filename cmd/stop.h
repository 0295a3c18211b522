/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - a loop that ends when the process is asked to */
#ifndef CMD_STOP_H
#define CMD_STOP_H

#include <stdbool.h>

#include "base/loop.h"

#define STOP_SIGNALS 2

/* SIGTERM and SIGINT. */
struct stop {
	struct event *events[STOP_SIGNALS];
};

/*
 * Lets the signals stop @loop from now on. False: it cannot be had. Loop thread
 * only; stop_release() is due in either case, before the loop is destroyed.
 */
bool stop_catch(struct stop *stop, struct tei_loop *loop);
void stop_release(struct stop *stop);

#endif
