/* SPDX-License-Identifier: Apache-2.0 */
/* one.h - two quick engines by fake rails, and one request at a time */
#ifndef TESTS_UNIT_TE_ONE_H
#define TESTS_UNIT_TE_ONE_H

#include "tests/lib/wait.h"

#define LEN ((size_t)8 << 20)
#include "tests/unit/te/pair.h"

static inline int set_up(void **state)
{
	static const char *const quick[] = {"connect_timeout", "300ms",
					    "suspect_after", "100ms", NULL};

	(void)state;
	(void)pair_open(quick, LEN);
	rig_fill(local, LEN);
	return 0;
}

static inline struct te_completion run(uint32_t op, size_t len,
				       uint32_t timeout_ms, uint32_t flags)
{
	struct iovec piece = {local, len};
	struct te_request r = rig_request(segment, op, memory, &piece);

	r.timeout_ms = timeout_ms;
	r.flags = flags;
	return rig_run(user, &r);
}

static inline struct te_batch *start_as(uint32_t op, size_t len,
					uint32_t timeout_ms, uint32_t flags)
{
	struct iovec piece = {local, len};
	struct te_request r = rig_request(segment, op, memory, &piece);
	struct te_batch *batch;

	r.timeout_ms = timeout_ms;
	r.flags = flags;
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	return batch;
}

static inline struct te_batch *start(uint32_t op, size_t len,
				     uint32_t timeout_ms)
{
	return start_as(op, len, timeout_ms, 0);
}

static inline bool is_posted(void *arg)
{
	(void)arg;
	return test_stat(user, "te_slices_total", NULL) > 0;
}

/* A whole one, and on its way. */
static inline struct te_batch *start_stalled(uint32_t op, uint32_t timeout_ms)
{
	struct te_batch *batch = start(op, LEN, timeout_ms);

	assert_true(test_wait_until(is_posted, NULL, RIG_WAIT_MS));
	return batch;
}

#define WITH_ENGINES(test) \
	cmocka_unit_test_setup_teardown(test, set_up, pair_close)

#endif
