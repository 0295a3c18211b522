/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe.c - owners that readers find silent */
#include "store/core/core.h"
#include "store/core/session.h"
#include "tests/unit/store_core/rig.h"

/* Session 2 says that the owner with these letters does not answer. */
static void report(struct rig *r, char incarnation)
{
	uint8_t life[TES_CORE_ID_LEN];
	struct tes_event ev = {.type = TES_EVENT_REPORT, .session = 2};

	memset(life, incarnation, sizeof(life));
	ev.u.report.incarnation = life;
	assert_null(rig_step(r, &ev));
}

/* The number of the probe that the last step sent to @owner; 0: none. */
static uint64_t probe_to(const struct rig *r, tes_session_id owner)
{
	const struct tes_action *a = rig_find(r, TES_ACTION_PROBE);

	return a && a->session == owner ? a->u.probe : 0;
}

static void answer(struct rig *r, tes_session_id owner, uint64_t probe)
{
	struct tes_event ev = {.type = TES_EVENT_PROBED, .session = owner};

	ev.u.probed.probe = probe;
	assert_null(rig_step(r, &ev));
}

static bool is_suspect(const struct rig *r)
{
	return rig_figures(r).suspects == 1;
}

/* An owner (1) that has "a", and a reader (2). */
static void start(struct rig *r)
{
	rig_probes = true;
	rig_init(r, NULL);
	rig_pair(r);
	assert_int_equal(rig_put(r, 2, "a", 100).status, 0);
}

static void who_does_not_answer_is_suspect_until_it_beats(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start(&r);
	report(&r, 'O');
	assert_int_equal(probe_to(&r, 1), 1);
	rig_pass(&r, TES_CORE_PROBE_MS - 100, "");
	assert_false(is_suspect(&r));
	rig_pass(&r, 100, "");
	assert_true(is_suspect(&r));
	assert_int_equal(rig_lookup(&r, 2, "a").status, -704);
	assert_int_equal(rig_exist(&r, 2, "a"), 0);
	g = rig_start(&r, 2, "b", 100);
	assert_int_equal(g.status, -200);
	assert_true(g.retry_ms > 0); /* it may be back */
	assert_int_equal(rig_figures(&r).probes_failed_total, 1);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	assert_false(is_suspect(&r));
	assert_int_equal(rig_lookup(&r, 2, "a").status, 0);
	rig_fini(&r);
}

static void puts_go_to_others_meanwhile(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	start(&r);
	assert_int_equal(rig_join(&r, 3, 'p', 'P'), 0);
	assert_int_equal(rig_mount(&r, 3, 'n', 0x90000, 0x10000), 0);
	report(&r, 'O');
	rig_pass(&r, TES_CORE_PROBE_MS, "23");
	assert_true(is_suspect(&r));
	for (int i = 0; i < 8; i++) {
		const char key[] = {'k', (char)('0' + i), 0};

		g = rig_put(&r, 2, key, 100);
		assert_int_equal(g.status, 0);
		assert_true(g.address >= 0x90000);
	}
	/* What only the silent one has may be put anew. */
	assert_int_equal(rig_put(&r, 2, "a", 200).status, 0);
	assert_int_equal(rig_lookup(&r, 2, "a").size, 200);
	rig_fini(&r);
}

static void who_answers_is_never_suspect(void **state)
{
	uint64_t n_probes = 0, probe;
	struct rig r;

	(void)state;
	start(&r);
	/* A thousand reports a second, for ten seconds. */
	for (int ms = 0; ms < 10000; ms++) {
		r.now++;
		report(&r, 'O');
		probe = probe_to(&r, 1);
		if (probe) {
			n_probes++;
			answer(&r, 1, probe);
		}
		if (ms % 100 == 0)
			rig_tick(&r);
		assert_false(is_suspect(&r));
	}
	assert_true(n_probes > 0);
	assert_true(n_probes <= 10000 / TES_CORE_PROBE_EVERY_MS + 1);
	assert_int_equal(rig_figures(&r).reports_total, 10000);
	assert_int_equal(rig_figures(&r).probes_total, n_probes);
	rig_fini(&r);
}

static void a_late_answer_undoes_it(void **state)
{
	struct rig r;
	uint64_t probe;

	(void)state;
	start(&r);
	report(&r, 'O');
	probe = probe_to(&r, 1);
	rig_pass(&r, TES_CORE_PROBE_MS, "");
	assert_true(is_suspect(&r));
	answer(&r, 1, probe);
	assert_false(is_suspect(&r));
	rig_pass(&r, rig_config.suspect_ms - 200, "2");
	assert_false(is_suspect(&r));
	rig_fini(&r);
}

static void another_number_is_no_answer(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	report(&r, 'O');
	answer(&r, 1, probe_to(&r, 1) + 1);
	rig_pass(&r, TES_CORE_PROBE_MS, "");
	assert_true(is_suspect(&r));
	rig_fini(&r);
}

