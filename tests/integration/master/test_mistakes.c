/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mistakes.c - what no client of ours would say, in frames that are whole:
 * the documented code for each key, or the end of the connection, and a pool
 * that is as it was
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/proto/protocol.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define MIB  (1ull << 20)
#define BASE (1ull << 32) /* where caller_mount() mounts */

enum { OWNER = 1, USER = 2, OTHER = 3, PROBE = 4 };

/* Not a code: the connection has ended, with words. */
#define HUNG_UP 1

struct world {
	struct master master;
	struct caller *owner, *user;
	Store__PoolReply *before;
	char *keys; /* all of them */
};

static Store__PoolReply *ask_pool(struct caller *c)
{
	Store__Pool m = STORE__POOL__INIT;
	Store__PoolReply *reply =
		caller_call(c, STORE__STORE_TYPE__STORE_POOL, &m,
			    &store__pool_reply__descriptor);

	assert_non_null(reply);
	return reply;
}

static char *ask_keys(const struct world *w)
{
	int status;
	char *keys = master_get(&w->master, "/get_all_keys", &status);

	assert_int_equal(status, 200);
	return keys;
}

/* One object, "there", and one that is being written, "half". */
static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	uint64_t generation, epoch;

	assert_non_null(w);
	master_start(&w->master,
		     (const char *const[]){"-client_ttl=100", NULL});
	w->owner = caller_join(&w->master, OWNER, false);
	w->user = caller_join(&w->master, USER, false);
	assert_int_equal(caller_mount(w->owner, OWNER, MIB), 0);
	assert_int_equal(
		caller_put_start(w->user, "there", 100, &generation, &epoch),
		0);
	assert_int_equal(
		caller_put_end(w->user, "there", generation, epoch, true), 0);
	assert_int_equal(
		caller_put_start(w->user, "half", 100, &generation, &epoch), 0);
	w->before = ask_pool(w->owner);
	w->keys = ask_keys(w);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	caller_free(w->before);
	free(w->keys);
	caller_close(w->user);
	caller_close(w->owner);
	master_stop(&w->master);
	free(w);
	return 0;
}

static void check_unchanged(const struct world *w)
{
	Store__PoolReply *now = ask_pool(w->owner);
	char *keys = ask_keys(w);

	assert_int_equal(now->capacity_bytes, w->before->capacity_bytes);
	assert_int_equal(now->used_bytes, w->before->used_bytes);
	assert_int_equal(now->objects, w->before->objects);
	assert_int_equal(now->key_bytes, w->before->key_bytes);
	assert_int_equal(now->owners, w->before->owners);
	assert_string_equal(keys, w->keys);
	free(keys);
	caller_free(now);
}

/* ---- calls of one key ---- */

struct key {
	const void *bytes;
	uint32_t len;
};

static ProtobufCBinaryData column(const struct key *key)
{
	return (ProtobufCBinaryData){key->len,
				     (uint8_t *)(uintptr_t)key->bytes};
}

static int32_t start_as(struct caller *c, const struct key *key, uint64_t size,
			Store__Replicate *how, uint64_t *generation,
			uint64_t *epoch)
{
	Store__PutStart m = STORE__PUT_START__INIT;
	Store__PutStartReply *reply;
	uint32_t len = key->len;
	int32_t status;

	m.n_key_lens = m.n_sizes = 1;
	m.keys = column(key);
	m.key_lens = &len;
	m.sizes = &size;
	m.how = how;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_PUT_START, &m,
			    &store__put_start_reply__descriptor);
	if (!reply)
		return HUNG_UP;
	assert_int_equal(reply->n_status, 1);
	status = reply->status[0];
	if (!status && generation) {
		*generation = reply->generation[0];
		*epoch = reply->epoch;
	}
	caller_free(reply);
	return status;
}

static int32_t start(struct caller *c, const char *name, uint64_t size,
		     Store__Replicate *how)
{
	const struct key key = {name, (uint32_t)strlen(name)};

	return start_as(c, &key, size, how, NULL, NULL);
}

