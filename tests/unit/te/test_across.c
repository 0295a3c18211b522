/* SPDX-License-Identifier: Apache-2.0 */
/* test_across.c - copies between GPUs of two processes of a host */
#include "tests/lib/tmpdir.h"
#include "tests/unit/te/across.h"

static void a_gpu_copies_between_processes(void **state)
{
	static const size_t places[][2] = {
		{0, LEN}, {0, 1}, {4097, 4095}, {1, (1 << 20) + 13}};
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);
	uint64_t sum = 0;

	(void)state;
	side_add(&side, 0);
	for (size_t i = 0; i < TEST_COUNT(places); i++) {
		check_both_ways(&side, &other, places[i][0], places[i][1]);
		sum += 2 * places[i][1];
	}
	assert_int_equal(bytes_by(&side, "direct"), sum);
	assert_int_equal(bytes_by(&side, "staged"), 0);
	assert_int_equal(cuda.n_opened(), 1);
	side_close(&side);
	assert_int_equal(cuda.n_opened(), 0);
	other_stop(&other);
}

/* The driver opens memory once in a process. */
static void two_engines_open_it_once(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side one = side_open(1), two = side_open(1);

	(void)state;
	side_add(&one, 0);
	side_add(&two, 0);
	check_both_ways(&one, &other, 0, LEN);
	check_both_ways(&two, &other, 0, LEN);
	assert_int_equal(bytes_by(&two, "staged"), 0);
	assert_int_equal(cuda.n_opened(), 1);
	side_close(&one);
	check_both_ways(&two, &other, 0, LEN);
	side_close(&two);
	other_stop(&other);
}

static void engines_of_one_process_open_nothing(void **state)
{
	struct side owner = side_open(0), user = side_open(1);
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
	assert_int_equal(cuda.n_opened(), 0);
	assert_int_equal(te_region_remove(owner.engine, owner.region), 0);
	side_close(&user);
	side_close(&owner);
}

/* More requests than a burst takes, of many sizes, both ways at once. */
#define MANY 700u

static void many_requests_go_in_bursts(void **state)
{
	static struct te_request requests[MANY];
	static struct iovec pieces[MANY];
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);
	te_segment_id id = find(&side, &other);
	struct te_batch *batch;
	size_t part = LEN / MANY;

	(void)state;
	side_add(&side, 0);
	rig_fill(side.bytes, LEN);
	for (size_t i = 0; i < MANY; i++) {
		size_t length = 1 + (size_t)rand() % part;

		pieces[i] =
			(struct iovec){as_pointer(side.at + i * part), length};
		requests[i] = rig_request(id, TE_WRITE,
					  as_pointer(other.at + i * part),
					  &pieces[i]);
	}
	assert_int_equal(te_batch_create(side.engine, MANY, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, MANY), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (size_t i = 0; i < MANY; i++) {
		struct te_completion completion;

		assert_int_equal(te_batch_poll(batch, &completion, 1), 1);
		assert_int_equal(completion.error, 0);
		assert_int_equal(
			crc_of(&other, i * part, pieces[i].iov_len),
			te_crc32c(0, side.bytes + i * part, pieces[i].iov_len));
	}
	te_batch_destroy(batch);
	assert_int_equal(bytes_by(&side, "staged"), 0);
	side_close(&side);
	other_stop(&other);
}

/* ---- what is not handed out ---- */

static void expect_staged(uint32_t access, uint32_t op)
{
	struct other other = other_start(access);
	struct side side = side_open(1);

	side_add(&side, 0);
	assert_int_equal(move(&side, &other, op, 0, LEN), 0);
	assert_int_equal(bytes_by(&side, "direct"), 0);
	assert_int_equal(bytes_by(&side, "staged"), LEN);
	assert_int_equal(cuda.n_opened(), 0);
	side_close(&side);
	other_stop(&other);
}

static void no_name_for_who_may_only_read_or_only_write(void **state)
{
	(void)state;
	expect_staged(TE_ACCESS_REMOTE_READ, TE_READ);
	expect_staged(TE_ACCESS_REMOTE_WRITE, TE_WRITE);
}

static void no_name_for_a_part_of_an_allocation(void **state)
{
	struct side user = side_open(1);
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);

	(void)state;
	side_add(&user, 0);
	for (int parts = 0; parts < 2; parts++) {
		struct te_engine *owner =
			open_engine("shm.gpu_parts", parts ? "true" : "false");
		te_segment_id id;

		rig_region(owner, as_pointer(at + 4096), 65536, RIG_ANY);
		id = rig_segment(user.engine, owner);
		rig_fill(user.bytes, LEN);
		memset(cuda.bytes(at), 0, LEN);
		assert_int_equal(rig_move(user.engine, id, TE_WRITE,
					  as_pointer(at + 4100),
					  as_pointer(user.at + 1), 60000),
				 0);
		assert_memory_equal(cuda.bytes(at + 4100), user.bytes + 1,
				    60000);
		assert_int_equal(bytes_by(&user, "direct"), parts ? 60000 : 0);
		te_engine_destroy(owner);
	}
	side_close(&user);
	fake_cuda_free(&cuda, 0, at);
}

