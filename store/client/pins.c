/* SPDX-License-Identifier: Apache-2.0 */
/* pins.c - memory of a client that is pinned for GPUs */
#include "store/client/pins.h"

#include <inttypes.h>

#include <te/gpu.h>

#include "base/log.h"

void tes_pins_init(struct tes_pins *pins, uint32_t mib)
{
	pins->max = mib == UINT32_MAX ? UINT64_MAX : (uint64_t)mib << 20;
	atomic_init(&pins->used, 0);
}

/* Takes @bytes of what may be pinned. *@used: of it before. */
static bool reserve(struct tes_pins *pins, uint64_t bytes, uint64_t *used)
{
	*used = atomic_load_explicit(&pins->used, memory_order_relaxed);
	do {
		if (bytes > pins->max - *used)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&pins->used, used, *used + bytes, memory_order_relaxed,
		memory_order_relaxed));
	return true;
}

static void release(struct tes_pins *pins, uint64_t bytes)
{
	atomic_fetch_sub_explicit(&pins->used, bytes, memory_order_relaxed);
}

bool tes_pins_add(struct tes_pins *pins, const char *what, void *addr,
		  uint64_t bytes)
{
	uint64_t used;

	if (!pins->max)
		return false;
	if (!reserve(pins, bytes, &used)) {
		LOG_WARN("%s: %" PRIu64 " bytes are not pinned: %" PRIu64
			 " are, and pin_memory_max_bytes allows %" PRIu64,
			 what, bytes, used, pins->max);
		return false;
	}
	if (te_gpu_pin(addr, bytes)) { /* which says why */
		release(pins, bytes);
		return false;
	}
	LOG_INFO("%s: %" PRIu64 " bytes are pinned, %" PRIu64
		 " of this client in all",
		 what, bytes, used + bytes);
	return true;
}

void tes_pins_remove(struct tes_pins *pins, void *addr, uint64_t bytes)
{
	te_gpu_unpin(addr);
	release(pins, bytes);
}
