/* SPDX-License-Identifier: Apache-2.0 */
/* news.c - a line of the log for what operators want to know of owners */
#include "base/log.h"
#include "store/server/state.h"

#define MIB (1024.0 * 1024)

void tes_server_tell_mount(const struct tes_server *s, bool kept)
{
	const struct tes_event *ev = s->call.event;
	const struct tes_server_link *link = s->call.link;
	const char *engine =
		link && link->session ? link->session->engine : NULL;

	LOG_INFO("master: owner %s lends %.1f MiB%s", engine ? engine : "?",
		 (double)ev->u.mount.size / MIB, kept ? ", as before" : "");
}

void tes_server_tell_owner(const struct tes_action *action)
{
	const char *engine = action->u.owner.engine;
	double s = (double)action->u.owner.silent_ms / 1000;

	switch (action->u.owner.news) {
	case TES_OWNER_SILENT:
		if (action->u.owner.left)
			LOG_WARN("master: the connection of owner %s ended: "
				 "its objects are misses until it is back",
				 engine);
		else
			LOG_WARN("master: owner %s is silent for %.1f s: its "
				 "objects are misses until it is back",
				 engine, s);
		break;
	case TES_OWNER_BACK:
		LOG_INFO("master: owner %s is back, with its objects", engine);
		break;
	case TES_OWNER_GONE:
		LOG_WARN("master: owner %s is given up after %.1f s: its "
			 "objects are gone",
			 engine, s);
		break;
	}
}
