/* SPDX-License-Identifier: Apache-2.0 */
/* test_networks.c - networks that go down, come back, or fall silent */
#include "tests/integration/rails/hosts.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define REROUTED "te_control_rerouted_total"

static void both_networks_carry_their_share(void **state)
{
	struct hosts *h = *state;
	uint64_t fast, slow;

	hosts_submit(h, N_PIECES);
	hosts_finish(h);
	fast = hosts_sent(h, "rail0");
	slow = hosts_sent(h, "rail1");
	assert_true(fast + slow >= REGION_LEN);
	/* 2 : 1 when nothing else runs; never one alone. */
	assert_true(slow > REGION_LEN / 16 && fast > REGION_LEN / 16);
}

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

/* The control connection goes over it as well: it is the owner's name. */
static void first_network_may_go_down_too(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_set_link(h, 0, true, false);
	hosts_finish(h);
	assert_true(hosts_stat(h, REROUTED, "") > 0);
	hosts_set_link(h, 0, true, true);
	hosts_await_use(h, "rail0");
	hosts_expect_bytes(h, N_PIECES);
}

static void link_that_goes_down_at_the_owner_costs_no_byte(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_set_link(h, 0, false, false);
	hosts_finish(h);
	hosts_set_link(h, 0, false, true);
	hosts_await_use(h, "rail0");
	hosts_expect_bytes(h, N_PIECES);
}

/* The new ones have other numbers, but the addresses are the same. */
static void interfaces_that_are_removed_may_come_back(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_remove(1);
	hosts_finish(h);
	hosts_join(h, 1);
	hosts_await_use(h, "rail1");
	hosts_expect_bytes(h, N_PIECES);
}

/* Requests have their deadlines, so they wait for a network. */
static void no_network_at_all_is_waited_out(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_set_link(h, 0, true, false);
	hosts_set_link(h, 1, true, false);
	hosts_set_link(h, 1, true, true);
	hosts_finish(h);
}

static void silent_network_costs_no_byte(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_silence(1);
	hosts_finish(h);
}

/* Where half a second is too short for an answer it goes to and fro. */
static bool is_answered_where_it_is(void *arg)
{
	struct hosts *h = arg;
	uint64_t before = hosts_stat(h, REROUTED, "");

	assert_int_equal(te_peer_probe(h->engine, h->name, WAIT_MS, NULL), 0);
	return hosts_stat(h, REROUTED, "") == before;
}

static void control_leaves_a_network_that_is_silent(void **state)
{
	struct hosts *h = *state;

	assert_int_equal(te_peer_probe(h->engine, h->name, WAIT_MS, NULL), 0);
	hosts_silence(0);
	assert_int_equal(te_peer_probe(h->engine, h->name, WAIT_MS, NULL), 0);
	assert_true(hosts_stat(h, REROUTED, "") > 0);
	assert_true(test_wait_until(is_answered_where_it_is, h, WAIT_MS));
}

static void silent_network_that_control_uses_costs_no_byte(void **state)
{
	struct hosts *h = *state;

	hosts_begin(h);
	hosts_silence(0);
	hosts_finish(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOSTS_TEST(both_networks_carry_their_share),
		HOSTS_TEST(link_that_goes_down_costs_no_byte_and_comes_back),
		HOSTS_TEST(first_network_may_go_down_too),
		HOSTS_TEST(link_that_goes_down_at_the_owner_costs_no_byte),
		HOSTS_TEST(interfaces_that_are_removed_may_come_back),
		HOSTS_TEST(no_network_at_all_is_waited_out),
		HOSTS_TEST(silent_network_costs_no_byte),
		HOSTS_TEST(control_leaves_a_network_that_is_silent),
		HOSTS_TEST(silent_network_that_control_uses_costs_no_byte),
	};

	return hosts_run(tests);
}
