/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_slots.c - a rail has only so many endpoints: who gives way to whom
 *
 * One owner under many names is many peers, each with an endpoint of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "tests/sim/world.h"

#define MS(n)   ((uint64_t)(n)*1000000)
#define PLACE   ((size_t)1 << 18)
#define N_PEERS 12
#define LIMIT   4

struct peers {
	struct world w;
	te_segment_id segment[N_PEERS];
};

static struct tei_peer *peer_at(struct peers *p, uint32_t i)
{
	char tail[32];

	snprintf(tail, sizeof(tail), "127.0.0.%u:", i + 1);
	tei_list_for_each (node, &p->w.user->peers) {
		struct tei_peer *peer =
			tei_list_entry(node, struct tei_peer, link);

		if (!strncmp(peer->name, tail, strlen(tail)))
			return peer;
	}
	return NULL;
}

static bool has_link(struct peers *p, uint32_t i)
{
	const struct tei_peer *peer = peer_at(p, i);

	return peer && peer->works[0].pairs[0].link &&
	       peer->works[0].pairs[0].link->out.state == TEI_LINK_UP;
}

static uint32_t n_open(struct peers *p)
{
	return p->w.user->worker->rails[0]->n_out;
}

static void open_with(struct peers *p, const char *limit, const char *schedule)
{
	const char *const settings[] = {"endpoints", limit, "bind", "0.0.0.0",
					NULL};
	const struct world_config config = {.rails = "8g:20us:1us",
					    .schedule = schedule,
					    .seed = 1,
					    .place = PLACE,
					    .settings = settings};
	const char *port;
	char name[64];

	world_open(&p->w, &config);
	port = strrchr(te_engine_name(p->w.owner), ':');
	assert_non_null(port);
	p->segment[0] = p->w.segment;
	for (uint32_t i = 1; i < N_PEERS; i++) {
		snprintf(name, sizeof(name), "127.0.0.%u%s", i + 1, port);
		assert_int_equal(
			te_segment_open(p->w.user, name, 0, &p->segment[i]), 0);
	}
}

/* A write of place @i by the name @peer. */
static struct te_request request(struct peers *p, uint32_t peer, uint32_t i,
				 struct iovec *piece, size_t len)
{
	struct te_request r = world_request(&p->w, TE_WRITE, i, piece, len);

	r.segment = p->segment[peer];
	r.timeout_ms = 20000;
	return r;
}

