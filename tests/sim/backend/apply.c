/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c - the moment in which bytes move */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/sim/backend/sim.h"
#include <te/te.h>

/*
 * Copy the slice's first @length bytes between its pieces and @other, and take
 * its checksum as they pass.
 */
static void copy(struct tei_slice *slice, uint8_t *other, uint64_t length,
		 bool out)
{
	uint64_t at, part, skip = slice->skip;
	const struct iovec *piece = slice->iov;

	for (at = 0; at < length; at += part, skip = 0, piece++) {
		uint8_t *local = (uint8_t *)piece->iov_base + skip;

		part = piece->iov_len - skip;
		if (part > length - at)
			part = length - at;
		if (out)
			memmove(other + at, local, part);
		else
			memmove(local, other + at, part);
	}
}

static void take_crc(struct tei_slice *slice, const uint8_t *bytes)
{
	if (slice->crc_len)
		slice->crc = tei_crc32c_raw(slice->crc, bytes + slice->crc_from,
					    slice->crc_len);
}

static void count(struct sim_rail *rail, struct sim_half *target, uint64_t n)
{
	atomic_fetch_add_explicit(&rail->base->sent_bytes, n,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&target->base->rail->received_bytes, n,
				  memory_order_relaxed);
}

static int apply(struct sim_rail *rail, struct tei_slice *slice)
	TEI_REQUIRES(tei_sim_mu)
{
	uint32_t access = slice->op == TEI_WRITE ? TE_ACCESS_REMOTE_WRITE
						 : TE_ACCESS_REMOTE_READ;
	struct sim_half *target = tei_sim_find(sim_half(slice->ep)->other);
	uint64_t pin;
	void *remote;
	int rc;

	if (!target)
		return -ECONNRESET;
	rc = tei_region_pin(target->base, slice->key, slice->key_len,
			    slice->remote, slice->length, access, &remote,
			    &pin);
	if (rc) {
		target->base->rail->refused_slices++;
		return rc;
	}
	copy(slice, remote, slice->length, slice->op == TEI_WRITE);
	take_crc(slice, remote);
	tei_region_unpin(target->base, pin);
	count(rail, target, slice->length);
	tei_sim_note(rail, SIM_APPLIED, slice, 0);
	return 0;
}

int tei_sim_apply(struct sim_rail *rail, struct tei_slice *slice)
{
	int rc = -EFAULT;

	tei_mutex_lock(&tei_sim_mu);
	if (slice->remote + slice->length >= slice->remote)
		rc = apply(rail, slice);
	tei_mutex_unlock(&tei_sim_mu);
	return rc;
}

/* ---- ghosts ---- */

struct sim_ghost *tei_sim_ghost(struct tei_slice *slice, uint64_t length)
{
	struct sim_ghost *ghost =
		tei_malloc(sizeof(*ghost) + length + slice->key_len);

	if (!ghost)
		return NULL;
	*ghost = (struct sim_ghost){
		.target = sim_half(slice->ep)->other,
		.endpoint = sim_half(slice->ep)->id,
		.remote = slice->remote,
		.length = length,
		.key_len = slice->key_len,
	};
	copy(slice, ghost->bytes, length, true);
	memcpy(ghost->bytes + length, slice->key, slice->key_len);
	return ghost;
}

static void note_ghost(struct sim_rail *rail, const struct sim_ghost *ghost,
		       uint64_t epoch)
{
	const struct sim_record record = {
		.kind = SIM_HAUNTED,
		.rail = rail->base->index,
		.at = tei_now_ns(),
		.op = TEI_WRITE,
		.endpoint = ghost->endpoint,
		.epoch = epoch,
		.remote = ghost->remote,
		.length = ghost->length,
	};

	tei_sim_tell(&record);
}

void tei_sim_ghost_lands(struct sim_rail *rail, struct sim_ghost *ghost)
{
	struct sim_half *target;
	uint64_t pin;
	void *remote;

	tei_mutex_lock(&tei_sim_mu);
	target = tei_sim_find(ghost->target);
	if (target &&
	    !tei_region_pin(target->base, ghost->bytes + ghost->length,
			    ghost->key_len, ghost->remote, ghost->length,
			    TE_ACCESS_REMOTE_WRITE, &remote, &pin)) {
		memcpy(remote, ghost->bytes, ghost->length);
		tei_region_unpin(target->base, pin);
		note_ghost(rail, ghost, target->base->epoch);
	}
	tei_mutex_unlock(&tei_sim_mu);
	tei_free(ghost);
}
