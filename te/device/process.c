/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - what a process asks of GPUs' drivers without an engine */
#include "te/device/process.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "te/core/config.h"
#include "te/core/engine.h"
#include "te/device/device.h"

/* Memory to be given back: the host's that is pinned, or of te_gpu_alloc(). */
struct held {
	struct tei_list link;
	uint64_t addr, length;
	struct tei_gpu_named gpu; /* that pinned it, or has it */
};

static struct {
	unsigned int forks;     /* when it was made: others are fork children */
	struct tei_mutex mu;    /* lock 20 */
	struct tei_list pins;   /* struct held; guarded by mu */
	struct tei_list chunks; /* struct held; guarded by mu */
	/* Guarded by mu; NULL: not open. They stay open. */
	struct tei_runtime *runtimes[TEI_RUNTIMES_MAX];
} process;

/* Length of process.pins. Relaxed: who unmaps memory has pinned it before. */
static _Atomic unsigned int n_pins;

static void init(void)
{
	tei_watch_forks();
	process.forks = tei_forks();
	tei_mutex_init(&process.mu);
	tei_list_init(&process.pins);
	tei_list_init(&process.chunks);
}

/* False in a fork child, where another thread may have held the lock. */
static bool is_alive(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init);
	return process.forks == tei_forks();
}

/* ---- drivers ---- */

static struct tei_runtime *driver_at(size_t i)
{
	struct tei_runtime *runtime;

	tei_mutex_lock(&process.mu);
	runtime = process.runtimes[i];
	tei_mutex_unlock(&process.mu);
	return runtime;
}

/* Opens a driver, unless another thread has. */
static void open_driver(size_t i, const struct tei_config *config, bool load,
			char *why)
{
	char *const *library = (char *const *)((const char *)config +
					       tei_runtimes[i]->library);

	tei_mutex_lock(&process.mu);
	if (!process.runtimes[i])
		(void)tei_runtimes[i]->open(*library, load,
					    &process.runtimes[i], why);
	tei_mutex_unlock(&process.mu);
}

/*
 * Finds a driver, which is loaded if @load. Returns it, or NULL, and @why says
 * why.
 */
static struct tei_runtime *find_driver(size_t i, bool load, char *why)
{
	struct tei_runtime *runtime = driver_at(i);
	struct tei_config config;

	if (runtime)
		return runtime;
	if (tei_config_make(NULL, NULL, &config)) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "a setting in the environment is wrong");
		return NULL;
	}
	open_driver(i, &config, load, why);
	tei_config_fini(&config);
	return driver_at(i);
}

/* ---- what is held ---- */

static void keep(struct tei_list *list, struct held *held)
{
	tei_mutex_lock(&process.mu);
	tei_list_add_tail(list, &held->link);
	tei_mutex_unlock(&process.mu);
}

/* Takes out what is held at @addr; the caller's to free. NULL: nothing is. */
static struct held *take(struct tei_list *list, uint64_t addr)
{
	struct held *found = NULL;

	tei_mutex_lock(&process.mu);
	tei_list_for_each (node, list) {
		found = tei_list_entry(node, struct held, link);
		if (found->addr == addr)
			break;
		found = NULL;
	}
	if (found)
		tei_list_del(&found->link);
	tei_mutex_unlock(&process.mu);
	return found;
}

/* ---- pinning ---- */

static int pin_by_any(void *addr, uint64_t length, struct tei_gpu_named *out,
		      char *why)
{
	int rc = -ENODEV;

	for (size_t i = 0; tei_runtimes[i] && rc == -ENODEV; i++) {
		char none[TEI_RUNTIME_WHY_LEN];

		out->ops = tei_runtimes[i];
		out->runtime = find_driver(i, false, none);
		if (out->runtime)
			rc = out->ops->pin(out->runtime, addr, length,
					   &out->number, why);
	}
	if (rc == -ENODEV)
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "this process uses no GPU");
	return rc;
}

static int pin_memory(void *addr, uint64_t length, char *why)
{
	struct held *pin = tei_calloc(1, sizeof(*pin));
	int rc;

	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
	if (!pin)
		return -ENOMEM;
	pin->addr = (uintptr_t)addr;
	pin->length = length;
	rc = pin_by_any(addr, length, &pin->gpu, why);
	if (rc) {
		tei_free(pin);
		return rc;
	}
	atomic_fetch_add_explicit(&n_pins, 1, memory_order_relaxed);
	keep(&process.pins, pin);
	return 0;
}

int te_gpu_pin(void *addr, uint64_t length)
{
	char why[TEI_RUNTIME_WHY_LEN];
	int rc;

	if (!is_alive())
		return -ESTALE;
	if (!addr || !length)
		return -EINVAL;
	rc = pin_memory(addr, length, why);
	if (rc)
		LOG_WARN("memory: %" PRIu64 " bytes of the host at %p are not "
			 "pinned: %s",
			 length, addr, why);
	return rc;
}

void te_gpu_unpin(void *addr)
{
	struct held *pin;

	if (!is_alive())
		return;
	pin = take(&process.pins, (uintptr_t)addr);
	if (!pin)
		return;
	atomic_fetch_sub_explicit(&n_pins, 1, memory_order_relaxed);
	pin->gpu.ops->unpin(pin->gpu.runtime, pin->gpu.number, addr);
	tei_free(pin);
}

void tei_gpu_unmapping(void *addr)
{
	if (atomic_load_explicit(&n_pins, memory_order_relaxed))
		te_gpu_unpin(addr);
}

/* ---- copying ---- */

