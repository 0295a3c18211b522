/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounting.c - tell the master of our segments, for as long as it has not got
 * them
 *
 *   heartbeat or a new segment -> publish and mount (helper) -> done
 *
 * What fails is tried again with the next heartbeat, bar a segment that a
 * caller waits for: it hears why. A segment that left while the master was away
 * is unmounted when it is back.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"

static void mount_missing(struct tes_master_link *link);

static void cannot_mount(const char *why, const char *words)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("segment: cannot be mounted: %s%s%s", why,
			 *words ? ": " : "", words);
}

static void settle(struct te_store *store, struct tes_segment *segment,
		   int code)
{
	tei_mutex_lock(&store->mu);
	segment->settled = true;
	segment->code = code;
	tei_cond_broadcast(&store->changed);
	tei_mutex_unlock(&store->mu);
}

/* We are in the pool when all that is to last is mounted. */
static void set_ready(struct te_store *store)
{
	tei_list_for_each (node, &store->segments.list) {
		const struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (segment->lasting && !segment->leaving && !segment->mounted)
			return;
	}
	tes_store_set_ready(store, true, 0);
}

/* ---- mounting ---- */

static void take_status(struct te_store *store, struct tes_segment *segment,
			int status, const char *why)
{
	if (!status || status == TE_STORE_SEGMENT_ALREADY_EXISTS) {
		segment->mounted = segment->lasting = true;
		settle(store, segment, 0);
	} else if (segment->lasting) {
		/* The next heartbeat tries again. */
		cannot_mount(te_store_strerror(status), why);
		tes_store_set_ready(store, false, TE_STORE_RPC_FAIL);
	} else {
		settle(store, segment, status);
	}
}

/* Those that have left meanwhile are not in the list. */
static void take_statuses(struct te_store *store,
			  const struct tes_mount_result *result)
{
	size_t i;

	tei_list_for_each (node, &store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		for (i = 0; i < result->n && segment->publishing; i++)
			if (result->of[i].segment == segment)
				take_status(store, segment,
					    result->of[i].status,
					    result->of[i].why);
	}
}

void tes_mounting_done(struct tes_master_link *link,
		       const struct tes_mount_result *result)
{
	struct te_store *store = link->store;
	bool late = result->generation != link->generation;

	link->mounting = false;
	if (!late && !result->rc && !result->code)
		take_statuses(store, result);
	tei_list_for_each (node, &store->segments.list)
		tei_list_entry(node, struct tes_segment, link)->publishing =
			false;
	if (late)
		return; /* its master is gone; the next one asks again */
	if (result->rc)
		cannot_mount(te_strerror(result->rc), "");
	else if (result->code)
		tes_master_link_lose(link, "does not answer our mount");
	else
		set_ready(store);
	if (!result->rc && !result->code && link->more)
		mount_missing(link);
}

static void mount_missing(struct tes_master_link *link)
{
	link->more = link->mounting;
	if (link->mounting)
		return;
	link->mounting = true;
	if (tes_segments_publish(link->store, link->generation, link->group)) {
		link->mounting = false;
		LOG_ERROR("segment: no memory to publish it");
	}
}

void tes_mounting_wanted(struct tes_master_link *link)
{
	/* Else the first heartbeat does it. */
	if (link->beaten && !link->losing)
		mount_missing(link);
}

/* ---- what has left ---- */

void tes_mounting_left(struct tes_master_link *link,
		       const uint8_t id[TES_STORE_SEGMENT_ID_LEN], int code)
{
	link->unmounting = false;
	if (code)
		return;
	tei_list_for_each (node, &link->store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (memcmp(segment->id, id, sizeof(segment->id)) != 0)
			continue;
		tei_list_del(node);
		tes_segment_free(segment);
		return;
	}
}

/* One with each heartbeat. */
static void unmount_one(struct tes_master_link *link,
			const struct tes_segment *segment)
{
	if (!link->unmounting)
		link->unmounting = !tes_segment_unmount(
			link->store, link->generation, segment);
}

/* ---- heartbeats ---- */

uint32_t tes_mounting_count(const struct tes_master_link *link)
{
	uint32_t n = 0;

	tei_list_for_each (node, &link->store->segments.list) {
		const struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		n += segment->mounted && !segment->leaving &&
		     !tes_segment_grace_ms(segment);
	}
	return n;
}

void tes_mounting_beaten(struct tes_master_link *link, bool remount)
{
	bool missing = false;

	tei_list_for_each (node, &link->store->segments.list) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		if (segment->leaving) {
			unmount_one(link, segment);
			continue;
		}
		if (remount)
			segment->mounted = false;
		missing |= !segment->mounted;
	}
	if (missing)
		mount_missing(link);
	else
		set_ready(link->store);
}
