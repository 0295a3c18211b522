/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_executor.c - what an owner copies for the master
 *
 * The master is the test's own, so that it can ask for anything, and both
 * owners are in this process, so that their memory can be looked into.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/frame.h"
#include "base/loop.h"
#include "store/proto/extent.h"
#include "store/proto/protocol.h"
#include "store/proto/store.pb-c.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

#define EPOCH      7u
#define SEED       5u
#define BYTES      (1u << 20)
#define GENERATION 99u
#define N_OWNERS   2
#define N_CONNS    16

/* ---- the master ---- */

struct owner {
	struct te_store *store;
	uint8_t incarnation[TE_INCARNATION_LEN];
	char name[TE_NAME_LEN_MAX + 1];
	uint8_t *base; /* of its segment */
	struct tei_frame_conn *heart;
};

struct master {
	struct tei_loop *loop;
	struct tei_frame_server *server;
	struct tei_frame_conn *conns[N_CONNS];
	int n_conns, rc;
	uint16_t port;
	uint64_t epoch;
	struct owner owners[N_OWNERS];
	int n_owners;
	/* The last answer. */
	atomic_int n_answers, n_hearts;
	Store__TaskDone *answer;
};

static struct master m;

static struct owner *owner_of(const char *engine)
{
	int i;

	for (i = 0; i < m.n_owners; i++)
		if (strcmp(m.owners[i].name, engine) == 0)
			return &m.owners[i];
	assert_true(m.n_owners < N_OWNERS);
	(void)snprintf(m.owners[i].name, sizeof(m.owners[i].name), "%s",
		       engine);
	return &m.owners[m.n_owners++];
}

static void on_hello(struct tei_frame_conn *conn, const struct tei_frame *f)
{
	static uint8_t group[TEI_STORE_GROUP_LEN];
	Store__HelloReply reply = STORE__HELLO_REPLY__INIT;
	Store__Hello *hello = store__hello__unpack(NULL, f->len, f->body);
	struct owner *o;

	assert_non_null(hello);
	assert_true(hello->features & TEI_STORE_EXECUTES);
	o = owner_of(hello->engine);
	memcpy(o->incarnation, hello->incarnation.data, TE_INCARNATION_LEN);
	if (hello->heartbeat) {
		o->heart = conn;
		atomic_fetch_add(&m.n_hearts, 1);
	}
	store__hello__free_unpacked(hello, NULL);
	reply.epoch = m.epoch;
	reply.digest_seed = SEED;
	reply.heartbeat_ms = 50;
	reply.group.data = group;
	reply.group.len = sizeof(group);
	(void)tei_frame_reply(conn, f, &reply.base);
}

static void on_mount(struct tei_frame_conn *conn, const struct tei_frame *f)
{
	Store__Mount *mount = store__mount__unpack(NULL, f->len, f->body);
	Store__Status reply = STORE__STATUS__INIT;

	assert_non_null(mount);
	owner_of(mount->name)->base = (uint8_t *)(uintptr_t)mount->address;
	store__mount__free_unpacked(mount, NULL);
	(void)tei_frame_reply(conn, f, &reply.base);
}

static void on_frame(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	Store__HeartbeatReply beat = STORE__HEARTBEAT_REPLY__INIT;
	Store__Status status = STORE__STATUS__INIT;

	(void)arg;
	switch (f->type) {
	case STORE__STORE_TYPE__STORE_HELLO:
		on_hello(conn, f);
		break;
	case STORE__STORE_TYPE__STORE_HEARTBEAT:
		beat.epoch = m.epoch;
		(void)tei_frame_reply(conn, f, &beat.base);
		break;
	case STORE__STORE_TYPE__STORE_MOUNT:
		on_mount(conn, f);
		break;
	case STORE__STORE_TYPE__STORE_TASK_DONE:
		if (m.answer)
			store__task_done__free_unpacked(m.answer, NULL);
		m.answer = store__task_done__unpack(NULL, f->len, f->body);
		assert_non_null(m.answer);
		atomic_fetch_add(&m.n_answers, 1);
		break;
	default:
		(void)tei_frame_reply(conn, f, &status.base);
		break;
	}
}

static void on_down(struct tei_frame_conn *conn, int err, const char *text,
		    void *arg)
{
	int i;

	(void)err;
	(void)text;
	(void)arg;
	for (i = 0; i < m.n_owners; i++)
		if (m.owners[i].heart == conn)
			m.owners[i].heart = NULL;
	for (i = 0; m.conns[i] != conn;)
		i++;
	m.conns[i] = m.conns[--m.n_conns];
	tei_frame_close(conn);
}

static void on_accepted(struct tei_frame_conn *conn, void *arg)
{
	(void)arg;
	assert_true(m.n_conns < N_CONNS);
	m.conns[m.n_conns++] = conn;
}

static const struct tei_frame_ops ops = {.frame = on_frame, .down = on_down};

