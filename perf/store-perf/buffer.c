/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.c - memory of a client, where and how the settings want it
 */
#include "perf/store-perf/buffer.h"

#include <errno.h>
#include <sys/mman.h>

#include "perf/lib/node.h"
#include "perf/lib/reference.h"

#define UNALIGNED_BYTES 1

int buffer_open(struct buffer *b, uint64_t len, int node, bool unaligned)
{
	uint64_t before = unaligned ? UNALIGNED_BYTES : 0;
	struct tei_node_policy old;
	int rc = tei_node_begin(node, &old);

	*b = (struct buffer){.len = len, .map_len = len + before};
	if (rc)
		return rc;
	b->map = tei_map_touched(b->map_len);
	tei_node_end(&old);
	if (!b->map)
		return -ENOMEM;
	b->at = (char *)b->map + before;
	return 0;
}

void buffer_close(struct buffer *b)
{
	if (b->map)
		munmap(b->map, b->map_len);
	*b = (struct buffer){.map = NULL};
}
