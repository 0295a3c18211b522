/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c - processes that fork, or may have little */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/rig.h"
#include "tests/lib/self.h"
#include "tests/lib/wait.h"

/* ---- limits ---- */

static struct rlimit before;
static unsigned int limited = RLIM_NLIMITS; /* that: none */

static void limit(unsigned int what, rlim_t most)
{
	struct rlimit tight;

	assert_int_equal(getrlimit(what, &before), 0);
	tight = before;
	tight.rlim_cur = most;
	assert_int_equal(setrlimit(what, &tight), 0);
	limited = what;
}

static void unlimit(void)
{
	if (limited != RLIM_NLIMITS)
		assert_int_equal(setrlimit(limited, &before), 0);
	limited = RLIM_NLIMITS;
}

/* So that as many descriptors can be opened, or a few more. */
static void leave_descriptors(unsigned int n)
{
	int fd = dup(0);

	assert_true(fd >= 0);
	close(fd);
	limit(RLIMIT_NOFILE, (rlim_t)fd + n);
}

/* ---- what was logged ---- */

static _Atomic bool shortage_logged;

static void watch_line(int level, const char *line, void *arg)
{
	(void)arg;
	if (level <= 1 && strstr(line, "Too many open files"))
		atomic_store(&shortage_logged, true);
}

static bool is_logged(void *arg)
{
	(void)arg;
	return atomic_load(&shortage_logged);
}

static int watch_log(void **state)
{
	(void)state;
	atomic_store(&shortage_logged, false);
	te_log_set(watch_line, NULL);
	return 0;
}

static int leave_log(void **state)
{
	(void)state;
	unlimit();
	te_log_set(NULL, NULL);
	return 0;
}

/* ---- few descriptors ---- */

#define WORK (RIG_LEN / 8)

static void works(const struct rig *r, unsigned int seed)
{
	rig_fill(r->here, WORK, seed);
	assert_int_equal(rig_move(r, TE_WRITE, r->memory, r->local, WORK), 0);
	rig_check(r->there, WORK, seed);
}

#define MANY 24

static int try_engine(struct te_engine **out)
{
	struct te_config *config = rig_config();
	int rc;

	rc = te_engine_create(config, "127.0.0.1", out);
	te_config_destroy(config);
	return rc;
}

/* Until there is no descriptor left for one more. Returns how many. */
static unsigned int crowd(struct te_engine **engines)
{
	unsigned int n = 0;
	int rc = 0;

	while (!rc && n < MANY) {
		rc = try_engine(&engines[n]);
		n += !rc;
	}
	assert_int_equal(rc, -EMFILE);
	return n;
}

struct fds {
	unsigned int n;
};

static bool no_more_fds(void *arg)
{
	const struct fds *f = arg;

	return test_fds_open() <= f->n;
}

static void engines_without_descriptors_say_so_and_disturb_nobody(void **state)
{
	struct te_engine *engines[MANY];
	struct fds fds;
	struct rig r;

	(void)state;
	rig_open(&r);
	works(&r, 1);
	fds.n = test_fds_open();
	leave_descriptors(40);
	for (unsigned int round = 0; round < 3; round++) {
		unsigned int n = crowd(engines);

		works(&r, round);
		assert_true(is_logged(NULL));
		while (n)
			te_engine_destroy(engines[--n]);
		assert_true(test_wait_until(no_more_fds, &fds, RIG_WAIT_MS));
	}
	unlimit();
	works(&r, 9);
	rig_close(&r);
}

static void engine_needs_all_its_descriptors_or_leaves_none(void **state)
{
	struct te_engine *engine;
	unsigned int k = 0, n_bad = 0;
	struct fds fds;
	int rc = -EMFILE;

	(void)state;
	te_engine_destroy(rig_engine("127.0.0.1")); /* what libraries keep */
	fds.n = test_fds_open();
	for (; rc; k++) {
		leave_descriptors(k);
		rc = try_engine(&engine);
		unlimit();
		if (!rc)
			te_engine_destroy(engine);
		else
			assert_int_equal(rc, -EMFILE);
		n_bad += rc != 0;
		assert_int_equal(test_fds_open(), fds.n);
	}
	assert_true(n_bad > 4);
}

