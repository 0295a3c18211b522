/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - read memory of a peer for a moment, and write to it where that is meant */
#include "cmd/doctor/peer.h"

#include <errno.h>
#include <string.h>

#define OPEN_MS 5000
#define REGIONS 64

static void read_rails(struct te_engine *engine, struct te_rail_info *out,
		       size_t *n)
{
	*n = TEI_PEER_RAILS;
	(void)te_engine_rails(engine, out, n);
	if (*n > TEI_PEER_RAILS)
		*n = TEI_PEER_RAILS;
}

static void keep_rails(struct te_engine *engine,
		       const struct te_rail_info *before,
		       struct tei_peer_visit *v)
{
	struct te_rail_info after[TEI_PEER_RAILS];
	size_t i;

	read_rails(engine, after, &v->n_rails);
	for (i = 0; i < v->n_rails; i++)
		v->rails[i] = (struct tei_peer_rail){
			.name = after[i].name,
			.backend = after[i].backend,
			.state = after[i].state,
			.speed_bps = after[i].speed_bps,
			.bytes = after[i].received_bytes -
				 before[i].received_bytes,
			.written = after[i].sent_bytes - before[i].sent_bytes,
		};
}

static void keep_links(struct tei_mover *m, struct tei_peer_visit *v)
{
	struct te_link_info links[TEI_PEER_RAILS];
	size_t n = TEI_PEER_RAILS, i;

	if (te_segment_links(m->engine, m->segment, links, &n))
		return;
	for (i = 0; i < n && i < v->n_rails; i++) {
		v->rails[i].link = links[i].state;
		v->rails[i].error = links[i].error;
		memcpy(v->rails[i].way, links[i].way, sizeof(links[i].way));
	}
}

/* The largest that we may read, so that caches help less. */
static bool find_readable(const struct te_segment_region *all, size_t n,
			  struct te_segment_region *out)
{
	bool found = false;
	size_t i;

	for (i = 0; i < n; i++) {
		if (!(all[i].access & TE_ACCESS_REMOTE_READ) ||
		    (found && all[i].length <= out->length))
			continue;
		*out = all[i];
		found = true;
	}
	return found;
}

/* What another te-doctor has published for it, behind its mark. */
static bool find_scratch(struct tei_mover *m,
			 const struct te_segment_region *all, size_t n,
			 struct te_segment_region *out)
{
	static const char mark[] = TEI_SCRATCH_MARK;
	const uint32_t both = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE;
	const void *head;
	size_t i;

	for (i = 0; i < n; i++) {
		if (all[i].access != both || all[i].length <= TEI_SCRATCH_HEAD)
			continue;
		head = tei_mover_head(m, &all[i], sizeof(mark));
		if (!head || memcmp(head, mark, sizeof(mark)) != 0)
			continue;
		*out = all[i];
		out->addr += TEI_SCRATCH_HEAD;
		out->length -= TEI_SCRATCH_HEAD;
		return true;
	}
	return false;
}

static void move(struct tei_mover *m, const struct tei_peer_plan *plan,
		 struct tei_peer_visit *v)
{
	struct te_segment_region all[REGIONS], there;
	struct te_rail_info before[TEI_PEER_RAILS];
	size_t n = REGIONS, n_rails;

	if (te_segment_regions(m->engine, m->segment, all, &n))
		return;
	if (n > REGIONS)
		n = REGIONS;
	(void)te_segment_warm_up(m->engine, m->segment, OPEN_MS, NULL);
	read_rails(m->engine, before, &n_rails);
	if (find_readable(all, n, &there))
		tei_mover_run(m, TE_READ, &there, plan->time_ms, &v->read);
	if (plan->write && !v->read.error && find_scratch(m, all, n, &there))
		tei_mover_run(m, TE_WRITE, &there, plan->time_ms, &v->write);
	keep_rails(m->engine, before, v);
	keep_links(m, v);
}

int tei_peer_visit(struct te_engine *engine, const char *name,
		   const struct tei_peer_plan *plan, struct tei_peer_visit *out)
{
	te_segment_id segment;
	struct tei_mover mover;
	int rc;

	*out = (struct tei_peer_visit){.name = name,
				       .has_rdma = plan->has_rdma};
	out->error = te_segment_open(engine, name, OPEN_MS, &segment);
	if (out->error)
		return 0;
	(void)te_peer_probe(engine, name, OPEN_MS, &out->rtt_us);
	rc = tei_mover_open(&mover, engine, segment);
	if (!rc) {
		move(&mover, plan, out);
		tei_mover_close(&mover);
	}
	te_segment_close(engine, segment);
	return rc;
}
