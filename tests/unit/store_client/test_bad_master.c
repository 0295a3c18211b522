/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bad_master.c - masters that stay silent, talk nonsense or ask for much
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/frame.h"
#include "base/loop.h"
#include "store/proto/protocol.h"
#include "store/proto/store.pb-c.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

#define GIVE_UP_MS 1000 /* a call that must fail */

/* ---- a master that a test can bend ---- */

enum mood {
	MOOD_SILENT,   /* answers nothing */
	MOOD_IDLE,     /* answers hellos and heartbeats */
	MOOD_FENCES,   /* asks for fences of many writers */
	MOOD_OLD,      /* another version */
	MOOD_NO_GROUP, /* a hello without group */
	MOOD_NONSENSE, /* bytes that do not decode */
	MOOD_SHORT,    /* replies without columns */
	MOOD_FAR,      /* names a segment that is not there */
	MOOD_DROPS,    /* closes on the first call */
	MOOD_REFUSES,  /* says so in words */
	MOOD_FULL,     /* has no room for who comes first */
};

#define N_FENCES 40

struct master {
	struct tei_loop *loop;
	struct tei_frame_server *server;
	struct tei_frame_conn *conns[64];
	int n_conns;
	uint16_t port;
	enum mood mood;
	int rc;
	bool fencing, has_refused;
	atomic_uint n_pending, n_fenced, n_hellos;
};

static void send_nonsense(struct tei_frame_conn *conn,
			  const struct tei_frame *f)
{
	/* Field 1 as a message of a length that is not there. */
	Store__Fenced msg = STORE__FENCED__INIT;

	msg.base.n_unknown_fields = 1;
	msg.base.unknown_fields = &(ProtobufCMessageUnknownField){
		.tag = 1,
		.wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
		.len = 1,
		.data = (uint8_t[]){0x7f},
	};
	(void)tei_frame_reply(conn, f, &msg.base);
}

static void answer_hello(struct master *m, struct tei_frame_conn *conn,
			 const struct tei_frame *f)
{
	static uint8_t group[TES_STORE_GROUP_LEN];
	Store__HelloReply msg = STORE__HELLO_REPLY__INIT;

	msg.status = m->mood == MOOD_OLD ? TE_STORE_INVALID_VERSION : 0;
	msg.why = "other version";
	msg.epoch = 7;
	msg.heartbeat_ms = 100;
	msg.group.data = group;
	msg.group.len = m->mood == MOOD_NO_GROUP ? 0 : sizeof(group);
	(void)tei_frame_reply(conn, f, &msg.base);
}

static void answer_far(struct tei_frame_conn *conn, const struct tei_frame *f)
{
	Store__LookupReply msg = STORE__LOOKUP_REPLY__INIT;
	uint64_t number = 1;
	uint32_t far = 3, crc = 0;
	int32_t status = 0;

	msg.n_status = msg.n_size = msg.n_segment = msg.n_address = 1;
	msg.n_generation = msg.n_gen_epoch = msg.n_crc = 1;
	msg.status = &status;
	msg.segment = &far;
	msg.crc = &crc;
	msg.size = msg.address = msg.generation = msg.gen_epoch = &number;
	(void)tei_frame_reply(conn, f, &msg.base);
}

static void answer_call(struct master *m, struct tei_frame_conn *conn,
			const struct tei_frame *f)
{
	Store__KeysReply nothing = STORE__KEYS_REPLY__INIT;

	switch (m->mood) {
	case MOOD_NONSENSE:
		send_nonsense(conn, f);
		break;
	case MOOD_SHORT:
		(void)tei_frame_reply(conn, f, &nothing.base);
		break;
	case MOOD_FAR:
		answer_far(conn, f);
		break;
	case MOOD_REFUSES:
		tei_frame_refuse(conn, "not today");
		break;
	default:
		break;
	}
}

static void ask_for_fences(struct master *m, struct tei_frame_conn *conn)
{
	Store__Fence msg = STORE__FENCE__INIT;
	uint8_t writer[TE_INCARNATION_LEN] = {0};

	msg.writer.data = writer;
	msg.writer.len = sizeof(writer);
	for (; !m->fencing && msg.fence < N_FENCES; msg.fence++) {
		writer[0] = (uint8_t)msg.fence;
		(void)tei_frame_send(conn, STORE__STORE_TYPE__STORE_FENCE, 0, 0,
				     &msg.base);
	}
	m->fencing = true;
}

