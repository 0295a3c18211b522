/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - eventfds that do not block, which tell that there is something */
#ifndef BASE_EVENT_H
#define BASE_EVENT_H

#include <stdint.h>
#include <unistd.h>

/* Makes the eventfd readable. Any thread. */
static inline void tei_event_signal(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	(void)n; /* EAGAIN: it is readable already */
}

/* Makes the eventfd unreadable until it is signalled again. Any thread. */
static inline void tei_event_clear(int fd)
{
	uint64_t count;
	ssize_t n = read(fd, &count, sizeof(count));

	(void)n; /* EAGAIN: it was */
}

#endif
