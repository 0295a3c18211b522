/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.c - what was not opened is neither read nor written */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/conformance/rig.h"

#define LEN  300000
#define HALF ((size_t)1 << 20)
/* How often a batch is polled before its region goes: never, or up to 4 times. */
#define POLLS 5u

/* Memory of the owner's own, unlike the rig's. */
static uint8_t *other_memory(const struct rig *r)
{
	uint8_t *p = rig_memory(r->owner, LEN);

	rig_fill(rig_bytes(p), LEN, 77);
	return p;
}

static void is_refused(const struct rig *r, uint32_t op, const void *remote,
		       size_t len)
{
	int err;

	memset(r->here, 0x33, len);
	err = rig_move(r, op, remote, r->local, len);
	if (err != -EACCES && err != -EFAULT)
		fail_msg("%s ended with %d", op == TE_READ ? "read" : "write",
			 err);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(r->here[i], 0x33);
}

static void region_is_reached_only_as_it_was_opened(void **state)
{
	static const uint32_t access[] = {
		TE_ACCESS_LOCAL, TE_ACCESS_REMOTE_READ, TE_ACCESS_REMOTE_WRITE};
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned int i = 0; i < TEST_COUNT(access); i++) {
		uint8_t *p = other_memory(&r);
		te_region_id id = rig_region(r.owner, p, LEN, access[i], NULL);

		if (!(access[i] & TE_ACCESS_REMOTE_WRITE)) {
			is_refused(&r, TE_WRITE, p, LEN);
			rig_check(rig_bytes(p), LEN, 77);
		}
		if (!(access[i] & TE_ACCESS_REMOTE_READ))
			is_refused(&r, TE_READ, p, LEN);
		if (access[i] & TE_ACCESS_REMOTE_READ)
			assert_int_equal(rig_move(&r, TE_READ, p, r.local, LEN),
					 0);
		if (access[i] & TE_ACCESS_REMOTE_WRITE)
			assert_int_equal(
				rig_move(&r, TE_WRITE, p, r.local, LEN), 0);
		assert_int_equal(te_region_remove(r.owner, id), 0);
		rig_memory_free(r.owner, p);
	}
	rig_close(&r);
}

static void nothing_outside_a_region_is_reached(void **state)
{
	struct rig r;
	uint8_t *stray;

	(void)state;
	rig_open(&r);
	stray = other_memory(&r);
	is_refused(&r, TE_WRITE, stray, LEN);
	is_refused(&r, TE_READ, stray, LEN);
	rig_check(rig_bytes(stray), LEN, 77);
	is_refused(&r, TE_READ, r.memory - 1, 100);
	is_refused(&r, TE_READ, r.memory + RIG_LEN - 99, 100);
	is_refused(&r, TE_READ, r.memory + RIG_LEN, 1);
	is_refused(&r, TE_WRITE, (void *)(uintptr_t)0, 100);
	is_refused(&r, TE_WRITE, (void *)UINTPTR_MAX, 1);
	assert_int_equal(rig_move(&r, TE_READ, r.memory, r.local, 100), 0);
	rig_memory_free(r.owner, stray);
	rig_close(&r);
}

