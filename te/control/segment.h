/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - one life of a peer, opened and counted
 */
#ifndef TE_CONTROL_SEGMENT_H
#define TE_CONTROL_SEGMENT_H

#include <stdint.h>

#include <te/te.h>

struct tei_peer;

struct tei_segment {
	te_segment_id id;
	struct tei_peer *peer; /* not owned */
	/* All guarded by engine->mu. */
	uint32_t
		life; /* 0: the peer was never met, its first life it will be */
	uint32_t opens;
	uint8_t incarnation[TE_INCARNATION_LEN];
};

struct te_engine;
/* It is of its peer's life, which has just begun. Called with mu. */
void tei_segment_meet(struct tei_segment *segment);
/* With the engine: those that were never closed. */
void tei_segments_free(struct te_engine *engine);

#endif
