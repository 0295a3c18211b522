/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_turns.c - batches in parts: whose part is next, and how many there are
 *
 * The loop does not run, so nothing takes time: only the order counts.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/frame.h"
#include "store/proto/protocol.h"
#include "store/proto/store.pb-c.h"
#include "store/proto/strings.h"
#include "tests/lib/test.h"
#include "tests/unit/store_server/bare.h"

#define N_KEYS  2048u
#define N_PARTS 8u /* at least */
#define JOBS    16u
#define CROWD   40u
/* What jobs may take. */
#define JOBS_BYTES ((size_t)32 << 20)

static struct tes_core_key keys[N_KEYS];
static const struct tes_server_steps *real;
static const struct tes_server_link *served[1024];
static size_t n_served;

/* A client as the server knows it, and its core's session. */
struct party {
	struct tes_server_session session;
	struct tes_server_link *main, *heart;
};

static struct party parties[CROWD];

static void note_begin(struct tes_server *s, struct tes_event *ev,
		       struct tes_server_link *link,
		       const struct tei_frame *frame)
{
	served[n_served++ % TEST_COUNT(served)] = link;
	real->begin(s, ev, link, frame);
}

static struct tes_server_steps noted = {.begin = note_begin};

static struct tes_server_link *connect_to(struct tes_server_session *session,
					  enum tes_server_role role)
{
	struct tei_frame_conn *conn;
	struct tes_server_link *link;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	assert_int_equal(tei_frame_adopt(server->loop, &tes_store_protocol,
					 fd[0], &tes_server_link_ops, NULL,
					 &conn),
			 0);
	close(fd[1]); /* nobody reads the answers */
	tes_server_accepted(conn, server);
	link = tei_list_entry(server->links.prev, struct tes_server_link, link);
	link->session = session;
	link->role = role;
	return link;
}

static void join(struct party *p)
{
	uint64_t id = (uint64_t)(p - parties) + 1;
	uint8_t who[TES_CORE_ID_LEN] = {(uint8_t)id};
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = id};

	ev.u.join.client_id = ev.u.join.incarnation = who;
	ev.u.join.engine = "engine:1";
	assert_int_equal(tes_server_step(server, &ev, NULL, NULL), 0);
	p->session = (struct tes_server_session){.id = id};
	tes_server_share_init(&p->session.share);
	p->main = connect_to(&p->session, TES_SERVER_MAIN);
	p->heart = connect_to(&p->session, TES_SERVER_HEART);
}

static int set_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_KEYS; i++)
		keys[i] = (struct tes_core_key){"key", 3};
	assert_int_equal(bare_start("false"), 0);
	real = server->steps;
	noted.end = real->end;
	server->steps = &noted;
	n_served = 0;
	for (size_t i = 0; i < CROWD; i++)
		join(&parties[i]);
	n_served = 0;
	return 0;
}

/* The server ends as it is, with what waits in it. */
static int tear_down(void **state)
{
	(void)state;
	bare_stop();
	return 0;
}

static void begin(struct tes_server_link *link)
{
	struct tei_frame f = {.type = STORE__STORE_TYPE__STORE_EXIST, .id = 1};
	struct tes_event ev = {.type = TES_EVENT_EXIST,
			       .session = link->session->id,
			       .n = N_KEYS,
			       .keys = keys};

	tes_server_job_begin(link, &f, &ev);
	assert_non_null(link->job);
}

/* What the alarm does, once. */
static void turn(void)
{
	server->turns.fn(server->turns.arg);
}

static size_t count(const struct tes_server_link *link, size_t until)
{
	size_t n = 0;

	for (size_t i = 0; i < until; i++)
		n += served[i] == link;
	return n;
}

static void a_client_has_one_share_for_all_its_connections(void **state)
{
	struct party *two = &parties[0], *one = &parties[1];

	(void)state;
	begin(two->main);
	begin(two->heart);
	begin(one->main);
	while (one->main->job)
		turn();
	/* Each second part is its own, though the other has two jobs. */
	for (size_t i = 0; i < 2 * (size_t)N_PARTS; i += 2)
		assert_int_equal(count(one->main, i + 2), i / 2 + 1);
	while (two->main->job || two->heart->job)
		turn();
	assert_int_equal(server->job_bytes, 0);
}