/* More than one peer, of which some were known when the descriptors ended. */
static void connections_without_descriptors_wait_for_some(void **state)
{
	struct te_engine *met, *stranger;
	te_segment_id segment, other;
	struct te_completion done;
	struct te_request request;
	struct te_batch *batch;
	uint8_t *memory, bytes[4096];
	struct iovec piece = {bytes, sizeof(bytes)};
	struct rig r;

	(void)state;
	if (rig_self)
		skip();
	rig_open(&r);
	works(&r, 1);
	rig_fill(bytes, sizeof(bytes), 7);
	met = rig_engine("127.0.0.1");
	stranger = rig_engine("127.0.0.1");
	memory = rig_memory(met, sizeof(bytes));
	rig_region(met, memory, sizeof(bytes), RIG_ANY, NULL);
	assert_int_equal(te_segment_open(r.user, te_engine_name(met),
					 RIG_WAIT_MS, &segment),
			 0);
	assert_int_equal(te_batch_create(r.user, 1, &batch), 0);
	request = rig_request(&r, TE_WRITE, memory, &piece);
	request.segment = segment;

	leave_descriptors(0);
	assert_int_equal(
		te_segment_open(r.user, te_engine_name(stranger), 200, &other),
		-EMFILE);
	assert_int_equal(te_batch_eventfd(batch), -EMFILE);
	assert_int_equal(te_batch_submit(batch, &request, 1), 0);
	for (unsigned int round = 0; round < 3; round++)
		works(&r, round);
	assert_true(test_wait_until(is_logged, NULL, RIG_WAIT_MS));
	unlimit();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_result(batch, 0, &done), 0);
	assert_int_equal(done.error, 0);
	rig_check(rig_bytes(memory), sizeof(bytes), 7);
	assert_int_equal(te_segment_open(r.user, te_engine_name(stranger),
					 RIG_WAIT_MS, &other),
			 0);
	works(&r, 9);
	te_batch_destroy(batch);
	te_engine_destroy(met);
	te_engine_destroy(stranger);
	rig_memory_free(NULL, memory);
	rig_close(&r);
}

static void memory_needs_not_be_locked(void **state)
{
	struct rig r;

	(void)state;
	limit(RLIMIT_MEMLOCK, 0);
	rig_open(&r);
	works(&r, 3);
	rig_close(&r);
	unlimit();
}

/* ---- fork ---- */

#define N 32

static struct te_batch *submit_some(const struct rig *r, uint32_t op)
{
	struct te_request requests[N];
	struct iovec pieces[N];
	size_t part = RIG_LEN / N;
	struct te_batch *batch;

	for (unsigned int i = 0; i < N; i++) {
		pieces[i] = (struct iovec){r->local + i * part, part};
		requests[i] =
			rig_request(r, op, r->memory + i * part, &pieces[i]);
	}
	assert_int_equal(te_batch_create(r->user, N, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, N), 0);
	return batch;
}

/* What it inherits is dead, and may be given up without harm. */
static bool is_all_dead(struct rig *r, struct te_batch *batch)
{
	struct te_region region = {
		.addr = r->local, .length = RIG_LEN, .access = RIG_ANY};
	struct iovec piece = {r->local, 1};
	struct te_request request = rig_request(r, TE_WRITE, r->memory, &piece);
	struct te_completion done;
	te_region_id id;
	bool dead;

	dead = te_batch_wait(batch, 100) == -ESTALE &&
	       te_batch_submit(batch, &request, 1) == -ESTALE &&
	       te_batch_poll(batch, &done, 1) == 0 &&
	       te_batch_cancel(batch) == -ESTALE &&
	       te_batch_reset(batch) == -ESTALE &&
	       te_region_add(r->user, &region, &id) == -ESTALE &&
	       te_region_remove(r->owner, r->region) == -ESTALE &&
	       te_engine_drive(r->user, 0) == -ESTALE;
	te_batch_destroy(batch);
	te_segment_close(r->user, r->segment);
	te_engine_destroy(r->user);
	if (r->owner != r->user)
		te_engine_destroy(r->owner);
	return dead;
}

/* It stays, with all descriptors, until the other end of @stay is closed. */
static void be_child(struct rig *r, struct te_batch *batch, const int stay[2])
{
	bool dead = is_all_dead(r, batch);
	char byte;

	close(stay[1]);
	_exit(read(stay[0], &byte, 1) == 0 && dead ? 0 : 1);
}

static void ends_well(struct te_batch *batch)
{
	struct te_completion done;

	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(te_batch_result(batch, i, &done), 0);
		assert_int_equal(done.error, 0);
	}
	te_batch_destroy(batch);
}

