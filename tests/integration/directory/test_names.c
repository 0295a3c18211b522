/* SPDX-License-Identifier: Apache-2.0 */
/* test_names.c - engines that find each other through a directory, by kind */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "te/core/engine.h"
#include "te/directory/directory.h"
#include "te/worker/worker.h"
#include "tests/integration/directory/service.h"
#include "tests/lib/process.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define LONG  "600s" /* nothing of it ends in a test */
#define BRIEF "500ms"
#define CALL  "30s" /* of a crowded machine */

static struct service service;
static atomic_int warnings, taken;

static void count_line(int level, const char *line, void *arg)
{
	(void)arg;
	if (level <= TEI_LOG_WARN && strstr(line, "directory "))
		atomic_fetch_add(&warnings, 1);
	if (strstr(line, "the name of another engine"))
		atomic_fetch_add(&taken, 1);
	if (level <= TEI_LOG_INFO)
		fprintf(stderr, "%s\n", line);
}

static struct te_engine *engine_named(const char *name, const char *ttl)
{
	struct te_config *config;
	struct te_engine *engine;

	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(
		te_config_set(config, "metadata_server", service.url, NULL, 0),
		0);
	assert_int_equal(te_config_set(config, "metadata_ttl", ttl, NULL, 0),
			 0);
	assert_int_equal(
		te_config_set(config, "metadata_timeout", CALL, NULL, 0), 0);
	assert_int_equal(te_engine_create(config, name, &engine), 0);
	te_config_destroy(config);
	return engine;
}

static struct test_process *owner_named(const char *name, const char *ttl,
					char life[TEI_ENTRY_LIFE_LEN + 1])
{
	const char *const args[] = {
		name, "metadata_server",  service.url, "metadata_ttl",
		ttl,  "metadata_timeout", CALL,        NULL};
	struct test_process *p;
	const char *line;
	char path[TEST_PATH_MAX];

	snprintf(path, sizeof(path), "%s/directory_owner", OWNER_DIR);
	p = test_process_start(path, args);
	line = test_process_line(p, "owner ", RIG_WAIT_MS);
	assert_non_null(line);
	assert_int_equal(sscanf(line, "owner %32[0-9a-f]", life), 1);
	return p;
}

/* What the directory says at this moment; its length or an error. */
static int look(struct te_engine *engine, const char *name,
		char value[TEI_ENTRY_MAX])
{
	char key[TEI_ENTRY_KEY_MAX];
	struct tei_dir_link link;
	int rc;

	assert_int_equal(tei_entry_key(NULL, name, key), 0);
	tei_dir_link_init(&link, engine->directory);
	tei_dir_link_begin(&link);
	rc = engine->directory->ops->get(&link, key, value);
	tei_dir_link_close(&link);
	return rc;
}

struct expected {
	struct te_engine *engine;
	const char *name;
	const char *life; /* NULL: none */
};

static bool is_there(void *arg)
{
	const struct expected *e = arg;
	char value[TEI_ENTRY_MAX];
	struct tei_entry entry;
	int rc = look(e->engine, e->name, value);

	if (!e->life)
		return rc == -ENOENT;
	return rc > 0 && !tei_entry_decode(value, (size_t)rc, &entry) &&
	       !strcmp(entry.life, e->life);
}

static void expect_entry(struct te_engine *engine, const char *name,
			 const char *life)
{
	struct expected e = {engine, name, life};

	if (!test_wait_until(is_there, &e, RIG_WAIT_MS))
		fail_msg("%s is not %s", name, life ? life : "away");
}

static void life_of(const struct te_engine *engine,
		    char out[TEI_ENTRY_LIFE_LEN + 1])
{
	uint8_t incarnation[TE_INCARNATION_LEN];

	te_engine_incarnation(engine, incarnation);
	tei_entry_life(incarnation, out);
}

/* Open @name and say whose life it is. */
static void open_life(struct te_engine *engine, const char *name,
		      char out[TEI_ENTRY_LIFE_LEN + 1])
{
	uint8_t incarnation[TE_INCARNATION_LEN];
	te_segment_id id;

	assert_int_equal(te_segment_open(engine, name, RIG_WAIT_MS, &id), 0);
	assert_int_equal(te_segment_incarnation(engine, id, incarnation), 0);
	tei_entry_life(incarnation, out);
	te_segment_close(engine, id);
}

