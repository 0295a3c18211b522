/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.c - few threads for the calls of many dummies
 *
 * Sessions with calls that wait stand in a ring and take turns, a call each.
 * One session never has all the threads, so that a dummy whose calls wait for
 * a silent owner does not keep the others from theirs.
 */
#include "base/clock.h"
#include "store/agent/agent_private.h"

static unsigned int most_of_one(const struct tei_agent *agent)
{
	return agent->n_threads > 1 ? agent->n_threads - 1 : 1;
}

static struct tei_agent_job *next_job(struct tei_agent *agent)
	TEI_REQUIRES(agent->mu)
{
	tei_list_for_each (pos, &agent->turns) {
		struct tei_agent_session *s =
			tei_list_entry(pos, struct tei_agent_session, turn);
		struct tei_list *node;

		if (s->n_running >= most_of_one(agent))
			continue;
		tei_list_del(&s->turn);
		s->n_running++;
		agent->n_running++;
		node = tei_list_pop(&s->queue);
		if (!tei_list_empty(&s->queue))
			tei_list_add_tail(&agent->turns, &s->turn);
		return tei_list_entry(node, struct tei_agent_job, of_queue);
	}
	return NULL;
}

static void on_done(struct tei_call *call)
{
	tei_session_job_over(TEI_CONTAINER(call, struct tei_agent_job, post));
}

static void finish(struct tei_agent *agent, struct tei_agent_job *job)
{
	struct tei_agent_session *s = job->session;

	tei_mutex_lock(&agent->mu);
	s->n_running--;
	tei_mutex_unlock(&agent->mu);
	job->post.fn = on_done;
	(void)tei_loop_post(agent->loop, &job->post);
	/* The loop may have freed job and session by now. */
	tei_mutex_lock(&agent->mu);
	agent->n_running--;
	tei_cond_broadcast(&agent->work);
	tei_mutex_unlock(&agent->mu);
}

static void *run(void *arg)
{
	struct tei_agent *agent = arg;
	struct tei_agent_job *job = NULL;

	for (;;) {
		tei_mutex_lock(&agent->mu);
		while (!agent->stopping && !(job = next_job(agent)))
			(void)tei_cond_wait(&agent->work, &agent->mu,
					    UINT64_MAX);
		if (agent->stopping) {
			tei_mutex_unlock(&agent->mu);
			return NULL;
		}
		tei_mutex_unlock(&agent->mu);
		tei_agent_serve(agent, job);
		finish(agent, job);
	}
}

int tei_workers_start(struct tei_agent *agent, unsigned int n)
{
	int rc;

	if (n > TEI_AGENT_THREADS_MAX)
		n = TEI_AGENT_THREADS_MAX;
	/* Before the first one looks at it. */
	agent->n_threads = n;
	for (unsigned int i = 0; i < n; i++) {
		rc = tei_thread_start(&agent->threads[i], "te-agent", run,
				      agent);
		if (!rc)
			continue;
		(void)tei_workers_quiet(agent, UINT64_MAX);
		agent->n_threads = i;
		tei_workers_join(agent);
		return rc;
	}
	return 0;
}

bool tei_workers_quiet(struct tei_agent *agent, uint64_t deadline_ns)
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

void tei_workers_join(struct tei_agent *agent)
{
	for (unsigned int i = 0; i < agent->n_threads; i++)
		(void)pthread_join(agent->threads[i], NULL);
	agent->n_threads = 0;
}

void tei_workers_add(struct tei_agent_job *job)
{
	struct tei_agent_session *s = job->session;
	struct tei_agent *agent = s->agent;

	tei_mutex_lock(&agent->mu);
	tei_list_add_tail(&s->queue, &job->of_queue);
	if (tei_list_empty(&s->turn))
		tei_list_add_tail(&agent->turns, &s->turn);
	tei_cond_signal(&agent->work);
	tei_mutex_unlock(&agent->mu);
}

bool tei_workers_take_back(struct tei_agent_job *job)
{
	struct tei_agent_session *s = job->session;
	struct tei_agent *agent = s->agent;
	bool queued;

	tei_mutex_lock(&agent->mu);
	queued = !tei_list_empty(&job->of_queue);
	tei_list_del(&job->of_queue);
	if (tei_list_empty(&s->queue))
		tei_list_del(&s->turn);
	tei_mutex_unlock(&agent->mu);
	return queued;
}
