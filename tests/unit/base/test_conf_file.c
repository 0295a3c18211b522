/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_file.c - files of settings, good and bad */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/conf.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

#define N_NOISE 2000

struct values {
	char *config_path, *host;
	const char *mode;
	uint64_t port, pool_bytes, ttl;
	double ratio;
	bool insecure;
};

#define F(field) .name = #field, .offset = offsetof(struct values, field)

static const struct tei_setting rows[] = {
	{F(config_path), .type = TEI_CONF_STRING, .file = tei_conf_file,
	 .help = "file"},
	{F(port), .alias = "rpc_port", .env = "TEST_PORT",
	 .type = TEI_CONF_UINT, .def = "50051", .max = 65535, .help = "port"},
	{F(host), .type = TEI_CONF_STRING, .def = "here", .help = "host"},
	{F(mode), .type = TEI_CONF_CHOICE, .def = "a", .choices = "a|b",
	 .help = "mode"},
	{F(pool_bytes), .type = TEI_CONF_SIZE, .def = "1m", .help = "pool"},
	{F(ttl), .type = TEI_CONF_DURATION, .def = "10", .unit = "s",
	 .help = "time"},
	{F(ratio), .type = TEI_CONF_RATIO, .def = "0.5", .max = 1,
	 .help = "ratio"},
	{F(insecure), .type = TEI_CONF_BOOL, .def = "0", .help = "insecure"},
};

static struct values v;
static struct tei_conf c = {.rows = rows, .n = TEST_COUNT(rows), .values = &v};
static char error[TEI_CONF_ERROR_LEN];
static char dir[TEST_PATH_MAX];

static int start(void **state)
{
	(void)state;
	test_tmpdir_create(dir);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	test_tmpdir_remove(dir);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	unsetenv("TEST_PORT");
	return tei_conf_init(&c, rows, TEST_COUNT(rows), &v);
}

static int teardown(void **state)
{
	(void)state;
	tei_conf_fini(&c);
	return 0;
}

static const char *path_of(const char *name)
{
	static char path[TEST_PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void write_bytes(const char *name, const void *bytes, size_t len)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
}

static int read_as(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
	error[0] = '\0';
	return tei_conf_file(&c, path_of(name), error);
}

static void check_read(void)
{
	assert_int_equal(v.port, 7);
	assert_string_equal(v.host, "there: now");
	assert_string_equal(v.mode, "b");
	assert_true(v.pool_bytes == 4ull << 30);
	assert_int_equal(v.ttl, 500);
	assert_true(v.ratio == 0.05);
	assert_true(v.insecure);
}

static void yaml_is_read(void **state)
{
	(void)state;
	assert_int_equal(read_as("a.yaml", "# settings\n---\n"
					   "rpc-port: 7\n"
					   "host: \"there: now\" # quoted\n"
					   "mode: b\n"
					   "pool_bytes: 4 GB\n"
					   "ttl: 500ms\n"
					   "ratio: 0.05\n"
					   "insecure: yes\n"),
			 0);
	check_read();
	assert_int_equal(read_as("a.yml", "{port: 8, host: \"\"}"), 0);
	assert_int_equal(v.port, 8);
	assert_string_equal(v.host, "");
}

static void json_is_read(void **state)
{
	(void)state;
	assert_int_equal(read_as("a.json",
				 "{\"rpc_port\": 7, \"host\": \"there: now\","
				 "\"mode\": \"b\", \"pool_bytes\": 4294967296,"
				 "\"ttl\": \"500ms\", \"ratio\": 0.05,"
				 "\"insecure\": true}"),
			 0);
	check_read();
	assert_int_equal(read_as("a.json", "{\"ttl\": 3, \"ratio\": 1}"), 0);
	assert_int_equal(v.ttl, 3000);
	assert_true(v.ratio == 1.0);
}

static void an_empty_file_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(read_as("a.yaml", ""), 0);
	assert_int_equal(read_as("a.yaml", "# nothing\n"), 0);
	assert_int_equal(read_as("a.yaml", "---\n...\n"), -EINVAL);
	assert_int_equal(read_as("a.json", "{}"), 0);
	assert_int_equal(read_as("a.json", ""), -EINVAL);
	assert_int_equal(v.port, 50051);
}

struct bad {
	const char *text, *says;
	int rc;
};

static void check_bad(const char *name, const struct bad *bad, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int rc = read_as(name, bad[i].text);

		if (rc != bad[i].rc || !strstr(error, bad[i].says) ||
		    !strstr(error, name) || strchr(error, '\n'))
			fail_msg("%s: %d, %s", bad[i].text, rc, error);
	}
}

