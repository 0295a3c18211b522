/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_pack.h - a message of events as MessagePack
 *
 * [timestamp in ms, [event ...], 0], an event being a map. What is the same in
 * all events of a kind is packed once.
 */
#ifndef STORE_SERVER_EVENTS_PACK_H
#define STORE_SERVER_EVENTS_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/server/events_queue.h"

struct tes_events_bytes {
	char *at; /* at[len] */
	size_t len, room;
};

struct tes_events_packer {
	bool legacy, object_key;
	struct tes_events_bytes same[2]; /* by enum tes_core_news */
	struct tes_events_bytes message;
};

/*
 * Initialises a packer of events with these fields. -ENOMEM: as after fini().
 */
int tes_events_packer_init(struct tes_events_packer *p, const char *backend_id,
			   bool legacy, bool object_key);
void tes_events_packer_fini(struct tes_events_packer *p);

/*
 * Tells whether @record is published: its key is the number of a block, in
 * *@hash, or is itself published. *@unparsed: it is no such number.
 */
bool tes_events_tells(const struct tes_events_packer *p,
		      const struct tes_events_record *record, uint64_t *hash,
		      bool *unparsed);

/*
 * @records[n] into p->message; the first gets the number @event_id. -ENOMEM.
 */
int tes_events_pack(struct tes_events_packer *p, uint64_t timestamp_ms,
		    const struct tes_events_record *records, size_t n,
		    uint64_t event_id);

#endif
