/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf.c - the registry of settings */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <te/version.h>

#include "base/conf.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

struct values {
	bool insecure, node, offload;
	uint64_t threads, port, pool_bytes, lease_ttl, client_ttl;
	double ratio;
	char *host, *color;
	uint64_t child;
	const char *mode;
};

#define F(field) .name = #field, .offset = offsetof(struct values, field)

static const struct tei_setting rows[] = {
	{F(insecure), .group = "tells", .type = TEI_CONF_BOOL, .def = "false",
	 .env = "TEST_INSECURE", .no_env = "-1", .help = "serve everybody"},
	{F(node), .type = TEI_CONF_BOOL, .def = "true", .help = "a node"},
	{F(port), .alias = "rpc_port|older_port", .env = "TEST_PORT",
	 .type = TEI_CONF_UINT, .def = "50051", .max = 65535, .help = "port"},
	{F(pool_bytes), .group = "pool", .type = TEI_CONF_SIZE, .def = "160m",
	 .help = "pool"},
	{F(lease_ttl), .type = TEI_CONF_DURATION, .def = "5000", .unit = "ms",
	 .help = "lease"},
	{F(client_ttl), .type = TEI_CONF_DURATION, .def = "10", .unit = "s",
	 .min = 500, .max = 60000, .help = "client"},
	{F(ratio), .type = TEI_CONF_RATIO, .def = "0.95", .max = 1,
	 .help = "ratio", .expert = true},
	{F(host), .type = TEI_CONF_STRING, .help = "host"},
	{F(mode), .type = TEI_CONF_CHOICE, .def = "human",
	 .choices = "human|json", .help = "mode", .hidden = true},
	{F(color), .type = TEI_CONF_STRING, .help = "color", .hidden = true},
	{F(threads), .type = TEI_CONF_UINT, .def = "1", .help = "threads",
	 .hidden = true},
	{F(offload), .type = TEI_CONF_BOOL, .def = "yes", .help = "offload",
	 .hidden = true},
	{F(child), .type = TEI_CONF_UINT, .help = "child", .internal = true},
};

static struct values v;
static struct tei_conf c;
static char error[TEI_CONF_ERROR_LEN];

static int setup(void **state)
{
	(void)state;
	unsetenv("TEST_PORT");
	unsetenv("TEST_INSECURE");
	return tei_conf_init(&c, rows, TEST_COUNT(rows), &v);
}

static int teardown(void **state)
{
	(void)state;
	tei_conf_fini(&c);
	return v.host || v.mode || v.color;
}

static int args(const char *a, const char *b, const char *d)
{
	char *argv[] = {(char *)(uintptr_t) "prog", (char *)(uintptr_t)a,
			(char *)(uintptr_t)b, (char *)(uintptr_t)d, NULL};
	int argc = 1;

	while (argv[argc])
		argc++;
	return tei_conf_args(&c, argc, argv, error);
}

static void defaults_are_parsed_by_type(void **state)
{
	(void)state;
	assert_false(v.insecure);
	assert_true(v.node);
	assert_int_equal(v.port, 50051);
	assert_int_equal(v.pool_bytes, 160 << 20);
	assert_int_equal(v.lease_ttl, 5000);
	assert_int_equal(v.client_ttl, 10000);
	assert_true(v.ratio == 0.95);
	assert_null(v.host);
	assert_string_equal(v.mode, "human");
}

static void all_spellings_of_an_argument_work(void **state)
{
	(void)state;
	assert_int_equal(args("-port=1", "--pool-bytes=4 GB", "--insecure"), 0);
	assert_int_equal(v.port, 1);
	assert_true(v.pool_bytes == 4ull << 30);
	assert_true(v.insecure);
	assert_int_equal(args("--rpc-port", "2", "--noinsecure"), 0);
	assert_int_equal(v.port, 2);
	assert_false(v.insecure);
	assert_int_equal(args("--no-node", "--insecure=on", "-host="), 0);
	assert_false(v.node);
	assert_true(v.insecure);
	assert_string_equal(v.host, "");
	assert_int_equal(args("--node", "--host", "--odd=x"), 0);
	assert_true(v.node);
	assert_string_equal(v.host, "--odd=x");
	assert_int_equal(args("--lease_ttl=2s", "--client_ttl=3", NULL), 0);
	assert_int_equal(v.lease_ttl, 2000);
	assert_int_equal(v.client_ttl, 3000);
}

