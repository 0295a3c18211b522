/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trouble.c - wrong handles, peers that stop and restart, calls meanwhile
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/transfer_engine_c.h"
#include "tests/integration/compat/question.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define WAIT_MS 120000
#define BYTES   65536

struct peer {
	struct test_process *process;
	char name[280];
	uint64_t memory;
};

static struct peer start_peer(const char *name, const char *more)
{
	const char *const args[] = {name, "65536", more, NULL};
	struct peer peer = {.process = test_process_start(PEER, args)};
	const char *line = test_process_line(peer.process, "serving", WAIT_MS);
	unsigned long long memory;

	assert_non_null(line);
	assert_int_equal(sscanf(strstr(line, "serving"), "serving %279s %llu",
				peer.name, &memory),
			 2);
	peer.memory = memory;
	return peer;
}

static transfer_engine_t engine(void)
{
	transfer_engine_t e =
		createTransferEngine(NULL, "127.0.0.1", NULL, 0, 0);

	assert_non_null(e);
	return e;
}

static struct transfer_request get(segment_id_t segment, uint64_t from,
				   void *to)
{
	return (struct transfer_request){
		.opcode = OPCODE_READ,
		.source = to,
		.target_id = segment,
		.target_offset = from,
		.length = BYTES,
	};
}

/* The status with which one read ends. */
static int read_once(transfer_engine_t e, struct transfer_request r)
{
	struct question q = {.engine = e, .batch = allocateBatchID(e, 1)};

	assert_int_equal(submitTransfer(e, q.batch, &r, 1), 0);
	assert_true(test_wait_until(has_ended, &q, 2 * WAIT_MS));
	assert_int_equal(freeBatchID(e, q.batch), 0);
	return q.status.status;
}

static void nothing_knows(transfer_engine_t e)
{
	notify_msg_t msg = {(char *)"a", (char *)"b"};
	struct transfer_status status;
	struct transfer_request r = {0};
	char text[32];
	size_t count = 1;
	int n = 1;

	assert_true(discoverTopology(e) < 0);
	assert_true(getLocalIpAndPort(e, text, sizeof(text)) < 0);
	assert_null(installTransport(e, "tcp", NULL));
	assert_true(uninstallTransport(e, "tcp") < 0);
	enableGracefulShutdown(e);
	assert_int_equal(openSegment(e, "127.0.0.1:1"), -1);
	assert_int_equal(openSegmentNoCache(e, "127.0.0.1:1"), -1);
	assert_true(closeSegment(e, 0) < 0);
	assert_true(warmupEfaSegment(e, "127.0.0.1:1") < 0);
	assert_true(removeLocalSegment(e, "127.0.0.1:1") < 0);
	assert_true(syncSegmentCache(e) < 0);
	assert_true(registerLocalMemory(e, text, 32, "*", 1) < 0);
	assert_true(unregisterLocalMemory(e, text) < 0);
	assert_true(registerLocalMemoryBatch(e, NULL, 0, "*") < 0);
	assert_true(unregisterLocalMemoryBatch(e, NULL, 0) < 0);
	assert_true(allocateBatchID(e, 1) == INVALID_BATCH);
	assert_true(submitTransfer(e, 1, &r, 1) > 0);
	assert_true(submitTransferWithNotify(e, 1, &r, 1, msg) > 0);
	assert_true(getTransferStatus(e, 1, 0, &status) < 0);
	assert_true(freeBatchID(e, 1) > 0);
	assert_null(getNotifsFromEngine(e, &n));
	assert_int_equal(n, 0);
	assert_true(genNotifyInEngine(e, 0, msg) < 0);
	assert_true(getNicLoadStats(e, NULL, &count) < 0);
	assert_true(showLinks(e, text, sizeof(text), 0) < 0);
	destroyTransferEngine(e);
}

static void engines_that_are_none_are_refused(void **state)
{
	transfer_engine_t e = engine();
	int here;

	(void)state;
	destroyTransferEngine(e);
	nothing_knows(e);
	nothing_knows(NULL);
	nothing_knows(&here);
	nothing_knows((transfer_engine_t)UINTPTR_MAX);
	assert_null(createTransferEngine("pigeon://x", "127.0.0.1", "", 0, 1));
	assert_null(createTransferEngine("P2PHANDSHAKE", "a b:c", "", 0, 1));
}

