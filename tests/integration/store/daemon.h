/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.h - a daemon with a pool of its own, dummies of it, its HTTP port
 */
#ifndef TESTS_INTEGRATION_STORE_DAEMON_H
#define TESTS_INTEGRATION_STORE_DAEMON_H

#include "tests/lib/process.h"
#include "tests/lib/tmpdir.h"
#include "tests/store/pool.h"

#define DAEMON_END_MS  60000
#define DAEMON_SEGMENT (256ull << 20)
#define DAEMON_POOL    (16u << 20) /* memory that a dummy shares */
#define DAEMON_MORE    12
/* Arguments: its calls wait as long as a crowded machine may want. */
#define DAEMON_PATIENT "--call_timeout=60s", "--replica_timeout=60s"

struct daemon {
	struct pool pool;
	struct test_process *process;
	char dir[TEST_PATH_MAX], socket[TEST_PATH_MAX + 16];
	uint16_t http, port;           /* port: that tells the socket */
	const char *more[DAEMON_MORE]; /* arguments, ends with NULL */
};

/* Fields that are set before: more. */
void daemon_start(struct daemon *d);
/* Another one in the same place. */
void daemon_again(struct daemon *d);
void daemon_stop(struct daemon *d);

struct te_store *daemon_dummy(const struct daemon *d, uint32_t call_ms);
/* The answer to GET @path, with its head. */
void daemon_http(const struct daemon *d, const char *path, char *out,
		 size_t room);
/* Until /metrics has that line; fails the test when it never has. */
void daemon_await(const struct daemon *d, const char *line);
/* Put and get @len bytes under a new key. */
void daemon_put_and_get(struct te_store *store, uint8_t *from, uint8_t *to,
			size_t len);

#endif
