/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_across_chunks.c - copies between GPUs of two processes, whose memory is
 * mapped in chunks
 */
#include <fcntl.h>
#include <sys/resource.h>

#include "tests/unit/te/across.h"

/* A chunk's border lies in each, and all of them in one. */
static const size_t places[][2] = {{0, LEN},
				   {0, 1},
				   {4097, 4095},
				   {(2 << 20) - 3, 7},
				   {1, (5 << 20) + 13}};

static uint64_t check_places(const struct side *side, const struct other *other)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < TEST_COUNT(places); i++) {
		check_both_ways(side, other, places[i][0], places[i][1]);
		sum += 2 * places[i][1];
	}
	return sum;
}

/* Memory at both ends: chunks, 0: of cuMemAlloc(). */
static void check_pair(unsigned int here, unsigned int there)
{
	struct other other = other_of(there, RIG_ANY);
	struct side side = side_of(1, here, NULL, NULL);
	unsigned int fds, others;
	uint64_t sum;

	side_add(&side, 0);
	check_both_ways(&side, &other, 0, 8);
	fds = fds_of_process(getpid());
	others = fds_of(&other);
	sum = 16 + check_places(&side, &other);
	assert_int_equal(bytes_by(&side, "direct"), sum);
	assert_int_equal(bytes_by(&side, "staged"), 0);
	assert_int_equal(cuda.n_imported(), there);
	assert_int_equal(cuda.n_opened(), there ? 0 : 1);
	assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	assert_int_equal(cuda.n_imported(), 0);
	assert_true(fds_of_process(getpid()) <= fds);
	assert_true(fds_of(&other) <= others);
	side_close(&side);
	other_stop(&other);
}

static void chunks_are_copied_between_processes(void **state)
{
	static const unsigned int pairs[][2] = {{0, 1}, {0, 4},  {4, 4},
						{4, 0}, {8, 64}, {1, 32}};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(pairs); i++)
		check_pair(pairs[i][0], pairs[i][1]);
}

static void each_engine_imports_for_itself(void **state)
{
	struct other other = other_of(16, RIG_ANY);
	struct side one = side_open(1), two = side_open(1);

	(void)state;
	side_add(&one, 0);
	side_add(&two, 0);
	check_both_ways(&one, &other, 0, LEN);
	check_both_ways(&two, &other, 0, LEN);
	assert_int_equal(cuda.n_imported(), 32);
	side_close(&one);
	assert_int_equal(cuda.n_imported(), 16);
	check_both_ways(&two, &other, 0, LEN);
	assert_int_equal(bytes_by(&two, "staged"), 0);
	side_close(&two);
	other_stop(&other);
}

static void engines_of_one_process_import_nothing(void **state)
{
	struct side owner = side_of(0, 4, NULL, NULL);
	struct side user = side_of(1, 2, NULL, NULL);
	te_segment_id id;

	(void)state;
	side_add(&owner, RIG_ANY);
	side_add(&user, 0);
	id = rig_segment(user.engine, owner.engine);
	rig_fill(user.bytes, LEN);
	assert_int_equal(rig_move(user.engine, id, TE_WRITE,
				  as_pointer(owner.at), as_pointer(user.at),
				  LEN),
			 0);
	assert_memory_equal(owner.bytes, user.bytes, LEN);
	assert_int_equal(bytes_by(&user, "direct"), LEN);
	assert_int_equal(cuda.n_imported(), 0);
	assert_int_equal(te_region_remove(owner.engine, owner.region), 0);
	side_close(&user);
	side_close(&owner);
}

/* ---- what is not handed out ---- */

