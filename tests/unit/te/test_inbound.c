/* SPDX-License-Identifier: Apache-2.0 */
/* test_inbound.c - inbound peers: remembered, needed, and many */
#include "te/control/inbound.h"

#include <string.h>
#include <unistd.h>

#include "backends/tcp/wire.h"
#include "base/frame_private.h"
#include "base/log.h"
#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/worker/worker.h"
#include "tests/unit/te/alone.h"
#include "tests/unit/te/raw.h"

/* More than lines are let through in two minutes. */
#define ROUNDS 14

static const uint8_t who[TE_INCARNATION_LEN] = "somebody else";

static int set_up(void **state)
{
	(void)state;
	return alone_open(NULL);
}

/* As when a drop is queued at the worker while its lanes have just closed. */
static void link_goes_while_its_drop_is_queued(void *arg)
{
	struct tei_inbound_peer *inbound = tei_inbound_peer_get(engine, who);
	struct tei_link *link;

	link = tei_link_make(engine, engine->worker->rails[0]);
	assert_true(inbound && link);
	link->in.inbound = inbound;
	link->in.dropping = true;
	tei_list_add_tail(&inbound->links, &link->link);
	inbound->n_links++;
	tei_inbound_peer_link_gone(&link->in.gone);
	/* Now the last control connection ends ... */
	tei_inbound_peer_release(engine, inbound);
	/* ... and only then the worker comes to the drop. */
	tei_inbound_peer_link_late(&link->in.late);
	*(bool *)arg = !tei_inbound_peer_find(engine, who);
}

static void guest_lives_as_long_as_the_last_of_its_links(void **state)
{
	bool forgotten = false;

	(void)state;
	tei_loop_do(engine->loop, link_goes_while_its_drop_is_queued,
		    &forgotten);
	assert_true(forgotten);
}

/* ---- whose connections make way last ---- */

struct look {
	const uint8_t *incarnation;
	bool needed;
};

static void look_at_connection(void *arg)
{
	struct look *look = arg;
	struct tei_inbound_peer *inbound =
		tei_inbound_peer_find(engine, look->incarnation);
	const struct tei_inbound_conn *v;

	assert_true(inbound && !tei_list_empty(&inbound->conns));
	v = tei_list_entry(inbound->conns.next, struct tei_inbound_conn,
			   of_peer);
	look->needed = v->conn->ops->needed(v->conn->arg);
}

static bool is_needed(const uint8_t *incarnation)
{
	struct look look = {.incarnation = incarnation};

	assert_true(tei_loop_do(engine->loop, look_at_connection, &look));
	return look.needed;
}

/* Asks for a link by tcp; true: it is to be had. */
static bool ask_link(int fd)
{
	const struct tcp_address half = {.port = 1, .lanes = 1};
	uint8_t address[TCP_ADDRESS_LEN], body[1024];
	Te__Connect m = TE__CONNECT__INIT;
	size_t len = sizeof(body);
	Te__Connected *answer;
	uint32_t status;

	tei_tcp_address_encode(&half, address);
	while (strncmp(te_rail_name(engine, m.rail), "tcp/", 4) != 0)
		m.rail++;
	m.endpoint = 1;
	m.backend = (char *)(uintptr_t) "tcp";
	m.address = (ProtobufCBinaryData){sizeof(address), address};
	m.epoch = TEI_EPOCH_FIRST;
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_CONNECT, 2, &m.base);
	assert_int_equal(raw_receive(fd, body, &len),
			 TE__CONTROL_TYPE__CONTROL_CONNECT);
	answer = te__connected__unpack(NULL, len, body);
	assert_non_null(answer);
	status = answer->status;
	te__connected__free_unpacked(answer, NULL);
	return !status;
}

static void who_asks_for_a_link_and_never_comes_is_not_needed(void **state)
{
	uint8_t other[TE_INCARNATION_LEN] = "asks only";
	int fd = raw_greet(engine, other, NULL);

	(void)state;
	assert_false(is_needed(other));
	assert_true(ask_link(fd));
	assert_false(is_needed(other));
	close(fd);
}

static void who_has_come_to_its_link_is_needed(void **state)
{
	static uint8_t memory[64], local[64] = {1};
	struct te_engine *user = rig_engine(NULL);
	uint8_t other[TE_INCARNATION_LEN];
	te_segment_id segment;

	(void)state;
	te_engine_incarnation(user, other);
	rig_region(engine, memory, sizeof(memory), RIG_ANY);
	segment = rig_segment(user, engine);
	assert_false(is_needed(other));
	assert_int_equal(
		rig_move(user, segment, TE_WRITE, memory, local, sizeof(local)),
		0);
	assert_true(is_needed(other));
	te_engine_destroy(user);
}

/* ---- lines ---- */

/* More peers than are remembered have left since they were revoked. */
static void forget_many(void *arg)
{
	uint32_t n = 0;

	(void)arg;
	tei_revoke_all(engine); /* or nobody would be remembered */
	for (unsigned int i = 0; i < ROUNDS * (TEI_INBOUND_PEERS_MAX + 1);
	     i++) {
		uint8_t other[TE_INCARNATION_LEN] = "another";

		n++;
		memcpy(other + 8, &n, sizeof(n));
		assert_non_null(tei_inbound_peer_get(engine, other));
	}
}

static unsigned int n_lines; /* said by the control thread */

static void count_line(int level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
	n_lines++;
}

/* A minute may end meanwhile, and then as many are let through again. */
static void crowds_of_peers_cost_few_lines(void **state)
{
	(void)state;
	tei_log_set_sink(count_line, NULL);
	tei_loop_do(engine->loop, forget_many, NULL);
	tei_log_set_sink(NULL, NULL);
	assert_in_range(n_lines, 1, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			guest_lives_as_long_as_the_last_of_its_links, set_up,
			alone_close),
		cmocka_unit_test_setup_teardown(
			who_asks_for_a_link_and_never_comes_is_not_needed,
			set_up, alone_close),
		cmocka_unit_test_setup_teardown(
			who_has_come_to_its_link_is_needed, set_up,
			alone_close),
		cmocka_unit_test_setup_teardown(crowds_of_peers_cost_few_lines,
						set_up, alone_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
