/* SPDX-License-Identifier: Apache-2.0 */
/* test_device.c - whose memory an address is: the host's, or that of a GPU */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <te/te.h>
#include <te/topo.h>

#include "base/fault.h"
#include "te/core/engine.h"
#include "te/device/device.h"
#include "te/worker/topology.h"
#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

#define SIZE  ((size_t)64 << 10)
#define CHUNK ((size_t)2 << 20)

static struct fake_cuda cuda;
static char last_line[512];

static void on_line(int level, const char *line, void *arg)
{
	(void)arg;
	if (level <= 1)
		snprintf(last_line, sizeof(last_line), "%s", line);
}

static struct te_engine *engine_with(const char *library, const char *topology)
{
	struct te_config *config;
	struct te_engine *engine;

	te_log_set(on_line, NULL);
	last_line[0] = '\0';
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(
		te_config_set(config, "backends", "loop,tcp,shm", NULL, 0), 0);
	assert_int_equal(
		te_config_set(config, "cuda_library", library, NULL, 0), 0);
	if (topology)
		assert_int_equal(
			te_config_set(config, "topology", topology, NULL, 0),
			0);
	assert_int_equal(te_engine_create(config, NULL, &engine), 0);
	te_config_destroy(config);
	return engine;
}

static int add(struct te_engine *engine, uint64_t addr, uint64_t length,
	       const char *location)
{
	struct te_region region = {.addr = (void *)(uintptr_t)addr,
				   .length = length,
				   .location = location,
				   .access = TE_ACCESS_REMOTE_READ};
	te_region_id id;
	int rc = te_region_add(engine, &region, &id);

	if (!rc)
		assert_int_equal(te_region_remove(engine, id), 0);
	return rc;
}

static int find(struct te_engine *engine, uint64_t addr, uint64_t length,
		const char *location, struct tei_memory_found *out)
{
	struct tei_memory_asked asked = {.addr = (void *)(uintptr_t)addr,
					 .length = length,
					 .location = location};
	char why[TEI_RUNTIME_WHY_LEN];

	return tei_memory_find(engine, &asked, out, why);
}

static int set_up(void **state)
{
	(void)state;
	unsetenv("CUDA_VISIBLE_DEVICES");
	fake_cuda_open(&cuda);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	cuda.reset();
	te_log_set(NULL, NULL);
	return 0;
}

/* ---- loading and starting ---- */

/* A copy is a library that nobody has loaded. */
static void copy_library(char path[TEST_PATH_MAX + 16], const char *dir)
{
	static char bytes[64 << 10];
	FILE *from = fopen(cuda.file, "rbe"), *to;
	size_t n;

	snprintf(path, TEST_PATH_MAX + 16, "%s/cuda.so", dir);
	to = fopen(path, "wbe");
	assert_true(from && to);
	while ((n = fread(bytes, 1, sizeof(bytes), from)) > 0)
		assert_int_equal(fwrite(bytes, 1, n, to), n);
	assert_int_equal(fclose(to), 0);
	assert_int_equal(fclose(from), 0);
}

static bool is_loaded(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	return library != NULL;
}

static void no_driver_is_loaded_without_a_reason(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	static char memory[SIZE];
	struct te_engine *engine;

	(void)state;
	test_tmpdir_create(dir);
	copy_library(path, dir);
	engine = engine_with(path, NULL);
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, NULL), 0);
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cpu:0"), 0);
	assert_false(is_loaded(path));
	/* A location that names a GPU is one. */
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cuda:0"),
			 -EINVAL);
	assert_true(is_loaded(path));
	test_contains(last_line, "location: \"cuda:0\", but the memory is the "
				 "host's");
	te_engine_destroy(engine);
	test_tmpdir_remove(dir);
}

static void nobody_starts_a_driver_for_memory_of_the_host(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	static char memory[SIZE];

	(void)state;
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "*"), 0);
	assert_int_equal(cuda.n_inits(), 0);
	te_engine_destroy(engine);
}

/* Below where Linux maps anything (vm.mmap_min_addr), whatever threads do. */
static void *hole(void)
{
	return (void *)(uintptr_t)4096;
}

