/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.h - the control pages of an endpoint: marks, slots and the fence
 *
 * The target makes them, both sides map them. An initiator marks the target's
 * memory before it touches it, and then checks whether it still may:
 *
 *   initiator                            target
 *   mark = odd            (seq_cst)      fence = 1, or slot = 0  (seq_cst)
 *   fence == 0, slot == generation?      mark is even, or has changed since?
 *   copy one chunk                       then: quiet
 *   mark = even           (release)
 *
 * Whichever comes second sees the other: a chunk that is begun after the fence
 * was set is not copied, and one that was begun before is waited for. So at
 * most one chunk is ever late, also of a process that was stopped in the middle
 * of it; and one that is dead is quiet.
 *
 * Copies that GPUs make have a mark of their own, which is odd until they have
 * ended: many of them are begun as one chunk. The end of the initiator's socket
 * does not end them, that of its process does: its driver has stopped the GPU.
 *
 * Nothing that the other side writes here is trusted: the target reads only the
 * marks, the initiator only `fence` and the slots, at indices it has checked.
 */
#ifndef SHM_FENCE_H
#define SHM_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/shm/wire.h"

#define SHM_PAGES_LEN 16384
#define SHM_SLOTS     2024 /* regions that an initiator may use at once */

struct shm_pages {
	uint8_t token[SHM_TOKEN_LEN]; /* the target's; a probe looks for it */
	_Alignas(64) _Atomic uint64_t mark;
	_Atomic uint64_t gpu_mark; /* the same, of copies that a GPU makes */
	_Alignas(64) _Atomic uint32_t fence;
	_Alignas(64) _Atomic uint64_t slot[SHM_SLOTS]; /* generation; 0: none */
};
_Static_assert(sizeof(struct shm_pages) == SHM_PAGES_LEN, "on the wire");

/* ---- initiator ---- */

/*
 * Marks a chunk as begun: nothing may be touched before. @word: mark or
 * gpu_mark; *@mark is our copy of it, which is even.
 */
static inline void tei_shm_touch_begin(_Atomic uint64_t *word, uint64_t *mark)
{
	atomic_store(word, ++*mark);
}

static inline void tei_shm_touch_end(_Atomic uint64_t *word, uint64_t *mark)
{
	atomic_store_explicit(word, ++*mark, memory_order_release);
}

/* Tells whether the target has fenced; valid only between begin and end. */
static inline bool tei_shm_is_fenced(struct shm_pages *p)
{
	return atomic_load(&p->fence) != 0;
}

static inline bool tei_shm_is_granted(struct shm_pages *p, uint32_t slot,
				      uint64_t generation)
{
	return atomic_load(&p->slot[slot]) == generation;
}

/* ---- target ---- */

static inline void tei_shm_set_fence(struct shm_pages *p)
{
	atomic_store(&p->fence, 1);
}

static inline void tei_shm_grant(struct shm_pages *p, uint32_t slot,
				 uint64_t generation)
{
	atomic_store(&p->slot[slot], generation);
}

static inline void tei_shm_revoke(struct shm_pages *p, uint32_t slot)
{
	atomic_store(&p->slot[slot], 0);
}

/* Both marks, as they were right after a fence or a revocation. */
struct shm_seen {
	uint64_t mark, gpu_mark;
};

static inline struct shm_seen tei_shm_see(struct shm_pages *p)
{
	return (struct shm_seen){atomic_load(&p->mark),
				 atomic_load(&p->gpu_mark)};
}

/*
 * Tell whether the chunk that the initiator was in the middle of then, if any,
 * is over; and the copies that a GPU made for it.
 */
static inline bool tei_shm_is_past(struct shm_pages *p, struct shm_seen seen)
{
	return !(seen.mark & 1) || atomic_load(&p->mark) != seen.mark;
}

static inline bool tei_shm_is_gpu_past(struct shm_pages *p,
				       struct shm_seen seen)
{
	return !(seen.gpu_mark & 1) ||
	       atomic_load(&p->gpu_mark) != seen.gpu_mark;
}

#endif
