/* SPDX-License-Identifier: Apache-2.0 */
/* test_control.c - whoever comes to the control port, and whatever is sent */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/te/raw.h"
#include "tests/unit/te/rig.h"

#include "te/backend.h"
#include "te/region/group.h"

#define HELLO    TE__CONTROL_TYPE__CONTROL_HELLO
#define PROVE    TE__CONTROL_TYPE__CONTROL_PROVE
#define DESCRIBE TE__CONTROL_TYPE__CONTROL_DESCRIBE
#define CONNECT  TE__CONTROL_TYPE__CONTROL_CONNECT
#define DROP     TE__CONTROL_TYPE__CONTROL_DROP
#define NOTIFY   TE__CONTROL_TYPE__CONTROL_NOTIFY
#define PROBE    TE__CONTROL_TYPE__CONTROL_PROBE
#define REGIONS  TE__CONTROL_TYPE__CONTROL_REGIONS
#define REVOKED  TE__CONTROL_TYPE__CONTROL_REVOKED

static struct te_engine *engine;
static uint8_t memory[8192], secret_memory[8192];
static uint8_t secret[TE_GROUP_SECRET_LEN] = {1, 2, 3};
static uint8_t me[16] = {42}, body[65536];

static int set_up(void **state)
{
	struct te_region region = {.addr = secret_memory,
				   .length = sizeof(secret_memory),
				   .group = secret,
				   .access = RIG_ANY};
	te_region_id id;

	(void)state;
	te_log_set_level(0); /* refusals are warned of, which is right */
	engine = rig_engine(NULL);
	rig_region(engine, memory, sizeof(memory), RIG_ANY);
	assert_int_equal(te_region_add(engine, &region, &id), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(engine);
	return 0;
}

/* The engine is alive and well, whoever else came. */
static void still_serves(void)
{
	int fd = raw_greet(engine, me, NULL);

	close(fd);
}

static uint64_t refused(const char *label)
{
	return test_stat(engine, "te_control_refused_total", label);
}

/* ---- hello ---- */

static void wrong_hello(const Te__Hello *m, uint32_t status)
{
	size_t len = sizeof(body);
	int fd = raw_connect(engine);
	Te__Hello *answer;

	raw_send_message(fd, HELLO, 1, &m->base);
	assert_int_equal(raw_receive(fd, body, &len), HELLO);
	answer = te__hello__unpack(NULL, len, body);
	assert_non_null(answer);
	assert_int_equal(answer->status, status);
	assert_true(strlen(answer->why) > 5);
	te__hello__free_unpacked(answer, NULL);
	raw_await_close(fd);
}

static void wrong_hello_is_refused_with_words(void **state)
{
	uint8_t nonce[64] = {0};
	Te__Hello m;

	(void)state;
	raw_fill_hello(&m, me, nonce);
	m.version = 2;
	wrong_hello(&m, TEI_STATUS_VERSION);
	raw_fill_hello(&m, me, nonce);
	m.version = 0;
	wrong_hello(&m, TEI_STATUS_VERSION);
	raw_fill_hello(&m, me, nonce);
	m.incarnation.len = 15;
	wrong_hello(&m, TEI_STATUS_BAD);
	raw_fill_hello(&m, me, nonce);
	m.nonce.len = 33;
	wrong_hello(&m, TEI_STATUS_BAD);
	raw_fill_hello(&m, me, nonce);
	m.nonce.len = 0;
	wrong_hello(&m, TEI_STATUS_BAD);
	assert_int_equal(refused("hello"), 5);
	still_serves();
}

/* One message of @fd's, as its receiver sees it. */
static void hear_message(int fd, struct te_notify *out)
{
	uint8_t text[] = "hello";
	ProtobufCBinaryData one = {sizeof(text), text};
	Te__Notify m = TE__NOTIFY__INIT;
	size_t len = sizeof(body);

	m.first = m.epoch = m.n_message = 1;
	m.message = &one;
	raw_send_message(fd, NOTIFY, 2, &m.base);
	assert_int_equal(raw_receive(fd, body, &len), NOTIFY);
	assert_int_equal(te_notify_take(engine, out), 0);
}

/* It is whom its incarnation says, and the name stays with its owner. */
static void peer_that_claims_our_name_gets_none(void **state)
{
	struct te_notify message;
	uint8_t nonce[32] = {0};
	size_t len = sizeof(body);
	int fd = raw_connect(engine);
	te_segment_id own;
	Te__Hello m;

	(void)state;
	raw_fill_hello(&m, me, nonce);
	m.name = (char *)(uintptr_t)te_engine_name(engine);
	raw_send_message(fd, HELLO, 1, &m.base);
	assert_int_equal(raw_receive(fd, body, &len), HELLO);
	assert_int_equal(refused("name"), 1);
	hear_message(fd, &message);
	assert_string_equal(message.from, "");
	assert_memory_equal(message.incarnation, me, sizeof(me));
	te_notify_free(&message);
	assert_int_equal(te_segment_open(engine, te_engine_name(engine),
					 RIG_WAIT_MS, &own),
			 0);
	assert_int_equal(
		rig_move(engine, own, TE_WRITE, memory, memory + 4096, 100), 0);
	close(fd);
	still_serves();
	assert_int_equal(refused("name"), 1);
}

static void nobody_is_heard_before_hello(void **state)
{
	Te__Connect connect = TE__CONNECT__INIT;
	Te__Describe describe = TE__DESCRIBE__INIT;
	int fd;

	(void)state;
	fd = raw_connect(engine);
	raw_send_message(fd, DESCRIBE, 1, &describe.base);
	raw_await_close(fd);
	fd = raw_connect(engine);
	raw_send_message(fd, CONNECT, 1, &connect.base);
	raw_await_close(fd);
	fd = raw_greet(engine, me, NULL);
	raw_send_message(fd, REVOKED, 1, &connect.base);
	raw_await_close(fd);
	assert_int_equal(refused("body"), 2);
	assert_int_equal(refused("type"), 1);
	still_serves();
}

/* Those of the answers are longer; what has begun to come takes memory. */
static void requests_have_caps_of_their_own(void **state)
{
	static const struct {
		uint16_t type;
		uint32_t most;
	} caps[] = {
		{PROVE, 8192}, {DESCRIBE, 1024}, {CONNECT, 1024},
		{DROP, 1024},  {PROBE, 1024},    {NOTIFY, 72u << 10},
	};
	uint8_t frame[64];
	int fd;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(caps); i++) {
		fd = raw_greet(engine, me, NULL);
		raw_send(fd, frame,
			 raw_frame(frame, sizeof(frame), caps[i].most + 1,
				   caps[i].type, 1, NULL, 0));
		raw_await_close(fd);
		assert_int_equal(refused("length"), i + 1);
	}
	still_serves();
}

