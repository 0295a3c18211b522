/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - rails that exist only on paper, but really copy
 *
 * A rail is a line with a rate, a latency and a cost per request, and weather
 * by a schedule: slower, silent, down, failing. Slices wait for the line in
 * the order they were posted, are applied a latency after their last byte has
 * left, and are done another latency later; bytes are copied at the very
 * moment a slice is applied. A write that is given up may still land, until
 * the target's half is dropped and that is confirmed.
 *
 *   post --> queue --line is free--> landing --applied--> acks --> done
 *              |                       |
 *              +------- flush, cancel -+--> ghosts --applied or lost--> gone
 *
 * Both engines live in one process. Under a simulated clock (base/clock.h) a
 * run is determined by its settings; by the system's it works as well.
 *
 * Threads: a rail's line belongs to the holder of its drive token, whose
 * progress() also applies what its slices carry. What two rails share is
 * guarded by tei_sim_mu.
 */
#ifndef TESTS_SIM_BACKEND_SIM_H
#define TESTS_SIM_BACKEND_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"
#include "te/backend.h"

#define SIM_RAILS_MAX  16
#define SIM_EVENTS_MAX 64
#define SIM_NEVER      UINT64_MAX

struct sim_config {
	char *rails;    /* "4g:10us:1us,2g:20us" */
	char *schedule; /* "5ms:0:down,9ms:0:up" */
	uint64_t seed;
	uint64_t linger; /* ms: a given up write lands no later than that */
};

/* ---- schedule.c: what the settings say; pure ---- */

enum sim_what {
	SIM_WELL,   /* up, full speed, no errors */
	SIM_DOWN,   /* the link is gone, and the device says so */
	SIM_SILENT, /* nothing moves, nobody says so */
	SIM_SLOW,   /* value: share of the rate */
	SIM_ERROR,  /* value: chance that a slice breaks its endpoint */
	SIM_REFUSE, /* value: chance that a post() breaks the endpoint */
	SIM_FLAP,   /* value: ns up, ns down, and so on */
};

struct sim_event {
	uint64_t at; /* ns since the rail was opened */
	enum sim_what what;
	double value;
};

struct sim_spec {
	uint64_t bps;                            /* bits a second */
	uint64_t latency, cost;                  /* ns one way, ns a request */
	struct sim_event events[SIM_EVENTS_MAX]; /* in order of time */
	size_t n_events;
};

struct sim_weather {
	bool down, silent;
	double speed, error, refuse;
	size_t n_seen;      /* events */
	uint64_t flap;      /* ns; 0: no */
	uint64_t toggle_at; /* ns since the rail was opened */
};

/* @specs: specs[SIM_RAILS_MAX]. Number of rails, or -EINVAL (logged). */
int tei_sim_parse(const struct sim_config *config, struct sim_spec *specs);
void tei_sim_weather_init(struct sim_weather *w);
/* When it changes next, ns since the rail was opened. */
uint64_t tei_sim_weather_next(const struct sim_weather *w,
			      const struct sim_spec *spec);
/* That time has come: make the one change. */
void tei_sim_weather_turn(struct sim_weather *w, const struct sim_spec *spec);

/* ---- objects ---- */

struct sim_rail {
	struct tei_rail *base;
	struct sim_spec spec;
	struct sim_weather weather;
	uint64_t opened_at;   /* ns */
	uint64_t linger;      /* ns */
	uint64_t chance;      /* state of the generator */
	int fd;               /* timerfd; idle under a simulated clock */
	struct tei_list link; /* in the list of rails; guarded by tei_sim_mu */
	/* The line. */
	struct tei_list queue, landing, acks; /* struct tei_slice by link */
	struct tei_list stuck;  /* the same: only flush() and cancel() help */
	unsigned int n_taken;   /* in these four */
	double left;            /* ns of work on the queue's first slice */
	uint64_t at;            /* ns: when `left` was so */
	struct tei_list ghosts; /* struct sim_ghost */
};

struct sim_half {
	struct tei_list link; /* in the list of halves; guarded by tei_sim_mu */
	struct tei_endpoint *base;
	uint64_t id;
	uint64_t other;      /* id of the other half; 0: not joined */
	uint64_t up_at;      /* ns; 0: is up, or not connecting */
	uint64_t confirm_at; /* ns: a drop is; 0: none is under way */
	/* guarded by tei_sim_mu */
	bool broken;   /* takes and applies nothing more */
	bool reported; /* the core knows */
};

enum sim_stage { SIM_QUEUED, SIM_LANDING, SIM_ACKED, SIM_STUCK };

