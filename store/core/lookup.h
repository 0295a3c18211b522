/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - what readers ask: look-up, release, exist, size */
#ifndef STORE_CORE_LOOKUP_H
#define STORE_CORE_LOOKUP_H

struct tes_action;
struct tes_core;
struct tes_event;
struct tes_session;

/* Columns of @reply are there, zeroed. */
void tes_core_on_lookup(struct tes_core *core, const struct tes_event *ev,
			const struct tes_session *s, struct tes_action *reply);
void tes_core_on_release(struct tes_core *core, const struct tes_event *ev,
			 const struct tes_session *s);
void tes_core_on_exist(struct tes_core *core, const struct tes_event *ev,
		       const struct tes_session *s, struct tes_action *reply);
void tes_core_on_size(struct tes_core *core, const struct tes_event *ev,
		      const struct tes_session *s, struct tes_action *reply);

#endif
