/* SPDX-License-Identifier: Apache-2.0 */
/* test_stream.c - requests in the order of a GPU's stream */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "te/core/engine.h"
#include "te/transfer/request.h"
#include "te/worker/worker.h"
#include "tests/unit/te/gpu.h"

#define LEN     GPU_LEN
#define GPU     1 /* cuda:1 */
#define STREAMS 4
#define EACH    40
#define PIECE   ((size_t)16 << 10)
#define MANY    300 /* more than a page has words */

static uint8_t host[LEN];            /* the owner's */
static uint8_t one[LEN], other[LEN]; /* sources and targets of copies */

/* An owner of the host's memory, and a user of a GPU's with a stream. */
struct rig {
	struct te_engine *owner, *user;
	te_segment_id segment;
	CUcontext context;
	CUdeviceptr at; /* at[LEN] */
	CUstream stream;
	_Atomic uint64_t *word; /* that a stream waits for; pinned */
};

static void enter(const struct rig *rig)
{
	assert_int_equal(cuda.ctx_push(rig->context), 0);
}

static void leave(void)
{
	CUcontext popped;

	assert_int_equal(cuda.ctx_pop(&popped), 0);
}

static CUstream new_stream(const struct rig *rig)
{
	CUstream stream;

	enter(rig);
	assert_int_equal(cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING),
			 0);
	leave();
	return stream;
}

static struct rig rig_of(struct te_engine *owner, struct te_engine *user)
{
	struct rig rig = {.owner = owner, .user = user};
	void *word;

	rig.at = fake_cuda_alloc(&cuda, GPU, LEN);
	assert_int_equal(cuda.primary_ctx_retain(&rig.context, GPU), 0);
	assert_int_equal(cuda.mem_host_alloc(&word, 4096, 1), 0);
	rig.word = word;
	atomic_store(rig.word, 0);
	rig.stream = new_stream(&rig);
	rig_region(rig.owner, host, LEN, RIG_ANY);
	rig_region(rig.user, as_pointer(rig.at), LEN, TE_ACCESS_LOCAL);
	rig.segment = rig_segment(rig.user, rig.owner);
	return rig;
}

static struct rig rig_up(const char *backends)
{
	return rig_of(gpu_engine(backends, "1m"), gpu_engine(backends, "1m"));
}

static void synchronize(const struct rig *rig, CUstream stream)
{
	enter(rig);
	assert_int_equal(cuda.stream_synchronize(stream), 0);
	leave();
}

static void rig_down(struct rig *rig)
{
	te_engine_destroy(rig->user);
	te_engine_destroy(rig->owner);
	synchronize(rig, rig->stream);
	assert_int_equal(cuda.stream_destroy(rig->stream), 0);
	assert_int_equal(cuda.mem_free_host(rig->word), 0);
	assert_int_equal(cuda.primary_ctx_release(GPU), 0);
	fake_cuda_free(&cuda, GPU, rig->at);
}

static void copy_in(const struct rig *rig, CUstream stream, size_t to,
		    const void *from, size_t len)
{
	enter(rig);
	assert_int_equal(cuda.memcpy_in(rig->at + to, from, len, stream), 0);
	leave();
}

static void copy_out(const struct rig *rig, CUstream stream, void *to,
		     size_t from, size_t len)
{
	enter(rig);
	assert_int_equal(cuda.memcpy_out(to, rig->at + from, len, stream), 0);
	leave();
}

/* Has the stream wait until `word` is 1. */
static void stop_stream(const struct rig *rig)
{
	enter(rig);
	assert_int_equal(
		cuda.stream_wait_value(rig->stream, (uintptr_t)rig->word, 1, 0),
		0);
	leave();
}

static void go_on(const struct rig *rig)
{
	atomic_store(rig->word, 1);
}

static uint64_t number_of(CUstream stream)
{
	return (uintptr_t)stream;
}

