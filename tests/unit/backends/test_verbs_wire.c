/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_wire.c - what peers may say of their endpoints and regions */
#include <errno.h>
#include <string.h>

#include "backends/verbs/wire.h"
#include "base/chance.h"
#include "te/backend.h"
#include "tests/lib/test.h"

static struct verbs_address roce(void)
{
	struct verbs_address a = {
		.link = VERBS_LINK_ETHERNET,
		.gid.raw = {[10] = 0xff, [11] = 0xff, 10, 9, 0, 1},
		.offer = {2, 256, 1024, 16, 8},
		.lanes = {{17, 0}, {0xffffff, 0xffffff}},
	};

	return a;
}

static const char *said(const struct verbs_address *a)
{
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);
	struct verbs_address out;

	assert_int_equal(tei_verbs_address_encode(a, bytes, &len), 0);
	return tei_verbs_address_decode(bytes, len, &out);
}

static void addresses_come_back_as_they_went(void **state)
{
	struct verbs_address a = roce(), b;
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);

	(void)state;
	assert_int_equal(tei_verbs_address_encode(&a, bytes, &len), 0);
	assert_int_equal(len, 27 + 2 * 8);
	assert_null(tei_verbs_address_decode(bytes, len, &b));
	assert_int_equal(b.link, a.link);
	assert_memory_equal(&b.gid, &a.gid, sizeof(a.gid));
	assert_memory_equal(&b.offer, &a.offer, sizeof(a.offer));
	assert_memory_equal(b.lanes, a.lanes, 2 * sizeof(a.lanes[0]));
	for (size_t cut = 0; cut < len; cut++)
		assert_non_null(tei_verbs_address_decode(bytes, cut, &b));
	assert_non_null(tei_verbs_address_decode(bytes, len + 1, &b));
	len = 30;
	assert_int_equal(tei_verbs_address_encode(&a, bytes, &len), -ENOBUFS);
}

static void largest_address_fits(void **state)
{
	struct verbs_address a = roce();

	(void)state;
	a.offer.lanes = VERBS_LANES_MAX;
	a.offer.depth = VERBS_DEPTH_MAX;
	for (uint32_t i = 0; i < VERBS_LANES_MAX; i++)
		a.lanes[i].number = 100 + i;
	assert_null(said(&a));
}

static void nonsense_in_the_handshake_is_refused_with_its_cause(void **state)
{
	struct verbs_address a = roce();

	(void)state;
	a.lanes[1].number = 0;
	assert_string_equal(said(&a), "queue pair number out of range");
	a.lanes[1].number = 1;
	assert_string_equal(said(&a), "queue pair number out of range");
	a.lanes[1].number = 1u << 24;
	assert_string_equal(said(&a), "queue pair number out of range");
	a.lanes[1].number = 17;
	assert_string_equal(said(&a), "a queue pair is named twice");
	a = roce();
	a.lanes[0].psn = 1u << 24;
	assert_string_equal(said(&a), "packet number out of range");
	a = roce();
	a.offer.mtu = 0;
	assert_string_equal(said(&a), "MTU is none");
	a = roce();
	memset(&a.gid, 0, sizeof(a.gid));
	assert_string_equal(said(&a), "GID is no host's");
	memset(&a.gid, 0xff, sizeof(a.gid));
	assert_string_equal(said(&a), "GID is no host's");
	a = roce();
	a.link = 3;
	assert_string_equal(said(&a), "unknown kind of link");
	a = roce();
	a.lid = 7;
	assert_string_equal(said(&a), "LID out of range");
	a.link = VERBS_LINK_IB;
	assert_null(said(&a));
	a.lid = 0xc000;
	assert_string_equal(said(&a), "LID out of range");
	a.lid = 0;
	assert_string_equal(said(&a), "LID out of range");
}

static void refused_address_leaves_the_result_alone(void **state)
{
	struct verbs_address a = roce(), out, before;
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);

	(void)state;
	memset(&before, 0x5a, sizeof(before));
	out = before;
	a.lanes[0].number = 0;
	assert_int_equal(tei_verbs_address_encode(&a, bytes, &len), 0);
	assert_non_null(tei_verbs_address_decode(bytes, len, &out));
	assert_memory_equal(&out, &before, sizeof(out));
}

/* ---- keys ---- */

/* Of 250 bytes at 1000, in chunks of 100; the n-th has key 11 * n. */
static size_t encode_three(uint8_t *bytes)
{
	const struct verbs_key k = {
		.range = {.base = 1000, .chunk = 100, .length = 250, .n = 3}};
	size_t len = TEI_BLOB_MAX;

	assert_int_equal(tei_verbs_key_encode(&k, bytes, &len), 0);
	for (uint32_t i = 0; i < k.range.n; i++)
		tei_verbs_key_set(bytes, i, 11 * (i + 1));
	return len;
}

static void keys_come_back_as_they_went(void **state)
{
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = encode_three(bytes);
	struct verbs_key k;

	(void)state;
	assert_int_equal(len, VERBS_KEY_LEN + 3 * 4);
	assert_null(tei_verbs_key_decode(bytes, len, &k));
	assert_int_equal(k.range.base, 1000);
	assert_int_equal(k.range.chunk, 100);
	assert_int_equal(k.range.length, 250);
	assert_int_equal(k.range.n, 3);
	for (size_t cut = 0; cut < len; cut++) {
		if (cut != VERBS_KEY_LEN) /* then it is of no chunk */
			assert_non_null(tei_verbs_key_decode(bytes, cut, &k));
	}
	assert_non_null(tei_verbs_key_decode(bytes, len + 1, &k));
	assert_non_null(tei_verbs_key_decode(bytes, len + 4, &k));
}

