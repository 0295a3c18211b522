/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_identity.c - nothing that somebody can read makes him somebody else
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/bytes.h"
#include "base/frame.h"
#include "store/proto/protocol.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/json.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define MIB   (1u << 20)
#define OWNER 1
#define USER  2

static struct master master;

static int start(void **state)
{
	static const char *const args[] = {"--default_kv_lease_ttl=1s", NULL};

	(void)state;
	master_start(&master, args);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	master_stop(&master);
	return 0;
}

/* ---- a client id, which the admin port shows ---- */

static uint8_t digit(char c)
{
	return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Reads the id of the client that has the only segment. */
static void read_client_id(uint8_t out[16])
{
	int status;
	char *body = master_get(&master, "/get_segments_detail", &status);
	json_t *root = json_loads(body, 0, NULL);
	const char *text;
	size_t n = 0;

	assert_int_equal(status, 200);
	assert_non_null(root);
	text = test_json_text(
		json_array_get(json_object_get(root, "segments"), 0),
		"client_id");
	for (; *text && n < 32; text++) {
		if (*text == '-')
			continue;
		if (n % 2)
			out[n / 2] |= digit(*text);
		else
			out[n / 2] = (uint8_t)(digit(*text) << 4);
		n++;
	}
	assert_int_equal(n, 32);
	json_decref(root);
	free(body);
}

/*
 * Throws a hello that bears @bytes[len] as its field @field, wherever a client
 * once was named or is now.
 */
static void throw_hello(uint8_t field, const uint8_t *bytes, size_t len,
			bool heartbeat)
{
	Store__Hello m = STORE__HELLO__INIT;
	uint8_t incarnation[16] = {77}, out[512], *at = out;
	struct tei_writer w;
	char answer[512];

	m.version = TES_STORE_VERSION;
	m.incarnation.data = incarnation;
	m.incarnation.len = sizeof(incarnation);
	m.engine = (char *)(uintptr_t) "127.0.0.1:77";
	m.heartbeat = heartbeat;
	at += TEI_FRAME_HEADER_LEN;
	at += store__hello__pack(&m, at);
	*at++ = (uint8_t)(field << 3 | 2);
	*at++ = (uint8_t)len;
	memcpy(at, bytes, len);
	at += len;
	tei_writer_init(&w, out, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, (uint32_t)(at - out - TEI_FRAME_HEADER_LEN));
	tei_write_u16(&w, STORE__STORE_TYPE__STORE_HELLO);
	tei_write_u16(&w, 0);
	tei_write_u64(&w, 1);
	(void)master_throw(master.rpc, out, (size_t)(at - out), answer,
			   sizeof(answer));
}

static void an_id_that_is_shown_opens_nothing(void **state)
{
	struct caller *owner = caller_join(&master, OWNER, false);
	struct caller *user = caller_join(&master, USER, false);
	uint8_t id[32] = {0};
	uint64_t size;

	(void)state;
	assert_int_equal(caller_mount(owner, OWNER, MIB), 0);
	caller_put(user, "k");
	read_client_id(id);
	for (int heartbeat = 0; heartbeat < 2; heartbeat++) {
		throw_hello(3, id, 16, heartbeat);
		throw_hello(12, id, 16, heartbeat);
		throw_hello(12, id, 32, heartbeat);
	}
	/* The owner's connection stands, and so does what it has. */
	assert_int_equal(caller_lookup(user, "k", &size), 0);
	assert_int_equal(caller_unmount(owner, OWNER), 0);
	caller_close(owner);
	caller_close(user);
}

/* ---- an engine's incarnation, which every look-up shows ---- */

static int32_t join_as_a_copy(uint8_t who)
{
	struct caller *c = caller_open(&master);
	Store__HelloReply *reply;
	int32_t status;

	caller_copies = OWNER;
	reply = caller_hello(c, who, false);
	caller_copies = 0;
	assert_non_null(reply);
	status = reply->status;
	if (status)
		assert_int_equal(reply->group.len, 0);
	caller_free(reply);
	caller_close(c);
	return status;
}

static bool is_free(void *arg)
{
	(void)arg;
	return join_as_a_copy(7) == 0;
}

static void an_incarnation_that_is_shown_opens_nothing(void **state)
{
	struct caller *owner = caller_join(&master, OWNER, false);
	struct caller *user = caller_join(&master, USER, false);
	uint64_t size;

	(void)state;
	assert_int_equal(caller_mount(owner, OWNER, MIB), 0);
	caller_put(user, "k");
	assert_int_equal(join_as_a_copy(7), -601);
	assert_int_equal(caller_lookup(user, "k", &size), 0);
	assert_int_equal(caller_unmount(owner, OWNER), 0);
	caller_close(owner);
	/* Nobody lives who has it. */
	assert_true(test_wait_until(is_free, NULL, SOON_MS));
	caller_close(user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_that_is_shown_opens_nothing),
		cmocka_unit_test(an_incarnation_that_is_shown_opens_nothing),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
