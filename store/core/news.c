/* SPDX-License-Identifier: Apache-2.0 */
/*
 * news.c - owners that fall silent, are back, are gone
 *
 * What came to nothing within a step is not told: the state at its end is.
 */
#include "store/core/news.h"

#include "store/core/mount.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/state.h"

static bool lends_memory(const struct tes_session *s)
{
	tei_list_for_each (link, &s->mounts)
		if (!tei_list_entry(link, struct tes_mount, link)->dropping)
			return true;
	return false;
}

void tes_core_news_note(struct tes_core *core, struct tes_session *s)
{
	if (!lends_memory(s) || !tei_list_empty(&s->news))
		return;
	tei_list_add_tail(&core->news, &s->news);
}

static void report_owner(const struct tes_core *core, struct tes_session *s,
			 struct tes_actions *out)
{
	struct tes_action *a =
		tes_core_action_add(out, TES_ACTION_OWNER, s->id);

	a->u.owner.engine = s->engine;
	a->u.owner.left = s->left;
	a->u.owner.silent_ms = core->now_ms - s->seen_ms;
	switch ((enum tes_session_state)s->state) {
	case TES_SESSION_LIVE:
		a->u.owner.news = TES_OWNER_BACK;
		break;
	case TES_SESSION_SUSPECT:
		a->u.owner.news = TES_OWNER_SILENT;
		break;
	case TES_SESSION_GONE:
		a->u.owner.news = TES_OWNER_GONE;
		break;
	}
}

void tes_core_news_flush(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->news)) {
		struct tes_session *s = tei_list_entry(
			core->news.next, struct tes_session, news);

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		report_owner(core, s, out);
		tei_list_del(&s->news);
	}
}
