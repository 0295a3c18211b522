/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c - the fake libfabric: its table, its begin and end, close() */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/fake_ofi/private.h"

struct fake_ofi_net ofi_net;

static uint32_t version(void)
{
	return ofi_net.version;
}

static const char *text_of(int err)
{
	switch (err) {
	case FI_EAVAIL:
		return "Error available";
	case FI_ENOKEY:
		return "Required key not available";
	case FI_ETRUNC:
		return "Truncation error";
	case FI_EOVERRUN:
		return "Queue has been overrun";
	default:
		return err > 0 && err < FI_ERRNO_OFFSET ? strerror(err)
							: "Unspecified error";
	}
}

/* ---- fabrics ---- */

int fake_ofi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out,
		    void *context)
{
	struct fake_ofi_fabric *fabric;
	int rc = fake_ofi_check(FAKE_OFI_FABRIC);

	if (rc)
		return rc;
	if (!attr->prov_name ||
	    strcmp(attr->prov_name, ofi_net.rules->provider) != 0)
		return -FI_ENODATA;
	fabric = tei_calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->base.fid =
		(struct fid){.fclass = FI_CLASS_FABRIC, .context = context};
	fabric->base.api_version = attr->api_version;
	(void)snprintf(fabric->name, sizeof(fabric->name), "%s",
		       attr->name ? attr->name : "");
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.counts.fabrics++;
	tei_mutex_unlock(&ofi_net.mu);
	*out = &fabric->base;
	return 0;
}

static int close_fabric(struct fid *fid)
{
	struct fake_ofi_fabric *fabric = (void *)fid;

	if (fabric->n_children)
		return -FI_EBUSY;
	ofi_net.counts.fabrics--;
	return 0;
}

/*
 * The memory of a fid is freed here, so that one which is closed twice is found
 * by who looks for that.
 */
static int close_fid(struct fid *fid)
{
	size_t fclass = fid->fclass;
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	switch (fclass) {
	case FI_CLASS_FABRIC:
		rc = close_fabric(fid);
		break;
	case FI_CLASS_DOMAIN:
		rc = fake_ofi_domain_close(fid);
		break;
	case FI_CLASS_EQ:
		rc = fake_ofi_eq_close(fid);
		break;
	case FI_CLASS_CQ:
		rc = fake_ofi_cq_close(fid);
		break;
	case FI_CLASS_MR:
		rc = fake_ofi_mr_close(fid);
		break;
	case FI_CLASS_AV:
		rc = fake_ofi_av_close(fid);
		break;
	case FI_CLASS_PEP:
		rc = fake_ofi_pep_close(fid);
		break;
	default:
		assert(fclass == FI_CLASS_EP);
		rc = fake_ofi_ep_close(fid);
	}
	tei_mutex_unlock(&ofi_net.mu);
	if (rc)
		return rc;
	fid->fclass = FI_CLASS_UNSPEC;
	tei_free(fid);
	return 0;
}

const struct ofi_provider fake_ofi = {
	.module.abi = OFI_PROVIDER_ABI,
	.version = version,
	.strerror = text_of,
	.getinfo = fake_ofi_getinfo,
	.freeinfo = fake_ofi_freeinfo,
	.dupinfo = fake_ofi_dupinfo,
	.fabric = fake_ofi_fabric,
	.domain = fake_ofi_domain,
	.close = close_fid,
	.getwait = fake_ofi_getwait,
	.trywait = fake_ofi_trywait,
	.eq_open = fake_ofi_eq_open,
	.eq_read = fake_ofi_eq_read,
	.eq_readerr = fake_ofi_eq_readerr,
	.cq_open = fake_ofi_cq_open,
	.cq_read = fake_ofi_cq_read,
	.cq_readerr = fake_ofi_cq_readerr,
	.cq_strerror = fake_ofi_cq_strerror,
	.mr_regattr = fake_ofi_mr_regattr,
	.mr_key = fake_ofi_mr_key,
	.mr_desc = fake_ofi_mr_desc,
	.mr_bind = fake_ofi_mr_bind,
	.mr_enable = fake_ofi_mr_enable,
	.av_open = fake_ofi_av_open,
	.av_insert = fake_ofi_av_insert,
	.av_remove = fake_ofi_av_remove,
	.passive_ep = fake_ofi_passive_ep,
	.pep_bind = fake_ofi_pep_bind,
	.listen = fake_ofi_listen,
	.getname = fake_ofi_getname,
	.getpeer = fake_ofi_getpeer,
	.reject = fake_ofi_reject,
	.endpoint = fake_ofi_endpoint,
	.ep_bind = fake_ofi_ep_bind,
	.enable = fake_ofi_enable,
	.getopt = fake_ofi_getopt,
	.connect = fake_ofi_connect,
	.accept = fake_ofi_accept,
	.shutdown = fake_ofi_shutdown,
	.readmsg = fake_ofi_readmsg,
	.writemsg = fake_ofi_writemsg,
};

/* ---- begin and end ---- */

void fake_ofi_start(enum fake_ofi_shape shape, unsigned int n)
{
	assert(!ofi_net.on && n <= FAKE_OFI_DEVICES_MAX);
	memset(&ofi_net, 0, sizeof(ofi_net));
	ofi_net.on = true;
	ofi_net.shape = shape;
	ofi_net.rules = &fake_ofi_shapes[shape];
	ofi_net.version = FI_VERSION(2, 1);
	ofi_net.n_devices = n;
	ofi_net.next_port = 20000;
	tei_mutex_init(&ofi_net.mu);
	tei_list_init(&ofi_net.peps);
	for (size_t i = 0; i < FAKE_OFI_KEYS_MAX; i++)
		tei_list_init(&ofi_net.keys[i]);
	for (unsigned int i = 0; i < n; i++)
		fake_ofi_device_init(i);
}

void fake_ofi_be_version(uint32_t is)
{
	ofi_net.version = is;
}

void fake_ofi_stop(void)
{
	const struct fake_ofi_counts *c = &ofi_net.counts;

	if (fake_ofi_open())
		(void)fprintf(stderr,
			      "left: %u infos, %u fabrics, %u domains, "
			      "%u queues, %u vectors, %u listeners, "
			      "%u endpoints, %u keys, %u requests, %u fds\n",
			      c->infos, c->fabrics, c->domains, c->queues,
			      c->vectors, c->listeners, c->endpoints, c->keys,
			      c->requests, c->fds);
	assert(!fake_ofi_open() && !c->registered);
	for (unsigned int i = 0; i < ofi_net.n_devices; i++)
		fake_ofi_device_fini(i);
	tei_mutex_fini(&ofi_net.mu);
	ofi_net.on = false;
}

struct fake_ofi_counts fake_ofi_counts(void)
{
	struct fake_ofi_counts counts;

	tei_mutex_lock(&ofi_net.mu);
	counts = ofi_net.counts;
	tei_mutex_unlock(&ofi_net.mu);
	return counts;
}

unsigned int fake_ofi_open(void)
{
	struct fake_ofi_counts c = fake_ofi_counts();

	return c.infos + c.fabrics + c.domains + c.queues + c.vectors +
	       c.listeners + c.endpoints + c.keys + c.requests + c.fds;
}
