/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_random_tenant.c - whatever tenants do and lose, each is charged exactly
 * for what it has
 */
#include "tests/unit/store_core/tenants.h"

static unsigned int roll(uint64_t *random, unsigned int n)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(*random >> 33) % n;
}

/* Owners confirm the fences of the last step. */
static void confirm(struct rig *r)
{
	struct {
		tes_session_id owner;
		uint64_t fence;
	} due[64];
	size_t n = 0;

	for (size_t i = 0; i < r->out.n && n < 64; i++)
		if (r->out.at[i].type == TES_ACTION_FENCE) {
			due[n].owner = r->out.at[i].session;
			due[n++].fence = r->out.at[i].u.fence.fence;
		}
	for (size_t i = 0; i < n; i++)
		rig_fenced(r, due[i].owner, due[i].fence, true);
}

static void pass(struct rig *r, uint64_t ms)
{
	for (; ms >= 100; ms -= 100) {
		r->now += 100;
		for (tes_session_id s = OWNER; s <= RED2; s++) {
			rig_plain(r, TES_EVENT_HEARTBEAT, s);
			confirm(r);
		}
		rig_tick(r);
		confirm(r);
	}
}

/* One put, upsert, question or removal of session @s. */
static void random_call(struct rig *r, uint64_t *random, tes_session_id s)
{
	const struct tes_core_replicate how = {
		.replica_num = 1 + roll(random, 3),
		.hard_pin = !roll(random, 40),
		.soft_pin = roll(random, 3),
		.soft_pin_ttl_ms = 1000,
	};
	uint64_t size = 1 + roll(random, roll(random, 8) ? 4000 : 200000);
	struct grant g;
	char key[16];

	name(key, "k", (int)roll(random, 60));
	switch (roll(random, 8)) {
	case 0:
		rig_lookup(r, s, key);
		break;
	case 1:
		rig_remove(r, s, key, roll(random, 2));
		break;
	default:
		g = rig_start_as(r, s, key, size, &how,
				 roll(random, 3) ? NULL : "g", roll(random, 2));
		if (g.status || !roll(random, 5))
			break; /* its writer forgets it */
		confirm(r);
		rig_end_as(r, s, key, g.generation, EPOCH, roll(random, 5) > 0);
	}
	confirm(r);
}

static void check(struct rig *r, bool shrunk)
{
	struct tes_core_tenant t;
	size_t cursor = 0;

	assert_true(charges_exact(r->core));
	while (tes_core_tenant_next(r->core, &cursor, &t))
		assert_true(shrunk || t.charged <= t.effective);
}

static void a_random_schedule(uint64_t seed)
{
	uint64_t random = seed;
	bool shrunk = false;
	struct rig r;

	begin(&r, 512 * KIB, 200 * KIB, 300 * KIB);
	assert_int_equal(rig_mount(&r, RED, 'n', 0x200000, 300 * KIB), 0);
	for (int i = 0; i < 1500; i++) {
		tes_session_id s = RED + roll(&random, 3);

		switch (roll(&random, 100) + (seed % 2 ? 3 : 0)) {
		case 0: /* what was within its share may be beyond it now */
			tes_core_tenant_set(r.core,
					    roll(&random, 2) ? "red" : "blue",
					    (1 + roll(&random, 400)) * KIB);
			shrunk = true;
			break;
		case 1:
			rig_unmount(&r, RED, 'n');
			shrunk = true;
			break;
		case 2:
			rig_mount(&r, RED, 'n', 0x200000, 300 * KIB);
			break;
		case 3:
		case 4:
			pass(&r, 100 + roll(&random, 9000));
			break;
		default:
			random_call(&r, &random, s);
		}
		check(&r, shrunk);
	}
	assert_true(rig_figures(&r).capacity_bytes > 0);
	end(&r);
}

static void charges_are_exact_in_random_schedules(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++)
		a_random_schedule(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charges_are_exact_in_random_schedules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
