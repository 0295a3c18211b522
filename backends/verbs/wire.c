/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - encode, decode and check what goes to peers and comes from them */
#include "backends/verbs/wire.h"

#include <errno.h>
#include <string.h>

#include "backends/verbs/gid.h"
#include "base/bytes.h"

static int end(const struct tei_writer *w, const void *start, size_t *len)
{
	if (w->bad)
		return -ENOBUFS;
	*len = (size_t)(w->at - (const uint8_t *)start);
	return 0;
}

static void read_gid(struct tei_reader *r, union ibv_gid *gid)
{
	const void *raw = tei_read_bytes(r, sizeof(gid->raw));

	if (raw)
		memcpy(gid->raw, raw, sizeof(gid->raw));
}

/* ---- endpoints ---- */

int tei_verbs_address_encode(const struct verbs_address *address, void *out,
			     size_t *len)
{
	const struct verbs_offer *offer = &address->offer;
	struct tei_writer w;

	tei_writer_init(&w, out, *len);
	tei_write_u8(&w, VERBS_WIRE_VERSION);
	tei_write_u8(&w, (uint8_t)address->link);
	tei_write_u16(&w, (uint16_t)offer->mtu);
	tei_write_u16(&w, (uint16_t)offer->depth);
	tei_write_u8(&w, (uint8_t)offer->reads_out);
	tei_write_u8(&w, (uint8_t)offer->reads_in);
	tei_write_u16(&w, address->lid);
	tei_write_bytes(&w, address->gid.raw, sizeof(address->gid.raw));
	tei_write_u8(&w, (uint8_t)offer->lanes);
	for (uint32_t i = 0; i < offer->lanes; i++) {
		tei_write_u32(&w, address->lanes[i].number);
		tei_write_u32(&w, address->lanes[i].psn);
	}
	return end(&w, out, len);
}

/* 0 and 1 are the queue pairs of the fabric's management. */
static const char *lanes_fault(const struct verbs_address *a)
{
	for (uint32_t i = 0; i < a->offer.lanes; i++) {
		const struct verbs_lane_name *lane = &a->lanes[i];

		if (lane->number < 2 || lane->number > VERBS_NUMBER_MAX)
			return "queue pair number out of range";
		if (lane->psn > VERBS_NUMBER_MAX)
			return "packet number out of range";
		for (uint32_t k = 0; k < i; k++) {
			if (a->lanes[k].number == lane->number)
				return "a queue pair is named twice";
		}
	}
	return NULL;
}

/* Unicast, as of InfiniBand 1.4; the upper end is for multicast. */
#define LID_MAX 0xbfffu

static const char *place_fault(const struct verbs_address *a)
{
	if (a->link != VERBS_LINK_IB && a->link != VERBS_LINK_ETHERNET)
		return "unknown kind of link";
	if (tei_scope_of(a->gid.raw) == TEI_SCOPE_NONE)
		return "GID is no host's";
	if (a->link == VERBS_LINK_IB ? !a->lid || a->lid > LID_MAX : a->lid)
		return "LID out of range";
	return NULL;
}

const char *tei_verbs_address_decode(const void *bytes, size_t len,
				     struct verbs_address *out)
{
	struct verbs_address a = {0};
	const char *fault;
	struct tei_reader r;

	tei_reader_init(&r, bytes, len);
	if (tei_read_u8(&r) != VERBS_WIRE_VERSION)
		return "unknown version";
	a.link = tei_read_u8(&r);
	a.offer.mtu = tei_read_u16(&r);
	a.offer.depth = tei_read_u16(&r);
	a.offer.reads_out = tei_read_u8(&r);
	a.offer.reads_in = tei_read_u8(&r);
	a.lid = tei_read_u16(&r);
	read_gid(&r, &a.gid);
	a.offer.lanes = tei_read_u8(&r);
	fault = tei_verbs_offer_fault(&a.offer);
	if (fault)
		return fault;
	for (uint32_t i = 0; i < a.offer.lanes; i++) {
		a.lanes[i].number = tei_read_u32(&r);
		a.lanes[i].psn = tei_read_u32(&r);
	}
	if (!tei_reader_done(&r))
		return "of a wrong length";
	fault = place_fault(&a);
	if (!fault)
		fault = lanes_fault(&a);
	if (!fault)
		*out = a;
	return fault;
}

/* ---- regions ---- */

int tei_verbs_key_encode(const struct verbs_key *key, void *out, size_t *len)
{
	size_t size = VERBS_KEY_LEN + 4 * (size_t)key->range.n;
	struct tei_writer w;

	if (size > *len)
		return -ENOBUFS;
	tei_writer_init(&w, out, *len);
	tei_write_u8(&w, VERBS_WIRE_VERSION);
	tei_write_u64(&w, key->range.base);
	tei_write_u64(&w, key->range.chunk);
	tei_write_u64(&w, key->range.length);
	*len = size;
	return 0;
}

void tei_verbs_key_set(void *out, uint32_t chunk, uint32_t rkey)
{
	struct tei_writer w;

	tei_writer_init(&w, (uint8_t *)out + VERBS_KEY_LEN + 4 * (size_t)chunk,
			4);
	tei_write_u32(&w, rkey);
}

const char *tei_verbs_key_decode(const void *bytes, size_t len,
				 struct verbs_key *out)
{
	const uint8_t *at = bytes;

	if (len < VERBS_KEY_LEN || len > TEI_KEY_MAX ||
	    (len - VERBS_KEY_LEN) % 4)
		return "of a wrong length";
	if (at[0] != VERBS_WIRE_VERSION)
		return "unknown version";
	/*
	 * Runs once per slice: loads directly, because a tei_reader's checks
	 * are measurable here.
	 */
	out->range.base = tei_load_u64(at + 1);
	out->range.chunk = tei_load_u64(at + 9);
	out->range.length = tei_load_u64(at + 17);
	out->range.n = (uint32_t)(len - VERBS_KEY_LEN) / 4;
	out->rkeys = at + VERBS_KEY_LEN;
	return tei_rdma_range_fault(&out->range);
}

bool tei_verbs_key_at(const struct verbs_key *key, uint64_t address,
		      uint32_t *rkey, uint64_t *room)
{
	if (!key->range.n || !tei_rdma_range_has(&key->range, address))
		return false;
	*rkey = tei_load_u32(key->rkeys +
			     4 * tei_rdma_chunk_at(&key->range, address, room));
	return true;
}
