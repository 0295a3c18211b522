/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gpu.c - values put from and read into a GPU's memory
 *
 * A processor that touches it gets a signal, so what arrives has gone past it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/store_setup.h>

#include "tests/integration/store/daemon.h"
#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define MIB   ((size_t)1048576)
#define SIZE  (3 * MIB)
#define CACHE (16 * MIB)

static struct fake_cuda cuda;
static uint8_t pattern[SIZE], other[SIZE];

struct parts {
	struct pool pool;
	struct test_process *owner; /* NULL: the client is */
	struct te_store *client;
	CUdeviceptr at; /* of cuda:1; at[SIZE], registered */
	uint8_t *bytes; /* behind it */
};

static void *as_pointer(CUdeviceptr at)
{
	return (void *)(uintptr_t)at;
}

/* A client that keeps in its cache what it has read once. */
static struct te_store *open_client(const struct pool *pool, uint64_t lends)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = POOL_START_MS,
		.replica_timeout_ms = POOL_START_MS,
		.setup_timeout_ms = POOL_START_MS,
		.master = pool->address,
		.segment_bytes = lends,
		.hot_cache_bytes = CACHE,
		.hot_cache_threshold = 1,
		.local_buffer_bytes = CACHE,
	};
	struct te_store *store;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

static void parts_start(struct parts *parts, const char *backends, bool lends)
{
	fake_cuda_open(&cuda);
	assert_int_equal(cuda.init(0), 0);
	setenv("TE_CUDA_LIBRARY", cuda.file, 1);
	if (backends)
		setenv("TE_BACKENDS", backends, 1);
	pool_start(&parts->pool, pool_patient);
	parts->owner = lends ? NULL : pool_owner(&parts->pool, "64 MB");
	parts->client = open_client(&parts->pool, lends ? 64 * MIB : 0);
	parts->at = fake_cuda_alloc(&cuda, 1, SIZE);
	parts->bytes = cuda.bytes(parts->at);
	assert_int_equal(
		te_store_register(parts->client, as_pointer(parts->at), SIZE),
		0);
	pool_fill(pattern, SIZE, 7);
}

static void parts_stop(struct parts *parts)
{
	te_store_close(parts->client);
	if (parts->owner)
		test_process_end(parts->owner);
	pool_stop(&parts->pool);
	fake_cuda_free(&cuda, 1, parts->at);
	cuda.reset();
	unsetenv("TE_BACKENDS");
	unsetenv("TE_CUDA_LIBRARY");
}

/* ---- calls ---- */

/* A value whole, and another one of pieces of the host and the GPU. */
static void put_and_get(const struct parts *parts)
{
	void *gpu = as_pointer(parts->at);

	memcpy(parts->bytes, pattern, SIZE);
	assert_int_equal(pool_put(parts->client, "whole", gpu, SIZE), 0);
	assert_int_equal(pool_get(parts->client, "whole", other, SIZE), SIZE);
	assert_memory_equal(other, pattern, SIZE);
	for (int i = 0; i < 3; i++) { /* from the owner, and not the cache */
		memset(parts->bytes, 0, SIZE);
		assert_int_equal(pool_get(parts->client, "whole", gpu, SIZE),
				 SIZE);
		assert_memory_equal(parts->bytes, pattern, SIZE);
	}
}

static void pieces(const struct parts *parts)
{
	const struct te_store_key key = pool_key("pieces");
	const struct iovec from[3] = {
		{pattern, 1000},
		{as_pointer(parts->at + 1000), 2 * MIB},
		{pattern + 1000 + 2 * MIB, 5},
	};
	const struct iovec to[2] = {{other, 500},
				    {as_pointer(parts->at + 500), SIZE - 500}};
	const struct te_store_value put = {.pieces = from, .n_pieces = 3},
				    get = {.pieces = to, .n_pieces = 2};
	int64_t size = 1005 + 2 * (int64_t)MIB, result;
	int code;

	memcpy(parts->bytes, pattern, SIZE);
	assert_int_equal(
		te_store_put(parts->client, &key, &put, 1, NULL, &code), 0);
	assert_int_equal(code, 0);
	memset(parts->bytes, 0, SIZE);
	memset(other, 0, SIZE);
	(void)te_store_get(parts->client, &key, &get, 1, &result);
	assert_int_equal(result, size);
	assert_memory_equal(other, pattern, 500);
	assert_memory_equal(parts->bytes + 500, pattern + 500,
			    (size_t)size - 500);
}

