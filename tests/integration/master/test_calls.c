/* SPDX-License-Identifier: Apache-2.0 */
/* test_calls.c - what clients ask a real master, and what it says of itself */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/proto/protocol.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define MIB (1ull << 20)

static struct master master;

static int start(void **state)
{
	(void)state;
	master_start(&master, (const char *const[]){"-client_ttl=20", NULL});
	return 0;
}

static int stop(void **state)
{
	(void)state;
	master_stop(&master);
	return 0;
}

/* Put @key of 100 bytes as @c. */
static void hello_tells_what_a_member_needs(void **state)
{
	struct caller *c = caller_open(&master);
	Store__HelloReply *reply = caller_hello(c, 1, false);
	uint8_t none[TES_STORE_GROUP_LEN] = {0};

	(void)state;
	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	assert_int_equal(reply->version, TES_STORE_VERSION);
	assert_int_not_equal(reply->epoch, 0);
	assert_int_equal(reply->group.len, TES_STORE_GROUP_LEN);
	assert_memory_not_equal(reply->group.data, none, sizeof(none));
	assert_int_equal(reply->heartbeat_ms, 1000);
	assert_int_equal(reply->client_ttl_ms, 20000);
	caller_free(reply);
	caller_close(c);
}

static void another_version_is_refused_with_words(void **state)
{
	struct caller *c = caller_open(&master);
	Store__Hello m = STORE__HELLO__INIT;
	Store__HelloReply *reply;

	(void)state;
	m.version = TES_STORE_VERSION + 1;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_HELLO, &m,
			    &store__hello_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->status, -300);
	assert_true(strlen(reply->why) > 0);
	assert_int_equal(reply->group.len, 0);
	caller_free(reply);
	assert_true(caller_wait_down(c));
	assert_non_null(strstr(caller_text(c), "version"));
	caller_close(c);
}

static void an_object_is_there_from_end_to_remove(void **state)
{
	struct caller *owner = caller_join(&master, 2, false);
	struct caller *user = caller_join(&master, 3, false);
	uint64_t generation, epoch, size;

	(void)state;
	assert_int_equal(caller_mount(owner, 2, MIB), 0);
	assert_int_equal(caller_lookup(user, "k", &size), -704);
	assert_int_equal(caller_put_start(user, "k", 100, &generation, &epoch),
			 0);
	assert_int_equal(caller_lookup(user, "k", &size), -703);
	assert_int_equal(caller_put_end(user, "k", generation, epoch, true), 0);
	assert_int_equal(caller_lookup(owner, "k", &size), 0);
	assert_int_equal(size, 100);
	assert_int_equal(caller_put_start(owner, "k", 9, &generation, &epoch),
			 -705);
	assert_int_equal(caller_remove(owner, "k", false), -706);
	assert_int_equal(caller_remove(owner, "k", true), 0);
	assert_int_equal(caller_lookup(user, "k", &size), -704);
	caller_close(user);
	caller_close(owner);
}

static void a_pool_without_live_memory_is_full(void **state)
{
	struct caller *c = caller_join(&master, 4, false);
	uint64_t generation, epoch;

	(void)state;
	assert_int_equal(caller_put_start(c, "big", 100, &generation, &epoch),
			 -200);
	caller_close(c);
}

static void an_owner_that_disconnects_takes_its_objects(void **state)
{
	struct caller *owner = caller_join(&master, 5, false);
	struct caller *user = caller_join(&master, 6, false);
	uint64_t end, size;

	(void)state;
	assert_int_equal(caller_mount(owner, 5, MIB), 0);
	caller_put(user, "gone");
	assert_int_equal(caller_lookup(user, "gone", &size), 0);
	caller_close(owner);
	end = tei_now_ms() + SOON_MS;
	while (caller_lookup(user, "gone", &size) == 0)
		assert_true(tei_now_ms() < end);
	assert_int_equal(caller_lookup(user, "gone", &size), -704);
	caller_close(user);
}

static int32_t remove_all(struct caller *c, const char *pattern, bool force,
			  uint64_t *removed)
{
	Store__RemoveAll m = STORE__REMOVE_ALL__INIT;
	Store__RemoveAllReply *reply;
	int32_t status;

	m.pattern = (char *)(uintptr_t)pattern;
	m.force = force;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_REMOVE_ALL, &m,
			    &store__remove_all_reply__descriptor);
	assert_non_null(reply);
	status = reply->status;
	*removed = reply->removed;
	assert_int_equal(status != 0, strlen(reply->why) > 0);
	caller_free(reply);
	return status;
}

