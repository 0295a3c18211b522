/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bare.c - raw exchanges move the bytes they say, in both directions
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/lib/bare.h"
#include "perf/lib/copy.h"
#include "tests/lib/test.h"

#define LEN (4u << 20)

/* The other side: a child whose memory we share, to look at it. */
static char *theirs;
static struct tei_bare_peer peer;

static _Noreturn void serve(int listener)
{
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		(void)tei_bare_serve(fd, theirs, LEN);
		close(fd);
	}
	_exit(1);
}

static char *filled(int byte)
{
	char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	memset(p, byte, LEN);
	return p;
}

static int start(void **state)
{
	uint16_t port;
	int fd = tei_bare_listen(&port);

	(void)state;
	assert_true(fd >= 0);
	/* tei_listen() has made it non-blocking. */
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	theirs = filled('s');
	peer.from = filled('f');
	peer.to = filled('t');
	peer.len = LEN;
	peer.remote = (uintptr_t)theirs;
	peer.n_at = 1;
	assert_int_equal(tei_resolve("127.0.0.1", port, peer.at, 1), 1);
	peer.pid = fork();
	assert_true(peer.pid >= 0);
	if (!peer.pid)
		serve(fd);
	close(fd);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	kill(peer.pid, SIGKILL);
	waitpid(peer.pid, NULL, 0);
	munmap(theirs, LEN);
	munmap(peer.from, LEN);
	munmap(peer.to, LEN);
	return 0;
}

static struct tei_bare_shape shape(bool read, bool spin)
{
	return (struct tei_bare_shape){
		.read = read,
		.spin = spin,
		.batch = 8,
		.size = 4096,
		.seconds = 0.02,
	};
}

/* All of it, unless the machine had no time for that; something always. */
static void assert_arrived(const char *to, const char *from,
			   const struct tei_bare_figure *figure)
{
	assert_true(figure->bytes > 0);
	assert_memory_equal(to, from,
			    figure->bytes < LEN ? figure->bytes : LEN);
}

static void a_stream_fills_the_other_side(void **state)
{
	struct tei_bare_shape s = shape(false, false);
	struct tei_bare_figure figure;

	(void)state;
	memset(theirs, 0, LEN);
	s.seconds = 0.1;
	assert_int_equal(tei_stream_run(&peer, &s, &figure), 0);
	assert_true(figure.gb_per_s > 0);
	assert_arrived(theirs, peer.from, &figure);
	s.read = s.spin = true;
	memset(theirs, 'r', LEN);
	assert_int_equal(tei_stream_run(&peer, &s, &figure), 0);
	assert_arrived(peer.to, theirs, &figure);
}

static void a_hot_stream_stays_in_its_place(void **state)
{
	struct tei_bare_shape s = shape(false, false);
	struct tei_bare_figure figure;

	(void)state;
	memset(theirs, 0, LEN);
	s.span = 65536;
	assert_int_equal(tei_stream_run(&peer, &s, &figure), 0);
	assert_int_equal(theirs[65535], 'f');
	assert_int_equal(theirs[65536], 0);
}

static void an_exchange_moves_whole_batches(void **state)
{
	struct tei_bare_figure figure;

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct tei_bare_shape s = shape(i & 1, i & 2);

		memset(theirs, i, LEN);
		assert_int_equal(tei_exchange_run(&peer, &s, &figure), 0);
		assert_true(figure.bytes > 0);
		assert_int_equal(figure.bytes % (8 * 4096), 0);
		assert_true(figure.p50_us > 0);
		if (s.read)
			assert_memory_equal(peer.to, theirs, 8 * 4096);
		else
			assert_memory_equal(theirs, peer.from, 8 * 4096);
	}
}

static void a_ball_comes_back(void **state)
{
	struct tei_bare_shape s = shape(false, false);
	struct tei_bare_figure figure;

	(void)state;
	assert_int_equal(tei_pingpong_run(&peer, &s, &figure), 0);
	assert_true(figure.p50_us > 0);
	s.spin = true;
	s.pause_ns = 1000000;
	assert_int_equal(tei_pingpong_run(&peer, &s, &figure), 0);
	assert_true(figure.p50_us > 0);
}