static void batches_that_are_none_are_refused(void **state)
{
	transfer_engine_t e = engine(), other = engine();
	struct transfer_status status;
	batch_id_t freed = allocateBatchID(e, 1), later;
	struct transfer_request r = {0};
	const batch_id_t wrong[] = {0, INVALID_BATCH, 17, freed,
				    allocateBatchID(other, 1)};

	(void)state;
	assert_int_equal(freeBatchID(e, freed), 0);
	later = allocateBatchID(e, 1); /* may be in its place */
	assert_true(later != freed);
	for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
		assert_int_equal(submitTransfer(e, wrong[i], &r, 1), 1);
		assert_int_equal(getTransferStatus(e, wrong[i], 0, &status),
				 -1);
		assert_int_equal(freeBatchID(e, wrong[i]), 1);
	}
	assert_int_equal(getTransferStatus(e, later, 0, NULL), -1);
	destroyTransferEngine(other);
	destroyTransferEngine(e); /* with a batch that nobody gave back */
}

static void who_stands_still_keeps_the_batch_busy(void **state)
{
	struct peer peer;
	transfer_engine_t e;
	struct question q;
	struct transfer_request r;
	char *mine = malloc(BYTES);

	(void)state;
	(void)setenv("MC_FORCE_TCP", "1", 1);
	peer = start_peer("127.0.0.1", NULL);
	e = engine();
	(void)unsetenv("MC_FORCE_TCP");
	r = get(openSegment(e, peer.name), peer.memory, mine);
	assert_int_equal(read_once(e, r), STATUS_COMPLETED);
	test_process_signal(peer.process, SIGSTOP);
	q = (struct question){.engine = e, .batch = allocateBatchID(e, 1)};
	assert_int_equal(submitTransfer(e, q.batch, &r, 1), 0);
	assert_false(has_ended(&q));
	assert_int_equal(freeBatchID(e, q.batch), 4);
	test_process_signal(peer.process, SIGCONT);
	assert_true(test_wait_until(has_ended, &q, WAIT_MS));
	assert_int_equal(q.status.status, STATUS_COMPLETED);
	assert_int_equal(freeBatchID(e, q.batch), 0);
	/* Engines end while a transfer waits for nobody. */
	test_process_signal(peer.process, SIGSTOP);
	q.batch = allocateBatchID(e, 1);
	assert_int_equal(submitTransfer(e, q.batch, &r, 1), 0);
	destroyTransferEngine(e);
	test_process_end(peer.process);
	free(mine);
}

/* Its next life, on the port of the one that ends here. */
static struct peer restart(const struct peer *peer)
{
	struct peer again;

	test_process_signal(peer->process, SIGKILL);
	assert_int_equal(test_process_wait(peer->process, WAIT_MS), -SIGKILL);
	test_process_end(peer->process);
	(void)setenv("MC_LEGACY_RPC_PORT_BINDING", "1", 1);
	again = start_peer(peer->name, NULL);
	(void)unsetenv("MC_LEGACY_RPC_PORT_BINDING");
	assert_string_equal(again.name, peer->name);
	return again;
}

/* What the next notification says, and the last byte when it came. */
static void is_told(const struct peer *peer, const char *what)
{
	const char *line = test_process_line(peer->process, "told", WAIT_MS);

	assert_non_null(line);
	assert_non_null(strstr(line, what));
}

/* And is told once what it was to be told, when it has the bytes. */
static void
who_restarts_in_the_middle_is_none_of_the_callers_business(void **state)
{
	notify_msg_t msg[] = {{(char *)"first", NULL}, {(char *)"next", NULL}};
	static char mine[2 * BYTES];
	struct transfer_request r[2];
	struct peer peer, again;
	transfer_engine_t e;
	struct question q;

	(void)state;
	(void)setenv("MC_FORCE_TCP", "1", 1);
	peer = start_peer("127.0.0.1", NULL);
	e = engine();
	r[0] = get(openSegment(e, peer.name), peer.memory, mine);
	r[1] = get(r[0].target_id, peer.memory + BYTES / 2, mine + BYTES);
	assert_int_equal(read_once(e, r[0]), STATUS_COMPLETED);
	memset(mine, 57, sizeof(mine));
	r[0].length = r[1].length = BYTES / 2;
	r[1].opcode = OPCODE_WRITE;
	test_process_signal(peer.process, SIGSTOP);
	q = (struct question){.engine = e, .batch = allocateBatchID(e, 3)};
	assert_int_equal(submitTransferWithNotify(e, q.batch, r, 2, msg[0]), 0);
	assert_int_equal(submitTransferWithNotify(e, q.batch, r, 1, msg[1]), 0);
	assert_false(has_ended(&q));
	again = restart(&peer);
	(void)unsetenv("MC_FORCE_TCP");
	if (again.memory != peer.memory)
		skip();
	assert_int_equal(freeBatchID(e, q.batch), 4);
	for (q.task = 0; q.task < 3; q.task++) {
		assert_true(test_wait_until(has_ended, &q, WAIT_MS));
		assert_int_equal(q.status.status, STATUS_COMPLETED);
		assert_int_equal(q.status.transferred_bytes, BYTES / 2);
	}
	assert_int_equal(mine[0], 0x5a);
	assert_int_equal(mine[BYTES / 2 - 1], 0x5a);
	assert_int_equal(freeBatchID(e, q.batch), 0);
	msg[1].name = (char *)"last";
	assert_int_equal(genNotifyInEngine(e, (uint64_t)r[0].target_id, msg[1]),
			 0);
	is_told(&again, "told first 57");
	is_told(&again, "told next 57");
	is_told(&again, "told last 57"); /* with nothing between them */
	destroyTransferEngine(e);
	test_process_end(again.process);
}

