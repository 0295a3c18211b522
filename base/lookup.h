/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h - find a name's addresses without waiting for a resolver
 *
 * A resolver may hang for longer than closing may take, so a name is looked up
 * by a thread of its own that nobody joins; whoever comes last frees. Numeric
 * addresses need no thread. How many names are looked up at once is for the
 * user to bound.
 */
#ifndef BASE_LOOKUP_H
#define BASE_LOOKUP_H

#include "base/net.h"

struct tei_loop;
struct tei_lookup;

#define TEI_LOOKUP_MAX 4 /* addresses of one name */

/*
 * On the loop, once, not from inside start(). @n: addresses, or a negative
 * errno.
 */
typedef void tei_lookup_fn(void *arg, const struct tei_address *to, int n);

/*
 * @name: "host:port". Loop thread. -EINVAL (no name or port), -ENOMEM, -EAGAIN.
 */
int tei_lookup_start(struct tei_loop *loop, const char *name, tei_lookup_fn *fn,
		     void *arg, struct tei_lookup **out);

/* Another way to find addresses than the system's resolver. */
struct tei_lookup_by {
	/*
	 * On the thread; may block. How many of @out[@max], or what is wrong.
	 */
	int (*find)(void *arg, struct tei_address *out, int max);
	/* Free @arg, which is not used any more; any thread. */
	void (*free)(void *arg);
};
/* Starts like start(), by @by with @by_arg, which it takes unless it fails. */
int tei_lookup_start_by(struct tei_loop *loop, const struct tei_lookup_by *by,
			void *by_arg, tei_lookup_fn *fn, void *arg,
			struct tei_lookup **out);
/*
 * Loop thread, or after it has ended: @fn is not called any more. Each one that
 * was started is stopped once, also when @fn has been called. NULL: fine.
 */
void tei_lookup_stop(struct tei_lookup *lookup);

#endif