static void ranges(const struct parts *parts)
{
	const struct te_store_key key = pool_key("whole");
	const struct te_store_range wanted[3] = {
		{.offset = 5, .addr = as_pointer(parts->at), .length = 1000},
		{.offset = 7, .addr = other, .length = 10},
		{.offset = 2 * MIB,
		 .addr = as_pointer(parts->at + 1000),
		 .length = 4096},
	};
	int64_t results[3];

	memset(parts->bytes, 0, SIZE);
	assert_int_equal(
		te_store_get_ranges(parts->client, &key, 1, wanted, 3, results),
		3);
	assert_memory_equal(parts->bytes, pattern + 5, 1000);
	assert_memory_equal(other, pattern + 7, 10);
	assert_memory_equal(parts->bytes + 1000, pattern + 2 * MIB, 4096);
}

/* What the cache has, from reads of the host, is for the host. */
static void cached(const struct parts *parts)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(pool_get(parts->client, "whole", other, SIZE),
				 SIZE);
	ranges(parts);
	memset(parts->bytes, 0, SIZE);
	assert_int_equal(
		pool_get(parts->client, "whole", as_pointer(parts->at), SIZE),
		SIZE);
	assert_memory_equal(parts->bytes, pattern, SIZE);
}

static void put_in_ranges(const struct parts *parts)
{
	const struct te_store_key key = pool_key("ranges");
	const uint64_t size = SIZE;
	const struct te_store_range given[2] = {
		{.addr = as_pointer(parts->at), .length = MIB},
		{.offset = MIB, .addr = pattern + MIB, .length = 2 * MIB},
	};
	int64_t results[2];
	int code;

	memcpy(parts->bytes, pattern, SIZE);
	assert_int_equal(
		te_store_put_open(parts->client, &key, &size, 1, NULL, &code),
		0);
	assert_int_equal(
		te_store_put_ranges(parts->client, &key, 1, given, 2, results),
		2);
	assert_int_equal(te_store_put_commit(parts->client, &key, 1, &code), 0);
	assert_int_equal(pool_get(parts->client, "ranges", other, SIZE), SIZE);
	assert_memory_equal(other, pattern, SIZE);
}

static void all_calls(const char *backends, bool lends)
{
	struct parts parts;

	parts_start(&parts, backends, lends);
	put_and_get(&parts);
	pieces(&parts);
	ranges(&parts);
	cached(&parts);
	put_in_ranges(&parts);
	parts_stop(&parts);
}

static void over_tcp(void **state)
{
	(void)state;
	all_calls("loop,tcp", false);
}

static void over_shared_memory(void **state)
{
	(void)state;
	all_calls(NULL, false);
}

static void within_an_owner(void **state)
{
	(void)state;
	all_calls(NULL, true);
}

/* ---- pinned memory ---- */

static char lines[8192];

static void keep(int level, const char *line, void *arg)
{
	size_t used = strlen(lines);

	(void)level;
	(void)arg;
	(void)snprintf(lines + used, sizeof(lines) - used, "%s\n", line);
}

/* Makes a context of a GPU that is in use. */
static void use_gpu(void)
{
	CUcontext context;

	fake_cuda_open(&cuda);
	assert_int_equal(cuda.init(0), 0);
	assert_int_equal(cuda.primary_ctx_retain(&context, 3), 0);
	setenv("TE_CUDA_LIBRARY", cuda.file, 1);
	lines[0] = '\0';
	te_log_set(keep, NULL);
	te_log_set_level(2);
}

static void leave_gpu(void)
{
	te_log_set_level(1);
	te_log_set(NULL, NULL);
	assert_int_equal(cuda.pinned(), 0);
	assert_int_equal(cuda.primary_ctx_release(3), 0);
	cuda.reset();
	unsetenv("TE_CUDA_LIBRARY");
}

static void begin_pinned(struct pool *pool)
{
	use_gpu();
	pool_start(pool, pool_patient);
}

static void end_pinned(struct pool *pool)
{
	pool_stop(pool);
	leave_gpu();
}

