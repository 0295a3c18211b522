/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_admin_pieces.c - long answers of the admin port come in short pieces
 *
 * What a piece holds stands for the time that it takes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <jansson.h>

#include "store/server/admin.h"
#include "tests/lib/test.h"
#include "tests/unit/store_server/bare.h"

#define OWNER   1000
#define PIECE   (32u << 10)
#define MOUNTS  1500
#define TENANTS 1500
#define LONGEST 128 /* of what these tests put there */

static int start(void **state)
{
	(void)state;
	return bare_start("true");
}

static int stop(void **state)
{
	(void)state;
	bare_stop();
	return 0;
}

static void step(struct tes_event *ev, tes_session_id owner)
{
	ev->session = owner;
	assert_int_equal(tes_server_step(server, ev, NULL, NULL), 0);
}

static void join(tes_session_id owner)
{
	uint8_t id[TES_CORE_ID_LEN] = {(uint8_t)owner};
	struct tes_event join = {.type = TES_EVENT_JOIN};
	struct tes_event beat = {.type = TES_EVENT_HEARTBEAT};

	join.u.join.client_id = id;
	join.u.join.incarnation = id;
	join.u.join.engine = "owner:1";
	join.u.join.tenant = "t0";
	step(&join, owner);
	step(&beat, owner);
}

/* Two mounts of each name; an owner has as many as it may. */
static void mount_many(void)
{
	uint8_t id[TES_CORE_ID_LEN] = {1};
	char name[40];

	for (uint32_t i = 0; i < MOUNTS; i++) {
		struct tes_event ev = {.type = TES_EVENT_MOUNT};
		tes_session_id owner = OWNER + i / TES_CORE_MOUNTS_EACH;

		if (i % TES_CORE_MOUNTS_EACH == 0)
			join(owner);
		snprintf(name, sizeof(name), "segment-%04u", i / 2);
		memcpy(id + 1, &i, sizeof(i));
		ev.u.mount.segment = id;
		ev.u.mount.name = name;
		ev.u.mount.base = (uint64_t)(i + 1) << 20;
		ev.u.mount.size = 1u << 20;
		step(&ev, owner);
	}
}

static void name_many(void)
{
	char name[20];

	for (int i = 0; i < TENANTS; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		assert_int_equal(
			tes_core_tenant_set(server->core, name, 1u << 20), 0);
	}
}

static const struct tei_http_route *route(const char *path)
{
	for (size_t i = 0; i < tes_server_n_routes; i++)
		if (tes_server_routes[i].method == TEI_HTTP_GET &&
		    !strcmp(tes_server_routes[i].path, path))
			return &tes_server_routes[i];
	fail_msg("%s", path);
	return NULL;
}

/*
 * The whole answer, to be freed; the largest of its pieces is at most @most
 * bytes, and there is more than one.
 */
static char *ask(const char *path, const char *name, const char *value,
		 size_t most)
{
	const struct tei_http_param param = {.name = name,
					     .value = value,
					     .name_len = strlen(name),
					     .len = strlen(value)};
	const struct tei_http_request request = {
		.method = TEI_HTTP_GET,
		.path = path,
		.params = &param,
		.n_params = 1,
	};
	struct evbuffer *whole = evbuffer_new(), *piece = evbuffer_new();
	struct tei_http_reply reply = {.body = whole};
	size_t len, n = 0;
	char *text;
	int more;

	assert_true(whole && piece);
	assert_int_equal(route(path)->handle(&request, &reply, server), 200);
	assert_non_null(reply.more);
	do {
		more = reply.more(piece, reply.state);
		assert_true(more >= 0);
		assert_in_range(evbuffer_get_length(piece), 0, most);
		evbuffer_add_buffer(whole, piece);
		n++;
	} while (more);
	reply.done(reply.state);
	assert_true(n > 1);
	len = evbuffer_get_length(whole);
	text = calloc(1, len + 1);
	assert_non_null(text);
	assert_int_equal(evbuffer_remove(whole, text, len), len);
	evbuffer_free(whole);
	evbuffer_free(piece);
	return text;
}

static json_t *ask_json(const char *path, const char *name, const char *value)
{
	char *text = ask(path, name, value, PIECE + LONGEST);
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(root);
	free(text);
	return root;
}

static void many_keys_are_told_in_pieces(void **state)
{
	char keys[8 * 1024] = "0";
	json_t *root, *data;

	(void)state;
	for (int i = 1; i < 1024; i++) {
		size_t len = strlen(keys);

		snprintf(keys + len, sizeof(keys) - len, ",%d", i);
	}
	root = ask_json("/batch_query_keys", "keys", keys);
	assert_true(json_is_true(json_object_get(root, "success")));
	data = json_object_get(root, "data");
	assert_int_equal(json_object_size(data), 1024);
	assert_true(json_is_false(
		json_object_get(json_object_get(data, "1023"), "ok")));
	json_decref(root);
}

static void a_key_that_is_asked_for_twice_is_told_once(void **state)
{
	char keys[8 * 1024] = "0";
	json_t *root;

	(void)state;
	for (int i = 1; i < 1024; i++)
		snprintf(keys + strlen(keys), 8, ",%d", i % 512);
	root = ask_json("/batch_query_keys", "keys", keys);
	assert_int_equal(json_object_size(json_object_get(root, "data")), 512);
	json_decref(root);
}

static void all_tenants_are_told_in_pieces(void **state)
{
	json_t *root;

	(void)state;
	name_many();
	root = ask_json("/api/v1/tenant_quotas", "x", "");
	assert_int_equal(json_array_size(root), TENANTS);
	json_decref(root);
}

static void all_segments_are_told_in_pieces(void **state)
{
	json_t *root;

	(void)state;
	name_many();
	mount_many();
	root = ask_json("/get_segments_detail", "x", "");
	assert_int_equal(
		json_integer_value(json_object_get(root, "total_segments")),
		MOUNTS);
	assert_int_equal(json_array_size(json_object_get(root, "segments")),
			 MOUNTS);
	json_decref(root);
}

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

static void metrics_of_many_are_told_in_pieces(void **state)
{
	char *text;

	(void)state;
	name_many();
	mount_many();
	text = ask("/metrics", "x", "", 512 * LONGEST);
	assert_int_equal(count(text, "\nsegment_allocated_bytes{"), MOUNTS / 2);
	assert_int_equal(count(text, "\nsegment_total_capacity_bytes{"),
			 MOUNTS / 2);
	assert_int_equal(count(text, "\"segment-0007\"} 2097152\n"), 1);
	assert_int_equal(count(text, "\nte_master_tenant_quota_bytes{"),
			 TENANTS);
	assert_int_equal(count(text, "# TYPE segment_allocated_bytes "), 1);
	assert_int_equal(count(text, "# TYPE te_master_tenant_quota_bytes "),
			 1);
	free(text);
}

#define T(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(many_keys_are_told_in_pieces),
		T(a_key_that_is_asked_for_twice_is_told_once),
		T(all_tenants_are_told_in_pieces),
		T(all_segments_are_told_in_pieces),
		T(metrics_of_many_are_told_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