static void range_that_wraps_around_is_refused(void **state)
{
	struct te_batch *batch;
	struct rig r;

	(void)state;
	rig_open(&r);
	assert_int_equal(te_batch_create(r.user, 4, &batch), 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct iovec piece = {r.local, 4096};
		struct te_request request =
			rig_request(&r, i ? TE_READ : TE_WRITE,
				    (void *)(UINTPTR_MAX - 100), &piece);
		struct te_completion done;
		int rc = te_batch_submit(batch, &request, 1);

		if (rc == -EINVAL)
			continue;
		assert_int_equal(rc, 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		assert_int_equal(te_batch_poll(batch, &done, 1), 1);
		assert_int_equal(done.error, -EFAULT);
	}
	te_batch_destroy(batch);
	rig_close(&r);
}

static void range_over_two_regions_is_refused(void **state)
{
	struct rig r;
	uint8_t *p;

	(void)state;
	rig_open(&r);
	p = other_memory(&r);
	rig_region(r.owner, p, LEN / 2, RIG_ANY, NULL);
	rig_region(r.owner, p + LEN / 2, LEN / 2, RIG_ANY, NULL);
	is_refused(&r, TE_WRITE, p + LEN / 2 - 1, 2);
	rig_check(rig_bytes(p), LEN, 77);
	rig_close(&r);
	rig_memory_free(NULL, p);
}

static void region_of_a_group_is_reached_by_members_only(void **state)
{
	const uint8_t secret[TE_GROUP_SECRET_LEN] =
		"a secret of this test only";
	const uint8_t other[TE_GROUP_SECRET_LEN] =
		"another secret of this test";
	struct rig r;
	uint8_t *p;

	(void)state;
	if (rig_self)
		skip(); /* an engine knows the groups of its own regions */
	rig_open(&r);
	p = other_memory(&r);
	rig_region(r.owner, p, LEN, RIG_ANY, secret);
	is_refused(&r, TE_READ, p, LEN);
	is_refused(&r, TE_WRITE, p, LEN);
	assert_int_equal(te_group_join(r.user, other), 0);
	is_refused(&r, TE_READ, p, LEN);
	is_refused(&r, TE_WRITE, p, LEN);
	rig_check(rig_bytes(p), LEN, 77);
	assert_int_equal(te_group_join(r.user, secret), 0);
	assert_int_equal(rig_move(&r, TE_READ, p, r.local, LEN), 0);
	rig_check(r.here, LEN, 77);
	rig_close(&r);
	rig_memory_free(NULL, p);
}

/* As often as masters of a pool restart, and then some. */
static void groups_may_change_without_end(void **state)
{
	uint8_t secret[TE_GROUP_SECRET_LEN] = "a secret that changes";
	te_region_id id;
	struct rig r;
	uint8_t *p;

	(void)state;
	if (rig_self)
		skip(); /* an engine knows the groups of its own regions */
	rig_open(&r);
	p = other_memory(&r);
	for (unsigned int i = 0; i < 200; i++) {
		secret[TE_GROUP_SECRET_LEN - 1] = (uint8_t)i;
		id = rig_region(r.owner, p, LEN, RIG_ANY, secret);
		assert_int_equal(te_group_join(r.user, secret), 0);
		assert_int_equal(rig_move(&r, TE_READ, p, r.local, LEN), 0);
		assert_int_equal(te_region_remove(r.owner, id), 0);
		assert_int_equal(te_group_leave(r.user, secret), 0);
	}
	assert_int_equal(te_group_leave(r.user, secret), -ENOENT);
	rig_close(&r);
	rig_memory_free(NULL, p);
}

static void
member_of_a_group_that_is_over_is_a_stranger_to_the_next(void **state)
{
	const uint8_t first[TE_GROUP_SECRET_LEN] = "the first group's";
	const uint8_t second[TE_GROUP_SECRET_LEN] = "the second group's";
	te_region_id id;
	struct rig r;
	uint8_t *p;

	(void)state;
	if (rig_self)
		skip();
	rig_open(&r);
	p = other_memory(&r);
	assert_int_equal(te_group_join(r.user, first), 0);
	id = rig_region(r.owner, p, LEN, RIG_ANY, first);
	assert_int_equal(rig_move(&r, TE_READ, p, r.local, LEN), 0);
	assert_int_equal(te_region_remove(r.owner, id), 0);
	id = rig_region(r.owner, p, LEN, RIG_ANY, second);
	is_refused(&r, TE_READ, p, LEN);
	is_refused(&r, TE_WRITE, p, LEN);
	/* The proof that was given before is remembered, and good again. */
	assert_int_equal(te_region_remove(r.owner, id), 0);
	rig_region(r.owner, p, LEN, RIG_ANY, first);
	assert_int_equal(rig_move(&r, TE_READ, p, r.local, LEN), 0);
	rig_check(rig_bytes(p), LEN, 77);
	rig_close(&r);
	rig_memory_free(NULL, p);
}

static void groups_are_counted(void **state)
{
	uint8_t secret[TE_GROUP_SECRET_LEN] = "joined";
	struct te_region region = {.length = 64, .group = secret};
	te_region_id id[64], one_more;
	struct rig r;
	uint8_t *p;

	(void)state;
	rig_open(&r);
	p = other_memory(&r);
	for (unsigned int i = 0; i < 64; i++) {
		secret[0] = (uint8_t)i;
		region.addr = p + (size_t)64 * i;
		assert_int_equal(te_region_add(r.owner, &region, &id[i]), 0);
		assert_int_equal(te_group_join(r.user, secret), 0);
		assert_int_equal(te_group_join(r.user, secret), 0);
	}
	secret[0] = 64;
	region.addr = p + (size_t)64 * 64;
	assert_int_equal(te_group_join(r.user, secret), -ENOBUFS);
	assert_int_equal(te_region_add(r.owner, &region, &one_more), -ENOBUFS);
	secret[0] = 63;
	assert_int_equal(te_group_leave(r.user, secret), 0);
	assert_int_equal(te_region_remove(r.owner, id[63]), 0);
	secret[0] = 64;
	assert_int_equal(te_group_join(r.user, secret), -ENOBUFS);
	assert_int_equal(te_region_add(r.owner, &region, &one_more), 0);
	secret[0] = 63;
	assert_int_equal(te_group_leave(r.user, secret), 0);
	secret[0] = 64;
	assert_int_equal(te_group_join(r.user, secret), 0);
	rig_close(&r);
	rig_memory_free(NULL, p);
}

static void removed_region_is_gone_at_once(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned int i = 0; i < 30; i++) {
		uint8_t *p = other_memory(&r);
		te_region_id id = rig_region(r.owner, p, LEN, RIG_ANY, NULL);

		assert_int_equal(rig_move(&r, TE_READ, p, r.local, LEN), 0);
		rig_check(r.here, LEN, 77);
		assert_int_equal(te_region_remove(r.owner, id), 0);
		is_refused(&r, TE_READ, p, LEN);
		is_refused(&r, TE_WRITE, p, LEN);
		rig_check(rig_bytes(p), LEN, 77);
		rig_memory_free(r.owner, p);
	}
	rig_close(&r);
}

