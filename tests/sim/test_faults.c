/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults.c - whatever rails do, requests keep their promises
 *
 * Each seed makes rails, weather and requests of its own. From 40 ms on every
 * rail works, so whoever has the time for it must succeed. What lands when is
 * watched by the world; here the bytes on both sides and the completions are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

#define MS(n)     ((uint64_t)(n)*1000000)
#define N_MAX     24
#define LONG_MS   600
#define SCRIBBLE  0xee
#define PLACE_MAX (256u << 10)

enum mood {
	ERRORS = 1 << 0,  /* endpoints break, posts are refused */
	LINKS = 1 << 1,   /* links go down and flap */
	SILENCE = 1 << 2, /* rails stand still */
	CANCELS = 1 << 3,
	REVOKES = 1 << 4,
};

struct job {
	uint32_t op;
	size_t len;
	uint64_t deadline; /* world_now() */
	struct iovec piece;
	struct te_request request;
	bool submitted, canceled, ended;
	int error;
};

struct run {
	struct world w;
	uint64_t seed;
	unsigned int moods;
	struct te_batch *batch;
	struct job jobs[N_MAX];
	uint32_t n, n_submitted, n_ended;
	uint32_t order[N_MAX]; /* job of each place in the batch */
	bool revoked;
};

static unsigned int n_runs, n_jobs, n_failed;
static uint64_t n_applied, n_haunted;

#define AT(r) (unsigned long long)(r)->seed, (r)->moods

/* ---- making it up ---- */

static const char *pick(struct run *r, const char *const *words, size_t n)
{
	return words[world_random(&r->w, n)];
}

