/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - registered or not: what a slice's local memory is, and its sum */
#include "backends/rdma/local.h"

#include <errno.h>

#include "base/mapped.h"

/* Tells whether regions have all of @n bytes at @addr. */
static bool have_range(struct rdma_regions *regions, uint64_t addr, uint64_t n)
	TEI_REQUIRES(regions->mu)
{
	while (n) {
		const struct rdma_region *region =
			tei_rdma_region_find(regions, addr);
		uint64_t there;

		if (!region)
			return false;
		there = tei_rdma_least(
			tei_rdma_range_rest(&region->range, addr), n);
		addr += there;
		n -= there;
	}
	return true;
}

bool tei_rdma_has_all(struct rdma_regions *regions,
		      const struct tei_slice *slice)
{
	uint64_t rest = slice->length, skip = slice->skip;

	for (uint32_t i = 0; i < slice->n_iov && rest; i++, skip = 0) {
		const struct iovec *piece = &slice->iov[i];
		uint64_t n = tei_rdma_least(piece->iov_len - skip, rest);

		if (!have_range(regions, (uintptr_t)piece->iov_base + skip, n))
			return false;
		rest -= n;
	}
	return true;
}

bool tei_rdma_wants_crc_of_gpu(struct rdma_regions *regions,
			       const struct tei_slice *slice)
{
	for (uint32_t i = 0; slice->crc_len && i < slice->n_iov; i++)
		if (tei_rdma_is_gpu(regions, (uintptr_t)slice->iov[i].iov_base))
			return true;
	return false;
}

/* ---- blocks ---- */

int tei_rdma_block_take(struct rdma_regions *regions, struct tei_bounce *bounce,
			const struct tei_slice *slice,
			struct rdma_cursor *cursor, uint64_t limit,
			struct rdma_block *block, uint64_t *length)
{
	struct rdma_block taken = {.from = *cursor};
	uint64_t got = 0;

	if (!bounce->n)
		return -EOPNOTSUPP;
	taken.bytes = tei_bounce_take(bounce);
	if (!taken.bytes)
		return -EAGAIN;
	limit = tei_rdma_least(limit, TEI_BOUNCE_LEN);
	while (got < limit) {
		uint64_t addr, n = tei_rdma_piece_at(slice, cursor, &addr);

		if (got && !cursor->in_piece &&
		    tei_rdma_region_find(regions, addr))
			break;
		n = tei_rdma_least(n, limit - got);
		if (slice->op == TEI_WRITE && !tei_is_there(addr, n, false)) {
			tei_bounce_give(bounce, taken.bytes);
			return -EFAULT;
		}
		got += n;
		cursor->in_piece += n;
	}
	*block = taken;
	*length = got;
	return 0;
}

/* ---- the end ---- */

static bool is_readable(struct rdma_regions *pinned, const void *addr,
			uint64_t length)
{
	bool readable;

	if (!pinned)
		return tei_is_there((uintptr_t)addr, length, false);
	tei_rdma_regions_lock(pinned);
	readable = tei_rdma_is_readable(pinned, (uintptr_t)addr, length);
	tei_rdma_regions_unlock(pinned);
	return readable;
}

/* Computes the checksum of what has passed; the memory is still the slice's. */
static int take_crc(struct tei_slice *slice, struct rdma_regions *pinned)
{
	uint64_t from = slice->skip + slice->crc_from, rest = slice->crc_len;

	for (uint32_t i = 0; i < slice->n_iov && rest; i++) {
		const struct iovec *piece = &slice->iov[i];
		const uint8_t *at;
		uint64_t n;

		if (from >= piece->iov_len) {
			from -= piece->iov_len;
			continue;
		}
		n = tei_rdma_least(piece->iov_len - from, rest);
		at = (uint8_t *)piece->iov_base + from;
		if (!is_readable(pinned, at, n))
			return -EFAULT;
		slice->crc = tei_crc32c_raw(slice->crc, at, n);
		rest -= n;
		from = 0;
	}
	return 0;
}

void tei_rdma_slice_end(struct tei_slice *slice, int err,
			struct rdma_regions *pinned)
{
	struct tei_rail *rail = slice->ep->rail;

	if (!err && slice->crc_len)
		err = take_crc(slice, pinned);
	if (err) {
		tei_slice_done(slice, err, 0);
		return;
	}
	if (slice->op == TEI_READ)
		rail->received_bytes += slice->length;
	else
		rail->sent_bytes += slice->length;
	tei_slice_done(slice, 0, slice->length);
}
