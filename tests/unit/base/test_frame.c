/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame.c - connections and calls between peers that mean well */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/frame_private.h"
#include "base/mem.h"
#include "frame_peer.h"
#include "tests/lib/faults.h"

static void connect_up(void)
{
	assert_int_equal(client_connect(port), 0);
	assert_int_equal(client.n_up, 0);
	pump_until(int_is_set, &client.n_up);
}

static void call_gets_its_answer_and_ids_start_at_1(void **state)
{
	struct asked a = {0}, b = {0};

	(void)state;
	connect_up();
	assert_int_equal(client_ask(&a, ECHO, 100, SOON_MS), 0);
	assert_int_equal(client_ask(&b, ECHO, 0, SOON_MS), 0);
	assert_int_equal(a.call.id, 1);
	assert_int_equal(b.call.id, 2);
	assert_int_equal(a.n_done, 0);
	pump_until(int_is_set, &b.n_done);
	assert_int_equal(a.n_done, 1);
	assert_int_equal(a.err, 0);
	assert_int_equal(a.len, 100);
	assert_int_equal(b.len, 0);
	assert_int_equal(client.n_frames, 0); /* answers are no frames */
}

static void frames_sent_before_up_go_out_once_connected(void **state)
{
	struct asked a = {0};

	(void)state;
	assert_int_equal(client_connect(port), 0);
	assert_int_equal(client_send(SILENT, 0, 10), 0);
	assert_int_equal(client_ask(&a, ECHO, 10, SOON_MS), 0);
	assert_true(tei_frame_backlog(client.conn) > 0);
	pump_until(int_is_set, &a.n_done);
	assert_int_equal(server.n_frames, 2);
	assert_int_equal(tei_frame_backlog(client.conn), 0);
}

/* Small ones, which come in one read, and large ones. */
static void frames_wait_until_their_user_is_ready(void **state)
{
	static const size_t lens[] = {10, 0, 300000, 10};
	struct asked a[TEST_COUNT(lens)];

	(void)state;
	memset(a, 0, sizeof(a));
	connect_up();
	server.busy = true;
	for (size_t i = 0; i < TEST_COUNT(lens); i++)
		assert_int_equal(client_ask(&a[i], ECHO, lens[i], SOON_MS), 0);
	pump_until(int_is_set, &server.n_asked);
	pump();
	assert_int_equal(server.n_frames, 0);
	assert_int_equal(server.n_asked, 1);
	/* One at a time. */
	tei_frame_resume(server.conn);
	assert_int_equal(server.n_frames, 1);
	pump_until(int_is_set, &a[0].n_done);
	assert_int_equal(server.n_frames, 1);
	/* And then as ever. */
	server.busy = false;
	tei_frame_resume(server.conn);
	pump_until(int_is_set, &a[TEST_COUNT(lens) - 1].n_done);
	for (size_t i = 0; i < TEST_COUNT(lens); i++)
		assert_int_equal(a[i].len, lens[i]);
	tei_frame_resume(server.conn);
	assert_int_equal(server.n_frames, TEST_COUNT(lens));
}

static void the_memory_of_a_body_can_be_taken(void **state)
{
	struct asked a = {0}, b = {0};

	(void)state;
	connect_up();
	server.takes = true;
	assert_int_equal(client_ask(&a, ECHO, 100000, SOON_MS), 0);
	pump_until(int_is_set, &a.n_done);
	assert_int_equal(a.len, 100000);
	assert_non_null(server.taken);
	tei_free(server.taken);
	/* This one has no memory of its own. */
	assert_int_equal(client_ask(&b, ECHO, 10, SOON_MS), 0);
	pump_until(int_is_set, &b.n_done);
	assert_null(server.taken);
}