/* EXIST, SIZE or REMOVE. */
static int32_t ask(struct caller *c, uint16_t type, const struct key *key)
{
	Store__Keys m = STORE__KEYS__INIT;
	Store__KeysReply *reply;
	uint32_t len = key->len;
	int32_t status;

	m.n_key_lens = 1;
	m.keys = column(key);
	m.key_lens = &len;
	m.force = true;
	reply = caller_call(c, type, &m, &store__keys_reply__descriptor);
	if (!reply)
		return HUNG_UP;
	assert_int_equal(reply->n_status, 1);
	status = reply->status[0];
	caller_free(reply);
	return status;
}

static int32_t mount_at(struct caller *c, uint8_t id, uint64_t address,
			uint64_t size)
{
	Store__Mount m = STORE__MOUNT__INIT;
	Store__Status *reply;
	uint8_t segment[16];
	int32_t status;

	memset(segment, id, sizeof(segment));
	m.segment.data = segment;
	m.segment.len = sizeof(segment);
	m.name = (char *)(uintptr_t) "mount";
	m.address = address;
	m.size = size;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_MOUNT, &m,
			    &store__status__descriptor);
	assert_non_null(reply);
	status = reply->status;
	caller_free(reply);
	return status;
}

static int32_t unmount(struct caller *c, uint8_t id)
{
	Store__Unmount m = STORE__UNMOUNT__INIT;
	Store__Status *reply;
	uint8_t segment[16];
	int32_t status;

	memset(segment, id, sizeof(segment));
	m.segment.data = segment;
	m.segment.len = sizeof(segment);
	reply = caller_call(c, STORE__STORE_TYPE__STORE_UNMOUNT, &m,
			    &store__status__descriptor);
	assert_non_null(reply);
	status = reply->status;
	caller_free(reply);
	return status;
}

/* ---- keys ---- */

/* A key that is none ends the connection, whatever is asked of it. */
static void ask_no_key(const struct world *w, const struct key *key)
{
	static const uint16_t types[] = {
		STORE__STORE_TYPE__STORE_EXIST,
		STORE__STORE_TYPE__STORE_SIZE,
		STORE__STORE_TYPE__STORE_REMOVE,
	};
	struct caller *c;

	for (size_t i = 0; i < TEST_COUNT(types); i++) {
		c = caller_join(&w->master, OTHER, false);
		assert_int_equal(ask(c, types[i], key), HUNG_UP);
		assert_string_equal(caller_text(c),
				    "a key has 1 to 1024 bytes");
		caller_close(c);
	}
	c = caller_join(&w->master, OTHER, false);
	assert_int_equal(start_as(c, key, 1, NULL, NULL, NULL), HUNG_UP);
	assert_string_equal(caller_text(c), "a key has 1 to 1024 bytes");
	caller_close(c);
}

static void keys_that_are_none_end_the_connection(void **state)
{
	static const uint8_t zeros[MIB];
	struct world *w = *state;

	ask_no_key(w, &(struct key){"", 0});
	ask_no_key(w, &(struct key){zeros, 1025});
	ask_no_key(w, &(struct key){zeros, MIB});
	check_unchanged(w);
}

static void any_bytes_make_a_key(void **state)
{
	static const uint8_t zeros[1024];
	const struct key keys[] = {
		{"\0", 1}, {"a\0b", 3}, {"\xff\xc0\x80", 3}, {zeros, 1024}};
	struct world *w = *state;
	uint64_t generation, epoch;

	for (size_t i = 0; i < TEST_COUNT(keys); i++) {
		const struct key *k = &keys[i];

		assert_int_equal(
			ask(w->user, STORE__STORE_TYPE__STORE_EXIST, k), 0);
		assert_int_equal(
			ask(w->user, STORE__STORE_TYPE__STORE_REMOVE, k), -704);
		assert_int_equal(
			start_as(w->user, k, 1, NULL, &generation, &epoch), 0);
		assert_int_equal(ask(w->user, STORE__STORE_TYPE__STORE_SIZE, k),
				 -703);
	}
	/* All of one writer, who gives them up by leaving. */
	caller_close(w->user);
	w->user = NULL;
}