static void expect_staged(const struct plan *plan, uint32_t op)
{
	struct other other = other_start_as(plan);
	struct side side = side_open(1);
	size_t length = plan->length ? plan->length : LEN;

	side_add(&side, 0);
	assert_int_equal(move(&side, &other, op, plan->offset, length), 0);
	assert_int_equal(te_crc32c(0, side.bytes + plan->offset, length),
			 crc_of(&other, plan->offset, length));
	assert_int_equal(bytes_by(&side, "direct"), 0);
	assert_int_equal(bytes_by(&side, "staged"), length);
	assert_int_equal(cuda.n_imported(), 0);
	side_close(&side);
	other_stop(&other);
}

static void no_chunk_for_who_may_only_read_or_only_write(void **state)
{
	const struct plan reads = {.n_chunks = 4,
				   .access = TE_ACCESS_REMOTE_READ};
	const struct plan writes = {.n_chunks = 4,
				    .access = TE_ACCESS_REMOTE_WRITE};

	(void)state;
	expect_staged(&reads, TE_READ);
	expect_staged(&writes, TE_WRITE);
}

static void no_chunk_that_was_not_created_for_it(void **state)
{
	const struct plan plan = {
		.n_chunks = 4, .hidden = true, .access = RIG_ANY};

	(void)state;
	expect_staged(&plan, TE_READ);
	expect_staged(&plan, TE_WRITE);
}

/* The middle of four chunks, and a bit of both that lie beside. */
static void no_chunk_of_which_the_region_is_a_part(void **state)
{
	struct plan plan = {.n_chunks = 4,
			    .access = RIG_ANY,
			    .offset = (2 << 20) - 4096,
			    .length = (2 << 20) + 4096};
	struct side side = side_open(1);
	struct other other;

	(void)state;
	expect_staged(&plan, TE_READ);
	plan.setting = "shm.gpu_parts";
	plan.value = "true";
	other = other_start_as(&plan);
	side_add(&side, 0);
	check_both_ways(&side, &other, plan.offset, plan.length);
	assert_int_equal(bytes_by(&side, "direct"), 2 * plan.length);
	assert_int_equal(cuda.n_imported(), 2);
	side_close(&side);
	other_stop(&other);
}

/* Some whole chunks of a mapping are a region like another one. */
static void whole_chunks_are_a_region(void **state)
{
	const struct plan plan = {.n_chunks = 4,
				  .access = RIG_ANY,
				  .offset = 2 << 20,
				  .length = 4 << 20};
	struct other other = other_start_as(&plan);
	struct side side = side_open(1);

	(void)state;
	side_add(&side, 0);
	check_both_ways(&side, &other, plan.offset, plan.length);
	assert_int_equal(bytes_by(&side, "staged"), 0);
	assert_int_equal(cuda.n_imported(), 2);
	side_close(&side);
	other_stop(&other);
}

/* ---- a driver, or a process, that cannot ---- */

static void other_fails(const struct other *other, const char *function,
			unsigned int after, int error)
{
	struct message m = {
		.order = ORDER_FAIL, .offset = after, .value = (uint64_t)error};

	snprintf(m.name, sizeof(m.name), "%s", function);
	assert_int_equal(write(other->tell, &m, sizeof(m)), sizeof(m));
	assert_int_equal(hear(other).error, 0);
}

/* The host copies; nothing of the region is open, so it can be freed. */
static void expect_nothing_open(const struct side *side,
				const struct other *other)
{
	check_both_ways(side, other, 0, LEN);
	assert_int_equal(bytes_by(side, "direct"), 0);
	assert_int_equal(bytes_by(side, "staged"), 2 * LEN);
	assert_int_equal(cuda.n_imported(), 0);
	assert_int_equal(order(other, ORDER_REMOVE, RIG_WAIT_MS), 0);
}

/* The first chunk, one of the first message, and one of a later one. */
static const unsigned int turns[] = {0, 5, 19};

