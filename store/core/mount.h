/* SPDX-License-Identifier: Apache-2.0 */
/* mount.h - segments that owners lend to the pool */
#ifndef STORE_CORE_MOUNT_H
#define STORE_CORE_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "store/core/core.h"
#include "store/core/space.h"

struct tes_drain;
struct tes_session;

struct tes_mount {
	struct tes_space space;
	struct tes_session *owner;
	struct tei_list link;      /* owner's mounts */
	struct tei_list drop_link; /* core's dropping */
	struct tei_list parked;    /* objects while the owner is suspect */
	uint64_t serial;           /* grows in mount order */
	uint64_t base, size;       /* as mounted */
	uint8_t id[TES_CORE_ID_LEN];
	bool dropping;
	uint8_t status;        /* enum tes_core_segment_status */
	bool offering;         /* what it holds is not all known yet */
	bool sync_begun;       /* of it a part was told again */
	struct tei_list syncs; /* core's syncs: it is due */
	struct tei_list grace; /* core's graces: it goes at leave_ms */
	uint64_t leave_ms;
	struct tes_drain *drain; /* that empties it; or NULL */
	char name[];
};

/* Not one that is being dropped; NULL: none. */
struct tes_mount *tes_core_mount_find(const struct tes_core *core,
				      const uint8_t *id);
void tes_core_on_mount(struct tes_core *core, const struct tes_event *ev,
		       struct tes_session *s, struct tes_action *reply);
void tes_core_on_unmount(struct tes_core *core, const struct tes_event *ev,
			 struct tes_session *s, struct tes_action *reply);
/* Its owner is LIVE and it is not being dropped. */
bool tes_core_mount_live(const struct tes_mount *m);
/* Something new may be placed there. */
bool tes_core_mount_takes(const struct tes_mount *m);
/* Those whose grace is over go. */
void tes_core_graces_tick(struct tes_core *core);
/* Some mount that takes something has room for @size bytes when empty. */
bool tes_core_mounts_hold(const struct tes_core *core, uint64_t size);
/* Some would, but its owner is silent or has not yet offered all it has. */
bool tes_core_mounts_to_come(const struct tes_core *core, uint64_t size);
/* NULL: it is gone, or going. */
struct tes_mount *tes_core_mount_of(const struct tes_core *core,
				    uint64_t serial);
/* Some mount, if it were empty, would have room for an extent of @size. */
bool tes_core_mounts_fit(struct tes_core *core, uint64_t size);
/* Start to drop @m: absent from now on, its extents go in ticks. */
void tes_core_mount_drop(struct tes_core *core, struct tes_mount *m);
/* Drop extents of dropping mounts, at most *@budget of them. */
void tes_core_drop_some(struct tes_core *core, unsigned int *budget);
/* Count @m's bytes as usable (@sign 1) or no longer so (-1). */
void tes_core_mount_count(struct tes_core *core, const struct tes_mount *m,
			  int sign);

#endif
