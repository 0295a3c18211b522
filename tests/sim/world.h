/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - two engines, simulated rails between them, and time
 *
 * Everything runs on the test's thread: time passes only when neither engine
 * nor their control connections have anything to do, and then goes on to the
 * next event. The user's requests have places of their own: request i moves
 * between place i of the owner's memory and place i of the user's.
 *
 * All the while the world watches the rails, and fails the test when
 *
 *   - something lands in a place whose request has ended remotely quiet,
 *   - something lands that was posted before a later attempt at the same bytes,
 *   - nothing can ever happen any more though somebody waits.
 *
 * Once a world has failed it cannot be closed, and no other one is opened.
 * SIM_TRACE=1 in the environment prints every step of every slice.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "base/clock.h"
#include "tests/lib/test.h"

#define WORLD_PLACES 64

struct world_config {
	const char *rails, *schedule; /* as the settings of sim; NULL: none */
	uint64_t seed;
	size_t place;                /* bytes of a place */
	const char *const *settings; /* more of them: name, value, ..., NULL */
};

struct tei_rail;
struct world_post;

struct world {
	struct tei_clock clock;
	struct te_engine *owner, *user;
	te_segment_id segment;
	te_region_id region;
	uint8_t *memory, *local; /* [WORLD_PLACES * place] */
	size_t place;
	uint64_t seed;
	uint64_t begun;           /* ns: when the engines were there */
	uint64_t chance;          /* state of world_random() */
	bool quiet[WORLD_PLACES]; /* nothing may land there any more */
	/* What was seen on the rails. */
	struct world_post *posts;
	size_t n_posts, room;
	uint64_t first_endpoint, digest;
	uint64_t n_applied, n_haunted, n_records;
	uint64_t moved_at, longest_gap; /* ns: between two that landed */
	bool loud;                      /* prints what it sees */
	uint64_t idle_turns; /* in a row in which no time has passed */
};

/* Fails the test when it cannot. */
void world_open(struct world *w, const struct world_config *config);
void world_close(struct world *w);
/* No log lines, unless the environment asks for them; open() does it too. */
void world_be_silent(void);

/* ns since the engines were there. */
uint64_t world_now(const struct world *w);
/* Let that much time pass. */
void world_pass(struct world *w, uint64_t ns);
/* 0 .. n - 1, by the seed. */
uint64_t world_random(struct world *w, uint64_t n);

/* The user's; its counters are what a test may look at. */
struct tei_rail *world_rail(struct world *w, uint32_t i);

/* One request about place @i. */
struct te_request world_request(struct world *w, uint32_t op, uint32_t i,
				struct iovec *piece, size_t len);
/* What belongs into place @i: bytes that depend on it and @salt. */
void world_fill(uint8_t *bytes, size_t len, uint32_t i, uint32_t salt);
bool world_is(const uint8_t *bytes, size_t len, uint32_t i, uint32_t salt);

/*
 * ns that @len bytes take with every rail at work from the start on, at best:
 * by rates and schedule, without errors, the shortest latencies on top.
 */
uint64_t world_optimum(const struct world_config *config, uint64_t from,
		       uint64_t len);

#endif
