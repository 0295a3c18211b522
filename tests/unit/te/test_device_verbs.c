/* SPDX-License-Identifier: Apache-2.0 */
/* test_device_verbs.c - NICs that access a GPU's memory by themselves */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/verbs/verbs.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/self.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/gpu.h"

#define LEN   ((size_t)256 << 10)
#define CHUNK ((size_t)2 << 20)

static int set_up(void **state)
{
	(void)state;
	setenv("WITH_NVIDIA_PEERMEM", "0", 1);
	gpu_start();
	fake_verbs_start(2);
	tei_verbs_use(&fake_verbs);
	te_log_set_level(2);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_log_set_level(1);
	fake_verbs_translate(NULL);
	fake_verbs_refuse_dmabufs(0);
	tei_verbs_use(NULL);
	fake_verbs_stop();
	gpu_stop();
	return 0;
}

static struct te_engine *verbs_engine(void)
{
	const char *const settings[] = {"backends", "verbs", "cuda_library",
					cuda.file, NULL};

	return rig_engine(settings);
}

/* Of one engine's memory to the other's and back, and all is there. */
static void move_all(struct te_engine *user, te_segment_id segment,
		     CUdeviceptr remote, CUdeviceptr local, size_t length)
{
	uint8_t *there = cuda.bytes(remote), *here = cuda.bytes(local);

	rig_fill(here, length);
	memset(there, 0, length);
	assert_int_equal(rig_move(user, segment, TE_WRITE, as_pointer(remote),
				  as_pointer(local), length),
			 0);
	assert_memory_equal(there, here, length);
	memset(here, 0, length);
	assert_int_equal(rig_move(user, segment, TE_READ, as_pointer(remote),
				  as_pointer(local), length),
			 0);
	assert_memory_equal(there, here, length);
}

/* Writes a GPU's memory to the host's, and all is there. */
static void write_all(struct te_engine *user, te_segment_id segment,
		      const uint8_t *remote, CUdeviceptr local)
{
	rig_fill(cuda.bytes(local), LEN);
	assert_int_equal(rig_move(user, segment, TE_WRITE, remote,
				  as_pointer(local), LEN),
			 0);
	assert_memory_equal(remote, cuda.bytes(local), LEN);
}

/* ---- by dma-buf ---- */

static void bytes_go_from_gpu_to_gpu(void **state)
{
	struct te_engine *owner = verbs_engine(), *user = verbs_engine();
	CUdeviceptr remote = fake_cuda_alloc(&cuda, 0, LEN),
		    local = fake_cuda_alloc(&cuda, 1, LEN);
	unsigned int n_files = test_fds_open();
	te_segment_id segment;

	(void)state;
	rig_region(owner, as_pointer(remote), LEN, RIG_ANY);
	rig_region(user, as_pointer(local), LEN, TE_ACCESS_LOCAL);
	assert_int_equal(test_fds_open(), n_files);
	test_contains(lines, "of a GPU at");
	test_contains(lines, "are reached by dma-buf");
	assert_true(cuda.is_ordered(remote) && cuda.is_ordered(local));
	segment = rig_segment(user, owner);
	move_all(user, segment, remote, local, LEN);
	/* So little that host memory would go with the work request. */
	move_all(user, segment, remote + 8, local + 24, 8);
	assert_int_equal(test_stat(user, "te_gpu_bytes_total", "direct"),
			 2 * LEN + 2 * 8);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 0, remote);
	fake_cuda_free(&cuda, 1, local);
	assert_int_equal(cuda.n_contexts(), 0);
}

/* ---- writes of NICs and work of GPUs that runs ---- */

struct listener {
	struct te_engine *engine;
};

static bool takes(void *arg)
{
	const struct listener *listener = arg;
	struct te_notify message;

	if (te_notify_take(listener->engine, &message))
		return false;
	te_notify_free(&message);
	return true;
}

