/* SPDX-License-Identifier: Apache-2.0 */
/* http_page.c - starting a port, pages of numbers, whether all is well */
#include "base/http_page.h"

#include <errno.h>
#include <inttypes.h>

#include <event2/buffer.h>

#include "base/loop.h"

struct start {
	struct tei_loop *loop;
	const struct tei_http_config *config;
	uint16_t *out_port;
	struct tei_http **out;
	int rc;
};

static void start(void *arg)
{
	struct start *s = arg;

	s->rc = tei_http_start(s->loop, s->config, s->out_port, s->out);
}

int tei_http_start_from(struct tei_loop *loop,
			const struct tei_http_config *config,
			uint16_t *out_port, struct tei_http **out)
{
	struct start s = {loop, config, out_port, out, 0};

	return tei_loop_do(loop, start, &s) ? s.rc : -ECANCELED;
}

void tei_http_metric_head(struct evbuffer *out, const char *name,
			  const char *type, const char *help)
{
	(void)evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name,
				  help, name, type);
}

void tei_http_metric(struct evbuffer *out, const char *name, const char *type,
		     const char *help, uint64_t value)
{
	tei_http_metric_head(out, name, type, help);
	(void)evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

int tei_http_health(struct tei_http_reply *reply, bool well, const char *why)
{
	(void)evbuffer_add_printf(reply->body, "%s\n", well ? "OK" : why);
	return well ? 200 : 503;
}
