/* SPDX-License-Identifier: Apache-2.0 */
/* owners.c - engines that we have open, by name and incarnation */
#include "store/client/owners.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/places.h"
#include "store/client/work.h"

#define N_MAX     4096 /* idle owners beyond it are closed */
#define FAILED_NS (500 * TEI_NS_PER_MS)
#define DOUBT_NS  (4 * TEI_NS_PER_S)
#define AVOID_NS  (2 * TEI_NS_PER_S)
#define PROBE_NS \
	(250 * TEI_NS_PER_MS) /* between two probes of an avoided owner */
#define REPORT_NS (200 * TEI_NS_PER_MS) /* between two calls of silent() */
#define SILENT_MS 250 /* of an opening: then the owner is silent */
#define TRY_MS    100 /* a shorter try says nothing about the owner */

void tes_owners_init(struct tes_owners *owners, struct te_engine *engine)
{
	memset(owners, 0, sizeof(*owners));
	owners->engine = engine;
	tei_mutex_init(&owners->mu);
	tei_list_init(&owners->list);
	tei_list_init(&owners->failures);
}

static void free_owner(struct tes_owners *owners, struct tes_owner *owner)
{
	te_segment_close(owners->engine, owner->segment);
	tei_free(owner->name);
	tei_free(owner);
}

static void free_failure(struct tes_owner_failure *failure)
{
	tei_free(failure->name);
	tei_free(failure);
}

void tes_owners_fini(struct tes_owners *owners)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&owners->list)))
		free_owner(owners,
			   tei_list_entry(node, struct tes_owner, link));
	while ((node = tei_list_pop(&owners->failures)))
		free_failure(
			tei_list_entry(node, struct tes_owner_failure, link));
	tei_mutex_fini(&owners->mu);
}

/* ---- what could not be reached ---- */

/*
 * Returns why an owner is not to be tried; 0: it may be, *@doubt: but briefly.
 * Failures that are over are dropped on the way.
 */
static int recent_failure(struct tes_owners *owners, const char *name,
			  bool *doubt) TEI_REQUIRES(owners->mu)
{
	uint64_t now = tei_now_ns();
	int error = 0;

	*doubt = false;
	tei_list_for_each_safe (node, tmp, &owners->failures) {
		struct tes_owner_failure *failure =
			tei_list_entry(node, struct tes_owner_failure, link);

		if (failure->doubt_ns <= now) {
			tei_list_del(node);
			owners->n_failures--;
			free_failure(failure);
		} else if (strcmp(failure->name, name) == 0) {
			if (failure->until_ns > now)
				error = failure->error;
			*doubt = true;
		}
	}
	return error;
}

static struct tes_owner_failure *take_failure(struct tes_owners *owners,
					      const char *name)
	TEI_REQUIRES(owners->mu)
{
	tei_list_for_each (node, &owners->failures) {
		struct tes_owner_failure *failure =
			tei_list_entry(node, struct tes_owner_failure, link);

		if (strcmp(failure->name, name) != 0)
			continue;
		tei_list_del(node);
		owners->n_failures--;
		return failure;
	}
	return NULL;
}

static void forget_failure(struct tes_owners *owners, const char *name)
{
	struct tes_owner_failure *failure;

	tei_mutex_lock(&owners->mu);
	failure = owners->n_failures ? take_failure(owners, name) : NULL;
	tei_mutex_unlock(&owners->mu);
	if (failure)
		free_failure(failure);
}

/* Remembers that an owner failed; @doubted: it was not given all the time. */
static void remember_failure(struct tes_owners *owners, const char *name,
			     int error, bool doubted)
{
	struct tes_owner_failure *failure = tei_calloc(1, sizeof(*failure));
	struct tes_owner_failure *old;
	uint64_t now = tei_now_ns();

	if (!failure)
		return;
	failure->name = tei_strdup(name);
	if (!failure->name) {
		tei_free(failure);
		return;
	}
	failure->error = error;
	failure->until_ns = failure->doubt_ns = now + FAILED_NS;
	if (error == -ETIMEDOUT && !doubted)
		failure->doubt_ns = now + DOUBT_NS;
	tei_mutex_lock(&owners->mu);
	old = take_failure(owners, name);
	if (old && failure->doubt_ns < old->doubt_ns)
		failure->doubt_ns = old->doubt_ns;
	tei_list_add_tail(&owners->failures, &failure->link);
	owners->n_failures++;
	tei_mutex_unlock(&owners->mu);
	if (old)
		free_failure(old);
}

