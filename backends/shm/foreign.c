/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign.c - memory that cannot be mapped: process_vm_readv() and _writev()
 *
 * The kernel copies, page by page, so this is slower than an arena; it is for
 * memory that was not made by te_memory_alloc(). The calls name the peer by its
 * number, which may be another process's once the peer has died: so the peer is
 * looked at right before and after each. One call moves as many slices as fit.
 *
 * There is no such call by pidfd, so a gap is left: who is held up between look
 * and call for as long as it takes the peer to end and all numbers to come
 * round would touch another process that it may trace, at the peer's addresses.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>

#include "backends/shm/shm.h"

#define PIECES_MAX 256 /* on either side */

struct batch {
	struct iovec local[PIECES_MAX], remote[PIECES_MAX];
	unsigned long n_local, n_remote;
	uint64_t bytes;
	uint32_t op;
};

static void *as_pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

bool tei_shm_foreign_probe(const struct shm_endpoint *ep, uint64_t addr)
{
	uint8_t token[SHM_TOKEN_LEN] = {0};
	struct iovec local = {token, sizeof(token)};
	struct iovec remote = {as_pointer(addr), sizeof(token)};

	return process_vm_readv((pid_t)ep->pid, &local, 1, &remote, 1, 0) ==
		       SHM_TOKEN_LEN &&
	       !memcmp(token, ep->peer_token, SHM_TOKEN_LEN);
}

/*
 * Tells whether the peer neither ended nor is another program by now (that
 * closes the socket).
 */
static bool is_alive(const struct shm_endpoint *ep)
{
	struct pollfd fds[] = {
		{.fd = ep->process.fd, .events = POLLIN},
		{.fd = ep->socket.fd, .events = 0},
	};

	return poll(fds, 2, 0) <= 0;
}

/* Adds up to @room bytes of a slice. False: not all of them found a place. */
static bool gather_pieces(struct batch *b, const struct tei_slice *slice,
			  uint64_t room)
{
	const struct shm_slice *s = shm_slice(slice);
	uint64_t rest = slice->length - s->at, n;
	struct iovec run = {s->start + s->offset, s->run - s->offset};
	uint32_t piece = s->piece;
	uint64_t before = b->bytes;

	if (b->n_remote == PIECES_MAX)
		return false;
	while (rest && b->n_local < PIECES_MAX && b->bytes < room) {
		n = run.iov_len;
		if (n > rest)
			n = rest;
		if (n > room - b->bytes)
			n = room - b->bytes;
		if (n)
			b->local[b->n_local++] =
				(struct iovec){run.iov_base, n};
		b->bytes += n;
		rest -= n;
		if (rest && n == run.iov_len)
			run = slice->iov[piece++];
	}
	if (b->bytes > before)
		b->remote[b->n_remote++] = (struct iovec){
			as_pointer(slice->remote + s->at), b->bytes - before};
	return !rest;
}

static struct tei_slice *first_slice(const struct tei_list *queue)
{
	return tei_list_empty(queue)
		       ? NULL
		       : tei_list_entry(queue->next, struct tei_slice, link);
}

/* Fills the batch with slices from the head on that one call can move. */
static void fill_batch(struct shm_endpoint *ep, const struct tei_list *queue,
		       struct batch *b)
{
	const struct shm_rail *rail = shm_rail(ep->base->rail);
	uint64_t room = shm_config(rail)->foreign_chunk;

	b->n_local = b->n_remote = 0;
	b->bytes = 0;
	b->op = first_slice(queue)->op;
	tei_list_for_each (node, queue) {
		const struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);
		const struct shm_view *view = shm_slice(slice)->view;

		if (view->state != SHM_VIEW_READY || view->base ||
		    slice->op != b->op ||
		    !tei_shm_is_granted(ep->pages, view->slot,
					view->generation) ||
		    !gather_pieces(b, slice, room))
			return;
	}
}

/* Copies what one call can; returns how many bytes, or -errno. */
static ssize_t copy_batch(struct shm_endpoint *ep, const struct tei_list *queue)
{
	pid_t pid = (pid_t)ep->pid;
	struct batch b;
	ssize_t n;

	fill_batch(ep, queue, &b);
	if (!is_alive(ep))
		return -ESRCH;
	if (b.op == TEI_WRITE)
		n = process_vm_writev(pid, b.local, b.n_local, b.remote,
				      b.n_remote, 0);
	else
		n = process_vm_readv(pid, b.local, b.n_local, b.remote,
				     b.n_remote, 0);
	return n < 0 ? -errno : n;
}

/* Counts @n copied bytes for the first slices, whose they are. */
static void credit_slices(struct tei_list *queue, struct tei_list *ended,
			  uint64_t n)
{
	while (n) {
		struct tei_slice *slice = first_slice(queue);
		uint64_t part, from, len;
		uint8_t *local = tei_shm_slice_at(slice, &part);

		if (part > n)
			part = n;
		len = tei_shm_slice_crc(slice, part, &from);
		if (len)
			slice->crc =
				tei_crc32c_raw(slice->crc, local + from, len);
		tei_shm_slice_pass(slice, part);
		n -= part;
		if (shm_slice(slice)->at == slice->length)
			tei_shm_to_ended(ended, slice, 0);
	}
}

/* Returns the error of the first slice after a call that returned @rc; 0: the
 * endpoint is broken. */
static int error_of_call(struct shm_endpoint *ep, const struct tei_slice *slice,
			 ssize_t rc)
{
	switch (rc) {
	case 0:
	case -EFAULT:
		return -EFAULT;
	case -EPERM:
	case -ENOSYS:
		ep->foreign = false;
		tei_shm_view_bar(shm_slice(slice)->view);
		return -EOPNOTSUPP;
	case -ENOMEM:
		return -ENOMEM;
	case -ESRCH:
		return 0;
	default:
		return -EIO;
	}
}

/* True: the first slice's view is not granted any more. */
static bool is_over(struct shm_endpoint *ep, struct tei_list *queue)
{
	const struct shm_view *view = shm_slice(first_slice(queue))->view;

	return !tei_shm_is_granted(ep->pages, view->slot, view->generation);
}

int tei_shm_foreign_move(struct shm_endpoint *ep, struct tei_list *queue,
			 struct tei_list *ended, uint64_t *moved)
{
	ssize_t n = 0;
	int rc = 0, err;

	tei_shm_touch_begin(&ep->pages->mark, &ep->mark);
	if (tei_shm_is_fenced(ep->pages))
		rc = -ESTALE;
	else if (!is_over(ep, queue))
		n = copy_batch(ep, queue);
	tei_shm_touch_end(&ep->pages->mark, &ep->mark);
	if (!rc && !is_alive(ep))
		rc = -ECONNRESET; /* whose bytes those were is not known */
	if (rc)
		return rc;
	if (n > 0) {
		credit_slices(queue, ended, (uint64_t)n);
		*moved = (uint64_t)n;
		return 0;
	}
	err = error_of_call(ep, first_slice(queue), n);
	if (!err)
		return -ECONNRESET;
	tei_shm_to_ended(ended, first_slice(queue), err);
	return 0;
}
