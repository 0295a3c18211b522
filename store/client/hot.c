/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot.c - bytes of objects of other owners that are read again and again
 *
 * Memory is reserved before a value is filled and given back when its last
 * reader has let go, so that the bound holds for what is alive. Values are
 * filled, copied from and freed without the lock.
 */
#include "store/client/hot.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "store/client/sketch.h"

/* ---- frequency sketch: how often keys were read lately ---- */

#define ADDED_PER_WIDTH 10u

int tes_sketch_init(struct tes_sketch *sketch, uint64_t n)
{
	uint32_t width = TES_SKETCH_WIDTH_MIN;

	while (width < n && width < TES_SKETCH_WIDTH_MAX)
		width *= 2;
	sketch->counts = tei_calloc(TES_SKETCH_ROWS, width);
	sketch->mask = width - 1;
	sketch->n_added = 0;
	sketch->n_most = ADDED_PER_WIDTH * width;
	return sketch->counts ? 0 : -ENOMEM;
}

void tes_sketch_fini(struct tes_sketch *sketch)
{
	tei_free(sketch->counts);
	sketch->counts = NULL;
}

static size_t place(const struct tes_sketch *sketch, uint64_t digest,
		    uint32_t row)
{
	uint32_t step = (uint32_t)(digest >> 32) | 1;

	return (size_t)row * (sketch->mask + 1) +
	       (((uint32_t)digest + row * step) & sketch->mask);
}

static void halve(struct tes_sketch *sketch)
{
	size_t n = (size_t)TES_SKETCH_ROWS * (sketch->mask + 1), i;

	for (i = 0; i < n; i++)
		sketch->counts[i] /= 2;
	sketch->n_added /= 2;
}

unsigned int tes_sketch_count(const struct tes_sketch *sketch, uint64_t digest)
{
	unsigned int least = UINT8_MAX;

	for (uint32_t row = 0; row < TES_SKETCH_ROWS; row++) {
		unsigned int count = sketch->counts[place(sketch, digest, row)];

		if (count < least)
			least = count;
	}
	return least;
}

/* Raises only the least of the counts: others have added to the larger ones. */
void tes_sketch_add(struct tes_sketch *sketch, uint64_t digest)
{
	unsigned int least = tes_sketch_count(sketch, digest);

	for (uint32_t row = 0; row < TES_SKETCH_ROWS; row++) {
		uint8_t *count = &sketch->counts[place(sketch, digest, row)];

		if (*count == least && least < UINT8_MAX)
			++*count;
	}
	if (++sketch->n_added >= sketch->n_most)
		halve(sketch);
}

#define VALUE_BYTES 16384u /* of an average one: for the size of the sketch */
#define VICTIMS_MAX 256    /* that go for one value */

int tes_hot_init(struct tes_hot *hot, uint64_t bytes, uint64_t value_max,
		 unsigned int threshold)
{
	memset(hot, 0, sizeof(*hot));
	hot->bytes_max = bytes;
	hot->value_max = value_max ? value_max : TES_HOT_VALUE_MAX;
	hot->threshold = threshold ? threshold : TES_HOT_THRESHOLD;
	tei_mutex_init(&hot->mu);
	tei_list_init(&hot->recent);
	if (!bytes)
		return 0;
	if (tes_sketch_init(&hot->sketch, 4 * (bytes / VALUE_BYTES)))
		goto err_mutex;
	if (!tei_hash_init(&hot->table))
		return 0;
	tes_sketch_fini(&hot->sketch);
err_mutex:
	tei_mutex_fini(&hot->mu);
	return -ENOMEM;
}

static uint64_t size_of(const struct tes_hot_value *v)
{
	return sizeof(*v) + v->size + v->key_len;
}

