/* SPDX-License-Identifier: Apache-2.0 */
/* prefault.c - bringing in memory before it is used */
#include "te/region/prefault.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mapped.h"
#include "base/room.h"
#include "te/backend.h"
#include "te/core/engine.h"
#include "te/region/memory.h"
#include "te/region/region.h"

#ifndef MADV_POPULATE_READ /* since Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PIECE        ((uint64_t)256 << 10) /* committed at once */
#define MAPPED_PIECE ((uint64_t)1 << 20)   /* entered at once */
#define LOOK_AFTER   ((uint64_t)16 << 20)
#define RESUME_FROM  ((uint64_t)64 << 20)
#define LOOK_PAUSE   TEI_NS_PER_S
#define TELL_PAUSE   (10 * TEI_NS_PER_S)  /* between lines about progress */
#define MAPPED_MIN   (16 * TEI_NS_PER_MS) /* pauses before missing pages */
#define MAPPED_MAX   (4 * TEI_NS_PER_S)
#define TABLES       512 /* bytes of memory for one of page tables */
#define YIELD_TIMES  20  /* CPU times of a piece that had to wait */
#define YIELD_MAX    (100 * TEI_NS_PER_MS)
#define GB           1e9

void tei_prefault_init(struct tei_prefault *p)
{
	*p = (struct tei_prefault){
		.pause = MAPPED_MIN,
		.waiting_at = UINT64_MAX,
	};
	tei_list_init(&p->regions);
	tei_list_init(&p->mappings);
	tei_list_init(&p->waiting);
	tei_cond_init(&p->work);
	tei_cond_init(&p->idle);
}

void tei_prefault_fini(struct tei_prefault *p)
{
	tei_cond_fini(&p->idle);
	tei_cond_fini(&p->work);
}

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- giving way ---- */

/* Time at which a piece began. */
struct pace {
	uint64_t wall, cpu;
};

static struct pace begin_piece(void)
{
	return (struct pace){tei_now_ns(), tei_thread_cpu_ns()};
}

/*
 * Lets others have the core, without a lock. Returns ns to sleep then: somebody
 * took it, or held the piece up; or 0.
 */
static uint64_t end_piece(struct pace begun)
{
	uint64_t wall, cpu, pause;

	(void)sched_yield();
	wall = tei_now_ns() - begun.wall;
	cpu = tei_thread_cpu_ns() - begun.cpu;
	pause = YIELD_TIMES * cpu;
	if (wall <= cpu + cpu / 4 + 100 * TEI_NS_PER_US)
		return 0;
	return pause < YIELD_MAX ? pause : YIELD_MAX;
}

/* ---- regions ---- */

static void tell_begin(const struct te_engine *engine)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct tei_prefault *p = &engine->regions->prefault;

	if (p->since)
		return;
	p->since = tei_now_ns();
	p->before = p->held;
	p->tell_at = p->since + TELL_PAUSE;
	p->told = false;
	if (tei_log_info_allowed(&limit))
		LOG_INFO("engine %s: %.3f GB of lent memory are brought in "
			 "ahead of use",
			 engine->name, (double)p->left / GB);
}

/* Returns the bytes brought in since it began, of regions there are. */
static uint64_t brought_in(const struct tei_prefault *p)
{
	return p->held > p->before ? p->held - p->before : 0;
}

/* Logs how far it is. The last piece is followed by tell_end()'s line. */
static void tell_progress(const struct te_engine *engine)
{
	struct tei_prefault *p = &engine->regions->prefault;
	uint64_t now = tei_now_ns(), done = brought_in(p), wanted;

	if (!p->left || now < p->tell_at)
		return;
	p->tell_at = now + TELL_PAUSE;
	wanted = engine->config.prefault - p->held; /* the setting permits it */
	wanted = done + (p->left < wanted ? p->left : wanted);
	LOG_INFO("engine %s: lent memory: %.3f of %.3f GB (%.0f %%) were "
		 "brought in, in %.1f s",
		 engine->name, (double)done / GB, (double)wanted / GB,
		 100 * (double)done / (double)wanted,
		 (double)(now - p->since) / TEI_NS_PER_S);
}

static void tell_end(const struct te_engine *engine)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct tei_prefault *p = &engine->regions->prefault;

	if (!p->since)
		return;
	if (tei_log_info_allowed(&limit))
		LOG_INFO("engine %s: lent memory: %.3f GB were brought in, in "
			 "%.1f s",
			 engine->name, (double)brought_in(p) / GB,
			 (double)(tei_now_ns() - p->since) / TEI_NS_PER_S);
	p->since = 0;
}

/*
 * Says once why the rest is not brought in, until a region is added. Nothing is
 * said where there is no rest.
 */
static bool may_tell_stop(struct tei_prefault *p)
{
	bool told = p->told || !p->left;

	p->told = true;
	return !told;
}

