/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy.c - a dummy client that never stops
 *
 * usage: store_dummy SOCKET put|get|buffer ID SIZE
 *
 * Puts values of its own, or gets the one that pool_fill() makes of ID 1 under
 * "common", in turns from shared memory and from its own, or as a buffer, until it is killed or
 * one fails.
 * Says "round" with each one that has succeeded, and "failed" at the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/store/pool.h"

static bool do_put(struct te_store *store, unsigned long id, int round,
		   uint8_t *bytes, size_t size)
{
	char key[64];

	(void)snprintf(key, sizeof(key), "dummy-%lu-%d", id, round % 4);
	pool_fill(bytes, size, id);
	return pool_put(store, key, bytes, size) == 0;
}

static bool do_get(struct te_store *store, uint8_t *bytes, size_t size)
{
	return pool_get(store, "common", bytes, size) == (int64_t)size &&
	       pool_is_filled(bytes, size, 1);
}

/* Two are held at any time but the first. */
static bool do_buffer(struct te_store *store, size_t size)
{
	static struct te_store_buffer *held;
	const struct te_store_key key = pool_key("common");
	struct te_store_buffer *buffer;
	int64_t result;

	if (te_store_get_buffers(store, &key, 1, &buffer, &result) != 1)
		return false;
	te_store_buffer_free(held);
	held = buffer;
	return result == (int64_t)size &&
	       pool_is_filled(te_store_buffer_data(buffer), size, 1);
}

static bool do_one(struct te_store *store, char **argv, int round,
		   uint8_t *bytes, size_t size)
{
	if (strcmp(argv[2], "put") == 0)
		return do_put(store, strtoul(argv[3], NULL, 10), round, bytes,
			      size);
	if (strcmp(argv[2], "buffer") == 0)
		return do_buffer(store, size);
	return do_get(store, bytes, size);
}

int main(int argc, char **argv)
{
	struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = POOL_START_MS,
		.replica_timeout_ms = POOL_START_MS,
		.setup_timeout_ms = POOL_START_MS,
	};
	struct te_store *store;
	uint8_t *memory[2];
	size_t size;

	if (argc != 5)
		return 2;
	config.daemon = argv[1];
	size = strtoul(argv[4], NULL, 10);
	config.pool_bytes = size;
	if (te_store_setup(&config, &store))
		return 1;
	memory[0] = te_store_pool_alloc(store, size);
	memory[1] = malloc(size);
	for (int i = 0; memory[0] && memory[1]; i++) {
		if (!do_one(store, argv, i, memory[i % 2], size))
			break;
		printf("round\n");
		(void)fflush(stdout);
	}
	printf("failed\n");
	(void)fflush(stdout);
	free(memory[1]);
	te_store_close(store);
	return 1;
}
