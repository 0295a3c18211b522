/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c - takes the notifications that an engine receives, and frees them */
#include "perf/te-perf/inbox.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"

static void take_all(struct inbox *in)
{
	struct te_notify message;

	while (!te_notify_take(in->engine, &message))
		te_notify_free(&message);
}

static void *take_messages(void *arg)
{
	struct inbox *in = arg;
	struct pollfd fd[2] = {
		{.fd = te_notify_eventfd(in->engine), .events = POLLIN},
		{.fd = in->end, .events = POLLIN},
	};

	do {
		if (poll(fd, 2, -1) < 0 && errno != EINTR)
			return NULL;
		take_all(in);
	} while (!fd[1].revents);
	return NULL;
}

int inbox_open(struct inbox *in, struct te_engine *engine)
{
	int rc = te_notify_eventfd(engine);

	if (rc < 0)
		return rc;
	*in = (struct inbox){.end = eventfd(0, EFD_CLOEXEC)};
	if (in->end < 0)
		return -errno;
	in->engine = engine;
	rc = tei_thread_start(&in->thread, "inbox", take_messages, in);
	if (!rc)
		return 0;
	in->engine = NULL;
	close(in->end);
	return rc;
}

void inbox_close(struct inbox *in)
{
	if (!in->engine)
		return;
	(void)eventfd_write(in->end, 1);
	pthread_join(in->thread, NULL);
	close(in->end);
	in->engine = NULL;
}