static void stop_at_setting(const struct te_engine *engine)
{
	struct tei_prefault *p = &engine->regions->prefault;

	p->is_full = true;
	if (may_tell_stop(p))
		LOG_INFO("engine %s: lent memory: %.3f GB were brought in, as "
			 "the setting prefault has it; %.3f GB come when they "
			 "are used",
			 engine->name, (double)p->held / GB,
			 (double)p->left / GB);
}

static void stop_for_room(const struct te_engine *engine, const char *why,
			  uint64_t leaves)
{
	struct tei_prefault *p = &engine->regions->prefault;

	p->no_room = true;
	p->look_at = tei_now_ns() + LOOK_PAUSE;
	if (may_tell_stop(p))
		LOG_WARN("engine %s: lent memory: %.3f GB were brought in, "
			 "%.3f GB come when they are used, or when there is "
			 "room: %s leaves %.3f GB beyond what is kept for "
			 "others",
			 engine->name, (double)p->held / GB,
			 (double)p->left / GB, why, (double)leaves / GB);
}

/* Looks at the room that there is. Lets go of the lock meanwhile. */
static void look_at_room(const struct te_engine *engine, struct tei_regions *r)
	TEI_REQUIRES(r->mu)
{
	const char *root = engine->config.prefault_root;
	struct tei_prefault *p = &r->prefault;
	struct tei_room room;

	tei_mutex_unlock(&r->mu);
	room = tei_room_spare(root ? root : "");
	tei_mutex_lock(&r->mu);
	if (room.bytes < (p->no_room ? RESUME_FROM : PIECE)) {
		stop_for_room(engine, room.whose, room.bytes);
		return;
	}
	p->no_room = false;
	p->room = room.bytes < LOOK_AFTER ? room.bytes : LOOK_AFTER;
}

/* Tells whether a piece may be taken. May let go of the lock meanwhile. */
static bool has_room(const struct te_engine *engine, struct tei_regions *r)
	TEI_REQUIRES(r->mu)
{
	struct tei_prefault *p = &r->prefault;

	if (p->no_room ? tei_now_ns() >= p->look_at : p->room < PIECE)
		look_at_room(engine, r);
	return !p->no_room;
}

/* Takes a region out of the queue: it is all there, or is going. */
static void take_out(struct tei_prefault *p, struct tei_ahead *ahead)
{
	if (tei_list_empty(&ahead->link))
		return;
	tei_list_del(&ahead->link);
	p->left -= ahead->length - ahead->done;
}

/* Returns the bytes of the next piece; 0: the setting permits no more. */
static uint64_t next_piece(const struct te_engine *engine,
			   const struct tei_ahead *ahead)
{
	const struct tei_prefault *p = &engine->regions->prefault;
	uint64_t most = engine->config.prefault, n;

	most = p->held < most ? (most - p->held) & ~(page_size() - 1) : 0;
	n = ahead->length - ahead->done;
	n = n < PIECE ? n : PIECE;
	return n < most ? n : most;
}

/* The kernel is older than 5.14, or refuses: pages come when they are used. */
static void give_up(const struct te_engine *engine, int err)
{
	struct tei_prefault *p = &engine->regions->prefault;
	struct tei_list *node;

	LOG_INFO("engine %s: lent memory is brought in when it is used: "
		 "MADV_POPULATE_WRITE: %s",
		 engine->name, strerror(err));
	p->failed = true;
	while ((node = tei_list_pop(&p->regions)))
		p->left -=
			tei_list_entry(node, struct tei_ahead, link)->length -
			tei_list_entry(node, struct tei_ahead, link)->done;
	p->since = 0;
}

/* Brings in @n bytes of a region, which is pinned meanwhile. */
static void bring_in(struct te_engine *engine, struct tei_regions *r,
		     struct tei_region *region, uint64_t n) TEI_REQUIRES(r->mu)
{
	struct tei_ahead *ahead = &region->ahead;
	struct tei_prefault *p = &r->prefault;
	uint64_t at = ahead->begin + ahead->done;
	bool gone;
	int err = 0;

	region->in_background++;
	tei_mutex_unlock(&r->mu);
	tei_memory_prefer(ahead->node);
	if (madvise((void *)(uintptr_t)at, n, MADV_POPULATE_WRITE))
		err = errno;
	gone = err == EHWPOISON || (err && !tei_is_mapped(at, n));
	tei_mutex_lock(&r->mu);
	region->in_background--;
	if (!region->shown)
		tei_cond_broadcast(&r->unpinned);
	if (gone) { /* freed too early by its caller, or broken */
		take_out(p, ahead);
	} else if (err == EINVAL) {
		give_up(engine, err);
	} else if (err) {
		stop_for_room(engine, strerror(err), 0);
	} else {
		ahead->done += n;
		p->left -= n;
		p->held += n;
		p->room -= n;
		TEI_COUNT_BY(engine, prefault_lent, n);
		tell_progress(engine);
	}
}

