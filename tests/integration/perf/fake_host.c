/* SPDX-License-Identifier: Apache-2.0 */
/* fake_host.c - a host of a scheme that answers te-perf by a table */
#include "tests/integration/perf/fake_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/dial.h"
#include "tests/lib/test.h"

struct fake_host {
	const struct fake_answer *wrong;
	char name[32];
	int listener;
	pthread_t thread;
};

static const struct fake_answer good[] = {
	{"open", "ready 127.0.0.1:1"},
	{"pair", "pair"},
	{"local", "local"},
	{"load", "prepared"},
	{"usage", "usage 1000000 4096"},
	{"go", "going"},
	{"progress", "progress 10 0"},
	{"stop", "stopping"},
	{"result", "moved none 10 1000000 1000 -9223372036854775808 0 tcp\n"
		   "latency 1000 100\nbucket 100 10\nend"},
	{"check", "checked none 4096 0"},
	{NULL, NULL},
};

/* Finds the answer to a line; NULL: the table has none. */
static const struct fake_answer *find_answer(const struct fake_answer *table,
					     const char *line)
{
	for (; table && table->word; table++)
		if (!strncmp(line, table->word, strlen(table->word)))
			return table;
	return NULL;
}

static void *serve_connection(void *arg)
{
	const struct fake_host *h = arg;
	int fd = accept(h->listener, NULL, NULL);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	char line[1024];

	while (in && fgets(line, sizeof(line), in)) {
		const struct fake_answer *a = find_answer(h->wrong, line);

		if (!a)
			a = find_answer(good, line);
		if (!a || (a->answer && !*a->answer))
			break;
		if (a->answer)
			dprintf(fd, "%s\n", a->answer);
	}
	if (in)
		fclose(in);
	return NULL;
}

struct fake_host *fake_host_start(const struct fake_answer *wrong)
{
	struct fake_host *h = calloc(1, sizeof(*h));
	uint16_t port;

	assert_non_null(h);
	h->wrong = wrong;
	h->listener = test_listen(&port);
	(void)snprintf(h->name, sizeof(h->name), "127.0.0.1:%u", port);
	assert_int_equal(pthread_create(&h->thread, NULL, serve_connection, h),
			 0);
	return h;
}

const char *fake_host_name(const struct fake_host *h)
{
	return h->name;
}

void fake_host_stop(struct fake_host *h)
{
	pthread_join(h->thread, NULL);
	close(h->listener);
	free(h);
}