static void take_fenced(struct master *m, const struct tei_frame *f)
{
	Store__Fenced *msg = store__fenced__unpack(NULL, f->len, f->body);

	assert_non_null(msg);
	if (msg->pending)
		atomic_fetch_add(&m->n_pending, 1);
	else if (!msg->status)
		atomic_fetch_add(&m->n_fenced, 1);
	store__fenced__free_unpacked(msg, NULL);
}

static void on_frame(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	struct master *m = arg;
	Store__HeartbeatReply beat = STORE__HEARTBEAT_REPLY__INIT;
	int i;

	if (m->mood == MOOD_FULL && !m->has_refused) {
		m->has_refused = true;
		tei_frame_refuse_for_now(conn, "too many connections");
	} else if (f->type == STORE__STORE_TYPE__STORE_HELLO) {
		atomic_fetch_add(&m->n_hellos, 1);
		if (m->mood != MOOD_SILENT)
			answer_hello(m, conn, f);
	} else if (f->type == STORE__STORE_TYPE__STORE_HEARTBEAT) {
		beat.epoch = 7;
		(void)tei_frame_reply(conn, f, &beat.base);
		if (m->mood == MOOD_FENCES)
			ask_for_fences(m, conn);
	} else if (f->type == STORE__STORE_TYPE__STORE_FENCED) {
		take_fenced(m, f);
	} else if (m->mood == MOOD_DROPS) {
		for (i = 0; m->conns[i] != conn;)
			i++;
		m->conns[i] = m->conns[--m->n_conns];
		tei_frame_close(conn);
	} else {
		answer_call(m, conn, f);
	}
}

static void on_down(struct tei_frame_conn *conn, int err, const char *text,
		    void *arg)
{
	struct master *m = arg;
	int i;

	(void)err;
	(void)text;
	for (i = 0; m->conns[i] != conn;)
		i++;
	m->conns[i] = m->conns[--m->n_conns];
	tei_frame_close(conn);
}

static void on_accepted(struct tei_frame_conn *conn, void *arg)
{
	struct master *m = arg;

	m->conns[m->n_conns++] = conn;
}

static const struct tei_frame_ops ops = {.frame = on_frame, .down = on_down};

static void do_listen(void *arg)
{
	struct master *m = arg;
	const struct tei_frame_server_config config = {
		.protocol = &tes_store_protocol,
		.host = "127.0.0.1",
		.n_max = TEST_COUNT(m->conns),
		.ops = &ops,
		.arg = m,
		.accepted = on_accepted,
	};

	m->rc = tei_frame_listen(m->loop, &config, &m->port, &m->server);
}

static void do_close(void *arg)
{
	struct master *m = arg;

	tei_frame_server_close(m->server);
	while (m->n_conns)
		tei_frame_close(m->conns[--m->n_conns]);
}

static void master_start(struct master *m, enum mood mood)
{
	memset(m, 0, sizeof(*m));
	m->mood = mood;
	assert_int_equal(tei_loop_create("master", &m->loop), 0);
	assert_true(tei_loop_do(m->loop, do_listen, m));
	assert_int_equal(m->rc, 0);
}

static void master_stop(struct master *m)
{
	assert_true(tei_loop_do(m->loop, do_close, m));
	tei_loop_stop(m->loop);
	tei_loop_destroy(m->loop);
}

static int join(struct master *m, uint32_t setup_ms, uint32_t call_ms,
		struct te_store **out)
{
	char address[32];
	const struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = setup_ms,
		.call_timeout_ms = call_ms,
		.master = address,
	};

	(void)snprintf(address, sizeof(address), "127.0.0.1:%u",
		       (unsigned int)m->port);
	return te_store_setup(&config, out);
}

/* ---- the tests ---- */

static void hellos_that_do_not_hold_are_no_pool(void **state)
{
	struct te_store *store;
	struct master m;

	(void)state;
	master_start(&m, MOOD_OLD);
	assert_int_equal(join(&m, POOL_START_MS, GIVE_UP_MS, &store), -300);
	master_stop(&m);
	master_start(&m, MOOD_NO_GROUP);
	assert_int_equal(join(&m, 300, GIVE_UP_MS, &store), -900);
	master_stop(&m);
	master_start(&m, MOOD_SILENT);
	assert_int_equal(join(&m, 300, GIVE_UP_MS, &store), -900);
	master_stop(&m);
}

