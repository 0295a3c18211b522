/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - memory for one message: many small pieces, freed at once
 *
 * Also a protobuf-c allocator: decoded messages live until reset() and are
 * never freed one by one. Total size is capped, so a message cannot make the
 * decoder take more than the cap.
 *
 * Threads: none of its own.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

struct tei_arena_block;

/* Must not move in memory once initialised: pb points back to it. */
struct tei_arena {
	ProtobufCAllocator pb; /* pass &arena->pb to <message>__unpack() */
	struct tei_arena_block *blocks; /* newest first */
	size_t used, room;              /* in the newest block */
	size_t total, cap;              /* bytes over all blocks */
};

/* Takes no memory yet. @cap: most bytes it may ever hold at a time. */
void tei_arena_init(struct tei_arena *a, size_t cap);
void tei_arena_fini(struct tei_arena *a);
/* Initialises @to with what @from has, which is empty then. */
void tei_arena_move(struct tei_arena *to, struct tei_arena *from);
/* Forget everything; keeps one block of up to 64 KiB for the next message. */
void tei_arena_reset(struct tei_arena *a);
/* 16-byte aligned, not zeroed; NULL: cap reached or out of memory. */
void *tei_arena_alloc(struct tei_arena *a, size_t size);
void *tei_arena_calloc(struct tei_arena *a, size_t n, size_t size);

#endif