/* Finds the GPU whose memory it is. Returns 0, or @why says why not. */
static int find_gpu(const struct te_gpu_copy *copy,
		    struct tei_memory_found *out, char *why)
{
	const struct tei_memory_asked asked = {
		.addr = (const void *)(uintptr_t)copy->gpu,
		.length = copy->length,
	};
	bool any = false;
	int rc;

	for (size_t i = 0; tei_runtimes[i]; i++) {
		struct tei_runtime *runtime = find_driver(i, false, why);

		if (!runtime)
			continue;
		any = true;
		*out = (struct tei_memory_found){.facts.gpu = -1};
		rc = tei_memory_ask(i, runtime, &asked, out, why);
		if (rc)
			return rc;
		if (out->ops && out->facts.kind != TEI_MEMORY_PINNED)
			return 0;
	}
	if (!any)
		return -ENODEV;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "no GPU has it");
	return -EFAULT;
}

static bool is_same(const struct tei_memory_found *a,
		    const struct tei_memory_found *b)
{
	return a->ops == b->ops && a->facts.context == b->facts.context &&
	       a->facts.gpu == b->facts.gpu;
}

#define COPIES_MAX 64 /* that are begun before one is waited for */

static int fill(const struct tei_memory_found *gpu,
		const struct tei_copy *copies, uint32_t n, char *why)
{
	int rc = n ? gpu->ops->fill(gpu->runtime, &gpu->facts, copies, n, why)
		   : 0;

	return rc == -EOPNOTSUPP ? -EIO : rc;
}

static int copy_all(const struct te_gpu_copy *copies, size_t n, size_t *at,
		    char *why)
{
	struct tei_memory_found gpu = {.ops = NULL}, next;
	struct tei_copy batch[COPIES_MAX];
	uint32_t n_batch = 0;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		*at = i;
		rc = find_gpu(&copies[i], &next, why);
		if (!rc && (n_batch == COPIES_MAX || !is_same(&gpu, &next))) {
			rc = fill(&gpu, batch, n_batch, why);
			n_batch = 0;
		}
		if (rc)
			return rc;
		gpu = next;
		batch[n_batch++] = (struct tei_copy){
			.gpu = copies[i].gpu,
			.host = (void *)(uintptr_t)copies[i].host,
			.length = copies[i].length,
		};
	}
	return fill(&gpu, batch, n_batch, why);
}

int te_gpu_copy_in(const struct te_gpu_copy *copies, size_t n)
{
	char why[TEI_RUNTIME_WHY_LEN] = "";
	size_t at = 0;
	int rc;

	if (!is_alive())
		return -ESTALE;
	for (size_t i = 0; i < n; i++)
		if (!copies[i].gpu || !copies[i].host || !copies[i].length ||
		    copies[i].length > UINT64_MAX - copies[i].gpu)
			return -EINVAL;
	rc = copy_all(copies, n, &at, why);
	if (rc)
		LOG_WARN("memory: %" PRIu64 " bytes are not copied to a GPU's "
			 "at 0x%" PRIx64 ": %s",
			 copies[at].length, copies[at].gpu, why);
	return rc;
}

/* ---- memory that others can be given ---- */

/* Finds and starts the driver whose GPU a number means: the first there is. */
static int start_any(struct tei_gpu_named *out, char *why)
{
	for (size_t i = 0; tei_runtimes[i]; i++) {
		out->ops = tei_runtimes[i];
		out->runtime = find_driver(i, true, why);
		if (out->runtime)
			return out->ops->start(out->runtime, why);
	}
	return -ENODEV;
}

static int alloc_chunk(int gpu, uint64_t length, uint64_t *out, char *why)
{
	struct held *chunk = tei_calloc(1, sizeof(*chunk));
	int rc = -ENOMEM;

	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
	if (!chunk)
		return rc;
	chunk->length = length;
	chunk->gpu.number = gpu;
	rc = start_any(&chunk->gpu, why);
	if (!rc)
		rc = chunk->gpu.ops->map(chunk->gpu.runtime, gpu,
					 &chunk->length, &chunk->addr, why);
	if (rc) {
		tei_free(chunk);
		return rc;
	}
	*out = chunk->addr;
	keep(&process.chunks, chunk);
	return 0;
}

int te_gpu_alloc(int gpu, uint64_t length, uint64_t *out)
{
	char why[TEI_RUNTIME_WHY_LEN];
	int rc;

	if (!is_alive())
		return -ESTALE;
	if (!length || !out)
		return -EINVAL;
	rc = alloc_chunk(gpu, length, out, why);
	if (rc)
		LOG_WARN("memory: no %" PRIu64 " bytes of GPU %d: %s", length,
			 gpu, why);
	return rc;
}

void te_gpu_free(uint64_t addr, void *stream)
{
	char why[TEI_RUNTIME_WHY_LEN];
	struct held *chunk;

	if (!addr || !is_alive())
		return;
	chunk = take(&process.chunks, addr);
	if (!chunk)
		return;
	if (chunk->gpu.ops->unmap(chunk->gpu.runtime, chunk->gpu.number, addr,
				  chunk->length, (uintptr_t)stream, why))
		LOG_WARN("memory: %" PRIu64 " bytes of GPU %d are not given "
			 "back: %s",
			 chunk->length, chunk->gpu.number, why);
	tei_free(chunk);
}

int te_gpu_can_alloc(int gpu)
{
	char why[TEI_RUNTIME_WHY_LEN];
	struct tei_gpu_named any;
	int rc;

	if (!is_alive())
		return -ESTALE;
	rc = start_any(&any, why);
	return rc ? rc : any.ops->can_map(any.runtime, gpu, why);
}
