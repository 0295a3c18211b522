/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc.c - bytes of frames to events, and what is no event */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/proto/protocol.h"
#include "store/proto/store.pb-c.h"
#include "store/server/rpc.h"
#include "tests/lib/test.h"

#define N_KEYS 3

static struct tei_arena arena;

static uint8_t key_bytes[] = "onetwothree";
static uint32_t lens[N_KEYS] = {3, 3, 5};
static uint64_t numbers[N_KEYS] = {1, 1ull << 40, UINT64_MAX};
static uint32_t crcs[N_KEYS] = {0, 7, UINT32_MAX};
static uint32_t written[N_KEYS] = {1, 0, 1};
static uint8_t id[16] = "0123456789abcde";

static int start(void **state)
{
	(void)state;
	tei_arena_init(&arena, TES_SERVER_RPC_ARENA_MAX);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	tei_arena_fini(&arena);
	return 0;
}

struct packed {
	uint16_t type;
	size_t len;
	uint8_t *bytes; /* exactly len, so that ASan sees a read beyond */
};

static struct packed pack(uint16_t type, const void *message)
{
	struct packed p = {.type = type};

	p.len = protobuf_c_message_get_packed_size(message);
	p.bytes = malloc(p.len ? p.len : 1);
	assert_non_null(p.bytes);
	protobuf_c_message_pack(message, p.bytes);
	return p;
}

static int decode(const struct packed *p, size_t len, struct tes_event *ev)
{
	const char *why = NULL;
	uint8_t *copy = malloc(len ? len : 1);
	int rc;

	assert_non_null(copy);
	memcpy(copy, p->bytes, len);
	rc = tes_server_rpc_event(&arena, p->type, copy, len, ev, &why);
	if (rc)
		assert_non_null(why);
	free(copy);
	return rc;
}

/* The bytes of the first @n keys. */
static ProtobufCBinaryData keys(size_t n)
{
	ProtobufCBinaryData bytes = {0, key_bytes};

	for (size_t i = 0; i < n; i++)
		bytes.len += lens[i];
	return bytes;
}

static struct packed put_start(size_t n_keys, size_t n_sizes)
{
	Store__PutStart m = STORE__PUT_START__INIT;

	m.keys = keys(n_keys);
	m.key_lens = lens;
	m.n_key_lens = n_keys;
	m.sizes = numbers;
	m.n_sizes = n_sizes;
	return pack(STORE__STORE_TYPE__STORE_PUT_START, &m);
}

static struct packed put_end(size_t n_keys, size_t n_gen, size_t n_crc,
			     size_t n_written)
{
	Store__PutEnd m = STORE__PUT_END__INIT;

	m.keys = keys(n_keys);
	m.key_lens = lens;
	m.n_key_lens = n_keys;
	m.generation = numbers;
	m.n_generation = n_gen;
	m.crc = crcs;
	m.n_crc = n_crc;
	m.written = written;
	m.n_written = n_written;
	m.epoch = 99;
	return pack(STORE__STORE_TYPE__STORE_PUT_END, &m);
}

static struct packed release(size_t n_keys, size_t n_gen, size_t n_epoch)
{
	Store__Release m = STORE__RELEASE__INIT;

	m.keys = keys(n_keys);
	m.key_lens = lens;
	m.n_key_lens = n_keys;
	m.generation = m.gen_epoch = numbers;
	m.n_generation = n_gen;
	m.n_gen_epoch = n_epoch;
	return pack(STORE__STORE_TYPE__STORE_RELEASE, &m);
}

static struct packed only_keys(uint16_t type, size_t n_keys)
{
	Store__Keys m = STORE__KEYS__INIT;

	m.keys = keys(n_keys);
	m.key_lens = lens;
	m.n_key_lens = n_keys;
	m.force = 1;
	return pack(type, &m);
}

static struct packed replica_clear(const char *segment)
{
	Store__ReplicaClear m = STORE__REPLICA_CLEAR__INIT;

