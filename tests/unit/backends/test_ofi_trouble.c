/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_trouble.c - operations that fail, come late, or are called back */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "tests/unit/backends/ofi_rig.h"

#define SLICES 48
#define LENGTH 1024

static int set_up(void **state)
{
	tei_log_set_level(TEI_LOG_ERROR);
	return ofi_rig_set_up(state);
}

static unsigned int count_good(struct fake_slice **s)
{
	return ofi_rig_count_good(s, SLICES);
}

static void fill(size_t len, uint8_t value)
{
	memset(rig.near, value, len);
}

static void bytes_arrive_both_ways(void **state)
{
	struct iovec iov[8];
	struct fake_slice *s;

	(void)state;
	for (size_t i = 0; i < RIG_LEN; i++)
		rig.near[i] = (uint8_t)(i * 7 + i / 251);
	s = ofi_rig_slice(TEI_WRITE, 0, RIG_LEN);
	ofi_rig_carry(s);
	assert_int_equal(s->err, 0);
	assert_true(s->bytes == RIG_LEN);
	assert_memory_equal(rig.near, rig.far, RIG_LEN);
	fake_slice_destroy(s);
	/* More pieces than an operation has, back to front. */
	memset(rig.near, 0, RIG_LEN);
	for (size_t i = 0; i < 8; i++)
		iov[i] = (struct iovec){rig.near + (7 - i) * 100, 100};
	s = ofi_rig_pieces(TEI_READ, 4000, iov, 8);
	ofi_rig_carry(s);
	assert_int_equal(s->err, 0);
	for (size_t i = 0; i < 8; i++)
		assert_memory_equal(rig.near + (7 - i) * 100,
				    rig.far + 4000 + i * 100, 100);
	fake_slice_destroy(s);
}