static void who_stays_away_holds_up_nobody_else(void **state)
{
	char *mine = calloc(2, BYTES);
	struct transfer_request r[2];
	struct peer gone, peer, again;
	transfer_engine_t e;
	struct question q;

	(void)state;
	(void)setenv("MC_FORCE_TCP", "1", 1);
	gone = start_peer("127.0.0.1", NULL);
	peer = start_peer("127.0.0.1", NULL);
	e = engine();
	r[0] = get(openSegment(e, gone.name), gone.memory, mine);
	r[1] = get(openSegment(e, peer.name), peer.memory, mine + BYTES);
	assert_int_equal(read_once(e, r[0]), STATUS_COMPLETED);
	assert_int_equal(read_once(e, r[1]), STATUS_COMPLETED);
	test_process_signal(gone.process, SIGSTOP);
	test_process_signal(peer.process, SIGSTOP);
	q = (struct question){
		.engine = e, .batch = allocateBatchID(e, 2), .task = 1};
	assert_int_equal(submitTransfer(e, q.batch, r, 2), 0);
	assert_false(has_ended(&q));
	test_process_signal(gone.process, SIGKILL);
	again = restart(&peer);
	(void)unsetenv("MC_FORCE_TCP");
	if (again.memory != peer.memory)
		skip();
	assert_true(test_wait_until(has_ended, &q, WAIT_MS));
	assert_int_equal(q.status.status, STATUS_COMPLETED);
	destroyTransferEngine(e);
	test_process_end(gone.process);
	test_process_end(again.process);
	free(mine);
}

static transfer_engine_t engine_that_waits(const char *seconds)
{
	transfer_engine_t e;

	(void)setenv("MC_TRANSFER_TIMEOUT", seconds, 1);
	e = engine();
	(void)unsetenv("MC_TRANSFER_TIMEOUT");
	return e;
}

/* A read of @peer, which stands still. */
static struct question ask_for(transfer_engine_t e, const struct peer *peer,
			       segment_id_t segment, void *to)
{
	struct question q = {.engine = e, .batch = allocateBatchID(e, 1)};
	struct transfer_request r = get(segment, peer->memory, to);

	assert_int_equal(submitTransfer(e, q.batch, &r, 1), 0);
	return q;
}

/* Its new life is there, and stands still. */
static void who_went_again_is_given_up_on_when_the_caller_says(void **state)
{
	static char mine[2 * BYTES];
	transfer_engine_t patient, hasty;
	struct question later, soon;
	struct peer peer, again;
	segment_id_t segments[2];

	(void)state;
	(void)setenv("MC_FORCE_TCP", "1", 1);
	peer = start_peer("127.0.0.1", NULL);
	patient = engine_that_waits("3600");
	hasty = engine_that_waits("5");
	segments[0] = openSegment(patient, peer.name);
	segments[1] = openSegment(hasty, peer.name);
	test_process_signal(peer.process, SIGSTOP);
	later = ask_for(patient, &peer, segments[0], mine);
	soon = ask_for(hasty, &peer, segments[1], mine + BYTES);
	again = restart(&peer);
	(void)unsetenv("MC_FORCE_TCP");
	assert_int_equal(openSegment(patient, peer.name), segments[0]);
	assert_int_equal(openSegment(hasty, peer.name), segments[1]);
	test_process_signal(again.process, SIGSTOP);
	assert_true(test_wait_until(has_ended, &soon, WAIT_MS));
	assert_int_equal(soon.status.status, STATUS_FAILED);
	assert_false(has_ended(&later));
	destroyTransferEngine(hasty);
	destroyTransferEngine(patient);
	test_process_end(again.process);
}