static void an_owner_that_cannot_export_is_done_without(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(turns); i++) {
		struct other other = other_of(32, RIG_ANY);
		struct side side = side_open(1);
		unsigned int fds = fds_of(&other);

		side_add(&side, 0);
		other_fails(&other, "cuMemExportToShareableHandle", turns[i],
			    CUDA_ERROR_NOT_SUPPORTED);
		expect_nothing_open(&side, &other);
		side_close(&side);
		assert_true(fds_of(&other) <= fds + 8); /* of other rails */
		other_stop(&other);
	}
}

/* @line: that tells of it, among lines of which few a minute are logged. */
static void expect_refusal(const char *function, unsigned int after,
			   const char *line)
{
	struct other other = other_of(32, RIG_ANY);
	struct side side = side_open(1);

	side_add(&side, 0);
	cuda.fail_after(function, after, CUDA_ERROR_NOT_SUPPORTED);
	expect_nothing_open(&side, &other);
	cuda.fail_call(function, 0);
	if (line)
		test_contains(lines, line);
	side_close(&side);
	other_stop(&other);
}

static void a_driver_that_refuses_is_named(void **state)
{
	(void)state;
	expect_refusal("cuMemImportFromShareableHandle", 0,
		       "is not reached from cuda:1: "
		       "cuMemImportFromShareableHandle: "
		       "unknown error (801); the host copies");
	lines[0] = '\0';
	expect_refusal("cuMemMap", 9,
		       "is not reached from cuda:1: cuMemMap: "
		       "unknown error (801)");
}

static void a_driver_that_refuses_is_done_without(void **state)
{
	static const char *const functions[] = {
		"cuMemImportFromShareableHandle",
		"cuMemGetAllocationPropertiesFromHandle", "cuMemMap",
		"cuMemSetAccess"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(functions); i++)
		expect_refusal(functions[i], turns[i % TEST_COUNT(turns)],
			       NULL);
	expect_refusal("cuMemMap", 31, NULL); /* the last one */
	expect_refusal("cuMemAddressReserve", 0, NULL);
}

/* GPUs of two sockets do not reach each other. */
static void a_gpu_that_does_not_get_there_is_done_without(void **state)
{
	struct other other = other_of(4, RIG_ANY);
	struct side side = side_open(2);

	(void)state;
	side_add(&side, 0);
	expect_nothing_open(&side, &other);
	test_contains(lines, "is not reached from cuda:2: "
			     "cuDeviceCanAccessPeer");
	side_close(&side);
	other_stop(&other);
}

/* Leaves this process so many descriptors. Returns the limit that was. */
static rlim_t leave_fds(unsigned int n)
{
	struct rlimit limit;
	rlim_t was;
	int fd = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	was = limit.rlim_cur;
	for (;; fd++)
		if (fcntl(fd, F_GETFD) < 0 && !n--)
			break;
	limit.rlim_cur = (rlim_t)fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return was;
}

static void restore_fds(rlim_t was)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = was;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Has both rails connected, and nothing of the region open. */
static void connect_all(const struct side *side, const struct other *other)
{
	struct iovec piece = {as_pointer(side->at), 4096};
	struct te_request request = rig_request(find(side, other), TE_READ,
						as_pointer(other->at), &piece);

	request.flags |= TE_CRC;
	request.crc_len = 4096;
	assert_int_equal(rig_run(side->engine, &request).error, 0);
	assert_int_equal(move(side, other, TE_READ, 0, 8), 0);
	assert_int_equal(order(other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	other_add(other, RIG_ANY, 0, 0);
	assert_int_equal(cuda.n_imported(), 0);
}

/* Descriptors come in eights: for none, for some, for all of one message. */
static void a_process_without_descriptors_goes_another_way(void **state)
{
	static const unsigned int left[] = {0, 3, 8};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(left); i++) {
		struct other other = other_of(32, RIG_ANY);
		struct side side = side_open(1);
		uint64_t direct;
		rlim_t was;

		side_add(&side, 0);
		connect_all(&side, &other);
		direct = bytes_by(&side, "direct");
		was = leave_fds(left[i]);
		assert_int_equal(move(&side, &other, TE_READ, 0, LEN), 0);
		restore_fds(was);
		assert_int_equal(te_crc32c(0, side.bytes, LEN),
				 crc_of(&other, 0, LEN));
		assert_int_equal(bytes_by(&side, "direct"), direct);
		assert_int_equal(cuda.n_imported(), 0);
		assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
		side_close(&side);
		other_stop(&other);
	}
}

/* ---- taking back ---- */

static void chunks_are_closed_before_they_are_freed(void **state)
{
	struct other other = other_of(16, RIG_ANY);
	struct side side = side_open(1);

	(void)state;
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, LEN);
	assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	assert_int_equal(order(&other, ORDER_FREE, 0), 0);
	assert_int_equal(cuda.n_imported(), 0);
	assert_int_not_equal(move(&side, &other, TE_READ, 0, 8), 0);
	side_close(&side);
	assert_int_equal(order(&other, ORDER_CLOSE, 0), 0);
	tell(&other, ORDER_END, 0);
	other_reap(&other, 0);
}

