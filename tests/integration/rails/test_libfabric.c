/* SPDX-License-Identifier: Apache-2.0 */
/* test_libfabric.c - networks that go down under libfabric's provider tcp */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/rails/hosts.h"
#include "tests/lib/libfabric.h"
#include "tests/lib/test.h"

#define DEADLINE_MS 2000

static void link_that_goes_down_costs_no_byte_and_comes_back(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_set_link(h, 1, true, false);
	hosts_finish(h);
	hosts_set_link(h, 1, true, true);
	hosts_await_use(h, "rail1");
	hosts_expect_bytes(h, N_PIECES);
}

static void link_that_goes_down_at_the_owner_costs_no_byte(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_set_link(h, 1, false, false);
	hosts_finish(h);
	hosts_set_link(h, 1, false, true);
	hosts_await_use(h, "rail1");
	hosts_expect_bytes(h, N_PIECES);
}

static void silent_network_costs_no_byte(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_silence(1);
	hosts_finish(h);
}

/* One request with a deadline of its own; what it ended with. */
static int carry_one(struct hosts *h)
{
	struct iovec piece = {h->local, PIECE};
	struct te_request req = {.op = TE_WRITE,
				 .segment = h->segment,
				 .remote = h->remote,
				 .pieces = &piece,
				 .n_pieces = 1,
				 .timeout_ms = DEADLINE_MS};
	struct te_completion done;

	assert_int_equal(te_batch_submit(h->batch, &req, 1), 0);
	assert_int_equal(te_batch_wait(h->batch, WAIT_MS), 0);
	assert_int_equal(te_batch_result(h->batch, 0, &done), 0);
	assert_int_equal(te_batch_reset(h->batch), 0);
	return done.error;
}

static void without_a_network_requests_fail_and_then_go_on(void **state)
{
	struct hosts *h = *state;
	uint64_t until = tei_now_ms() + WAIT_MS;
	int rc;

	assert_int_equal(carry_one(h), 0);
	hosts_set_link(h, 0, true, false);
	hosts_set_link(h, 1, true, false);
	rc = carry_one(h);
	assert_true(rc < 0);
	hosts_set_link(h, 0, true, true);
	hosts_set_link(h, 1, true, true);
	while (carry_one(h))
		assert_true(tei_now_ms() < until);
	hosts_expect_bytes(h, 1);
}

/* Asked by a child: the library's threads would keep us out of a namespace. */
static bool has_tcp(void)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child)
		_exit(test_libfabric_has("tcp") ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOSTS_TEST(link_that_goes_down_costs_no_byte_and_comes_back),
		HOSTS_TEST(link_that_goes_down_at_the_owner_costs_no_byte),
		HOSTS_TEST(silent_network_costs_no_byte),
		HOSTS_TEST(without_a_network_requests_fail_and_then_go_on),
	};

	if (!has_tcp()) {
		puts("skipped: libfabric has no provider tcp here");
		return 77;
	}
	hosts_backend = "ofi";
	return hosts_run(tests);
}
