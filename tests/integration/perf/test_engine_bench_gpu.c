/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_engine_bench_gpu.c - transfer_engine_bench with memory of GPUs
 *
 * The driver is one in memory: a processor that touches a GPU's gets a signal.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/process.h"
#include "tests/unit/te/rig.h"

#define BENCH    "transfer_engine_bench"
#define LEN      ((size_t)4 << 20)  /* of each buffer */
#define SHARE    ((size_t)4 * 4096) /* of each thread: a batch of blocks */
#define LIMIT_MS 60000
#define GPUS     FAKE_CUDA_GPUS

static struct fake_cuda cuda;
static uint8_t bytes[LEN], pattern[LEN];

static int set_up(void **state)
{
	(void)state;
	fake_cuda_open(&cuda);
	assert_int_equal(setenv("TE_CUDA_LIBRARY", cuda.file, 1), 0);
	rig_fill(pattern, LEN);
	return 0;
}

/* A target, and what an engine of ours sees of it. */
struct target {
	struct test_process *process;
	char flag[128]; /* for initiators */
	struct te_engine *engine;
	te_segment_id segment;
	struct te_segment_region regions[GPUS + 1];
	size_t n;
};

static void start_target(struct target *t, const char *gpu)
{
	const char *const args[] = {
		"--mode=target",   "--use_vram=true",  gpu,
		"--protocol=tcp",  "--threads=8",      "--batch_size=4",
		"--block_size=4k", "--buffer_size=4m", NULL};
	const char *name, *line;

	t->process = test_process_start(BENCH, args);
	line = test_process_line(t->process, "listening on ", LIMIT_MS);
	assert_non_null(line);
	name = strstr(line, "listening on ") + strlen("listening on ");
	(void)snprintf(t->flag, sizeof(t->flag), "--segment_id=%.*s",
		       (int)strcspn(name, "\n"), name);
	t->engine = rig_engine(NULL);
	assert_int_equal(te_segment_open(t->engine, strchr(t->flag, '=') + 1,
					 RIG_WAIT_MS, &t->segment),
			 0);
	t->n = GPUS + 1;
	assert_int_equal(
		te_segment_regions(t->engine, t->segment, t->regions, &t->n),
		0);
}

static void end_target(struct target *t)
{
	te_engine_destroy(t->engine);
	test_process_signal(t->process, SIGTERM);
	assert_int_equal(test_process_wait(t->process, LIMIT_MS), 0);
	test_process_end(t->process);
}

static void copy(const struct target *t, size_t i, uint32_t op, uint8_t *ours)
{
	void *theirs = (void *)(uintptr_t)t->regions[i].addr;

	assert_int_equal(rig_move(t->engine, t->segment, op, theirs, ours, LEN),
			 0);
}

/* All bytes of a buffer are of the pattern, but for those of @from .. @to. */
static void assert_written(const struct target *t, size_t i, size_t from,
			   size_t to)
{
	copy(t, i, TE_READ, bytes);
	for (size_t at = 0; at < LEN; at++)
		assert_int_equal(bytes[at],
				 at >= from && at < to ? 0x55 : pattern[at]);
}

static void assert_touched(const struct target *t)
{
	for (size_t i = 0; i < t->n; i++) {
		assert_true(t->regions[i].length >= LEN);
		assert_written(t, i, 0, LEN);
		copy(t, i, TE_WRITE, pattern);
	}
}

static void initiate(const struct target *t, const char *operation,
		     const char *gpu, const char *threads, const char *carrier)
{
	const char *const args[] = {t->flag,
				    operation,
				    gpu,
				    threads,
				    "--use_vram=true",
				    "--protocol=tcp",
				    "--batch_size=4",
				    "--block_size=4k",
				    "--buffer_size=4m",
				    "--duration=50ms",
				    NULL};
	char *text = tool_output(BENCH, args, 0);

	assert_non_null(strstr(text, carrier));
	assert_non_null(strstr(text, "Test completed: "));
	free(text);
}

