/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_buffers.c - values in memory of the daemon's: who may read and write
 * it, what is given back, what there is when there is no room
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/client/client.h"
#include "store/daemon/agent_private.h"
#include "store/daemon/dummy_shelf.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/unit/store_daemon/play.h"

#define KIB     1024u
#define BUDGET  (1024u * KIB)
#define LEN     (300u * KIB) /* three fit */
#define HASTY   50
#define PATIENT 30000

static const struct te_store_key key = {.bytes = "k", .len = 1};

static void start(struct play *play, uint64_t size)
{
	play_start(play, 2, 1ull << 34);
	assert_true(tes_agent_stop(play->agent, PLAY_MS));
	play->config.buffers_max = BUDGET;
	play_restart(play);
	atomic_store(&play_store.size, size);
}

static struct te_store *open_dummy(const struct play *play, uint32_t ms)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = ms,
		.replica_timeout_ms = ms,
		.setup_timeout_ms = PATIENT,
		.daemon = play->path,
		.pool_bytes = 4 * BUDGET,
	};
	struct te_store *store = NULL;

	assert_int_equal(tes_dummy_setup(&config, &store), 0);
	return store;
}

static int64_t get(struct te_store *store, struct te_store_buffer **out)
{
	int64_t result = 1;

	(void)store->ops->get_buffers(store, &key, 1, out, &result);
	return result;
}

static bool is_shelved(struct te_store *store,
		       const struct te_store_buffer *buffer)
{
	const struct tes_shelf *shelf = store->dummy->shelf;

	return shelf && buffer->data >= shelf->base &&
	       buffer->data < shelf->base + shelf->length;
}

static bool is_all(const uint8_t *bytes, size_t len, int byte)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != byte)
			return false;
	return true;
}

static void values_lie_where_a_dummy_can_only_read(void **state)
{
	struct te_store_buffer *buffer;
	struct te_store *store;
	struct play play;
	int fd;

	(void)state;
	start(&play, LEN);
	store = open_dummy(&play, PATIENT);
	assert_int_equal(get(store, &buffer), LEN);
	assert_true(is_shelved(store, buffer));
	assert_int_equal(te_store_buffer_length(buffer), LEN);
	assert_true(is_all(te_store_buffer_data(buffer), LEN, 'g'));
	assert_int_equal(mprotect(buffer->data, 4096, PROT_READ | PROT_WRITE),
			 -1);
	assert_int_equal(errno, EACCES);
	te_store_buffer_free(buffer);
	store->ops->close(store);
	/* Nor is the descriptor of any use to who would write. */
	fd = tes_sealed_create_open(4096);
	assert_true(fd >= 0);
	assert_int_equal(tes_sealed_close(fd), 0);
	assert_ptr_equal(
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
		MAP_FAILED);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	(void)close(fd);
	play_stop(&play);
}

static void what_is_freed_is_used_again(void **state)
{
	struct te_store_buffer *buffer;
	struct te_store *store;
	struct play play;

	(void)state;
	start(&play, LEN);
	store = open_dummy(&play, PATIENT);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(get(store, &buffer), LEN);
		assert_true(is_shelved(store, buffer));
		te_store_buffer_free(buffer);
	}
	assert_true(play.agent->budget.used <= 2 * LEN + 8192);
	store->ops->close(store);
	play_stop(&play);
}

static void without_room_values_come_into_ones_own_memory(void **state)
{
	struct te_store_buffer *held[4], *theirs;
	struct te_store *store, *other;
	struct play play;

	(void)state;
	start(&play, LEN);
	store = open_dummy(&play, PATIENT);
	other = open_dummy(&play, PATIENT);
	for (size_t i = 0; i < TEST_COUNT(held); i++) {
		assert_int_equal(get(store, &held[i]), LEN);
		assert_int_equal(is_shelved(store, held[i]), i < 3);
		assert_true(is_all(held[i]->data, LEN, 'g'));
	}
	/* The bound is that of all dummies. */
	assert_int_equal(get(other, &theirs), LEN);
	assert_false(is_shelved(other, theirs));
	te_store_buffer_free(theirs);
	for (size_t i = 0; i < TEST_COUNT(held); i++)
		te_store_buffer_free(held[i]);
	atomic_store(&play_store.size, BUDGET + 1);
	assert_int_equal(get(store, &theirs), BUDGET + 1);
	assert_false(is_shelved(store, theirs));
	te_store_buffer_free(theirs);
	store->ops->close(store);
	other->ops->close(other);
	play_await(&play_store.n_registered, 0);
	play_stop(&play);
}

static void a_daemon_that_lends_none_is_asked_once(void **state)
{
	struct te_store_buffer *buffer;
	struct te_store *store;
	struct play play;

	(void)state;
	play_start(&play, 2, 1ull << 34);
	atomic_store(&play_store.size, LEN);
	store = open_dummy(&play, PATIENT);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(get(store, &buffer), LEN);
		assert_true(is_all(buffer->data, LEN, 'g'));
		te_store_buffer_free(buffer);
	}
	store->ops->close(store);
	assert_int_equal(play.agent->stats.refused[TES_GREETING_NO_BUFFERS], 1);
	play_stop(&play);
}

static bool is_free_again(struct te_store *store)
{
	struct te_store_buffer *buffer = NULL;
	bool shelved =
		get(store, &buffer) == BUDGET && is_shelved(store, buffer);

	te_store_buffer_free(buffer);
	return shelved;
}

