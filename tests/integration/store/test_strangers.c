/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_strangers.c - an engine outside the pool reaches nothing of it
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/client/client.h"
#include "store/proto/store.pb-c.h"
#include "tests/integration/store/leak.h"
#include "tests/lib/stat.h"
#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define MIB (1u << 20)

struct world {
	struct pool pool;
	struct test_process *owner;
	struct te_store *member;
	struct te_engine *stranger;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	pool_start(&w->pool, pool_patient);
	w->owner = pool_owner(&w->pool, "4 MB");
	w->member = pool_client(&w->pool, 0);
	assert_int_equal(te_engine_create(NULL, NULL, &w->stranger), 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	te_engine_destroy(w->stranger);
	te_store_close(w->member);
	test_process_end(w->owner);
	pool_stop(&w->pool);
	free(w);
	return 0;
}

/* Where an object lies, as a member may know. */
static uint64_t find(struct te_store *store, const char *key, char *engine,
		     size_t room)
{
	uint32_t len = (uint32_t)strlen(key);
	Store__Lookup msg = STORE__LOOKUP__INIT;
	Store__LookupReply *found;
	struct tes_reply reply;
	struct tei_arena arena;
	uint64_t address;

	msg.n_key_lens = 1;
	msg.key_lens = &len;
	msg.keys.data = (uint8_t *)(uintptr_t)key;
	msg.keys.len = len;
	tei_arena_init(&arena, MIB);
	assert_int_equal(tes_store_call(store, STORE__STORE_TYPE__STORE_LOOKUP,
					&msg.base, &arena,
					tes_call_deadline(store), &reply),
			 0);
	found = store__lookup_reply__unpack(&arena.pb, reply.len, reply.body);
	assert_non_null(found);
	assert_int_equal(found->status[0], 0);
	address = found->address[0];
	assert_true(strlen(found->segments[0]->engine) < room);
	(void)snprintf(engine, room, "%s", found->segments[0]->engine);
	tei_arena_fini(&arena);
	return address;
}

static int attempt(struct te_engine *engine, const char *name, uint32_t op,
		   uint64_t remote, void *local, size_t len)
{
	struct iovec piece = {local, len};
	struct te_request req = {
		.op = op,
		.remote = remote,
		.pieces = &piece,
		.n_pieces = 1,
		.timeout_ms = 30000,
	};
	struct te_completion done;
	struct te_batch *batch;

	assert_int_equal(te_segment_open(engine, name, 30000, &req.segment), 0);
	assert_int_equal(te_batch_create(engine, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &req, 1), 0);
	assert_int_equal(te_batch_wait(batch, UINT32_MAX), 0);
	assert_int_equal(te_batch_result(batch, 0, &done), 0);
	te_batch_destroy(batch);
	te_segment_close(engine, req.segment);
	return done.error;
}

static bool refused(int error)
{
	return error == -EACCES || error == -EFAULT;
}

/* What the engine itself has refused, knowing of no region that fits. */
static uint64_t n_refused(struct te_engine *engine)
{
	return test_stat(engine, "te_requests_failed_total", "range") +
	       test_stat(engine, "te_requests_failed_total", "access");
}

static void objects_are_out_of_a_strangers_reach(void **state)
{
	struct world *w = *state;
	uint8_t bytes[1000], room[1000];
	char engine[TEI_NAME_LEN_MAX + 1];
	uint64_t address, before = n_refused(w->stranger);

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_put(w->member, "a", bytes, sizeof(bytes)), 0);
	address = find(w->member, "a", engine, sizeof(engine));
	memset(room, 0x33, sizeof(room));
	assert_true(refused(attempt(w->stranger, engine, TE_READ, address, room,
				    sizeof(room))));
	assert_int_equal(room[0], 0x33);
	assert_int_equal(room[999], 0x33);
	assert_true(refused(attempt(w->stranger, engine, TE_WRITE, address,
				    room, sizeof(room))));
	assert_int_equal(n_refused(w->stranger), before + 2);
	assert_int_equal(pool_get(w->member, "a", room, sizeof(room)), 1000);
	assert_memory_equal(room, bytes, sizeof(bytes));
	/* A member reaches the very same bytes. */
	assert_int_equal(attempt(te_store_engine(w->member), engine, TE_READ,
				 address, room, sizeof(room)),
			 0);
}