static struct te_store *open_pinned(const struct pool *pool, uint32_t pin_mib)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = POOL_START_MS,
		.setup_timeout_ms = POOL_START_MS,
		.master = pool->address,
		.segment_bytes = 8 * MIB,
		.local_buffer_bytes = 2 * MIB,
		.pin_mib = pin_mib,
	};
	struct te_store *store;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

static void segments_and_the_local_buffer_are_pinned(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store;
	struct pool pool;

	(void)state;
	begin_pinned(&pool);
	store = open_pinned(&pool, 11);
	assert_int_equal(cuda.pinned(), 10 * MIB);
	assert_non_null(strstr(lines, "segment: 8388608 bytes are pinned, "
				      "8388608 of this client in all"));
	assert_non_null(strstr(lines, "local buffer: 2097152 bytes are pinned, "
				      "10485760 of this client"));
	assert_int_equal(pool_put(store, "a", pattern, SIZE), 0);
	assert_int_equal(pool_get(store, "a", other, SIZE), SIZE);
	/* As a whole or not at all. */
	assert_int_equal(te_store_mount(store, 2 * MIB, id), 0);
	assert_int_equal(cuda.pinned(), 10 * MIB);
	assert_non_null(strstr(lines, "segment: 2097152 bytes are not pinned: "
				      "10485760 are, and pin_memory_max_bytes "
				      "allows 11534336"));
	assert_int_equal(te_store_unmount(store, id, 0), 0);
	/* What is given back may be used for another. */
	assert_int_equal(te_store_mount(store, MIB, id), 0);
	assert_int_equal(cuda.pinned(), 11 * MIB);
	assert_int_equal(te_store_unmount(store, id, 0), 0);
	assert_int_equal(cuda.pinned(), 10 * MIB);
	te_store_close(store);
	end_pinned(&pool);
}

static void memory_that_cannot_be_pinned_is_used_as_it_is(void **state)
{
	struct te_store *store;
	struct pool pool;

	(void)state;
	begin_pinned(&pool);
	cuda.fail_call("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
	store = open_pinned(&pool, UINT32_MAX);
	cuda.fail_call("cuMemHostRegister", 0);
	assert_non_null(strstr(lines, "8388608 bytes of the host at"));
	assert_non_null(strstr(lines, "cuMemHostRegister: there are no "
				      "8388608 bytes"));
	assert_int_equal(cuda.pinned(), 0);
	assert_int_equal(pool_put(store, "a", pattern, SIZE), 0);
	te_store_close(store);
	/* Not wanted. */
	lines[0] = '\0';
	te_store_close(open_pinned(&pool, 0));
	assert_null(strstr(lines, "pinned"));
	end_pinned(&pool);
}

static void memory_that_a_dummy_shares_is_pinned(void **state)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = TE_STORE_NO_WAIT,
		.daemon = "/nobody/serves/here.sock",
		.pool_bytes = 4 * MIB,
		.local_buffer_bytes = 64 * MIB,
		.pin_mib = UINT32_MAX,
	};
	struct te_store *store;
	struct pool pool;

	(void)state;
	begin_pinned(&pool);
	assert_int_equal(te_store_setup(&config, &store), 0);
	assert_int_equal(cuda.pinned(), 68 * MIB);
	assert_non_null(strstr(lines, "memory shared with the daemon: 71303168 "
				      "bytes are pinned"));
	te_store_close(store);
	end_pinned(&pool);
}

/* Copies of GPUs would go on with the pages that the daemon keeps. */
static void memory_that_is_replaced_is_unpinned_before(void **state)
{
	struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = 200,
		.replica_timeout_ms = 200,
		.setup_timeout_ms = POOL_START_MS,
		.pool_bytes = 4 * MIB,
		.pin_mib = UINT32_MAX,
	};
	struct daemon d = {.http = 0};
	struct te_store *store;
	uint8_t *shared;

	(void)state;
	daemon_start(&d);
	use_gpu();
	config.daemon = d.socket;
	assert_int_equal(te_store_setup(&config, &store), 0);
	assert_true(cuda.pinned() > 4 * MIB);
	shared = te_store_pool_alloc(store, MIB);
	assert_non_null(shared);
	test_process_signal(d.process, SIGSTOP);
	assert_int_equal(pool_get(store, "k", shared, MIB), -901);
	assert_int_equal(cuda.pinned(), 0);
	memset(shared, 7, MIB);
	test_process_signal(d.process, SIGCONT);
	te_store_close(store);
	leave_gpu();
	daemon_stop(&d);
}