/* Nothing is left of a frame that nobody has taken. */
static void a_connection_may_end_while_a_frame_waits(void **state)
{
	struct asked a = {0};

	(void)state;
	connect_up();
	server.busy = true;
	assert_int_equal(client_ask(&a, ECHO, 1000, SOON_MS), 0);
	pump_until(int_is_set, &server.n_asked);
	tei_frame_close(server.conn);
	server.conn = NULL;
	server.n_closed++;
	pump_until(int_is_set, &a.n_done);
	assert_int_not_equal(a.err, 0);
	assert_int_equal(server.n_frames, 0);
}

static bool two_have_come(void *arg)
{
	(void)arg;
	return server.n_frames == 2;
}

static void lazy_pushes_go_with_the_next_message_or_when_hurried(void **state)
{
	(void)state;
	connect_up();
	assert_int_equal(tei_frame_send_lazily(client.conn, SILENT, NULL), 0);
	pump();
	assert_int_equal(server.n_frames, 0);
	assert_int_equal(tei_frame_backlog(client.conn), TEI_FRAME_HEADER_LEN);
	assert_int_equal(client_send(SILENT, 0, 10), 0);
	pump_until(two_have_come, NULL);
	server.n_frames = 0;
	assert_int_equal(tei_frame_send_lazily(client.conn, SILENT, NULL), 0);
	tei_frame_hurry(client.conn);
	assert_int_equal(tei_frame_backlog(client.conn), 0);
	pump_until(int_is_set, &server.n_frames);
	assert_int_equal(server.n_frames, 1);
}

static bool has_frames(void *arg)
{
	return server.n_frames == *(const int *)arg;
}

static void await_frames(int n)
{
	pump_until(has_frames, &n);
}

/* Loopback: what has been sent is there. */
static void what_is_below_the_low_water_stays_until_it_is_read(void **state)
{
	(void)state;
	connect_up();
	assert_int_equal(client_send(SILENT, 0, 10), 0);
	await_frames(1);
	tei_frame_low_water(server.conn, 1000);
	assert_int_equal(client_send(SILENT, 0, 10), 0);
	for (int i = 0; i < 10; i++)
		pump();
	assert_int_equal(server.n_frames, 1);
	assert_false(tei_frame_read(server.conn));
	assert_int_equal(server.n_frames, 2);
	assert_int_equal(client_send(SILENT, 0, 1000), 0);
	await_frames(3);
	assert_int_equal(client_send(SILENT, 0, 10), 0);
	tei_frame_low_water(server.conn, 1);
	await_frames(4);
}

static void leave_unread_and_close(bool reset)
{
	struct linger now = {1, 0};

	connect_up();
	assert_int_equal(client_send(SILENT, 0, 10), 0);
	await_frames(1);
	tei_frame_low_water(server.conn, 1000);
	assert_int_equal(client_send(SILENT, 0, 10), 0);
	if (reset)
		assert_int_equal(setsockopt(client.conn->fd, SOL_SOCKET,
					    SO_LINGER, &now, sizeof(now)),
				 0);
	tei_frame_close(client.conn);
	client.conn = NULL;
	pump_until(int_is_set, &server.n_down);
	assert_int_equal(server.n_frames, 2);
}

static void what_is_unread_is_delivered_when_the_peer_closes(void **state)
{
	(void)state;
	leave_unread_and_close(false);
}

/* As the kernel does for a process that is killed with input unread. */
static void what_is_unread_is_delivered_when_the_peer_resets(void **state)
{
	(void)state;
	leave_unread_and_close(true);
}

static void large_bodies_arrive_whole_in_both_directions(void **state)
{
	struct asked a = {0}, b = {0}, c = {0};

	(void)state;
	connect_up();
	assert_int_equal(client_ask(&a, ECHO, CAP_BIG - 100, SOON_MS), 0);
	assert_int_equal(client_ask(&b, ECHO, 70000, SOON_MS), 0);
	assert_int_equal(client_ask(&c, BIG, 1, SOON_MS), 0);
	pump_until(int_is_set, &c.n_done);
	assert_int_equal(a.len, CAP_BIG - 100);
	assert_int_equal(b.len, 70000);
	assert_int_equal(c.len, BIG_LEN);
}

