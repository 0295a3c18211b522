/* SPDX-License-Identifier: Apache-2.0 */
/* bounce.c - registered blocks that stand in for memory which is not */
#include "backends/verbs/bounce.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"

static int allocate(struct verbs_bounce *bounce, const struct verbs_port *port,
		    struct ibv_pd *pd)
{
	size_t n = bounce->n, length = n * VERBS_BLOCK_LEN;

	bounce->free = tei_calloc(n, sizeof(bounce->free[0]));
	bounce->memory =
		tei_aligned_calloc((size_t)sysconf(_SC_PAGESIZE), length);
	if (!bounce->free || !bounce->memory)
		return -ENOMEM;
	bounce->mr = port->api->reg_mr(pd, bounce->memory, length,
				       IBV_ACCESS_LOCAL_WRITE);
	return bounce->mr ? 0 : tei_verbs_error(-1);
}

void tei_verbs_bounce_init(struct verbs_bounce *bounce,
			   const struct verbs_port *port, struct ibv_pd *pd)
{
	int rc;

	*bounce = (struct verbs_bounce){
		.n = (uint32_t)(port->config->bounce / VERBS_BLOCK_LEN)};
	if (!bounce->n)
		return;
	rc = allocate(bounce, port, pd);
	if (rc) {
		LOG_WARN("device %s: no bounce buffers, so memory that is not "
			 "registered goes other ways: %s",
			 port->name, strerror(-rc));
		bounce->n = 0;
	}
	for (uint32_t i = 0; i < bounce->n; i++)
		bounce->free[i] = bounce->memory + (size_t)i * VERBS_BLOCK_LEN;
	bounce->n_free = bounce->n;
}

void tei_verbs_bounce_fini(struct verbs_bounce *bounce,
			   const struct verbs_port *port)
{
	int rc;

	assert(bounce->n_free == bounce->n);
	if (bounce->mr) {
		rc = tei_verbs_error(port->api->dereg_mr(bounce->mr));
		if (rc)
			LOG_ERROR("device %s: a key cannot be taken back: %s",
				  port->name, strerror(-rc));
	}
	tei_free(bounce->memory);
	tei_free(bounce->free);
}

uint8_t *tei_verbs_bounce_take(struct verbs_bounce *bounce)
{
	return bounce->n_free ? bounce->free[--bounce->n_free] : NULL;
}

void tei_verbs_bounce_give(struct verbs_bounce *bounce, uint8_t *block)
{
	assert(bounce->n_free < bounce->n);
	bounce->free[bounce->n_free++] = block;
}

/* How much of @length is in the first piece. */
static uint64_t part_of(const struct iovec *iov, uint64_t skip, uint64_t length)
{
	uint64_t n = iov->iov_len - skip;

	return n < length ? n : length;
}

void tei_verbs_bounce_fill(uint8_t *block, const struct iovec *iov,
			   uint64_t skip, uint64_t length)
{
	for (uint64_t n; length; length -= n, skip = 0, iov++) {
		n = part_of(iov, skip, length);
		if (n)
			memcpy(block, (uint8_t *)iov->iov_base + skip, n);
		block += n;
	}
}

int tei_verbs_bounce_empty(const uint8_t *block, const struct iovec *iov,
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
