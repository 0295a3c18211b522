/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch.c - submitting, waiting, taking, cancelling: all over loop */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/lib/faults.h"
#include "tests/unit/te/alone_memory.h"

#define LEN ((size_t)1 << 20)

static const char *const loop[] = {"backends", "loop", NULL};

static int set_up(void **state)
{
	(void)state;
	return alone_open_memory(loop, LEN);
}

static struct te_batch *make_batch(uint32_t capacity)
{
	struct te_batch *batch;

	assert_int_equal(te_batch_create(engine, capacity, &batch), 0);
	return batch;
}

static struct te_request write_of(const struct iovec *piece)
{
	return rig_request(segment, TE_WRITE, memory, piece);
}

static void malformed_request_starts_nothing(void **state)
{
	struct iovec piece = {local, 100}, none = {NULL, 100};
	struct te_request right = write_of(&piece), r;
	struct te_batch *batch = make_batch(4);
	struct te_request two[2];

	(void)state;
#define REFUSED(field, value, error)                                    \
	do {                                                            \
		r = right;                                              \
		r.field = value;                                        \
		assert_int_equal(te_batch_submit(batch, &r, 1), error); \
	} while (0)
	REFUSED(op, 0, -EINVAL);
	REFUSED(op, 3, -EINVAL);
	REFUSED(flags, 8, -EINVAL);
	REFUSED(segment, 0, -ENOENT);
	REFUSED(segment, segment + (1ull << 32), -ENOENT);
	REFUSED(pieces, NULL, -EINVAL);
	REFUSED(pieces, &none, -EINVAL);
	REFUSED(n_pieces, 0, -EINVAL);
	REFUSED(n_pieces, TE_PIECES_MAX + 1, -EINVAL);
	REFUSED(priority, TE_PRIORITY_BULK + 1, -EINVAL);
	REFUSED(reserved_0, 1, -EINVAL);
	REFUSED(reserved[2], 1, -EINVAL);
#undef REFUSED
	r = right;
	r.flags = TE_CRC;
	r.crc_from = 50;
	r.crc_len = 51;
	assert_int_equal(te_batch_submit(batch, &r, 1), -EINVAL);
	two[0] = right;
	two[1] = r;
	assert_int_equal(te_batch_submit(batch, two, 2), -EINVAL);
	assert_int_equal(te_batch_submit(batch, &right, 0), -EINVAL);
	assert_int_equal(te_batch_wait(batch, 0), 0);
	assert_int_equal(test_stat(engine, "te_requests_total", NULL), 0);
	te_batch_destroy(batch);
}

static void batch_takes_as_many_as_it_was_made_for(void **state)
{
	struct iovec piece = {local, 8};
	struct te_request r = write_of(&piece);
	struct te_batch *batch = make_batch(3);

	(void)state;
	assert_int_equal(te_batch_create(engine, 0, &batch), -EINVAL);
	assert_int_equal(te_batch_create(engine, 65537, &batch), -EINVAL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), -ENOBUFS);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), -ENOBUFS);
	assert_int_equal(te_batch_reset(batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_reset(batch) == 0 ||
				 te_batch_wait(batch, RIG_WAIT_MS) == 0,
			 1);
	te_batch_destroy(batch);
}

static void completions_name_their_requests(void **state)
{
	struct te_batch *batch = make_batch(200);
	struct te_completion done[64];
	bool seen[200] = {false};
	struct iovec pieces[200];
	int n, total = 0;

	(void)state;
	for (unsigned int i = 0; i < 200; i++) {
		struct te_request r;

		pieces[i] = (struct iovec){local + i * 100, 100};
		local[i * 100] = (uint8_t)i;
		r = write_of(&pieces[i]);
		r.remote += i * 100;
		r.user = 1000 + i;
		assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	}
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	while ((n = te_batch_poll(batch, done, 64)) > 0) {
		for (int i = 0; i < n; i++) {
			assert_int_equal(done[i].error, 0);
			assert_int_equal(done[i].bytes, 100);
			assert_int_equal(done[i].flags, TE_REMOTE_QUIET);
			assert_int_equal(done[i].user, 1000 + done[i].index);
			assert_string_equal(te_rail_name(engine, done[i].rail),
					    "loop/0");
			assert_false(seen[done[i].index]);
			seen[done[i].index] = true;
			total++;
		}
	}
	assert_int_equal(total, 200);
	assert_memory_equal(memory, local, 20000);
	te_batch_destroy(batch);
}

static void result_is_there_without_taking_it(void **state)
{
	struct iovec piece = {local, 8};
	struct te_request r = write_of(&piece);
	struct te_batch *batch = make_batch(1);
	struct te_completion c;

	(void)state;
	assert_int_equal(te_batch_result(batch, 0, &c), -EINVAL);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_result(batch, 0, &c), 0);
	assert_int_equal(c.bytes, 8);
	assert_int_equal(te_batch_result(batch, 1, &c), -EINVAL);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_int_equal(te_batch_poll(batch, &c, 1), 0);
	te_batch_destroy(batch);
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void eventfd_is_readable_while_something_can_be_taken(void **state)
{
	struct iovec piece = {local, 8};
	struct te_request r[2] = {write_of(&piece), write_of(&piece)};
	struct te_batch *batch = make_batch(4);
	struct pollfd p = {.events = POLLIN};
	struct te_completion c;

	(void)state;
	p.fd = te_batch_eventfd(batch);
	assert_true(p.fd >= 0);
	assert_int_equal(te_batch_eventfd(batch), p.fd);
	assert_false(is_readable(p.fd));
	assert_int_equal(te_batch_submit(batch, r, 2), 0);
	/* Nobody waits or polls the batch: the engine does it by itself. */
	assert_int_equal(poll(&p, 1, RIG_WAIT_MS), 1);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_true(is_readable(p.fd));
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_false(is_readable(p.fd));
	te_batch_destroy(batch);
}

