/* SPDX-License-Identifier: Apache-2.0 */
/* test_unmatched.c - a rail that matches none of a peer's is told of once */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/wait.h"
#include "tests/unit/te/fake.h"
#include "tests/unit/te/rig.h"

#define LEN     ((size_t)1 << 20)
#define N_PEERS 2

static int n_lines;

static void count_lines(int level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	n_lines += strstr(line, "rail fake/b: not used for ") != NULL;
}

/* The rail may be another worker's than the one that carries the bytes. */
static bool all_are_counted(void *user)
{
	return test_stat(user, "te_rail_unmatched_total", NULL) == N_PEERS;
}

/* What is known of the peers of an engine of which rail "b" reaches none. */
static void rail_that_matches_none_of_a_peer_is_told_of_once(void **state)
{
	uint8_t *memory = calloc(1, LEN), *local = calloc(1, LEN);
	struct te_engine *user, *owners[N_PEERS];
	struct te_rail_info rails[3];
	size_t n = TEST_COUNT(rails);
	te_segment_id segment;

	(void)state;
	assert_true(memory && local);
	n_lines = 0;
	te_log_set(count_lines, NULL);
	fake_reset();
	atomic_store(&fake.lone, 1u << 1);
	user = rig_engine(NULL);
	for (int i = 0; i < N_PEERS; i++) {
		owners[i] = rig_engine(NULL);
		rig_region(owners[i], memory, LEN, RIG_ANY);
		segment = rig_segment(user, owners[i]);
		assert_int_equal(
			rig_move(user, segment, TE_WRITE, memory, local, LEN),
			0);
	}
	assert_true(test_wait_until(all_are_counted, user, RIG_WAIT_MS));
	assert_int_equal(atomic_load(&fake.done[1]), 0);
	assert_int_equal(te_engine_rails(user, rails, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(rails[0].unmatched_peers, 0);
	assert_int_equal(rails[1].unmatched_peers, N_PEERS);
	te_engine_destroy(user);
	for (int i = 0; i < N_PEERS; i++)
		te_engine_destroy(owners[i]);
	te_log_set(NULL, NULL);
	assert_int_equal(n_lines, 1);
	free(memory);
	free(local);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			rail_that_matches_none_of_a_peer_is_told_of_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
