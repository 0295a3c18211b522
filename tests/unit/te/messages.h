/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h - two engines over the fake backend, and numbers as messages
 *
 * Its rail "a" at 127.0.0.1 takes the control connection with it when it goes
 * down.
 */
#ifndef TESTS_UNIT_TE_MESSAGES_H
#define TESTS_UNIT_TE_MESSAGES_H

#include "tests/lib/wait.h"

#define LEN ((size_t)1 << 20)
#include "tests/unit/te/pair.h"

static const char *const quick[] = {"connect_timeout",
				    "300ms",
				    "suspect_after",
				    "100ms",
				    "notify_queue",
				    "8",
				    NULL};

static inline int set_up(void **state)
{
	(void)state;
	return pair_open(quick, LEN);
}

static inline struct te_batch *make_batch(uint32_t capacity)
{
	struct te_batch *batch;

	assert_int_equal(te_batch_create(user, capacity, &batch), 0);
	return batch;
}

static inline void submit(struct te_batch *batch, uint32_t op,
			  const void *remote, void *bytes, size_t len,
			  uint32_t timeout_ms)
{
	struct iovec piece = {bytes, len};
	struct te_request r = rig_request(segment, op, remote, &piece);

	r.timeout_ms = timeout_ms;
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
}

/* Messages are numbers. */
static inline void submit_number(struct te_batch *batch, uint32_t *number,
				 uint32_t timeout_ms)
{
	submit(batch, TE_NOTIFY, NULL, number, sizeof(*number), timeout_ms);
}

static inline int error_of(struct te_batch *batch, uint32_t index)
{
	struct te_completion c;

	assert_int_equal(te_batch_result(batch, index, &c), 0);
	return c.error;
}

static inline uint32_t flags_of(struct te_batch *batch, uint32_t index)
{
	struct te_completion c;

	assert_int_equal(te_batch_result(batch, index, &c), 0);
	return c.flags;
}

struct taken {
	uint32_t want, n, n_wrong;
};

/* All that is there; each must be the next number. */
static inline bool takes(void *arg)
{
	struct taken *t = arg;
	struct te_notify message;
	uint32_t number;

	while (!te_notify_take(owner, &message)) {
		memcpy(&number, message.bytes, sizeof(number));
		if (message.length != sizeof(number) || number != t->n)
			t->n_wrong++;
		t->n++;
		te_notify_free(&message);
	}
	return t->n >= t->want;
}

static inline void expect_numbers(uint32_t n)
{
	struct taken t = {.want = n};

	assert_true(test_wait_until(takes, &t, RIG_WAIT_MS));
	assert_int_equal(t.n, n);
	assert_int_equal(t.n_wrong, 0);
}

#define WITH_ENGINES(test) \
	cmocka_unit_test_setup_teardown(test, set_up, pair_close)

#endif
