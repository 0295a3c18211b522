/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixer.c - one worker of a mixed load: a thread and its calls
 */
#include "perf/store-perf/mixer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/reference.h"

#define FRESH       (1ull << 63) /* numbers of keys that are only put */
#define FRESH_BITS  40           /* of them for each worker */
#define PLACE_BYTES 64           /* values begin at multiples of it */
#define PAUSE_MAX   6            /* waits for room double up to 64 ms */

/* ---- keys and values ---- */

static const char *value_bytes(const struct mixer *m, uint64_t number,
			       uint64_t size)
{
	uint64_t places = (m->source->len - size) / PLACE_BYTES + 1;

	return m->source->at +
	       tei_chance_mix(number + 1) % places * PLACE_BYTES;
}

static void make_key(struct mixer *m, uint64_t i, uint64_t number)
{
	int len = snprintf(m->key_text[i], MIX_KEY_LEN,
			   "store-perf/%016" PRIx64 "/%016" PRIx64,
			   m->share->plan.run, number);

	m->number[i] = number;
	m->keys[i] = (struct te_store_key){.bytes = m->key_text[i],
					   .len = (uint32_t)len};
}

static void give_value(struct mixer *m, uint64_t i)
{
	uint64_t size = mix_value_size(&m->share->plan, m->number[i]);
	const char *bytes = value_bytes(m, m->number[i], size);

	m->pieces[i] = (struct iovec){(char *)(uintptr_t)bytes, size};
}

static void take_value(struct mixer *m, uint64_t i)
{
	uint64_t room = m->share->plan.max_size;

	m->pieces[i] = (struct iovec){m->memory + i * room, room};
}

static void draw_keys(struct mixer *m, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		make_key(m, i,
			 tei_popularity_draw(&m->share->plan.popularity,
					     &m->chance));
}

static void fresh_keys(struct mixer *m, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		make_key(m, i, FRESH | m->index << FRESH_BITS | m->n_fresh++);
}

static uint64_t wrong_bytes(const struct mixer *m, uint64_t i)
{
	uint64_t size = mix_value_size(&m->share->plan, m->number[i]);
	const char *want = value_bytes(m, m->number[i], size);
	const char *got = m->pieces[i].iov_base;
	uint64_t wrong = 0;

	if ((uint64_t)m->sizes[i] != size)
		return size;
	if (!memcmp(got, want, size))
		return 0;
	for (uint64_t k = 0; k < size; k++)
		wrong += got[k] != want[k];
	return wrong;
}

/* ---- counting ---- */

static void count_call(struct mixer *m, enum mix_op op, uint64_t n,
		       uint64_t start)
{
	struct mix_figures *f = &m->tally->op[op];

	if (!m->counts)
		return;
	f->calls++;
	f->keys += n;
	tei_histogram_add(&f->latency, tei_now_ns() - start);
}

static void count_key(struct mixer *m, enum mix_op op, int code, uint64_t bytes)
{
	struct mix_figures *f = &m->tally->op[op];

	if (!m->counts)
		return;
	if (code >= 0) {
		f->good++;
		f->bytes += bytes;
		return;
	}
	if (code == TE_STORE_OBJECT_NOT_FOUND)
		f->missed++;
	else
		f->failed++;
	mix_count_code(f, code, 1);
}

/* ---- operations ---- */

/* Keep of the first @n keys those without room, and wait a little. */
static uint64_t without_room(struct mixer *m, uint64_t n, uint64_t try)
{
	uint64_t left = 0;

	for (uint64_t i = 0; i < n; i++)
		if (m->codes[i] == TE_STORE_NO_AVAILABLE_HANDLE)
			make_key(m, left++, m->number[i]);
	if (left)
		poll(NULL, 0, 1 << (try < PAUSE_MAX ? try : PAUSE_MAX));
	return left;
}

static int store_values(struct mixer *m, enum mix_op op, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		give_value(m, i);
	if (op == MIX_UPSERT)
		return te_store_upsert(m->store, m->keys, m->values, n, NULL,
				       m->codes);
	return te_store_put(m->store, m->keys, m->values, n, NULL, m->codes);
}

/*
 * Put the keys that are made, and again, as often as the plan says, what found
 * no room.
 */
static void put(struct mixer *m, enum mix_op op, uint64_t n)
{
	uint64_t start = tei_now_ns(), try, left = n;
	int code;

	for (try = 0;; try++) {
		code = store_values(m, op, left);
		if (code == TE_STORE_INVALID_PARAMS)
			for (uint64_t i = 0; i < left; i++)
				m->codes[i] = code;
		for (uint64_t i = 0; i < left; i++)
			if (m->codes[i] != TE_STORE_NO_AVAILABLE_HANDLE ||
			    try == m->share->plan.retries)
				count_key(m, op, m->codes[i],
					  m->pieces[i].iov_len);
		if (try == m->share->plan.retries)
			break;
		left = without_room(m, left, try);
		if (!left)
			break;
		if (m->counts)
			m->tally->retried += left;
	}
	count_call(m, op, n, start);
}

