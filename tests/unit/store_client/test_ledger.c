/* SPDX-License-Identifier: Apache-2.0 */
/* test_ledger.c - what an owner offers to which master, and what it gives up */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/client/client.h"
#include "store/proto/extent.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"
#include "tests/unit/store_client/executor_master.h"

#define PAGE 4096u
#define SIZE 100u

/* An object of the first owner, at the beginning of the page of its number. */
struct object {
	uint64_t number, epoch, seed;
};

static uint8_t *place_of(const struct object *o)
{
	return master.owners[0].base + o->number * PAGE;
}

/* As its writer does, and the master tells. */
static void do_commit(void *arg)
{
	const struct object *o = arg;
	Store__Committed msg = STORE__COMMITTED__INIT;
	Store__Objects objects = STORE__OBJECTS__INIT;
	uint64_t generation = o->number, epoch = o->epoch, size = SIZE;
	uint64_t address = (uint64_t)(uintptr_t)place_of(o), length = SIZE;
	uint32_t key_len = 3, crc = 0;
	const struct tes_extent_header h = {
		.gen_epoch = epoch,
		.generation = generation,
		.digest = tes_key_digest("key", 3, o->seed),
		.object_size = SIZE,
		.length = SIZE,
		.count = 1,
	};

	tes_extent_encode(&h, place_of(o));
	objects.keys = (ProtobufCBinaryData){3, (uint8_t *)(uintptr_t) "key"};
	objects.key_lens = &key_len;
	objects.generation = &generation;
	objects.gen_epoch = &epoch;
	objects.size = &size;
	objects.n_key_lens = objects.n_generation = objects.n_gen_epoch =
		objects.n_size = 1;
	objects.address = &address;
	objects.length = &length;
	objects.crc = &crc;
	objects.n_address = objects.n_length = objects.n_crc = 1;
	msg.objects = &objects;
	assert_non_null(master.owners[0].heart);
	(void)tei_frame_send(master.owners[0].heart,
			     STORE__STORE_TYPE__STORE_COMMITTED, 0, 0,
			     &msg.base);
}

static struct tes_segment *segment_of_first(void)
{
	return tei_list_entry(master.owners[0].store->segments.list.next,
			      struct tes_segment, link);
}

static void count_objects(void *arg)
{
	struct tes_ledger *ledger = &segment_of_first()->ledger;

	tei_mutex_lock(&ledger->mu);
	*(size_t *)arg = ledger->inventory.n_objects;
	tei_mutex_unlock(&ledger->mu);
}

static bool has_objects(void *arg)
{
	size_t n = 0;

	(void)tei_loop_do(master.owners[0].store->loop, count_objects, &n);
	return n == *(const size_t *)arg;
}

/* The first owner's ledger has @n objects then. */
static void commit(struct object *o, size_t n)
{
	assert_true(tei_loop_do(master.loop, do_commit, o));
	assert_true(test_wait_until(has_objects, &n, POOL_START_MS));
}

static bool has_offered(void *arg)
{
	return atomic_load(&master.n_last_offers) >= *(const int *)arg;
}

/* All owners have said @n times that these are all. */
static void await_offers(int n)
{
	assert_true(test_wait_until(has_offered, &n, POOL_START_MS));
}

static bool is_there(const struct object *o)
{
	struct tes_extent_header h;

	return tes_extent_decode(place_of(o), &h) == 0 &&
	       h.generation == o->number && h.gen_epoch == o->epoch &&
	       h.digest == tes_key_digest("key", 3, o->seed);
}

/* ---- what is proved ---- */

/* As two are whose clocks went back, and who heard of the same one before. */
static void another_master_of_the_same_epoch_is_offered_everything(void **state)
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};
	uint8_t *base = master.owners[0].base;

	(void)state;
	commit(&o, 1);
	master_change(MASTER_EPOCH, 6, false);
	await_offers(MASTER_OWNERS);
	assert_int_equal(atomic_load(&master.n_offered), 1);
	assert_ptr_equal(master.owners[0].base, base);
	o.seed = 6;
	assert_true(is_there(&o));
}

static void a_master_that_gave_us_up_is_offered_nothing(void **state)
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};

	(void)state;
	commit(&o, 1);
	/* Its epoch has grown meanwhile. */
	master_change(MASTER_EPOCH + 1, MASTER_SEED, false);
	await_offers(MASTER_OWNERS);
	assert_int_equal(atomic_load(&master.n_offered), 0);
	assert_false(is_there(&o));
}

static void a_master_that_kept_all_is_offered_nothing(void **state)
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};

	(void)state;
	commit(&o, 1);
	master_change(MASTER_EPOCH + 1, MASTER_SEED, true);
	await_offers(MASTER_OWNERS);
	assert_int_equal(atomic_load(&master.n_offered), 0);
	assert_true(is_there(&o));
}

