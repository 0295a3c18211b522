/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - pinned memory for copies to and from a GPU, and their order */
#include "te/device/stage.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "te/core/engine.h"

#define BUNCH_LEN ((uint64_t)256 << 10) /* bytes of copies with one mark */

static uint32_t blocks_of(uint64_t length)
{
	return (uint32_t)((length + TEI_STAGE_BLOCK - 1) / TEI_STAGE_BLOCK);
}

/* ---- opening and closing ---- */

static bool is_of(const struct tei_stage *stage,
		  const struct tei_memory_found *found)
{
	return stage->runtime == found->runtime &&
	       stage->gpu == found->facts.gpu &&
	       stage->context == found->facts.context;
}

static void init(struct tei_stage *stage, const struct tei_memory_found *found)
{
	stage->ops = found->ops;
	stage->runtime = found->runtime;
	stage->gpu = found->facts.gpu;
	stage->context = found->facts.context;
	atomic_init(&stage->refs, 1);
	tei_list_init(&stage->active);
	for (int way = 0; way < TEI_COPY_WAYS; way++) {
		tei_list_init(&stage->ways[way].waiting);
		for (uint32_t i = 0; i < TEI_COPY_MARKS; i++)
			tei_list_init(&stage->ways[way].bunches[i].jobs);
	}
}

/* Returns 0, -EOPNOTSUPP, -ENOMEM, -EIO and @why. */
static int stage_open(const struct tei_memory_found *found, uint64_t length,
		      struct tei_stage **out, char *why)
{
	uint32_t n = blocks_of(length);
	struct tei_stage *stage = tei_calloc(1, sizeof(*stage));
	void *memory;
	int rc = -ENOMEM;

	length = (uint64_t)n * TEI_STAGE_BLOCK;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
	if (!stage)
		return rc;
	init(stage, found);
	stage->used = tei_calloc((n + 63) / 64, sizeof(*stage->used));
	if (stage->used)
		rc = found->ops->copier_open(found->runtime, &found->facts,
					     length, &stage->copier, &memory,
					     why);
	if (rc) {
		tei_free(stage->used);
		tei_free(stage);
		return rc;
	}
	stage->memory = memory;
	stage->length = length;
	stage->n_blocks = stage->n_free = n;
	stage->flushes = stage->ops->needs_flush(stage->copier);
	*out = stage;
	return 0;
}

static struct tei_stage *find(const struct tei_gpus *gpus,
			      const struct tei_memory_found *found)
{
	tei_list_for_each (node, &gpus->stages) {
		struct tei_stage *stage =
			tei_list_entry(node, struct tei_stage, link);

		if (is_of(stage, found) && !tei_stage_is_broken(stage))
			return stage;
	}
	return NULL;
}

int tei_stage_get(struct te_engine *engine,
		  const struct tei_memory_found *found, struct tei_stage **out,
		  char why[TEI_RUNTIME_WHY_LEN])
{
	struct tei_gpus *gpus = engine->gpus;
	struct tei_stage *stage;
	int rc = 0;

	tei_mutex_lock(&gpus->mu);
	stage = find(gpus, found);
	if (stage) {
		*out = tei_stage_hold(stage);
	} else {
		rc = stage_open(found, engine->config.gpu_staging, out, why);
		if (!rc)
			tei_list_add_tail(&gpus->stages, &(*out)->link);
	}
	tei_mutex_unlock(&gpus->mu);
	return rc;
}

/* Without the lock, which is held for long where a stage is opened. */
static bool put_one_of_several(struct tei_stage *stage)
{
	uint32_t refs =
		atomic_load_explicit(&stage->refs, memory_order_relaxed);

	while (refs > 1)
		if (atomic_compare_exchange_weak_explicit(
			    &stage->refs, &refs, refs - 1, memory_order_acq_rel,
			    memory_order_relaxed))
			return true;
	return false;
}

void tei_stage_put(struct te_engine *engine, struct tei_stage *stage)
{
	struct tei_gpus *gpus = engine->gpus;

	if (!stage)
		return;
	if (put_one_of_several(stage))
		return;
	tei_mutex_lock(&gpus->mu);
	if (atomic_fetch_sub_explicit(&stage->refs, 1, memory_order_acq_rel) >
	    1) {
		tei_mutex_unlock(&gpus->mu);
		return;
	}
	assert(!stage->n_jobs && stage->n_free == stage->n_blocks);
	tei_list_del(&stage->link);
	stage->ops->copier_close(stage->copier);
	tei_mutex_unlock(&gpus->mu);
	tei_free(stage->used);
	tei_free(stage);
}

