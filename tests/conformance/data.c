/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - the right bytes in the right place, with the right checksum */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/rig.h"
#include "tests/lib/stat.h"

static void bytes_of_every_size_arrive(void **state)
{
	static const size_t sizes[] = {1,         8,
				       4095,      4096,
				       4097,      65535,
				       65536,     (256 << 10) - 1,
				       256 << 10, (256 << 10) + 1,
				       1 << 20,   (5 << 20) + 3,
				       RIG_LEN};
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned int i = 0; i < TEST_COUNT(sizes); i++) {
		size_t n = sizes[i], at = RIG_LEN - n;

		rig_renew(&r);
		memset(r.there, 0x11, RIG_LEN);
		rig_fill(r.here, n, i);
		assert_int_equal(
			rig_move(&r, TE_WRITE, r.memory + at, r.local, n), 0);
		rig_check(r.there + at, n, i);
		if (at)
			assert_int_equal(r.there[at - 1], 0x11);
		memset(r.here, 0x22, RIG_LEN);
		assert_int_equal(
			rig_move(&r, TE_READ, r.memory + at, r.local, n), 0);
		rig_check(r.here, n, i);
		if (at)
			assert_int_equal(r.here[n], 0x22);
	}
	rig_close(&r);
}

static void request_without_bytes_is_refused(void **state)
{
	struct te_batch *batch;
	struct te_request request;
	struct iovec piece;
	struct rig r;

	(void)state;
	rig_open(&r);
	piece = (struct iovec){r.local, 0};
	request = rig_request(&r, TE_WRITE, r.memory, &piece);
	assert_int_equal(te_batch_create(r.user, 4, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &request, 1), -EINVAL);
	piece.iov_len = 10;
	request.n_pieces = 0;
	assert_int_equal(te_batch_submit(batch, &request, 1), -EINVAL);
	assert_int_equal(te_batch_wait(batch, 0), 0);
	te_batch_destroy(batch);
	rig_close(&r);
}

#define FAR_LEN   (5ull << 30)
#define FAR_BLOCK (80ull << 20) /* 4 GiB is no multiple of it */

/*
 * 5 GiB of addresses; where all of it has to be there, 80 MiB again and again.
 * A GPU's lie in a file that has only what was written.
 */