static void an_address_of_nobody_is_asked_of_the_driver(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	void *gone = hole();

	(void)state;
	assert_int_equal(add(engine, (uintptr_t)gone, SIZE, NULL), -EFAULT);
	assert_int_equal(cuda.n_inits(), 1);
	test_contains(last_line, "addr: ");
	te_engine_destroy(engine);
}

static void without_a_driver_all_memory_is_the_hosts(void **state)
{
	struct te_engine *engine = engine_with("/nowhere/libcuda.so.1", NULL);
	static char memory[SIZE];
	struct tei_memory_found found;

	(void)state;
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cuda:0"), 0);
	assert_int_equal(find(engine, (uintptr_t)memory, SIZE, NULL, &found),
			 0);
	assert_int_equal(found.facts.kind, TEI_MEMORY_HOST);
	assert_null(found.ops);
	te_engine_destroy(engine);
}

static void a_library_that_is_no_driver_is_none(void **state)
{
	struct te_engine *engine = engine_with("libm.so.6", NULL);
	static char memory[SIZE];

	(void)state;
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cuda:0"), 0);
	te_engine_destroy(engine);
}

static void no_gpu_that_may_be_used_is_no_gpu(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	static char memory[SIZE];

	(void)state;
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cuda:0"), 0);
	unsetenv("CUDA_VISIBLE_DEVICES");
	te_engine_destroy(engine);
}

static void who_lacks_memory_for_the_driver_says_so(void **state)
{
	static char memory[SIZE];
	unsigned int nth = 0;
	int rc;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	do {
		struct te_engine *engine = engine_with(cuda.file, NULL);

		tei_fault_arm(TEI_FAULT_ALLOC, ++nth);
		rc = add(engine, (uintptr_t)memory, SIZE, NULL);
		tei_fault_disarm_all();
		assert_true(!rc || rc == -ENOMEM);
		assert_int_equal(add(engine, (uintptr_t)memory, SIZE, NULL), 0);
		te_engine_destroy(engine);
	} while (rc);
	assert_true(nth > 1);
}

/* ---- kinds ---- */

static void each_kind_of_memory_is_known(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	struct tei_memory_found found;
	CUdeviceptr device, managed, pool;
	CUcontext context;
	void *pinned;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	device = fake_cuda_alloc(&cuda, 1, SIZE);
	assert_int_equal(cuda.primary_ctx_retain(&context, 1), 0);
	assert_int_equal(cuda.ctx_push(context), 0);
	assert_int_equal(cuda.mem_alloc_managed(&managed, SIZE, 1), 0);
	assert_int_equal(cuda.ctx_pop(&context), 0);
	assert_int_equal(cuda.mem_host_alloc(&pinned, SIZE, 0), 0);
	assert_int_equal(cuda.pool_alloc(2, &pool, SIZE), 0);

	assert_int_equal(find(engine, device, SIZE, NULL, &found), 0);
	assert_int_equal(found.facts.kind, TEI_MEMORY_DEVICE);
	assert_int_equal(found.facts.gpu, 1);
	assert_int_equal(found.facts.base, device);
	assert_int_equal(found.facts.length, SIZE);
	assert_false(found.facts.chunked || found.facts.pooled);
	assert_string_equal(found.ops->name, "cuda");
	assert_string_equal(found.gpu.bus_id, "0000:1b:00.0");
	assert_string_equal(found.gpu.model, "Fake GPU 1");

	assert_int_equal(find(engine, managed + 8, 8, NULL, &found), 0);
	assert_int_equal(found.facts.kind, TEI_MEMORY_MANAGED);
	assert_int_equal(find(engine, (uintptr_t)pinned, SIZE, "*", &found), 0);
	assert_int_equal(found.facts.kind, TEI_MEMORY_PINNED);
	assert_int_equal(found.facts.gpu, -1);
	assert_int_equal(find(engine, pool, SIZE, "cuda:2", &found), 0);
	assert_int_equal(found.facts.kind, TEI_MEMORY_DEVICE);
	assert_true(found.facts.pooled);

	cuda.mem_free_host(pinned);
	cuda.mem_free(pool);
	cuda.mem_free(managed);
	cuda.primary_ctx_release(1);
	fake_cuda_free(&cuda, 1, device);
	assert_int_equal(cuda.n_contexts(), 0);
	te_engine_destroy(engine);
}