/* ---- what is open ---- */

static bool is_life(const struct tes_owner *owner, const char *name,
		    const uint8_t *incarnation)
{
	return !memcmp(owner->incarnation, incarnation, TE_INCARNATION_LEN) &&
	       strcmp(owner->name, name) == 0;
}

static struct tes_owner *find_owner(struct tes_owners *owners, const char *name,
				    const uint8_t *incarnation)
	TEI_REQUIRES(owners->mu)
{
	tei_list_for_each (node, &owners->list) {
		struct tes_owner *owner =
			tei_list_entry(node, struct tes_owner, link);

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
static struct tes_owner *surplus(struct tes_owners *owners)
	TEI_REQUIRES(owners->mu)
{
	struct tei_list *node;

	if (owners->n <= N_MAX)
		return NULL;
	for (node = owners->list.prev; node != &owners->list;
	     node = node->prev) {
		struct tes_owner *owner =
			tei_list_entry(node, struct tes_owner, link);

		if (owner->refs > 1)
			continue;
		tei_list_del(node);
		owners->n--;
		return owner;
	}
	return NULL;
}

/* A fresh owner goes in, unless another thread was first: then its is used. */
static struct tes_owner *keep(struct tes_owners *owners,
			      struct tes_owner *fresh)
{
	struct tes_owner *owner, *old;

	tei_mutex_lock(&owners->mu);
	owner = find_owner(owners, fresh->name, fresh->incarnation);
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

static int open_fresh(struct tes_owners *owners, const char *name,
		      uint32_t timeout_ms, struct tes_owner **out)
{
	struct tes_owner *owner = tei_calloc(1, sizeof(*owner));
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

static void notify_failed(const struct tes_owners *owners,
			  const uint8_t *incarnation)
{
	if (owners->silent)
		owners->silent(owners->silent_arg, incarnation);
}

/*
 * Opens in two tries, where there is time, so that a silent owner is reported
 * early; the first is all that one in doubt gets.
 */
static int open_patiently(struct tes_owners *owners, const char *name,
			  const uint8_t *incarnation, uint32_t timeout_ms,
			  bool doubt, struct tes_owner **out)
{
	uint32_t first = doubt ? TRY_MS : SILENT_MS;
	int rc;

	if (first > timeout_ms)
		first = timeout_ms;
	rc = open_fresh(owners, name, first, out);
	if (rc && rc != -ENOMEM && rc != -EMFILE)
		notify_failed(owners, incarnation);
	if (rc == -ETIMEDOUT && !doubt && first < timeout_ms)
		rc = open_fresh(owners, name, timeout_ms - first, out);
	if (!rc)
		forget_failure(owners, name);
	else if (rc != -ETIMEDOUT || timeout_ms >= TRY_MS)
		remember_failure(owners, name, rc, doubt);
	return rc;
}

int tes_owners_get(struct tes_owners *owners, const char *name,
		   const uint8_t incarnation[TE_INCARNATION_LEN],
		   uint32_t timeout_ms, struct tes_owner **out)
{
	struct tes_owner *owner;
	bool doubt;
	int rc;

	tei_mutex_lock(&owners->mu);
	owner = find_owner(owners, name, incarnation);
	rc = owner ? 0 : recent_failure(owners, name, &doubt);
	tei_mutex_unlock(&owners->mu);
	if (owner) {
		*out = owner;
		return 0;
	}
	if (rc)
		return rc;
	rc = open_patiently(owners, name, incarnation, timeout_ms, doubt,
			    &owner);
	if (rc)
		return rc;
	if (memcmp(owner->incarnation, incarnation, TE_INCARNATION_LEN)) {
		free_owner(owners, owner);
		return -ESTALE;
	}
	*out = keep(owners, owner);
	return 0;
}

static void release(struct tes_owners *owners, struct tes_owner *owner,
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

void tes_owners_put(struct tes_owners *owners, struct tes_owner *owner)
{
	release(owners, owner, false);
}

/* Drops an owner whose engine is gone: the next get() opens a new one. */
static void owners_drop(struct tes_owners *owners, struct tes_owner *owner)
{
	release(owners, owner, true);
}

void tes_owners_ref(struct tes_owners *owners, struct tes_owner *owner)
{
	tei_mutex_lock(&owners->mu);
	owner->refs++;
	tei_mutex_unlock(&owners->mu);
}

/* ---- owners that readers avoid ---- */

/*
 * Tells whether @next has come: then it is moved to @now + @after, so that one
 * caller of many gets true. Relaxed, here and below: hints that order nothing.
 */
static bool is_due(atomic_ullong *next, uint64_t now, uint64_t after)
{
	unsigned long long was =
		atomic_load_explicit(next, memory_order_relaxed);

	return was <= now &&
	       atomic_compare_exchange_strong_explicit(next, &was, now + after,
						       memory_order_relaxed,
						       memory_order_relaxed);
}

void tes_owners_report(struct tes_owners *owners, struct tes_owner *owner)
{
	if (is_due(&owner->reported_ns, tei_now_ns(), REPORT_NS))
		notify_failed(owners, owner->incarnation);
}

static void avoid(struct tes_owner *owner, uint64_t probe_after_ns)
{
	uint64_t now = tei_now_ns();

	atomic_store_explicit(&owner->probe_ns, now + probe_after_ns,
			      memory_order_relaxed);
	atomic_store_explicit(&owner->avoid_until_ns, now + AVOID_NS,
			      memory_order_relaxed);
}

/* Avoids the owner for a while; the next caller probes it. */
void tes_owners_failed(struct tes_owners *owners, struct tes_owner *owner)
{
	avoid(owner, 0);
	tes_owners_report(owners, owner);
}

bool tes_owners_try(struct tes_owners *owners, struct tes_owner *owner,
		    uint32_t timeout_ms)
{
	uint64_t now = tei_now_ns();

	if (atomic_load_explicit(&owner->avoid_until_ns,
				 memory_order_relaxed) <= now)
		return true;
	tes_owners_report(owners, owner);
	if (!is_due(&owner->probe_ns, now, PROBE_NS))
		return false;
	if (te_peer_probe(owners->engine, owner->name,
			  timeout_ms < TRY_MS ? timeout_ms : TRY_MS, NULL)) {
		avoid(owner, PROBE_NS);
		return false;
	}
	tes_owner_answered(owner);
	return true;
}

void tes_owner_answered(struct tes_owner *owner)
{
	if (atomic_load_explicit(&owner->avoid_until_ns, memory_order_relaxed))
		atomic_store_explicit(&owner->avoid_until_ns, 0,
				      memory_order_relaxed);
}

bool tes_owners_avoided(struct tes_owners *owners, const char *name,
			const uint8_t incarnation[TE_INCARNATION_LEN])
{
	uint64_t until = 0;
	bool known = false, failed, doubt = false;

	tei_mutex_lock(&owners->mu);
	tei_list_for_each (node, &owners->list) {
		struct tes_owner *owner =
			tei_list_entry(node, struct tes_owner, link);

		if (!is_life(owner, name, incarnation))
			continue;
		known = true;
		until = atomic_load_explicit(&owner->avoid_until_ns,
					     memory_order_relaxed);
		break;
	}
	failed = !known && recent_failure(owners, name, &doubt);
	tei_mutex_unlock(&owners->mu);
	return failed || doubt || until > tei_now_ns();
}

/* ---- owners that take part in one round ---- */

/* As long as an owner, or this process, may have to wait for a processor. */
#define EPOCH_WAIT_NS (1000 * TEI_NS_PER_MS)

void tes_places_init(struct tes_places *places, struct tes_owners *owners,
		     struct tes_work *work, uint32_t timeout_ms,
		     uint64_t deadline_ns)
{
	memset(places, 0, sizeof(*places));
	places->arena = &work->round;
	places->owners = owners;
	places->timeout_ms = timeout_ms;
	places->deadline_ns = deadline_ns;
}

static int reserve_places(struct tes_places *places, size_t n)
{
	size_t room = places->room ? places->room : 8;
	struct tes_place *at;

	if (n <= places->room)
		return 0;
	while (room < n)
		room *= 2;
	at = tei_arena_calloc(places->arena, room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	if (places->n)
		memcpy(at, places->at, places->n * sizeof(*at));
	places->at = at;
	places->room = room;
	return 0;
}

int tes_places_add(struct tes_places *places, Store__Segment *const *segments,
		   size_t n)
{
	size_t i;

	if (reserve_places(places, places->n + n))
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct tes_place *place = &places->at[places->n++];

		place->name = segments[i]->engine;
		if (segments[i]->incarnation.len == TE_INCARNATION_LEN)
			place->incarnation = segments[i]->incarnation.data;
	}
	return 0;
}

static int learn_epoch(struct tes_places *places, struct tes_place *place)
{
	int rc = te_segment_epoch(places->owners->engine, place->owner->segment,
				  &place->epoch, &place->since_ns);

	if (rc)
		place->gone = true;
	return rc;
}

int tes_places_add_owner(struct tes_places *places, struct tes_owner *owner,
			 uint32_t *index)
{
	struct tes_place *place;
	size_t i;

	/* Most recent first: neighbours mostly have the same owner. */
	for (i = places->n; i > 0; i--)
		if (places->at[i - 1].owner == owner) {
			*index = (uint32_t)(i - 1);
			return 0;
		}
	if (reserve_places(places, places->n + 1))
		return -ENOMEM;
	place = &places->at[places->n];
	place->name = owner->name;
	place->incarnation = owner->incarnation;
	place->owner = owner;
	place->tried = true;
	tes_owners_ref(places->owners, owner);
	*index = (uint32_t)places->n++;
	place->error = learn_epoch(places, place);
	return 0;
}

void tes_places_fini(struct tes_places *places)
{
	size_t i;

	for (i = 0; i < places->n; i++) {
		struct tes_place *place = &places->at[i];

		if (!place->owner)
			continue;
		if (place->gone)
			owners_drop(places->owners, place->owner);
		else
			tes_owners_put(places->owners, place->owner);
	}
	places->n = 0;
}

/* The engine calls nobody when an epoch begins, so that one has to look. */
static void sleep_1_ms(void)
{
	const struct timespec ms = {.tv_nsec = (long)TEI_NS_PER_MS};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
}

void tes_places_await_epochs(struct tes_places *places)
{
	uint64_t until = tei_now_ns() + EPOCH_WAIT_NS, epoch, since_ns;
	size_t i;

	for (i = 0; i < places->n; i++) {
		const struct tes_place *place = &places->at[i];

		while (place->stale && !place->gone && tei_now_ns() < until) {
			if (te_segment_epoch(places->owners->engine,
					     place->owner->segment, &epoch,
					     &since_ns) ||
			    epoch != place->epoch)
				break;
			sleep_1_ms();
		}
	}
}

static int open_place(struct tes_places *places, struct tes_place *place)
{
	uint64_t now = tei_now_ns(), ms = 1;
	int rc;

	if (!place->incarnation)
		return -EPROTO;
	if (now < places->deadline_ns)
		ms += (places->deadline_ns - now) / TEI_NS_PER_MS;
	if (ms > places->timeout_ms)
		ms = places->timeout_ms;
	rc = tes_owners_get(places->owners, place->name, place->incarnation,
			    (uint32_t)ms, &place->owner);
	return rc ? rc : learn_epoch(places, place);
}

int tes_places_open(struct tes_places *places, size_t index)
{
	struct tes_place *place = &places->at[index];

	if (!place->tried) {
		place->tried = true;
		place->error = open_place(places, place);
	}
	return place->error;
}
