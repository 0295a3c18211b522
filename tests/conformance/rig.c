/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c - two engines, a segment between them, and short ways to use it */
#include "tests/conformance/rig.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/process.h"
#include "tests/lib/wait.h"

#define REMOTE_GPU 0
#define LOCAL_GPU  1

const char *rig_variant, *rig_name, *rig_backend;
const char *const *rig_settings;
bool rig_remote_gpu, rig_local_gpu;
bool rig_arena;
bool rig_nic;
bool rig_self;
bool rig_one_process;

static struct fake_cuda cuda;

void rig_gpus_start(void)
{
	fake_cuda_open(&cuda);
	assert_int_equal(cuda.init(0), 0);
}

void rig_gpus_stop(void)
{
	cuda.reset();
}

struct te_config *rig_config(void)
{
	struct te_config *config;
	char error[256] = "";

	assert_int_equal(te_config_create(&config), 0);
	if (te_config_set(config, "backends", rig_backend, error,
			  sizeof(error)))
		fail_msg("%s", error);
	for (const char *const *at = rig_settings; at && *at; at += 2)
		assert_int_equal(te_config_set(config, at[0], at[1], NULL, 0),
				 0);
	if (cuda.file)
		assert_int_equal(te_config_set(config, "cuda_library",
					       cuda.file, NULL, 0),
				 0);
	return config;
}

/*
 * Requests that are to succeed have as long as their test waits: an emulated
 * machine whose host is busy moves no 400 MB in the usual 30 s.
 */
struct te_engine *rig_engine(const char *name)
{
	struct te_config *config = rig_config();
	struct te_engine *engine;

	assert_int_equal(
		te_config_set(config, "transfer_timeout", "200s", NULL, 0), 0);
	assert_int_equal(te_engine_create(config, name, &engine), 0);
	te_config_destroy(config);
	return engine;
}

te_region_id rig_region(struct te_engine *owner, void *addr, uint64_t length,
			uint32_t access, const uint8_t *group)
{
	struct te_region region = {.addr = addr,
				   .length = length,
				   .access = access,
				   .group = group};
	te_region_id id;

	assert_int_equal(te_region_add(owner, &region, &id), 0);
	return id;
}

static uint8_t *of_gpu(int gpu, size_t len)
{
	CUdeviceptr at = fake_cuda_alloc(&cuda, gpu, len);

	return (uint8_t *)(uintptr_t)at; /* its bytes are of a new file */
}

static uint8_t *of_host(size_t len)
{
	uint8_t *memory = calloc(1, len);

	assert_non_null(memory);
	return memory;
}

uint8_t *rig_memory(struct te_engine *owner, size_t len)
{
	void *memory;

	if (rig_remote_gpu)
		return of_gpu(REMOTE_GPU, len);
	if (!rig_arena)
		return of_host(len);
	assert_int_equal(te_memory_alloc(owner, len, &memory), 0);
	return memory;
}

void rig_memory_free(struct te_engine *owner, uint8_t *memory)
{
	if (rig_remote_gpu)
		fake_cuda_free(&cuda, REMOTE_GPU, (uintptr_t)memory);
	else if (!rig_arena)
		free(memory);
	else if (owner)
		te_memory_free(owner, memory);
}

uint8_t *rig_local(void)
{
	return rig_local_gpu ? of_gpu(LOCAL_GPU, RIG_LEN) : of_host(RIG_LEN);
}

void rig_local_free(uint8_t *local)
{
	if (rig_local_gpu)
		fake_cuda_free(&cuda, LOCAL_GPU, (uintptr_t)local);
	else
		free(local);
}

void rig_local_add(struct te_engine *user, uint8_t *local)
{
	if (rig_local_gpu)
		rig_region(user, local, RIG_LEN, TE_ACCESS_LOCAL, NULL);
}

uint8_t *rig_bytes(void *addr)
{
	uint8_t *bytes = cuda.file ? cuda.bytes((uintptr_t)addr) : NULL;

	return bytes ? bytes : addr;
}

void rig_open(struct rig *r)
{
	*r = (struct rig){0};
	r->owner = rig_engine("127.0.0.1");
	r->memory = rig_memory(r->owner, RIG_LEN);
	r->there = rig_bytes(r->memory);
	r->local = rig_local();
	r->here = rig_bytes(r->local);
	r->user = rig_self ? r->owner : rig_engine("127.0.0.1");
	r->region = rig_region(r->owner, r->memory, RIG_LEN, RIG_ANY, NULL);
	rig_local_add(r->user, r->local);
	assert_int_equal(te_segment_open(r->user, te_engine_name(r->owner),
					 RIG_WAIT_MS, &r->segment),
			 0);
}

