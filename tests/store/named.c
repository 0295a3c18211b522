/* SPDX-License-Identifier: Apache-2.0 */
/* named.c - calls that are given memory by its address */
#include "tests/store/named.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define PAGE  ((size_t)NAMED_PAGE)
#define PAGES ((size_t)8)

static uint8_t pattern[NAMED_MAX], other[NAMED_MAX];

static uint8_t *at(const void *addr)
{
	return (uint8_t *)(uintptr_t)addr;
}

/* ---- the calls: each returns what came of the memory in question ---- */

typedef int put_fn(struct te_store *store, const struct te_store_key *keys,
		   const struct te_store_value *values, size_t n,
		   const struct te_store_replicate *how, int *results);

/* @cut: the memory is the second of two pieces. */
static int64_t put_by(struct te_store *store, put_fn *op, const void *addr,
		      size_t len, bool cut)
{
	const struct te_store_key keys[2] = {pool_key("bad"), pool_key("good")};
	const struct iovec pieces[3] = {
		{other, 16}, {at(addr), len}, {pattern, 100}};
	const struct te_store_value values[2] = {
		{.pieces = cut ? pieces : pieces + 1, .n_pieces = cut ? 2 : 1},
		{.pieces = pieces + 2, .n_pieces = 1},
	};
	int results[2], exist[2];
	int64_t size;

	(void)op(store, keys, values, 2, NULL, results);
	assert_int_equal(results[1], 0);
	assert_int_equal(te_store_exist(store, keys, 2, exist), 0);
	assert_int_equal(exist[0], results[0] == 0);
	assert_int_equal(exist[1], 1);
	if (!results[0]) {
		size = pool_get(store, "bad", other, NAMED_MAX);
		assert_int_equal(size, len + (cut ? 16 : 0));
		assert_memory_equal(other + (cut ? 16 : 0), addr, len);
	}
	te_store_remove(store, keys, 2, 1, exist);
	return results[0] ? results[0] : (int64_t)len;
}

static int64_t put(struct te_store *store, const void *addr, size_t len)
{
	return put_by(store, te_store_put, addr, len, false);
}

static int64_t upsert(struct te_store *store, const void *addr, size_t len)
{
	return put_by(store, te_store_upsert, addr, len, false);
}

static int64_t put_pieces(struct te_store *store, const void *addr, size_t len)
{
	return put_by(store, te_store_put, addr, len, true);
}

static int64_t put_ranges(struct te_store *store, const void *addr, size_t len)
{
	const struct te_store_key key = pool_key("parts");
	const uint64_t size = len + 100;
	struct te_store_range ranges[2] = {
		{.addr = pattern, .length = 100},
		{.offset = 100, .addr = at(addr), .length = len},
	};
	int64_t results[2], result;
	int code;

	assert_int_equal(te_store_put_open(store, &key, &size, 1, NULL, &code),
			 0);
	(void)te_store_put_ranges(store, &key, 1, ranges, 2, results);
	assert_int_equal(results[0], 100);
	result = results[1];
	if (result < 0) { /* the draft is as good as before */
		assert_int_equal(te_store_put_commit(store, &key, 1, &code),
				 TE_STORE_INVALID_WRITE);
		ranges[1].addr = pattern;
		assert_int_equal(te_store_put_ranges(store, &key, 1, ranges + 1,
						     1, results),
				 1);
	}
	assert_int_equal(te_store_put_commit(store, &key, 1, &code), 0);
	assert_int_equal(pool_get(store, "parts", other, NAMED_MAX), size);
	assert_memory_equal(other + 100, result < 0 ? pattern : addr, len);
	te_store_remove(store, &key, 1, 1, &code);
	return result;
}

/* Puts what gets are to find. */
static void put_good(struct te_store *store, size_t len)
{
	assert_int_equal(pool_put(store, "bad", pattern, len), 0);
	assert_int_equal(pool_put(store, "good", pattern, 100), 0);
}

static void remove_good(struct te_store *store)
{
	const struct te_store_key keys[2] = {pool_key("bad"), pool_key("good")};
	int results[2];

	assert_int_equal(te_store_remove(store, keys, 2, 1, results), 0);
}

static int64_t get_by(struct te_store *store, const void *addr, size_t len,
		      bool cut)
{
	const struct te_store_key keys[2] = {pool_key("bad"), pool_key("good")};
	size_t head = cut ? 1 : 0;
	const struct iovec pieces[3] = {
		{other, head}, {at(addr), len}, {other, 100}};
	const struct te_store_value values[2] = {
		{.pieces = cut ? pieces : pieces + 1, .n_pieces = cut ? 2 : 1},
		{.pieces = pieces + 2, .n_pieces = 1},
	};
	int64_t results[2];

	put_good(store, len + head);
	(void)te_store_get(store, keys, values, 2, results);
	assert_int_equal(results[1], 100);
	assert_memory_equal(other, pattern, 100);
	if (results[0] >= 0) {
		assert_int_equal(results[0], len + head);
		assert_memory_equal(addr, pattern + head, len);
	}
	remove_good(store);
	return results[0];
}

