/* SPDX-License-Identifier: Apache-2.0 */
/* sleeper.c - threads that wait asleep while another thread drives */
#include "te/worker/worker.h"

void tei_sleeper_init(struct tei_sleeper *s)
{
	tei_list_init(&s->link);
	tei_cond_init(&s->cond);
	atomic_init(&s->asleep, false);
	s->called = false;
}

void tei_sleeper_fini(struct tei_sleeper *s)
{
	tei_cond_fini(&s->cond);
}

/*
 * A driver frees the token and then looks for sleepers; this thread becomes a
 * sleeper and then looks for the token. So one of the two sees the other.
 */
static bool wait_called(struct tei_worker *w, struct tei_sleeper *s,
			bool (*done)(void *), void *arg, uint64_t until)
	TEI_REQUIRES(w->mu)
{
	if (!atomic_load(&w->token))
		return true;
	while (!s->called && !done(arg)) {
		if (!tei_cond_wait(&s->cond, &w->mu, until))
			break;
	}
	return s->called;
}

bool tei_sleeper_sleep(struct tei_worker *w, struct tei_sleeper *s,
		       bool (*done)(void *), void *arg, uint64_t until)
{
	bool called;

	tei_mutex_lock(&w->mu);
	s->called = false;
	tei_list_add_tail(&w->sleepers, &s->link);
	atomic_fetch_add(&w->n_sleepers, 1);
	atomic_store(&s->asleep, true);
	called = wait_called(w, s, done, arg, until);
	atomic_store(&s->asleep, false);
	if (!s->called) {
		tei_list_del(&s->link);
		atomic_fetch_sub(&w->n_sleepers, 1);
	}
	tei_mutex_unlock(&w->mu);
	return called;
}

void tei_sleeper_signal(struct tei_worker *w, struct tei_sleeper *s)
{
	if (!atomic_load(&s->asleep))
		return;
	tei_mutex_lock(&w->mu);
	tei_cond_signal(&s->cond);
	tei_mutex_unlock(&w->mu);
}

bool tei_sleeper_call_one(struct tei_worker *w)
{
	struct tei_sleeper *s;
	struct tei_list *node;

	tei_mutex_lock(&w->mu);
	node = tei_list_pop(&w->sleepers);
	if (node) {
		s = tei_list_entry(node, struct tei_sleeper, link);
		s->called = true;
		atomic_fetch_sub(&w->n_sleepers, 1);
		tei_cond_signal(&s->cond);
	}
	tei_mutex_unlock(&w->mu);
	return node != NULL;
}
