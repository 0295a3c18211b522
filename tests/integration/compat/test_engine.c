/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_engine.c - the C interface of Mooncake's transfer engine does what it says
 *
 * As its users call it: two engines, by shared memory and by tcp alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "compat/transfer_engine_c.h"
#include "tests/integration/compat/question.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define SIZE    (1u << 20)
#define N       1024
#define WAIT_MS 120000

struct two {
	transfer_engine_t a, b;
	char name[300];
	char *mine, *theirs;
	segment_id_t segment;
};

static transfer_engine_t engine(void)
{
	transfer_engine_t e =
		createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 1);

	assert_non_null(e);
	return e;
}

static int set_up(void **state)
{
	struct two *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->a = engine();
	t->b = engine();
	t->mine = calloc(2, SIZE);
	t->theirs = t->mine + SIZE;
	assert_int_equal(registerLocalMemory(t->a, t->mine, SIZE, "*", 1), 0);
	assert_int_equal(registerLocalMemory(t->b, t->theirs, SIZE, "cpu:0", 1),
			 0);
	assert_int_equal(getLocalIpAndPort(t->b, t->name, sizeof(t->name)), 0);
	t->segment = openSegment(t->a, t->name);
	assert_true(t->segment > 0);
	*state = t;
	return 0;
}

static int set_up_tcp(void **state)
{
	int rc;

	(void)setenv("MC_FORCE_TCP", "1", 1);
	rc = set_up(state);
	(void)unsetenv("MC_FORCE_TCP");
	return rc;
}

static int tear_down(void **state)
{
	struct two *t = *state;

	destroyTransferEngine(t->a);
	destroyTransferEngine(t->b);
	free(t->mine);
	free(t);
	return 0;
}

static struct transfer_request request(const struct two *t, int opcode,
				       size_t at, size_t length)
{
	return (struct transfer_request){
		.opcode = opcode,
		.source = t->mine + at,
		.target_id = t->segment,
		.target_offset = (uint64_t)(uintptr_t)(t->theirs + at),
		.length = length,
	};
}

static struct transfer_status end_of(transfer_engine_t e, batch_id_t batch,
				     size_t task)
{
	struct question q = {.engine = e, .batch = batch, .task = task};

	assert_true(test_wait_until(has_ended, &q, WAIT_MS));
	return q.status;
}

static void completed(transfer_engine_t e, batch_id_t batch, size_t task,
		      uint64_t bytes)
{
	struct transfer_status status = end_of(e, batch, task);

	assert_int_equal(status.status, STATUS_COMPLETED);
	assert_int_equal(status.transferred_bytes, bytes);
}

static void bytes_go_both_ways(void **state)
{
	struct two *t = *state;
	batch_id_t batch = allocateBatchID(t->a, 2);
	struct transfer_request r = request(t, OPCODE_WRITE, 100, SIZE - 100);

	memset(t->mine, 0x17, SIZE);
	assert_int_equal(submitTransfer(t->a, batch, &r, 1), 0);
	completed(t->a, batch, 0, SIZE - 100);
	assert_int_equal(t->theirs[99], 0);
	assert_memory_equal(t->theirs + 100, t->mine + 100, SIZE - 100);

	memset(t->theirs, 0x28, SIZE);
	r = request(t, OPCODE_READ, 0, 5000);
	assert_int_equal(submitTransfer(t->a, batch, &r, 1), 0);
	completed(t->a, batch, 1, 5000);
	assert_memory_equal(t->mine, t->theirs, 5000);
	assert_int_equal(t->mine[5000], 0x17);
	assert_int_equal(freeBatchID(t->a, batch), 0);
}

static void a_batch_has_many(void **state)
{
	struct transfer_request r[N];
	struct two *t = *state;
	batch_id_t batch = allocateBatchID(t->a, N);

	for (size_t i = 0; i < SIZE; i++)
		t->mine[i] = (char)(i * 7 >> 4);
	for (size_t i = 0; i < N; i++)
		r[i] = request(t, OPCODE_WRITE, (N - 1 - i) * SIZE / N,
			       SIZE / N);
	assert_int_equal(submitTransfer(t->a, batch, r, N / 2), 0);
	assert_int_equal(submitTransfer(t->a, batch, r + N / 2, N / 2), 0);
	for (size_t i = 0; i < N; i++)
		completed(t->a, batch, i, SIZE / N);
	assert_memory_equal(t->mine, t->theirs, SIZE);
	assert_int_equal(submitTransfer(t->a, batch, r, 1), 2);
	assert_int_equal(submitTransfer(t->a, batch, r, 0), 0);
	assert_int_equal(freeBatchID(t->a, batch), 0);
}

