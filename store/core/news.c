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

static bool lends(const struct tei_session *s)
{
	tei_list_for_each (link, &s->mounts)
		if (!tei_list_entry(link, struct tei_mount, link)->dropping)
			return true;
	return false;
}

void tei_core_news_note(struct tei_core *core, struct tei_session *s)
{
	if (!lends(s) || !tei_list_empty(&s->news))
		return;
	tei_list_add_tail(&core->news, &s->news);
}

static void tell(const struct tei_core *core, struct tei_session *s,
		 struct tei_actions *out)
{
	struct tei_action *a =
		tei_core_action_add(out, TEI_ACTION_OWNER, s->id);

	a->u.owner.engine = s->engine;
	a->u.owner.left = s->left;
	a->u.owner.silent_ms = core->now_ms - s->seen_ms;
	switch ((enum tei_session_state)s->state) {
	case TEI_SESSION_LIVE:
		a->u.owner.news = TEI_OWNER_BACK;
		break;
	case TEI_SESSION_SUSPECT:
		a->u.owner.news = TEI_OWNER_SILENT;
		break;
	case TEI_SESSION_GONE:
		a->u.owner.news = TEI_OWNER_GONE;
		break;
	}
}

void tei_core_news_flush(struct tei_core *core, struct tei_actions *out)
{
	while (!tei_list_empty(&core->news)) {
		struct tei_session *s = tei_list_entry(
			core->news.next, struct tei_session, news);

		if (tei_core_actions_reserve(out, 1) < 0)
			return;
		tell(core, s, out);
		tei_list_del(&s->news);
	}
}
