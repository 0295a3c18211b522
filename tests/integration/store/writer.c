/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.c - a client that stops between the start of a put and its write
 *
 * usage: store_writer MASTER KEY SIZE
 *
 * Starts a put, prints "started ADDRESS", waits for SIGUSR1, then writes as a
 * client does, prints "wrote ERROR" and ends. What a test does to it while it
 * waits is the test's.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/client/client.h"
#include "store/proto/extent.h"
#include "store/proto/store.pb-c.h"

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
	ProtobufCBinaryData key = {strlen(put->key),
				   (uint8_t *)(uintptr_t)put->key};
	struct tei_reply reply;
	int code;

	msg.n_keys = msg.n_sizes = 1;
	msg.keys = &key;
	msg.sizes = &put->size;
	code = tei_store_call(put->store, STORE__STORE_TYPE__STORE_PUT_START,
			      &msg.base, &put->arena,
			      tei_call_deadline(put->store), &reply);
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
				 put->start->segments[0]->engine, 0,
				 &put->segment);

	if (!rc)
		rc = te_segment_epoch(te_store_engine(put->store), put->segment,
				      &put->epoch, &since);
	return rc;
}

static int write_late(struct put *put)
{
	uint8_t header[TEI_EXTENT_HEADER_LEN];
	struct tei_extent_header h = {
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

	tei_extent_encode(&h, header);
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

static int run(struct put *put)
{
	sigset_t go;
	int rc;

	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	rc = start(put);
	if (!rc)
		rc = open_owner(put);
	if (rc) {
		printf("failed %d\n", rc);
		return 1;
	}
	printf("started %llu\n", (unsigned long long)put->start->address[0]);
	fflush(stdout);
	while (sigwaitinfo(&go, NULL) < 0 && errno == EINTR)
		;
	printf("wrote %d\n", write_late(put));
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	struct te_store_config config = {.size = sizeof(config)};
	struct put put = {0};
	sigset_t go;
	int code;

	if (argc != 4)
		return 2;
	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &go, NULL);
	config.master = argv[1];
	put.key = argv[2];
	put.size = strtoull(argv[3], NULL, 10);
	code = te_store_setup(&config, &put.store);
	if (code) {
		printf("failed %d\n", code);
		return 1;
	}
	tei_arena_init(&put.arena, 1u << 20);
	code = run(&put);
	tei_arena_fini(&put.arena);
	te_store_close(put.store);
	return code;
}