/* A write and a message behind it. */
static void write_and_tell(struct te_engine *user, struct te_engine *owner,
			   CUdeviceptr remote, CUdeviceptr local)
{
	te_segment_id segment = rig_segment(user, owner);
	struct iovec piece = {as_pointer(local), 64}, text = {"end", 3};
	struct te_request requests[2] = {
		rig_request(segment, TE_WRITE, as_pointer(remote), &piece),
		rig_request(segment, TE_NOTIFY, NULL, &text)};
	struct listener listener = {.engine = owner};
	struct te_batch *batch;

	assert_int_equal(te_batch_create(user, 2, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, 2), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	te_batch_destroy(batch);
	assert_true(test_wait_until(takes, &listener, RIG_WAIT_MS));
}

/* Returns how often what NICs wrote was flushed for one message. */
static int flushes_of(bool is_ordered, uint32_t access)
{
	CUdeviceptr remote = fake_cuda_alloc(&cuda, 0, LEN),
		    local = fake_cuda_alloc(&cuda, 1, LEN), more;
	struct te_engine *owner, *user;
	int before, n;

	cuda.fail_call("GPU_DIRECT_RDMA_WRITES_ORDERING", !is_ordered);
	owner = verbs_engine();
	user = verbs_engine();
	more = fake_cuda_alloc(&cuda, 2, LEN);
	rig_region(owner, as_pointer(remote), LEN / 2, RIG_ANY);
	rig_region(owner, as_pointer(remote + LEN / 2), LEN / 2, RIG_ANY);
	rig_region(owner, as_pointer(more), LEN, access);
	rig_region(user, as_pointer(local), LEN, TE_ACCESS_LOCAL);
	before = cuda.n_flushes();
	write_and_tell(user, owner, remote, local);
	n = cuda.n_flushes() - before;
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 2, more);
	fake_cuda_free(&cuda, 0, remote);
	fake_cuda_free(&cuda, 1, local);
	cuda.fail_call("GPU_DIRECT_RDMA_WRITES_ORDERING", 0);
	return n;
}

/* Once for each GPU that peers may write to, if it does not order them. */
static void a_message_comes_after_writes_that_work_sees(void **state)
{
	(void)state;
	assert_int_equal(flushes_of(true, RIG_ANY), 0);
	assert_int_equal(flushes_of(false, TE_ACCESS_REMOTE_READ), 1);
	assert_int_equal(flushes_of(false, RIG_ANY), 2);
}

/* Neither begins nor ends at a page. */
static void a_part_of_an_allocation_is_a_region(void **state)
{
	struct te_engine *owner = verbs_engine(), *user = verbs_engine();
	CUdeviceptr remote = fake_cuda_alloc(&cuda, 0, LEN),
		    local = fake_cuda_alloc(&cuda, 0, LEN);
	te_segment_id segment;

	(void)state;
	rig_region(owner, as_pointer(remote + 5000), 20000, RIG_ANY);
	rig_region(user, as_pointer(local + 72), 24000, TE_ACCESS_LOCAL);
	segment = rig_segment(user, owner);
	move_all(user, segment, remote + 5000, local + 104, 20000);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 0, remote);
	fake_cuda_free(&cuda, 0, local);
}

static void memory_in_chunks_has_a_key_for_each(void **state)
{
	struct te_engine *owner = verbs_engine(), *user = verbs_engine();
	CUdeviceptr remote, local = fake_cuda_alloc(&cuda, 2, 3 * CHUNK);
	te_segment_id segment;
	CUcontext context;

	(void)state;
	assert_int_equal(cuda.primary_ctx_retain(&context, 3), 0);
	assert_int_equal(cuda.map_chunks(3, CHUNK, 3, &remote), 0);
	rig_region(owner, as_pointer(remote), 3 * CHUNK, RIG_ANY);
	rig_region(user, as_pointer(local), 3 * CHUNK, TE_ACCESS_LOCAL);
	assert_true(cuda.is_ordered(remote));
	segment = rig_segment(user, owner);
	for (unsigned int i = 0; i < 3; i++)
		move_all(user, segment, remote + i * CHUNK, local + i * CHUNK,
			 CHUNK);
	/* Half of it in one chunk, half in the next. */
	rig_fill(cuda.bytes(local), CHUNK);
	assert_int_equal(rig_move(user, segment, TE_WRITE,
				  as_pointer(remote + CHUNK / 2),
				  as_pointer(local), CHUNK),
			 0);
	assert_memory_equal(cuda.bytes(remote + CHUNK / 2), cuda.bytes(local),
			    CHUNK / 2);
	assert_memory_equal(cuda.bytes(remote + CHUNK),
			    cuda.bytes(local + CHUNK / 2), CHUNK / 2);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	assert_int_equal(cuda.unmap_chunks(remote), 0);
	assert_int_equal(cuda.primary_ctx_release(3), 0);
	fake_cuda_free(&cuda, 2, local);
}

