/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.c - memory of the daemon's that one dummy reads values from */
#include "store/daemon/buffers.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/proto/agent.h"

#define PAGE 4096u

struct piece {
	struct tei_list link;      /* in buffers->pieces */
	struct tei_hash_node node; /* hash: id */
	uint64_t offset, room;
};

/* ---- the memory ---- */

static int map(struct tes_agent_buffers *b)
{
	void *at;
	int rc;

	b->fd = tes_sealed_create_open(b->length);
	if (b->fd < 0)
		return b->fd;
	at = mmap(NULL, b->length, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_NORESERVE, b->fd, 0);
	rc = at == MAP_FAILED ? -ENOMEM : tes_sealed_close(b->fd);
	if (rc)
		goto err_fd;
	(void)madvise(at, b->length, MADV_DONTFORK);
	rc = te_store_register(b->store, at, b->length) ? -ENOMEM : 0;
	if (rc)
		goto err_fd;
	b->base = at;
	return 0;

err_fd:
	if (at != MAP_FAILED)
		(void)munmap(at, b->length);
	(void)close(b->fd);
	assert(rc < 0);
	return rc;
}

int tes_agent_buffers_create(struct te_store *store,
			     struct tes_agent_budget *budget,
			     struct tes_agent_buffers **out)
{
	struct tes_agent_buffers *b;
	int rc = -ENOMEM;

	if (budget->max < PAGE)
		return -EOPNOTSUPP;
	b = tei_calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->store = store;
	b->budget = budget;
	b->length = budget->max / PAGE * PAGE;
	tei_list_init(&b->pieces);
	if (tei_hash_init(&b->by_id))
		goto err_buffers;
	rc = map(b);
	if (rc)
		goto err_hash;
	tei_mutex_init(&b->mu);
	*out = b;
	return 0;

err_hash:
	tei_hash_fini(&b->by_id);
err_buffers:
	tei_free(b);
	assert(rc < 0);
	return rc;
}

void tes_agent_buffers_destroy(struct tes_agent_buffers *b)
{
	struct tei_list *node;

	if (!b)
		return;
	while ((node = tei_list_pop(&b->pieces)))
		tei_free(tei_list_entry(node, struct piece, link));
	tei_hash_fini(&b->by_id);
	(void)te_store_unregister(b->store, b->base);
	(void)munmap(b->base, b->length);
	(void)close(b->fd);
	/* Relaxed: a sum; memory has gone by other means. */
	atomic_fetch_sub_explicit(&b->budget->used, b->charged,
				  memory_order_relaxed);
	tei_mutex_fini(&b->mu);
	tei_free(b);
}

/* ---- pieces ---- */

/* Charges up to @end, if the budget allows it. */
static bool charge(struct tes_agent_buffers *b, uint64_t end)
	TEI_REQUIRES(b->mu)
{
	uint64_t used, more;

	if (end <= b->charged)
		return true;
	more = end - b->charged;
	/* Relaxed: only the sum counts. */
	used = atomic_load_explicit(&b->budget->used, memory_order_relaxed);
	do {
		if (more > b->budget->max - used)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&b->budget->used, &used, used + more, memory_order_relaxed,
		memory_order_relaxed));
	b->charged = end;
	return true;
}

/* Sets the offset of @piece, which takes the lowest gap that holds it. */
static bool place(struct tes_agent_buffers *b, struct piece *piece)
	TEI_REQUIRES(b->mu)
{
	struct tei_list *pos = b->pieces.next;
	uint64_t from = 0;

	for (; pos != &b->pieces; pos = pos->next) {
		const struct piece *p = tei_list_entry(pos, struct piece, link);

		if (p->offset - from >= piece->room)
			break;
		from = p->offset + p->room;
	}
	if (pos == &b->pieces && b->length - from < piece->room)
		return false;
	if (!charge(b, from + piece->room))
		return false;
	piece->offset = from;
	tei_list_insert(pos->prev, &piece->link);
	return true;
}

bool tes_agent_buffer_cut(struct tes_agent_buffers *b, uint64_t length,
			  struct tes_agent_buffer *out)
{
	struct piece *piece;
	bool placed;

	if (!length || length > b->length)
		return false;
	piece = tei_calloc(1, sizeof(*piece));
	if (!piece)
		return false;
	tei_list_init(&piece->link);
	piece->room = (length + PAGE - 1) / PAGE * PAGE;
	tei_mutex_lock(&b->mu);
	placed = b->n < TES_AGENT_BUFFERS_MAX && place(b, piece);
	if (placed) {
		b->n++;
		tei_hash_insert(&b->by_id, &piece->node, ++b->last_id);
		out->id = b->last_id;
		out->offset = piece->offset;
		out->data = b->base + piece->offset;
	}
	tei_mutex_unlock(&b->mu);
	if (!placed)
		tei_free(piece);
	return placed;
}

static struct piece *take_piece(struct tes_agent_buffers *b, uint64_t id)
	TEI_REQUIRES(b->mu)
{
	struct tei_hash_node *node = tei_hash_first(&b->by_id, id);
	struct piece *piece;

	if (!node)
		return NULL;
	piece = TEI_CONTAINER(node, struct piece, node);
	tei_hash_remove(&b->by_id, node);
	tei_list_del(&piece->link);
	b->n--;
	return piece;
}

void tes_agent_buffers_give_back(struct tes_agent_buffers *b,
				 const uint64_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct piece *piece;

		tei_mutex_lock(&b->mu);
		piece = take_piece(b, ids[i]);
		tei_mutex_unlock(&b->mu);
		tei_free(piece);
	}
}