/*
 * Its answer was lost: by then it may have refused the object, and have given
 * the space to somebody who writes there now.
 */
static void what_is_offered_once_more_is_not_written_once_more(void **state)
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};
	void *page = place_of(&o);

	(void)state;
	commit(&o, 1);
	master.n_silent = MASTER_OWNERS;
	master_change(MASTER_EPOCH + 1, 6, false);
	await_offers(MASTER_OWNERS);
	assert_int_equal(mprotect(page, PAGE, PROT_READ), 0);
	master_change(MASTER_EPOCH + 1, 6, true);
	await_offers(2 * MASTER_OWNERS);
	assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(atomic_load(&master.n_offered), 2);
	o.seed = 6;
	assert_true(is_there(&o));
}

/* It gave the owner up before the answer to the last offer came. */
static void what_a_master_gave_up_of_its_own_is_void(void **state)
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};
	struct object own = {2, MASTER_EPOCH + 1, 6};
	size_t none = 0;

	(void)state;
	commit(&o, 1);
	master.n_silent = MASTER_OWNERS;
	master_change(MASTER_EPOCH + 1, 6, false);
	await_offers(MASTER_OWNERS);
	commit(&own, 2);
	master.refusal = TE_STORE_OBJECT_NOT_FOUND;
	master_change(MASTER_EPOCH + 1, 6, false);
	await_offers(2 * MASTER_OWNERS);
	assert_true(test_wait_until(has_objects, &none, POOL_START_MS));
	assert_false(is_there(&own));
}

/*
 * On the owner's loop, which reads nothing meanwhile, and leaves unread what
 * follows commits that came closely.
 */
static void do_leave_unread(void *arg)
{
	struct tes_master_link *link = &master.owners[0].store->link;

	link->unread.last_ns = tei_now_ns();
	tes_unread_commit(&link->unread, link->heartbeat);
	assert_ptr_equal(link->unread.conn, link->heartbeat);
	assert_true(tei_loop_do(master.loop, do_commit, arg));
}

static void do_lose(void *arg)
{
	do_leave_unread(arg);
	tes_master_link_lose(&master.owners[0].store->link, "a test");
}

static void look_at_unread(void *none)
{
	*(bool *)none = !master.owners[0].store->link.unread.conn;
}

static bool leaves_none_unread(void *arg)
{
	bool none = false;

	(void)arg;
	(void)tei_loop_do(master.owners[0].store->loop, look_at_unread, &none);
	return none;
}

/* Commits one, and another that is unread when @fn is done; both are read. */
static void commit_unread(void (*fn)(void *))
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};
	struct object next = {2, MASTER_EPOCH, MASTER_SEED};
	size_t both = 2;

	commit(&o, 1);
	assert_true(tei_loop_do(master.owners[0].store->loop, fn, &next));
	assert_true(test_wait_until(has_objects, &both, POOL_START_MS));
}

static void what_is_unread_is_read_soon(void **state)
{
	(void)state;
	commit_unread(do_leave_unread);
	assert_true(test_wait_until(leaves_none_unread, NULL, POOL_START_MS));
}

static void what_is_unread_is_read_before_the_link_is_closed(void **state)
{
	(void)state;
	commit_unread(do_lose);
}

/* ---- an owner that stood still ---- */

/*
 * As if it had been stopped just so long ago that its last heartbeat before is
 * as old as a master waits for, and went on now.
 */
static void do_stop(void *store)
{
	struct tes_master_link *link = &((struct te_store *)store)->link;

	assert_true(link->client_ttl_ms - link->heartbeat_ms > 2000);
	link->awake_ns -=
		(link->client_ttl_ms - link->heartbeat_ms) * TEI_NS_PER_MS;
}

static void look_at_sleep(void *slept)
{
	const struct tes_master_link *link = &master.owners[0].store->link;

	*(bool *)slept = link->slept_ns != 0;
}

static bool has_slept(void *arg)
{
	bool slept = false;

	(void)arg;
	(void)tei_loop_do(master.owners[0].store->loop, look_at_sleep, &slept);
	return slept;
}

static void stand_still(void)
{
	struct te_store *store = master.owners[0].store;

	assert_true(tei_loop_do(store->loop, do_stop, store));
	assert_true(test_wait_until(has_slept, NULL, POOL_START_MS));
}

/* On its loop: so it hears nothing from the owner before it is another one. */
static void do_change_asleep(void *arg)
{
	(void)arg;
	stand_still();
	master_change(MASTER_EPOCH + 1, 6, false);
}

