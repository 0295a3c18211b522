/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the control port: the protocol, and our side as an owner
 *
 * Threads: control, unless said otherwise.
 */
#ifndef TE_CONTROL_CONTROL_H
#define TE_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "te/region/group.h"

#define TEI_CONTROL_VERSION 1u

struct te_engine;
struct tei_link;
struct tei_visitor;
struct Te__Description;
struct Te__GroupProof;
struct tei_arena;

extern const struct tei_frame_protocol tei_control_protocol;

void tei_control_init(struct te_engine *engine);
/* Listen, and complete the engine's name by the port bound. Set-up. */
int tei_control_listen(struct te_engine *engine, uint16_t port);
/* No visitor any more, and none comes. */
void tei_control_close(struct te_engine *engine);

/* Tell everybody who may see them of changed regions. Any thread. */
void tei_control_push_regions(struct te_engine *engine);

/* Answers that come later, by links; no-ops once the visitor has left. */
void tei_control_connected(struct tei_link *link);
void tei_control_dropped(struct tei_visitor *visitor, uint64_t id);
void tei_control_revoked(struct tei_visitor *visitor, uint64_t epoch);

/* What @mask may see, rails included, in @arena. Any thread. -ENOMEM. */
int tei_control_describe(struct te_engine *engine, tei_group_mask mask,
			 struct tei_arena *arena, struct Te__Description *out);

/*
 * Proofs of every group in @set for @side, in engine->arena. Returns how
 * many, -ENOMEM.
 */
int tei_control_proofs(struct te_engine *engine,
		       const struct tei_group_set *set,
		       const struct tei_group_challenge *challenge, char side,
		       struct Te__GroupProof ***out);

/* Count what frame.h reports. */
void tei_control_count_fault(struct te_engine *engine,
			     enum tei_frame_fault fault);

#endif
