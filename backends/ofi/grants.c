/* SPDX-License-Identifier: Apache-2.0 */
/* grants.c - make and take back keys that hold for one endpoint */
#include "backends/ofi/grants.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/mem.h"

#define TRIES 8 /* of secrets and tokens, whose keys may be in use */

/* The keys of one region at one endpoint. */
struct grant {
	struct tei_list of_region, of_inbound;
	uint32_t n; /* keys that there are */
	struct fid_mr *mrs[];
};

void tei_ofi_grants_init(struct ofi_grants *grants, struct ofi_nic *nic)
{
	*grants = (struct ofi_grants){.nic = nic};
	tei_mutex_init(&grants->mu);
	tei_list_init(&grants->regions);
	tei_list_init(&grants->inbound);
}

void tei_ofi_grants_fini(struct ofi_grants *grants)
{
	assert(tei_list_empty(&grants->regions) &&
	       tei_list_empty(&grants->inbound));
	tei_mutex_fini(&grants->mu);
}

void tei_ofi_shared_init(struct ofi_shared *region)
{
	tei_list_init(&region->link);
	tei_list_init(&region->grants);
}

void tei_ofi_inbound_init(struct ofi_inbound *inbound)
{
	tei_list_init(&inbound->link);
	tei_list_init(&inbound->grants);
}

/* ---- taken back ---- */

/* False: the provider keeps a key, which is logged. */
static bool take_back(const struct ofi_nic *nic, struct grant *grant)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	for (; grant->n; grant->n--) {
		int rc = nic->api->close(&grant->mrs[grant->n - 1]->fid);

		if (!rc)
			continue;
		if (tei_log_allowed(&limit))
			LOG_ERROR("rail %s: a key cannot be taken back: %s",
				  nic->name, nic->api->strerror(-rc));
		return false;
	}
	tei_list_del(&grant->of_region);
	tei_list_del(&grant->of_inbound);
	tei_free(grant);
	return true;
}

static int take_back_of_region(const struct ofi_grants *grants,
			       struct ofi_shared *region)
	TEI_REQUIRES(grants->mu)
{
	bool all = true;

	tei_list_for_each_safe (node, tmp, &region->grants)
		all &= take_back(grants->nic,
				 tei_list_entry(node, struct grant, of_region));
	return all ? 0 : -EBUSY;
}

static int take_back_of_inbound(const struct ofi_grants *grants,
				struct ofi_inbound *inbound)
	TEI_REQUIRES(grants->mu)
{
	bool all = true;

	tei_list_for_each_safe (node, tmp, &inbound->grants)
		all &= take_back(grants->nic, tei_list_entry(node, struct grant,
							     of_inbound));
	return all ? 0 : -EBUSY;
}

int tei_ofi_unshare(struct ofi_grants *grants, struct ofi_shared *region)
{
	int rc;

	tei_mutex_lock(&grants->mu);
	tei_list_del(&region->link);
	rc = take_back_of_region(grants, region);
	tei_mutex_unlock(&grants->mu);
	return rc;
}

int tei_ofi_exclude(struct ofi_grants *grants, struct ofi_inbound *inbound)
{
	int rc;

	tei_mutex_lock(&grants->mu);
	tei_list_del(&inbound->link);
	rc = take_back_of_inbound(grants, inbound);
	tei_mutex_unlock(&grants->mu);
	return rc;
}

static void leave(const struct ofi_nic *nic, struct grant *grant)
{
	while (!take_back(nic, grant))
		grant->n--;
}

static void leave_region(const struct ofi_grants *grants,
			 struct ofi_shared *region) TEI_REQUIRES(grants->mu)
{
	tei_list_for_each_safe (node, tmp, &region->grants)
		leave(grants->nic,
		      tei_list_entry(node, struct grant, of_region));
}

static void leave_inbound(const struct ofi_grants *grants,
			  struct ofi_inbound *inbound) TEI_REQUIRES(grants->mu)
{
	tei_list_for_each_safe (node, tmp, &inbound->grants)
		leave(grants->nic,
		      tei_list_entry(node, struct grant, of_inbound));
}

void tei_ofi_forget_region(struct ofi_grants *grants, struct ofi_shared *region)
{
	tei_mutex_lock(&grants->mu);
	tei_list_del(&region->link);
	leave_region(grants, region);
	tei_mutex_unlock(&grants->mu);
}

