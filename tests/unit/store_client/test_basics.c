/* SPDX-License-Identifier: Apache-2.0 */
/* test_basics.c - arguments, codes, the helper and look-ups of names */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "store/client/client.h"
#include "store/client/lookup.h"
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
	assert_int_equal(tei_store_code(0), 0);
	assert_int_equal(tei_store_code(-ETIMEDOUT), -800);
	assert_int_equal(tei_store_code(-EEXIST), -600);
	assert_int_equal(tei_store_code(-ENOMEM), -1);
}

static void a_key_has_1_to_1024_bytes(void **state)
{
	static const char bytes[2048];
	struct te_store_key key = {.bytes = bytes, .len = 1024};

	(void)state;
	assert_true(tei_key_holds(&key));
	key.len = 1025;
	assert_false(tei_key_holds(&key));
	key.len = 0;
	assert_false(tei_key_holds(&key));
	key = (struct te_store_key){.bytes = NULL, .len = 1};
	assert_false(tei_key_holds(&key));
	key = (struct te_store_key){.bytes = bytes, .len = 1, .reserved = 1};
	assert_false(tei_key_holds(&key));
}

static void a_value_is_the_sum_of_its_pieces(void **state)
{
	static char bytes[16];
	struct iovec pieces[3] = {{bytes, 3}, {NULL, 0}, {bytes, 4}};
	struct te_store_value value = {.pieces = pieces, .n_pieces = 3};

	(void)state;
	assert_int_equal(tei_value_bytes(&value), 7);
	value.reserved = 1;
	assert_int_equal(tei_value_bytes(&value), 0);
	value.reserved = 0;
	pieces[1].iov_len = 1;
	assert_int_equal(tei_value_bytes(&value), 0);
	pieces[1] = (struct iovec){bytes, SIZE_MAX};
	assert_int_equal(tei_value_bytes(&value), 0);
	value.n_pieces = TE_PIECES_MAX;
	assert_int_equal(tei_value_bytes(&value), 0);
	value.n_pieces = 0;
	assert_int_equal(tei_value_bytes(&value), 0);
}

static void batches_are_cut_by_keys_and_bytes(void **state)
{
	static const char bytes[1024];
	static struct te_store_key keys[5000];
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(keys); i++)
		keys[i] = (struct te_store_key){.bytes = bytes, .len = 8};
	assert_int_equal(tei_chunk(keys, 0, 5000), 4096);
	assert_int_equal(tei_chunk(keys, 4096, 5000), 904);
	for (i = 0; i < TEST_COUNT(keys); i++)
		keys[i].len = 1024;
	assert_int_equal(tei_chunk(keys, 0, 5000), 1024);
	assert_int_equal(tei_chunk(keys, 4999, 5000), 1);
	assert_int_equal(tei_chunk(keys, 5000, 5000), 0);
}

/* ---- helper ---- */

struct counted_job {
	struct tei_job job;
	atomic_int *n_run, *n_dropped;
};

static void count_job(struct tei_job *job, bool stopping)
{
	struct counted_job *counted =
		TEI_CONTAINER(job, struct counted_job, job);

	atomic_fetch_add(stopping ? counted->n_dropped : counted->n_run, 1);
	tei_free(counted);
}

static void every_job_runs_or_is_dropped_once(void **state)
{
	atomic_int n_run = 0, n_dropped = 0;
	struct tei_helper helper = {0};
	int i;

	(void)state;
	assert_int_equal(tei_helper_init(&helper), 0);
	for (i = 0; i < 1000; i++) {
		struct counted_job *counted = tei_calloc(1, sizeof(*counted));

		assert_non_null(counted);
		counted->job.run = count_job;
		counted->n_run = &n_run;
		counted->n_dropped = &n_dropped;
		tei_helper_add(&helper, &counted->job);
	}
	tei_helper_fini(&helper);
	assert_int_equal(n_run + n_dropped, 1000);
	tei_helper_fini(&helper);
}

/* ---- look-up ---- */

static atomic_int n_found;

static void on_found(void *arg, const struct tei_address *to, int n)
{
	(void)arg;
	assert_true(n > 0);
	assert_int_equal(tei_address_port(to), 4321);
	atomic_fetch_add(&n_found, 1);
}

static bool all_found(void *arg)
{
	return atomic_load(&n_found) == *(int *)arg;
}

struct start {
	struct tei_loop *loop;
	const char *name;
	struct tei_lookup *lookup;
	int rc;
};

static void do_start(void *arg)
{
	struct start *s = arg;

	s->rc = tei_lookup_start(s->loop, s->name, on_found, NULL, &s->lookup);
}

static void do_stop(void *arg)
{
	struct start *s = arg;

	tei_lookup_stop(s->lookup);
}

static void names_and_numbers_are_found(void **state)
{
	struct start s = {0};
	int wanted = 2;
	struct start t;

	(void)state;
	atomic_store(&n_found, 0);
	assert_int_equal(tei_loop_create("test", &s.loop), 0);
	t = s;
	s.name = "127.0.0.1:4321";
	t.name = "localhost:4321";
	assert_true(tei_loop_do(s.loop, do_start, &s));
	assert_int_equal(s.rc, 0);
	assert_true(tei_loop_do(s.loop, do_start, &t));
	assert_int_equal(t.rc, 0);
	assert_true(test_wait_until(all_found, &wanted, 20000));
	assert_true(tei_loop_do(s.loop, do_stop, &s));
	assert_true(tei_loop_do(s.loop, do_stop, &t));
	tei_loop_stop(s.loop);
	tei_loop_destroy(s.loop);
}

static void a_stopped_look_up_is_silent(void **state)
{
	struct start s = {.name = "localhost:4321"};
	int i;

	(void)state;
	atomic_store(&n_found, 0);
	assert_int_equal(tei_loop_create("test", &s.loop), 0);
	for (i = 0; i < 20; i++) {
		assert_true(tei_loop_do(s.loop, do_start, &s));
		assert_int_equal(s.rc, 0);
		tei_loop_do(s.loop, do_stop, &s);
	}
	tei_loop_stop(s.loop);
	tei_loop_destroy(s.loop);
}

static void a_name_without_port_is_refused(void **state)
{
	struct tei_lookup *lookup;

	(void)state;
	assert_int_equal(
		tei_lookup_start(NULL, "host", on_found, NULL, &lookup),
		-EINVAL);
	assert_int_equal(tei_lookup_start(NULL, "", on_found, NULL, &lookup),
			 -EINVAL);
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
		cmocka_unit_test(names_and_numbers_are_found),
		cmocka_unit_test(a_stopped_look_up_is_silent),
		cmocka_unit_test(a_name_without_port_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
