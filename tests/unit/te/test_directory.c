/* SPDX-License-Identifier: Apache-2.0 */
/* test_directory.c - what settings and directories say, read with care */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "te/core/config.h"
#include "te/directory/directory.h"
#include "tests/lib/faults.h"
#include "tests/lib/tmpdir.h"
#include "tests/unit/te/rig.h"

static struct tei_place parse(const char *text)
{
	char error[TEI_PLACE_ERROR_LEN];
	struct tei_place place;

	if (tei_place_parse(text, &place, error))
		fail_msg("%s: %s", text ? text : "", error);
	return place;
}

static void no_place_is_no_directory(void **state)
{
	(void)state;
	assert_int_equal(parse(NULL).kind, TEI_PLACE_NONE);
	assert_int_equal(parse("").kind, TEI_PLACE_NONE);
	assert_int_equal(parse("P2PHANDSHAKE").kind, TEI_PLACE_NONE);
}

static void places_of_each_kind_are_read(void **state)
{
	struct tei_place p = parse("http://meta:8080/metadata");

	(void)state;
	assert_int_equal(p.kind, TEI_PLACE_HTTP);
	assert_false(p.tls);
	assert_string_equal(p.at[0].host, "meta");
	assert_int_equal(p.at[0].port, 8080);
	assert_string_equal(p.path, "/metadata");
	p = parse("https://[::1]/x/y");
	assert_true(p.tls);
	assert_string_equal(p.at[0].host, "::1");
	assert_int_equal(p.at[0].port, 443);
	assert_string_equal(p.path, "/x/y");
	assert_string_equal(parse("http://a").path, "/metadata");
	p = parse("etcd://a;b:1;[::2]:3");
	assert_int_equal(p.kind, TEI_PLACE_ETCD);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.at[0].port, 2379);
	assert_int_equal(p.at[1].port, 1);
	assert_string_equal(p.at[2].host, "::2");
	p = parse("10.0.0.1:2379,10.0.0.2:2379");
	assert_int_equal(p.kind, TEI_PLACE_ETCD);
	assert_int_equal(p.n, 2);
	p = parse("redis://r");
	assert_int_equal(p.kind, TEI_PLACE_REDIS);
	assert_int_equal(p.at[0].port, 6379);
}

static void malformed_places_are_refused_in_words(void **state)
{
	static const char *const texts[] = {
		"http://",
		"http:///metadata",
		"ftp://a",
		"localhost",
		"etcd://",
		"etcd://a;;b",
		"etcd://a;",
		"etcd://a:x",
		"etcd://a:70000",
		"etcd://1;2;3;4;5;6;7;8;9",
		"redis://a;b",
		"redis://a/1",
		"redis://u:p@a:1",
		"http://a b:1/",
		"http://a:1/x?key=",
		"http://a:1/#x",
		"http://a;b/metadata",
		"://",
		":",
		"http://[::1/",
		"http://a\n:1",
	};
	char error[TEI_PLACE_ERROR_LEN];
	struct tei_place place;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(texts); i++) {
		error[0] = '\0';
		if (tei_place_parse(texts[i], &place, error) != -EINVAL)
			fail_msg("\"%s\" is accepted", texts[i]);
		assert_non_null(strstr(error, "should be"));
	}
}

static void malformed_place_is_an_error_at_creation(void **state)
{
	struct te_config *config;
	struct te_engine *engine;

	(void)state;
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_config_set(config, "metadata_server",
				       "gopher://a:1", NULL, 0),
			 0);
	assert_int_equal(te_engine_create(config, NULL, &engine), -EINVAL);
	te_config_destroy(config);
}

/* ---- entries ---- */

static struct tei_entry example(void)
{
	struct tei_entry e = {.host = "10.1.2.3", .port = 4567, .n = 2};

	strcpy(e.address[0], "10.1.2.3");
	strcpy(e.address[1], "fd00::1");
	memset(e.life, 'a', TEI_ENTRY_LIFE_LEN);
	return e;
}

static void entry_is_what_was_written(void **state)
{
	struct tei_entry e = example(), back;
	char text[TEI_ENTRY_MAX];
	int len = tei_entry_encode(&e, text);

	(void)state;
	assert_string_equal(
		text, "{\"ip_or_host_name\":\"10.1.2.3\",\"rpc_port\":4567,"
		      "\"addresses\":[\"10.1.2.3\",\"fd00::1\"],"
		      "\"incarnation\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}");
	assert_int_equal(len, strlen(text));
	assert_int_equal(tei_entry_decode(text, (size_t)len, &back), 0);
	assert_memory_equal(&back, &e, sizeof(e));
	assert_true(tei_entry_decode(text, (size_t)len - 1, &back) == -EBADMSG);
}

