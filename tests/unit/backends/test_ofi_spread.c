/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_spread.c - regions that are too large for one NIC */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/unit/backends/ofi_rig.h"

#define ID    50
#define LEN   ((size_t)1 << 20)
#define PARTS 64u
#define PART  (LEN / PARTS)
/* Of a NIC that has room for three quarters and a bit, less the one it gives.*/
#define TAKEN (PARTS * 3 / 4 - 1)

/* A region that rails have, and the key that each gave for it. */
static _Alignas(65536) uint8_t large[LEN];
static uint8_t keys[2][FAKE_KEY_MAX];
static size_t key_lens[2];
static uint64_t registered[2]; /* bytes, before */

static char told[512]; /* the line of the log that tells of parts */
static unsigned int n_told;

static void keep(int level, const char *text, void *arg)
{
	(void)arg;
	if (level != TEI_LOG_INFO || !strstr(text, "in parts of"))
		return;
	(void)snprintf(told, sizeof(told), "%s", text);
	n_told++;
}

static struct tei_rail *rail_of(unsigned int i)
{
	return i ? rig.pair.b.rail : rig.pair.a.rail;
}

/* Each NIC has room for @room bytes more. */
static void limit_to(uint64_t room)
{
	for (unsigned int i = 0; i < 2; i++) {
		registered[i] = fake_ofi_registered(i);
		fake_ofi_limits(i)->registered = registered[i] + room;
	}
}

static int open_with(const char *const more[])
{
	int rc;

	tei_log_set_sink(keep, NULL);
	tei_log_set_level(TEI_LOG_INFO);
	n_told = 0;
	ofi_rig_start();
	rc = ofi_rig_open(more);
	if (rc)
		return rc;
	for (unsigned int i = 0; i < 2; i++)
		rail_of(i)->index = i;
	fake_spread_n = 2;
	limit_to(LEN * 3 / 4 + 100);
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	return open_with(NULL);
}

static int set_up_without_blocks(void **state)
{
	static const char *const none[] = {"ofi.bounce=0", NULL};

	(void)state;
	return open_with(none);
}

static int tear_down(void **state)
{
	int rc;

	fake_ofi_refuse_key_closes(0);
	rc = ofi_rig_tear_down(state);
	fake_spread_n = 1;
	tei_log_set_level(TEI_LOG_WARN);
	tei_log_set_sink(NULL, NULL);
	return rc;
}

/* Where keys are bound to endpoints regions are registered whole, or not. */
static bool in_parts(void)
{
	return rig.shape != FAKE_OFI_CXI;
}

static bool has_blocks(void)
{
	return fake_ofi_info(0)->domain_attr->mr_mode & FI_MR_LOCAL;
}

static int add(unsigned int i, uint64_t id, void *at, size_t length)
{
	key_lens[i] = sizeof(keys[i]);
	return tei_backend_ofi.region_add(rail_of(i), id, at, length, RIG_RW,
					  keys[i], &key_lens[i]);
}

static void drop(unsigned int i, uint64_t id)
{
	while (tei_backend_ofi.region_hide(rail_of(i), id))
		(void)fake_turn(rail_of(i));
	tei_backend_ofi.region_remove(rail_of(i), id);
	if (rig.pair.target_link.n_down)
		ofi_rig_rejoin();
}

/* Asserts that the bytes [@from, @to) of the region are alike, and differ. */
static void covers(unsigned int i, size_t from, size_t to, bool yes)
{
	uint64_t room;

	assert_int_equal(tei_backend_ofi.key_covers(keys[i], key_lens[i],
						    (uintptr_t)large + from,
						    &room),
			 yes);
	assert_int_equal(room, to - from);
}

