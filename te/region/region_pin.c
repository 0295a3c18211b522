/* SPDX-License-Identifier: Apache-2.0 */
/* region_pin.c - whether a peer may touch a range, and that it just does */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/mapped.h"
#include "te/api/engine.h"
#include "te/region/region.h"
#include "te/transfer/link.h"

static int check_pin(const struct tei_region *region, struct tei_link *link,
		     const void *key, size_t key_len, uint32_t access)
{
	const struct tei_key *right = region->key[link->rail->rail.index];

	if (!right || key_len != right->len ||
	    memcmp(key, right->bytes, key_len))
		return -EFAULT;
	if (region->group >= 0 &&
	    !(atomic_load_explicit(&link->groups, memory_order_relaxed) >>
		      region->group &
	      1))
		return -EACCES;
	if (access & ~region->access)
		return -EACCES;
	if (!tei_link_epoch_holds(link))
		return -ESTALE;
	return 0;
}

int tei_region_pin(struct tei_endpoint *ep, const void *key, size_t key_len,
		   uint64_t address, uint64_t length, uint32_t access,
		   void **local, uint64_t *pin)
{
	struct tei_link *link = ep->link;
	struct tei_regions *r = &link->engine->regions;
	struct tei_region *region = NULL;
	bool doubted = false;
	int rc = -EFAULT;
	size_t place;

	tei_mutex_lock(&r->mu);
	place = tei_regions_place(r, address);
	if (place < r->n)
		region = r->sorted[place];
	if (region && region->shown && address >= region->addr &&
	    length <= region->length &&
	    address - region->addr <= region->length - length)
		rc = check_pin(region, link, key, key_len, access);
	if (!rc) {
		region->pins++;
		link->n_pins++;
		doubted = region->doubted;
	}
	tei_mutex_unlock(&r->mu);
	if (doubted &&
	    !tei_is_usable(address, length, access & TE_ACCESS_REMOTE_WRITE)) {
		tei_region_unpin(ep, (uintptr_t)region);
		rc = -EFAULT;
	}
	if (rc) {
		TEI_COUNT(link->engine, refused_pins);
		return rc;
	}
	*local = (void *)(uintptr_t)address;
	*pin = (uintptr_t)region;
	return 0;
}

void tei_region_unpin(struct tei_endpoint *ep, uint64_t pin)
{
	struct tei_region *region = (struct tei_region *)(uintptr_t)pin;
	struct tei_link *link = ep->link;
	struct tei_regions *r = &link->engine->regions;

	tei_mutex_lock(&r->mu);
	assert(region->pins && link->n_pins);
	region->pins--;
	link->n_pins--;
	if (!region->pins && !region->shown)
		tei_cond_broadcast(&r->unpinned);
	tei_mutex_unlock(&r->mu);
}

void tei_region_doubt(struct tei_endpoint *ep, uint64_t pin)
{
	struct tei_region *region = (struct tei_region *)(uintptr_t)pin;
	struct tei_regions *r = &ep->link->engine->regions;
	bool known;

	tei_mutex_lock(&r->mu);
	known = region->doubted;
	region->doubted = true;
	tei_mutex_unlock(&r->mu);
	if (!known)
		LOG_WARN("region 0x%" PRIx64 " of %" PRIu64
			 " bytes: some of its memory is not there any more: "
			 "peers that need it get EFAULT",
			 region->addr, region->length);
}
