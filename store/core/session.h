/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - clients, and the segments that they mount */
#ifndef STORE_CORE_SESSION_H
#define STORE_CORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "store/core/core.h"
#include "store/core/fence.h"
#include "store/core/space.h"

struct tes_actions;
struct tes_core;
struct tes_drain;
struct tes_event;
struct tes_announcement;
struct tes_tenant;

enum tes_session_state {
	TES_SESSION_LIVE,
	TES_SESSION_SUSPECT,
	TES_SESSION_GONE, /* in no table; freed when its builds are settled */
};

struct tes_session {
	struct tei_hash_node by_id, by_client, by_incarnation;
	tes_session_id id;
	uint8_t state;
	bool left;      /* main connection closed */
	bool displaced; /* has lost segments to who is back, as is to be told */
	bool beating;   /* heartbeat came since it joined: fences may go */
	bool buries;    /* learns what it has, and buries it */
	bool probes;    /* answers probes */
	bool executes;
	unsigned int n_tasks;  /* TES_CORE_TASKS_EACH at most */
	struct tei_list tasks; /* it executes */
	struct tei_list asked; /* tasks that it has asked for, by of_asker */
	size_t n_waiting;      /* of them, PENDING */
	uint8_t client_id[TES_CORE_ID_LEN];
	uint8_t incarnation[TES_CORE_ID_LEN];
	struct tei_list age;     /* core's live, silent, left, idle or gone */
	struct tei_list close;   /* core's closes: an action is due */
	struct tei_list changed; /* core's changed: operators learn of it */
	struct tei_list mounts, builds;
	unsigned int n_mounts;      /* with those that are being dropped */
	uint64_t source;            /* where the client has come from */
	struct tei_list fences;     /* owner's */
	uint64_t seen_ms;           /* left: when it left */
	uint64_t joined_generation; /* counter at its last join */
	uint64_t named_by;          /* reply serial */
	uint32_t named_as;          /* index in that reply's segments */
	uint64_t host;              /* number for its machine */
	struct tes_core_hold held;  /* in an earlier life, as it has proved */
	struct tes_core_hold hold;  /* now; none: not drawn since a mount came
				     * or went */
	struct tes_tenant *tenant;  /* keys are this tenant's */
	struct tes_graves evicted;  /* notices to be sent */
	struct tei_list notices;    /* core's notices: evicted is not empty */
	struct tei_list probing;    /* core's unprobed or probed, or none */
	uint64_t probe, probe_ms;   /* the last one, and when it was sent */
	struct tes_announcement *announcement; /* valid in step */
	uint64_t announced_by;                 /* serial */
	char engine[];
};

struct tes_session *tes_core_session_find(const struct tes_core *core,
					  tes_session_id id);
/* 1 .. 65535, of the client: also after it has come back. Few share theirs. */
uint16_t tes_core_client_number(const struct tes_session *s);
/* Probes @s, unless it was probed just now: somebody has doubts. */
void tes_core_session_doubt(struct tes_core *core, struct tes_session *s);
/*
 * Names of owners. Sessions of the same engine share theirs. Who lends nothing
 * has none: a hello costs nothing, and anybody may say it under any name.
 *
 * A name is its first owner's until that one is gone. While it is silent
 * another one may lend memory under the name, since it may have come in its
 * place, and loses the name when the first is back. To a young master owners of
 * earlier lives are to come back: who proves that it had the name of its engine
 * there takes it from who had it before that or never. What somebody has from a
 * young master is therefore worth less to the next one than an earlier hold.
 *
 * name_owner() finds who keeps @s from lending under @name; NULL: nobody.
 */
struct tes_session *tes_core_name_owner(const struct tes_core *core,
					const struct tes_session *s,
					const char *name);
/* Notes a sign of life. */
void tes_core_session_seen(struct tes_core *core, struct tes_session *s);
/* GONE: out of the tables at once, its mounts and builds in ticks. */
void tes_core_session_end(struct tes_core *core, struct tes_session *s);
void tes_core_session_free(struct tes_core *core, struct tes_session *s);
/* Expire by time; settle what gone sessions left. */
void tes_core_sessions_tick(struct tes_core *core, unsigned int *budget);

