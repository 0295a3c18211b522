/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_admin_tenants.c - quotas over HTTP, and in their file
 *
 * The server's loop does not run: its handlers are called as HTTP would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "base/loop.h"
#include "store/server/admin.h"
#include "store/server/quotas.h"
#include "store/server/server.h"
#include "store/server/state.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

static struct tes_server_settings settings;
static struct tei_conf conf;
static struct tei_loop *loop;
static struct tes_server *server;
static struct evbuffer *body;
static char folder[TEST_PATH_MAX], path[TEST_PATH_MAX + 32];
static char error[TEI_CONF_ERROR_LEN], text[65536];

static void write_file(const char *yaml)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_true(fputs(yaml, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* 0, or what creating the server said. */
static int open_server(const char *enabled, const char *uri)
{
	if (tei_conf_init(&conf, tes_server_rows, tes_server_n_rows,
			  &settings) ||
	    tei_conf_set(&conf, "port", "0", error) ||
	    tei_conf_set(&conf, "metrics_port", "0", error) ||
	    tei_conf_set(&conf, "enable_multi_tenants", enabled, error) ||
	    tei_conf_set(&conf, "tenant_quota_connector_uri", uri, error))
		return -1;
	return tes_server_create(loop, &settings, &server, error);
}

static void close_server(void)
{
	tes_server_destroy(server);
	server = NULL;
	tei_conf_fini(&conf);
}

static int start(void **state)
{
	(void)state;
	test_tmpdir_create(folder);
	(void)snprintf(path, sizeof(path), "%s/quotas.yaml", folder);
	body = evbuffer_new();
	return body ? tei_loop_create_bare(&loop) : -1;
}

static int stop(void **state)
{
	(void)state;
	close_server();
	tei_loop_destroy(loop);
	evbuffer_free(body);
	test_tmpdir_remove(folder);
	return 0;
}

/* The status; the answer is in `text`. @name, @put: or NULL. */
static int ask(enum tei_http_method method, const char *name, const char *put)
{
	const struct tei_http_param param = {.name = "tenant_id",
					     .value = name,
					     .name_len = strlen("tenant_id"),
					     .len = name ? strlen(name) : 0};
	const struct tei_http_request request = {
		.method = method,
		.path = "/api/v1/tenant_quotas",
		.params = &param,
		.n_params = name ? 1 : 0,
		.body = put,
		.len = put ? strlen(put) : 0};
	struct tei_http_reply reply = {.body = body};
	int status, n;

	if (method == TEI_HTTP_GET)
		status = tes_server_admin_quotas(&request, &reply, server);
	else if (method == TEI_HTTP_PUT)
		status = tes_server_admin_set_quota(&request, &reply, server);
	else
		status = tes_server_admin_unset_quota(&request, &reply, server);
	while (reply.more && reply.more(body, reply.state) > 0)
		;
	if (reply.done)
		reply.done(reply.state);
	n = evbuffer_remove(body, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	return status;
}

static bool says(const char *part)
{
	return strstr(text, part) != NULL;
}

static void quotas_come_from_the_file(void **state)
{
	(void)state;
	write_file("version: 1\ntenants:\n- {name: a, quota: 1MB}\n"
		   "- {name: b, quota: 2MB}\n");
	assert_int_equal(open_server("true", path), 0);
	assert_int_equal(ask(TEI_HTTP_GET, NULL, NULL), 200);
	assert_int_equal(*text, '[');
	assert_true(says("\"tenant_id\":\"a\"") && says("\"tenant_id\":\"b\""));
	assert_int_equal(ask(TEI_HTTP_GET, "b", NULL), 200);
	assert_true(says("{\"tenant_id\":\"b\","
			 "\"requested_quota_bytes\":2097152,"
			 "\"effective_quota_bytes\":0,\"charged_bytes\":0,"
			 "\"admission_closed\":true,\"over_quota\":false,"
			 "\"has_explicit_policy\":true}"));
	assert_int_equal(ask(TEI_HTTP_GET, "c", NULL), 404);
	assert_true(says("-1701") && says("TENANT_NOT_REGISTERED"));
}

static void a_bad_file_ends_the_start(void **state)
{
	(void)state;
	write_file("version: 1\ntenants:\n- {name: a, quota: 0}\n");
	assert_true(open_server("true", path) < 0);
	assert_non_null(strstr(error, "--tenant_quota_connector_uri"));
	assert_non_null(strstr(error, "line 3"));
	tei_conf_fini(&conf);
	(void)unlink(path);
	assert_true(open_server("true", path) < 0);
	assert_non_null(strstr(error, "No such file"));
	tei_conf_fini(&conf);
	/* Without tenants nobody reads it. */
	assert_int_equal(open_server("false", path), 0);
}

static void a_change_is_there_and_in_the_file(void **state)
{
	char uri[TEST_PATH_MAX + 64];
	struct tes_quotas q = {.n = 0};

	(void)state;
	write_file("version: 1\ntenants: []\n");
	(void)snprintf(uri, sizeof(uri), "file://%s", path);
	assert_int_equal(open_server("true", uri), 0);
	assert_int_equal(
		ask(TEI_HTTP_PUT, "a b", "{\"requested_quota_bytes\":5242880}"),
		200);
	assert_true(says("\"requested_quota_bytes\":5242880"));
	assert_int_equal(
		ask(TEI_HTTP_PUT, "c", "{\"requested_quota_bytes\":1000}"),
		200);
	assert_int_equal(tes_quotas_read(path, &q, error), 0);
	assert_int_equal(q.n, 2);
	assert_string_equal(q.at[0].name, "a b");
	assert_int_equal(q.at[0].bytes, 5242880);
	tes_quotas_free(&q);
	assert_int_equal(ask(TEI_HTTP_DELETE, "a b", NULL), 200);
	assert_int_equal(ask(TEI_HTTP_DELETE, "a b", NULL), 404);
	close_server();
	assert_int_equal(open_server("true", uri), 0);
	assert_int_equal(ask(TEI_HTTP_GET, "a b", NULL), 404);
	assert_int_equal(ask(TEI_HTTP_GET, "c", NULL), 200);
}

static void a_change_that_cannot_be_written_is_none(void **state)
{
	(void)state;
	write_file("version: 1\ntenants: [{name: a, quota: 7B}]\n");
	assert_int_equal(open_server("true", path), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(
		ask(TEI_HTTP_PUT, "a", "{\"requested_quota_bytes\":8}"), 500);
	assert_true(says("nothing was changed"));
	assert_int_equal(
		ask(TEI_HTTP_PUT, "b", "{\"requested_quota_bytes\":8}"), 500);
	assert_int_equal(ask(TEI_HTTP_DELETE, "a", NULL), 500);
	assert_int_equal(ask(TEI_HTTP_GET, "a", NULL), 200);
	assert_true(says("\"requested_quota_bytes\":7,"));
	assert_int_equal(ask(TEI_HTTP_GET, "b", NULL), 404);
}

static int32_t step(struct tes_event *ev)
{
	struct tes_actions out = {.arena = &server->out};
	int32_t code = 0;

	assert_int_equal(tes_core_step(server->core, ev, 1000, &out), 0);
	if (out.n && out.at[0].type == TES_ACTION_REPLY)
		code = out.at[0].u.reply.code;
	tei_arena_reset(&server->out);
	return code;
}

/* An owner brings an object of "b", which nobody has given a quota. */
static void bring_an_object(void)
{
	static const uint8_t id[TES_CORE_ID_LEN] = {1};
	static struct tes_core_key key = {"k", 1};
	static uint64_t generation = 1, epoch = 1, size = 100,
			address = 0x10000;
	static uint32_t crc, first = 1;
	static const char *tenants[] = {"b"};
	struct tes_core_objects objects = {
		.n = 1,
		.n_entries = 1,
		.keys = &key,
		.generation = &generation,
		.gen_epoch = &epoch,
		.size = &size,
		.address = &address,
		.length = &size,
		.crc = &crc,
		.tenant = &first,
		.tenants = tenants,
		.n_tenants = 1,
	};
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = 1};

	ev.u.join.client_id = ev.u.join.incarnation = id;
	assert_int_equal(step(&ev), 0);
	ev = (struct tes_event){.type = TES_EVENT_MOUNT, .session = 1};
	ev.u.mount.segment = id;
	ev.u.mount.name = "x:1";
	ev.u.mount.base = address;
	ev.u.mount.size = 65536;
	ev.u.mount.offering = true;
	assert_int_equal(step(&ev), 0);
	ev = (struct tes_event){
		.type = TES_EVENT_OFFER, .session = 1, .n = 1, .keys = &key};
	ev.u.offer.segment = id;
	ev.u.offer.objects = &objects;
	assert_int_equal(step(&ev), 0);
}

static void nor_is_one_of_a_tenant_that_has_objects(void **state)
{
	(void)state;
	write_file("version: 1\ntenants: []\n");
	assert_int_equal(open_server("true", path), 0);
	bring_an_object();
	assert_int_equal(ask(TEI_HTTP_GET, "b", NULL), 200);
	assert_true(says("\"has_explicit_policy\":false"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(
		ask(TEI_HTTP_PUT, "b", "{\"requested_quota_bytes\":8}"), 500);
	assert_int_equal(ask(TEI_HTTP_GET, "b", NULL), 200);
	assert_true(says("\"has_explicit_policy\":false"));
}

static void wrong_requests_are_refused_with_a_reason(void **state)
{
	static const char *const bodies[] = {
		NULL,
		"",
		"{}",
		"[]",
		"nothing",
		"{\"requested_quota_bytes\":0}",
		"{\"requested_quota_bytes\":-5}",
		"{\"requested_quota_bytes\":1.5}",
		"{\"requested_quota_bytes\":\"1\"}",
		"{\"requested_quota_bytes\":99999999999999999999}",
		"{\"requested_quota_bytes\":1,\"x\":2}",
		"{\"requested_quota_bytes\":1} x",
		"{\"requested_quota_bytes\":1,\"requested_quota_bytes\":2}",
	};
	char name[TES_CORE_TENANT_MAX + 2];

	(void)state;
	assert_int_equal(open_server("true", ""), 0);
	for (size_t i = 0; i < TEST_COUNT(bodies); i++) {
		assert_int_equal(ask(TEI_HTTP_PUT, "a", bodies[i]), 400);
		assert_true(says("\"success\":false") && says("-600"));
	}
	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(
		ask(TEI_HTTP_PUT, name, "{\"requested_quota_bytes\":1}"), 400);
	assert_int_equal(
		ask(TEI_HTTP_PUT, "_a", "{\"requested_quota_bytes\":1}"), 400);
	assert_int_equal(
		ask(TEI_HTTP_PUT, "\xff", "{\"requested_quota_bytes\":1}"),
		400);
	assert_int_equal(
		ask(TEI_HTTP_PUT, NULL, "{\"requested_quota_bytes\":1}"), 400);
	assert_int_equal(ask(TEI_HTTP_DELETE, NULL, NULL), 400);
	assert_int_equal(ask(TEI_HTTP_DELETE, "a", "x"), 400);
	assert_int_equal(ask(TEI_HTTP_GET, "", NULL), 400);
	assert_int_equal(ask(TEI_HTTP_GET, NULL, NULL), 200);
	assert_string_equal(text, "[]\n");
}

static void without_tenants_all_is_409(void **state)
{
	(void)state;
	assert_int_equal(open_server("false", ""), 0);
	assert_int_equal(ask(TEI_HTTP_GET, NULL, NULL), 409);
	assert_true(says("-1011") && says("--enable_multi_tenants"));
	assert_int_equal(
		ask(TEI_HTTP_PUT, "a", "{\"requested_quota_bytes\":1}"), 409);
	assert_int_equal(ask(TEI_HTTP_DELETE, "a", NULL), 409);
}

static void quotas_in_etcd_are_refused_at_the_start(void **state)
{
	(void)state;
	assert_int_equal(tei_conf_init(&conf, tes_server_rows,
				       tes_server_n_rows, &settings),
			 0);
	assert_int_equal(
		tei_conf_set(&conf, "enable_multi_tenants", "1", error), 0);
	assert_int_equal(tei_conf_set(&conf, "tenant_quota_connector_type",
				      "etcd", error),
			 0);
	assert_true(tes_server_create(loop, &settings, &server, error) < 0);
	assert_non_null(strstr(error, "--tenant_quota_connector_type"));
}

#define T(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(quotas_come_from_the_file),
		T(a_bad_file_ends_the_start),
		T(a_change_is_there_and_in_the_file),
		T(a_change_that_cannot_be_written_is_none),
		T(nor_is_one_of_a_tenant_that_has_objects),
		T(wrong_requests_are_refused_with_a_reason),
		T(without_tenants_all_is_409),
		T(quotas_in_etcd_are_refused_at_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
