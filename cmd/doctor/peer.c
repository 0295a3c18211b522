/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c - read memory of a peer for a moment, and write to it where that is
 * meant
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/doctor/peer.h"

/* Time after which a request to a silent peer ends. */
#define TEI_MOVER_TIMEOUT_MS 5000

struct tei_mover {
	struct te_engine *engine; /* not owned */
	te_segment_id segment;
	struct te_batch *batch;
	te_region_id region;
	void *memory;
};

#define PIECE_MIN (16ull << 10)
#define PIECE_MAX (1ull << 20)
#define DEPTH     16 /* pieces of a batch */
#define GROW_NS   (10 * TEI_NS_PER_MS)

/* Memory and a batch for one segment. 0, or what getting them failed with. */
static int mover_open(struct tei_mover *m, struct te_engine *engine,
		      te_segment_id segment)
{
	struct te_region mine = {.length = DEPTH * PIECE_MAX};
	int rc;

	*m = (struct tei_mover){.engine = engine, .segment = segment};
	rc = te_batch_create(engine, DEPTH, &m->batch);
	if (rc)
		return rc;
	rc = te_memory_alloc(engine, mine.length, &m->memory);
	if (rc)
		goto destroy_batch;
	mine.addr = m->memory;
	memset(m->memory, 1, mine.length); /* pages of its own, to be read */
	rc = te_region_add(engine, &mine, &m->region);
	if (rc)
		goto free_memory;
	return 0;

free_memory:
	te_memory_free(engine, m->memory);
destroy_batch:
	te_batch_destroy(m->batch);
	return rc;
}

/* Memory and a batch for one segment. 0, or what getting them failed with. */
static void mover_close(struct tei_mover *m)
{
	(void)te_region_remove(m->engine, m->region);
	te_memory_free(m->engine, m->memory);
	te_batch_destroy(m->batch);
}

/* Wait for what is submitted; 0, or the error of one of its requests. */
static int end_batch(struct tei_mover *m, uint32_t n)
{
	struct te_completion done;
	int rc = te_batch_wait(m->batch, UINT32_MAX);
	uint32_t i;

	for (i = 0; !rc && i < n; i++) {
		rc = te_batch_result(m->batch, i, &done);
		if (!rc)
			rc = done.error;
	}
	if (te_batch_reset(m->batch) && !rc)
		rc = -EBUSY;
	return rc;
}

static int move_once(struct tei_mover *m, uint32_t op,
		     const struct te_segment_region *there, uint64_t piece,
		     uint64_t round)
{
	uint64_t places = there->length / piece;
	struct te_request requests[DEPTH] = {0};
	struct iovec pieces[DEPTH];
	uint32_t i;
	int rc;

	for (i = 0; i < DEPTH; i++) {
		pieces[i] = (struct iovec){
			(unsigned char *)m->memory + i * PIECE_MAX, piece};
		requests[i] = (struct te_request){
			.op = op,
			.segment = m->segment,
			.remote = there->addr +
				  (round * DEPTH + i) % places * piece,
			.pieces = &pieces[i],
			.n_pieces = 1,
			.timeout_ms = TEI_MOVER_TIMEOUT_MS,
		};
	}
	rc = te_batch_submit(m->batch, requests, DEPTH);
	return rc ? rc : end_batch(m, DEPTH);
}

/*
 * Reads from @there (TE_READ) or writes to it (TE_WRITE) for @time_ms, one
 * batch at least. Pieces begin small and grow while a batch takes less than
 * GROW_NS: a fast link needs large ones, and a slow one would not end large
 * ones in time. Batches up to the last growth are not timed; the first one
 * connects. Blocks.
 */
static void mover_run(struct tei_mover *m, uint32_t op,
		      const struct te_segment_region *there, uint64_t time_ms,
		      struct tei_run *out)
{
	uint64_t max = there->length < PIECE_MAX ? there->length : PIECE_MAX;
	uint64_t piece = max < PIECE_MIN ? max : PIECE_MIN;
	uint64_t begun, took, round = 0;

