/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_core.h - just enough of an engine's core to drive a backend alone
 *
 * Two rails in one process and one thread; the test calls their progress() by
 * turns. Regions are a global table. Every slice records how it ended.
 */
#ifndef FAKE_CORE_H
#define FAKE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "te/backend.h"

extern const char *fake_device;        /* name of each rail's */
extern unsigned int fake_n_downs;      /* how often a rail lost its link */
extern struct tei_device fake_renewed; /* as tei_rail_renewed() was told last */

struct fake_rail {
	struct tei_rail *rail;
	struct tei_conf conf;
};

#define FAKE_KEY_MAX 1024 /* bytes: of 64 chunks or so */

struct fake_slice {
	struct tei_slice *slice;
	unsigned int n_done;
	int err;
	uint64_t bytes;
	uint8_t key[FAKE_KEY_MAX];
	struct iovec piece; /* for a test to use */
};

struct fake_link { /* the core's side of an endpoint */
	unsigned int n_up, n_down, n_flushed, n_moved;
	int down_err;
};

struct fake_pair {
	const struct tei_backend_ops *ops;
	struct fake_rail a,
		b; /* one rail when the backend reaches only itself */
	struct tei_endpoint *initiator, *target;
	struct fake_link initiator_link, target_link;
};

#define FAKE_LIMIT_MS 60000 /* for everything that is waited for */

/* "tcp.frame=4096" ...; NULL at the end. 0 or what the backend said. */
int fake_rail_open(struct fake_rail *r, const struct tei_backend_ops *ops,
		   const char *const settings[]);
void fake_rail_close(struct fake_rail *r);

struct tei_endpoint *fake_endpoint(struct fake_rail *r, struct fake_link *link,
				   bool target, uint64_t epoch);
/* Open both halves, join them, wait until it is up. On error all is closed. */
int fake_pair_connect(struct fake_pair *p);
void fake_pair_disconnect(struct fake_pair *p);
int fake_pair_open(struct fake_pair *p, const struct tei_backend_ops *ops,
		   const char *const settings[]);
void fake_pair_close(struct fake_pair *p);
/* The rail's progress(), after its timer where that is over. */
int fake_turn(struct tei_rail *rail);
void fake_progress(struct fake_pair *p);
/* flush(), and progress until that is over. */
void fake_flush(struct tei_endpoint *ep, int err);

/* Progress until *@n is at least @want. False: too late. */
bool fake_wait(struct fake_pair *p, const unsigned int *n, unsigned int want);

/* A region that peers may reach; 0 is none. */
uint64_t fake_region_add(void *addr, uint64_t length, uint32_t access);
void fake_region_remove(uint64_t id);
unsigned int fake_pins(void);      /* that are held now */
extern uint64_t fake_epoch;        /* that holds for every endpoint */
extern size_t fake_key_len;        /* of keys, which begin with the id */
extern unsigned int fake_n_pins;   /* successful pins so far */
extern unsigned int fake_n_doubts; /* calls of tei_region_doubt() */
/*
 * Regions are a GPU's memory: each turn ends as many copies as it says, if any
 * have begun; 0: none are.
 */
extern unsigned int fake_copies;
extern uint64_t fake_copy_room; /* bytes that may be taken for copies */
extern bool fake_copy_fails;    /* the next one that ends */

/* Regions are of a GPU, in chunks of so many bytes; 0: of the host. */
extern uint64_t fake_chunk_len;
extern unsigned int fake_exports_left; /* that work yet */
extern unsigned int fake_n_windows;    /* on memory of chunks, open now */
unsigned int fake_copies_begun(void);  /* and not ended */
/* Memory that tei_region_gpu() finds at its addresses; NULL: none. */
extern const struct tei_gpu_memory *fake_gpu_memory;
/* What tei_region_spread() says: so many rails, by index, share a region. */
extern uint32_t fake_spread_n;
/* Called with each successful pin's number, before it. */
extern void (*fake_on_pin)(unsigned int n);

struct fake_slice *fake_slice_create(const struct fake_pair *p, uint32_t op,
				     uint64_t region, uint64_t remote,
				     const struct iovec *iov, uint32_t n_iov);
void fake_slice_destroy(struct fake_slice *s);
/* Post one, with progress while there is no room. < 0: as post(). */
int fake_post(struct fake_pair *p, struct fake_slice *s);

#endif