struct sim_slice {
	enum sim_stage stage;
	int err;
	uint64_t at; /* landing: is applied; acks: is done. ns */
};

/* A write on its way that nobody waits for any more. */
struct sim_ghost {
	struct tei_list link;
	uint64_t at;     /* ns: lands */
	uint64_t target; /* id of the half */
	uint64_t remote, length, endpoint;
	uint32_t key_len;
	uint8_t bytes[]; /* bytes[length], then the key */
};

extern struct tei_mutex tei_sim_mu;

static inline struct sim_rail *sim_rail(const struct tei_rail *rail)
{
	return (struct sim_rail *)(uintptr_t)rail->priv;
}

static inline struct sim_half *sim_half(const struct tei_endpoint *ep)
{
	return (struct sim_half *)(uintptr_t)ep->priv;
}

static inline struct sim_slice *sim_slice(const struct tei_slice *slice)
{
	return (struct sim_slice *)(uintptr_t)slice->priv;
}

/* ---- half.c ---- */

int tei_sim_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len);
int tei_sim_endpoint_connect(struct tei_endpoint *ep, const void *addr,
			     size_t len);
void tei_sim_endpoint_close(struct tei_endpoint *ep);
int tei_sim_drop(struct tei_endpoint *ep);
int tei_sim_rail_describe(struct tei_rail *rail, void *blob, size_t *len);
int tei_sim_rail_match(struct tei_rail *rail, const struct tei_address *peer,
		       const void *blob, size_t len);
/* The half of that id, unless it is broken; NULL. */
struct sim_half *tei_sim_find(uint64_t id) TEI_REQUIRES(tei_sim_mu);
/* Nothing comes by it any more. Its rail will tell the core. */
void tei_sim_break(struct sim_half *half) TEI_REQUIRES(tei_sim_mu);
/* When progress() has something to do about the rail's halves. */
uint64_t tei_sim_halves_next(const struct sim_rail *rail)
	TEI_REQUIRES(tei_sim_mu);
/* Tell the core what is due; how many. */
int tei_sim_halves_run(struct sim_rail *rail, uint64_t now);

/* ---- line.c ---- */

int tei_sim_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		 int n);
void tei_sim_cancel(struct tei_endpoint *ep, struct tei_slice *slice);
int tei_sim_flush(struct tei_endpoint *ep, int err);
int tei_sim_progress(struct tei_rail *rail, int budget);
void tei_sim_line_init(struct sim_rail *rail);
void tei_sim_line_fini(struct sim_rail *rail);
/* ns of the rail's next event, in the past if it is overdue. */
uint64_t tei_sim_rail_next(const struct sim_rail *rail)
	TEI_REQUIRES(tei_sim_mu);

/* ---- apply.c ---- */

/* Move the slice's bytes; as the target would answer. */
int tei_sim_apply(struct sim_rail *rail, struct tei_slice *slice);
/* Make a ghost of the first @length bytes of a write. NULL: no memory. */
struct sim_ghost *tei_sim_ghost(struct tei_slice *slice, uint64_t length);
/* It lands where it can, and is freed. */
void tei_sim_ghost_lands(struct sim_rail *rail, struct sim_ghost *ghost);

/* ---- sim.c ---- */

extern const struct tei_backend_ops tei_backend_sim;

/* 0 .. 1, the same for the same seed. */
double tei_sim_chance(struct sim_rail *rail);
/* Let progress() run at its next event, or now. Any thread. */
void tei_sim_arm(struct sim_rail *rail, uint64_t at);

/* ---- for tests ---- */

enum sim_record_kind {
	SIM_POSTED,  /* a slice was taken */
	SIM_APPLIED, /* its bytes were moved */
	SIM_HAUNTED, /* a given up write has landed */
	SIM_DONE,    /* the core was told */
};

struct sim_record {
	enum sim_record_kind kind;
	uint32_t rail;     /* index of the initiator's */
	uint64_t at;       /* ns */
	uint32_t op;       /* enum tei_op */
	int err;           /* SIM_DONE */
	uint64_t endpoint; /* which of the initiator's; they only grow */
	uint64_t epoch;
	uint64_t remote, length;
};

/*
 * See every step of every slice, or with NULL none. A lock may be held: @fn
 * only takes notes. Set-up only.
 */
void tei_sim_trace(void (*fn)(const struct sim_record *record, void *arg),
		   void *arg);
void tei_sim_note(const struct sim_rail *rail, enum sim_record_kind kind,
		  const struct tei_slice *slice, int err);
void tei_sim_tell(const struct sim_record *record);
/* The first event of all rails, ns; only under a simulated clock. */
uint64_t tei_sim_next(void);

#endif