	*out = (struct tei_run){.possible = true};
	out->error = move_once(m, op, there, piece, round);
	while (!out->error && out->ns < time_ms * TEI_NS_PER_MS) {
		begun = tei_now_ns();
		out->error = move_once(m, op, there, piece, ++round);
		took = tei_now_ns() - begun;
		if (took < GROW_NS && piece < max) {
			piece = 2 * piece < max ? 2 * piece : max;
			out->bytes = out->ns = 0;
			continue;
		}
		out->bytes += DEPTH * piece;
		out->ns += took;
	}
}

/*
 * Reads the region's first bytes, a page at most; *out is valid until the next
 * call. 0, or why they cannot be read: -errno.
 */
static int mover_head(struct tei_mover *m,
		      const struct te_segment_region *there, size_t len,
		      const void **out)
{
	struct iovec piece = {m->memory, len};
	struct te_request request = {.op = TE_READ,
				     .segment = m->segment,
				     .remote = there->addr,
				     .pieces = &piece,
				     .n_pieces = 1,
				     .timeout_ms = TEI_MOVER_TIMEOUT_MS};
	int rc;

	if (there->length < len)
		return -EFAULT;
	rc = te_batch_submit(m->batch, &request, 1);
	if (!rc)
		rc = end_batch(m, 1);
	*out = m->memory;
	return rc;
}

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

/* Memory that another te-doctor has published for it, behind its mark. */
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
		rc = mover_head(m, &all[i], sizeof(mark), &head);
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

/*
 * Regions that the peer publishes, for tei_free(). -ENOMEM, or of
 * te_segment_regions().
 */
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
	struct te_segment_region *all, there = {0};
	size_t n, n_rails;

	if (list_regions(m, &all, &n))
		return;
	(void)te_segment_warm_up(m->engine, m->segment, OPEN_MS, NULL);
	read_rails(m->engine, before, &n_rails);
	if (find_readable(all, n, &there))
		mover_run(m, TE_READ, &there, plan->time_ms, &v->read);
	if (plan->write && !v->read.error && find_scratch(m, all, n, &there))
		mover_run(m, TE_WRITE, &there, plan->time_ms, &v->write);
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
	rc = mover_open(&mover, engine, segment);
	if (!rc) {
		move(&mover, plan, out);
		mover_close(&mover);
	}
	te_segment_close(engine, segment);
	return rc;
}

static const struct tei_rule reach = {
	"peer.reach", "an engine that answers under this name",
	"is it running, is its port open to us (firewall), does it serve other "
	"users (setting allow_uids) and hosts (setting insecure)"};
static const struct tei_rule backend = {
	"peer.backend", "the backend that is best for this peer",
	"rails that are down: see the other findings of te-doctor here and at "
	"the peer; setting backends"};
static const struct tei_rule rails = {
	"peer.rails", "bytes by each rail of that backend",
	"te-topo shows which NICs are near the memory; each rail needs a "
	"network that the peer is in, too"};
static const struct tei_rule way = {
	"peer.way",
	"the addresses and packet sizes that were meant, at both ends",
	"the smaller MTU of the two ends holds: ip link set INTERFACE mtu 9000 "
	"there, too; another address: settings tcp.devices, verbs.gid_index"};
static const struct tei_rule rate = {
	"peer.rate", "half of what its rails can, or more",
	"te-perf --reference says what the bare system does; MTU, congestion, "
	"PCIe and NUMA findings here and at the peer"};

static uint64_t carried_by(const struct tei_peer_visit *v, const char *name)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < v->n_rails; i++)
		if (!strcmp(v->rails[i].backend, name))
			bytes += v->rails[i].bytes + v->rails[i].written;
	return bytes;
}

const char *tei_peer_carrier(const struct tei_peer_visit *v)
{
	const char *best = NULL;
	uint64_t most = 0, bytes;
	size_t i;

	for (i = 0; i < v->n_rails; i++) {
		bytes = carried_by(v, v->rails[i].backend);
		if (bytes > most) {
			most = bytes;
			best = v->rails[i].backend;
		}
	}
	return best;
}