static void entry_of_others_has_neither_life_nor_addresses(void **state)
{
	static const char text[] =
		"{\"ip_or_host_name\": \"node7\", \"rpc_port\": 12001}";
	struct tei_entry e;

	(void)state;
	assert_int_equal(tei_entry_decode(text, strlen(text), &e), 0);
	assert_string_equal(e.host, "node7");
	assert_int_equal(e.port, 12001);
	assert_int_equal(e.n, 0);
	assert_string_equal(e.life, "");
}

static void other_words_are_no_entry(void **state)
{
#define H "\"ip_or_host_name\":\"a\""
#define P "\"rpc_port\":1"
	static const char *const texts[] = {
		"",
		"null",
		"[]",
		"{}",
		"<html><body>It works!</body></html>",
		"{" H "}",
		"{" P "}",
		"{" H ",\"rpc_port\":0}",
		"{" H ",\"rpc_port\":65536}",
		"{" H ",\"rpc_port\":-1}",
		"{" H ",\"rpc_port\":\"1\"}",
		"{" H ",\"rpc_port\":1.5}",
		"{\"ip_or_host_name\":\"\"," P "}",
		"{\"ip_or_host_name\":\"a b\"," P "}",
		"{\"ip_or_host_name\":\"a\\u0000b\"," P "}",
		"{\"ip_or_host_name\":[1]," P "}",
		"{" H "," P ",\"addresses\":[\"nonsense\"]}",
		"{" H "," P ",\"addresses\":[1]}",
		"{" H "," P ",\"incarnation\":\"abc\"}",
		"{" H "," P ",\"incarnation\":7}x",
		"{" H "," P ",\"incarnation\":"
		"\"gggggggggggggggggggggggggggggggg\"}",
	};
	struct tei_entry e;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(texts); i++) {
		if (tei_entry_decode(texts[i], strlen(texts[i]), &e) !=
		    -EBADMSG)
			fail_msg("\"%s\" is accepted", texts[i]);
	}
}

static void depth_and_length_of_an_entry_are_no_trouble(void **state)
{
	char text[TEI_ENTRY_MAX];
	struct tei_entry e;

	(void)state;
	memset(text, '[', sizeof(text));
	assert_int_equal(tei_entry_decode(text, sizeof(text), &e), -EBADMSG);
	memset(text, '"', sizeof(text));
	assert_int_equal(tei_entry_decode(text, sizeof(text), &e), -EBADMSG);
}

static void key_holds_the_cluster(void **state)
{
	char key[TEI_ENTRY_KEY_MAX], name[TEI_ENTRY_KEY_MAX + 1];

	(void)state;
	assert_int_equal(tei_entry_key(NULL, "a:1", key), 0);
	assert_string_equal(key, "mooncake/rpc_meta/a:1");
	assert_int_equal(tei_entry_key("", "a", key), 0);
	assert_string_equal(key, "mooncake/rpc_meta/a");
	assert_int_equal(tei_entry_key("c1", "a", key), 0);
	assert_string_equal(key, "mooncake/c1/rpc_meta/a");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(tei_entry_key(NULL, name, key), -ENAMETOOLONG);
}

static void port_that_refuses_proves_that_its_engine_is_gone(void **state)
{
	struct te_engine *engine = rig_engine(NULL);
	struct tei_entry e = {.n = 1};

	(void)state;
	tei_name_split(te_engine_name(engine), e.host, &e.port);
	strcpy(e.address[0], "127.0.0.1");
	assert_false(tei_entry_is_refused(&e, RIG_WAIT_MS));
	te_engine_destroy(engine);
	assert_true(tei_entry_is_refused(&e, RIG_WAIT_MS));
}

/* ---- tokens ---- */

static void write_file(const char *path, mode_t mode, size_t len)
{
	static const uint8_t bytes[TEI_DIR_SECRET_LEN + 1];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);

	assert_true(fd >= 0 && !fchmod(fd, mode));
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	close(fd);
}

/* A secret of its own place, or of any other. */
static bool is_stable(uint8_t secret[TEI_DIR_SECRET_LEN])
{
	uint8_t again[TEI_DIR_SECRET_LEN];

	assert_int_equal(tei_dir_secret(secret), 0);
	assert_int_equal(tei_dir_secret(again), 0);
	return !memcmp(secret, again, sizeof(again));
}

