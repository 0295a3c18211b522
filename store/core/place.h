/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - on which segment a replica goes */
#ifndef STORE_CORE_PLACE_H
#define STORE_CORE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tei_arena;
struct tei_core;
struct tei_core_replicate;
struct tei_event;
struct tei_mount;
struct tei_object;
struct tei_session;

/*
 * Objects of @size and more have no room on any live mount but on those in
 * @loose, perhaps: so a full pool of many mounts is not searched at every put.
 */
struct tei_tight {
	uint64_t size;
	struct tei_mount *loose[8];
	size_t n;
};

/* What the starts of one event want. */
struct tei_wish {
	const struct tei_core_replicate *how;
	const struct tei_session *writer;
	struct tei_mount **preferred; /* preferred[n_preferred] */
	size_t n_preferred;
	struct tei_mount *near; /* same_node: where the batch went so far */
};

/* @wish for the event's start. -ENOMEM: the arena is full. */
int tei_core_wish_init(struct tei_core *core, struct tei_wish *wish,
		       const struct tei_event *ev,
		       const struct tei_session *writer,
		       struct tei_arena *arena);
/*
 * Give @o, which has a size, one more replica, with number @replica. False:
 * no room on any mount that it is not on yet.
 */
bool tei_core_place(struct tei_core *core, struct tei_wish *wish,
		    struct tei_object *o, uint8_t replica);
/* The same on @m only. */
bool tei_core_place_on(struct tei_core *core, struct tei_mount *m,
		       struct tei_object *o, uint8_t replica);
/* Nothing is known that keeps @size bytes from being placed on @m. */
bool tei_core_mount_may_fit(const struct tei_mount *m, uint64_t size);
/* Something has become free on @m. */
void tei_core_loosen(struct tei_core *core, struct tei_mount *m);
/* There are other live mounts than before. */
void tei_core_loosen_all(struct tei_core *core);

#endif