static bool is_first_of_backend(const struct tei_peer_visit *v, size_t at)
{
	size_t i;

	for (i = 0; i < at; i++)
		if (!strcmp(v->rails[i].backend, v->rails[at].backend))
			return false;
	return true;
}

/* The rail of a backend that has come farthest; @first is its first one. */
static const struct tei_peer_rail *nearest(const struct tei_peer_visit *v,
					   size_t first)
{
	static const unsigned char steps[] = {
		[TE_LINK_ABSENT] = 0,  [TE_LINK_APART] = 1,
		[TE_LINK_PAUSED] = 2,  [TE_LINK_NONE] = 3,
		[TE_LINK_OPENING] = 4, [TE_LINK_UP] = 5};
	const struct tei_peer_rail *best = &v->rails[first];
	size_t i;

	for (i = first + 1; i < v->n_rails; i++) {
		const struct tei_peer_rail *rail = &v->rails[i];

		if (!strcmp(rail->backend, best->backend) &&
		    (best->state == TE_RAIL_DOWN ||
		     (rail->state != TE_RAIL_DOWN &&
		      steps[rail->link] > steps[best->link])))
			best = rail;
	}
	return best;
}

static void refusal(const struct tei_peer_rail *rail, char *out, size_t room)
{
	if (rail->state == TE_RAIL_DOWN)
		(void)snprintf(out, room, "whose rails are down");
	else if (rail->link == TE_LINK_ABSENT)
		(void)snprintf(out, room, "which the peer does not have");
	else if (rail->link == TE_LINK_APART)
		(void)snprintf(out, room, "which reaches none of the peer's");
	else if (rail->error && rail->link != TE_LINK_UP)
		(void)snprintf(out, room, "which failed: %s",
			       te_strerror(rail->error));
	else
		(void)snprintf(out, room, "which does not reach its memory");
}

void tei_peer_why(const struct tei_peer_visit *v, const char *chosen, char *out,
		  size_t room)
{
	size_t i, len = 0;
	char text[96];

	*out = '\0';
	for (i = 0; i < v->n_rails && len < room; i++) {
		if (!strcmp(v->rails[i].backend, chosen))
			break;
		/* The backend loop reaches nobody else, and need not. */
		if (!is_first_of_backend(v, i) ||
		    !strcmp(v->rails[i].backend, "loop"))
			continue;
		refusal(nearest(v, i), text, sizeof(text));
		len += (size_t)snprintf(out + len, room - len,
					"; before it %s, %s",
					v->rails[i].backend, text);
	}
	if (!len)
		(void)snprintf(out, room, "; the first choice of this engine");
}

/* Tells whether there is a verbs rail; without any nothing else says why. */
static bool has_verbs(const struct tei_peer_visit *v)
{
	size_t i;

	for (i = 0; i < v->n_rails; i++)
		if (!strcmp(v->rails[i].backend, "verbs"))
			return true;
	return false;
}

static void judge_backend(const struct tei_peer_visit *v, const char *chosen,
			  struct tei_report *r)
{
	bool slow = v->has_rdma && !strcmp(chosen, "tcp");
	char why[128];

	tei_peer_why(v, chosen, why, sizeof(why));
	tei_report_add(
		r, slow ? TEI_MARK_WARN : TEI_MARK_OK, &backend, v->name,
		"%s%s%s%s", chosen, why, slow ? "; this host has RDMA" : "",
		slow && !has_verbs(v) ? ", this engine no rail of verbs" : "");
}

static void judge_rails(const struct tei_peer_visit *v, const char *chosen,
			struct tei_report *r)
{
	uint64_t sum = carried_by(v, chosen);
	enum tei_mark mark = TEI_MARK_OK;
	char text[160] = "";
	size_t i, len = 0;

	for (i = 0; i < v->n_rails && len < sizeof(text); i++) {
		const struct tei_peer_rail *rail = &v->rails[i];

		if (strcmp(rail->backend, chosen) != 0)
			continue;
		if (!rail->bytes && rail->state == TE_RAIL_UP)
			mark = TEI_MARK_WARN;
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s%s %.0f %% (%s)", len ? ", " : "",
					rail->name,
					100 * (double)rail->bytes / (double)sum,
					te_rail_state_name(rail->state));
	}
	tei_report_add(r, mark, &rails, v->name, "%s", text);
}

