/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame_bad.c - peers that send what they should not, or too slowly */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/frame_private.h"
#include "frame_peer.h"

/* Two frames, of 20 and of 900 bytes. */
#define STREAM_LEN (2 * TEI_FRAME_HEADER_LEN + 20 + 900)

static void fill_stream(uint8_t out[STREAM_LEN])
{
	size_t n = raw_header(out, 20, SILENT, 1);

	memset(out + n, 'a', 20);
	n += 20;
	n += raw_header(out + n, 900, SILENT, 2);
	memset(out + n, 'b', 900);
}

/* Who closes before it is accepted is nobody's, and not served. */
static int connect_anew(void)
{
	int fd;

	memset(&server, 0, sizeof(server));
	fd = raw_connect();
	pump_until(int_is_set, &server.n_accepted);
	return fd;
}

static void truncation_at_every_byte_ends_without_half_a_frame(void **state)
{
	uint8_t stream[STREAM_LEN];

	(void)state;
	fill_stream(stream);
	for (size_t len = 0; len <= STREAM_LEN; len++) {
		int fd = connect_anew();
		int whole = (len >= TEI_FRAME_HEADER_LEN + 20) +
			    (len == STREAM_LEN);

		raw_send(fd, stream, len);
		close(fd);
		pump_until(int_is_set, &server.n_down);
		assert_int_equal(server.n_frames, whole);
		assert_int_equal(server.err, -ECONNRESET);
	}
}

static void pieces_of_any_size_make_the_same_frames(void **state)
{
	uint8_t stream[STREAM_LEN];

	(void)state;
	fill_stream(stream);
	for (size_t piece = 1; piece < 100; piece += 3) {
		int fd = connect_anew();

		for (size_t at = 0; at < STREAM_LEN; at += piece)
			raw_send(fd, stream + at,
				 STREAM_LEN - at < piece ? STREAM_LEN - at
							 : piece);
		close(fd);
		pump_until(int_is_set, &server.n_down);
		assert_int_equal(server.n_frames, 2);
		assert_int_equal(server.last.id, 2);
		assert_int_equal(server.last.len, 900);
	}
}

/* What a stranger gets who sends only this header, with bytes behind it. */
static const char *answer_to(uint32_t len, uint16_t type)
{
	uint8_t bytes[TEI_FRAME_HEADER_LEN + 100] = {0};
	int fd = raw_connect();

	raw_header(bytes, len, type, 7);
	raw_send(fd, bytes, sizeof(bytes));
	return raw_refusal(fd);
}

static void lengths_above_the_cap_are_refused_and_counted(void **state)
{
	static const uint32_t lens[] = {1025, 1u << 31, UINT32_MAX};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(lens); i++) {
		assert_string_equal(answer_to(lens[i], SILENT),
				    "frame too long");
		assert_int_equal(server.faults[TEI_FRAME_TOO_LONG], i + 1);
	}
	pump_until(server_is_empty, NULL);
	assert_int_equal(server.n_down, TEST_COUNT(lens));
	assert_int_equal(server.err, -EPROTO);
	assert_int_equal(server.n_frames, 0);
}

static void unknown_types_are_refused_and_counted(void **state)
{
	static const uint16_t types[] = {N_KINDS, 63, 64, 65, 65535};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(types); i++) {
		assert_string_equal(answer_to(0, types[i]),
				    "unknown frame type");
		assert_int_equal(server.faults[TEI_FRAME_BAD_TYPE], i + 1);
	}
	assert_int_equal(server.n_frames, 0);
}

static void unknown_flags_are_refused_and_counted(void **state)
{
	static const uint8_t flags[] = {TEI_FRAME_RETRY, 4, 128};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(flags); i++) {
		uint8_t head[TEI_FRAME_HEADER_LEN];
		int fd = raw_connect();

		raw_header(head, 0, SILENT, 7);
		head[6] = flags[i];
		raw_send(fd, head, sizeof(head));
		assert_string_equal(raw_refusal(fd), "unknown frame flag");
		assert_int_equal(server.faults[TEI_FRAME_BAD_TYPE], i + 1);
	}
	assert_int_equal(server.n_frames, 0);
}