/* Sends @link a batch of @n keys, as far as ready(). */
static bool offer_batch(struct tes_server_link *link, size_t n)
{
	static uint32_t lens[N_KEYS];
	static uint8_t key_bytes[N_KEYS], body[3 * N_KEYS];
	Store__Keys m = STORE__KEYS__INIT;
	struct tei_frame f = {.type = STORE__STORE_TYPE__STORE_EXIST, .id = 1};

	for (size_t i = 0; i < n; i++)
		lens[i] = 1;
	m.key_lens = lens;
	m.n_key_lens = n;
	m.keys.data = key_bytes;
	m.keys.len = n;
	assert_true(store__keys__get_packed_size(&m) <= sizeof(body));
	f.len = store__keys__pack(&m, body);
	f.body = body;
	return tes_server_ready(link->conn, &f, link);
}

static void batches_wait_while_there_are_many_jobs(void **state)
{
	(void)state;
	for (size_t i = 0; i < JOBS; i++) {
		assert_true(offer_batch(parties[i].main, N_KEYS));
		begin(parties[i].main);
	}
	assert_true(server->job_bytes > 0);
	for (size_t i = JOBS; i < CROWD; i++)
		assert_false(offer_batch(parties[i].main, 257));
	/* Small ones of the same and of other clients do not. */
	assert_true(offer_batch(parties[JOBS].heart, 256));
	assert_true(offer_batch(parties[JOBS - 1].heart, 256));
	assert_int_equal(server->n_jobs, JOBS);
	tes_server_turns_drop(parties[JOBS].main);
	while (server->n_jobs) {
		assert_true(server->n_jobs + server->n_let_in <= JOBS);
		turn();
	}
	/* Nobody was forgotten. */
	while (!tei_list_empty(&server->queue))
		turn();
	assert_true(tei_list_empty(&server->crowd));
	assert_int_equal(server->n_let_in, 0);
	assert_int_equal(server->job_bytes, 0);
}

static void who_waits_for_room_may_go(void **state)
{
	(void)state;
	for (size_t i = 0; i < JOBS; i++)
		begin(parties[i].main);
	for (size_t i = JOBS; i < CROWD; i++)
		assert_false(offer_batch(parties[i].main, N_KEYS));
	/* The last job goes with its connection, and so does who is let in. */
	for (size_t i = 0; i < CROWD; i++) {
		tes_server_turns_drop(parties[i].main);
		assert_true(server->n_jobs + server->n_let_in <= JOBS);
	}
	assert_true(tei_list_empty(&server->crowd));
	assert_true(tei_list_empty(&server->queue));
	assert_int_equal(server->n_let_in + server->n_jobs, 0);
}

static void who_is_owed_much_waits(void **state)
{
	struct tes_server_link *link = parties[0].main;

	(void)state;
	link->late_keys = TES_SERVER_LATE_KEYS;
	assert_false(offer_batch(link, 1));
	assert_true(offer_batch(parties[0].heart, 1));
	assert_true(offer_batch(parties[1].main, 1));
	/* Not for an answer that leaves as much. */
	tes_server_turns_answered(link);
	assert_true(tei_list_empty(&server->queue));
	link->late_keys--;
	tes_server_turns_answered(link);
	assert_false(tei_list_empty(&server->queue));
	turn();
	assert_true(tei_list_empty(&server->queue));
	assert_true(offer_batch(link, 1));
	link->late_keys = 0;
}

/* @n requests of @link wait for owners. */
static void owe(struct tes_server_link *link, size_t n)
{
	static uint64_t cookie;
	struct tei_frame f = {.type = STORE__STORE_TYPE__STORE_REMOVE, .id = 1};
	struct tes_event ev = {.type = TES_EVENT_REMOVE};

	server->call = (struct tes_server_call){link, &f, &ev};
	for (size_t i = 0; i < n; i++) {
		ev.cookie = ++cookie;
		tes_server_later(server);
	}
	server->call = (struct tes_server_call){.link = NULL};
}

static void who_takes_all_places_leaves_others_their_share(void **state)
{
	struct tes_server_link *greedy = parties[0].main;
	struct tes_server_link *other = parties[1].main;
	size_t share = TES_SERVER_LATERS / server->n_links;

	(void)state;
	assert_true(share > 1);
	owe(greedy, TES_SERVER_LATERS - 1);
	assert_true(offer_batch(greedy, 1));
	owe(greedy, 1);
	assert_false(offer_batch(greedy, 1));
	owe(other, share - 1);
	assert_true(offer_batch(other, 1));
	owe(other, 1);
	assert_false(offer_batch(other, 1));
	/* It goes on when it has had an answer, and not before. */
	tes_server_turns_answered(other);
	assert_true(tei_list_empty(&server->queue));
	tes_server_laters_drop(other);
	assert_false(tei_list_empty(&server->queue));
}

