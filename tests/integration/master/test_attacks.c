/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attacks.c - one peer that takes all it can get, and honest ones beside
 *
 * TE_TEST_ATTACKS=full: more than twice of everything.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/bytes.h"
#include "base/frame.h"
#include "store/proto/protocol.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/attack.h"
#include "tests/lib/test.h"

#define OWNER    1
#define N_HONEST 20
#define BODY_LEN ((6u << 20) - 1)
/* AddressSanitizer keeps memory that was freed for a while. */
#if defined(__SANITIZE_ADDRESS__)
#define KEPT ((uint64_t)300 << 20)
#elif defined(__SANITIZE_THREAD__)
/* The shadow of what is allocated, whether it is filled or not. */
#define KEPT ((uint64_t)160 << 20)
#else
#define KEPT 0
#endif
/* The master with its budget. */
#define BODIES_MAX (((uint64_t)160 << 20) + KEPT)

static struct master master;
static struct caller *owner;

static int start(void **state)
{
	(void)state;
	/* Whoever is slow to speak is not given up. */
	master_start(&master, (const char *const[]){"--client_ttl=600", NULL});
	owner = caller_join(&master, OWNER, false);
	assert_int_equal(caller_mount(owner, OWNER, 1 << 20), 0);
	caller_put(owner, "before");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	caller_close(owner);
	master_stop(&master);
	return 0;
}

/* What the one that was there does, and what others do who come now. */
static void honest_are_served(void)
{
	uint64_t size;

	assert_int_equal(caller_lookup(owner, "before", &size), 0);
	for (uint8_t i = 0; i < N_HONEST; i++) {
		struct caller *c =
			caller_join(&master, (uint8_t)(OWNER + 1 + i), false);
		struct caller *heart =
			caller_join(&master, (uint8_t)(OWNER + 1 + i), true);
		bool remount;

		caller_heartbeat(heart, 0, &remount);
		assert_int_equal(caller_lookup(c, "before", &size), 0);
		caller_close(heart);
		caller_close(c);
	}
	caller_put(owner, "after");
	assert_int_equal(caller_remove(owner, "after", true), 0);
}

static size_t header(uint8_t *to, uint32_t len, uint16_t type)
{
	const struct tei_frame f = {.type = type, .id = 1, .len = len};

	tei_frame_encode_header(to, &f);
	return TEI_FRAME_HEADER_LEN;
}

/* Each is a client of its own. */
static void say_hello(int fd, unsigned int i)
{
	uint8_t secret[TES_STORE_SECRET_LEN] = {0xaa};
	uint8_t frame[512];
	Store__Hello m = STORE__HELLO__INIT;
	size_t len;

	memcpy(secret + 1, &i, sizeof(i));
	m.version = TES_STORE_VERSION;
	m.client_secret.data = m.engine_secret.data = secret;
	m.client_secret.len = m.engine_secret.len = sizeof(secret);
	m.engine = (char *)(uintptr_t) "127.0.0.1:1";
	len = store__hello__pack(&m, frame + TEI_FRAME_HEADER_LEN);
	header(frame, (uint32_t)len, STORE__STORE_TYPE__STORE_HELLO);
	(void)attack_send(fd, frame, TEI_FRAME_HEADER_LEN + len);
}

static void say_half_a_batch(int fd, unsigned int i)
{
	static const uint8_t piece[64 << 10];
	uint8_t head[TEI_FRAME_HEADER_LEN];
	size_t left = BODY_LEN;

	say_hello(fd, i);
	header(head, BODY_LEN + 1, STORE__STORE_TYPE__STORE_PUT_START);
	if (!attack_send(fd, head, sizeof(head)))
		return;
	while (left) {
		size_t n = left < sizeof(piece) ? left : sizeof(piece);

		if (!attack_send(fd, piece, n))
			return;
		left -= n;
	}
}

static uint64_t refused(const char *why)
{
	char name[80];

	(void)snprintf(name, sizeof(name),
		       "te_master_refused_total{port=\"rpc\",reason=\"%s\"}",
		       why);
	return master_metric(&master, name);
}

/*
 * An attack by strangers would prove nothing: each connection has a session,
 * and so many were there that some had to go, for @why.
 */
static void attackers_are_members(const char *why)
{
	uint64_t there = master_metric(&master, "te_master_connections");
	uint64_t sessions = master_metric(&master, "master_active_clients") +
			    master_metric(&master, "te_master_suspect_clients");

	assert_int_equal(refused("malformed"), 0);
	assert_true(sessions >= there);
	assert_true(refused(why) > 0);
}

/* @why: the master's reason to close connections of those who @say so. */
static void attack(unsigned int n, attack_fn *say, const char *why)
{
	struct attack a;

	attack_start(&a, master.rpc, n, say);
	honest_are_served();
	attackers_are_members(why);
	attack_end(&a);
	honest_are_served();
}

static void hellos_without_number_shut_nobody_out(void **state)
{
	(void)state;
	attack(attack_size(4300, 9000), say_hello, "idle");
}

/* As a shell gives them; the program would take more. */
static void few_descriptors(void)
{
	const struct rlimit limit = {1024, 1024};

	assert_int_equal(prlimit(test_process_pid(master.process),
				 RLIMIT_NOFILE, &limit, NULL),
			 0);
}

static void who_sits_on_all_descriptors_shuts_nobody_out(void **state)
{
	(void)state;
	few_descriptors();
	attack(attack_size(1100, 2300), say_hello, "idle");
	assert_true(master_metric(&master, "te_master_connections") <= 512);
}

static void bodies_without_end_take_little_memory(void **state)
{
	(void)state;
	attack(attack_size(150, 320), say_half_a_batch, "unfinished");
	assert_in_range(attack_memory(test_process_pid(master.process)), 1,
			BODIES_MAX);
}

#define T(test) cmocka_unit_test_setup_teardown(test, start, stop)

/* The answer to a mount of segment @i, each at a place of its own. */
static Store__Status *lend(struct caller *c, uint16_t i)
{
	Store__Mount m = STORE__MOUNT__INIT;
	uint8_t segment[16] = "many";
	Store__Status *reply;

	memcpy(segment + 8, &i, sizeof(i));
	m.segment.data = segment;
	m.segment.len = sizeof(segment);
	m.name = (char *)(uintptr_t) "many:1";
	m.address = CALLER_BASE + i * 4096ull;
	m.size = 1024;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_MOUNT, &m,
			    &store__status__descriptor);
	assert_non_null(reply);
	return reply;
}

static void one_client_leaves_segments_to_others(void **state)
{
	struct caller *greedy = caller_join(&master, 99, false);
	struct caller *other = caller_join(&master, 98, false);
	Store__Status *reply = lend(greedy, 0);
	uint16_t n = 0;

	(void)state;
	while (!reply->status) {
		caller_free(reply);
		assert_true(++n < 4096);
		reply = lend(greedy, n);
	}
	assert_int_equal(n, 256);
	assert_int_equal(reply->status, -1010);
	assert_non_null(strstr(reply->why, "lend larger ones"));
	caller_free(reply);
	assert_int_equal(caller_mount(other, 98, 1024), 0);
	caller_close(greedy);
	caller_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(hellos_without_number_shut_nobody_out),
		T(who_sits_on_all_descriptors_shuts_nobody_out),
		T(bodies_without_end_take_little_memory),
		T(one_client_leaves_segments_to_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
