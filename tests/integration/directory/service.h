/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - a directory of each kind as a process of the test's own
 *
 * On a port of loopback that stays the same over restarts, with its files in a
 * folder of its own. A restart loses everything that it held.
 */
#ifndef TESTS_INTEGRATION_DIRECTORY_SERVICE_H
#define TESTS_INTEGRATION_DIRECTORY_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/tmpdir.h"

#define SERVICE_WAIT_MS 60000

struct test_process;

struct service {
	const char *kind;     /* "http", "etcd", "redis" */
	const char *password; /* of redis; NULL: none */
	uint16_t port;
	struct test_process *process; /* NULL: it is not running */
	char files[TEST_PATH_MAX];
	char url[64]; /* for metadata_server */
};

/* False: the program is not installed. Serves once this returns. */
bool service_start(struct service *s, const char *kind);
bool service_start_locked(struct service *s, const char *password);
/* Kill it: connections break, the port refuses. */
void service_kill(struct service *s);
void service_restart(struct service *s);
void service_end(struct service *s);

#endif