/* The host copies in its place, and one line says why. */
static void a_driver_that_refuses_is_done_without(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);

	(void)state;
	side_add(&side, 0);
	cuda.fail_call("cuIpcOpenMemHandle",
		       CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	check_both_ways(&side, &other, 0, LEN);
	assert_int_equal(bytes_by(&side, "direct"), 0);
	test_contains(lines, "is not reached from cuda:1: cuIpcOpenMemHandle");
	assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	side_close(&side);
	other_stop(&other);
}

/* As of a container that has another folder, but the same processes. */
static void an_owner_whose_socket_is_not_found_goes_by_tcp(void **state)
{
	char dir[TEST_PATH_MAX];
	const struct plan plan = {
		.setting = "shm.dir", .value = dir, .access = RIG_ANY};
	struct side side = side_open(1);
	struct other other;

	(void)state;
	test_tmpdir_create(dir);
	other = other_start_as(&plan);
	test_tmpdir_remove(dir);
	side_add(&side, 0);
	assert_int_equal(move(&side, &other, TE_READ, 0, LEN), 0);
	assert_int_equal(bytes_by(&side, "staged"), LEN);
	side_close(&side);
	other_stop(&other);
}

static void a_driver_that_failed_works_again(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);

	(void)state;
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, LEN);
	cuda.fail_call("cuMemcpyAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
	cuda.fail_call("cuStreamSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(move(&side, &other, TE_READ, 0, LEN), -EIO);
	cuda.fail_call("cuMemcpyAsync", 0);
	cuda.fail_call("cuStreamSynchronize", 0);
	assert_int_equal(te_region_remove(side.engine, side.region), 0);
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, LEN);
	side_close(&side);
	other_stop(&other);
}

/* Memory of the host goes another way, and so does what has a checksum. */
static void other_requests_go_as_before(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);
	struct iovec pieces[2] = {{as_pointer(side.at), 4096}, {NULL, 4096}};
	struct te_request request = rig_request(find(&side, &other), TE_WRITE,
						as_pointer(other.at), pieces);
	static uint8_t host[4096];

	(void)state;
	side_add(&side, 0);
	rig_fill(side.bytes, 4096);
	rig_fill(host, sizeof(host));
	pieces[1].iov_base = host;
	request.n_pieces = 2;
	assert_int_equal(rig_run(side.engine, &request).error, 0);
	assert_int_equal(crc_of(&other, 4096, 4096), te_crc32c(0, host, 4096));
	request.n_pieces = 1;
	request.flags |= TE_CRC;
	request.crc_len = 4096;
	assert_int_equal(rig_run(side.engine, &request).error, 0);
	assert_int_equal(crc_of(&other, 0, 4096),
			 te_crc32c(0, side.bytes, 4096));
	assert_int_equal(bytes_by(&side, "direct"), 0);
	side_close(&side);
	other_stop(&other);
}

/* ---- taking back ---- */

static void memory_is_closed_before_it_is_freed(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);

	(void)state;
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, LEN);
	assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	assert_int_equal(order(&other, ORDER_FREE, 0), 0);
	assert_int_equal(cuda.n_opened(), 0);
	assert_int_not_equal(move(&side, &other, TE_READ, 0, 8), 0);
	side_close(&side);
	assert_int_equal(order(&other, ORDER_CLOSE, 0), 0);
	tell(&other, ORDER_END, 0);
	other_reap(&other, 0);
}

static void copies_under_way_are_waited_for(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);
	struct iovec piece = {as_pointer(side.at), LEN};
	struct te_request request = rig_request(find(&side, &other), TE_WRITE,
						as_pointer(other.at), &piece);
	struct te_batch *batch;

	(void)state;
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, 8);
	rig_fill(side.bytes, LEN);
	cuda.hold(true);
	batch = rig_submit(side.engine, &request);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	assert_int_equal(order(&other, ORDER_REMOVE, 100), -ETIMEDOUT);
	te_batch_cancel(batch);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	cuda.hold(false);
	(void)rig_end(batch);
	assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	assert_int_equal(order(&other, ORDER_FREE, 0), 0);
	assert_int_equal(order(&other, ORDER_CLOSE, 0), 0);
	tell(&other, ORDER_END, 0);
	other_reap(&other, 0);
	side_close(&side);
}

static void an_owner_that_revokes_waits_for_copies(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);
	struct te_batch *batch = held_write(&side, &other);

	(void)state;
	assert_int_equal(revoke_ours(&other, &side, 100), -ETIMEDOUT);
	cuda.hold(false);
	(void)rig_end(batch);
	assert_int_equal(order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
	assert_int_equal(cuda.n_opened(), 0);
	other_stop(&other);
	side_close(&side);
}

static void *let_go_later(void *arg)
{
	(void)arg;
	(void)poll(NULL, 0, 100);
	cuda.hold(false);
	return NULL;
}

