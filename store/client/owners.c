/* SPDX-License-Identifier: Apache-2.0 */
/* owners.c - engines that we have open, by name and incarnation */
#include "store/client/owners.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define N_MAX     4096 /* idle owners beyond it are closed */
#define FAILED_NS (500 * TEI_NS_PER_MS)
#define SHUN_NS   (2 * TEI_NS_PER_S)
#define TRY_MS    100 /* a shorter try says nothing about the owner */

void tei_owners_init(struct tei_owners *owners, struct te_engine *engine)
{
	memset(owners, 0, sizeof(*owners));
	owners->engine = engine;
	tei_mutex_init(&owners->mu);
	tei_list_init(&owners->list);
	tei_list_init(&owners->failures);
}

static void free_owner(struct tei_owners *owners, struct tei_owner *owner)
{
	te_segment_close(owners->engine, owner->segment);
	tei_free(owner->name);
	tei_free(owner);
}

static void free_failure(struct tei_owner_failure *failure)
{
	tei_free(failure->name);
	tei_free(failure);
}

void tei_owners_fini(struct tei_owners *owners)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&owners->list)))
		free_owner(owners,
			   tei_list_entry(node, struct tei_owner, link));
	while ((node = tei_list_pop(&owners->failures)))
		free_failure(
			tei_list_entry(node, struct tei_owner_failure, link));
	tei_mutex_fini(&owners->mu);
}

/* ---- what could not be reached ---- */

static int recent_failure(struct tei_owners *owners, const char *name)
	TEI_REQUIRES(owners->mu)
{
	uint64_t now = tei_now_ns();
	int error = 0;

	tei_list_for_each_safe (node, tmp, &owners->failures) {
		struct tei_owner_failure *failure =
			tei_list_entry(node, struct tei_owner_failure, link);

		if (failure->until_ns <= now) {
			tei_list_del(node);
			owners->n_failures--;
			free_failure(failure);
		} else if (strcmp(failure->name, name) == 0) {
			error = failure->error;
		}
	}
	return error;
}

static void remember_failure(struct tei_owners *owners, const char *name,
			     int error)
{
	struct tei_owner_failure *failure = tei_calloc(1, sizeof(*failure));

	if (!failure)
		return;
	failure->name = tei_strdup(name);
	if (!failure->name) {
		tei_free(failure);
		return;
	}
	failure->error = error;
	failure->until_ns = tei_now_ns() + FAILED_NS;
	tei_mutex_lock(&owners->mu);
	tei_list_add_tail(&owners->failures, &failure->link);
	owners->n_failures++;
	tei_mutex_unlock(&owners->mu);
}

/* ---- what is open ---- */

static bool is_life(const struct tei_owner *owner, const char *name,
		    const uint8_t *incarnation)
{
	return !memcmp(owner->incarnation, incarnation, TE_INCARNATION_LEN) &&
	       strcmp(owner->name, name) == 0;
}

static struct tei_owner *find(struct tei_owners *owners, const char *name,
			      const uint8_t *incarnation)
	TEI_REQUIRES(owners->mu)
{
	tei_list_for_each (node, &owners->list) {
		struct tei_owner *owner =
			tei_list_entry(node, struct tei_owner, link);

		if (!is_life(owner, name, incarnation))
			continue;
		tei_list_del(node);
		tei_list_add_head(&owners->list, node);
		owner->refs++;
		return owner;
	}
	return NULL;
}

/* The least recently used that nobody holds, out of the list; or NULL. */
static struct tei_owner *surplus(struct tei_owners *owners)
	TEI_REQUIRES(owners->mu)
{
	struct tei_list *node;

	if (owners->n <= N_MAX)
		return NULL;
	for (node = owners->list.prev; node != &owners->list;
	     node = node->prev) {
		struct tei_owner *owner =
			tei_list_entry(node, struct tei_owner, link);

		if (owner->refs > 1)
			continue;
		tei_list_del(node);
		owners->n--;
		return owner;
	}
	return NULL;
}

/* A fresh owner goes in, unless another thread was first: then its is used. */
static struct tei_owner *keep(struct tei_owners *owners,
			      struct tei_owner *fresh)
{
	struct tei_owner *owner, *old;