static void each_nic_takes_a_part_from_its_own_place_on(void **state)
{
	unsigned int open = fake_ofi_open();

	(void)state;
	if (!in_parts())
		skip();
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(add(i, ID, large, LEN), 0);
		assert_int_equal(fake_ofi_registered(i),
				 registered[i] + TAKEN * PART);
	}
	assert_int_equal(fake_ofi_open(), open + 2 * TAKEN);
	covers(0, 0, TAKEN * PART, true);
	covers(0, TAKEN * PART, LEN, false);
	covers(1, 0, (TAKEN - PARTS / 2) * PART, true);
	covers(1, (TAKEN - PARTS / 2) * PART, LEN / 2, false);
	covers(1, LEN / 2, LEN, true);
	for (unsigned int i = 0; i < 2; i++) {
		drop(i, ID);
		assert_int_equal(fake_ofi_registered(i), registered[i]);
	}
	assert_int_equal(fake_ofi_open(), open);
}

static void one_line_says_what_a_nic_has_taken(void **state)
{
	(void)state;
	if (!in_parts())
		skip();
	assert_int_equal(add(0, ID, large, LEN), 0);
	assert_int_equal(n_told, 1);
	assert_non_null(strstr(told, ofi_rail(rail_of(0))->nic.name));
	assert_non_null(strstr(told, "770048 of 1048576 bytes"));
	assert_non_null(strstr(told, "in parts of 16384"));
	assert_non_null(strstr(told, "Cannot allocate memory"));
	assert_non_null(strstr(told, "by other rails"));
	drop(0, ID);
}

static void small_regions_have_room_beside_a_large_one(void **state)
{
	(void)state;
	if (!in_parts())
		skip();
	assert_int_equal(add(1, ID, large, LEN), 0);
	assert_int_equal(add(1, ID + 1, rig.near, PART), 0);
	drop(1, ID + 1);
	drop(1, ID);
}

static void nic_without_room_refuses(void **state)
{
	uint64_t had;

	(void)state;
	limit_to(100);
	had = fake_ofi_registered(1);
	assert_int_equal(add(1, ID, large, LEN), -ENOMEM);
	assert_int_equal(fake_ofi_registered(1), had);
	assert_int_equal(n_told, 0);
	/* One part alone is kept. */
	limit_to(PART + 100);
	if (!in_parts()) {
		assert_int_equal(add(1, ID, large, LEN), -ENOMEM);
		return;
	}
	assert_int_equal(add(1, ID, large, LEN), 0);
	covers(1, LEN / 2, LEN / 2 + PART, true);
	assert_int_equal(add(1, ID + 1, rig.near, LEN), -ENOMEM);
	drop(1, ID);
	assert_int_equal(fake_ofi_registered(1), had);
}

/* A key of the device may have a limit of its own. */
static void region_that_only_one_key_cannot_have_is_whole(void **state)
{
	static const int errors[] = {FI_ENOMEM, FI_ENOSPC, FI_EINVAL};

	(void)state;
	if (!in_parts())
		skip();
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		limit_to(LEN);
		fake_ofi_fail(FAKE_OFI_REGATTR, 1, errors[i]);
		assert_int_equal(add(1, ID, large, LEN), 0);
		covers(1, 0, LEN, true);
		covers(1, LEN / 2 + 1, LEN, true);
		assert_int_equal(key_lens[1], OFI_KEY_LEN + 8 * PARTS);
		assert_int_equal(fake_ofi_registered(1), registered[1] + LEN);
		assert_non_null(strstr(told, "under one key"));
		assert_null(strstr(told, "by other rails"));
		drop(1, ID);
	}
}

static void other_errors_refuse_all_of_it(void **state)
{
	uint64_t calls;

	(void)state;
	if (!in_parts())
		skip();
	calls = fake_ofi_counts().calls[FAKE_OFI_REGATTR];
	fake_ofi_fail(FAKE_OFI_REGATTR, 1, FI_EIO);
	assert_int_equal(add(1, ID, large, LEN), -EIO);
	assert_int_equal(fake_ofi_counts().calls[FAKE_OFI_REGATTR], calls + 1);
	for (unsigned int nth = 2; nth < 6; nth++) {
		fake_ofi_fail(FAKE_OFI_REGATTR, nth, FI_EIO);
		assert_int_equal(add(1, ID, large, LEN), -EIO);
		assert_int_equal(fake_ofi_registered(1), registered[1]);
	}
}

