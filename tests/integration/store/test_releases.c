/* SPDX-License-Identifier: Apache-2.0 */
/* test_releases.c - leases of reads that are over keep no room */
#include <stdio.h>

#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define SIZE   ((size_t)64 << 10)
#define N_FILL 300u /* more than the pool holds */
#define N_READ 200u /* of the last of them */
#define N_NEW  100u

struct entries {
	char names[N_FILL][32];
	struct te_store_key keys[N_FILL];
	struct te_store_value values[N_FILL];
	struct iovec pieces[N_FILL];
	int codes[N_FILL];
	int64_t sizes[N_FILL];
};

static uint8_t room[SIZE];

/* Names @n objects, which all lie in the same memory. */
static void name_all(struct entries *e, const char *prefix, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(e->names[i], sizeof(e->names[i]), "%s/%zu",
			       prefix, i);
		e->keys[i] = pool_key(e->names[i]);
		e->pieces[i] = (struct iovec){room, SIZE};
		e->values[i] = (struct te_store_value){.pieces = &e->pieces[i],
						       .n_pieces = 1};
	}
}

static void put_all(struct te_store *store, struct entries *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(te_store_put(store, &e->keys[i], &e->values[i],
					      1, NULL, &e->codes[i]),
				 0);
}

static void get_last(struct te_store *store, struct entries *e, size_t n)
{
	size_t first = N_FILL - n;

	(void)te_store_get(store, &e->keys[first], &e->values[first], n,
			   &e->sizes[first]);
	for (size_t i = first; i < N_FILL; i++)
		assert_int_equal(e->sizes[i], SIZE);
}

/*
 * The leases of a read of most of the pool, in the middle of a series, are over
 * when it returns: what is put then displaces what was read, and not itself.
 */
static void room_of_what_was_read_is_found_at_once(void **state)
{
	static struct entries old, new;
	struct te_store *reader, *writer;
	struct test_process *owner;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	owner = pool_owner(&pool, "16777216");
	reader = pool_client(&pool, 0);
	writer = pool_client(&pool, 0);
	name_all(&old, "old", N_FILL);
	name_all(&new, "new", N_NEW);
	put_all(writer, &old, N_FILL);
	for (int i = 0; i < 3; i++)
		get_last(reader, &old, 1);
	get_last(reader, &old, N_READ);
	put_all(writer, &new, N_NEW);
	(void)te_store_exist(writer, new.keys, N_NEW, new.codes);
	for (size_t i = 0; i < N_NEW; i++)
		assert_int_equal(new.codes[i], 1);
	te_store_close(reader);
	te_store_close(writer);
	test_process_end(owner);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room_of_what_was_read_is_found_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
