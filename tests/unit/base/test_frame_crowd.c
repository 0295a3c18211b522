/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_frame_crowd.c - ports with more peers than there is room for
 *
 * Each source is an address of 127.0.0.0/8, since no user is asked for. A seat
 * is the server's end of one connection, in the order in which they came.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/frame_private.h"
#include "frame_peer.h"
#include "te/core/control.pb-c.h"
#include "tests/lib/test.h"
#include "tests/lib/user.h"
#include "tests/lib/wait.h"

#define N_SEATS  256
#define BODY_MAX (8u << 20)
#define PIECE    (64u << 10)
#define N_LONG   100

struct seat {
	struct tei_frame_conn *conn; /* NULL: has ended */
	bool needed, busy;           /* not ready for frames */
	int n_frames, err;
	int goes_on; /* the peer's end, which sends more at once; or 0 */
};

static struct seat seats[N_SEATS];
static unsigned int n_seats, n_faults[TEI_FRAME_FAULTS];
static uint8_t piece[PIECE];

/* A frame of 200 us; the next one is there before it has ended. */
static void take_long(struct seat *seat)
{
	uint64_t until_ns = tei_now_ns() + TEI_NS_PER_MS / 5;
	uint8_t next[TEI_FRAME_HEADER_LEN];

	raw_header(next, 0, SILENT, 1);
	assert_int_equal(send(seat->goes_on, next, sizeof(next), 0),
			 sizeof(next));
	while (tei_now_ns() < until_ns)
		;
	if (seat->n_frames == N_LONG)
		tei_loop_stop(loop);
}

static void on_frame(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	struct seat *seat = arg;
	uint8_t name[TEI_FRAME_NAME_LEN] = {0};

	seat->n_frames++;
	if (seat->goes_on)
		take_long(seat);
	if (f->type != SILENT || !f->len)
		return;
	name[0] = *(const uint8_t *)f->body;
	tei_frame_name(conn, name);
}

static void on_down(struct tei_frame_conn *conn, int err, const char *text,
		    void *arg)
{
	struct seat *seat = arg;

	(void)text;
	seat->conn = NULL;
	seat->err = err;
	tei_frame_close(conn);
}

static void on_fault(enum tei_frame_fault fault, void *arg)
{
	(void)arg;
	n_faults[fault]++;
}

static bool on_needed(void *arg)
{
	return ((struct seat *)arg)->needed;
}

static bool is_ready(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	(void)conn;
	(void)f;
	return !((struct seat *)arg)->busy;
}

static const struct tei_frame_ops seat_ops = {
	.frame = on_frame,
	.ready = is_ready,
	.down = on_down,
	.fault = on_fault,
	.needed = on_needed,
};

static void on_accepted(struct tei_frame_conn *conn, void *arg)
{
	(void)arg;
	assert_true(n_seats < N_SEATS);
	seats[n_seats] = (struct seat){.conn = conn};
	tei_frame_set_ops(conn, &seat_ops, &seats[n_seats++]);
}

static void open_port_to(const char *uids, unsigned int n_max,
			 unsigned int n_each)
{
	const struct tei_frame_server_config config = {
		.protocol = &peer_protocol,
		.host = "127.0.0.1",
		.allow_uids = uids,
		.n_max = n_max,
		.n_each = n_each,
		.ops = &seat_ops,
		.accepted = on_accepted,
	};

	stop_serving();
	assert_int_equal(tei_frame_listen(loop, &config, &port, &listener), 0);
}

static void open_port(unsigned int n_max, unsigned int n_each)
{
	open_port_to("any", n_max, n_each);
}

static int set_up(void **state)
{
	memset(seats, 0, sizeof(seats));
	memset(n_faults, 0, sizeof(n_faults));
	n_seats = 0;
	return peers_setup(state);
}

static int tear_down(void **state)
{
	for (unsigned int i = 0; i < n_seats; i++)
		if (seats[i].conn)
			tei_frame_close(seats[i].conn);
	return peers_teardown(state);
}

static bool has_come(void *arg)
{
	return n_seats == *(unsigned int *)arg;
}

/* What it does not read is soon the server's. */
static int connect_from(uint8_t source)
{
	struct tei_address to, from;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    room = 256 << 10;

	assert_true(fd >= 0);
	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
	assert_true(tei_address_from_bytes((const uint8_t[]){127, 0, 0, 1}, 4,
					   port, &to));
	assert_true(tei_address_from_bytes((const uint8_t[]){127, 0, 0, source},
					   4, 0, &from));
	assert_int_equal(bind(fd, (const struct sockaddr *)&from.ss, from.len),
			 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to.ss, to.len),
			 0);
	return fd;
}

