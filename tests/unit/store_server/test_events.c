/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c - events are queued, packed and published in their order */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/server/events.h"
#include "store/server/events_pack.h"
#include "store/server/events_queue.h"
#include "tests/lib/faults.h"
#include "tests/lib/subscriber.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define SOON_MS 60000
#define MANY    100000

static struct tes_server_settings settings;
static struct tei_conf conf;

static int start(void **state)
{
	char error[TEI_CONF_ERROR_LEN];

	(void)state;
	return tei_conf_init(&conf, tes_server_rows, tes_server_n_rows,
			     &settings) ||
	       tei_conf_set(&conf, "enable_kv_events", "1", error) ||
	       tei_conf_set(&conf, "kv_events_backend_id", "pool", error) ||
	       tei_conf_set(&conf, "kv_events_bind_endpoint",
			    "tcp://127.0.0.1:*", error);
}

static int stop(void **state)
{
	(void)state;
	tei_conf_fini(&conf);
	return 0;
}

static struct tes_core_item item_of(const char *key)
{
	return (struct tes_core_item){.key = {key, strlen(key)},
				      .tenant = {"default", 7}};
}

static unsigned int add(struct tes_events_queue *q, const char *key)
{
	const struct tes_core_item item = item_of(key);

	return tes_events_queue_add(q, TES_CORE_STORED, &item);
}

/* ---- queue ---- */

static void a_full_queue_drops_the_oldest(void **state)
{
	struct tes_events_chunk *chunk;
	struct tes_events_record r;
	struct tes_events_queue q;

	(void)state;
	tes_events_queue_init(&q, 2);
	assert_int_equal(add(&q, "a"), 0);
	assert_int_equal(add(&q, "b"), 0);
	assert_int_equal(add(&q, "c"), 1);
	assert_int_equal(q.n, 2);
	chunk = tes_events_queue_take(&q);
	assert_non_null(chunk);
	assert_true(tes_events_chunk_next(chunk, &r));
	assert_int_equal(r.number, 1);
	assert_int_equal(r.item.key.len, 1);
	assert_memory_equal(r.item.key.bytes, "b", 1);
	assert_true(tes_events_chunk_next(chunk, &r));
	assert_int_equal(r.number, 2);
	assert_memory_equal(r.item.key.bytes, "c", 1);
	assert_memory_equal(r.item.tenant.bytes, "default", 7);
	assert_false(tes_events_chunk_next(chunk, &r));
	tes_events_chunk_free(chunk);
	assert_null(tes_events_queue_take(&q));
	tes_events_queue_fini(&q);
}

static void a_queue_keeps_the_last_of_many(void **state)
{
	static char key[1000];
	struct tes_events_chunk *chunk;
	struct tes_events_record r;
	struct tes_events_queue q;
	unsigned int dropped = 0;
	uint64_t next = 900;

	(void)state;
	tes_events_queue_init(&q, 100);
	for (unsigned int i = 0; i < 1000; i++) {
		memset(key, 'a' + (int)(i % 26), sizeof(key) - 1);
		dropped += add(&q, key);
	}
	assert_int_equal(dropped, 900);
	while ((chunk = tes_events_queue_take(&q))) {
		while (tes_events_chunk_next(chunk, &r)) {
			const char *bytes = r.item.key.bytes;

			assert_int_equal(r.number, next);
			assert_int_equal(bytes[0], 'a' + (int)(next % 26));
			next++;
		}
		tes_events_chunk_free(chunk);
	}
	assert_int_equal(next, 1000);
	tes_events_queue_fini(&q);
}

static void without_memory_the_newest_is_dropped(void **state)
{
	struct tes_events_chunk *chunk;
	struct tes_events_record r;
	struct tes_events_queue q;

	(void)state;
	tes_events_queue_init(&q, 0);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_int_equal(add(&q, "a"), 1);
	tei_fault_disarm_all();
	assert_int_equal(add(&q, "b"), 0);
	chunk = tes_events_queue_take(&q);
	assert_non_null(chunk);
	assert_true(tes_events_chunk_next(chunk, &r));
	assert_int_equal(r.number, 1);
	tes_events_chunk_free(chunk);
	tes_events_queue_fini(&q);
}