/* Providers do not tell how many completions their queues take. */
static void queue_is_as_long_as_the_provider_lets_it_be(void **state)
{
	static const char *const more[] = {"ofi.completions=16777216", NULL};
	struct fake_slice *s;

	(void)state;
	ofi_rig_reopen(more);
	s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
	ofi_rig_carry(s);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

/* ---- operations that fail ---- */

static void every_error_ends_each_slice_once(void **state)
{
	(void)state;
	for (int err = 1; err <= FI_ERRNO_MAX; err++) {
		struct fake_slice *s[SLICES];

		fake_ofi_spoil(20, err);
		ofi_rig_post(s, SLICES, err % 2 ? TEI_READ : TEI_WRITE, LENGTH);
		if (!ofi_rig_settle(s, SLICES))
			assert_false(rig.connected);
		assert_in_range(count_good(s), 1, SLICES - 1);
		if (err == FI_EKEYREJECTED)
			err = FI_ERRNO_OFFSET - 1;
	}
}

static void error_without_a_number_is_one(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_ofi_spoil(20, -7);
	ofi_rig_post(s, SLICES, TEI_READ, LENGTH);
	(void)ofi_rig_settle(s, SLICES);
	assert_in_range(count_good(s), 1, SLICES - 1);
}

static unsigned int n_lines;

static void count_line(int level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	n_lines += strstr(text, "an operation failed") != NULL;
}

/* The first of all, as lines like these are limited for a while. */
static void errors_come_whole_or_cut(void **state)
{
	const struct fake_ofi_chances half = {.seed = 3, .cut = 500000};

	(void)state;
	tei_log_set_sink(count_line, NULL);
	tei_log_set_level(TEI_LOG_WARN);
	for (unsigned int i = 0; i < 50; i++) {
		struct fake_slice *s[SLICES];

		fake_ofi_set_chances(&half);
		fake_ofi_spoil(1 + i % SLICES, FI_EREMOTEIO);
		ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
		ofi_rig_wait_down();
		assert_int_equal(rig.pair.initiator_link.down_err, -EREMOTEIO);
		fake_flush(rig.pair.initiator, -ECONNRESET);
		assert_true(count_good(s) < SLICES);
		ofi_rig_rejoin();
	}
	tei_log_set_sink(NULL, NULL);
	assert_true(n_lines > 0);
}

/* The n-th operation is refused as it is posted. */
static void refused_post_ends_each_slice_once(void **state)
{
	static const int errors[] = {FI_EIO, FI_EINVAL, FI_ENOMEM, FI_ENOTCONN,
				     FI_EOPBADSTATE};

	(void)state;
	for (unsigned int n = 1; n <= SLICES; n += 5) {
		struct fake_slice *s[SLICES];

		fake_ofi_fail(FAKE_OFI_POST, n, errors[n % 5]);
		ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
		ofi_rig_wait_down();
		assert_true(fake_ofi_struck());
		fake_flush(rig.pair.initiator, -ECONNRESET);
		assert_true(count_good(s) < SLICES);
		ofi_rig_rejoin();
	}
}

/* The connection worked, so a new one is opened at once and no rail paused. */
static void post_that_meets_an_ended_connection_accuses_nobody(void **state)
{
	struct fake_slice *s[2];

	(void)state;
	if (!rig.connected)
		return; /* nobody is told */
	for (int i = 0; i < 2; i++)
		s[i] = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
	ofi_rig_carry(s[0]);
	fake_ofi_reset_all();
	assert_int_equal(fake_post(&rig.pair, s[1]), 0);
	ofi_rig_wait_down();
	assert_int_equal(rig.pair.initiator_link.down_err, -ESTALE);
	fake_flush(rig.pair.initiator, -ESTALE);
	assert_int_equal(ofi_rig_count_good(s, 2), 1);
	ofi_rig_rejoin();
}

static void want_of_room_is_no_failure(void **state)
{
	const struct fake_ofi_chances often = {.seed = 11, .busy = 300000};

	(void)state;
	for (unsigned int turn = 0; turn < 50; turn++) {
		struct fake_slice *s[SLICES];

		if (turn % 2)
			fake_ofi_set_chances(&often);
		else
			fake_ofi_be_busy(turn); /* from the first one on */
		ofi_rig_post(s, SLICES, turn % 2 ? TEI_READ : TEI_WRITE,
			     LENGTH);
		for (size_t i = 0; i < SLICES; i++)
			ofi_rig_wait(&s[i]->n_done, 1);
		fake_ofi_set_chances(NULL);
		assert_int_equal(count_good(s), SLICES);
	}
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	assert_true(fake_ofi_counts().busy > 100);
}

/* Once it is flushed. */
static void close_initiator(void)
{
	tei_backend_ofi.endpoint_close(rig.pair.initiator);
	tei_free(rig.pair.initiator);
	rig.pair.initiator = NULL;
}

/*
 * It is asked by the first operation, and answers as it is driven. Libraries
 * before 2.0 take nothing until then.
 */
static void peer_that_has_not_answered_yet_is_tried_again(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	if (rig.shape != FAKE_OFI_EFA)
		return;
	fake_ofi_limits(1)->handshakes = true;
	fake_ofi_be_version(FI_VERSION(1, 22));
	ofi_rig_rejoin();
	ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	assert_int_equal(fake_ofi_counts().posted, 0);
	for (size_t i = 0; i < SLICES; i++)
		ofi_rig_wait(&s[i]->n_done, 1);
	assert_int_equal(count_good(s), SLICES);
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	/* One that never answers is left without waiting for anything. */
	ofi_rig_rejoin();
	fake_ofi_silence(1, true);
	ofi_rig_post(s, SLICES, TEI_READ, LENGTH);
	for (int i = 0; i < 100; i++)
		fake_progress(&rig.pair);
	assert_int_equal(tei_backend_ofi.flush(rig.pair.initiator, -ETIMEDOUT),
			 0);
	for (size_t i = 0; i < SLICES; i++)
		assert_int_equal(s[i]->err, -ETIMEDOUT);
	assert_int_equal(count_good(s), 0);
	fake_ofi_silence(1, false);
	ofi_rig_rejoin();
}

/* Later ones take all, and give nothing back of a peer that never answers. */
static void peer_that_never_answers_is_given_up(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	if (rig.shape != FAKE_OFI_EFA)
		return;
	fake_ofi_limits(1)->handshakes = true;
	ofi_rig_rejoin();
	ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	assert_true(fake_ofi_counts().posted > 0);
	for (size_t i = 0; i < SLICES; i++)
		ofi_rig_wait(&s[i]->n_done, 1);
	assert_int_equal(count_good(s), SLICES);
	ofi_rig_rejoin();
	fake_ofi_silence(1, true);
	ofi_rig_post(s, SLICES, TEI_READ, LENGTH);
	assert_int_equal(tei_backend_ofi.flush(rig.pair.initiator, -ETIMEDOUT),
			 -EINPROGRESS);
	/* The device may have its question still. */
	for (int i = 0; i < 100; i++)
		fake_progress(&rig.pair);
	assert_int_equal(rig.pair.initiator_link.n_flushed, 0);
	ofi_endpoint(rig.pair.initiator)->stuck_since = 1; /* long ago */
	ofi_rig_wait(&rig.pair.initiator_link.n_flushed, 1);
	for (size_t i = 0; i < SLICES; i++)
		assert_int_equal(s[i]->err, -ETIMEDOUT);
	assert_int_equal(count_good(s), 0);
	assert_int_equal(fake_ofi_counts().waited, 0);
	fake_ofi_silence(1, false);
	close_initiator();
	ofi_rig_rejoin();
}

static void dead_queue_is_told_as_a_dead_device(void **state)
{
	struct fake_slice *s[SLICES];
	int rc = 0;

	(void)state;
	ofi_rig_post(s, SLICES, TEI_READ, LENGTH);
	fake_ofi_fail(FAKE_OFI_CQ_READ, 1, FI_EIO);
	while (rc >= 0 && !fake_ofi_struck())
		rc = fake_turn(rig.pair.a.rail);
	assert_int_equal(rc, -EIO);
	fake_flush(rig.pair.initiator, -ENODEV);
	count_good(s);
}

/* Else nothing connects any more, and nobody is told. */
static void dead_event_queue_is_told_as_a_dead_device(void **state)
{
	struct fake_slice *s[SLICES];
	int rc = 0;

	(void)state;
	ofi_rig_post(s, SLICES, TEI_READ, LENGTH);
	fake_ofi_fail(FAKE_OFI_EQ_READ, 1, FI_EIO);
	for (int i = 0; i < 1000 && rc >= 0; i++)
		rc = fake_turn(rig.pair.a.rail);
	assert_int_equal(rc, -EIO);
	fake_flush(rig.pair.initiator, -ENODEV);
	count_good(s);
}

static void count_aside(int level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	n_lines += strstr(text, "the provider failed: ") &&
		   strstr(text, ": 4126)");
}

/* Where nobody listens, the provider efa ends the process. */
static void error_of_no_operation_is_logged(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	n_lines = 0;
	tei_log_set_sink(count_aside, NULL);
	tei_log_set_level(TEI_LOG_WARN);
	fake_ofi_fail_aside(0, FI_ECONNABORTED, 4126);
	ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	for (size_t i = 0; i < SLICES; i++)
		ofi_rig_wait(&s[i]->n_done, 1);
	ofi_rig_wait(&n_lines, 1);
	tei_log_set_sink(NULL, NULL);
	assert_int_equal(count_good(s), SLICES);
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
}

/* ---- operations that do not end ---- */

static void silent_device_is_ended_by_closing_its_endpoint(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_ofi_hang(0, true);
	ofi_rig_post(s, SLICES, TEI_READ, LENGTH);
	fake_progress(&rig.pair);
	if (tei_backend_ofi.flush(rig.pair.initiator, -ETIMEDOUT)) {
		/* Closing would wait, so that comes when all have ended. */
		for (int i = 0; i < 100; i++)
			fake_progress(&rig.pair);
		assert_int_equal(rig.pair.initiator_link.n_flushed, 0);
		fake_ofi_hang(0, false);
		ofi_rig_wait(&rig.pair.initiator_link.n_flushed, 1);
		count_good(s);
	} else {
		assert_true(rig.shape != FAKE_OFI_EFA);
		for (size_t i = 0; i < SLICES; i++)
			assert_int_equal(s[i]->err, -ETIMEDOUT);
		assert_int_equal(count_good(s), 0);
	}
	fake_ofi_hang(0, false);
	close_initiator();
	ofi_rig_rejoin();
}

static void dead_peer_is_left_by_closing_the_endpoint(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_ofi_silence(1, true);
	ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	for (int i = 0; i < 1000; i++)
		fake_progress(&rig.pair);
	for (size_t i = 0; i < SLICES; i++)
		assert_int_equal(s[i]->n_done, 0);
	fake_ofi_lose(1, 500); /* some devices give up by themselves only */
	fake_flush(rig.pair.initiator, -ETIMEDOUT);
	assert_int_equal(count_good(s), 0);
	fake_ofi_silence(1, false);
	ofi_rig_rejoin();
}

static void lost_peer_is_noticed_however_late(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_ofi_lose(1, 500);
	ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	ofi_rig_wait_down();
	fake_flush(rig.pair.initiator, -ETIMEDOUT);
	assert_int_equal(count_good(s), 0);
	fake_ofi_silence(1, false);
	ofi_rig_rejoin();
}

static void cancelled_slice_ends_once_it_is_quiet(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	/* It is done meanwhile: nothing is broken for its sake. */
	s[0] = ofi_rig_slice(TEI_READ, 0, LENGTH);
	assert_int_equal(fake_post(&rig.pair, s[0]), 0);
	tei_backend_ofi.cancel(rig.pair.initiator, s[0]->slice);
	assert_int_equal(s[0]->n_done, 1);
	assert_int_equal(s[0]->err, 0);
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	fake_slice_destroy(s[0]);

	fake_ofi_hang(0, true);
	ofi_rig_post(s, SLICES, TEI_READ, LENGTH);
	tei_backend_ofi.cancel(rig.pair.initiator, s[3]->slice);
	assert_int_equal(s[3]->n_done, 0);
	ofi_rig_wait_down();
	assert_int_equal(rig.pair.initiator_link.down_err, -ECANCELED);
	ofi_rig_flush(-ECONNRESET);
	fake_ofi_hang(0, false);
	for (size_t i = 0; i < SLICES; i++)
		assert_int_equal(s[i]->err, i == 3 ? -ECANCELED : -ECONNRESET);
	assert_int_equal(count_good(s), 0);
	ofi_rig_rejoin();
}

static void waiting_slice_is_cancelled_without_breaking_anything(void **state)
{
	static const char *const shallow[] = {"ofi.depth=4", NULL};
	struct fake_slice *s[SLICES];

	(void)state;
	ofi_rig_reopen(shallow);
	fake_ofi_hang(0, true);
	ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	tei_backend_ofi.cancel(rig.pair.initiator, s[40]->slice);
	assert_int_equal(s[40]->err, -ECANCELED);
	fake_ofi_hang(0, false);
	for (size_t i = 0; i < SLICES; i++)
		ofi_rig_wait(&s[i]->n_done, 1);
	assert_int_equal(count_good(s), SLICES - 1);
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
}

/* ---- fences ---- */

/* What is posted before the fence and carried out after it changes nothing. */
static void dropped_target_takes_nothing_more(void **state)
{
	(void)state;
	for (int turn = 0; turn < 20; turn++) {
		struct fake_slice *s[SLICES];

		memset(rig.far, 0, SLICES * LENGTH);
		fill(SLICES * LENGTH, 1);
		fake_ofi_hang(0, true);
		ofi_rig_post(s, SLICES, TEI_WRITE, LENGTH);
		if (tei_backend_ofi.drop(rig.pair.target))
			ofi_rig_wait(&rig.pair.target_link.n_down, 1);
		fake_ofi_hang(0, false);
		ofi_rig_wait_down();
		fake_flush(rig.pair.initiator, -ESTALE);
		assert_int_equal(count_good(s), 0);
		for (size_t i = 0; i < SLICES * LENGTH; i++)
			assert_int_equal(rig.far[i], 0);
		ofi_rig_rejoin();
	}
}

/* A fence is of one peer: others go on by the keys that they have. */
static void dropping_one_peer_leaves_the_others(void **state)
{
	struct fake_pair other = {
		.ops = &tei_backend_ofi, .a = rig.pair.a, .b = rig.pair.b};
	unsigned int keys = fake_ofi_counts().keys;
	struct fake_slice *s;

	(void)state;
	fill(LENGTH, 3);
	for (int turn = 0; turn < 20; turn++) {
		assert_int_equal(fake_pair_connect(&other), 0);
		if (tei_backend_ofi.drop(other.target))
			assert_true(fake_wait(&other, &other.target_link.n_down,
					      1));
		s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
		ofi_rig_carry(s);
		assert_int_equal(s->err, 0);
		fake_slice_destroy(s);
		fake_pair_disconnect(&other);
		assert_int_equal(fake_ofi_counts().keys, keys);
	}
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
}

static void refused_close_is_tried_again(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_ofi_hang(0, true);
	ofi_rig_post(s, SLICES, TEI_READ, LENGTH);
	fake_ofi_refuse_closes(FI_EBUSY);
	assert_int_equal(tei_backend_ofi.flush(rig.pair.initiator, -ETIMEDOUT),
			 -EINPROGRESS);
	assert_int_equal(rig.pair.a.rail->stuck_endpoints, 1);
	assert_int_equal(tei_backend_ofi.drop(rig.pair.target), -EINPROGRESS);
	for (int i = 0; i < 100; i++)
		fake_progress(&rig.pair);
	assert_int_equal(rig.pair.initiator_link.n_flushed, 0);
	assert_int_equal(rig.pair.target_link.n_down, 0);
	fake_ofi_refuse_closes(0);
	fake_ofi_hang(0, false);
	ofi_rig_wait(&rig.pair.initiator_link.n_flushed, 1);
	ofi_rig_wait(&rig.pair.target_link.n_down, 1);
	assert_int_equal(rig.pair.a.rail->stuck_endpoints, 0);
	count_good(s);
	close_initiator();
	ofi_rig_rejoin();
}

/* A key that the provider keeps lets peers in: the region is not hidden. */
static void region_whose_key_stays_is_not_hidden(void **state)
{
	static uint8_t memory[4096], key[TEI_BLOB_MAX];
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	struct tei_rail *rail = rig.pair.b.rail;
	size_t len = sizeof(key);

	(void)state;
	assert_int_equal(ops->region_add(rail, 9, memory, sizeof(memory),
					 RIG_RW, key, &len),
			 0);
	fake_ofi_refuse_key_closes(FI_EBUSY);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(ops->region_hide(rail, 9), -EBUSY);
		fake_progress(&rig.pair);
	}
	fake_ofi_refuse_key_closes(0);
	while (ops->region_hide(rail, 9))
		(void)fake_turn(rail);
	ops->region_remove(rail, 9);
}

