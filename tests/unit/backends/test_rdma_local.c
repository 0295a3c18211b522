/* SPDX-License-Identifier: Apache-2.0 */
/* test_rdma_local.c - local memory of slices: registered, by blocks, summed */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/rdma/local.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/fake_core.h"

#define LEN (2u * TEI_BOUNCE_LEN)

static const struct tei_backend_ops ops = {.name = "none"};
static struct tei_rail rail;
static struct tei_endpoint ep = {.rail = &rail};
static const struct fake_pair pair = {.ops = &ops, .initiator = &ep};

static struct rdma_regions regions;
static struct rdma_region registered;
static struct tei_bounce bounce;
static uint8_t memory[LEN], other[LEN];

/* All of @memory is registered, nothing else; there are two blocks. */
static int set_up(void **state)
{
	(void)state;
	rail.sent_bytes = rail.received_bytes = 0;
	tei_rdma_regions_init(&regions);
	registered = (struct rdma_region){
		.id = 1, .range = {.base = (uintptr_t)memory, .length = LEN}};
	return tei_rdma_region_insert(&regions, &registered) ||
	       tei_bounce_init(&bounce, 2 * TEI_BOUNCE_LEN);
}

static int tear_down(void **state)
{
	(void)state;
	(void)tei_rdma_region_take(&regions, 1);
	tei_rdma_regions_fini(&regions);
	tei_bounce_fini(&bounce);
	return 0;
}

static struct fake_slice *slice_of(uint32_t op, const struct iovec *iov,
				   uint32_t n_iov)
{
	return fake_slice_create(&pair, op, 0, 0, iov, n_iov);
}

static void cursor_passes_over_pieces_that_are_empty(void **state)
{
	const struct iovec iov[] = {
		{other, 10}, {NULL, 0}, {NULL, 0}, {other + 50, 5}};
	struct fake_slice *s = slice_of(TEI_WRITE, iov, 4);
	struct rdma_cursor cursor = {.in_piece = 4};
	uint64_t addr;

	(void)state;
	assert_int_equal(tei_rdma_piece_at(s->slice, &cursor, &addr), 6);
	assert_ptr_equal((void *)addr, other + 4);
	cursor.in_piece += 6;
	assert_int_equal(tei_rdma_piece_at(s->slice, &cursor, &addr), 5);
	assert_ptr_equal((void *)addr, other + 50);
	assert_int_equal(cursor.piece, 3);
	fake_slice_destroy(s);
}

static bool has_all(const struct iovec *iov, uint32_t n_iov, uint64_t skip)
{
	struct fake_slice *s = slice_of(TEI_WRITE, iov, n_iov);
	bool all;

	s->slice->skip = skip;
	s->slice->length -= skip;
	tei_rdma_regions_lock(&regions);
	all = tei_rdma_has_all(&regions, s->slice);
	tei_rdma_regions_unlock(&regions);
	fake_slice_destroy(s);
	return all;
}

static void slice_is_registered_if_every_byte_of_it_is(void **state)
{
	const struct iovec both[] = {{memory, 100}, {NULL, 0}, {memory, LEN}};
	const struct iovec mixed[] = {{memory, 100}, {other, 1}};
	const struct iovec over = {memory + 1, LEN};
	const struct iovec first[] = {{other, 8}, {memory, 8}};

	(void)state;
	assert_true(has_all(both, 3, 0));
	assert_true(has_all(both, 3, 99));
	assert_false(has_all(mixed, 2, 0));
	assert_false(has_all(&over, 1, 0));
	assert_false(has_all(first, 2, 7));
	assert_true(has_all(first, 2, 8));
}

static void two_regions_side_by_side_have_what_lies_in_both(void **state)
{
	const struct iovec iov = {memory, LEN};
	struct rdma_region second = {.id = 2,
				     .range = {.base = (uintptr_t)memory + 100,
					       .length = LEN - 100}};

	(void)state;
	registered.range.length = 100;
	assert_false(has_all(&iov, 1, 0));
	assert_int_equal(tei_rdma_region_insert(&regions, &second), 0);
	assert_true(has_all(&iov, 1, 0));
	(void)tei_rdma_region_take(&regions, 2);
}