/* Of one request, @piece of the local memory; @why[160]. */
static int try_submit(struct te_batch *batch, te_segment_id segment,
		      uint32_t op, void *remote, struct iovec piece,
		      uint64_t stream, uint32_t timeout_ms, char *why)
{
	struct te_request request = rig_request(segment, op, remote, &piece);

	request.timeout_ms = timeout_ms;
	return te_batch_submit_on_stream(batch, &request, 1, "cuda", stream,
					 why, 160);
}

static struct iovec piece_of(void *local, size_t len)
{
	return (struct iovec){local, len};
}

static struct te_batch *new_batch(const struct rig *rig)
{
	struct te_batch *batch;

	assert_int_equal(te_batch_create(rig->user, 1, &batch), 0);
	return batch;
}

static struct te_batch *submit(const struct rig *rig, uint32_t op, void *remote,
			       void *local, size_t len, CUstream stream)
{
	struct te_batch *batch = new_batch(rig);
	char why[160] = "";

	if (try_submit(batch, rig->segment, op, remote, piece_of(local, len),
		       number_of(stream), 0, why))
		fail_msg("%s", why);
	return batch;
}

static void *local(const struct rig *rig, size_t offset)
{
	return as_pointer(rig->at + offset);
}

/* ---- order ---- */

static void write_in_order(const char *backends)
{
	struct rig rig = rig_up(backends);
	struct te_batch *batch;

	rig_fill(one, LEN);
	memset(other, 0xee, LEN);
	memset(host, 0, LEN);
	cuda.delay(3000);
	copy_in(&rig, rig.stream, 0, one, LEN);
	batch = submit(&rig, TE_WRITE, host, local(&rig, 0), LEN, rig.stream);
	copy_in(&rig, rig.stream, 0, other, LEN);
	synchronize(&rig, rig.stream);
	assert_memory_equal(cuda.bytes(rig.at), other, LEN);
	assert_int_equal(rig_end(batch).error, 0);
	assert_memory_equal(host, one, LEN);
	rig_down(&rig);
}

static void a_write_sees_what_was_before(void **state)
{
	(void)state;
	write_in_order("tcp");
	write_in_order("shm,tcp");
}

static void what_follows_sees_a_read(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch;

	(void)state;
	rig_fill(host, LEN);
	memset(one, 0, LEN);
	memset(other, 0xee, LEN);
	cuda.delay(3000);
	copy_in(&rig, rig.stream, 0, other, LEN);
	batch = submit(&rig, TE_READ, host, local(&rig, 0), LEN, rig.stream);
	copy_out(&rig, rig.stream, one, 0, LEN);
	synchronize(&rig, rig.stream);
	assert_memory_equal(one, host, LEN);
	assert_int_equal(rig_end(batch).error, 0);
	rig_down(&rig);
}

/* Memory of the host in the order of a stream, too. */
static void the_hosts_memory_is_in_order(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch;

	(void)state;
	rig_fill(host, LEN);
	memset(one, 0, LEN);
	stop_stream(&rig);
	batch = submit(&rig, TE_READ, host, one, LEN, rig.stream);
	copy_in(&rig, rig.stream, 0, one, LEN);
	assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
	assert_int_equal(one[0], 0);
	go_on(&rig);
	synchronize(&rig, rig.stream);
	assert_memory_equal(cuda.bytes(rig.at), host, LEN);
	assert_int_equal(rig_end(batch).error, 0);
	rig_down(&rig);
}

/* Each stream uses its piece of the GPU's memory again and again. */
static void many_on_several_streams(void **state)
{
	struct te_batch *batches[STREAMS][EACH];
	CUstream streams[STREAMS];
	struct rig rig = rig_up("tcp");

	(void)state;
	rig_fill(one, LEN);
	memset(host, 0, LEN);
	for (int s = 0; s < STREAMS; s++)
		streams[s] = new_stream(&rig);
	for (size_t i = 0; i < EACH; i++) {
		for (size_t s = 0; s < STREAMS; s++) {
			size_t to = (s * EACH + i) * PIECE;

			copy_in(&rig, streams[s], s * PIECE, one + to, PIECE);
			batches[s][i] = submit(&rig, TE_WRITE, host + to,
					       local(&rig, s * PIECE), PIECE,
					       streams[s]);
		}
	}
	for (int s = 0; s < STREAMS; s++) {
		for (int i = 0; i < EACH; i++)
			assert_int_equal(rig_end(batches[s][i]).error, 0);
		synchronize(&rig, streams[s]);
		assert_int_equal(cuda.stream_destroy(streams[s]), 0);
	}
	assert_memory_equal(host, one, STREAMS * EACH * PIECE);
	rig_down(&rig);
}

