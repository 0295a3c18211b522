/* SPDX-License-Identifier: Apache-2.0 */
/* test_region_ends.c - removal of regions that peers are just touching */
#include <errno.h>

#include "base/clock.h"
#include "tests/unit/te/pair.h"

#define LEN ((size_t)4096)

static const char *const quick[] = {"connect_timeout", "300ms", "suspect_after",
				    "100ms", NULL};

static int set_up(void **state)
{
	(void)state;
	return pair_open(quick, LEN);
}

static int write_all(void)
{
	return rig_move(user, segment, TE_WRITE, memory, local, LEN);
}

static int remove_within(uint32_t timeout_ms)
{
	return te_region_remove_within(owner, region, timeout_ms);
}

static void removal_ends_in_time_though_a_pin_stays(void **state)
{
	(void)state;
	atomic_store(&fake.hold_pins, true);
	atomic_store(&fake.hold_drop, true); /* no way to be rid of it */
	assert_int_equal(write_all(), 0);
	assert_int_equal(remove_within(0), -ETIMEDOUT);
	assert_int_equal(remove_within(300), -ETIMEDOUT);
	assert_int_equal(write_all(), -EFAULT); /* refused to all */
	atomic_store(&fake.hold_pins, false);
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	assert_int_equal(te_region_remove(owner, region), 0);
	assert_int_equal(te_region_remove(owner, region), -ENOENT);
	region = rig_region(owner, memory, LEN, RIG_ANY);
	assert_int_equal(write_all(), 0);
}

/* Who asks often and briefly waits no longer than who asks once. */
static void patience_goes_on_from_one_try_to_the_next(void **state)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;
	int rc = -ETIMEDOUT;

	(void)state;
	atomic_store(&fake.hold_pins, true);
	assert_int_equal(write_all(), 0);
	while (rc == -ETIMEDOUT && tei_now_ns() < until)
		rc = remove_within(5);
	assert_int_equal(rc, 0);
}

#define WITH_ENGINES(test) \
	cmocka_unit_test_setup_teardown(test, set_up, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(removal_ends_in_time_though_a_pin_stays),
		WITH_ENGINES(patience_goes_on_from_one_try_to_the_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
