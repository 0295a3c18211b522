/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair.h - an owner and a user by fake rails, for the tests of one program
 */
#ifndef TESTS_UNIT_TE_PAIR_H
#define TESTS_UNIT_TE_PAIR_H

#include <stdlib.h>
#include <string.h>

#include "tests/unit/te/fake.h"
#include "tests/unit/te/rig.h"

static struct te_engine *owner, *user;
static te_segment_id segment;
static te_region_id region;
static uint8_t *memory, *local;

/* @len: bytes of the owner's memory and of the user's. */
static inline void pair_memory(size_t len)
{
	te_log_set_level(0);
	fake_reset();
	memory = calloc(1, len);
	local = malloc(len);
	assert_true(memory && local);
	memset(local, 0x5a, len);
}

/* Settings as of rig_engine(); @len: of the memory, all of it a region. */
static inline void pair_engines(const char *const of_owner[],
				const char *const of_user[], size_t len)
{
	owner = rig_engine(of_owner);
	user = rig_engine(of_user);
	region = rig_region(owner, memory, len, RIG_ANY);
	segment = rig_segment(user, owner);
}

static inline int pair_open(const char *const settings[], size_t len)
{
	pair_memory(len);
	pair_engines(settings, settings, len);
	return 0;
}

static inline void pair_end_engines(void)
{
	te_engine_destroy(user);
	te_engine_destroy(owner);
	user = owner = NULL;
}

static inline int pair_close(void **state)
{
	(void)state;
	fake_reset();
	pair_end_engines();
	free(memory);
	free(local);
	return 0;
}

#endif