static void bad_yaml_is_named_with_file_and_line(void **state)
{
	static const struct bad bad[] = {
		{"port: 1\nprot: 2\n",
		 "line 2): there is no such setting; did "
		 "you mean port?",
		 -ENOENT},
		{"port: 1\nport: 1\n", "setting port", -EINVAL},
		{"port: 1\nrpc-port: 1\n", "line 2): given twice", -EINVAL},
		{"port: x\n", "'x' is not a whole number", -EINVAL},
		{"port: true\n", "not a whole number", -EINVAL},
		{"port: 70000\n", "outside", -ERANGE},
		{"port: 18446744073709551616\n", "outside", -ERANGE},
		{"port:\n", "line 1: a value is missing", -EINVAL},
		{"host: ~\n", "a value is missing", -EINVAL},
		{"host: null\n", "a value is missing", -EINVAL},
		{"host: [a, b]\n", "line 1: one value is expected", -EINVAL},
		{"\nhost:\n  name: a\n", "line 3: one value", -EINVAL},
		{"? [a]\n: b\n", "a setting's name is expected", -EINVAL},
		{"host: &a x\nmode: *a\n", "line 2: one value", -EINVAL},
		{"<<: {port: 1}\n", "one value is expected", -EINVAL},
		{"- port\n", "name: value is expected", -EINVAL},
		{"port\n", "name: value is expected", -EINVAL},
		{"port: 1\n---\nport: 2\n", "one document", -EINVAL},
		{"port: 1\n  mode: a\n", "line 1): '1 mode'", -EINVAL},
		{"host: \"a\\0b\"\n", "one value is expected", -EINVAL},
		{"host: \"unended\n", "line", -EINVAL},
		{"\tport: 1\n", "line 1: ", -EINVAL},
		{"insecure: maybe\n", "true or false", -EINVAL},
		{"mode: c\n", "one of a|b", -EINVAL},
		{"config_path: b.yaml\n", "not from a file", -EINVAL},
		{"host: \xff\xfe\n", "line", -EINVAL},
	};

	(void)state;
	check_bad("bad.yaml", bad, TEST_COUNT(bad));
}

static void bad_json_is_named_with_its_file(void **state)
{
	static const struct bad bad[] = {
		{"{\"prot\": 1}", "did you mean port?", -ENOENT},
		{"{\"a\\u001b[1m\\nb\\u007f\": 1}",
		 "setting a\\x1b[1m\\x0ab\\x7f (", -ENOENT},
		{"{\"port\": 1, \"port\": 1}", "duplicate", -EINVAL},
		{"{\"port\": 1, \"rpc_port\": 1}", "given twice", -EINVAL},
		{"{\"port\": \"1\"}", "a whole number is expected", -EINVAL},
		{"{\"port\": 1.5}", "a whole number is expected", -EINVAL},
		{"{\"port\": true}", "a whole number is expected", -EINVAL},
		{"{\"port\": null}", "a whole number is expected", -EINVAL},
		{"{\"port\": {\"a\": 1}}", "a whole number", -EINVAL},
		{"{\"port\": -1}", "not a whole number", -EINVAL},
		{"{\"port\": 99999999999999999999}", "line 1", -EINVAL},
		{"{\"ratio\": 1e300}", "ratio", -ERANGE},
		{"{\"ratio\": 1e999}", "line 1", -EINVAL},
		{"{\"insecure\": 1}", "true or false is expected", -EINVAL},
		{"{\"host\": 5}", "a text is expected", -EINVAL},
		{"{\"host\": [\"a\"]}", "a text is expected", -EINVAL},
		{"{\"other\": [\"a\"]}", "no such setting", -ENOENT},
		{"{\"mode\": \"c\"}", "one of a|b", -EINVAL},
		{"{\"ttl\": \"5 parsecs\"}", "a duration", -EINVAL},
		{"{\"host\": \"a\\u0000b\"}", "line 1", -EINVAL},
		{"[1]", "an object is expected", -EINVAL},
		{"{\"port\": 1} x", "line 1", -EINVAL},
		{"{port: 1}", "line 1", -EINVAL},
		{"{\"port\": 1", "line 1", -EINVAL},
	};

	(void)state;
	check_bad("bad.json", bad, TEST_COUNT(bad));
}

static void what_is_nested_deep_is_refused(void **state)
{
	static const char *const names[] = {"deep.yaml", "deep.json"};
	size_t n = 500000;
	char *text = malloc(n + 16);

	(void)state;
	assert_non_null(text);
	memcpy(text, "{\"host\":", 8);
	memset(text + 8, '[', n);
	text[n + 8] = '\0';
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(read_as(names[i], text), -EINVAL);
	free(text);
}