/* ---- memory ---- */

static bool is_used(const struct tei_stage *stage, uint32_t block)
{
	return stage->used[block / 64] >> (block % 64) & 1;
}

static void set_used(struct tei_stage *stage, uint32_t first, uint32_t n)
{
	for (; n; n--, first++)
		stage->used[first / 64] ^= (uint64_t)1 << (first % 64);
}

/* Finds the first @n free blocks in a row. n_blocks: there are none. */
static uint32_t find_run(const struct tei_stage *stage, uint32_t n)
{
	uint32_t begin = 0, to = stage->n_blocks;

	for (uint32_t i = 0; i < to && i - begin < n; i++) {
		if (!is_used(stage, i))
			continue;
		begin = i + 1;
		if (!(begin % 64)) /* whole words at a time */
			while (begin < to &&
			       stage->used[begin / 64] == UINT64_MAX)
				begin += 64;
		i = begin - 1;
	}
	return begin + n <= to ? begin : to;
}

/* Returns how many blocks stay free for those that others wait for. */
static uint32_t kept_free(const struct tei_stage *stage, enum tei_stage_use use)
{
	switch (use) {
	case TEI_STAGE_PART:
		return stage->n_blocks / 4;
	case TEI_STAGE_ASKED:
		return stage->n_blocks / 8;
	default:
		return 0;
	}
}

void *tei_stage_take(struct tei_stage *stage, enum tei_stage_use use,
		     uint64_t length)
{
	uint32_t n = blocks_of(length), at;

	if (n + kept_free(stage, use) > stage->n_free ||
	    (use == TEI_STAGE_ASKED &&
	     stage->n_asked + n > stage->n_blocks / 2))
		return NULL;
	/* The same again and again, while caches have it. */
	at = find_run(stage, n);
	if (at == stage->n_blocks)
		return NULL;
	set_used(stage, at, n);
	stage->n_free -= n;
	if (use == TEI_STAGE_ASKED)
		stage->n_asked += n;
	return stage->memory + (uint64_t)at * TEI_STAGE_BLOCK;
}

void *tei_stage_take_some(struct tei_stage *stage, enum tei_stage_use use,
			  uint64_t *length)
{
	void *memory = tei_stage_take(stage, use, *length);

	while (!memory && *length > TEI_STAGE_BLOCK) {
		*length = (uint64_t)(blocks_of(*length) / 2) * TEI_STAGE_BLOCK;
		memory = tei_stage_take(stage, use, *length);
	}
	return memory;
}

void tei_stage_give(struct tei_stage *stage, enum tei_stage_use use,
		    void *memory, uint64_t length)
{
	uint64_t at = (uint64_t)((uint8_t *)memory - stage->memory);
	uint32_t n = blocks_of(length);

	set_used(stage, (uint32_t)(at / TEI_STAGE_BLOCK), n);
	stage->n_free += n;
	if (use == TEI_STAGE_ASKED)
		stage->n_asked -= n;
}

void tei_stage_flush(struct tei_stage *stage)
{
	if (stage->flushes && !tei_stage_is_broken(stage))
		stage->ops->flush(stage->copier);
}

/* ---- copies ---- */

static struct tei_stage_job *first_job(struct tei_list *jobs)
{
	return tei_list_entry(jobs->next, struct tei_stage_job, link);
}

static void end_jobs(struct tei_stage *stage, struct tei_list *jobs, int err)
{
	while (!tei_list_empty(jobs)) {
		struct tei_stage_job *job = first_job(jobs);

		tei_list_del(&job->link);
		stage->n_jobs--;
		job->done(job, err);
	}
}

static void warn_of_job(const struct tei_stage *stage, const char *why)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("a copy to or from memory of %s:%d fails: %s",
			 stage->ops->name, stage->gpu, why);
}

/* The context is dead: no copy of it ends any more, nor touches anything. */
static void give_up(struct tei_stage *stage, const char *why)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (!tei_stage_is_broken(stage) && tei_log_allowed(&limit))
		LOG_ERROR("copies to and from %s:%d fail: %s; memory of it can "
			  "be moved again once its regions are added anew",
			  stage->ops->name, stage->gpu, why);
	atomic_store_explicit(&stage->broken, true, memory_order_relaxed);
	for (int i = 0; i < TEI_COPY_WAYS; i++) {
		struct tei_stage_way *way = &stage->ways[i];

		for (; way->n; way->n--, way->first++)
			end_jobs(
				stage,
				&way->bunches[way->first % TEI_COPY_MARKS].jobs,
				-EIO);
		end_jobs(stage, &way->waiting, -EIO);
	}
}