static void checksum_covers_what_was_asked_for(void **state)
{
	struct iovec pieces[3] = {
		{local, 1000}, {local + 5000, 0}, {local + 3000, 300001}};
	struct te_request r = write_of(pieces);
	uint8_t *flat = malloc(301001);
	struct te_completion c;

	(void)state;
	assert_non_null(flat);
	srand(5);
	for (size_t i = 0; i < LEN; i++)
		local[i] = (uint8_t)rand();
	memcpy(flat, local, 1000);
	memcpy(flat + 1000, local + 3000, 300001);
	r.n_pieces = 3;
	r.flags = TE_CRC;
	r.crc_from = 64;
	r.crc_len = 301001 - 65;
	c = rig_run(engine, &r);
	assert_int_equal(c.error, 0);
	assert_int_equal(c.crc, te_crc32c(0, flat + 64, 301001 - 65));
	r.crc_len = 0;
	assert_int_equal(rig_run(engine, &r).crc, 0);
	free(flat);
}

static void ended_epoch_voids_requests_to_oneself(void **state)
{
	struct iovec piece = {local, 8};
	struct te_request r = write_of(&piece);
	uint8_t me[TE_INCARNATION_LEN];
	uint64_t epoch, since;
	struct te_completion c;

	(void)state;
	te_engine_incarnation(engine, me);
	assert_int_equal(te_segment_epoch(engine, segment, &epoch, &since), 0);
	r.epoch = epoch;
	assert_int_equal(rig_run(engine, &r).error, 0);
	assert_int_equal(te_peer_revoke(engine, me, 0), 0);
	c = rig_run(engine, &r);
	assert_int_equal(c.error, -ESTALE);
	assert_int_equal(c.flags, TE_REMOTE_QUIET);
	r.epoch = 0;
	assert_int_equal(rig_run(engine, &r).error, 0);
	assert_int_equal(te_segment_epoch(engine, segment, &r.epoch, &since),
			 0);
	assert_int_equal(r.epoch, epoch + 1);
	assert_int_equal(rig_run(engine, &r).error, 0);
	assert_int_equal(te_peer_revoke(engine, NULL, 0), 0);
	assert_int_equal(rig_run(engine, &r).error, -ESTALE);
}

/* ---- many threads ---- */

static void *move_in_circles(void *arg)
{
	struct te_batch *batch = NULL;
	struct te_completion c[16];
	uint8_t own[16 * 64];
	struct iovec pieces[16];
	size_t at = *(const size_t *)arg;

	assert_int_equal(te_batch_create(engine, 16, &batch), 0);
	for (int round = 0; round < 300; round++) {
		struct te_request r[16];

		memset(own, round, sizeof(own));
		for (int i = 0; i < 16; i++) {
			pieces[i] = (struct iovec){own + i * 64, 64};
			r[i] = write_of(&pieces[i]);
			r[i].remote += at + (size_t)i * 64;
		}
		assert_int_equal(te_batch_submit(batch, r, 16), 0);
		if (round % 7 == 3)
			te_batch_cancel(batch);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		assert_int_equal(te_batch_poll(batch, c, 16), 16);
		for (int i = 0; i < 16; i++)
			assert_true(c[i].error == 0 ||
				    c[i].error == -ECANCELED);
		assert_int_equal(te_batch_reset(batch), 0);
	}
	te_batch_destroy(batch);
	return NULL;
}

static void threads_share_an_engine(void **state)
{
	pthread_t threads[4];
	size_t at[4];

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		at[i] = i * 10000;
		assert_int_equal(pthread_create(&threads[i], NULL,
						move_in_circles, &at[i]),
				 0);
	}
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* ---- the end ---- */

static void batch_in_flight_may_be_destroyed(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r = write_of(&piece);

	(void)state;
	for (int i = 0; i < 50; i++) {
		struct te_batch *batch = make_batch(8);

		for (int k = 0; k < 8; k++)
			assert_int_equal(te_batch_submit(batch, &r, 1), 0);
		te_batch_destroy(batch);
	}
	te_batch_destroy(NULL);
}

static void engine_takes_its_batches_along(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r = write_of(&piece);

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(te_batch_submit(make_batch(1), &r, 1), 0);
}

static void lack_of_memory_starts_nothing(void **state)
{
	struct iovec pieces[3] = {{local, 10}, {local + 20, 10}, {local, 1}};
	struct te_request r = write_of(pieces);
	struct te_batch *batch;

	(void)state;
	r.n_pieces = 3;
	assert_int_equal(rig_run(engine, &r).error, 0);
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		if (te_batch_create(engine, 2, &batch))
			continue;
		if (!te_batch_submit(batch, &r, 1))
			assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		else
			assert_int_equal(te_batch_wait(batch, 0), 0);
		te_batch_destroy(batch);
	}
}

#define WITH_ENGINE(test) \
	cmocka_unit_test_setup_teardown(test, set_up, alone_close_memory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINE(malformed_request_starts_nothing),
		WITH_ENGINE(batch_takes_as_many_as_it_was_made_for),
		WITH_ENGINE(completions_name_their_requests),
		WITH_ENGINE(result_is_there_without_taking_it),
		WITH_ENGINE(eventfd_is_readable_while_something_can_be_taken),
		WITH_ENGINE(checksum_covers_what_was_asked_for),
		WITH_ENGINE(ended_epoch_voids_requests_to_oneself),
		WITH_ENGINE(threads_share_an_engine),
		WITH_ENGINE(batch_in_flight_may_be_destroyed),
		WITH_ENGINE(engine_takes_its_batches_along),
		WITH_ENGINE(lack_of_memory_starts_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
