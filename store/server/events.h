/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - what is stored and removed, published over ZeroMQ
 *
 * A message has three parts: an empty topic, its number (8 bytes, big endian,
 * from 1) and a payload: events_pack.h. An event that was dropped because the
 * queue was full leaves a gap in the numbers. A subscriber gets no events from
 * before it subscribed; a number that is lower than the one before is of a new
 * life of the master.
 *
 * The master's loop only copies an event into a queue; a thread of its own
 * packs and sends. Whether there are subscribers, and how slow they are, the
 * loop does not know.
 */
#ifndef STORE_SERVER_EVENTS_H
#define STORE_SERVER_EVENTS_H

#include "store/core/core.h"
#include "store/server/settings.h"

struct tes_events;

struct tes_events_figures {
	bool enabled;
	uint64_t batches, events; /* published */
	uint64_t dropped;         /* the queue was full, or memory */
	uint64_t unparsed;        /* keys that are no numbers of blocks */
	uint64_t sequence;        /* of the last message */
	uint64_t queued;
};

/*
 * Starts publishing. 0 and *out NULL: not enabled, or without endpoint or
 * backend id. Else a negative errno, with @error naming the setting.
 */
int tes_events_start(const struct tes_server_settings *settings,
		     struct tes_events **out, char error[TEI_CONF_ERROR_LEN]);
/* Publishes what waits, takes a moment. NULL is fine. */
void tes_events_stop(struct tes_events *e);

/* Returns where subscribers find it, with its port; NULL: @e is NULL. */
const char *tes_events_endpoint(const struct tes_events *e);

/* A tes_core_watch_fn; @events is a struct tes_events. */
void tes_events_note(enum tes_core_news news, const struct tes_core_item *item,
		     void *events);

/* Threads: any. @e may be NULL. */
void tes_events_figures(struct tes_events *e, struct tes_events_figures *out);

#endif
