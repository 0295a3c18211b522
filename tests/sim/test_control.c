/* SPDX-License-Identifier: Apache-2.0 */
/* test_control.c - an owner whose control port refuses, while its rail works */
#include <errno.h>

#include "te/control/control.h"
#include "te/core/engine.h"
#include "tests/lib/stat.h"
#include "tests/sim/world.h"

#define MS(n) ((uint64_t)(n)*1000000)
#define PLACE ((size_t)1 << 20)
#define N     4 /* places, 84 ms each */

struct stream {
	struct te_batch *batch;
	struct te_request requests[N];
	struct iovec pieces[N];
};

static void start(struct world *w, struct stream *s)
{
	const struct world_config config = {
		.rails = "100m:20us:1us", .seed = 1, .place = PLACE};

	world_open(w, &config);
	for (uint32_t i = 0; i < N; i++) {
		s->requests[i] =
			world_request(w, TE_WRITE, i, &s->pieces[i], PLACE);
		s->requests[i].flags = TE_FAIL_FAST;
		world_fill(s->pieces[i].iov_base, PLACE, i, 1);
	}
	assert_int_equal(te_batch_create(w->user, N, &s->batch), 0);
	assert_int_equal(te_batch_submit(s->batch, s->requests, N), 0);
	world_pass(w, MS(5));
	assert_int_equal(test_stat(w->user, "te_endpoints_up_total", NULL), 1);
}

static void close_control(void *engine)
{
	tei_control_close(engine);
}

/* It hangs up, and refuses the first one to come. */
static void refuse_once(struct world *w)
{
	const uint64_t failures = 2;

	assert_true(tei_loop_do(w->owner->loop, close_control, w->owner));
	while (test_stat(w->user, "te_control_failed_total", NULL) < failures)
		world_pass(w, MS(1));
	assert_int_equal(test_stat(w->user, "te_control_failed_total", NULL),
			 failures);
}

static int error_of(const struct stream *s, uint32_t i)
{
	struct te_completion c;

	assert_int_equal(te_batch_result(s->batch, i, &c), 0);
	return c.error;
}

static void one_refusal_ends_no_endpoint_that_works(void **state)
{
	struct stream s;
	struct world w;

	(void)state;
	start(&w, &s);
	refuse_once(&w);
	assert_int_equal(tei_control_listen(w.owner, w.owner->port), 0);
	assert_int_equal(te_batch_wait(s.batch, UINT32_MAX), 0);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(error_of(&s, i), 0);
		assert_true(world_is(w.memory + i * PLACE, PLACE, i, 1));
	}
	assert_int_equal(test_stat(w.user, "te_endpoints_down_total", NULL), 0);
	te_batch_destroy(s.batch);
	world_close(&w);
}

static void refusals_that_go_on_end_it_soon(void **state)
{
	struct stream s;
	uint64_t from;
	struct world w;

	(void)state;
	start(&w, &s);
	refuse_once(&w);
	from = world_now(&w);
	assert_int_equal(te_batch_wait(s.batch, UINT32_MAX), 0);
	assert_in_range(world_now(&w) - from, 0, MS(200));
	assert_int_equal(error_of(&s, N - 1), -ECONNREFUSED);
	te_batch_destroy(s.batch);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_refusal_ends_no_endpoint_that_works),
		cmocka_unit_test(refusals_that_go_on_end_it_soon),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
