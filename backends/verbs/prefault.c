/* SPDX-License-Identifier: Apache-2.0 */
/* prefault.c - bring memory in by several threads */
#include "backends/verbs/prefault.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/mapped.h"
#include "base/thread.h"

#define STEP        (16u << 20) /* bytes that a thread takes at a time */
#define THREADS_MAX 8

struct crew {
	uint64_t addr, length;
	/* What nobody has taken. Relaxed: joining orders the rest. */
	_Atomic uint64_t next;
};

static void *work(void *arg)
{
	struct crew *crew = arg;

	for (;;) {
		uint64_t at = atomic_fetch_add_explicit(&crew->next, STEP,
							memory_order_relaxed);
		uint64_t n;

		if (at >= crew->length)
			return NULL;
		n = crew->length - at;
		if (!tei_is_usable(crew->addr + at, n < STEP ? n : STEP, true))
			return NULL;
	}
}

/* Besides the caller. */
static unsigned int helpers_for(uint64_t length)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t n = (length - 1) / STEP;

	if (cpus > THREADS_MAX)
		cpus = THREADS_MAX;
	if (cpus < 1)
		cpus = 1;
	return (unsigned int)(n < (uint64_t)cpus - 1 ? n : (uint64_t)cpus - 1);
}

void tei_verbs_prefault(uint64_t addr, uint64_t length)
{
	struct crew crew = {.addr = addr, .length = length};
	unsigned int n = 0, wanted = helpers_for(length);
	pthread_t helpers[THREADS_MAX];

	while (n < wanted &&
	       !tei_thread_start(&helpers[n], "te-prefault", work, &crew))
		n++;
	(void)work(&crew); /* also alone */
	while (n)
		pthread_join(helpers[--n], NULL);
}