/* ---- sizes and replicas ---- */

static void sizes_that_are_none_are_refused(void **state)
{
	static const uint64_t sizes[] = {0, (1ull << 52) + 1, 1ull << 63,
					 UINT64_MAX - 63, UINT64_MAX};
	struct world *w = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++)
		assert_int_equal(start(w->user, "size", sizes[i], NULL), -600);
	/* A size that is one, for which there is no room. */
	assert_int_equal(start(w->user, "size", 1ull << 52, NULL), -200);
	check_unchanged(w);
}

static void numbers_of_replicas_that_are_none_are_refused(void **state)
{
	static const uint32_t numbers[] = {0, 33, 1u << 31, UINT32_MAX};
	Store__Replicate how = STORE__REPLICATE__INIT;
	struct world *w = *state;

	for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
		how.replica_num = numbers[i];
		assert_int_equal(start(w->user, "n", 1, &how), -600);
	}
	how.replica_num = 1;
	how.soft_pin = 3;
	assert_int_equal(start(w->user, "n", 1, &how), -600);
	how.soft_pin = 1;
	how.soft_pin_ttl_ms = UINT64_MAX;
	assert_int_equal(start(w->user, "n", 1, &how), -600);
	check_unchanged(w);
}

/* ---- batches ---- */

#define N_MANY 1000000u

static void a_million_keys_in_a_message_end_the_connection(void **state)
{
	struct world *w = *state;
	struct caller *c = caller_join(&w->master, OTHER, false);
	uint32_t *lens = calloc(N_MANY, sizeof(*lens));
	uint8_t *bytes = calloc(N_MANY, 1);
	Store__Keys m = STORE__KEYS__INIT;

	assert_non_null(lens);
	assert_non_null(bytes);
	for (size_t i = 0; i < N_MANY; i++)
		lens[i] = 1;
	m.keys = (ProtobufCBinaryData){N_MANY, bytes};
	m.key_lens = lens;
	m.n_key_lens = N_MANY;
	m.force = true;
	assert_null(caller_call(c, STORE__STORE_TYPE__STORE_REMOVE, &m,
				&store__keys_reply__descriptor));
	assert_string_equal(caller_text(c), "a batch has 1 to 4096 keys");
	check_unchanged(w);
	caller_close(c);
	free(lens);
	free(bytes);
}

/* Columns that do not fit: of put start, and of put end. */
static void columns_of_different_lengths_end_the_connection(void **state)
{
	struct world *w = *state;
	uint64_t numbers[3] = {1, 1, 1};
	uint32_t lens[2] = {4, 5}, words[3] = {1, 1, 1};
	Store__PutStart put = STORE__PUT_START__INIT;
	Store__PutEnd end = STORE__PUT_END__INIT;

	for (size_t n = 0; n <= 3; n++) {
		struct caller *c = caller_join(&w->master, OTHER, false);

		if (n == 2)
			n++;
		put.keys = end.keys =
			(ProtobufCBinaryData){9, (uint8_t *)"halfthere"};
		put.key_lens = end.key_lens = lens;
		put.n_key_lens = end.n_key_lens = 2;
		put.sizes = end.generation = numbers;
		end.written = words;
		put.n_sizes = end.n_generation = n;
		end.n_written = 2;
		assert_null(caller_call(c, STORE__STORE_TYPE__STORE_PUT_START,
					&put,
					&store__put_start_reply__descriptor));
		assert_non_null(strstr(caller_text(c), "columns differ"));
		caller_close(c);
		c = caller_join(&w->master, OTHER, false);
		assert_null(caller_call(c, STORE__STORE_TYPE__STORE_PUT_END,
					&end,
					&store__put_end_reply__descriptor));
		assert_non_null(strstr(caller_text(c), "columns differ"));
		caller_close(c);
	}
	check_unchanged(w);
}