static void bad_arguments_are_named(void **state)
{
	static const struct {
		const char *arg, *next;
		int rc;
		const char *says;
	} cases[] = {
		{"--prot=1", NULL, -ENOENT, "setting prot: there is no such"},
		{"--prot=1", NULL, -ENOENT, "did you mean port?"},
		{"--pool-byte", "1", -ENOENT, "did you mean pool_bytes?"},
		{"--older_prot", "1", -ENOENT, "did you mean older_port?"},
		{"--noport", NULL, -ENOENT, "noport"},
		{"--nothing", NULL, -ENOENT, "nothing: there is no such"},
		{"--port", NULL, -EINVAL, "setting port"},
		{"--port=", NULL, -EINVAL, "''"},
		{"--port=x", NULL, -EINVAL, "'x' is not a whole number"},
		{"--port", "-1", -EINVAL, "'-1'"},
		{"--port=1.5", NULL, -EINVAL, "'1.5'"},
		{"--port=65536", NULL, -ERANGE, "outside 0 to 65535"},
		{"--port=99999999999999999999", NULL, -ERANGE, "port"},
		{"--pool_bytes=5q", NULL, -EINVAL, "a size"},
		{"--pool_bytes=1e", NULL, -EINVAL, "a size"},
		{"--pool_bytes=99999999t", NULL, -ERANGE, "too large"},
		{"--lease_ttl=5 parsecs", NULL, -EINVAL, "a duration"},
		{"--ratio=1.01", NULL, -ERANGE, "outside 0 to 1"},
		{"--ratio=nan", NULL, -EINVAL, "'nan'"},
		{"--ratio=-0.5", NULL, -ERANGE, "outside"},
		{"--client_ttl=0", NULL, -ERANGE, "outside 500 to 60000 ms"},
		{"--insecure=maybe", NULL, -EINVAL, "true or false"},
		{"--mode=jso", NULL, -EINVAL, "one of human|json"},
		{"--mode=human|json", NULL, -EINVAL, "one of"},
		{"stray", NULL, -EINVAL, "'stray'"},
		{"--", NULL, -EINVAL, "'--'"},
		{"---port=1", NULL, -EINVAL, "---port"},
		{"", NULL, -EINVAL, "''"},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		error[0] = '\0';
		assert_int_equal(args(cases[i].arg, cases[i].next, NULL),
				 cases[i].rc);
		if (!strstr(error, cases[i].says))
			fail_msg("%s: error was: %s", cases[i].arg, error);
		assert_null(strchr(error, '\n'));
	}
	defaults_are_parsed_by_type(NULL); /* nothing has changed */
}

static void command_line_beats_environment_beats_default(void **state)
{
	(void)state;
	setenv("TEST_PORT", "", 1);
	assert_int_equal(tei_conf_env(&c, error), 0);
	assert_int_equal(v.port, 50051);
	setenv("TEST_PORT", "-1", 1);
	assert_int_equal(tei_conf_env(&c, error), -EINVAL);
	setenv("TEST_PORT", "77", 1);
	setenv("TEST_INSECURE", "-1", 1); /* as if it were not set */
	assert_int_equal(tei_conf_env(&c, error), 0);
	assert_false(v.insecure);
	setenv("TEST_INSECURE", "1", 1);
	assert_int_equal(tei_conf_env(&c, error), 0);
	assert_int_equal(v.port, 77);
	assert_true(v.insecure);
	assert_int_equal(args("--port=78", NULL, NULL), 0);
	assert_int_equal(v.port, 78);
	setenv("TEST_PORT", "many", 1);
	assert_int_equal(tei_conf_env(&c, error), -EINVAL);
	assert_non_null(strstr(error, "TEST_PORT"));
	assert_int_equal(v.port, 78);
}