void tei_ofi_forget_inbound(struct ofi_grants *grants,
			    struct ofi_inbound *inbound)
{
	tei_mutex_lock(&grants->mu);
	tei_list_del(&inbound->link);
	leave_inbound(grants, inbound);
	tei_mutex_unlock(&grants->mu);
}

/* ---- made ---- */

/* Makes the key of chunk @i, and has it hold at the endpoint. */
static int make_key(const struct ofi_nic *nic, const struct ofi_shared *region,
		    const struct ofi_inbound *inbound, uint32_t i,
		    struct fid_mr **out)
{
	const struct ofi_provider *api = nic->api;
	const struct rdma_range *range = &region->range;
	struct iovec iov = {(void *)(uintptr_t)tei_rdma_chunk_base(range, i),
			    tei_rdma_chunk_length(range, i)};
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = region->rights,
		.requested_key = tei_ofi_bound_key(
			inbound->token, region->secret + i,
			(unsigned int)nic->info->domain_attr->mr_key_size)};
	int rc = api->mr_regattr(nic->domain, &attr, 0, out);

	if (rc)
		return rc;
	rc = api->mr_bind(*out, &inbound->fid->fid, 0);
	if (!rc)
		rc = api->mr_enable(*out);
	if (!rc && api->mr_key(*out) != attr.requested_key)
		rc = -FI_EKEYREJECTED;
	if (rc)
		(void)api->close(&(*out)->fid);
	return rc;
}

static int make_grant(const struct ofi_grants *grants,
		      struct ofi_shared *region, struct ofi_inbound *inbound)
	TEI_REQUIRES(grants->mu)
{
	struct grant *grant = tei_calloc(
		1, sizeof(*grant) + region->range.n * sizeof(grant->mrs[0]));
	int rc = 0;

	if (!grant)
		return -FI_ENOMEM;
	tei_list_add_tail(&region->grants, &grant->of_region);
	tei_list_add_tail(&inbound->grants, &grant->of_inbound);
	while (!rc && grant->n < region->range.n) {
		rc = make_key(grants->nic, region, inbound, grant->n,
			      &grant->mrs[grant->n]);
		grant->n += !rc;
	}
	if (rc)
		leave(grants->nic, grant);
	return rc;
}

static int grant_region(struct ofi_grants *grants, struct ofi_shared *region)
	TEI_REQUIRES(grants->mu)
{
	int rc = 0;

	if (getrandom(&region->secret, sizeof(region->secret), 0) !=
	    sizeof(region->secret))
		return -FI_EIO;
	tei_list_for_each (node, &grants->inbound) {
		rc = make_grant(grants, region,
				tei_list_entry(node, struct ofi_inbound, link));
		if (rc)
			break;
	}
	return rc;
}

static int grant_inbound(struct ofi_grants *grants, struct ofi_inbound *inbound)
	TEI_REQUIRES(grants->mu)
{
	int rc = 0;

	if (getrandom(inbound->token, OFI_TOKEN_LEN, 0) != OFI_TOKEN_LEN)
		return -FI_EIO;
	tei_list_for_each (node, &grants->regions) {
		rc = make_grant(grants,
				tei_list_entry(node, struct ofi_shared, link),
				inbound);
		if (rc)
			break;
	}
	return rc;
}

int tei_ofi_share(struct ofi_grants *grants, struct ofi_shared *region)
{
	int rc = -FI_ENOKEY;

	tei_mutex_lock(&grants->mu);
	for (int i = 0; i < TRIES && rc == -FI_ENOKEY; i++) {
		rc = grant_region(grants, region);
		if (rc)
			leave_region(grants, region);
	}
	if (!rc)
		tei_list_add_tail(&grants->regions, &region->link);
	tei_mutex_unlock(&grants->mu);
	return rc;
}

int tei_ofi_admit(struct ofi_grants *grants, struct ofi_inbound *inbound)
{
	int rc = -FI_ENOKEY;

	tei_mutex_lock(&grants->mu);
	for (int i = 0; i < TRIES && rc == -FI_ENOKEY; i++) {
		rc = grant_inbound(grants, inbound);
		if (rc)
			leave_inbound(grants, inbound);
	}
	if (!rc)
		tei_list_add_tail(&grants->inbound, &inbound->link);
	tei_mutex_unlock(&grants->mu);
	return rc;
}