static void an_engine_that_ends_waits_for_its_copies(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);
	struct te_batch *batch = held_write(&side, &other);
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, let_go_later, NULL), 0);
	te_batch_cancel(batch);
	(void)rig_end(batch);
	side_close(&side);
	pthread_join(thread, NULL);
	assert_int_equal(cuda.n_opened(), 0);
	other_stop(&other);
}

static void an_owner_that_is_killed_ends_nothing_here(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);
	struct te_batch *batch = held_write(&side, &other);

	(void)state;
	assert_int_equal(kill(other.pid, SIGKILL), 0);
	other_reap(&other, SIGKILL);
	assert_int_equal(te_batch_wait(batch, 100), -ETIMEDOUT);
	cuda.hold(false);
	(void)rig_end(batch);
	side_close(&side);
	assert_int_equal(cuda.n_opened(), 0);
}

static void an_owner_that_ends_or_revokes_may_free(void **state)
{
	for (int revokes = 0; revokes < 2; revokes++) {
		struct other other = other_start(RIG_ANY);
		struct side side = side_open(1);

		(void)state;
		side_add(&side, 0);
		check_both_ways(&side, &other, 0, LEN);
		if (revokes) {
			assert_int_equal(
				revoke_ours(&other, &side, RIG_WAIT_MS), 0);
			assert_int_equal(
				order(&other, ORDER_REMOVE, RIG_WAIT_MS), 0);
		}
		other_stop(&other);
		side_close(&side);
	}
}

static void revocations_leave_no_descriptors(void **state)
{
	struct other other = other_start(RIG_ANY);
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
	other_stop(&other);
}

/* Who resets a GPU removes its regions before: nothing of ours is left then. */
static void the_context_goes_with_the_last_region(void **state)
{
	struct other other = other_start(RIG_ANY);
	struct side side = side_open(1);

	(void)state;
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, LEN);
	assert_int_equal(te_region_remove(side.engine, side.region), 0);
	fake_cuda_free(&cuda, side.gpu, side.at);
	assert_int_equal(cuda.n_contexts(), 0);
	side.at = fake_cuda_alloc(&cuda, side.gpu, LEN);
	side.bytes = cuda.bytes(side.at);
	side_add(&side, 0);
	check_both_ways(&side, &other, 0, LEN);
	assert_int_equal(bytes_by(&side, "staged"), 0);
	side_close(&side);
	other_stop(&other);
}

/* An engine without a worker thread, the owner's or the user's, hears it yet. */
static void engines_without_threads_take_back(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct side owner =
			side_with(0, "worker_thread", i ? "true" : "false");
		struct side user =
			side_with(1, "worker_thread", i ? "false" : "true");
		struct iovec piece = {as_pointer(user.at), LEN};
		struct te_request request;
		struct te_batch *batch;

		(void)state;
		side_add(&owner, RIG_ANY);
		side_add(&user, 0);
		request = rig_request(rig_segment(user.engine, owner.engine),
				      TE_WRITE, as_pointer(owner.at), &piece);
		batch = rig_submit(user.engine, &request);
		while (te_batch_wait(batch, 1) == -ETIMEDOUT)
			if (!i)
				(void)te_engine_drive(owner.engine, 1);
		assert_int_equal(rig_end(batch).error, 0);
		assert_int_equal(bytes_by(&user, "direct"), LEN);
		assert_int_equal(te_region_remove(owner.engine, owner.region),
				 0);
		side_close(&user);
		side_close(&owner);
	}
}

static void a_user_that_dies_holds_nothing(void **state)
{
	struct side side = side_open(1);
	struct message m = {
		.order = ORDER_WRITE, .there = side.at, .length = LEN};
	struct other other = other_start(0);
	int status;

	(void)state;
	side_add(&side, RIG_ANY);
	snprintf(m.name, sizeof(m.name), "%s", te_engine_name(side.engine));
	assert_int_equal(write(other.tell, &m, sizeof(m)), sizeof(m));
	assert_int_equal(hear(&other).error, 0);
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
		TEST(a_gpu_copies_between_processes),
		TEST(two_engines_open_it_once),
		TEST(engines_of_one_process_open_nothing),
		TEST(many_requests_go_in_bursts),
		TEST(no_name_for_who_may_only_read_or_only_write),
		TEST(no_name_for_a_part_of_an_allocation),
		TEST(a_driver_that_refuses_is_done_without),
		TEST(an_owner_whose_socket_is_not_found_goes_by_tcp),
		TEST(a_driver_that_failed_works_again),
		TEST(other_requests_go_as_before),
		TEST(memory_is_closed_before_it_is_freed),
		TEST(copies_under_way_are_waited_for),
		TEST(an_owner_that_revokes_waits_for_copies),
		TEST(an_engine_that_ends_waits_for_its_copies),
		TEST(an_owner_that_is_killed_ends_nothing_here),
		TEST(an_owner_that_ends_or_revokes_may_free),
		TEST(revocations_leave_no_descriptors),
		TEST(the_context_goes_with_the_last_region),
		TEST(engines_without_threads_take_back),
		TEST(a_user_that_dies_holds_nothing),
	};

	across_test = "across";
	if (getenv(ROLE))
		return be_other();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