static bool wants_crc_of_gpu(const struct iovec *iov, uint32_t n_iov,
			     uint64_t crc_len)
{
	struct fake_slice *s = slice_of(TEI_READ, iov, n_iov);
	bool wants;

	s->slice->crc_len = crc_len;
	tei_rdma_regions_lock(&regions);
	wants = tei_rdma_wants_crc_of_gpu(&regions, s->slice);
	tei_rdma_regions_unlock(&regions);
	fake_slice_destroy(s);
	return wants;
}

static void checksum_of_a_gpus_memory_is_noticed(void **state)
{
	const struct iovec iov[] = {{other, 10}, {memory, 10}};

	(void)state;
	assert_false(wants_crc_of_gpu(iov, 2, 20));
	registered.gpu = true;
	assert_true(wants_crc_of_gpu(iov, 2, 20));
	assert_false(wants_crc_of_gpu(iov, 1, 10));
	assert_false(wants_crc_of_gpu(iov, 2, 0));
}

/* ---- blocks ---- */

static int take(const struct fake_slice *s, struct rdma_cursor *cursor,
		uint64_t limit, struct rdma_block *block, uint64_t *length)
{
	int rc;

	tei_rdma_regions_lock(&regions);
	rc = tei_rdma_block_take(&regions, &bounce, s->slice, cursor, limit,
				 block, length);
	tei_rdma_regions_unlock(&regions);
	return rc;
}

static void block_goes_up_to_the_next_piece_that_is_registered(void **state)
{
	const struct iovec iov[] = {
		{other, 10}, {other + 20, 5}, {memory, 10}, {other, 7}};
	struct fake_slice *s = slice_of(TEI_WRITE, iov, 4);
	struct rdma_cursor cursor = {.in_piece = 3};
	struct rdma_block block = {.bytes = NULL};
	uint64_t length;

	(void)state;
	for (size_t i = 0; i < 30; i++)
		other[i] = (uint8_t)i;
	assert_int_equal(take(s, &cursor, 29, &block, &length), 0);
	assert_int_equal(length, 7 + 5);
	assert_int_equal(cursor.piece, 2);
	assert_int_equal(cursor.in_piece, 0);
	tei_rdma_block_fill(&block, s->slice, length);
	assert_memory_equal(block.bytes, other + 3, 7);
	assert_memory_equal(block.bytes + 7, other + 20, 5);
	memset(other, 0, 30);
	assert_int_equal(tei_rdma_block_empty(&block, s->slice, length), 0);
	assert_int_equal(other[2] + other[10] + other[19], 0);
	assert_int_equal(other[3], 3);
	assert_int_equal(other[24], 24);
	tei_bounce_give(&bounce, block.bytes);
	fake_slice_destroy(s);
}

static void block_ends_with_its_room_and_at_the_limit(void **state)
{
	const struct iovec iov = {other, LEN};
	struct fake_slice *s = slice_of(TEI_READ, &iov, 1);
	struct rdma_cursor cursor = {.in_piece = 0};
	struct rdma_block first, second, none = {.bytes = NULL};
	uint64_t length;

	(void)state;
	assert_int_equal(take(s, &cursor, LEN, &first, &length), 0);
	assert_int_equal(length, TEI_BOUNCE_LEN);
	assert_int_equal(take(s, &cursor, 100, &second, &length), 0);
	assert_int_equal(length, 100);
	assert_int_equal(second.from.in_piece, TEI_BOUNCE_LEN);
	assert_int_equal(take(s, &cursor, 100, &none, &length), -EAGAIN);
	assert_null(none.bytes);
	assert_int_equal(cursor.in_piece, TEI_BOUNCE_LEN + 100);
	tei_bounce_give(&bounce, first.bytes);
	tei_bounce_give(&bounce, second.bytes);
	tei_bounce_fini(&bounce); /* now there are none */
	assert_int_equal(take(s, &cursor, 100, &none, &length), -EOPNOTSUPP);
	fake_slice_destroy(s);
}

