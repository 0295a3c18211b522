/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - two engines, simulated rails between them, and time */
#include "tests/sim/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/chance.h"
#include "base/loop.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "tests/sim/backend/sim.h"

#define STUCK 1000000u /* turns without time: something spins */

/* ---- time ---- */

static void earlier(uint64_t at, uint64_t *first)
{
	if (at < *first)
		*first = at;
}

static bool engines_turn(struct world *w)
{
	bool any = false;

	if (w->owner)
		any |= tei_worker_poke(w->owner->worker);
	if (w->user)
		any |= tei_worker_poke(w->user->worker);
	return any;
}

static uint64_t next_event(const struct world *w, uint64_t until)
{
	earlier(tei_sim_next(), &until);
	earlier(tei_loops_due(), &until);
	if (w->owner)
		earlier(tei_worker_due(w->owner->worker), &until);
	if (w->user)
		earlier(tei_worker_due(w->user->worker), &until);
	return until;
}

static void idle(struct tei_clock *clock, uint64_t until)
{
	struct world *w = TEI_CONTAINER(clock, struct world, clock);
	uint64_t now = atomic_load(&clock->now), next;

	if (w->idle_turns++ > STUCK)
		fail_msg("something spins, at %llu ns",
			 (unsigned long long)world_now(w));
	if (tei_loops_turn() || engines_turn(w))
		return;
	next = next_event(w, until);
	if (next == UINT64_MAX)
		fail_msg("nothing can happen any more, at %llu ns",
			 (unsigned long long)world_now(w));
	if (next > now) {
		atomic_store(&clock->now, next);
		w->idle_turns = 0;
	}
}

