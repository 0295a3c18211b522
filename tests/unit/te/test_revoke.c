/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_revoke.c - access epochs that end and regions that go, with requests
 * under way
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/te/one.h"

static void revocation_ends_what_is_in_flight_quietly(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];
	struct te_completion c;
	struct te_batch *batch;

	(void)state;
	te_engine_incarnation(user, who);
	atomic_store(&fake.stall, true);
	batch = start_stalled(TE_WRITE, 0);
	assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
	assert_int_equal(te_peer_revoke(owner, who, RIG_WAIT_MS), 0);
	memset(memory, 0x77, LEN);
	atomic_store(&fake.stall, false);
	fake_wake();
	c = rig_end(batch);
	assert_int_equal(c.error, -ESTALE);
	for (size_t i = 0; i < LEN; i += 997)
		assert_int_equal(memory[i], 0x77);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	assert_memory_equal(memory, local, LEN);
}

static bool drops_are_over(void *arg)
{
	(void)arg;
	return test_stat(owner, "te_endpoint_drops_served_total", NULL) > 0;
}

/* What was revoked may land until the owner has dropped the endpoint. */
static void revoked_write_is_not_called_quiet_too_early(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];
	struct te_completion c;
	struct te_batch *batch;

	(void)state;
	te_engine_incarnation(user, who);
	atomic_store(&fake.stall, true);
	atomic_store(&fake.hold_drop, true);
	batch = start_stalled(TE_WRITE, 1000);
	assert_int_equal(te_peer_revoke(owner, who, 30), -ETIMEDOUT);
	c = rig_end(batch);
	assert_true(c.error);
	assert_int_equal(c.flags, 0);
	atomic_store(&fake.stall, false);
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	assert_true(test_wait_until(drops_are_over, NULL, RIG_WAIT_MS));
	assert_int_equal(te_peer_revoke(owner, who, RIG_WAIT_MS), 0);
	/* What is submitted before the news comes is of the old epoch, too. */
	assert_int_equal(te_peer_probe(user, te_engine_name(owner), 0, NULL),
			 0);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
}

static void own_name_in_other_words_is_revoked_too(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];
	char name[64];
	uint64_t epoch = 0, since;
	te_segment_id id;

	(void)state;
	snprintf(name, sizeof(name), "localhost%s",
		 strrchr(te_engine_name(owner), ':'));
	assert_int_equal(te_segment_open(owner, name, 0, &id), 0);
	te_engine_incarnation(owner, who);
	assert_int_equal(te_peer_revoke(owner, who, 0), 0);
	/* The answer comes behind the news of it. */
	assert_int_equal(te_peer_probe(owner, name, 0, NULL), 0);
	assert_int_equal(te_segment_epoch(owner, id, &epoch, &since), 0);
	assert_int_equal(epoch, 2);
}

static void revocation_without_confirmation_says_so(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];

	(void)state;
	te_engine_incarnation(user, who);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	atomic_store(&fake.hold_drop, true);
	assert_int_equal(te_peer_revoke(owner, who, 30), -ETIMEDOUT);
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	assert_int_equal(te_peer_revoke(owner, who, RIG_WAIT_MS), 0);
	assert_int_equal(te_peer_revoke(owner, NULL, RIG_WAIT_MS), 0);
}

/* Who has shaken hands again meanwhile keeps what it has. */
static void waiting_on_for_a_revocation_ends_nothing_anew(void **state)
{
	uint64_t epoch = 0, since;
	te_segment_id id = segment;

	(void)state;
	assert_int_equal(te_peer_revoke_wait(owner, NULL, 0), 0);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	atomic_store(&fake.hold_drop, true);
	assert_int_equal(te_peer_revoke(owner, NULL, 30), -ETIMEDOUT);
	assert_int_equal(te_peer_revoke_wait(owner, NULL, 30), -ETIMEDOUT);
	assert_int_equal(te_peer_revoke_wait(owner, NULL, 30), -ETIMEDOUT);
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	assert_int_equal(te_peer_revoke_wait(owner, NULL, RIG_WAIT_MS), 0);
	/* The answer comes behind the news of it. */
	assert_int_equal(te_peer_probe(user, te_engine_name(owner), 0, NULL),
			 0);
	assert_int_equal(te_segment_epoch(user, id, &epoch, &since), 0);
	assert_int_equal(epoch, 2);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
}

static void stranger_can_be_revoked_before_it_comes(void **state)
{
	struct te_engine *late = rig_engine(NULL);
	uint8_t who[TE_INCARNATION_LEN];
	te_segment_id id;
	uint64_t epoch, since;

	(void)state;
	te_engine_incarnation(late, who);
	assert_int_equal(te_peer_revoke(owner, who, 0), 0);
	assert_int_equal(te_peer_revoke(owner, who, 0), 0);
	id = rig_segment(late, owner);
	assert_int_equal(te_segment_epoch(late, id, &epoch, &since), 0);
	assert_int_equal(epoch, 3);
	assert_int_equal(rig_move(late, id, TE_WRITE, memory, local, 100), 0);
	te_engine_destroy(late);
}

static void removal_does_not_wait_for_a_stuck_pin(void **state)
{
	(void)state;
	atomic_store(&fake.hold_pins, true);
	assert_int_equal(run(TE_WRITE, 4096, 0, 0).error, 0);
	assert_int_equal(te_region_remove(owner, region), 0);
	atomic_store(&fake.hold_pins, false);
	assert_int_equal(run(TE_WRITE, 4096, 0, 0).error, -EFAULT);
	region = rig_region(owner, memory, LEN, RIG_ANY);
	assert_int_equal(run(TE_WRITE, 4096, 0, 0).error, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(revocation_ends_what_is_in_flight_quietly),
		WITH_ENGINES(revocation_without_confirmation_says_so),
		WITH_ENGINES(waiting_on_for_a_revocation_ends_nothing_anew),
		WITH_ENGINES(revoked_write_is_not_called_quiet_too_early),
		WITH_ENGINES(own_name_in_other_words_is_revoked_too),
		WITH_ENGINES(stranger_can_be_revoked_before_it_comes),
		WITH_ENGINES(removal_does_not_wait_for_a_stuck_pin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