static void objects_are_removed_by_pattern(void **state)
{
	struct caller *c = caller_join(&master, 17, false);
	uint64_t removed, size;
	char key[32];

	(void)state;
	assert_int_equal(caller_mount(c, 17, MIB), 0);
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "pattern-%d", i);
		caller_put(c, key);
	}
	assert_int_equal(caller_lookup(c, "pattern-7", &size), 0);
	assert_int_equal(remove_all(c, "(", false, &removed), -600);
	assert_int_equal(remove_all(c, "^pattern-[0-9]$", false, &removed), 0);
	assert_int_equal(removed, 9); /* one is leased */
	assert_int_equal(remove_all(c, "^pattern-.$", true, &removed), 0);
	assert_int_equal(removed, 1);
	assert_int_equal(remove_all(c, "^pattern-", true, &removed), 0);
	assert_int_equal(removed, 90);
	caller_close(c);
}

static void a_batch_is_answered_key_by_key(void **state)
{
	struct caller *c = caller_join(&master, 14, false);
	ProtobufCBinaryData keys = {15, (uint8_t *)"here"
						   "nowhere"
						   "here"};
	uint32_t lens[] = {4, 7, 4};
	const char *partial =
		"master_batch_get_replica_list_partial_successes_total";
	uint64_t before = master_metric(&master, partial);
	Store__Lookup m = STORE__LOOKUP__INIT;
	Store__LookupReply *reply;

	(void)state;
	assert_int_equal(caller_mount(c, 14, MIB), 0);
	caller_put(c, "here");
	m.keys = keys;
	m.key_lens = lens;
	m.n_key_lens = TEST_COUNT(lens);
	reply = caller_call(c, STORE__STORE_TYPE__STORE_LOOKUP, &m,
			    &store__lookup_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->n_status, 3);
	assert_int_equal(reply->n_generation, 3);
	assert_int_equal(reply->status[0], 0);
	assert_int_equal(reply->status[1], -704);
	assert_int_equal(reply->status[2], 0);
	assert_int_equal(reply->address[0], reply->address[2]);
	assert_int_equal(reply->n_segments, 1);
	assert_string_equal(reply->segments[0]->engine, "127.0.0.1:1014");
	assert_true(reply->lease_ms > 0);
	caller_free(reply);
	assert_int_equal(master_metric(&master, partial), before + 1);
	caller_close(c);
}

static void an_unmounted_segment_takes_its_objects(void **state)
{
	struct caller *owner = caller_join(&master, 15, false);
	struct caller *other = caller_join(&master, 16, false);
	uint64_t size;

	(void)state;
	assert_int_equal(caller_mount(owner, 15, MIB), 0);
	caller_put(owner, "mine");
	/* Nobody else may, whatever the payload says. */
	assert_int_equal(caller_unmount(other, 15), -101);
	assert_int_equal(caller_unmount(owner, 15), 0);
	assert_int_equal(caller_lookup(other, "mine", &size), -704);
	caller_close(owner);
	caller_close(other);
}

static void a_client_comes_back_to_its_session(void **state)
{
	struct caller *owner = caller_join(&master, 7, false), *again;
	struct caller *user = caller_join(&master, 8, false);
	uint64_t size;

	(void)state;
	assert_int_equal(caller_mount(owner, 7, MIB), 0);
	caller_put(user, "stays");
	/* The new connection takes the place of the old one. */
	again = caller_join(&master, 7, false);
	assert_true(caller_wait_down(owner));
	assert_int_equal(caller_lookup(user, "stays", &size), 0);
	assert_int_equal(caller_remove(again, "stays", true), 0);
	caller_close(owner);
	caller_close(again);
	caller_close(user);
}

static void heartbeats_belong_to_a_session(void **state)
{
	struct caller *c = caller_open(&master), *heart;
	Store__HelloReply *reply = caller_hello(c, 9, true);
	uint64_t epoch;
	bool remount;

	(void)state;
	assert_non_null(reply); /* nobody of that name has joined */
	assert_int_equal(reply->status, -103);
	caller_free(reply);
	assert_true(caller_wait_down(c));
	caller_close(c);

	c = caller_open(&master);
	reply = caller_hello(c, 9, false);
	epoch = reply->epoch;
	caller_free(reply);
	heart = caller_join(&master, 9, true);
	caller_heartbeat(heart, epoch, &remount);
	assert_true(remount);
	assert_int_equal(caller_mount(c, 9, MIB), 0);
	caller_heartbeat(heart, epoch, &remount);
	assert_false(remount);
	/* It is told the right one, and has what it had. */
	caller_heartbeat(heart, epoch + 1, &remount);
	assert_false(remount);
	caller_heartbeat_of(heart, epoch, 1, &remount);
	assert_false(remount);
	caller_heartbeat_of(heart, epoch, 2, &remount); /* it lost one */
	assert_true(remount);
	caller_close(heart);
	caller_close(c);
}