static void secret_is_the_same_to_those_who_come_later(void **state)
{
	static const uint8_t zeros[TEI_DIR_SECRET_LEN];
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 32];
	uint8_t secret[TEI_DIR_SECRET_LEN];
	struct stat st;

	(void)state;
	test_tmpdir_create(dir);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", dir, 1), 0);
	assert_true(is_stable(secret));
	assert_memory_not_equal(secret, zeros, sizeof(secret));
	snprintf(path, sizeof(path), "%s/te/directory-secret", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, TEI_DIR_SECRET_LEN);
	/* Nobody's file but ours, of that length and nobody else's to read. */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(unlink(path), 0);
		if (i == 2)
			assert_int_equal(symlink("/dev/zero", path), 0);
		else
			write_file(path, i ? 0644 : 0600,
				   TEI_DIR_SECRET_LEN + (i == 0));
		(void)is_stable(secret);
		assert_memory_not_equal(secret, zeros, sizeof(secret));
	}
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	test_tmpdir_remove(dir);
}

static void token_is_of_one_key_in_one_directory(void **state)
{
	char text[] = "http://a", other_text[] = "http://b";
	struct tei_directory dir = {.text = text}, other = {.text = other_text};
	char token[4][TEI_DIR_TOKEN_LEN + 1];

	(void)state;
	assert_int_equal(tei_dir_token(&dir, "k", token[0]), 0);
	assert_int_equal(strlen(token[0]), TEI_DIR_TOKEN_LEN);
	assert_int_equal(tei_dir_token(&dir, "l", token[1]), 0);
	assert_int_equal(tei_dir_token(&other, "k", token[2]), 0);
	assert_int_equal(tei_dir_token(&dir, "k", token[3]), 0);
	assert_string_equal(token[0], token[3]);
	assert_string_not_equal(token[0], token[1]);
	assert_string_not_equal(token[0], token[2]);
}

/* ---- engines ---- */

static int n_lines;

static void count_warnings(int level, const char *line, void *arg)
{
	(void)arg;
	n_lines += level <= TEI_LOG_WARN && strstr(line, "directory ");
}

static void directory_without_its_module_is_one_warning(void **state)
{
	static const char *const settings[] = {"metadata_server",
					       "http://127.0.0.1:1/metadata",
					       "module_path", "/nowhere", NULL};
	struct te_engine *a, *b;
	te_segment_id id;

	(void)state;
	unsetenv("TE_BACKEND_PATH");
	n_lines = 0;
	tei_log_set_sink(count_warnings, NULL);
	a = rig_engine(settings);
	assert_int_equal(n_lines, 1);
	b = rig_engine(NULL);
	assert_int_equal(
		te_segment_open(a, te_engine_name(b), RIG_WAIT_MS, &id), 0);
	assert_int_equal(te_segment_open(a, "bare", RIG_WAIT_MS, &id), -EINVAL);
	te_engine_destroy(a);
	te_engine_destroy(b);
	tei_log_set_sink(NULL, NULL);
}

static void opening_without_memory_leaves_nothing(void **state)
{
	struct tei_config config = {.metadata_server = NULL};
	char text[] = "redis://127.0.0.1", word[] = "word";
	struct tei_directory *dir;
	int rc;

	(void)state;
	config.metadata_server = text;
	config.redis_username = config.redis_password = word;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		rc = tei_directory_open(&config, &dir);
		assert_true(rc == 0 || rc == -ENOMEM);
		if (!rc)
			tei_directory_put(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_place_is_no_directory),
		cmocka_unit_test(places_of_each_kind_are_read),
		cmocka_unit_test(malformed_places_are_refused_in_words),
		cmocka_unit_test(malformed_place_is_an_error_at_creation),
		cmocka_unit_test(entry_is_what_was_written),
		cmocka_unit_test(
			entry_of_others_has_neither_life_nor_addresses),
		cmocka_unit_test(other_words_are_no_entry),
		cmocka_unit_test(depth_and_length_of_an_entry_are_no_trouble),
		cmocka_unit_test(key_holds_the_cluster),
		cmocka_unit_test(
			port_that_refuses_proves_that_its_engine_is_gone),
		cmocka_unit_test(secret_is_the_same_to_those_who_come_later),
		cmocka_unit_test(token_is_of_one_key_in_one_directory),
		cmocka_unit_test(opening_without_memory_leaves_nothing),
		cmocka_unit_test(directory_without_its_module_is_one_warning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