static void what_cannot_be_read_is_named(void **state)
{
	static char big[(1 << 20) + 1];

	(void)state;
	assert_int_equal(tei_conf_file(&c, path_of("none.yaml"), error),
			 -ENOENT);
	assert_non_null(strstr(error, "none.yaml"));
	assert_int_equal(tei_conf_file(&c, path_of("none.toml"), error),
			 -EINVAL);
	assert_non_null(strstr(error, ".yaml, .yml or .json"));
	assert_int_equal(mkdir(path_of("dir.yaml"), 0700), 0);
	assert_int_equal(tei_conf_file(&c, path_of("dir.yaml"), error),
			 -EISDIR);
	/* Nobody writes to it: reading it would wait for ever. */
	assert_int_equal(mkfifo(path_of("pipe.yaml"), 0600), 0);
	assert_int_equal(tei_conf_file(&c, path_of("pipe.yaml"), error),
			 -EINVAL);
	memset(big, '#', sizeof(big));
	write_bytes("big.yaml", big, sizeof(big));
	assert_int_equal(tei_conf_file(&c, path_of("big.yaml"), error), -EFBIG);
}

static void noise_is_refused_or_read(void **state)
{
	static const char *const words[] = {
		"port",  ": ",  "1",  "\n", "  ", "- ", "host", "[",
		"]",     "{",   "}",  "\"", ",",  "&a", "*a",   "|",
		"ratio", "? ",  "#",  "!!", "%",  "'",  "---",  "...",
		"true",  "\\u", "<<", ":",  "~",  "\t",
	};
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < N_NOISE; i++) {
		char text[400];
		size_t at = 0;

		for (int j = 0; j < 40; j++) {
			seed = seed * 6364136223846793005u +
			       1442695040888963407u;
			at += (size_t)snprintf(
				text + at, sizeof(text) - at, "%s",
				words[(seed >> 33) % TEST_COUNT(words)]);
		}
		(void)read_as(i & 1 ? "noise.yaml" : "noise.json", text);
		assert_null(strchr(error, '\n'));
	}
}

static int run_main(const char *a, const char *b)
{
	char *argv[] = {(char *)(uintptr_t) "prog", (char *)(uintptr_t)a,
			(char *)(uintptr_t)b, NULL};

	return tei_conf_main(&c, b ? 3 : 2, argv, "");
}

static void flag_beats_environment_beats_file_beats_default(void **state)
{
	char flag[TEST_PATH_MAX + 64];

	(void)state;
	write_bytes("p.yaml", "port: 2\nhost: there\n", 20);
	snprintf(flag, sizeof(flag), "--config_path=%s", path_of("p.yaml"));
	assert_int_equal(run_main(flag, NULL), -1);
	assert_int_equal(v.port, 2);
	assert_string_equal(v.host, "there");
	assert_string_equal(v.mode, "a");
	setenv("TEST_PORT", "3", 1);
	assert_int_equal(run_main(flag, NULL), -1);
	assert_int_equal(v.port, 3);
	assert_int_equal(run_main("--port=4", flag), -1);
	assert_int_equal(v.port, 4);
	assert_int_equal(run_main(flag, "--host=x"), -1);
	assert_string_equal(v.host, "x");
	assert_int_equal(v.port, 3);
}

static void any_allocation_may_fail(void **state)
{
	static const char *const names[] = {"f.yaml", "f.json"};
	struct test_faults f;

	(void)state;
	write_bytes("f.yaml", "host: a\nmode: b\n", 16);
	write_bytes("f.json", "{\"host\": \"a\", \"mode\": \"b\"}", 26);
	for (size_t i = 0; i < 2; i++) {
		f = (struct test_faults){.kind = TEI_FAULT_ALLOC};
		while (test_faults_next(&f)) {
			int rc = tei_conf_file(&c, path_of(names[i]), error);

			assert_int_equal(rc, tei_fault_struck(f.kind) ? -ENOMEM
								      : 0);
		}
		assert_true(f.n > 4);
	}
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(yaml_is_read),
		T(json_is_read),
		T(an_empty_file_changes_nothing),
		T(bad_yaml_is_named_with_file_and_line),
		T(bad_json_is_named_with_its_file),
		T(what_is_nested_deep_is_refused),
		T(what_cannot_be_read_is_named),
		T(noise_is_refused_or_read),
		T(flag_beats_environment_beats_file_beats_default),
		T(any_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
