/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_slow.c - owners that read nothing or next to nothing: slow, not dead
 *
 * Their engines answer over control, but move bytes only when the test drives
 * them, so that their windows close. Reads of the thread that drives are cut
 * to what @reads_left allows: the program is linked with recv() and readv()
 * wrapped.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/te/rig.h"

#if defined(__SANITIZE_THREAD__)
#define LEN ((size_t)16 << 20)
#else
#define LEN ((size_t)32 << 20) /* more than what the kernel keeps */
#endif
#define SLOW_FOR (10 * TEI_NS_PER_S)
#define SECOND   TEI_NS_PER_S
#define A_LITTLE 1024u
#define HELLO    8u     /* bytes of the first write */
#define LIMIT_MS 100000 /* of a request */

/* ---- reads ---- */

static _Thread_local size_t reads_left = SIZE_MAX;

ssize_t __real_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n);
ssize_t __real_readv(int fd, const struct iovec *iov, int n);

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
	ssize_t n;

	if (!reads_left) {
		errno = EAGAIN;
		return -1;
	}
	n = __real_recv(fd, bytes, len < reads_left ? len : reads_left, flags);
	if (n > 0 && reads_left != SIZE_MAX)
		reads_left -= (size_t)n;
	return n;
}

ssize_t __wrap_readv(int fd, const struct iovec *iov, int n)
{
	if (reads_left == SIZE_MAX)
		return __real_readv(fd, iov, n);
	return __wrap_recv(fd, iov->iov_base, iov->iov_len, 0);
}

/* ---- owners ---- */

struct owner {
	struct te_engine *engine;
	struct te_batch *batch; /* one write to all of its memory */
	uint8_t *memory;
	te_segment_id segment;
};

static struct te_engine *user;
static uint8_t *local;

/* Both sides by this thread, until what is in flight has ended. */
static void drive(struct owner *o)
{
	uint64_t end = tei_now_ms() + RIG_WAIT_MS;

	while (te_batch_wait(o->batch, 1)) {
		assert_true(te_engine_drive(o->engine, 1) >= 0);
		assert_true(tei_now_ms() < end);
	}
}

static void write_to(struct owner *o, size_t len)
{
	struct iovec piece = {local, len};
	struct te_request r =
		rig_request(o->segment, TE_WRITE, o->memory, &piece);

	r.timeout_ms = LIMIT_MS;
	assert_int_equal(te_batch_submit(o->batch, &r, 1), 0);
}

static void open_owner(struct owner *o, const char *thread)
{
	const char *const settings[] = {"worker_thread", thread, "backends",
					"tcp", NULL};

	o->engine = rig_engine(settings);
	o->memory = calloc(1, LEN);
	assert_non_null(o->memory);
	rig_region(o->engine, o->memory, LEN, RIG_ANY);
	o->segment = rig_segment(user, o->engine);
	assert_int_equal(te_batch_create(user, 2, &o->batch), 0);
}

/* With a connection that works. */
static void open_driven(struct owner *o)
{
	open_owner(o, "off");
	write_to(o, HELLO);
	drive(o);
	assert_int_equal(te_batch_reset(o->batch), 0);
}

static void close_owner(struct owner *o)
{
	te_batch_destroy(o->batch);
	te_engine_destroy(o->engine);
	free(o->memory);
}

/* There is more to read all the time. */
static void drive_a_little(struct owner *o)
{
	uint64_t end = tei_now_ms() + RIG_WAIT_MS;

	reads_left = A_LITTLE;
	while (reads_left) {
		assert_true(te_engine_drive(o->engine, 0) >= 0);
		assert_true(tei_now_ms() < end);
	}
	reads_left = SIZE_MAX;
}

static void expect_all(struct owner *o)
{
	struct te_completion c;

	assert_int_equal(te_batch_result(o->batch, 0, &c), 0);
	assert_int_equal(c.error, 0);
	assert_memory_equal(o->memory, local, LEN);
}

/* Nothing was read but what it may have read: the rest is 0 throughout. */
static void expect_rest(const struct owner *o, size_t read_at_most)
{
	const uint8_t *rest = o->memory + read_at_most;

	assert_int_equal(*rest, 0);
	assert_memory_equal(rest, rest + 1, LEN - read_at_most - 1);
}

/* ---- tests ---- */

static int set_up(void **state)
{
	static const char *const settings[] = {"backends", "tcp", NULL};

	(void)state;
	user = rig_engine(settings);
	local = malloc(LEN);
	assert_non_null(local);
	for (size_t i = 0; i < LEN; i++)
		local[i] = (uint8_t)(i * 2654435761u >> 24) | 1;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(user);
	free(local);
	return 0;
}

static void expect_no_rerouting(void)
{
	assert_int_equal(test_stat(user, "te_slice_retries_total", NULL), 0);
	assert_int_equal(test_stat(user, "te_endpoints_down_total", NULL), 0);
	assert_int_equal(test_stat(user, "te_endpoints_given_up_total", NULL),
			 0);
	assert_int_equal(test_stat(user, "te_rail_pauses_total", NULL), 0);
}

/* All at once, so that ten seconds pass only once. */
static void nothing_or_a_kilobyte_a_second_is_slow_and_not_dead(void **state)
{
	struct owner still, dribbling, brisk;
	uint64_t begin, second;
	size_t n = 0;

	(void)state;
	open_driven(&still);
	open_driven(&dribbling);
	open_owner(&brisk, "on");
	write_to(&still, LEN);
	write_to(&dribbling, LEN);
	begin = second = tei_now_ns();
	while (tei_now_ns() - begin < SLOW_FOR) {
		assert_int_equal(te_batch_wait(still.batch, 50), -ETIMEDOUT);
		assert_int_equal(te_batch_wait(dribbling.batch, 0), -ETIMEDOUT);
		if (tei_now_ns() < second)
			continue;
		second += SECOND;
		drive_a_little(&dribbling);
		n += A_LITTLE;
		assert_int_equal(rig_move(user, brisk.segment, TE_WRITE,
					  brisk.memory, local, A_LITTLE),
				 0);
	}
	expect_rest(&still, HELLO);
	assert_true(dribbling.memory[HELLO]);
	expect_rest(&dribbling, n);
	/* It was noticed, and nothing was done about it. */
	assert_true(test_stat(user, "te_peer_suspects_total", NULL) > 0);
	expect_no_rerouting();

	drive(&still);
	drive(&dribbling);
	expect_all(&still);
	expect_all(&dribbling);
	expect_no_rerouting();
	close_owner(&brisk);
	close_owner(&dribbling);
	close_owner(&still);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			nothing_or_a_kilobyte_a_second_is_slow_and_not_dead,
			set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
