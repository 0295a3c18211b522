/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - reading the counters */
#include "te/core/stats.h"

#include <errno.h>

#include <te/te.h>

#include "base/copy_choice.h"
#include "base/wakeup.h"
#include "te/core/engine.h"
#include "te/region/region.h"
#include "te/transfer/peer.h"
#include "te/worker/worker.h"

struct list {
	struct te_stat *out;
	size_t room, n;
};

static void put_stat(struct list *list, const char *name, const char *label,
		     uint64_t value)
{
	if (list->n < list->room)
		list->out[list->n] = (struct te_stat){name, label, value};
	list->n++;
}

static uint64_t get_counter(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void put_rail(struct list *list, struct tei_rail_box *box)
{
	struct tei_rail *rail = &box->rail;

	put_stat(list, "te_rail_sent_bytes_total", box->name,
		 get_counter(&rail->sent_bytes));
	put_stat(list, "te_rail_received_bytes_total", box->name,
		 get_counter(&rail->received_bytes));
	put_stat(list, "te_rail_bad_frames_total", box->name,
		 get_counter(&rail->bad_frames));
	put_stat(list, "te_rail_refused_slices_total", box->name,
		 get_counter(&rail->refused_slices));
	put_stat(list, "te_rail_stuck_endpoints", box->name,
		 get_counter(&rail->stuck_endpoints));
}

static void put_gauges(struct list *list, struct te_engine *engine)
{
	uint64_t n_peers = 0, n_segments, n_regions, left;

	tei_mutex_lock(&engine->mu);
	tei_list_for_each (node, &engine->peers) {
		(void)node;
		n_peers++;
	}
	n_segments = engine->segments.n;
	tei_mutex_unlock(&engine->mu);
	tei_mutex_lock(&engine->regions->mu);
	n_regions = engine->regions->n;
	left = engine->regions->prefault.left;
	tei_mutex_unlock(&engine->regions->mu);
	put_stat(list, "te_peers", "", n_peers);
	put_stat(list, "te_segments", "", n_segments);
	put_stat(list, "te_regions", "", n_regions);
	put_stat(list, "te_prefault_left_bytes", "", left);
}

/* Puts what copies large memory, by kernel, once measurements have chosen. */
static void put_copies(struct list *list)
{
	struct tei_copy_choice choice;

	for (unsigned int i = 0; i < TEI_COPY_CLASSES; i++) {
		if (tei_copy_choice(i, &choice))
			put_stat(list, choice.stat, choice.copier,
				 choice.bytes_per_s);
	}
}

int te_engine_stats(struct te_engine *engine, struct te_stat *out, size_t *n)
{
	struct list list = {.out = out};
	uint64_t count;
	uint32_t i;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!n || (!out && *n))
		return -EINVAL;
	list.room = *n;
#define PUT(field, name, label)                                       \
	count = get_counter(&engine->stats.field);                    \
	for (i = 0; i < engine->n_workers; i++)                       \
		count += get_counter(&engine->worker[i].stats.field); \
	put_stat(&list, name, label, count);
	TEI_STATS(PUT)
#undef PUT
	put_gauges(&list, engine);
	for (i = 0; i < engine->worker->n_rails; i++)
		put_rail(&list, engine->worker->rails[i]);
	put_copies(&list);
	put_stat(&list, "te_wakeup_ns", "", tei_wakeup_ns());
	*n = list.n;
	return 0;
}