/* ---- form ---- */

static struct tes_events_packer packer; /* of the message */

/* What one event with this key looks like, and whether it tells something. */
static bool pack(const char *key, size_t len, bool legacy, bool object_key,
		 enum tes_core_news news, msgpack_unpacked *out)
{
	struct tes_events_record r = {.news = news, .item = item_of("")};
	struct tes_events_packer *p = &packer;
	bool unparsed, tells;
	uint64_t hash;

	r.item.key = (struct tes_core_key){key, len};
	assert_int_equal(tes_events_packer_init(p, "pool", legacy, object_key),
			 0);
	tells = tes_events_tells(p, &r, &hash, &unparsed);
	assert_int_equal(tes_events_pack(p, 12345, &r, 1, 7), 0);
	msgpack_unpacked_init(out);
	assert_int_equal(
		msgpack_unpack_next(out, p->message.at, p->message.len, NULL),
		MSGPACK_UNPACK_SUCCESS);
	return tells;
}

static void forget(msgpack_unpacked *message)
{
	msgpack_unpacked_destroy(message);
	tes_events_packer_fini(&packer);
}

static const msgpack_object *event_of(const msgpack_unpacked *message)
{
	const msgpack_object *o = message->data.via.array.ptr;

	assert_int_equal(o[0].via.u64, 12345);
	assert_int_equal(o[1].via.array.size, 1);
	return o[1].via.array.ptr;
}

static void assert_nil(const msgpack_object *e, const char *name)
{
	const msgpack_object *o = event_at(e, name);

	if (!o || o->type != MSGPACK_OBJECT_NIL)
		fail_msg("%s is no nil", name);
}

static void a_stored_event_has_all_fields(void **state)
{
	static const char *const nils[] = {
		"model_name", "block_size",  "additional_salt",
		"lora_name",  "dp_rank",     "group_id",
		"token_ids",  "parent_hash", "parent_block_hash"};
	msgpack_unpacked m;
	const msgpack_object *e, *list;

	(void)state;
	assert_true(pack("0xFFffFFffFFffFFfe", 18, true, true, TES_CORE_STORED,
			 &m));
	e = event_of(&m);
	assert_int_equal(e->via.map.size, 20);
	for (size_t i = 0; i < TEST_COUNT(nils); i++)
		assert_nil(e, nils[i]);
	assert_int_equal(event_number(e, "event_id"), 7);
	assert_int_equal(event_number(e, "timestamp"), 12345);
	assert_true(event_is(e, "event_type", "stored"));
	assert_true(event_is(e, "type", "BlockStored"));
	assert_true(event_is(e, "tenant_id", "default"));
	assert_true(event_is(e, "backend_id", "pool"));
	assert_true(event_is(e, "medium", "cpu"));
	assert_true(event_is(e, "object_key", "0xFFffFFffFFffFFfe"));
	assert_int_equal(event_number(e, "base_block_idx"), 0);
	list = event_at(e, "seq_hashes");
	assert_non_null(list);
	assert_int_equal(list->via.array.size, 1);
	assert_true(list->via.array.ptr->via.u64 == UINT64_MAX - 1);
	list = event_at(e, "block_hashes");
	assert_non_null(list);
	assert_int_equal(list->via.array.size, 1);
	assert_int_equal(list->via.array.ptr->via.i64, -2);
	forget(&m);
}

static void a_removed_event_has_fewer(void **state)
{
	msgpack_unpacked m;
	const msgpack_object *e;

	(void)state;
	assert_true(pack("1234", 4, false, false, TES_CORE_REMOVED, &m));
	e = event_of(&m);
	assert_int_equal(e->via.map.size, 14);
	assert_true(event_is(e, "event_type", "removed"));
	assert_nil(e, "base_block_idx");
	assert_null(event_at(e, "type"));
	assert_null(event_at(e, "object_key"));
	assert_null(event_at(e, "block_hashes"));
	assert_int_equal(event_at(e, "seq_hashes")->via.array.ptr->via.u64,
			 1234);
	forget(&m);
}