static void expect_life(struct te_engine *engine, const char *name,
			const char *life)
{
	char found[TEI_ENTRY_LIFE_LEN + 1];

	open_life(engine, name, found);
	assert_string_equal(found, life);
}

static void two_engines_find_each_other_by_bare_name(void **state)
{
	struct te_engine *a = engine_named("prefill-0", LONG);
	struct te_engine *b = engine_named("decode-0", LONG);
	uint8_t memory[4096] = {0}, local[4096];
	char life[TEI_ENTRY_LIFE_LEN + 1];
	te_segment_id segment;

	(void)state;
	assert_string_equal(te_engine_name(a), "prefill-0");
	rig_region(b, memory, sizeof(memory), RIG_ANY);
	rig_fill(local, sizeof(local));
	assert_int_equal(te_segment_open(a, "decode-0", RIG_WAIT_MS, &segment),
			 0);
	assert_int_equal(
		rig_move(a, segment, TE_WRITE, memory, local, sizeof(local)),
		0);
	assert_memory_equal(memory, local, sizeof(local));
	life_of(a, life);
	expect_life(b, "prefill-0", life);
	expect_life(a, "prefill-0", life); /* itself */
	te_engine_destroy(a);
	expect_entry(b, "prefill-0", NULL);
	assert_int_equal(te_peer_probe(b, "prefill-9", RIG_WAIT_MS, NULL),
			 -ECONNREFUSED);
	te_engine_destroy(b);
}

static void name_with_a_port_is_published_and_needs_no_directory(void **state)
{
	struct te_engine *a = engine_named("127.0.0.1", LONG);
	struct te_engine *b = rig_engine(NULL);
	char life[TEI_ENTRY_LIFE_LEN + 1], name[64];

	(void)state;
	life_of(a, life);
	snprintf(name, sizeof(name), "%s", te_engine_name(a));
	assert_non_null(strchr(name, ':'));
	expect_entry(a, name, life);
	expect_life(b, name, life);
	te_engine_destroy(a);
	te_engine_destroy(b);
}

static void successor_of_a_killed_owner_has_its_name_at_once(void **state)
{
	char first[TEI_ENTRY_LIFE_LEN + 1], second[TEI_ENTRY_LIFE_LEN + 1];
	struct te_engine *engine = engine_named("reader", LONG);
	struct test_process *owner = owner_named("kv-7", LONG, first);

	(void)state;
	expect_life(engine, "kv-7", first);
	test_process_signal(owner, SIGKILL);
	test_process_end(owner);
	owner = owner_named("kv-7", BRIEF, second);
	expect_entry(engine, "kv-7", second);
	expect_life(engine, "kv-7", second);
	test_process_signal(owner, SIGTERM);
	assert_int_equal(test_process_wait(owner, RIG_WAIT_MS), 0);
	expect_entry(engine, "kv-7", NULL);
	test_process_end(owner);
	te_engine_destroy(engine);
}

static void entry_of_a_killed_owner_vanishes(void **state)
{
	struct te_engine *engine = engine_named("reader", LONG);
	char life[TEI_ENTRY_LIFE_LEN + 1];
	struct test_process *owner = owner_named("kv-8", BRIEF, life);

	(void)state;
	expect_entry(engine, "kv-8", life);
	test_process_signal(owner, SIGKILL);
	test_process_end(owner);
	expect_entry(engine, "kv-8", NULL);
	te_engine_destroy(engine);
}

static bool is_taken(void *arg)
{
	(void)arg;
	return atomic_load(&taken) > 0;
}

static void living_engine_keeps_its_name(void **state)
{
	/* Its entry cannot run out while this machine stands still. */
	struct te_engine *first = engine_named("twin", LONG), *second;
	char life[TEI_ENTRY_LIFE_LEN + 1], other[TEI_ENTRY_LIFE_LEN + 1];
	struct te_engine *reader = engine_named("reader", LONG);

	(void)state;
	life_of(first, life);
	expect_entry(reader, "twin", life);
	atomic_store(&taken, 0);
	second = engine_named("twin", BRIEF);
	assert_true(test_wait_until(is_taken, NULL, RIG_WAIT_MS));
	expect_life(reader, "twin", life);
	life_of(second, other);
	te_engine_destroy(first);
	/* It asks again and again, and says so once. */
	expect_entry(reader, "twin", other);
	assert_int_equal(taken, 1);
	expect_life(reader, "twin", other);
	te_engine_destroy(second);
	te_engine_destroy(reader);
}