static void a_stranger_sees_no_regions_of_the_pool(void **state)
{
	struct world *w = *state;
	char engine[TEI_NAME_LEN_MAX + 1];
	te_segment_id segment;
	size_t n = 0;

	assert_int_equal(pool_put(w->member, "b", "x", 1), 0);
	(void)find(w->member, "b", engine, sizeof(engine));
	assert_int_equal(te_segment_open(w->stranger, engine, 30000, &segment),
			 0);
	assert_int_equal(te_segment_regions(w->stranger, segment, NULL, &n), 0);
	assert_int_equal(n, 0);
	te_segment_close(w->stranger, segment);
}

static void a_registered_buffer_is_its_clients_alone(void **state)
{
	struct world *w = *state;
	static uint8_t buffer[64 * 1024];
	uint8_t room[1000];
	const char *name = te_store_hostname(w->member);
	uint64_t address = (uint64_t)(uintptr_t)buffer;

	pool_fill(buffer, sizeof(buffer), 2);
	assert_int_equal(te_store_register(w->member, buffer, sizeof(buffer)),
			 0);
	memset(room, 0x44, sizeof(room));
	assert_true(refused(attempt(w->stranger, name, TE_READ, address, room,
				    sizeof(room))));
	assert_int_equal(room[500], 0x44);
	assert_true(refused(attempt(w->stranger, name, TE_WRITE, address, room,
				    sizeof(room))));
	assert_true(pool_is_filled(buffer, sizeof(buffer), 2));
	assert_int_equal(te_store_unregister(w->member, buffer), 0);
}

/* ---- one that knows the keys, as from a member's memory ---- */

/* The owner itself says no; what an engine is told by it then is no secret. */
static void try_stolen_key(struct world *w, struct te_store *owner,
			   struct te_store *member, uint32_t op, uint8_t *room,
			   size_t len)
{
	static const char counter[] = "te_slices_refused_total";
	char engine[TEI_NAME_LEN_MAX + 1];
	uint64_t address = find(member, "a", engine, sizeof(engine)), before;
	te_segment_id open;

	assert_int_equal(te_segment_open(w->stranger, engine, 30000, &open), 0);
	leak_regions(te_store_engine(member), w->stranger, engine);
	before = test_stat(te_store_engine(owner), counter, NULL);
	assert_true(
		refused(attempt(w->stranger, engine, op, address, room, len)));
	assert_true(test_stat(te_store_engine(owner), counter, NULL) > before);
	te_segment_close(w->stranger, open);
}

static void a_stranger_with_a_stolen_key_is_refused_and_counted(void **state)
{
	struct world *w = *state;
	struct te_store *owner, *member;
	uint8_t bytes[1000], room[1000];
	struct pool pool;

	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, MIB);
	member = pool_client(&pool, 0);
	pool_fill(bytes, sizeof(bytes), 3);
	assert_int_equal(pool_put(member, "a", bytes, sizeof(bytes)), 0);
	memset(room, 0x55, sizeof(room));
	try_stolen_key(w, owner, member, TE_READ, room, sizeof(room));
	assert_int_equal(room[0], 0x55);
	assert_int_equal(room[999], 0x55);
	try_stolen_key(w, owner, member, TE_WRITE, room, sizeof(room));
	assert_int_equal(pool_get(member, "a", room, sizeof(room)), 1000);
	assert_memory_equal(room, bytes, sizeof(bytes));
	te_store_close(member);
	te_store_close(owner);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_out_of_a_strangers_reach),
		cmocka_unit_test(a_stranger_sees_no_regions_of_the_pool),
		cmocka_unit_test(a_registered_buffer_is_its_clients_alone),
		cmocka_unit_test(
			a_stranger_with_a_stolen_key_is_refused_and_counted),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
