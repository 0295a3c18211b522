/* SPDX-License-Identifier: Apache-2.0 */
/* test_admin.c - the admin pages of a master that has something to tell */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/json.h"
#include "tests/lib/test.h"

#define MIB    (1u << 20)
#define N_KEYS 1000

static struct master master;
static struct caller *owner;

static int start(void **state)
{
	(void)state;
	master_start(&master, (const char *const[]){NULL});
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

/* The answer as text, which must come with @status. Freed by the next. */
static const char *text_of(const char *request, int status)
{
	static char *text;
	int got;

	free(text);
	text = NULL;
	if (!request)
		return NULL;
	text = master_ask(&master, request, &got);
	if (got != status)
		fail_msg("%s: %d, %s", request, got, text);
	return text;
}

static json_t *json_of(const char *request, int status)
{
	json_error_t error;
	json_t *root = json_loads(text_of(request, status), 0, &error);

	if (!root)
		fail_msg("%s: %s", request, error.text);
	return root;
}

static void the_master_tells_of_itself(void **state)
{
	char address[40];
	json_t *root;

	(void)state;
	snprintf(address, sizeof(address), "0.0.0.0:%u", master.rpc);
	root = json_of("GET /health", 200);
	assert_string_equal(test_json_text(root, "status"), "ok");
	assert_string_equal(test_json_text(root, "role"), "leader");
	assert_string_equal(test_json_text(root, "leader_address"), address);
	assert_true(json_is_true(json_object_get(root, "service_ready")));
	assert_int_equal(test_json_number(root, "view_version"), 0);
	json_decref(root);
	assert_string_equal(text_of("GET /role", 200), "leader\n");
	assert_string_equal(text_of("GET /ha_status", 200), "disabled\n");
	assert_non_null(strstr(text_of("GET /leader", 200), address));
	root = json_of("GET /kv_events/status", 200);
	assert_int_equal(test_json_number(root, "published_events"), 0);
	json_decref(root);
}

static void segments_are_listed_and_described(void **state)
{
	json_t *root, *one;

	(void)state;
	caller_put(owner, "in a segment");
	assert_string_equal(text_of("GET /get_all_segments", 200), "owner-1\n");
	root = json_of("GET /get_segments_detail", 200);
	assert_int_equal(test_json_number(root, "total_segments"), 1);
	one = json_array_get(json_object_get(root, "segments"), 0);
	assert_string_equal(test_json_text(one, "segment_name"), "owner-1");
	assert_string_equal(test_json_text(one, "size_human"), "1.00 MB");
	assert_string_equal(test_json_text(one, "status"), "OK");
	assert_int_equal(test_json_number(one, "size_bytes"), MIB);
	assert_memory_equal(test_json_text(one, "base_address"), "0x", 2);
	assert_int_equal(strlen(test_json_text(one, "segment_id")), 36);
	assert_true(test_json_number(one, "allocator_used_bytes") > 100);
	json_decref(root);
	assert_non_null(
		strstr(text_of("GET /query_segment?segment=owner-1", 200),
		       "owner-1\nUsed(bytes): "));
	assert_non_null(strstr(
		text_of("GET /api/v1/segments/status?segment=owner-1", 200),
		"\"status\":1,\"status_name\":\"OK\""));
}

static void a_key_is_found_without_a_lease(void **state)
{
	json_t *root, *place;

	(void)state;
	caller_put(owner, "a key");
	root = json_of("GET /query_key?key=a+key", 200);
	assert_true(json_is_true(json_object_get(root, "success")));
	place = json_array_get(json_object_get(root, "data"), 0);
	assert_int_equal(test_json_number(place, "size_"), 100);
	assert_true(test_json_number(place, "buffer_address_") != 0);
	assert_non_null(test_json_text(place, "transport_endpoint_"));
	json_decref(root);
	assert_int_equal(caller_remove(owner, "a key", false), 0);
	root = json_of("GET /query_key?key=a%20key", 404);
	assert_int_equal(test_json_number(root, "error_code"), -704);
	assert_string_equal(test_json_text(root, "error_message"),
			    "OBJECT_NOT_FOUND");
	json_decref(root);
}

static void several_keys_are_asked_for_at_once(void **state)
{
	json_t *root, *data;

	(void)state;
	caller_put(owner, "b1");
	caller_put(owner, "b2");
	root = json_of("GET /batch_query_keys?keys=b1,no,b2", 200);
	data = json_object_get(root, "data");
	assert_int_equal(json_object_size(data), 3);
	assert_true(json_is_true(
		json_object_get(json_object_get(data, "b2"), "ok")));
	assert_int_equal(json_array_size(json_object_get(
				 json_object_get(data, "b1"), "values")),
			 1);
	assert_true(json_is_false(
		json_object_get(json_object_get(data, "no"), "ok")));
	json_decref(root);
}

static void all_keys_are_listed_then_removed(void **state)
{
	static const char odd[] = "100%0A \xc3\xa4\xc2\x9b\xff\x7f";
	uint64_t size;
	json_t *root;
	size_t n = 0;
	char key[32];

	(void)state;
	json_decref(json_of("POST /api/v1/remove_all?force=true", 200));
	assert_string_equal(text_of("GET /get_all_keys", 200), "");
	for (int i = 0; i < N_KEYS; i++) {
		snprintf(key, sizeof(key), "list/%03d\n", i);
		caller_put(owner, key);
	}
	/* Lines decode to keys: what stands for a byte stands for that alone. */
	caller_put(owner, odd);
	assert_non_null(strstr(text_of("GET /get_all_keys", 200),
			       "100%250A \xc3\xa4%C2%9B%FF%7F\n"));
	assert_int_equal(caller_remove(owner, odd, true), 0);
	for (const char *at = text_of("GET /get_all_keys", 200); *at;
	     at = strchr(at, '\n') + 1, n++)
		assert_memory_equal(at + 8, "%0A\n", 4);
	assert_int_equal(n, N_KEYS);

	assert_int_equal(caller_lookup(owner, "list/007\n", &size), 0);
	root = json_of("POST /api/v1/remove_all", 200);
	assert_int_equal(test_json_number(root, "removed_count"), N_KEYS - 1);
	json_decref(root);
	assert_string_equal(text_of("GET /get_all_keys", 200), "list/007%0A\n");
	root = json_of("POST /api/v1/remove_all?force=1&tenant_id=x", 200);
	assert_int_equal(test_json_number(root, "removed_count"), 1);
	json_decref(root);
	assert_int_equal(caller_lookup(owner, "list/007\n", &size), -704);
	assert_true(master_metric(&master,
				  "master_remove_all_requests_total") >= 3);
}

/* @request, and the error code in the JSON that says why not. */
static const struct {
	const char *request;
	int status, code;
} wrong[] = {
	{"GET /query_key", 400, -600},
	{"GET /query_key?key=", 400, -600},
	{"GET /query_key?kee=a", 400, -600},
	{"GET /query_key?key=nowhere", 404, -704},
	{"GET /query_key?key=%00%ff", 404, -704},
	{"GET /batch_query_keys", 400, -600},
	{"GET /batch_query_keys?keys=", 400, -600},
	{"GET /batch_query_keys?keys=a,,b", 400, -600},
	{"GET /batch_query_keys?keys=a,", 400, -600},
	{"GET /batch_query_keys?keys=%ff", 400, -600},
	{"GET /batch_query_keys?keys=a%00b", 400, -600},
	{"GET /query_segment", 400, -600},
	{"GET /query_segment?segment=nowhere", 404, -101},
	{"GET /api/v1/segments/status?segment=", 400, -600},
	{"GET /api/v1/segments/status?segment=a%00", 400, -600},
	{"GET /api/v1/segments/status?segment=nowhere", 404, -101},
	{"POST /api/v1/remove_all?force=maybe", 400, -600},
	{"POST /api/v1/remove_all?forse=true", 400, -600},
	{"POST /api/v1/remove_all?tenant=a", 400, -600},
	{"POST /api/v1/remove_all?force%00=true", 400, -600},
	{"POST /api/v1/remove_all?force=true&force=false", 400, -600},
	{"POST /api/v1/remove_all?force=%ff", 400, -600},
	{"POST /api/v1/drain_jobs", 400, -600},
	{"GET /api/v1/drain_jobs/query", 400, -600},
	{"GET /api/v1/drain_jobs/query?job_id=1", 400, -600},
	{"GET /api/v1/drain_jobs/query?job_id="
	 "0123456789abcdef-0123-4567-89abcdef0",
	 400, -600},
	{"GET /api/v1/drain_jobs/query?job_id="
	 "0123456g-0123-4567-89ab-cdef01234567",
	 400, -600},
	{"GET /api/v1/drain_jobs/query?job_id="
	 "01234567-0123-4567-89AB-cdef01234567",
	 404, -1402},
	{"POST /api/v1/drain_jobs/cancel?job_id=%00", 400, -600},
	{"POST /api/v1/drain_jobs/cancel?job_id="
	 "01234567-0123-4567-89ab-cdef01234567",
	 404, -1402},
	{"GET /api/v1/tenant_quotas", 409, -1011},
	{"PUT /api/v1/tenant_quotas?tenant_id=a", 409, -1011},
	{"DELETE /api/v1/tenant_quotas?tenant_id=a", 409, -1011},
};

static void wrong_requests_are_told_why_in_json(void **state)
{
	(void)state;
	caller_put(owner, "stays");
	for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
		json_t *root = json_of(wrong[i].request, wrong[i].status);

		assert_true(json_is_false(json_object_get(root, "success")));
		assert_int_equal(test_json_number(root, "error_code"),
				 wrong[i].code);
		assert_true(strlen(test_json_text(root, "error_message")) > 0);
		json_decref(root);
	}
	text_of("GET /query_key?key=stays", 200);
}