static void what_a_late_answer_hands_out_goes_back(void **state)
{
	struct te_store_buffer *buffer = NULL;
	struct te_store *store, *other;
	struct play play;

	(void)state;
	start(&play, BUDGET);
	store = open_dummy(&play, HASTY);
	store->dummy->call_ms = PATIENT;
	assert_int_equal(get(store, &buffer), BUDGET);
	te_store_buffer_free(buffer);
	store->dummy->call_ms = HASTY;
	atomic_store(&play_store.shut, true);
	assert_int_equal(get(store, &buffer), TE_STORE_RPC_TIMEOUT);
	assert_null(buffer);
	atomic_store(&play_store.shut, false);
	play_await(&play_store.n_waiting, 0);
	/* An answer to a later call: what was under way before is over. */
	other = open_dummy(&play, PATIENT);
	other->ops->close(other);
	store->dummy->call_ms = store->dummy->replica_ms = PATIENT;
	/* Calls may be sent before the late answer has been read. */
	for (uint64_t until = tei_now_ns() + PLAY_MS * TEI_NS_PER_MS;
	     !is_free_again(store);)
		assert_true(tei_now_ns() < until);
	store->ops->close(store);
	play_stop(&play);
}

static void buffers_outlive_a_daemon_that_was_restarted(void **state)
{
	struct te_store_buffer *before, *after;
	struct te_store *store;
	struct play play;

	(void)state;
	start(&play, LEN);
	store = open_dummy(&play, PATIENT);
	assert_int_equal(get(store, &before), LEN);
	assert_true(is_shelved(store, before));
	assert_true(tes_agent_stop(play.agent, PLAY_MS));
	assert_int_equal(atomic_load(&play_store.n_registered), 0);
	assert_true(is_all(before->data, LEN, 'g'));
	play_restart(&play);
	assert_int_equal(get(store, &after), LEN);
	assert_true(is_shelved(store, after));
	assert_false(is_shelved(store, before));
	assert_true(is_all(before->data, LEN, 'g'));
	te_store_buffer_free(before);
	te_store_buffer_free(after);
	store->ops->close(store);
	play_stop(&play);
}

static void nonsense_about_buffers_is_refused(void **state)
{
	uint64_t ids[3] = {0, 7, UINT64_MAX};
	Agent__Batch msg = AGENT__BATCH__INIT;
	struct play_dummy d;
	struct tes_greeting g;
	struct play play;
	int socket;

	(void)state;
	start(&play, LEN);
	play_attach(&play, &d);
	/* None has been asked for. */
	play_ask_piece(&d, AGENT__AGENT_TYPE__AGENT_BUFFERS, 0, 0, 0, 0);
	assert_int_equal(play_result(&d), -600);
	g = d.session;
	g.word = TES_GREETING_BUFFERS;
	g.token[3] ^= 1;
	socket = play_connect(&play);
	assert_int_equal(play_greet(socket, &g, NULL, 0),
			 TES_GREETING_NO_SESSION);
	(void)close(socket);
	g = d.session;
	g.word = TES_GREETING_BUFFERS;
	socket = play_connect(&play);
	assert_int_equal(play_greet(socket, &g, NULL, 0), TES_GREETED);
	assert_int_equal(g.length, BUDGET);
	assert_true(play_ends(socket));
	(void)close(socket);
	msg.freed = ids;
	msg.n_freed = TEST_COUNT(ids);
	play_ask(&d, AGENT__AGENT_TYPE__AGENT_BUFFERS, &msg);
	{
		struct tei_arena arena;

		assert_int_equal(play_answer(&d, &arena)->code, 0);
		tei_arena_fini(&arena);
	}
	play_leave(&d);
	play_await(&play_store.n_registered, 0);
	play_stop(&play);
}

static void whatever_fails_nothing_is_lost(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	struct play play;

	(void)state;
	start(&play, LEN);
	while (test_faults_next(&f)) {
		const struct te_store_config config = {
			.size = sizeof(config),
			.call_timeout_ms = PATIENT,
			.setup_timeout_ms = TE_STORE_NO_WAIT,
			.daemon = play.path,
			.pool_bytes = 4 * BUDGET,
		};
		struct te_store_buffer *buffer = NULL;
		struct te_store *store = NULL;
		int64_t result;

		if (tes_dummy_setup(&config, &store))
			continue;
		result = get(store, &buffer);
		assert_int_equal(result > 0, buffer != NULL);
		if (buffer)
			assert_true(is_all(buffer->data, LEN, 'g'));
		te_store_buffer_free(buffer);
		store->ops->close(store);
	}
	play_await(&play_store.n_registered, 0);
	play_stop(&play);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_lie_where_a_dummy_can_only_read),
		cmocka_unit_test(what_is_freed_is_used_again),
		cmocka_unit_test(without_room_values_come_into_ones_own_memory),
		cmocka_unit_test(a_daemon_that_lends_none_is_asked_once),
		cmocka_unit_test(what_a_late_answer_hands_out_goes_back),
		cmocka_unit_test(buffers_outlive_a_daemon_that_was_restarted),
		cmocka_unit_test(nonsense_about_buffers_is_refused),
		cmocka_unit_test(whatever_fails_nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
