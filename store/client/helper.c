/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - a thread for what blocks */
#include "store/client/helper.h"

static struct tes_job *next_job(struct tes_helper *h)
{
	struct tei_list *node;

	tei_mutex_lock(&h->mu);
	while (tei_list_empty(&h->jobs) && !atomic_load(&h->stopping))
		(void)tei_cond_wait(&h->more, &h->mu, UINT64_MAX);
	node = tei_list_pop(&h->jobs);
	tei_mutex_unlock(&h->mu);
	return node ? tei_list_entry(node, struct tes_job, link) : NULL;
}

static void *helper_main(void *arg)
{
	struct tes_helper *h = arg;
	struct tes_job *job;

	while ((job = next_job(h)))
		job->run(job, atomic_load(&h->stopping));
	return NULL;
}

int tes_helper_init(struct tes_helper *h)
{
	int rc;

	atomic_init(&h->stopping, false);
	tei_list_init(&h->jobs);
	tei_mutex_init(&h->mu);
	tei_cond_init(&h->more);
	rc = tei_thread_start(&h->thread, "te-store-help", helper_main, h);
	if (rc) {
		tei_cond_fini(&h->more);
		tei_mutex_fini(&h->mu);
		return rc;
	}
	h->started = true;
	return 0;
}

void tes_helper_fini(struct tes_helper *h)
{
	if (!h->started)
		return;
	tei_mutex_lock(&h->mu);
	atomic_store(&h->stopping, true);
	tei_cond_signal(&h->more);
	tei_mutex_unlock(&h->mu);
	(void)pthread_join(h->thread, NULL);
	h->started = false;
	tei_cond_fini(&h->more);
	tei_mutex_fini(&h->mu);
}

void tes_helper_add(struct tes_helper *h, struct tes_job *job)
{
	tei_mutex_lock(&h->mu);
	tei_list_add_tail(&h->jobs, &job->link);
	tei_cond_signal(&h->more);
	tei_mutex_unlock(&h->mu);
}