static void the_better_of_two_ways_has_cpu_time(void **state)
{
	struct tei_bare_shape s = shape(false, false);
	struct tei_bare_figure figure;
	uint64_t before, after;

	(void)state;
	assert_int_equal(tei_bare_cpu_ns(&peer, &before), 0);
	assert_int_equal(tei_bare_best(tei_stream_run, &peer, &s, &figure), 0);
	assert_int_equal(tei_bare_cpu_ns(&peer, &after), 0);
	assert_true(figure.gb_per_s > 0);
	assert_true(figure.cpu_s_per_gb > 0);
	assert_true(after > before);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct tei_bare_shape s = shape(false, false);
	struct tei_bare_figure figure;
	double rate;

	(void)state;
	s.size = LEN + 1;
	assert_int_equal(tei_exchange_run(&peer, &s, &figure), -EINVAL);
	assert_int_equal(
		tei_copy_rate(&peer, &s, TEI_MOVER_MEMCPY, NULL, 1, &rate),
		-EINVAL);
	s.size = LEN / 2 + 64;
	assert_int_equal(
		tei_copy_rate(&peer, &s, TEI_MOVER_MEMCPY, NULL, 2, &rate),
		-EINVAL);
	s.size = 1;
	s.batch = TEI_BARE_BATCH + 1;
	assert_int_equal(tei_exchange_run(&peer, &s, &figure), -EINVAL);
}

static void a_peer_drops_what_it_does_not_know(void **state)
{
	static const struct tei_bare_work bad[] = {
		{.kind = 99},
		{.kind = TEI_BARE_EXCHANGE, .batch = 1},
		{.kind = TEI_BARE_EXCHANGE, .batch = 1, .size = LEN + 1},
		{.kind = TEI_BARE_EXCHANGE, .batch = ~0u, .size = 1},
	};
	char answer;
	int fd;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(
			connect(fd, (void *)&peer.at[0].ss, peer.at[0].len), 0);
		assert_int_equal(
			tei_bare_send(fd, &bad[i], sizeof(bad[i]), false), 0);
		assert_true(tei_bare_recv_some(fd, &answer, 1, false) <= 0);
		close(fd);
	}
	/* And serves the next one. */
	a_ball_comes_back(NULL);
}

static void copies_fill_their_part(void **state)
{
	struct tei_bare_shape s = shape(false, false);
	double rate;

	(void)state;
	for (int mover = 0; mover < 2; mover++) {
		s.seconds = 0.05;
		memset(peer.to, 0, LEN);
		assert_int_equal(tei_copy_rate(&peer, &s,
					       mover ? TEI_MOVER_KERNEL
						     : TEI_MOVER_MEMCPY,
					       tei_copy_best(&peer, &s), 2,
					       &rate),
				 0);
		assert_true(rate > 0);
		assert_int_equal(peer.to[0], 'f');
		assert_int_equal(peer.to[LEN / 2], 'f');
	}
	/* A hot copy of a few bytes. */
	s.size = s.span = 8;
	memset(peer.to, 0, LEN);
	assert_int_equal(
		tei_copy_rate(&peer, &s, TEI_MOVER_MEMCPY, NULL, 1, &rate), 0);
	assert_int_equal(peer.to[7], 'f');
	assert_int_equal(peer.to[64], 0);
}

static void process_vm_moves_between_the_peers(void **state)
{
	struct tei_bare_shape s = shape(true, false);
	double rate;
	int rc;

	(void)state;
	memset(theirs, 'v', LEN);
	rc = tei_copy_rate(&peer, &s, TEI_MOVER_VM_READ, NULL, 1, &rate);
	if (rc == -EPERM || rc == -ENOSYS)
		skip();
	assert_int_equal(rc, 0);
	assert_memory_equal(peer.to, theirs, 8 * 4096);
	assert_int_equal(
		tei_copy_rate(&peer, &s, TEI_MOVER_VM_WRITE, NULL, 1, &rate),
		0);
	assert_memory_equal(theirs, peer.from, 8 * 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_fills_the_other_side),
		cmocka_unit_test(a_hot_stream_stays_in_its_place),
		cmocka_unit_test(an_exchange_moves_whole_batches),
		cmocka_unit_test(a_ball_comes_back),
		cmocka_unit_test(the_better_of_two_ways_has_cpu_time),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(a_peer_drops_what_it_does_not_know),
		cmocka_unit_test(copies_fill_their_part),
		cmocka_unit_test(process_vm_moves_between_the_peers),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
