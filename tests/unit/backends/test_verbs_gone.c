/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_verbs_gone.c - local memory, not registered, that its user has unmapped
 *
 * It costs him the request, and nobody a signal.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

#define PAGE   ((size_t)4096)
#define LEN    ((size_t)256 << 10) /* four blocks */
#define LITTLE 64                  /* goes inline */

static uint8_t *map;

static int set_up(void **state)
{
	int rc;

	tei_log_set_level(TEI_LOG_ERROR);
	rc = verbs_rig_set_up(state);
	map = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(map != MAP_FAILED);
	memset(map, 0x11, LEN);
	return rc;
}

static int tear_down(void **state)
{
	const struct tei_bounce *bounce = &verbs_rail(rig.pair.a.rail)->bounce;

	(void)munmap(map, LEN);
	if (bounce->n_free != bounce->n)
		return -1;
	return verbs_rig_tear_down(state);
}

/* Nobody may map something else there meanwhile. */
static void take_away(size_t from, size_t to)
{
	assert_true(mmap(map + from, to - from, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) == map + from);
}

static struct fake_slice *slice_of(uint32_t op, size_t length)
{
	struct fake_slice *s = verbs_rig_slice(op, 0, length);

	s->piece.iov_base = map;
	return s;
}

static void expect_refused(struct fake_slice *s)
{
	verbs_rig_wait(&s->n_done, 1);
	assert_int_equal(s->err, -EFAULT);
	fake_slice_destroy(s);
}

/* The endpoint works on, with blocks for all. */
static void expect_the_rest_goes_on(void)
{
	struct fake_slice *s = verbs_rig_slice(TEI_WRITE, 0, LEN);

	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	verbs_rig_fill(rig.near, LEN, 3);
	verbs_rig_carry(s);
	assert_int_equal(s->err, 0);
	assert_memory_equal(rig.near, rig.far, LEN);
	fake_slice_destroy(s);
}

static void write_from_it_is_refused(void **state)
{
	static const size_t lengths[] = {LITTLE, PAGE, LEN};

	(void)state;
	take_away(0, LEN);
	for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
		struct fake_slice *s = slice_of(TEI_WRITE, lengths[i]);

		assert_int_equal(fake_post(&rig.pair, s), 0);
		assert_int_equal(s->n_done, 0);
		expect_refused(s);
	}
	assert_int_equal(rig.far[0], 0);
	expect_the_rest_goes_on();
}

static void write_whose_end_is_gone_is_refused(void **state)
{
	struct fake_slice *s;

	(void)state;
	take_away(LEN - PAGE, LEN);
	s = slice_of(TEI_WRITE, LEN);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	expect_refused(s);
	expect_the_rest_goes_on();
}

static void little_write_over_the_edge_is_refused(void **state)
{
	struct fake_slice *s = slice_of(TEI_WRITE, LITTLE);

	(void)state;
	take_away(PAGE, LEN);
	s->piece.iov_base = map + PAGE - LITTLE / 2;
	assert_int_equal(fake_post(&rig.pair, s), 0);
	expect_refused(s);
	expect_the_rest_goes_on();
}

static void read_into_what_goes_meanwhile_is_refused(void **state)
{
	struct fake_slice *s;

	(void)state;
	for (size_t from = 0; from < LEN; from += LEN - PAGE) {
		fake_verbs_hang(0, true);
		s = slice_of(TEI_READ, LEN);
		assert_int_equal(fake_post(&rig.pair, s), 0);
		take_away(from, from + PAGE);
		fake_verbs_hang(0, false);
		expect_refused(s);
	}
	expect_the_rest_goes_on();
}

static void read_into_what_may_not_be_written_is_refused(void **state)
{
	struct fake_slice *s = slice_of(TEI_READ, PAGE);

	(void)state;
	assert_int_equal(mprotect(map, LEN, PROT_READ), 0);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	expect_refused(s);
	assert_int_equal(map[0], 0x11);
	expect_the_rest_goes_on();
}

static void checksum_of_what_is_gone_is_refused(void **state)
{
	struct fake_slice *s = slice_of(TEI_WRITE, PAGE);

	(void)state;
	s->slice->crc_len = PAGE;
	fake_verbs_hang(0, true);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	take_away(0, PAGE);
	fake_verbs_hang(0, false);
	expect_refused(s);
	expect_the_rest_goes_on();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(write_from_it_is_refused),
		TEST(write_whose_end_is_gone_is_refused),
		TEST(little_write_over_the_edge_is_refused),
		TEST(read_into_what_goes_meanwhile_is_refused),
		TEST(read_into_what_may_not_be_written_is_refused),
		TEST(checksum_of_what_is_gone_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