static void set_takes_names_and_aliases(void **state)
{
	(void)state;
	assert_int_equal(tei_conf_set(&c, "rpc_port", "5", error), 0);
	assert_int_equal(v.port, 5);
	assert_int_equal(tei_conf_set(&c, "older-port", "6", error), 0);
	assert_int_equal(v.port, 6);
	assert_int_equal(tei_conf_set(&c, "older", "6", error), -ENOENT);
	assert_int_equal(tei_conf_set(&c, "pool-bytes", "1.5k", error), 0);
	assert_int_equal(v.pool_bytes, 1536);
	assert_int_equal(tei_conf_set(&c, "host", "a", error), 0);
	assert_int_equal(tei_conf_set(&c, "host", "b", error), 0);
	assert_string_equal(v.host, "b");
	assert_int_equal(tei_conf_set(&c, "nope", "1", error), -ENOENT);
	assert_int_equal(tei_conf_set(&c, "por", "1", error), -ENOENT);
}

static void help_and_version_are_left_to_the_caller(void **state)
{
	(void)state;
	assert_int_equal(args("--port=3", "--help", "--nonsense"), 1);
	assert_int_equal(args("-h", NULL, NULL), 1);
	assert_int_equal(args("--version", NULL, NULL), 2);
	assert_int_equal(args("--help-all", NULL, NULL), 3);
	assert_int_equal(args("--help=all", NULL, NULL), 3);
}

static char *captured(void (*print)(const struct tei_conf *, FILE *))
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	print(&c, f);
	fclose(f);
	return text;
}

static void print_help(const struct tei_conf *conf, FILE *f)
{
	tei_conf_help(conf, f, "prog", "Does things.", false);
}

static void print_all(const struct tei_conf *conf, FILE *f)
{
	tei_conf_help(conf, f, "prog", "Does things.", true);
}

static void help_shows_default_unit_and_environment(void **state)
{
	char *help = captured(print_help);
	char *table = captured(tei_conf_markdown);
	char *all = captured(print_all);

	(void)state;
	assert_non_null(strstr(help, "usage: prog "));
	assert_non_null(strstr(help, "Does things."));
	assert_non_null(strstr(help, "--port=N"));
	assert_non_null(strstr(help, "default 50051, environment TEST_PORT"));
	assert_non_null(strstr(help, "default 10 s"));
	assert_null(strstr(help, "--mode")); /* hidden */
	assert_non_null(strstr(help, "tells:\n\n  --insecure=BOOL"));
	assert_non_null(strstr(help, "\n\npool:\n\n  --pool_bytes=SIZE"));
	assert_non_null(strstr(help, "also --rpc_port, --older_port\n"));
	assert_null(strstr(help, "--ratio")); /* expert */
	assert_non_null(strstr(all, "expert; default 0.95"));
	assert_non_null(strstr(help, "--help=all\n"));
	assert_non_null(strstr(all, "\n  --threads=N (1)\n"));
	assert_non_null(strstr(all, "\n  --offload=BOOL (true)\n"));
	assert_null(strstr(help, "child"));
	assert_null(strstr(all, "child"));
	assert_null(strstr(table, "child"));
	assert_non_null(strstr(table, "| `client_ttl` | TIME | 10 s |"));
	free(all);
	free(help);
	free(table);
}

/* What main() would print and return, given these arguments. */
static int run_main(const char *arg, char *printed, size_t room)
{
	char *argv[] = {(char *)(uintptr_t) "/usr/bin/prog",
			(char *)(uintptr_t)arg, NULL};
	int fd = memfd_create("printed", 0), out = dup(1), err = dup(2), rc;
	ssize_t n;

	assert_true(fd >= 0 && out >= 0 && err >= 0);
	fflush(NULL);
	dup2(fd, 1);
	dup2(fd, 2);
	rc = tei_conf_main(&c, arg ? 2 : 1, argv, "Does things.");
	fflush(NULL);
	dup2(out, 1);
	dup2(err, 2);
	n = pread(fd, printed, room - 1, 0);
	printed[n > 0 ? n : 0] = '\0';
	close(fd);
	close(out);
	close(err);
	return rc;
}