static void a_mount_said_twice_is_one_mount(void **state)
{
	struct caller *c = caller_open(&master), *heart;
	Store__HelloReply *reply = caller_hello(c, 11, false);
	uint64_t epoch = reply->epoch;
	bool remount;

	(void)state;
	caller_free(reply);
	heart = caller_join(&master, 11, true);
	assert_int_equal(caller_mount(c, 11, MIB), 0);
	assert_int_equal(caller_mount(c, 11, MIB), 0); /* the reply was lost */
	assert_int_equal(caller_unmount(c, 11), 0);
	caller_heartbeat(heart, epoch, &remount);
	assert_true(remount);
	caller_close(heart);
	caller_close(c);
}

static void what_is_out_of_turn_ends_the_connection(void **state)
{
	struct caller *c = caller_open(&master);
	Store__Pool pool = STORE__POOL__INIT;
	Store__Heartbeat beat = STORE__HEARTBEAT__INIT;

	(void)state;
	assert_null(caller_call(c, STORE__STORE_TYPE__STORE_POOL, &pool,
				&store__pool_reply__descriptor));
	assert_non_null(strstr(caller_text(c), "hello"));
	caller_close(c);

	c = caller_join(&master, 10, false);
	assert_null(caller_hello(c, 10, false)); /* twice */
	caller_close(c);

	c = caller_join(&master, 10, false);
	assert_null(caller_call(c, STORE__STORE_TYPE__STORE_HEARTBEAT, &beat,
				&store__heartbeat_reply__descriptor));
	caller_close(c);

	c = caller_join(&master, 10, false);
	caller_send(c, STORE__STORE_TYPE__STORE_POOL, 0, 0, &pool);
	assert_true(caller_wait_down(c)); /* a request without an id */
	caller_close(c);
}

static void who_says_nothing_is_not_waited_for(void **state)
{
	struct caller *silent = caller_open(&master);
	struct caller *sly = caller_open(&master);
	Store__Pool pool = STORE__POOL__INIT;

	(void)state;
	caller_send(sly, STORE__STORE_TYPE__STORE_POOL, TEI_FRAME_REPLY, 5,
		    &pool);
	assert_true(caller_wait_down(sly));
	assert_true(caller_wait_down(silent));
	caller_close(sly);
	caller_close(silent);
}

static void a_writer_that_vanishes_is_fenced_at_the_owner(void **state)
{
	struct caller *owner = caller_join(&master, 11, false);
	struct caller *heart = caller_join(&master, 11, true);
	struct caller *writer = caller_join(&master, 12, false);
	Store__Fenced m = STORE__FENCED__INIT;
	uint64_t generation, epoch, fence, end;
	uint8_t incarnation[16], expected[16];
	bool remount;

	(void)state;
	assert_int_equal(caller_mount(owner, 11, MIB), 0);
	assert_int_equal(
		caller_put_start(writer, "half", 100, &generation, &epoch), 0);
	caller_close(writer);
	end = tei_now_ms() + SOON_MS;
	while (!caller_take_fence(heart, &fence, incarnation)) {
		caller_heartbeat(heart, 0, &remount);
		assert_true(tei_now_ms() < end);
	}
	caller_incarnation(12, expected);
	assert_memory_equal(incarnation, expected, sizeof(expected));
	m.fence = fence;
	caller_send(heart, STORE__STORE_TYPE__STORE_FENCED, 0, 0, &m);
	while (master_metric(&master, "te_master_fencing_count") > 0) {
		caller_heartbeat(heart, 0, &remount);
		assert_true(tei_now_ms() < end);
	}
	assert_int_equal(
		master_metric(&master, "te_master_fences_failed_total"), 0);
	assert_int_equal(
		caller_put_start(owner, "half", 100, &generation, &epoch), 0);
	caller_close(owner);
	caller_close(heart);
}

static bool pool_is_empty(void *arg)
{
	(void)arg;
	return master_metric(&master, "master_total_capacity_bytes") == 0;
}

