/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffers.c - memory for values that the client reads into on its own account
 *
 * Pieces lie in a list by address, free and taken ones, without gaps and
 * without two free neighbours. A piece is cut where the last one was, first
 * fit from there on.
 */
#include "store/client/buffers.h"

#include <errno.h>
#include <string.h>

#include <te/store.h>

#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "store/client/client.h"

#define ALIGN 4096u /* of pieces: no two values share a page */

static struct te_store_buffer *create_piece(struct tes_buffers *b,
					    uint8_t *data, uint64_t room)
{
	struct te_store_buffer *piece = tei_calloc(1, sizeof(*piece));

	if (!piece)
		return NULL;
	tei_list_init(&piece->link);
	piece->buffers = b;
	piece->data = data;
	piece->room = room;
	return piece;
}

static int take_memory(struct tes_buffers *b, uint64_t bytes)
{
	struct te_region region = {.length = bytes, .access = TE_ACCESS_LOCAL};
	int rc = te_memory_alloc(b->engine, bytes, &b->memory);

	if (rc)
		return rc;
	region.addr = b->memory;
	rc = te_region_add(b->engine, &region, &b->region);
	if (rc) {
		te_memory_free(b->engine, b->memory);
		b->memory = NULL;
	}
	return rc;
}

int tes_buffers_init(struct tes_buffers *b, struct te_engine *engine,
		     uint64_t bytes)
{
	struct te_store_buffer *all;
	int rc;

	memset(b, 0, sizeof(*b));
	b->engine = engine;
	tei_mutex_init(&b->mu);
	tei_list_init(&b->pieces);
	b->rover = &b->pieces;
	b->bytes = bytes / ALIGN * ALIGN;
	if (!b->bytes)
		return 0;
	all = create_piece(b, NULL, b->bytes);
	rc = all ? take_memory(b, b->bytes) : -ENOMEM;
	if (rc) {
		LOG_ERROR("local buffer: %llu bytes: %s",
			  (unsigned long long)bytes, te_strerror(rc));
		tei_free(all);
		tei_mutex_fini(&b->mu);
		return rc;
	}
	all->data = b->memory;
	tei_list_add_tail(&b->pieces, &all->link);
	return 0;
}

int tes_buffers_init_over(struct tes_buffers *b, void *memory, uint64_t bytes)
{
	struct te_store_buffer *all = NULL;

	memset(b, 0, sizeof(*b));
	if (bytes) {
		all = create_piece(b, memory, bytes);
		if (!all)
			return -ENOMEM;
	}
	tei_mutex_init(&b->mu);
	tei_list_init(&b->pieces);
	b->rover = &b->pieces;
	b->lowest = true;
	b->bytes = bytes;
	b->memory = memory;
	if (all)
		tei_list_add_tail(&b->pieces, &all->link);
	return 0;
}

void tes_buffers_fini(struct tes_buffers *b)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&b->pieces)))
		tei_free(tei_list_entry(node, struct te_store_buffer, link));
	if (b->memory && b->engine) {
		(void)te_region_remove(b->engine, b->region);
		te_memory_free(b->engine, b->memory);
	}
	b->memory = NULL;
	tei_mutex_fini(&b->mu);
}

/* ---- cutting ---- */

static struct te_store_buffer *find_room(struct tes_buffers *b, uint64_t room)
	TEI_REQUIRES(b->mu)
{
	struct tei_list *node;

	if (b->lowest)
		b->rover = &b->pieces;
	node = b->rover;
	do {
		if (node != &b->pieces) {
			struct te_store_buffer *piece = tei_list_entry(
				node, struct te_store_buffer, link);

			if (!piece->taken && piece->room >= room)
				return piece;
		}
		node = node->next;
	} while (node != b->rover);
	return NULL;
}

/* @rest becomes what is left of @piece, or is of no use: false. */
static bool cut(struct tes_buffers *b, struct te_store_buffer *piece,
		struct te_store_buffer *rest, uint64_t room) TEI_REQUIRES(b->mu)
{
	piece->taken = true;
	b->rover = piece->link.next;
	if (piece->room == room)
		return false;
	rest->data = piece->data + room;
	rest->room = piece->room - room;
	piece->room = room;
	tei_list_insert(&piece->link, &rest->link);
	b->rover = &rest->link;
	return true;
}

static struct te_store_buffer *take_piece(struct tes_buffers *b,
					  uint64_t length)
{
	uint64_t room = (length + ALIGN - 1) / ALIGN * ALIGN;
	struct te_store_buffer *piece, *rest;
	bool used = false;

	if (length > b->bytes)
		return NULL;
	rest = create_piece(b, NULL, 0);
	if (!rest)
		return NULL;
	tei_mutex_lock(&b->mu);
	piece = find_room(b, room);
	if (piece)
		used = cut(b, piece, rest, room);
	tei_mutex_unlock(&b->mu);
	if (!used)
		tei_free(rest);
	return piece;
}

struct te_store_buffer *tes_buffer_take(struct tes_buffers *b, uint64_t length)
{
	struct te_store_buffer *buffer = take_piece(b, length);

	if (buffer)
		buffer->length = length;
	return buffer;
}

struct te_store_buffer *tes_buffer_find(struct tes_buffers *b, const void *data)
{
	struct te_store_buffer *found = NULL;

