/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_reroute.c - control connections that go on at another address
 *
 * The rails of the fake backend are at 127.0.0.1, which is the owner's name,
 * and at 127.0.0.2, where the owner listens as well.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/loop.h"
#include "base/net.h"
#include "te/control/control.h"
#include "te/control/inbound.h"
#include "te/core/engine.h"
#include "tests/lib/wait.h"

#define LEN  ((size_t)8 << 20)
#define PART ((size_t)64 << 10)
#include "tests/unit/te/pair.h"

/* A way is left when its link goes, however late answers are. */
static const char *const patient[] = {"connect_timeout", "60s", "reroute_after",
				      "60s", NULL};
static const char *const quick[] = {"connect_timeout", "300ms", "suspect_after",
				    "100ms", NULL};

/* A way is left as late, but who owes something is asked for it soon. */
static const char *const watchful[] = {"connect_timeout",
				       "60s",
				       "reroute_after",
				       "60s",
				       "suspect_after",
				       "100ms",
				       "window",
				       "64k",
				       "slice_max",
				       "64k",
				       NULL};

/* The same where each rail is another worker's. */
static const char *const quick_workers[] = {"connect_timeout",
					    "300ms",
					    "suspect_after",
					    "100ms",
					    "workers",
					    "2",
					    NULL};

static int set_up(void **state)
{
	(void)state;
	return pair_open(patient, LEN);
}

static int set_up_watchful(void **state)
{
	(void)state;
	return pair_open(watchful, LEN);
}

static int set_up_quick(void **state)
{
	(void)state;
	return pair_open(quick, LEN);
}

static int set_up_quick_workers(void **state)
{
	(void)state;
	return pair_open(quick_workers, LEN);
}

static uint64_t n_rerouted(void)
{
	return test_stat(user, "te_control_rerouted_total", NULL);
}

static uint64_t n_visits(void)
{
	return test_stat(owner, "te_visitors_total", NULL);
}

static bool has_visited_again(void *arg)
{
	return n_visits() > *(uint64_t *)arg;
}

static void link_that_goes_takes_control_elsewhere(void **state)
{
	uint64_t visits = n_visits();

	(void)state;
	atomic_store(&fake.down_rail, 0);
	fake_wake();
	assert_true(test_wait_until(has_visited_again, &visits, RIG_WAIT_MS));
	assert_int_equal(te_peer_probe(user, te_engine_name(owner), 0, NULL),
			 0);
	assert_int_equal(n_rerouted(), 1);
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	assert_memory_equal(memory, local, LEN);
	assert_int_equal(test_stat(user, "te_peer_restarts_total", NULL), 0);
}

static void link_of_another_rail_leaves_control_alone(void **state)
{
	(void)state;
	atomic_store(&fake.down_rail, 1);
	fake_wake();
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	assert_int_equal(n_rerouted(), 0);
	assert_int_equal(n_visits(), 1);
}

static bool has_asked_for_a_drop(void *arg)
{
	(void)arg;
	return test_stat(user, "te_endpoint_drops_asked_total", NULL) > 0;
}

/* The answer to the first question can no longer arrive. */
static void drop_is_asked_again_on_the_new_way(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	uint64_t visits = n_visits();
	struct te_completion c;
	struct te_batch *batch;

	(void)state;
	atomic_store(&fake.hold_drop, true);
	atomic_store(&fake.break_after, 1);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_true(test_wait_until(has_asked_for_a_drop, NULL, RIG_WAIT_MS));
	atomic_store(&fake.down_rail, 0);
	fake_wake();
	assert_true(test_wait_until(has_visited_again, &visits, RIG_WAIT_MS));
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_int_equal(c.error, 0);
	assert_memory_equal(memory, local, LEN);
	assert_true(n_rerouted() >= 1);
	te_batch_destroy(batch);
}

/* Requests of one cohort: one has ended when the rest goes to a worker. */
static void what_has_ended_is_not_done_again_elsewhere(void **state)
{
	struct iovec pieces[2] = {{local, 4096}, {local + LEN / 2, LEN / 2}};
	struct te_request requests[2];
	struct te_completion c[2];
	struct te_batch *batch;

	(void)state;
	for (int i = 0; i < 2; i++)
		requests[i] =
			rig_request(segment, TE_WRITE,
				    memory + (size_t)i * LEN / 2, &pieces[i]);
	atomic_store(&fake.break_rail, 0);
	atomic_store(&fake.break_after, 1);
	assert_int_equal(te_batch_create(user, 2, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, 2), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, c, 2), 2);
	assert_int_equal(c[0].error, 0);
	assert_int_equal(c[1].error, 0);
	assert_int_equal(c[0].index + c[1].index, 1);
	assert_int_equal(test_stat(user, "te_request_bytes_total", "write"),
			 4096 + LEN / 2);
	assert_true(atomic_load(&fake.done[1]) > 0);
	/* Nor is it waiting for that when its place has another request. */
	for (int i = 0; i < 4; i++) {
		assert_int_equal(te_batch_reset(batch), 0);
		assert_int_equal(te_batch_submit(batch, requests, 2), 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	}
	te_batch_destroy(batch);
}

