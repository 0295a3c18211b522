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

struct tei_telling; /* of tell.c */
struct tei_tenant;

enum tei_session_state {
	TEI_SESSION_LIVE,
	TEI_SESSION_SUSPECT,
	TEI_SESSION_GONE, /* in no table; kept until its builds are settled */
};

struct tei_session {
	struct tei_hash_node by_id, by_client, by_life;
	tei_session_id id;
	uint8_t state;
	bool left;    /* its main connection closed */
	bool beating; /* a heartbeat came since it joined: fences may go out */
	bool buries;  /* it is told what it has, and buries it */
	bool probes;  /* it answers when it is asked */
	bool executes;
	unsigned int n_tasks;  /* it works on, at most TEI_CORE_TASKS_EACH */
	struct tei_list tasks; /* these */
	uint8_t client_id[TEI_CORE_ID_LEN];
	uint8_t incarnation[TEI_CORE_ID_LEN];
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
	struct tei_tenant *tenant;   /* whose keys it means */
	struct tei_graves evicted;   /* to tell it, without an answer */
	struct tei_list notices;     /* core's notices: evicted is not empty */
	struct tei_list probing;     /* core's unprobed or probed, or none */
	uint64_t probe, probe_ms;    /* the last one, and when it was sent */
	struct tei_telling *telling; /* of told_by */
	uint64_t told_by;            /* telling's serial */
	char engine[];
};

struct tei_session *tei_core_session_find(const struct tei_core *core,
					  tei_session_id id);
int tei_core_on_join(struct tei_core *core, const struct tei_event *ev,
		     struct tei_actions *out);
/* A sign of life. */
void tei_core_session_seen(struct tei_core *core, struct tei_session *s);
/* @fresh: what was pushed to it before may be lost. */
void tei_core_session_beat(struct tei_core *core, struct tei_session *s,
			   bool fresh);
void tei_core_session_leave(struct tei_core *core, struct tei_session *s);
/* SUSPECT, until the next sign of life. */
void tei_core_session_suspect(struct tei_core *core, struct tei_session *s);
/* GONE: out of the tables at once, its mounts and builds in ticks. */
void tei_core_session_end(struct tei_core *core, struct tei_session *s);
void tei_core_session_free(struct tei_core *core, struct tei_session *s);
/* Expire by time; settle what gone sessions left. */
void tei_core_sessions_tick(struct tei_core *core, unsigned int *budget);

#endif
