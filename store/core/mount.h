/* SPDX-License-Identifier: Apache-2.0 */
/* mount.h - segments that owners lend to the pool */
#ifndef STORE_CORE_MOUNT_H
#define STORE_CORE_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"
#include "store/core/space.h"

struct tei_drain;
struct tei_session;

struct tei_mount {
	struct tei_space space;
	struct tei_session *owner;
	struct tei_list link;      /* owner's mounts */
	struct tei_list drop_link; /* core's dropping */
	struct tei_list parked;    /* objects while the owner is suspect */
	uint64_t serial;           /* grows in mount order */
	uint64_t base, size;       /* as mounted */
	uint8_t id[TEI_CORE_ID_LEN];
	bool dropping;
	uint8_t status;        /* enum tei_core_segment_status */
	bool offering;         /* what it holds is not all known yet */
	bool sync_begun;       /* of it a part was told again */
	struct tei_list syncs; /* core's syncs: it is due */
	struct tei_list grace; /* core's graces: it goes at leave_ms */
	uint64_t leave_ms;
	struct tei_drain *drain; /* that empties it; or NULL */
	char name[];
};

/* Not one that is being dropped; NULL: none. */
struct tei_mount *tei_core_mount_find(const struct tei_core *core,
				      const uint8_t *id);
void tei_core_on_mount(struct tei_core *core, const struct tei_event *ev,
		       struct tei_session *s, struct tei_action *reply);
void tei_core_on_unmount(struct tei_core *core, const struct tei_event *ev,
			 struct tei_session *s, struct tei_action *reply);
/* Its owner is LIVE and it is not being dropped. */
bool tei_core_mount_live(const struct tei_mount *m);
/* Something new may be placed there. */
bool tei_core_mount_takes(const struct tei_mount *m);
/* Those whose grace is over go. */
void tei_core_graces_tick(struct tei_core *core);
/* Some mount that takes something has room for @size bytes when empty. */
bool tei_core_mounts_hold(const struct tei_core *core, uint64_t size);
/* Some would, but its owner is silent or has not yet offered all it has. */
bool tei_core_mounts_to_come(const struct tei_core *core, uint64_t size);
/* NULL: it is gone, or going. */
struct tei_mount *tei_core_mount_of(const struct tei_core *core,
				    uint64_t serial);
/* Some mount, if it were empty, would have room for an extent of @size. */
bool tei_core_mounts_fit(struct tei_core *core, uint64_t size);
/* Start to drop @m: absent from now on, its extents go in ticks. */
void tei_core_mount_drop(struct tei_core *core, struct tei_mount *m);
/* Drop extents of dropping mounts, at most *@budget of them. */
void tei_core_drop_some(struct tei_core *core, unsigned int *budget);
/* Count @m's bytes as usable (@sign 1) or no longer so (-1). */
void tei_core_mount_count(struct tei_core *core, const struct tei_mount *m,
			  int sign);

#endif
