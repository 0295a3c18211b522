/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - rates of copies that transfers are measured against */
#include "perf/lib/copy.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/copy_choice.h"
#include "base/mem.h"
#include "base/thread.h"

#define PIECE_MAX \
	(64u << 10) /* bytes of a copy by which kernels are compared */

#define LOOK_LEN (256u << 10) /* bytes copied between two looks at the clock */
#define LOOK_MAX 64           /* copies in between */
#define ALIGN    64           /* of streaming stores */

struct copier {
	const struct tei_bare_peer *peer;
	const struct tei_bare_shape *shape;
	enum tei_mover mover;
	const struct tei_copier *kernel;
	pthread_t thread;
	uint64_t base, span, at, step; /* its part of the memory */
	uint64_t copied, elapsed_ns;
	int error;
	struct iovec ours[TEI_BARE_BATCH], theirs[TEI_BARE_BATCH];
};

static uint64_t next_offset(struct copier *c)
{
	uint64_t offset = c->base + c->at;

	c->at += c->step;
	if (c->at + c->step > c->span)
		c->at = 0;
	return offset;
}

static void copy_block(struct copier *c)
{
	uint64_t offset = next_offset(c);
	char *to = c->peer->to + offset, *from = c->peer->from + offset;

	c->kernel->copy(to, from, c->shape->size);
	/* Keep the compiler from dropping copies nobody reads. */
	__asm__ volatile("" ::: "memory");
	c->copied += c->shape->size;
}

/*
 * Moves a batch; some of a large one is moved short, which does not matter
 * here.
 */
static int move_batch(struct copier *c)
{
	bool read = c->mover == TEI_MOVER_VM_READ;
	char *local = read ? c->peer->to : c->peer->from;
	uint32_t n = c->shape->batch;
	uint64_t offset, size = c->shape->size;
	ssize_t moved;

	for (uint32_t i = 0; i < n; i++) {
		offset = next_offset(c);
		c->ours[i] = (struct iovec){local + offset, size};
		/* An address of the peer, never followed here. */
		memset(&c->theirs[i], 0, sizeof(c->theirs[i]));
		offset += c->peer->remote;
		memcpy(&c->theirs[i].iov_base, &offset, sizeof(offset));
		c->theirs[i].iov_len = size;
	}
	moved = read ? process_vm_readv(c->peer->pid, c->ours, n, c->theirs, n,
					0)
		     : process_vm_writev(c->peer->pid, c->ours, n, c->theirs, n,
					 0);
	if (moved <= 0)
		return moved ? -errno : -EIO;
	c->copied += (uint64_t)moved;
	return 0;
}

static int copy_some(struct copier *c)
{
	uint64_t end = c->copied + LOOK_LEN;

	if (c->mover == TEI_MOVER_VM_READ || c->mover == TEI_MOVER_VM_WRITE)
		return move_batch(c);
	for (unsigned int i = 0; i < LOOK_MAX && c->copied < end; i++)
		copy_block(c);
	tei_copy_fence();
	return 0;
}

static void *copy_thread(void *arg)
{
	struct copier *c = arg;
	uint64_t start = tei_now_ns(), now;
	uint64_t end = start + (uint64_t)(c->shape->seconds * 1e9);

	do {
		c->error = copy_some(c);
		now = tei_now_ns();
	} while (!c->error && now < end);
	c->elapsed_ns = now - start;
	return NULL;
}

static void copier_init(struct copier *c, uint32_t index, uint32_t n)
{
	uint64_t span = c->peer->len / n;

	c->step = (c->shape->size + ALIGN - 1) / ALIGN * ALIGN;
	span = span / c->step * c->step;
	c->base = span * index;
	c->span = span;
	if (c->shape->span && c->shape->span < span)
		c->span = c->shape->span < c->step ? c->step : c->shape->span;
}

static int join_all(struct copier *c, uint32_t n, double *out)
{
	int rc = 0;

	for (uint32_t i = 0; i < n; i++) {
		pthread_join(c[i].thread, NULL);
		if (!rc)
			rc = c[i].error;
		if (c[i].elapsed_ns)
			*out += (double)c[i].copied / (double)c[i].elapsed_ns;
	}
	return rc;
}

int tei_copy_rate(const struct tei_bare_peer *peer,
		  const struct tei_bare_shape *shape, enum tei_mover mover,
		  const struct tei_copier *kernel, uint32_t n_threads,
		  double *out)
{
	struct copier *c = tei_calloc(n_threads, sizeof(*c));
	uint32_t started = 0;
	int rc = c ? 0 : -ENOMEM, joined;

	*out = 0;
	while (!rc && started < n_threads) {
		c[started].peer = peer;
		c[started].shape = shape;
		c[started].mover = mover;
		c[started].kernel = tei_copier_at(0);
		if (mover == TEI_MOVER_KERNEL)
			c[started].kernel = kernel;
		copier_init(&c[started], started, n_threads);
		if (c[started].span < c[started].step)
			rc = -EINVAL;
		else
			rc = tei_thread_start(&c[started].thread, "copier",
					      copy_thread, &c[started]);
		started += !rc;
	}
	joined = c ? join_all(c, started, out) : 0;
	tei_free(c);
	return rc ? rc : joined;
}

const struct tei_copier *tei_copy_best(const struct tei_bare_peer *peer,
				       const struct tei_bare_shape *shape)
{
	size_t piece = shape->size < PIECE_MAX ? shape->size : PIECE_MAX;
	struct tei_copy_result result;

	tei_copy_compare(peer->to, peer->from, tei_bare_span(peer, shape),
			 piece, false, &result);
	return result.best;
}