static bool is_software(void)
{
	return rig.shape == FAKE_OFI_TCP;
}

/*
 * Where processes carry the bytes, one that has begun is carried to its end.
 * @device: whose end has the processes do so.
 */
static void fence_emulated_write(unsigned int device)
{
	static uint8_t memory[4096];
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	uint8_t key[TEI_BLOB_MAX];
	size_t len = sizeof(key);
	struct fake_slice *s;

	fake_pair_disconnect(&rig.pair);
	fake_ofi_limits(device)->emulated = true;
	assert_int_equal(fake_pair_connect(&rig.pair), 0);
	assert_int_equal(ops->region_add(rig.pair.b.rail, 9, memory,
					 sizeof(memory), RIG_RW, key, &len),
			 0);
	fill(LENGTH, 7);
	s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
	memcpy(s->key, key, len);
	s->slice->remote = (uintptr_t)memory;
	assert_int_equal(fake_post(&rig.pair, s), 0);
	(void)fake_turn(rig.pair.a.rail); /* it begins */
	assert_int_equal(s->n_done, 0);
	while (ops->region_hide(rig.pair.b.rail, 9))
		(void)fake_turn(rig.pair.b.rail);
	memset(memory, 1, sizeof(memory));
	for (int i = 0; i < 10; i++)
		fake_progress(&rig.pair);
	for (size_t i = 0; i < sizeof(memory); i++)
		assert_int_equal(memory[i], 1);
	ops->region_remove(rig.pair.b.rail, 9);
	(void)ofi_rig_settle(&s, 1);
	fake_slice_destroy(s);
	fake_ofi_limits(device)->emulated = false;
}

