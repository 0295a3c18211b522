/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.c - a client that stops between the start of a put and its write
 *
 * usage: store_writer MASTER KEY SIZE [whole | halt]
 *
 * Starts a put, prints "started ADDRESS", waits for SIGUSR1, then writes as a
 * client does, prints "wrote ERROR" and ends. What a test does to it while it
 * waits is the test's.
 *
 * "whole": prints "ready" once it knows the owner, waits for SIGUSR1, puts by
 * te_store_put(), prints "moving" once bytes have left, and "put CODE". The
 * bytes are those of WRITER_ID.
 *
 * "halt": the same, but it says "moving" when a copy has come to the middle of
 * the value, and stands still there until it gets SIGCONT. Only where bytes are
 * copied by the process itself: a page that cannot be read stops it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/client/client.h"
#include "store/client/put.h"
#include "store/proto/extent.h"
#include "store/proto/store.pb-c.h"
#include "tests/lib/stat.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define MOVING_BYTES 8192u /* more than all that is not payload */
#define PAGE         ((size_t)4096)
#define PAGE_MASK    (PAGE - 1)

struct put {
	struct te_store *store;
	struct tei_arena arena;
	const char *key;
	uint64_t size;
	Store__PutStartReply *start;
	te_segment_id segment;
	uint64_t epoch;
};

static int start(struct put *put)
{
	Store__PutStart msg = STORE__PUT_START__INIT;
	uint32_t len = (uint32_t)strlen(put->key);
	struct tes_reply reply;
	int code;

	msg.n_key_lens = msg.n_sizes = 1;
	msg.keys.data = (uint8_t *)(uintptr_t)put->key;
	msg.keys.len = len;
	msg.key_lens = &len;
	msg.sizes = &put->size;
	code = tes_store_call(put->store, STORE__STORE_TYPE__STORE_PUT_START,
			      &msg.base, &put->arena,
			      tes_call_deadline(put->store), &reply);
	if (code)
		return code;
	put->start = store__put_start_reply__unpack(&put->arena.pb, reply.len,
						    reply.body);
	return put->start ? put->start->status[0] : -1;
}

static int open_owner(struct put *put)
{
	uint64_t since;
	int rc = te_segment_open(te_store_engine(put->store),
				 put->start->segments[0]->engine, POOL_START_MS,
				 &put->segment);

	if (!rc)
		rc = te_segment_epoch(te_store_engine(put->store), put->segment,
				      &put->epoch, &since);
	return rc;
}

static int write_late(struct put *put)
{
	uint8_t header[TES_EXTENT_HEADER_LEN];
	struct tes_extent_header h = {
		.gen_epoch = put->start->epoch,
		.generation = put->start->generation[0],
		.object_size = put->size,
		.length = put->size,
		.count = 1,
	};
	void *bytes = calloc(1, put->size);
	struct iovec pieces[2] = {{header, sizeof(header)}, {bytes, put->size}};
	struct te_request req = {
		.op = TE_WRITE,
		.segment = put->segment,
		.remote = put->start->address[0],
		.pieces = pieces,
		.n_pieces = 2,
		.epoch = put->epoch,
	};
	struct te_completion done = {0};
	struct te_batch *batch;
	int rc;

	tes_extent_encode(&h, header);
	rc = te_batch_create(te_store_engine(put->store), 1, &batch);
	if (rc) {
		free(bytes);
		return rc;
	}
	rc = te_batch_submit(batch, &req, 1);
	if (!rc)
		rc = te_batch_wait(batch, UINT32_MAX);
	if (!rc)
		rc = te_batch_result(batch, 0, &done);
	te_batch_destroy(batch);
	free(bytes);
	return rc ? rc : done.error;
}

static void wait_for(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	while (sigwaitinfo(&set, NULL) < 0 && errno == EINTR)
		;
}

static int run(struct put *put)
{
	int rc = start(put);

	if (!rc)
		rc = open_owner(put);
	if (rc) {
		printf("failed %d\n", rc);
		return 1;
	}
	printf("started %llu\n", (unsigned long long)put->start->address[0]);
	fflush(stdout);
	wait_for(SIGUSR1);
	printf("wrote %d\n", write_late(put));
	fflush(stdout);
	return 0;
}

/* ---- a whole put ---- */

static uint64_t sent_bytes(struct te_store *store)
{
	return test_stat(te_store_engine(store), "te_rail_sent_bytes_total",
			 NULL);
}

struct movement {
	struct te_store *store;
	uint64_t before;
};

static bool is_moving(void *arg)
{
	const struct movement *m = arg;

	return sent_bytes(m->store) >= m->before + MOVING_BYTES;
}