static void body_above_the_cap_is_not_sent(void **state)
{
	struct asked a = {0};

	(void)state;
	connect_up();
	assert_int_equal(client_send(SILENT, 0, 1024), -EMSGSIZE);
	assert_int_equal(client_send(N_KINDS, 0, 1), -EMSGSIZE);
	assert_int_equal(client_ask(&a, 99, 1, SOON_MS), -EMSGSIZE);
	pump();
	assert_int_equal(a.n_done, 0);
	assert_int_equal(client.n_down, 0);
}

static void
silent_peer_costs_the_timeout_and_a_late_answer_nothing(void **state)
{
	struct asked late = {0}, next = {0}, taken_back = {0};

	(void)state;
	connect_up();
	assert_int_equal(client_ask(&late, SILENT, 1, 5), 0);
	assert_int_equal(client_ask(&taken_back, SILENT, 1, 5), 0);
	tei_frame_call_cancel(client.conn, &taken_back.call);
	pump_until(int_is_set, &late.n_done);
	assert_int_equal(late.err, -ETIMEDOUT);
	assert_int_equal(taken_back.n_done, 0);
	assert_int_equal(client_ask(&next, ECHO, 7, SOON_MS), 0);
	/* The ids of both calls are answered now, before next's. */
	for (uint64_t id = 1; id <= 2; id++) {
		struct tei_frame to = {.type = SILENT, .id = id};

		assert_int_equal(tei_frame_reply(server.conn, &to, NULL), 0);
	}
	pump_until(int_is_set, &next.n_done);
	assert_int_equal(next.len, 7);
	assert_int_equal(late.n_done, 1);
	assert_int_equal(taken_back.n_done, 0);
	assert_int_equal(client.n_down, 0);
}

static void calls_end_before_down_when_the_peer_closes(void **state)
{
	struct asked a[50] = {0}, after = {0};

	(void)state;
	connect_up();
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(client_ask(&a[i], SILENT, 1, SOON_MS), 0);
	a[20].close = true; /* no down() then, but the rest is answered */
	assert_int_equal(client_ask(&after, CLOSE, 1, SOON_MS), 0);
	pump_until(int_is_set, &after.n_done);
	for (size_t i = 0; i < 50; i++) {
		assert_int_equal(a[i].n_done, 1);
		assert_int_equal(a[i].err, i <= 20 ? -ECONNRESET : -ECANCELED);
	}
	assert_int_equal(client.n_down, 0);
	assert_null(client.conn);
}

static void down_follows_the_calls_errors(void **state)
{
	struct asked a = {0};

	(void)state;
	connect_up();
	assert_int_equal(client_ask(&a, CLOSE, 1, SOON_MS), 0);
	pump_until(int_is_set, &client.n_down);
	assert_int_equal(a.err, -ECONNRESET);
	assert_int_equal(client.err, -ECONNRESET);
	assert_string_equal(client.text, "");
}

static void close_answers_calls_in_flight_at_once(void **state)
{
	struct asked a = {0}, b = {0};

	(void)state;
	connect_up();
	assert_int_equal(client_ask(&a, SILENT, 1, SOON_MS), 0);
	assert_int_equal(client_ask(&b, SILENT, 1, SOON_MS), 0);
	tei_frame_close(client.conn);
	client.conn = NULL;
	assert_int_equal(a.err, -ECANCELED);
	assert_int_equal(b.err, -ECANCELED);
	pump_until(server_is_empty, NULL);
	assert_int_equal(client.n_down, 0);
	assert_int_equal(server.n_frames, 2); /* what was sent had gone out */
}