static void host_and_gpu_go_together(void **state)
{
	struct te_engine *owner = verbs_engine(), *user = verbs_engine();
	CUdeviceptr local = fake_cuda_alloc(&cuda, 1, LEN);
	static uint8_t memory[LEN], other[64];
	struct iovec pieces[] = {{other, 16}, {as_pointer(local), 16}};
	struct te_request request;
	te_segment_id segment;

	(void)state;
	rig_region(owner, memory, LEN, RIG_ANY);
	rig_region(user, as_pointer(local), LEN, TE_ACCESS_LOCAL);
	segment = rig_segment(user, owner);
	write_all(user, segment, memory, local);
	/* In one request, of memory that is not registered, too. */
	memset(other, 7, sizeof(other));
	request = rig_request(segment, TE_WRITE, memory, pieces);
	request.n_pieces = 2;
	assert_int_equal(rig_run(user, &request).error, 0);
	assert_memory_equal(memory, other, 16);
	assert_memory_equal(memory + 16, cuda.bytes(local), 16);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 1, local);
}

/* The host copies it for that. */
static void a_checksum_is_taken_of_copies(void **state)
{
	struct te_engine *owner = verbs_engine(), *user = verbs_engine();
	CUdeviceptr local = fake_cuda_alloc(&cuda, 1, LEN);
	struct iovec piece = {as_pointer(local), LEN};
	struct te_request request;
	struct te_completion end;
	static uint8_t memory[LEN];
	te_segment_id segment;

	(void)state;
	rig_region(owner, memory, LEN, RIG_ANY);
	rig_region(user, as_pointer(local), LEN, TE_ACCESS_LOCAL);
	segment = rig_segment(user, owner);
	rig_fill(memory, LEN);
	request = rig_request(segment, TE_READ, memory, &piece);
	request.flags |= TE_CRC;
	request.crc_len = LEN;
	end = rig_run(user, &request);
	assert_int_equal(end.error, 0);
	assert_int_equal(end.crc, te_crc32c(0, memory, LEN));
	assert_memory_equal(cuda.bytes(local), memory, LEN);
	assert_true(test_stat(user, "te_gpu_bytes_total", "staged") == LEN);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 1, local);
}

/* Without the GPU's memory shm would carry all between two engines here. */
static void only_rails_that_reach_it_carry_it(void **state)
{
	const char *const settings[] = {"backends", "shm,tcp,verbs",
					"cuda_library", cuda.file, NULL};
	struct te_engine *owner = rig_engine(settings);
	struct te_engine *user = rig_engine(settings);
	CUdeviceptr local = fake_cuda_alloc(&cuda, 1, LEN);
	static uint8_t memory[LEN], other[LEN];
	struct te_completion ends[3];
	struct te_request requests[3];
	struct iovec pieces[] = {
		{other, 4096}, {as_pointer(local), 4096}, {other + 4096, 4096}};
	te_segment_id segment;
	struct te_batch *batch;

	(void)state;
	rig_region(owner, memory, LEN, RIG_ANY);
	rig_region(user, as_pointer(local), LEN, TE_ACCESS_LOCAL);
	rig_region(user, other, LEN, TE_ACCESS_LOCAL);
	segment = rig_segment(user, owner);
	write_all(user, segment, memory, local);
	/* Neighbours, of which one is not for the others' rail. */
	memset(other, 7, sizeof(other));
	for (unsigned int i = 0; i < 3; i++)
		requests[i] =
			rig_request(segment, TE_WRITE,
				    memory + (size_t)i * 4096, &pieces[i]);
	assert_int_equal(te_batch_create(user, 3, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, 3), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, ends, 3), 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(ends[i].error, 0);
	te_batch_destroy(batch);
	assert_memory_equal(memory, other, 4096);
	assert_memory_equal(memory + 4096, cuda.bytes(local), 4096);
	assert_memory_equal(memory + 8192, other, 4096);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 1, local);
}

