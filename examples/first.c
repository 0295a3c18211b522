/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.c - the smallest whole use of the engine: one write, one read
 *
 * Two engines in one process stand for two hosts. One publishes memory; the
 * other writes into it and reads it back. Between processes the code is the
 * same: only the owner's name travels, by whatever means you have.
 *
 *   cc first.c $(pkg-config --cflags --libs te) && ./a.out
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/te.h>

#define LENGTH 4096

static void must(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", what, te_strerror(rc));
		exit(1);
	}
}

/* Move LENGTH bytes between @local and the segment; waits for the end. */
static void move(struct te_engine *engine, uint32_t op, void *local,
		 te_segment_id segment, uint64_t remote)
{
	const struct iovec piece = {local, LENGTH};
	const struct te_request request = {
		.op = op,
		.segment = segment,
		.remote = remote,
		.pieces = &piece,
		.n_pieces = 1,
		.timeout_ms = 5000,
	};
	struct te_completion end;
	struct te_batch *batch;

	must(te_batch_create(engine, 1, &batch), "batch");
	must(te_batch_submit(batch, &request, 1), "submit");
	must(te_batch_wait(batch, UINT32_MAX), "wait");
	must(te_batch_result(batch, 0, &end), "result");
	must(end.error, "transfer");
	te_batch_destroy(batch);
}

int main(void)
{
	struct te_engine *owner, *user;
	struct te_segment_region there;
	struct te_region region = {.length = LENGTH};
	char sent[LENGTH] = "bytes that crossed", received[LENGTH];
	te_segment_id segment;
	te_region_id id;
	size_t n = 1;

	/* The owner lends a page to whoever may connect. */
	must(te_engine_create(NULL, "127.0.0.1", &owner), "owner");
	must(te_memory_alloc(owner, LENGTH, &region.addr), "memory");
	region.access = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE;
	must(te_region_add(owner, &region, &id), "region");

	/* The user opens what the owner publishes, by its name. */
	must(te_engine_create(NULL, "127.0.0.1", &user), "user");
	must(te_segment_open(user, te_engine_name(owner), 0, &segment), "open");
	must(te_segment_regions(user, segment, &there, &n), "regions");

	/* Local memory of the engine's own needs no registration. */
	move(user, TE_WRITE, sent, segment, there.addr);
	move(user, TE_READ, received, segment, there.addr);
	printf("%s sent and got back \"%s\"\n", te_engine_name(user), received);

	te_segment_close(user, segment);
	te_engine_destroy(user);
	must(te_region_remove(owner, id), "remove");
	te_memory_free(owner, region.addr);
	te_engine_destroy(owner);
	return memcmp(sent, received, LENGTH) != 0;
}
