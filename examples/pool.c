/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - put a value into a pool and get it back
 *
 * Takes the address of a master, 127.0.0.1:50051 by default. Lends 64 MiB of
 * its own, so that it needs nobody else; they go with it.
 */
#include <stdio.h>
#include <string.h>

#include <te/store.h>

static int complain(const char *what, int code)
{
	fprintf(stderr, "pool: %s: %d %s\n", what, code,
		te_store_strerror(code));
	return 1;
}

static int put_and_get(struct te_store *store)
{
	struct te_store_key key = {.bytes = "greeting", .len = 8};
	char sent[] = "a value of the pool", got[64];
	struct iovec from = {sent, sizeof(sent)}, to = {got, sizeof(got)};
	struct te_store_value value = {.pieces = &from, .n_pieces = 1};
	struct te_store_value room = {.pieces = &to, .n_pieces = 1};
	int64_t size;
	int result;

	/* A single key is a batch of one; each key has a result of its own. */
	if (te_store_put(store, &key, &value, 1, NULL, &result))
		return complain("put", result);
	if (te_store_get(store, &key, &room, 1, &size) != 1)
		return complain("get", (int)size);
	printf("put and got back \"%s\", %lld bytes\n", got, (long long)size);
	return strcmp(sent, got) != 0;
}

int main(int argc, char **argv)
{
	struct te_store_config config = {
		.size = sizeof(config),
		.master = argc > 1 ? argv[1] : NULL,
		.segment_bytes = 64 << 20,
	};
	struct te_store *store;
	int code = te_store_setup(&config, &store);

	if (code)
		return complain("setup", code);
	code = put_and_get(store);
	te_store_close(store);
	return code;
}