/* ---- near NICs ---- */

/* Returns how many bytes the engine's rail of a NIC has sent. */
static uint64_t sent_by(struct te_engine *engine, const char *nic)
{
	struct te_rail_info rails[4];
	size_t n = TEST_COUNT(rails);

	assert_int_equal(te_engine_rails(engine, rails, &n), 0);
	for (size_t i = 0; i < n && i < TEST_COUNT(rails); i++)
		if (strstr(rails[i].name, nic))
			return rails[i].sent_bytes;
	fail_msg("no rail of %s", nic);
	return 0;
}

/* The machine's cuda:1 is the process's first one. */
static void the_nic_near_a_gpu_carries_it(void **state)
{
	static const char machine[] =
		"{\"nics\": [{\"name\": \"fake0\"}, {\"name\": \"fake1\"}], "
		"\"mems\": [{\"name\": \"cuda:0\", \"pci_bus_id\": "
		"\"0000:1a:00.0\", \"rails\": [[\"fake0\"], [\"fake1\"]]}, "
		"{\"name\": \"cuda:1\", \"pci_bus_id\": \"0000:3d:00.0\", "
		"\"rails\": [[\"fake1\"], [\"fake0\"]]}]}";
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	const char *const settings[] = {"backends", "verbs",    "cuda_library",
					cuda.file,  "topology", path,
					NULL};
	static uint8_t memory[LEN];
	struct te_engine *owner, *user;
	te_segment_id segment;
	CUdeviceptr local;

	(void)state;
	cuda.reset();
	setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
	assert_int_equal(cuda.init(0), 0);
	test_tmpdir_create(dir);
	test_tree_write(dir, "machine.json", machine);
	snprintf(path, sizeof(path), "%s/machine.json", dir);
	owner = verbs_engine();
	user = rig_engine(settings);
	local = fake_cuda_alloc(&cuda, 0, LEN);
	rig_region(owner, memory, LEN, RIG_ANY);
	rig_region(user, as_pointer(local), LEN, TE_ACCESS_LOCAL);
	segment = rig_segment(user, owner);
	write_all(user, segment, memory, local);
	assert_int_equal(sent_by(user, "fake0"), 0);
	assert_int_equal(sent_by(user, "fake1"), LEN);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 0, local);
	unsetenv("CUDA_VISIBLE_DEVICES");
	test_tmpdir_remove(dir);
}

/* ---- by its address, or not at all ---- */

static void *bytes_of(uint64_t addr)
{
	return cuda.bytes(addr);
}

static void without_dma_bufs_a_module_helps(void **state)
{
	CUdeviceptr remote = fake_cuda_alloc(&cuda, 0, LEN),
		    local = fake_cuda_alloc(&cuda, 1, LEN);
	struct te_engine *owner, *user;
	te_segment_id segment;

	(void)state;
	setenv("WITH_NVIDIA_PEERMEM", "1", 1);
	owner = verbs_engine();
	user = verbs_engine();
	fake_verbs_translate(bytes_of);
	cuda.fail_call("cuMemGetHandleForAddressRange",
		       CUDA_ERROR_NOT_SUPPORTED);
	rig_region(owner, as_pointer(remote), LEN, RIG_ANY);
	cuda.fail_call("cuMemGetHandleForAddressRange", 0);
	/* The device refuses what the driver exports. */
	fake_verbs_refuse_dmabufs(EOPNOTSUPP);
	rig_region(user, as_pointer(local), LEN, TE_ACCESS_LOCAL);
	test_contains(lines, "are reached by address");
	segment = rig_segment(user, owner);
	move_all(user, segment, remote, local, LEN);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 0, remote);
	fake_cuda_free(&cuda, 1, local);
}

