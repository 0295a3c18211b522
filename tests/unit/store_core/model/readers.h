/* SPDX-License-Identifier: Apache-2.0 */
/* readers.h - what the model knows of who reads */
#ifndef TESTS_UNIT_STORE_CORE_MODEL_READERS_H
#define TESTS_UNIT_STORE_CORE_MODEL_READERS_H

#include <stdbool.h>

#include "store/core/core.h"

/*
 * Who has looked a thing up and not released: two sessions are told apart, from
 * the third on nobody's releases count.
 */
struct readers {
	tes_session_id who[2];
	unsigned int n[2];
	bool many;
};

static inline void add_reader(struct readers *r, tes_session_id who)
{
	int at = r->n[0] && r->who[0] == who   ? 0
		 : r->n[1] && r->who[1] == who ? 1
		 : !r->n[0]                    ? 0
		 : !r->n[1]                    ? 1
					       : -1;

	if (at < 0)
		r->many = true;
	if (r->many)
		return;
	r->who[at] = who;
	r->n[at]++;
}

/* Whether it was the last one. */
static inline bool take_reader(struct readers *r, tes_session_id who)
{
	bool taken = false;

	for (int i = 0; i < 2 && !r->many; i++)
		if (r->n[i] && r->who[i] == who) {
			r->n[i]--;
			taken = true;
		}
	return taken && !r->n[0] && !r->n[1];
}

#endif
