/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - what readers ask: look-up, release, exist, size */
#ifndef STORE_CORE_LOOKUP_H
#define STORE_CORE_LOOKUP_H

struct tei_action;
struct tei_core;
struct tei_event;
struct tei_session;

/* Columns of @reply are there, zeroed. */
void tei_core_on_lookup(struct tei_core *core, const struct tei_event *ev,
			const struct tei_session *s, struct tei_action *reply);
void tei_core_on_release(struct tei_core *core, const struct tei_event *ev,
			 const struct tei_session *s);
void tei_core_on_exist(struct tei_core *core, const struct tei_event *ev,
		       const struct tei_session *s, struct tei_action *reply);
void tei_core_on_size(struct tei_core *core, const struct tei_event *ev,
		      const struct tei_session *s, struct tei_action *reply);

#endif
