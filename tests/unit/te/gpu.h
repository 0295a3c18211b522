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

#endif