static void main_prints_one_line_and_says_how_to_exit(void **state)
{
	char printed[4096];

	(void)state;
	assert_int_equal(run_main(NULL, printed, sizeof(printed)), -1);
	assert_string_equal(printed, "");
	assert_int_equal(run_main("--port=x", printed, sizeof(printed)), 2);
	assert_string_equal(printed,
			    "prog: setting port: 'x' is not a whole number\n");
	assert_int_equal(run_main("--version", printed, sizeof(printed)), 0);
	assert_string_equal(printed, "prog " TE_VERSION "\n");
	setenv("TEST_PORT", "x", 1); /* does not stand in the way of help */
	assert_int_equal(run_main("--help", printed, sizeof(printed)), 0);
	assert_non_null(strstr(printed, "usage: prog"));
	assert_int_equal(run_main("--port=1", printed, sizeof(printed)), 2);
	assert_non_null(strstr(printed, "environment TEST_PORT"));
}

static void init_survives_any_failed_allocation(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	int rc = 0;

	(void)state;
	tei_conf_fini(&c);
	while (test_faults_next(&f)) {
		rc = tei_conf_init(&c, rows, TEST_COUNT(rows), &v);
		if (rc == 0) {
			rc = tei_conf_set(&c, "host", "a", error);
			tei_conf_fini(&c);
		}
		assert_int_equal(rc, tei_fault_struck(f.kind) ? -ENOMEM : 0);
		assert_null(v.host);
		assert_null(v.mode);
	}
	assert_true(f.n > 2);
}

static void parsers_take_what_people_write(void **state)
{
	uint64_t n;
	bool b;

	(void)state;
	assert_int_equal(tei_parse_size("0", &n), 0);
	assert_int_equal(tei_parse_size("18446744073709551615", &n), 0);
	assert_true(n == UINT64_MAX);
	assert_int_equal(tei_parse_size("18446744073709551616", &n), -ERANGE);
	assert_int_equal(tei_parse_size("16777216t", &n), -ERANGE);
	assert_int_equal(tei_parse_size("0.5KiB", &n), 0);
	assert_int_equal(n, 512);
	assert_int_equal(tei_parse_size(" 1", &n), -EINVAL);
	assert_int_equal(tei_parse_size("1.", &n), -EINVAL);
	assert_int_equal(tei_parse_duration_ms("1h", NULL, &n), 0);
	assert_int_equal(n, 3600000);
	assert_int_equal(tei_parse_duration_ms("1.5", "s", &n), 0);
	assert_int_equal(n, 1500);
	assert_int_equal(tei_parse_bool("ON", &b), 0);
	assert_true(b);
	assert_int_equal(tei_parse_bool("No", &b), 0);
	assert_false(b);
	assert_int_equal(tei_parse_bool("", &b), -EINVAL);
}

static void hidden_settings_that_were_given_are_named(void **state)
{
	char names[64];

	(void)state;
	assert_int_equal(tei_conf_set(&c, "host", "x", error), 0);
	assert_int_equal(tei_conf_set(&c, "threads", "1", error), 0);
	assert_int_equal(tei_conf_set(&c, "offload", "true", error), 0);
	assert_int_equal(tei_conf_ignored(&c, names, sizeof(names)), 0);
	assert_string_equal(names, "");
	assert_int_equal(tei_conf_set(&c, "threads", "2", error), 0);
	assert_int_equal(tei_conf_set(&c, "mode", "json", error), 0);
	assert_int_equal(tei_conf_set(&c, "color", "", error), 0);
	assert_int_equal(tei_conf_set(&c, "offload", "no", error), 0);
	assert_int_equal(tei_conf_ignored(&c, names, sizeof(names)), 4);
	assert_string_equal(names, "mode, color, threads, offload");
	assert_int_equal(tei_conf_ignored(&c, names, 7), 4);
	assert_string_equal(names, "mode, ");
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(defaults_are_parsed_by_type),
		T(all_spellings_of_an_argument_work),
		T(bad_arguments_are_named),
		T(command_line_beats_environment_beats_default),
		T(set_takes_names_and_aliases),
		T(help_and_version_are_left_to_the_caller),
		T(help_shows_default_unit_and_environment),
		T(main_prints_one_line_and_says_how_to_exit),
		T(init_survives_any_failed_allocation),
		T(hidden_settings_that_were_given_are_named),
		T(parsers_take_what_people_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