#define PICK(r, ...)                                \
	pick(r, (const char *const[]){__VA_ARGS__}, \
	     sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static int make_rails(struct run *r, char *out, size_t room)
{
	int n = 1 + (int)world_random(&r->w, 4);
	size_t len = 0;

	for (int i = 0; i < n; i++)
		len += (size_t)snprintf(
			out + len, room - len, "%s%s:%s:%s", i ? "," : "",
			PICK(r, "200m", "500m", "1g", "4g", "10g"),
			PICK(r, "0us", "2us", "20us", "100us"),
			PICK(r, "0us", "1us", "5us"));
	return n;
}

static const char *weather(struct run *r)
{
	unsigned int moods = r->moods & (ERRORS | LINKS | SILENCE);

	if (moods && world_random(&r->w, 3))
		for (;;) {
			switch (moods & 1u << world_random(&r->w, 3)) {
			case ERRORS:
				return PICK(r, "error=0.1", "error=0.5",
					    "error=1", "refuse=0.3",
					    "refuse=1");
			case LINKS:
				return PICK(r, "down", "flap=200us",
					    "flap=3ms");
			case SILENCE:
				return "silent";
			default:
				break;
			}
		}
	return PICK(r, "slow=0.5", "slow=0.1", "slow=0.01", "up");
}

static void make_schedule(struct run *r, int n_rails, char *out, size_t room)
{
	size_t len = 0;

	for (uint64_t i = world_random(&r->w, 9); i > 0; i--)
		len += (size_t)snprintf(
			out + len, room - len, "%lluus:%d:%s,",
			(unsigned long long)world_random(
				&r->w, world_random(&r->w, 2) ? 20000 : 3000),
			(int)world_random(&r->w, (uint64_t)n_rails),
			weather(r));
	for (int i = 0; i < n_rails; i++)
		len += (size_t)snprintf(out + len, room - len, "%s40ms:%d:up",
					i ? "," : "", i);
}

static void make_job(struct run *r, uint32_t i)
{
	struct job *job = &r->jobs[i];
	uint32_t ms = LONG_MS;

	if (!world_random(&r->w, 3))
		ms = 1 + (uint32_t)world_random(&r->w, 30);
	job->op = world_random(&r->w, 2) ? TE_WRITE : TE_READ;
	job->len = 1 + world_random(&r->w,
				    world_random(&r->w, 3) ? r->w.place : 9000);
	job->request = world_request(&r->w, job->op, i, &job->piece, job->len);
	job->request.timeout_ms = ms;
	job->request.priority = (uint32_t)world_random(&r->w, 3);
	if (!world_random(&r->w, 4))
		job->request.flags |= TE_FAIL_FAST;
	if (!world_random(&r->w, 4))
		job->request.flags |= TE_FAIL_SILENT;
	if (!world_random(&r->w, 4)) {
		job->request.flags |= TE_CRC;
		job->request.crc_from = world_random(&r->w, job->len);
		job->request.crc_len =
			world_random(&r->w, job->len - job->request.crc_from) +
			1;
	}
	if (job->op == TE_WRITE)
		world_fill(job->piece.iov_base, job->len, i, 1);
	else
		world_fill(r->w.memory + i * r->w.place, job->len, i, 1);
}

static void run_open(struct run *r)
{
	char rails[256], schedule[512];
	const char *settings[] = {"sim.linger",
				  NULL,
				  "slice_min",
				  NULL,
				  "slice_max",
				  NULL,
				  "window",
				  NULL,
				  "suspect_after",
				  "20ms",
				  "connect_timeout",
				  "50ms",
				  NULL};
	struct world_config config = {.rails = rails,
				      .schedule = schedule,
				      .seed = r->seed,
				      .settings = settings};

	r->w.chance = r->seed * 31 + r->moods;
	make_schedule(r, make_rails(r, rails, sizeof(rails)), schedule,
		      sizeof(schedule));
	settings[1] = PICK(r, "0ms", "1ms", "8ms");
	settings[3] = PICK(r, "4k", "16k");
	settings[5] = PICK(r, "64k", "256k");
	settings[7] = PICK(r, "64k", "256k", "1m");
	config.place = world_random(&r->w, 2) ? PLACE_MAX : PLACE_MAX / 8;
	world_open(&r->w, &config);
	r->w.chance = r->seed * 37 + r->moods;
	r->n = 1 + (uint32_t)world_random(&r->w, N_MAX);
	for (uint32_t i = 0; i < r->n; i++)
		make_job(r, i);
	assert_int_equal(te_batch_create(r->w.user, N_MAX, &r->batch), 0);
}

/* ---- what must be true ---- */

static bool may_fail(const struct run *r, const struct job *job, int error)
{
	if (error == -ETIMEDOUT)
		return job->request.timeout_ms != LONG_MS;
	if (error == -ECANCELED)
		return job->canceled;
	if (error == -ESTALE)
		return r->revoked;
	if (error == -EHOSTDOWN)
		return job->request.flags & TE_FAIL_SILENT;
	return job->request.flags & TE_FAIL_FAST &&
	       (error == -ECONNRESET || error == -ECONNREFUSED ||
		error == -EHOSTUNREACH);
}

static void check_crc(const struct run *r, const struct job *job, uint32_t i,
		      uint32_t crc)
{
	uint8_t *bytes;

	if (!(job->request.flags & TE_CRC))
		return;
	bytes = malloc(job->len);
	assert_non_null(bytes);
	world_fill(bytes, job->len, i, 1);
	if (crc !=
	    te_crc32c(0, bytes + job->request.crc_from, job->request.crc_len))
		fail_msg("seed %llu/%u: job %u: wrong checksum", AT(r), i);
	free(bytes);
}

static void ended(struct run *r, const struct te_completion *c)
{
	uint32_t i = (uint32_t)c->user;
	struct job *job = &r->jobs[i];
	const uint8_t *remote = r->w.memory + i * r->w.place;

	assert_true(job->submitted && !job->ended);
	job->ended = true;
	job->error = c->error;
	r->n_ended++;
	if (c->error && !may_fail(r, job, c->error))
		fail_msg("seed %llu/%u: job %u: %s at %llu ns", AT(r), i,
			 te_strerror(c->error),
			 (unsigned long long)world_now(&r->w));
	if (!c->error) {
		assert_int_equal(c->bytes, job->len);
		check_crc(r, job, i, c->crc);
		if (!world_is(job->op == TE_WRITE ? remote
						  : job->piece.iov_base,
			      job->len, i, 1))
			fail_msg("seed %llu/%u: job %u: wrong bytes", AT(r), i);
	}
	if (!c->error || job->op == TE_READ)
		assert_true(c->flags & TE_REMOTE_QUIET);
	if (c->flags & TE_REMOTE_QUIET)
		r->w.quiet[i] = job->op == TE_WRITE;
	/* Ours again: whoever still reads or writes here gives himself away. */
	memset(job->piece.iov_base, SCRIBBLE, job->len);
}

static void take(struct run *r)
{
	struct te_completion c[N_MAX];
	int n = te_batch_poll(r->batch, c, N_MAX);

	for (int i = 0; i < n; i++)
		ended(r, &c[i]);
	for (uint32_t i = 0; i < r->n_submitted; i++) {
		if (!r->jobs[i].ended && world_now(&r->w) > r->jobs[i].deadline)
			fail_msg("seed %llu/%u: job %u outlives its deadline",
				 AT(r), i);
	}
}

/* Bytes of a write that failed are old or new. */
static void check_halves(const struct run *r, const struct job *job, uint32_t i)
{
	const uint8_t *remote = r->w.memory + i * r->w.place;
	uint8_t *bytes = malloc(job->len);

	assert_non_null(bytes);
	world_fill(bytes, job->len, i, 1);
	for (size_t k = 0; k < job->len; k++) {
		if (remote[k] && remote[k] != bytes[k])
			fail_msg("seed %llu/%u: job %u: strange bytes", AT(r),
				 i);
	}
	free(bytes);
}

static void check_end(struct run *r, uint32_t i)
{
	const struct job *job = &r->jobs[i];
	const uint8_t *remote = r->w.memory + i * r->w.place;
	const uint8_t *local = job->piece.iov_base;

	assert_true(job->ended);
	if (job->op == TE_WRITE && job->error)
		check_halves(r, job, i);
	else if (!world_is(remote, job->len, i, 1))
		fail_msg("seed %llu/%u: job %u: bytes changed later", AT(r), i);
	if (local[0] != SCRIBBLE || memcmp(local, local + 1, job->len - 1))
		fail_msg("seed %llu/%u: job %u: memory is touched after the "
			 "end",
			 AT(r), i);
}

/* ---- a run ---- */

static void submit_one(struct run *r)
{
	struct job *job = &r->jobs[r->n_submitted++];

	assert_int_equal(te_batch_submit(r->batch, &job->request, 1), 0);
	job->submitted = true;
	job->deadline = world_now(&r->w) + MS(job->request.timeout_ms);
}

static void cancel_one(struct run *r)
{
	uint32_t i;

	if (!r->n_submitted)
		return;
	i = (uint32_t)world_random(&r->w, r->n_submitted);
	r->jobs[i].canceled = true;
	assert_int_equal(te_request_cancel(r->batch, i), 0);
}

static void revoke(struct run *r)
{
	uint8_t who[TE_INCARNATION_LEN];

	te_engine_incarnation(r->w.user, who);
	r->revoked = true;
	assert_int_equal(te_peer_revoke(r->w.owner, who, 100), 0);
}

static void step(struct run *r)
{
	switch (world_random(&r->w, 12)) {
	case 0:
		if (r->moods & CANCELS)
			cancel_one(r);
		break;
	case 1:
		if (r->moods & REVOKES && !world_random(&r->w, 4))
			revoke(r);
		break;
	case 2:
	case 3:
	case 4:
		te_batch_wait(r->batch, 1 + (uint32_t)world_random(&r->w, 2));
		break;
	case 5:
		world_pass(&r->w, world_random(&r->w, 100000));
		break;
	default:
		if (r->n_submitted < r->n)
			submit_one(r);
		else
			te_batch_wait(r->batch, 2);
		break;
	}
	take(r);
}

static void run(uint64_t seed, unsigned int moods)
{
	struct run *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->seed = seed;
	r->moods = moods;
	run_open(r);
	while (r->n_ended < r->n)
		step(r);
	te_batch_destroy(r->batch);
	world_pass(&r->w, MS(100)); /* all that lingers has landed by then */
	for (uint32_t i = 0; i < r->n; i++) {
		check_end(r, i);
		n_failed += r->jobs[i].error != 0;
	}
	n_runs++;
	n_jobs += r->n;
	n_applied += r->w.n_applied;
	n_haunted += r->w.n_haunted;
	world_close(&r->w);
	free(r);
}

static void run_many(unsigned int moods, uint64_t n)
{
	const char *one = getenv("SIM_SEED"); /* to look at a failure */

	if (one) {
		run(strtoull(one, NULL, 10), moods);
		return;
	}
	for (uint64_t seed = 1; seed <= TEST_TIMES(n); seed++)
		run(seed, moods);
}

static void slow_rails_lose_nothing(void **state)
{
	(void)state;
	run_many(0, 100);
}

static void broken_endpoints_lose_nothing(void **state)
{
	(void)state;
	run_many(ERRORS, 200);
}

static void links_that_go_and_come_lose_nothing(void **state)
{
	(void)state;
	run_many(LINKS, 200);
}

static void silent_rails_lose_nothing(void **state)
{
	(void)state;
	run_many(SILENCE, 200);
}

static void cancelled_requests_are_quiet(void **state)
{
	(void)state;
	run_many(CANCELS | ERRORS, 200);
}

static void revocations_leave_nothing_behind(void **state)
{
	(void)state;
	run_many(REVOKES | ERRORS | LINKS, 200);
}

static void everything_at_once(void **state)
{
	(void)state;
	run_many(ERRORS | LINKS | SILENCE | CANCELS | REVOKES, 400);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_rails_lose_nothing),
		cmocka_unit_test(broken_endpoints_lose_nothing),
		cmocka_unit_test(links_that_go_and_come_lose_nothing),
		cmocka_unit_test(silent_rails_lose_nothing),
		cmocka_unit_test(cancelled_requests_are_quiet),
		cmocka_unit_test(revocations_leave_nothing_behind),
		cmocka_unit_test(everything_at_once),
	};
	int failed;

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	failed = cmocka_run_group_tests(tests, NULL, NULL);

	printf("%u runs, %u requests, %u of them failed as they may, "
	       "%llu slices applied, %llu given up landed late\n",
	       n_runs, n_jobs, n_failed, (unsigned long long)n_applied,
	       (unsigned long long)n_haunted);
	return failed;
}