static void a_removal_waits_for_copies(void **state)
{
	struct other other = other_of(16, RIG_ANY);
	struct side side = side_of(1, 4, NULL, NULL);
	struct te_batch *batch = held_write(&side, &other);

	(void)state;
	assert_int_equal(order(&other, ORDER_REMOVE, 100), -ETIMEDOUT);
	te_batch_cancel(batch);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	assert_int_equal(cuda.n_imported(), 16);
	cuda.hold(false);
	(void)rig_end(batch);
	assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	assert_int_equal(order(&other, ORDER_FREE, 0), 0);
	assert_int_equal(order(&other, ORDER_CLOSE, 0), 0);
	tell(&other, ORDER_END, 0);
	other_reap(&other, 0);
	side_close(&side);
}

static void a_revocation_waits_for_copies(void **state)
{
	struct other other = other_of(16, RIG_ANY);
	struct side side = side_open(1);
	struct te_batch *batch = held_write(&side, &other);

	(void)state;
	assert_int_equal(revoke_ours(&other, &side, 100), -ETIMEDOUT);
	cuda.hold(false);
	(void)rig_end(batch);
	assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	assert_int_equal(cuda.n_imported(), 0);
	other_stop(&other);
	side_close(&side);
}

static void revocations_leave_nothing(void **state)
{
	struct other other = other_of(16, RIG_ANY);
	struct side side = side_open(1);
	unsigned int first = 0;

	(void)state;
	side_add(&side, 0);
	for (int i = 0; i < 25; i++) {
		int rc = -ESTALE; /* until we have heard of the revocation */

		while (rc == -ESTALE)
			rc = move(&side, &other, TE_READ, 0, LEN);
		assert_int_equal(rc, 0);
		assert_int_equal(revoke_ours(&other, &side, RIG_WAIT_MS), 0);
		if (i == 4)
			first = fds_of(&other);
	}
	assert_true(fds_of(&other) <= first + 8);
	side_close(&side);
	assert_int_equal(cuda.n_imported(), 0);
	other_stop(&other);
}

static void an_owner_that_is_killed_ends_nothing_here(void **state)
{
	struct other other = other_of(16, RIG_ANY);
	struct side side = side_open(1);
	struct te_batch *batch = held_write(&side, &other);

	(void)state;
	assert_int_equal(kill(other.pid, SIGKILL), 0);
	other_reap(&other, SIGKILL);
	assert_int_equal(te_batch_wait(batch, 100), -ETIMEDOUT);
	cuda.hold(false);
	(void)rig_end(batch);
	side_close(&side);
	assert_int_equal(cuda.n_imported(), 0);
}

