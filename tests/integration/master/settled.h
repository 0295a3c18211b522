/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settled.h - a pool that is to be as it was, whatever is asked of its master
 *
 * One owner, one object, "there", and one that the user is writing, "half".
 */
#ifndef TESTS_INTEGRATION_MASTER_SETTLED_H
#define TESTS_INTEGRATION_MASTER_SETTLED_H

#include "tests/integration/master/caller.h"

enum { SETTLED_OWNER = 1, SETTLED_USER = 2, SETTLED_OTHER = 3 };

#define SETTLED_BYTES (1ull << 20) /* of the owner's segment, SETTLED_OWNER */

struct settled {
	struct master master;
	struct caller *owner, *user;
	Store__PoolReply *before;
	char *keys; /* all of them */
};

/* For cmocka: *state is a struct settled. */
int settled_set_up(void **state);
int settled_tear_down(void **state);
/* Fails the test when capacity, use, objects or keys have changed. */
void settled_check(const struct settled *s);

#endif