static void get(struct mixer *m, uint64_t n)
{
	uint64_t start = tei_now_ns(), left = 0;
	int code;

	for (uint64_t i = 0; i < n; i++)
		take_value(m, i);
	code = te_store_get(m->store, m->keys, m->values, n, m->sizes);
	count_call(m, MIX_GET, n, start);
	for (uint64_t i = 0; i < n; i++) {
		if (code < 0)
			m->sizes[i] = code;
		count_key(m, MIX_GET, m->sizes[i] < 0 ? (int)m->sizes[i] : 0,
			  (uint64_t)m->sizes[i]);
		if (m->sizes[i] >= 0 && m->share->plan.verify)
			m->tally->wrong_bytes += wrong_bytes(m, i);
	}
	if (!m->share->plan.fill)
		return;
	for (uint64_t i = 0; i < n; i++)
		if (m->sizes[i] == TE_STORE_OBJECT_NOT_FOUND)
			make_key(m, left++, m->number[i]);
	if (left)
		put(m, MIX_FILL, left);
}

static void exist(struct mixer *m, uint64_t n)
{
	uint64_t start = tei_now_ns();
	int code = te_store_exist(m->store, m->keys, n, m->codes);

	count_call(m, MIX_EXIST, n, start);
	for (uint64_t i = 0; i < n; i++) {
		if (code == TE_STORE_INVALID_PARAMS)
			m->codes[i] = code;
		else if (!m->codes[i])
			m->codes[i] = TE_STORE_OBJECT_NOT_FOUND;
		count_key(m, MIX_EXIST, m->codes[i], 0);
	}
}

static void take_away(struct mixer *m, uint64_t n)
{
	uint64_t start = tei_now_ns();
	int code = te_store_remove(m->store, m->keys, n, 0, m->codes);

	count_call(m, MIX_REMOVE, n, start);
	for (uint64_t i = 0; i < n; i++)
		count_key(m, MIX_REMOVE,
			  code == TE_STORE_INVALID_PARAMS ? code : m->codes[i],
			  0);
}

static void call(struct mixer *m)
{
	const struct mix_plan *plan = &m->share->plan;
	enum mix_op op = plan->op_of[tei_weights_pick(
		&plan->ops, tei_chance(&m->chance) >> 8)];
	uint64_t n = plan->batch;

	if (op == MIX_PUT)
		fresh_keys(m, n);
	else
		draw_keys(m, n);
	if (op == MIX_GET)
		get(m, n);
	else if (op == MIX_EXIST)
		exist(m, n);
	else if (op == MIX_REMOVE)
		take_away(m, n);
	else
		put(m, op, n);
}

/* ---- what a thread does ---- */

void *mixer_fill(void *mixer)
{
	struct mixer *m = mixer;
	const struct mix_plan *plan = &m->share->plan;
	uint64_t step = mix_workers(plan), number = m->index, n;

	while (number < plan->n_keys) {
		for (n = 0; n < plan->batch && number < plan->n_keys; n++) {
			make_key(m, n, number);
			number += step;
		}
		put(m, MIX_FILL, n);
	}
	return NULL;
}

static bool goes_on(struct mixer *m, uint64_t now)
{
	const struct mix_plan *plan = &m->share->plan;
	uint64_t begin = m->share->start_ns + plan->warm_up_ns;

	if (!m->counts && now >= begin) {
		m->counts = true;
		m->tally->start_ns = now;
	}
	if (now >= begin + plan->duration_ns)
		return false;
	return !m->counts || !plan->count ||
	       atomic_fetch_add_explicit(&m->share->next_call, 1,
					 memory_order_relaxed) < plan->count;
}

void *mixer_run(void *mixer)
{
	struct mixer *m = mixer;

	while (goes_on(m, tei_now_ns()))
		call(m);
	m->tally->end_ns = tei_now_ns();
	return NULL;
}

/* ---- set-up ---- */

static int make_room(struct mixer *m, uint64_t n)
{
	m->number = tei_calloc(n, sizeof(*m->number));
	m->key_text = tei_calloc(n, sizeof(*m->key_text));
	m->keys = tei_calloc(n, sizeof(*m->keys));
	m->pieces = tei_calloc(n, sizeof(*m->pieces));
	m->values = tei_calloc(n, sizeof(*m->values));
	m->codes = tei_calloc(n, sizeof(*m->codes));
	m->sizes = tei_calloc(n, sizeof(*m->sizes));
	if (!m->number || !m->key_text || !m->keys || !m->pieces ||
	    !m->values || !m->codes || !m->sizes)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		m->values[i] = (struct te_store_value){.pieces = &m->pieces[i],
						       .n_pieces = 1};
	return 0;
}

int mixer_open(struct mixer *m, struct mix_share *share,
	       const struct mix_bytes *source, struct te_store *store,
	       uint64_t index)
{
	const struct mix_plan *plan = &share->plan;

	memset(m, 0, sizeof(*m));
	m->share = share;
	m->source = source;
	m->tally = &share->tally[index];
	m->index = index;
	m->chance = tei_chance_mix(plan->seed) + index;
	m->memory_len = (plan->max_size * plan->batch + 4095) & ~4095ull;
	m->memory = tei_map_touched(m->memory_len);
	if (!m->memory || make_room(m, plan->batch))
		return -ENOMEM;
	if (te_store_register(store, m->memory, m->memory_len))
		return -ENOMEM;
	m->store = store;
	return 0;
}

void mixer_close(struct mixer *m)
{
	if (m->store)
		te_store_unregister(m->store, m->memory);
	if (m->memory)
		munmap(m->memory, m->memory_len);
	tei_free(m->number);
	tei_free(m->key_text);
	tei_free(m->keys);
	tei_free(m->pieces);
	tei_free(m->values);
	tei_free(m->codes);
	tei_free(m->sizes);
	memset(m, 0, sizeof(*m));
}