/*
 * "..., MTU 1024 (4096 here, 1024 there), ..." of verbs: one end could do more.
 */
static bool is_uneven(const char *text)
{
	const char *mtu = strstr(text, "MTU ");
	unsigned int holds, here, there;

	return mtu &&
	       sscanf(mtu, "MTU %u (%u here, %u there)", &holds, &here,
		      &there) == 3 &&
	       here != there;
}

static void judge_ways(const struct tei_peer_visit *v, struct tei_report *r)
{
	size_t i;

	for (i = 0; i < v->n_rails; i++) {
		const struct tei_peer_rail *rail = &v->rails[i];

		if (*rail->way)
			tei_report_add(r,
				       is_uneven(rail->way) ? TEI_MARK_WARN
							    : TEI_MARK_OK,
				       &way, v->name, "%s: %s", rail->name,
				       rail->way);
	}
}

/* Bits a second of all rails that have carried; 0: not known of each. */
static uint64_t speed_of(const struct tei_peer_visit *v)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < v->n_rails; i++) {
		if (!v->rails[i].bytes)
			continue;
		if (!v->rails[i].speed_bps)
			return 0;
		sum += v->rails[i].speed_bps;
	}
	return sum;
}

static void judge_rate(const struct tei_peer_visit *v, struct tei_report *r)
{
	double bps = v->read.ns
			     ? (double)v->read.bytes * 8e9 / (double)v->read.ns
			     : 0;
	double speed = (double)speed_of(v);
	char of[48] = "";

	if (speed > 0)
		(void)snprintf(of, sizeof(of), " of %.4g", speed / 1e9);
	tei_report_add(r, bps < speed / 2 ? TEI_MARK_WARN : TEI_MARK_OK, &rate,
		       v->name, "%.3g%s Gbit/s, %.4g MiB read in %.2g s",
		       bps / 1e9, of, (double)v->read.bytes / (1 << 20),
		       (double)v->read.ns / 1e9);
}

/* Names the rails that were connected, with what each of them has carried. */
static void judge_failed_read(const struct tei_peer_visit *v,
			      struct tei_report *r)
{
	char text[160] = "";
	size_t i, len = 0;

	for (i = 0; i < v->n_rails && len < sizeof(text); i++) {
		const struct tei_peer_rail *rail = &v->rails[i];

		if (rail->link == TE_LINK_UP)
			len += (size_t)snprintf(text + len, sizeof(text) - len,
						"%s%s, %" PRIu64 " bytes read",
						len ? "; " : "; connected by ",
						rail->name, rail->bytes);
	}
	tei_report_add(r, TEI_MARK_FAIL, &backend, v->name,
		       "a read failed: %s%s", te_strerror(v->read.error),
		       len ? text : "; no rail was connected");
	judge_ways(v, r);
}

void tei_peer_judge(const struct tei_peer_visit *v, struct tei_report *r)
{
	const char *chosen = tei_peer_carrier(v);

	if (v->error) {
		tei_report_add(r, TEI_MARK_FAIL, &reach, v->name, "%s",
			       te_strerror(v->error));
		return;
	}
	if (v->rtt_us)
		tei_report_add(r, TEI_MARK_OK, &reach, v->name,
			       "answers in %" PRIu64 " us", v->rtt_us);
	else
		tei_report_add(r, TEI_MARK_OK, &reach, v->name, "answers");
	if (!v->read.possible)
		tei_report_add(r, TEI_MARK_UNKNOWN, &rate, v->name,
			       "it publishes nothing that we may read; run "
			       "te-doctor listen there");
	else if (v->read.error)
		judge_failed_read(v, r);
	if (!v->read.possible || v->read.error || !chosen)
		return;
	judge_backend(v, chosen, r);
	judge_rails(v, chosen, r);
	judge_ways(v, r);
	judge_rate(v, r);
}