static void what_is_no_request_for_a_page_changes_nothing(void **state)
{
	static const struct {
		const char *request;
		const char *status;
	} cases[] = {
		{"GET /api/v1/remove_all HTTP/1.1\r\n\r\n", " 405 "},
		{"POST /get_all_keys HTTP/1.1\r\n\r\n", " 405 "},
		{"POST /api/v1/remove_all HTTP/1.1\r\n"
		 "Content-Length: 1073741824\r\n\r\n",
		 " 413 "},
		{"POST /api/v1/remove_all HTTP/1.1\r\n"
		 "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		 " 411 "},
		{"POST /api/v1/remove_all HTTP/1.1\r\n"
		 "Origin: http://elsewhere\r\n\r\n",
		 " 403 "},
		{"POST /api/v1/remove_all HTTP/1.1\r\n"
		 "Content-Length: 2\r\n\r\n{}",
		 " 400 "},
		{"POST /api/v1/remove_all?%zz HTTP/1.1\r\n\r\n", " 400 "},
	};
	char answer[512];

	(void)state;
	caller_put(owner, "stays too");
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		size_t n = master_throw(master.http, cases[i].request,
					strlen(cases[i].request), answer,
					sizeof(answer) - 1);

		answer[n] = '\0';
		if (!strstr(answer, cases[i].status) ||
		    !strstr(answer, "\"error_code\":-600,\"error_message\":"))
			fail_msg("%s: %s", cases[i].request, answer);
	}
	/* Half a request for it. */
	master_throw(master.http,
		     "POST /api/v1/remove_all HTTP/1.1\r\nContent-Length: 9"
		     "\r\n\r\nhalf",
		     57, answer, sizeof(answer));
	text_of("GET /query_key?key=stays+too", 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_master_tells_of_itself),
		cmocka_unit_test(segments_are_listed_and_described),
		cmocka_unit_test(a_key_is_found_without_a_lease),
		cmocka_unit_test(several_keys_are_asked_for_at_once),
		cmocka_unit_test(all_keys_are_listed_then_removed),
		cmocka_unit_test(wrong_requests_are_told_why_in_json),
		cmocka_unit_test(what_is_no_request_for_a_page_changes_nothing),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);

	text_of(NULL, 0);
	return failed;
}