static void fork_in_flight_harms_nobody(void **state)
{
	struct te_engine *again;
	struct te_batch *batch;
	int stay[2], status;
	char *name;
	struct rig r;
	pid_t pid;

	(void)state;
	rig_open(&r);
	rig_fill(r.here, RIG_LEN, 5);
	name = strdup(te_engine_name(r.owner));
	assert_non_null(name);
	assert_int_equal(pipe(stay), 0);
	batch = submit_some(&r, TE_WRITE);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		be_child(&r, batch, stay);
	close(stay[0]);
	ends_well(batch);
	rig_check(r.there, RIG_LEN, 5);
	ends_well(submit_some(&r, TE_READ));
	rig_close(&r);
	/* That the child has the sockets as well keeps no port. */
	again = rig_engine(name);
	te_engine_destroy(again);
	close(stay[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	free(name);
}

/* Its peers learn that it has ended, whatever its children keep. */
static void engine_ends_though_a_forked_child_lives(void **state)
{
	struct te_request request;
	struct te_batch *batch;
	struct iovec piece;
	int stay[2], status, err;
	struct rig r;
	pid_t pid;

	(void)state;
	if (rig_self || rig_arena)
		skip(); /* arenas go with their engine */
	rig_open(&r);
	assert_int_equal(pipe(stay), 0);
	batch = submit_some(&r, TE_READ);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		be_child(&r, batch, stay);
	close(stay[0]);
	ends_well(batch);
	te_engine_destroy(r.owner);
	piece = (struct iovec){r.local, 64};
	request = rig_request(&r, TE_WRITE, r.memory, &piece);
	request.flags = TE_FAIL_FAST;
	request.timeout_ms = 10000;
	err = rig_run(r.user, &request).error;
	if (err != -ECONNREFUSED && err != -ECONNRESET &&
	    !(rig_nic && err == -ETIMEDOUT))
		fail_msg("it ended with %d", err);
	te_engine_destroy(r.user);
	close(stay[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rig_memory_free(NULL, r.memory);
	rig_local_free(r.local);
}

/* ---- engines that end in the middle ---- */

static void *destroy(void *engine)
{
	te_engine_destroy(engine);
	return NULL;
}

static void engine_may_be_destroyed_with_its_requests_in_flight(void **state)
{
	struct rig r;

	(void)state;
	if (rig_self)
		skip();
	rig_open(&r);
	for (unsigned int round = 0; round < 6; round++) {
		submit_some(&r, round % 2 ? TE_READ : TE_WRITE);
		te_engine_destroy(r.user);
		/* Quiet: nobody writes here any more, nor reads. */
		memset(r.here, 0x77, RIG_LEN);
		r.user = rig_engine("127.0.0.1");
		rig_local_add(r.user, r.local);
		assert_int_equal(te_segment_open(r.user,
						 te_engine_name(r.owner),
						 RIG_WAIT_MS, &r.segment),
				 0);
		assert_true(rig_is_all(r.here, 0x77));
	}
	works(&r, 4);
	rig_close(&r);
}

static void both_ends_may_be_destroyed_at_once(void **state)
{
	(void)state;
	if (rig_self)
		skip();
	for (unsigned int round = 0; round < 6; round++) {
		pthread_t thread;
		struct rig r;

		rig_open(&r);
		submit_some(&r, round % 2 ? TE_READ : TE_WRITE);
		assert_int_equal(
			pthread_create(&thread, NULL, destroy, r.owner), 0);
		te_engine_destroy(r.user);
		memset(r.here, 0x77, RIG_LEN);
		pthread_join(thread, NULL);
		if (!rig_arena) /* arenas go with their engine */
			memset(r.there, 0x55, RIG_LEN);
		assert_true(rig_is_all(r.here, 0x77));
		rig_memory_free(NULL, r.memory);
		rig_local_free(r.local);
	}
}

const struct CMUnitTest rig_limits_tests[] = {
	cmocka_unit_test_setup_teardown(
		engines_without_descriptors_say_so_and_disturb_nobody,
		watch_log, leave_log),
	cmocka_unit_test_setup_teardown(
		engine_needs_all_its_descriptors_or_leaves_none, watch_log,
		leave_log),
	cmocka_unit_test_setup_teardown(
		connections_without_descriptors_wait_for_some, watch_log,
		leave_log),
	cmocka_unit_test(memory_needs_not_be_locked),
	cmocka_unit_test(fork_in_flight_harms_nobody),
	cmocka_unit_test(engine_ends_though_a_forked_child_lives),
	cmocka_unit_test(engine_may_be_destroyed_with_its_requests_in_flight),
	cmocka_unit_test(both_ends_may_be_destroyed_at_once),
};
const size_t rig_n_limits_tests = TEST_COUNT(rig_limits_tests);
