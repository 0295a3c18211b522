/* SPDX-License-Identifier: Apache-2.0 */
/* alone_memory.h - one engine that moves bytes to and from its own memory */
#ifndef TESTS_UNIT_TE_ALONE_MEMORY_H
#define TESTS_UNIT_TE_ALONE_MEMORY_H

#include <stdlib.h>

#include "tests/unit/te/alone.h"

static te_segment_id segment; /* its own */
static uint8_t *memory, *local;

/* @len: bytes of @memory, all of it a region, and of @local. */
static inline int alone_open_memory(const char *const settings[], size_t len)
{
	memory = calloc(1, len);
	local = calloc(1, len);
	assert_true(memory && local);
	(void)alone_open(settings);
	rig_region(engine, memory, len, RIG_ANY);
	segment = rig_segment(engine, engine);
	return 0;
}

static inline int alone_close_memory(void **state)
{
	(void)alone_close(state);
	free(memory);
	free(local);
	return 0;
}

#endif