static int64_t get(struct te_store *store, const void *addr, size_t len)
{
	return get_by(store, addr, len, false);
}

static int64_t get_pieces(struct te_store *store, const void *addr, size_t len)
{
	return get_by(store, addr, len, true);
}

static int64_t get_ranges(struct te_store *store, const void *addr, size_t len)
{
	const struct te_store_key keys[2] = {pool_key("bad"), pool_key("good")};
	const struct te_store_range ranges[3] = {
		{.key = 0, .addr = at(addr), .length = len},
		{.key = 0, .addr = other, .length = 1},
		{.key = 1, .addr = other + 1, .length = 100},
	};
	int64_t results[3];

	put_good(store, len);
	(void)te_store_get_ranges(store, keys, 2, ranges, 3, results);
	assert_int_equal(results[1], 1);
	assert_int_equal(results[2], 100);
	assert_int_equal(other[0], pattern[0]);
	assert_memory_equal(other + 1, pattern, 100);
	if (results[0] >= 0)
		assert_memory_equal(addr, pattern, len);
	remove_good(store);
	return results[0];
}

static const struct {
	const char *name;
	enum named_calls kind;
	int64_t (*call)(struct te_store *store, const void *addr, size_t len);
	bool direct; /* a dummy has not got it */
} calls[] = {
	{"put", NAMED_PUTS, put, false},
	{"put of pieces", NAMED_PUTS, put_pieces, false},
	{"upsert", NAMED_PUTS, upsert, false},
	{"put_ranges", NAMED_PUTS, put_ranges, true},
	{"get", NAMED_GETS, get, false},
	{"get into pieces", NAMED_GETS, get_pieces, false},
	{"get_ranges", NAMED_GETS, get_ranges, false},
};

static void call_all(struct te_store *store, enum named_calls kinds,
		     const void *addr, size_t len, bool taken)
{
	assert_true(len > 1 && len <= NAMED_MAX - 100);
	pool_fill(pattern, sizeof(pattern), 17);
	for (size_t i = 0; i < TEST_COUNT(calls); i++) {
		int64_t result;

		if (!(calls[i].kind & kinds) ||
		    (calls[i].direct && !te_store_engine(store)))
			continue;
		result = calls[i].call(store, addr, len);
		if (taken ? result < 0 : result != TE_STORE_INVALID_PARAMS)
			fail_msg("%s: %zu bytes at %p: %lld", calls[i].name,
				 len, addr, (long long)result);
	}
}

void named_refuse(struct te_store *store, enum named_calls kinds,
		  const void *addr, size_t len)
{
	call_all(store, kinds, addr, len, false);
}

void named_take(struct te_store *store, enum named_calls kinds,
		const void *addr, size_t len)
{
	call_all(store, kinds, addr, len, true);
}

/* ---- what is promised ---- */

static void protect(uint8_t *page, int protection)
{
	assert_int_equal(mprotect(page, PAGE, protection), 0);
}

static void check_unregistered(struct te_store *store, uint8_t *map)
{
	named_refuse(store, NAMED_ALL, at((void *)(uintptr_t)8), 8);
	named_refuse(store, NAMED_ALL, (void *)(UINTPTR_MAX - 10), 100);
	named_take(store, NAMED_ALL, map, 3 * PAGE);
	named_take(store, NAMED_ALL, map + 5, 2 * PAGE);
	protect(map + 2 * PAGE, PROT_NONE);
	named_refuse(store, NAMED_ALL, map + 2 * PAGE + 8, 8);
	protect(map + 2 * PAGE, PROT_READ | PROT_WRITE);
	protect(map + 4 * PAGE, PROT_NONE);
	named_refuse(store, NAMED_ALL, map + 3 * PAGE + 1, PAGE);
	protect(map + 5 * PAGE, PROT_READ);
	named_refuse(store, NAMED_GETS, map + 5 * PAGE, 8);
	named_take(store, NAMED_PUTS, map + 5 * PAGE, 8);
	/* A hole between two good ends. */
	assert_int_equal(munmap(map + PAGE, PAGE), 0);
	named_refuse(store, NAMED_ALL, map, 3 * PAGE);
	named_take(store, NAMED_ALL, map, PAGE);
}

/* Two good ends say nothing of what lies between them. */
static void check_middle(struct te_store *store, uint8_t *map)
{
	named_take(store, NAMED_ALL, map, 3 * PAGE);
	protect(map + PAGE, PROT_NONE);
	named_refuse(store, NAMED_ALL, map, 3 * PAGE);
	named_refuse(store, NAMED_ALL, map + PAGE - 1, PAGE + 2);
	protect(map + PAGE, PROT_READ);
	named_refuse(store, NAMED_GETS, map, 3 * PAGE);
	named_take(store, NAMED_PUTS, map, 3 * PAGE);
	protect(map + PAGE, PROT_READ | PROT_WRITE);
	named_take(store, NAMED_ALL, map, 3 * PAGE);
}