static void chunks_side_by_side_are_one_range(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	struct tei_memory_found found;
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	assert_int_equal(cuda.map_chunks(3, CHUNK, 3, &at), 0);
	assert_int_equal(find(engine, at + 5, 3 * CHUNK - 5, NULL, &found), 0);
	assert_true(found.facts.chunked);
	assert_int_equal(found.facts.gpu, 3);
	assert_int_equal(find(engine, at + CHUNK, 2 * CHUNK + 1, NULL, &found),
			 -EFAULT);
	assert_int_equal(cuda.unmap_chunks(at), 0);
	assert_int_equal(find(engine, at, CHUNK, NULL, &found), -EFAULT);
	te_engine_destroy(engine);
}

/* ---- what is wrong ---- */

static void a_range_past_its_allocation_is_refused(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 0, SIZE);
	assert_int_equal(add(engine, at + 8, SIZE, NULL), -EFAULT);
	test_contains(last_line,
		      "length: the range ends 8 bytes behind what was "
		      "allocated there");
	fake_cuda_free(&cuda, 0, at);
	te_engine_destroy(engine);
}

static void memory_that_was_freed_is_refused(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 0, SIZE);
	fake_cuda_free(&cuda, 0, at);
	assert_int_equal(add(engine, at, SIZE, NULL), -EFAULT);
	test_contains(last_line, "addr: no memory that may be read");
	assert_int_equal(add(engine, at, SIZE, "cuda:0"), -EFAULT);
	te_engine_destroy(engine);
}

/* As another process may have given it to this one. */
static void memory_of_a_gpu_that_is_not_seen_is_refused(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 2, SIZE);
	cuda.fail_call("cuDeviceGet", CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(add(engine, at, SIZE, NULL), -EFAULT);
	test_contains(last_line, "addr: memory of cuda:2, which this process "
				 "does not see");
	cuda.fail_call("cuDeviceGet", 0);
	assert_int_equal(add(engine, at, SIZE, NULL), 0);
	te_engine_destroy(engine);
	fake_cuda_free(&cuda, 2, at);
}

static void a_location_says_what_the_memory_is(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	struct tei_memory_found found;
	static char memory[SIZE];
	CUdeviceptr at;
	void *pinned;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 1, SIZE);
	assert_int_equal(cuda.mem_host_alloc(&pinned, SIZE, 0), 0);
	assert_int_equal(find(engine, at, SIZE, "cuda:1", &found), 0);
	assert_int_equal(find(engine, at, SIZE, "gpu of a file", &found), 0);
	assert_int_equal(find(engine, at, SIZE, "cuda:0", &found), -EINVAL);
	assert_int_equal(add(engine, at, SIZE, "cpu:0"), -EINVAL);
	test_contains(last_line,
		      "location: \"cpu:0\", but the memory is of cuda:1");
	assert_int_equal(
		find(engine, (uintptr_t)memory, SIZE, "cuda:1", &found),
		-EINVAL);
	assert_int_equal(
		find(engine, (uintptr_t)pinned, SIZE, "cuda:1", &found),
		-EINVAL);
	assert_int_equal(find(engine, (uintptr_t)pinned, SIZE, "cpu:0", &found),
			 0);
	cuda.mem_free_host(pinned);
	fake_cuda_free(&cuda, 1, at);
	te_engine_destroy(engine);
}

