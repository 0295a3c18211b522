/* SPDX-License-Identifier: Apache-2.0 */
/* bounce.c - blocks that stand in for memory which is not registered */
#include "base/bounce.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"

int tei_bounce_init(struct tei_bounce *bounce, uint64_t length)
{
	uint32_t n = (uint32_t)(length / TEI_BOUNCE_LEN);

	*bounce = (struct tei_bounce){.n = n, .n_free = n};
	if (!n)
		return 0;
	bounce->free = tei_calloc(n, sizeof(bounce->free[0]));
	bounce->memory = tei_aligned_calloc((size_t)sysconf(_SC_PAGESIZE),
					    (size_t)n * TEI_BOUNCE_LEN);
	if (!bounce->free || !bounce->memory) {
		tei_bounce_fini(bounce);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		bounce->free[i] = bounce->memory + (size_t)i * TEI_BOUNCE_LEN;
	return 0;
}

void tei_bounce_fini(struct tei_bounce *bounce)
{
	assert(bounce->n_free == bounce->n);
	tei_free(bounce->memory);
	tei_free(bounce->free);
	*bounce = (struct tei_bounce){.n = 0};
}

uint8_t *tei_bounce_take(struct tei_bounce *bounce)
{
	return bounce->n_free ? bounce->free[--bounce->n_free] : NULL;
}

void tei_bounce_give(struct tei_bounce *bounce, uint8_t *block)
{
	assert(bounce->n_free < bounce->n);
	bounce->free[bounce->n_free++] = block;
}

void tei_bounce_tell(struct tei_bounce *bounce, const char *name)
{
	if (bounce->logged || bounce->n_free == bounce->n)
		return;
	bounce->logged = true;
	LOG_INFO("rail %s: local memory is not registered and so is copied: "
		 "register it for full speed",
		 name);
}

/* ---- copies ---- */

/* Returns how much of @length is in the first piece. */
static uint64_t part_of(const struct iovec *iov, uint64_t skip, uint64_t length)
{
	uint64_t n = iov->iov_len - skip;

	return n < length ? n : length;
}

void tei_bounce_fill(uint8_t *block, const struct iovec *iov, uint64_t skip,
		     uint64_t length)
{
	for (uint64_t n; length; length -= n, skip = 0, iov++) {
		n = part_of(iov, skip, length);
		if (n)
			memcpy(block, (uint8_t *)iov->iov_base + skip, n);
		block += n;
	}
}

int tei_bounce_empty(const uint8_t *block, const struct iovec *iov,
		     uint64_t skip, uint64_t length)
{
	for (uint64_t n; length; length -= n, skip = 0, iov++) {
		uint8_t *piece = (uint8_t *)iov->iov_base + skip;

		n = part_of(iov, skip, length);
		if (n && !tei_is_there((uintptr_t)piece, n, true))
			return -EFAULT;
		if (n)
			memcpy(piece, block, n);
		block += n;
	}
	return 0;
}
