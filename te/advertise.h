/* SPDX-License-Identifier: Apache-2.0 */
/* advertise.h - what we let a directory say of us */
#ifndef TE_ADVERTISE_H
#define TE_ADVERTISE_H

struct te_engine;
struct tei_entry;

/* Listening. Set-up. */
void tei_advertise(const struct te_engine *engine, struct tei_entry *out);

#endif
