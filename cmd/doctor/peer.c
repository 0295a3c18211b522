/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - read memory of a peer for a moment, and write to it where that is meant */
#include "cmd/doctor/peer.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define OPEN_MS   5000
#define HEADS_MAX 256 /* regions that may be for us, read to find out */

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
	size_t i, heads = 0;
	const void *head;
	int rc;

	for (i = 0; i < n && heads < HEADS_MAX; i++) {
		if (all[i].access != both || all[i].length <= TEI_SCRATCH_HEAD)
			continue;
		rc = tei_mover_head(m, &all[i], sizeof(mark), &head);
		if (rc && rc != -EFAULT && rc != -EACCES)
			return false; /* no other would be read either */
		heads++;
		if (rc || memcmp(head, mark, sizeof(mark)) != 0)
			continue;
		*out = all[i];
		out->addr += TEI_SCRATCH_HEAD;
		out->length -= TEI_SCRATCH_HEAD;
		return true;
	}
	return false;
}

/* What the peer publishes, for tei_free(). -ENOMEM, or of te_segment_regions(). */
static int list_regions(const struct tei_mover *m,
			struct te_segment_region **out, size_t *n)
{
	struct te_segment_region *all;
	size_t room = 0;
	int rc = te_segment_regions(m->engine, m->segment, NULL, &room);

	if (rc)
		return rc;
	all = tei_calloc(room + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	*n = room;
	rc = te_segment_regions(m->engine, m->segment, all, n);
	if (rc) {
		tei_free(all);
		return rc;
	}
	if (*n > room) /* meanwhile there are more */
		*n = room;
	*out = all;
	return 0;
}

static void move(struct tei_mover *m, const struct tei_peer_plan *plan,
		 struct tei_peer_visit *v)
{
	struct te_rail_info before[TEI_PEER_RAILS];
	struct te_segment_region *all, there;
	size_t n, n_rails;

	if (list_regions(m, &all, &n))
		return;
	(void)te_segment_warm_up(m->engine, m->segment, OPEN_MS, NULL);
	read_rails(m->engine, before, &n_rails);
	if (find_readable(all, n, &there))
		tei_mover_run(m, TE_READ, &there, plan->time_ms, &v->read);
	if (plan->write && !v->read.error && find_scratch(m, all, n, &there))
		tei_mover_run(m, TE_WRITE, &there, plan->time_ms, &v->write);
	keep_rails(m->engine, before, v);
	keep_links(m, v);
	tei_free(all);
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
