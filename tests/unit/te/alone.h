/* SPDX-License-Identifier: Apache-2.0 */
/* alone.h - one engine, for the tests of one program */
#ifndef TESTS_UNIT_TE_ALONE_H
#define TESTS_UNIT_TE_ALONE_H

#include "tests/unit/te/rig.h"

static struct te_engine *engine;

/* @settings: as of rig_engine(). */
static inline int alone_open(const char *const settings[])
{
	engine = rig_engine(settings);
	return 0;
}

static inline int alone_close(void **state)
{
	(void)state;
	te_engine_destroy(engine);
	return 0;
}

#endif
