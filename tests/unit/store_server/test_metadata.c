/* SPDX-License-Identifier: Apache-2.0 */
/* test_metadata.c - what a metadata server keeps, and for whom */
#include "store/server/metadata.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/faults.h"
#include "tests/lib/test.h"

#define KEY  "mooncake/rpc_meta/prefill-0"
#define NOW  1000
#define FAST 5000

static struct tes_metadata *m;
static const struct tes_metadata_limits roomy = {1000, 1000, 1 << 20};

static int set_up_with(const struct tes_metadata_limits *limits)
{
	return tes_metadata_create(limits, &m);
}

static int set_up(void **state)
{
	(void)state;
	return set_up_with(&roomy);
}

static int tear_down(void **state)
{
	(void)state;
	tes_metadata_destroy(m);
	m = NULL;
	return 0;
}

static struct tes_metadata_put make(const char *key, const char *value,
				    const char *life)
{
	return (struct tes_metadata_put){
		.key = key,
		.key_len = strlen(key),
		.value = value,
		.value_len = strlen(value),
		.life = life,
		.life_len = life ? strlen(life) : 0,
	};
}

static enum tes_metadata_result put(const char *key, const char *value)
{
	struct tes_metadata_put p = make(key, value, NULL);

	return tes_metadata_put(m, &p, NOW);
}

/* As an engine does: under its incarnation, for 10 s. */
static enum tes_metadata_result put_as(const char *life, const char *value,
				       const char *condition, uint64_t now)
{
	struct tes_metadata_put p = make(KEY, value, life);

	p.ttl_ms = 10000;
	if (condition) {
		p.condition = *condition ? TES_METADATA_IF_LIFE
					 : TES_METADATA_IF_ABSENT;
		p.if_life = condition;
		p.if_len = strlen(condition);
	}
	return tes_metadata_put(m, &p, now);
}

static void expect(const char *key, const char *value, uint64_t now)
{
	const char *found;
	size_t len;
	bool is = tes_metadata_get(m, key, strlen(key), now, &found, &len);

	if (!value) {
		assert_false(is);
		return;
	}
	assert_true(is);
	assert_int_equal(len, strlen(value));
	assert_memory_equal(found, value, len);
}

static int remove_as(const char *key, const char *life, const uint8_t *digest)
{
	const struct tes_metadata_removal r = {
		.key = key,
		.key_len = strlen(key),
		.if_life = life,
		.if_len = life ? strlen(life) : 0,
		.digest = digest,
	};

	return tes_metadata_remove(m, &r, NOW);
}

static void value_is_what_was_put_last(void **state)
{
	(void)state;
	expect("a", NULL, NOW);
	assert_int_equal(put("a", "1"), TES_METADATA_UPDATED);
	assert_int_equal(put("b", ""), TES_METADATA_UPDATED);
	assert_int_equal(put("a", "2"), TES_METADATA_UPDATED);
	assert_int_equal(put("a", "2"), TES_METADATA_UNCHANGED);
	expect("a", "2", NOW);
	expect("b", "", NOW);
	assert_int_equal(tes_metadata_count(m), 2);
	assert_int_equal(remove_as("a", NULL, NULL), 0);
	assert_int_equal(remove_as("a", NULL, NULL), -ENOENT);
	expect("a", NULL, NOW);
	expect("b", "", NOW);
}

static void value_expires_unless_it_is_put_again(void **state)
{
	(void)state;
	assert_int_equal(put_as("l1", "v", "", NOW), TES_METADATA_UPDATED);
	expect(KEY, "v", NOW + 9999);
	assert_int_equal(put_as("l1", "v", "l1", NOW + 9999),
			 TES_METADATA_UNCHANGED);
	expect(KEY, "v", NOW + 19998);
	expect(KEY, NULL, NOW + 19999);
	assert_int_equal(tes_metadata_count(m), 0);
	assert_int_equal(tes_metadata_bytes(m), 0);
}