static void bound_keys_are_of_the_whole_or_of_nothing(void **state)
{
	(void)state;
	if (in_parts())
		skip();
	assert_int_equal(add(1, ID, large, LEN), -ENOMEM);
	assert_int_equal(fake_ofi_registered(1), registered[1]);
}

static void provider_may_keep_keys_for_a_while(void **state)
{
	(void)state;
	if (!in_parts())
		skip();
	fake_ofi_refuse_key_closes(FI_EBUSY);
	assert_int_equal(add(1, ID, large, LEN), 0);
	/* Also the part that was to be given back. */
	assert_int_equal(fake_ofi_registered(1),
			 registered[1] + (TAKEN + 1) * PART);
	covers(1, LEN / 2, LEN, true);
	covers(1, 0, (TAKEN + 1 - PARTS / 2) * PART, true);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tei_backend_ofi.region_hide(rail_of(1), ID),
				 -EBUSY);
	}
	fake_ofi_refuse_key_closes(0);
	drop(1, ID);
	assert_int_equal(fake_ofi_registered(1), registered[1]);
}

/* ---- chunks that the settings ask for ---- */

static void keys_that_run_out_are_a_want_of_room(void **state)
{
	static const char *const chunks[] = {"ofi.chunk=16384", NULL};

	(void)state;
	if (!in_parts())
		skip();
	ofi_rig_reopen(chunks);
	rail_of(1)->index = 1;
	fake_ofi_limits(1)->registered = UINT64_MAX;
	fake_ofi_limits(1)->keys = 0;
	while (add(1, ID, large, LEN))
		fake_ofi_limits(1)->keys++;
	drop(1, ID);
	fake_ofi_limits(1)->keys += 9;
	assert_int_equal(add(1, ID, large, LEN), 0);
	covers(1, LEN / 2, LEN / 2 + 9 * PART, true);
	covers(1, LEN / 2 + 9 * PART, LEN, false);
	drop(1, ID);
}

/* A key says so of no more than 64 chunks. */
static void chunks_that_are_too_small_are_all_or_none(void **state)
{
	static const char *const chunks[] = {"ofi.chunk=12288", NULL};

	(void)state;
	ofi_rig_reopen(chunks);
	limit_to(LEN * 3 / 4);
	assert_int_equal(add(1, ID, large, LEN), -ENOMEM);
	assert_int_equal(fake_ofi_registered(1), registered[1]);
}

/* ---- bytes ---- */

static void fill(uint8_t *at, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(i * 7 + i / 256 + seed);
}

/* One slice of near memory to or from @at of what b has of the region. */
static struct fake_slice *slice_to(uint32_t op, size_t at, size_t length)
{
	struct fake_slice *s = ofi_rig_slice(op, at, length);

	memcpy(s->key, keys[1], key_lens[1]);
	s->slice->key_len = (uint32_t)key_lens[1];
	s->slice->remote = (uintptr_t)large + at;
	return s;
}

static void ends_with(struct fake_slice *s, int err)
{
	ofi_rig_carry(s);
	assert_int_equal(s->err, err);
	fake_slice_destroy(s);
}

static void peers_reach_what_the_nic_has(void **state)
{
	const size_t gap = (TAKEN - PARTS / 2) * PART;

	(void)state;
	if (!in_parts())
		skip();
	assert_int_equal(add(1, ID, large, LEN), 0);
	fill(rig.near, RIG_LEN, 1);
	memset(large, 0, LEN);
	ends_with(slice_to(TEI_WRITE, LEN / 2, LEN / 2), 0);
	ends_with(slice_to(TEI_WRITE, 3, gap - 3), 0);
	assert_memory_equal(large + LEN / 2, rig.near + LEN / 2, LEN / 2);
	assert_memory_equal(large + 3, rig.near + 3, gap - 3);
	memset(rig.near, 0, RIG_LEN);
	ends_with(slice_to(TEI_READ, LEN / 2, LEN / 2), 0);
	assert_memory_equal(large + LEN / 2, rig.near + LEN / 2, LEN / 2);
	drop(1, ID);
}