/* ---- segments that owners lend to the pool ---- */

struct tes_mount {
	struct tes_space space;
	struct tes_session *owner;
	struct tei_hash_node by_name; /* in core's names: first of its name */
	struct tei_list namesakes;    /* ring of a name, in mount order */
	struct tei_list link;         /* owner's mounts */
	struct tei_list drop_link;    /* core's dropping */
	struct tei_list parked;       /* objects while the owner is suspect */
	uint64_t serial;              /* grows in mount order */
	uint64_t claimed;             /* core's claims when its name last was */
	uint64_t base, size;          /* as mounted */
	uint8_t id[TES_CORE_ID_LEN];
	bool dropping;
	uint8_t status;          /* enum tes_core_segment_status */
	bool offering;           /* offers of its objects are not complete */
	bool resync_begun;       /* part of a resync was sent */
	struct tei_list resyncs; /* core's syncs: it is due */
	struct tei_list grace;   /* core's graces: it goes at leave_ms */
	uint64_t leave_ms;
	struct tes_drain *drain; /* empties it; or NULL */
	char name[];
};

/*
 * Goes through the mounts called @name that are not being dropped, in mount
 * order: the first, then the one behind @m; NULL: no more. Each may be dropped
 * once the next is known.
 */
struct tes_mount *tes_core_mount_named(const struct tes_core *core,
				       const char *name);
struct tes_mount *tes_core_mount_namesake(const struct tes_mount *m);
/* Drops what others lend under the name of @m, as far as they yield to it. */
void tes_core_name_claim(struct tes_core *core, const struct tes_mount *m);
/*
 * Finds a mount of @s that is not being dropped; NULL: none. Everybody may see
 * the ids of segments, so they name something only among those of one owner.
 */
struct tes_mount *tes_core_mount_find(const struct tes_session *s,
				      const uint8_t *id);
/* True: its owner is LIVE and it is not being dropped. */
static inline bool tes_core_mount_live(const struct tes_mount *m)
{
	return !m->dropping && m->owner->state == TES_SESSION_LIVE;
}
/* True: something new may be placed there. */
static inline bool tes_core_mount_takes(const struct tes_mount *m)
{
	return tes_core_mount_live(m) && !m->offering &&
	       m->status == TES_CORE_SEGMENT_OK;
}
/* Drops mounts whose grace is over. */
void tes_core_graces_tick(struct tes_core *core);
/* True: some mount that takes new objects holds @size bytes when empty. */
bool tes_core_mounts_hold(const struct tes_core *core, uint64_t size);
/* True: some mount would, but its owner is silent or its offers are not
 * complete. */
bool tes_core_mounts_to_come(const struct tes_core *core, uint64_t size);
/* NULL: it is gone, or going. */
struct tes_mount *tes_core_mount_of(const struct tes_core *core,
				    uint64_t serial);
/* True: some mount, if it were empty, would hold an extent of @size. */
bool tes_core_mounts_fit(struct tes_core *core, uint64_t size);
/* Start to drop @m: absent from now on, its extents go in ticks. */
void tes_core_mount_drop(struct tes_core *core, struct tes_mount *m);
/* Drop extents of dropping mounts, at most *@budget of them. */
void tes_core_mounts_drop_some(struct tes_core *core, unsigned int *budget);
/* Count @m's bytes as usable (@sign 1) or no longer so (-1). */
void tes_core_mount_count(struct tes_core *core, const struct tes_mount *m,
			  int sign);

/* Timeout of a probe, after which its session is suspect; least time between
 * two probes of one session. */
#define TES_CORE_PROBE_MS       300
#define TES_CORE_PROBE_EVERY_MS 250

/* Append probes that are due, as far as the arena has room. */
void tes_core_probes_flush(struct tes_core *core, struct tes_actions *out);
/* Append changes of owners' states, and connections to be closed. */
void tes_core_sessions_flush(struct tes_core *core, struct tes_actions *out);

#endif
