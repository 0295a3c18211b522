/* SPDX-License-Identifier: Apache-2.0 */
/* test_notify.c - messages after data: never too early, in order, with room */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/te/messages.h"

/* ---- the data comes first ---- */

static void message_names_its_sender(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];
	struct te_batch *batch = make_batch(1);
	struct te_notify message;

	(void)state;
	submit(batch, TE_NOTIFY, NULL, local, TE_NOTIFY_MAX, 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 0), 0);
	assert_int_equal(te_notify_take(owner, &message), 0);
	te_engine_incarnation(user, who);
	assert_string_equal(message.from, te_engine_name(user));
	assert_memory_equal(message.incarnation, who, sizeof(who));
	assert_int_equal(message.length, TE_NOTIFY_MAX);
	assert_memory_equal(message.bytes, local, TE_NOTIFY_MAX);
	te_notify_free(&message);
	te_notify_free(&message);
	assert_int_equal(te_notify_take(owner, &message), -EAGAIN);
	assert_int_equal(te_notify_take(user, &message), -EAGAIN);
	te_batch_destroy(batch);
}

static bool is_posted(void *arg)
{
	(void)arg;
	return test_stat(user, "te_slices_total", NULL) > 0;
}

static void message_waits_for_the_data_of_its_batch(void **state)
{
	struct te_batch *batch = make_batch(4);
	struct te_notify message;
	uint32_t zero = 0;

	(void)state;
	atomic_store(&fake.stall, true);
	submit(batch, TE_WRITE, memory, local, LEN, 0);
	submit_number(batch, &zero, 0);
	assert_true(test_wait_until(is_posted, NULL, RIG_WAIT_MS));
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	assert_int_equal(te_notify_take(owner, &message), -EAGAIN);
	atomic_store(&fake.stall, false);
	fake_wake();
	while (te_notify_take(owner, &message))
		te_batch_wait(batch, 1);
	assert_memory_equal(memory, local, LEN);
	te_notify_free(&message);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 1), 0);
	te_batch_destroy(batch);
}

static void message_does_not_follow_data_that_failed(void **state)
{
	struct te_batch *batch = make_batch(8);
	uint32_t n[3] = {0, 1, 2};

	(void)state;
	submit_number(batch, &n[0], 0);
	submit(batch, TE_WRITE, (void *)16, local, 64, 0); /* nobody's */
	submit_number(batch, &n[1], 0);
	submit(batch, TE_WRITE, memory, local, 64, 0);
	submit_number(batch, &n[2], 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 0), 0);
	assert_int_equal(error_of(batch, 1), -EFAULT);
	assert_int_equal(error_of(batch, 2), -ECANCELED);
	assert_int_equal(error_of(batch, 3), 0);
	assert_int_equal(error_of(batch, 4), -ECANCELED);
	assert_int_equal(flags_of(batch, 4), TE_REMOTE_QUIET);
	expect_numbers(1);
	te_batch_destroy(batch);
}