static void many_wait_on_one_stream(void **state)
{
	struct te_batch *batches[MANY];
	struct rig rig = rig_up("tcp");

	(void)state;
	memset(cuda.bytes(rig.at), 7, MANY);
	memset(host, 0, LEN);
	stop_stream(&rig);
	for (size_t i = 0; i < MANY; i++)
		batches[i] = submit(&rig, TE_WRITE, host + i, local(&rig, i), 1,
				    rig.stream);
	assert_int_equal(te_batch_wait(batches[0], 0), -ETIMEDOUT);
	go_on(&rig);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(rig_end(batches[i]).error, 0);
	assert_int_equal(host[MANY - 1], 7);
	rig_down(&rig);
}

/* ---- failures: the stream goes on ---- */

static void a_failure_lets_the_stream_go_on(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch;

	(void)state;
	batch = submit(&rig, TE_WRITE, host + LEN - 1, local(&rig, 0), 2,
		       rig.stream);
	synchronize(&rig, rig.stream);
	assert_int_equal(rig_end(batch).error, -EFAULT);
	assert_non_null(
		strstr(lines, "a stream goes on though request 0 of 1"));
	rig_down(&rig);
}

/* Its deadline counts from when the stream gets there. */
static void a_peer_that_is_gone_costs_the_deadline(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch = new_batch(&rig);
	char why[160];

	(void)state;
	stop_stream(&rig);
	assert_int_equal(try_submit(batch, rig.segment, TE_WRITE, host,
				    piece_of(local(&rig, 0), 8),
				    number_of(rig.stream), 200, why),
			 0);
	te_engine_destroy(rig.owner);
	assert_int_equal(te_batch_wait(batch, 400), -ETIMEDOUT);
	go_on(&rig);
	synchronize(&rig, rig.stream);
	assert_int_equal(rig_end(batch).error, -ETIMEDOUT);
	rig.owner = NULL;
	rig_down(&rig);
}

/* Copies that stand still hold up the stream for some seconds only. */
static void a_device_that_stands_still_is_left_behind(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch = new_batch(&rig);
	char why[160];

	(void)state;
	cuda.hold(true);
	assert_int_equal(try_submit(batch, rig.segment, TE_WRITE, host,
				    piece_of(local(&rig, 0), LEN),
				    number_of(rig.stream), 100, why),
			 0);
	synchronize(&rig, rig.stream);
	assert_int_equal(te_batch_wait(batch, 0), -ETIMEDOUT);
	assert_non_null(strstr(lines, "a device has not confirmed"));
	cuda.hold(false);
	assert_int_equal(rig_end(batch).error, -ETIMEDOUT);
	rig_down(&rig);
}

static void cancelled_before_the_stream_gets_there(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch;
	struct te_completion completion;
	char why[160];

	(void)state;
	memset(host, 1, 8);
	memset(cuda.bytes(rig.at), 2, 8);
	stop_stream(&rig);
	batch = submit(&rig, TE_WRITE, host, local(&rig, 0), 8, rig.stream);
	assert_int_equal(te_batch_cancel(batch), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &completion, 1), 1);
	assert_int_equal(completion.error, -ECANCELED);
	assert_int_equal(host[0], 1);
	/* The same batch again, behind the gate that was cancelled. */
	assert_int_equal(te_batch_reset(batch), 0);
	assert_int_equal(try_submit(batch, rig.segment, TE_WRITE, host,
				    piece_of(local(&rig, 0), 8),
				    number_of(rig.stream), 0, why),
			 0);
	go_on(&rig);
	synchronize(&rig, rig.stream);
	assert_int_equal(rig_end(batch).error, 0);
	assert_int_equal(host[0], 2);
	rig_down(&rig);
}

