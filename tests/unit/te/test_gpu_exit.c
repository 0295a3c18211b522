/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gpu_exit.c - processes that exit, or fork, in the midst of copies of a GPU
 *
 * Each is a child of a process that has neither a driver nor a thread.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/te/gpu.h"

#define LEN       GPU_LEN
#define LIMIT_S   60
#define NO_STREAM UINT64_MAX

static uint8_t host[LEN];

/* What the child has when it exits. */
static struct te_engine *owner, *user;
static struct te_batch *batch;
static te_segment_id segment;
static CUdeviceptr at; /* of cuda:1; at[LEN] */
static CUstream stream;

static void start(void)
{
	CUcontext context;

	gpu_start();
	at = fake_cuda_alloc(&cuda, 1, LEN);
	assert_int_equal(cuda.primary_ctx_retain(&context, 1), 0);
	assert_int_equal(cuda.ctx_push(context), 0);
	assert_int_equal(cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING),
			 0);
	owner = gpu_engine("tcp", "1m");
	user = gpu_engine("tcp", "1m");
	rig_region(owner, host, LEN, RIG_ANY);
	rig_region(user, as_pointer(at), LEN, RIG_ANY);
	segment = rig_segment(user, owner);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
}

static void submit(uint64_t by)
{
	struct iovec piece = {as_pointer(at), LEN};
	struct te_request request =
		rig_request(segment, TE_WRITE, host, &piece);

	if (by == NO_STREAM)
		assert_int_equal(te_batch_submit(batch, &request, 1), 0);
	else
		assert_int_equal(te_batch_submit_on_stream(batch, &request, 1,
							   "cuda", by, NULL, 0),
				 0);
}

static void destroy_all(void)
{
	te_engine_destroy(user);
	te_engine_destroy(owner);
}

static bool has_come_to_exit;

/* The last handler: what a driver that has ended leaves is no leak of ours. */
static void leave_the_rest(void)
{
	_exit(has_come_to_exit ? 0 : 1);
}

/* Asserts that the child exits with 0, and soon. */
static void expect_exit(void (*child)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		alarm(LIMIT_S);
		assert_int_equal(atexit(leave_the_rest), 0);
		child();
		has_come_to_exit = true;
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- exit ---- */

static void leave_copies_under_way(void)
{
	start();
	cuda.hold(true);
	submit(NO_STREAM);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
}

static void leave_a_stream_that_waits(void)
{
	start();
	cuda.hold(true);
	submit((uintptr_t)stream);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
}

/* Handlers of atexit() are called last first. */
static void end_copies_after_the_driver(void)
{
	assert_int_equal(atexit(destroy_all), 0);
	leave_copies_under_way();
}

static void end_a_stream_after_the_driver(void)
{
	assert_int_equal(atexit(destroy_all), 0);
	leave_a_stream_that_waits();
}

static void end_before_the_driver(void)
{
	start();
	cuda.delay(2000);
	submit((uintptr_t)stream);
	assert_int_equal(atexit(destroy_all), 0);
}

static void use_it_after_the_driver(void)
{
	te_region_id id;
	struct te_region region = {.addr = as_pointer(at), .length = LEN};
	struct te_config *config;
	char why[160] = "";
	int rc;

	rc = rig_move(user, segment, TE_WRITE, host, as_pointer(at), LEN);
	if (rc != -EIO)
		_exit(2);
	region.access = TE_ACCESS_LOCAL;
	lines[0] = '\0';
	rc = te_region_add(user, &region, &id);
	if (!rc || !strstr(lines, "the driver has ended"))
		_exit(3);
	rc = te_config_create(&config);
	if (!rc)
		rc = te_config_set(config, "cuda_library", cuda.file, NULL, 0);
	if (rc || te_gpu_probe(config, "cuda", why, sizeof(why)) != -EIO ||
	    !strstr(why, "the driver has ended"))
		_exit(4);
	te_config_destroy(config);
	destroy_all();
}

static void go_on_after_the_driver(void)
{
	assert_int_equal(atexit(use_it_after_the_driver), 0);
	start();
}

static void an_exit_waits_for_no_copy(void **state)
{
	(void)state;
	expect_exit(leave_copies_under_way);
	expect_exit(leave_a_stream_that_waits);
}

static void engines_may_end_before_the_driver_and_after(void **state)
{
	(void)state;
	expect_exit(end_before_the_driver);
	expect_exit(end_copies_after_the_driver);
	expect_exit(end_a_stream_after_the_driver);
}

static void a_driver_that_has_ended_is_an_error(void **state)
{
	(void)state;
	expect_exit(go_on_after_the_driver);
}

/* ---- fork ---- */

/* The child of the fork: all is refused, and no call gets to the driver. */
static void be_refused(void)
{
	struct iovec piece = {as_pointer(at), LEN};
	struct te_request request =
		rig_request(segment, TE_WRITE, host, &piece);
	struct te_region region = {.addr = as_pointer(at), .length = LEN};
	te_region_id id;

	alarm(LIMIT_S);
	if (te_batch_submit(batch, &request, 1) != -ESTALE ||
	    te_region_add(user, &region, &id) != -ESTALE)
		_exit(2);
	destroy_all();
	_exit(0);
}

static void fork_in_the_middle(void)
{
	uint8_t *bytes;
	int status;
	pid_t pid;

	start();
	bytes = cuda.bytes(at);
	rig_fill(bytes, LEN);
	cuda.hold(true);
	submit(NO_STREAM);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	pid = fork();
	if (!pid)
		be_refused();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	cuda.hold(false);
	assert_int_equal(rig_end(batch).error, 0);
	assert_memory_equal(host, bytes, LEN);
	destroy_all();
}

static void a_fork_disturbs_no_copy(void **state)
{
	(void)state;
	expect_exit(fork_in_the_middle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exit_waits_for_no_copy),
		cmocka_unit_test(engines_may_end_before_the_driver_and_after),
		cmocka_unit_test(a_driver_that_has_ended_is_an_error),
		cmocka_unit_test(a_fork_disturbs_no_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
