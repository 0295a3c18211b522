/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h - how much work is left to a step, so that none takes long
 *
 * In objects looked at, some 40 ns each. Ticks hand one from subject to
 * subject; core `effort` is that of an event's starts.
 */
#ifndef STORE_CORE_BUDGET_H
#define STORE_CORE_BUDGET_H

#include <stddef.h>

/* All of it when @cost is more. */
static inline void tes_core_spend(unsigned int *budget, size_t cost)
{
	*budget -= *budget < cost ? *budget : (unsigned int)cost;
}

#endif