	m.keys = keys(N_KEYS);
	m.key_lens = lens;
	m.n_key_lens = N_KEYS;
	m.segment = (char *)(uintptr_t)segment;
	return pack(STORE__STORE_TYPE__STORE_REPLICA_CLEAR, &m);
}

static struct packed report(size_t id_len)
{
	Store__Report m = STORE__REPORT__INIT;

	m.incarnation.data = id;
	m.incarnation.len = id_len;
	return pack(STORE__STORE_TYPE__STORE_REPORT, &m);
}

static struct packed probed(void)
{
	Store__Probed m = STORE__PROBED__INIT;

	m.n = 7;
	return pack(STORE__STORE_TYPE__STORE_PROBED, &m);
}

static struct packed task_create(char *const *targets, size_t n, char *source,
				 size_t key_len)
{
	Store__TaskCreate m = STORE__TASK_CREATE__INIT;

	m.key.data = key_bytes;
	m.key.len = key_len;
	m.targets = (char **)(uintptr_t)targets;
	m.n_targets = n;
	m.source = source;
	m.type = *source ? STORE__TASK_TYPE__TASK_MOVE
			 : STORE__TASK_TYPE__TASK_COPY;
	return pack(STORE__STORE_TYPE__STORE_TASK_CREATE, &m);
}

static struct packed task_query(size_t id_len)
{
	Store__TaskQuery m = STORE__TASK_QUERY__INIT;

	m.id.data = id;
	m.id.len = id_len;
	return pack(STORE__STORE_TYPE__STORE_TASK_QUERY, &m);
}

static struct packed task_done(void)
{
	Store__TaskDone m = STORE__TASK_DONE__INIT;
	static char why[] = "why";

	m.id.data = id;
	m.id.len = sizeof(id);
	m.status = -800;
	m.n_crc = N_KEYS;
	m.crc = crcs;
	m.message = why;
	return pack(STORE__STORE_TYPE__STORE_TASK_DONE, &m);
}

static struct packed mount(const char *name, size_t id_len)
{
	Store__Mount m = STORE__MOUNT__INIT;

	m.segment.data = id;
	m.segment.len = id_len;
	m.name = (char *)(uintptr_t)name;
	m.address = 4096;
	m.size = 1 << 20;
	return pack(STORE__STORE_TYPE__STORE_MOUNT, &m);
}

static void columns_arrive_as_they_were_sent(void **state)
{
	struct packed p = put_end(N_KEYS, N_KEYS, N_KEYS, N_KEYS);
	struct tes_event ev;

	(void)state;
	assert_int_equal(decode(&p, p.len, &ev), 0);
	assert_int_equal(ev.type, TES_EVENT_PUT_END);
	assert_int_equal(ev.n, N_KEYS);
	assert_int_equal(ev.u.put_end.epoch, 99);
	for (size_t i = 0; i < N_KEYS; i++) {
		assert_int_equal(ev.keys[i].len, lens[i]);
		assert_memory_equal(ev.keys[i].bytes, key_bytes + keys(i).len,
				    lens[i]);
		assert_int_equal(ev.u.put_end.generations[i], numbers[i]);
		assert_int_equal(ev.u.put_end.crcs[i], crcs[i]);
		assert_int_equal(ev.u.put_end.written[i], written[i]);
	}
	free(p.bytes);
	tei_arena_reset(&arena);
}