static void a_driver_that_fails_is_named(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	static char memory[SIZE];
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 0, SIZE);
	cuda.fail_call("cuPointerGetAttributes", CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cuda:0"), -EIO);
	test_contains(last_line, "cuPointerGetAttributes: "
				 "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
	cuda.fail_call("cuPointerGetAttributes", CUDA_ERROR_DEINITIALIZED);
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cuda:0"), -EIO);
	test_contains(last_line, "the driver has ended");
	cuda.fail_call("cuPointerGetAttributes", 0);
	cuda.fail_call("cuDeviceGet", CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(add(engine, at, SIZE, NULL), -EIO);
	cuda.fail_call("cuDeviceGet", 0);
	fake_cuda_free(&cuda, 0, at);
	te_engine_destroy(engine);
}

/* Also of a stub library, of one that is not ready, of another version. */
static const int broken[] = {CUDA_ERROR_DEINITIALIZED,
			     34,
			     CUDA_ERROR_ILLEGAL_ADDRESS,
			     802,
			     803,
			     999};

/* Which a process may have long after its driver has failed. */
static void memory_of_the_host_needs_no_driver(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	static char memory[SIZE];

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	for (size_t i = 0; i < TEST_COUNT(broken); i++) {
		cuda.fail_call("cuPointerGetAttributes", broken[i]);
		assert_int_equal(add(engine, (uintptr_t)memory, SIZE, NULL), 0);
		assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cpu:0"),
				 0);
	}
	cuda.fail_call("cuPointerGetAttributes", 0);
	test_contains(last_line, "the driver of cuda GPUs fails");
	te_engine_destroy(engine);
}

static void a_driver_that_does_not_start_has_no_memory(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	static char memory[SIZE];
	void *gone = hole();

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(broken); i++) {
		cuda.fail_call("cuInit", broken[i]);
		assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cuda:0"),
				 0);
		assert_int_equal(add(engine, (uintptr_t)gone, SIZE, NULL),
				 -EFAULT);
	}
	cuda.fail_call("cuInit", 0);
	te_engine_destroy(engine);
}

/* What lies behind it the host has allocated otherwise. */
static void memory_of_the_host_goes_on_behind_what_is_pinned(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	struct tei_memory_found found;
	static _Alignas(4096) char memory[SIZE];
	CUcontext context;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	assert_int_equal(cuda.primary_ctx_retain(&context, 0), 0);
	assert_int_equal(cuda.ctx_push(context), 0);
	assert_int_equal(cuda.mem_host_register(memory, SIZE / 2, 0), 0);
	assert_int_equal(find(engine, (uintptr_t)memory, SIZE, NULL, &found),
			 0);
	assert_int_equal(found.facts.kind, TEI_MEMORY_PINNED);
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, "cpu:0"), 0);
	assert_int_equal(cuda.mem_host_unregister(memory), 0);
	assert_int_equal(cuda.ctx_pop(&context), 0);
	assert_int_equal(cuda.primary_ctx_release(0), 0);
	te_engine_destroy(engine);
}

static void an_old_driver_has_no_pools(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	struct tei_memory_found found;
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 0, SIZE);
	cuda.fail_call("CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE",
		       CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(find(engine, at, SIZE, NULL, &found), 0);
	assert_int_equal(found.facts.kind, TEI_MEMORY_DEVICE);
	assert_false(found.facts.pooled);
	cuda.fail_call("CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE", 0);
	fake_cuda_free(&cuda, 0, at);
	te_engine_destroy(engine);
}

/* With a driver and without one; a host may mean to allow access later. */
static void what_is_no_memory_is_refused(void **state)
{
	const char *const libraries[] = {cuda.file, "/nowhere/libcuda.so.1"};
	const int without_access[] = {-EFAULT, 0};
	char *memory =
		mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(memory != MAP_FAILED);
	assert_int_equal(cuda.init(0), 0);
	for (size_t i = 0; i < TEST_COUNT(libraries); i++) {
		struct te_engine *engine = engine_with(libraries[i], NULL);
		void *gone = hole();

		assert_int_equal(add(engine, (uintptr_t)gone, SIZE, NULL),
				 -EFAULT);
		test_contains(last_line, "addr: no memory that may be read");
		assert_int_equal(add(engine, (uintptr_t)memory, SIZE, NULL),
				 without_access[i]);
		te_engine_destroy(engine);
	}
	munmap(memory, SIZE);
}

/* It may be used, though there is nothing in it to be read now. */
static void a_file_that_was_made_shorter_is_the_hosts(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	int fd = memfd_create("test", MFD_CLOEXEC);
	char *memory;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(memory != MAP_FAILED);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(add(engine, (uintptr_t)memory, SIZE, NULL), 0);
	te_engine_destroy(engine);
	munmap(memory, SIZE);
	close(fd);
}