static void name_of_a_living_engine_is_refused_to_another(void **state)
{
	(void)state;
	assert_int_equal(put_as("l1", "v1", NULL, NOW), TES_METADATA_UPDATED);
	assert_int_equal(put_as("l2", "v2", NULL, FAST), TES_METADATA_TAKEN);
	assert_int_equal(put(KEY, "v3"), TES_METADATA_TAKEN);
	/* The same words of another are another's all the same. */
	assert_int_equal(put_as("l2", "v1", NULL, FAST), TES_METADATA_TAKEN);
	expect(KEY, "v1", FAST);
	assert_int_equal(put_as("l1", "v1b", NULL, FAST), TES_METADATA_UPDATED);
	expect(KEY, "v1b", FAST);
	/* It has died and was not seen since. */
	assert_int_equal(put_as("l2", "v2", NULL, FAST + 10000),
			 TES_METADATA_UPDATED);
	expect(KEY, "v2", FAST + 10000);
}

static void conditions_hold_or_nothing_changes(void **state)
{
	(void)state;
	assert_int_equal(put_as("l1", "v1", "l0", NOW), TES_METADATA_CONFLICT);
	expect(KEY, NULL, NOW);
	assert_int_equal(put_as("l1", "v1", "", NOW), TES_METADATA_UPDATED);
	assert_int_equal(put_as("l2", "v2", "", NOW), TES_METADATA_CONFLICT);
	assert_int_equal(put_as("l2", "v2", "l0", NOW), TES_METADATA_CONFLICT);
	expect(KEY, "v1", NOW);
	/* A successor that knows its predecessor to be dead. */
	assert_int_equal(put_as("l2", "v2", "l1", NOW), TES_METADATA_UPDATED);
	expect(KEY, "v2", NOW);
	assert_int_equal(remove_as(KEY, "l1", NULL), -EEXIST);
	expect(KEY, "v2", NOW);
	assert_int_equal(remove_as(KEY, "l2", NULL), 0);
}

/* As put_as(), with the token of that digest. */
static enum tes_metadata_result put_with(const uint8_t *digest,
					 const char *life, const char *value,
					 uint64_t now)
{
	struct tes_metadata_put p = make(KEY, value, life);

	p.ttl_ms = 10000;
	p.condition = TES_METADATA_IF_LIFE;
	p.if_life = "l1";
	p.if_len = 2;
	p.digest = digest;
	return tes_metadata_put(m, &p, now);
}

static void who_has_read_an_incarnation_changes_nothing(void **state)
{
	static const uint8_t mine[TES_METADATA_DIGEST_LEN] = {1};
	static const uint8_t his[TES_METADATA_DIGEST_LEN] = {2};
	uint64_t bytes;

	(void)state;
	assert_int_equal(put_as("l1", "v1", "", NOW), TES_METADATA_UPDATED);
	bytes = tes_metadata_bytes(m);
	/* The same words with a token are more than without. */
	assert_int_equal(put_with(mine, "l1", "v1", NOW), TES_METADATA_UPDATED);
	assert_int_equal(tes_metadata_bytes(m), bytes + sizeof(mine));
	assert_int_equal(put_with(mine, "l1", "v1", NOW),
			 TES_METADATA_UNCHANGED);
	assert_int_equal(put_with(NULL, "l1", "v1", NOW), TES_METADATA_SECURED);
	assert_int_equal(put_with(his, "l1", "v1", NOW), TES_METADATA_SECURED);
	assert_int_equal(put_with(his, "l2", "v2", NOW), TES_METADATA_SECURED);
	assert_int_equal(put_as("l1", "v2", NULL, NOW), TES_METADATA_SECURED);
	assert_int_equal(put(KEY, "v2"), TES_METADATA_TAKEN);
	assert_int_equal(remove_as(KEY, NULL, NULL), -EACCES);
	assert_int_equal(remove_as(KEY, "l1", his), -EACCES);
	assert_int_equal(remove_as(KEY, "l2", mine), -EEXIST);
	expect(KEY, "v1", NOW + 9999);
	/* Its successor knows the token; who does not waits until it ends. */
	assert_int_equal(put_with(mine, "l2", "v2", NOW), TES_METADATA_UPDATED);
	assert_int_equal(put_as("l3", "v3", NULL, NOW + 10000),
			 TES_METADATA_UPDATED);
	assert_int_equal(put_with(mine, "l1", "v1", NOW + 10000),
			 TES_METADATA_CONFLICT);
	assert_int_equal(remove_as(KEY, NULL, NULL), 0);
	assert_int_equal(tes_metadata_bytes(m), 0);
}