static void replies_that_do_not_hold_fail_the_call(void **state)
{
	static const enum mood moods[] = {MOOD_NONSENSE, MOOD_SHORT, MOOD_FAR,
					  MOOD_DROPS, MOOD_REFUSES};
	struct te_store_key key = {.bytes = "a", .len = 1};
	struct te_store *store;
	uint8_t room[8];
	struct master m;
	int result;
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(moods); i++) {
		master_start(&m, moods[i]);
		assert_int_equal(join(&m, POOL_START_MS, POOL_START_MS, &store),
				 0);
		assert_int_equal(pool_get(store, "a", room, 8), -900);
		if (moods[i] != MOOD_FAR) {
			assert_int_equal(pool_put(store, "a", "x", 1), -900);
			assert_int_equal(
				te_store_exist(store, &key, 1, &result), -900);
			assert_int_equal(result, -900);
		}
		te_store_close(store);
		master_stop(&m);
	}
}

static void a_master_that_is_full_for_now_is_asked_again(void **state)
{
	struct te_store *store;
	struct master m;

	(void)state;
	master_start(&m, MOOD_FULL);
	assert_int_equal(join(&m, POOL_START_MS, POOL_START_MS, &store), 0);
	assert_true(m.has_refused);
	te_store_close(store);
	master_stop(&m);
}

static void a_call_without_answer_times_out(void **state)
{
	struct te_store *store;
	uint8_t room[8];
	struct master m;

	(void)state;
	master_start(&m, MOOD_IDLE);
	assert_int_equal(join(&m, POOL_START_MS, GIVE_UP_MS, &store), 0);
	assert_int_equal(pool_get(store, "a", room, 8), -901);
	assert_int_equal(pool_put(store, "a", "x", 1), -901);
	assert_int_equal(te_store_health(store), 0);
	te_store_close(store);
	master_stop(&m);
}

/* The first is the main one; the other one lives. */
static void drop_first(void *arg)
{
	struct master *m = arg;

	atomic_store(&m->n_hellos, 0);
	tei_frame_close(m->conns[0]);
	m->conns[0] = m->conns[--m->n_conns];
}

static bool greeted_twice(void *arg)
{
	const struct master *m = arg;

	return atomic_load(&m->n_hellos) >= 2;
}

static void a_connection_lost_while_nobody_calls_is_made_anew(void **state)
{
	struct te_store *store;
	struct master m;

	(void)state;
	master_start(&m, MOOD_IDLE);
	assert_int_equal(join(&m, POOL_START_MS, GIVE_UP_MS, &store), 0);
	assert_true(tei_loop_do(m.loop, drop_first, &m));
	assert_true(test_wait_until(greeted_twice, &m, POOL_START_MS));
	te_store_close(store);
	master_stop(&m);
}

static bool all_pending(void *arg)
{
	const struct master *m = arg;

	return atomic_load(&m->n_pending) == N_FENCES;
}

static bool all_fenced(void *arg)
{
	const struct master *m = arg;

	return atomic_load(&m->n_fenced) == N_FENCES;
}

/* The first one does not come back, the others wait behind it. */
static void fences_are_answered_however_many_writers_stand_still(void **state)
{
	struct te_store *store;
	struct master m;

	(void)state;
	fake_te_hold_revokes(FAKE_TE_STUCK);
	master_start(&m, MOOD_FENCES);
	assert_int_equal(join(&m, POOL_START_MS, POOL_START_MS, &store), 0);
	assert_true(test_wait_until(all_pending, &m, POOL_START_MS));
	assert_int_equal(atomic_load(&m.n_fenced), 0);
	fake_te_hold_revokes(FAKE_TE_FREE);
	assert_true(test_wait_until(all_fenced, &m, POOL_START_MS));
	assert_int_equal(atomic_load(&m.n_pending), N_FENCES);
	assert_int_equal(fake_te_n_revokes(te_store_engine(store)), N_FENCES);
	te_store_close(store);
	master_stop(&m);
}

static void a_store_closes_while_writers_stand_still(void **state)
{
	struct te_store *store;
	struct master m;

	(void)state;
	fake_te_hold_revokes(FAKE_TE_LATE);
	master_start(&m, MOOD_FENCES);
	assert_int_equal(join(&m, POOL_START_MS, POOL_START_MS, &store), 0);
	assert_true(test_wait_until(all_pending, &m, POOL_START_MS));
	te_store_close(store);
	fake_te_hold_revokes(FAKE_TE_FREE);
	assert_int_equal(atomic_load(&m.n_fenced), 0);
	master_stop(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hellos_that_do_not_hold_are_no_pool),
		cmocka_unit_test(replies_that_do_not_hold_fail_the_call),
		cmocka_unit_test(a_master_that_is_full_for_now_is_asked_again),
		cmocka_unit_test(a_call_without_answer_times_out),
		cmocka_unit_test(
			a_connection_lost_while_nobody_calls_is_made_anew),
		cmocka_unit_test(
			fences_are_answered_however_many_writers_stand_still),
		cmocka_unit_test(a_store_closes_while_writers_stand_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
