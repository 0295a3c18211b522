/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_addresses.c - memory of the caller's that cannot be used, or that goes
 * away under a transfer
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "store/client/client.h"
#include "tests/store/named.h"
#include "tests/unit/store_client/two.h"

#define PAGE 4096u

static void bad_memory_is_refused_by_every_call(void **state)
{
	const struct two *t = *state;

	named_check_all(t->client);
	named_check_all(t->owner);
}

#define N_MANY 300

/* One bad one among many that the kernel is asked about together. */
static void one_bad_value_fails_alone(void **state)
{
	const struct two *t = *state;
	static char names[N_MANY][8];
	struct te_store_key keys[N_MANY];
	struct te_store_value values[N_MANY];
	struct iovec pieces[N_MANY];
	int results[N_MANY];
	uint8_t *map = mmap(NULL, N_MANY * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(map != MAP_FAILED);
	assert_int_equal(munmap(map + 77 * PAGE, PAGE), 0);
	for (size_t i = 0; i < N_MANY; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "m%zu", i);
		keys[i] = pool_key(names[i]);
		pieces[i] = (struct iovec){map + i * PAGE, 100};
		values[i] = (struct te_store_value){.pieces = &pieces[i],
						    .n_pieces = 1};
	}
	assert_int_equal(
		te_store_put(t->client, keys, values, N_MANY, NULL, results),
		-600);
	for (size_t i = 0; i < N_MANY; i++)
		assert_int_equal(results[i], i == 77 ? -600 : 0);
	(void)te_store_remove(t->client, keys, N_MANY, 1, results);
	assert_int_equal(munmap(map, N_MANY * PAGE), 0);
}