static void do_listen(void *arg)
{
	const struct tei_frame_server_config config = {
		.protocol = &tei_store_protocol,
		.host = "127.0.0.1",
		.n_max = N_CONNS,
		.ops = &ops,
		.accepted = on_accepted,
	};

	(void)arg;
	m.rc = tei_frame_listen(m.loop, &config, &m.port, &m.server);
}

static void do_close(void *arg)
{
	(void)arg;
	tei_frame_server_close(m.server);
	while (m.n_conns)
		tei_frame_close(m.conns[--m.n_conns]);
}

static struct te_store *join(void)
{
	struct te_store *store = NULL;
	char address[32];
	const struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = POOL_START_MS,
		.call_timeout_ms = POOL_START_MS,
		.replica_timeout_ms = POOL_START_MS,
		.master = address,
		.segment_bytes = BYTES,
	};

	(void)snprintf(address, sizeof(address), "127.0.0.1:%u",
		       (unsigned int)m.port);
	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

/* On the loop, which knows the owners. */
static void do_name(void *store)
{
	owner_of(te_store_hostname(store))->store = store;
}

static void do_nothing(void *arg)
{
	(void)arg;
}

static int set_up(void **state)
{
	int i;

	(void)state;
	memset(&m, 0, sizeof(m));
	m.epoch = EPOCH;
	assert_int_equal(tei_loop_create("master", &m.loop), 0);
	assert_true(tei_loop_do(m.loop, do_listen, NULL));
	assert_int_equal(m.rc, 0);
	for (i = 0; i < N_OWNERS; i++) {
		struct te_store *store = join();

		assert_true(tei_loop_do(m.loop, do_name, store));
	}
	return 0;
}

static int tear_down(void **state)
{
	int i;

	(void)state;
	fake_te_set_hook(NULL, NULL);
	for (i = 0; i < N_OWNERS; i++)
		te_store_close(m.owners[i].store);
	assert_true(tei_loop_do(m.loop, do_close, NULL));
	tei_loop_stop(m.loop);
	tei_loop_destroy(m.loop);
	if (m.answer)
		store__task_done__free_unpacked(m.answer, NULL);
	return 0;
}

/* ---- tasks ---- */

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
		const struct tei_extent_header h = {
			.gen_epoch = EPOCH,
			.generation = GENERATION,
			.digest = tei_key_digest("key", 3, SEED),
			.object_size = SIZE,
			.offset = offset,
			.length = o->from[i],
			.index = (uint16_t)i,
			.count = (uint16_t)o->n_from,
		};

		tei_extent_encode(&h, m.owners[0].base + FROM(i));
		memcpy(m.owners[0].base + FROM(i) + TEI_EXTENT_HEADER_LEN,
		       value + offset, o->from[i]);
		offset += o->from[i];
	}
}

static void do_push(void *arg)
{
	const struct order *o = arg;
	uint64_t offset = 0, gen_epoch = EPOCH, size = SIZE;
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
		at[i] = (uint64_t)(uintptr_t)m.owners[0].base + FROM(i);
		from_len[i] = o->from[i];
		crcs[i] = te_crc32c(0, value + offset, o->from[i]) ^
			  o->crc_change;
		offset += o->from[i];
	}
	for (i = 0; i < o->n_to; i++) {
		to[i] = (uint64_t)(uintptr_t)m.owners[1].base + TO(i);
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
				      : m.owners[1].name;
	target.incarnation = (ProtobufCBinaryData){TE_INCARNATION_LEN,
						   m.owners[1].incarnation};
	task.id = (ProtobufCBinaryData){sizeof(id), id};
	task.source = &source;
	task.target = &target;
	task.address = to;
	task.length = to_len;
	task.n_address = task.n_length = o->n_to;
	task.epoch = m.epoch;
	task.timeout_ms = POOL_START_MS;
	assert_non_null(m.owners[0].heart);
	(void)tei_frame_send(m.owners[0].heart, STORE__STORE_TYPE__STORE_TASK,
			     0, 0, &task.base);
}

static bool answered(void *arg)
{
	return atomic_load(&m.n_answers) >= *(const int *)arg;
}

/* Has it done, and returns the status; the answer is in m.answer. */
static int carry_out(const struct order *o)
{
	int n = atomic_load(&m.n_answers) + 1;

	assert_true(tei_loop_do(m.loop, do_push, (void *)(uintptr_t)o));
	assert_true(test_wait_until(answered, &n, POOL_START_MS));
	assert_int_equal(m.answer->id.len, 16);
	assert_int_equal(m.answer->id.data[0], o->id);
	return m.answer->status;
}