/* True: a piece of a region was brought in, or one is done with. */
static bool serve_region(struct te_engine *engine, struct tei_regions *r)
	TEI_REQUIRES(r->mu)
{
	struct tei_prefault *p = &r->prefault;
	struct tei_region *region;
	uint64_t n;

	if (tei_list_empty(&p->regions)) {
		tell_end(engine);
		return false;
	}
	tell_begin(engine);
	if (p->is_full || !has_room(engine, r) || tei_list_empty(&p->regions))
		return false;
	region = tei_list_entry(p->regions.next, struct tei_region, ahead.link);
	if (!region->shown || region->ahead.done == region->ahead.length) {
		take_out(p, &region->ahead);
		return true;
	}
	n = next_piece(engine, &region->ahead);
	if (n)
		bring_in(engine, r, region, n);
	else
		stop_at_setting(engine);
	return n != 0;
}

/* ---- mappings ---- */

/* Returns how many bytes from @at on are of pages that are in memory. */
static uint64_t bytes_there(uint8_t *at, uint64_t n)
{
	unsigned char there[MAPPED_PIECE >> 12]; /* no page is smaller */
	uint64_t page = page_size(), i = 0;

	if (mincore(at, n, there))
		return 0;
	while (i < n / page && (there[i] & 1))
		i++;
	return i * page;
}

/*
 * Enters the next piece of a mapping, as far as its pages are in memory.
 * Returns how many bytes; *@err: it cannot be done.
 */
static uint64_t enter_pages(uint8_t *at, uint64_t n, int *err)
{
	uint64_t there = bytes_there(at, n);

	*err = 0;
	/* Of shared memory it also permits writing. */
	if (there && madvise(at, there, MADV_POPULATE_READ))
		*err = errno;
	return *err ? 0 : there;
}

/* Puts a mapping back to be served; its next page may not be there yet. */
static void queue_mapping(struct tei_prefault *p, struct tei_mapping *mapping,
			  bool is_there)
{
	if (is_there) {
		tei_list_add_tail(&p->mappings, &mapping->link);
		p->pause = MAPPED_MIN;
		return;
	}
	tei_list_add_tail(&p->waiting, &mapping->link);
	if (p->waiting_at != UINT64_MAX)
		return;
	p->waiting_at = tei_now_ns() + p->pause;
	p->pause *= p->pause < MAPPED_MAX ? 2 : 1;
}

/* True: pages of a mapping were entered. */
static bool serve_mapping(struct te_engine *engine, struct tei_regions *r)
	TEI_REQUIRES(r->mu)
{
	struct tei_prefault *p = &r->prefault;
	struct tei_mapping *mapping;
	struct tei_list *node;
	uint64_t n, there;
	int err;

	if (tei_now_ns() >= p->waiting_at) {
		tei_list_splice_tail(&p->mappings, &p->waiting);
		p->waiting_at = UINT64_MAX;
	}
	if (tei_list_empty(&p->mappings) || !has_room(engine, r))
		return false;
	node = tei_list_pop(&p->mappings);
	if (!node)
		return false;
	mapping = tei_list_entry(node, struct tei_mapping, link);
	mapping->busy = true;
	tei_mutex_unlock(&r->mu);
	n = mapping->length - mapping->done;
	n = n < MAPPED_PIECE ? n : MAPPED_PIECE;
	there = enter_pages(mapping->addr + mapping->done, n, &err);
	tei_mutex_lock(&r->mu);
	mapping->busy = false;
	mapping->done += there;
	p->room -= there / TABLES;
	TEI_COUNT_BY(engine, prefault_mapped, there);
	if (mapping->leaving)
		tei_cond_broadcast(&p->idle);
	else if (!err && mapping->done < mapping->length)
		queue_mapping(p, mapping, there == n);
	return there != 0;
}

/* ---- the thread ---- */

/* Tells whether something is not done only because there is no room. */
static bool is_short_of_room(const struct tei_prefault *p)
{
	bool regions = !p->is_full && !tei_list_empty(&p->regions);

	return p->no_room && (regions || !tei_list_empty(&p->mappings));
}

/* Sleeps until there is work; for @pause, in any case, if it is not 0. */
static void await_work(struct tei_regions *r, uint64_t pause)
	TEI_REQUIRES(r->mu)
{
	struct tei_prefault *p = &r->prefault;
	uint64_t until = p->waiting_at;

	if (pause)
		until = tei_now_ns() + pause;
	else if (is_short_of_room(p) && p->look_at < until)
		until = p->look_at;
	while (!p->stop && (pause || !p->news) && tei_now_ns() < until)
		(void)tei_cond_wait(&p->work, &r->mu, until);
}