static uint8_t *map_far(void)
{
	int fd = rig_nic ? memfd_create("far", MFD_CLOEXEC) : -1;
	uint8_t *far;

	if (rig_remote_gpu)
		return rig_memory(NULL, FAR_LEN);
	far = mmap(NULL, FAR_LEN, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(far != MAP_FAILED);
	if (!rig_nic)
		return far;
	assert_int_equal(ftruncate(fd, FAR_BLOCK), 0);
	for (uint64_t at = 0; at < FAR_LEN; at += FAR_BLOCK)
		assert_true(mmap(far + at, FAR_BLOCK, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	close(fd);
	return far;
}

static void offsets_above_4_gib_are_reached(void **state)
{
	const uint64_t at[] = {0, (4ull << 30) - 700, (4ull << 30) + 123,
			       FAR_LEN - 300000};
	struct rig r;
	uint8_t *far;

	(void)state;
#if defined(__SANITIZE_THREAD__)
	if (rig_nic && !rig_remote_gpu)
		skip(); /* a million pages that are touched take minutes */
#endif
	rig_open(&r);
	far = map_far();
	rig_region(r.owner, far, FAR_LEN, RIG_ANY, NULL);
	for (unsigned int i = 0; i < TEST_COUNT(at); i++) {
		rig_fill(r.here, 300000, i);
		assert_int_equal(
			rig_move(&r, TE_WRITE, far + at[i], r.local, 300000),
			0);
		rig_check(rig_bytes(far + at[i]), 300000, i);
		memset(r.here, 0, 300000);
		assert_int_equal(
			rig_move(&r, TE_READ, far + at[i], r.local, 300000), 0);
		rig_check(r.here, 300000, i);
	}
	rig_close(&r);
	if (rig_remote_gpu)
		rig_memory_free(NULL, far);
	else
		munmap(far, FAR_LEN);
}

/* Random pieces of local memory with gaps between them. */
static size_t cut(struct rig *r, struct iovec *pieces, uint32_t n, size_t most)
{
	size_t at = 0, sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		size_t len = 1 + (size_t)rand() % most;

		pieces[i] = (struct iovec){r->local + at, len};
		at += len + (size_t)rand() % 3;
		sum += len;
	}
	assert_true(at <= RIG_LEN);
	return sum;
}

static void gather(uint8_t *to, const struct iovec *pieces, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		memcpy(to, rig_bytes(pieces[i].iov_base), pieces[i].iov_len);
		to += pieces[i].iov_len;
	}
}

static void pieces_of_every_shape_fit_together(void **state)
{
	static const uint32_t counts[] = {1, 2, 7, 64, 1000, TE_PIECES_MAX};
	static const size_t most[] = {1, 40, 7000};
	struct iovec pieces[TE_PIECES_MAX];
	uint8_t *flat = malloc(RIG_LEN);
	struct rig r;

	(void)state;
	srand(5);
	rig_open(&r);
	for (unsigned int i = 0; i < 36; i++) {
		uint32_t n = counts[i % 6];
		size_t sum = cut(&r, pieces, n, most[i / 6 % 3]);
		struct te_request request = rig_request(
			&r, i < 18 ? TE_WRITE : TE_READ, r.memory + i, pieces);

		request.n_pieces = n;
		if (i < 18) {
			rig_fill(r.here, RIG_LEN / 2, i);
			gather(flat, pieces, n);
		} else {
			rig_renew(&r);
			rig_fill(r.there + i, sum, i);
		}
		assert_int_equal(rig_run(r.user, &request).error, 0);
		if (i < 18) {
			assert_memory_equal(r.there + i, flat, sum);
		} else {
			gather(flat, pieces, n);
			rig_check(flat, sum, i);
		}
	}
	free(flat);
	rig_close(&r);
}

static void checksum_is_that_of_the_bytes_asked_for(void **state)
{
	static const size_t sizes[] = {1, 100, 70000, 3000001, 8000000};
	struct iovec pieces[3];
	struct rig r;

	(void)state;
	srand(6);
	rig_open(&r);
	rig_fill(r.there, RIG_LEN, 1);
	rig_fill(r.here, RIG_LEN, 2);
	for (unsigned int i = 0; i < 40; i++) {
		size_t n = sizes[i / 2 % 5], a = n / 3, b = n / 5;
		struct te_request request = rig_request(
			&r, i & 1 ? TE_READ : TE_WRITE, r.memory, pieces);
		struct te_completion done;

		pieces[0] = (struct iovec){r.local, a};
		pieces[1] = (struct iovec){r.local + a, b};
		pieces[2] = (struct iovec){r.local + a + b, n - a - b};
		request.n_pieces = 3;
		request.flags = TE_CRC;
		request.crc_from = i < 10 ? 0 : (size_t)rand() % n;
		request.crc_len =
			i < 10 ? n
			       : (size_t)rand() % (n - request.crc_from + 1);
		if (n < 15) {
			pieces[0].iov_len = n;
			request.n_pieces = 1;
		}
		done = rig_run(r.user, &request);
		assert_int_equal(done.error, 0);
		assert_memory_equal(r.there, r.here, n);
		assert_int_equal(done.crc,
				 te_crc32c(0, r.here + request.crc_from,
					   request.crc_len));
	}
	rig_close(&r);
}

/* ---- before and after ---- */

static uint64_t n_opened(struct te_engine *engine)
{
	return test_stat(engine, "te_endpoints_up_total", NULL);
}

static void endpoints_are_there_after_a_warm_up(void **state)
{
	uint64_t opened;
	uint32_t n = 0;
	struct rig r;

	(void)state;
	rig_open(&r);
	assert_int_equal(te_segment_warm_up(r.user, r.segment, RIG_WAIT_MS, &n),
			 0);
	assert_true(n > 0);
	opened = n_opened(r.user);
	assert_int_equal(opened, n);
	assert_int_equal(rig_move(&r, TE_WRITE, r.memory, r.local, RIG_LEN), 0);
	assert_int_equal(n_opened(r.user), opened);
	rig_close(&r);
}

/* What was written is there when the message is, whoever is asked first. */
static void message_is_there_after_its_data_is(void **state)
{
	struct te_request requests[2];
	struct iovec pieces[2];
	struct te_notify message;
	uint8_t text[8] = "written";
	struct te_batch *batch;
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned int i = 0; i < 20; i++) {
		rig_renew(&r);
		rig_fill(r.here, RIG_LEN, i);
		pieces[0] = (struct iovec){r.local, RIG_LEN};
		pieces[1] = (struct iovec){text, sizeof(text)};
		requests[0] = rig_request(&r, TE_WRITE, r.memory, &pieces[0]);
		requests[1] = rig_request(&r, TE_NOTIFY, NULL, &pieces[1]);
		assert_int_equal(te_batch_create(r.user, 2, &batch), 0);
		assert_int_equal(te_batch_submit(batch, requests, 2), 0);
		while (te_notify_take(r.owner, &message))
			te_batch_wait(batch, 1);
		rig_check(r.there, RIG_LEN, i);
		assert_int_equal(message.length, 8);
		te_notify_free(&message);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		te_batch_destroy(batch);
	}
	rig_close(&r);
}

const struct CMUnitTest rig_data_tests[] = {
	cmocka_unit_test(bytes_of_every_size_arrive),
	cmocka_unit_test(request_without_bytes_is_refused),
	cmocka_unit_test(offsets_above_4_gib_are_reached),
	cmocka_unit_test(pieces_of_every_shape_fit_together),
	cmocka_unit_test(checksum_is_that_of_the_bytes_asked_for),
	cmocka_unit_test(endpoints_are_there_after_a_warm_up),
	cmocka_unit_test(message_is_there_after_its_data_is),
};
const size_t rig_n_data_tests = TEST_COUNT(rig_data_tests);