/* ---- groups ---- */

static size_t regions_seen(int fd)
{
	Te__Describe m = TE__DESCRIBE__INIT;
	size_t n, len = sizeof(body);
	Te__Description *d;

	raw_send_message(fd, DESCRIBE, 7, &m.base);
	assert_int_equal(raw_receive(fd, body, &len), DESCRIBE);
	d = te__description__unpack(NULL, len, body);
	assert_non_null(d);
	assert_int_equal(d->status, 0);
	assert_int_equal(d->n_key, d->n_id * d->n_rails);
	n = d->n_id;
	te__description__free_unpacked(d, NULL);
	return n;
}

static uint32_t prove(int fd, uint8_t *tag, uint8_t *proof)
{
	Te__GroupProof p = TE__GROUP_PROOF__INIT, *groups[1] = {&p};
	Te__Prove m = TE__PROVE__INIT;
	size_t len = sizeof(body);
	Te__Proved *answer;
	uint32_t accepted;

	p.tag = (ProtobufCBinaryData){8, tag};
	p.proof = (ProtobufCBinaryData){32, proof};
	m.n_groups = 1;
	m.groups = groups;
	raw_send_message(fd, PROVE, 3, &m.base);
	assert_int_equal(raw_receive(fd, body, &len), PROVE);
	answer = te__proved__unpack(NULL, len, body);
	assert_non_null(answer);
	accepted = answer->accepted;
	te__proved__free_unpacked(answer, NULL);
	return accepted;
}

