/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clerk.c - threads that connect queue pairs and destroy them
 *
 * Going to ready-to-receive may ask the network for a neighbour's address, and
 * every change of a queue pair may wait for firmware: not on the thread that
 * moves bytes. Of one that is destroyed some wait until its last packet is
 * answered: so nobody who wants a new one stands behind it.
 */
#include "backends/verbs/verbs.h"

static void handle(struct verbs_bundle *bundle)
{
	if (bundle->state == VERBS_BUNDLE_CONNECTING)
		bundle->err = tei_verbs_bundle_connect(bundle);
	else
		tei_verbs_bundle_destroy(bundle);
}

static void *run(void *arg)
{
	struct verbs_clerk *clerk = arg;

	tei_mutex_lock(&clerk->mu);
	for (;;) {
		struct tei_list *node = tei_list_pop(&clerk->queued);

		if (node) {
			struct verbs_bundle *bundle =
				tei_list_entry(node, struct verbs_bundle, link);

			tei_mutex_unlock(&clerk->mu);
			handle(bundle);
			tei_mutex_lock(&clerk->mu);
			tei_list_add_tail(&clerk->done, node);
			tei_verbs_kick(clerk->rail);
		} else if (clerk->stop) {
			break;
		} else {
			(void)tei_cond_wait(&clerk->work, &clerk->mu,
					    UINT64_MAX);
		}
	}
	tei_mutex_unlock(&clerk->mu);
	return NULL;
}

static void fini(struct verbs_clerk *clerk)
{
	tei_cond_fini(&clerk->work);
	tei_mutex_fini(&clerk->mu);
}

static int start(struct verbs_clerk *clerk, const struct verbs_rail *rail)
{
	int rc;

	clerk->rail = rail;
	tei_mutex_init(&clerk->mu);
	tei_cond_init(&clerk->work);
	tei_list_init(&clerk->queued);
	tei_list_init(&clerk->done);
	rc = tei_thread_start(&clerk->thread, "te-verbs", run, clerk);
	if (rc)
		fini(clerk);
	return rc;
}

static void stop(struct verbs_clerk *clerk)
{
	tei_mutex_lock(&clerk->mu);
	clerk->stop = true;
	tei_cond_signal(&clerk->work);
	tei_mutex_unlock(&clerk->mu);
	pthread_join(clerk->thread, NULL);
}

static struct verbs_bundle *take(struct verbs_clerk *clerk)
{
	struct tei_list *node;

	tei_mutex_lock(&clerk->mu);
	node = tei_list_pop(&clerk->done);
	tei_mutex_unlock(&clerk->mu);
	return node ? tei_list_entry(node, struct verbs_bundle, link) : NULL;
}

int tei_verbs_clerks_start(struct verbs_rail *rail)
{
	int rc = start(&rail->connector, rail);

	if (rc)
		return rc;
	rc = start(&rail->ender, rail);
	if (!rc)
		return 0;
	stop(&rail->connector);
	fini(&rail->connector);
	return rc;
}

void tei_verbs_clerks_stop(struct verbs_rail *rail)
{
	stop(&rail->connector);
	stop(&rail->ender);
}

void tei_verbs_clerks_fini(struct verbs_rail *rail)
{
	fini(&rail->connector);
	fini(&rail->ender);
}

void tei_verbs_clerk_give(struct verbs_bundle *bundle)
{
	struct verbs_rail *rail = bundle->rail;
	struct verbs_clerk *clerk = bundle->state == VERBS_BUNDLE_CONNECTING
					    ? &rail->connector
					    : &rail->ender;

	tei_mutex_lock(&clerk->mu);
	tei_list_add_tail(&clerk->queued, &bundle->link);
	tei_cond_signal(&clerk->work);
	tei_mutex_unlock(&clerk->mu);
}

struct verbs_bundle *tei_verbs_clerk_take(struct verbs_rail *rail)
{
	struct verbs_bundle *bundle = take(&rail->connector);

	return bundle ? bundle : take(&rail->ender);
}