/* Epoch and groups hold on the new connection as they did on the old one. */
static void revocation_reaches_the_peer_on_its_new_way(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];
	uint64_t epoch = 0, since, visits = n_visits();

	(void)state;
	te_engine_incarnation(user, who);
	assert_int_equal(te_peer_revoke(owner, who, 0), 0);
	atomic_store(&fake.down_rail, 0);
	fake_wake();
	assert_true(test_wait_until(has_visited_again, &visits, RIG_WAIT_MS));
	assert_int_equal(te_peer_revoke(owner, who, 0), 0);
	while (epoch != 3)
		assert_int_equal(
			te_segment_epoch(user, segment, &epoch, &since), 0);
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
}

static bool has_one_up(void *arg)
{
	(void)arg;
	return test_stat(user, "te_endpoints_up_total", NULL) > 0;
}

static bool has_another_up(void *arg)
{
	(void)arg;
	return test_stat(user, "te_endpoints_up_total", NULL) > 1;
}

/* Only rail "b" works; what it has been given does not move. */
static struct te_batch *stall_on_b(void)
{
	struct iovec piece = {local, PART};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	struct te_batch *batch;

	r.timeout_ms = 10 * RIG_WAIT_MS;
	atomic_store(&fake.dead, 5);
	atomic_store(&fake.stall, true);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_true(test_wait_until(has_one_up, NULL, RIG_WAIT_MS));
	return batch;
}

/* The connection that would have been told of it has ended before. */
static void half_lost_after_a_change_of_ways_is_replaced(void **state)
{
	struct te_batch *batch = stall_on_b();
	uint64_t visits = n_visits();
	struct te_completion c;

	(void)state;
	atomic_store(&fake.down_rail, 0);
	fake_wake();
	assert_true(test_wait_until(has_visited_again, &visits, RIG_WAIT_MS));
	assert_int_equal(te_peer_probe(user, te_engine_name(owner), 0, NULL),
			 0);
	atomic_store(&fake.lose_rail, 1);
	atomic_store(&fake.lose_targets, 1);
	fake_wake();
	assert_true(test_wait_until(has_another_up, NULL, RIG_WAIT_MS));
	atomic_store(&fake.stall, false);
	fake_wake();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_int_equal(c.error, 0);
	assert_memory_equal(memory, local, PART);
	te_batch_destroy(batch);
}

/* ---- halves that nobody answered for ---- */

static void add_links(struct tei_hash_node *node, void *arg)
{
	*(uint32_t *)arg +=
		TEI_CONTAINER(node, struct tei_inbound_peer, node)->n_links;
}

static void count_links(void *arg)
{
	size_t cursor = 0;

	while (tei_hash_walk(&owner->control->inbound.table, &cursor, 1024,
			     add_links, arg))
		;
}

static void nothing(void *arg)
{
	(void)arg;
}

static bool has_so_many_halves(void *arg)
{
	uint32_t n = 0;

	assert_true(tei_loop_do(owner->loop, count_links, &n));
	return n <= *(const uint32_t *)arg;
}

static bool is_opening(void *arg)
{
	(void)arg;
	return atomic_load(&fake.opening) > 0;
}

/* The owner has been asked for halves, and does not answer yet. */
static struct te_batch *ask_for_halves(void)
{
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	struct te_batch *batch;

	r.timeout_ms = RIG_WAIT_MS;
	atomic_store(&fake.dead, 4);
	atomic_store(&fake.hold_open, true);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_true(test_wait_until(is_opening, NULL, RIG_WAIT_MS));
	return batch;
}

/* At last the owner has @most halves. */
static void go_on(struct te_batch *batch, uint32_t most)
{
	struct te_completion c;

	atomic_store(&fake.hold_open, false);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_int_equal(c.error, 0);
	te_batch_destroy(batch);
	assert_true(test_wait_until(has_so_many_halves, &most, RIG_WAIT_MS));
}

/* The user has given the answers up when they come. */
static void halves_that_are_made_too_late_are_dropped(void **state)
{
	struct te_batch *batch = ask_for_halves();

	(void)state;
	assert_true(test_wait_until(has_asked_for_a_drop, NULL, RIG_WAIT_MS));
	go_on(batch, 2);
}

static _Atomic bool stopped;

static bool goes_on(void *arg)
{
	(void)arg;
	return !atomic_load(&stopped);
}

