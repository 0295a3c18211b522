/* SPDX-License-Identifier: Apache-2.0 */
/* test_admin_bodies.c - requests with bodies that no page can take */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"

#define QUOTA "PUT /api/v1/tenant_quotas?tenant_id=a"
#define DRAIN "POST /api/v1/drain_jobs"
#define MIB   (1u << 20)

static struct master master;
static struct caller *owner;

static int start(void **state)
{
	(void)state;
	master_start(&master,
		     (const char *const[]){"--enable_multi_tenants", NULL});
	owner = caller_join(&master, 1, false);
	return caller_mount(owner, 1, MIB);
}

static int stop(void **state)
{
	(void)state;
	caller_close(owner);
	master_stop(&master);
	return 0;
}

/* The answer must be @status and a reason that has @word. */
static void refused(const char *request, const void *body, size_t len,
		    int status, const char *word)
{
	int got;
	char *text = master_send(&master, request, body, len, &got);
	json_t *root = json_loads(text, 0, NULL);
	const char *why =
		json_string_value(json_object_get(root, "error_message"));

	if (got != status || !why || !strstr(why, word))
		fail_msg("%s %.60s: %d, %s", request, (const char *)body, got,
			 text);
	assert_true(json_is_false(json_object_get(root, "success")));
	assert_true(json_integer_value(json_object_get(root, "error_code")) <
		    0);
	json_decref(root);
	free(text);
}

/* Bodies that say nothing, to every page that wants one. */
static const struct {
	const char *body;
	size_t len; /* 0: a string's */
	const char *word;
} garbage[] = {
	{"", 0, "JSON object"},
	{"{", 0, "byte"},
	{"{}x", 0, "byte"},
	{"[]", 0, "JSON object"},
	{"7", 0, "invalid JSON"},
	{"null", 0, "invalid JSON"},
	{"\0", 1, "invalid JSON"},
	{"{\"a\0b\":1}", 9, "invalid JSON"},
	{"{\"a\\u0000b\":1}", 0, "invalid JSON"},
	{"{\"segments\":[\"a\\u0000\"]}", 0, "invalid JSON"},
	{"{\"\xff\":1}", 0, "invalid JSON"},
	{"{\"segments\":[\"\xc0\x80\"]}", 0, "invalid JSON"},
	{"{\"\\ud800\":1}", 0, "invalid JSON"},
	{"{\"a\":1,\"a\":2}", 0, "duplicate"},
	{"{\"segments\":[\"x\"],\"segments\":[\"y\"]}", 0, "duplicate"},
	{"{\"requested_quota_bytes\":1,\"requested_quota_bytes\":2}", 0,
	 "duplicate"},
	{"{\"a\":1e999}", 0, "invalid JSON"},
	{"{\"requested_quota_bytes\":18446744073709551616}", 0, "invalid JSON"},
	{"{\"max_concurrency\":99999999999999999999}", 0, "invalid JSON"},
	{"{\"other\":1}", 0, "other is no member"},
	{"{\"\xc3\xa4\":1}", 0, "\xc3\xa4 is no member"},
	{"{\"\":1}", 0, "is no member"},
};

static void what_is_no_json_is_told_where(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(garbage); i++) {
		size_t len = garbage[i].len ? garbage[i].len
					    : strlen(garbage[i].body);

		refused(DRAIN, garbage[i].body, len, 400, garbage[i].word);
		refused(QUOTA, garbage[i].body, len, 400, garbage[i].word);
	}
}

