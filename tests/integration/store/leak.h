/* SPDX-License-Identifier: Apache-2.0 */
/* leak.h - an engine that learns what it may not know */
#ifndef TESTS_INTEGRATION_STORE_LEAK_H
#define TESTS_INTEGRATION_STORE_LEAK_H

struct te_engine;

/*
 * Let @stranger believe of the engine @owner what @member knows of it, keys
 * of its regions included. Both have opened its segment.
 */
void leak_regions(struct te_engine *member, struct te_engine *stranger,
		  const char *owner);

#endif
