/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - a daemon with a pool of its own, dummies of it, its HTTP port */
#include "tests/integration/store/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

void daemon_again(struct daemon *d)
{
	const char *args[15 + DAEMON_MORE] = {
		"--port",
		"0",
		"--host",
		"127.0.0.1",
		"--master_server_address",
		d->pool.address,
		"--global_segment_size",
		"256 MB",
		"--socket_path",
		d->socket,
		"--enable_http_server",
		"--http_port",
		"0",
		DAEMON_PATIENT,
	};
	size_t n = 15;
	const char *line;

	for (size_t i = 0; i < DAEMON_MORE - 1 && d->more[i]; i++)
		args[n++] = d->more[i];
	d->process = test_process_start("mooncake_client", args);
	line = test_process_line(d->process, "announced on port ",
				 POOL_START_MS);
	assert_non_null(line);
	d->port = (uint16_t)atoi(strstr(line, "port ") + 5);
	line = test_process_line(d->process, "HTTP on port", POOL_START_MS);
	assert_non_null(line);
	d->http = (uint16_t)atoi(strstr(line, "port ") + 5);
	assert_non_null(
		test_process_line(d->process, " serves ", POOL_START_MS));
}

void daemon_start(struct daemon *d)
{
	pool_start(&d->pool, pool_patient);
	test_tmpdir_create(d->dir);
	(void)snprintf(d->socket, sizeof(d->socket), "%s/socket", d->dir);
	daemon_again(d);
}

void daemon_stop(struct daemon *d)
{
	test_process_end(d->process);
	test_tmpdir_remove(d->dir);
	pool_stop(&d->pool);
}

struct te_store *daemon_dummy(const struct daemon *d, uint32_t call_ms)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = call_ms,
		.replica_timeout_ms = call_ms,
		.setup_timeout_ms = POOL_START_MS,
		.daemon = d->socket,
		.pool_bytes = DAEMON_POOL,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

void daemon_http(const struct daemon *d, const char *path, char *out,
		 size_t room)
{
	struct tei_address to;
	char request[128];
	size_t n = 0;
	ssize_t got;
	int fd, len;

	assert_int_equal(tei_resolve_numeric("127.0.0.1", d->http, &to), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to.ss, to.len), 0);
	len = snprintf(request, sizeof(request),
		       "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	assert_int_equal(send(fd, request, (size_t)len, 0), len);
	while (n < room - 1 && (got = recv(fd, out + n, room - 1 - n, 0)) > 0)
		n += (size_t)got;
	out[n] = 0;
	(void)close(fd);
}

struct wanted {
	const struct daemon *d;
	const char *line;
};

static bool metrics_say(void *arg)
{
	const struct wanted *wanted = arg;
	char text[16384];

	daemon_http(wanted->d, "/metrics", text, sizeof(text));
	return strstr(text, wanted->line) != NULL;
}

void daemon_await(const struct daemon *d, const char *line)
{
	struct wanted wanted = {d, line};

	assert_true(test_wait_until(metrics_say, &wanted, DAEMON_END_MS));
}

void daemon_put_and_get(struct te_store *store, uint8_t *from, uint8_t *to,
			size_t len)
{
	static unsigned int id = 100;
	char key[32];

	(void)snprintf(key, sizeof(key), "value-%u", ++id);
	pool_fill(from, len, id);
	assert_int_equal(pool_put(store, key, from, len), 0);
	memset(to, 0, len);
	assert_int_equal(pool_get(store, key, to, len), (int64_t)len);
	assert_true(pool_is_filled(to, len, id));
}
