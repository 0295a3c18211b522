/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_host.h - a host of a scheme that answers te-perf by a table
 *
 * Its answers are those of a host that moves bytes without trouble; a test puts
 * others in their place.
 */
#ifndef TESTS_INTEGRATION_PERF_FAKE_HOST_H
#define TESTS_INTEGRATION_PERF_FAKE_HOST_H

struct fake_answer {
	const char *word; /* the line's first: "progress" */
	/* Lines without the last newline; "": closes; NULL: says nothing. */
	const char *answer;
};

struct fake_host;

/*
 * Listens on a port of its own, and serves one connection by a thread. @wrong
 * (or NULL) is borrowed until fake_host_stop(): answers that differ from those
 * of a good host, up to one without a word.
 */
struct fake_host *fake_host_start(const struct fake_answer *wrong);
/* "127.0.0.1:4000"; lives as long as the host. */
const char *fake_host_name(const struct fake_host *h);
/* Waits until the connection is closed by te-perf, which has to have come. */
void fake_host_stop(struct fake_host *h);

#endif
