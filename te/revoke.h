/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoke.h - ending access epochs
 *
 * An epoch ends in three steps: the number grows (from then on no slice of
 * the old one gets at a region), the target links of the old one are dropped
 * (so what had begun ends), and when the last is gone the caller returns. The
 * guest is told at once.
 */
#ifndef TE_REVOKE_H
#define TE_REVOKE_H

struct te_engine;

/* End the epochs of all and raise the floor; waits for nothing. Control. */
void tei_revoke_all(struct te_engine *engine);
/* A link is gone: is a revocation complete? Control. */
void tei_revokes_check(struct te_engine *engine);

#endif