/* An owner that stands still while it is asked delays, and breaks nothing. */
static void an_owner_that_stands_still_is_waited_for(void **state)
{
	struct other other = other_of(32, RIG_ANY);
	struct side side = side_open(1);
	struct iovec piece = {as_pointer(side.at), LEN};
	struct te_request request = rig_request(find(&side, &other), TE_READ,
						as_pointer(other.at), &piece);
	struct te_batch *batch;
	int status;

	(void)state;
	side_add(&side, 0);
	connect_all(&side, &other);
	request.segment = find(&side, &other);
	assert_int_equal(kill(other.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(other.pid, &status, WUNTRACED), other.pid);
	batch = rig_submit(side.engine, &request);
	assert_int_equal(te_batch_wait(batch, 100), -ETIMEDOUT);
	assert_int_equal(kill(other.pid, SIGCONT), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(rig_end(batch).error, 0);
	assert_int_equal(te_crc32c(0, side.bytes, LEN), crc_of(&other, 0, LEN));
	/* One that stands still for long is left, and then goes another way. */
	side_close(&side);
	assert_int_equal(cuda.n_imported(), 0);
	other_stop(&other);
}

static void the_context_goes_with_the_last_region(void **state)
{
	struct other other = other_of(16, RIG_ANY);
	struct side side = side_open(1);

	(void)state;
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, LEN);
	assert_int_equal(te_region_remove(side.engine, side.region), 0);
	assert_int_equal(cuda.n_imported(), 0);
	side_free(&side);
	assert_int_equal(cuda.n_contexts(), 0);
	side_alloc(&side);
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, LEN);
	assert_int_equal(bytes_by(&side, "staged"), 0);
	side_close(&side);
	other_stop(&other);
}

static void a_user_that_is_stopped_or_dies_holds_nothing(void **state)
{
	struct side side = side_of(1, 16, NULL, NULL);
	struct message m = {
		.order = ORDER_WRITE, .there = side.at, .length = LEN};
	struct other other = other_start(0);
	int status;

	(void)state;
	side_add(&side, RIG_ANY);
	snprintf(m.name, sizeof(m.name), "%s", te_engine_name(side.engine));
	assert_int_equal(write(other.tell, &m, sizeof(m)), sizeof(m));
	assert_int_equal(hear(&other).error, 0);
	assert_int_equal(te_crc32c(0, side.bytes, LEN), crc_of(&other, 0, LEN));
	assert_int_equal(kill(other.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(other.pid, &status, WUNTRACED), other.pid);
	assert_int_equal(te_region_remove_within(side.engine, side.region, 100),
			 -ETIMEDOUT);
	assert_int_equal(kill(other.pid, SIGKILL), 0);
	assert_int_equal(te_region_remove(side.engine, side.region), 0);
	other_reap(&other, SIGKILL);
	side_close(&side);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, gpu_set_up, gpu_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(chunks_are_copied_between_processes),
		TEST(each_engine_imports_for_itself),
		TEST(engines_of_one_process_import_nothing),
		TEST(no_chunk_for_who_may_only_read_or_only_write),
		TEST(no_chunk_that_was_not_created_for_it),
		TEST(no_chunk_of_which_the_region_is_a_part),
		TEST(whole_chunks_are_a_region),
		TEST(an_owner_that_cannot_export_is_done_without),
		TEST(a_driver_that_refuses_is_named),
		TEST(a_gpu_that_does_not_get_there_is_done_without),
		TEST(a_driver_that_refuses_is_done_without),
		TEST(a_process_without_descriptors_goes_another_way),
		TEST(chunks_are_closed_before_they_are_freed),
		TEST(a_removal_waits_for_copies),
		TEST(a_revocation_waits_for_copies),
		TEST(revocations_leave_nothing),
		TEST(an_owner_that_is_killed_ends_nothing_here),
		TEST(an_owner_that_stands_still_is_waited_for),
		TEST(the_context_goes_with_the_last_region),
		TEST(a_user_that_is_stopped_or_dies_holds_nothing),
	};

	across_test = "across_chunks";
	if (getenv(ROLE))
		return be_other();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