static void every_request_decodes_to_its_event(void **state)
{
	char name[] = "host:1", none[] = "", *target = name;
	const struct {
		struct packed p;
		enum tes_event_type type;
	} all[] = {
		{put_start(N_KEYS, N_KEYS), TES_EVENT_PUT_START},
		{release(N_KEYS, N_KEYS, N_KEYS), TES_EVENT_RELEASE},
		{release(N_KEYS, N_KEYS, 1), TES_EVENT_RELEASE},
		{release(N_KEYS, N_KEYS, 0), TES_EVENT_RELEASE},
		{only_keys(STORE__STORE_TYPE__STORE_LOOKUP, N_KEYS),
		 TES_EVENT_LOOKUP},
		{only_keys(STORE__STORE_TYPE__STORE_EXIST, N_KEYS),
		 TES_EVENT_EXIST},
		{only_keys(STORE__STORE_TYPE__STORE_SIZE, N_KEYS),
		 TES_EVENT_SIZE},
		{only_keys(STORE__STORE_TYPE__STORE_REMOVE, N_KEYS),
		 TES_EVENT_REMOVE},
		{mount("host:1", 16), TES_EVENT_MOUNT},
		{replica_clear("host:1"), TES_EVENT_REPLICA_CLEAR},
		{replica_clear(""), TES_EVENT_REPLICA_CLEAR},
		{report(16), TES_EVENT_REPORT},
		{task_create(&target, 1, none, 3), TES_EVENT_TASK_CREATE},
		{task_query(16), TES_EVENT_TASK_QUERY},
		{task_query(0), TES_EVENT_TASK_QUERY}, /* none such */
		{task_done(), TES_EVENT_TASK_DONE},
		{probed(), TES_EVENT_PROBED},
	};
	struct tes_event ev;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(all); i++) {
		assert_int_equal(decode(&all[i].p, all[i].p.len, &ev), 0);
		assert_int_equal(ev.type, all[i].type);
		free(all[i].p.bytes);
		tei_arena_reset(&arena);
	}
}

static void a_message_cut_anywhere_is_harmless(void **state)
{
	const struct packed all[] = {
		put_start(N_KEYS, N_KEYS),
		put_end(N_KEYS, N_KEYS, N_KEYS, N_KEYS),
		release(N_KEYS, N_KEYS, 0),
		release(N_KEYS, N_KEYS, 1),
		only_keys(STORE__STORE_TYPE__STORE_REMOVE, N_KEYS),
		mount("host:1", 16),
	};
	struct tes_event ev;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(all); i++) {
		for (size_t cut = 0; cut < all[i].len; cut++) {
			int rc = decode(&all[i], cut, &ev);

			/* Shorter, and still whole: fewer keys alone, say. */
			assert_true(rc == 0 || rc == -EBADMSG);
			if (!rc &&
			    all[i].type != STORE__STORE_TYPE__STORE_MOUNT)
				assert_in_range(ev.n, 1, N_KEYS);
			tei_arena_reset(&arena);
		}
		free(all[i].bytes);
	}
}

static void refused(struct packed p)
{
	struct tes_event ev;

	assert_int_equal(decode(&p, p.len, &ev), -EBADMSG);
	free(p.bytes);
	tei_arena_reset(&arena);
}

static void columns_of_different_length_are_refused(void **state)
{
	(void)state;
	refused(put_start(3, 2));
	refused(put_start(2, 3));
	refused(put_start(3, 0));
	refused(put_end(3, 2, 3, 3));
	refused(put_end(3, 3, 2, 3));
	refused(put_end(3, 3, 3, 0));
	refused(release(1, 3, 1));
	refused(release(3, 3, 2));
}

