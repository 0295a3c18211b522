/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provider.h - the calls of libfabric that this backend makes, as a table
 *
 * Each entry is the call of that name without "fi_", with its arguments and
 * errors: 0 or a count, or a negative FI_E* number, of which the small ones
 * are errno's. getinfo() and enable() have their other arguments filled
 * in. OFI_PROVIDER_ABI grows with every change of the table.
 *
 * Structs are those of FI_VERSION(1, 17), whatever version is asked for: the
 * module stands between them and the longer ones that later libraries read and
 * write.
 *
 * Threads: any, as the domain is asked for FI_THREAD_SAFE.
 */
#ifndef OFI_PROVIDER_H
#define OFI_PROVIDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/module.h"

/* Memory as a dma-buf, for mr_regattr() of libraries since 1.20. */
#define OFI_VERSION_DMABUF FI_VERSION(1, 20)
#ifndef FI_MR_DMABUF
#define FI_MR_DMABUF (1ULL << 40)
struct fi_mr_dmabuf { /* attr->mr_iov points to it */
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr; /* of what is at offset 0 */
};
#endif

#define OFI_PROVIDER_ABI 4u
#define OFI_VERSION      FI_VERSION(1, 17) /* oldest that is driven */
/*
 * Version that is asked for where the library is as new. Asked for less than
 * 1.18, efa does not have some devices read by themselves which can; asked for
 * less than 1.20, it refuses dma-bufs.
 */
#define OFI_VERSION_ASKED OFI_VERSION_DMABUF

struct ofi_provider {
	struct tei_module module; /* .abi: OFI_PROVIDER_ABI */

	uint32_t (*version)(void); /* FI_VERSION() of the library */
	const char *(*strerror)(int err);

	/*
	 * Devices for @hints, which behave as providers did in @version of the
	 * library, 1.17 to 1.20; *info is freed by freeinfo(). -FI_ENOSYS: the
	 * library is older.
	 */
	int (*getinfo)(uint32_t version, const struct fi_info *hints,
		       struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	/* A copy; of NULL: an empty one. NULL: no memory. */
	struct fi_info *(*dupinfo)(const struct fi_info *info);

	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
		      void *context);
	int (*domain)(struct fid_fabric *fabric, struct fi_info *info,
		      struct fid_domain **domain, void *context);
	int (*close)(struct fid *fid);
	/* FI_GETWAIT: the descriptor of a queue. */
	int (*getwait)(struct fid *fid, int *fd);
	int (*trywait)(struct fid_fabric *fabric, struct fid **fids, int count);

	int (*eq_open)(struct fid_fabric *fabric, struct fi_eq_attr *attr,
		       struct fid_eq **eq, void *context);
	ssize_t (*eq_read)(struct fid_eq *eq, uint32_t *event, void *buf,
			   size_t len, uint64_t flags);
	ssize_t (*eq_readerr)(struct fid_eq *eq, struct fi_eq_err_entry *buf,
			      uint64_t flags);

	int (*cq_open)(struct fid_domain *domain, struct fi_cq_attr *attr,
		       struct fid_cq **cq, void *context);
	ssize_t (*cq_read)(struct fid_cq *cq, void *buf, size_t count);
	ssize_t (*cq_readerr)(struct fid_cq *cq, struct fi_cq_err_entry *buf,
			      uint64_t flags);
	const char *(*cq_strerror)(struct fid_cq *cq, int prov_errno,
				   const void *err_data, char *buf, size_t len);

	int (*mr_regattr)(struct fid_domain *domain,
			  const struct fi_mr_attr *attr, uint64_t flags,
			  struct fid_mr **mr);
	uint64_t (*mr_key)(struct fid_mr *mr);
	void *(*mr_desc)(struct fid_mr *mr);
	/* FI_MR_ENDPOINT: a key holds once it is bound to one and enabled. */
	int (*mr_bind)(struct fid_mr *mr, struct fid *bfid, uint64_t flags);
	int (*mr_enable)(struct fid_mr *mr);

	int (*av_open)(struct fid_domain *domain, struct fi_av_attr *attr,
		       struct fid_av **av, void *context);
	/* Returns how many it took; FI_ADDR_NOTAVAIL stands for the others. */
	int (*av_insert)(struct fid_av *av, const void *addr, size_t count,
			 fi_addr_t *fi_addr, uint64_t flags, void *context);
	int (*av_remove)(struct fid_av *av, fi_addr_t *fi_addr, size_t count,
			 uint64_t flags);

	int (*passive_ep)(struct fid_fabric *fabric, struct fi_info *info,
			  struct fid_pep **pep, void *context);
	int (*pep_bind)(struct fid_pep *pep, struct fid *bfid, uint64_t flags);
	int (*listen)(struct fid_pep *pep);
	int (*getname)(struct fid *fid, void *addr, size_t *addrlen);
	int (*getpeer)(struct fid_ep *ep, void *addr, size_t *addrlen);
	int (*reject)(struct fid_pep *pep, struct fid *handle,
		      const void *param, size_t paramlen);

	int (*endpoint)(struct fid_domain *domain, struct fi_info *info,
			struct fid_ep **ep, void *context);
	int (*ep_bind)(struct fid_ep *ep, struct fid *bfid, uint64_t flags);
	int (*enable)(struct fid_ep *ep);
	/* Reads an option of level FI_OPT_ENDPOINT. */
	int (*getopt)(struct fid_ep *ep, int name, void *value, size_t *len);
	int (*connect)(struct fid_ep *ep, const void *addr, const void *param,
		       size_t paramlen);
	int (*accept)(struct fid_ep *ep, const void *param, size_t paramlen);
	int (*shutdown)(struct fid_ep *ep, uint64_t flags);

	ssize_t (*readmsg)(struct fid_ep *ep, const struct fi_msg_rma *msg,
			   uint64_t flags);
	ssize_t (*writemsg)(struct fid_ep *ep, const struct fi_msg_rma *msg,
			    uint64_t flags);
};

#endif
