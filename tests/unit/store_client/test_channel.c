/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_channel.c - callers that share a connection, against a peer in a thread
 *
 * The peer reads requests from the other end of a socket pair and answers with
 * the same body.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include <te/store.h>

#include "store/client/channel.h"
#include "store/proto/store.pb-c.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define SOON_NS    (60 * TEI_NS_PER_S)
#define LATE_NS    (20 * TEI_NS_PER_MS)
#define N_THREADS  8
#define N_CALLS    200
#define MIB        (1u << 20)
#define TYPE       STORE__STORE_TYPE__STORE_EXIST
#define GENERATION 5

struct rig {
	struct tei_channel channel;
	int peer; /* the other end */
	atomic_int n_broke;
};

static void on_broke(struct tei_channel *channel)
{
	atomic_fetch_add(&TEI_CONTAINER(channel, struct rig, channel)->n_broke,
			 1);
}

static void rig_init(struct rig *r)
{
	int fds[2];

	memset(r, 0, sizeof(*r));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	tei_channel_init(&r->channel, on_broke);
	assert_int_equal(tei_channel_open(&r->channel, fds[0], GENERATION, 77),
			 0);
	r->peer = fds[1];
}

static void rig_fini(struct rig *r)
{
	tei_channel_close(&r->channel);
	tei_channel_fini(&r->channel);
	if (r->peer >= 0)
		close(r->peer);
}

/* ---- the peer ---- */

static void write_all(int fd, const uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

		if (n <= 0)
			return; /* the other side has had enough */
		bytes += n;
		len -= (size_t)n;
	}
}

static bool read_all(int fd, uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t n = read(fd, bytes, len);

		if (n <= 0)
			return false;
		bytes += n;
		len -= (size_t)n;
	}
	return true;
}

struct frame {
	uint32_t len;
	uint16_t type, flags;
	uint64_t id;
	uint8_t *bytes; /* header and body */
};

static void set_header(uint8_t *to, const struct frame *f)
{
	struct tei_writer w;

	tei_writer_init(&w, to, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, f->len);
	tei_write_u16(&w, f->type);
	tei_write_u16(&w, f->flags);
	tei_write_u64(&w, f->id);
}

/* False: the other side has closed. */
static bool take_frame(int fd, struct frame *f)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	struct tei_reader r;

	if (!read_all(fd, head, sizeof(head)))
		return false;
	tei_reader_init(&r, head, sizeof(head));
	f->len = tei_read_u32(&r);
	f->type = tei_read_u16(&r);
	f->flags = tei_read_u16(&r);
	f->id = tei_read_u64(&r);
	f->bytes = malloc(TEI_FRAME_HEADER_LEN + f->len);
	assert_non_null(f->bytes);
	if (read_all(fd, f->bytes + TEI_FRAME_HEADER_LEN, f->len))
		return true;
	free(f->bytes);
	return false;
}

/* One must come. */
static void expect_frame(int fd, struct frame *f)
{
	if (take_frame(fd, f))
		return;
	fail_msg("the other side has closed");
	abort();
}

static void answer(int fd, struct frame *f)
{
	f->flags = TEI_FRAME_REPLY;
	set_header(f->bytes, f);
	write_all(fd, f->bytes, TEI_FRAME_HEADER_LEN + f->len);
	free(f->bytes);
}

static void say(int fd, uint16_t type, uint16_t flags, const char *text)
{
	uint8_t bytes[TEI_FRAME_HEADER_LEN + 64];
	const struct frame f = {.len = (uint32_t)strlen(text),
				.type = type,
				.flags = flags,
				.id = 1};

	set_header(bytes, &f);
	memcpy(bytes + TEI_FRAME_HEADER_LEN, text, f.len);
	write_all(fd, bytes, TEI_FRAME_HEADER_LEN + f.len);
}

