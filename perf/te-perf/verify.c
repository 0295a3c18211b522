/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c - new bytes before a load, and the comparison after it
 */
#include "perf/te-perf/verify.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define PRIME_LEN   (16u << 20) /* of one write */
#define SAMPLES_MIN 64
#define CHUNK_LEN   (8u << 20) /* read back together */
#define CHUNK_SLOTS 128

static struct te_request request_of(const struct load *l, uint32_t op,
				    uint64_t position, struct iovec *piece)
{
	return (struct te_request){
		.op = op,
		.segment = l->segment,
		.remote = side_at(&l->remote, position),
		.pieces = piece,
		.n_pieces = 1,
	};
}

/* ---- before ---- */

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Writes the first @len bytes of the local working set to the same positions of
 * the target's.
 */
static int write_target(const struct load *l, uint64_t len)
{
	struct te_batch *batch;
	struct te_request r;
	struct iovec piece;
	uint64_t at, n;
	int rc = te_batch_create(l->engine, 1, &batch);

	for (at = 0; !rc && at < len; at += n) {
		n = smaller_of(side_left(&l->local, at),
			       side_left(&l->remote, at));
		n = smaller_of(n, smaller_of(len - at, PRIME_LEN));
		piece = (struct iovec){
			(void *)(uintptr_t)side_at(&l->local, at), n};
		r = request_of(l, TE_WRITE, at, &piece);
		rc = batch_run(batch, &r, 1);
	}
	te_batch_destroy(batch);
	return rc;
}

int verify_prepare(const struct load *l, struct memory *local, uint64_t seed)
{
	uint64_t all = l->local.n * l->local.span, len = all;
	int rc;

	/* Even without reads: the first bytes open the connections. */
	if (!l->read_share)
		len = load_stride(l);
	rc = memory_fill(local, len, 2 * seed);
	if (!rc)
		rc = write_target(l, len);
	if (!rc)
		rc = memory_fill(local, all, 2 * seed + 1);
	return rc;
}

/* ---- after ---- */

struct checker {
	const struct load *load;
	struct memory *local;
	struct te_batch *batch;
	char *scratch; /* n_room slots, registered: backends may demand it */
	te_region_id region;
	uint32_t n_room, n; /* slots that wait to be read back */
	uint64_t place[CHUNK_SLOTS];
	uint64_t checked, wrong;
};

/* Read the waiting slots back and compare them. */
static int read_back(struct checker *c)
{
	const struct load *l = c->load;
	struct te_request r[CHUNK_SLOTS];
	struct iovec pieces[CHUNK_SLOTS];
	int rc;

	if (!c->n)
		return 0;
	memset(c->scratch, 0, c->n * load_stride(l));
	for (uint32_t i = 0; i < c->n; i++) {
		pieces[i].iov_base = c->scratch + i * load_stride(l);
		pieces[i].iov_len = l->size;
		r[i] = request_of(l, TE_READ,
				  load_position(l, &l->remote, c->place[i]),
				  &pieces[i]);
	}
	rc = batch_run(c->batch, r, c->n);
	for (uint32_t i = 0; !rc && i < c->n; i++)
		rc = memory_differing(c->local,
				      load_position(l, &l->local, c->place[i]),
				      pieces[i].iov_base, l->size, &c->wrong);
	c->n = 0;
	return rc;
}

/* Returns number @i of the slots in order of their use. */
static int check_slot(struct checker *c, uint32_t thread, uint64_t i,
		      uint64_t seed)
{
	const struct load *l = c->load;
	uint64_t slot = load_slot(l, load_slots(l), i);
	uint64_t place = load_place(load_share(l), thread, slot);

	c->checked += l->size;
	if (load_reads(l, slot))
		return memory_wrong(
			c->local, load_position(l, &l->local, place), l->size,
			2 * seed, load_position(l, &l->remote, place),
			&c->wrong);
	c->place[c->n++] = place;
	return c->n == c->n_room ? read_back(c) : 0;
}

static int check_thread(struct checker *c, uint32_t thread, uint64_t n_slots,
			uint64_t seed, double percent)
{
	uint64_t n = (uint64_t)((double)n_slots * percent / 100);
	int rc = 0;

	if (n < SAMPLES_MIN)
		n = SAMPLES_MIN;
	if (n > n_slots)
		n = n_slots;
	/* Spread over all; the first one is always among them. */
	for (uint64_t i = 0; !rc && i < n; i++)
		rc = check_slot(c, thread, n_slots * i / n, seed);
	return rc;
}

static int add_scratch(struct checker *c)
{
	struct te_region r = {
		.addr = c->scratch,
		.length = c->n_room * load_stride(c->load),
		.access = TE_ACCESS_LOCAL,
	};

	return te_region_add(c->load->engine, &r, &c->region);
}

static void checker_fini(struct checker *c)
{
	te_batch_destroy(c->batch);
	if (c->region)
		te_region_remove(c->load->engine, c->region);
	tei_free(c->scratch);
}

static int checker_init(struct checker *c, const struct load *l)
{
	uint64_t room = CHUNK_LEN / load_stride(l);
	int rc;

	memset(c, 0, sizeof(*c));
	c->load = l;
	c->n_room = room > CHUNK_SLOTS ? CHUNK_SLOTS : (uint32_t)room;
	if (!c->n_room)
		c->n_room = 1;
	c->scratch = tei_malloc(c->n_room * load_stride(l));
	if (!c->scratch)
		return -ENOMEM;
	rc = add_scratch(c);
	if (!rc)
		rc = te_batch_create(l->engine, c->n_room, &c->batch);
	if (rc)
		checker_fini(c);
	return rc;
}

int verify_check(const struct load *l, struct memory *local,
		 const struct load_result *result, uint64_t seed,
		 double percent, uint64_t *checked, uint64_t *wrong)
{
	struct checker c;
	int rc = checker_init(&c, l);

	if (rc)
		return rc;
	c.local = local;
	for (uint32_t i = 0; !rc && i < l->n_threads; i++)
		rc = check_thread(&c, i, result->slots[i], seed, percent);
	if (!rc)
		rc = read_back(&c);
	*checked += c.checked;
	*wrong += c.wrong;
	checker_fini(&c);
	return rc;
}