/* From 127.0.0.@source; its seat is the next one. */
static int come(uint8_t source)
{
	unsigned int n = n_seats + 1;
	int fd = connect_from(source);

	pump_until(has_come, &n);
	return fd;
}

/* Forks a process of @uid that connects from 127.0.0.1 until it is killed. */
static pid_t come_as(uid_t uid)
{
	unsigned int n = n_seats + 1;
	pid_t pid = test_fork_as(uid);

	assert_true(pid >= 0);
	if (!pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)connect_from(1);
		for (;;)
			pause();
	}
	pump_until(has_come, &n);
	return pid;
}

/* Sends a frame by @fd, with @name unless it is 0; awaits it at @seat. */
static void use(int fd, unsigned int seat, uint8_t name)
{
	uint8_t bytes[TEI_FRAME_HEADER_LEN + 1];
	size_t n = raw_header(bytes, name ? 1 : 0, SILENT, 1);

	if (name)
		bytes[n++] = name;
	seats[seat].n_frames = 0;
	raw_send(fd, bytes, n);
	pump_until(int_is_set, &seats[seat].n_frames);
}

static void expect_gone(unsigned int seat)
{
	pump_until(int_is_set, &seats[seat].err);
	assert_int_equal(seats[seat].err, -EPROTO);
}

static bool made_way(void *arg)
{
	return n_faults[TEI_FRAME_IDLE] == *(unsigned int *)arg;
}

static void expect_that_many_made_way(unsigned int n)
{
	pump_until(made_way, &n);
}

static void the_idlest_makes_way(void **state)
{
	int fd[4];

	(void)state;
	open_port(3, 0);
	for (unsigned int i = 0; i < 3; i++)
		fd[i] = come(1);
	use(fd[0], 0, 0);
	fd[3] = come(1);
	expect_gone(1);
	assert_string_equal(raw_refusal(fd[1]),
			    "it was idle, and others need its place");
	assert_int_equal(n_faults[TEI_FRAME_IDLE], 1);
	use(fd[0], 0, 0);
	use(fd[2], 2, 0);
	use(fd[3], 3, 0);
	for (int i = 0; i < 4; i += i ? 1 : 2)
		close(fd[i]);
}

/* All have spoken since they came: of equals the first to fall silent goes. */
static void the_idlest_of_equals_makes_way(uint8_t sources, uint8_t names)
{
	static const unsigned int order[] = {1, 3, 0, 2};
	int fd[5];

	open_port(4, 0);
	for (unsigned int i = 0; i < 4; i++) {
		fd[i] = come((uint8_t)(1 + i * sources));
		use(fd[i], i, (uint8_t)(names ? 1 + i : 0));
	}
	for (unsigned int i = 0; i < 4; i++)
		use(fd[order[i]], order[i], 0);
	fd[4] = come(1);
	expect_gone(1);
	assert_int_equal(n_faults[TEI_FRAME_IDLE], 1);
	for (int i = 0; i < 5; i++)
		close(fd[i]);
}

static void the_idlest_of_a_name_makes_way(void **state)
{
	(void)state;
	the_idlest_of_equals_makes_way(0, 0);
}

static void the_idlest_of_equal_names_makes_way(void **state)
{
	(void)state;
	the_idlest_of_equals_makes_way(0, 1);
}

static void the_idlest_of_equal_sources_makes_way(void **state)
{
	(void)state;
	the_idlest_of_equals_makes_way(1, 1);
}

static void what_is_needed_stays_while_anything_else_can_go(void **state)
{
	int fd[5];

	(void)state;
	open_port(3, 0);
	for (unsigned int i = 0; i < 3; i++)
		fd[i] = come(1);
	seats[0].needed = seats[2].needed = true;
	fd[3] = come(1);
	expect_gone(1);
	seats[3].needed = true;
	fd[4] = come(1); /* all others are needed: one of them */
	expect_that_many_made_way(2);
	assert_non_null(seats[4].conn);
	for (int i = 0; i < 5; i++)
		close(fd[i]);
}