static void removal_in_flight_leaves_the_memory_alone(void **state)
{
	enum { N = 32 };
	/* Where each refusal costs a connection, as many as differ. */
	const unsigned int rounds = rig_nic ? POLLS : 20;
	struct te_request requests[N];
	struct iovec pieces[N];
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned int round = 0; round < rounds; round++) {
		uint8_t *p = other_memory(&r);
		te_region_id id = rig_region(r.owner, p, LEN, RIG_ANY, NULL);
		struct te_completion done;
		struct te_batch *batch;

		assert_int_equal(te_batch_create(r.user, N, &batch), 0);
		for (unsigned int i = 0; i < N; i++) {
			pieces[i] =
				(struct iovec){r.local + i * 200000, 200000};
			requests[i] =
				rig_request(&r, i % 2 ? TE_READ : TE_WRITE,
					    p + i, &pieces[i]);
		}
		memset(r.here, 0x44, N * 200000);
		assert_int_equal(te_batch_submit(batch, requests, N), 0);
		for (unsigned int i = 0; i < round % POLLS; i++)
			te_batch_poll(batch, &done, 0);
		assert_int_equal(te_region_remove(r.owner, id), 0);
		rig_fill(rig_bytes(p), LEN, 78);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		rig_check(rig_bytes(p), LEN, 78);
		for (uint32_t i = 0; i < N; i++) {
			assert_int_equal(te_batch_result(batch, i, &done), 0);
			assert_true(!done.error || done.error == -EFAULT ||
				    (rig_nic && done.error == -EACCES));
		}
		te_batch_destroy(batch);
		rig_memory_free(r.owner, p);
	}
	assert_int_equal(rig_move(&r, TE_READ, r.memory, r.local, 9000), 0);
	rig_close(&r);
}

/* ---- memory that is not there any more ---- */

static atomic_int n_gone_lines;

static void count_gone(int level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	if (strstr(line, "region 0x") && strstr(line, "not there any more"))
		n_gone_lines++;
}

/* Two halves in one region, of which the second may not be touched any more. */
static uint8_t *half_gone(const struct rig *r)
{
	uint8_t *p = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	rig_fill(p, HALF, 79);
	rig_region(r->owner, p, 2 * HALF, RIG_ANY, NULL);
	/* As munmap(), but no other thread can be given the place. */
	assert_int_equal(mprotect(p + HALF, HALF, PROT_NONE), 0);
	return p;
}

static void good_half_is_reached(const struct rig *r, uint8_t *p)
{
	assert_int_equal(rig_move(r, TE_READ, p, r->local, HALF), 0);
	rig_check(r->here, HALF, 79);
	assert_int_equal(rig_move(r, TE_WRITE, p, r->local, HALF), 0);
}

static void is_gone(const struct rig *r, uint32_t op, void *remote, size_t len)
{
	assert_int_equal(rig_move(r, op, remote, r->local, len), -EFAULT);
}

