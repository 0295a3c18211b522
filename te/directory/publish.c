/* SPDX-License-Identifier: Apache-2.0 */
/* publish.c - a name of ours in a directory, for as long as we live */
#include "te/directory/publish.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "te/directory/crypto.h"
#include "te/directory/directory.h"

#define AGAIN_MS  100u /* doubled with each failure, up to REST of the TTL */
#define REST      3u
#define KNOCK_MS  300u
#define TRIES_MAX 4 /* against others who write at the same time */

/*
 * Two references, the engine's and the thread's; what is not guarded is the
 * thread's own.
 */
struct tei_publisher {
	atomic_int refs;
	struct tei_mutex mu; /* lock 52 */
	struct tei_cond changed;
	bool leaving;          /* guarded by mu: the engine's wish */
	bool ended;            /* guarded by mu */
	bool calling;          /* guarded by mu; or is about to */
	struct tei_entry news; /* guarded by mu: what to say from now on */
	bool renewed;          /* guarded by mu: it was not looked at yet */

	struct tei_directory *dir; /* a reference */
	struct tei_dir_link link;
	struct tei_entry self;
	char name[TEI_HOST_LEN_MAX + 9];
	char key[TEI_ENTRY_KEY_MAX], value[TEI_ENTRY_MAX];
	bool published, complained, taken;
	bool outdated;        /* what is published is no longer `value` */
	bool was_published;   /* ever */
	uint32_t failures;    /* in a row */
	atomic_bool hopeless; /* failures > 0: waiting for it is in vain */
};

static void unref(struct tei_publisher *p)
{
	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	tei_directory_put(p->dir);
	tei_cond_fini(&p->changed);
	tei_mutex_fini(&p->mu);
	tei_free(p);
}

/* ---- one attempt ---- */

/*
 * Tells whether an entry is of an engine at our place. Before we have published
 * anything that was the engine whose port we have now. Later it is one of the
 * same name on another host, as two that call themselves 127.0.0.1: they must
 * not replace each other for ever.
 */
static bool is_at_our_place(const struct tei_publisher *p,
			    const struct tei_entry *other)
{
	if (other->port != p->self.port || p->was_published)
		return false;
	for (uint32_t i = 0; i < other->n; i++) {
		for (uint32_t j = 0; j < p->self.n; j++) {
			if (!strcmp(other->address[i], p->self.address[j]))
				return true;
		}
	}
	return !strcmp(other->host, p->self.host);
}

/* Tells whether the engine that wrote @text may have its name taken. */
static bool is_free(const struct tei_publisher *p, const char *text,
		    struct tei_entry *other)
{
	if (tei_entry_decode(text, strlen(text), other))
		return true; /* nobody can be reached by this */
	return !strcmp(other->life, p->self.life) ||
	       is_at_our_place(p, other) ||
	       tei_entry_is_refused(other, KNOCK_MS);
}

static void say_taken(struct tei_publisher *p, const struct tei_entry *other)
{
	if (!p->taken)
		LOG_WARN(
			"directory %s: %s is the name of another engine, at "
			"%s port %u, which is alive: this one is not published",
			p->dir->text, p->name, other->host, other->port);
	p->taken = true;
}

static void say_anothers(struct tei_publisher *p)
{
	if (!p->taken)
		LOG_WARN("directory %s: %s is the name of an engine of another "
			 "user or host: this one is published when that entry "
			 "has expired",
			 p->dir->text, p->name);
	p->taken = true;
}

/*
 * Replaces an entry. -EAGAIN: it changed just now. -EBUSY: its owner lives, or
 * it is not ours to replace.
 */
static int replace_entry(struct tei_publisher *p)
{
	const struct tei_directory_ops *ops = p->dir->ops;
	char old[TEI_ENTRY_MAX];
	struct tei_entry other;
	int rc = ops->get(&p->link, p->key, old);

	if (rc == -ENOENT)
		return -EAGAIN;
	if (rc < 0)
		return rc;
	if (!strcmp(old, p->value)) {
		rc = ops->refresh(&p->link, p->key, p->value);
		if (rc != -ENOENT && rc != -EEXIST)
			return rc;
	}
	if (!is_free(p, old, &other)) {
		say_taken(p, &other);
		return -EBUSY;
	}
	rc = ops->put(&p->link, p->key, p->value, old);
	if (rc == -EACCES) {
		say_anothers(p);
		return -EBUSY;
	}
	return rc == -EEXIST ? -EAGAIN : rc;
}

static int write_entry(struct tei_publisher *p)
{
	int rc = -EAGAIN;

	for (int i = 0; rc == -EAGAIN && i < TRIES_MAX; i++) {
		rc = p->dir->ops->put(&p->link, p->key, p->value, NULL);
		if (rc == -EEXIST)
			rc = replace_entry(p);
	}
	return rc;
}

static int attempt(struct tei_publisher *p)
{
	int rc = -ENOENT;

	tei_dir_link_begin(&p->link);
	if (p->published && !p->outdated)
		rc = p->dir->ops->refresh(&p->link, p->key, p->value);
	if (rc == -ENOENT || rc == -EEXIST)
		rc = write_entry(p);
	return rc;
}