static void announced_body_takes_no_memory_before_it_comes(void **state)
{
	uint8_t head[TEI_FRAME_HEADER_LEN + 1] = {0};
	int fd = raw_connect();

	(void)state;
	raw_send(fd, head, raw_header(head, CAP_BIG, ECHO, 1));
	raw_send(fd, head, 1);
	for (int i = 0; i < 10; i++)
		pump();
	assert_true(server.conn->in_body);
	assert_true(server.conn->room_body <= 65536);
	close(fd);
	pump_until(int_is_set, &server.n_down);
}

static void bad_body_is_counted_and_refused(void **state)
{
	uint8_t head[TEI_FRAME_HEADER_LEN + 4] = {0};
	int fd = raw_connect();

	(void)state;
	raw_header(head, 4, ECHO, 1);
	memset(head + TEI_FRAME_HEADER_LEN, 0xff, 4);
	raw_send(fd, head, sizeof(head));
	assert_string_equal(raw_refusal(fd), "does not decode");
	assert_int_equal(server.faults[TEI_FRAME_BAD_BODY], 1);
	pump_until(server_is_empty, NULL);
	assert_int_equal(server.err, -EPROTO);
}

static void refusal_of_a_stranger_is_only_text(void **state)
{
	uint8_t bytes[TEI_FRAME_HEADER_LEN + 2000];
	size_t n;

	(void)state;
	n = raw_header(bytes, 5, TEI_FRAME_REFUSED, 0);
	memcpy(bytes + n, "a%sb\0", 5);
	for (int fd = raw_connect(); fd >= 0; fd = -1) {
		raw_send(fd, bytes, n + 5);
		assert_string_equal(raw_refusal(fd), "");
	}
	pump_until(server_is_empty, NULL);
	assert_int_equal(server.err, -ECONNREFUSED);
	assert_string_equal(server.text, "a%sb");
	assert_string_equal(answer_to(2000, TEI_FRAME_REFUSED),
			    "frame too long");
}

static void answers_nobody_asked_for_are_dropped(void **state)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	int fd = raw_connect();

	(void)state;
	for (uint64_t id = 0; id < 5; id++) {
		raw_header(head, 0, SILENT, id);
		head[6] = TEI_FRAME_REPLY;
		raw_send(fd, head, sizeof(head));
	}
	raw_send(fd, head, raw_header(head, 0, SILENT, UINT64_MAX));
	pump_until(int_is_set, &server.n_frames);
	assert_int_equal(server.n_frames, 1);
	assert_true(server.last.id == UINT64_MAX);
	close(fd);
}

struct dripping {
	int fd;
	size_t n_sent;
};

static void drip(void *arg)
{
	struct dripping *d = arg;

	if (send(d->fd, "", 1, MSG_NOSIGNAL) == 1)
		d->n_sent++;
}

static void byte_after_byte_does_not_hold_off_the_hello_deadline(void **state)
{
	struct dripping d = {0};
	struct tei_timer *timer;

	(void)state;
	serve(0, 100);
	d.fd = raw_connect();
	timer = tei_timer_start(loop, 10, true, drip, &d);
	pump_until(int_is_set, &server.n_down);
	tei_timer_stop(timer);
	assert_int_equal(server.err, -ETIMEDOUT);
	assert_int_equal(server.faults[TEI_FRAME_TIMEOUT], 1);
	assert_true(d.n_sent > 0 && d.n_sent < TEI_FRAME_HEADER_LEN);
	close(d.fd);
}

static void frame_in_time_ends_the_wait_for_it(void **state)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	int fd;

	(void)state;
	serve(0, 60000);
	fd = raw_connect();
	pump_until(int_is_set, &server.n_accepted);
	assert_true(server.conn->step_ms != TEI_FRAME_NEVER);
	raw_send(fd, head, raw_header(head, 0, SILENT, 1));
	pump_until(int_is_set, &server.n_frames);
	assert_true(server.conn->step_ms == TEI_FRAME_NEVER);
	tei_frame_expect(server.conn, 1);
	pump_until(int_is_set, &server.n_down);
	assert_int_equal(server.err, -ETIMEDOUT);
	close(fd);
}

static bool has_part(void *arg)
{
	(void)arg;
	return server.conn && server.conn->part_ms != TEI_FRAME_NEVER;
}