/* Good and bad ones in turn, in one submission. */
static void bad_ones_take_no_good_ones_along(const struct rig *r, uint32_t op,
					     uint8_t *p, size_t len)
{
	enum { N = 64 };
	struct te_completion done[N];
	struct te_request requests[N];
	struct iovec pieces[N];

	for (size_t i = 0; i < N; i++) {
		pieces[i] = (struct iovec){r->local + i * len, len};
		requests[i] = rig_request(r, op, p + i % 2 * HALF + i * len,
					  &pieces[i]);
	}
	rig_run_all(r->user, requests, N, done);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(done[i].error, i % 2 ? -EFAULT : 0);
}

static void memory_that_is_not_there_any_more_is_refused(void **state)
{
	static const size_t sizes[] = {1, 100, 4096, 20000, HALF};
	struct rig r;
	uint8_t *p;

	(void)state;
	if (rig_arena || rig_nic || rig_remote_gpu || !strcmp(rig_name, "sim"))
		skip(); /* what is behind it stays; nothing is real */
	rig_open(&r);
	n_gone_lines = 0;
	te_log_set(count_gone, NULL);
	p = half_gone(&r);
	good_half_is_reached(&r, p);
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		is_gone(&r, TE_WRITE, p + HALF, sizes[i]);
		is_gone(&r, TE_READ, p + HALF, sizes[i]);
	}
	is_gone(&r, TE_WRITE, p + HALF - 50, 100);
	is_gone(&r, TE_READ, p + HALF - 50, 100);
	is_gone(&r, TE_READ, p, 2 * HALF);
	is_gone(&r, TE_WRITE, p, 2 * HALF);
	rig_fill(p, HALF, 79);
	good_half_is_reached(&r, p);
	bad_ones_take_no_good_ones_along(&r, TE_READ, p, 8);
	bad_ones_take_no_good_ones_along(&r, TE_WRITE, p, 8);
	bad_ones_take_no_good_ones_along(&r, TE_READ, p, 10000);
	bad_ones_take_no_good_ones_along(&r, TE_WRITE, p, 10000);
	rig_close(&r);
	te_log_set(NULL, NULL);
	if (!strcmp(rig_backend, "tcp"))
		assert_int_equal(n_gone_lines, 1);
	munmap(p, 2 * HALF);
}

/* The same at the initiator: its own memory. */
static void local_memory_that_is_not_there_is_refused(void **state)
{
	static const size_t sizes[] = {1, 4096, 20000, HALF};
	struct rig r;
	uint8_t *p;

	(void)state;
	if (strcmp(rig_name, "shm.foreign") && strcmp(rig_name, "tcp") &&
	    strcmp(rig_name, "loop"))
		skip(); /* copied by hand */
	rig_open(&r);
	p = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + HALF, HALF, PROT_NONE), 0);
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		assert_int_equal(
			rig_move(&r, TE_READ, r.memory, p + HALF, sizes[i]),
			-EFAULT);
		assert_int_equal(
			rig_move(&r, TE_WRITE, r.memory, p + HALF, sizes[i]),
			-EFAULT);
	}
	assert_int_equal(rig_move(&r, TE_READ, r.memory, p, 2 * HALF), -EFAULT);
	assert_int_equal(rig_move(&r, TE_WRITE, r.memory, p, 2 * HALF),
			 -EFAULT);
	assert_int_equal(rig_move(&r, TE_READ, r.memory, p, HALF), 0);
	assert_int_equal(rig_move(&r, TE_WRITE, r.memory, p, HALF), 0);
	rig_close(&r);
	munmap(p, 2 * HALF);
}

const struct CMUnitTest rig_refusal_tests[] = {
	cmocka_unit_test(region_is_reached_only_as_it_was_opened),
	cmocka_unit_test(nothing_outside_a_region_is_reached),
	cmocka_unit_test(range_that_wraps_around_is_refused),
	cmocka_unit_test(range_over_two_regions_is_refused),
	cmocka_unit_test(region_of_a_group_is_reached_by_members_only),
	cmocka_unit_test(groups_may_change_without_end),
	cmocka_unit_test(
		member_of_a_group_that_is_over_is_a_stranger_to_the_next),
	cmocka_unit_test(groups_are_counted),
	cmocka_unit_test(removed_region_is_gone_at_once),
	cmocka_unit_test(removal_in_flight_leaves_the_memory_alone),
	cmocka_unit_test(memory_that_is_not_there_any_more_is_refused),
	cmocka_unit_test(local_memory_that_is_not_there_is_refused),
};
const size_t rig_n_refusal_tests = TEST_COUNT(rig_refusal_tests);