static void connection_may_be_closed_in_any_callback(void **state)
{
	struct asked a = {.close = true};

	(void)state;
	client.close_in_up = true;
	assert_int_equal(client_connect(port), 0);
	assert_int_equal(client_send(ECHO, 0, 10), 0);
	pump_until(int_is_set, &client.n_up);
	client.close_in_up = false;

	client.n_up = 0;
	connect_up();
	assert_int_equal(client_ask(&a, ECHO, 1, SOON_MS), 0);
	pump_until(int_is_set, &a.n_done);
	assert_null(client.conn);

	client.n_up = 0;
	connect_up();
	client.close_in_frame = true;
	assert_int_equal(client_send(SILENT, 0, 1), 0);
	pump();
	for (int i = 0; i < 3; i++) { /* the second has no callback */
		struct tei_frame push = {.type = SILENT};

		assert_int_equal(
			tei_frame_send(server.conn, push.type, 0, 0, NULL), 0);
	}
	pump_until(int_is_set, &client.n_frames);
	pump_until(server_is_empty, NULL);
	assert_int_equal(client.n_frames, 1);

	server.close_in_accepted = true;
	client.n_up = client.n_down = 0;
	connect_up();
	pump_until(int_is_set, &client.n_down);
	assert_int_equal(client.err, -ECONNRESET);
}

static void nobody_there_is_told_later_by_down(void **state)
{
	struct asked a = {0};
	uint16_t closed_port = port;

	(void)state;
	stop_serving();
	assert_int_equal(client_connect(closed_port), 0);
	assert_int_equal(client_ask(&a, ECHO, 1, SOON_MS), 0);
	assert_int_equal(client.n_down, 0);
	pump_until(int_is_set, &client.n_down);
	assert_int_equal(client.err, -ECONNREFUSED);
	assert_int_equal(a.err, -ECONNREFUSED);
	assert_int_equal(client.n_up, 0);
}

static void refusal_reaches_who_still_sends(void **state)
{
	struct asked a = {0}, b = {0};

	(void)state;
	connect_up();
	assert_int_equal(client_ask(&a, REFUSE, 1, SOON_MS), 0);
	assert_int_equal(client_ask(&b, ECHO, 5000000, SOON_MS), 0);
	pump_until(int_is_set, &client.n_down);
	assert_int_equal(a.err, 0); /* the answer before the refusal */
	assert_int_equal(b.err, -ECONNREFUSED);
	assert_int_equal(client.err, -ECONNREFUSED);
	assert_string_equal(client.text, "go away");
}

static void refusal_for_now_is_told_from_others(void **state)
{
	(void)state;
	connect_up();
	tei_frame_refuse_for_now(client.conn, "later");
	pump_until(server_is_empty, NULL);
	assert_int_equal(server.err, -EAGAIN);
	assert_string_equal(server.text, "later");
}

static void refused_connection_goes_down_if_its_user_keeps_it(void **state)
{
	(void)state;
	connect_up();
	tei_frame_refuse(client.conn, "no");
	tei_frame_refuse(client.conn, "twice is fine");
	assert_int_equal(client.n_down, 0);
	assert_int_equal(client_send(ECHO, 0, 1), -ENOTCONN);
	pump_until(int_is_set, &client.n_down);
	assert_int_equal(client.err, -EPROTO);
	pump_until(server_is_empty, NULL);
	assert_string_equal(server.text, "no");
}

static void connections_outlive_their_server(void **state)
{
	struct asked a = {0};

	(void)state;
	connect_up();
	pump_until(int_is_set, &server.n_accepted);
	stop_serving();
	assert_int_equal(client_ask(&a, ECHO, 3, SOON_MS), 0);
	pump_until(int_is_set, &a.n_done);
	assert_int_equal(a.len, 3);
}

static void idle_connection_is_small(void **state)
{
	(void)state;
	assert_true(sizeof(struct tei_frame_conn) < 1536);
	connect_up();
	assert_null(client.conn->oldest);
	assert_null(client.conn->body);
	assert_null(client.conn->due.node);
}