static void false_proof_shows_nothing(void **state)
{
	struct tei_group_set set = {.n = 0};
	uint8_t proof[32] = {0};
	int fd = raw_greet(engine, me, NULL);

	(void)state;
	assert_int_equal(tei_group_add(&set, secret), 0);
	assert_int_equal(regions_seen(fd), 1);
	assert_int_equal(prove(fd, set.group[0].tag, proof), 0);
	assert_int_equal(regions_seen(fd), 1);
	assert_int_equal(refused("proof"), 1);
	close(fd);
}

static void malformed_proofs_are_refused(void **state)
{
	Te__GroupProof p = TE__GROUP_PROOF__INIT, *groups[65];
	Te__Prove m = TE__PROVE__INIT;
	uint8_t bytes[64] = {0};
	int fd;

	(void)state;
	for (int i = 0; i < 65; i++)
		groups[i] = &p;
	m.groups = groups;
	m.n_groups = 65;
	p.tag = (ProtobufCBinaryData){8, bytes};
	p.proof = (ProtobufCBinaryData){32, bytes};
	fd = raw_greet(engine, me, NULL);
	raw_send_message(fd, PROVE, 1, &m.base);
	raw_await_close(fd);
	m.n_groups = 1;
	p.proof.len = 31;
	fd = raw_greet(engine, me, NULL);
	raw_send_message(fd, PROVE, 1, &m.base);
	raw_await_close(fd);
	still_serves();
}

