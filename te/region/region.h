/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region.h - the table of memory that this engine has registered
 *
 * Regions are sorted by address and never overlap. A region is added hidden,
 * then registered with every rail without the lock, then shown; it is removed
 * the other way round, once nobody pins it. Rails that it could not be given to
 * then may get it later, while it is shown (tei_deferred).
 *
 *   add:    hidden -> shown        remove:  shown -> hidden -> gone
 *
 * Threads: any; everything is guarded by mu (lock 12), which is never held
 * while a backend is called. Target endpoints pin regions with each slice, and
 * do without mu: what a pin reads (the table, and of a region what stands at
 * its fields) changes with mu and the pin locks of all workers held, and is
 * read with mu or the pin lock of one. So workers that pin share no lock.
 */
#ifndef TE_REGION_REGION_H
#define TE_REGION_REGION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/thread.h"
#include "te/backend.h"
#include "te/core/config.h"
#include "te/core/handle.h"
#include "te/device/device.h"
#include "te/region/deferred.h"
#include "te/region/group.h"
#include "te/region/prefault.h"

struct te_engine;
struct tei_export;
struct tei_rail_box;
struct Te__Description;

struct tei_key {
	uint16_t len; /* 0: not reachable through this rail */
	uint8_t bytes[];
};

/* Pins by the target endpoints of one worker; guarded by its pin lock. */
struct tei_region_pins {
	uint32_t n;
	char apart[TEI_CACHE_LINE - sizeof(uint32_t)];
};

struct tei_region {
	te_region_id id;
	uint64_t addr, length;
	uint32_t access;
	struct tei_memory_found memory; /* kind and GPU; fixed */
	/* Export of a GPU's memory while it is registered; else NULL. */
	struct tei_export *exported;
	/* Stage for rails that do not reach a GPU's memory; held, fixed. */
	struct tei_stage *stage;
	int group;            /* place in regions.groups, -1: every peer */
	bool shown;           /* read by pins */
	bool left;            /* hidden, but could not be removed in time */
	_Atomic bool doubted; /* some of its memory is missing; relaxed */
	/* Pins by target endpoints that just touch it; pins[n_workers]. */
	struct tei_region_pins *pins;
	/*
	 * Pins of background threads: that of deferred registration, that of
	 * prefault.c.
	 */
	uint32_t in_background;
	/* ns: when endpoints that pin it are dropped; of who removes it */
	uint64_t drop_at;
	char location[32];
	uint64_t near; /* tei_topology_near(); fixed */
	/*
	 * Rails that refused it and may take it yet, a bit each; and those that
	 * had a link when they did. Guarded by mu once it is shown.
	 */
	uint64_t due, refused;
	struct tei_list deferred; /* in a list of regions.deferred */
	struct tei_ahead ahead;   /* what is brought in of it */
	struct tei_key *key[];    /* key[n_rails]; read by pins */
};

/* Rooms above, as this one calls them: any thread, not with mu held. */
struct tei_regions_ops {
	/* Sends changed regions to the peers that may see them. */
	void (*push)(struct te_engine *engine);
	/* Forgets who has proven the group in that place. Waits. */
	void (*forget_group)(struct te_engine *engine, unsigned int place);
	/* Drops links of peers that pin a region; waits for none. */
	void (*drop_pinning)(struct te_engine *engine);
	/* Closes what was opened in the context of the stage. Waits. */
	void (*leave_stage)(struct te_engine *engine, struct tei_stage *stage);
};

/* The pin lock of a worker, alone on its cache lines. */
struct tei_pin_lock {
	struct tei_mutex mu; /* lock 57 */
	char apart[2 * TEI_CACHE_LINE - sizeof(struct tei_mutex)];
};

struct tei_regions {
	const struct tei_regions_ops *ops;
	struct te_engine *engine; /* not owned */
	struct tei_mutex mu;      /* lock 12 */
	struct tei_cond unpinned;
	struct tei_handles handles;
	struct tei_region **sorted;  /* sorted[n], by address; read by pins */
	size_t n, room;              /* n: read by pins */
	struct tei_group_set groups; /* of regions */
	/*
	 * Grows with each change of what peers may see. Written under mu with
	 * release; read anywhere with acquire to see whether to look again.
	 */
	_Atomic uint64_t version;
	/* Grows when a region comes, goes or gets a rail; the same. */
	_Atomic uint64_t changes;
	/* Some region's near was not 0, or it was spread; relaxed. */
	_Atomic bool any_near;
	_Atomic bool any_gpu; /* some region was of a GPU's memory; relaxed */
	/* Some region was reached by copies; relaxed, set before it shows. */
	_Atomic bool any_copied;
	/*
	 * Some region was of a GPU whose writes of NICs are flushed; relaxed,
	 * set before it shows.
	 */
	_Atomic bool any_flushed;
	struct tei_deferred deferred;
	struct tei_prefault prefault;
	char apart[TEI_CACHE_LINE];
	struct tei_pin_lock pin_locks[TEI_WORKERS_MAX]; /* by worker */
};

void tei_regions_init(struct tei_regions *r, struct te_engine *engine);
/* Free what is left; no rail is open any more. */
void tei_regions_fini(struct tei_regions *r);
/*
 * Begins a new version of the description, as its parts besides the regions
 * have changed. Any thread, not with mu held.
 */
