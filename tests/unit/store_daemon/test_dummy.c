/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dummy.c - the library's side of a dummy, against an agent in here
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/client/client.h"
#include "store/daemon/dummy.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/unit/store_daemon/play.h"

#define LEN     10000u
#define HASTY   50
#define PATIENT 30000

static const struct te_store_key key = {.bytes = "k", .len = 1};

static struct te_store *open_dummy(const struct play *play, uint32_t ms)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = ms,
		.replica_timeout_ms = ms,
		.setup_timeout_ms = PATIENT,
		.daemon = play->path,
		.pool_bytes = 64 * 4096,
	};
	struct te_store *store = NULL;

	assert_int_equal(tes_dummy_setup(&config, &store), 0);
	return store;
}

static int put(struct te_store *store, void *bytes, size_t len)
{
	struct iovec piece = {bytes, len};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	int result = 1;

	(void)store->ops->put(store, &key, &value, 1, NULL, &result);
	return result;
}

static int64_t get(struct te_store *store, void *room, size_t len)
{
	struct iovec piece = {room, len};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	int64_t result = 1;

	(void)store->ops->get(store, &key, &value, 1, &result);
	return result;
}

static bool is_all(const uint8_t *bytes, size_t len, int byte)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != byte)
			return false;
	return true;
}

/* Until the store has nobody at its gate, and so touches no memory. */
static void open_gate(void)
{
	atomic_store(&play_store.shut, false);
	play_await(&play_store.n_waiting, 0);
}

/* An answer to a later call: what was under way before is over. */
static void settle(const struct play *play)
{
	struct te_store *store = open_dummy(play, PATIENT);

	store->ops->close(store);
}

static void a_get_that_is_given_up_leaves_memory_alone(void **state)
{
	struct te_store *store;
	uint8_t *shared, *own;
	struct play play;

	(void)state;
	play_start(&play, 1, 1ull << 34);
	store = open_dummy(&play, HASTY);
	shared = store->ops->pool_alloc(store, 3 * LEN);
	own = malloc(LEN);
	assert_true(shared && own);
	memset(shared, 1, 3 * LEN);
	atomic_store(&play_store.shut, true);
	assert_int_equal(get(store, shared + LEN, LEN), -901);
	/* Around it everything is as it was. */
	assert_true(is_all(shared, LEN, 1));
	assert_true(is_all(shared + 2 * LEN, LEN, 1));
	memset(shared, 2, 3 * LEN);
	open_gate();
	settle(&play);
	assert_true(is_all(shared, 3 * LEN, 2));
	store->ops->close(store);
	store = open_dummy(&play, HASTY);
	memset(own, 3, LEN);
	atomic_store(&play_store.shut, true);
	assert_int_equal(get(store, own, LEN), -901);
	open_gate();
	settle(&play);
	assert_true(is_all(own, LEN, 3));
	store->ops->close(store);
	free(own);
	play_stop(&play);
}

static void memory_that_was_given_up_can_still_be_used(void **state)
{
	struct te_store *store;
	struct play play;
	uint8_t *shared;

	(void)state;
	play_start(&play, 1, 1ull << 34);
	store = open_dummy(&play, HASTY);
	shared = store->ops->pool_alloc(store, LEN);
	assert_non_null(shared);
	atomic_store(&play_store.shut, true);
	assert_int_equal(get(store, shared, LEN), -901);
	open_gate();
	settle(&play);
	store->dummy->call_ms = store->dummy->replica_ms = PATIENT;
	memset(shared, 2, LEN);
	atomic_store(&play_store.sum, 0);
	assert_int_equal(put(store, shared, LEN), 0);
	assert_int_equal(atomic_load(&play_store.sum), 2 * LEN);
	assert_int_equal(get(store, shared, LEN), LEN);
	assert_true(is_all(shared, LEN, 'g'));
	assert_int_equal(store->ops->pool_free(store, shared), 0);
	store->ops->close(store);
	play_stop(&play);
}

