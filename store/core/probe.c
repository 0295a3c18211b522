/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - a reader says that an owner does not answer: ask it ourselves
 *
 * Nobody's word makes an owner suspect, only its own silence: a report has the
 * owner asked on its heartbeat connection, where data never waits, and who
 * does not answer in time is suspect until its next sign of life. So a report
 * costs a healthy owner one message, however many there are of them.
 *
 * Time in which the master itself did not look is not the owner's: after such
 * a gap everybody who was asked has the whole time once more.
 */
#include "store/core/probe.h"

#include <string.h>

#include "store/core/object.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/state.h"

#define GAP_MS 200 /* between two steps; ticks come every 100 */

static struct tes_session *session_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_session, probing);
}

/* Whether it can be asked, and was not just now. */
static bool may_probe(const struct tes_core *core, const struct tes_session *s)
{
	if (!s->probes || !s->beating || s->state != TES_SESSION_LIVE ||
	    !tei_list_empty(&s->probing))
		return false;
	return !s->probe ||
	       s->probe_ms + TES_CORE_PROBE_EVERY_MS <= core->now_ms;
}

void tes_core_on_report(struct tes_core *core, const struct tes_event *ev)
{
	const uint8_t *life = ev->u.report.incarnation;
	struct tei_hash_node *n;

	core->figures.reports_total++;
	if (!life)
		return;
	n = tei_hash_first(&core->lives,
			   tes_core_hash(core, life, TES_CORE_ID_LEN));
	for (; n; n = tei_hash_next(&core->lives, n)) {
		struct tes_session *s =
			TEI_CONTAINER(n, struct tes_session, by_life);

		if (memcmp(s->incarnation, life, TES_CORE_ID_LEN) == 0 &&
		    may_probe(core, s))
			tei_list_add_tail(&core->unprobed, &s->probing);
	}
}

void tes_core_on_probed(struct tes_session *s, uint64_t probe)
{
	if (s->probe == probe)
		tei_list_del(&s->probing);
}

void tes_core_probe_cease(struct tes_session *s)
{
	tei_list_del(&s->probing);
}

void tes_core_probes_gap(struct tes_core *core, uint64_t passed_ms)
{
	if (passed_ms > GAP_MS)
		core->gap_ms = core->now_ms;
}

void tes_core_probes_tick(struct tes_core *core)
{
	while (!tei_list_empty(&core->probed)) {
		struct tes_session *s = session_at(core->probed.next);
		uint64_t from = s->probe_ms;

		if (from < core->gap_ms)
			from = core->gap_ms;
		if (from + TES_CORE_PROBE_MS > core->now_ms)
			return;
		tei_list_del(&s->probing);
		core->figures.probes_failed_total++;
		tes_core_session_suspect(core, s);
	}
}

void tes_core_probes_flush(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->unprobed)) {
		struct tes_session *s = session_at(core->unprobed.next);

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		s->probe++;
		s->probe_ms = core->now_ms;
		tes_core_action_add(out, TES_ACTION_PROBE, s->id)->u.probe =
			s->probe;
		tei_list_del(&s->probing);
		tei_list_add_tail(&core->probed, &s->probing);
		core->figures.probes_total++;
	}
}
