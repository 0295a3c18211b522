/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - registered memory and keys of the fake libfabric */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/chance.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "tests/lib/fake_ofi/private.h"

#define REMOTE (FI_REMOTE_READ | FI_REMOTE_WRITE)

/* ---- the tables ---- */

static struct tei_list *chain_of(uint64_t key)
{
	return &ofi_net.keys[tei_chance_mix(key) % FAKE_OFI_KEYS_MAX];
}

struct fake_ofi_mr *fake_ofi_mr_by_key(const struct fake_ofi_domain *domain,
				       uint64_t key)
{
	tei_list_for_each (node, chain_of(key)) {
		struct fake_ofi_mr *mr =
			tei_list_entry(node, struct fake_ofi_mr, of_key);

		if (mr->key == key && mr->domain == domain)
			return mr;
	}
	return NULL;
}

/* A descriptor is a slot and a number that no earlier one of the slot had. */
struct fake_ofi_mr *fake_ofi_mr_by_desc(uint64_t desc)
{
	struct fake_ofi_mr *mr = ofi_net.mrs[desc % FAKE_OFI_KEYS_MAX];

	return mr && mr->desc == desc ? mr : NULL;
}

static bool place_slot(struct fake_ofi_mr *mr)
{
	for (uint32_t i = 0; i < FAKE_OFI_KEYS_MAX; i++) {
		uint32_t number = ofi_net.next_slot + i;

		if (ofi_net.mrs[number % FAKE_OFI_KEYS_MAX])
			continue;
		mr->slot = number % FAKE_OFI_KEYS_MAX;
		mr->desc = number + FAKE_OFI_KEYS_MAX; /* no descriptor is 0 */
		ofi_net.mrs[mr->slot] = mr;
		ofi_net.next_slot = number + 1;
		return true;
	}
	return false;
}

uint8_t *fake_ofi_mr_bytes(const struct fake_ofi_mr *mr, uint64_t addr)
{
	return mr->bytes ? mr->bytes + (addr - mr->addr)
			 : (uint8_t *)(uintptr_t)addr;
}

/* ---- registering ---- */

/*
 * The descriptor is of a file whose place says where the dma-buf begins in it,
 * as those of the fake driver of GPUs are.
 */
static int map_dmabuf(struct fake_ofi_mr *mr, const struct fi_mr_attr *attr)
{
	const struct fake_ofi_dmabuf *d = (const void *)attr->mr_iov;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	off_t from = lseek(d->fd, 0, SEEK_CUR);
	uint64_t within = d->offset % page;
	void *at;

	if (from < 0)
		return -FI_EBADF;
	mr->addr = (uintptr_t)d->base_addr + d->offset;
	mr->length = d->len;
	mr->mapped = within + d->len;
	at = mmap(NULL, mr->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd,
		  from + (off_t)(d->offset - within));
	if (at == MAP_FAILED)
		return -FI_EINVAL;
	mr->mapping = at;
	mr->bytes = mr->mapping + within;
	return 0;
}

/* Memory of a device that a driver knows by its address. */
static int find_device_memory(struct fake_ofi_mr *mr)
{
	mr->bytes = ofi_net.translate ? ofi_net.translate(mr->addr) : NULL;
	return mr->bytes ? 0 : -FI_EFAULT;
}

/*
 * Providers that bind keys have a cache of what is registered, which is not
 * looked at again.
 */
static bool is_cached(const struct fake_ofi_mr *mr)
{
	bool found = false;

	if (!(ofi_net.rules->mr_mode & FI_MR_ENDPOINT))
		return false;
	tei_mutex_lock(&ofi_net.mu);
	tei_list_for_each (node, &mr->domain->mrs) {
		const struct fake_ofi_mr *other =
			tei_list_entry(node, struct fake_ofi_mr, of_domain);

		found = !other->bytes && mr->addr >= other->addr &&
			mr->length <= other->length &&
			mr->addr - other->addr <= other->length - mr->length;
		if (found)
			break;
	}
	tei_mutex_unlock(&ofi_net.mu);
	return found;
}

static int find_memory(struct fake_ofi_mr *mr, const struct fi_mr_attr *attr,
		       uint64_t flags)
{
	const struct fid_fabric *fabric = &mr->domain->fabric->base;
	bool by_fd = flags & FAKE_OFI_MR_DMABUF;

	if (by_fd && FI_VERSION_LT(fabric->api_version, FI_VERSION(1, 20)))
		return -FI_EBADFLAGS;
	if ((by_fd || attr->iface != FI_HMEM_SYSTEM) && !mr->domain->hmem)
		return -FI_ENOSYS;
	if (by_fd)
		return map_dmabuf(mr, attr);
	if (attr->iov_count != 1)
		return -FI_EINVAL;
	mr->addr = (uintptr_t)attr->mr_iov->iov_base;
	mr->length = attr->mr_iov->iov_len;
	if (attr->iface != FI_HMEM_SYSTEM)
		return find_device_memory(mr);
	if ((ofi_net.rules->mr_mode & FI_MR_ALLOCATED) && mr->length &&
	    !is_cached(mr) && !tei_is_there(mr->addr, mr->length, false))
		return -FI_EFAULT;
	return 0;
}

#define KEPT_KEY ((uint64_t)1 << 32) /* the first of what no device has */