static void room_for_copies_comes_back_from_late_calls(void **state)
{
	const size_t len = 40u << 20; /* two do not fit */
	struct te_store *store;
	struct play play;
	uint8_t *own;

	(void)state;
	play_start(&play, 1, 1ull << 34);
	own = calloc(1, 2 * len);
	assert_non_null(own);
	store = open_dummy(&play, HASTY);
	atomic_store(&play_store.shut, true);
	assert_int_equal(get(store, own, len), -901);
	/* It is still lent; unless it came so late that it was not begun. */
	assert_int_equal(get(store, own, len), -901);
	assert_int_equal(get(store, own, 2 * len), -600); /* never fits */
	open_gate();
	settle(&play);
	store->dummy->call_ms = store->dummy->replica_ms = PATIENT;
	assert_int_equal(get(store, own, len), (int64_t)len);
	assert_true(is_all(own, len, 'g'));
	store->ops->close(store);
	free(own);
	play_stop(&play);
}

static void a_forked_child_is_told_to_open_its_own(void **state)
{
	struct te_store *store;
	uint8_t bytes[LEN];
	struct play play;
	int status;
	pid_t pid;

	(void)state;
	play_start(&play, 1, 1ull << 34);
	store = open_dummy(&play, PATIENT);
	memset(bytes, 1, LEN);
	pid = fork();
	if (!pid)
		_exit(put(store, bytes, LEN) == -600 ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	assert_int_equal(put(store, bytes, LEN), 0);
	store->ops->close(store);
	play_stop(&play);
}

static void an_agent_that_was_restarted_is_found_again(void **state)
{
	struct te_store *store;
	uint8_t bytes[LEN];
	struct play play;

	(void)state;
	play_start(&play, 1, 1ull << 34);
	store = open_dummy(&play, PATIENT);
	memset(bytes, 1, LEN);
	assert_int_equal(put(store, bytes, LEN), 0);
	assert_true(tes_agent_stop(play.agent, PLAY_MS));
	assert_int_equal(put(store, bytes, LEN), -900);
	assert_int_equal(get(store, bytes, LEN), -900);
	play_restart(&play);
	assert_int_equal(put(store, bytes, LEN), 0);
	assert_int_equal(get(store, bytes, LEN), LEN);
	store->ops->close(store);
	play_stop(&play);
}

static void try_all(const struct play *play)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = PATIENT,
		.setup_timeout_ms = TE_STORE_NO_WAIT,
		.daemon = play->path,
		.pool_bytes = 4096,
	};
	struct te_store_buffer *buffer = NULL;
	struct te_store *store = NULL;
	uint8_t bytes[LEN];
	int64_t got;
	int code;

	if (tes_dummy_setup(&config, &store))
		return;
	memset(bytes, 1, LEN);
	code = put(store, bytes, LEN);
	assert_true(code == 0 || code == -900 || code == -1);
	got = get(store, bytes, LEN);
	assert_true(got == LEN || got == -900 || got == -1);
	assert_true(got < 0 || is_all(bytes, LEN, 'g'));
	if (store->ops->get_buffers(store, &key, 1, &buffer, &got) == 1)
		te_store_buffer_free(buffer);
	else
		assert_null(buffer);
	store->ops->close(store);
}

static void whatever_fails_calls_end_and_nothing_is_lost(void **state)
{
	static const enum tei_fault kinds[] = {TEI_FAULT_ALLOC,
					       TEI_FAULT_SOCKET, TEI_FAULT_IO};
	struct play play;

	(void)state;
	play_start(&play, 1, 1ull << 34);
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		struct test_faults f = {.kind = kinds[i]};

		while (test_faults_next(&f))
			try_all(&play);
	}
	settle(&play);
	play_stop(&play);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_get_that_is_given_up_leaves_memory_alone),
		cmocka_unit_test(memory_that_was_given_up_can_still_be_used),
		cmocka_unit_test(room_for_copies_comes_back_from_late_calls),
		cmocka_unit_test(a_forked_child_is_told_to_open_its_own),
		cmocka_unit_test(an_agent_that_was_restarted_is_found_again),
		cmocka_unit_test(whatever_fails_calls_end_and_nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