/* Copies of several jobs, as the driver takes them. */
struct bunch {
	struct tei_copy copies[TEI_STAGE_COPIES_MAX];
	uint32_t n, n_jobs;
	uint64_t length;
};

/* Moves jobs that wait to @jobs, until they are enough to be begun. */
static void gather(struct tei_stage_way *way, struct bunch *bunch,
		   struct tei_list *jobs)
{
	bunch->n = 0;
	bunch->length = 0;
	bunch->n_jobs = 0;
	while (!tei_list_empty(&way->waiting) && bunch->length < BUNCH_LEN) {
		struct tei_stage_job *job = first_job(&way->waiting);

		if (bunch->n + job->n > TEI_STAGE_COPIES_MAX ||
		    (bunch->n_jobs && way->n_alone))
			break;
		bunch->n_jobs++;
		for (uint32_t i = 0; i < job->n; i++)
			bunch->copies[bunch->n++] = job->copies[i];
		bunch->length += job->length;
		tei_list_del(&job->link);
		tei_list_add_tail(jobs, &job->link);
	}
	way->n_alone -= way->n_alone > 0;
}

/* Puts the jobs of a bunch that was not begun back to the front. */
static void put_back(struct tei_stage_way *way, struct tei_list *jobs)
{
	while (!tei_list_empty(jobs)) {
		struct tei_list *last = jobs->prev;

		tei_list_del(last);
		tei_list_add_head(&way->waiting, last);
	}
}

/* Begins what waits, as far as there are marks. */
static void launch(struct tei_stage *stage, enum tei_copy_way which)
{
	struct tei_stage_way *way = &stage->ways[which];
	char why[TEI_RUNTIME_WHY_LEN];
	struct bunch bunch; /* large; gather() sets what is used */

	while (!tei_list_empty(&way->waiting) && way->n < TEI_COPY_MARKS) {
		uint32_t mark = (way->first + way->n) % TEI_COPY_MARKS;
		struct tei_list *jobs = &way->bunches[mark].jobs;
		int rc;

		gather(way, &bunch, jobs);
		rc = stage->ops->copy(stage->copier, which, bunch.copies,
				      bunch.n, mark, why);
		if (!rc) {
			way->n++;
		} else if (rc == -EIO && bunch.n_jobs == 1) {
			warn_of_job(stage, why);
			end_jobs(stage, jobs, -EIO);
		} else {
			put_back(way, jobs);
			if (rc == -EIO) /* one of them is to blame */
				way->n_alone = bunch.n_jobs;
			else if (rc != -EAGAIN)
				give_up(stage, why);
			if (rc != -EIO)
				return;
		}
	}
}

/* Ends the jobs of bunches that have been copied. True: there were some. */
static bool harvest(struct tei_stage *stage, enum tei_copy_way which)
{
	struct tei_stage_way *way = &stage->ways[which];
	char why[TEI_RUNTIME_WHY_LEN];
	bool any = false;

	while (way->n) {
		uint32_t mark = way->first % TEI_COPY_MARKS;
		int rc = stage->ops->is_copied(stage->copier, which, mark, why);

		if (!rc)
			break;
		any = true;
		if (rc < 0) { /* no copy touches memory any more */
			give_up(stage, why);
			break;
		}
		way->first++;
		way->n--;
		end_jobs(stage, &way->bunches[mark].jobs, 0);
	}
	return any;
}

void tei_stage_submit(struct tei_stage *stage, struct tei_stage_job *job)
{
	assert(job->n && job->n <= TEI_STAGE_COPIES_MAX);
	tei_list_add_tail(&stage->ways[job->way].waiting, &job->link);
	stage->n_jobs++;
}

bool tei_stage_turn(struct tei_stage *stage)
{
	bool any = false;

	if (tei_stage_is_broken(stage)) {
		any = stage->n_jobs;
		give_up(stage, "");
		return any;
	}
	for (int way = 0; way < TEI_COPY_WAYS && !tei_stage_is_broken(stage);
	     way++) {
		launch(stage, (enum tei_copy_way)way);
		any |= harvest(stage, (enum tei_copy_way)way);
	}
	return any || tei_stage_is_broken(stage);
}
