/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h - what random schedules have to meet, or they have tested little */
#ifndef TESTS_UNIT_STORE_CORE_TALLY_H
#define TESTS_UNIT_STORE_CORE_TALLY_H

#include "tests/unit/store_core/rig.h"

struct tally {
	const char *name;
	const uint64_t *n; /* not owned */
};

#define TALLY(figure) #figure, &(figure)

static MAYBE void tally_print(const struct tally *t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		print_message("%s %llu\n", t[i].name,
			      (unsigned long long)*t[i].n);
}

static MAYBE void tally_check(const struct tally *t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!*t[i].n)
			fail_msg("no schedule met %s", t[i].name);
}

#endif
