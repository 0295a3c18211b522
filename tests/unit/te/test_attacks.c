/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attacks.c - one peer that takes all of an owner, and honest ones beside
 *
 * The owner is a process of its own. TE_TEST_ATTACKS=full: more than twice of
 * everything.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/frame.h"
#include "base/net.h"
#include "te/core/control.pb-c.h"
#include "tests/lib/attack.h"
#include "tests/lib/dial.h"
#include "tests/unit/te/raw.h"
#include "tests/unit/te/rig.h"

#define LEN      4096
#define N_HONEST 10
#define MIB      ((uint64_t)1 << 20)

struct owner {
	pid_t pid;
	char name[TE_NAME_LEN_MAX + 1];
	uint64_t address; /* of its memory */
	uint16_t port;
};

static struct owner owner;

/* What the owner tells who started it. */
struct told {
	char name[TE_NAME_LEN_MAX + 1];
	uint64_t address;
};

static void be_owner(int out, rlim_t n_fds)
{
	const struct rlimit limit = {n_fds, n_fds};
	static uint8_t memory[LEN];
	struct told told = {.address = (uintptr_t)memory};
	struct te_engine *engine;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (n_fds && setrlimit(RLIMIT_NOFILE, &limit))
		_exit(1);
	engine = rig_engine(NULL);
	rig_region(engine, memory, LEN, RIG_ANY);
	(void)strncpy(told.name, te_engine_name(engine), sizeof(told.name) - 1);
	if (write(out, &told, sizeof(told)) != sizeof(told))
		_exit(1);
	for (;;)
		pause();
}

/* @n_fds: its limit of descriptors; 0: as it is. */
static void start_owner(rlim_t n_fds)
{
	char host[TEI_HOST_LEN_MAX + 1];
	struct told told;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	owner.pid = fork();
	assert_true(owner.pid >= 0);
	if (!owner.pid)
		be_owner(fds[1], n_fds);
	close(fds[1]);
	assert_int_equal(read(fds[0], &told, sizeof(told)), sizeof(told));
	close(fds[0]);
	memcpy(owner.name, told.name, sizeof(owner.name));
	owner.address = told.address;
	assert_int_equal(tei_name_split(owner.name, host, &owner.port), 0);
}

static void end_owner(void)
{
	kill(owner.pid, SIGKILL);
	assert_int_equal(waitpid(owner.pid, NULL, 0), owner.pid);
}

static te_segment_id open_segment(struct te_engine *engine)
{
	te_segment_id id;

	assert_int_equal(te_segment_open(engine, owner.name, RIG_WAIT_MS, &id),
			 0);
	return id;
}

static void write_and_read(struct te_engine *engine, te_segment_id segment)
{
	uint64_t out = 0x0123456789abcdef, in = 0;
	const void *at = (const void *)(uintptr_t)owner.address;

	assert_int_equal(
		rig_move(engine, segment, TE_WRITE, at, &out, sizeof(out)), 0);
	assert_int_equal(
		rig_move(engine, segment, TE_READ, at, &in, sizeof(in)), 0);
	assert_true(in == out);
}

static void newcomers_are_served(void)
{
	for (int i = 0; i < N_HONEST; i++) {
		struct te_engine *engine = rig_engine(NULL);

		write_and_read(engine, open_segment(engine));
		te_engine_destroy(engine);
	}
}

static size_t header(uint8_t *to, uint32_t len, uint16_t type)
{
	const struct tei_frame f = {.type = type, .id = 1, .len = len};

	tei_frame_encode_header(to, &f);
	return TEI_FRAME_HEADER_LEN;
}

