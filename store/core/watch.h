/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - what those who watch are told */
#ifndef STORE_CORE_WATCH_H
#define STORE_CORE_WATCH_H

#include "store/core/core.h"
#include "store/core/state.h"

struct tei_object;

/* @o, which is READY, has become so or is about to go. */
void tei_core_told(const struct tei_core *core, const struct tei_object *o,
		   enum tei_core_news news);
static inline void tei_core_tell(const struct tei_core *core,
				 const struct tei_object *o,
				 enum tei_core_news news)
{
	if (core->config.watch)
		tei_core_told(core, o, news);
}

#endif