static void stand_still(void *arg)
{
	(void)arg;
	assert_true(test_wait_until(goes_on, NULL, RIG_WAIT_MS));
}

static void *stop_owner(void *arg)
{
	(void)arg;
	assert_true(tei_loop_do(owner->loop, stand_still, NULL));
	return NULL;
}

static bool has_lost_control(void *arg)
{
	(void)arg;
	(void)te_peer_probe(user, te_engine_name(owner), 100, NULL);
	return test_stat(user, "te_control_failed_total", NULL) > 0;
}

/* Nobody waits for that drop, so it is asked for with the next connection. */
static void drop_outlasts_a_lost_connection(void **state)
{
	uint32_t n_up, most;
	pthread_t thread;

	(void)state;
	assert_int_equal(te_segment_warm_up(user, segment, RIG_WAIT_MS, &n_up),
			 0);
	most = n_up - 1;
	atomic_store(&stopped, true);
	assert_int_equal(pthread_create(&thread, NULL, stop_owner, NULL), 0);
	assert_true(test_wait_until(has_lost_control, NULL, RIG_WAIT_MS));
	atomic_store(&fake.break_after, 0);
	assert_int_equal(rig_move(user, segment, TE_READ, memory, local, LEN),
			 0);
	assert_true(test_wait_until(has_asked_for_a_drop, NULL, RIG_WAIT_MS));
	assert_true(tei_loop_do(user->loop, nothing, NULL));
	atomic_store(&stopped, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(
		te_peer_probe(user, te_engine_name(owner), RIG_WAIT_MS, NULL),
		0);
	assert_true(test_wait_until(has_so_many_halves, &most, RIG_WAIT_MS));
}

static int silent_port(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(port)};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 64), 0);
	return fd;
}

static struct te_engine *engine_at(const char *bind_to, uint16_t port)
{
	char name[TEI_NAME_LEN_MAX + 1];
	struct te_config *config;
	struct te_engine *engine;

	tei_name_join(bind_to, port, name);
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "bind", bind_to, NULL, 0), 0);
	assert_int_equal(te_engine_create(config, name, &engine), 0);
	te_config_destroy(config);
	return engine;
}

static bool has_inbound(void *arg)
{
	return test_stat(arg, "te_visitors_total", NULL) > 0;
}

/* Nobody takes a peer's place but where the peer's name leads. */
static void stranger_at_another_address_is_no_restart(void **state)
{
	uint8_t before[TE_INCARNATION_LEN], after[TE_INCARNATION_LEN];
	char host[TEI_HOST_LEN_MAX + 1], name[TEI_NAME_LEN_MAX + 1];
	struct te_engine *stranger;
	uint16_t port;
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "%s", te_engine_name(owner));
	assert_int_equal(tei_name_split(name, host, &port), 0);
	assert_int_equal(te_segment_incarnation(user, segment, before), 0);
	te_engine_destroy(owner);
	owner = NULL;
	fd = silent_port(port);
	stranger = engine_at("127.0.0.2", port);
	assert_int_equal(te_peer_probe(user, name, 1500, NULL), -ETIMEDOUT);
	assert_true(test_wait_until(has_inbound, stranger, RIG_WAIT_MS));
	assert_int_equal(test_stat(user, "te_peer_restarts_total", NULL), 0);
	assert_int_equal(te_segment_incarnation(user, segment, after), 0);
	assert_memory_equal(before, after, TE_INCARNATION_LEN);
	close(fd);
	te_engine_destroy(stranger);
}

#define WITH_ENGINES(test) \
	cmocka_unit_test_setup_teardown(test, set_up, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(link_that_goes_takes_control_elsewhere),
		WITH_ENGINES(link_of_another_rail_leaves_control_alone),
		WITH_ENGINES(drop_is_asked_again_on_the_new_way),
		WITH_ENGINES(revocation_reaches_the_peer_on_its_new_way),
		cmocka_unit_test_setup_teardown(
			half_lost_after_a_change_of_ways_is_replaced,
			set_up_watchful, pair_close),
		cmocka_unit_test_setup_teardown(drop_outlasts_a_lost_connection,
						set_up_quick, pair_close),
		cmocka_unit_test_setup_teardown(drop_outlasts_a_lost_connection,
						set_up_quick_workers,
						pair_close),
		cmocka_unit_test_setup_teardown(
			what_has_ended_is_not_done_again_elsewhere,
			set_up_quick_workers, pair_close),
		cmocka_unit_test_setup_teardown(
			halves_that_are_made_too_late_are_dropped, set_up_quick,
			pair_close),
		cmocka_unit_test_setup_teardown(
			stranger_at_another_address_is_no_restart, set_up_quick,
			pair_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
