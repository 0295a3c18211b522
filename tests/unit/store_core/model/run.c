/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - schedules by seeds, and what all of them together have met */
#include "tests/lib/test.h"
#include "tests/unit/store_core/model/model.h"
#include "tests/unit/store_core/tally.h"

#define N_STEPS 3000 /* of a seed */

/* Over all seeds: a schedule that never gets anywhere proves nothing. */
static struct tes_core_figures all;
struct met model_met;

static void do_something(struct model *m)
{
	const struct emphasis *e = m->emphasis;
	unsigned int what = model_roll(m, 100);

	if (what < 3)
		model_join(m);
	else if (what < 4)
		model_leave(m);
	else if (what < 7)
		model_mount(m);
	else if (what < 8)
		model_unmount(m);
	else if ((what -= 8) < e->starts)
		model_start(m);
	else if ((what -= e->starts) < e->ends)
		model_end(m);
	else if ((what -= e->ends) < 10)
		model_lookup(m, TES_EVENT_LOOKUP);
	else if (what < 14)
		model_release(m);
	else if (what < 18)
		model_lookup(m, TES_EVENT_EXIST);
	else if ((what -= 18) < e->removes)
		model_remove(m);
	else if ((what -= e->removes) < 1)
		model_clear(m);
	else if ((what -= 1) < e->answers)
		model_fenced(m);
	else if ((what -= e->answers) < 4)
		model_heartbeats(m);
	else if (what > 4 || model_roll(m, 4))
		model_tick(m);
	else
		model_remove_all(m);
}

static void add_up(struct tes_core_figures f)
{
	all.evicted_objects_total += f.evicted_objects_total;
	all.dropped_objects_total += f.dropped_objects_total;
	all.alloc_failures_total += f.alloc_failures_total;
	all.fences_total += f.fences_total;
	all.fences_failed_total += f.fences_failed_total;
	all.discarded_puts_total += f.discarded_puts_total;
	all.late_ends_total += f.late_ends_total;
	all.lost_replicas_total += f.lost_replicas_total;
	all.partial_puts_total += f.partial_puts_total;
	all.burials_total += f.burials_total;
}

/* Everybody leaves: nothing stays. */
static void empty(struct model *m)
{
	struct tes_event ev = {.type = TES_EVENT_TICK};
	struct tes_core_figures f;

	for (int s = 0; s < m->n_sessions; s++)
		if (m->sessions[s].life != GONE)
			rig_plain(&m->rig, TES_EVENT_LEAVE,
				  m->sessions[s].number);
	for (int i = 0; i < 40; i++) {
		m->rig.now += 100;
		CHECK(m, rig_try(&m->rig, &ev) == 0);
	}
	CHECK(m, !tes_core_busy(m->rig.core));
	f = rig_figures(&m->rig);
	CHECK(m, !f.objects && !f.building && !f.fencing && !f.used_bytes);
	CHECK(m, !f.capacity_bytes && !f.segments && !f.sessions);
	CHECK(m, !f.key_bytes);
}

static void configure(struct model *m)
{
	uint64_t seed = m->seed;

	m->config = rig_config;
	m->config.lease_ttl_ms = 500;
	m->config.client_ttl_ms = 3000;
	m->config.suspect_ms = 1000;
	m->config.put_discard_ms = 2000;
	m->config.raise_ms = seed % 2 * 1000;
	m->config.fence_timeout_ms = 1500;
	m->config.seed = seed;
	m->config.hash_seed = seed % 2 ? seed : 0;
	m->config.strategy = seed % 5 < 3 ? (enum tes_core_strategy)(seed % 5)
					  : TES_CORE_RANDOM;
	m->config.evict_soft_pinned = seed % 7 < 3;
	m->faulty = seed % 4 == 3 && !m->emphasis->buries;
	if (seed % 3 == 0)
		m->config.high_watermark = 0.8;
}

static uint64_t run_seed(const struct emphasis *emphasis, uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));
	uint64_t result;

	assert_non_null(m);
	m->emphasis = emphasis;
	m->seed = m->random = seed;
	m->epoch = m->floor = EPOCH;
	configure(m);
	rig_init(&m->rig, &m->config);
	/* It keeps a block, so that what fails is the core's. */
	assert_non_null(tei_arena_alloc(&m->rig.arena, 60000));
	tei_arena_init(&m->side, 1 << 20);
	for (m->step = 0; m->step < N_STEPS; m->step++) {
		do_something(m);
		model_check_waiting(m);
		model_check_figures(m);
	}
	add_up(rig_figures(&m->rig));
	result = m->digest;
	empty(m);
	tei_arena_fini(&m->side);
	rig_fini(&m->rig);
	free(m);
	return result;
}

static const struct tally of_all[] = {
	{TALLY(model_met.splits)},          {TALLY(model_met.upserts)},
	{TALLY(model_met.successions)},     {TALLY(model_met.promotions)},
	{TALLY(model_met.pinned)},          {TALLY(model_met.groups)},
	{TALLY(model_met.walked)},          {TALLY(model_met.cleared)},
	{TALLY(model_met.fenced_replicas)}, {TALLY(all.evicted_objects_total)},
	{TALLY(all.dropped_objects_total)}, {TALLY(all.alloc_failures_total)},
	{TALLY(all.fences_total)},          {TALLY(all.fences_failed_total)},
	{TALLY(all.discarded_puts_total)},  {TALLY(all.lost_replicas_total)},
	{TALLY(all.partial_puts_total)},    {TALLY(all.late_ends_total)},
	{TALLY(model_met.claims)},          {TALLY(model_met.forged)},
	{TALLY(model_met.offers)},          {TALLY(model_met.outlived)},
	{TALLY(model_met.taken)},           {TALLY(model_met.displaced)},
	{TALLY(model_met.waiting)},         {TALLY(model_met.not_yours)},
};

static const struct tally of_burials[] = {
	{TALLY(model_met.buried)},  {TALLY(model_met.waited)},
	{TALLY(model_met.silent)},  {TALLY(model_met.unsummed)},
	{TALLY(all.burials_total)},
};

static const struct tally of_faults[] = {
	{TALLY(model_met.faults)},
};

void model_schedules(const struct emphasis *emphasis)
{
	const char *one = getenv("TE_TEST_SEED");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1;
	uint64_t end = first + (one ? 1 : emphasis->n_seeds);

	for (uint64_t seed = first; seed < end; seed++)
		run_seed(emphasis, seed);
	tally_print(of_all, TEST_COUNT(of_all));
	tally_print(of_burials, TEST_COUNT(of_burials));
	tally_print(of_faults, TEST_COUNT(of_faults));
	if (one)
		return;
	tally_check(of_all, TEST_COUNT(of_all));
	if (emphasis->buries)
		tally_check(of_burials, TEST_COUNT(of_burials));
	else
		tally_check(of_faults, TEST_COUNT(of_faults));
}

void model_is_deterministic(const struct emphasis *emphasis)
{
	for (uint64_t seed = 1; seed <= 5; seed++)
		assert_int_equal(run_seed(emphasis, seed),
				 run_seed(emphasis, seed));
	assert_int_not_equal(run_seed(emphasis, 1), run_seed(emphasis, 2));
}
