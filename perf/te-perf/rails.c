/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rails.c - which rails of an engine have carried how much, and which nothing
 */
#include "perf/te-perf/rails.h"

#include <stdio.h>

#include "perf/lib/nics.h"

void rails_read(struct te_engine *engine, struct rails *out)
{
	struct te_rail_info info[RAILS_MAX];
	size_t n = RAILS_MAX;

	*out = (struct rails){0};
	if (te_engine_rails(engine, info, &n))
		return;
	out->n = n < RAILS_MAX ? n : RAILS_MAX;
	for (size_t i = 0; i < out->n; i++) {
		struct rail_bytes *r = &out->v[i];

		snprintf(r->name, sizeof(r->name), "%s", info[i].name);
		snprintf(r->backend, sizeof(r->backend), "%s", info[i].backend);
		r->speed_bps = info[i].speed_bps;
		r->numa_node = info[i].numa_node;
		r->state = info[i].state;
		r->unmatched_peers = info[i].unmatched_peers;
		r->bytes = info[i].sent_bytes + info[i].received_bytes;
	}
}

uint64_t rails_moved(const struct rails *before, const struct rails *after,
		     size_t i)
{
	return after->v[i].bytes - before->v[i].bytes;
}

void rails_since(const struct rails *before, const struct rails *after,
		 struct rails *out)
{
	*out = *after;
	for (size_t i = 0; i < out->n; i++)
		out->v[i].bytes = rails_moved(before, after, i);
}

void rails_add(struct rails *to, const struct rails *more)
{
	struct rails sum = *more;

	for (size_t i = 0; i < sum.n; i++)
		sum.v[i].bytes += to->v[i].bytes;
	*to = sum;
}

uint64_t rails_sum(const struct rails *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->n; i++)
		sum += r->v[i].bytes;
	return sum;
}

const char *rails_carrier(const struct rails *r)
{
	const char *carrier = "";
	uint64_t most = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (r->v[i].bytes <= most)
			continue;
		most = r->v[i].bytes;
		carrier = r->v[i].backend;
	}
	return carrier;
}

static size_t nic_rails(const struct rails *r, struct tei_nic_rail *out)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct rail_bytes *from = &r->v[i];

		out[i] = (struct tei_nic_rail){
			.name = from->name,
			.state = from->state,
			.unmatched_peers = from->unmatched_peers,
			.bytes = from->bytes,
		};
	}
	return r->n;
}

/* Why NIC @nic was of no use to a part of @memory that it is near; or NULL. */
static const char *why_unused(const struct te_topo *topo, uint32_t nic,
			      const struct side *memory,
			      const struct tei_nic_rail *rails, size_t n,
			      int32_t *node)
{
	const char *why = NULL;

	for (uint32_t i = 0; !why && i < memory->n; i++) {
		*node = tei_nic_node_at((void *)(uintptr_t)memory->at[i]);
		why = tei_nic_why_unused(topo, nic, *node, rails, n);
	}
	return why;
}

void rails_warn_unused(const struct rails *r, const struct side *memory)
{
	struct tei_nic_rail rails[RAILS_MAX];
	size_t n = nic_rails(r, rails);
	struct te_topo_nic nic;
	struct te_topo *topo;
	const char *why;
	int32_t node;

	if (te_topo_load(NULL, &topo, NULL, 0))
		return;
	for (uint32_t i = 0; !te_topo_nic(topo, i, &nic); i++) {
		why = why_unused(topo, i, memory, rails, n, &node);
		if (why)
			fprintf(stderr,
				"te-perf: NIC %s is near the memory (node %d) "
				"and was not used: %s\n",
				nic.name, node, why);
	}
	te_topo_destroy(topo);
}