/* JSON that is not what the page is about. */
static const struct {
	const char *request, *body;
	int status;
	const char *word;
} wrong[] = {
	{DRAIN, "{}", 400, "segments"},
	{DRAIN, "{\"segments\":[]}", 400, "segments"},
	{DRAIN, "{\"segments\":null}", 400, "segments"},
	{DRAIN, "{\"segments\":\"a\"}", 400, "segments"},
	{DRAIN, "{\"segments\":{\"a\":1}}", 400, "segments"},
	{DRAIN, "{\"segments\":[\"a\",7]}", 400, "at 1"},
	{DRAIN, "{\"segments\":[\"\"]}", 400, "at 0"},
	{DRAIN, "{\"segments\":[[\"a\"]]}", 400, "at 0"},
	{DRAIN, "{\"segments\":[\"a\",\"b\",\"a\"]}", 400, "a is there twice"},
	{DRAIN, "{\"segments\":[\"a\"],\"target_segments\":[\"b\",\"b\"]}", 400,
	 "b is there twice"},
	{DRAIN, "{\"segments\":[\"a\"],\"target_segments\":[\"a\"]}", 400,
	 "a is to be drained"},
	{DRAIN, "{\"segments\":[\"a\"],\"target_segments\":7}", 400,
	 "target_segments"},
	{DRAIN, "{\"segments\":[\"a\"],\"max_concurrency\":0}", 400,
	 "max_concurrency"},
	{DRAIN, "{\"segments\":[\"a\"],\"max_concurrency\":-1}", 400,
	 "max_concurrency"},
	{DRAIN, "{\"segments\":[\"a\"],\"max_concurrency\":1025}", 400,
	 "max_concurrency"},
	{DRAIN, "{\"segments\":[\"a\"],\"max_concurrency\":4.5}", 400,
	 "max_concurrency"},
	{DRAIN, "{\"segments\":[\"a\"],\"max_concurrency\":\"4\"}", 400,
	 "max_concurrency"},
	{DRAIN, "{\"segments\":[\"a\"],\"max_concurrency\":true}", 400,
	 "max_concurrency"},
	{DRAIN, "{\"segments\":[\"nowhere\"]}", 404, "nowhere"},
	{DRAIN, "{\"segments\":[\"owner-1\",\"not \xc3\xa4 name\"]}", 404,
	 "not \xc3\xa4 name"},
	{DRAIN, "{\"segments\":[\"owner-1\"],\"target_segments\":[\"far\"]}",
	 404, "far"},
	{DRAIN "?segments=a", "{\"segments\":[\"owner-1\"]}", 400,
	 "segments is no parameter"},
	{QUOTA "&bytes=7", "{\"requested_quota_bytes\":7}", 400,
	 "bytes is no parameter"},
	{QUOTA, "{}", 400, "requested_quota_bytes"},
	{QUOTA, "{\"requested_quota_bytes\":0}", 400, "above 0"},
	{QUOTA, "{\"requested_quota_bytes\":-1}", 400, "above 0"},
	{QUOTA, "{\"requested_quota_bytes\":1.5}", 400, "whole"},
	{QUOTA, "{\"requested_quota_bytes\":\"1GB\"}", 400, "whole"},
	{QUOTA, "{\"requested_quota_bytes\":null}", 400, "whole"},
	{QUOTA, "{\"requested_quota_bytes\":[1]}", 400, "whole"},
	{"POST /api/v1/drain_jobs/cancel?job_id="
	 "01234567-0123-4567-89ab-cdef01234567",
	 "{}", 400, "no body"},
	{"POST /api/v1/drain_jobs/cancel?job=1", "", 400, "job is no"},
	{"POST /api/v1/remove_all", "{}", 400, "no body"},
	{"DELETE /api/v1/tenant_quotas?tenant_id=a", "{}", 400, "no body"},
	{"GET /api/v1/tenant_quotas", "{}", 400, "no body"},
	{"GET /metrics", "{}", 400, "no body"},
};

static void what_is_wrong_with_a_body_is_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(wrong); i++)
		refused(wrong[i].request, wrong[i].body, strlen(wrong[i].body),
			wrong[i].status, wrong[i].word);
}

/* {"segments":[x,x,..]}, to be freed. */
static char *list_of(const char *x, size_t n, size_t *len)
{
	size_t each = strlen(x) + 1;
	char *body = calloc(1, 16 + n * each), *at;

	assert_non_null(body);
	at = stpcpy(body, "{\"segments\":[");
	for (size_t i = 0; i < n; i++) {
		*at++ = i ? ',' : ' ';
		at = stpcpy(at, x);
	}
	*len = (size_t)(stpcpy(at, "]}") - body);
	return body;
}

static void what_is_too_much_is_refused(void **state)
{
	size_t len;
	char *body;

	(void)state;
	body = list_of("\"a\"", 65, &len);
	refused(DRAIN, body, len, 400, "segments");
	free(body);
	body = list_of("7", 400000, &len);
	refused(DRAIN, body, len, 400, "too many");
	free(body);
	body = list_of("[[[[[[[[[[", 1000, &len);
	refused(DRAIN, body, len, 400, "too many");
	free(body);
	body = calloc(1, 2 * MIB);
	assert_non_null(body);
	refused(DRAIN, body, 2 * MIB, 413, "1 MiB");
	memset(body, '[', 1000);
	refused(DRAIN, body, 1000, 400, "invalid JSON");
	free(body);
}

static void nothing_was_changed(void **state)
{
	int status;
	char *text;

	(void)state;
	text = master_get(&master, "/api/v1/segments/status?segment=owner-1",
			  &status);
	assert_non_null(strstr(text, "\"OK\""));
	free(text);
	text = master_get(&master, "/api/v1/tenant_quotas", &status);
	assert_int_equal(status, 200);
	assert_string_equal(text, "[]\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_json_is_told_where),
		cmocka_unit_test(what_is_wrong_with_a_body_is_named),
		cmocka_unit_test(what_is_too_much_is_refused),
		cmocka_unit_test(nothing_was_changed),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