static void write_from_what_is_not_there_takes_no_block(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at =
		mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct iovec iov[] = {{other, 10}, {at, page}};
	struct rdma_block block = {.bytes = NULL};
	uint64_t length;

	(void)state;
	assert_true(at != MAP_FAILED);
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		struct fake_slice *s = slice_of(op, iov, 2);
		struct rdma_cursor cursor = {.in_piece = 0};
		int rc = take(s, &cursor, 10 + page, &block, &length);

		/* A read finds out when it copies. */
		assert_int_equal(rc, op == TEI_READ ? 0 : -EFAULT);
		assert_int_equal(bounce.n_free, op == TEI_READ ? 1 : 2);
		if (!rc) {
			assert_int_equal(
				tei_rdma_block_empty(&block, s->slice, length),
				-EFAULT);
			tei_bounce_give(&bounce, block.bytes);
		}
		fake_slice_destroy(s);
	}
	munmap(at, page);
}

/* ---- the end ---- */

static void bytes_are_counted_where_a_slice_went_well(void **state)
{
	const struct iovec iov = {memory, 100};

	(void)state;
	for (int err = -EIO; err <= 0; err += EIO) {
		struct fake_slice *in = slice_of(TEI_READ, &iov, 1);
		struct fake_slice *out = slice_of(TEI_WRITE, &iov, 1);

		out->slice->length = 60;
		tei_rdma_slice_end(in->slice, err, &regions);
		tei_rdma_slice_end(out->slice, err, &regions);
		assert_int_equal(in->n_done, 1);
		assert_int_equal(in->err, err);
		assert_int_equal(in->bytes, err ? 0 : 100);
		assert_int_equal(out->bytes, err ? 0 : 60);
		assert_int_equal(rail.received_bytes, err ? 0 : 100);
		assert_int_equal(rail.sent_bytes, err ? 0 : 60);
		fake_slice_destroy(in);
		fake_slice_destroy(out);
	}
}

static void checksum_is_that_of_its_bytes_in_all_pieces(void **state)
{
	const struct iovec iov[] = {
		{memory, 10}, {NULL, 0}, {other, 20}, {memory + 10, 30}};
	struct fake_slice *s = slice_of(TEI_WRITE, iov, 4);
	uint32_t expected;

	(void)state;
	for (size_t i = 0; i < 64; i++)
		memory[i] = other[i] = (uint8_t)(7 * i);
	s->slice->skip = 2; /* 8 bytes of the first piece, 5 not summed */
	s->slice->length = 50;
	s->slice->crc_from = 5;
	s->slice->crc_len = 3 + 20 + 10;
	for (int pinned = 0; pinned < 2; pinned++) {
		s->slice->crc = 17;
		expected = tei_crc32c_raw(17, memory + 7, 3);
		expected = tei_crc32c_raw(expected, other, 20);
		expected = tei_crc32c_raw(expected, memory + 10, 10);
		tei_rdma_slice_end(s->slice, 0, pinned ? &regions : NULL);
		assert_int_equal(s->err, 0);
		assert_int_equal(s->slice->crc, expected);
	}
	fake_slice_destroy(s);
}

static void checksum_of_what_is_gone_fails_the_slice(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at =
		mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct iovec iov = {at, page};
	struct fake_slice *s = slice_of(TEI_WRITE, &iov, 1);

	(void)state;
	assert_true(at != MAP_FAILED);
	s->slice->crc_len = page;
	tei_rdma_slice_end(s->slice, 0, NULL);
	assert_int_equal(s->err, -EFAULT);
	tei_rdma_slice_end(s->slice, 0, &regions);
	assert_int_equal(s->err, -EFAULT);
	assert_int_equal(rail.sent_bytes, 0);
	tei_rdma_slice_end(s->slice, -EIO, NULL); /* the first cause stays */
	assert_int_equal(s->err, -EIO);
	fake_slice_destroy(s);
	munmap(at, page);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cursor_passes_over_pieces_that_are_empty),
		TEST(slice_is_registered_if_every_byte_of_it_is),
		TEST(two_regions_side_by_side_have_what_lies_in_both),
		TEST(checksum_of_a_gpus_memory_is_noticed),
		TEST(block_goes_up_to_the_next_piece_that_is_registered),
		TEST(block_ends_with_its_room_and_at_the_limit),
		TEST(write_from_what_is_not_there_takes_no_block),
		TEST(bytes_are_counted_where_a_slice_went_well),
		TEST(checksum_is_that_of_its_bytes_in_all_pieces),
		TEST(checksum_of_what_is_gone_fails_the_slice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