struct inbox {
	transfer_engine_t engine;
	notify_msg_t *all;
	int n;
};

static bool has_come(void *arg)
{
	struct inbox *in = arg;

	/* Without a place for their number they stay. */
	assert_null(getNotifsFromEngine(in->engine, NULL));
	in->all = getNotifsFromEngine(in->engine, &in->n);
	return in->all != NULL;
}

static void one_comes(transfer_engine_t e, const char *name, const char *text)
{
	struct inbox in = {.engine = e};

	assert_true(test_wait_until(has_come, &in, WAIT_MS));
	assert_int_equal(in.n, 1);
	assert_string_equal(in.all[0].name, name);
	assert_string_equal(in.all[0].msg, text);
	assert_int_equal(freeNotifsMsgBuf(in.all, in.n), 0);
}

/* Nobody asks for the status: it goes out by itself. */
static void who_is_told_has_the_bytes(void **state)
{
	struct two *t = *state;
	batch_id_t batch = allocateBatchID(t->a, 4);
	struct transfer_request r = request(t, OPCODE_WRITE, 0, SIZE);
	notify_msg_t msg = {(char *)"prefill-1", (char *)"block 17 is there"};

	memset(t->mine, 0x39, SIZE);
	assert_int_equal(submitTransferWithNotify(t->a, batch, &r, 1, msg), 0);
	one_comes(t->b, "prefill-1", "block 17 is there");
	assert_memory_equal(t->mine, t->theirs, SIZE);

	/* Tasks are counted without them. */
	r = request(t, OPCODE_READ, 0, 64);
	assert_int_equal(submitTransferWithNotify(t->a, batch, &r, 1, msg), 0);
	r = request(t, OPCODE_READ, 0, 128);
	assert_int_equal(submitTransfer(t->a, batch, &r, 1), 0);
	completed(t->a, batch, 0, SIZE);
	completed(t->a, batch, 1, 64);
	completed(t->a, batch, 2, 128);
	/* And it comes though the batch is gone. */
	assert_int_equal(freeBatchID(t->a, batch), 0);
	one_comes(t->b, "prefill-1", "block 17 is there");
}

#define TOLD 256

static bool all_have_come(void *arg)
{
	struct inbox *in = arg;
	notify_msg_t *some;
	int n;

	some = getNotifsFromEngine(in->engine, &n);
	for (int i = 0; i < n; i++)
		assert_int_equal(atoi(some[i].msg), in->n++);
	(void)freeNotifsMsgBuf(some, n);
	return in->n == TOLD;
}

/* As one handle that is posted again and again, each time with its word. */
static void each_submission_of_a_batch_may_tell(void **state)
{
	struct two *t = *state;
	batch_id_t batch = allocateBatchID(t->a, TOLD);
	struct inbox in = {.engine = t->b};
	char text[16];
	notify_msg_t msg = {(char *)"agent", text};

	for (size_t i = 0; i < TOLD; i++) {
		struct transfer_request r =
			request(t, OPCODE_WRITE, i * 512, i + 1);

		snprintf(text, sizeof(text), "%zu", i);
		assert_int_equal(
			submitTransferWithNotify(t->a, batch, &r, 1, msg), 0);
	}
	for (size_t i = 0; i < TOLD; i++)
		completed(t->a, batch, i, i + 1);
	assert_true(test_wait_until(all_have_come, &in, WAIT_MS));
	assert_int_equal(freeBatchID(t->a, batch), 0);
}

static void notifications_go_alone(void **state)
{
	struct two *t = *state;
	int n = -1;

	assert_null(getNotifsFromEngine(t->b, &n));
	assert_int_equal(n, 0);
	assert_int_equal(genNotifyInEngine(t->a, (uint64_t)t->segment,
					   (notify_msg_t){(char *)"", NULL}),
			 0);
	one_comes(t->b, "", "");
	assert_true(genNotifyInEngine(t->a, 77, (notify_msg_t){0}) < 0);
	assert_true(genNotifyInEngine(t->a, UINT64_MAX, (notify_msg_t){0}) < 0);
}

