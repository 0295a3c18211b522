/* SPDX-License-Identifier: Apache-2.0 */
/*
 * later.c - requests whose reply comes with a later step
 *
 * The core answers some only when owners have confirmed something. Of those
 * the frame's id and the columns' length are kept, by the event's cookie, as
 * long as the connection is there.
 */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/server/state.h"

struct later {
	struct tei_hash_node node; /* server's laters */
	struct tei_list link;      /* the link's */
	struct tes_server_link *from;
	uint64_t cookie;
	struct tei_frame frame;
	struct tes_event event;
};

/* What is left to count of an event that is over: it was no mere revoke. */
static const uint32_t some_written = 1;

static void forget(struct tes_server *s, struct later *later)
{
	tei_hash_remove(&s->laters, &later->node);
	tei_list_del(&later->link);
	tei_free(later);
}

void tes_server_later(struct tes_server *s)
{
	struct tes_server_call *call = &s->call;
	struct later *later = tei_calloc(1, sizeof(*later));

	if (!later) {
		LOG_ERROR("master: out of memory for a reply");
		tei_frame_refuse_for_now(call->link->conn, "out of memory");
		return;
	}
	later->from = call->link;
	later->cookie = s->cookie;
	later->frame.type = call->frame->type;
	later->frame.id = call->frame->id;
	later->event.type = call->event->type;
	later->event.n = call->event->n;
	if (later->event.type == TES_EVENT_PUT_END)
		later->event.u.put_end.written = &some_written;
	tei_hash_insert(&s->laters, &later->node, later->cookie);
	tei_list_add_tail(&call->link->laters, &later->link);
}

void tes_server_reply_later(struct tes_server *s,
			    const struct tes_action *action)
{
	struct tes_server_call call = s->call;
	struct tei_hash_node *node = tei_hash_first(&s->laters, action->cookie);
	struct later *later;

	if (!node)
		return; /* the connection has gone */
	later = TEI_CONTAINER(node, struct later, node);
	s->call = (struct tes_server_call){
		later->from,
		&later->frame,
		&later->event,
	};
	tes_server_reply(s, action);
	s->call = call;
	forget(s, later);
}

void tes_server_laters_drop(struct tes_server_link *link)
{
	while (!tei_list_empty(&link->laters))
		forget(link->server,
		       tei_list_entry(link->laters.next, struct later, link));
}