static bool are_warned(void *arg)
{
	(void)arg;
	return atomic_load(&warnings) > 0;
}

static void directory_that_dies_and_forgets_is_told_again(void **state)
{
	struct te_engine *a = engine_named("left", BRIEF);
	struct te_engine *b = engine_named("127.0.0.1", LONG);
	struct te_engine *c;
	char life[TEI_ENTRY_LIFE_LEN + 1];
	uint8_t memory[64] = {0}, local[64] = {1};
	te_segment_id segment;

	(void)state;
	rig_region(a, memory, sizeof(memory), RIG_ANY);
	life_of(a, life);
	expect_life(b, "left", life);
	assert_int_equal(te_segment_open(b, "left", RIG_WAIT_MS, &segment), 0);
	atomic_store(&warnings, 0);
	service_kill(&service);
	assert_true(test_wait_until(are_warned, NULL, RIG_WAIT_MS));
	assert_int_equal(
		rig_move(b, segment, TE_WRITE, memory, local, sizeof(local)),
		0);
	service_restart(&service);
	expect_entry(b, "left", life);
	/* Once an engine: b may have been about to be published, too. */
	assert_in_range(warnings, 1, 2);
	c = engine_named("127.0.0.1", LONG);
	expect_life(c, "left", life);
	te_engine_destroy(a);
	te_engine_destroy(b);
	te_engine_destroy(c);
}

/* Write an entry of that name by hand: where @engine is, of life @life. */
static int write_entry(struct te_engine *reader, const char *name,
		       const struct te_engine *engine, const char *life,
		       const char *old)
{
	struct tei_entry entry = {0};
	char key[TEI_ENTRY_KEY_MAX], value[TEI_ENTRY_MAX];
	struct tei_dir_link link;
	int rc;

	assert_int_equal(
		tei_name_split(te_engine_name(engine), entry.host, &entry.port),
		0);
	snprintf(entry.life, sizeof(entry.life), "%s", life);
	assert_true(tei_entry_encode(&entry, value) > 0);
	assert_int_equal(tei_entry_key(NULL, name, key), 0);
	tei_dir_link_init(&link, reader->directory);
	tei_dir_link_begin(&link);
	rc = reader->directory->ops->put(&link, key, value, old);
	tei_dir_link_close(&link);
	return rc;
}

/* What a look-up finds is a hint: the engine there has another name. */
static void entry_that_leads_elsewhere_opens_nobody(void **state)
{
	static const char life[] = "00112233445566778899aabbccddeeff";
	struct te_engine *reader = engine_named("127.0.0.1", LONG);
	struct te_engine *other = rig_engine(NULL), *ghost;
	char of_ghost[TEI_ENTRY_LIFE_LEN + 1], old[TEI_ENTRY_MAX];
	te_segment_id id;

	(void)state;
	assert_int_equal(write_entry(reader, "ghost", other, life, NULL), 0);
	assert_int_equal(te_segment_open(reader, "ghost", 300, &id),
			 -ETIMEDOUT);
	assert_true(look(reader, "ghost", old) > 0);
	te_engine_destroy(other); /* now it refuses */
	ghost = engine_named("ghost", BRIEF);
	life_of(ghost, of_ghost);
	expect_entry(reader, "ghost", of_ghost);
	expect_life(reader, "ghost", of_ghost);
	te_engine_destroy(ghost);
	te_engine_destroy(reader);
}

struct twins {
	struct te_engine *reader, *engine;
	const char *life; /* of the other one */
};

/* An entry that lives briefly may have run out between look and write. */
static bool is_replaced(void *arg)
{
	const struct twins *t = arg;
	const char *name = te_engine_name(t->engine);
	char old[TEI_ENTRY_MAX];

	return look(t->reader, name, old) > 0 &&
	       !write_entry(t->reader, name, t->engine, t->life, old);
}

