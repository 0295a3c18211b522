/* SPDX-License-Identifier: Apache-2.0 */
/* advertise.h - what we let a directory say of us */
#ifndef TE_CONTROL_ADVERTISE_H
#define TE_CONTROL_ADVERTISE_H

struct te_engine;
struct tei_entry;

/* Listening. Any thread, not with mu held. */
void tei_advertise(const struct te_engine *engine, struct tei_entry *out);
/* An address of a rail may be another: the entry is written again if it is. */
void tei_advertise_again(struct te_engine *engine);

#endif