static void entries_of_extents_are_counted_by_key(void **state)
{
	static const struct {
		uint32_t extents[N_KEYS];
		size_t n_crc;
		int rc;
	} cases[] = {
		{{1, 1, 1}, 3, 0},        {{0, 2, 1}, 3, 0},
		{{0, 0, 0}, 0, 0},        {{5, 2, 1}, 0, 0},
		{{0, 2, 1}, 2, -EBADMSG}, {{0, 2, 2}, 3, -EBADMSG},
		{{0, 0, 0}, 1, -EBADMSG}, {{UINT32_MAX, 2, 2}, 3, -EBADMSG},
	};
	Store__PutEnd m = STORE__PUT_END__INIT;
	struct tes_event ev;

	(void)state;
	m.keys = keys(N_KEYS);
	m.key_lens = lens;
	m.generation = numbers;
	m.written = written;
	m.n_key_lens = m.n_generation = m.n_written = m.n_extents = N_KEYS;
	m.crc = crcs;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct packed p;

		m.extents = (uint32_t *)(uintptr_t)cases[i].extents;
		m.n_crc = cases[i].n_crc;
		p = pack(STORE__STORE_TYPE__STORE_PUT_END, &m);
		assert_int_equal(decode(&p, p.len, &ev), cases[i].rc);
		free(p.bytes);
		tei_arena_reset(&arena);
	}
	m.n_extents = m.n_crc = 2;
	refused(pack(STORE__STORE_TYPE__STORE_PUT_END, &m));
}

static void replicate_and_groups_are_checked(void **state)
{
	char good[] = "host:1", bad[] = "two words", *names[] = {good, bad};
	uint32_t group[N_KEYS] = {0, 1, 1};
	Store__Replicate how = STORE__REPLICATE__INIT;
	Store__PutStart m = STORE__PUT_START__INIT;
	struct tes_event ev;
	struct packed p;

	(void)state;
	m.keys = keys(N_KEYS);
	m.key_lens = lens;
	m.sizes = numbers;
	m.n_key_lens = m.n_sizes = m.n_group = N_KEYS;
	m.group = group;
	m.groups = how.preferred = names;
	m.n_groups = how.n_preferred = 1;
	m.how = &how;
	how.replica_num = 2;
	how.hard_pin = 1;
	p = pack(STORE__STORE_TYPE__STORE_PUT_START, &m);
	assert_int_equal(decode(&p, p.len, &ev), 0);
	assert_int_equal(ev.u.put_start.how->replica_num, 2);
	assert_true(ev.u.put_start.how->hard_pin);
	assert_false(ev.u.put_start.how->same_node);
	assert_int_equal(ev.u.put_start.n_groups, 1);
	assert_int_equal(ev.u.put_start.group[2], 1);
	free(p.bytes);
	group[1] = 2;
	refused(pack(STORE__STORE_TYPE__STORE_PUT_START, &m));
	group[1] = 1;
	m.n_group = 2;
	refused(pack(STORE__STORE_TYPE__STORE_PUT_START, &m));
	m.n_group = N_KEYS;
	how.n_preferred = 2;
	refused(pack(STORE__STORE_TYPE__STORE_PUT_START, &m));
	how.n_preferred = 1;
	m.n_groups = 2;
	refused(pack(STORE__STORE_TYPE__STORE_PUT_START, &m));
}

/* A look-up of @n keys with those lengths and @bytes bytes in all. */
static struct packed look_up(const uint32_t *key_lens, size_t n, size_t bytes)
{
	Store__Lookup m = STORE__LOOKUP__INIT;
	uint8_t *room = calloc(1, bytes + 1);
	struct packed p;

	assert_non_null(room);
	m.keys.data = room;
	m.keys.len = bytes;
	m.key_lens = (uint32_t *)(uintptr_t)key_lens;
	m.n_key_lens = n;
	p = pack(STORE__STORE_TYPE__STORE_LOOKUP, &m);
	free(room);
	return p;
}

static void taken(struct packed p, size_t n, size_t last_len)
{
	struct tes_event ev;

	assert_int_equal(decode(&p, p.len, &ev), 0);
	assert_int_equal(ev.n, n);
	assert_int_equal(ev.keys[n - 1].len, last_len);
	tei_arena_reset(&arena);
	free(p.bytes);
}

static void batches_have_1_to_4096_keys(void **state)
{
	const size_t n = TES_CORE_BATCH_MAX + 1;
	uint32_t *many = calloc(n, sizeof(*many));

	(void)state;
	assert_non_null(many);
	for (size_t i = 0; i < n; i++)
		many[i] = 2;
	refused(look_up(many, n, 2 * n));
	taken(look_up(many, n - 1, 2 * (n - 1)), n - 1, 2);
	free(many);
	refused(only_keys(STORE__STORE_TYPE__STORE_EXIST, 0));
}

