/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - the provider that is libfabric: te_ofi.so
 *
 * The only file that needs the library: a module of its own, which holds one
 * table and calls nothing of this tree. Being linked with libfabric.so.1, it
 * gets the one that the process has loaded already, where there is one, and the
 * version of each symbol that goes with the headers of this build. Most of the
 * calls are inline functions, so each has a function here.
 */
#include <string.h>

#include "backends/ofi/provider.h"

/*
 * Structs of the caller's that later libraries have made longer: by src_addr in
 * 1.20, and by four fields up to 2.0. A provider reads or writes the rest
 * according to the version that was asked for, or always.
 */
#define LATER_LEN 64

struct later_error {
	struct fi_cq_err_entry entry; /* first */
	uint8_t later[LATER_LEN];
};

struct later_memory {
	struct fi_mr_attr attr; /* first */
	uint8_t later[LATER_LEN];
};

static int getinfo(uint32_t version, const struct fi_info *hints,
		   struct fi_info **info)
{
	return fi_getinfo(version, NULL, NULL, 0, hints, info);
}

static int domain(struct fid_fabric *fabric, struct fi_info *info,
		  struct fid_domain **out, void *context)
{
	return fi_domain(fabric, info, out, context);
}

static int close_fid(struct fid *fid)
{
	return fi_close(fid);
}

static int getwait(struct fid *fid, int *fd)
{
	return fi_control(fid, FI_GETWAIT, fd);
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	return fi_trywait(fabric, fids, count);
}

static int eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
		   struct fid_eq **eq, void *context)
{
	return fi_eq_open(fabric, attr, eq, context);
}

static ssize_t eq_read(struct fid_eq *eq, uint32_t *event, void *buf,
		       size_t len, uint64_t flags)
{
	return fi_eq_read(eq, event, buf, len, flags);
}

static ssize_t eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf,
			  uint64_t flags)
{
	return fi_eq_readerr(eq, buf, flags);
}

static int cq_open(struct fid_domain *of, struct fi_cq_attr *attr,
		   struct fid_cq **cq, void *context)
{
	return fi_cq_open(of, attr, cq, context);
}

static ssize_t cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	return fi_cq_read(cq, buf, count);
}

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf,
			  uint64_t flags)
{
	struct later_error error = {.entry = *buf};
	ssize_t rc = fi_cq_readerr(cq, &error.entry, flags);

	*buf = error.entry;
	return rc;
}

static const char *cq_strerror(struct fid_cq *cq, int prov_errno,
			       const void *err_data, char *buf, size_t len)
{
	return fi_cq_strerror(cq, prov_errno, err_data, buf, len);
}

static int mr_regattr(struct fid_domain *of, const struct fi_mr_attr *attr,
		      uint64_t flags, struct fid_mr **mr)
{
	struct later_memory memory;

	memset(&memory, 0, sizeof(memory));
	memory.attr = *attr;
	return fi_mr_regattr(of, &memory.attr, flags, mr);
}

static uint64_t mr_key(struct fid_mr *mr)
{
	return fi_mr_key(mr);
}

static void *mr_desc(struct fid_mr *mr)
{
	return fi_mr_desc(mr);
}

static int mr_bind(struct fid_mr *mr, struct fid *bfid, uint64_t flags)
{
	return fi_mr_bind(mr, bfid, flags);
}

static int mr_enable(struct fid_mr *mr)
{
	return fi_mr_enable(mr);
}

static int av_open(struct fid_domain *of, struct fi_av_attr *attr,
		   struct fid_av **av, void *context)
{
	return fi_av_open(of, attr, av, context);
}

static int av_insert(struct fid_av *av, const void *addr, size_t count,
		     fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return fi_av_insert(av, addr, count, fi_addr, flags, context);
}

static int av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count,
		     uint64_t flags)
{
	return fi_av_remove(av, fi_addr, count, flags);
}

static int passive_ep(struct fid_fabric *fabric, struct fi_info *info,
		      struct fid_pep **pep, void *context)
{
	return fi_passive_ep(fabric, info, pep, context);
}

static int pep_bind(struct fid_pep *pep, struct fid *bfid, uint64_t flags)
{
	return fi_pep_bind(pep, bfid, flags);
}

static int listen_at(struct fid_pep *pep)
{
	return fi_listen(pep);
}

static int getname(struct fid *fid, void *addr, size_t *addrlen)
{
	return fi_getname(fid, addr, addrlen);
}

static int getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return fi_getpeer(ep, addr, addrlen);
}

static int reject(struct fid_pep *pep, struct fid *handle, const void *param,
		  size_t paramlen)
{
	return fi_reject(pep, handle, param, paramlen);
}

static int endpoint(struct fid_domain *of, struct fi_info *info,
		    struct fid_ep **ep, void *context)
{
	return fi_endpoint(of, info, ep, context);
}

static int ep_bind(struct fid_ep *ep, struct fid *bfid, uint64_t flags)
{
	return fi_ep_bind(ep, bfid, flags);
}

static int enable(struct fid_ep *ep)
{
	return fi_enable(ep);
}

static int get_option(struct fid_ep *ep, int name, void *value, size_t *len)
{
	return fi_getopt(&ep->fid, FI_OPT_ENDPOINT, name, value, len);
}

static int connect_to(struct fid_ep *ep, const void *addr, const void *param,
		      size_t paramlen)
{
	return fi_connect(ep, addr, param, paramlen);
}

static int accept_it(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return fi_accept(ep, param, paramlen);
}

static int shut_down(struct fid_ep *ep, uint64_t flags)
{
	return fi_shutdown(ep, flags);
}

static ssize_t readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
		       uint64_t flags)
{
	return fi_readmsg(ep, msg, flags);
}

static ssize_t writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			uint64_t flags)
{
	return fi_writemsg(ep, msg, flags);
}

extern const struct ofi_provider tei_ofi_provider;
TEI_MODULE_EXPORT const struct ofi_provider tei_ofi_provider = {
	.module.abi = OFI_PROVIDER_ABI,
	.version = fi_version,
	.strerror = fi_strerror,
	.getinfo = getinfo,
	.freeinfo = fi_freeinfo,
	.dupinfo = fi_dupinfo,
	.fabric = fi_fabric,
	.domain = domain,
	.close = close_fid,
	.getwait = getwait,
	.trywait = trywait,
	.eq_open = eq_open,
	.eq_read = eq_read,
	.eq_readerr = eq_readerr,
	.cq_open = cq_open,
	.cq_read = cq_read,
	.cq_readerr = cq_readerr,
	.cq_strerror = cq_strerror,
	.mr_regattr = mr_regattr,
	.mr_key = mr_key,
	.mr_desc = mr_desc,
	.mr_bind = mr_bind,
	.mr_enable = mr_enable,
	.av_open = av_open,
	.av_insert = av_insert,
	.av_remove = av_remove,
	.passive_ep = passive_ep,
	.pep_bind = pep_bind,
	.listen = listen_at,
	.getname = getname,
	.getpeer = getpeer,
	.reject = reject,
	.endpoint = endpoint,
	.ep_bind = ep_bind,
	.enable = enable,
	.getopt = get_option,
	.connect = connect_to,
	.accept = accept_it,
	.shutdown = shut_down,
	.readmsg = readmsg,
	.writemsg = writemsg,
};
