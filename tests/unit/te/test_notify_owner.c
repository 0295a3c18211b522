/* SPDX-License-Identifier: Apache-2.0 */
/* test_notify_owner.c - notifications to owners that lie, forget or leave */
#include <errno.h>
#include <string.h>

#include "te/backend.h"
#include "tests/unit/te/owner.h"
#include "tests/unit/te/rig.h"

#define LAST .is_last = true

static struct te_engine *engine;
static struct owner owner;
static te_segment_id segment;

static void start(const struct owner_script *scripts)
{
	static const char *const quick[] = {"connect_timeout", "2s", NULL};

	te_log_set_level(0);
	memset(&owner, 0, sizeof(owner));
	engine = rig_engine(quick);
	owner_start(&owner, 2, scripts);
	assert_int_equal(
		te_segment_open(engine, owner.name, RIG_WAIT_MS, &segment), 0);
}

static void stop(void)
{
	te_engine_destroy(engine);
	owner_stop(&owner);
}

static struct te_completion notify(uint32_t timeout_ms)
{
	uint8_t bytes[8] = {0};
	struct iovec piece = {bytes, sizeof(bytes)};
	struct te_request r = rig_request(segment, TE_NOTIFY, NULL, &piece);

	r.timeout_ms = timeout_ms;
	return rig_run(engine, &r);
}

static void expect(const struct owner_script *scripts, int error,
		   uint32_t flags)
{
	struct te_completion c;

	start(scripts);
	c = notify(error == -ETIMEDOUT ? 1000 : 60000);
	assert_int_equal(c.error, error);
	assert_int_equal(c.flags, flags);
	if (error == -ETIMEDOUT) /* it was not just left waiting */
		assert_true(test_stat(engine, "te_control_failed_total", NULL) >
			    0);
	stop();
}

/* ---- owners that lie ---- */

static void answer_that_cannot_be_is_not_believed(void **state)
{
	static const struct owner_script more = {.taken = 2, LAST},
					 garbage = {.garbage = true, LAST},
					 odd = {.status = 77, .taken = 1, LAST},
					 wrap = {.hello_taken = UINT64_MAX,
						 .taken = 0,
						 LAST};

	(void)state;
	expect(&more, -ETIMEDOUT, 0);
	expect(&garbage, -ETIMEDOUT, 0);
	expect(&odd, -ETIMEDOUT, 0);
	expect(&wrap, -ETIMEDOUT, 0);
}

static void message_without_room_ends_at_its_deadline(void **state)
{
	static const struct owner_script once = {.taken = 1, LAST};

	(void)state;
	start(&once);
	assert_int_equal(notify(60000).error, 0);
	/* Still 1: this one found no room, it says, and never says more. */
	assert_int_equal(notify(200).error, -ETIMEDOUT);
	stop();
}

/* ---- connections that end before the answer ---- */

static void unanswered_message_is_sent_again(void **state)
{
	static const struct owner_script scripts[] = {
		{.hangs_up = true}, {.hangs_up = true}, {.taken = 1, LAST}};

	(void)state;
	start(scripts);
	assert_int_equal(notify(60000).error, 0);
	assert_int_equal(atomic_load(&owner.n_notified), 3);
	stop();
}

static void message_that_was_taken_is_not_sent_again(void **state)
{
	static const struct owner_script scripts[] = {{.hangs_up = true},
						      {.hello_taken = 1, LAST}};

	(void)state;
	start(scripts);
	assert_int_equal(notify(60000).error, 0);
	assert_int_equal(atomic_load(&owner.n_notified), 1);
	stop();
}

/* It may or may not have arrived; the owner is not asked about it again. */
static void expect_doubt(const struct owner_script *scripts)
{
	struct te_completion c;

	start(scripts);
	c = notify(60000);
	assert_int_equal(c.error, -ESTALE);
	assert_int_equal(c.flags, 0);
	assert_int_equal(atomic_load(&owner.n_notified), 1);
}

static void message_is_not_sent_again_to_one_that_has_forgotten(void **state)
{
	static const struct owner_script scripts[] = {
		{.hangs_up = true}, {.hello_losses = 1, .taken = 1, LAST}};

	(void)state;
	expect_doubt(scripts);
	assert_int_equal(notify(60000).error, 0); /* numbers begin anew */
	stop();
}

static void owner_that_claims_too_much_is_not_asked_again(void **state)
{
	static const struct owner_script scripts[] = {
		{.hangs_up = true}, {.hello_taken = 9, .taken = 10, LAST}};

	(void)state;
	expect_doubt(scripts);
	assert_int_equal(notify(60000).error, 0); /* its tenth */
	stop();
}

static void refused_message_does_not_arrive(void **state)
{
	static const struct owner_script stale = {.status = TEI_STATUS_STALE,
						  LAST};

	(void)state;
	expect(&stale, -ESTALE, TE_REMOTE_QUIET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answer_that_cannot_be_is_not_believed),
		cmocka_unit_test(message_without_room_ends_at_its_deadline),
		cmocka_unit_test(unanswered_message_is_sent_again),
		cmocka_unit_test(message_that_was_taken_is_not_sent_again),
		cmocka_unit_test(
			message_is_not_sent_again_to_one_that_has_forgotten),
		cmocka_unit_test(owner_that_claims_too_much_is_not_asked_again),
		cmocka_unit_test(refused_message_does_not_arrive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