/* Whether the user has been told of r->memory. */
static bool is_seen(const struct rig *r)
{
	struct te_segment_region regions[8];
	size_t n = TEST_COUNT(regions);

	assert_int_equal(te_segment_regions(r->user, r->segment, regions, &n),
			 0);
	assert_true(n <= TEST_COUNT(regions));
	for (size_t i = 0; i < n; i++) {
		if (regions[i].addr == (uintptr_t)r->memory)
			return true;
	}
	return false;
}

static bool came(void *arg)
{
	return is_seen(arg);
}

static bool went(void *arg)
{
	return !is_seen(arg);
}

void rig_renew(struct rig *r)
{
	assert_int_equal(te_region_remove(r->owner, r->region), 0);
	assert_true(test_wait_until(went, r, RIG_WAIT_MS));
	r->region = rig_region(r->owner, r->memory, RIG_LEN, RIG_ANY, NULL);
	assert_true(test_wait_until(came, r, RIG_WAIT_MS));
}

void rig_close(struct rig *r)
{
	if (!rig_self)
		te_engine_destroy(r->user);
	te_engine_destroy(r->owner);
	rig_memory_free(NULL, r->memory);
	rig_local_free(r->local);
}

/* By words: byte by byte it took most of the time under ThreadSanitizer. */
static uint64_t word(size_t at, unsigned int seed)
{
	uint64_t x = (at + 8 + ((uint64_t)seed << 32)) * 0x9e3779b97f4a7c15;

	return x ^ x >> 29;
}

void rig_fill(uint8_t *bytes, size_t len, unsigned int seed)
{
	uint64_t x;
	size_t at;

	for (at = 0; len - at >= sizeof(x); at += sizeof(x)) {
		x = word(at, seed);
		memcpy(bytes + at, &x, sizeof(x));
	}
	x = word(at, seed);
	memcpy(bytes + at, &x, len - at);
}

void rig_check(const uint8_t *bytes, size_t len, unsigned int seed)
{
	uint64_t x, is;
	size_t at;

	for (at = 0; len - at >= sizeof(x); at += sizeof(x)) {
		memcpy(&is, bytes + at, sizeof(is));
		if (is != word(at, seed))
			fail_msg("wrong at %zu of %zu", at, len);
	}
	x = word(at, seed);
	if (memcmp(bytes + at, &x, len - at))
		fail_msg("wrong at %zu of %zu", at, len);
}

bool rig_is_all(const uint8_t *bytes, uint8_t value)
{
	return *bytes == value && !memcmp(bytes, bytes + 1, RIG_LEN - 1);
}

struct te_request rig_request(const struct rig *r, uint32_t op,
			      const void *remote, struct iovec *piece)
{
	return (struct te_request){
		.op = op,
		.segment = r->segment,
		.remote = (uintptr_t)remote,
		.pieces = piece,
		.n_pieces = 1,
	};
}

void rig_run_all(struct te_engine *engine, const struct te_request *requests,
		 size_t n, struct te_completion *completions)
{
	struct te_batch *batch;

	assert_int_equal(te_batch_create(engine, (uint32_t)n, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, n), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(te_batch_result(batch, i, &completions[i]), 0);
	te_batch_destroy(batch);
}

struct te_completion rig_run(struct te_engine *engine,
			     const struct te_request *request)
{
	struct te_completion done;

	rig_run_all(engine, request, 1, &done);
	if (!done.error || request->op == TE_READ)
		assert_true(done.flags & TE_REMOTE_QUIET);
	return done;
}

int rig_move(const struct rig *r, uint32_t op, const void *remote, void *local,
	     size_t len)
{
	struct iovec piece = {local, len};
	struct te_request request = rig_request(r, op, remote, &piece);
	struct te_completion done = rig_run(r->user, &request);

	if (!done.error)
		assert_true(done.bytes == len);
	return done.error;
}

/* ---- another process ---- */

void rig_peer_start(struct rig_peer *p, const char *name)
{
	const char *args[] = {"--peer", rig_variant, name ? name : "127.0.0.1",
			      NULL};
	const char *line;

	p->process = test_process_start("/proc/self/exe", args);
	line = test_process_line(p->process, "serves ", RIG_WAIT_MS);
	assert_non_null(line);
	assert_int_equal(
		sscanf(line, "serves %263s %" SCNu64, p->name, &p->addr), 2);
}

void rig_peer_kill(struct rig_peer *p)
{
	test_process_signal(p->process, SIGKILL);
	test_process_signal(p->process, SIGCONT);
	assert_int_equal(test_process_wait(p->process, RIG_WAIT_MS), -SIGKILL);
	test_process_end(p->process);
}

int rig_peer_main(const char *name)
{
	struct te_engine *engine = rig_engine(name);
	uint8_t *memory = rig_memory(engine, RIG_LEN);

	rig_region(engine, memory, RIG_LEN, RIG_ANY, NULL);
	printf("serves %s %" PRIu64 "\n", te_engine_name(engine),
	       (uint64_t)(uintptr_t)memory);
	fflush(stdout);
	for (;;)
		pause();
}
