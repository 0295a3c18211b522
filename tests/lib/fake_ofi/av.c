/* SPDX-License-Identifier: Apache-2.0 */
/* av.c - addresses of the fake libfabric, and address vectors */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/fake_ofi/private.h"

static struct fake_ofi_address address_of(const struct fake_ofi_ep *ep)
{
	return (struct fake_ofi_address){
		.magic = FAKE_OFI_MAGIC,
		.device = (uint32_t)(ep->domain->device - ofi_net.devices),
		.number = ep->number};
}

static size_t address_len(void)
{
	return ofi_net.rules->addr_format == FI_ADDR_EFA ? 32 : 16;
}

static int name_ep(const struct fake_ofi_ep *ep, void *addr, size_t *len)
{
	uint8_t raw[32] = {0};
	struct fake_ofi_address mine = address_of(ep);

	if (ep->state == FAKE_OFI_IDLE)
		return -FI_EOPBADSTATE;
	if (ofi_net.rules->type == FI_EP_MSG)
		return fake_ofi_give_address(addr, len, &ep->self,
					     sizeof(ep->self));
	memcpy(raw, &mine, sizeof(mine));
	return fake_ofi_give_address(addr, len, raw, address_len());
}

int fake_ofi_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	const struct fake_ofi_pep *pep = (void *)fid;
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_GETNAME);
	if (!rc)
		rc = fid->fclass == FI_CLASS_PEP
			     ? fake_ofi_give_address(addr, addrlen, &pep->at,
						     sizeof(pep->at))
			     : name_ep((void *)fid, addr, addrlen);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

int fake_ofi_getpeer(struct fid_ep *base, void *addr, size_t *addrlen)
{
	const struct fake_ofi_ep *ep = (void *)base;
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = ofi_net.rules->type != FI_EP_MSG ? -FI_ENOSYS
	     : ep->state != FAKE_OFI_CONNECTED
		     ? -FI_ENOTCONN
		     : fake_ofi_give_address(addr, addrlen, &ep->other,
					     sizeof(ep->other));
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

/* ---- address vectors ---- */

int fake_ofi_av_open(struct fid_domain *base, struct fi_av_attr *attr,
		     struct fid_av **out, void *context)
{
	struct fake_ofi_av *av;
	int rc = fake_ofi_check(FAKE_OFI_AV_OPEN);

	if (rc)
		return rc;
	if (ofi_net.rules->type != FI_EP_RDM || attr->type == FI_AV_MAP)
		return -FI_ENOSYS;
	av = tei_calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	av->ring = tei_calloc(FAKE_OFI_ADDRESSES_MAX, sizeof(*av->ring));
	if (!av->ring) {
		tei_free(av);
		return -FI_ENOMEM;
	}
	attr->type = FI_AV_TABLE;
	av->base.fid = (struct fid){.fclass = FI_CLASS_AV, .context = context};
	av->domain = (void *)base;
	tei_mutex_lock(&ofi_net.mu);
	av->domain->n_children++;
	ofi_net.counts.vectors++;
	tei_mutex_unlock(&ofi_net.mu);
	*out = &av->base;
	return 0;
}

/* The place of @a in the vector, or FI_ADDR_NOTAVAIL. */
static fi_addr_t find_address(const struct fake_ofi_av *av,
			      const struct fake_ofi_address *a)
{
	for (uint32_t i = 0; i < av->high; i++) {
		if (!memcmp(&av->ring[i], a, sizeof(*a)))
			return i;
	}
	return FI_ADDR_NOTAVAIL;
}

/*
 * FI_ADDR_NOTAVAIL: it is no address, or there is no room. One that is there
 * already may get the same place, which the first removal empties.
 */
static fi_addr_t insert_one(struct fake_ofi_av *av, const void *addr)
{
	struct fake_ofi_address a;
	fi_addr_t there = FI_ADDR_NOTAVAIL;

	memcpy(&a, addr, sizeof(a));
	if (a.magic != FAKE_OFI_MAGIC || a.device >= FAKE_OFI_DEVICES_MAX)
		return FI_ADDR_NOTAVAIL;
	if (ofi_net.rules->av_of_one)
		there = find_address(av, &a);
	if (there != FI_ADDR_NOTAVAIL)
		return there;
	for (uint32_t i = 0; i < FAKE_OFI_ADDRESSES_MAX; i++) {
		uint32_t place = (av->n + i) % FAKE_OFI_ADDRESSES_MAX;

		if (av->ring[place].magic)
			continue;
		av->ring[place] = a;
		av->n = place + 1;
		if (av->high < av->n)
			av->high = av->n;
		return place;
	}
	return FI_ADDR_NOTAVAIL;
}

int fake_ofi_av_insert(struct fid_av *base, const void *addr, size_t count,
		       fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	const uint8_t *at = addr;
	int n = 0, rc;

	(void)context;
	assert(!flags);
	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_AV_INSERT);
	for (size_t i = 0; !rc && i < count; i++) {
		fi_addr[i] = insert_one((void *)base, at + i * address_len());
		n += fi_addr[i] != FI_ADDR_NOTAVAIL;
	}
	tei_mutex_unlock(&ofi_net.mu);
	return rc ? rc : n;
}

/* A provider reads its endpoint here, which must not have been closed. */
int fake_ofi_av_remove(struct fid_av *base, fi_addr_t *fi_addr, size_t count,
		       uint64_t flags)
{
	struct fake_ofi_av *av = (void *)base;

	assert(!flags);
	tei_mutex_lock(&ofi_net.mu);
	assert(av->n_eps || !av->had_ep);
	for (size_t i = 0; i < count; i++) {
		assert(fi_addr[i] < FAKE_OFI_ADDRESSES_MAX &&
		       av->ring[fi_addr[i]].magic);
		av->ring[fi_addr[i]].magic = 0;
	}
	tei_mutex_unlock(&ofi_net.mu);
	return 0;
}

int fake_ofi_av_close(struct fid *fid)
{
	struct fake_ofi_av *av = (void *)fid;

	if (av->n_eps)
		return -FI_EBUSY;
	tei_free(av->ring);
	av->domain->n_children--;
	ofi_net.counts.vectors--;
	return 0;
}

bool fake_ofi_av_has(const struct fake_ofi_av *av, const struct fake_ofi_ep *ep)
{
	struct fake_ofi_address a = address_of(ep);

	return find_address(av, &a) != FI_ADDR_NOTAVAIL;
}
