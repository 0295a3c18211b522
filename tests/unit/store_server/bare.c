/* SPDX-License-Identifier: Apache-2.0 */
/* bare.c - a server whose loop does not run */
#include "tests/unit/store_server/bare.h"

#include <event2/event.h>

#include "tests/lib/test.h"

struct tes_server *server;
static struct tes_server_settings settings;
static struct tei_conf conf;
static struct tei_loop *loop;
static int n_events; /* before the server */

static int count_events(void)
{
	return event_base_get_num_events(tei_loop_base(loop),
					 EVENT_BASE_COUNT_ADDED |
						 EVENT_BASE_COUNT_ACTIVE);
}

int bare_start(const char *tenants)
{
	char error[TEI_CONF_ERROR_LEN];

	if (tei_loop_create_bare(&loop) ||
	    tei_conf_init(&conf, tes_server_rows, tes_server_n_rows, &settings))
		return -1;
	n_events = count_events();
	return tei_conf_set(&conf, "port", "0", error) ||
	       tei_conf_set(&conf, "metrics_port", "0", error) ||
	       tei_conf_set(&conf, "enable_multi_tenants", tenants, error) ||
	       tes_server_create(loop, &settings, &server, error);
}

void bare_stop(void)
{
	tes_server_destroy(server);
	/* An event that is left would be of memory that is free. */
	assert_int_equal(count_events(), n_events);
	tei_conf_fini(&conf);
	tei_loop_destroy(loop);
}
