/* SPDX-License-Identifier: Apache-2.0 */
/* test_channel.c - callers that share a connection */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <te/store.h>

#include "base/list.h"
#include "base/thread.h"
#include "store/proto/store.pb-c.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/unit/store_client/channel_rig.h"

#define LATE_NS   (20 * TEI_NS_PER_MS)
#define N_THREADS 8
#define N_CALLS   200
#define MIB       (1u << 20)

static unsigned int n_waiting(struct rig *r)
{
	unsigned int n = 0;

	tei_mutex_lock(&r->channel.mu);
	tei_list_for_each (node, &r->channel.calls)
		n++;
	tei_mutex_unlock(&r->channel.mu);
	return n;
}

static bool two_wait(void *rig)
{
	return n_waiting(rig) == 2;
}

static void join_all(struct caller *callers, size_t n, int code)
{
	for (size_t i = 0; i < n; i++) {
		pthread_join(callers[i].thread, NULL);
		assert_int_equal(callers[i].code, code);
	}
}

/* Returns when both wait for their answers. */
static void start_two(struct rig *r, struct caller callers[2])
{
	for (size_t i = 0; i < 2; i++) {
		callers[i] = (struct caller){
			.rig = r, .len = 10, .wait_ns = RIG_SOON_NS, .n = 1};
		caller_start(&callers[i]);
	}
	assert_true(test_wait_until(two_wait, r, 60000));
}

static void callers_share_one_connection(void **state)
{
	struct caller callers[N_THREADS];
	pthread_t peer;
	struct rig r;

	(void)state;
	rig_init(&r);
	assert_int_equal(pthread_create(&peer, NULL, peer_echo, &r.peer), 0);
	memset(callers, 0, sizeof(callers));
	for (size_t i = 0; i < N_THREADS; i++) {
		callers[i].rig = &r;
		callers[i].seed = (uint8_t)(i * 29);
		callers[i].len = 1 + i * 100;
		callers[i].wait_ns = RIG_SOON_NS;
		callers[i].n = N_CALLS;
		caller_start(&callers[i]);
	}
	join_all(callers, N_THREADS, 0);
	assert_int_equal(n_waiting(&r), 0);
	tes_channel_close(&r.channel);
	pthread_join(peer, NULL);
	rig_fini(&r);
}

/* More than the sockets hold, both ways at once. */
static void long_bodies_go_in_pieces(void **state)
{
	struct caller callers[4];
	pthread_t peer;
	struct rig r;

	(void)state;
	rig_init(&r);
	assert_int_equal(pthread_create(&peer, NULL, peer_echo, &r.peer), 0);
	memset(callers, 0, sizeof(callers));
	for (size_t i = 0; i < TEST_COUNT(callers); i++) {
		callers[i].rig = &r;
		callers[i].seed = (uint8_t)i;
		callers[i].len = (i + 1) * MIB;
		callers[i].wait_ns = RIG_SOON_NS;
		callers[i].n = 4;
		caller_start(&callers[i]);
	}
	join_all(callers, TEST_COUNT(callers), 0);
	assert_int_equal(r.channel.room_in, 64u << 10); /* small again */
	tes_channel_close(&r.channel);
	pthread_join(peer, NULL);
	rig_fini(&r);
}

static void an_answer_that_is_late_is_nobodys(void **state)
{
	struct frame f, g;
	struct rig r;

	(void)state;
	rig_init(&r);
	assert_int_equal(rig_ask(&r, 1, 10, LATE_NS), TE_STORE_RPC_TIMEOUT);
	assert_int_equal(rig_ask(&r, 2, 10, LATE_NS), TE_STORE_RPC_TIMEOUT);
	peer_expect(r.peer, &f);
	peer_expect(r.peer, &g);
	assert_int_equal(g.id, f.id + 1);
	peer_answer(r.peer, &f);
	g.id++; /* that of the next call */
	peer_answer(r.peer, &g);
	assert_int_equal(rig_ask(&r, 2, 10, RIG_SOON_NS), 0);
	assert_int_equal(atomic_load(&r.n_broke), 0);
	rig_fini(&r);
}

