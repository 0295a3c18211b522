/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - owners that may be silent are asked */
#ifndef STORE_CORE_PROBE_H
#define STORE_CORE_PROBE_H

#include <stdint.h>

struct tei_actions;
struct tei_core;
struct tei_event;
struct tei_session;

/*
 * Who was asked and has not answered for so long is suspect; how often one is
 * asked.
 */
#define TEI_CORE_PROBE_MS       300
#define TEI_CORE_PROBE_EVERY_MS 250

void tei_core_on_report(struct tei_core *core, const struct tei_event *ev);
void tei_core_on_probed(struct tei_session *s, uint64_t probe);
/* It has shown that it lives, or cannot be asked any more. */
void tei_core_probe_cease(struct tei_session *s);
/* So long since the last step; core->now_ms is set. */
void tei_core_probes_gap(struct tei_core *core, uint64_t passed_ms);
/* Who has not answered in time is suspect. */
void tei_core_probes_tick(struct tei_core *core);
/* Probes that are due, as far as the arena has room. */
void tei_core_probes_flush(struct tei_core *core, struct tei_actions *out);

#endif