static void what_is_no_entry_is_refused(void **state)
{
	struct two *t = *state;
	batch_id_t batch = allocateBatchID(t->a, 4);
	struct transfer_request good = request(t, OPCODE_READ, 0, 8), r[2];
	struct transfer_status status;

	r[0] = r[1] = good;
	r[1].opcode = 2;
	assert_int_equal(submitTransfer(t->a, batch, r, 2), 1);
	r[1] = good;
	r[1].length = 0;
	assert_int_equal(submitTransfer(t->a, batch, r, 2), 1);
	r[1].length = UINT64_MAX;
	assert_int_equal(submitTransfer(t->a, batch, r, 2), 1);
	r[1] = good;
	r[1].source = NULL;
	assert_int_equal(submitTransfer(t->a, batch, r, 2), 1);
	r[1] = good;
	r[1].target_id = 99;
	assert_int_equal(submitTransfer(t->a, batch, r, 2), 1);
	r[1].target_id = -1;
	assert_int_equal(submitTransfer(t->a, batch, r, 2), 1);
	assert_int_equal(submitTransfer(t->a, batch, NULL, 1), 1);
	/* Nothing of all that was started. */
	assert_true(getTransferStatus(t->a, batch, 0, &status) < 0);
	/* An address that nobody published is found out on the way. */
	good.target_offset = 8;
	assert_int_equal(submitTransfer(t->a, batch, &good, 1), 0);
	assert_int_equal(end_of(t->a, batch, 0).status, STATUS_FAILED);
	assert_int_equal(freeBatchID(t->a, batch), 0);
	assert_true(allocateBatchID(t->a, 0) == INVALID_BATCH);
	assert_true(allocateBatchID(t->a, 65529) == INVALID_BATCH);
	batch = allocateBatchID(t->a, 65528);
	assert_true(batch != INVALID_BATCH);
	assert_int_equal(freeBatchID(t->a, batch), 0);
}

static void memory_is_registered_once(void **state)
{
	struct two *t = *state;
	char *m = calloc(1, SIZE);
	void *addrs[] = {m, m + 8192, m + 4096};
	buffer_entry_t three[] = {{m, 4096}, {m + 4096, 10}, {m + 8192, 4096}};
	buffer_entry_t bad[] = {{m, 4096}, {m + 4000, 4096}};

	assert_int_equal(registerLocalMemory(t->a, m, 0, "*", 1), -1);
	assert_int_equal(registerLocalMemory(t->a, NULL, 10, "*", 1), -1);
	assert_int_equal(registerLocalMemory(t->a, m, SIZE_MAX, "*", 1), -1);
	assert_int_equal(unregisterLocalMemory(t->a, m), -3);
	assert_int_equal(registerLocalMemory(t->a, m, SIZE, NULL, 0), 0);
	assert_int_equal(registerLocalMemory(t->a, m, SIZE, "*", 1), -7);
	assert_int_equal(registerLocalMemory(t->a, m + 9, 1, "*", 1), -7);
	assert_int_equal(
		registerLocalMemory(t->a, m + SIZE, (size_t)1 << 63, "*", 1),
		-1);
	assert_int_equal(unregisterLocalMemory(t->a, m + 9), -3);
	assert_int_equal(unregisterLocalMemory(t->a, m), 0);
	assert_int_equal(unregisterLocalMemory(t->a, m), -3);
	/* All or none. */
	assert_int_equal(registerLocalMemoryBatch(t->a, bad, 2, "*"), -7);
	assert_int_equal(registerLocalMemoryBatch(t->a, three, 3, "*"), 0);
	assert_int_equal(unregisterLocalMemoryBatch(t->a, addrs, 3), 0);
	assert_int_equal(unregisterLocalMemoryBatch(t->a, addrs, 3), -3);
	assert_int_equal(registerLocalMemoryBatch(t->a, NULL, 0, "*"), 0);
	free(m);
}

/* Its own memory is reached like others'. */
static void reads_its_own(struct two *t)
{
	batch_id_t batch = allocateBatchID(t->a, 1);
	struct transfer_request r = {
		.opcode = OPCODE_READ,
		.source = t->theirs,
		.target_id = LOCAL_SEGMENT,
		.target_offset = (uint64_t)(uintptr_t)t->mine,
		.length = 300,
	};

	memset(t->mine, 0x4a, 300);
	assert_int_equal(submitTransfer(t->a, batch, &r, 1), 0);
	completed(t->a, batch, 0, 300);
	assert_memory_equal(t->mine, t->theirs, 300);
	assert_int_equal(freeBatchID(t->a, batch), 0);
}

