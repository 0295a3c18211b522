/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clerk.c - threads that connect queue pairs and destroy them
 *
 * Going to ready-to-receive may ask the network for a neighbour's address, and
 * every change of a queue pair may wait for firmware: not on the thread that
 * moves bytes. Of one that is destroyed some wait until its last packet is
 * answered: so nobody who wants a new one stands behind it, and who is destroyed
 * itself only behind VERBS_ENDERS that do not end. What a device refuses
 * to destroy is tried for ever, since nothing else proves that memory is quiet.
 */
#include "backends/verbs/verbs.h"

#include "base/clock.h"

#define AGAIN_MS 100 /* until what the device refused is tried once more */

/* False: it has to be tried again. */
static bool handle(struct verbs_bundle *bundle)
{
	if (bundle->state != VERBS_BUNDLE_CONNECTING)
		return tei_verbs_bundle_destroy(bundle);
	bundle->err = tei_verbs_bundle_connect(bundle);
	return true;
}

static void refused(struct verbs_clerk *clerk, struct tei_list *node)
	TEI_REQUIRES(clerk->mu)
{
	if (tei_list_empty(&clerk->again))
		clerk->again_at = tei_now_ns() + AGAIN_MS * TEI_NS_PER_MS;
	tei_list_add_tail(&clerk->again, node);
}

static void handle_one(struct verbs_clerk *clerk, struct tei_list *node)
	TEI_REQUIRES(clerk->mu)
{
	bool done;

	tei_mutex_unlock(&clerk->mu);
	done = handle(tei_list_entry(node, struct verbs_bundle, link));
	tei_mutex_lock(&clerk->mu);
	if (done)
		tei_list_add_tail(&clerk->done, node);
	else
		refused(clerk, node);
	tei_verbs_kick(clerk->rail);
}

/* However much else there is to do. */
static void try_again(struct verbs_clerk *clerk) TEI_REQUIRES(clerk->mu)
{
	if (tei_list_empty(&clerk->again) || tei_now_ns() < clerk->again_at)
		return;
	tei_list_splice_tail(&clerk->queued, &clerk->again);
	tei_cond_broadcast(&clerk->work); /* who is first may not come back */
}

/* Until there is something to do, or something to be tried again. */
static void await(struct verbs_clerk *clerk) TEI_REQUIRES(clerk->mu)
{
	uint64_t until =
		tei_list_empty(&clerk->again) ? UINT64_MAX : clerk->again_at;

	(void)tei_cond_wait(&clerk->work, &clerk->mu, until);
}

static void *run(void *arg)
{
	struct verbs_clerk *clerk = arg;
	struct tei_list *node;

	tei_mutex_lock(&clerk->mu);
	for (;;) {
		if (!clerk->stop)
			try_again(clerk);
		node = tei_list_pop(&clerk->queued);
		if (node)
			handle_one(clerk, node);
		else if (clerk->stop)
			break;
		else
			await(clerk);
	}
	tei_list_splice_tail(&clerk->done, &clerk->again);
	tei_mutex_unlock(&clerk->mu);
	return NULL;
}

static void fini(struct verbs_clerk *clerk)
{
	tei_cond_fini(&clerk->work);
	tei_mutex_fini(&clerk->mu);
}

static void stop(struct verbs_clerk *clerk)
{
	tei_mutex_lock(&clerk->mu);
	clerk->stop = true;
	tei_cond_broadcast(&clerk->work);
	tei_mutex_unlock(&clerk->mu);
	for (; clerk->n_threads; clerk->n_threads--)
		pthread_join(clerk->threads[clerk->n_threads - 1], NULL);
}

static int start(struct verbs_clerk *clerk, const struct verbs_rail *rail,
		 uint32_t n)
{
	int rc = 0;

	clerk->rail = rail;
	tei_mutex_init(&clerk->mu);
	tei_cond_init(&clerk->work);
	tei_list_init(&clerk->queued);
	tei_list_init(&clerk->again);
	tei_list_init(&clerk->done);
	while (!rc && clerk->n_threads < n) {
		rc = tei_thread_start(&clerk->threads[clerk->n_threads],
				      "te-verbs", run, clerk);
		clerk->n_threads += !rc;
	}
	if (rc) {
		stop(clerk);
		fini(clerk);
	}
	return rc;
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
	int rc = start(&rail->connector, rail, 1);

	if (rc)
		return rc;
	rc = start(&rail->ender, rail, VERBS_ENDERS);
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