static void keys_have_1_to_1024_bytes(void **state)
{
	static const uint32_t sizes[] = {TES_CORE_KEY_MAX + 1, 0,
					 TES_CORE_KEY_MAX};

	(void)state;
	refused(look_up(&sizes[0], 1, sizes[0]));
	refused(look_up(&sizes[1], 1, sizes[1]));
	taken(look_up(&sizes[2], 1, sizes[2]), 1, TES_CORE_KEY_MAX);
}

static void lengths_that_do_not_add_up_are_refused(void **state)
{
	static const uint32_t some[] = {5, 3}, over[] = {5, UINT32_MAX},
			      wrap[] = {UINT32_MAX, 6};

	(void)state;
	taken(look_up(some, 2, 8), 2, 3);
	refused(look_up(some, 2, 7));
	refused(look_up(some, 2, 9));
	refused(look_up(some, 2, 0));
	refused(look_up(some, 0, 8));
	refused(look_up(over, 2, 8));
	refused(look_up(wrap, 2, 5));
}

static void a_message_of_tiny_fields_does_not_grow_without_end(void **state)
{
	const size_t len = 8u << 20;
	uint8_t *bytes = malloc(len);
	struct tes_event ev;
	const char *why;

	(void)state;
	assert_non_null(bytes);
	for (size_t i = 0; i < len; i += 2) {
		bytes[i] = 0x0a; /* field 1, of no bytes */
		bytes[i + 1] = 0;
	}
	assert_int_equal(tes_server_rpc_event(&arena,
					      STORE__STORE_TYPE__STORE_LOOKUP,
					      bytes, len, &ev, &why),
			 -EBADMSG);
	assert_true(arena.total <= TES_SERVER_RPC_ARENA_MAX);
	tei_arena_reset(&arena);
	assert_true(arena.total <= 128u << 10);
	free(bytes);
}

static void names_and_ids_are_checked(void **state)
{
	char name[400];

	(void)state;
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	refused(mount(name, 16));
	/* They stand in lists of one a line, and terminals obey C1. */
	refused(mount("host\xc2\x9b"
		      "2J:1",
		      16));
	refused(mount("host\x9b"
		      "2J:1",
		      16));
	refused(mount("host\xe2\x80\xa8:1", 16));
	refused(mount("", 16));
	refused(mount("two\nlines", 16));
	refused(mount("host:1", 15));
	refused(mount("host:1", 0));
	refused(replica_clear("two words"));
	refused(report(15));
	refused(report(0));
}

static void a_task_says_what_and_where(void **state)
{
	char a[] = "a", b[] = "b", bad[] = "two words", none[] = "";
	char *targets[] = {a, b}, *wrong[] = {bad}, *many[33];
	struct packed p = task_create(targets, 1, b, 3);
	struct tes_event ev;

	(void)state;
	assert_int_equal(decode(&p, p.len, &ev), 0);
	assert_int_equal(ev.n, 1);
	assert_int_equal(ev.keys[0].len, 3);
	assert_true(ev.u.task_create.move);
	assert_string_equal(ev.u.task_create.source, "b");
	assert_int_equal(ev.u.task_create.n_targets, 1);
	assert_string_equal(ev.u.task_create.targets[0], "a");
	free(p.bytes);
	tei_arena_reset(&arena);

	p = task_done();
	assert_int_equal(decode(&p, p.len, &ev), 0);
	assert_int_equal(ev.u.task_done.status, -800);
	assert_false(ev.u.task_done.quiet);
	assert_int_equal(ev.u.task_done.n_crcs, N_KEYS);
	assert_memory_equal(ev.u.task_done.id, id, sizeof(id));
	assert_string_equal(ev.u.task_done.message, "why");
	free(p.bytes);
	tei_arena_reset(&arena);

	for (size_t i = 0; i < 33; i++)
		many[i] = a;
	refused(task_create(many, 33, none, 3));
	refused(task_create(wrong, 1, none, 3));
	refused(task_create(targets, 2, bad, 3));
	refused(task_create(targets, 2, none, 0));
}