/* ---- an engine that goes ---- */

/* What a stream has not passed yet is freed by who comes next. */
static void destroyed_before_the_stream_gets_there(void **state)
{
	struct rig rig = rig_up("tcp");

	(void)state;
	stop_stream(&rig);
	(void)submit(&rig, TE_WRITE, host, local(&rig, 0), 8, rig.stream);
	te_engine_destroy(rig.user);
	go_on(&rig);
	synchronize(&rig, rig.stream);
	rig.user = gpu_engine("tcp", "1m");
	rig.segment = rig_segment(rig.user, rig.owner);
	assert_int_equal(
		rig_end(submit(&rig, TE_WRITE, host, one, 8, rig.stream)).error,
		0);
	rig_down(&rig);
}

static void destroyed_while_the_stream_waits(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch = new_batch(&rig);
	te_segment_id nobody;
	char why[160];

	(void)state;
	assert_int_equal(te_segment_expect(rig.user, "127.0.0.1:1", &nobody),
			 0);
	assert_int_equal(try_submit(batch, nobody, TE_READ, host,
				    piece_of(local(&rig, 0), 8),
				    number_of(rig.stream), RIG_WAIT_MS, why),
			 0);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	te_engine_destroy(rig.user);
	rig.user = NULL;
	synchronize(&rig, rig.stream);
	rig_down(&rig);
}

static void destroyed_while_bytes_are_copied(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch;
	uint64_t until = tei_now_ns() + 60000 * TEI_NS_PER_MS;

	(void)state;
	cuda.delay(20000);
	batch = submit(&rig, TE_READ, host, local(&rig, 0), LEN, rig.stream);
	while (!cuda.n_copies() && tei_now_ns() < until)
		(void)te_batch_wait(batch, 1);
	te_engine_destroy(rig.user);
	rig.user = NULL;
	synchronize(&rig, rig.stream);
	rig_down(&rig);
}