	tei_mutex_lock(&owners->mu);
	owner = find(owners, fresh->name, fresh->incarnation);
	old = owner ? fresh : NULL;
	if (!owner) {
		tei_list_add_head(&owners->list, &fresh->link);
		fresh->refs = 2;
		owners->n++;
		owner = fresh;
		old = surplus(owners);
	}
	tei_mutex_unlock(&owners->mu);
	if (old)
		free_owner(owners, old);
	return owner;
}

static int open_fresh(struct tei_owners *owners, const char *name,
		      uint32_t timeout_ms, struct tei_owner **out)
{
	struct tei_owner *owner = tei_calloc(1, sizeof(*owner));
	int rc = -ENOMEM;

	if (!owner)
		return rc;
	owner->name = tei_strdup(name);
	if (!owner->name)
		goto err_free;
	rc = te_segment_open(owners->engine, name, timeout_ms, &owner->segment);
	if (rc)
		goto err_name;
	rc = te_segment_incarnation(owners->engine, owner->segment,
				    owner->incarnation);
	if (rc)
		goto err_close;
	tei_list_init(&owner->link);
	*out = owner;
	return 0;

err_close:
	te_segment_close(owners->engine, owner->segment);
err_name:
	tei_free(owner->name);
err_free:
	tei_free(owner);
	return rc;
}

int tei_owners_get(struct tei_owners *owners, const char *name,
		   const uint8_t incarnation[TE_INCARNATION_LEN],
		   uint32_t timeout_ms, struct tei_owner **out)
{
	struct tei_owner *owner;
	int rc;

	tei_mutex_lock(&owners->mu);
	owner = find(owners, name, incarnation);
	rc = owner ? 0 : recent_failure(owners, name);
	tei_mutex_unlock(&owners->mu);
	if (owner) {
		*out = owner;
		return 0;
	}
	if (rc)
		return rc;
	rc = open_fresh(owners, name, timeout_ms, &owner);
	if (rc) {
		if (rc != -ETIMEDOUT || timeout_ms >= TRY_MS)
			remember_failure(owners, name, rc);
		return rc;
	}
	if (memcmp(owner->incarnation, incarnation, TE_INCARNATION_LEN)) {
		free_owner(owners, owner);
		return -ESTALE;
	}
	*out = keep(owners, owner);
	return 0;
}

static void release(struct tei_owners *owners, struct tei_owner *owner,
		    bool drop)
{
	bool last;

	tei_mutex_lock(&owners->mu);
	if (drop && !tei_list_empty(&owner->link)) {
		tei_list_del(&owner->link);
		owners->n--;
		owner->refs--;
	}
	last = --owner->refs == 0;
	tei_mutex_unlock(&owners->mu);
	if (last)
		free_owner(owners, owner);
}

void tei_owners_put(struct tei_owners *owners, struct tei_owner *owner)
{
	release(owners, owner, false);
}

void tei_owners_drop(struct tei_owners *owners, struct tei_owner *owner)
{
	release(owners, owner, true);
}

void tei_owners_ref(struct tei_owners *owners, struct tei_owner *owner)
{
	tei_mutex_lock(&owners->mu);
	owner->refs++;
	tei_mutex_unlock(&owners->mu);
}

/* ---- whom readers shun ---- */

/* Relaxed: a hint, with nothing behind it. */
void tei_owner_failed(struct tei_owner *owner)
{
	atomic_store_explicit(&owner->shun_until_ns, tei_now_ns() + SHUN_NS,
			      memory_order_relaxed);
}

void tei_owner_answered(struct tei_owner *owner)
{
	if (atomic_load_explicit(&owner->shun_until_ns, memory_order_relaxed))
		atomic_store_explicit(&owner->shun_until_ns, 0,
				      memory_order_relaxed);
}

bool tei_owners_shunned(struct tei_owners *owners, const char *name,
			const uint8_t incarnation[TE_INCARNATION_LEN])
{
	uint64_t until = 0;
	bool known = false, failed;

	tei_mutex_lock(&owners->mu);
	tei_list_for_each (node, &owners->list) {
		struct tei_owner *owner =
			tei_list_entry(node, struct tei_owner, link);

		if (!is_life(owner, name, incarnation))
			continue;
		known = true;
		until = atomic_load_explicit(&owner->shun_until_ns,
					     memory_order_relaxed);
		break;
	}
	failed = !known && recent_failure(owners, name);
	tei_mutex_unlock(&owners->mu);
	return failed || until > tei_now_ns();
}
