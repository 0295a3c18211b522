/* SPDX-License-Identifier: Apache-2.0 */
/* bare.c - a server whose loop does not run */
#include "tests/unit/store_server/bare.h"

struct tes_server *server;
static struct tes_server_settings settings;
static struct tei_conf conf;
static struct tei_loop *loop;

int bare_start(const char *tenants)
{
	char error[TEI_CONF_ERROR_LEN];

	if (tei_loop_create_bare(&loop) ||
	    tei_conf_init(&conf, tes_server_rows, tes_server_n_rows, &settings))
		return -1;
	return tei_conf_set(&conf, "port", "0", error) ||
	       tei_conf_set(&conf, "metrics_port", "0", error) ||
	       tei_conf_set(&conf, "enable_multi_tenants", tenants, error) ||
	       tes_server_create(loop, &settings, &server, error);
}

void bare_stop(void)
{
	tes_server_destroy(server);
	tei_conf_fini(&conf);
	tei_loop_destroy(loop);
}