/* Answers everything, the second of two before the first now and then. */
static void *echo(void *arg)
{
	const int *fd = arg;
	struct frame f, g;

	while (take_frame(*fd, &f)) {
		uint8_t byte;

		if (f.id % 3 == 0 &&
		    recv(*fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
		    take_frame(*fd, &g))
			answer(*fd, &g);
		answer(*fd, &f);
	}
	return NULL;
}

/* ---- a caller ---- */

/* Asks with a body of about @len bytes and compares the answer with it. */
static int ask(struct rig *r, uint8_t seed, size_t len, uint64_t wait_ns)
{
	Store__Keys msg = STORE__KEYS__INIT;
	Store__Keys *back;
	struct tei_arena arena;
	struct tei_reply reply;
	int code;

	tei_arena_init(&arena, 64 * MIB);
	msg.keys.data = malloc(len);
	assert_non_null(msg.keys.data);
	msg.keys.len = len;
	memset(msg.keys.data, seed, len);
	code = tei_channel_call(&r->channel, 0, TYPE, &msg.base, &arena,
				tei_now_ns() + wait_ns, &reply);
	if (!code) {
		back = store__keys__unpack(NULL, reply.len, reply.body);
		assert_non_null(back);
		assert_int_equal(back->keys.len, len);
		assert_memory_equal(back->keys.data, msg.keys.data, len);
		assert_int_equal(reply.digest_seed, 77);
		store__keys__free_unpacked(back, NULL);
	}
	free(msg.keys.data);
	tei_arena_fini(&arena);
	return code;
}

struct caller {
	struct rig *rig;
	pthread_t thread;
	uint8_t seed;
	size_t len;
	uint64_t wait_ns;
	unsigned int n;
	int code; /* of the last call */
	atomic_bool over;
};

static void *call_often(void *arg)
{
	struct caller *c = arg;

	for (unsigned int i = 0; i < c->n; i++)
		c->code = ask(c->rig, (uint8_t)(c->seed + i), c->len + i,
			      c->wait_ns);
	atomic_store(&c->over, true);
	return NULL;
}

static void start(struct caller *c)
{
	assert_int_equal(pthread_create(&c->thread, NULL, call_often, c), 0);
}

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

/* ---- tests ---- */

static void callers_share_one_connection(void **state)
{
	struct caller callers[N_THREADS];
	pthread_t peer;
	struct rig r;

	(void)state;
	rig_init(&r);
	assert_int_equal(pthread_create(&peer, NULL, echo, &r.peer), 0);
	memset(callers, 0, sizeof(callers));
	for (size_t i = 0; i < N_THREADS; i++) {
		callers[i].rig = &r;
		callers[i].seed = (uint8_t)(i * 29);
		callers[i].len = 1 + i * 100;
		callers[i].wait_ns = SOON_NS;
		callers[i].n = N_CALLS;
		start(&callers[i]);
	}
	for (size_t i = 0; i < N_THREADS; i++) {
		pthread_join(callers[i].thread, NULL);
		assert_int_equal(callers[i].code, 0);
	}
	assert_int_equal(n_waiting(&r), 0);
	tei_channel_close(&r.channel);
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
	assert_int_equal(pthread_create(&peer, NULL, echo, &r.peer), 0);
	memset(callers, 0, sizeof(callers));
	for (size_t i = 0; i < TEST_COUNT(callers); i++) {
		callers[i].rig = &r;
		callers[i].seed = (uint8_t)i;
		callers[i].len = (i + 1) * MIB;
		callers[i].wait_ns = SOON_NS;
		callers[i].n = 4;
		start(&callers[i]);
	}
	for (size_t i = 0; i < TEST_COUNT(callers); i++) {
		pthread_join(callers[i].thread, NULL);
		assert_int_equal(callers[i].code, 0);
	}
	assert_int_equal(r.channel.room_in, 64u << 10); /* small again */
	tei_channel_close(&r.channel);
	pthread_join(peer, NULL);
	rig_fini(&r);
}

static void an_answer_that_is_late_is_nobodys(void **state)
{
	struct frame f, g;
	struct rig r;

	(void)state;
	rig_init(&r);
	assert_int_equal(ask(&r, 1, 10, LATE_NS), TE_STORE_RPC_TIMEOUT);
	assert_int_equal(ask(&r, 2, 10, LATE_NS), TE_STORE_RPC_TIMEOUT);
	expect_frame(r.peer, &f);
	expect_frame(r.peer, &g);
	assert_int_equal(g.id, f.id + 1);
	answer(r.peer, &f);
	g.id++; /* that of the next call */
	answer(r.peer, &g);
	assert_int_equal(ask(&r, 2, 10, SOON_NS), 0);
	assert_int_equal(atomic_load(&r.n_broke), 0);
	rig_fini(&r);
}

static void who_gives_up_leaves_the_driving_to_others(void **state)
{
	struct caller patient = {
		.seed = 2, .len = 10, .wait_ns = SOON_NS, .n = 1};
	struct caller hasty = {
		.seed = 1, .len = 10, .wait_ns = 5 * LATE_NS, .n = 1};
	struct frame f, g;
	struct rig r;

	(void)state;
	rig_init(&r);
	hasty.rig = patient.rig = &r;
	start(&hasty);
	expect_frame(r.peer, &f);
	start(&patient);
	expect_frame(r.peer, &g);
	pthread_join(hasty.thread, NULL);
	assert_int_equal(hasty.code, TE_STORE_RPC_TIMEOUT);
	answer(r.peer, &g);
	pthread_join(patient.thread, NULL);
	assert_int_equal(patient.code, 0);
	free(f.bytes);
	rig_fini(&r);
}

static void what_is_not_read_waits_and_then_goes(void **state)
{
	struct caller c = {
		.seed = 3, .len = 4 * MIB, .wait_ns = SOON_NS, .n = 1};
	struct frame f;
	struct rig r;

	(void)state;
	rig_init(&r);
	c.rig = &r;
	/* Given up half sent: what follows comes behind the rest of it. */
	assert_int_equal(ask(&r, 9, 3 * MIB, LATE_NS), TE_STORE_RPC_TIMEOUT);
	start(&c);
	expect_frame(r.peer, &f);
	answer(r.peer, &f);
	expect_frame(r.peer, &f);
	answer(r.peer, &f);
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
	memset(callers, 0, sizeof(callers));
	for (size_t i = 0; i < 2; i++) {
		callers[i].rig = &r;
		callers[i].len = 10;
		callers[i].wait_ns = SOON_NS;
		callers[i].n = 1;
		start(&callers[i]);
	}
	assert_true(test_wait_until(two_wait, &r, 60000));
	close(r.peer);
	r.peer = -1;
	for (size_t i = 0; i < 2; i++) {
		pthread_join(callers[i].thread, NULL);
		assert_int_equal(callers[i].code, TE_STORE_RPC_FAIL);
	}
	assert_int_equal(atomic_load(&r.n_broke), 1);
	assert_int_equal(ask(&r, 1, 10, SOON_NS), TEI_CHANNEL_SHUT);
	rig_fini(&r);
}

/* Answers to two, the later one first. */
static void answer_backwards(int fd)
{
	struct frame first, second;

	expect_frame(fd, &first);
	expect_frame(fd, &second);
	answer(fd, &second);
	answer(fd, &first);
}

static void calls_go_on_while_their_caller_does_other_things(void **state)
{
	Store__Keys msg = STORE__KEYS__INIT;
	struct tei_channel_call calls[2];
	struct tei_arena arenas[2];
	struct tei_reply reply;
	uint8_t byte;
	struct rig r;

	(void)state;
	rig_init(&r);
	msg.keys.data = &byte;
	msg.keys.len = 1;
	for (size_t i = 0; i < 2; i++) {
		tei_arena_init(&arenas[i], MIB);
		calls[i] = (struct tei_channel_call){
			.arena = &arenas[i],
			.deadline_ns = tei_now_ns() + SOON_NS};
		byte = (uint8_t)('a' + i);
		assert_int_equal(tei_channel_begin(&r.channel, 0, TYPE,
						   &msg.base, &calls[i]),
				 0);
	}
	assert_true(two_wait(&r));
	answer_backwards(r.peer);
	for (size_t i = 0; i < 2; i++) {
		Store__Keys *back;

		assert_int_equal(
			tei_channel_await(&r.channel, &calls[i], &reply), 0);
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
	struct tei_channel_call call = {.deadline_ns = tei_now_ns() + SOON_NS};
	struct tei_arena arena;
	struct tei_reply reply;
	struct rig r;

	(void)state;
	rig_init(&r);
	tei_arena_init(&arena, MIB);
	call.arena = &arena;
	assert_int_equal(
		tei_channel_begin(&r.channel, 0, TYPE, &msg.base, &call), 0);
	tei_channel_close(&r.channel);
	assert_int_equal(n_waiting(&r), 0);
	assert_int_equal(tei_channel_await(&r.channel, &call, &reply),
			 TE_STORE_RPC_FAIL);
	assert_int_equal(
		tei_channel_begin(&r.channel, 0, TYPE, &msg.base, &call),
		TEI_CHANNEL_SHUT);
	tei_arena_fini(&arena);
	rig_fini(&r);
}

static void who_looks_sees_the_end(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r);
	tei_channel_look(&r.channel);
	assert_int_equal(atomic_load(&r.n_broke), 0);
	say(r.peer, TEI_FRAME_REFUSED, 0, "not today");
	close(r.peer);
	r.peer = -1;
	tei_channel_look(&r.channel);
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
	memset(callers, 0, sizeof(callers));
	for (size_t i = 0; i < 2; i++) {
		callers[i].rig = &r;
		callers[i].len = 10;
		callers[i].wait_ns = SOON_NS;
		callers[i].n = 1;
		start(&callers[i]);
	}
	assert_true(test_wait_until(two_wait, &r, 60000));
	tei_channel_close(&r.channel);
	for (size_t i = 0; i < 2; i++) {
		pthread_join(callers[i].thread, NULL);
		assert_int_equal(callers[i].code, TE_STORE_RPC_FAIL);
	}
	assert_int_equal(atomic_load(&r.n_broke), 0);
	assert_int_equal(ask(&r, 1, 10, SOON_NS), TEI_CHANNEL_SHUT);
	rig_fini(&r);
}

static void calls_for_another_connection_are_not_made(void **state)
{
	Store__Keys msg = STORE__KEYS__INIT;
	struct tei_arena arena;
	struct tei_reply reply;
	struct rig r;
	uint8_t byte;

	(void)state;
	rig_init(&r);
	tei_arena_init(&arena, MIB);
	assert_int_equal(tei_channel_call(&r.channel, GENERATION + 1, TYPE,
					  &msg.base, &arena,
					  tei_now_ns() + SOON_NS, &reply),
			 TEI_CHANNEL_SHUT);
	assert_int_equal(recv(r.peer, &byte, 1, MSG_DONTWAIT), -1);
	tei_arena_fini(&arena);
	rig_fini(&r);
}

static void frames_that_do_not_hold_end_it(void **state)
{
	static const struct frame bad[] = {
		{.len = 9u << 20, .type = TYPE, .flags = TEI_FRAME_REPLY},
		{.len = UINT32_MAX, .type = TYPE, .flags = TEI_FRAME_REPLY},
		{.type = 60, .flags = TEI_FRAME_REPLY},
		{.type = 64, .flags = TEI_FRAME_REPLY},
		{.type = UINT16_MAX, .flags = TEI_FRAME_REPLY},
		{.type = TYPE, .flags = 0x8001},
		{.type = TEI_FRAME_REFUSED, .flags = 0x8000},
		{.len = 2000, .type = TEI_FRAME_REFUSED},
	};
	uint8_t head[TEI_FRAME_HEADER_LEN];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		struct rig r;

		rig_init(&r);
		set_header(head, &bad[i]);
		write_all(r.peer, head, sizeof(head));
		assert_int_equal(ask(&r, 1, 10, SOON_NS), TE_STORE_RPC_FAIL);
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
	write_all(r.peer, half, sizeof(half));
	assert_int_equal(ask(&r, 1, 10, LATE_NS), TE_STORE_RPC_TIMEOUT);
	assert_int_equal(atomic_load(&r.n_broke), 0);
	assert_int_not_equal(r.channel.part_ns, 0);
	r.channel.part_ns = 1; /* long ago */
	assert_int_equal(ask(&r, 1, 10, SOON_NS), TE_STORE_RPC_FAIL);
	assert_int_equal(atomic_load(&r.n_broke), 1);
	rig_fini(&r);
}

static void pushes_are_passed_over(void **state)
{
	struct frame f = {.len = 0};
	pthread_t peer;
	struct rig r;

	(void)state;
	rig_init(&r);
	say(r.peer, STORE__STORE_TYPE__STORE_FENCE, 0, "any");
	assert_int_equal(pthread_create(&peer, NULL, echo, &r.peer), 0);
	assert_int_equal(ask(&r, 1, 10, SOON_NS), 0);
	assert_null(f.bytes);
	tei_channel_close(&r.channel);
	pthread_join(peer, NULL);
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
		assert_int_equal(pthread_create(&peer, NULL, echo, &r.peer), 0);
		tei_fault_arm(kind, f.n);
		code = ask(&r, 1, len, SOON_NS);
		assert_true(code == 0 || code == TE_STORE_INTERNAL_ERROR ||
			    code == TE_STORE_RPC_FAIL);
		tei_channel_close(&r.channel);
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
		cmocka_unit_test(any_failure_fails_the_call_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