void tei_regions_renew(struct te_engine *engine);
/* Hide and unregister every region, with the rails still open. */
void tei_regions_remove_all(struct te_engine *engine);

/* Notes that the description has changed, if peers may see @region. */
void tei_regions_changed(struct tei_regions *r, const struct tei_region *region)
	TEI_REQUIRES(r->mu);
/*
 * Registers the region with a rail; *out: its key, to be freed. As region_add()
 * of the backend; -ENOMEM. Not with mu held; may block for seconds.
 */
int tei_region_offer(const struct tei_region *region, struct tei_rail_box *box,
		     struct tei_key **out);

/*
 * Finds the region that has the byte at @addr. NULL: there is none, or it is
 * not shown (any more): rails get it before. With mu held, or a pin lock.
 */
struct tei_region *tei_regions_find(const struct tei_regions *r, uint64_t addr);
/*
 * Wakes who removes a region, as the last pin of a worker on a hidden one is
 * gone. Any thread, not with mu or a pin lock held.
 */
void tei_regions_unpinned(struct tei_regions *r);
/* Keep pins away while what they read changes (pin.c). */
void tei_pins_block(struct tei_regions *r) TEI_REQUIRES(r->mu);
void tei_pins_unblock(struct tei_regions *r) TEI_REQUIRES(r->mu);
/* Shows the region to pins, or hides it from them (pin.c). */
void tei_region_show(struct tei_regions *r, struct tei_region *region,
		     bool shown) TEI_REQUIRES(r->mu);
/*
 * Waits until nobody pins a hidden region (pin.c). A peer that stopped in the
 * middle of a slice holds its pin for ever: when patience ends, the endpoints
 * that pin something are dropped. False: some still pin it at @until.
 */
bool tei_region_await_unpinned(struct te_engine *engine,
			       struct tei_region *region, uint64_t until);

/* Tells whether a target's rail has the region's bytes copied by the host. */
bool tei_region_is_copied(const struct tei_region *region,
			  const struct tei_rail *rail);
/*
 * Returns a bit for each rail that moves bytes of the region itself: all, or of
 * a GPU's memory those whose device has registered it. With mu held, once the
 * region is shown.
 */
uint64_t tei_region_takers(const struct te_engine *engine,
			   const struct tei_region *region);

/* Tells whether the byte at @addr is in a region of a GPU's memory (gpu.c). */
bool tei_region_is_gpu(struct te_engine *engine, uint64_t addr);

/*
 * Finds the stage of the region that has the byte at @addr (gpu.c); it is the
 * caller's to put. *length: in, how many bytes from there on; out, how many of
 * them are in the region. NULL: it is no GPU's, or has none; *length stays.
 */
struct tei_stage *tei_region_stage(struct te_engine *engine, uint64_t addr,
				   uint64_t *length);

/* The groups of our regions, copied. */
void tei_regions_groups(struct tei_regions *r, struct tei_group_set *out);

/*
 * Export a GPU's memory for the backends that are offered the region next, and
 * end that (gpu.c). Not with mu held, one thread at a time for a region. Of
 * other memory they do nothing. -ENOMEM.
 */
int tei_region_export(struct te_engine *engine, struct tei_region *region);
void tei_region_export_end(struct tei_region *region);
/*
 * Opens the stage of a GPU's memory, for rails that have not registered it and
 * for checksums. Of other memory does nothing. Returns 0, or what
 * tei_stage_get() says, and @why. Not with mu held.
 */
int tei_region_open_stage(struct te_engine *engine, struct tei_region *region,
			  char why[TEI_RUNTIME_WHY_LEN]);
/*
 * Lets go of it; with the last region of a stage what was opened in its context
 * is closed. Not with mu held; waits for that.
 */
void tei_region_close_stage(struct te_engine *engine,
			    struct tei_region *region);

/*
 * Logs how peers reach the region, if it is a GPU's, and sets any_copied and
 * any_flushed for it; to be called before the region shows (gpu.c).
 */
void tei_region_note_gpu(struct te_engine *engine,
			 const struct tei_region *region);
/*
 * Makes what NICs have written to regions visible to work of GPUs that runs
 * already; most GPUs do so by themselves (gpu.c). Not with mu held. Blocks: for
 * drivers.
 */
void tei_regions_flush(struct te_engine *engine);

/*
 * Checks that each byte of the region, where rails have parts of it only, is
 * reached by one: 0, or -ENOBUFS, logged. Notes that there is such a region in
 * any_near (spread.c). By who registers it, once rails have it.
 */
int tei_region_check_gaps(struct te_engine *engine,
			  const struct tei_region *region);
/* Tells whether some rail has the region in part only. With mu held. */
bool tei_region_is_spread(const struct te_engine *engine,
			  const struct tei_region *region);
/* Returns a bit for each rail that has the byte at @addr. With mu held. */
uint64_t tei_region_rails_at(const struct te_engine *engine,
			     const struct tei_region *region, uint64_t addr);

/* memory.c, With the engine: what te_memory_alloc() gave and nobody freed. */
void tei_memories_free(struct te_engine *engine);

#endif