/* One source has @n that are needed, another one that is idle for longest. */
static void needed_against_idle(unsigned int n, unsigned int goes)
{
	int fd[TEI_FRAME_NEEDED_EACH + 3];

	open_port(n + 1, 0);
	fd[0] = come(1);
	for (unsigned int i = 1; i <= n; i++) {
		fd[i] = come(2);
		seats[i].needed = true;
		use(fd[i], i, (uint8_t)i);
	}
	fd[n + 1] = come(3);
	expect_gone(goes);
	assert_int_equal(n_faults[TEI_FRAME_IDLE], 1);
	for (unsigned int i = 0; i < n + 2; i++)
		close(fd[i]);
}

static void of_a_source_only_so_many_are_spared(void **state)
{
	(void)state;
	needed_against_idle(TEI_FRAME_NEEDED_EACH + 1, 1);
}

static void that_many_are_spared(void **state)
{
	(void)state;
	needed_against_idle(TEI_FRAME_NEEDED_EACH, 0);
}

static void who_has_most_makes_way(void **state)
{
	int fd[10];

	(void)state;
	open_port(8, 0);
	fd[0] = come(1); /* idle for longest */
	for (unsigned int i = 1; i < 8; i++)
		fd[i] = come(2);
	fd[8] = come(3);
	expect_gone(1);
	fd[9] = come(2);
	expect_gone(2);
	use(fd[0], 0, 0);
	use(fd[8], 8, 0);
	for (int i = 0; i < 10; i++)
		close(fd[i]);
}

static void of_one_source_the_name_with_most_makes_way(void **state)
{
	int fd[9];

	(void)state;
	open_port(8, 0);
	for (unsigned int i = 0; i < 8; i++) {
		fd[i] = come(1);
		use(fd[i], i, i < 3 ? (uint8_t)(1 + i) : 9);
	}
	fd[8] = come(1);
	expect_gone(3);
	use(fd[0], 0, 0);
	for (int i = 0; i < 9; i++)
		close(fd[i]);
}

static void what_is_needed_stays_though_all_others_speak(void **state)
{
	int fd[5];

	(void)state;
	open_port(4, 0);
	for (unsigned int i = 0; i < 4; i++) {
		fd[i] = come(1);
		use(fd[i], i, (uint8_t)(1 + i));
	}
	seats[0].needed = true;
	for (unsigned int i = 1; i < 4; i++)
		use(fd[i], i, 0);
	fd[4] = come(1);
	expect_gone(1);
	for (int i = 0; i < 5; i++)
		close(fd[i]);
}

static void a_name_has_no_more_than_its_share(void **state)
{
	int fd[6];

	(void)state;
	open_port(0, 4);
	for (unsigned int i = 0; i < 5; i++) {
		fd[i] = come(1);
		seats[i].needed = i != 2;
		use(fd[i], i, 7);
	}
	expect_gone(2);
	fd[5] = come(1);
	seats[5].needed = true;
	use(fd[5], 5, 7); /* all are needed */
	expect_gone(0);
	for (int i = 0; i < 6; i++)
		close(fd[i]);
}

static void a_user_of_this_host_is_one_source(void **state)
{
	unsigned int n = 6;
	pid_t others[4];
	int fd[3];

	(void)state;
	if (geteuid())
		skip(); /* only root can be somebody else */
	open_port_to("64998", n, 0);
	for (unsigned int i = 0; i < 2; i++) /* ours are idle for longest */
		fd[i] = come((uint8_t)(1 + i));
	assert_int_equal(listener->peers.sources.n_nodes, 1);
	for (unsigned int i = 0; i < 4; i++)
		others[i] = come_as(TEST_USER_A);
	assert_int_equal(listener->peers.sources.n_nodes, 2);
	fd[2] = come(3);
	expect_gone(2);
	use(fd[0], 0, 0);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(kill(others[i], SIGKILL), 0);
		assert_int_equal(waitpid(others[i], NULL, 0), others[i]);
	}
	for (unsigned int i = 0; i < 3; i++)
		close(fd[i]);
}

static void who_has_many_makes_way_when_descriptors_are_short(void **state)
{
	struct rlimit before, low;
	int fd[30], honest;

	(void)state;
	open_port(0, 0);
	for (unsigned int i = 0; i < 30; i++)
		fd[i] = come(2);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	honest = dup(fd[0]); /* the number that the test's own end will have */
	low.rlim_cur = (rlim_t)honest + 1;
	close(honest);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	honest = come(1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	expect_gone(0);
	use(honest, 30, 0);
	close(honest);
	for (int i = 0; i < 30; i++)
		close(fd[i]);
}

/* ---- bodies that never end ---- */

/* Sends the first @len bytes of a body of @of. */
static void send_part_of(int fd, uint32_t of, size_t len)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];

	raw_send(fd, head, raw_header(head, of, ECHO, 1));
	for (; len; len -= len < PIECE ? len : PIECE)
		raw_send(fd, piece, len < PIECE ? len : PIECE);
}

