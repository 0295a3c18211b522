/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_random_task.c - random schedules of puts, tasks and drains, with memory
 *
 * After every step what readers would read is what was put, whole; and what
 * owners have in their directories is there for readers as long as they live.
 * In a quarter of the schedules allocations fail.
 *
 * Prints the seed of a failure; TE_TEST_SEED=<seed> runs only that one.
 */
#include "tests/lib/test.h"
#include "tests/unit/store_core/memory/world.h"
#include "tests/unit/store_core/tally.h"

#define N_STEPS 2500
#define N_SEEDS 60

static void do_something(struct world *w)
{
	unsigned int what = world_roll(w, 100);

	if (what < 3)
		world_join(w);
	else if (what < 6)
		world_mount(w);
	else if (what < 7)
		world_unmount(w);
	else if (what < 8)
		world_drain(w);
	else if (what < 22)
		world_start(w);
	else if (what < 40)
		world_end(w);
	else if (what < 43)
		world_remove(w);
	else if (what < 46)
		world_lookup(w);
	else if (what < 56)
		world_create(w);
	else if (what < 66)
		world_answer(w);
	else if (what < 72)
		world_land(w);
	else if (what < 82)
		world_fenced(w);
	else if (what < 90)
		world_heartbeats(w);
	else
		world_tick(w);
	world_forget_flights(w);
}

/* Everybody leaves: nothing stays. */
static void empty(struct world *w)
{
	struct tes_core_figures f;

	w->faulty = false;
	for (int c = 0; c < N_CLIENTS; c++)
		if (w->clients[c].number)
			rig_plain(&w->rig, TES_EVENT_LEAVE,
				  w->clients[c].number);
	for (int i = 0; i < 100; i++) {
		w->rig.now += 100;
		rig_tick(&w->rig);
	}
	f = rig_figures(&w->rig);
	CHECK(w, !f.objects && !f.building && !f.fencing && !f.used_bytes);
	CHECK(w, !f.tasks_pending && !f.tasks_processing && !f.sessions);
	CHECK(w, !f.drains_active);
	CHECK(w, !f.key_bytes);
}

static struct tes_core_figures all;

static void run_seed(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	struct tes_core_config c = rig_config;
	struct tes_core_figures f;

	assert_non_null(w);
	w->seed = w->random = seed;
	w->faulty = seed % 4 == 3;
	c.lease_ttl_ms = 300;
	c.client_ttl_ms = 3000;
	c.suspect_ms = 1000;
	c.put_discard_ms = 2000;
	c.fence_timeout_ms = 1500;
	c.seed = c.hash_seed = seed;
	c.tasks_pending_max = 12;
	c.tasks_processing_max = 8;
	c.tasks_finished_max = 20;
	c.task_pending_ms = 2000;
	c.task_processing_ms = seed % 2 ? 700 : 20000;
	c.task_retries = 3;
	rig_init(&w->rig, &c);
	for (w->step = 0; w->step < N_STEPS; w->step++) {
		do_something(w);
		world_check_all(w);
	}
	f = rig_figures(&w->rig);
	all.tasks_succeeded_total += f.tasks_succeeded_total;
	all.tasks_failed_total += f.tasks_failed_total;
	all.tasks_late_total += f.tasks_late_total;
	all.replicas_remade_total += f.replicas_remade_total;
	all.evicted_objects_total += f.evicted_objects_total;
	all.fences_total += f.fences_total;
	all.burials_total += f.burials_total;
	all.drained_objects_total += f.drained_objects_total;
	all.drains_succeeded_total += f.drains_succeeded_total;
	all.drains_failed_total += f.drains_failed_total;
	empty(w);
	rig_fini(&w->rig);
	free(w);
}

static const struct tally met[] = {
	{TALLY(world_met.copies)},          {TALLY(world_met.moves)},
	{TALLY(world_met.orders)},          {TALLY(world_met.done)},
	{TALLY(world_met.failed)},          {TALLY(world_met.late_lands)},
	{TALLY(world_met.faults)},          {TALLY(world_met.busy)},
	{TALLY(world_met.checked)},         {TALLY(world_met.wrong)},
	{TALLY(world_met.drains)},          {TALLY(world_met.cancels)},
	{TALLY(world_met.leaves)},          {TALLY(all.tasks_succeeded_total)},
	{TALLY(all.tasks_failed_total)},    {TALLY(all.tasks_late_total)},
	{TALLY(all.replicas_remade_total)}, {TALLY(all.evicted_objects_total)},
	{TALLY(all.fences_total)},          {TALLY(all.burials_total)},
	{TALLY(all.drained_objects_total)}, {TALLY(all.drains_succeeded_total)},
	{TALLY(all.drains_failed_total)},
};

static void what_is_there_is_whole_whatever_tasks_do(void **state)
{
	const char *one = getenv("TE_TEST_SEED");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1;

	(void)state;
	for (uint64_t seed = first; seed < (one ? first + 1 : first + N_SEEDS);
	     seed++)
		run_seed(seed);
	tally_print(met, TEST_COUNT(met));
	if (!one)
		tally_check(met, TEST_COUNT(met));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there_is_whole_whatever_tasks_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