	tei_mutex_lock(&b->mu);
	tei_list_for_each (pos, &b->pieces) {
		struct te_store_buffer *piece =
			tei_list_entry(pos, struct te_store_buffer, link);

		if (piece->data == data && piece->taken)
			found = piece;
		if (piece->data >= (const uint8_t *)data)
			break;
	}
	tei_mutex_unlock(&b->mu);
	return found;
}

uint64_t tes_buffer_left(struct tes_buffers *b, uint64_t addr)
{
	uint64_t left = 0;

	tei_mutex_lock(&b->mu);
	tei_list_for_each (pos, &b->pieces) {
		const struct te_store_buffer *piece =
			tei_list_entry(pos, struct te_store_buffer, link);
		uint64_t begin = (uintptr_t)piece->data;

		if (begin > addr)
			break;
		if (piece->taken && addr - begin < piece->length)
			left = piece->length - (addr - begin);
	}
	tei_mutex_unlock(&b->mu);
	return left;
}

struct te_store_buffer *tes_buffer_create(struct tes_buffers *b,
					  uint64_t length)
{
	struct te_store_buffer *buffer = take_piece(b, length);

	if (!buffer) {
		if (length > SIZE_MAX - sizeof(*buffer))
			return NULL;
		buffer = tei_malloc(sizeof(*buffer) + (size_t)length);
		if (!buffer)
			return NULL;
		memset(buffer, 0, sizeof(*buffer));
		tei_list_init(&buffer->link);
		buffer->data = (uint8_t *)(buffer + 1);
	}
	buffer->length = length;
	return buffer;
}

/* ---- giving back ---- */

/* Joins the piece behind @piece to it if both are free. Returns that one. */
static struct te_store_buffer *join_pieces(struct tes_buffers *b,
					   struct te_store_buffer *piece)
	TEI_REQUIRES(b->mu)
{
	struct te_store_buffer *next;

	if (piece->link.next == &b->pieces)
		return NULL;
	next = tei_list_entry(piece->link.next, struct te_store_buffer, link);
	if (piece->taken || next->taken)
		return NULL;
	piece->room += next->room;
	if (b->rover == &next->link)
		b->rover = &piece->link;
	tei_list_del(&next->link);
	return next;
}

void tes_buffer_destroy(struct te_store_buffer *buffer)
{
	struct te_store_buffer *after, *self = NULL;
	struct tes_buffers *b;

	if (!buffer)
		return;
	if (buffer->release) {
		buffer->release(buffer);
		return;
	}
	b = buffer->buffers;
	if (!b) {
		tei_free(buffer);
		return;
	}
	tei_mutex_lock(&b->mu);
	buffer->taken = false;
	after = join_pieces(b, buffer);
	if (buffer->link.prev != &b->pieces)
		self = join_pieces(b, tei_list_entry(buffer->link.prev,
						     struct te_store_buffer,
						     link));
	tei_mutex_unlock(&b->mu);
	tei_free(after);
	tei_free(self);
}

void *te_store_buffer_data(const struct te_store_buffer *buffer)
{
	return buffer->data;
}

uint64_t te_store_buffer_length(const struct te_store_buffer *buffer)
{
	return buffer->length;
}

void te_store_buffer_free(struct te_store_buffer *buffer)
{
	tes_buffer_destroy(buffer);
}

/* ---- registration of the caller's memory ---- */

/*
 * Adds the region. *@is_gpu: no processor may touch it. -EFAULT: memory of the
 * host that is not all mapped; and as te_region_add().
 */
static int add_region(struct te_engine *engine, const struct te_region *region,
		      te_region_id *id, bool *is_gpu)
{
	struct te_region_facts facts;
	int rc = te_region_add(engine, region, id);

	if (rc)
		return rc;
	(void)te_region_describe(engine, *id, &facts);
	*is_gpu = facts.memory == TE_MEMORY_GPU;
	if (*is_gpu || tei_is_mapped((uintptr_t)region->addr, region->length))
		return 0;
	(void)te_region_remove(engine, *id);
	return -EFAULT;
}

int tes_direct_register(struct te_store *store, void *addr, uint64_t length)
{
	struct te_region region = {
		.addr = addr,
		.length = length,
		.access = TE_ACCESS_LOCAL,
	};
	bool is_gpu;
	te_region_id id;
	int rc;

	if (!store || !addr || !length ||
	    length > UINTPTR_MAX - (uintptr_t)addr)
		return TE_STORE_INVALID_PARAMS;
	rc = tes_addresses_add(&store->addresses, (uintptr_t)addr, length);
	if (rc)
		return tes_store_code(rc);
	rc = add_region(store->engine, &region, &id, &is_gpu);
	if (rc)
		tes_addresses_remove(&store->addresses, (uintptr_t)addr);
	else
		tes_addresses_keep(&store->addresses, (uintptr_t)addr, id,
				   is_gpu);
	return rc == -EFAULT ? TE_STORE_INVALID_PARAMS : tes_store_code(rc);
}

int tes_direct_unregister(struct te_store *store, void *addr)
{
	te_region_id id;

	if (!store || !addr ||
	    !tes_addresses_take(&store->addresses, (uintptr_t)addr, &id))
		return TE_STORE_INVALID_PARAMS;
	(void)te_region_remove(store->engine, id);
	return 0;
}