/* Each is an engine of its own. */
static void say_hello(int fd, unsigned int i)
{
	uint8_t incarnation[TE_INCARNATION_LEN] = {0xaa}, nonce[32] = {1};
	uint8_t frame[512];
	Te__Hello m = TE__HELLO__INIT;
	size_t len;

	memcpy(incarnation + 1, &i, sizeof(i));
	m.version = 1;
	m.name = (char *)(uintptr_t) "127.0.0.1:1";
	m.incarnation = (ProtobufCBinaryData){sizeof(incarnation), incarnation};
	m.nonce = (ProtobufCBinaryData){sizeof(nonce), nonce};
	len = te__hello__pack(&m, frame + TEI_FRAME_HEADER_LEN);
	header(frame, (uint32_t)len, TE__CONTROL_TYPE__CONTROL_HELLO);
	(void)attack_send(fd, frame, TEI_FRAME_HEADER_LEN + len);
}

/* An attack by strangers would prove nothing. */
static void attackers_are_peers(void)
{
	uint8_t body[512];
	size_t len = sizeof(body);
	int fd = test_dial(owner.port);
	Te__Hello *m;

	say_hello(fd, UINT32_MAX);
	assert_int_equal(raw_receive(fd, body, &len),
			 TE__CONTROL_TYPE__CONTROL_HELLO);
	m = te__hello__unpack(NULL, len, body);
	assert_non_null(m);
	assert_int_equal(m->status, 0);
	te__hello__free_unpacked(m, NULL);
	close(fd);
}

static void attack(rlim_t n_fds, unsigned int n, attack_fn *say)
{
	struct te_engine *engine;
	te_segment_id segment;
	struct attack a;

	start_owner(n_fds);
	engine = rig_engine(NULL);
	segment = open_segment(engine);
	write_and_read(engine, segment);
	attackers_are_peers();
	attack_start(&a, owner.port, n, say);
	write_and_read(engine, segment);
	newcomers_are_served();
	attack_end(&a);
	write_and_read(engine, segment);
	te_engine_destroy(engine);
}

static void say_part(int fd, uint16_t type, uint32_t len)
{
	static const uint8_t piece[64 << 10];
	uint8_t head[TEI_FRAME_HEADER_LEN];
	uint32_t left = len - 1;

	header(head, len, type);
	if (!attack_send(fd, head, sizeof(head)))
		return;
	while (left) {
		uint32_t n = left < sizeof(piece) ? left : sizeof(piece);

		if (!attack_send(fd, piece, n))
			return;
		left -= n;
	}
}

static void say_a_long_question(int fd, unsigned int i)
{
	say_hello(fd, i);
	say_part(fd, TE__CONTROL_TYPE__CONTROL_DESCRIBE, 16u << 20);
}

static void say_half_a_notification(int fd, unsigned int i)
{
	say_hello(fd, i);
	say_part(fd, TE__CONTROL_TYPE__CONTROL_NOTIFY, 72u << 10);
}

static void who_sits_on_all_descriptors_shuts_nobody_out(void **state)
{
	(void)state;
	attack(1024, attack_size(1100, 2300), say_hello);
	end_owner();
}

static void who_sits_on_all_connections_shuts_nobody_out(void **state)
{
	(void)state;
	attack(0, attack_size(4200, 8600), say_hello);
	end_owner();
}

/* AddressSanitizer keeps memory that was freed for a while. */
#if defined(__SANITIZE_ADDRESS__)
#define KEPT (300 * MIB)
#else
#define KEPT 0
#endif

static void bodies_without_end_take_little_memory(void **state)
{
	uint64_t before;

	(void)state;
	attack(0, 1, say_hello);
	before = attack_memory(owner.pid);
	end_owner();
	attack(0, attack_size(60, 130), say_a_long_question);
	assert_in_range(attack_memory(owner.pid), 1, before + 32 * MIB + KEPT);
	end_owner();
	attack(0, attack_size(1100, 2300), say_half_a_notification);
	assert_in_range(attack_memory(owner.pid), 1, before + 64 * MIB + KEPT);
	end_owner();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_sits_on_all_descriptors_shuts_nobody_out),
		cmocka_unit_test(who_sits_on_all_connections_shuts_nobody_out),
		cmocka_unit_test(bodies_without_end_take_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