static void restart_without_incarnation_is_not_refused(void **state)
{
	(void)state;
	assert_int_equal(put(KEY, "{\"rpc_port\":1}"), TES_METADATA_UPDATED);
	assert_int_equal(put(KEY, "{\"rpc_port\":1}"), TES_METADATA_UNCHANGED);
	assert_int_equal(put(KEY, "{\"rpc_port\":2}"), TES_METADATA_UPDATED);
	expect(KEY, "{\"rpc_port\":2}", NOW);
}

static void limits_refuse_and_keep_what_is_there(void **state)
{
	static const struct tes_metadata_limits tight = {2, 10, 100000};
	struct tes_metadata_put p = make("k", "12345678901", NULL);
	char long_key[TES_METADATA_KEY_MAX + 2];
	uint64_t bytes;

	(void)state;
	tes_metadata_destroy(m);
	assert_int_equal(set_up_with(&tight), 0);
	assert_int_equal(tes_metadata_put(m, &p, NOW), TES_METADATA_TOO_LONG);
	memset(long_key, 'k', sizeof(long_key) - 1);
	long_key[sizeof(long_key) - 1] = '\0';
	assert_int_equal(put(long_key, "v"), TES_METADATA_TOO_LONG);
	assert_int_equal(put("a", "1"), TES_METADATA_UPDATED);
	assert_int_equal(put_as("l1", "v", NULL, NOW), TES_METADATA_UPDATED);
	bytes = tes_metadata_bytes(m);
	assert_int_equal(put("c", "1"), TES_METADATA_FULL);
	assert_int_equal(put("a", "2"), TES_METADATA_UPDATED);
	assert_int_equal(tes_metadata_bytes(m), bytes);
	/* What has expired takes no room. */
	p = make("c", "1", NULL);
	assert_int_equal(tes_metadata_put(m, &p, NOW + 10000),
			 TES_METADATA_UPDATED);
}

static void bytes_of_all_are_bounded(void **state)
{
	static const struct tes_metadata_limits tight = {1000, 1000, 1000};
	char key[16];
	int n = 0;

	(void)state;
	tes_metadata_destroy(m);
	assert_int_equal(set_up_with(&tight), 0);
	do
		snprintf(key, sizeof(key), "k%d", n);
	while (put(key, "value") == TES_METADATA_UPDATED && ++n < 1000);
	assert_in_range(n, 2, 30);
	assert_true(tes_metadata_bytes(m) <= 1000);
	assert_int_equal(put("k0", "VALUE"), TES_METADATA_UPDATED);
}

static void many_come_and_go_by_themselves(void **state)
{
	struct tes_metadata_put p;
	char key[16];

	(void)state;
	for (int i = 0; i < 900; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		p = make(key, "v", "l");
		p.ttl_ms = 1 + (uint64_t)i;
		assert_int_equal(tes_metadata_put(m, &p, NOW),
				 TES_METADATA_UPDATED);
	}
	for (int i = 0; i < 900; i += 10) {
		snprintf(key, sizeof(key), "k%d", i);
		expect(key, "v", NOW + (uint64_t)i);
		expect(key, NULL, NOW + (uint64_t)i + 1);
	}
	for (int i = 0; i < 20; i++) /* each call does some of the work */
		expect("none", NULL, NOW + 1000);
	assert_int_equal(tes_metadata_count(m), 0);
}

static void no_memory_changes_nothing(void **state)
{
	struct tes_metadata_put p = make("k", "new", "l");
	enum tes_metadata_result result;

	(void)state;
	p.ttl_ms = 5;
	assert_int_equal(put("k", "old"), TES_METADATA_UPDATED);
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		result = tes_metadata_put(m, &p, NOW);
		if (result == TES_METADATA_FULL)
			expect("k", "old", NOW);
		else
			assert_int_equal(result, TES_METADATA_UPDATED);
	}
	expect("k", "new", NOW);
}

#define WITH_ONE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ONE(value_is_what_was_put_last),
		WITH_ONE(value_expires_unless_it_is_put_again),
		WITH_ONE(name_of_a_living_engine_is_refused_to_another),
		WITH_ONE(conditions_hold_or_nothing_changes),
		WITH_ONE(who_has_read_an_incarnation_changes_nothing),
		WITH_ONE(restart_without_incarnation_is_not_refused),
		WITH_ONE(limits_refuse_and_keep_what_is_there),
		WITH_ONE(bytes_of_all_are_bounded),
		WITH_ONE(many_come_and_go_by_themselves),
		WITH_ONE(no_memory_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
