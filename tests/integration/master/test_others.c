/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_others.c - calls about what is another's, and calls that are said again:
 * the documented code, and a pool that is as it was
 */
#include <string.h>

#include "tests/integration/master/settled.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define PASSING 4 /* a client that comes and goes */

/* ---- who is not meant ---- */

static void what_another_builds_is_left_alone(void **state)
{
	struct settled *w = *state;
	struct caller *c = caller_join(&w->master, SETTLED_OTHER, false);
	uint64_t generation, refused, epoch, size;

	assert_int_equal(
		caller_put_start(w->user, "mine", 10, &generation, &epoch), 0);
	assert_int_equal(caller_put_start(c, "mine", 20, &refused, &epoch),
			 -705);
	assert_int_equal(caller_put_end(c, "mine", generation, epoch, true),
			 -601);
	assert_int_equal(caller_put_end(c, "mine", generation, epoch, false),
			 -601);
	assert_int_equal(caller_remove(c, "mine", true), -703);
	assert_int_equal(
		caller_put_end(w->user, "mine", generation, epoch, true), 0);
	assert_int_equal(caller_lookup(c, "mine", &size), 0);
	assert_int_equal(size, 10);
	assert_int_equal(caller_remove(c, "mine", true), 0);
	settled_check(w);
	caller_close(c);
}

static void segments_that_cannot_be_are_refused(void **state)
{
	struct settled *w = *state;
	struct caller *c = caller_join(&w->master, SETTLED_OTHER, false);

	/* Overlapping its own, from below, above, within and around. */
	assert_int_equal(caller_mount_at(w->owner, 9,
					 CALLER_BASE - SETTLED_BYTES / 2,
					 SETTLED_BYTES),
			 -600);
	assert_int_equal(caller_mount_at(w->owner, 9,
					 CALLER_BASE + SETTLED_BYTES / 2,
					 SETTLED_BYTES),
			 -600);
	assert_int_equal(caller_mount_at(w->owner, 9, CALLER_BASE + 4096, 4096),
			 -600);
	assert_int_equal(caller_mount_at(w->owner, 9,
					 CALLER_BASE - SETTLED_BYTES,
					 3 * SETTLED_BYTES),
			 -600);
	/* Under an id that another of its own has. */
	assert_int_equal(caller_mount_at(w->owner, SETTLED_OWNER,
					 CALLER_BASE + SETTLED_BYTES,
					 SETTLED_BYTES),
			 -102);
	/* Not memory. */
	assert_int_equal(caller_mount_at(c, 9, CALLER_BASE, 0), -600);
	assert_int_equal(caller_mount_at(c, 9, CALLER_BASE, 1023), -600);
	assert_int_equal(caller_mount_at(c, 9, CALLER_BASE + 1, SETTLED_BYTES),
			 -600);
	assert_int_equal(caller_mount_at(c, 9, CALLER_BASE, UINT64_MAX), -600);
	assert_int_equal(
		caller_mount_at(c, 9, 0 - SETTLED_BYTES, 2 * SETTLED_BYTES),
		-600);
	settled_check(w);
	caller_close(c);
}

static void what_is_anothers_is_not_unmounted(void **state)
{
	struct settled *w = *state;
	struct caller *c = caller_join(&w->master, SETTLED_OTHER, false);

	assert_int_equal(caller_unmount(c, SETTLED_OWNER), -101);
	assert_int_equal(caller_unmount(c, 99), -101);
	settled_check(w);
	caller_close(c);
}

/* ---- said again ---- */

static void an_end_said_again_changes_nothing(void **state)
{
	struct settled *w = *state;
	uint64_t generation, refused, epoch, size;

	assert_int_equal(
		caller_put_start(w->user, "again", 10, &generation, &epoch), 0);
	/* A start said again is another put: the first one writes. */
	assert_int_equal(
		caller_put_start(w->user, "again", 20, &refused, &epoch), -705);
	assert_int_equal(
		caller_put_end(w->user, "again", generation, epoch, true), 0);
	assert_int_equal(
		caller_put_end(w->user, "again", generation, epoch, true), 0);
	/* Said by whom it does not concern, of what is no more, as a revoke. */
	assert_int_equal(
		caller_put_end(w->user, "again", generation + 1, epoch, true),
		-700);
	assert_int_equal(
		caller_put_end(w->user, "again", generation, epoch, false),
		-700);
	assert_int_equal(caller_lookup(w->user, "again", &size), 0);
	assert_int_equal(size, 10);
	assert_int_equal(caller_remove(w->user, "again", true), 0);
	assert_int_equal(
		caller_put_end(w->user, "again", generation, epoch, true),
		-704);
	assert_int_equal(caller_remove(w->user, "again", true), -704);
	settled_check(w);
}

