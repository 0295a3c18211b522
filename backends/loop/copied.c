/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copied.c - regions of a GPU's memory, by copies that the host has made
 *
 * A slice has one copy under way at a time. Copies end between calls of
 * progress(), which then goes on with the slice; those of slices that have
 * ended meanwhile are let go.
 */
#include <errno.h>

#include "backends/loop/loop.h"
#include "base/clock.h"
#include "base/mem.h"

#define RETRY_NS TEI_NS_PER_MS

struct loop_copy {
	struct tei_region_copy *copy;
	struct loop_half *target; /* stays as long as it has copies */
	struct tei_slice *slice;  /* NULL: it has ended */
	bool made;
	int err;
};

static void requeue(struct tei_list *slices, struct tei_slice *slice)
{
	tei_list_del(&slice->link);
	tei_list_add_tail(slices, &slice->link);
}

static void free_copy(struct loop_copy *c)
{
	tei_region_copy_end(c->copy);
	tei_free(c);
}

static void copy_done(struct tei_region_copy *copy, int err)
{
	struct loop_copy *c = copy->arg;
	struct tei_rail *rail = c->target->base->rail;

	c->target->n_copies--;
	c->made = true;
	c->err = err;
	rail->busy = loop_rail(rail)->room_came = true;
	if (c->slice) {
		tei_list_del(&c->slice->link);
		tei_list_add_head(&loop_rail(rail)->queue, &c->slice->link);
	} else {
		free_copy(c);
	}
}

/*
 * Has the slice wait until one of our copies has ended, or for a ms: peers use
 * the stage, too.
 */
static int await_room(struct tei_slice *slice)
{
	struct tei_rail *rail = slice->ep->rail;
	uint64_t at = tei_now_ns() + RETRY_NS;

	requeue(&loop_rail(rail)->awaiting_room, slice);
	if (!rail->timer_ns || rail->timer_ns > at)
		rail->timer_ns = at;
	return -EAGAIN;
}

static int open_copy(struct tei_slice *slice, struct tei_endpoint *target,
		     uint64_t pin, void *remote, uint64_t n,
		     struct tei_region_copy **out)
{
	bool writes = slice->op == TEI_WRITE;
	int rc;

	if (n > TEI_REGION_COPY_MAX)
		n = TEI_REGION_COPY_MAX;
	rc = tei_region_copy_open(target, pin, remote, n, writes, out);
	if (rc || !writes)
		return rc;
	n = (*out)->length;
	rc = tei_loop_copy(slice, (*out)->memory, n);
	if (rc)
		tei_region_copy_end(*out);
	return rc;
}

int tei_loop_begin_copy(struct tei_slice *slice, struct tei_endpoint *target,
			uint64_t pin, void *remote, uint64_t n)
{
	struct loop_copy *c = tei_calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	if (c)
		rc = open_copy(slice, target, pin, remote, n, &c->copy);
	if (rc) {
		tei_free(c);
		return rc == -EAGAIN ? await_room(slice) : rc;
	}
	c->target = loop_half(target);
	c->slice = slice;
	c->copy->done = copy_done;
	c->copy->arg = c;
	loop_slice(slice)->copy = c;
	c->target->n_copies++;
	requeue(&loop_rail(slice->ep->rail)->copying, slice);
	tei_region_copy_begin(c->copy, c->copy->length);
	return 0;
}

int tei_loop_end_copy(struct tei_slice *slice, uint64_t *moved)
{
	struct loop_copy *c = loop_slice(slice)->copy;
	int rc = c->err;

	if (!rc && slice->op == TEI_READ)
		rc = tei_loop_copy(slice, c->copy->memory, c->copy->length);
	if (!rc)
		*moved = c->copy->length;
	loop_slice(slice)->copy = NULL;
	free_copy(c);
	return rc;
}

void tei_loop_forget_copy(struct tei_slice *slice)
{
	struct loop_copy *c = loop_slice(slice)->copy;

	loop_slice(slice)->copy = NULL;
	if (c && c->made)
		free_copy(c);
	else if (c)
		c->slice = NULL;
}