static void who_gives_up_leaves_the_driving_to_others(void **state)
{
	struct caller patient = {
		.seed = 2, .len = 10, .wait_ns = RIG_SOON_NS, .n = 1};
	struct caller hasty = {
		.seed = 1, .len = 10, .wait_ns = 5 * LATE_NS, .n = 1};
	struct frame f, g;
	struct rig r;

	(void)state;
	rig_init(&r);
	hasty.rig = patient.rig = &r;
	caller_start(&hasty);
	peer_expect(r.peer, &f);
	caller_start(&patient);
	peer_expect(r.peer, &g);
	pthread_join(hasty.thread, NULL);
	assert_int_equal(hasty.code, TE_STORE_RPC_TIMEOUT);
	peer_answer(r.peer, &g);
	pthread_join(patient.thread, NULL);
	assert_int_equal(patient.code, 0);
	free(f.bytes);
	rig_fini(&r);
}

static void what_is_not_read_waits_and_then_goes(void **state)
{
	struct caller c = {
		.seed = 3, .len = 4 * MIB, .wait_ns = RIG_SOON_NS, .n = 1};
	struct frame f;
	struct rig r;

	(void)state;
	rig_init(&r);
	c.rig = &r;
	/* Given up half sent: what follows comes behind the rest of it. */
	assert_int_equal(rig_ask(&r, 9, 3 * MIB, LATE_NS),
			 TE_STORE_RPC_TIMEOUT);
	caller_start(&c);
	peer_expect(r.peer, &f);
	peer_answer(r.peer, &f);
	peer_expect(r.peer, &f);
	peer_answer(r.peer, &f);
	pthread_join(c.thread, NULL);
	assert_int_equal(c.code, 0);
	rig_fini(&r);
}

static void its_end_fails_all_who_wait_and_is_told_once(void **state)
{
	struct caller callers[2];
	struct rig r;

	(void)state;
	rig_init(&r);
	start_two(&r, callers);
	close(r.peer);
	r.peer = -1;
	join_all(callers, 2, TE_STORE_RPC_FAIL);
	assert_int_equal(atomic_load(&r.n_broke), 1);
	assert_int_equal(rig_ask(&r, 1, 10, RIG_SOON_NS), TES_CHANNEL_SHUT);
	rig_fini(&r);
}

/* Answers to two, the later one first. */
static void answer_backwards(int fd)
{
	struct frame first, second;

	peer_expect(fd, &first);
	peer_expect(fd, &second);
	peer_answer(fd, &second);
	peer_answer(fd, &first);
}

static void calls_go_on_while_their_caller_does_other_things(void **state)
{
	Store__Keys msg = STORE__KEYS__INIT;
	struct tes_channel_call calls[2];
	struct tei_arena arenas[2];
	struct tes_reply reply;
	uint8_t byte;
	struct rig r;

	(void)state;
	rig_init(&r);
	msg.keys.data = &byte;
	msg.keys.len = 1;
	for (size_t i = 0; i < 2; i++) {
		tei_arena_init(&arenas[i], MIB);
		calls[i] = (struct tes_channel_call){
			.arena = &arenas[i],
			.deadline_ns = tei_now_ns() + RIG_SOON_NS};
		byte = (uint8_t)('a' + i);
		assert_int_equal(tes_channel_begin(&r.channel, 0, RIG_TYPE,
						   &msg.base, &calls[i]),
				 0);
	}
	assert_true(two_wait(&r));
	answer_backwards(r.peer);
	for (size_t i = 0; i < 2; i++) {
		Store__Keys *back;

		assert_int_equal(
			tes_channel_await(&r.channel, &calls[i], &reply), 0);
		back = store__keys__unpack(NULL, reply.len, reply.body);
		assert_non_null(back);
		assert_int_equal(back->keys.data[0], 'a' + i);
		store__keys__free_unpacked(back, NULL);
		tei_arena_fini(&arenas[i]);
	}
	rig_fini(&r);
}

static void
a_call_that_nobody_awaits_yet_fails_with_the_connection(void **state)
{
	Store__Keys msg = STORE__KEYS__INIT;
	struct tes_channel_call call = {.deadline_ns =
						tei_now_ns() + RIG_SOON_NS};
	struct tei_arena arena;
	struct tes_reply reply;
	struct rig r;

	(void)state;
	rig_init(&r);
	tei_arena_init(&arena, MIB);
	call.arena = &arena;
	assert_int_equal(
		tes_channel_begin(&r.channel, 0, RIG_TYPE, &msg.base, &call),
		0);
	tes_channel_close(&r.channel);
	assert_int_equal(n_waiting(&r), 0);
	assert_int_equal(tes_channel_await(&r.channel, &call, &reply),
			 TE_STORE_RPC_FAIL);
	assert_int_equal(
		tes_channel_begin(&r.channel, 0, RIG_TYPE, &msg.base, &call),
		TES_CHANNEL_SHUT);
	tei_arena_fini(&arena);
	rig_fini(&r);
}

