/* SPDX-License-Identifier: Apache-2.0 */
/* test_group.c - a proof is good for one connection, one side, one secret */
#include "te/region/group.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/test.h"

static struct tei_group_set set;
static struct tei_group_challenge challenge;

static int prepare(void **state)
{
	uint8_t secret[TE_GROUP_SECRET_LEN];

	(void)state;
	set.n = 0;
	memset(secret, 1, sizeof(secret));
	assert_int_equal(tei_group_add(&set, secret), 0);
	memset(secret, 2, sizeof(secret));
	assert_int_equal(tei_group_add(&set, secret), 1);
	assert_int_equal(tei_random(&challenge, sizeof(challenge)), 0);
	return 0;
}

static void proof_convinces_who_knows_the_secret(void **state)
{
	uint8_t proof[TEI_GROUP_PROOF_LEN];

	(void)state;
	assert_int_equal(tei_group_prove(&set.group[0], &challenge, 'i', proof),
			 0);
	assert_true(tei_group_verify(&set.group[0], &challenge, 'i', proof));
	assert_false(tei_group_verify(&set.group[1], &challenge, 'i', proof));
}

static void proof_cannot_be_mirrored(void **state)
{
	uint8_t proof[TEI_GROUP_PROOF_LEN];

	(void)state;
	assert_int_equal(tei_group_prove(&set.group[0], &challenge, 'o', proof),
			 0);
	assert_false(tei_group_verify(&set.group[0], &challenge, 'i', proof));
}

static void proof_is_bound_to_nonces_and_incarnations(void **state)
{
	uint8_t *bytes = (uint8_t *)&challenge;
	uint8_t proof[TEI_GROUP_PROOF_LEN];

	(void)state;
	assert_int_equal(tei_group_prove(&set.group[0], &challenge, 'i', proof),
			 0);
	for (size_t i = 0; i < sizeof(challenge); i++) {
		bytes[i] ^= 1;
		assert_false(tei_group_verify(&set.group[0], &challenge, 'i',
					      proof));
		bytes[i] ^= 1;
	}
	assert_true(tei_group_verify(&set.group[0], &challenge, 'i', proof));
}

static void every_bit_of_a_proof_counts(void **state)
{
	uint8_t proof[TEI_GROUP_PROOF_LEN];

	(void)state;
	assert_int_equal(tei_group_prove(&set.group[0], &challenge, 'i', proof),
			 0);
	for (size_t i = 0; i < 8 * sizeof(proof); i++) {
		proof[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_false(tei_group_verify(&set.group[0], &challenge, 'i',
					      proof));
		proof[i / 8] ^= (uint8_t)(1 << i % 8);
	}
}

static void group_is_found_by_its_tag_and_added_once(void **state)
{
	uint8_t secret[TE_GROUP_SECRET_LEN], stranger[TEI_GROUP_TAG_LEN] = {0};

	(void)state;
	memset(secret, 1, sizeof(secret));
	assert_int_equal(tei_group_add(&set, secret), 0);
	assert_int_equal(set.n, 2);
	assert_int_equal(tei_group_by_tag(&set, set.group[1].tag), 1);
	assert_int_equal(tei_group_by_tag(&set, stranger), -1);
}

static void groups_end_at_64(void **state)
{
	uint8_t secret[TE_GROUP_SECRET_LEN];

	(void)state;
	for (int i = 2; i < TEI_GROUPS_MAX; i++) {
		memset(secret, i + 1, sizeof(secret));
		assert_int_equal(tei_group_add(&set, secret), i);
	}
	memset(secret, 0xee, sizeof(secret));
	assert_int_equal(tei_group_add(&set, secret), -ENOBUFS);
	assert_int_equal(set.n, TEI_GROUPS_MAX);
}

static void peer_secret_is_of_one_life_and_one_name(void **state)
{
	uint8_t own[TEI_PEER_SECRET_LEN] = {1}, other[TEI_PEER_SECRET_LEN];
	uint8_t a[TEI_PEER_SECRET_LEN], b[TEI_PEER_SECRET_LEN];

	(void)state;
	memset(other, 2, sizeof(other));
	assert_int_equal(tei_peer_secret(own, "host:1", a), 0);
	assert_int_equal(tei_peer_secret(own, "host:1", b), 0);
	assert_memory_equal(a, b, sizeof(a));
	assert_int_equal(tei_peer_secret(own, "host:2", b), 0);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_int_equal(tei_peer_secret(other, "host:1", b), 0);
	assert_memory_not_equal(a, b, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(proof_convinces_who_knows_the_secret,
				       prepare),
		cmocka_unit_test_setup(proof_cannot_be_mirrored, prepare),
		cmocka_unit_test_setup(
			proof_is_bound_to_nonces_and_incarnations, prepare),
		cmocka_unit_test_setup(every_bit_of_a_proof_counts, prepare),
		cmocka_unit_test_setup(group_is_found_by_its_tag_and_added_once,
				       prepare),
		cmocka_unit_test_setup(groups_end_at_64, prepare),
		cmocka_unit_test(peer_secret_is_of_one_life_and_one_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
