/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - what those who watch are told */
#ifndef STORE_CORE_WATCH_H
#define STORE_CORE_WATCH_H

#include "store/core/core.h"
#include "store/core/state.h"

struct tes_object;

/* @o, which is READY, has become so or is about to go. */
void tes_core_told(const struct tes_core *core, const struct tes_object *o,
		   enum tes_core_news news);
static inline void tes_core_tell(const struct tes_core *core,
				 const struct tes_object *o,
				 enum tes_core_news news)
{
	if (core->config.watch)
		tes_core_told(core, o, news);
}

#endif
