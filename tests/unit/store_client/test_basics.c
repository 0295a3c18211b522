/* SPDX-License-Identifier: Apache-2.0 */
/* test_basics.c - arguments, codes and the helper */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "store/client/client.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

static void codes_have_mooncakes_names(void **state)
{
	(void)state;
	assert_string_equal(te_store_strerror(0), "OK");
	assert_string_equal(te_store_strerror(-704), "OBJECT_NOT_FOUND");
	assert_string_equal(te_store_strerror(-200), "NO_AVAILABLE_HANDLE");
	assert_string_equal(te_store_strerror(-901), "RPC_TIMEOUT");
	assert_string_equal(te_store_strerror(7), "UNKNOWN");
}

static void engine_errors_have_codes(void **state)
{
	(void)state;
	assert_int_equal(tes_store_code(0), 0);
	assert_int_equal(tes_store_code(-ETIMEDOUT), -800);
	assert_int_equal(tes_store_code(-EOPNOTSUPP), -800); /* no way there */
	assert_int_equal(tes_store_code(-EHOSTDOWN), -800);
	assert_int_equal(tes_store_code(-EEXIST), -600);
	assert_int_equal(tes_store_code(-ENOMEM), -1);
}

static void a_key_has_1_to_1024_bytes(void **state)
{
	static const char bytes[2048];
	struct te_store_key key = {.bytes = bytes, .len = 1024};

	(void)state;
	assert_true(tes_key_holds(&key));
	key.len = 1025;
	assert_false(tes_key_holds(&key));
	key.len = 0;
	assert_false(tes_key_holds(&key));
	key = (struct te_store_key){.bytes = NULL, .len = 1};
	assert_false(tes_key_holds(&key));
	key = (struct te_store_key){.bytes = bytes, .len = 1, .reserved = 1};
	assert_false(tes_key_holds(&key));
}

static void a_value_is_the_sum_of_its_pieces(void **state)
{
	static char bytes[16];
	struct iovec pieces[3] = {{bytes, 3}, {NULL, 0}, {bytes, 4}};
	struct te_store_value value = {.pieces = pieces, .n_pieces = 3};

	(void)state;
	assert_int_equal(tes_value_bytes(&value), 7);
	value.reserved = 1;
	assert_int_equal(tes_value_bytes(&value), 0);
	value.reserved = 0;
	pieces[1].iov_len = 1;
	assert_int_equal(tes_value_bytes(&value), 0);
	pieces[1] = (struct iovec){bytes, SIZE_MAX};
	assert_int_equal(tes_value_bytes(&value), 0);
	value.n_pieces = TE_PIECES_MAX;
	assert_int_equal(tes_value_bytes(&value), 0);
	value.n_pieces = 0;
	assert_int_equal(tes_value_bytes(&value), 0);
}

static void batches_are_cut_by_keys_and_bytes(void **state)
{
	static const char bytes[1024];
	static struct te_store_key keys[5000];
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(keys); i++)
		keys[i] = (struct te_store_key){.bytes = bytes, .len = 8};
	assert_int_equal(tes_chunk(keys, 0, 5000), 4096);
	assert_int_equal(tes_chunk(keys, 4096, 5000), 904);
	for (i = 0; i < TEST_COUNT(keys); i++)
		keys[i].len = 1024;
	assert_int_equal(tes_chunk(keys, 0, 5000), 1024);
	assert_int_equal(tes_chunk(keys, 4999, 5000), 1);
	assert_int_equal(tes_chunk(keys, 5000, 5000), 0);
}

/* ---- helper ---- */

struct counted_job {
	struct tes_job job;
	atomic_int *n_run, *n_dropped;
};

static void count_job(struct tes_job *job, bool stopping)
{
	struct counted_job *counted =
		TEI_CONTAINER(job, struct counted_job, job);

	atomic_fetch_add(stopping ? counted->n_dropped : counted->n_run, 1);
	tei_free(counted);
}

static void every_job_runs_or_is_dropped_once(void **state)
{
	atomic_int n_run = 0, n_dropped = 0;
	struct tes_helper helper = {0};
	int i;

	(void)state;
	assert_int_equal(tes_helper_init(&helper), 0);
	for (i = 0; i < 1000; i++) {
		struct counted_job *counted = tei_calloc(1, sizeof(*counted));

		assert_non_null(counted);
		counted->job.run = count_job;
		counted->n_run = &n_run;
		counted->n_dropped = &n_dropped;
		tes_helper_add(&helper, &counted->job);
	}
	tes_helper_fini(&helper);
	assert_int_equal(n_run + n_dropped, 1000);
	tes_helper_fini(&helper);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_have_mooncakes_names),
		cmocka_unit_test(engine_errors_have_codes),
		cmocka_unit_test(a_key_has_1_to_1024_bytes),
		cmocka_unit_test(a_value_is_the_sum_of_its_pieces),
		cmocka_unit_test(batches_are_cut_by_keys_and_bytes),
		cmocka_unit_test(every_job_runs_or_is_dropped_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
