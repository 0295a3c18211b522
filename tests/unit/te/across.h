/* SPDX-License-Identifier: Apache-2.0 */
/*
 * across.h - two processes of a host that have memory of GPUs, for tests
 *
 * The other process is this program started again, as across_test. It has memory
 * of a GPU that peers reach, or moves bytes to ours, as it is told by a pipe.
 */
#ifndef TESTS_UNIT_TE_ACROSS_H
#define TESTS_UNIT_TE_ACROSS_H

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/te/gpu.h"

#define ROLE "TE_TEST_ACROSS"
#define LEN  ((size_t)8 << 20)

static const char *across_test; /* name of the test, as main() sets it */

enum order {
	ORDER_OPEN,  /* engine, in folder name, and memory; says both */
	ORDER_ADD,   /* a region, length 0: of all; value is its access */
	ORDER_FILL,  /* the memory with bytes like no other's */
	ORDER_CRC,   /* of length bytes at offset */
	ORDER_WRITE, /* length bytes from offset on to ours at there + offset */
	ORDER_REMOVE, /* the region, within value ms */
	ORDER_REVOKE, /* its peers' access */
	ORDER_CLOSE,  /* the engine */
	ORDER_FREE,   /* the memory; it ends if somebody has that open */
	ORDER_FAIL,   /* calls of function name, after offset that work */
	ORDER_END,
};

struct message {
	uint32_t order;
	int32_t error;
	uint64_t there, offset, length, value;
	uint32_t n_chunks; /* OPEN: that the memory is of; 0: cuMemAlloc() */
	uint32_t hidden;   /* the same: they cannot be exported */
	char setting[32];  /* the same: one more, whose value is name */
	char name[128];
	uint8_t life[TE_INCARNATION_LEN];
};

/* An engine that has memory of a GPU. */
struct side {
	struct te_engine *engine;
	te_region_id region;
	CUdeviceptr at; /* at[LEN] */
	uint8_t *bytes; /* behind it */
	int gpu;
	unsigned int n_chunks; /* that it is of; 0: cuMemAlloc() */
};

/* @name: of one more setting, NULL: none. */
static inline struct te_engine *open_engine(const char *name, const char *value)
{
	const char *const settings[] = {"backends", "shm,tcp", "cuda_library",
					cuda.file,  name,      value,
					NULL};

	return rig_engine(settings);
}

static inline void side_alloc(struct side *side)
{
	CUcontext context;

	if (!side->n_chunks) {
		side->at = fake_cuda_alloc(&cuda, side->gpu, LEN);
	} else {
		assert_int_equal(cuda.primary_ctx_retain(&context, side->gpu),
				 0);
		assert_int_equal(cuda.map_chunks(side->gpu,
						 LEN / side->n_chunks,
						 side->n_chunks, &side->at),
				 0);
	}
	side->bytes = cuda.bytes(side->at);
}

static inline void side_free(const struct side *side)
{
	if (!side->n_chunks) {
		fake_cuda_free(&cuda, side->gpu, side->at);
		return;
	}
	assert_int_equal(cuda.unmap_chunks(side->at), 0);
	assert_int_equal(cuda.primary_ctx_release(side->gpu), 0);
}

/* One of memory that is of so many chunks. */
static inline struct side side_of(int gpu, unsigned int n_chunks,
				  const char *name, const char *value)
{
	struct side side = {.engine = open_engine(name, value),
			    .n_chunks = n_chunks,
			    .gpu = gpu};

	side_alloc(&side);
	return side;
}

static inline struct side side_with(int gpu, const char *name,
				    const char *value)
{
	return side_of(gpu, 0, name, value);
}

static inline struct side side_open(int gpu)
{
	return side_with(gpu, NULL, NULL);
}

static inline void side_add(struct side *side, uint32_t access)
{
	side->region =
		rig_region(side->engine, as_pointer(side->at), LEN, access);
}

static inline void side_close(struct side *side)
{
	te_engine_destroy(side->engine);
	side_free(side);
}

/* ---- the other process ---- */

static inline int write_to(struct side *side, const struct message *m)
{
	te_segment_id id;
	int rc = te_segment_open(side->engine, m->name, RIG_WAIT_MS, &id);

	if (rc)
		return rc;
	return rig_move(side->engine, id, TE_WRITE,
			as_pointer(m->there + m->offset),
			as_pointer(side->at + m->offset), m->length);
}