static void *watch(void *arg)
{
	if (test_wait_until(is_moving, arg, POOL_START_MS)) {
		printf("moving\n");
		fflush(stdout);
	}
	return NULL;
}

/* An object that is gone again: then the owner's connection is there. */
static int meet_owner(struct put *put)
{
	const struct te_store_key key = {.bytes = "meet", .len = 4};
	int code = pool_put(put->store, "meet", "x", 1);

	if (!code)
		(void)te_store_remove(put->store, &key, 1, 1, &code);
	return code;
}

/* Met the owner, and knows what to put. NULL: said why not. */
static uint8_t *prepare(struct put *put)
{
	uint8_t *bytes = aligned_alloc(PAGE, (put->size + PAGE) & ~PAGE_MASK);
	int code = meet_owner(put);

	if (!bytes || code) {
		printf("failed %d\n", code);
		free(bytes);
		return NULL;
	}
	pool_fill(bytes, put->size, WRITER_ID);
	printf("ready\n");
	fflush(stdout);
	wait_for(SIGUSR1);
	return bytes;
}

static int put_it(struct put *put, uint8_t *bytes)
{
	printf("put %d\n", pool_put(put->store, put->key, bytes, put->size));
	fflush(stdout);
	free(bytes);
	return 0;
}

static int run_whole(struct put *put)
{
	struct movement m = {.store = put->store};
	uint8_t *bytes = prepare(put);
	pthread_t watcher;
	int rc;

	if (!bytes)
		return 1;
	m.before = sent_bytes(put->store);
	if (pthread_create(&watcher, NULL, watch, &m)) {
		free(bytes);
		return 1;
	}
	rc = put_it(put, bytes);
	(void)pthread_join(watcher, NULL);
	return rc;
}

/* ---- a put that stands still in the middle of a copy ---- */

static uint8_t *next_barrier; /* a page, not yet protected */
static uint8_t *barrier;

/* What the linker's --wrap calls them. */
void __real_tes_put_write_begin(struct tes_put_pipeline *p);
void __wrap_tes_put_write_begin(struct tes_put_pipeline *p);

/* A client refuses a page without access: it is one once it has looked. */
void __wrap_tes_put_write_begin(struct tes_put_pipeline *p)
{
	if (next_barrier) {
		barrier = next_barrier;
		next_barrier = NULL;
		if (mprotect(barrier, PAGE, PROT_NONE))
			abort();
	}
	__real_tes_put_write_begin(p);
}

/*
 * SIGCONT is blocked and waited for: under ThreadSanitizer no signal comes
 * through to a thread that is in a handler, and the others take none.
 */
static void on_barrier(int signal, siginfo_t *info, void *context)
{
	const uint8_t *at = info->si_addr;

	(void)signal;
	(void)context;
	if (!barrier || at < barrier || at >= barrier + PAGE ||
	    write(STDOUT_FILENO, "moving\n", 7) != 7)
		abort();
	wait_for(SIGCONT);
	(void)mprotect(barrier, PAGE, PROT_READ | PROT_WRITE);
}

static int run_halting(struct put *put)
{
	struct sigaction on_segv = {.sa_sigaction = on_barrier,
				    .sa_flags = SA_SIGINFO};
	uint8_t *bytes = prepare(put);

	if (!bytes)
		return 1;
	next_barrier = bytes + (put->size / 2 & ~PAGE_MASK);
	sigaction(SIGSEGV, &on_segv, NULL);
	return put_it(put, bytes);
}

static int run_as_told(struct put *put, const char *how)
{
	if (!how)
		return run(put);
	return strcmp(how, "halt") ? run_whole(put) : run_halting(put);
}

int main(int argc, char **argv)
{
	struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = POOL_START_MS,
		.setup_timeout_ms = POOL_START_MS,
	};
	struct put put = {0};
	sigset_t awaited;
	int code;

	if (argc != 4 && argc != 5)
		return 2;
	sigemptyset(&awaited);
	sigaddset(&awaited, SIGUSR1);
	sigaddset(&awaited, SIGCONT);
	pthread_sigmask(SIG_BLOCK, &awaited, NULL);
	config.master = argv[1];
	put.key = argv[2];
	put.size = strtoull(argv[3], NULL, 10);
	code = te_store_setup(&config, &put.store);
	if (code) {
		printf("failed %d\n", code);
		return 1;
	}
	tei_arena_init(&put.arena, 1u << 20);
	code = run_as_told(&put, argv[4]);
	tei_arena_fini(&put.arena);
	te_store_close(put.store);
	return code;
}
