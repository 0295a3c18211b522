/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - find a name's addresses without waiting for a resolver
 *
 * Two references: the user's, and one that goes from the thread to the closure
 * that it posts.
 */
#include "base/lookup.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/thread.h"

struct tei_lookup {
	struct tei_call post;  /* first: the closure is the look-up */
	struct tei_loop *loop; /* not owned; not touched once stopped */
	tei_lookup_fn *fn;
	void *arg;
	const struct tei_lookup_by *by; /* NULL: the system's resolver */
	void *by_arg;
	atomic_int refs;
	struct tei_mutex mu; /* lock 50 */
	bool stopped;        /* guarded by mu */
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;
	struct tei_address found[TEI_LOOKUP_MAX];
	int n;
};

static void unref(struct tei_lookup *l)
{
	if (atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	if (l->by)
		l->by->free(l->by_arg);
	tei_mutex_fini(&l->mu);
	tei_free(l);
}

static void on_loop(struct tei_call *post)
{
	struct tei_lookup *l = TEI_CONTAINER(post, struct tei_lookup, post);
	bool stopped;

	tei_mutex_lock(&l->mu);
	stopped = l->stopped;
	tei_mutex_unlock(&l->mu);
	if (!stopped)
		l->fn(l->arg, l->found, l->n);
	unref(l);
}

static void *look_up(void *arg)
{
	struct tei_lookup *l = arg;
	bool posted = false;

	if (l->by)
		l->n = l->by->find(l->by_arg, l->found, TEI_LOOKUP_MAX);
	else
		l->n = tei_resolve(l->host, l->port, l->found, TEI_LOOKUP_MAX);
	/* Under the lock: the loop lives as long as nobody has stopped us. */
	tei_mutex_lock(&l->mu);
	if (!l->stopped)
		posted = tei_loop_post(l->loop, &l->post);
	tei_mutex_unlock(&l->mu);
	if (!posted)
		unref(l);
	return NULL;
}

static int start_thread(struct tei_lookup *l)
{
	pthread_t thread;
	int rc = tei_thread_start(&thread, "te-lookup", look_up, l);

	if (!rc)
		(void)pthread_detach(thread);
	return rc;
}

static int start_lookup(struct tei_lookup *l)
{
	struct tei_address number;

	if (!l->by && !tei_resolve_numeric(l->host, l->port, &number)) {
		(void)look_up(l);
		return 0;
	}
	return start_thread(l);
}

static struct tei_lookup *make_lookup(struct tei_loop *loop, tei_lookup_fn *fn,
				      void *arg)
{
	struct tei_lookup *l = tei_calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->post.fn = on_loop;
	l->loop = loop;
	l->fn = fn;
	l->arg = arg;
	atomic_init(&l->refs, 2);
	tei_mutex_init(&l->mu);
	return l;
}

/* Free a look-up that has not begun; its by_arg stays the caller's. */
static void discard(struct tei_lookup *l)
{
	tei_mutex_fini(&l->mu);
	tei_free(l);
}

int tei_lookup_start(struct tei_loop *loop, const char *name, tei_lookup_fn *fn,
		     void *arg, struct tei_lookup **out)
{
	struct tei_lookup *l = make_lookup(loop, fn, arg);
	int rc;

	if (!l)
		return -ENOMEM;
	rc = tei_name_split(name, l->host, &l->port);
	if (!rc && !l->port)
		rc = -EINVAL;
	if (!rc)
		rc = start_lookup(l);
	if (rc) {
		discard(l);
		return rc;
	}
	*out = l;
	return 0;
}

int tei_lookup_start_by(struct tei_loop *loop, const struct tei_lookup_by *by,
			void *by_arg, tei_lookup_fn *fn, void *arg,
			struct tei_lookup **out)
{
	struct tei_lookup *l = make_lookup(loop, fn, arg);
	int rc;

	if (!l)
		return -ENOMEM;
	l->by = by;
	l->by_arg = by_arg;
	rc = start_lookup(l);
	if (rc) {
		discard(l);
		return rc;
	}
	*out = l;
	return 0;
}

void tei_lookup_stop(struct tei_lookup *l)
{
	if (!l)
		return;
	tei_mutex_lock(&l->mu);
	l->stopped = true;
	tei_mutex_unlock(&l->mu);
	unref(l);
}