/* Not -EFAULT: the core sends it by another rail. */
static void what_the_nic_has_not_is_left_to_another_rail(void **state)
{
	const size_t gap = (TAKEN - PARTS / 2) * PART;

	(void)state;
	if (!in_parts())
		skip();
	assert_int_equal(add(1, ID, large, LEN), 0);
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		ends_with(slice_to(op, gap, 100), -EOPNOTSUPP);
		ends_with(slice_to(op, LEN / 2 - 1, 1), -EOPNOTSUPP);
		ends_with(slice_to(op, gap - PART / 2, PART), -EOPNOTSUPP);
		ends_with(slice_to(op, LEN / 2, 100), 0);
		ends_with(slice_to(op, LEN, 100), -EFAULT);
	}
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	drop(1, ID);
}

/* One slice of what a has of the region, to or from the far memory. */
static struct fake_slice *slice_from(uint32_t op, size_t at, size_t length)
{
	struct fake_slice *s = ofi_rig_slice(op, at, length);

	s->piece.iov_base = large + at;
	return s;
}

static void local_memory_that_a_nic_has_not_goes_by_way_of_blocks(void **state)
{
	static const size_t at[] = {0, (TAKEN - 1) * PART + 5, TAKEN * PART,
				    LEN - 200000};

	(void)state;
	if (in_parts())
		assert_int_equal(add(0, ID, large, LEN), 0);
	for (size_t i = 0; i < TEST_COUNT(at); i++) {
		fill(large, LEN, (unsigned int)i);
		memset(rig.far, 0, RIG_LEN);
		ends_with(slice_from(TEI_WRITE, at[i], 200000), 0);
		assert_memory_equal(large + at[i], rig.far + at[i], 200000);
		fill(rig.far, RIG_LEN, 100);
		ends_with(slice_from(TEI_READ, at[i], 200000), 0);
		assert_memory_equal(large + at[i], rig.far + at[i], 200000);
	}
	assert_int_equal(ofi_rail(rail_of(0))->regions.bounce.n_free,
			 ofi_rail(rail_of(0))->regions.bounce.n);
	if (in_parts())
		drop(0, ID);
}

static void without_blocks_it_is_left_to_another_rail(void **state)
{
	(void)state;
	if (!in_parts() || !has_blocks())
		skip();
	assert_int_equal(add(0, ID, large, LEN), 0);
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		ends_with(slice_from(op, 0, TAKEN * PART), 0);
		ends_with(slice_from(op, TAKEN * PART, 100), -EOPNOTSUPP);
		ends_with(slice_from(op, TAKEN * PART - 100, 200), -EOPNOTSUPP);
	}
	drop(0, ID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_nic_takes_a_part_from_its_own_place_on),
		TEST(one_line_says_what_a_nic_has_taken),
		TEST(small_regions_have_room_beside_a_large_one),
		TEST(nic_without_room_refuses),
		TEST(region_that_only_one_key_cannot_have_is_whole),
		TEST(other_errors_refuse_all_of_it),
		TEST(bound_keys_are_of_the_whole_or_of_nothing),
		TEST(provider_may_keep_keys_for_a_while),
		TEST(keys_that_run_out_are_a_want_of_room),
		TEST(chunks_that_are_too_small_are_all_or_none),
		TEST(peers_reach_what_the_nic_has),
		TEST(what_the_nic_has_not_is_left_to_another_rail),
		TEST(local_memory_that_a_nic_has_not_goes_by_way_of_blocks),
		cmocka_unit_test_setup_teardown(
			without_blocks_it_is_left_to_another_rail,
			set_up_without_blocks, tear_down),
	};

	return ofi_rig_run("spread", tests, TEST_COUNT(tests));
}
