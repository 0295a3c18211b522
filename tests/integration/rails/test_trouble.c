/* SPDX-License-Identifier: Apache-2.0 */
/* test_trouble.c - networks that lose a part, and an owner that stands still */
#include <signal.h>
#include <string.h>

#include "tests/integration/rails/hosts.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define SOME 32u /* pieces; loss makes them slow */

static bool loses(struct hosts *h, int network, unsigned int percent)
{
	if (hosts_lose(h, network, percent))
		return true;
	print_message("no filters of classic BPF here\n");
	return false;
}

static void five_percent_loss_costs_no_byte(void **state)
{
	struct hosts *h = *state;

	if (!loses(h, 0, 5) || !loses(h, 1, 5))
		skip();
	hosts_submit(h, SOME);
	hosts_await(h, SOME);
	hosts_expect_bytes(h, SOME);
}

static void lossy_network_beside_a_good_one_costs_no_byte(void **state)
{
	struct hosts *h = *state;

	if (!loses(h, 0, 5))
		skip();
	hosts_submit(h, SOME);
	hosts_await(h, SOME);
	hosts_expect_bytes(h, SOME);
}

static bool is_used_again(void *arg)
{
	struct hosts *h = arg;
	uint64_t before = hosts_sent(h, "rail1");

	hosts_again(h);
	hosts_submit(h, SOME);
	hosts_await(h, SOME);
	return hosts_sent(h, "rail1") > before;
}

static void network_that_was_silent_is_used_again(void **state)
{
	struct hosts *h = *state;

	hosts_submit(h, SOME);
	if (!loses(h, 1, 100))
		skip();
	hosts_await(h, SOME);
	hosts_expect_bytes(h, SOME);
	assert_true(hosts_lose(h, 1, 0));
	assert_true(test_wait_until(is_used_again, h, WAIT_MS));
	hosts_expect_bytes(h, SOME);
}

/* By one network, so there is no other link to see the difference by. */
static void move_by_forgotten_connections(struct hosts *h)
{
	if (!hosts_forget(h, 0))
		skip();
	hosts_again(h);
	hosts_submit(h, N_PIECES);
	hosts_await(h, N_PIECES);
}

static void forgotten_connections_are_made_anew(void **state)
{
	struct hosts *h = *state;

	hosts_set_link(h, 1, true, false);
	hosts_submit(h, SOME);
	hosts_await(h, SOME);
	move_by_forgotten_connections(h);
	hosts_expect_bytes(h, N_PIECES);
}

/* The owner's kernel has acknowledged all of it: what is missing is to come. */
static void forgotten_connections_of_reads_are_made_anew(void **state)
{
	struct hosts *h = *state;
	uint32_t crc = te_crc32c(0, h->local, REGION_LEN);

	hosts_set_link(h, 1, true, false);
	hosts_submit(h, N_PIECES);
	hosts_await(h, N_PIECES);
	memset(h->local, 0, REGION_LEN);
	h->op = TE_READ;
	move_by_forgotten_connections(h);
	assert_int_equal(te_crc32c(0, h->local, REGION_LEN), crc);
}

static bool is_suspected(void *arg)
{
	return hosts_stat(arg, "te_peer_suspects_total", "") > 0;
}

/* Its windows close, and control does not answer: slow is not dead. */
static void owner_that_stands_still_is_waited_for(void **state)
{
	struct hosts *h = *state;

	hosts_submit(h, N_PIECES);
	hosts_await(h, N_PIECES / 8);
	test_process_signal(h->owner, SIGSTOP);
	assert_true(test_wait_until(is_suspected, h, WAIT_MS));
	test_process_signal(h->owner, SIGCONT);
	hosts_await(h, N_PIECES);
	hosts_expect_bytes(h, N_PIECES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOSTS_TEST(five_percent_loss_costs_no_byte),
		HOSTS_TEST(lossy_network_beside_a_good_one_costs_no_byte),
		HOSTS_TEST(network_that_was_silent_is_used_again),
		HOSTS_TEST(forgotten_connections_are_made_anew),
		HOSTS_TEST(forgotten_connections_of_reads_are_made_anew),
		HOSTS_TEST(owner_that_stands_still_is_waited_for),
	};

	return hosts_run(tests);
}
