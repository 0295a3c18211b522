/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - walking the local pieces of a slice */
#include "backends/shm/shm.h"

#define RUN_MAX (256u << 10) /* no piece is looked at long before its turn */

/*
 * Skips pieces that are used up or empty. Pieces that continue the one before,
 * as merged requests do, become one run.
 */
static void settle_piece(const struct tei_slice *slice, struct shm_slice *s)
{
	const struct iovec *iov = slice->iov;

	while (s->piece < slice->n_iov && s->offset >= s->run) {
		s->offset -= s->run;
		s->start = iov[s->piece].iov_base;
		s->run = iov[s->piece].iov_len;
		s->piece++;
		while (s->piece < slice->n_iov && s->run < RUN_MAX &&
		       iov[s->piece].iov_base == s->start + s->run) {
			s->run += iov[s->piece].iov_len;
			s->piece++;
		}
	}
}

void tei_shm_slice_init(struct tei_slice *slice, struct shm_view *view)
{
	struct shm_slice *s = shm_slice(slice);

	*s = (struct shm_slice){.view = view, .offset = slice->skip};
	settle_piece(slice, s);
}

uint8_t *tei_shm_slice_at(const struct tei_slice *slice, uint64_t *room)
{
	const struct shm_slice *s = shm_slice(slice);

	*room = s->run - s->offset;
	if (*room > slice->length - s->at)
		*room = slice->length - s->at;
	return s->start + s->offset;
}

void tei_shm_slice_pass(struct tei_slice *slice, uint64_t n)
{
	struct tei_rail *rail = slice->ep->rail;
	struct shm_slice *s = shm_slice(slice);
	_Atomic uint64_t *moved = slice->op == TEI_WRITE
					  ? &rail->sent_bytes
					  : &rail->received_bytes;

	s->at += n;
	s->offset += n;
	settle_piece(slice, s);
	/*
	 * Only who drives writes it. An atomic addition would wait until all
	 * that was copied has left the store buffer.
	 */
	atomic_store_explicit(
		moved, atomic_load_explicit(moved, memory_order_relaxed) + n,
		memory_order_relaxed);
}

uint64_t tei_shm_slice_crc(const struct tei_slice *slice, uint64_t n,
			   uint64_t *from)
{
	return tei_slice_summed(slice, shm_slice(slice)->at, n, from);
}
