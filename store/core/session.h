/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - which clients are there */
#ifndef STORE_CORE_SESSION_H
#define STORE_CORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "store/core/bury.h"
#include "store/core/core.h"

struct tes_telling; /* of tell.c */
struct tes_tenant;

enum tes_session_state {
	TES_SESSION_LIVE,
	TES_SESSION_SUSPECT,
	TES_SESSION_GONE, /* in no table; kept until its builds are settled */
};

struct tes_session {
	struct tei_hash_node by_id, by_client, by_life;
	tes_session_id id;
	uint8_t state;
	bool left;    /* its main connection closed */
	bool beating; /* a heartbeat came since it joined: fences may go out */
	bool buries;  /* it is told what it has, and buries it */
	bool probes;  /* it answers when it is asked */
	bool executes;
	unsigned int n_tasks;  /* it works on, at most TES_CORE_TASKS_EACH */
	struct tei_list tasks; /* these */
	uint8_t client_id[TES_CORE_ID_LEN];
	uint8_t incarnation[TES_CORE_ID_LEN];
	struct tei_list age;   /* core's live, silent, left or gone */
	struct tei_list close; /* core's closes: an action is due */
	struct tei_list news;  /* core's news: it is to be told of */
	struct tei_list mounts, builds;
	struct tei_list fences;      /* as owner */
	uint64_t seen_ms;            /* left: when it left */
	uint64_t joined_generation;  /* the counter at its last join */
	uint64_t named_by;           /* reply serial */
	uint32_t named_as;           /* index in that reply's segments */
	uint64_t host;               /* a number for its machine */
	struct tes_tenant *tenant;   /* whose keys it means */
	struct tes_graves evicted;   /* to tell it, without an answer */
	struct tei_list notices;     /* core's notices: evicted is not empty */
	struct tei_list probing;     /* core's unprobed or probed, or none */
	uint64_t probe, probe_ms;    /* the last one, and when it was sent */
	struct tes_telling *telling; /* of told_by */
	uint64_t told_by;            /* telling's serial */
	char engine[];
};

struct tes_session *tes_core_session_find(const struct tes_core *core,
					  tes_session_id id);
int tes_core_on_join(struct tes_core *core, const struct tes_event *ev,
		     struct tes_actions *out);
/* A sign of life. */
void tes_core_session_seen(struct tes_core *core, struct tes_session *s);
/* @fresh: what was pushed to it before may be lost. */
void tes_core_session_beat(struct tes_core *core, struct tes_session *s,
			   bool fresh);
void tes_core_session_leave(struct tes_core *core, struct tes_session *s);
/* SUSPECT, until the next sign of life. */
void tes_core_session_suspect(struct tes_core *core, struct tes_session *s);
/* GONE: out of the tables at once, its mounts and builds in ticks. */
void tes_core_session_end(struct tes_core *core, struct tes_session *s);
void tes_core_session_free(struct tes_core *core, struct tes_session *s);
/* Expire by time; settle what gone sessions left. */
void tes_core_sessions_tick(struct tes_core *core, unsigned int *budget);

#endif