static void segments_have_numbers(void **state)
{
	char slash[310], own[300], few[4];
	struct two *t = *state;

	(void)snprintf(slash, sizeof(slash), "/%s", t->name);
	assert_int_equal(openSegment(t->a, slash), t->segment);
	assert_int_equal(openSegmentNoCache(t->a, t->name), t->segment);
	assert_int_equal(closeSegment(t->a, t->segment), 0);
	assert_int_equal(closeSegment(t->a, 99), -1);
	assert_int_equal(getLocalIpAndPort(t->a, own, sizeof(own)), 0);
	assert_int_equal(openSegment(t->a, own), LOCAL_SEGMENT);
	assert_int_equal(warmupEfaSegment(t->a, t->name), 0);
	assert_int_equal(syncSegmentCache(t->a), 0);
	assert_int_equal(removeLocalSegment(t->a, own), 0);
	assert_int_equal(removeLocalSegment(t->a, t->name), -1);
	assert_int_equal(openSegment(t->a, NULL), -1);
	assert_int_equal(openSegment(t->a, ""), -1);
	assert_int_equal(openSegment(t->a, "no port"), -1);
	assert_int_equal(getLocalIpAndPort(t->a, few, sizeof(few)), 0);
	assert_string_equal(few, "127");
	reads_its_own(t);
}

static void links_can_be_read(void **state)
{
	nic_load_stat_t stats[4];
	struct two *t = *state;
	size_t n = 4;
	char text[4096];
	json_t *json;

	assert_int_equal(showLinks(t->a, text, sizeof(text), 1), 0);
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	assert_true(json_array_size(json_object_get(json, "rails")) > 0);
	json_decref(json);
	assert_int_equal(showLinks(t->a, text, sizeof(text), 0), 0);
	assert_non_null(strstr(text, "tcp/0 up"));
	assert_int_equal(showLinks(t->a, text, 5, 0), 0);
	assert_int_equal(strlen(text), 4);
	assert_true(showLinks(t->a, NULL, 0, 0) < 0);
	assert_int_equal(getNicLoadStats(t->a, stats, &n), 0);
	assert_int_equal(n, 0);
	assert_non_null(installTransport(t->a, "tcp", NULL));
	assert_non_null(installTransport(t->a, "rdma", NULL));
	assert_non_null(installTransport(t->a, "nvlink_intra", NULL));
	assert_non_null(installTransport(t->a, "nvlink", NULL));
	setenv("MC_FORCE_MNNVL", "1", 1);
	assert_null(installTransport(t->a, "nvlink", NULL));
	assert_non_null(installTransport(t->a, "nvlink_intra", NULL));
	setenv("MC_USE_NVLINK_IPC", "1", 1);
	assert_non_null(installTransport(t->a, "nvlink", NULL));
	unsetenv("MC_USE_NVLINK_IPC");
	unsetenv("MC_FORCE_MNNVL");
	assert_null(installTransport(t->a, "pigeon", NULL));
	assert_null(installTransport(t->a, NULL, NULL));
	assert_int_equal(uninstallTransport(t->a, "tcp"), 0);
	assert_int_equal(discoverTopology(t->a), 0);
}

#define BOTH(test)                                                \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down), \
	{                                                         \
#test ", tcp", test, set_up_tcp, tear_down, NULL  \
	}

static void seconds_that_are_none_are_the_usual_ones(void **state)
{
	static const char *const texts[] = {"", "x", "5s", "-1", "99999999999"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(texts); i++) {
		(void)setenv("MC_TRANSFER_TIMEOUT", texts[i], 1);
		destroyTransferEngine(engine());
	}
	(void)unsetenv("MC_TRANSFER_TIMEOUT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(bytes_go_both_ways),
		BOTH(a_batch_has_many),
		BOTH(who_is_told_has_the_bytes),
		BOTH(each_submission_of_a_batch_may_tell),
		BOTH(notifications_go_alone),
		BOTH(what_is_no_entry_is_refused),
		BOTH(memory_is_registered_once),
		BOTH(segments_have_numbers),
		BOTH(links_can_be_read),
		cmocka_unit_test(seconds_that_are_none_are_the_usual_ones),
	};

	return cmocka_run_group_tests_name("compat.engine", tests, NULL, NULL);
}