static void unknown_requests_are_refused(void **state)
{
	static const uint16_t types[] = {
		STORE__STORE_TYPE__STORE_REFUSED,
		STORE__STORE_TYPE__STORE_HELLO,
		STORE__STORE_TYPE__STORE_FENCE,
		63,
		64,
		65535,
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(types); i++)
		refused(only_keys(types[i], N_KEYS));
}

static void hello_of_another_version_is_no_garbage(void **state)
{
	struct tes_server_rpc_hello out;
	Store__Hello m = STORE__HELLO__INIT;
	const char *why = NULL;
	struct packed p;

	(void)state;
	m.version = TES_STORE_VERSION + 1;
	p = pack(0, &m);
	assert_int_equal(
		tes_server_rpc_hello(&arena, p.bytes, p.len, &out, &why), 0);
	assert_int_equal(out.version, TES_STORE_VERSION + 1);
	free(p.bytes);
	m.version = TES_STORE_VERSION;
	p = pack(0, &m);
	assert_int_equal(
		tes_server_rpc_hello(&arena, p.bytes, p.len, &out, &why),
		-EBADMSG);
	free(p.bytes);
	tei_arena_reset(&arena);
}

static void long_keys_stay_where_they_are(void **state)
{
	static uint8_t bytes[128 * 1024];
	static uint32_t long_lens[128];
	Store__Keys m = STORE__KEYS__INIT;
	struct tes_event ev;
	const char *why;
	struct packed p;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(long_lens); i++)
		long_lens[i] = 1024;
	m.keys = (ProtobufCBinaryData){sizeof(bytes), bytes};
	m.key_lens = long_lens;
	m.n_key_lens = TEST_COUNT(long_lens);
	p = pack(STORE__STORE_TYPE__STORE_EXIST, &m);
	assert_int_equal(
		tes_server_rpc_event(&arena, p.type, p.bytes, p.len, &ev, &why),
		0);
	assert_int_equal(ev.n, TEST_COUNT(long_lens));
	for (size_t i = 0; i < ev.n; i++) {
		const uint8_t *at = ev.keys[i].bytes;

		assert_int_equal(ev.keys[i].len, 1024);
		assert_true(at > p.bytes && at + 1024 <= p.bytes + p.len);
	}
	tei_arena_reset(&arena);
	/* More than there are. */
	p.bytes[3] |= 0x7f;
	assert_int_equal(
		tes_server_rpc_event(&arena, p.type, p.bytes, p.len, &ev, &why),
		-EBADMSG);
	tei_arena_reset(&arena);
	free(p.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_arrive_as_they_were_sent),
		cmocka_unit_test(every_request_decodes_to_its_event),
		cmocka_unit_test(a_message_cut_anywhere_is_harmless),
		cmocka_unit_test(columns_of_different_length_are_refused),
		cmocka_unit_test(entries_of_extents_are_counted_by_key),
		cmocka_unit_test(replicate_and_groups_are_checked),
		cmocka_unit_test(batches_have_1_to_4096_keys),
		cmocka_unit_test(keys_have_1_to_1024_bytes),
		cmocka_unit_test(lengths_that_do_not_add_up_are_refused),
		cmocka_unit_test(
			a_message_of_tiny_fields_does_not_grow_without_end),
		cmocka_unit_test(long_keys_stay_where_they_are),
		cmocka_unit_test(names_and_ids_are_checked),
		cmocka_unit_test(a_task_says_what_and_where),
		cmocka_unit_test(unknown_requests_are_refused),
		cmocka_unit_test(hello_of_another_version_is_no_garbage),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
