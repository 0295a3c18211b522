/* SPDX-License-Identifier: Apache-2.0 */
/* test_create.c - a server that cannot be made leaves nothing behind */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "store/server/server.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

static struct tes_server_settings settings;
static struct tei_conf conf;

static void drop_line(int level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

static int start(void **state)
{
	char error[TEI_CONF_ERROR_LEN];

	(void)state;
	tei_log_set_sink(drop_line, NULL);
	if (tei_conf_init(&conf, tes_server_rows, tes_server_n_rows, &settings))
		return -1;
	return tei_conf_set(&conf, "port", "0", error) ||
	       tei_conf_set(&conf, "metrics_port", "0", error);
}

static int stop(void **state)
{
	(void)state;
	tei_conf_fini(&conf);
	tei_log_set_sink(NULL, NULL);
	return 0;
}

static void create_fails_cleanly(enum tei_fault kind)
{
	struct test_faults f = {.kind = kind};
	char error[TEI_CONF_ERROR_LEN];
	unsigned int failed = 0;
	struct tei_loop *loop;

	assert_int_equal(tei_loop_create_bare(&loop), 0);
	while (test_faults_next(&f)) {
		struct tes_server *server = NULL;
		int rc = tes_server_create(loop, &settings, &server, error);

		if (rc == 0) {
			assert_int_not_equal(tes_server_rpc_port(server), 0);
			assert_int_not_equal(tes_server_http_port(server), 0);
			tes_server_destroy(server);
			continue;
		}
		failed++;
		assert_null(server);
		assert_true(strlen(error) > 0);
	}
	assert_int_not_equal(failed, 0);
	tei_loop_destroy(loop);
}

static void any_allocation_may_fail(void **state)
{
	(void)state;
	create_fails_cleanly(TEI_FAULT_ALLOC);
}

static void any_socket_may_fail(void **state)
{
	(void)state;
	create_fails_cleanly(TEI_FAULT_SOCKET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_allocation_may_fail),
		cmocka_unit_test(any_socket_may_fail),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