/* Each name has a connection of its own, and numbers. */
static void names_of_one_owner_do_not_share_numbers(void **state)
{
	struct te_batch *batch = make_batch(4);
	char name[TE_NAME_LEN_MAX + 1];
	uint32_t n[4] = {0, 1, 2, 3};
	te_segment_id first = segment, other;

	(void)state;
	(void)snprintf(name, sizeof(name), "localhost%s",
		       strrchr(te_engine_name(owner), ':'));
	assert_int_equal(te_segment_open(user, name, RIG_WAIT_MS, &other), 0);
	for (uint32_t i = 0; i < 4; i++) {
		segment = i % 2 ? other : first;
		submit_number(batch, &n[i], 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		assert_int_equal(error_of(batch, i), 0);
	}
	expect_numbers(4);
	te_batch_destroy(batch);
}

#define N_DATA 96u

struct ended {
	_Atomic uint32_t n_data, n_early, n_called;
	uint32_t n[3];
};

/* Each message is followed by another one. */
static void on_done(struct te_batch *batch, const struct te_completion *c,
		    void *arg)
{
	struct ended *e = arg;
	uint32_t i = c->index - N_DATA;

	atomic_fetch_add(&e->n_called, 1);
	if (c->index < N_DATA) {
		atomic_fetch_add(&e->n_data, 1);
		return;
	}
	if (c->error || atomic_load(&e->n_data) != N_DATA)
		atomic_fetch_add(&e->n_early, 1);
	if (++i < 3)
		submit_number(batch, &e->n[i], 0);
}

static void urgent_message_overtakes_no_data_of_any_priority(void **state)
{
	struct te_batch *batch = make_batch(N_DATA + 3);
	struct ended e = {.n = {0, 1, 2}};
	struct iovec piece = {local, LEN / N_DATA};
	struct te_request r;

	(void)state;
	assert_int_equal(te_batch_on_done(batch, on_done, &e), 0);
	for (uint32_t i = 0; i < N_DATA; i++) {
		r = rig_request(segment, TE_WRITE, memory + i * piece.iov_len,
				&piece);
		r.priority = i % 3;
		assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	}
	piece = (struct iovec){&e.n[0], sizeof(e.n[0])};
	r = rig_request(segment, TE_NOTIFY, NULL, &piece);
	r.priority = TE_PRIORITY_URGENT;
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(atomic_load(&e.n_early), 0);
	assert_int_equal(atomic_load(&e.n_called), N_DATA + 3);
	assert_memory_equal(memory, local, N_DATA * (LEN / N_DATA));
	expect_numbers(3);
	te_batch_destroy(batch);
}

static void other_batches_hold_nothing_up(void **state)
{
	struct te_batch *stuck = make_batch(1), *batch = make_batch(1);
	uint32_t zero = 0;

	(void)state;
	atomic_store(&fake.stall, true);
	submit(stuck, TE_WRITE, memory, local, LEN, 0);
	submit_number(batch, &zero, 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	expect_numbers(1);
	te_batch_destroy(stuck);
	te_batch_destroy(batch);
}

static void messages_come_in_order(void **state)
{
	enum { N = 2000 };
	struct te_batch *batch = make_batch(N);
	struct taken t = {.want = N};
	static uint32_t n[N];

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		n[i] = i;
		submit_number(batch, &n[i], 0);
	}
	while (te_batch_wait(batch, 1))
		takes(&t);
	takes(&t);
	assert_int_equal(t.n, N);
	assert_int_equal(t.n_wrong, 0);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(error_of(batch, i), 0);
	te_batch_destroy(batch);
}

/* ---- room ---- */

static bool is_held_up(void *arg)
{
	(void)arg;
	return test_stat(owner, "te_notifications_held_up_total", NULL) > 0;
}

static void full_queue_makes_senders_wait(void **state)
{
	struct te_batch *batch = make_batch(12);
	uint32_t n[12];

	(void)state;
	for (uint32_t i = 0; i < 12; i++) {
		n[i] = i;
		submit_number(batch, &n[i], 0);
	}
	assert_true(test_wait_until(is_held_up, NULL, RIG_WAIT_MS));
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	expect_numbers(12);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(error_of(batch, i), 0);
	te_batch_destroy(batch);
}

static void full_queue_holds_up_until_the_deadline(void **state)
{
	struct te_batch *batch = make_batch(9), *late = make_batch(2);
	uint32_t n[11];

	(void)state;
	for (uint32_t i = 0; i < 11; i++)
		n[i] = i;
	for (uint32_t i = 0; i < 8; i++)
		submit_number(batch, &n[i], 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	/* It has been sent, and may arrive; what comes after it has not. */
	submit_number(batch, &n[8], 1000);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(batch, 8), -ETIMEDOUT);
	assert_int_equal(flags_of(batch, 8), 0);
	submit_number(late, &n[10], 100);
	assert_int_equal(te_batch_wait(late, RIG_WAIT_MS), 0);
	assert_int_equal(error_of(late, 0), -ETIMEDOUT);
	assert_int_equal(flags_of(late, 0), TE_REMOTE_QUIET);
	expect_numbers(9);
	submit_number(late, &n[9], 0);
	assert_int_equal(te_batch_wait(late, RIG_WAIT_MS), 0);
	/* Its batch has one that failed before it. */
	assert_int_equal(error_of(late, 1), -ECANCELED);
	te_batch_destroy(batch);
	te_batch_destroy(late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(message_names_its_sender),
		WITH_ENGINES(names_of_one_owner_do_not_share_numbers),
		WITH_ENGINES(message_waits_for_the_data_of_its_batch),
		WITH_ENGINES(message_does_not_follow_data_that_failed),
		WITH_ENGINES(urgent_message_overtakes_no_data_of_any_priority),
		WITH_ENGINES(other_batches_hold_nothing_up),
		WITH_ENGINES(messages_come_in_order),
		WITH_ENGINES(full_queue_makes_senders_wait),
		WITH_ENGINES(full_queue_holds_up_until_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