static void keys_that_are_no_numbers_have_no_hash(void **state)
{
	static const char *const keys[] = {"",
					   "0x",
					   "x1",
					   "12a",
					   "-1",
					   "1 ",
					   "0xfg",
					   "abc",
					   "18446744073709551616",
					   "0x10000000000000000"};
	msgpack_unpacked m;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(keys); i++) {
		assert_false(pack(keys[i], strlen(keys[i]), true, false,
				  TES_CORE_STORED, &m));
		forget(&m);
		assert_true(pack(keys[i], strlen(keys[i]), true, true,
				 TES_CORE_STORED, &m));
		assert_int_equal(
			event_at(event_of(&m), "seq_hashes")->via.array.size,
			0);
		forget(&m);
	}
	assert_true(pack("18446744073709551615", 20, true, false,
			 TES_CORE_STORED, &m));
	forget(&m);
}

static void keys_that_are_no_text_are_binary(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool text;
	} keys[] = {
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, true},
		{"a\0b", 3, true},
		{"\xff", 1, false},
		{"\xc3", 1, false},
		{"\xc0\x80", 2, false},
		{"\xe0\x80\x80", 3, false},
		{"\xed\xa0\x80", 3, false},
		{"\xf4\x90\x80\x80", 4, false},
		{"\xf0\x80\x80\x80", 4, false},
	};
	msgpack_unpacked m;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(keys); i++) {
		const msgpack_object *key;

		pack(keys[i].bytes, keys[i].len, true, true, TES_CORE_STORED,
		     &m);
		key = event_at(event_of(&m), "object_key");
		assert_int_equal(key->type, keys[i].text ? MSGPACK_OBJECT_STR
							 : MSGPACK_OBJECT_BIN);
		assert_int_equal(key->via.bin.size, keys[i].len);
		assert_memory_equal(key->via.bin.ptr, keys[i].bytes,
				    keys[i].len);
		forget(&m);
	}
}

/* ---- publishing ---- */

/* The thread sanitizer does not see how libzmq's threads agree with each other:
 * see test_events_thread.c. */
#if !defined(__SANITIZE_THREAD__)

static void say(struct tes_events *e, enum tes_core_news news, const char *key)
{
	const struct tes_core_item item = item_of(key);

	tes_events_note(news, &item, e);
}

/* What is published before somebody listens is lost: until it is not. */
static void join(struct tes_events *e, struct subscriber *s)
{
	uint64_t end = tei_now_ms() + SOON_MS;

	subscriber_open(s, tes_events_endpoint(e));
	do {
		assert_true(tei_now_ms() < end);
		say(e, TES_CORE_STORED, "hello");
	} while (!subscriber_next(s, 10));
}

/* The next that is no greeting. */
static const msgpack_object *next(struct subscriber *s)
{
	const msgpack_object *event;

	do {
		event = subscriber_next(s, SOON_MS);
		assert_non_null(event);
	} while (event_is(event, "object_key", "hello"));
	return event;
}

static struct tes_events *begin(void)
{
	char error[TEI_CONF_ERROR_LEN] = "";
	struct tes_events *e;

	if (tes_events_start(&settings, &e, error))
		fail_msg("%s", error);
	assert_non_null(e);
	return e;
}

struct waiting {
	struct tes_events *events;
	uint64_t published;
};

static bool all_published(void *arg)
{
	struct waiting *w = arg;
	struct tes_events_figures f;

	tes_events_figures(w->events, &f);
	return f.events == w->published;
}

static void what_is_noted_arrives_in_order(void **state)
{
	struct tes_events *e = begin();
	struct waiting w = {e, 0};
	struct tes_events_figures f;
	const msgpack_object *event;
	uint64_t id;
	struct subscriber s;

	(void)state;
	join(e, &s);
	say(e, TES_CORE_STORED, "1");
	say(e, TES_CORE_REMOVED, "1");
	event = next(&s);
	assert_true(event_is(event, "event_type", "stored"));
	id = event_number(event, "event_id");
	event = next(&s);
	assert_true(event_is(event, "event_type", "removed"));
	assert_int_equal(event_number(event, "event_id"), id + 1);
	w.published = id + 1;
	assert_true(test_wait_until(all_published, &w, SOON_MS));
	tes_events_figures(e, &f);
	assert_true(f.enabled);
	assert_true(f.batches > 0);
	assert_int_equal(f.sequence, f.batches);
	assert_true(f.unparsed > 0);
	assert_int_equal(f.dropped, 0);
	subscriber_close(&s);
	tes_events_stop(e);
}

