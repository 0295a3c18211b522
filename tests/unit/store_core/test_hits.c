/* SPDX-License-Identifier: Apache-2.0 */
/* test_hits.c - what a core keeps of what is asked for */
#include "tests/bench/policy/simulate.h"
#include "tests/unit/store_core/rig.h"

#define BLOCK  (4096 - 64) /* 4096 with its header */
#define PROBES 100

static uint64_t no_clock(void)
{
	return 0;
}

static void name(char key[32], size_t i)
{
	snprintf(key, 32, "block%zu", i);
}

/* Ask for many keys, of which some are there; nothing is read. */
static void probe(struct rig *r, size_t key, size_t n_keys)
{
	struct tes_core_key keys[PROBES];
	char names[PROBES][32];
	struct tes_event ev = {.type = TES_EVENT_EXIST,
			       .session = 2,
			       .n = PROBES,
			       .keys = keys};

	for (size_t i = 0; i < PROBES; i++) {
		name(names[i], (key + i * 7) % n_keys);
		keys[i] = rig_key(names[i]);
	}
	assert_int_equal(rig_step(r, &ev)->u.reply.code, 0);
}

/* Look each key up, and put it where it is missing; how many were there. */
static uint64_t replay(const struct tei_workload *w, uint64_t blocks,
		       bool probes)
{
	uint64_t hits = 0;
	struct rig r;

	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	assert_int_equal(rig_mount(&r, 1, 'n', 1 << 20, blocks * 4096), 0);
	for (size_t i = 0; i < w->n; i++) {
		struct grant g;
		char key[32];

		name(key, w->key[i]);
		g = rig_lookup(&r, 2, key);
		if (!g.status) {
			rig_release(&r, 2, key, g.generation);
			hits++;
			continue;
		}
		if (probes)
			probe(&r, w->key[i], w->n_keys);
		assert_int_equal(rig_put(&r, 2, key, BLOCK).status, 0);
	}
	rig_fini(&r);
	return hits;
}

static uint64_t lru_hits(const struct tei_workload *w, uint64_t blocks)
{
	struct tei_sim_result r;

	assert_int_equal(
		tei_simulate(w, TEI_SIM_LRU, blocks * 4096, no_clock, &r), 0);
	return r.hits;
}

static void a_core_hits_more_of_a_trace_than_lru_does(void **state)
{
	char error[TEI_TRACE_ERROR_LEN];
	struct tei_workload w;
	struct tei_trace t;

	(void)state;
	assert_int_equal(tei_trace_load(TE_TRACES "/conversation_2000.jsonl", 0,
					&t, error),
			 0);
	assert_int_equal(tei_workload_of_trace(&t, 4096, &w), 0);
	assert_true(replay(&w, 2000, false) > lru_hits(&w, 2000) + w.n / 100);
	tei_workload_free(&w);
	tei_trace_free(&t);
}

static void a_hundred_probes_a_put_cost_neither_puts_nor_hits(void **state)
{
	struct tei_workload w;
	uint64_t without;

	(void)state;
	assert_int_equal(tei_workload_make("zipf", 5000, 1000, 4096, &w), 0);
	without = replay(&w, 200, false);
	assert_true(without > lru_hits(&w, 200));
	assert_int_equal(replay(&w, 200, true), without);
	tei_workload_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_core_hits_more_of_a_trace_than_lru_does),
		cmocka_unit_test(
			a_hundred_probes_a_put_cost_neither_puts_nor_hits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