/* Its answer may lie in our own socket. */
static void a_master_that_did_not_look_blames_nobody(void **state)
{
	struct rig r;
	uint64_t probe;

	(void)state;
	start(&r);
	report(&r, 'O');
	probe = probe_to(&r, 1);
	r.now += 500; /* not yet a stall for others */
	rig_tick(&r);
	assert_false(is_suspect(&r));
	r.now += 5000;
	rig_tick(&r);
	assert_false(is_suspect(&r));
	answer(&r, 1, probe);
	rig_pass(&r, 1000, "");
	assert_false(is_suspect(&r));
	rig_fini(&r);
}

static void after_a_stall_of_ours_it_has_all_its_time(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	report(&r, 'O');
	r.now += 5000;
	rig_tick(&r);
	rig_pass(&r, TES_CORE_PROBE_MS - 100, "");
	assert_false(is_suspect(&r));
	rig_pass(&r, 100, "");
	assert_true(is_suspect(&r));
	rig_fini(&r);
}

static void a_heartbeat_is_an_answer(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	report(&r, 'O');
	assert_int_not_equal(probe_to(&r, 1), 0);
	rig_pass(&r, 100, "1");
	rig_pass(&r, 1000, "");
	assert_false(is_suspect(&r));
	rig_fini(&r);
}

/* Probes are lost with their connection. */
static void a_new_connection_owes_no_answer(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	report(&r, 'O');
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_int_equal(rig_join(&r, 5, 'o', 'O'), 0);
	rig_pass(&r, 1000, "");
	assert_false(is_suspect(&r));
	/* Nor is it asked before its heartbeat connection is there. */
	report(&r, 'O');
	assert_int_equal(probe_to(&r, 5), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 5);
	report(&r, 'O');
	assert_int_not_equal(probe_to(&r, 5), 0);
	rig_plain(&r, TES_EVENT_LEAVE, 5);
	rig_fini(&r);
}

static void who_does_not_know_probes_is_not_asked(void **state)
{
	struct rig r;

	(void)state;
	rig_probes = false;
	rig_init(&r, NULL);
	rig_pair(&r);
	report(&r, 'O');
	assert_null(rig_find(&r, TES_ACTION_PROBE));
	rig_pass(&r, 1000, "");
	assert_false(is_suspect(&r));
	rig_fini(&r);
}

static void nobody_is_asked_for_an_unknown_life(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	report(&r, 'X');
	assert_null(rig_find(&r, TES_ACTION_PROBE));
	assert_int_equal(rig_join(&r, 5, 'o', 'Q'), 0); /* another life */
	report(&r, 'O');
	assert_null(rig_find(&r, TES_ACTION_PROBE));
	rig_plain(&r, TES_EVENT_LEAVE, 5);
	report(&r, 'Q');
	assert_null(rig_find(&r, TES_ACTION_PROBE));
	rig_fini(&r);
}

/* Its time counts from its last sign of life, as that of all others. */
static void a_suspect_by_probe_ends_when_its_time_is_up(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	report(&r, 'O');
	rig_pass(&r, 1000, "2");
	assert_true(is_suspect(&r));
	assert_int_equal(rig_figures(&r).sessions, 2);
	rig_pass(&r, rig_config.client_ttl_ms - 800, "2");
	assert_int_equal(rig_figures(&r).sessions, 1);
	assert_int_equal(rig_figures(&r).objects, 0);
	rig_fini(&r);
}

static void clients_of_one_engine_are_all_asked(void **state)
{
	struct rig r;
	size_t n = 0;

	(void)state;
	start(&r);
	assert_int_equal(rig_join(&r, 3, 'q', 'O'), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 3);
	report(&r, 'O');
	for (size_t i = 0; i < r.out.n; i++)
		n += r.out.at[i].type == TES_ACTION_PROBE;
	assert_int_equal(n, 2);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_answer_is_suspect_until_it_beats),
		cmocka_unit_test(puts_go_to_others_meanwhile),
		cmocka_unit_test(who_answers_is_never_suspect),
		cmocka_unit_test(a_late_answer_undoes_it),
		cmocka_unit_test(another_number_is_no_answer),
		cmocka_unit_test(a_master_that_did_not_look_blames_nobody),
		cmocka_unit_test(after_a_stall_of_ours_it_has_all_its_time),
		cmocka_unit_test(a_heartbeat_is_an_answer),
		cmocka_unit_test(a_new_connection_owes_no_answer),
		cmocka_unit_test(who_does_not_know_probes_is_not_asked),
		cmocka_unit_test(nobody_is_asked_for_an_unknown_life),
		cmocka_unit_test(a_suspect_by_probe_ends_when_its_time_is_up),
		cmocka_unit_test(clients_of_one_engine_are_all_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