/* The last job of the queue makes room for a batch, whose link goes next. */
static void a_server_may_end_while_a_batch_waits(void **state)
{
	(void)state;
	begin(parties[0].main);
	server->job_bytes += JOBS_BYTES;
	assert_false(offer_batch(parties[1].main, N_KEYS));
	assert_false(tei_list_empty(&server->crowd));
	server->job_bytes -= JOBS_BYTES;
}

static void a_server_may_end_while_it_owes_much(void **state)
{
	struct tes_server_link *link = parties[0].main;
	struct tei_frame f = {.type = STORE__STORE_TYPE__STORE_REMOVE, .id = 1};
	struct tes_event ev = {.type = TES_EVENT_REMOVE,
			       .cookie = 1,
			       .n = TES_SERVER_LATE_KEYS};

	(void)state;
	server->call = (struct tes_server_call){link, &f, &ev};
	tes_server_later(server);
	server->call = (struct tes_server_call){.link = NULL};
	assert_false(offer_batch(link, 1));
	assert_true(link->stalled);
}

static void keys_are_counted_however_they_are_sent(void **state)
{
	Store__Objects objects = STORE__OBJECTS__INIT;
	Store__Offer offer = STORE__OFFER__INIT;
	static const char pieces[] = "\x12\x02\x01\x01\x10\x01\x12\x01\x07";
	uint32_t lens[3] = {1, 200, 70000};
	uint8_t body[64];
	size_t len;

	(void)state;
	objects.key_lens = lens;
	objects.n_key_lens = TEST_COUNT(lens);
	offer.objects = &objects;
	len = store__offer__pack(&offer, body);
	assert_true(tes_has_more_keys(body, len, true, 2));
	assert_false(tes_has_more_keys(body, len, true, 3));
	/* In pieces, packed and not. */
	assert_true(tes_has_more_keys(pieces, sizeof(pieces) - 1, false, 3));
	assert_false(tes_has_more_keys(pieces, sizeof(pieces) - 1, false, 4));
	assert_false(tes_has_more_keys(NULL, 0, false, 0));
	assert_false(tes_has_more_keys("\x12\x7f\x01", 3, false, 0));
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static bool is_large_start(size_t n, uint32_t replicas)
{
	const struct tes_core_replicate how = {.replica_num = replicas};
	struct tes_event ev = {.type = TES_EVENT_PUT_START, .n = n};

	ev.u.put_start.how = replicas > 1 ? &how : NULL;
	return tes_server_is_large(&ev);
}

static bool is_large_end(size_t n, uint32_t replicas)
{
	struct tes_event ev = {.type = TES_EVENT_PUT_END, .n = n};
	uint32_t extents[512];

	for (size_t i = 0; i < n; i++)
		extents[i] = replicas;
	ev.u.put_end.extents = replicas > 1 ? extents : NULL;
	return tes_server_is_large(&ev);
}

/* A step places so many, whatever the keys are. */
static void a_batch_is_large_by_its_replicas_too(void **state)
{
	static const struct {
		size_t n;
		uint32_t replicas;
		bool is;
	} cases[] = {
		{256, 1, false}, {257, 1, true},       {256, 4, false},
		{256, 5, true},  {32, 32, false},      {33, 32, true},
		{128, 8, false}, {1, 1u << 31, false},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		assert_int_equal(is_large_start(cases[i].n, cases[i].replicas),
				 cases[i].is);
		assert_int_equal(is_large_end(cases[i].n, cases[i].replicas),
				 cases[i].is);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_client_has_one_share_for_all_its_connections),
		T(batches_wait_while_there_are_many_jobs),
		T(who_waits_for_room_may_go),
		T(who_is_owed_much_waits),
		T(who_takes_all_places_leaves_others_their_share),
		T(a_server_may_end_while_a_batch_waits),
		T(a_server_may_end_while_it_owes_much),
		cmocka_unit_test(a_batch_is_large_by_its_replicas_too),
		cmocka_unit_test(keys_are_counted_however_they_are_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