static inline void fail_calls(const struct message *m)
{
	static char function[sizeof(m->name)]; /* the driver keeps it */

	memcpy(function, m->name, sizeof(function));
	cuda.fail_after(function, (unsigned int)m->offset, (int)m->value);
}

static inline void obey(struct side *side, struct message *m)
{
	m->error = 0;
	switch (m->order) {
	case ORDER_OPEN:
		cuda.hide_chunks(m->hidden);
		*side = side_of(0, m->n_chunks, *m->name ? m->setting : NULL,
				m->name);
		m->there = side->at;
		snprintf(m->name, sizeof(m->name), "%s",
			 te_engine_name(side->engine));
		break;
	case ORDER_ADD:
		side->region = rig_region(
			side->engine, as_pointer(side->at + m->offset),
			m->length ? m->length : LEN, (uint32_t)m->value);
		break;
	case ORDER_FILL:
		rig_fill(side->bytes, LEN);
		break;
	case ORDER_CRC:
		m->value = te_crc32c(0, side->bytes + m->offset, m->length);
		break;
	case ORDER_WRITE:
		m->error = write_to(side, m);
		break;
	case ORDER_REMOVE:
		m->error = te_region_remove_within(side->engine, side->region,
						   (uint32_t)m->value);
		break;
	case ORDER_REVOKE:
		m->error = te_peer_revoke(side->engine, m->life,
					  (uint32_t)m->value);
		break;
	case ORDER_CLOSE:
		te_engine_destroy(side->engine);
		break;
	case ORDER_FAIL:
		fail_calls(m);
		break;
	default:
		side_free(side);
		break;
	}
}

/* Reads orders from descriptor 0, answers each to 3. */
static inline int be_other(void)
{
	struct message m;
	struct side side = {.engine = NULL};

	fake_cuda_open(&cuda);
	if (cuda.init(0))
		return 1;
	while (read(0, &m, sizeof(m)) == sizeof(m) && m.order != ORDER_END) {
		/* What we do with bytes is in order with the driver's copies:
		 * by its lock, as ThreadSanitizer sees no other process. */
		(void)cuda.n_copies();
		obey(&side, &m);
		(void)cuda.n_copies();
		if (write(3, &m, sizeof(m)) != sizeof(m))
			return 1;
	}
	cuda.reset(); /* asserts that nothing is left */
	return 0;
}

/* ---- this process ---- */

struct other {
	pid_t pid;
	int tell, hear;
	CUdeviceptr at;
	char name[128];
};

static inline void become(const int orders[2], const int answers[2])
{
	(void)dup2(orders[0], 0);
	(void)dup2(answers[1], 3);
	for (int fd = 4; fd < 64; fd++)
		(void)close(fd);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that fails */
	setenv(ROLE, "1", 1);
	execl("/proc/self/exe", across_test, across_test, (char *)NULL);
	_exit(127);
}

static inline void tell(const struct other *other, enum order order,
			uint64_t value)
{
	struct message m = {.order = order, .value = value};

	assert_int_equal(write(other->tell, &m, sizeof(m)), sizeof(m));
}

static inline struct message hear(const struct other *other)
{
	struct message m;

	assert_int_equal(read(other->hear, &m, sizeof(m)), sizeof(m));
	return m;
}

/* Has it end our access to its memory. */
static inline int revoke_ours(const struct other *other,
			      const struct side *side, uint64_t within)
{
	struct message m = {.order = ORDER_REVOKE, .value = within};

	te_engine_incarnation(side->engine, m.life);
	assert_int_equal(write(other->tell, &m, sizeof(m)), sizeof(m));
	return hear(other).error;
}

static inline int order(const struct other *other, enum order what,
			uint64_t value)
{
	tell(other, what, value);
	return hear(other).error;
}

/* What the other process has. */
struct plan {
	const char *setting, *value; /* one more of its engine; NULL: none */
	unsigned int n_chunks;
	bool hidden;
	uint32_t access;
	size_t offset, length; /* of its region; length 0: all */
};

static inline void other_add(const struct other *other, uint32_t access,
			     size_t offset, size_t length)
{
	struct message m = {.order = ORDER_ADD,
			    .value = access,
			    .offset = offset,
			    .length = length};

	assert_int_equal(write(other->tell, &m, sizeof(m)), sizeof(m));
	assert_int_equal(hear(other).error, 0);
}

