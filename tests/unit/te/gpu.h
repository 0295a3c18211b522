/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - a driver of GPUs in memory, and the log, for tests of both
 *
 * A processor that touches a GPU's memory gets a signal, so what arrives has gone
 * past it.
 */
#ifndef TESTS_UNIT_TE_GPU_H
#define TESTS_UNIT_TE_GPU_H

#include <stdio.h>

#include "base/fault.h"
#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/unit/te/rig.h"

static struct fake_cuda cuda;
static char lines[8192]; /* that were logged since gpu_start() */

static inline void gpu_on_line(int level, const char *line, void *arg)
{
	size_t len = strlen(lines);

	(void)level;
	(void)arg;
	snprintf(lines + len, sizeof(lines) - len, "%s\n", line);
}

/* Loads and starts the driver, and keeps what is logged. */
static inline void gpu_start(void)
{
	fake_cuda_open(&cuda);
	assert_int_equal(cuda.init(0), 0);
	lines[0] = '\0';
	te_log_set(gpu_on_line, NULL);
}

/* Asserts that nothing of a GPU is left. */
static inline void gpu_stop(void)
{
	te_log_set(NULL, NULL);
	cuda.reset();
}

/* The two around each test. */
static inline int gpu_set_up(void **state)
{
	(void)state;
	gpu_start();
	return 0;
}

static inline int gpu_tear_down(void **state)
{
	(void)state;
	assert_int_equal(cuda.n_contexts(), 0);
	gpu_stop();
	return 0;
}

/* @staging: bytes for each GPU, as the setting takes them. */
static inline struct te_engine *gpu_engine(const char *backends,
					   const char *staging)
{
	const char *const settings[] = {
		"backends",     backends,  "gpu_staging", staging,
		"cuda_library", cuda.file, NULL};

	return rig_engine(settings);
}

#define GPU_LEN ((size_t)3 << 20)

/* Moves that cover what differs: all, little, and ends inside of lines. */
static const size_t gpu_places[][3] = {/* there, here, bytes */
				       {0, 0, GPU_LEN},
				       {0, 0, 1},
				       {4097, 1, 4095},
				       {1, 8, (1 << 20) + 13},
				       {65536, 0, 65536}};

static inline void *as_pointer(CUdeviceptr at)
{
	return (void *)(uintptr_t)at;
}

/* Memory of a GPU that requests of an engine name: its own, or a peer's. */
struct gpu_target {
	struct te_engine *engine;
	te_segment_id segment;
	CUdeviceptr at; /* at[GPU_LEN] */
	uint8_t *bytes; /* behind it */
};

/* Moves bytes of host[GPU_LEN] there and back, as gpu_places[@place] says. */
static inline void gpu_go_and_return(const struct gpu_target *t, uint8_t *host,
				     size_t place)
{
	size_t there = gpu_places[place][0], here = gpu_places[place][1],
	       length = gpu_places[place][2];
	void *remote = as_pointer(t->at + there);

	rig_fill(host, GPU_LEN);
	assert_int_equal(rig_move(t->engine, t->segment, TE_WRITE, remote,
				  host + here, length),
			 0);
	assert_memory_equal(t->bytes + there, host + here, length);
	rig_fill(t->bytes, GPU_LEN);
	assert_int_equal(rig_move(t->engine, t->segment, TE_READ, remote,
				  host + here, length),
			 0);
	assert_memory_equal(t->bytes + there, host + here, length);
}

/* Moves memory of another GPU, @ours, there and back, with checksums. */
static inline void gpu_meet_gpu(const struct gpu_target *t, CUdeviceptr ours)
{
	const size_t length = GPU_LEN - 3;
	struct iovec piece = {as_pointer(ours + 3), length};
	struct te_request request =
		rig_request(t->segment, TE_WRITE, as_pointer(t->at), &piece);
	uint8_t *bytes = cuda.bytes(ours);
	struct te_completion out, in;

	rig_fill(bytes, GPU_LEN);
	request.flags |= TE_CRC;
	request.crc_len = length;
	out = rig_run(t->engine, &request);
	assert_int_equal(out.error, 0);
	assert_memory_equal(t->bytes, bytes + 3, length);
	memset(bytes, 0, GPU_LEN);
	request.op = TE_READ;
	in = rig_run(t->engine, &request);
	assert_int_equal(in.error, 0);
	assert_int_equal(in.crc, out.crc);
	assert_memory_equal(t->bytes, bytes + 3, length);
}

/* Runs a request while the @nth allocation fails. Returns the first error. */
static inline int gpu_run_without(struct te_engine *engine,
				  const struct te_request *request,
				  unsigned int nth)
{
	struct te_completion end = {.error = 0};
	struct te_batch *batch;
	int rc;

	assert_int_equal(te_batch_create(engine, 1, &batch), 0);
	tei_fault_arm(TEI_FAULT_ALLOC, nth);
	rc = te_batch_submit(batch, request, 1);
	if (!rc) {
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		assert_int_equal(te_batch_poll(batch, &end, 1), 1);
	}
	tei_fault_disarm_all();
	te_batch_destroy(batch);
	return rc ? rc : end.error;
}

#endif