static void member_sees_regions_added_after_its_proof(void **state)
{
	static uint8_t more[4096];
	struct te_region region = {.addr = more,
				   .length = sizeof(more),
				   .access = RIG_ANY,
				   .group = secret};
	struct te_engine *member = rig_engine(NULL);
	struct te_segment_region seen[4];
	te_segment_id segment;
	te_region_id id;
	uint8_t byte = 9;
	size_t n = 4;

	(void)state;
	assert_int_equal(te_group_join(member, secret), 0);
	assert_int_equal(te_group_join(member, secret), 0);
	segment = rig_segment(member, engine);
	assert_int_equal(te_segment_regions(member, segment, seen, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(te_region_add(engine, &region, &id), 0);
	assert_int_equal(rig_move(member, segment, TE_WRITE, more, &byte, 1),
			 0);
	te_engine_destroy(member);
}

static void joining_later_opens_what_was_hidden(void **state)
{
	struct te_engine *member = rig_engine(NULL);
	te_segment_id segment = rig_segment(member, engine);
	uint8_t byte = 9;

	(void)state;
	assert_int_equal(
		rig_move(member, segment, TE_WRITE, secret_memory, &byte, 1),
		-EFAULT);
	assert_int_equal(te_group_join(member, secret), 0);
	assert_int_equal(
		rig_move(member, segment, TE_WRITE, secret_memory, &byte, 1),
		0);
	assert_int_equal(secret_memory[0], 9);
	te_engine_destroy(member);
}

/* ---- connect and drop ---- */

static uint32_t ask_connect(int fd, const Te__Connect *m, uint64_t *epoch)
{
	size_t len = sizeof(body);
	Te__Connected *answer;
	uint32_t status;

	raw_send_message(fd, CONNECT, 5, &m->base);
	assert_int_equal(raw_receive(fd, body, &len), CONNECT);
	answer = te__connected__unpack(NULL, len, body);
	assert_non_null(answer);
	status = answer->status;
	*epoch = answer->epoch;
	te__connected__free_unpacked(answer, NULL);
	return status;
}

static void connect_is_checked(void **state)
{
	static char tcp[] = "tcp", loop[] = "loop", no[] = "no";
	Te__Connect m = TE__CONNECT__INIT, wrong;
	uint64_t epoch, told;
	int fd = raw_greet(engine, me, &epoch);
	uint32_t rail = 0;

	(void)state;
	while (strncmp(te_rail_name(engine, rail), "tcp/", 4))
		rail++;
	m.endpoint = 1;
	m.backend = tcp;
	m.rail = rail;
	m.epoch = epoch;
	wrong = m;
	wrong.backend = no;
	assert_int_equal(ask_connect(fd, &wrong, &told),
			 TEI_STATUS_UNSUPPORTED);
	wrong = m;
	wrong.rail = 1000;
	assert_int_equal(ask_connect(fd, &wrong, &told),
			 TEI_STATUS_UNSUPPORTED);
	wrong = m;
	wrong.backend = loop; /* only the engine itself may use it */
	for (wrong.rail = 0; wrong.rail < 2; wrong.rail++)
		assert_int_equal(ask_connect(fd, &wrong, &told),
				 TEI_STATUS_UNSUPPORTED);
	wrong = m;
	wrong.address = (ProtobufCBinaryData){257, body};
	assert_int_equal(ask_connect(fd, &wrong, &told), TEI_STATUS_BAD);
	wrong = m;
	wrong.epoch = epoch + 1;
	assert_int_equal(ask_connect(fd, &wrong, &told), TEI_STATUS_STALE);
	assert_int_equal(told, epoch);
	wrong = m;
	wrong.address = (ProtobufCBinaryData){200, body}; /* any bytes */
	assert_int_not_equal(ask_connect(fd, &wrong, &told), TEI_STATUS_OK);
	close(fd);
	still_serves();
}

static void unknown_endpoint_is_dropped_already(void **state)
{
	Te__Drop m = TE__DROP__INIT;
	int fd = raw_greet(engine, me, NULL);
	size_t len = sizeof(body);
	Te__Dropped *answer;

	(void)state;
	m.endpoint = 123;
	raw_send_message(fd, DROP, 9, &m.base);
	assert_int_equal(raw_receive(fd, body, &len), DROP);
	answer = te__dropped__unpack(NULL, len, body);
	assert_non_null(answer);
	assert_int_equal(answer->status, 0);
	te__dropped__free_unpacked(answer, NULL);
	close(fd);
}

static void revoked_peer_is_notified(void **state)
{
	uint64_t epoch, again;
	int fd = raw_greet(engine, me, &epoch);
	size_t len = sizeof(body);
	Te__Revoked *m;

	(void)state;
	assert_int_equal(te_peer_revoke(engine, me, 0), 0);
	assert_int_equal(raw_receive(fd, body, &len), REVOKED);
	m = te__revoked__unpack(NULL, len, body);
	assert_non_null(m);
	assert_int_equal(m->epoch, epoch + 1);
	te__revoked__free_unpacked(m, NULL);
	close(fd);
	fd = raw_greet(engine, me, &again);
	assert_int_equal(again, epoch + 1);
	close(fd);
	assert_int_equal(te_peer_revoke(engine, NULL, 0), 0);
	fd = raw_greet(engine, me, &again);
	assert_int_equal(again, epoch + 2);
	close(fd);
}

static void changes_are_pushed_to_who_has_asked(void **state)
{
	static uint8_t more[4096];
	int fd = raw_greet(engine, me, NULL);
	size_t len = sizeof(body);
	te_region_id id;

	(void)state;
	assert_int_equal(regions_seen(fd), 1);
	id = rig_region(engine, more, sizeof(more), RIG_ANY);
	assert_int_equal(raw_receive(fd, body, &len), REGIONS);
	assert_int_equal(te_region_remove(engine, id), 0);
	len = sizeof(body);
	assert_int_equal(raw_receive(fd, body, &len), REGIONS);
	close(fd);
}

/* ---- rubbish ---- */

static void rubbish(unsigned int seed, bool greeted)
{
	uint8_t frame[4096], bytes[2048], who[16] = {7};
	int fd = greeted ? raw_greet(engine, who, NULL) : raw_connect(engine);
	size_t len = (size_t)rand() % sizeof(bytes);
	static const uint32_t claims[] = {0, 1, 1u << 31, UINT32_MAX, 16384};
	uint16_t type = (uint16_t)(rand() % 12);
	uint32_t claimed = (uint32_t)len;

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)rand();
	if (seed % 5 == 0) {
		raw_send(fd, bytes, len); /* not even a header */
	} else {
		if (seed % 5 == 1)
			claimed = claims[seed / 5 % TEST_COUNT(claims)];
		if (seed % 5 == 2)
			type = (uint16_t)rand();
		raw_send(fd, frame,
			 raw_frame(frame, sizeof(frame), claimed, type,
				   (uint64_t)rand(), bytes, len));
	}
	close(fd);
}

static void rubbish_costs_only_who_sends_it(void **state)
{
	struct te_engine *other = rig_engine(NULL);
	te_segment_id segment = rig_segment(other, engine);
	uint8_t bytes[64] = "a connection that lives through all of it";

	(void)state;
	srand(99);
	for (unsigned int i = 0; i < 2000; i++) {
		rubbish(i, i % 3 == 0);
		if (i % 100 == 0)
			assert_int_equal(rig_move(other, segment, TE_WRITE,
						  memory, bytes, 64),
					 0);
	}
	assert_memory_equal(memory, bytes, 64);
	assert_true(refused(NULL) > 0);
	still_serves();
	te_engine_destroy(other);
}

static void hello_cut_anywhere_is_no_hello(void **state)
{
	uint8_t packed[256], frame[512], nonce[32] = {3};
	size_t len, whole;
	Te__Hello m;

	(void)state;
	raw_fill_hello(&m, me, nonce);
	len = te__hello__get_packed_size(&m);
	assert_true(len <= sizeof(packed));
	te__hello__pack(&m, packed);
	whole = raw_frame(frame, sizeof(frame), (uint32_t)len, HELLO, 1, packed,
			  len);
	for (size_t cut = 0; cut < whole; cut++) {
		int fd = raw_connect(engine);

		raw_send(fd, frame, cut);
		close(fd);
	}
	for (size_t cut = 0; cut < len; cut++) {
		int fd = raw_connect(engine);

		raw_send(fd, frame,
			 raw_frame(frame, sizeof(frame), (uint32_t)cut, HELLO,
				   1, packed, cut));
		raw_await_close(fd);
	}
	still_serves();
}

#define WITH_ENGINE(test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINE(wrong_hello_is_refused_with_words),
		WITH_ENGINE(peer_that_claims_our_name_gets_none),
		WITH_ENGINE(nobody_is_heard_before_hello),
		WITH_ENGINE(requests_have_caps_of_their_own),
		WITH_ENGINE(false_proof_shows_nothing),
		WITH_ENGINE(malformed_proofs_are_refused),
		WITH_ENGINE(member_sees_regions_added_after_its_proof),
		WITH_ENGINE(joining_later_opens_what_was_hidden),
		WITH_ENGINE(connect_is_checked),
		WITH_ENGINE(unknown_endpoint_is_dropped_already),
		WITH_ENGINE(revoked_peer_is_notified),
		WITH_ENGINE(changes_are_pushed_to_who_has_asked),
		WITH_ENGINE(rubbish_costs_only_who_sends_it),
		WITH_ENGINE(hello_cut_anywhere_is_no_hello),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