static void who_slept_too_long_brings_nothing_to_another_master(void **state)
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};

	(void)state;
	commit(&o, 1);
	assert_true(tei_loop_do(master.loop, do_change_asleep, NULL));
	await_offers(MASTER_OWNERS);
	assert_int_equal(atomic_load(&master.n_offered), 0);
	assert_false(is_there(&o));
}

static void look_at_news(void *heard)
{
	const struct tes_master_link *link = &master.owners[0].store->link;

	*(bool *)heard = segment_of_first()->heard_ns > link->slept_ns;
}

static bool has_heard(void *arg)
{
	bool heard = false;

	(void)arg;
	(void)tei_loop_do(master.owners[0].store->loop, look_at_news, &heard);
	return heard;
}

/* Its master had stood still as well, say: it had it still. */
static void who_was_not_given_up_brings_what_it_has(void **state)
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};

	(void)state;
	commit(&o, 1);
	stand_still();
	assert_true(test_wait_until(has_heard, NULL, POOL_START_MS));
	master_change(MASTER_EPOCH + 1, 6, false);
	await_offers(MASTER_OWNERS);
	assert_int_equal(atomic_load(&master.n_offered), 1);
	o.seed = 6;
	assert_true(is_there(&o));
}

/* ---- what is said ---- */

static char line[512];

static void keep_line(int level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	if (strstr(text, "given up"))
		(void)snprintf(line, sizeof(line), "%s", text);
}

/* ---- mounts whose answer is lost ---- */

static void keep_all(void *arg)
{
	(void)arg;
	master.kept = true;
}

/* As by a master that knows of what it has taken. */
static void a_mount_whose_answer_is_lost_is_said_again(void **state)
{
	struct te_store *store = master.owners[0].store;
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	int before = atomic_load(&master.n_mounts);

	(void)state;
	assert_true(tei_loop_do(master.loop, keep_all, NULL));
	atomic_store(&master.n_lost, 1);
	assert_int_equal(te_store_mount(store, MASTER_BYTES, id), 0);
	assert_int_equal(atomic_load(&master.n_mounts), before + 2);
	assert_memory_equal(id, master.segment, sizeof(id));
	assert_int_equal(te_store_unmount(store, id, 0), 0);
}

/* It puts something where it has space now, and is gone. */
static void commit_and_go(void)
{
	struct object o = {1, MASTER_EPOCH, MASTER_SEED};

	do_commit(&o);
	master_change_now(MASTER_EPOCH + 1, 6, false);
}

static void what_was_put_before_the_answer_was_lost_is_offered(void **state)
{
	struct object o = {1, MASTER_EPOCH, 6};
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];

	(void)state;
	master.lost = commit_and_go;
	atomic_store(&master.n_lost, 2);
	assert_int_equal(
		te_store_mount(master.owners[0].store, MASTER_BYTES, id), 0);
	await_offers(MASTER_OWNERS + 1);
	assert_int_equal(atomic_load(&master.n_offered), 1);
	assert_true(is_there(&o));
}

static void what_is_given_up_as_of_later_masters_is_named(void **state)
{
	struct object one = {1, 900, MASTER_SEED}, two = {2, 800, MASTER_SEED};
	const uint8_t *id = segment_of_first()->id;
	char start[64];
	size_t none = 0;

	(void)state;
	(void)snprintf(start, sizeof(start), "segment %02x%02x%02x%02x-%02x",
		       id[0], id[1], id[2], id[3], id[4]);
	tei_log_set_sink(keep_line, NULL);
	commit(&one, 1);
	commit(&two, 2);
	master.refusal = TE_STORE_INVALID_VERSION;
	master_change(MASTER_EPOCH, 6, false);
	await_offers(MASTER_OWNERS);
	assert_true(test_wait_until(has_objects, &none, POOL_START_MS));
	te_store_close(master.owners[0].store);
	master.owners[0].store = NULL;
	tei_log_set_sink(NULL, NULL);
	assert_non_null(strstr(line, start));
	assert_non_null(strstr(line, "2 objects of epochs 800 to 900"));
	assert_non_null(strstr(line, "later than epoch 7 "));
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, master_set_up, master_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(another_master_of_the_same_epoch_is_offered_everything),
		TEST(a_master_that_gave_us_up_is_offered_nothing),
		TEST(a_master_that_kept_all_is_offered_nothing),
		TEST(what_is_offered_once_more_is_not_written_once_more),
		TEST(what_a_master_gave_up_of_its_own_is_void),
		TEST(what_is_unread_is_read_soon),
		TEST(what_is_unread_is_read_before_the_link_is_closed),
		TEST(who_slept_too_long_brings_nothing_to_another_master),
		TEST(who_was_not_given_up_brings_what_it_has),
		TEST(a_mount_whose_answer_is_lost_is_said_again),
		TEST(what_was_put_before_the_answer_was_lost_is_offered),
		TEST(what_is_given_up_as_of_later_masters_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
