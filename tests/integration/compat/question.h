/* SPDX-License-Identifier: Apache-2.0 */
/* question.h - how one transfer of a batch stands, for test_wait_until() */
#ifndef TESTS_INTEGRATION_COMPAT_QUESTION_H
#define TESTS_INTEGRATION_COMPAT_QUESTION_H

#include <stdbool.h>
#include <stddef.h>

#include "compat/transfer_engine_c.h"
#include "tests/lib/test.h"

struct question {
	transfer_engine_t engine;
	batch_id_t batch;
	size_t task;
	struct transfer_status status; /* the answer */
};

static inline bool has_ended(void *arg)
{
	struct question *q = arg;

	assert_int_equal(
		getTransferStatus(q->engine, q->batch, q->task, &q->status), 0);
	return q->status.status != STATUS_WAITING;
}

#endif
