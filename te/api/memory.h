/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - what te_memory_alloc() gave and nobody freed */
#ifndef TE_API_MEMORY_H
#define TE_API_MEMORY_H

struct te_engine;

/* With the engine. */
void tei_memories_free(struct te_engine *engine);

#endif