/* What is at the target is the object, in @o's parts, and so it was told. */
static void assert_there(const struct order *o)
{
	struct tei_extent_header h = {.index = 0};
	uint64_t offset = 0;
	size_t i;

	assert_int_equal(m.answer->n_crc, o->n_to);
	for (i = 0; i < o->n_to; i++) {
		const uint8_t *at = m.owners[1].base + TO(i);

		assert_int_equal(tei_extent_decode(at, &h), 0);
		assert_int_equal(h.generation, GENERATION);
		assert_int_equal(h.gen_epoch, EPOCH);
		assert_int_equal(h.digest, tei_key_digest("key", 3, SEED));
		assert_int_equal(h.object_size, SIZE);
		assert_int_equal(h.offset, offset);
		assert_int_equal(h.length, o->to[i]);
		assert_int_equal(h.index, i);
		assert_int_equal(h.count, o->n_to);
		assert_memory_equal(at + TEI_EXTENT_HEADER_LEN, value + offset,
				    o->to[i]);
		assert_int_equal(m.answer->crc[i],
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
	assert_true(m.answer->quiet);
	assert_false(m.answer->no_crc);
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
	assert_true(m.answer->quiet);
	o.generation--;
	o.id = 2;
	o.crc_change = 1;
	assert_int_equal(carry_out(&o), -801);
	assert_true(m.answer->quiet);
	/* Without a checksum its headers are all there is. */
	o.id = 3;
	o.no_crc = 1;
	assert_int_equal(carry_out(&o), 0);
	assert_true(m.answer->no_crc);
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
	assert_false(m.answer->quiet);
	fake_te_set_hook(NULL, NULL);
	o.id = 2;
	o.to_nowhere = true;
	assert_int_equal(carry_out(&o), -800);
	assert_true(m.answer->quiet);
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
	assert_int_equal(m.answer->n_crc, 1);
}

static void do_grow_older(void *arg)
{
	(void)arg;
	m.epoch++;
}

static bool are_back(void *arg)
{
	return atomic_load(&m.n_hearts) >= *(const int *)arg &&
	       !te_store_health(m.owners[0].store);
}

/* The same master: somebody has heard of a later one before. */
static void nor_is_it_done_again_under_a_later_epoch(void **state)
{
	int n_hearts = atomic_load(&m.n_hearts) + N_OWNERS;
	atomic_int n_writes = 0;

	(void)state;
	put_here(&plain);
	fake_te_set_hook(count_writes, &n_writes);
	assert_int_equal(carry_out(&plain), 0);
	assert_true(tei_loop_do(m.loop, do_grow_older, NULL));
	assert_true(test_wait_until(are_back, &n_hearts, POOL_START_MS));
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
		n = atomic_load(&m.n_answers) + 8;
		for (k = 0; k < 8; k++) {
			o.id++;
			assert_true(tei_loop_do(m.loop, do_push, &o));
		}
		assert_true(test_wait_until(answered, &n, POOL_START_MS));
		assert_int_equal(m.answer->status, 0);
	}
}

static bool came_back(void *arg)
{
	return atomic_load(&m.n_hearts) > *(const int *)arg;
}

static void tasks_that_do_not_hold_cost_the_connection(void **state)
{
	struct order o = plain;
	int hearts = atomic_load(&m.n_hearts);

	(void)state;
	o.to[0]--; /* a byte is missing */
	put_here(&plain);
	assert_true(tei_loop_do(m.loop, do_push, &o));
	assert_true(test_wait_until(came_back, &hearts, POOL_START_MS));
	assert_int_equal(atomic_load(&m.n_answers), 0);
}

static void do_commit(void *arg)
{
	Store__Committed msg = STORE__COMMITTED__INIT;
	Store__Objects objects = STORE__OBJECTS__INIT;
	char *tenant = arg;

	objects.tenants = &tenant;
	objects.n_tenants = 1;
	msg.objects = &objects;
	(void)tei_frame_send(m.owners[0].heart,
			     STORE__STORE_TYPE__STORE_COMMITTED, 0, 0,
			     &msg.base);
}

static void tenants_of_commits_cost_an_owner_little(void **state)
{
	int hearts = atomic_load(&m.n_hearts);
	char name[66];

	(void)state;
	memset(name, 'x', sizeof(name));
	name[65] = 0;
	assert_true(tei_loop_do(m.loop, do_commit, name));
	assert_true(test_wait_until(came_back, &hearts, POOL_START_MS));
}

static void a_segment_that_left_is_no_source(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	uint8_t *before = m.owners[0].base;
	struct order o = plain;

	(void)state;
	assert_int_equal(te_store_mount(m.owners[0].store, BYTES, id), 0);
	assert_true(tei_loop_do(m.loop, do_nothing, NULL));
	assert_ptr_not_equal(m.owners[0].base, before);
	put_here(&plain);
	assert_int_equal(carry_out(&o), 0);
	assert_int_equal(te_store_unmount(m.owners[0].store, id, 0), 0);
	o.id++;
	assert_int_equal(carry_out(&o), -710);
	assert_true(m.answer->quiet);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