static void send_part(int fd, size_t len)
{
	send_part_of(fd, BODY_MAX, len);
}

static void unfinished_bodies_have_a_budget(void **state)
{
	int fd[30], honest;

	(void)state;
	open_port(0, 0);
	for (unsigned int i = 0; i < 30; i++) {
		fd[i] = come((uint8_t)(2 + i % 3));
		send_part(fd[i], BODY_MAX - 1);
		assert_true(listener->peers.bytes[TEI_FRAME_INPUT] <=
			    TEI_FRAME_INPUT_MAX);
	}
	assert_true(listener->peers.bytes[TEI_FRAME_INPUT] > 0);
	assert_true(n_faults[TEI_FRAME_UNFINISHED] >= 30 - 8);
	honest = come(1);
	send_part(honest, BODY_MAX);
	pump_until(int_is_set, &seats[30].n_frames);
	close(honest);
	for (int i = 0; i < 30; i++)
		close(fd[i]);
}

static void of_one_source_the_oldest_body_makes_way(void **state)
{
	int fd[5];

	(void)state;
	open_port(0, 0);
	for (unsigned int i = 0; i < 5; i++) {
		fd[i] = come(1);
		send_part(fd[i], BODY_MAX - 1);
		assert_true(listener->peers.bytes[TEI_FRAME_INPUT] <=
			    TEI_FRAME_INPUT_EACH);
	}
	expect_gone(0);
	raw_send(fd[4], piece, 1);
	pump_until(int_is_set, &seats[4].n_frames);
	for (int i = 0; i < 5; i++)
		close(fd[i]);
}

#define N_SMALL 200

static void of_one_name_the_largest_body_makes_way(void **state)
{
	int fd[N_SMALL + 4];

	(void)state;
	open_port(0, 0);
	for (unsigned int i = 0; i < N_SMALL; i++) {
		fd[i] = come(1);
		send_part_of(fd[i], 100, 1);
	}
	for (unsigned int i = N_SMALL; i < N_SMALL + 4; i++) {
		fd[i] = come(1);
		send_part(fd[i], BODY_MAX - 1);
	}
	expect_gone(N_SMALL); /* of these the oldest */
	assert_int_equal(n_faults[TEI_FRAME_UNFINISHED], 1);
	for (unsigned int i = 0; i < N_SMALL + 4; i++)
		close(fd[i]);
}

/* The nameless have most, and too little each for who grows by a MiB. */
static void few_make_way_for_one_body(void **state)
{
	const unsigned int n = N_SMALL + 13;
	const size_t *bytes;
	int fd[N_SMALL + 14];

	(void)state;
	open_port(0, 0);
	bytes = &listener->peers.bytes[TEI_FRAME_INPUT];
	for (unsigned int i = 0; i <= n; i++) {
		fd[i] = come(1);
		if (i >= N_SMALL)
			use(fd[i], i, (uint8_t)(1 + i - N_SMALL));
		if (i < N_SMALL)
			send_part_of(fd[i], 16 << 10, 1);
		else if (i < n)
			send_part_of(fd[i], 2150 << 10, (2150 << 10) - 1);
		/* The rest may come as late as the test takes. */
		seats[i].conn->part_ms = TEI_FRAME_NEVER;
	}
	send_part(fd[n], (1 << 20) - 1);
	assert_int_equal(n_faults[TEI_FRAME_UNFINISHED], 0);
	assert_true(*bytes > TEI_FRAME_INPUT_EACH - PIECE * 16);
	raw_send(fd[n], piece, 1);
	expect_gone(n);
	assert_int_equal(n_faults[TEI_FRAME_UNFINISHED], 5);
	assert_true(*bytes > 0 && *bytes <= TEI_FRAME_INPUT_EACH);
	for (unsigned int i = N_SMALL; i < n; i++)
		assert_non_null(seats[i].conn);
	for (unsigned int i = 0; i <= n; i++)
		close(fd[i]);
}

struct arrival {
	int fd;
	int n;
};

static bool has_arrived(void *arg)
{
	struct arrival *a = arg;
	int n = 0;

	assert_int_equal(ioctl(a->fd, FIONREAD, &n), 0);
	return n == a->n;
}

static bool input_is_counted(void *arg)
{
	return listener->peers.bytes[TEI_FRAME_INPUT] == *(size_t *)arg;
}