/* It would be wrong to win each time: the other one does the same. */
static void name_that_another_host_has_too_is_not_fought_over(void **state)
{
	static const char life[] = "00112233445566778899aabbccddeeff";
	struct te_engine *reader = engine_named("127.0.0.1", LONG);
	struct te_engine *a = engine_named("127.0.0.1", BRIEF);
	struct twins twins = {reader, a, life};
	char own[TEI_ENTRY_LIFE_LEN + 1];

	(void)state;
	life_of(a, own);
	expect_entry(reader, te_engine_name(a), own);
	atomic_store(&taken, 0);
	assert_true(test_wait_until(is_replaced, &twins, RIG_WAIT_MS));
	assert_true(test_wait_until(is_taken, NULL, RIG_WAIT_MS));
	expect_entry(reader, te_engine_name(a), life);
	te_engine_destroy(a);
	te_engine_destroy(reader);
}

/* ---- a port whose address comes late ---- */

struct renewal {
	struct tei_call call;
	struct te_engine *engine;
	const char *address;
};

static void renew(struct tei_call *call)
{
	struct renewal *r = TEI_CONTAINER(call, struct renewal, call);
	struct tei_device device = {.numa_node = -1};

	assert_int_equal(tei_resolve_numeric(r->address, 0, &device.address),
			 0);
	tei_rail_renewed(&r->engine->worker->rails[0]->rail, &device);
}

static bool has_address(void *arg)
{
	const struct renewal *r = arg;
	char value[TEI_ENTRY_MAX];
	struct tei_entry entry;
	bool has = false;
	int rc = look(r->engine, te_engine_name(r->engine), value);

	if (rc <= 0 || tei_entry_decode(value, (size_t)rc, &entry))
		return false;
	for (uint32_t i = 0; i < entry.n; i++)
		has |= !strcmp(entry.address[i], r->address);
	return has;
}

static void address_that_comes_late_is_published(void **state)
{
	static const char *const addresses[] = {"10.98.7.6", "10.98.7.5"};
	struct te_engine *reader = engine_named("reader", LONG);
	struct te_engine *engine = engine_named("plugged", LONG);
	char life[TEI_ENTRY_LIFE_LEN + 1];

	(void)state;
	life_of(engine, life);
	expect_entry(reader, "plugged", life);
	for (size_t i = 0; i < TEST_COUNT(addresses); i++) {
		struct renewal r = {.call.fn = renew,
				    .engine = engine,
				    .address = addresses[i]};

		tei_worker_post(engine->worker, &r.call);
		assert_true(test_wait_until(has_address, &r, RIG_WAIT_MS));
	}
	expect_entry(reader, "plugged", life);
	te_engine_destroy(engine);
	expect_entry(reader, "plugged", NULL);
	te_engine_destroy(reader);
}

/* The first of its hosts is not there. */
static void etcd_is_found_at_its_second_host(void **state)
{
	char url[sizeof(service.url)], life[TEI_ENTRY_LIFE_LEN + 1];
	struct te_engine *a, *b;

	(void)state;
	if (strcmp(service.kind, "etcd") != 0)
		skip();
	memcpy(url, service.url, sizeof(url));
	snprintf(service.url, sizeof(service.url),
		 "etcd://127.0.0.1:1;127.0.0.1:%u", service.port);
	a = engine_named("second", LONG);
	b = engine_named("reader", LONG);
	memcpy(service.url, url, sizeof(url));
	life_of(a, life);
	expect_life(b, "second", life);
	te_engine_destroy(a);
	te_engine_destroy(b);
}

static int end_service(void **state)
{
	(void)state;
	service_end(&service);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_engines_find_each_other_by_bare_name),
		cmocka_unit_test(
			name_with_a_port_is_published_and_needs_no_directory),
		cmocka_unit_test(
			successor_of_a_killed_owner_has_its_name_at_once),
		cmocka_unit_test(entry_of_a_killed_owner_vanishes),
		cmocka_unit_test(living_engine_keeps_its_name),
		cmocka_unit_test(entry_that_leads_elsewhere_opens_nobody),
		cmocka_unit_test(
			name_that_another_host_has_too_is_not_fought_over),
		cmocka_unit_test(address_that_comes_late_is_published),
		cmocka_unit_test(etcd_is_found_at_its_second_host),
		cmocka_unit_test(directory_that_dies_and_forgets_is_told_again),
	};

	if (argc != 2)
		return 2;
	if (!service_start(&service, argv[1])) {
		printf("%s is not installed (tools/packages.txt)\n", argv[1]);
		return 77;
	}
	tei_log_set_sink(count_line, NULL);
	return cmocka_run_group_tests_name(argv[1], tests, NULL, end_service);
}