static void frame_begun_must_be_ended_in_time(void **state)
{
	uint8_t head[TEI_FRAME_HEADER_LEN + 1] = {0};
	int fd = raw_connect();

	(void)state;
	raw_header(head, 1, SILENT, 1);
	for (size_t len = 1; len < sizeof(head); len += 15) { /* 1, then 16 */
		raw_send(fd, head, len);
		pump_until(has_part, NULL);
		raw_send(fd, head + len, sizeof(head) - len);
		pump_until(int_is_set, &server.n_frames);
		assert_false(has_part(NULL));
		server.n_frames = 0;
	}
	raw_send(fd, head, 3);
	pump_until(has_part, NULL);
	server.conn->part_ms = 1; /* as if it were long ago */
	tei_frame_tick_now(server.conn);
	pump_until(int_is_set, &server.n_down);
	assert_int_equal(server.err, -ETIMEDOUT);
	assert_int_equal(server.faults[TEI_FRAME_TIMEOUT], 1);
	close(fd);
}

static bool has_more(void *n_body)
{
	return server.conn->in_body &&
	       server.conn->n_body == *(const size_t *)n_body;
}

static void frame_has_no_more_time_for_what_trickles(void **state)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	uint64_t due;
	int fd = raw_connect();

	(void)state;
	raw_header(head, 3, SILENT, 1);
	raw_send(fd, head, 1);
	pump_until(has_part, NULL);
	/* As if it were begun a while ago. */
	server.conn->part_ms -= TEI_FRAME_ASKED_MS / 2;
	due = server.conn->part_ms;
	raw_send(fd, head + 1, sizeof(head) - 1);
	for (size_t n = 0; n < 3; n++) {
		pump_until(has_more, &n);
		assert_int_equal(server.conn->part_ms, due);
		raw_send(fd, "", 1);
	}
	pump_until(int_is_set, &server.n_frames);
	assert_false(has_part(NULL));
	close(fd);
}

static void loop_ends_while_a_refusal_is_being_delivered(void **state)
{
	uint8_t head[TEI_FRAME_HEADER_LEN];
	int fd = raw_connect();

	(void)state;
	raw_send(fd, head, raw_header(head, 0, 65535, 1));
	pump_until(int_is_set, &server.n_down);
	/* fd stays open: the loop goes with the connection still waiting. */
	peers_teardown(NULL);
	close(fd);
	peers_setup(NULL);
}

static void random_bytes_only_ever_cost_the_connection(void **state)
{
	uint64_t x = 0x2545f4914f6cdd1dull;
	uint8_t bytes[64];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		int fd = raw_connect();

		for (size_t j = 0; j < sizeof(bytes); j++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			bytes[j] = (uint8_t)x;
		}
		if (i % 2) { /* past the header more often */
			bytes[2] = bytes[3] = bytes[5] = 0;
			bytes[4] &= 7;
		}
		raw_send(fd, bytes, sizeof(bytes) - (size_t)(x % 50));
		close(fd);
		pump_until(server_is_empty, NULL);
	}
	pump();
	assert_true(server.n_accepted > 0);
	assert_true(server.faults[TEI_FRAME_BAD_TYPE] > 0);
	assert_true(server.faults[TEI_FRAME_TOO_LONG] > 0);
}

#define T(test) \
	cmocka_unit_test_setup_teardown(test, peers_setup, peers_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(truncation_at_every_byte_ends_without_half_a_frame),
		T(pieces_of_any_size_make_the_same_frames),
		T(lengths_above_the_cap_are_refused_and_counted),
		T(unknown_types_are_refused_and_counted),
		T(unknown_flags_are_refused_and_counted),
		T(announced_body_takes_no_memory_before_it_comes),
		T(bad_body_is_counted_and_refused),
		T(refusal_of_a_stranger_is_only_text),
		T(answers_nobody_asked_for_are_dropped),
		T(byte_after_byte_does_not_hold_off_the_hello_deadline),
		T(frame_in_time_ends_the_wait_for_it),
		T(frame_begun_must_be_ended_in_time),
		T(frame_has_no_more_time_for_what_trickles),
		T(loop_ends_while_a_refusal_is_being_delivered),
		T(random_bytes_only_ever_cost_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