/* Only its first byte is a reason to ask a driver for it. */
static void a_hole_in_memory_loads_no_driver(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	char *memory = mmap(NULL, 3 * SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct te_engine *engine;

	(void)state;
	assert_true(memory != MAP_FAILED);
	munmap(memory + SIZE, SIZE);
	test_tmpdir_create(dir);
	copy_library(path, dir);
	engine = engine_with(path, NULL);
	assert_int_equal(add(engine, (uintptr_t)memory, 3 * SIZE, NULL), 0);
	assert_false(is_loaded(path));
	te_engine_destroy(engine);
	test_tmpdir_remove(dir);
	munmap(memory, SIZE);
	munmap(memory + 2 * SIZE, SIZE);
}

/* None of it is touched. */
static void memory_of_a_gpu_is_taken_where_the_host_copies_it(void **state)
{
	struct te_engine *engine = engine_with(cuda.file, NULL);
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 1, SIZE);
	assert_int_equal(add(engine, at, SIZE, "*"), 0);
	fake_cuda_free(&cuda, 1, at);
	te_engine_destroy(engine);
}

/* ---- which GPU of the machine ---- */

#define GPU(n_, bus_)                                     \
	"{\"name\": \"cuda:" #n_ "\", \"numa_node\": 0, " \
	"\"pci_bus_id\": \"" bus_ "\"}"

/* The process counts its GPUs otherwise than the machine does. */
static void a_gpu_is_found_in_the_machine_by_its_bus(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	struct tei_memory_found found;
	struct te_engine *engine;
	CUdeviceptr at;

	(void)state;
	test_tmpdir_create(dir);
	test_tree_write(
		dir, "machine.json",
		"{\"nics\": [], \"mems\": [" GPU(0, "0000:1a:00.0") ", " GPU(
			1, "0000:3d:00.0") "]}");
	snprintf(path, sizeof(path), "%s/machine.json", dir);
	engine = engine_with(cuda.file, path);
	assert_non_null(engine->topo);
	setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 0, SIZE);
	assert_int_equal(find(engine, at, SIZE, "cuda:0", &found), 0);
	assert_string_equal(found.gpu.bus_id, "0000:3d:00.0");
	assert_string_equal(tei_topology_gpu(engine, found.gpu.bus_id),
			    "cuda:1");
	assert_null(tei_topology_gpu(engine, "0000:77:00.0"));
	fake_cuda_free(&cuda, 0, at);
	unsetenv("CUDA_VISIBLE_DEVICES");
	te_engine_destroy(engine);
	test_tmpdir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name_) cmocka_unit_test_setup_teardown(name_, set_up, tear_down)
		TEST(no_driver_is_loaded_without_a_reason),
		TEST(nobody_starts_a_driver_for_memory_of_the_host),
		TEST(an_address_of_nobody_is_asked_of_the_driver),
		TEST(without_a_driver_all_memory_is_the_hosts),
		TEST(a_library_that_is_no_driver_is_none),
		TEST(no_gpu_that_may_be_used_is_no_gpu),
		TEST(who_lacks_memory_for_the_driver_says_so),
		TEST(each_kind_of_memory_is_known),
		TEST(chunks_side_by_side_are_one_range),
		TEST(a_range_past_its_allocation_is_refused),
		TEST(memory_that_was_freed_is_refused),
		TEST(memory_of_a_gpu_that_is_not_seen_is_refused),
		TEST(a_location_says_what_the_memory_is),
		TEST(a_driver_that_fails_is_named),
		TEST(memory_of_the_host_needs_no_driver),
		TEST(a_driver_that_does_not_start_has_no_memory),
		TEST(memory_of_the_host_goes_on_behind_what_is_pinned),
		TEST(an_old_driver_has_no_pools),
		TEST(what_is_no_memory_is_refused),
		TEST(a_file_that_was_made_shorter_is_the_hosts),
		TEST(a_hole_in_memory_loads_no_driver),
		TEST(memory_of_a_gpu_is_taken_where_the_host_copies_it),
		TEST(a_gpu_is_found_in_the_machine_by_its_bus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
