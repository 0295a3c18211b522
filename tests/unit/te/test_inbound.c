/* SPDX-License-Identifier: Apache-2.0 */
/* test_inbound.c - inbound peers: who they are, remembered, needed, and many */
#include "te/control/inbound.h"

#include <string.h>
#include <unistd.h>

#include "backends/tcp/wire.h"
#include "base/frame_private.h"
#include "base/log.h"
#include "te/control/control.h"
#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/worker/worker.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/alone.h"
#include "tests/unit/te/raw.h"

/* More than lines are let through in two minutes. */
#define ROUNDS 14

static const struct tei_inbound_id who = {"somebody else", ""};

static int set_up(void **state)
{
	(void)state;
	return alone_open(NULL);
}

/* As when a drop is queued at the worker while its lanes have just closed. */
static void link_goes_while_its_drop_is_queued(void *arg)
{
	struct tei_inbound_peer *inbound = tei_inbound_peer_get(engine, &who);
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
	*(bool *)arg = !tei_inbound_peer_find(engine, &who);
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
	uint8_t incarnation[TE_INCARNATION_LEN];
	const struct tei_inbound_conn *found;
	bool needed;
};

static void look_at_connection(void *arg)
{
	struct look *look = arg;

	tei_list_for_each (node, &engine->control->inbound.conns) {
		const struct tei_inbound_conn *v =
			tei_list_entry(node, struct tei_inbound_conn, link);

		if (v->inbound &&
		    !memcmp(v->inbound->id.incarnation, look->incarnation,
			    TE_INCARNATION_LEN))
			look->found = v;
	}
	assert_non_null(look->found);
	look->needed = look->found->conn->ops->needed(look->found->conn->arg);
}

static bool is_needed(const uint8_t *incarnation)
{
	struct look look = {0};

	memcpy(look.incarnation, incarnation, TE_INCARNATION_LEN);
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

/* ---- those who claim one incarnation ---- */

static int greet_with(uint8_t incarnation[TE_INCARNATION_LEN], uint32_t secret,
		      uint64_t *epoch)
{
	uint8_t nonce[TEI_NONCE_LEN] = {1}, bytes[TEI_PEER_SECRET_LEN] = {1};
	Te__Hello hello;

	memcpy(bytes + 1, &secret, sizeof(secret));
	raw_fill_hello(&hello, incarnation, nonce);
	hello.peer_secret = (ProtobufCBinaryData){sizeof(bytes), bytes};
	return raw_greet_with(engine, &hello, epoch);
}

static void peer_that_was_revoked_while_away_has_the_new_epoch(void **state)
{
	uint8_t incarnation[TE_INCARNATION_LEN] = "is away";
	uint64_t epoch = 0;

	(void)state;
	close(greet_with(incarnation, 1, &epoch));
	assert_int_equal(epoch, 1);
	assert_int_equal(te_peer_revoke(engine, incarnation, 0), 0);
	for (uint32_t secret = 1; secret < 3; secret++) {
		close(greet_with(incarnation, secret, &epoch));
		assert_int_equal(epoch, 2);
	}
	close(raw_greet(engine, incarnation, &epoch));
	assert_int_equal(epoch, 2);
	assert_int_equal(te_peer_revoke(engine, incarnation, 0), 0);
	close(greet_with(incarnation, 1, &epoch));
	assert_int_equal(epoch, 3);
}

static void read_known(void *arg)
{
	*(size_t *)arg = engine->control->inbound.table.n_nodes;
}

/* Only what the revocation made: all others have left without a trace. */
static bool one_is_known(void *arg)
{
	size_t n = 0;

	(void)arg;
	tei_loop_do(engine->loop, read_known, &n);
	return n == 1;
}

static void who_claims_what_was_revoked_is_forgotten(void **state)
{
	uint8_t incarnation[TE_INCARNATION_LEN] = "was revoked";

	(void)state;
	assert_int_equal(te_peer_revoke(engine, incarnation, 0), 0);
	for (uint32_t secret = 1; secret < 50; secret++)
		close(greet_with(incarnation, secret, NULL));
	assert_true(test_wait_until(one_is_known, NULL, RIG_WAIT_MS));
}

static void peer_secret_has_its_length(void **state)
{
	uint8_t incarnation[TE_INCARNATION_LEN] = "is too short";
	uint8_t nonce[TEI_NONCE_LEN] = {1}, secret[TEI_PEER_SECRET_LEN] = {1};
	int fd = raw_connect(engine);
	Te__Hello hello;

	(void)state;
	raw_fill_hello(&hello, incarnation, nonce);
	hello.peer_secret = (ProtobufCBinaryData){sizeof(secret) - 1, secret};
	raw_send_message(fd, TE__CONTROL_TYPE__CONTROL_HELLO, 1, &hello.base);
	raw_await_close(fd);
	assert_int_equal(test_stat(engine, "te_control_refused_total", "hello"),
			 1);
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
		struct tei_inbound_id other = {"another", ""};

		n++;
		memcpy(other.incarnation + 8, &n, sizeof(n));
		assert_non_null(tei_inbound_peer_get(engine, &other));
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
		cmocka_unit_test_setup_teardown(
			peer_that_was_revoked_while_away_has_the_new_epoch,
			set_up, alone_close),
		cmocka_unit_test_setup_teardown(
			who_claims_what_was_revoked_is_forgotten, set_up,
			alone_close),
		cmocka_unit_test_setup_teardown(peer_secret_has_its_length,
						set_up, alone_close),
		cmocka_unit_test_setup_teardown(crowds_of_peers_cost_few_lines,
						set_up, alone_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