static void emulated_write_is_over_when_its_region_is_hidden(void **state)
{
	(void)state;
	if (rig.shape == FAKE_OFI_EFA)
		fence_emulated_write(1);
}

/* The target's device could do it: only the initiator knows. */
static void write_that_the_initiator_emulates_is_fenced(void **state)
{
	(void)state;
	if (rig.shape == FAKE_OFI_EFA)
		fence_emulated_write(0);
}

/* And nothing but a log line comes of a key that is refused there. */
static void emulated_write_with_a_wrong_key_is_refused(void **state)
{
	struct fake_slice *s;

	(void)state;
	if (rig.shape != FAKE_OFI_EFA)
		return;
	fake_ofi_limits(1)->emulated = true;
	s = ofi_rig_slice(TEI_WRITE, 0, LENGTH);
	s->key[OFI_KEY_LEN] ^= 1;
	assert_int_equal(fake_post(&rig.pair, s), 0);
	(void)ofi_rig_settle(&s, 1);
	assert_int_equal(s->err, -EACCES);
	fake_slice_destroy(s);
	fake_progress(&rig.pair);
}

/* What was begun by its key goes on until the connection is closed. */
static void region_is_not_hidden_while_a_peer_is_connected(void **state)
{
	static uint8_t memory[4096], key[TEI_BLOB_MAX];
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	struct tei_rail *rail = rig.pair.b.rail;
	size_t len = sizeof(key);

	(void)state;
	if (!is_software())
		return;
	assert_int_equal(ops->region_add(rail, 9, memory, sizeof(memory),
					 RIG_RW, key, &len),
			 0);
	fake_ofi_refuse_closes(FI_EBUSY);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ops->region_hide(rail, 9), -EBUSY);
		fake_progress(&rig.pair);
	}
	assert_int_equal(ops->flush(rig.pair.target, -ESTALE), -EINPROGRESS);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ops->region_hide(rail, 9), -EBUSY);
		fake_progress(&rig.pair);
	}
	fake_ofi_refuse_closes(0);
	ofi_rig_wait(&rig.pair.target_link.n_flushed, 1);
	while (ops->region_hide(rail, 9))
		(void)fake_turn(rail);
	ops->region_remove(rail, 9);
	ops->endpoint_close(rig.pair.target);
	tei_free(rig.pair.target);
	rig.pair.target = NULL;
	ofi_rig_rejoin();
}