static void a_fork_child_is_refused(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch = new_batch(&rig), *before;
	char why[160];
	int status;
	pid_t pid;

	(void)state;
	stop_stream(&rig);
	before = submit(&rig, TE_WRITE, host, local(&rig, 0), 8, rig.stream);
	pid = fork();
	if (!pid) {
		bool refused =
			try_submit(batch, rig.segment, TE_WRITE, host,
				   piece_of(local(&rig, 0), 8),
				   number_of(rig.stream), 0, why) == -ESTALE;

		te_engine_destroy(rig.user);
		_exit(refused ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	go_on(&rig);
	assert_int_equal(rig_end(before).error, 0);
	rig_down(&rig);
}

/* ---- which stream, and which not ---- */

static void default_streams_are_the_memorys(void **state)
{
	struct rig rig = rig_up("tcp");
	char why[160];
	struct te_batch *batch;

	(void)state;
	rig_fill(one, LEN);
	for (uint64_t number = 0; number <= 2; number++) {
		memset(host, 0, LEN);
		copy_in(&rig, (CUstream)(uintptr_t)number, 0, one, LEN);
		batch = submit(&rig, TE_WRITE, host, local(&rig, 0), LEN,
			       (CUstream)(uintptr_t)number);
		assert_int_equal(rig_end(batch).error, 0);
		assert_memory_equal(host, one, LEN);
	}
	/* The host's memory is of no GPU: the thread's decides. */
	batch = new_batch(&rig);
	assert_int_equal(try_submit(batch, rig.segment, TE_WRITE, host,
				    piece_of(one, 8), 0, 0, why),
			 -EINVAL);
	assert_non_null(strstr(why, "this thread uses none"));
	enter(&rig);
	assert_int_equal(try_submit(batch, rig.segment, TE_WRITE, host,
				    piece_of(one, 8), 0, 0, why),
			 0);
	leave();
	assert_int_equal(rig_end(batch).error, 0);
	rig_down(&rig);
}

static void refuse(const struct rig *rig, struct te_batch *batch, int rc,
		   const char *word)
{
	char why[160] = "";

	assert_int_equal(try_submit(batch, rig->segment, TE_WRITE, host,
				    piece_of(local(rig, 0), 8),
				    number_of(rig->stream), 0, why),
			 rc);
	if (!strstr(why, word))
		fail_msg("\"%s\" does not say \"%s\"", why, word);
}

/* Nothing is moved, and the stream and the batch can be used as before. */
static void refused_with_words(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch = new_batch(&rig);

	(void)state;
	memset(host, 1, 8);
	memset(cuda.bytes(rig.at), 2, 8);
	cuda.capture(rig.stream, true);
	refuse(&rig, batch, -EBUSY, "recorded into a graph");
	cuda.capture(rig.stream, false);
	cuda.fail_call("CAN_USE_64_BIT_STREAM_MEM_OPS", 1);
	refuse(&rig, batch, -EOPNOTSUPP, "cuda:1 cannot");
	cuda.fail_call("CAN_USE_64_BIT_STREAM_MEM_OPS", 0);
	cuda.fail_call("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
	refuse(&rig, batch, -ENOMEM, "out of memory");
	cuda.fail_call("cuMemHostRegister", 0);
	cuda.fail_call("cuLaunchHostFunc", CUDA_ERROR_ILLEGAL_ADDRESS);
	refuse(&rig, batch, -EIO, "cuLaunchHostFunc: CUDA_ERROR_ILLEGAL");
	cuda.fail_call("cuLaunchHostFunc", 0);
	cuda.fail_call("cuStreamWaitValue64", CUDA_ERROR_ILLEGAL_ADDRESS);
	refuse(&rig, batch, -EIO, "cuStreamWaitValue64: CUDA_ERROR_ILLEGAL");
	cuda.fail_call("cuStreamWaitValue64", 0);
	cuda.fail_call("cuStreamGetCtx", CUDA_ERROR_INVALID_HANDLE);
	refuse(&rig, batch, -EINVAL, "stream: cuStreamGetCtx");
	cuda.fail_call("cuStreamGetCtx", 0);
	synchronize(&rig, rig.stream);
	assert_int_equal(host[0], 1);
	refuse(&rig, batch, 0, "");
	assert_int_equal(rig_end(batch).error, 0);
	assert_int_equal(host[0], 2);
	rig_down(&rig);
}

/* Only the last of its calls fails: the stream waits for the word already. */
static void a_gate_that_is_given_up_leaves_no_pinned_page(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch = new_batch(&rig);

	(void)state;
	cuda.fail_call("cuStreamWriteValue64", CUDA_ERROR_ILLEGAL_ADDRESS);
	stop_stream(&rig);
	for (int i = 0; i < MANY; i++)
		refuse(&rig, batch, -EIO, "cuStreamWriteValue64: CUDA_ERROR_");
	cuda.fail_call("cuStreamWriteValue64", 0);
	assert_int_equal(cuda.pinned(), 2 * 4096);
	go_on(&rig);
	synchronize(&rig, rig.stream);
	/* Their words are used again, the pages freed with the engine. */
	for (int i = 0; i < MANY; i++)
		assert_int_equal(rig_end(submit(&rig, TE_WRITE, host,
						local(&rig, 0), 8, rig.stream))
					 .error,
				 0);
	assert_int_equal(cuda.pinned(), 2 * 4096);
	te_engine_destroy(rig.user);
	rig.user = NULL;
	assert_int_equal(cuda.pinned(), 0);
	rig_down(&rig);
}

/* Each allocation in turn: refused, or ended with an error, never stuck. */
static void submit_without_memory(const struct rig *rig)
{
	unsigned int refused = 0;
	bool struck = true;
	char why[160];

	for (unsigned int nth = 1; struck; nth++) {
		struct te_batch *batch = new_batch(rig);
		int rc;

		tei_fault_arm(TEI_FAULT_ALLOC, nth);
		rc = try_submit(batch, rig->segment, TE_WRITE, host,
				piece_of(local(rig, 0), 8),
				number_of(rig->stream), 5000, why);
		synchronize(rig, rig->stream);
		struck = tei_fault_struck(TEI_FAULT_ALLOC);
		tei_fault_disarm_all();
		assert_true(!rc || rc == -ENOMEM);
		refused += rc == -ENOMEM;
		te_batch_destroy(batch);
	}
	assert_in_range(refused, 3, 20);
}

static void what_cannot_be_allocated_is_an_error(void **state)
{
	struct rig rig = rig_up("tcp");

	(void)state;
	submit_without_memory(&rig);
	rig_down(&rig);
}

/* By a thread that has the second worker. True: this one has. */
static void *submit_to_second_without_memory(void *arg)
{
	const struct rig *rig = arg;
	struct te_batch *batch = new_batch(rig);
	bool is_second = tei_batch_home(batch)->index == 1;

	te_batch_destroy(batch);
	if (is_second)
		submit_without_memory(rig);
	return is_second ? arg : NULL;
}

/* The gate is the batch's worker's; its requests are another one's. */
static void gate_without_memory_ends_what_another_worker_has(void **state)
{
	const char *const two[] = {"workers",      "2",           "backends",
				   "tcp",          "gpu_staging", "1m",
				   "cuda_library", cuda.file,     NULL};
	struct rig rig = rig_of(gpu_engine("tcp", "1m"), rig_engine(two));
	void *done = NULL;
	pthread_t thread;

	(void)state;
	assert_int_equal(rig.user->n_workers, 2);
	while (!done) {
		assert_int_equal(pthread_create(&thread, NULL,
						submit_to_second_without_memory,
						&rig),
				 0);
		assert_int_equal(pthread_join(thread, &done), 0);
	}
	rig_down(&rig);
}

static void arguments_are_checked(void **state)
{
	struct rig rig = rig_up("tcp");
	struct te_batch *batch = new_batch(&rig);
	struct iovec piece = {local(&rig, 0), 8};
	struct te_request request =
		rig_request(rig.segment, TE_WRITE, host, &piece);
	char why[160];

	(void)state;
	assert_int_equal(te_batch_submit_on_stream(batch, &request, 1, "hop", 0,
						   why, sizeof(why)),
			 -EINVAL);
	assert_non_null(strstr(why, "kind: no GPUs are called \"hop\""));
	assert_int_equal(
		te_batch_submit_on_stream(batch, NULL, 1, "cuda", 0, NULL, 0),
		-EINVAL);
	assert_int_equal(te_batch_submit_on_stream(batch, &request, 2, "cuda",
						   0, why, sizeof(why)),
			 -ENOBUFS);
	assert_true(*why);
	request.segment = 77;
	assert_int_equal(te_batch_submit_on_stream(batch, &request, 1, "cuda",
						   0, why, sizeof(why)),
			 -ENOENT);
	request.segment = rig.segment;
	stop_stream(&rig);
	refuse(&rig, batch, 0, "");
	refuse(&rig, batch, -EBUSY, "batch: requests of it are in flight");
	assert_int_equal(te_batch_submit(batch, &request, 1), -EBUSY);
	go_on(&rig);
	assert_int_equal(rig_end(batch).error, 0);
	rig_down(&rig);
}

/* Of requests that end at once, so that gates open while they are put. */
static void write_to_self(const struct rig *rig)
{
	te_segment_id self = rig_segment(rig->user, rig->user);
	struct te_batch *batch = new_batch(rig);
	char why[160];

	rig_region(rig->user, one, LEN, RIG_ANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(try_submit(batch, self, TE_WRITE, one,
					    piece_of(other, 64),
					    number_of(rig->stream), 0, why),
				 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		assert_int_equal(te_batch_reset(batch), 0);
	}
	te_batch_destroy(batch);
}

static void writes_of_nics_are_flushed_where_needed(void **state)
{
	struct rig rig = rig_up("loop,tcp");

	(void)state;
	write_to_self(&rig);
	assert_int_equal(cuda.n_flushes(), 0);
	rig_down(&rig);
	cuda.fail_call("GPU_DIRECT_RDMA_WRITES_ORDERING", 1);
	rig = rig_up("loop,tcp");
	write_to_self(&rig);
	assert_int_equal(cuda.n_flushes(), MANY);
	rig_down(&rig);
}

static void without_a_worker_it_is_refused(void **state)
{
	const char *const settings[] = {
		"backends", "loop", "cuda_library", cuda.file, "worker_thread",
		"false",    NULL};
	struct te_engine *engine = rig_engine(settings);
	struct te_batch *batch;
	char why[160];

	(void)state;
	assert_int_equal(te_batch_create(engine, 1, &batch), 0);
	assert_int_equal(try_submit(batch, 1, TE_WRITE, host, piece_of(one, 8),
				    0, 0, why),
			 -EOPNOTSUPP);
	assert_non_null(strstr(why, "worker_thread"));
	te_engine_destroy(engine);
}

static void without_a_driver_it_is_refused(void **state)
{
	const char *const settings[] = {"backends", "loop", "cuda_library",
					"/nowhere/libcuda.so.1", NULL};
	struct te_engine *engine = rig_engine(settings);
	struct te_config *config;
	struct te_batch *batch;
	char why[160];

	(void)state;
	assert_int_equal(te_batch_create(engine, 1, &batch), 0);
	assert_int_equal(try_submit(batch, 1, TE_WRITE, host, piece_of(one, 8),
				    0, 0, why),
			 -ENODEV);
	assert_non_null(strstr(why, "/nowhere/libcuda.so.1"));
	te_engine_destroy(engine);
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(
		te_config_set(config, "cuda_library", settings[3], NULL, 0), 0);
	assert_int_equal(te_gpu_probe(config, "cuda", why, sizeof(why)),
			 -ENODEV);
	assert_non_null(strstr(why, "/nowhere/libcuda.so.1"));
	assert_int_equal(te_gpu_probe(config, "hop", why, sizeof(why)),
			 -EINVAL);
	assert_int_equal(
		te_config_set(config, "cuda_library", cuda.file, NULL, 0), 0);
	assert_int_equal(te_gpu_probe(config, "cuda", NULL, 0), 0);
	assert_int_equal(cuda.n_contexts(), 0);
	te_config_destroy(config);
}

#define TEST(name_) \
	cmocka_unit_test_setup_teardown(name_, gpu_set_up, gpu_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_write_sees_what_was_before),
		TEST(what_follows_sees_a_read),
		TEST(the_hosts_memory_is_in_order),
		TEST(many_on_several_streams),
		TEST(many_wait_on_one_stream),
		TEST(a_failure_lets_the_stream_go_on),
		TEST(a_peer_that_is_gone_costs_the_deadline),
		TEST(a_device_that_stands_still_is_left_behind),
		TEST(cancelled_before_the_stream_gets_there),
		TEST(destroyed_before_the_stream_gets_there),
		TEST(destroyed_while_the_stream_waits),
		TEST(destroyed_while_bytes_are_copied),
		TEST(a_fork_child_is_refused),
		TEST(default_streams_are_the_memorys),
		TEST(refused_with_words),
		TEST(a_gate_that_is_given_up_leaves_no_pinned_page),
		TEST(what_cannot_be_allocated_is_an_error),
		TEST(gate_without_memory_ends_what_another_worker_has),
		TEST(arguments_are_checked),
		TEST(writes_of_nics_are_flushed_where_needed),
		TEST(without_a_worker_it_is_refused),
		TEST(without_a_driver_it_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