/* Each has a buffer. */
static void assert_each_gpu(const struct target *t)
{
	static const char *const names[GPUS] = {"cuda:0", "cuda:1", "cuda:2",
						"cuda:3"};

	assert_int_equal(t->n, GPUS);
	for (size_t gpu = 0; gpu < GPUS; gpu++) {
		size_t i = 0;

		while (i < t->n && strcmp(t->regions[i].location, names[gpu]))
			i++;
		assert_true(i < t->n);
	}
}

/* By copies of GPUs, and by tcp. */
static void threads_take_gpus_by_turns(void **state)
{
	(void)state;
	for (int by_tcp = 0; by_tcp < 2; by_tcp++) {
		const char *carrier =
			by_tcp ? BENCH ": by tcp/" : BENCH ": by shm/";
		struct target t;

		if (by_tcp)
			assert_int_equal(setenv("MC_FORCE_TCP", "1", 1), 0);
		start_target(&t, "--gpu_id=-1");
		assert_each_gpu(&t);
		assert_touched(&t);
		initiate(&t, "--operation=read", "--gpu_id=-1", "--threads=5",
			 carrier);
		for (size_t i = 0; i < t.n; i++)
			assert_written(&t, i, 0, 0);
		initiate(&t, "--operation=write", "--gpu_id=2", "--threads=3",
			 carrier);
		for (size_t i = 0; i < 3; i++)
			assert_written(&t, i, i * SHARE, (i + 1) * SHARE);
		assert_written(&t, 3, 0, 0);
		end_target(&t);
		assert_int_equal(unsetenv("MC_FORCE_TCP"), 0);
	}
}

static void one_gpu_has_all(void **state)
{
	struct target t;

	(void)state;
	start_target(&t, "--gpu_id=1");
	assert_int_equal(t.n, 1);
	assert_string_equal(t.regions[0].location, "cuda:1");
	assert_touched(&t);
	initiate(&t, "--operation=write", "--gpu_id=-1", "--threads=6",
		 BENCH ": by shm/");
	assert_written(&t, 0, 0, 6 * SHARE);
	end_target(&t);
}

static void refuses(const char *gpu, const char *words)
{
	const char *const args[] = {"--mode=target", "--use_vram=true", gpu,
				    NULL};
	char *text = tool_output(BENCH, args, 2);

	assert_non_null(strstr(text, words));
	free(text);
}

static void what_cannot_be_is_refused(void **state)
{
	(void)state;
	refuses("--gpu_id=4", "--gpu_id 4: this process sees no such GPU");
	refuses("--gpu_id=-2", "--gpu_id -2: should be a GPU's number");
	refuses("--gpu_id=all", "--gpu_id all: should be a GPU's number");
	assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
	refuses("--gpu_id=-1", "--use_vram true: there is no GPU");
	assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
	assert_int_equal(setenv("TE_CUDA_LIBRARY", "/no/driver.so", 1), 0);
	refuses("--gpu_id=0", "--use_vram true: /no/driver.so: ");
	assert_int_equal(setenv("TE_CUDA_LIBRARY", cuda.file, 1), 0);
}

/* The third, when two buffers are there already. */
static void a_gpu_without_room_is_an_error(void **state)
{
	const char *const args[] = {"--mode=target",    "--use_vram=true",
				    "--gpu_id=-1",      "--threads=1",
				    "--buffer_size=8m", NULL};
	char *text;

	(void)state;
	assert_int_equal(setenv("FAKE_CUDA_FULL", "2", 1), 0);
	text = tool_output(BENCH, args, 1);
	assert_non_null(strstr(text, "no 8388608 bytes of cuda:2: "));
	assert_non_null(strstr(text, "8388608 bytes of memory of a GPU: "));
	free(text);
	assert_int_equal(unsetenv("FAKE_CUDA_FULL"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_take_gpus_by_turns),
		cmocka_unit_test(one_gpu_has_all),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(a_gpu_without_room_is_an_error),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