static inline struct other other_start_as(const struct plan *plan)
{
	int orders[2], answers[2];
	struct other other;
	struct message m = {.order = ORDER_OPEN,
			    .n_chunks = plan->n_chunks,
			    .hidden = plan->hidden};

	assert_int_equal(pipe(orders) | pipe(answers), 0);
	other.pid = fork();
	if (!other.pid)
		become(orders, answers);
	assert_true(other.pid > 0);
	close(orders[0]);
	close(answers[1]);
	other.tell = orders[1];
	other.hear = answers[0];
	if (plan->setting) {
		snprintf(m.setting, sizeof(m.setting), "%s", plan->setting);
		assert_true((size_t)snprintf(m.name, sizeof(m.name), "%s",
					     plan->value) < sizeof(m.name));
	}
	assert_int_equal(write(other.tell, &m, sizeof(m)), sizeof(m));
	m = hear(&other);
	other.at = m.there;
	memcpy(other.name, m.name, sizeof(m.name));
	other_add(&other, plan->access, plan->offset, plan->length);
	return other;
}

static inline struct other other_start(uint32_t access)
{
	const struct plan plan = {.access = access};

	return other_start_as(&plan);
}

/* The same with memory of so many chunks. */
static inline struct other other_of(unsigned int n_chunks, uint32_t access)
{
	const struct plan plan = {.n_chunks = n_chunks, .access = access};

	return other_start_as(&plan);
}

static inline void other_reap(const struct other *other, int expected)
{
	int status;

	close(other->tell);
	close(other->hear);
	assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
	assert_int_equal(status, expected);
}

/* It closes its engine, frees, and ends without complaint. */
static inline void other_stop(const struct other *other)
{
	assert_int_equal(order(other, ORDER_CLOSE, 0), 0);
	assert_int_equal(order(other, ORDER_FREE, 0), 0);
	tell(other, ORDER_END, 0);
	other_reap(other, 0);
}

static inline te_segment_id find(const struct side *side,
				 const struct other *other)
{
	te_segment_id id;

	assert_int_equal(
		te_segment_open(side->engine, other->name, RIG_WAIT_MS, &id),
		0);
	return id;
}

/* Moves a range, the same of both memories. */
static inline int move(const struct side *side, const struct other *other,
		       uint32_t op, size_t at, size_t length)
{
	return rig_move(side->engine, find(side, other), op,
			as_pointer(other->at + at), as_pointer(side->at + at),
			length);
}

static inline uint32_t crc_of(const struct other *other, size_t at,
			      size_t length)
{
	struct message m = {.order = ORDER_CRC, .offset = at, .length = length};

	assert_int_equal(write(other->tell, &m, sizeof(m)), sizeof(m));
	return (uint32_t)hear(other).value;
}

static inline uint64_t bytes_by(const struct side *side, const char *way)
{
	return (uint64_t)test_stat(side->engine, "te_gpu_bytes_total", way);
}

/* ---- bytes ---- */

static inline void check_both_ways(const struct side *side,
				   const struct other *other, size_t at,
				   size_t length)
{
	assert_int_equal(order(other, ORDER_FILL, 0), 0);
	memset(side->bytes, 0x5a, LEN);
	assert_int_equal(move(side, other, TE_READ, at, length), 0);
	assert_int_equal(te_crc32c(0, side->bytes + at, length),
			 crc_of(other, at, length));
	if (at)
		assert_int_equal(side->bytes[at - 1], 0x5a);
	for (size_t i = at; i < at + length; i++)
		side->bytes[i] = (uint8_t)~side->bytes[i];
	assert_int_equal(move(side, other, TE_WRITE, at, length), 0);
	assert_int_equal(te_crc32c(0, side->bytes + at, length),
			 crc_of(other, at, length));
}

/* ---- more of both ---- */

static inline unsigned int fds_of_process(pid_t pid)
{
	char path[64];
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static inline unsigned int fds_of(const struct other *other)
{
	return fds_of_process(other->pid);
}

/* A write that stands still in the driver, after one that has ended. */
static inline struct te_batch *held_write(struct side *side,
					  const struct other *other)
{
	static struct iovec piece;
	struct te_request request = rig_request(find(side, other), TE_WRITE,
						as_pointer(other->at), &piece);
	struct te_batch *batch;

	side_add(side, 0);
	check_both_ways(side, other, 0, 8);
	piece = (struct iovec){as_pointer(side->at), LEN};
	cuda.hold(true);
	batch = rig_submit(side->engine, &request);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	return batch;
}

#endif
