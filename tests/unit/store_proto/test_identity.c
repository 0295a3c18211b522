/* SPDX-License-Identifier: Apache-2.0 */
/* test_identity.c - ids of clients, as any language can make them */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_is_the_hash_of_its_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