static void who_restarts_on_its_port_is_found_again(void **state)
{
	transfer_engine_t e = engine();
	char *mine = calloc(1, BYTES);
	segment_id_t segment;
	struct peer peer, again;

	(void)state;
	peer = start_peer("127.0.0.1", NULL);
	segment = openSegment(e, peer.name);
	assert_int_equal(read_once(e, get(segment, peer.memory, mine)),
			 STATUS_COMPLETED);
	assert_int_equal(mine[BYTES - 1], 0x5a);
	again = restart(&peer);
	/* Though the engine may not know yet that the first life is over. */
	memset(mine, 0, BYTES);
	assert_int_equal(read_once(e, get(segment, again.memory, mine)),
			 STATUS_COMPLETED);
	assert_int_equal(mine[BYTES - 1], 0x5a);
	assert_int_equal(openSegment(e, peer.name), segment);
	destroyTransferEngine(e);
	test_process_end(again.process);
	free(mine);
}

#define THREADS 16

struct crowd {
	transfer_engine_t engine;
	segment_id_t segment;
	uint64_t memory;
	char *memory_of_all;
	atomic_int n, completed;
	atomic_bool over;
};

/* Until the engine is gone. */
static void *read_on(void *arg)
{
	struct crowd *c = arg;
	int place = atomic_fetch_add(&c->n, 1);
	struct transfer_request r =
		get(c->segment, c->memory, c->memory_of_all + place * BYTES);
	struct transfer_status status = {0};

	for (;;) {
		batch_id_t batch = allocateBatchID(c->engine, 1);

		if (batch == INVALID_BATCH ||
		    submitTransfer(c->engine, batch, &r, 1))
			break;
		do {
			if (getTransferStatus(c->engine, batch, 0, &status))
				break;
		} while (status.status == STATUS_WAITING);
		if (status.status == STATUS_COMPLETED)
			atomic_fetch_add(&c->completed, 1);
		if (freeBatchID(c->engine, batch))
			break;
	}
	/* It was the end of the engine, and nothing else. */
	if (!atomic_load(&c->over))
		atomic_store(&c->completed, -1000000);
	return NULL;
}

static bool is_busy(void *arg)
{
	struct crowd *c = arg;

	return atomic_load(&c->completed) > 20 * THREADS ||
	       atomic_load(&c->completed) < 0;
}

static void engines_go_while_many_use_them(void **state)
{
	struct peer peer = start_peer("127.0.0.1", NULL);
	struct crowd c = {.engine = engine(),
			  .memory = peer.memory,
			  .memory_of_all = malloc(THREADS * BYTES)};
	pthread_t threads[THREADS];

	(void)state;
	c.segment = openSegment(c.engine, peer.name);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_on, &c),
				 0);
	assert_true(test_wait_until(is_busy, &c, WAIT_MS));
	atomic_store(&c.over, true);
	destroyTransferEngine(c.engine);
	free(c.memory_of_all); /* nobody touches it any more */
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_true(atomic_load(&c.completed) > 0);
	nothing_knows(c.engine);
	test_process_end(peer.process);
}

static void the_signal_ends_the_process_after_the_engines(void **state)
{
	static const int signals[] = {SIGTERM, SIGINT};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(signals); i++) {
		struct peer peer = start_peer("127.0.0.1", "graceful");

		test_process_signal(peer.process, signals[i]);
		assert_int_equal(test_process_wait(peer.process, WAIT_MS),
				 -signals[i]);
		test_process_end(peer.process);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engines_that_are_none_are_refused),
		cmocka_unit_test(batches_that_are_none_are_refused),
		cmocka_unit_test(who_stands_still_keeps_the_batch_busy),
		cmocka_unit_test(
			who_restarts_in_the_middle_is_none_of_the_callers_business),
		cmocka_unit_test(who_stays_away_holds_up_nobody_else),
		cmocka_unit_test(
			who_went_again_is_given_up_on_when_the_caller_says),
		cmocka_unit_test(who_restarts_on_its_port_is_found_again),
		cmocka_unit_test(engines_go_while_many_use_them),
		cmocka_unit_test(the_signal_ends_the_process_after_the_engines),
	};

	return cmocka_run_group_tests_name("compat.trouble", tests, NULL, NULL);
}