/* ---- who is not meant ---- */

static void what_another_builds_is_left_alone(void **state)
{
	struct world *w = *state;
	struct caller *c = caller_join(&w->master, OTHER, false);
	uint64_t generation, epoch, size;

	assert_int_equal(
		caller_put_start(w->user, "mine", 10, &generation, &epoch), 0);
	assert_int_equal(start(c, "mine", 20, NULL), -705);
	assert_int_equal(caller_put_end(c, "mine", generation, epoch, true),
			 -601);
	assert_int_equal(caller_put_end(c, "mine", generation, epoch, false),
			 -601);
	assert_int_equal(caller_remove(c, "mine", true), -703);
	assert_int_equal(
		caller_put_end(w->user, "mine", generation, epoch, true), 0);
	assert_int_equal(caller_lookup(c, "mine", &size), 0);
	assert_int_equal(size, 10);
	assert_int_equal(caller_remove(c, "mine", true), 0);
	check_unchanged(w);
	caller_close(c);
}

static void segments_that_cannot_be_are_refused(void **state)
{
	struct world *w = *state;
	struct caller *c = caller_join(&w->master, OTHER, false);

	/* Overlapping its own, from below, above, within and around. */
	assert_int_equal(mount_at(w->owner, 9, BASE - MIB / 2, MIB), -600);
	assert_int_equal(mount_at(w->owner, 9, BASE + MIB / 2, MIB), -600);
	assert_int_equal(mount_at(w->owner, 9, BASE + 4096, 4096), -600);
	assert_int_equal(mount_at(w->owner, 9, BASE - MIB, 3 * MIB), -600);
	/* Under an id that is taken, here and by another. */
	assert_int_equal(mount_at(w->owner, OWNER, BASE + MIB, MIB), -102);
	assert_int_equal(mount_at(c, OWNER, BASE, MIB), -102);
	/* Not memory. */
	assert_int_equal(mount_at(c, 9, BASE, 0), -600);
	assert_int_equal(mount_at(c, 9, BASE, 4095), -600);
	assert_int_equal(mount_at(c, 9, BASE + 1, MIB), -600);
	assert_int_equal(mount_at(c, 9, BASE, UINT64_MAX), -600);
	assert_int_equal(mount_at(c, 9, 0 - MIB, 2 * MIB), -600);
	check_unchanged(w);
	caller_close(c);
}

static void what_is_anothers_is_not_unmounted(void **state)
{
	struct world *w = *state;
	struct caller *c = caller_join(&w->master, OTHER, false);

	assert_int_equal(unmount(c, OWNER), -601);
	assert_int_equal(unmount(c, 99), -101);
	check_unchanged(w);
	caller_close(c);
}

/* ---- said again ---- */

static void an_end_said_again_changes_nothing(void **state)
{
	struct world *w = *state;
	uint64_t generation, epoch, size;

	assert_int_equal(
		caller_put_start(w->user, "again", 10, &generation, &epoch), 0);
	/* A start said again is another put: the first one writes. */
	assert_int_equal(start(w->user, "again", 20, NULL), -705);
	assert_int_equal(
		caller_put_end(w->user, "again", generation, epoch, true), 0);
	assert_int_equal(
		caller_put_end(w->user, "again", generation, epoch, true), 0);
	/* Said by whom it does not concern, of what is no more, as a revoke. */
	assert_int_equal(
		caller_put_end(w->user, "again", generation + 1, epoch, true),
		-700);
	assert_int_equal(
		caller_put_end(w->user, "again", generation, epoch, false),
		-700);
	assert_int_equal(caller_lookup(w->user, "again", &size), 0);
	assert_int_equal(size, 10);
	assert_int_equal(caller_remove(w->user, "again", true), 0);
	assert_int_equal(
		caller_put_end(w->user, "again", generation, epoch, true),
		-704);
	assert_int_equal(caller_remove(w->user, "again", true), -704);
	check_unchanged(w);
}

