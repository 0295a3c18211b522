/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - asking the drivers of GPUs whose memory an address is */
#include "te/device/device.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mapped.h"
#include "te/core/engine.h"

void tei_gpus_init(struct tei_gpus *gpus)
{
	memset(gpus, 0, sizeof(*gpus));
	tei_mutex_init(&gpus->mu);
	tei_list_init(&gpus->stages);
}

void tei_gpus_fini(struct tei_gpus *gpus)
{
	assert(tei_list_empty(&gpus->stages));
	for (size_t i = 0; tei_runtimes[i]; i++)
		if (gpus->runtimes[i].runtime)
			tei_runtimes[i]->close(gpus->runtimes[i].runtime);
	tei_mutex_fini(&gpus->mu);
}

/* The file that the settings name, or NULL. */
static const char *library_of(const struct tei_config *config, size_t i)
{
	char *const *library = (char *const *)((const char *)config +
					       tei_runtimes[i]->library);

	return *library;
}

/*
 * Finds the driver; *@out NULL: there is none. @load: also where nobody in the
 * process has loaded it, which is tried once. Returns 0, -ENOMEM.
 */
static int driver_of(struct te_engine *engine, size_t i, bool load,
		     struct tei_runtime **out, char *why)
{
	struct tei_gpus *gpus = engine->gpus;
	struct tei_gpu_runtime *gpu = &gpus->runtimes[i];
	int rc = 0;

	tei_mutex_lock(&gpus->mu);
	if (!gpu->runtime && !(load && gpu->tried)) {
		rc = tei_runtimes[i]->open(library_of(&engine->config, i), load,
					   &gpu->runtime, why);
		gpu->tried = gpu->tried || (rc && load && rc != -ENOMEM);
	}
	*out = gpu->runtime;
	tei_mutex_unlock(&gpus->mu);
	return rc == -ENOMEM ? rc : 0;
}

/* The number behind "cuda:", or -1 where the location is of another kind. */
static int number_in(const char *location, const char *runtime)
{
	size_t len = strlen(runtime);
	long number;
	char *end;

	if (tei_location_is_any(location) ||
	    strncmp(location, runtime, len) != 0 || location[len] != ':')
		return -1;
	number = strtol(location + len + 1, &end, 10);
	return end != location + len + 1 && !*end && number >= 0 &&
			       number < INT16_MAX
		       ? (int)number
		       : -1;
}

static int not_the_hosts(const char *location, char *why)
{
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "location: \"%s\", but the memory is the host's",
		       location);
	return -EINVAL;
}

/* ---- what is there ---- */

static bool goes_on(const struct tei_memory_facts *first,
		    const struct tei_memory_facts *next)
{
	return first->chunked && next->chunked && first->kind == next->kind &&
	       first->gpu == next->gpu;
}

/* Looks from allocation to allocation whether all of the range is the same. */
static int check_range(size_t i, struct tei_runtime *runtime,
		       const struct tei_memory_asked *asked,
		       const struct tei_memory_facts *first, char *why)
{
	uint64_t addr = (uintptr_t)asked->addr, end = addr + asked->length;
	struct tei_memory_facts facts = *first;
	int rc;

	while (facts.base + facts.length < end) {
		uint64_t at = facts.base + facts.length;

		if (at <= addr) /* a driver that contradicts itself */
			return 0;
		rc = tei_runtimes[i]->look(runtime, at, &facts, why);
		if (rc)
			return rc;
		if (goes_on(first, &facts) && facts.length &&
		    facts.base + facts.length > at)
			continue;
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "length: the range ends %" PRIu64
			       " bytes behind what was allocated there",
			       end - at);
		return -EFAULT;
	}
	return 0;
}

/* Describes the GPU that the memory is of, whose driver runs. */
static int describe(size_t i, struct tei_runtime *runtime,
		    struct tei_memory_found *found, char *why)
{
	int rc = tei_runtimes[i]->gpu(runtime, found->facts.gpu, &found->gpu,
				      why);

