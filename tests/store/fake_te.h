/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_te.h - an engine that a test can bend
 *
 * Stands in for libte in tests of the store's client: all engines live in this
 * process, bytes move by memcpy inside submit, and a hook may let any request
 * end otherwise. Access, groups, incarnations and access epochs are checked as
 * the real one does.
 */
#ifndef TESTS_STORE_FAKE_TE_H
#define TESTS_STORE_FAKE_TE_H

#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

/*
 * Called before a request moves bytes, without locks. @done is preset to
 * success; an error in it is how the request ends.
 */
typedef void fake_te_hook(const struct te_request *req,
			  struct te_completion *done, void *arg);

void fake_te_set_hook(fake_te_hook *hook, void *arg);
/* As if its process had died: open and requests fail at once. */
void fake_te_kill(struct te_engine *engine);
/* @engine hears of its epochs now, as by a new handshake with each owner. */
void fake_te_learn_epochs(struct te_engine *engine);
/* The same, when @ns have passed and it asks for an epoch. */
void fake_te_learn_epochs_after(struct te_engine *engine, uint64_t ns);
unsigned int fake_te_n_revokes(struct te_engine *engine);
unsigned int fake_te_n_revoke_waits(struct te_engine *engine);
/*
 * As if peers stood still in the middle of a copy: until they are free again,
 * revocations time out, soon, or do not even that.
 */
enum fake_te_hold { FAKE_TE_FREE, FAKE_TE_LATE, FAKE_TE_STUCK };
void fake_te_hold_revokes(enum fake_te_hold hold);

#endif
