/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_loan.c - memory in the daemon's hands, and how to get it back
 *
 * Of a daemon that stands still nobody knows what it will still do. What was
 * copied for it simply stays where it is. What was lent as it is, is the
 * caller's, who must be able to use it again: its pages are copied, and the
 * copies take their place in our address space; the daemon keeps the pages that
 * we had in common. From then on those addresses are memory like any other,
 * whose values are copied.
 *
 * Two values that share a page share its fate: a get that went into such a page
 * meanwhile is lost, and says so.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "store/daemon/dummy.h"

#define COPY_ALIGN 64u

/* ---- which memory is shared ---- */

static bool is_within(const struct tes_dummy *dummy, const struct iovec *piece)
{
	uintptr_t at = (uintptr_t)piece->iov_base;
	uintptr_t base = (uintptr_t)dummy->memory;

	return at >= base && at - base <= dummy->bytes &&
	       piece->iov_len <= dummy->bytes - (at - base);
}

static bool is_replaced(struct tes_dummy *dummy, const struct iovec *piece)
	TEI_REQUIRES(dummy->mu)
{
	uint64_t at = (uint64_t)((uint8_t *)piece->iov_base - dummy->memory);
	uint64_t page = at / TES_DUMMY_PAGE;
	uint64_t end =
		(at + piece->iov_len + TES_DUMMY_PAGE - 1) / TES_DUMMY_PAGE;

	for (; page < end; page++)
		if (dummy->replaced[page / 8] & (1u << page % 8))
			return true;
	return false;
}

static bool any_replaced(struct tes_dummy *dummy, const struct iovec *pieces,
			 uint32_t n)
{
	bool found = false;

	if (!atomic_load_explicit(&dummy->n_replaced, memory_order_relaxed))
		return false;
	tei_mutex_lock(&dummy->mu);
	for (uint32_t i = 0; i < n && !found; i++)
		found = is_replaced(dummy, &pieces[i]);
	tei_mutex_unlock(&dummy->mu);
	return found;
}

bool tes_loan_is_shared(struct tes_dummy *dummy, const struct iovec *pieces,
			uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!is_within(dummy, &pieces[i]))
			return false;
	return !any_replaced(dummy, pieces, n);
}

/* ---- lending ---- */

static void copy_in(struct tes_dummy *dummy, const struct tes_loan_item *item)
{
	uint8_t *to = dummy->memory + item->offset;

	for (uint32_t i = 0; i < item->n_pieces; i++) {
		if (item->pieces[i].iov_len)
			memcpy(to, item->pieces[i].iov_base,
			       item->pieces[i].iov_len);
		to += item->pieces[i].iov_len;
	}
}

static struct te_store_buffer *wait_room(struct tes_dummy *dummy,
					 uint64_t bytes, uint64_t deadline_ns)
{
	struct te_store_buffer *room;

	tei_mutex_lock(&dummy->mu);
	do {
		tes_dummy_sweep(dummy);
		room = tes_buffer_take(&dummy->copies, bytes);
		/* Where pages were replaced, the daemon would not see it. */
		if (!room && !atomic_load_explicit(&dummy->n_replaced,
						   memory_order_relaxed))
			room = tes_buffer_take(&dummy->user, bytes);
	} while (!room && tes_dummy_wait_freed(dummy, deadline_ns));
	tei_mutex_unlock(&dummy->mu);
	return room;
}

int tes_loan_make(struct tes_loan *loan, bool put, uint64_t deadline_ns)
{
	struct tes_dummy *dummy = loan->dummy;
	uint64_t sum = 0, at;
	size_t i;

	loan->room = NULL;
	for (i = 0; i < loan->n; i++)
		if (loan->items[i].copied)
			sum += (loan->items[i].bytes + COPY_ALIGN - 1) /
			       COPY_ALIGN * COPY_ALIGN;
	if (!sum)
		return 0;
	if (sum > dummy->copies.bytes && sum > dummy->user.bytes)
		return TE_STORE_INVALID_PARAMS;
	loan->room = wait_room(dummy, sum, deadline_ns);
	if (!loan->room)
		return TE_STORE_INTERNAL_ERROR;
	at = (uint64_t)(loan->room->data - dummy->memory);
	for (i = 0; i < loan->n; i++) {
		struct tes_loan_item *item = &loan->items[i];

		if (!item->copied)
			continue;
		item->offset = at;
		at += (item->bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
		if (put)
			copy_in(dummy, item);
	}
	return 0;
}

void tes_loan_copy_back(const struct tes_loan *loan, size_t i, uint64_t bytes)
{
	const struct tes_loan_item *item = &loan->items[i];
	const uint8_t *from = loan->dummy->memory + item->offset;

	if (!item->copied)
		return;
	for (uint32_t k = 0; k < item->n_pieces && bytes; k++) {
		size_t len = item->pieces[k].iov_len;

		if (len > bytes)
			len = (size_t)bytes;
		if (len)
			memcpy(item->pieces[k].iov_base, from, len);
		from += len;
		bytes -= len;
	}
}

bool tes_loan_is_lost(const struct tes_loan *loan, size_t i)
{
	const struct tes_loan_item *item = &loan->items[i];

	return !item->copied &&
	       any_replaced(loan->dummy, item->pieces, item->n_pieces);
}

void tes_loan_end(struct tes_loan *loan)
{
	struct tes_dummy *dummy = loan->dummy;

	if (!loan->room)
		return;
	tes_buffer_destroy(loan->room);
	loan->room = NULL;
	tei_mutex_lock(&dummy->mu);
	tei_cond_broadcast(&dummy->freed);
	tei_mutex_unlock(&dummy->mu);
}

/* ---- getting it back ---- */

static void mark(struct tes_dummy *dummy, uint64_t page, uint64_t end)
	TEI_REQUIRES(dummy->mu)
{
	for (; page < end; page++) {
		if (dummy->replaced[page / 8] & (1u << page % 8))
			continue;
		dummy->replaced[page / 8] |= (uint8_t)(1u << page % 8);
		atomic_fetch_add_explicit(&dummy->n_replaced, 1,
					  memory_order_relaxed);
	}
}

/* Pages [page, end): a copy takes their place at one stroke. */
static void replace(struct tes_dummy *dummy, uint64_t page, uint64_t end)
	TEI_REQUIRES(dummy->mu)
{
	uint8_t *at = dummy->memory + page * TES_DUMMY_PAGE;
	size_t len = (size_t)(end - page) * TES_DUMMY_PAGE;
	void *copy = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mark(dummy, page, end);
	if (copy != MAP_FAILED) {
		memcpy(copy, at, len);
		if (mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) !=
		    MAP_FAILED)
			return;
		(void)munmap(copy, len);
	}
	LOG_ERROR("daemon: stands still, and there is no memory to take back "
		  "%zu bytes that it has",
		  len);
}

void tes_loan_give_up(struct tes_loan *loan)
{
	struct tes_dummy *dummy = loan->dummy;

	tei_mutex_lock(&dummy->mu);
	for (size_t i = 0; i < loan->n; i++) {
		const struct tes_loan_item *item = &loan->items[i];

		for (uint32_t k = 0; !item->copied && k < item->n_pieces; k++) {
			const struct iovec *p = &item->pieces[k];
			uint64_t from = (uint64_t)((uint8_t *)p->iov_base -
						   dummy->memory);
			uint64_t to = from + p->iov_len;

			if (p->iov_len)
				replace(dummy, from / TES_DUMMY_PAGE,
					(to + TES_DUMMY_PAGE - 1) /
						TES_DUMMY_PAGE);
		}
	}
	tei_mutex_unlock(&dummy->mu);
}