	if (rc == -ENOENT) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "addr: memory of %s:%d, which this process does "
			       "not see",
			       tei_runtimes[i]->name, found->facts.gpu);
		return -EFAULT;
	}
	return rc;
}

/* Compares what the location says with the GPU that the memory is of. */
static int check_location(const char *location,
			  const struct tei_memory_found *found, size_t i,
			  char *why)
{
	const struct tei_memory_facts *facts = &found->facts;
	int number = number_in(location, tei_runtimes[i]->name);

	/* Managed memory is where it was last used. */
	if (tei_location_is_any(location) || number == facts->gpu ||
	    facts->kind == TEI_MEMORY_MANAGED)
		return 0;
	if (facts->kind == TEI_MEMORY_PINNED) {
		if (number < 0)
			return 0;
		return not_the_hosts(location, why);
	}
	/* Else a name that a file of the topology has given. */
	if (number < 0 && strncmp(location, "cpu:", 4) != 0)
		return 0;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "location: \"%s\", but the memory is of %s:%d", location,
		       tei_runtimes[i]->name, facts->gpu);
	return -EINVAL;
}

int tei_memory_ask(size_t i, struct tei_runtime *runtime,
		   const struct tei_memory_asked *asked,
		   struct tei_memory_found *out, char why[TEI_RUNTIME_WHY_LEN])
{
	int rc = tei_runtimes[i]->look(runtime, (uintptr_t)asked->addr,
				       &out->facts, why);

	if (rc || out->facts.kind == TEI_MEMORY_HOST)
		return rc;
	out->ops = tei_runtimes[i];
	out->runtime = runtime;
	/* Processors reach the rest, and what lies behind it may be theirs. */
	if (out->facts.kind == TEI_MEMORY_DEVICE)
		rc = check_range(i, runtime, asked, &out->facts, why);
	if (!rc && out->facts.gpu >= 0)
		rc = describe(i, runtime, out, why);
	if (!rc)
		rc = check_location(asked->location, out, i, why);
	return rc;
}

static void warn_of_driver(const struct te_engine *engine, size_t i,
			   const char *why)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("engine %s: the driver of %s GPUs fails, so memory "
			 "that the host can reach is taken for the host's: %s",
			 engine->name, tei_runtimes[i]->name, why);
}

/*
 * Finds the driver that may know the memory. @wanted: there is reason to load
 * and start it. *@out NULL: none runs, and no memory of the process is of its
 * GPUs. Returns 0, -ENOMEM.
 */
static int running_driver(struct te_engine *engine, size_t i, bool wanted,
			  struct tei_runtime **out, char *why)
{
	int rc = driver_of(engine, i, wanted, out, why);

	if (rc || !*out || !wanted)
		return rc;
	rc = tei_runtimes[i]->start(*out, why);
	if (!rc)
		return 0;
	if (rc != -ENODEV)
		warn_of_driver(engine, i, why);
	*out = NULL;
	return 0;
}

/* Outcome of asking all drivers. */
struct answers {
	bool any;    /* one has answered, and does not know the memory */
	bool wanted; /* one that the location names */
};

/* Tells whether the host's mapping permits no access. */
static bool is_without_access(uint64_t addr)
{
	return !tei_is_touchable(addr, false) && !tei_protection(addr, 1);
}

/*
 * Judges memory that no driver knows. What the host has mapped without access
 * may be made accessible later; where GPUs are in use it is more likely
 * memory of one that was freed. A file that was made shorter is the host's.
 */
static int check_host(const struct tei_memory_asked *asked, bool mapped,
		      const struct answers *answers, char *why)
{
	if (!mapped ||
	    (answers->any && is_without_access((uintptr_t)asked->addr))) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "addr: no memory that may be read, and none "
			       "that a GPU has now");
		return -EFAULT;
	}
	return answers->wanted ? not_the_hosts(asked->location, why) : 0;
}

