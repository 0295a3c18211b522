/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mistakes.c - what no client of ours would say, in frames that are whole:
 * the documented code for each key, or the end of the connection, and a pool
 * that is as it was
 */
#include <stdlib.h>
#include <string.h>

#include "store/proto/protocol.h"
#include "tests/integration/master/settled.h"
#include "tests/lib/test.h"

/* Not a code: the connection has ended, with words. */
#define HUNG_UP 1

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

/* ---- keys ---- */

/* A key that is none ends the connection, whatever is asked of it. */
static void ask_no_key(const struct settled *w, const struct key *key)
{
	static const uint16_t types[] = {
		STORE__STORE_TYPE__STORE_EXIST,
		STORE__STORE_TYPE__STORE_SIZE,
		STORE__STORE_TYPE__STORE_REMOVE,
	};
	struct caller *c;

	for (size_t i = 0; i < TEST_COUNT(types); i++) {
		c = caller_join(&w->master, SETTLED_OTHER, false);
		assert_int_equal(ask(c, types[i], key), HUNG_UP);
		assert_string_equal(caller_text(c),
				    "a key has 1 to 1024 bytes");
		caller_close(c);
	}
	c = caller_join(&w->master, SETTLED_OTHER, false);
	assert_int_equal(start_as(c, key, 1, NULL, NULL, NULL), HUNG_UP);
	assert_string_equal(caller_text(c), "a key has 1 to 1024 bytes");
	caller_close(c);
}

static void keys_that_are_none_end_the_connection(void **state)
{
	static const uint8_t zeros[1 << 20];
	struct settled *w = *state;

	ask_no_key(w, &(struct key){"", 0});
	ask_no_key(w, &(struct key){zeros, 1025});
	ask_no_key(w, &(struct key){zeros, sizeof(zeros)});
	settled_check(w);
}

static void any_bytes_make_a_key(void **state)
{
	static const uint8_t zeros[1024];
	const struct key keys[] = {
		{"\0", 1}, {"a\0b", 3}, {"\xff\xc0\x80", 3}, {zeros, 1024}};
	struct settled *w = *state;
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
	struct settled *w = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++)
		assert_int_equal(start(w->user, "size", sizes[i], NULL), -600);
	/* A size that is one, for which there is no room. */
	assert_int_equal(start(w->user, "size", 1ull << 52, NULL), -200);
	settled_check(w);
}

static void numbers_of_replicas_that_are_none_are_refused(void **state)
{
	static const uint32_t numbers[] = {0, 33, 1u << 31, UINT32_MAX};
	Store__Replicate how = STORE__REPLICATE__INIT;
	struct settled *w = *state;

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
	settled_check(w);
}

/* ---- batches ---- */

#define N_MANY 1000000u

static void remove_many(struct settled *w, size_t n, const char *why)
{
	struct caller *c = caller_join(&w->master, SETTLED_OTHER, false);
	uint32_t *lens = calloc(n, sizeof(*lens));
	uint8_t *bytes = calloc(n, 1);
	Store__Keys m = STORE__KEYS__INIT;

	assert_non_null(lens);
	assert_non_null(bytes);
	for (size_t i = 0; i < n; i++)
		lens[i] = 1;
	m.keys = (ProtobufCBinaryData){n, bytes};
	m.key_lens = lens;
	m.n_key_lens = n;
	m.force = true;
	assert_null(caller_call(c, STORE__STORE_TYPE__STORE_REMOVE, &m,
				&store__keys_reply__descriptor));
	assert_string_equal(caller_text(c), why);
	settled_check(w);
	caller_close(c);
	free(lens);
	free(bytes);
}

static void one_key_too_many_in_a_message_ends_the_connection(void **state)
{
	remove_many(*state, 4097, "a batch has 1 to 4096 keys");
}

/* They are not even decoded. */
static void a_million_keys_in_a_message_end_the_connection(void **state)
{
	remove_many(*state, N_MANY, "keys do not decode");
}

/* Columns that do not fit: of put start, and of put end. */
static void columns_of_different_lengths_end_the_connection(void **state)
{
	static const size_t counts[] = {0, 1, 3}; /* of two keys */
	struct settled *w = *state;
	uint64_t numbers[3] = {1, 1, 1};
	uint32_t lens[2] = {4, 5}, words[2] = {1, 1};
	Store__PutStart put = STORE__PUT_START__INIT;
	Store__PutEnd end = STORE__PUT_END__INIT;

	for (size_t i = 0; i < TEST_COUNT(counts); i++) {
		struct caller *c =
			caller_join(&w->master, SETTLED_OTHER, false);

		put.keys = end.keys =
			(ProtobufCBinaryData){9, (uint8_t *)"halfthere"};
		put.key_lens = end.key_lens = lens;
		put.n_key_lens = end.n_key_lens = 2;
		put.sizes = end.generation = numbers;
		end.written = words;
		put.n_sizes = end.n_generation = counts[i];
		end.n_written = 2;
		assert_null(caller_call(c, STORE__STORE_TYPE__STORE_PUT_START,
					&put,
					&store__put_start_reply__descriptor));
		assert_non_null(strstr(caller_text(c), "columns differ"));
		caller_close(c);
		c = caller_join(&w->master, SETTLED_OTHER, false);
		assert_null(caller_call(c, STORE__STORE_TYPE__STORE_PUT_END,
					&end,
					&store__put_end_reply__descriptor));
		assert_non_null(strstr(caller_text(c), "columns differ"));
		caller_close(c);
	}
	settled_check(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_are_none_end_the_connection),
		cmocka_unit_test(sizes_that_are_none_are_refused),
		cmocka_unit_test(numbers_of_replicas_that_are_none_are_refused),
		cmocka_unit_test(
			one_key_too_many_in_a_message_ends_the_connection),
		cmocka_unit_test(
			a_million_keys_in_a_message_end_the_connection),
		cmocka_unit_test(
			columns_of_different_lengths_end_the_connection),
		/* The last: its puts end with its connection. */
		cmocka_unit_test(any_bytes_make_a_key),
	};

	return cmocka_run_group_tests(tests, settled_set_up, settled_tear_down);
}