/* Has the thread interrupt none that runs when it wakes up; only a wish. */
static void interrupt_nobody(void)
{
	const struct sched_param usual = {.sched_priority = 0};

	(void)sched_setscheduler(0, SCHED_BATCH, &usual);
}

static void *bring_in_all(void *arg)
{
	struct te_engine *engine = arg;
	struct tei_regions *r = engine->regions;
	struct tei_prefault *p = &r->prefault;

	interrupt_nobody();
	tei_mutex_lock(&r->mu);
	while (!p->stop) {
		struct pace begun = begin_piece();
		uint64_t pause = 0;
		bool served;

		p->news = false;
		served = serve_region(engine, r);
		served |= serve_mapping(engine, r);
		if (served) {
			tei_mutex_unlock(&r->mu);
			pause = end_piece(begun);
			tei_mutex_lock(&r->mu);
		}
		if (pause || (!served && !p->news))
			await_work(r, pause);
	}
	tei_mutex_unlock(&r->mu);
	return NULL;
}

/* Starts the thread, or wakes it. False: there is none. */
static bool wake(struct te_engine *engine, struct tei_regions *r)
	TEI_REQUIRES(r->mu)
{
	struct tei_prefault *p = &r->prefault;
	int rc;

	if (!p->started && !p->failed && !p->stop) {
		rc = tei_thread_start(&p->thread, "te-prefault", bring_in_all,
				      engine);
		p->started = !rc;
		p->failed = rc != 0;
		if (rc)
			LOG_WARN("engine %s: memory is brought in when it is "
				 "used: no thread: %s",
				 engine->name, strerror(-rc));
	}
	p->news = true;
	tei_cond_signal(&p->work);
	return p->started;
}

void tei_prefault_stop(struct te_engine *engine)
{
	struct tei_regions *r = engine->regions;
	bool started;

	tei_mutex_lock(&r->mu);
	r->prefault.stop = true;
	started = r->prefault.started;
	tei_cond_signal(&r->prefault.work);
	tei_mutex_unlock(&r->mu);
	if (started)
		pthread_join(r->prefault.thread, NULL);
}

/* ---- what is to be brought in ---- */

static bool is_off(const struct te_engine *engine)
{
	return !engine->config.prefault || tei_clock_simulated();
}

void tei_prefault_prepare(struct te_engine *engine, struct tei_region *region)
{
	struct tei_ahead *ahead = &region->ahead;
	uint64_t page = page_size();

	tei_list_init(&ahead->link);
	if (is_off(engine) || !(region->access & TE_ACCESS_REMOTE_WRITE) ||
	    !tei_memory_is_lazy(engine, (void *)(uintptr_t)region->addr,
				region->length))
		return;
	ahead->begin = region->addr & ~(page - 1);
	ahead->length =
		((region->addr + region->length + page - 1) & ~(page - 1)) -
		ahead->begin;
	ahead->node = tei_memory_node();
}

void tei_prefault_add(struct te_engine *engine,
		      struct tei_region *region) TEI_NO_ANALYSIS
{
	struct tei_prefault *p = &engine->regions->prefault;

	if (!region->ahead.length || p->failed)
		return;
	tei_list_add_tail(&p->regions, &region->ahead.link);
	p->left += region->ahead.length;
	p->told = false;
	if (!wake(engine, engine->regions))
		take_out(p, &region->ahead);
}

void tei_prefault_remove(struct tei_regions *r, struct tei_region *region)
{
	struct tei_prefault *p = &r->prefault;

	take_out(p, &region->ahead);
	p->held -= region->ahead.done;
	if (p->is_full) {
		p->is_full = false;
		p->news = true;
		tei_cond_signal(&p->work);
	}
}

void tei_mapping_add(struct tei_engine_core *core, struct tei_mapping *mapping,
		     void *addr, uint64_t length)
{
	struct te_engine *engine = core->engine;
	struct tei_regions *r = engine->regions;

	*mapping = (struct tei_mapping){.addr = addr, .length = length};
	tei_list_init(&mapping->link);
	if (is_off(engine))
		return;
	tei_mutex_lock(&r->mu);
	tei_list_add_tail(&r->prefault.mappings, &mapping->link);
	if (!wake(engine, r))
		tei_list_del(&mapping->link);
	tei_mutex_unlock(&r->mu);
}

void tei_mapping_remove(struct tei_engine_core *core,
			struct tei_mapping *mapping)
{
	struct tei_regions *r = core->engine->regions;

	if (!mapping->length)
		return;
	tei_mutex_lock(&r->mu);
	tei_list_del(&mapping->link);
	mapping->leaving = true;
	while (mapping->busy)
		(void)tei_cond_wait(&r->prefault.idle, &r->mu, UINT64_MAX);
	tei_mutex_unlock(&r->mu);
}