static void who_looks_sees_the_end(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r);
	tes_channel_look(&r.channel);
	assert_int_equal(atomic_load(&r.n_broke), 0);
	peer_say(r.peer, TEI_FRAME_REFUSED, 0, "not today");
	close(r.peer);
	r.peer = -1;
	tes_channel_look(&r.channel);
	assert_int_equal(atomic_load(&r.n_broke), 1);
	assert_true(r.channel.for_good);
	assert_string_equal(r.channel.why, "not today");
	rig_fini(&r);
}

static void closing_fails_who_waits(void **state)
{
	struct caller callers[2];
	struct rig r;

	(void)state;
	rig_init(&r);
	start_two(&r, callers);
	tes_channel_close(&r.channel);
	join_all(callers, 2, TE_STORE_RPC_FAIL);
	assert_int_equal(atomic_load(&r.n_broke), 0);
	assert_int_equal(rig_ask(&r, 1, 10, RIG_SOON_NS), TES_CHANNEL_SHUT);
	rig_fini(&r);
}

static void calls_for_another_connection_are_not_made(void **state)
{
	Store__Keys msg = STORE__KEYS__INIT;
	struct tei_arena arena;
	struct tes_reply reply;
	struct rig r;
	uint8_t byte;

	(void)state;
	rig_init(&r);
	tei_arena_init(&arena, MIB);
	assert_int_equal(tes_channel_call(&r.channel, RIG_GENERATION + 1,
					  RIG_TYPE, &msg.base, &arena,
					  tei_now_ns() + RIG_SOON_NS, &reply),
			 TES_CHANNEL_SHUT);
	assert_int_equal(recv(r.peer, &byte, 1, MSG_DONTWAIT), -1);
	tei_arena_fini(&arena);
	rig_fini(&r);
}

static void frames_that_do_not_hold_end_it(void **state)
{
	static const struct frame bad[] = {
		{.len = 9u << 20, .type = RIG_TYPE, .flags = TEI_FRAME_REPLY},
		{.len = UINT32_MAX, .type = RIG_TYPE, .flags = TEI_FRAME_REPLY},
		{.type = 60, .flags = TEI_FRAME_REPLY},
		{.type = 64, .flags = TEI_FRAME_REPLY},
		{.type = UINT16_MAX, .flags = TEI_FRAME_REPLY},
		{.type = RIG_TYPE, .flags = 0x8001},
		{.type = TEI_FRAME_REFUSED, .flags = 0x8000},
		{.len = 2000, .type = TEI_FRAME_REFUSED},
	};
	uint8_t head[TEI_FRAME_HEADER_LEN];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		struct rig r;

		rig_init(&r);
		peer_header(head, &bad[i]);
		peer_write(r.peer, head, sizeof(head));
		assert_int_equal(rig_ask(&r, 1, 10, RIG_SOON_NS),
				 TE_STORE_RPC_FAIL);
		assert_int_equal(atomic_load(&r.n_broke), 1);
		assert_int_equal(r.channel.room_in, 64u << 10);
		rig_fini(&r);
	}
}

static void a_frame_that_stays_half_ends_it(void **state)
{
	static const uint8_t half[TEI_FRAME_HEADER_LEN / 2] = {1};
	struct rig r;

	(void)state;
	rig_init(&r);
	peer_write(r.peer, half, sizeof(half));
	assert_int_equal(rig_ask(&r, 1, 10, LATE_NS), TE_STORE_RPC_TIMEOUT);
	assert_int_equal(atomic_load(&r.n_broke), 0);
	assert_int_not_equal(r.channel.part_ns, 0);
	r.channel.part_ns = 1; /* long ago */
	assert_int_equal(rig_ask(&r, 1, 10, RIG_SOON_NS), TE_STORE_RPC_FAIL);
	assert_int_equal(atomic_load(&r.n_broke), 1);
	rig_fini(&r);
}

static void pushes_are_passed_over(void **state)
{
	pthread_t peer;
	struct rig r;

	(void)state;
	rig_init(&r);
	peer_say(r.peer, STORE__STORE_TYPE__STORE_FENCE, 0, "any");
	assert_int_equal(pthread_create(&peer, NULL, peer_echo, &r.peer), 0);
	assert_int_equal(rig_ask(&r, 1, 10, RIG_SOON_NS), 0);
	tes_channel_close(&r.channel);
	pthread_join(peer, NULL);
	rig_fini(&r);
}

