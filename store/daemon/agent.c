/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - life of the agent: start, stop */
#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/daemon/agent_private.h"

_Static_assert(TEI_HTTP_REFUSALS <= 8, "they fit agent->http_refused");

#define REFUSALS_A_MINUTE 6 /* lines of the log */

struct open {
	struct tes_agent *agent;
	const struct tes_agent_config *config;
	int rc;
};

/* The port first: the socket is named after it. */
static void open_all(void *arg)
{
	struct open *open = arg;

	open->rc = tes_where_open(open->agent, open->config);
	if (open->rc)
		return;
	open->rc = tes_door_find(open->agent, open->config);
	if (!open->rc)
		open->rc = tes_door_open(open->agent);
	if (open->rc)
		tes_where_close(open->agent);
}

static void shut(void *arg)
{
	struct tes_agent *agent = arg;

	tes_where_close(agent);
	tes_door_close(agent);
	tei_http_stop(agent->http);
	agent->http = NULL;
}

static void end_sessions(void *arg)
{
	tes_sessions_clear(arg);
}

const char *tes_agent_socket(const struct tes_agent *agent)
{
	return agent->path;
}

uint16_t tes_agent_port(const struct tes_agent *agent)
{
	return agent->port;
}

static void destroy(struct tes_agent *agent)
{
	tei_cond_fini(&agent->work);
	tei_mutex_fini(&agent->mu);
	tei_free(agent);
}

static int start(struct tes_agent *agent, const struct tes_agent_config *config)
{
	struct open open = {.agent = agent, .config = config};
	int rc = tei_loop_create("te-agent-loop", &agent->loop);

	if (rc)
		return rc;
	rc = tes_workers_start(agent, config->n_threads);
	if (rc)
		goto err_loop;
	(void)tei_loop_do(agent->loop, open_all, &open);
	rc = open.rc;
	if (!rc)
		return 0;
	(void)tes_workers_quiet(agent, UINT64_MAX);
	tes_workers_join(agent);
err_loop:
	tei_loop_stop(agent->loop);
	tei_loop_destroy(agent->loop);
	assert(rc < 0);
	return rc;
}

int tes_agent_start(const struct tes_agent_config *config,
		    struct tes_agent **out)
{
	struct tes_agent *agent = tei_calloc(1, sizeof(*agent));
	int rc;

	if (!agent)
		return -ENOMEM;
	agent->store = config->store;
	agent->memory_max = config->memory_max;
	agent->budget.max = config->buffers_max;
	agent->memory_each_max = config->memory_each_max
					 ? config->memory_each_max
					 : config->memory_max;
	agent->listener = -1;
	agent->refusals.per_minute = REFUSALS_A_MINUTE;
	tei_list_init(&agent->greeters);
	tei_list_init(&agent->askers);
	tei_list_init(&agent->sessions);
	tei_list_init(&agent->turns);
	tei_list_init(&agent->gone);
	tei_mutex_init(&agent->mu);
	tei_cond_init(&agent->work);
	rc = start(agent, config);
	if (rc) {
		destroy(agent);
		return rc;
	}
	LOG_INFO("dummies: served at %s, which port %u tells", agent->path,
		 (unsigned int)agent->port);
	*out = agent;
	return 0;
}

bool tes_agent_stop(struct tes_agent *agent, uint64_t wait_ms)
{
	uint64_t deadline = tei_now_ns() + wait_ms * TEI_NS_PER_MS;

	(void)tei_loop_do(agent->loop, shut, agent);
	if (!tes_workers_quiet(agent, deadline))
		return false;
	tes_workers_join(agent);
	/* Answers that are posted go out before the connections end. */
	(void)tei_loop_do(agent->loop, end_sessions, agent);
	tei_loop_stop(agent->loop);
	assert(tei_list_empty(&agent->sessions));
	tei_loop_destroy(agent->loop);
	destroy(agent);
	return true;
}