static void log_result(struct tei_publisher *p, int rc)
{
	if (!rc && !p->published)
		LOG_INFO("directory %s: %s is published", p->dir->text,
			 p->name);
	else if (!rc && p->complained)
		LOG_INFO("directory %s: reached again", p->dir->text);
	else if (rc && rc != -EBUSY && rc != -EAGAIN && !p->complained)
		LOG_WARN("directory %s: %s; tried again in the background, "
			 "names host:port work without it",
			 p->dir->text,
			 *p->link.error ? p->link.error : te_strerror(rc));
}

/* Returns when to look again, in ms. */
static uint64_t turn(struct tei_publisher *p)
{
	uint64_t rest = p->dir->ttl_ms / REST, ms;
	int rc = attempt(p);

	log_result(p, rc);
	if (!rc || rc == -EBUSY) {
		p->published = !rc;
		p->outdated = false;
		p->was_published = p->was_published || !rc;
		p->complained = false;
		p->taken = rc != 0;
		p->failures = 0;
		atomic_store(&p->hopeless, false);
		return rest;
	}
	atomic_store(&p->hopeless, true);
	tei_dir_link_close(&p->link);
	p->complained = p->complained || rc != -EAGAIN;
	ms = (uint64_t)AGAIN_MS << (p->failures < 8 ? p->failures++ : 8);
	ms = ms < rest ? ms : rest;
	return ms + tei_now_ns() / TEI_NS_PER_US % (ms / 4 + 1);
}

/* ---- the thread ---- */

static void take_news(struct tei_publisher *p) TEI_REQUIRES(p->mu)
{
	char value[TEI_ENTRY_MAX];

	p->renewed = false;
	if (tei_entry_encode(&p->news, value) < 0 || !strcmp(value, p->value))
		return;
	p->self = p->news;
	memcpy(p->value, value, sizeof(value));
	p->outdated = true;
}

/* False: the engine ends. */
static bool wait_for(struct tei_publisher *p, uint64_t ms)
{
	uint64_t until = tei_now_ns() + ms * TEI_NS_PER_MS;
	bool leaving;

	tei_mutex_lock(&p->mu);
	p->calling = false;
	while (!p->leaving && !p->renewed &&
	       tei_cond_wait(&p->changed, &p->mu, until))
		;
	leaving = p->leaving;
	if (p->renewed)
		take_news(p);
	p->calling = !leaving || p->published;
	tei_mutex_unlock(&p->mu);
	return !leaving;
}

static void withdraw(struct tei_publisher *p)
{
	int rc;

	tei_dir_link_begin(&p->link);
	rc = p->dir->ops->remove(&p->link, p->key, p->value);
	if (rc)
		LOG_DEBUG("directory %s: remove %s: %s", p->dir->text, p->name,
			  te_strerror(rc));
}

static void *publish_entry(void *arg)
{
	struct tei_publisher *p = arg;

	while (wait_for(p, turn(p)))
		;
	if (p->published)
		withdraw(p);
	tei_dir_link_close(&p->link);
	tei_dir_crypto_end_thread();
	tei_mutex_lock(&p->mu);
	p->ended = true;
	tei_cond_broadcast(&p->changed);
	tei_mutex_unlock(&p->mu);
	unref(p);
	return NULL;
}

/* ---- the engine's side ---- */

static int prepare(struct tei_publisher *p, const char *name,
		   const struct tei_entry *self)
{
	int rc = tei_entry_key(p->dir->cluster, name, p->key);

	if (rc)
		return rc;
	p->self = *self;
	(void)strncpy(p->name, name, sizeof(p->name) - 1);
	rc = tei_entry_encode(self, p->value);
	return rc < 0 ? rc : 0;
}

int tei_publisher_start(struct tei_directory *dir, const char *name,
			const struct tei_entry *self,
			struct tei_publisher **out)
{
	struct tei_publisher *p = tei_calloc(1, sizeof(*p));
	pthread_t thread;
	int rc;

	if (!p)
		return -ENOMEM;
	atomic_init(&p->refs, 1);
	tei_mutex_init(&p->mu);
	tei_cond_init(&p->changed);
	p->calling = true;
	p->dir = tei_directory_get(dir);
	tei_dir_link_init(&p->link, dir);
	rc = prepare(p, name, self);
	if (!rc) {
		atomic_store(&p->refs, 2);
		rc = tei_thread_start(&thread, "te-directory", publish_entry,
				      p);
		if (rc)
			atomic_store(&p->refs, 1);
	}
	if (rc) {
		unref(p);
		return rc;
	}
	(void)pthread_detach(thread);
	*out = p;
	return 0;
}

void tei_publisher_renew(struct tei_publisher *p, const struct tei_entry *self)
{
	tei_mutex_lock(&p->mu);
	p->news = *self;
	p->renewed = true;
	tei_cond_broadcast(&p->changed);
	tei_mutex_unlock(&p->mu);
}

void tei_publisher_leave(struct tei_publisher *p)
{
	if (!p)
		return;
	tei_mutex_lock(&p->mu);
	p->leaving = true;
	tei_cond_broadcast(&p->changed);
	tei_mutex_unlock(&p->mu);
}

void tei_publisher_stop(struct tei_publisher *p, uint64_t until_ns)
{
	if (!p)
		return;
	tei_publisher_leave(p);
	tei_mutex_lock(&p->mu);
	while (!p->ended && !(p->calling && atomic_load(&p->hopeless)) &&
	       tei_cond_wait(&p->changed, &p->mu, until_ns))
		;
	tei_mutex_unlock(&p->mu);
	unref(p);
}
