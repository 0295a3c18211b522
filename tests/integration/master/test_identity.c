/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_identity.c - nothing that somebody can read makes him somebody else
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/frame.h"
#include "store/proto/protocol.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/json.h"
#include "tests/lib/test.h"

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

#define MALFORMED 1 /* no status: it was refused unread */
#define NO_CLIENT (-103)

/* What a hello is answered, @answer[len]. */
static int32_t status_of(const char *answer, size_t len)
{
	Store__HelloReply *reply;
	struct tei_frame f;
	int32_t status;

	assert_true(len >= TEI_FRAME_HEADER_LEN);
	tei_frame_decode_header((const uint8_t *)answer, &f);
	if (f.type == STORE__STORE_TYPE__STORE_REFUSED)
		return MALFORMED;
	assert_int_equal(f.type, STORE__STORE_TYPE__STORE_HELLO);
	assert_true(f.len <= len - TEI_FRAME_HEADER_LEN);
	reply = store__hello_reply__unpack(
		NULL, f.len, (const uint8_t *)answer + TEI_FRAME_HEADER_LEN);
	assert_non_null(reply);
	status = reply->status;
	store__hello_reply__free_unpacked(reply, NULL);
	return status;
}

/*
 * Throws a hello that bears @id[len] as its field @field, wherever a client or
 * its engine once was named or is now; else it lacks nothing. Returns its
 * status.
 */
static int32_t throw_hello(uint8_t field, const uint8_t *id, size_t len,
			   bool heartbeat)
{
	uint8_t secret[TES_STORE_SECRET_LEN] = {77};
	uint8_t out[512], *at = out + TEI_FRAME_HEADER_LEN;
	Store__Hello m = STORE__HELLO__INIT;
	struct tei_frame f = {.type = STORE__STORE_TYPE__STORE_HELLO, .id = 1};
	char answer[512];

	m.version = TES_STORE_VERSION;
	m.client_secret.data = m.engine_secret.data = secret;
	m.client_secret.len = m.engine_secret.len = sizeof(secret);
	m.engine = (char *)(uintptr_t) "127.0.0.1:77";
	m.heartbeat = heartbeat;
	at += store__hello__pack(&m, at);
	/* Of a field that is there twice the last one counts. */
	*at++ = (uint8_t)(field << 3 | 2);
	*at++ = (uint8_t)len;
	memcpy(at, id, len);
	at += len;
	f.len = (size_t)(at - out) - TEI_FRAME_HEADER_LEN;
	tei_frame_encode_header(out, &f);
	len = master_throw(master.rpc, out, (size_t)(at - out), answer,
			   sizeof(answer));
	return status_of(answer, len);
}

/* An id of 16 bytes is all that is shown; a secret has 32. */
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
	for (int heartbeat = 0; heartbeat < 2; heartbeat++)
		assert_int_equal(throw_hello(12, id, 16, heartbeat), MALFORMED);
	assert_int_equal(throw_hello(3, id, 16, true), NO_CLIENT);
	assert_int_equal(throw_hello(12, id, 32, true), NO_CLIENT);
	/* Whoever says it is somebody else. */
	assert_int_equal(throw_hello(3, id, 16, false), 0);
	assert_int_equal(throw_hello(12, id, 32, false), 0);
	/* The owner's connection stands, and so does what it has. */
	assert_int_equal(caller_lookup(user, "k", &size), 0);
	assert_int_equal(caller_unmount(owner, OWNER), 0);
	caller_close(owner);
	caller_close(user);
}

/* ---- an engine's incarnation, which every look-up shows ---- */

static void an_incarnation_that_is_shown_opens_nothing(void **state)
{
	struct caller *owner = caller_join(&master, OWNER, false);
	struct caller *user = caller_join(&master, USER, false);
	uint8_t life[32] = {0};
	uint64_t size;

	(void)state;
	caller_incarnation(OWNER, life);
	assert_int_equal(caller_mount(owner, OWNER, MIB), 0);
	caller_put(user, "k");
	/* Of somebody else's engine, too. */
	assert_int_equal(throw_hello(5, life, 16, false), 0);
	assert_int_equal(throw_hello(15, life, 32, false), 0);
	assert_int_equal(throw_hello(15, life, 16, false), MALFORMED);
	assert_int_equal(caller_lookup(user, "k", &size), 0);
	assert_int_equal(caller_unmount(owner, OWNER), 0);
	caller_close(owner);
	caller_close(user);
}

/* As after a restart of the master, where a stranger is the first. */
static void who_says_an_incarnation_first_shuts_nobody_out(void **state)
{
	struct caller *stranger, *owner;
	uint8_t life[16];
	uint64_t size;

	(void)state;
	caller_incarnation(7, life);
	caller_claims = life;
	stranger = caller_join(&master, 8, false);
	caller_claims = NULL;
	owner = caller_join(&master, 7, false);
	assert_int_equal(caller_mount(owner, 7, MIB), 0);
	caller_put(stranger, "k");
	assert_int_equal(caller_lookup(stranger, "k", &size), 0);
	assert_int_equal(caller_unmount(owner, 7), 0);
	caller_close(owner);
	caller_close(stranger);
}

/* ---- a segment's id, which the admin port shows ---- */

static void who_says_a_segments_id_first_keeps_nobody_away(void **state)
{
	struct caller *stranger = caller_join(&master, USER, false);
	struct caller *owner = caller_join(&master, OWNER, false);
	char why[128];

	(void)state;
	assert_int_equal(caller_mount_as(stranger, 21, "stranger:1", why), 0);
	assert_int_equal(caller_mount_as(owner, 21, "owner:1", why), 0);
	assert_int_equal(caller_unmount(stranger, 21), 0);
	assert_int_equal(caller_unmount(stranger, 21), -101);
	assert_int_equal(caller_unmount(owner, 21), 0);
	caller_close(owner);
	caller_close(stranger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_that_is_shown_opens_nothing),
		cmocka_unit_test(an_incarnation_that_is_shown_opens_nothing),
		cmocka_unit_test(
			who_says_an_incarnation_first_shuts_nobody_out),
		cmocka_unit_test(
			who_says_a_segments_id_first_keeps_nobody_away),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
