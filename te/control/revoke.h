/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoke.h - ending access epochs
 *
 * An epoch ends in three steps: the number grows (from then on no slice of
 * the old one gets at a region), the target links of the old one are dropped
 * (so what had begun ends), and when the last is gone the caller returns and
 * the guest is told. Not before: it takes the news for a promise that nothing
 * of the old epoch can land any more.
 */
#ifndef TE_CONTROL_REVOKE_H
#define TE_CONTROL_REVOKE_H

#include <stdbool.h>

struct te_engine;
struct tei_guest;

/* Links of an epoch that has ended. Control. */
bool tei_guest_has_old_links(const struct tei_guest *guest);
/* Tell the guest of its new epoch once nothing of the old one is left. */
void tei_guest_settle(struct tei_guest *guest);
/* End the epochs of all and raise the floor; waits for nothing. Control. */
void tei_revoke_all(struct te_engine *engine);
/* A link is gone: is a revocation complete? Control. */
void tei_revokes_check(struct te_engine *engine);

#endif
