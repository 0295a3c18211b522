/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - registered memory, by its address
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compat/engine/engine.h"

#define ACCESS_PEERS (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

static bool overlaps(const struct mc_region *r, const char *addr, size_t length)
{
	const char *begin = r->addr;

	return addr < begin + r->length && begin < addr + length;
}

/* Claims the range: from now on no other thread may register it. */
static int claim(struct mc_engine *e, void *addr, size_t length)
{
	struct mc_region *more;
	int rc = 0;

	(void)pthread_mutex_lock(&e->mutex);
	for (size_t i = 0; !rc && i < e->n_regions; i++)
		if (overlaps(&e->regions[i], addr, length))
			rc = MC_ERROR_OVERLAPPED;
	more = rc ? NULL
		  : realloc(e->regions, (e->n_regions + 1) * sizeof(*more));
	if (more) {
		e->regions = more;
		more[e->n_regions++] = (struct mc_region){addr, length, 0};
	} else if (!rc) {
		rc = MC_ERROR_MEMORY;
	}
	(void)pthread_mutex_unlock(&e->mutex);
	return rc;
}

/* Gives the claim of @addr its id; 0 drops the claim. */
static void settle_region(struct mc_engine *e, const void *addr,
			  te_region_id id)
{
	(void)pthread_mutex_lock(&e->mutex);
	for (size_t i = 0; i < e->n_regions; i++) {
		if (e->regions[i].addr != addr)
			continue;
		e->regions[i].id = id;
		if (!id)
			e->regions[i] = e->regions[--e->n_regions];
		break;
	}
	(void)pthread_mutex_unlock(&e->mutex);
}

/* The id of what is registered at @addr, which others do not find any more. */
static te_region_id take_region(struct mc_engine *e, const void *addr)
{
	te_region_id id = 0;

	(void)pthread_mutex_lock(&e->mutex);
	for (size_t i = 0; i < e->n_regions; i++) {
		if (e->regions[i].addr != addr)
			continue;
		id = e->regions[i].id;
		e->regions[i].id = 0;
		break;
	}
	(void)pthread_mutex_unlock(&e->mutex);
	return id;
}

/* Returns what is wrong with @buffer, or NULL. */
static const char *buffer_fault(const buffer_entry_t *buffer)
{
	if (!buffer->addr)
		return "the address is NULL";
	if (!buffer->length)
		return "the length is 0";
	if (buffer->length > TE_LENGTH_MAX)
		return "the length is too large";
	if ((uintptr_t)buffer->addr + buffer->length < (uintptr_t)buffer->addr)
		return "the range wraps around";
	return NULL;
}

static int add_region(struct mc_engine *e, const char *function,
		      const buffer_entry_t *buffer, const char *location,
		      bool remote)
{
	const struct te_region region = {
		.addr = buffer->addr,
		.length = buffer->length,
		.location = location && *location ? location : "*",
		.access = remote ? ACCESS_PEERS : TE_ACCESS_LOCAL,
	};
	const char *why = buffer_fault(buffer);
	int rc =
		why ? MC_ERROR_INVALID : claim(e, buffer->addr, buffer->length);
	te_region_id id = 0;

	if (rc == MC_ERROR_OVERLAPPED) {
		why = "part of it is registered already";
	} else if (rc == MC_ERROR_MEMORY) {
		why = te_strerror(-ENOMEM);
	} else if (!rc) {
		rc = te_region_add(e->te, &region, &id);
		settle_region(e, buffer->addr, id);
		why = te_strerror(rc);
		if (rc)
			rc = rc == -ENOMEM ? MC_ERROR_MEMORY : MC_ERROR_INVALID;
	}
	if (rc)
		mc_warn(function, "%zu bytes at %p, \"%s\": %s", buffer->length,
			buffer->addr, region.location, why);
	return rc;
}

static int drop(struct mc_engine *e, const char *function, void *addr)
{
	te_region_id id = take_region(e, addr);

	if (!id) {
		mc_warn(function, "nothing is registered at %p", addr);
		return MC_ERROR_NOT_REGISTERED;
	}
	(void)te_region_remove(e->te, id);
	settle_region(e, addr, 0);
	return 0;
}

int registerLocalMemory(transfer_engine_t engine, void *addr, size_t length,
			const char *location, int remote_accessible)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	const buffer_entry_t buffer = {addr, length};
	int rc;

	if (!e)
		return MC_ERROR_INVALID;
	rc = add_region(e, __func__, &buffer, location, remote_accessible);
	mc_engine_unpin(e);
	return rc;
}

int unregisterLocalMemory(transfer_engine_t engine, void *addr)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int rc;

	if (!e)
		return MC_ERROR_INVALID;
	rc = drop(e, __func__, addr);
	mc_engine_unpin(e);
	return rc;
}

int registerLocalMemoryBatch(transfer_engine_t engine,
			     buffer_entry_t *buffer_list, size_t buffer_len,
			     const char *location)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int rc = buffer_list || !buffer_len ? 0 : MC_ERROR_INVALID;
	size_t i;

	if (!e)
		return MC_ERROR_INVALID;
	for (i = 0; !rc && i < buffer_len; i++)
		rc = add_region(e, __func__, &buffer_list[i], location, true);
	if (rc && i--) /* the last one is not there */
		while (i--)
			(void)drop(e, __func__, buffer_list[i].addr);
	mc_engine_unpin(e);
	return rc;
}

int unregisterLocalMemoryBatch(transfer_engine_t engine, void **addr_list,
			       size_t addr_len)
{
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int first = addr_list || !addr_len ? 0 : MC_ERROR_INVALID;

	if (!e)
		return MC_ERROR_INVALID;
	for (size_t i = 0; addr_list && i < addr_len; i++) {
		int rc = drop(e, __func__, addr_list[i]);

		if (rc && !first)
			first = rc;
	}
	mc_engine_unpin(e);
	return first;
}
