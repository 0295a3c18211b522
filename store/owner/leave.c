/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leave.c - segments that leave later
 *
 * After a grace a segment goes by itself: the master takes no part in that but
 * to put nothing new there, and each one that it is mounted at is told.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

#define REMOVE_MS 500

/* ---- the end of a grace ---- */

/* The master could not be told: it will be, when it is back. */
static void on_left(struct tei_call *post)
{
	struct tes_segment *segment =
		TEI_CONTAINER(post, struct tes_segment, grace.left);

	if (segment->grace.code) {
		segment->leaving = true;
		tei_list_add_tail(&segment->grace.store->segments.list,
				  &segment->link);
	} else {
		tes_segment_free(segment);
	}
}

static void run_leave(struct tes_job *job, bool stopping)
{
	struct tes_segment *segment =
		TEI_CONTAINER(job, struct tes_segment, grace.job);
	struct te_store *store = segment->grace.store;

	segment->grace.code = 0;
	if (!stopping)
		segment->grace.code = tes_segment_tell_unmount(
			store, 0, segment->id, 0, tes_call_deadline(store));
	tes_segment_withdraw(store, segment, REMOVE_MS);
	if (!tei_loop_post(store->loop, &segment->grace.left))
		tes_segment_free(segment);
}

static void on_over(void *arg)
{
	struct tes_segment *segment = arg;

	tes_segment_ungrace(segment);
	tei_list_del(&segment->link);
	segment->grace.job.run = run_leave;
	segment->grace.left.fn = on_left;
	tes_helper_add(&segment->grace.store->helper, &segment->grace.job);
}

/* ---- a grace ---- */

void tes_segment_ungrace(struct tes_segment *segment)
{
	if (atomic_exchange(&segment->grace.until_ns, 0))
		tei_alarm_clear(&segment->grace.over);
}

void tes_segments_ungrace(struct te_store *store)
{
	tei_list_for_each (node, &store->segments.list)
		tes_segment_ungrace(
			tei_list_entry(node, struct tes_segment, link));
}

uint64_t tes_segment_grace_ms(const struct tes_segment *segment)
{
	uint64_t until = atomic_load(&segment->grace.until_ns);
	uint64_t now = tei_now_ns();

	if (!until)
		return 0;
	return until > now ? (until - now) / TEI_NS_PER_MS + 1 : 1;
}

/* Until @grace_ms from now, or an earlier end that it has. -ENOMEM. */
static int give_grace(struct te_store *store, struct tes_segment *segment,
		      uint64_t grace_ms)
{
	uint64_t until = tei_now_ns() + grace_ms * TEI_NS_PER_MS;
	uint64_t before = atomic_load(&segment->grace.until_ns);
	int rc;

	if (before && before <= until)
		return 0;
	if (!before) {
		segment->grace.store = store;
		tei_alarm_init(&segment->grace.over, store->loop, on_over,
			       segment);
	}
	rc = tei_alarm_set(&segment->grace.over, grace_ms);
	if (!rc)
		atomic_store(&segment->grace.until_ns, until);
	return rc;
}

struct step {
	struct te_store *store;
	const uint8_t *id;
	uint64_t grace_ms;
	int code;
};

static void do_grace(void *arg)
{
	struct step *step = arg;
	struct tes_segment *segment = tes_segment_find(step->store, step->id);

	if (!segment)
		step->code = TE_STORE_SEGMENT_NOT_FOUND;
	else if (give_grace(step->store, segment, step->grace_ms))
		step->code = TE_STORE_INTERNAL_ERROR;
	else
		step->code = 0;
}

int tes_unmount_later(struct te_store *store,
		      const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
		      uint64_t grace_ms)
{
	struct step step = {
		.store = store,
		.id = id,
		.grace_ms = grace_ms,
		.code = TE_STORE_INTERNAL_ERROR,
	};

	(void)tei_loop_do(store->loop, do_grace, &step);
	/* When the master is away it is told when the segment is mounted. */
	if (!step.code)
		(void)tes_segment_tell_unmount(store, 0, id, grace_ms,
					       tes_call_deadline(store));
	return step.code;
}