/* A hundred thousand, as fast as they come: what is missing is counted, leaves
 * a gap in both numbers, and what is there is in order. */
static void of_many_what_is_missing_is_known(void **state)
{
	struct tes_events *e = begin();
	uint64_t sequence, id, gaps = 0, jumps = 0, got = 0, last = 0;
	struct tes_events_figures f;
	struct subscriber s;
	char key[24];

	(void)state;
	join(e, &s);
	say(e, TES_CORE_STORED, "0");
	id = event_number(next(&s), "event_id");
	sequence = s.sequence;
	for (unsigned int i = 1; i <= MANY; i++) {
		snprintf(key, sizeof(key), "%u", i);
		say(e, TES_CORE_STORED, key);
	}
	while (last < MANY) {
		const msgpack_object *event = subscriber_next(&s, SOON_MS);
		uint64_t hash;

		assert_non_null(event);
		hash = event_at(event, "seq_hashes")->via.array.ptr->via.u64;
		assert_true(hash > last);
		assert_int_equal(event_number(event, "event_id") - id,
				 hash - last);
		gaps += hash - last - 1;
		jumps += s.sequence - sequence - (s.sequence > sequence);
		id = event_number(event, "event_id");
		sequence = s.sequence;
		last = hash;
		got++;
	}
	tes_events_figures(e, &f);
	assert_int_equal(f.dropped, gaps);
	assert_int_equal(jumps, gaps);
	assert_int_equal(got, MANY - gaps);
	subscriber_close(&s);
	tes_events_stop(e);
}

static void without_subscribers_nothing_piles_up(void **state)
{
	struct waiting w = {begin(), 0};
	struct tes_events_figures f;

	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		say(w.events, TES_CORE_STORED, "1");
	w.published = 1000;
	assert_true(test_wait_until(all_published, &w, SOON_MS));
	tes_events_figures(w.events, &f);
	assert_int_equal(f.queued, 0);
	assert_int_equal(f.dropped, 0);
	tes_events_stop(w.events);
}

#endif /* __SANITIZE_THREAD__ */

static void a_start_without_memory_leaves_nothing(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	char error[TEI_CONF_ERROR_LEN];
	unsigned int failed = 0;

	(void)state;
	while (test_faults_next(&f)) {
		struct tes_events *e;

		failed += tes_events_start(&settings, &e, error) != 0;
		tes_events_stop(e);
	}
	assert_true(failed > 0);
}

static void a_bad_endpoint_is_named(void **state)
{
	struct tes_server_settings bad = settings;
	char error[TEI_CONF_ERROR_LEN] = "", nowhere[] = "tcp://300.1.1.1:1";
	struct tes_events *e;

	(void)state;
	bad.kv_events_bind_endpoint = nowhere;
	assert_true(tes_events_start(&bad, &e, error) < 0);
	assert_non_null(strstr(error, "kv_events_bind_endpoint"));
	assert_null(e);
	*nowhere = '\0';
	assert_int_equal(tes_events_start(&bad, &e, error), 0);
	assert_null(e);
	tes_events_stop(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_queue_drops_the_oldest),
		cmocka_unit_test(a_queue_keeps_the_last_of_many),
		cmocka_unit_test(without_memory_the_newest_is_dropped),
		cmocka_unit_test(a_stored_event_has_all_fields),
		cmocka_unit_test(a_removed_event_has_fewer),
		cmocka_unit_test(keys_that_are_no_numbers_have_no_hash),
		cmocka_unit_test(keys_that_are_no_text_are_binary),
#if !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(what_is_noted_arrives_in_order),
		cmocka_unit_test(of_many_what_is_missing_is_known),
		cmocka_unit_test(without_subscribers_nothing_piles_up),
#endif
		cmocka_unit_test(a_start_without_memory_leaves_nothing),
		cmocka_unit_test(a_bad_endpoint_is_named),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
