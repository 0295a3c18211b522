/* SPDX-License-Identifier: Apache-2.0 */
/* test_executor.c - what an owner copies for the master */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "store/client/client.h"
#include "store/proto/extent.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"
#include "tests/unit/store_client/executor_master.h"

#define GENERATION 99u

static void do_nothing(void *arg)
{
	(void)arg;
}

#define SIZE 6000u

/* One object of SIZE bytes in parts, and where it shall go in parts. */
struct order {
	uint8_t id, no_crc;
	uint64_t generation;
	size_t n_from, n_to;
	uint64_t from[3], to[3]; /* lengths */
	uint32_t crc_change;
	bool to_nowhere;
};

static const struct order plain = {
	.id = 1,
	.generation = GENERATION,
	.n_from = 1,
	.n_to = 1,
	.from = {SIZE},
	.to = {SIZE},
};

#define FROM(i) (4096u + 8192u * (i))
#define TO(i)   (65536u + 8192u * (i))

static uint8_t value[SIZE];

static void put_here(const struct order *o)
{
	uint64_t offset = 0;
	size_t i;

	pool_fill(value, SIZE, 17);
	for (i = 0; i < o->n_from; i++) {
		const struct tes_extent_header h = {
			.gen_epoch = MASTER_EPOCH,
			.generation = GENERATION,
			.digest = tes_key_digest("key", 3, MASTER_SEED),
			.object_size = SIZE,
			.offset = offset,
			.length = o->from[i],
			.index = (uint16_t)i,
			.count = (uint16_t)o->n_from,
		};

		tes_extent_encode(&h, master.owners[0].base + FROM(i));
		memcpy(master.owners[0].base + FROM(i) + TES_EXTENT_HEADER_LEN,
		       value + offset, o->from[i]);
		offset += o->from[i];
	}
}

static void do_push(void *arg)
{
	const struct order *o = arg;
	uint64_t offset = 0, gen_epoch = MASTER_EPOCH, size = SIZE;
	uint64_t at[3], to[3], from_len[3], to_len[3], generation;
	uint32_t crcs[3], key_len = 3, extents = (uint32_t)o->n_from;
	uint8_t id[16] = {o->id};
	protobuf_c_boolean no_crc = o->no_crc;
	Store__Objects source = STORE__OBJECTS__INIT;
	Store__Segment target = STORE__SEGMENT__INIT;
	Store__Task task = STORE__TASK__INIT;
	size_t i;

	generation = o->generation;
	for (i = 0; i < o->n_from; i++) {
		at[i] = (uint64_t)(uintptr_t)master.owners[0].base + FROM(i);
		from_len[i] = o->from[i];
		crcs[i] = te_crc32c(0, value + offset, o->from[i]) ^
			  o->crc_change;
		offset += o->from[i];
	}
	for (i = 0; i < o->n_to; i++) {
		to[i] = (uint64_t)(uintptr_t)master.owners[1].base + TO(i);
		to_len[i] = o->to[i];
	}
	source.keys = (ProtobufCBinaryData){3, (uint8_t *)(uintptr_t) "key"};
	source.key_lens = &key_len;
	source.generation = &generation;
	source.gen_epoch = &gen_epoch;
	source.size = &size;
	source.n_key_lens = source.n_generation = source.n_gen_epoch =
		source.n_size = source.n_extents = source.n_no_crc = 1;
	source.extents = &extents;
	source.no_crc = &no_crc;
	source.address = at;
	source.length = from_len;
	source.crc = crcs;
	source.n_address = source.n_length = source.n_crc = o->n_from;
	target.engine = o->to_nowhere ? (char *)(uintptr_t) "127.0.0.1:1"
				      : master.owners[1].name;
	target.incarnation = (ProtobufCBinaryData){
		TE_INCARNATION_LEN, master.owners[1].incarnation};
	task.id = (ProtobufCBinaryData){sizeof(id), id};
	task.source = &source;
	task.target = &target;
	task.address = to;
	task.length = to_len;
	task.n_address = task.n_length = o->n_to;
	task.epoch = master.epoch;
	task.timeout_ms = POOL_START_MS;
	assert_non_null(master.owners[0].heart);
	(void)tei_frame_send(master.owners[0].heart,
			     STORE__STORE_TYPE__STORE_TASK, 0, 0, &task.base);
}

static bool answered(void *arg)
{
	return atomic_load(&master.n_answers) >= *(const int *)arg;
}