static uint32_t mib_of(const char *is_on, const char *bytes)
{
	uint32_t mib;

	if (is_on)
		setenv("MC_STORE_PIN_MEMORY", is_on, 1);
	if (bytes)
		setenv("MC_STORE_PIN_MEMORY_MAX_BYTES", bytes, 1);
	mib = te_store_pin_mib();
	unsetenv("MC_STORE_PIN_MEMORY");
	unsetenv("MC_STORE_PIN_MEMORY_MAX_BYTES");
	return mib;
}

static void variables_of_mooncake_switch_it_on(void **state)
{
	(void)state;
	assert_int_equal(mib_of(NULL, NULL), 0);
	assert_int_equal(mib_of("1", NULL), UINT32_MAX);
	assert_int_equal(mib_of("1", "0"), UINT32_MAX);
	assert_int_equal(mib_of(NULL, "10485761"), 10);
	assert_int_equal(mib_of("true", "4gb"), 4096);
	assert_int_equal(mib_of("0", "4gb"), 0);
	assert_int_equal(mib_of("perhaps", NULL), 0);
	assert_int_equal(mib_of("1", "much"), 0);
	assert_int_equal(mib_of("", ""), 0);
	assert_int_equal(mib_of("1", ""), UINT32_MAX);
}

/* ---- what is wrong ---- */

static void memory_that_is_not_registered_is_refused(void **state)
{
	CUdeviceptr unknown;
	struct parts parts;

	(void)state;
	parts_start(&parts, "loop,tcp", false);
	unknown = fake_cuda_alloc(&cuda, 1, SIZE);
	assert_int_equal(pool_put(parts.client, "a", as_pointer(unknown), 100),
			 TE_STORE_INVALID_PARAMS);
	/* Past the end of what is registered, and of what is allocated. */
	assert_int_equal(pool_put(parts.client, "a",
				  as_pointer(parts.at + SIZE - 10), 11),
			 TE_STORE_INVALID_PARAMS);
	assert_int_equal(
		te_store_register(parts.client, as_pointer(unknown), SIZE + 1),
		TE_STORE_INVALID_PARAMS);
	assert_int_equal(
		te_store_unregister(parts.client, as_pointer(parts.at)), 0);
	assert_int_equal(pool_put(parts.client, "a", as_pointer(parts.at), 100),
			 TE_STORE_INVALID_PARAMS);
	fake_cuda_free(&cuda, 1, unknown);
	assert_int_equal(
		te_store_register(parts.client, as_pointer(unknown), SIZE),
		TE_STORE_INVALID_PARAMS);
	parts_stop(&parts);
}

static void a_driver_that_fails_is_an_error(void **state)
{
	struct parts parts;

	(void)state;
	parts_start(&parts, "loop,tcp", false);
	memcpy(parts.bytes, pattern, SIZE);
	cuda.fail_call("cuMemcpyDtoHAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_true(pool_put(parts.client, "a", as_pointer(parts.at), SIZE) <
		    0);
	cuda.fail_call("cuMemcpyDtoHAsync", 0);
	assert_int_equal(pool_put(parts.client, "a", pattern, SIZE), 0);
	assert_int_equal(pool_get(parts.client, "a", other, SIZE), SIZE);
	assert_memory_equal(other, pattern, SIZE);
	parts_stop(&parts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_tcp),
		cmocka_unit_test(over_shared_memory),
		cmocka_unit_test(within_an_owner),
		cmocka_unit_test(segments_and_the_local_buffer_are_pinned),
		cmocka_unit_test(memory_that_cannot_be_pinned_is_used_as_it_is),
		cmocka_unit_test(memory_that_a_dummy_shares_is_pinned),
		cmocka_unit_test(memory_that_is_replaced_is_unpinned_before),
		cmocka_unit_test(variables_of_mooncake_switch_it_on),
		cmocka_unit_test(memory_that_is_not_registered_is_refused),
		cmocka_unit_test(a_driver_that_fails_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