static void a_revoke_said_again_takes_nothing_else(void **state)
{
	struct world *w = *state;
	uint64_t first, second, epoch, size;

	assert_int_equal(caller_put_start(w->user, "r", 10, &first, &epoch), 0);
	assert_int_equal(caller_put_end(w->user, "r", first, epoch, false), 0);
	assert_int_equal(caller_put_end(w->user, "r", first, epoch, false),
			 -704);
	assert_int_equal(caller_put_start(w->user, "r", 10, &second, &epoch),
			 0);
	/* The first one again, late: it means what is no more. */
	assert_int_equal(caller_put_end(w->user, "r", first, epoch, false),
			 -704);
	assert_int_equal(caller_put_end(w->user, "r", first, epoch, true),
			 -704);
	assert_int_equal(caller_put_end(w->user, "r", second, epoch - 1, true),
			 -704);
	assert_int_equal(caller_put_end(w->user, "r", second, epoch, true), 0);
	assert_int_equal(caller_lookup(w->user, "r", &size), 0);
	assert_int_equal(caller_remove(w->user, "r", true), 0);
	check_unchanged(w);
}

/* In one message: what went with the first is not there for the second. */
static void a_key_removed_twice_in_a_batch_goes_once(void **state)
{
	struct world *w = *state;
	uint32_t lens[] = {5, 5};
	Store__Keys m = STORE__KEYS__INIT;
	uint64_t generation, epoch;
	Store__KeysReply *reply;

	assert_int_equal(
		caller_put_start(w->user, "twice", 10, &generation, &epoch), 0);
	assert_int_equal(
		caller_put_end(w->user, "twice", generation, epoch, true), 0);
	m.keys = (ProtobufCBinaryData){10, (uint8_t *)"twicetwice"};
	m.key_lens = lens;
	m.n_key_lens = 2;
	m.force = true;
	reply = caller_call(w->user, STORE__STORE_TYPE__STORE_REMOVE, &m,
			    &store__keys_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->n_status, 2);
	assert_int_equal(reply->status[0], 0);
	assert_int_equal(reply->status[1], -704);
	caller_free(reply);
	check_unchanged(w);
}

static bool is_unmounted(void *arg)
{
	return unmount(arg, PROBE) == -101;
}

static void an_unmount_said_again_finds_nothing(void **state)
{
	struct world *w = *state;
	struct caller *c = caller_join(&w->master, PROBE, false);

	assert_int_equal(caller_mount(c, PROBE, MIB), 0);
	assert_int_equal(unmount(c, PROBE), 0);
	/* It is taken down in steps; then it is not there. */
	assert_true(test_wait_until(is_unmounted, c, SOON_MS));
	assert_int_equal(caller_mount(c, PROBE, MIB), 0);
	assert_int_equal(unmount(c, PROBE), 0);
	assert_true(test_wait_until(is_unmounted, c, SOON_MS));
	check_unchanged(w);
	caller_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_are_none_end_the_connection),
		cmocka_unit_test(sizes_that_are_none_are_refused),
		cmocka_unit_test(numbers_of_replicas_that_are_none_are_refused),
		cmocka_unit_test(
			a_million_keys_in_a_message_end_the_connection),
		cmocka_unit_test(
			columns_of_different_lengths_end_the_connection),
		cmocka_unit_test(what_another_builds_is_left_alone),
		cmocka_unit_test(segments_that_cannot_be_are_refused),
		cmocka_unit_test(what_is_anothers_is_not_unmounted),
		cmocka_unit_test(an_end_said_again_changes_nothing),
		cmocka_unit_test(a_revoke_said_again_takes_nothing_else),
		cmocka_unit_test(a_key_removed_twice_in_a_batch_goes_once),
		cmocka_unit_test(an_unmount_said_again_finds_nothing),
		/* The last: its puts end with its connection. */
		cmocka_unit_test(any_bytes_make_a_key),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