static void whole_frames_that_wait_count_as_well(void **state)
{
	const uint32_t len = 10000;
	size_t frame = TEI_FRAME_HEADER_LEN + len, most = len + frame;
	uint8_t bytes[2 * (TEI_FRAME_HEADER_LEN + 10000)] = {0};
	struct arrival a = {.n = (int)sizeof(bytes)};
	int fd;

	(void)state;
	open_port(0, 0);
	fd = come(1);
	a.fd = seats[0].conn->fd;
	seats[0].busy = true;
	raw_header(bytes, len, ECHO, 1);
	raw_header(bytes + frame, len, ECHO, 2);
	assert_int_equal(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_true(test_wait_until(has_arrived, &a, SOON_MS));
	pump_until(input_is_counted, &most); /* one waits, one was read */
	tei_frame_resume(seats[0].conn);
	assert_int_equal(seats[0].n_frames, 1);
	assert_int_equal(listener->peers.bytes[TEI_FRAME_INPUT], len);
	seats[0].busy = false;
	tei_frame_resume(seats[0].conn);
	assert_int_equal(seats[0].n_frames, 2);
	assert_int_equal(listener->peers.bytes[TEI_FRAME_INPUT], 0);
	close(fd);
}

struct last_words {
	int fd;
	size_t n;
	char bytes[TEI_FRAME_HEADER_LEN + 256];
};

static bool have_come(void *arg)
{
	struct last_words *w = arg;
	ssize_t n = recv(w->fd, w->bytes + w->n, sizeof(w->bytes) - w->n,
			 MSG_DONTWAIT);

	if (n > 0)
		w->n += (size_t)n;
	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* A reset would overtake the words. */
static void who_makes_way_hears_why_though_it_was_not_read(void **state)
{
	struct last_words w = {.n = 0};
	struct arrival a = {.n = PIECE};
	size_t one = 1;
	int fd, err = 0;
	socklen_t len = sizeof(err);

	(void)state;
	open_port(1, 0);
	w.fd = come(1);
	a.fd = seats[0].conn->fd;
	seats[0].busy = true;
	raw_send(w.fd, piece,
		 raw_header(piece, 1, ECHO, 1) + 1); /* is not taken */
	pump_until(input_is_counted, &one);
	assert_int_equal(send(w.fd, piece, PIECE, 0), PIECE);
	assert_true(test_wait_until(has_arrived, &a, SOON_MS));
	fd = come(2);
	expect_gone(0);
	pump_until(have_come, &w);
	assert_true(w.n > TEI_FRAME_HEADER_LEN);
	assert_int_equal(w.bytes[4], TEI_FRAME_REFUSED);
	assert_int_equal(getsockopt(w.fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(err, 0);
	close(w.fd);
	close(fd);
}

/* ---- answers that nobody reads ---- */

#define ANSWER ((size_t)15 << 20)

/* Sends @n answers of ANSWER bytes by the connection of @seat. */
static void answer(unsigned int seat, unsigned int n)
{
	static uint8_t bytes[ANSWER];
	Te__Connected m = TE__CONNECTED__INIT;

	m.address.data = bytes;
	m.address.len = sizeof(bytes);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(tei_frame_send(seats[seat].conn, ECHO,
						TEI_FRAME_REPLY, 1, &m.base),
				 0);
}

static bool nothing_is_unread(void *arg)
{
	static uint8_t sink[PIECE];

	while (recv(*(int *)arg, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
	return listener->peers.bytes[TEI_FRAME_OUTPUT] == 0;
}

static void unread_answers_have_a_budget(void **state)
{
	const struct tei_frame_source *source;
	const size_t *bytes;
	int fd[5];

	(void)state;
	open_port(0, 0);
	for (unsigned int i = 0; i < 5; i++)
		fd[i] = come(i == 4 ? 2 : 1);
	source = seats[0].conn->holder->source;
	bytes = &source->bytes[TEI_FRAME_OUTPUT];
	answer(0, 2);
	answer(1, 4);
	answer(2, 2);
	answer(4, 1); /* another source's */
	assert_true(*bytes > 5 * ANSWER && *bytes <= TEI_FRAME_OUTPUT_EACH);
	assert_int_equal(n_faults[TEI_FRAME_UNREAD], 0);
	answer(3, 3);
	expect_gone(1);
	assert_int_equal(n_faults[TEI_FRAME_UNREAD], 1);
	assert_true(*bytes > 0 && *bytes <= TEI_FRAME_OUTPUT_EACH);
	for (unsigned int i = 0; i < 4; i++) {
		assert_true(i == 1 || seats[i].conn);
		close(fd[i]);
	}
	pump_until(nothing_is_unread, &fd[4]);
	use(fd[4], 4, 0);
	close(fd[4]);
}

static void who_fills_the_budget_itself_is_cut_off(void **state)
{
	int fd;

	(void)state;
	open_port(0, 0);
	fd = come(1);
	while (!n_faults[TEI_FRAME_UNREAD])
		answer(0, 1);
	assert_int_equal(listener->peers.bytes[TEI_FRAME_OUTPUT], 0);
	expect_gone(0);
	close(fd);
}

/* ---- turns that are measured ---- */

static void on_measured(uint64_t cpu_ns, void *arg)
{
	(void)cpu_ns;
	(void)arg;
}

/* Three need all the time that a turn has for reads, and never read much. */
static void all_read_though_some_always_have_more(void **state)
{
	uint8_t bytes[TEI_FRAME_HEADER_LEN];
	int fd[20];

	(void)state;
	open_port(0, 0);
	raw_header(bytes, 0, SILENT, 1);
	for (unsigned int i = 0; i < TEST_COUNT(fd); i++) {
		fd[i] = come(1);
		if (i < 3)
			seats[i].goes_on = fd[i];
	}
	for (unsigned int i = 0; i < TEST_COUNT(fd); i++)
		assert_int_equal(send(fd[i], bytes, sizeof(bytes), 0),
				 sizeof(bytes));
	tei_loop_measure(loop, on_measured, NULL);
	assert_int_equal(tei_loop_run(loop), 0);
	tei_loop_measure(loop, NULL, NULL);
	for (unsigned int i = 0; i < TEST_COUNT(fd); i++) {
		assert_true(seats[i].n_frames);
		seats[i].goes_on = 0;
		close(fd[i]);
	}
}

/* ---- any order ---- */

static uint64_t draw(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* The counts of sources and names stay right: a server asserts it at its end.
 */
static void counts_hold_in_any_order(void **state)
{
	uint64_t x = 0x9e3779b97f4a7c15;
	int fd[N_SEATS];

	(void)state;
	open_port(24, 3);
	for (unsigned int i = 0; i < N_SEATS; i++) {
		unsigned int other = (unsigned int)(draw(&x) % (i + 1));

		fd[i] = come((uint8_t)(1 + draw(&x) % 3));
		if (seats[i].conn)
			use(fd[i], i, (uint8_t)(draw(&x) % 8));
		seats[i].needed = draw(&x) % 2;
		if (draw(&x) % 3 == 0 && seats[other].conn) {
			tei_frame_close(seats[other].conn);
			seats[other].conn = NULL;
		}
		assert_true(listener->n_conns <= 24);
		assert_int_equal(listener->n_conns, listener->peers.n);
	}
	for (unsigned int i = 0; i < N_SEATS; i++) {
		close(fd[i]);
		if (seats[i].conn)
			tei_frame_close(seats[i].conn);
		seats[i].conn = NULL;
	}
	assert_int_equal(listener->peers.n, 0);
	assert_int_equal(listener->peers.sources.n_nodes, 0);
	assert_int_equal(listener->peers.holders.n_nodes, 0);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_idlest_makes_way),
		T(the_idlest_of_a_name_makes_way),
		T(the_idlest_of_equal_names_makes_way),
		T(the_idlest_of_equal_sources_makes_way),
		T(what_is_needed_stays_while_anything_else_can_go),
		T(of_a_source_only_so_many_are_spared),
		T(that_many_are_spared),
		T(who_has_most_makes_way),
		T(of_one_source_the_name_with_most_makes_way),
		T(what_is_needed_stays_though_all_others_speak),
		T(a_name_has_no_more_than_its_share),
		T(a_user_of_this_host_is_one_source),
		T(who_has_many_makes_way_when_descriptors_are_short),
		T(unfinished_bodies_have_a_budget),
		T(of_one_source_the_oldest_body_makes_way),
		T(of_one_name_the_largest_body_makes_way),
		T(few_make_way_for_one_body),
		T(whole_frames_that_wait_count_as_well),
		T(who_makes_way_hears_why_though_it_was_not_read),
		T(unread_answers_have_a_budget),
		T(who_fills_the_budget_itself_is_cut_off),
		T(all_read_though_some_always_have_more),
		T(counts_hold_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
