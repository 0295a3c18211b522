/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.c - few threads for the calls of many dummies
 *
 * Sessions with calls that wait stand in a ring and take turns, a call each.
 * One session never has all the threads, so that a dummy whose calls wait for
 * a silent owner does not keep the others from theirs. Calls that look at the
 * whole table of the master go one at a time, for it takes one of a client.
 * Memory of dummies that have gone is unmapped here, too: gigabytes take long.
 */
#include "base/clock.h"
#include "store/daemon/agent_private.h"

static unsigned int most_of_one(const struct tes_agent *agent)
{
	return agent->n_threads > 1 ? agent->n_threads - 1 : 1;
}

static bool is_walk(const struct tes_agent_job *job)
{
	return job->frame.type == AGENT__AGENT_TYPE__AGENT_REMOVE_ALL;
}

/* The first that may begin; walks wait for each other, and for nobody else. */
static struct tes_agent_job *first_of(const struct tes_agent *agent,
				      struct tes_agent_session *s)
	TEI_REQUIRES(agent->mu)
{
	tei_list_for_each (pos, &s->queue) {
		struct tes_agent_job *job =
			tei_list_entry(pos, struct tes_agent_job, of_queue);

		if (!agent->walking || !is_walk(job))
			return job;
	}
	return NULL;
}

static struct tes_agent_job *next_job(struct tes_agent *agent)
	TEI_REQUIRES(agent->mu)
{
	tei_list_for_each (pos, &agent->turns) {
		struct tes_agent_session *s =
			tei_list_entry(pos, struct tes_agent_session, turn);
		struct tes_agent_job *job;

		if (s->n_running >= most_of_one(agent))
			continue;
		job = first_of(agent, s);
		if (!job)
			continue;
		tei_list_del(&s->turn);
		s->n_running++;
		agent->n_running++;
		agent->walking = agent->walking || is_walk(job);
		tei_list_del(&job->of_queue);
		if (!tei_list_empty(&s->queue))
			tei_list_add_tail(&agent->turns, &s->turn);
		return job;
	}
	return NULL;
}

static void on_done(struct tei_call *call)
{
	tes_session_job_over(TEI_CONTAINER(call, struct tes_agent_job, post));
}

static void finish(struct tes_agent *agent, struct tes_agent_job *job)
{
	struct tes_agent_session *s = job->session;

	tei_mutex_lock(&agent->mu);
	s->n_running--;
	if (is_walk(job))
		agent->walking = false;
	tei_mutex_unlock(&agent->mu);
	job->post.fn = on_done;
	(void)tei_loop_post(agent->loop, &job->post);
	/* The loop may have freed job and session by now. */
	tei_mutex_lock(&agent->mu);
	agent->n_running--;
	tei_cond_broadcast(&agent->work);
	tei_mutex_unlock(&agent->mu);
}

static struct tes_agent_session *next_gone(struct tes_agent *agent)
	TEI_REQUIRES(agent->mu)
{
	struct tei_list *node = tei_list_pop(&agent->gone);

	if (!node)
		return NULL;
	agent->n_running++;
	return tei_list_entry(node, struct tes_agent_session, turn);
}

static void on_unmapped(struct tei_call *call)
{
	tes_session_unmapped(
		TEI_CONTAINER(call, struct tes_agent_session, post));
}

static void unmap(struct tes_agent *agent, struct tes_agent_session *s)
{
	tes_session_unmap(s);
	s->post.fn = on_unmapped;
	(void)tei_loop_post(agent->loop, &s->post);
	tei_mutex_lock(&agent->mu);
	agent->n_running--;
	tei_cond_broadcast(&agent->work);
	tei_mutex_unlock(&agent->mu);
}

/* False: there is nothing more to do, ever. */
static bool next(struct tes_agent *agent, struct tes_agent_job **job,
		 struct tes_agent_session **gone)
{
	bool stopping;

	*job = NULL;
	*gone = NULL;
	tei_mutex_lock(&agent->mu);
	while (!agent->stopping && !(*gone = next_gone(agent)) &&
	       !(*job = next_job(agent)))
		(void)tei_cond_wait(&agent->work, &agent->mu, UINT64_MAX);
	stopping = agent->stopping;
	tei_mutex_unlock(&agent->mu);
	return !stopping;
}

static void *run(void *arg)
{
	struct tes_agent *agent = arg;
	struct tes_agent_session *gone;
	struct tes_agent_job *job;

	while (next(agent, &job, &gone)) {
		if (gone) {
			unmap(agent, gone);
			continue;
		}
		tes_agent_serve(agent, job);
		finish(agent, job);
	}
	return NULL;
}

int tes_workers_start(struct tes_agent *agent, unsigned int n)
{
	int rc;

	if (n > TES_AGENT_THREADS_MAX)
		n = TES_AGENT_THREADS_MAX;
	/* Before the first one looks at it. */
	agent->n_threads = n;
	for (unsigned int i = 0; i < n; i++) {
		rc = tei_thread_start(&agent->threads[i], "te-agent", run,
				      agent);
		if (!rc)
			continue;
		(void)tes_workers_quiet(agent, UINT64_MAX);
		agent->n_threads = i;
		tes_workers_join(agent);
		return rc;
	}
	return 0;
}

bool tes_workers_quiet(struct tes_agent *agent, uint64_t deadline_ns)
{
	bool quiet;

	tei_mutex_lock(&agent->mu);
	agent->stopping = true;
	tei_cond_broadcast(&agent->work);
	while (agent->n_running &&
	       tei_cond_wait(&agent->work, &agent->mu, deadline_ns))
		;
	quiet = !agent->n_running;
	tei_mutex_unlock(&agent->mu);
	return quiet;
}

void tes_workers_join(struct tes_agent *agent)
{
	for (unsigned int i = 0; i < agent->n_threads; i++)
		(void)pthread_join(agent->threads[i], NULL);
	agent->n_threads = 0;
}

void tes_workers_add(struct tes_agent_job *job)
{
	struct tes_agent_session *s = job->session;
	struct tes_agent *agent = s->agent;

	tei_mutex_lock(&agent->mu);
	tei_list_add_tail(&s->queue, &job->of_queue);
	if (tei_list_empty(&s->turn))
		tei_list_add_tail(&agent->turns, &s->turn);
	tei_cond_signal(&agent->work);
	tei_mutex_unlock(&agent->mu);
}

bool tes_workers_unmap(struct tes_agent_session *s)
{
	struct tes_agent *agent = s->agent;
	bool taken;

	tei_mutex_lock(&agent->mu);
	taken = !agent->stopping;
	if (taken) {
		tei_list_add_tail(&agent->gone, &s->turn);
		tei_cond_signal(&agent->work);
	}
	tei_mutex_unlock(&agent->mu);
	return taken;
}

bool tes_workers_take_back(struct tes_agent_job *job)
{
	struct tes_agent_session *s = job->session;
	struct tes_agent *agent = s->agent;
	bool queued;

	tei_mutex_lock(&agent->mu);
	queued = !tei_list_empty(&job->of_queue);
	tei_list_del(&job->of_queue);
	if (tei_list_empty(&s->queue))
		tei_list_del(&s->turn);
	tei_mutex_unlock(&agent->mu);
	return queued;
}
