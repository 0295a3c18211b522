/* SPDX-License-Identifier: Apache-2.0 */
/* test_awake.c - how long the worker's thread stays awake once it was woken */
#include "base/clock.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/fake.h"
#include "tests/unit/te/rig.h"

#define ROUNDS 16 /* several times what a thread does that sleeps at once */

static const char *const settings[] = {"backends", "fake", "spin_us", "10000",
				       NULL};

static uint64_t rounds(const struct te_engine *engine)
{
	return atomic_load(&engine->worker->rounds);
}

struct wake {
	const struct te_engine *engine;
	uint64_t before; /* rounds */
};

static bool is_over(void *arg)
{
	const struct wake *wake = arg;

	return rounds(wake->engine) > wake->before &&
	       !atomic_load(&wake->engine->worker->token);
}

/*
 * Some providers serve peers without telling their backend, which then has
 * nothing to report: that it was woken is all that it knows of more to come.
 * Where the host is busy a thread may sleep at once, so this takes any of many.
 */
static void a_rail_that_reports_nothing_keeps_it_awake(void **state)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;
	struct te_engine *engine;
	struct wake wake;

	(void)state;
	fake_reset();
	engine = rig_engine(settings);
	wake.engine = engine;
	do {
		assert_true(tei_now_ns() < until);
		wake.before = rounds(engine);
		fake_wake();
		assert_true(test_wait_until(is_over, &wake, RIG_WAIT_MS));
	} while (rounds(engine) - wake.before < ROUNDS);
	te_engine_destroy(engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rail_that_reports_nothing_keeps_it_awake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