static bool server_is_paused(void *arg)
{
	(void)arg;
	return server.conn && server.conn->paused;
}

static void reader_that_sleeps_bounds_the_senders_queue(void **state)
{
	static uint8_t sink[65536];
	uint8_t head[TEI_FRAME_HEADER_LEN];
	int fd = raw_connect(), n_asked = 200;
	size_t left = (size_t)n_asked * (BIG_LEN + TEI_FRAME_HEADER_LEN);

	(void)state;
	for (int i = 0; i < n_asked; i++)
		raw_send(fd, head, raw_header(head, 0, BIG, 1));
	pump_until(server_is_paused, NULL);
	assert_true(tei_frame_backlog(server.conn) < 8 * 1024 * 1024);
	assert_true(server.n_frames < n_asked);
	while (left > 0) {
		ssize_t n = recv(fd, sink, sizeof(sink), 0);

		assert_true(n != 0 && (n > 0 || errno == EAGAIN));
		if (n > 0 && (size_t)n > left)
			break; /* the body has a few bytes of its own */
		left -= n > 0 ? (size_t)n : 0;
		pump();
	}
	assert_int_equal(server.n_frames, n_asked);
	close(fd);
}

static bool all_done(void *arg)
{
	const struct asked *a = arg;

	return !client.conn || (a[0].n_done && a[1].n_done);
}

/* Connect, ask small and large, say goodbye. Ends whatever fails. */
static void scenario(void)
{
	struct asked a[2] = {0};

	client.n_down = client.n_up = 0;
	if (client_connect(port))
		return;
	if (client_ask(&a[0], ECHO, 100, SOON_MS) ||
	    client_ask(&a[1], ECHO, 200000, SOON_MS)) {
		tei_frame_close(client.conn);
		client.conn = NULL;
		return;
	}
	pump_until(all_done, a);
	assert_true(a[0].n_done == 1 && a[1].n_done == 1);
	if (client.conn)
		tei_frame_close(client.conn);
	client.conn = NULL;
	pump_until(server_is_empty, NULL);
}

static void any_failed_call_ends_the_connection_in_order(void **state)
{
	static const enum tei_fault kinds[] = {TEI_FAULT_ALLOC,
					       TEI_FAULT_SOCKET, TEI_FAULT_IO};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		struct test_faults f = {kinds[i], 0};

		while (test_faults_next(&f))
			scenario();
		assert_true(f.n > 2);
	}
	scenario();
	assert_int_equal(client.n_down, 0);
}

#define T(test) \
	cmocka_unit_test_setup_teardown(test, peers_setup, peers_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(call_gets_its_answer_and_ids_start_at_1),
		T(frames_wait_until_their_user_is_ready),
		T(the_memory_of_a_body_can_be_taken),
		T(a_connection_may_end_while_a_frame_waits),
		T(frames_sent_before_up_go_out_once_connected),
		T(lazy_pushes_go_with_the_next_message_or_when_hurried),
		T(what_is_below_the_low_water_stays_until_it_is_read),
		T(what_is_unread_is_delivered_when_the_peer_closes),
		T(what_is_unread_is_delivered_when_the_peer_resets),
		T(large_bodies_arrive_whole_in_both_directions),
		T(body_above_the_cap_is_not_sent),
		T(silent_peer_costs_the_timeout_and_a_late_answer_nothing),
		T(calls_end_before_down_when_the_peer_closes),
		T(down_follows_the_calls_errors),
		T(close_answers_calls_in_flight_at_once),
		T(connection_may_be_closed_in_any_callback),
		T(nobody_there_is_told_later_by_down),
		T(refusal_reaches_who_still_sends),
		T(refusal_for_now_is_told_from_others),
		T(refused_connection_goes_down_if_its_user_keeps_it),
		T(connections_outlive_their_server),
		T(idle_connection_is_small),
		T(reader_that_sleeps_bounds_the_senders_queue),
		T(any_failed_call_ends_the_connection_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