uint64_t world_now(const struct world *w)
{
	return atomic_load(&w->clock.now) - w->begun;
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

void world_pass(struct world *w, uint64_t ns)
{
	assert_true(tei_worker_drive(w->user->worker, never, NULL,
				     tei_now_ns() + ns));
}

uint64_t world_random(struct world *w, uint64_t n)
{
	return tei_chance(&w->chance) % n;
}

/* ---- watching the rails ---- */

struct world_post {
	uint64_t endpoint, remote, length;
};

static void mix(struct world *w, uint64_t value)
{
	w->digest = (w->digest ^ value) * 0x100000001b3;
	w->digest ^= w->digest >> 29;
}

static void digest(struct world *w, const struct sim_record *r)
{
	if (!w->first_endpoint)
		w->first_endpoint = r->endpoint;
	mix(w, r->kind);
	mix(w, r->rail);
	mix(w, r->at - w->begun);
	mix(w, r->op);
	mix(w, (uint64_t)(int64_t)r->err);
	mix(w, r->endpoint - w->first_endpoint);
	mix(w, r->epoch);
	mix(w, r->remote - (uintptr_t)w->memory);
	mix(w, r->length);
	w->n_records++;
}

static void remember(struct world *w, const struct sim_record *r)
{
	if (w->n_posts == w->room) {
		w->room = w->room ? 2 * w->room : 256;
		w->posts = realloc(w->posts, w->room * sizeof(*w->posts));
		assert_non_null(w->posts);
	}
	w->posts[w->n_posts++] =
		(struct world_post){r->endpoint, r->remote, r->length};
}

/* A write has landed: may it? */
static void judge(const struct world *w, const struct sim_record *r)
{
	uint64_t place = (r->remote - (uintptr_t)w->memory) / w->place;

	if (w->quiet[place])
		fail_msg("seed %llu: place %llu is written to after it was "
			 "quiet",
			 (unsigned long long)w->seed,
			 (unsigned long long)place);
	for (size_t i = w->n_posts; i-- > 0;) {
		const struct world_post *p = &w->posts[i];

		if (p->remote >= r->remote + r->length ||
		    r->remote >= p->remote + p->length)
			continue;
		if (p->endpoint != r->endpoint)
			fail_msg("seed %llu: place %llu: an old attempt lands "
				 "after a new one was posted",
				 (unsigned long long)w->seed,
				 (unsigned long long)place);
		break;
	}
}

static void show(const struct world *w, const struct sim_record *r)
{
	static const char *const names[] = {
		[SIM_POSTED] = "posted",
		[SIM_APPLIED] = "applied",
		[SIM_HAUNTED] = "haunted",
		[SIM_DONE] = "done",
	};
	uint64_t at = r->remote - (uintptr_t)w->memory;

	printf("%9llu ns rail %u endpoint %llu %s %llu:%llu+%llu %s %d\n",
	       (unsigned long long)(r->at - w->begun), r->rail,
	       (unsigned long long)r->endpoint,
	       r->op == TEI_WRITE ? "write" : "read",
	       (unsigned long long)(at / w->place),
	       (unsigned long long)(at % w->place),
	       (unsigned long long)r->length, names[r->kind], r->err);
}

static void watch(const struct sim_record *r, void *arg)
{
	struct world *w = arg;

	if (w->loud)
		show(w, r);
	digest(w, r);
	if (r->kind == SIM_APPLIED) {
		if (w->moved_at && r->at - w->moved_at > w->longest_gap)
			w->longest_gap = r->at - w->moved_at;
		w->moved_at = r->at;
	}
	w->n_applied += r->kind == SIM_APPLIED;
	w->n_haunted += r->kind == SIM_HAUNTED;
	if (r->op != TEI_WRITE)
		return;
	if (r->kind == SIM_POSTED)
		remember(w, r);
	else if (r->kind == SIM_APPLIED || r->kind == SIM_HAUNTED)
		judge(w, r);
}

/* ---- engines ---- */

static void set(struct te_config *config, const char *name, const char *value)
{
	char error[256] = "";

	if (value && te_config_set(config, name, value, error, sizeof(error)))
		fail_msg("%s", error);
}

static struct te_engine *engine(const struct world_config *c)
{
	const char *const *more = c->settings;
	struct te_config *config;
	struct te_engine *made;
	char seed[32];

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)c->seed);
	assert_int_equal(te_config_create(&config), 0);
	set(config, "worker_thread", "off");
	set(config, "backends", "sim");
	set(config, "bind", "127.0.0.1");
	set(config, "sim.rails", c->rails);
	set(config, "sim.schedule", c->schedule);
	set(config, "sim.seed", seed);
	set(config, "seed", seed);
	for (; more && *more; more += 2)
		set(config, more[0], more[1]);
	assert_int_equal(te_engine_create(config, "127.0.0.1", &made), 0);
	te_config_destroy(config);
	return made;
}