void tes_hot_put(struct tes_hot *hot, struct tes_hot_value *v)
{
	/* Release: our reads are over. Acquire: so are those of all others. */
	if (!v ||
	    atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
		return;
	tei_mutex_lock(&hot->mu);
	hot->bytes -= size_of(v);
	tei_mutex_unlock(&hot->mu);
	tei_free(v);
}

/* ---- the table ---- */

static struct tes_hot_value *find_value(struct tes_hot *hot, const void *key,
					size_t len, uint64_t digest)
	TEI_REQUIRES(hot->mu)
{
	struct tei_hash_node *node = tei_hash_first(&hot->table, digest);

	for (; node; node = tei_hash_next(&hot->table, node)) {
		struct tes_hot_value *v =
			TEI_CONTAINER(node, struct tes_hot_value, node);

		if (v->key_len == len && memcmp(v->key, key, len) == 0)
			return v;
	}
	return NULL;
}

/* The table's reference passes to the caller. */
static void unlink_value(struct tes_hot *hot, struct tes_hot_value *v)
	TEI_REQUIRES(hot->mu)
{
	tei_hash_remove(&hot->table, &v->node);
	tei_list_del(&v->link);
}

void tes_hot_note(struct tes_hot *hot, uint64_t digest)
{
	tei_mutex_lock(&hot->mu);
	tes_sketch_add(&hot->sketch, digest);
	tei_mutex_unlock(&hot->mu);
}

struct tes_hot_value *tes_hot_get(struct tes_hot *hot,
				  const struct tes_hot_name *name)
{
	struct tes_hot_value *v, *old = NULL;

	tei_mutex_lock(&hot->mu);
	v = find_value(hot, name->key, name->key_len, name->digest);
	if (v && (v->generation != name->generation ||
		  v->gen_epoch != name->gen_epoch)) {
		unlink_value(hot, v);
		old = v;
		v = NULL;
	}
	if (v) {
		tei_list_del(&v->link);
		tei_list_add_head(&hot->recent, &v->link);
		/* Relaxed: the table's own reference keeps it meanwhile. */
		atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	}
	tei_mutex_unlock(&hot->mu);
	tes_hot_put(hot, old);
	return v;
}

/* ---- coming in ---- */

/*
 * Move those that would have to go to @victims, least recently used first.
 * False: one of them was asked for more often; then none goes.
 */
static bool choose_victims(struct tes_hot *hot, uint64_t need,
			   unsigned int count, struct tei_list *victims)
	TEI_REQUIRES(hot->mu)
{
	struct tei_list *last = hot->recent.prev;
	uint64_t left = hot->bytes;
	int n = 0;

	for (; left + need > hot->bytes_max; last = last->prev) {
		struct tes_hot_value *v =
			tei_list_entry(last, struct tes_hot_value, link);

		if (last == &hot->recent || n++ == VICTIMS_MAX ||
		    tes_sketch_count(&hot->sketch, v->node.hash) > count)
			return false;
		left -= size_of(v);
	}
	while (hot->recent.prev != last) {
		struct tes_hot_value *v = tei_list_entry(
			hot->recent.prev, struct tes_hot_value, link);

		unlink_value(hot, v);
		tei_list_add_tail(victims, &v->link);
	}
	return true;
}

static void put_all(struct tes_hot *hot, struct tei_list *values)
{
	struct tei_list *node;

	while ((node = tei_list_pop(values))) {
		/* Relaxed: a number for people. */
		atomic_fetch_add_explicit(&hot->n_evicted, 1,
					  memory_order_relaxed);
		tes_hot_put(hot,
			    tei_list_entry(node, struct tes_hot_value, link));
	}
}

static bool reserve_room(struct tes_hot *hot, uint64_t digest, uint64_t need)
{
	struct tei_list victims;
	unsigned int count;
	bool fits;

	tei_list_init(&victims);
	tei_mutex_lock(&hot->mu);
	count = tes_sketch_count(&hot->sketch, digest);
	fits = count >= hot->threshold &&
	       choose_victims(hot, need, count, &victims);
	tei_mutex_unlock(&hot->mu);
	put_all(hot, &victims);
	if (!fits)
		return false;
	tei_mutex_lock(&hot->mu);
	/* Somebody may still read from what has gone. */
	fits = hot->bytes + need <= hot->bytes_max;
	if (fits)
		hot->bytes += need;
	tei_mutex_unlock(&hot->mu);
	return fits;
}

struct tes_hot_value *tes_hot_begin(struct tes_hot *hot,
				    const struct tes_hot_name *name,
				    uint64_t size)
{
	struct tes_hot_value *v;
	uint64_t need = sizeof(*v) + size + name->key_len;

	if (size > hot->value_max || need > hot->bytes_max ||
	    !reserve_room(hot, name->digest, need))
		return NULL;
	v = tei_malloc((size_t)need);
	if (!v) {
		tei_mutex_lock(&hot->mu);
		hot->bytes -= need;
		tei_mutex_unlock(&hot->mu);
		return NULL;
	}
	memset(v, 0, sizeof(*v));
	tei_list_init(&v->link);
	atomic_init(&v->refs, 1);
	v->key_len = (uint32_t)name->key_len;
	v->gen_epoch = name->gen_epoch;
	v->generation = name->generation;
	v->size = size;
	v->key = v->bytes + size;
	memcpy(v->key, name->key, name->key_len);
	return v;
}

void tes_hot_add(struct tes_hot *hot, struct tes_hot_value *v, uint64_t digest)
{
	struct tes_hot_value *old;

	tei_mutex_lock(&hot->mu);
	old = find_value(hot, v->key, v->key_len, digest);
	if (old)
		unlink_value(hot, old);
	tei_hash_insert(&hot->table, &v->node, digest);
	tei_list_add_head(&hot->recent, &v->link);
	tei_mutex_unlock(&hot->mu);
	/* Relaxed: a number for people. */
	atomic_fetch_add_explicit(&hot->n_added, 1, memory_order_relaxed);
	tes_hot_put(hot, old);
}

/* ---- going ---- */

void tes_hot_drop(struct tes_hot *hot, const void *key, size_t len,
		  uint64_t digest)
{
	struct tes_hot_value *v;

	if (!tes_hot_on(hot))
		return;
	tei_mutex_lock(&hot->mu);
	v = find_value(hot, key, len, digest);
	if (v)
		unlink_value(hot, v);
	tei_mutex_unlock(&hot->mu);
	tes_hot_put(hot, v);
}

void tes_hot_clear(struct tes_hot *hot)
{
	struct tes_hot_value *v;

	if (!tes_hot_on(hot))
		return;
	do {
		v = NULL;
		tei_mutex_lock(&hot->mu);
		if (!tei_list_empty(&hot->recent)) {
			v = tei_list_entry(hot->recent.next,
					   struct tes_hot_value, link);
			unlink_value(hot, v);
		}
		tei_mutex_unlock(&hot->mu);
		tes_hot_put(hot, v);
	} while (v);
}

void tes_hot_fini(struct tes_hot *hot)
{
	tes_hot_clear(hot);
	if (tes_hot_on(hot)) {
		tei_hash_fini(&hot->table);
		tes_sketch_fini(&hot->sketch);
	}
	hot->bytes_max = 0;
	tei_mutex_fini(&hot->mu);
}

uint64_t tes_hot_bytes(struct tes_hot *hot)
{
	uint64_t bytes;

	if (!tes_hot_on(hot))
		return 0;
	tei_mutex_lock(&hot->mu);
	bytes = hot->bytes + tei_hash_bytes(&hot->table) +
		(uint64_t)TES_SKETCH_ROWS * (hot->sketch.mask + 1);
	tei_mutex_unlock(&hot->mu);
	return bytes;
}
