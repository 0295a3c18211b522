/* SPDX-License-Identifier: Apache-2.0 */
/* test_locations.c - lists of locations, and what lies at each of them */
#include "perf/te-perf/locations.h"

#include <stdio.h>
#include <string.h>

#include "perf/te-perf/load.h"
#include "tests/lib/test.h"

static void a_list_has_one_spelling(void **state)
{
	static const char *const lists[][2] = {
		{NULL, "*"},
		{"*", "*"},
		{"cuda:0", "cuda:0"},
		{"cuda:03,cpu:1,*", "cuda:3,cpu:1,*"},
		{"cpu:999999", "cpu:999999"},
		{"cuda:0,cuda:1,cuda:2,cuda:3,cuda:4,cuda:5,cuda:6,cuda:7,"
		 "cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5,cpu:6,cpu:7",
		 "cuda:0,cuda:1,cuda:2,cuda:3,cuda:4,cuda:5,cuda:6,cuda:7,"
		 "cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5,cpu:6,cpu:7"},
	};
	struct locations l;
	char text[LOCATIONS_LEN];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(lists); i++) {
		assert_null(locations_parse(&l, lists[i][0]));
		locations_text(&l, text);
		assert_string_equal(text, lists[i][1]);
		assert_int_equal(locations_have_gpu(&l),
				 strstr(text, "cuda") != NULL);
	}
}

static void what_is_no_list_is_told(void **state)
{
	static const char *const lists[][2] = {
		{"", "missing"},
		{",cuda:0", "missing"},
		{"cuda:0,", "missing"},
		{"cuda:0,,cuda:1", "missing"},
		{"gpu:0", "each should be"},
		{"cuda", "each should be"},
		{"cuda:", "each should be"},
		{"cuda:,cpu:0", "each should be"},
		{"cuda:x", "each should be"},
		{"cuda:-1", "each should be"},
		{"cuda:0 ", "each should be"},
		{"cuda:0.1", "each should be"},
		{"cuda:1234567", "each should be"},
		{"**", "each should be"},
		{"*:0", "each should be"},
		{"CUDA:0", "each should be"},
		{"cuda:0,cpu:0,cuda:00", "twice"},
		{"*,*", "twice"},
		{"cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5,cpu:6,cpu:7,cpu:8,cpu:9,"
		 "cpu:10,cpu:11,cpu:12,cpu:13,cpu:14,cpu:15,cpu:16",
		 "16 at most"},
	};
	struct locations l;
	const char *why;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(lists); i++) {
		why = locations_parse(&l, lists[i][0]);
		assert_non_null(why);
		assert_non_null(strstr(why, lists[i][1]));
	}
}

/* Parts are far from each other, so that no byte of one is in another. */
static struct side side_of(uint32_t n, uint64_t len)
{
	struct side s = {.n = n, .span = side_span(len, n)};

	for (uint32_t i = 0; i < n; i++)
		s.at[i] = (uint64_t)(i + 1) << 32;
	return s;
}

static void places_take_the_parts_by_turns(void **state)
{
	const uint64_t len = 100000, stride = 104;

	(void)state;
	for (uint32_t n = 1; n <= LOCATIONS_MAX; n++) {
		struct side s = side_of(n, len);
		uint64_t places = side_places(&s, stride);

		assert_true(n * s.span >= len && n * s.span < len + 16 * n);
		assert_true(places >= len / stride - n);
		for (uint64_t p = 0; p < places; p++) {
			uint64_t position = side_place(&s, stride, p);

			assert_int_equal(side_at(&s, position),
					 s.at[p % n] + p / n * stride);
			assert_true(side_left(&s, position) >= stride);
		}
	}
}

static void positions_run_through_all_parts(void **state)
{
	struct side s = side_of(3, 3000);

	(void)state;
	for (uint64_t at = 0; at < 3 * s.span; at++) {
		assert_int_equal(side_at(&s, at),
				 s.at[at / s.span] + at % s.span);
		assert_int_equal(side_left(&s, at) + at % s.span, s.span);
	}
}

/* Each thread has slots of its own, hot ones too, on both sides. */
static void threads_use_each_location(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2 * LOCATIONS_MAX; i++) {
		const struct load l = {
			.local = side_of(1 + i / 2, 1 << 20),
			.remote = side_of(LOCATIONS_MAX - i / 2, 1 << 20),
			.size = 4093,
			.batch = 1,
			.n_threads = 3,
			.hot = i & 1,
		};
		uint32_t ours = 0, theirs = 0;

		assert_true(load_slots(&l) <= load_share(&l));
		for (uint64_t slot = 0; slot < load_slots(&l); slot++) {
			uint64_t place = load_place(load_share(&l), 2, slot);

			assert_true(place < side_places(&l.local, 4096));
			assert_true(place < side_places(&l.remote, 4096));
			ours |= 1u << place % l.local.n;
			theirs |= 1u << place % l.remote.n;
		}
		assert_int_equal(ours, (1u << l.local.n) - 1);
		assert_int_equal(theirs, (1u << l.remote.n) - 1);
	}
}

/* So that no request touches what another one does, and none is at a word. */
static void unaligned_slots_stay_apart(void **state)
{
	const struct load l = {
		.local = side_of(2, 1 << 20),
		.remote = side_of(3, 1 << 20),
		.size = 100,
		.batch = 1,
		.n_threads = 1,
		.unaligned = true,
	};
	uint64_t same = 0, n = load_slots(&l);

	(void)state;
	for (uint64_t place = 0; place < n; place++) {
		uint64_t ours = load_shift(&l, &l.local, place);
		uint64_t theirs = load_shift(&l, &l.remote, place);

		assert_true(ours & 1 && ours + l.size <= load_stride(&l));
		assert_true(theirs & 1 && theirs + l.size <= load_stride(&l));
		assert_int_equal(load_position(&l, &l.local, place),
				 side_place(&l.local, load_stride(&l), place) +
					 ours);
		same += ours % 8 == theirs % 8;
	}
	assert_true(n && same < n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_has_one_spelling),
		cmocka_unit_test(what_is_no_list_is_told),
		cmocka_unit_test(places_take_the_parts_by_turns),
		cmocka_unit_test(positions_run_through_all_parts),
		cmocka_unit_test(threads_use_each_location),
		cmocka_unit_test(unaligned_slots_stay_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