static void largest_key_fits(void **state)
{
	struct verbs_key k = {
		.range = {.base = 1 << 20,
			  .chunk = 16 << 20,
			  .length = VERBS_CHUNKS_MAX * (16ull << 20),
			  .n = VERBS_CHUNKS_MAX}};
	static uint8_t bytes[TEI_KEY_MAX];
	size_t len = sizeof(bytes);
	uint32_t rkey;
	uint64_t room;

	(void)state;
	assert_true(k.range.length >
		    63ull << 30); /* 64 of them are a gigabyte */
	assert_int_equal(tei_verbs_key_encode(&k, bytes, &len), 0);
	tei_verbs_key_set(bytes, k.range.n - 1, 0xffffffff);
	assert_null(tei_verbs_key_decode(bytes, len, &k));
	assert_true(tei_verbs_key_at(&k, k.range.base + k.range.length - 1,
				     &rkey, &room));
	assert_int_equal(rkey, 0xffffffff);
	assert_int_equal(room, 1);
	k.range.n++;
	len = sizeof(bytes);
	assert_int_equal(tei_verbs_key_encode(&k, bytes, &len), -ENOBUFS);
}

static void key_of_an_address_is_that_of_its_chunk(void **state)
{
	struct verbs_key k, local = {.range = {.base = 1000, .length = 250}};
	uint8_t bytes[TEI_BLOB_MAX];
	uint64_t room;
	uint32_t rkey;

	(void)state;
	assert_null(tei_verbs_key_decode(bytes, encode_three(bytes), &k));
	assert_true(tei_verbs_key_at(&k, 1000, &rkey, &room));
	assert_int_equal(rkey, 11);
	assert_int_equal(room, 100);
	assert_true(tei_verbs_key_at(&k, 1199, &rkey, &room));
	assert_int_equal(rkey, 22);
	assert_int_equal(room, 1);
	assert_true(tei_verbs_key_at(&k, 1200, &rkey, &room));
	assert_int_equal(rkey, 33);
	assert_int_equal(room, 50);
	assert_false(tei_verbs_key_at(&k, 1250, &rkey, &room));
	assert_false(tei_verbs_key_at(&k, 999, &rkey, &room));
	assert_false(tei_verbs_key_at(&k, UINT64_MAX, &rkey, &room));
	assert_false(tei_verbs_key_at(&local, 1000, &rkey, &room));
}

static const char *said_key(const struct verbs_key *k)
{
	uint8_t bytes[TEI_BLOB_MAX] = {0};
	size_t len = sizeof(bytes);
	struct verbs_key out;

	assert_int_equal(tei_verbs_key_encode(k, bytes, &len), 0);
	return tei_verbs_key_decode(bytes, len, &out);
}

static void forged_keys_are_refused(void **state)
{
	struct verbs_key k = {
		.range = {.base = 1000, .chunk = 100, .length = 250, .n = 3}};

	(void)state;
	assert_null(said_key(&k));
	k.range.n = 2;
	assert_string_equal(said_key(&k), "chunks do not cover the region");
	k.range.n = 3;
	k.range.chunk = 0;
	assert_string_equal(said_key(&k), "chunks do not cover the region");
	k.range.chunk = 100;
	k.range.length = 0;
	assert_string_equal(said_key(&k), "region of no or too many bytes");
	k.range.length = UINT64_MAX;
	k.range.chunk = UINT64_MAX;
	k.range.n = 1;
	assert_string_equal(said_key(&k), "region of no or too many bytes");
	k.range.base = 1; /* the last byte there is */
	assert_null(said_key(&k));
}

static void random_bytes_are_taken_or_refused_but_do_no_harm(void **state)
{
	uint8_t bytes[TEI_BLOB_MAX];
	uint64_t seed = 7, room;
	struct verbs_address a;
	struct verbs_key k;
	uint32_t rkey;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t len = tei_chance(&seed) % (sizeof(bytes) + 1);

		for (size_t j = 0; j < len; j++)
			bytes[j] = (uint8_t)tei_chance(&seed);
		bytes[0] = VERBS_WIRE_VERSION;
		if (!tei_verbs_address_decode(bytes, len, &a))
			assert_null(tei_verbs_offer_fault(&a.offer));
		if (!tei_verbs_key_decode(bytes, len, &k) &&
		    tei_verbs_key_at(&k, k.range.base, &rkey, &room))
			assert_true(room && room <= k.range.length);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_come_back_as_they_went),
		cmocka_unit_test(largest_address_fits),
		cmocka_unit_test(
			nonsense_in_the_handshake_is_refused_with_its_cause),
		cmocka_unit_test(refused_address_leaves_the_result_alone),
		cmocka_unit_test(keys_come_back_as_they_went),
		cmocka_unit_test(largest_key_fits),
		cmocka_unit_test(key_of_an_address_is_that_of_its_chunk),
		cmocka_unit_test(forged_keys_are_refused),
		cmocka_unit_test(
			random_bytes_are_taken_or_refused_but_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