static void check_registered(struct te_store *store, uint8_t *map)
{
	uint8_t *here = map + 1000;

	assert_int_equal(te_store_register(store, here, 32), 0);
	named_take(store, NAMED_ALL, here, 32);
	named_take(store, NAMED_ALL, here + 30, 2);
	named_refuse(store, NAMED_ALL, here + 31, 4);
	named_refuse(store, NAMED_ALL, here, 33);
	named_refuse(store, NAMED_ALL, here + 8, 2 * PAGE);
	/* Only what begins in it must end in it. */
	named_take(store, NAMED_ALL, here - 4, 8);
	named_take(store, NAMED_ALL, here + 32, 4);
	/* The next one is another's, though it follows without a gap. */
	assert_int_equal(te_store_register(store, here + 32, 32), 0);
	named_refuse(store, NAMED_ALL, here + 30, 4);
	named_take(store, NAMED_ALL, here + 32, 32);
	assert_int_equal(te_store_register(store, here + 40, 8), -600);
	assert_int_equal(te_store_register(store, here - 8, 16), -600);
	assert_int_equal(te_store_unregister(store, here + 1), -600);
	assert_int_equal(te_store_unregister(store, here), 0);
	assert_int_equal(te_store_unregister(store, here), -600);
	named_take(store, NAMED_ALL, here + 30, 4);
	assert_int_equal(te_store_unregister(store, here + 32), 0);
}

static void check_registered_pages(struct te_store *store, uint8_t *map)
{
	protect(map, PROT_READ);
	assert_int_equal(te_store_register(store, map, PAGE), 0);
	named_refuse(store, NAMED_GETS, map, 8);
	named_take(store, NAMED_PUTS, map, 8);
	assert_int_equal(te_store_register(store, map + PAGE, 2 * PAGE), 0);
	named_take(store, NAMED_ALL, map + PAGE, 2 * PAGE);
	assert_int_equal(munmap(map + 2 * PAGE, PAGE), 0);
	named_refuse(store, NAMED_ALL, map + PAGE, 2 * PAGE);
	named_refuse(store, NAMED_ALL, map + 2 * PAGE, 8);
	named_take(store, NAMED_ALL, map + PAGE, 8);
	named_take(store, NAMED_ALL, map + 3 * PAGE, 8);
	assert_int_equal(te_store_unregister(store, map + PAGE), 0);
	assert_int_equal(te_store_unregister(store, map), 0);
	assert_int_equal(te_store_register(store, map + PAGE, 2 * PAGE), -600);
	assert_int_equal(te_store_register(store, NULL, 8), -600);
	assert_int_equal(te_store_register(store, map, 0), -600);
	assert_int_equal(te_store_register(store, map, UINT64_MAX), -600);
}

/* What counts is how memory is mapped when it is used, and only that memory. */
static void check_registered_anew(struct te_store *store, uint8_t *map)
{
	protect(map, PROT_READ); /* two mappings in one registration */
	protect(map + 2 * PAGE, PROT_NONE);
	assert_int_equal(te_store_register(store, map, 4 * PAGE), 0);
	named_take(store, NAMED_PUTS, map, 2 * PAGE);
	named_refuse(store, NAMED_GETS, map, 2 * PAGE);
	named_take(store, NAMED_ALL, map + PAGE, PAGE);
	named_refuse(store, NAMED_ALL, map + PAGE, 2 * PAGE);
	named_refuse(store, NAMED_ALL, map + PAGE, 3 * PAGE);
	named_take(store, NAMED_ALL, map + 3 * PAGE, PAGE);
	protect(map, PROT_READ | PROT_WRITE);
	protect(map + 2 * PAGE, PROT_READ | PROT_WRITE);
	named_take(store, NAMED_ALL, map, 3 * PAGE);
	assert_int_equal(munmap(map + PAGE, PAGE), 0);
	named_refuse(store, NAMED_ALL, map, 3 * PAGE);
	assert_ptr_equal(mmap(map + PAGE, PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 map + PAGE);
	named_take(store, NAMED_ALL, map, 3 * PAGE);
	protect(map + PAGE, PROT_NONE);
	named_refuse(store, NAMED_ALL, map, 3 * PAGE);
	named_take(store, NAMED_ALL, map + 2 * PAGE, 2 * PAGE);
	assert_int_equal(te_store_unregister(store, map), 0);
}

void named_check_all(struct te_store *store)
{
	static void (*const checks[])(struct te_store *, uint8_t *) = {
		check_unregistered, check_middle, check_registered,
		check_registered_pages, check_registered_anew};

	for (size_t i = 0; i < TEST_COUNT(checks); i++) {
		uint8_t *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_true(map != MAP_FAILED);
		checks[i](store, map);
		assert_int_equal(munmap(map, PAGES * PAGE), 0);
	}
}
