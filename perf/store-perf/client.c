/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - one client of the pool and its batches
 */
#include "perf/store-perf/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/cluster.h"
#include "perf/lib/pattern.h"

#define CHECK_SAMPLES 64u

/* ---- set-up ---- */

static void free_room(struct client *c)
{
	tei_free(c->key_text);
	tei_free(c->keys);
	tei_free(c->pieces);
	tei_free(c->values);
	tei_free(c->codes);
	tei_free(c->sizes);
}

static int make_room(struct client *c)
{
	uint32_t n = c->batch;

	c->key_text = tei_calloc(n, sizeof(*c->key_text));
	c->keys = tei_calloc(n, sizeof(*c->keys));
	c->pieces = tei_calloc(n, sizeof(*c->pieces));
	c->values = tei_calloc(n, sizeof(*c->values));
	c->codes = tei_calloc(n, sizeof(*c->codes));
	c->sizes = tei_calloc(n, sizeof(*c->sizes));
	if (!c->key_text || !c->keys || !c->pieces || !c->values || !c->codes ||
	    !c->sizes)
		return -ENOMEM;
	return 0;
}

static int join_pool(struct client *c, const struct client_place *place)
{
	uint64_t start = tei_now_ns();
	int rc = tei_pool_join(place->master, place->host, place->backends,
			       &c->store);

	c->join_ns = tei_now_ns() - start;
	return rc;
}

static int register_memory(struct client *c)
{
	uint64_t start = tei_now_ns();
	int code = te_store_register(c->store, c->memory, c->memory_len);

	c->register_ns = tei_now_ns() - start;
	if (code)
		fprintf(stderr, "store-perf: memory cannot be registered\n");
	return code ? -ENOMEM : 0;
}

int client_open(struct client *c, const struct client_place *place,
		uint64_t memory_len, uint32_t batch, const struct client *other)
{
	int rc;

	memset(c, 0, sizeof(*c));
	c->batch = batch;
	c->memory_len = memory_len;
	rc = buffer_open(&c->buffer, memory_len, place->node, place->unaligned);
	c->memory = c->buffer.at;
	if (!rc)
		rc = make_room(c);
	c->shares = other != NULL;
	if (rc)
		fprintf(stderr, "store-perf: memory: %s\n", strerror(-rc));
	else if (other)
		c->store = other->store;
	else
		rc = join_pool(c, place);
	if (!rc)
		rc = register_memory(c);
	if (rc)
		client_close(c);
	return rc;
}

void client_close(struct client *c)
{
	if (c->store)
		te_store_unregister(c->store, c->memory);
	if (!c->shares)
		te_store_close(c->store);
	buffer_close(&c->buffer);
	free_room(c);
	c->store = NULL;
	c->memory = NULL;
}

void client_begin(struct client *c, const char *prefix, uint64_t value_size,
		  uint64_t n_slots)
{
	snprintf(c->prefix, sizeof(c->prefix), "%s", prefix);
	c->prefix_len = strlen(c->prefix);
	c->value_size = value_size;
	c->stride = (value_size + 7) & ~7ull;
	c->n_slots = n_slots;
	c->next_put = c->next_get = 0;
	tei_schedule_init(&c->schedule, 0, 0, 1, 0);
	client_reset(c);
}

void client_fill(struct client *c, uint64_t seed)
{
	tei_pattern_fill(c->memory, c->memory_len, seed, 0);
}

void client_reset(struct client *c)
{
	c->n_done = c->n_missed = c->n_failed = 0;
	c->last_code = 0;
	memset(&c->latency, 0, sizeof(c->latency));
}

/* ---- batches ---- */

static uint64_t slot_offset(const struct client *c, uint64_t key)
{
	return key % c->n_slots * c->stride;
}

/* "prefix/" and 16 hex digits: printf() would cost more than asking does. */
static uint32_t write_key(const struct client *c, uint64_t number, char *to)
{
	size_t len = c->prefix_len;

	memcpy(to, c->prefix, len);
	to[len++] = '/';
	for (int shift = 60; shift >= 0; shift -= 4)
		to[len++] = "0123456789abcdef"[number >> shift & 15];
	return (uint32_t)len;
}

static void prepare_keys(struct client *c, uint64_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		c->keys[i] = (struct te_store_key){
			.bytes = c->key_text[i],
			.len = write_key(c, first + i, c->key_text[i])};
		c->pieces[i] = (struct iovec){
			c->memory + slot_offset(c, first + i), c->value_size};
		c->values[i] = (struct te_store_value){.pieces = &c->pieces[i],
						       .n_pieces = 1};
	}
}

static void count_result(struct client *c, int64_t result, bool good)
{
	if (good) {
		c->n_done++;
	} else if (result == TE_STORE_OBJECT_NOT_FOUND || !result) {
		c->n_missed++;
	} else {
		c->n_failed++;
		/* No code: a value of another size. */
		c->last_code =
			result < 0 ? (int)result : TE_STORE_CHECKSUM_MISMATCH;
	}
}

