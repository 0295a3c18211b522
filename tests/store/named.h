/* SPDX-License-Identifier: Apache-2.0 */
/*
 * named.h - every call of a store that is given memory by its address
 */
#ifndef TESTS_STORE_NAMED_H
#define TESTS_STORE_NAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#define NAMED_PAGE 4096u
#define NAMED_MAX  (4 * NAMED_PAGE)

/*
 * Every call that reads from the caller's memory (puts), that writes to it
 * (gets), or both.
 */
enum named_calls {
	NAMED_PUTS = 1 << 0,
	NAMED_GETS = 1 << 1,
	NAMED_ALL = NAMED_PUTS | NAMED_GETS,
};

/*
 * Each of the calls is given addr[len], at most NAMED_MAX, and beside it good
 * memory for another key, which must work. They refuse addr[len] with -600 and
 * leave no object of it; or they take it, and the right bytes move.
 */
void named_refuse(struct te_store *store, enum named_calls calls,
		  const void *addr, size_t len);
void named_take(struct te_store *store, enum named_calls calls,
		const void *addr, size_t len);

/*
 * All that a store promises of such memory: registered, unmapped, protected,
 * across the end of a registration.
 */
void named_check_all(struct te_store *store);

#endif