static void expect_release(struct rig *r, size_t len)
{
	Store__Release *msg;
	struct frame f;

	peer_expect(r->peer, &f);
	assert_int_equal(f.type, STORE__STORE_TYPE__STORE_RELEASE);
	msg = store__release__unpack(NULL, f.len,
				     f.bytes + TEI_FRAME_HEADER_LEN);
	assert_non_null(msg);
	assert_int_equal(msg->keys.len, len);
	store__release__free_unpacked(msg, NULL);
	free(f.bytes);
}

static size_t n_readable(int fd)
{
	int n;

	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	return (size_t)n;
}

/*
 * Whether the second of two was held back, which a machine that stands still
 * for long between the two, or after, does not show.
 */
static bool is_held_in_a_series(struct rig *r)
{
	bool held;

	rig_tell_later(r, 10);
	expect_release(r, 10); /* it is alone, or the last of a series */
	rig_tell_later(r, 20);
	held = !n_readable(r->peer);
	expect_release(r, 20); /* though nothing follows */
	return held;
}

static void what_can_wait_goes_in_time(void **state)
{
	struct rig r;
	int tries = 100;

	(void)state;
	rig_init_tcp(&r);
	while (!is_held_in_a_series(&r))
		assert_true(tries-- > 0);
	rig_fini(&r);
}

static void what_can_wait_goes_before_what_follows(void **state)
{
	struct caller caller;
	struct frame f;
	struct rig r;

	(void)state;
	rig_init_tcp(&r);
	for (size_t i = 1; i <= 5; i++)
		rig_tell_later(&r, i);
	caller = (struct caller){
		.rig = &r, .len = 10, .wait_ns = RIG_SOON_NS, .n = 1};
	caller_start(&caller);
	for (size_t i = 1; i <= 5; i++)
		expect_release(&r, i);
	peer_expect(r.peer, &f);
	assert_int_equal(f.type, RIG_TYPE);
	peer_answer(r.peer, &f);
	join_all(&caller, 1, 0);
	rig_fini(&r);
}

/* A call goes well, or it fails and says so at once. */
static void try_with(enum tei_fault kind, size_t len)
{
	struct test_faults f = {.kind = kind};
	pthread_t peer;
	struct rig r;
	int code;

	while (test_faults_next(&f)) {
		tei_fault_disarm_all(); /* not in the making */
		rig_init(&r);
		assert_int_equal(
			pthread_create(&peer, NULL, peer_echo, &r.peer), 0);
		tei_fault_arm(kind, f.n);
		code = rig_ask(&r, 1, len, RIG_SOON_NS);
		assert_true(code == 0 || code == TE_STORE_INTERNAL_ERROR ||
			    code == TE_STORE_RPC_FAIL);
		tes_channel_close(&r.channel);
		pthread_join(peer, NULL);
		rig_fini(&r);
	}
}

static void any_failure_fails_the_call_and_no_more(void **state)
{
	(void)state;
	try_with(TEI_FAULT_ALLOC, 10);
	try_with(TEI_FAULT_ALLOC, 2 * MIB);
	try_with(TEI_FAULT_IO, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(callers_share_one_connection),
		cmocka_unit_test(long_bodies_go_in_pieces),
		cmocka_unit_test(an_answer_that_is_late_is_nobodys),
		cmocka_unit_test(who_gives_up_leaves_the_driving_to_others),
		cmocka_unit_test(what_is_not_read_waits_and_then_goes),
		cmocka_unit_test(its_end_fails_all_who_wait_and_is_told_once),
		cmocka_unit_test(
			calls_go_on_while_their_caller_does_other_things),
		cmocka_unit_test(
			a_call_that_nobody_awaits_yet_fails_with_the_connection),
		cmocka_unit_test(who_looks_sees_the_end),
		cmocka_unit_test(closing_fails_who_waits),
		cmocka_unit_test(calls_for_another_connection_are_not_made),
		cmocka_unit_test(frames_that_do_not_hold_end_it),
		cmocka_unit_test(a_frame_that_stays_half_ends_it),
		cmocka_unit_test(pushes_are_passed_over),
		cmocka_unit_test(what_can_wait_goes_in_time),
		cmocka_unit_test(what_can_wait_goes_before_what_follows),
		cmocka_unit_test(any_failure_fails_the_call_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
