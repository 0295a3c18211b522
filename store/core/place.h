/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - on which segment a replica goes */
#ifndef STORE_CORE_PLACE_H
#define STORE_CORE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tei_arena;
struct tes_core;
struct tes_core_replicate;
struct tes_event;
struct tes_mount;
struct tes_object;
struct tes_session;

/*
 * Objects of @size and more have no room on any live mount but on those in
 * @loose, perhaps: so a full pool of many mounts is not searched at every put.
 */
struct tes_tight {
	uint64_t size;
	struct tes_mount *loose[8];
	size_t n;
};

/* What the starts of one event want. */
struct tes_wish {
	const struct tes_core_replicate *how;
	const struct tes_session *writer;
	struct tes_mount **preferred; /* preferred[n_preferred] */
	size_t n_preferred;
	struct tes_mount *near; /* same_node: where the batch went so far */
};

/* @wish for the event's start. -ENOMEM: the arena is full. */
int tes_core_wish_init(struct tes_core *core, struct tes_wish *wish,
		       const struct tes_event *ev,
		       const struct tes_session *writer,
		       struct tei_arena *arena);
/*
 * Give @o, which has a size, one more replica, with number @replica. False:
 * no room on any mount that it is not on yet.
 */
bool tes_core_place(struct tes_core *core, struct tes_wish *wish,
		    struct tes_object *o, uint8_t replica);
/* The same on @m only. */
bool tes_core_place_on(struct tes_core *core, struct tes_mount *m,
		       struct tes_object *o, uint8_t replica);
/* Nothing is known that keeps @size bytes from being placed on @m. */
bool tes_core_mount_may_fit(const struct tes_mount *m, uint64_t size);
/* Something has become free on @m. */
void tes_core_loosen(struct tes_core *core, struct tes_mount *m);
/* There are other live mounts than before. */
void tes_core_loosen_all(struct tes_core *core);

#endif