static void write_one(struct peers *p, uint32_t peer)
{
	struct te_completion c;
	struct te_batch *batch;
	struct te_request r;
	struct iovec piece;

	world_fill(p->w.local + peer * PLACE, PLACE, peer, 1);
	r = request(p, peer, peer, &piece, PLACE);
	assert_int_equal(te_batch_create(p->w.user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_wait(batch, UINT32_MAX), 0);
	assert_int_equal(te_batch_result(batch, 0, &c), 0);
	assert_int_equal(c.error, 0);
	assert_true(world_is(p->w.memory + peer * PLACE, PLACE, peer, 1));
	te_batch_destroy(batch);
}

/* ---- idle ones ---- */

static void endpoints_are_made_when_they_are_needed(void **state)
{
	struct peers p;

	(void)state;
	open_with(&p, "4", NULL);
	assert_int_equal(n_open(&p), 0);
	write_one(&p, 3);
	assert_int_equal(n_open(&p), 1);
	assert_true(has_link(&p, 3));
	world_close(&p.w);
}

static void the_one_unused_for_longest_gives_way(void **state)
{
	struct peers p;

	(void)state;
	open_with(&p, "4", NULL);
	for (uint32_t i = 0; i < LIMIT; i++)
		write_one(&p, i);
	world_pass(&p.w, MS(200));
	write_one(&p, 0); /* 1 is the oldest now */
	assert_int_equal(n_open(&p), LIMIT);
	write_one(&p, 4);
	assert_int_equal(n_open(&p), LIMIT);
	assert_true(has_link(&p, 0) && has_link(&p, 4));
	assert_false(has_link(&p, 1));
	write_one(&p, 5);
	assert_false(has_link(&p, 2));
	write_one(&p, 1); /* and back again */
	assert_true(has_link(&p, 1));
	assert_int_equal(n_open(&p), LIMIT);
	world_close(&p.w);
}

static void every_peer_is_reached_in_the_end(void **state)
{
	struct peers p;

	(void)state;
	open_with(&p, "1", NULL);
	for (uint32_t i = 0; i < N_PEERS; i++) {
		write_one(&p, i);
		assert_int_equal(n_open(&p), 1);
	}
	world_close(&p.w);
}

/* ---- busy ones ---- */

static void peers_beyond_the_limit_take_turns(void **state)
{
	struct te_request r[WORLD_PLACES];
	struct iovec pieces[WORLD_PLACES];
	struct te_completion c;
	struct te_batch *batch;
	struct peers p;

	(void)state;
	open_with(&p, "4", NULL);
	assert_int_equal(te_batch_create(p.w.user, WORLD_PLACES, &batch), 0);
	for (uint32_t i = 0; i < WORLD_PLACES; i++) {
		world_fill(p.w.local + i * PLACE, PLACE, i, 2);
		r[i] = request(&p, i % N_PEERS, i, &pieces[i], PLACE);
	}
	assert_int_equal(te_batch_submit(batch, r, WORLD_PLACES), 0);
	assert_int_equal(te_batch_wait(batch, UINT32_MAX), 0);
	for (uint32_t i = 0; i < WORLD_PLACES; i++) {
		assert_int_equal(te_batch_result(batch, i, &c), 0);
		assert_int_equal(c.error, 0);
		assert_true(world_is(p.w.memory + i * PLACE, PLACE, i, 2));
	}
	te_batch_destroy(batch);
	assert_in_range(n_open(&p), 1, LIMIT);
	world_close(&p.w);
}

/* What is under way on an endpoint that gives way is not done again. */
static void busy_one_ends_its_work_before_it_is_closed(void **state)
{
	struct te_request r[WORLD_PLACES], other;
	struct iovec pieces[WORLD_PLACES], piece;
	struct te_batch *busy, *late;
	struct te_completion c;
	struct peers p;

	(void)state;
	open_with(&p, "1", "1ms:0:slow=0.01");
	assert_int_equal(te_batch_create(p.w.user, WORLD_PLACES, &busy), 0);
	assert_int_equal(te_batch_create(p.w.user, 1, &late), 0);
	for (uint32_t i = 0; i + 1 < WORLD_PLACES; i++)
		r[i] = request(&p, 0, i, &pieces[i], PLACE);
	assert_int_equal(te_batch_submit(busy, r, WORLD_PLACES - 1), 0);
	world_pass(&p.w, MS(20));
	other = request(&p, 1, WORLD_PLACES - 1, &piece, PLACE);
	assert_int_equal(te_batch_submit(late, &other, 1), 0);
	assert_int_equal(te_batch_wait(late, UINT32_MAX), 0);
	assert_int_equal(te_batch_result(late, 0, &c), 0);
	assert_int_equal(c.error, 0);
	assert_int_equal(te_batch_wait(busy, UINT32_MAX), 0);
	for (uint32_t i = 0; i + 1 < WORLD_PLACES; i++) {
		assert_int_equal(te_batch_result(busy, i, &c), 0);
		assert_int_equal(c.error, 0);
		assert_int_equal(c.retries, 0);
	}
	te_batch_destroy(busy);
	te_batch_destroy(late);
	world_close(&p.w);
}

/* It was to close when the last one is done; there is none any more. */
static void retired_endpoint_whose_work_is_cancelled_is_closed(void **state)
{
	struct te_request r[8], other;
	struct iovec pieces[8], piece;
	struct te_batch *busy, *late;
	struct te_completion c;
	struct peers p;

	(void)state;
	open_with(&p, "1", "1ms:0:silent,2s:0:up");
	assert_int_equal(te_batch_create(p.w.user, 8, &busy), 0);
	assert_int_equal(te_batch_create(p.w.user, 1, &late), 0);
	for (uint32_t i = 0; i < 8; i++)
		r[i] = request(&p, 0, i, &pieces[i], PLACE);
	world_pass(&p.w, MS(2));
	assert_int_equal(te_batch_submit(busy, r, 8), 0);
	other = request(&p, 1, 9, &piece, PLACE);
	assert_int_equal(te_batch_submit(late, &other, 1), 0);
	world_pass(&p.w, MS(300));
	assert_int_equal(te_batch_cancel(busy), 0);
	assert_int_equal(te_batch_wait(busy, UINT32_MAX), 0);
	assert_int_equal(te_batch_wait(late, UINT32_MAX), 0);
	assert_int_equal(te_batch_result(late, 0, &c), 0);
	assert_int_equal(c.error, 0);
	te_batch_destroy(busy);
	te_batch_destroy(late);
	world_close(&p.w);
}

/* ---- the end ---- */

static void engine_ends_while_peers_wait_for_room(void **state)
{
	struct te_request r[N_PEERS];
	struct iovec pieces[N_PEERS];
	struct te_batch *batch;
	struct peers p;

	(void)state;
	open_with(&p, "2", "1ms:0:silent");
	assert_int_equal(te_batch_create(p.w.user, N_PEERS, &batch), 0);
	world_pass(&p.w, MS(2));
	for (uint32_t i = 0; i < N_PEERS; i++)
		r[i] = request(&p, i, i, &pieces[i], PLACE);
	assert_int_equal(te_batch_submit(batch, r, N_PEERS), 0);
	world_pass(&p.w, MS(50));
	assert_int_equal(n_open(&p), 2);
	te_batch_destroy(batch);
	world_close(&p.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoints_are_made_when_they_are_needed),
		cmocka_unit_test(the_one_unused_for_longest_gives_way),
		cmocka_unit_test(every_peer_is_reached_in_the_end),
		cmocka_unit_test(peers_beyond_the_limit_take_turns),
		cmocka_unit_test(busy_one_ends_its_work_before_it_is_closed),
		cmocka_unit_test(
			retired_endpoint_whose_work_is_cancelled_is_closed),
		cmocka_unit_test(engine_ends_while_peers_wait_for_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