/* As on a kernel that cannot be asked what a mapping permits. */
static void without_maps_reads_are_refused(void **state)
{
	const struct two *t = *state;
	struct tes_addresses *a = &t->client->addresses;
	uint8_t *map = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int maps = a->maps;

	assert_true(map != MAP_FAILED);
	a->maps = -1;
	named_take(t->client, NAMED_ALL, map, 3 * PAGE);
	assert_int_equal(te_store_register(t->client, map, 3 * PAGE), 0);
	named_take(t->client, NAMED_ALL, map, 3 * PAGE);
	assert_int_equal(te_store_unregister(t->client, map), 0);
	assert_int_equal(mprotect(map + PAGE, PAGE, PROT_NONE), 0);
	named_refuse(t->client, NAMED_PUTS, map, 3 * PAGE);
	named_refuse(t->client, NAMED_ALL, map, PAGE + 1);
	assert_int_equal(mprotect(map + 2 * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(te_store_register(t->client, map + 2 * PAGE, PAGE), 0);
	named_take(t->client, NAMED_PUTS, map + 2 * PAGE, PAGE);
	named_refuse(t->client, NAMED_GETS, map + 2 * PAGE, PAGE);
	assert_int_equal(munmap(map + PAGE, PAGE), 0);
	named_refuse(t->client, NAMED_ALL, map, 3 * PAGE);
	assert_int_equal(te_store_unregister(t->client, map + 2 * PAGE), 0);
	assert_int_equal(munmap(map, 3 * PAGE), 0);
	a->maps = maps;
}

/* ---- memory that goes away under a transfer ---- */

struct going {
	uint8_t *page;
	unsigned int n; /* requests so far */
};

/* As the real engine, which finds the page missing when it would copy. */
static void take_page_away(const struct te_request *req,
			   struct te_completion *done, void *arg)
{
	struct going *g = arg;

	g->n++;
	for (uint32_t i = 0; i < req->n_pieces; i++) {
		if (req->pieces[i].iov_base != g->page)
			continue;
		assert_int_equal(mprotect(g->page, PAGE, PROT_NONE), 0);
		done->error = -EFAULT;
	}
}

static void fault_at_owner(const struct te_request *req,
			   struct te_completion *done, void *arg)
{
	unsigned int *n = arg;

	(void)req;
	++*n;
	done->error = -EFAULT;
}

static uint8_t *new_page(void)
{
	uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	return page;
}

static void a_get_blames_the_caller_and_asks_no_other_replica(void **state)
{
	const struct two *t = *state;
	struct te_store *second = pool_client(&t->pool, 4 * MIB);
	struct going g = {.page = new_page()};
	uint8_t bytes[100] = {1}, room[100];

	pool_put_twice(t->client, "twice", bytes, sizeof(bytes));
	fake_te_set_hook(take_page_away, &g);
	assert_int_equal(pool_get(t->client, "twice", g.page, PAGE), -600);
	assert_int_equal(g.n, 1);
	fake_te_set_hook(NULL, NULL);
	assert_int_equal(pool_get(t->client, "twice", room, 100), 100);
	assert_int_equal(munmap(g.page, PAGE), 0);
	te_store_close(second);
}

static void ranges_blame_the_caller(void **state)
{
	const struct two *t = *state;
	const struct te_store_key key = pool_key("ranges");
	struct going g = {.page = new_page()};
	const struct te_store_range range = {.addr = g.page, .length = 8};
	uint8_t bytes[100] = {1};
	int64_t result;

	assert_int_equal(pool_put(t->client, "ranges", bytes, 100), 0);
	fake_te_set_hook(take_page_away, &g);
	(void)te_store_get_ranges(t->client, &key, 1, &range, 1, &result);
	assert_int_equal(result, -600);
	assert_int_equal(munmap(g.page, PAGE), 0);
}

static void a_put_blames_the_caller(void **state)
{
	const struct two *t = *state;
	struct going g = {.page = new_page()};
	uint8_t bytes[100] = {1};

	fake_te_set_hook(take_page_away, &g);
	assert_int_equal(pool_put(t->client, "put", g.page, 100), -600);
	fake_te_set_hook(NULL, NULL);
	assert_int_equal(pool_put(t->client, "put", bytes, 100), 0);
	assert_int_equal(munmap(g.page, PAGE), 0);
}

static void a_put_in_parts_goes_on(void **state)
{
	const struct two *t = *state;
	const struct te_store_key key = pool_key("draft");
	struct going g = {.page = new_page()};
	struct te_store_range range = {.addr = g.page, .length = 100};
	const uint64_t size = 100;
	uint8_t bytes[100], room[100];
	int64_t result;
	int code;

	pool_fill(bytes, sizeof(bytes), 5);
	assert_int_equal(
		te_store_put_open(t->client, &key, &size, 1, NULL, &code), 0);
	fake_te_set_hook(take_page_away, &g);
	(void)te_store_put_ranges(t->client, &key, 1, &range, 1, &result);
	assert_int_equal(result, -600);
	fake_te_set_hook(NULL, NULL);
	range.addr = bytes;
	assert_int_equal(
		te_store_put_ranges(t->client, &key, 1, &range, 1, &result), 1);
	assert_int_equal(te_store_put_commit(t->client, &key, 1, &code), 0);
	assert_int_equal(pool_get(t->client, "draft", room, 100), 100);
	assert_memory_equal(room, bytes, 100);
	assert_int_equal(munmap(g.page, PAGE), 0);
}

static void a_fault_at_the_owner_is_still_the_owners(void **state)
{
	const struct two *t = *state;
	uint8_t bytes[100] = {1}, room[100];
	unsigned int n = 0;

	assert_int_equal(pool_put(t->client, "owner", bytes, 100), 0);
	fake_te_set_hook(fault_at_owner, &n);
	assert_int_equal(pool_get(t->client, "owner", room, 100), -704);
	assert_true(n > 1); /* the master was asked again */
	assert_int_equal(pool_put(t->client, "none", bytes, 100), -800);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(bad_memory_is_refused_by_every_call,
					  unbend),
		cmocka_unit_test_teardown(one_bad_value_fails_alone, unbend),
		cmocka_unit_test_teardown(without_maps_reads_are_refused,
					  unbend),
		cmocka_unit_test_teardown(
			a_get_blames_the_caller_and_asks_no_other_replica,
			unbend),
		cmocka_unit_test_teardown(ranges_blame_the_caller, unbend),
		cmocka_unit_test_teardown(a_put_blames_the_caller, unbend),
		cmocka_unit_test_teardown(a_put_in_parts_goes_on, unbend),
		cmocka_unit_test_teardown(
			a_fault_at_the_owner_is_still_the_owners, unbend),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
