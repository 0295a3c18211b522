/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - owners that may be silent are asked */
#ifndef STORE_CORE_PROBE_H
#define STORE_CORE_PROBE_H

#include <stdint.h>

struct tes_actions;
struct tes_core;
struct tes_event;
struct tes_session;

/*
 * Who was asked and has not answered for so long is suspect; how often one is
 * asked.
 */
#define TES_CORE_PROBE_MS       300
#define TES_CORE_PROBE_EVERY_MS 250

void tes_core_on_report(struct tes_core *core, const struct tes_event *ev);
void tes_core_on_probed(struct tes_session *s, uint64_t probe);
/* It has shown that it lives, or cannot be asked any more. */
void tes_core_probe_cease(struct tes_session *s);
/* So long since the last step; core->now_ms is set. */
void tes_core_probes_gap(struct tes_core *core, uint64_t passed_ms);
/* Who has not answered in time is suspect. */
void tes_core_probes_tick(struct tes_core *core);
/* Probes that are due, as far as the arena has room. */
void tes_core_probes_flush(struct tes_core *core, struct tes_actions *out);

#endif
