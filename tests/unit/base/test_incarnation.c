/* SPDX-License-Identifier: Apache-2.0 */
/* test_incarnation.c - incarnations, as any language can make them */
#include "base/incarnation.h"

#include "tests/lib/test.h"

/*
 * printf 'te incarnation' | openssl dgst -sha256 -mac hmac -macopt
 * hexkey:000102..1f, of which the first half.
 */
static void an_incarnation_is_the_hash_of_its_secret(void **state)
{
	static const uint8_t right[TEI_INCARNATION_LEN] = {
		0x22, 0x92, 0x87, 0xc9, 0x72, 0x21, 0x50, 0xad,
		0x39, 0xc9, 0x49, 0x25, 0xd3, 0x37, 0xf5, 0xc4,
	};
	uint8_t secret[TEI_LIFE_SECRET_LEN], incarnation[TEI_INCARNATION_LEN];

	(void)state;
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	assert_int_equal(tei_incarnation(secret, incarnation), 0);
	assert_memory_equal(incarnation, right, sizeof(right));
	secret[31] ^= 1;
	assert_int_equal(tei_incarnation(secret, incarnation), 0);
	assert_memory_not_equal(incarnation, right, sizeof(right));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_incarnation_is_the_hash_of_its_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
