/* SPDX-License-Identifier: Apache-2.0 */
/* test_still.c - an owner that reads nothing from any of its networks */
#include <errno.h>

#include "base/clock.h"
#include "tests/integration/rails/hosts.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define STILL_MS 10000
#define FEW      8u /* pieces, by which the networks become known */

static bool is_over(void *arg)
{
	return tei_now_ms() >= *(const uint64_t *)arg;
}

static uint64_t given_up(struct hosts *h)
{
	return hosts_stat(h, "te_endpoints_given_up_total", "silent");
}

/*
 * It answers over control, and its windows close. One network may seem to move
 * a little longer than the other, which is given up for it; no more than that.
 */
static void owner_that_reads_nothing_for_ten_seconds_is_waited_for(void **state)
{
	struct hosts *h = *state;
	uint64_t end, before;

	hosts_submit(h, FEW);
	hosts_await(h, FEW);
	hosts_again(h);
	hosts_toggle(h);
	before = given_up(h);
	hosts_submit(h, N_PIECES);
	end = tei_now_ms() + STILL_MS;
	assert_true(test_wait_until(is_over, &end, WAIT_MS));
	assert_int_equal(te_batch_wait(h->batch, 0), -ETIMEDOUT);
	assert_true(hosts_stat(h, "te_peer_suspects_total", "") > 0);
	assert_in_range(given_up(h), before, before + 1);
	hosts_toggle(h);
	hosts_await(h, N_PIECES);
	hosts_expect_bytes(h, N_PIECES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			owner_that_reads_nothing_for_ten_seconds_is_waited_for,
			hosts_set_up_driven, hosts_tear_down),
	};

	return hosts_run(tests);
}