static void put_keys(struct client *c, uint32_t n)
{
	int code =
		te_store_put(c->store, c->keys, c->values, n, NULL, c->codes);

	for (uint32_t i = 0; i < n; i++)
		count_result(
			c, code == TE_STORE_INVALID_PARAMS ? code : c->codes[i],
			code != TE_STORE_INVALID_PARAMS && !c->codes[i]);
}

static void get_keys(struct client *c, uint32_t n)
{
	int code = te_store_get(c->store, c->keys, c->values, n, c->sizes);

	for (uint32_t i = 0; i < n; i++)
		count_result(c, code < 0 ? code : c->sizes[i],
			     code >= 0 &&
				     c->sizes[i] == (int64_t)c->value_size);
}

static void check_keys(struct client *c, uint32_t n)
{
	int code = te_store_exist(c->store, c->keys, n, c->codes);

	for (uint32_t i = 0; i < n; i++)
		count_result(
			c, code == TE_STORE_INVALID_PARAMS ? code : c->codes[i],
			code != TE_STORE_INVALID_PARAMS && c->codes[i] == 1);
}

/* Takes the next keys for @op, *out_n, @most at most. Returns the first. */
static uint64_t take_keys(struct client *c, enum client_op op, uint64_t most,
			  uint32_t *out_n)
{
	uint64_t first, left;

	*out_n = most < c->batch ? (uint32_t)most : c->batch;
	if (op == CLIENT_PUT) {
		first = c->next_put;
		c->next_put += *out_n;
		return first;
	}
	first = c->next_get;
	left = c->n_slots - first;
	if (left < *out_n)
		*out_n = (uint32_t)left;
	c->next_get = (first + *out_n) % c->n_slots;
	return first;
}

static bool call_some(struct client *c, enum client_op op, uint64_t most)
{
	uint64_t done = c->n_done, failed = c->n_failed, first, start;
	uint32_t n;

	first = take_keys(c, op, most, &n);
	prepare_keys(c, first, n);
	start = tei_schedule_take(&c->schedule, tei_now_ns());
	if (op == CLIENT_PUT)
		put_keys(c, n);
	else if (op == CLIENT_GET)
		get_keys(c, n);
	else
		check_keys(c, n);
	tei_histogram_add(&c->latency, tei_now_ns() - start);
	return c->n_done > done || c->n_failed == failed;
}

bool client_batch(struct client *c, enum client_op op)
{
	return call_some(c, op, c->batch);
}

bool client_put_some(struct client *c, uint64_t most)
{
	return call_some(c, CLIENT_PUT, most);
}

void client_remove_all(struct client *c)
{
	uint32_t n;

	for (uint64_t k = 0; k < c->n_slots; k += n) {
		n = c->n_slots - k < c->batch ? (uint32_t)(c->n_slots - k)
					      : c->batch;
		prepare_keys(c, k, n);
		te_store_remove(c->store, c->keys, n, 1, c->codes);
	}
}

/* ---- are the bytes right? ---- */

static uint64_t check_memory(const struct client *c, uint64_t seed)
{
	/* Only keys that were got: all of them, or those before next_get. */
	uint64_t n = c->n_done < c->n_slots ? c->next_get : c->n_slots;
	uint64_t wrong = 0, at;

	/* Slots of those that were missed hold anything. */
	if (!c->n_done || c->n_missed || c->n_failed)
		return 0;
	for (uint64_t i = 0; i < CHECK_SAMPLES; i++) {
		at = slot_offset(c, n * i / CHECK_SAMPLES);
		wrong += tei_pattern_wrong(c->memory + at, c->value_size, seed,
					   at);
	}
	return wrong;
}

static uint64_t check_pool(struct client *c, uint64_t seed)
{
	uint64_t recent =
		c->next_put < c->n_slots / 2 ? c->next_put : c->n_slots / 2;
	uint64_t wrong = 0, key;

	for (uint64_t i = 0; recent && i < CHECK_SAMPLES; i++) {
		key = c->next_put - 1 - recent * i / CHECK_SAMPLES;
		prepare_keys(c, key, 1);
		memset(c->pieces[0].iov_base, 0, c->value_size);
		if (te_store_get(c->store, c->keys, c->values, 1, c->sizes) ==
		    1)
			wrong += tei_pattern_wrong(c->pieces[0].iov_base,
						   c->value_size, seed,
						   slot_offset(c, key));
	}
	return wrong;
}

uint64_t client_check(struct client *c, enum client_op op, uint64_t seed)
{
	if (op == CLIENT_EXIST)
		return 0;
	return op == CLIENT_GET ? check_memory(c, seed) : check_pool(c, seed);
}
