/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h - find the master's address without waiting for a resolver
 *
 * A resolver may hang for longer than closing may take, so a name is looked up
 * by a thread of its own that nobody joins; whoever comes last frees.
 */
#ifndef STORE_CLIENT_LOOKUP_H
#define STORE_CLIENT_LOOKUP_H

#include "base/net.h"

struct tei_loop;
struct tei_lookup;

/* On the loop, once. @n: addresses, or a negative errno. */
typedef void tei_lookup_fn(void *arg, const struct tei_address *to, int n);

/* -EINVAL (no name), -ENOMEM, -EAGAIN. */
int tei_lookup_start(struct tei_loop *loop, const char *name, tei_lookup_fn *fn,
		     void *arg, struct tei_lookup **out);
/* Loop thread, or after it has ended: @fn is not called any more. NULL: fine. */
void tei_lookup_stop(struct tei_lookup *lookup);

#endif