/* Has it done, and returns the status; the answer is in master.answer. */
static int carry_out(const struct order *o)
{
	int n = atomic_load(&master.n_answers) + 1;

	assert_true(tei_loop_do(master.loop, do_push, (void *)(uintptr_t)o));
	assert_true(test_wait_until(answered, &n, POOL_START_MS));
	assert_int_equal(master.answer->id.len, 16);
	assert_int_equal(master.answer->id.data[0], o->id);
	return master.answer->status;
}

/* What is at the target is the object, in @o's parts, and so it was told. */
static void assert_there(const struct order *o)
{
	struct tes_extent_header h = {.index = 0};
	uint64_t offset = 0;
	size_t i;

	assert_int_equal(master.answer->n_crc, o->n_to);
	for (i = 0; i < o->n_to; i++) {
		const uint8_t *at = master.owners[1].base + TO(i);

		assert_int_equal(tes_extent_decode(at, &h), 0);
		assert_int_equal(h.generation, GENERATION);
		assert_int_equal(h.gen_epoch, MASTER_EPOCH);
		assert_int_equal(h.digest,
				 tes_key_digest("key", 3, MASTER_SEED));
		assert_int_equal(h.object_size, SIZE);
		assert_int_equal(h.offset, offset);
		assert_int_equal(h.length, o->to[i]);
		assert_int_equal(h.index, i);
		assert_int_equal(h.count, o->n_to);
		assert_memory_equal(at + TES_EXTENT_HEADER_LEN, value + offset,
				    o->to[i]);
		assert_int_equal(master.answer->crc[i],
				 te_crc32c(0, value + offset, o->to[i]));
		offset += o->to[i];
	}
}

/* ---- what is proved ---- */

static void an_object_is_copied_with_its_header(void **state)
{
	(void)state;
	put_here(&plain);
	assert_int_equal(carry_out(&plain), 0);
	assert_true(master.answer->quiet);
	assert_false(master.answer->no_crc);
	assert_there(&plain);
}