/* Unless the provider chooses keys, the caller's must be free and fit. */
static int choose_key(struct fake_ofi_mr *mr, uint64_t asked)
	TEI_REQUIRES(ofi_net.mu)
{
	const struct fake_ofi_rules *rules = ofi_net.rules;

	mr->key = rules->mr_mode & FI_MR_PROV_KEY ? mr->desc : asked;
	if (fake_ofi_happens(ofi_net.chances.no_key))
		return -FI_ENOKEY;
	mr->kept = mr->mapping && ofi_net.keep_dmabufs;
	if (mr->kept) {
		mr->key = KEPT_KEY + mr->slot;
		return 0;
	}
	if (rules->key_size < 8 && mr->key >> 8 * rules->key_size)
		return -FI_EKEYREJECTED;
	return fake_ofi_mr_by_key(mr->domain, mr->key) ? -FI_ENOKEY : 0;
}

static int refusal(const struct fake_ofi_device *device,
		   const struct fake_ofi_mr *mr) TEI_REQUIRES(ofi_net.mu)
{
	if (device->refuses_memory)
		return -device->refuses_memory;
	if (mr->mapping && ofi_net.refuse_dmabufs)
		return -ofi_net.refuse_dmabufs;
	if (fake_ofi_happens(ofi_net.chances.no_memory) ||
	    device->n_keys >= device->limits.keys ||
	    mr->length > device->limits.registered - device->registered)
		return -FI_ENOMEM;
	return mr->length && mr->access ? 0 : -FI_EINVAL;
}

static int place_mr(struct fake_ofi_mr *mr, uint64_t asked)
	TEI_REQUIRES(ofi_net.mu)
{
	struct fake_ofi_device *device = mr->domain->device;
	int rc = refusal(device, mr);

	if (rc)
		return rc;
	if (!place_slot(mr))
		return -FI_ENOMEM;
	rc = choose_key(mr, asked);
	if (rc) {
		ofi_net.mrs[mr->slot] = NULL;
		return rc;
	}
	tei_list_add_tail(chain_of(mr->key), &mr->of_key);
	tei_list_add_head(&mr->domain->mrs, &mr->of_domain);
	mr->enabled = !(ofi_net.rules->mr_mode & FI_MR_ENDPOINT) ||
		      !(mr->access & REMOTE);
	device->n_keys++;
	device->registered += mr->length;
	ofi_net.counts.keys++;
	ofi_net.counts.registered += mr->length;
	mr->domain->n_children++;
	return 0;
}

int fake_ofi_mr_regattr(struct fid_domain *base, const struct fi_mr_attr *attr,
			uint64_t flags, struct fid_mr **out)
{
	struct fake_ofi_mr *mr;
	int rc = fake_ofi_check(FAKE_OFI_REGATTR);

	if (rc)
		return rc;
	mr = tei_calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->base.fid =
		(struct fid){.fclass = FI_CLASS_MR, .context = attr->context};
	mr->domain = (void *)base;
	mr->access = attr->access;
	mr->flags = flags;
	tei_list_init(&mr->of_key);
	tei_list_init(&mr->of_ep);
	tei_list_init(&mr->of_domain);
	rc = find_memory(mr, attr, flags);
	if (!rc) {
		tei_mutex_lock(&ofi_net.mu);
		rc = place_mr(mr, attr->requested_key);
		tei_mutex_unlock(&ofi_net.mu);
	}
	if (!rc) {
		*out = &mr->base;
		return 0;
	}
	if (mr->mapping)
		munmap(mr->mapping, mr->mapped);
	tei_free(mr);
	return rc;
}

uint64_t fake_ofi_mr_key(struct fid_mr *base)
{
	const struct fake_ofi_mr *mr = (void *)base;
	uint64_t key;

	tei_mutex_lock(&ofi_net.mu);
	key = mr->enabled ? mr->key : FI_KEY_NOTAVAIL;
	tei_mutex_unlock(&ofi_net.mu);
	return key;
}

void *fake_ofi_mr_desc(struct fid_mr *base)
{
	return (void *)(uintptr_t)((struct fake_ofi_mr *)(void *)base)->desc;
}

/* ---- bound to endpoints ---- */

int fake_ofi_mr_bind(struct fid_mr *base, struct fid *bfid, uint64_t flags)
{
	struct fake_ofi_mr *mr = (void *)base;
	struct fake_ofi_ep *ep = (void *)bfid;
	int rc;

	(void)flags;
	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_BIND);
	if (!rc &&
	    (bfid->fclass != FI_CLASS_EP || mr->ep || ep->domain != mr->domain))
		rc = -FI_EINVAL;
	if (!rc) {
		mr->ep = ep;
		ep->n_mrs++;
		tei_list_add_tail(&ep->mrs, &mr->of_ep);
	}
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

int fake_ofi_mr_enable(struct fid_mr *base)
{
	struct fake_ofi_mr *mr = (void *)base;
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_MR_ENABLE);
	if (!rc && !mr->enabled)
		rc = !mr->ep                          ? -FI_EINVAL
		     : mr->ep->state == FAKE_OFI_IDLE ? -FI_EOPBADSTATE
						      : 0;
	mr->enabled |= !rc;
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

/* No operation finds the key any more when its bytes go. */
int fake_ofi_mr_close(struct fid *fid)
{
	struct fake_ofi_mr *mr = (void *)fid;
	struct fake_ofi_device *device = mr->domain->device;

	if (ofi_net.refuse_key_closes)
		return -ofi_net.refuse_key_closes;
	ofi_net.mrs[mr->slot] = NULL;
	tei_list_del(&mr->of_key);
	tei_list_del(&mr->of_domain);
	if (mr->ep) {
		tei_list_del(&mr->of_ep);
		mr->ep->n_mrs--;
	}
	device->n_keys--;
	device->registered -= mr->length;
	ofi_net.counts.keys--;
	ofi_net.counts.registered -= mr->length;
	mr->domain->n_children--;
	if (mr->mapping)
		munmap(mr->mapping, mr->mapped);
	return 0;
}