/* Rails that flap have much to say; TE_LOG shows it. */
static void drop_line(int level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

void world_be_silent(void)
{
	if (!getenv("TE_LOG"))
		te_log_set(drop_line, NULL);
}

/*
 * Memory of a world, all 0, up to a page that cannot be touched. It is kept
 * for the next one: ThreadSanitizer's notes on fresh memory cost more than all
 * that happens in it.
 */
static uint8_t *room(unsigned int which, size_t len)
{
	static struct {
		uint8_t *base;
		size_t len;
	} kept[2];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *from;

	len = (len + page - 1) / page * page;
	if (kept[which].len < len) {
		if (kept[which].base)
			munmap(kept[which].base, kept[which].len + page);
		from = mmap(NULL, len + page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(from != MAP_FAILED);
		assert_int_equal(mprotect(from + len, page, PROT_NONE), 0);
		kept[which].base = from;
		kept[which].len = len;
	}
	from = kept[which].base + kept[which].len - len;
	assert_int_equal(madvise(from, len, MADV_DONTNEED), 0);
	return from;
}

/* One that failed leaves engines behind that nobody can drive any more. */
static bool is_open;

void world_open(struct world *w, const struct world_config *c)
{
	size_t len = WORLD_PLACES * c->place;
	struct te_region region = {
		.length = len,
		.access = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE,
	};

	if (is_open)
		fail_msg("not run: an earlier one has failed");
	is_open = true;
	*w = (struct world){
		.place = c->place, .chance = c->seed, .seed = c->seed};
	w->memory = room(0, len);
	w->local = room(1, len);
	atomic_store(&w->clock.now, 1000 * TEI_NS_PER_S);
	w->begun = 1000 * TEI_NS_PER_S;
	world_be_silent();
	w->loud = getenv("SIM_TRACE");
	w->clock.idle = idle;
	tei_clock_set(&w->clock);
	tei_sim_trace(watch, w);
	w->owner = engine(c);
	w->user = engine(c);
	region.addr = w->memory;
	assert_int_equal(te_region_add(w->owner, &region, &w->region), 0);
	assert_int_equal(te_segment_open(w->user, te_engine_name(w->owner), 0,
					 &w->segment),
			 0);
}

void world_close(struct world *w)
{
	struct te_engine *user = w->user, *owner = w->owner;

	te_engine_destroy(user);
	w->user = NULL;
	te_engine_destroy(owner);
	is_open = false;
	tei_sim_trace(NULL, NULL);
	tei_clock_set(NULL);
	free(w->posts);
}

struct tei_rail *world_rail(struct world *w, uint32_t i)
{
	return &w->user->worker->rails[i]->rail;
}

/* ---- requests ---- */

struct te_request world_request(struct world *w, uint32_t op, uint32_t i,
				struct iovec *piece, size_t len)
{
	*piece = (struct iovec){w->local + i * w->place, len};
	return (struct te_request){
		.op = op,
		.segment = w->segment,
		.remote = (uintptr_t)w->memory + i * w->place,
		.pieces = piece,
		.n_pieces = 1,
		.user = i,
	};
}

static uint64_t word(uint64_t at, uint32_t i, uint32_t salt)
{
	return (at + 1) * 0x9e3779b97f4a7c15 ^ (uint64_t)i << 40 ^
	       (uint64_t)salt << 8;
}

void world_fill(uint8_t *bytes, size_t len, uint32_t i, uint32_t salt)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t x = word(at, i, salt);

		memcpy(bytes + at, &x, len - at < 8 ? len - at : 8);
	}
}

bool world_is(const uint8_t *bytes, size_t len, uint32_t i, uint32_t salt)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t x = word(at, i, salt);

		if (memcmp(bytes + at, &x, len - at < 8 ? len - at : 8))
			return false;
	}
	return true;
}

/* ---- the best that could be ---- */

/* Bytes a nanosecond that @spec carries in this weather. */
static double rate_of(const struct sim_spec *spec, const struct sim_weather *w)
{
	if (w->down || w->silent)
		return 0;
	return (double)spec->bps / 8e9 * w->speed;
}

uint64_t world_optimum(const struct world_config *config, uint64_t from,
		       uint64_t len)
{
	const struct sim_config c = {
		.rails = (char *)(uintptr_t)config->rails,
		.schedule = (char *)(uintptr_t)config->schedule,
	};
	struct sim_spec specs[SIM_RAILS_MAX];
	struct sim_weather weather[SIM_RAILS_MAX];
	uint64_t latency = UINT64_MAX;
	double at = 0, rest = (double)len;
	int n = tei_sim_parse(&c, specs);

	assert_true(n > 0);
	for (int i = 0; i < n; i++) {
		tei_sim_weather_init(&weather[i]);
		earlier(specs[i].latency, &latency);
	}
	for (;;) {
		uint64_t change = SIM_NEVER;
		double sum = 0, end;

		for (int i = 0; i < n; i++) {
			while (tei_sim_weather_next(&weather[i], &specs[i]) <=
			       (uint64_t)at)
				tei_sim_weather_turn(&weather[i], &specs[i]);
			earlier(tei_sim_weather_next(&weather[i], &specs[i]),
				&change);
			sum += rate_of(&specs[i], &weather[i]);
		}
		if (change > from && (double)from > at)
			at = (double)from;
		end = sum > 0 ? at + rest / sum : INFINITY;
		if (at >= (double)from && end <= (double)change)
			return (uint64_t)ceil(end) - from + 2 * latency;
		if (at >= (double)from)
			rest -= sum * ((double)change - at);
		at = (double)change;
	}
}