static void figures_follow_what_happens(void **state)
{
	struct caller *owner;
	Store__Pool pool = STORE__POOL__INIT;
	Store__PoolReply *reply;
	uint64_t size, calls, hits;
	int status;
	char *text;

	(void)state;
	assert_true(test_wait_until(pool_is_empty, NULL, SOON_MS));
	calls = master_metric(&master, "master_put_start_requests_total");
	hits = master_metric(&master, "mem_cache_hit_nums_");
	owner = caller_join(&master, 13, false);
	assert_int_equal(caller_mount(owner, 13, MIB), 0);
	caller_put(owner, "counted");
	assert_int_equal(caller_lookup(owner, "counted", &size), 0);
	assert_int_equal(
		master_metric(&master, "master_put_start_requests_total"),
		calls + 1);
	assert_int_equal(master_metric(&master, "mem_cache_hit_nums_"),
			 hits + 1);
	assert_int_equal(master_metric(&master, "segment_total_capacity_bytes{"
						"segment=\"owner-13\"}"),
			 MIB);
	assert_int_equal(master_metric(&master, "master_key_count"), 1);
	/* Sums of dashboards take these in. */
	assert_int_equal(master_metric(&master, "mem_cache_nums_"), 1);
	assert_int_equal(master_metric(&master, "file_cache_hit_nums_"), 0);

	reply = caller_call(owner, STORE__STORE_TYPE__STORE_POOL, &pool,
			    &store__pool_reply__descriptor);
	assert_non_null(reply);
	assert_int_equal(reply->capacity_bytes, MIB);
	assert_int_equal(reply->objects, 1);
	assert_int_equal(reply->owners, 1);
	assert_true(reply->used_bytes >= 100);
	caller_free(reply);

	text = master_get(&master, "/get_all_segments", &status);
	assert_int_equal(status, 200);
	assert_string_equal(text, "owner-13\n");
	free(text);
	caller_close(owner);
}

static void admin_pages_answer(void **state)
{
	int status;
	char *text = master_get(&master, "/health", &status);

	(void)state;
	assert_int_equal(status, 200);
	assert_non_null(strstr(text, "\"status\":\"ok\""));
	free(text);
	text = master_get(&master, "/metrics/summary?x=1", &status);
	assert_int_equal(status, 200);
	assert_non_null(strstr(text, "Mem Storage: "));
	free(text);
	free(master_get(&master, "/", &status));
	assert_int_equal(status, 404);
	free(master_get(&master, "/metrics/../../etc/passwd", &status));
	assert_int_equal(status, 404);
}

/* About one request in 32 is, and none later than 48 after the one before. */
static void where_requests_spend_their_time_is_told(void **state)
{
	static const char *const phases[] = {"queue", "decode", "step",
					     "encode"};
	struct caller *c = caller_join(&master, 14, false);
	uint64_t size, first = 0, n;
	char name[100];

	(void)state;
	for (int i = 0; i < 200; i++)
		assert_int_equal(caller_lookup(c, "nowhere", &size), -704);
	for (size_t i = 0; i < TEST_COUNT(phases); i++) {
		snprintf(name, sizeof(name),
			 "te_master_phase_seconds_count{type=\"get_replica_list"
			 "\",phase=\"%s\"}",
			 phases[i]);
		n = master_metric(&master, name);
		assert_true(n >= 2);
		first = first ? first : n;
		assert_int_equal(n, first);
	}
	assert_true(master_metric(&master, "te_master_turn_seconds_count") >=
		    2);
	caller_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_tells_what_a_member_needs),
		cmocka_unit_test(another_version_is_refused_with_words),
		cmocka_unit_test(an_object_is_there_from_end_to_remove),
		cmocka_unit_test(a_pool_without_live_memory_is_full),
		cmocka_unit_test(an_owner_that_disconnects_takes_its_objects),
		cmocka_unit_test(objects_are_removed_by_pattern),
		cmocka_unit_test(a_batch_is_answered_key_by_key),
		cmocka_unit_test(an_unmounted_segment_takes_its_objects),
		cmocka_unit_test(a_client_comes_back_to_its_session),
		cmocka_unit_test(heartbeats_belong_to_a_session),
		cmocka_unit_test(a_mount_said_twice_is_one_mount),
		cmocka_unit_test(what_is_out_of_turn_ends_the_connection),
		cmocka_unit_test(who_says_nothing_is_not_waited_for),
		cmocka_unit_test(a_writer_that_vanishes_is_fenced_at_the_owner),
		cmocka_unit_test(figures_follow_what_happens),
		cmocka_unit_test(where_requests_spend_their_time_is_told),
		cmocka_unit_test(admin_pages_answer),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