static void a_revoke_said_again_takes_nothing_else(void **state)
{
	struct settled *w = *state;
	uint64_t first, second, epoch, size;

	assert_int_equal(caller_put_start(w->user, "r", 10, &first, &epoch), 0);
	assert_int_equal(caller_put_end(w->user, "r", first, epoch, false), 0);
	assert_int_equal(caller_put_end(w->user, "r", first, epoch, false),
			 -704);
	assert_int_equal(caller_put_start(w->user, "r", 10, &second, &epoch),
			 0);
	/* The first one again, late: it means what is no more. */
	assert_int_equal(caller_put_end(w->user, "r", first, epoch, false),
			 -704);
	assert_int_equal(caller_put_end(w->user, "r", first, epoch, true),
			 -704);
	assert_int_equal(caller_put_end(w->user, "r", second, epoch - 1, true),
			 -704);
	assert_int_equal(caller_put_end(w->user, "r", second, epoch, true), 0);
	assert_int_equal(caller_lookup(w->user, "r", &size), 0);
	assert_int_equal(caller_remove(w->user, "r", true), 0);
	settled_check(w);
}

/* In one message: what went with the first is not there for the second. */
static void a_key_removed_twice_in_a_batch_goes_once(void **state)
{
	struct settled *w = *state;
	uint32_t lens[] = {5, 5};
	Store__Keys m = STORE__KEYS__INIT;
	uint64_t generation, epoch;
	Store__KeysReply *reply;

	assert_int_equal(
		caller_put_start(w->user, "twice", 10, &generation, &epoch), 0);
	assert_int_equal(
		caller_put_end(w->user, "twice", generation, epoch, true), 0);
	m.keys = (ProtobufCBinaryData){10, (uint8_t *)"twicetwice"};
	m.key_lens = lens;
	m.n_key_lens = 2;
	m.force = true;
	reply = caller_call(w->user, STORE__STORE_TYPE__STORE_REMOVE, &m,
			    &store__keys_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->n_status, 2);
	assert_int_equal(reply->status[0], 0);
	assert_int_equal(reply->status[1], -704);
	caller_free(reply);
	settled_check(w);
}

static bool is_unmounted(void *arg)
{
	return caller_unmount(arg, PASSING) == -101;
}

static void an_unmount_said_again_finds_nothing(void **state)
{
	struct settled *w = *state;
	struct caller *c = caller_join(&w->master, PASSING, false);

	assert_int_equal(caller_mount(c, PASSING, SETTLED_BYTES), 0);
	assert_int_equal(caller_unmount(c, PASSING), 0);
	/* It is taken down in steps; then it is not there. */
	assert_true(test_wait_until(is_unmounted, c, SOON_MS));
	assert_int_equal(caller_mount(c, PASSING, SETTLED_BYTES), 0);
	assert_int_equal(caller_unmount(c, PASSING), 0);
	assert_true(test_wait_until(is_unmounted, c, SOON_MS));
	settled_check(w);
	caller_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_another_builds_is_left_alone),
		cmocka_unit_test(segments_that_cannot_be_are_refused),
		cmocka_unit_test(what_is_anothers_is_not_unmounted),
		cmocka_unit_test(an_end_said_again_changes_nothing),
		cmocka_unit_test(a_revoke_said_again_takes_nothing_else),
		cmocka_unit_test(a_key_removed_twice_in_a_batch_goes_once),
		cmocka_unit_test(an_unmount_said_again_finds_nothing),
	};

	return cmocka_run_group_tests(tests, settled_set_up, settled_tear_down);
}