int tei_memory_find(struct te_engine *engine,
		    const struct tei_memory_asked *asked,
		    struct tei_memory_found *out, char why[TEI_RUNTIME_WHY_LEN])
{
	bool mapped = tei_is_mapped((uintptr_t)asked->addr, 1);
	struct answers answers = {.any = false};
	int rc;

	*out = (struct tei_memory_found){
		.facts = {.kind = TEI_MEMORY_HOST, .gpu = -1}};
	for (size_t i = 0; tei_runtimes[i]; i++) {
		bool named =
			number_in(asked->location, tei_runtimes[i]->name) >= 0;
		struct tei_runtime *runtime;

		rc = running_driver(engine, i, named || !mapped, &runtime, why);
		if (rc)
			return rc;
		if (!runtime)
			continue;
		rc = tei_memory_ask(i, runtime, asked, out, why);
		if (rc == -EIO && !out->ops && mapped && !named) {
			warn_of_driver(engine, i, why);
			continue;
		}
		if (rc || out->ops)
			return rc;
		answers.any = true;
		answers.wanted = answers.wanted || named;
	}
	return check_host(asked, mapped, &answers, why);
}

/* ---- asking for memory ---- */

/* Loads and starts a driver. */
static int start_driver(struct te_engine *engine, size_t i,
			struct tei_gpu_named *out, char *why)
{
	int rc;

	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "the driver of %s GPUs is not here",
		       tei_runtimes[i]->name);
	rc = driver_of(engine, i, true, &out->runtime, why);
	if (rc || !out->runtime)
		return rc ? rc : -ENODEV;
	out->ops = tei_runtimes[i];
	return out->ops->start(out->runtime, why);
}

int tei_gpu_find(struct te_engine *engine, const char *location,
		 struct tei_gpu_named *out, char why[TEI_RUNTIME_WHY_LEN])
{
	*out = (struct tei_gpu_named){.ops = NULL};
	for (size_t i = 0; tei_runtimes[i]; i++) {
		out->number = number_in(location, tei_runtimes[i]->name);
		if (out->number >= 0)
			return start_driver(engine, i, out, why);
	}
	return 0;
}

/* Returns the place in tei_runtimes, or -EINVAL; @why. */
static int place_of(const char *kind, char *why)
{
	for (int i = 0; kind && tei_runtimes[i]; i++)
		if (!strcmp(tei_runtimes[i]->name, kind))
			return i;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "kind: no GPUs are called \"%s\" here",
		       kind ? kind : "");
	return -EINVAL;
}

int tei_runtime_find(struct te_engine *engine, const char *kind,
		     struct tei_gpu_named *out, char why[TEI_RUNTIME_WHY_LEN])
{
	int i = place_of(kind, why);

	*out = (struct tei_gpu_named){.ops = NULL};
	return i < 0 ? i : start_driver(engine, (size_t)i, out, why);
}

int tei_runtime_probe(const struct tei_config *config, const char *kind,
		      char why[TEI_RUNTIME_WHY_LEN])
{
	int rc, i = place_of(kind, why);
	struct tei_runtime *runtime;

	if (i < 0)
		return i;
	rc = tei_runtimes[i]->open(library_of(config, (size_t)i), true,
				   &runtime, why);
	if (rc)
		return rc == -ENOMEM ? rc : -ENODEV;
	rc = tei_runtimes[i]->start(runtime, why);
	tei_runtimes[i]->close(runtime);
	return rc;
}

int tei_gpus_pin(struct te_engine *engine, void *addr, uint64_t length,
		 struct tei_gpu_named *out, char why[TEI_RUNTIME_WHY_LEN])
{
	int rc;

	*out = (struct tei_gpu_named){.ops = NULL};
	for (size_t i = 0; tei_runtimes[i]; i++) {
		rc = driver_of(engine, i, false, &out->runtime, why);
		if (rc)
			return rc;
		if (!out->runtime)
			continue;
		rc = tei_runtimes[i]->pin(out->runtime, addr, length,
					  &out->number, why);
		if (!rc)
			out->ops = tei_runtimes[i];
		if (rc != -ENODEV)
			return rc;
	}
	return 0;
}