static void it_may_be_cut_otherwise_there(void **state)
{
	static const struct order orders[] = {
		{1, 0, GENERATION, 1, 3, {SIZE}, {4000, 1, 1999}, 0, false},
		{2, 0, GENERATION, 3, 1, {1, 1500, 4499}, {SIZE}, 0, false},
		{3,
		 0,
		 GENERATION,
		 2,
		 3,
		 {100, 5900},
		 {50, 100, 5850},
		 0,
		 false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(orders); i++) {
		put_here(&orders[i]);
		assert_int_equal(carry_out(&orders[i]), 0);
		assert_there(&orders[i]);
	}
}

static void what_is_not_the_object_is_not_told_of_as_done(void **state)
{
	struct order o = plain;

	(void)state;
	put_here(&plain);
	o.generation++;
	assert_int_equal(carry_out(&o), -710);
	assert_true(master.answer->quiet);
	o.generation--;
	o.id = 2;
	o.crc_change = 1;
	assert_int_equal(carry_out(&o), -801);
	assert_true(master.answer->quiet);
	/* Without a checksum its headers are all there is. */
	o.id = 3;
	o.no_crc = 1;
	assert_int_equal(carry_out(&o), 0);
	assert_true(master.answer->no_crc);
	assert_there(&o);
}

static void end_loudly(const struct te_request *req, struct te_completion *done,
		       void *arg)
{
	(void)arg;
	if (req->op != TE_WRITE)
		return;
	done->error = -ETIMEDOUT;
	done->flags = 0; /* it may still arrive */
}

static void what_may_still_arrive_is_not_told_of_as_quiet(void **state)
{
	struct order o = plain;

	(void)state;
	put_here(&plain);
	fake_te_set_hook(end_loudly, NULL);
	assert_int_equal(carry_out(&o), -800);
	assert_false(master.answer->quiet);
	fake_te_set_hook(NULL, NULL);
	o.id = 2;
	o.to_nowhere = true;
	assert_int_equal(carry_out(&o), -800);
	assert_true(master.answer->quiet);
}

static void count_writes(const struct te_request *req,
			 struct te_completion *done, void *arg)
{
	(void)done;
	if (req->op == TE_WRITE)
		atomic_fetch_add((atomic_int *)arg, 1);
}

static void what_is_asked_twice_is_done_once(void **state)
{
	atomic_int n_writes = 0;

	(void)state;
	put_here(&plain);
	fake_te_set_hook(count_writes, &n_writes);
	assert_int_equal(carry_out(&plain), 0);
	assert_int_equal(carry_out(&plain), 0);
	assert_int_equal(atomic_load(&n_writes), 1);
	assert_int_equal(master.answer->n_crc, 1);
}

static void do_grow_older(void *arg)
{
	(void)arg;
	master.epoch++;
}

static void read_epoch(void *arg)
{
	*(uint64_t *)arg = master.owners[0].store->link.epoch;
}

/* The owner has heard of it with its next heartbeat. */
static bool has_heard(void *arg)
{
	uint64_t epoch = 0;

	(void)arg;
	(void)tei_loop_do(master.owners[0].store->loop, read_epoch, &epoch);
	return epoch == master.epoch;
}

/* The same master: somebody has heard of a later one before. */
static void nor_is_it_done_again_under_a_later_epoch(void **state)
{
	int n_hearts = atomic_load(&master.n_hearts);
	atomic_int n_writes = 0;

	(void)state;
	put_here(&plain);
	fake_te_set_hook(count_writes, &n_writes);
	assert_int_equal(carry_out(&plain), 0);
	assert_true(tei_loop_do(master.loop, do_grow_older, NULL));
	assert_true(test_wait_until(has_heard, NULL, POOL_START_MS));
	assert_int_equal(atomic_load(&master.n_hearts), n_hearts);
	assert_int_equal(carry_out(&plain), 0);
	assert_int_equal(atomic_load(&n_writes), 1);
}

/* More of them than the owner has threads, and more than it remembers. */
static void many_are_carried_out(void **state)
{
	struct order o = plain;
	int i, k, n = 0;

	(void)state;
	put_here(&plain);
	for (i = 0; i < 10; i++) {
		n = atomic_load(&master.n_answers) + 8;
		for (k = 0; k < 8; k++) {
			o.id++;
			assert_true(tei_loop_do(master.loop, do_push, &o));
		}
		assert_true(test_wait_until(answered, &n, POOL_START_MS));
		assert_int_equal(master.answer->status, 0);
	}
}

static bool came_back(void *arg)
{
	return atomic_load(&master.n_hearts) > *(const int *)arg;
}

static void tasks_that_do_not_hold_cost_the_connection(void **state)
{
	struct order o = plain;
	int hearts = atomic_load(&master.n_hearts);

	(void)state;
	o.to[0]--; /* a byte is missing */
	put_here(&plain);
	assert_true(tei_loop_do(master.loop, do_push, &o));
	assert_true(test_wait_until(came_back, &hearts, POOL_START_MS));
	assert_int_equal(atomic_load(&master.n_answers), 0);
}

static void do_commit(void *arg)
{
	Store__Committed msg = STORE__COMMITTED__INIT;
	Store__Objects objects = STORE__OBJECTS__INIT;
	char *tenant = arg;

	objects.tenants = &tenant;
	objects.n_tenants = 1;
	msg.objects = &objects;
	(void)tei_frame_send(master.owners[0].heart,
			     STORE__STORE_TYPE__STORE_COMMITTED, 0, 0,
			     &msg.base);
}

static void tenants_of_commits_cost_an_owner_little(void **state)
{
	int hearts = atomic_load(&master.n_hearts);
	char name[66];

	(void)state;
	memset(name, 'x', sizeof(name));
	name[65] = 0;
	assert_true(tei_loop_do(master.loop, do_commit, name));
	assert_true(test_wait_until(came_back, &hearts, POOL_START_MS));
}

static void a_segment_that_left_is_no_source(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	uint8_t *before = master.owners[0].base;
	struct order o = plain;

	(void)state;
	assert_int_equal(
		te_store_mount(master.owners[0].store, MASTER_BYTES, id), 0);
	assert_true(tei_loop_do(master.loop, do_nothing, NULL));
	assert_ptr_not_equal(master.owners[0].base, before);
	put_here(&plain);
	assert_int_equal(carry_out(&o), 0);
	assert_int_equal(te_store_unmount(master.owners[0].store, id, 0), 0);
	o.id++;
	assert_int_equal(carry_out(&o), -710);
	assert_true(master.answer->quiet);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, master_set_up, master_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_object_is_copied_with_its_header),
		TEST(it_may_be_cut_otherwise_there),
		TEST(what_is_not_the_object_is_not_told_of_as_done),
		TEST(what_may_still_arrive_is_not_told_of_as_quiet),
		TEST(what_is_asked_twice_is_done_once),
		TEST(nor_is_it_done_again_under_a_later_epoch),
		TEST(many_are_carried_out),
		TEST(tasks_that_do_not_hold_cost_the_connection),
		TEST(tenants_of_commits_cost_an_owner_little),
		TEST(a_segment_that_left_is_no_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