/* Nobody drives it any more, once its connections are closed. */
static void dead_rail_hides_its_regions(void **state)
{
	static uint8_t memory[4096], key[TEI_BLOB_MAX];
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	struct tei_rail *rail = rig.pair.b.rail;
	size_t len = sizeof(key);
	int rc = 0;

	(void)state;
	assert_int_equal(ops->region_add(rail, 9, memory, sizeof(memory),
					 RIG_RW, key, &len),
			 0);
	fake_ofi_fail(FAKE_OFI_EQ_READ, 1, FI_EIO);
	while (rc >= 0)
		rc = fake_turn(rail);
	fake_pair_disconnect(&rig.pair);
	assert_int_equal(ops->region_hide(rail, 9), 0);
	ops->region_remove(rail, 9);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, set_up, ofi_rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(errors_come_whole_or_cut),
		TEST(bytes_arrive_both_ways),
		TEST(queue_is_as_long_as_the_provider_lets_it_be),
		TEST(every_error_ends_each_slice_once),
		TEST(error_without_a_number_is_one),
		TEST(refused_post_ends_each_slice_once),
		TEST(post_that_meets_an_ended_connection_accuses_nobody),
		TEST(want_of_room_is_no_failure),
		TEST(peer_that_has_not_answered_yet_is_tried_again),
		TEST(peer_that_never_answers_is_given_up),
		TEST(dead_queue_is_told_as_a_dead_device),
		TEST(dead_event_queue_is_told_as_a_dead_device),
		TEST(error_of_no_operation_is_logged),
		TEST(silent_device_is_ended_by_closing_its_endpoint),
		TEST(dead_peer_is_left_by_closing_the_endpoint),
		TEST(lost_peer_is_noticed_however_late),
		TEST(cancelled_slice_ends_once_it_is_quiet),
		TEST(waiting_slice_is_cancelled_without_breaking_anything),
		TEST(dropped_target_takes_nothing_more),
		TEST(dropping_one_peer_leaves_the_others),
		TEST(refused_close_is_tried_again),
		TEST(region_whose_key_stays_is_not_hidden),
		TEST(region_is_not_hidden_while_a_peer_is_connected),
		TEST(dead_rail_hides_its_regions),
		TEST(emulated_write_is_over_when_its_region_is_hidden),
		TEST(write_that_the_initiator_emulates_is_fenced),
		TEST(emulated_write_with_a_wrong_key_is_refused),
	};

	return ofi_rig_run("trouble", tests, TEST_COUNT(tests));
}