static void what_no_nic_reaches_is_refused_with_what_to_do(void **state)
{
	struct te_engine *engine = verbs_engine();
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);
	struct te_region region = {
		.addr = as_pointer(at), .length = LEN, .access = RIG_ANY};
	unsigned int n_files = test_fds_open();
	te_region_id id;

	(void)state;
	cuda.fail_call("cuMemGetHandleForAddressRange",
		       CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(te_region_add(engine, &region, &id), -EOPNOTSUPP);
	test_contains(lines, "cuMemGetHandleForAddressRange");
	test_contains(lines, "modprobe nvidia-peermem");
	cuda.fail_call("cuMemGetHandleForAddressRange", 0);
	fake_verbs_refuse_dmabufs(ENOMEM);
	assert_int_equal(te_region_add(engine, &region, &id), -ENOMEM);
	test_contains(lines, "BAR1");
	assert_int_equal(test_fds_open(), n_files);
	fake_verbs_refuse_dmabufs(0);
	assert_int_equal(te_region_add(engine, &region, &id), 0);
	te_engine_destroy(engine);
	fake_cuda_free(&cuda, 0, at);
}

/* By a NIC that moves the copies. */
static void local_memory_that_no_nic_reaches_is_copied(void **state)
{
	struct te_engine *owner = verbs_engine(), *user = verbs_engine();
	CUdeviceptr local = fake_cuda_alloc(&cuda, 1, LEN);
	static uint8_t memory[LEN];
	te_segment_id segment;

	(void)state;
	fake_verbs_refuse_dmabufs(EOPNOTSUPP);
	rig_region(owner, memory, LEN, RIG_ANY);
	rig_region(user, as_pointer(local), LEN, TE_ACCESS_LOCAL);
	segment = rig_segment(user, owner);
	write_all(user, segment, memory, local);
	memset(cuda.bytes(local), 0, LEN);
	assert_int_equal(rig_move(user, segment, TE_READ, memory,
				  as_pointer(local), LEN),
			 0);
	assert_memory_equal(memory, cuda.bytes(local), LEN);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 1, local);
}

static void memory_that_cannot_be_ordered_is_told_of(void **state)
{
	struct te_engine *engine = verbs_engine();
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);

	(void)state;
	cuda.fail_call("cuPointerSetAttribute", CUDA_ERROR_NOT_SUPPORTED);
	rig_region(engine, as_pointer(at), LEN, RIG_ANY);
	test_contains(lines, "a NIC may read memory of cuda:0 before a copy");
	cuda.fail_call("cuPointerSetAttribute", 0);
	te_engine_destroy(engine);
	fake_cuda_free(&cuda, 0, at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name_) cmocka_unit_test_setup_teardown(name_, set_up, tear_down)
		TEST(bytes_go_from_gpu_to_gpu),
		TEST(a_part_of_an_allocation_is_a_region),
		TEST(a_message_comes_after_writes_that_work_sees),
		TEST(memory_in_chunks_has_a_key_for_each),
		TEST(host_and_gpu_go_together),
		TEST(a_checksum_is_taken_of_copies),
		TEST(only_rails_that_reach_it_carry_it),
		TEST(the_nic_near_a_gpu_carries_it),
		TEST(without_dma_bufs_a_module_helps),
		TEST(what_no_nic_reaches_is_refused_with_what_to_do),
		TEST(local_memory_that_no_nic_reaches_is_copied),
		TEST(memory_that_cannot_be_ordered_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
