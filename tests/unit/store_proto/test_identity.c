/* SPDX-License-Identifier: Apache-2.0 */
/* test_identity.c - ids of clients and engines, as any language can make them */
#include <string.h>

#include "store/proto/identity.h"
#include "tests/lib/test.h"

/* printf 'te store client' | cat - 32-bytes | sha256sum, of bytes 0 .. 31 */
static void an_id_is_the_hash_of_its_secret(void **state)
{
	static const uint8_t right[TES_STORE_CLIENT_ID_LEN] = {
		0xb1, 0x93, 0x7a, 0xf7, 0xc3, 0xf6, 0x8b, 0x23,
		0x57, 0xb5, 0x1b, 0x71, 0xc6, 0x1b, 0xcc, 0xc6,
	};
	uint8_t secret[TES_STORE_SECRET_LEN], id[TES_STORE_CLIENT_ID_LEN];
	uint8_t other[TES_STORE_CLIENT_ID_LEN];

	(void)state;
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	assert_int_equal(tes_client_id(secret, id), 0);
	assert_memory_equal(id, right, sizeof(right));
	secret[31] ^= 1;
	assert_int_equal(tes_client_id(secret, other), 0);
	assert_memory_not_equal(id, other, sizeof(id));
}

/* HMAC-SHA256 of the same bytes as key, of the text and of 0x0102030405060708 */
static void an_epoch_is_proven_by_its_own_proof(void **state)
{
	static const uint8_t right[TES_STORE_PROOF_LEN] = {
		0x89, 0x69, 0x79, 0x4a, 0xa8, 0x3d, 0xb7, 0xa5,
		0x29, 0x63, 0x4a, 0xc6, 0xfa, 0x97, 0x58, 0x98,
		0x6f, 0xd8, 0xb7, 0xb3, 0xd7, 0x4c, 0xed, 0x01,
		0x67, 0x4e, 0xb4, 0x77, 0xfc, 0x1a, 0x14, 0xa2,
	};
	const uint64_t epoch = 0x0102030405060708;
	uint8_t key[TES_STORE_EPOCH_KEY_LEN], proof[TES_STORE_PROOF_LEN];

	(void)state;
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)i;
	assert_int_equal(tes_epoch_prove(key, epoch, proof), 0);
	assert_memory_equal(proof, right, sizeof(right));
	assert_true(tes_epoch_is_proven(key, epoch, proof, sizeof(proof)));
	assert_false(tes_epoch_is_proven(key, epoch + 1, proof, sizeof(proof)));
	assert_false(tes_epoch_is_proven(key, epoch, proof, sizeof(proof) - 1));
	assert_false(tes_epoch_is_proven(key, epoch, NULL, 0));
	proof[31] ^= 1;
	assert_false(tes_epoch_is_proven(key, epoch, proof, sizeof(proof)));
	proof[31] ^= 1;
	key[0] ^= 1;
	assert_false(tes_epoch_is_proven(key, epoch, proof, sizeof(proof)));
}

static void a_name_is_proven_by_its_own_proof(void **state)
{
	static const uint8_t life[TES_STORE_LIFE_LEN] = {1}, other[16] = {2};
	const struct tes_name_hold hold = {.port = 50051,
					   .seed = 3,
					   .epoch = 4,
					   .n = 5,
					   .young = true,
					   .life = life,
					   .name = "host:1"};
	struct tes_name_hold as[] = {hold, hold, hold};
	uint8_t key[TES_STORE_EPOCH_KEY_LEN] = {0};
	uint8_t proof[TES_STORE_NAME_LEN];
	struct tes_name_hold read = {
		.port = 50051, .life = life, .name = "host:1"};

	(void)state;
	assert_int_equal(tes_name_prove(key, &hold, proof), 0);
	assert_true(tes_name_is_proven(key, &read, proof, sizeof(proof)));
	assert_int_equal(read.seed, 3);
	assert_int_equal(read.epoch, 4);
	assert_int_equal(read.n, 5);
	assert_true(read.young);
	as[0].port++;
	as[1].life = other;
	as[2].name = "host:12";
	for (size_t i = 0; i < TEST_COUNT(as); i++)
		assert_false(
			tes_name_is_proven(key, &as[i], proof, sizeof(proof)));
	assert_false(tes_name_is_proven(key, &read, proof, sizeof(proof) - 1));
	assert_false(tes_name_is_proven(key, &read, NULL, 0));
	for (size_t i = 0; i < sizeof(proof); i++) {
		proof[i] ^= 1;
		assert_false(
			tes_name_is_proven(key, &read, proof, sizeof(proof)));
		proof[i] ^= 1;
	}
	key[0] ^= 1;
	assert_false(tes_name_is_proven(key, &read, proof, sizeof(proof)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_is_the_hash_of_its_secret),
		cmocka_unit_test(an_epoch_is_proven_by_its_own_proof),
		cmocka_unit_test(a_name_is_proven_by_its_own_proof),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
