/* SPDX-License-Identifier: Apache-2.0 */
/* stop.c - a loop that ends when the process is asked to */
#include "cmd/stop.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>

#include <event2/event.h>

static const int signals[STOP_SIGNALS] = {SIGTERM, SIGINT};

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	(void)number;
	(void)what;
	tei_loop_stop(arg);
}

/*
 * ThreadSanitizer allocates what it keeps of a thread's signals in the first
 * call that may block, and loses a signal that comes meanwhile: the loop's
 * first wait, right after the line that scripts wait for.
 */
static void block_once(void)
{
#ifdef __SANITIZE_THREAD__
	poll(NULL, 0, 0);
#endif
}

bool stop_catch(struct stop *stop, struct tei_loop *loop)
{
	bool all = true;

	block_once();
	for (size_t i = 0; i < STOP_SIGNALS; i++) {
		stop->events[i] = evsignal_new(tei_loop_base(loop), signals[i],
					       on_signal, loop);
		all = all && stop->events[i] &&
		      event_add(stop->events[i], NULL) == 0;
	}
	return all;
}

void stop_release(struct stop *stop)
{
	for (size_t i = 0; i < STOP_SIGNALS; i++)
		if (stop->events[i])
			event_free(stop->events[i]);
}
