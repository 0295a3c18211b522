/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_fake.c - the fake libfabric keeps the rules of those it stands for */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/fake_ofi/fake_ofi.h"
#include "tests/lib/test.h"

#define LEN    65536
#define RIGHTS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static const struct ofi_provider *const api = &fake_ofi;

/* One process's half. */
struct half {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_mr *mr;
	fi_addr_t other;
	uint8_t bytes[LEN];
};

static struct half near, far;
static uint64_t hmem; /* FI_HMEM: domains are asked for it */
static uint32_t asked = OFI_VERSION_ASKED; /* of getinfo() */
static struct fi_context contexts[1024];

/* ---- opened ---- */

static struct fi_info *ask(const char *device, uint64_t caps)
{
	struct fi_info *hints = api->dupinfo(NULL), *list = NULL, *found = NULL;

	hints->caps = FI_RMA | caps;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY |
				      FI_MR_ENDPOINT | FI_MR_HMEM;
	assert_int_equal(api->getinfo(asked, hints, &list), 0);
	for (struct fi_info *at = list; at && !found; at = at->next) {
		if (!strcmp(at->domain_attr->name, device))
			found = api->dupinfo(at);
	}
	api->freeinfo(hints);
	api->freeinfo(list);
	assert_non_null(found);
	return found;
}

static void open_domain(struct half *h, const char *device)
{
	struct fi_cq_attr cq = {.size = 100,
				.format = FI_CQ_FORMAT_MSG,
				.wait_obj = FI_WAIT_FD};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_FD};

	memset(h, 0, sizeof(*h));
	h->info = ask(device, hmem);
	if (!strcmp(h->info->fabric_attr->prov_name, "efa"))
		cq.wait_obj = FI_WAIT_NONE; /* it has no descriptors */
	assert_int_equal(api->fabric(h->info->fabric_attr, &h->fabric, NULL),
			 0);
	assert_int_equal(api->domain(h->fabric, h->info, &h->domain, NULL), 0);
	assert_int_equal(api->eq_open(h->fabric, &eq, &h->eq, NULL), 0);
	assert_int_equal(api->cq_open(h->domain, &cq, &h->cq, NULL), 0);
	assert_int_equal(cq.size, 128);
}

static void open_endpoint(struct half *h, struct fi_info *info)
{
	assert_int_equal(api->endpoint(h->domain, info, &h->ep, h), 0);
	assert_int_equal(api->ep_bind(h->ep, &h->eq->fid, 0), 0);
	assert_int_equal(
		api->ep_bind(h->ep, &h->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	if (h->av)
		assert_int_equal(api->ep_bind(h->ep, &h->av->fid, 0), 0);
	assert_int_equal(api->enable(h->ep), 0);
}

static int try_register(struct half *h, void *addr, size_t len, uint64_t key,
			struct fid_mr **out)
{
	struct iovec iov = {addr, len};
	struct fi_mr_attr attr = {.mr_iov = &iov,
				  .iov_count = 1,
				  .access = RIGHTS,
				  .requested_key = key};

	return api->mr_regattr(h->domain, &attr, 0, out);
}

static bool binds_keys(const struct half *h)
{
	return h->info->domain_attr->mr_mode & FI_MR_ENDPOINT;
}

static void register_all(struct half *h)
{
	assert_int_equal(try_register(h, h->bytes, LEN, 77, &h->mr), 0);
	if (!binds_keys(h))
		return;
	assert_true(api->mr_key(h->mr) == FI_KEY_NOTAVAIL);
	assert_int_equal(api->mr_enable(h->mr), -FI_EINVAL);
	assert_int_equal(api->mr_bind(h->mr, &h->ep->fid, 0), 0);
	assert_int_equal(api->mr_enable(h->mr), 0);
}

static void open_rdm(struct half *h, const char *device)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};

	open_domain(h, device);
	assert_int_equal(api->av_open(h->domain, &av, &h->av, NULL), 0);
	open_endpoint(h, h->info);
	register_all(h);
}

static fi_addr_t know(struct half *h, const struct half *other)
{
	uint8_t address[64];
	size_t len = sizeof(address);
	fi_addr_t addr;

	assert_int_equal(api->getname(&other->ep->fid, address, &len), 0);
	assert_int_equal(len, other->info->src_addrlen);
	assert_int_equal(api->av_insert(h->av, address, 1, &addr, 0, NULL), 1);
	return addr;
}

static void close_half(struct half *h)
{
	if (h->mr)
		assert_int_equal(api->close(&h->mr->fid), 0);
	if (h->ep)
		assert_int_equal(api->close(&h->ep->fid), 0);
	if (h->av)
		assert_int_equal(api->close(&h->av->fid), 0);
	assert_int_equal(api->close(&h->cq->fid), 0);
	assert_int_equal(api->close(&h->eq->fid), 0);
	assert_int_equal(api->close(&h->domain->fid), 0);
	assert_int_equal(api->close(&h->fabric->fid), 0);
	api->freeinfo(h->info);
}

/* ---- operations ---- */

static uint64_t remote_at(size_t at)
{
	bool addresses = far.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;

	return addresses ? (uintptr_t)(far.bytes + at) : at;
}

static ssize_t post_as(size_t i, size_t len, uint64_t key, uint64_t flags)
{
	void *desc = api->mr_desc(near.mr);
	struct iovec iov = {near.bytes + i * len, len};
	struct fi_rma_iov remote = {remote_at(i * len), len, key};
	bool local = near.info->domain_attr->mr_mode & FI_MR_LOCAL;
	struct fi_msg_rma msg = {.msg_iov = &iov,
				 .desc = local ? &desc : NULL,
				 .iov_count = 1,
				 .addr = near.other,
				 .rma_iov = &remote,
				 .rma_iov_count = 1,
				 .context = &contexts[i]};

	return api->writemsg(near.ep, &msg, flags);
}

static ssize_t post(size_t i)
{
	return post_as(i, 64, api->mr_key(far.mr),
		       FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

/* The error that the next one ends with; 0: it went well. */
static struct fi_cq_err_entry await_one(unsigned int looks)
{
	struct fi_cq_err_entry e = {.err = 0};
	struct fi_cq_msg_entry entry;
	ssize_t rc = -FI_EAGAIN;

	for (unsigned int i = 0; i < looks && rc == -FI_EAGAIN; i++)
		rc = api->cq_read(near.cq, &entry, 1);
	if (rc == -FI_EAVAIL) {
		assert_int_equal(api->cq_readerr(near.cq, &e, 0), 1);
		assert_non_null(e.err_data);
	} else {
		e.err = rc == 1 ? 0 : (int)rc;
		e.op_context = rc == 1 ? entry.op_context : NULL;
	}
	return e;
}

static void start_rdm(enum fake_ofi_shape shape)
{
	fake_ofi_start(shape, 2);
	open_rdm(&near, shape == FAKE_OFI_EFA ? "fake0-rdm" : "fake0");
	open_rdm(&far, shape == FAKE_OFI_EFA ? "fake1-rdm" : "fake1");
	near.other = know(&near, &far);
	far.other = know(&far, &near);
}

static void stop_rdm(void)
{
	close_half(&far);
	close_half(&near);
	fake_ofi_stop();
}

static const enum fake_ofi_shape rdm_shapes[] = {FAKE_OFI_EFA, FAKE_OFI_CXI};

/* ---- FI_EP_RDM ---- */

static void bytes_arrive_in_any_order(void **state)
{
	(void)state;
	for (size_t s = 0; s < TEST_COUNT(rdm_shapes); s++) {
		bool seen[8] = {false}, in_order = true;

		start_rdm(rdm_shapes[s]);
		memset(near.bytes, 5, 8 * 64);
		for (size_t i = 0; i < 8; i++)
			assert_int_equal(post(i), 0);
		for (size_t i = 0; i < 8; i++) {
			struct fi_cq_err_entry e = await_one(1);
			size_t n = (size_t)((struct fi_context *)e.op_context -
					    contexts);

			assert_int_equal(e.err, 0);
			assert_true(n < 8 && !seen[n]);
			seen[n] = true;
			in_order &= n == i;
		}
		assert_false(in_order);
		assert_memory_equal(far.bytes, near.bytes, 8 * 64);
		stop_rdm();
	}
}

static void room_is_for_eight_of_efa(void **state)
{
	(void)state;
	start_rdm(FAKE_OFI_EFA);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(post(i), 0);
	assert_int_equal(post(8), -FI_EAGAIN);
	assert_int_equal(await_one(1).err, 0);
	assert_int_equal(post(8), 0);
	stop_rdm();
}

static void address_is_needed_on_both_sides(void **state)
{
	struct fi_cq_err_entry e;
	fi_addr_t addr;

	(void)state;
	start_rdm(FAKE_OFI_EFA);
	assert_int_equal(api->av_insert(near.av, near.bytes, 1, &addr, 0, NULL),
			 0);
	assert_true(addr == FI_ADDR_NOTAVAIL);
	assert_int_equal(api->av_remove(far.av, &far.other, 1, 0), 0);
	assert_int_equal(post(0), 0);
	e = await_one(1);
	assert_int_equal(e.err, FI_EIO);
	assert_int_equal(api->av_remove(near.av, &near.other, 1, 0), 0);
	assert_int_equal(post(0), -FI_EINVAL);
	stop_rdm();
}

static void peer_is_asked_before_the_first_operation(void **state)
{
	(void)state;
	start_rdm(FAKE_OFI_EFA);
	fake_ofi_be_version(FI_VERSION(1, 22));
	fake_ofi_limits(1)->handshakes = true;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(post(0), -FI_EAGAIN);
		assert_int_equal(await_one(10).err, -FI_EAGAIN);
	}
	assert_int_equal(api->cq_read(far.cq, NULL, 0), -FI_EAGAIN);
	assert_int_equal(post(0), 0);
	assert_int_equal(await_one(1).err, 0);
	assert_int_equal(post(1), 0);
	assert_int_equal(await_one(1).err, 0);
	stop_rdm();
}

static void later_operations_are_kept_until_the_peer_answers(void **state)
{
	(void)state;
	start_rdm(FAKE_OFI_EFA);
	fake_ofi_limits(1)->handshakes = true;
	assert_int_equal(post(0), 0);
	assert_int_equal(await_one(10).err, -FI_EAGAIN);
	assert_int_equal(api->cq_read(far.cq, NULL, 0), -FI_EAGAIN);
	assert_int_equal(await_one(1).err, 0);
	assert_int_equal(post(1), 0);
	assert_int_equal(await_one(1).err, 0);
	stop_rdm();
}

/* As 1.17 and 2.1 do. */
static void vector_of_efa_is_of_one_endpoint_and_knows_each_once(void **state)
{
	struct fid_ep *other;

	(void)state;
	start_rdm(FAKE_OFI_EFA);
	assert_int_equal(api->endpoint(near.domain, near.info, &other, NULL),
			 0);
	assert_int_equal(api->ep_bind(other, &near.av->fid, 0), -FI_ENOSYS);
	assert_int_equal(api->close(&other->fid), 0);
	assert_true(know(&near, &far) == near.other);
	assert_int_equal(api->av_remove(near.av, &near.other, 1, 0), 0);
	assert_int_equal(post(0), -FI_EINVAL);
	stop_rdm();
}

static void closed_peer_is_noticed_late_and_a_dead_one_never(void **state)
{
	struct fi_cq_err_entry e;

	(void)state;
	start_rdm(FAKE_OFI_EFA);
	fake_ofi_silence(1, true);
	assert_int_equal(post(0), 0);
	assert_int_equal(await_one(10000).err, -FI_EAGAIN);
	fake_ofi_lose(1, 100);
	assert_int_equal(await_one(90).err, -FI_EAGAIN);
	e = await_one(100);
	assert_int_equal(e.prov_errno, 13);
	fake_ofi_silence(1, false);
	assert_int_equal(api->close(&far.ep->fid), 0);
	far.ep = NULL;
	assert_int_equal(post(0), 0);
	assert_int_equal(await_one(10).err, -FI_EAGAIN);
	assert_int_equal(await_one(100).prov_errno, 13);
	stop_rdm();
}

static void closing_an_endpoint_says_nothing_of_what_it_had_posted(void **state)
{
	(void)state;
	start_rdm(FAKE_OFI_CXI);
	fake_ofi_hang(0, true);
	assert_int_equal(post(0), 0);
	fake_ofi_hang(0, false);
	assert_int_equal(api->close(&near.mr->fid), 0);
	near.mr = NULL;
	assert_int_equal(api->close(&near.ep->fid), 0);
	near.ep = NULL;
	assert_int_equal(await_one(1000).err, -FI_EAGAIN);
	stop_rdm();
}

/* And tells of it, unless the peer's address was removed before. */
static void
closing_an_endpoint_of_efa_waits_for_what_it_had_posted(void **state)
{
	(void)state;
	for (int removed = 0; removed < 2; removed++) {
		start_rdm(FAKE_OFI_EFA);
		fake_ofi_hang(0, true);
		assert_int_equal(post(0), 0);
		if (removed)
			assert_int_equal(
				api->av_remove(near.av, &near.other, 1, 0), 0);
		assert_int_equal(api->close(&near.ep->fid), 0);
		near.ep = NULL;
		assert_int_equal(fake_ofi_counts().waited, 1);
		fake_ofi_hang(0, false);
		assert_int_equal(await_one(1000).err,
				 removed ? -FI_EAGAIN : FI_EIO);
		stop_rdm();
	}
}

static void wrong_key_range_and_descriptor_are_refused(void **state)
{
	(void)state;
	for (size_t s = 0; s < TEST_COUNT(rdm_shapes); s++) {
		struct fi_cq_err_entry e;

		start_rdm(rdm_shapes[s]);
		assert_int_equal(post_as(0, 64, 12345, 0), 0);
		e = await_one(1);
		assert_true(e.err > 0);
		assert_int_equal(
			post_as(LEN / 64 - 1, 64, api->mr_key(far.mr), 0), 0);
		assert_int_equal(await_one(1).err, 0);
		assert_int_equal(post_as(LEN / 64, 64, api->mr_key(far.mr), 0),
				 0);
		assert_true(await_one(1).err > 0);
		assert_int_equal(api->close(&far.mr->fid), 0);
		assert_int_equal(post_as(0, 64, 77, 0), 0);
		assert_true(await_one(1).err > 0);
		far.mr = NULL;
		stop_rdm();
	}
}

static void keys_of_an_endpoint_end_before_it(void **state)
{
	(void)state;
	start_rdm(FAKE_OFI_CXI);
	assert_int_equal(api->close(&far.ep->fid), -FI_EBUSY);
	assert_int_equal(api->close(&far.domain->fid), -FI_EBUSY);
	assert_int_equal(api->close(&far.cq->fid), -FI_EBUSY);
	assert_int_equal(api->close(&far.av->fid), -FI_EBUSY);
	stop_rdm();
}

static void events_are_of_memory_that_asks_for_them(void **state)
{
	struct iovec iov = {far.bytes, LEN};
	struct fi_mr_attr attr = {.mr_iov = &iov,
				  .iov_count = 1,
				  .access = FI_REMOTE_WRITE,
				  .requested_key = 99};
	struct fid_mr *mr;

	(void)state;
	start_rdm(FAKE_OFI_CXI);
	assert_int_equal(api->mr_regattr(far.domain, &attr, FI_RMA_EVENT, &mr),
			 0);
	assert_int_equal(api->mr_bind(mr, &far.ep->fid, FI_REMOTE_WRITE), 0);
	assert_int_equal(api->mr_enable(mr), 0);
	assert_int_equal(post(0), 0);
	assert_int_equal(post_as(1, 64, 99, 0), 0);
	assert_int_equal(await_one(1).err, 0);
	assert_int_equal(await_one(1).err, 0);
	assert_int_equal(fake_ofi_counts().events, 1);
	assert_int_equal(api->close(&mr->fid), 0);
	stop_rdm();
}

/* ---- memory ---- */

static void memory_has_limits(void **state)
{
	struct fid_mr *mr;

	(void)state;
	start_rdm(FAKE_OFI_EFA);
	fake_ofi_limits(0)->registered = LEN + 4096;
	assert_int_equal(try_register(&near, near.bytes, 8192, 0, &mr),
			 -FI_ENOMEM);
	assert_int_equal(try_register(&near, near.bytes, 4096, 0, &mr), 0);
	assert_int_equal(api->close(&mr->fid), 0);
	fake_ofi_limits(0)->keys = 1;
	assert_int_equal(try_register(&near, near.bytes, 4096, 0, &mr),
			 -FI_ENOMEM);
	stop_rdm();
}

static void key_in_use_is_refused(void **state)
{
	struct fid_mr *mr;

	(void)state;
	start_rdm(FAKE_OFI_CXI);
	assert_int_equal(try_register(&near, near.bytes, 64, 77, &mr),
			 -FI_ENOKEY);
	assert_int_equal(try_register(&near, near.bytes, 64, 1ull << 32, &mr),
			 -FI_EKEYREJECTED);
	stop_rdm();
}

static void memory_that_is_not_there_is_not_registered(void **state)
{
	void *hole = mmap(NULL, LEN, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct fid_mr *mr;

	(void)state;
	start_rdm(FAKE_OFI_EFA);
	munmap(hole, LEN);
	assert_int_equal(try_register(&near, hole, LEN, 0, &mr), -FI_EFAULT);
	stop_rdm();
}

static void dma_buf_stands_for_its_bytes(void **state)
{
	struct fake_ofi_dmabuf d = {.offset = 64, .len = 4096};
	struct fi_mr_attr attr = {
		.mr_iov = (const void *)&d, .iov_count = 1, .access = RIGHTS};
	struct fid_mr *mr;
	uint8_t *bytes;

	(void)state;
	hmem = FI_HMEM;
	start_rdm(FAKE_OFI_EFA);
	hmem = 0;
	d.base_addr = far.bytes; /* an address, not what is there */
	d.fd = memfd_create("gpu", MFD_CLOEXEC);
	assert_int_equal(ftruncate(d.fd, 8192), 0);
	bytes = mmap(NULL, 8192, PROT_READ, MAP_SHARED, d.fd, 0);
	fake_ofi_refuse_dmabufs(FI_EOPNOTSUPP);
	assert_int_equal(
		api->mr_regattr(far.domain, &attr, FAKE_OFI_MR_DMABUF, &mr),
		-FI_EOPNOTSUPP);
	fake_ofi_refuse_dmabufs(0);
	assert_int_equal(
		api->mr_regattr(far.domain, &attr, FAKE_OFI_MR_DMABUF, &mr), 0);
	memset(near.bytes, 9, 4096);
	assert_int_equal(post_as(1, 64, api->mr_key(mr), 0), 0);
	assert_int_equal(await_one(1).err, 0);
	assert_int_equal(bytes[64], 9);
	assert_int_equal(far.bytes[64], 0);
	assert_int_equal(api->close(&mr->fid), 0);
	munmap(bytes, 8192);
	close(d.fd);
	stop_rdm();
}

/* As 2.1 does: behaviour goes by what was asked for. */
static void dma_bufs_are_for_who_asks_for_a_version_that_has_them(void **state)
{
	const struct fake_ofi_dmabuf d = {.fd = 0, .len = 4096};
	const struct fi_mr_attr attr = {
		.mr_iov = (const void *)&d, .iov_count = 1, .access = RIGHTS};
	struct fi_info *info;
	struct fid_mr *mr;

	(void)state;
	hmem = FI_HMEM;
	asked = FI_VERSION(1, 18);
	start_rdm(FAKE_OFI_EFA);
	hmem = 0;
	asked = OFI_VERSION_ASKED;
	assert_int_equal(
		api->mr_regattr(far.domain, &attr, FAKE_OFI_MR_DMABUF, &mr),
		-FI_EBADFLAGS);
	fake_ofi_be_version(FI_VERSION(1, 18));
	assert_int_equal(api->getinfo(FI_VERSION(1, 20), NULL, &info),
			 -FI_ENOSYS);
	stop_rdm();
}

static uint8_t device_bytes[4096];

static void *translate(uint64_t addr)
{
	return addr == 0x1000 ? device_bytes : NULL;
}

static void address_of_a_device_stands_for_its_bytes(void **state)
{
	struct iovec iov = {(void *)0x1000, sizeof(device_bytes)};
	struct fi_mr_attr attr = {.mr_iov = &iov,
				  .iov_count = 1,
				  .access = RIGHTS,
				  .iface = FI_HMEM_CUDA};
	struct fi_rma_iov remote = {0x1000, 64, 0};
	struct iovec local = {near.bytes, 64};
	void *desc;
	struct fi_msg_rma msg = {.msg_iov = &local,
				 .desc = &desc,
				 .iov_count = 1,
				 .rma_iov = &remote,
				 .rma_iov_count = 1,
				 .context = contexts};
	struct fid_mr *mr;

	(void)state;
	start_rdm(FAKE_OFI_EFA);
	assert_int_equal(api->mr_regattr(far.domain, &attr, 0, &mr),
			 -FI_ENOSYS);
	stop_rdm();
	hmem = FI_HMEM;
	start_rdm(FAKE_OFI_EFA);
	hmem = 0;
	assert_int_equal(api->mr_regattr(far.domain, &attr, 0, &mr),
			 -FI_EFAULT);
	fake_ofi_translate(translate);
	assert_int_equal(api->mr_regattr(far.domain, &attr, 0, &mr), 0);
	memset(near.bytes, 3, 64);
	desc = api->mr_desc(near.mr);
	remote.key = api->mr_key(mr);
	msg.addr = near.other;
	assert_int_equal(api->writemsg(near.ep, &msg, FI_COMPLETION), 0);
	assert_int_equal(await_one(1).err, 0);
	assert_int_equal(device_bytes[63], 3);
	assert_int_equal(api->close(&mr->fid), 0);
	stop_rdm();
}

static void device_memory_is_for_who_asks(void **state)
{
	struct fi_info *info;

	(void)state;
	fake_ofi_start(FAKE_OFI_EFA, 1);
	info = ask("fake0-rdm", 0);
	assert_false(info->caps & FI_HMEM);
	assert_false(info->domain_attr->mr_mode & FI_MR_HMEM);
	api->freeinfo(info);
	info = ask("fake0-rdm", FI_HMEM);
	assert_true(info->caps & FI_HMEM);
	assert_true(info->domain_attr->mr_mode & FI_MR_HMEM);
	api->freeinfo(info);
	fake_ofi_stop();
}

/* ---- FI_EP_MSG ---- */

static struct fid_pep *listener;

static struct fi_eq_cm_entry await_event(struct half *h, uint32_t want)
{
	struct fi_eq_cm_entry entry = {.info = NULL};
	uint8_t buf[sizeof(entry) + 64]; /* with the data of the connection */
	uint32_t event = 0;

	assert_true(api->eq_read(h->eq, &event, buf, sizeof(buf), 0) >=
		    (ssize_t)sizeof(entry));
	assert_int_equal(event, want);
	memcpy(&entry, buf, sizeof(entry));
	return entry;
}

static void start_msg(enum fake_ofi_shape shape)
{
	struct sockaddr_in at;
	size_t len = sizeof(at);
	struct fi_info *info;

	fake_ofi_start(shape, 2);
	open_domain(&near, "fake0");
	open_domain(&far, "fake1");
	assert_int_equal(api->passive_ep(far.fabric, far.info, &listener, NULL),
			 0);
	assert_int_equal(api->listen(listener), -FI_ENOEQ);
	assert_int_equal(api->pep_bind(listener, &far.eq->fid, 0), 0);
	assert_int_equal(api->listen(listener), 0);
	assert_int_equal(api->getname(&listener->fid, &at, &len), 0);
	open_endpoint(&near, near.info);
	assert_int_equal(api->connect(near.ep, &at, "hello", 5), 0);
	info = await_event(&far, FI_CONNREQ).info;
	open_endpoint(&far, info);
	api->freeinfo(info);
	assert_int_equal(api->accept(far.ep, NULL, 0), 0);
	await_event(&near, FI_CONNECTED);
	await_event(&far, FI_CONNECTED);
	register_all(&near);
	register_all(&far);
}

static void stop_msg(void)
{
	assert_int_equal(api->close(&listener->fid), 0);
	close_half(&near);
	close_half(&far);
	fake_ofi_stop();
}

static void write_of_tcp_is_done_when_it_leaves(void **state)
{
	(void)state;
	start_msg(FAKE_OFI_TCP);
	assert_int_equal(post_as(0, 64, 1, FI_COMPLETION), 0);
	assert_int_equal(await_one(1).err, 0);
	await_event(&near, FI_SHUTDOWN);
	await_event(&far, FI_SHUTDOWN);
	assert_int_equal(post(0), -FI_ENOTCONN);
	stop_msg();
}

static void refused_write_ends_the_connection(void **state)
{
	(void)state;
	start_msg(FAKE_OFI_TCP);
	assert_int_equal(
		post_as(0, 64, 1, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
	assert_int_equal(post(1), 0);
	assert_int_equal(await_one(1).err, FI_ECANCELED);
	assert_int_equal(await_one(1).err, FI_ECANCELED);
	stop_msg();
}

static void closing_an_endpoint_has_all_come_back(void **state)
{
	(void)state;
	start_msg(FAKE_OFI_TCP);
	fake_ofi_hang(0, true);
	assert_int_equal(post(0), 0);
	assert_int_equal(post(1), 0);
	assert_int_equal(api->close(&near.ep->fid), 0);
	near.ep = NULL;
	assert_int_equal(await_one(1).err, FI_ECANCELED);
	assert_int_equal(await_one(1).err, FI_ECANCELED);
	await_event(&far, FI_SHUTDOWN);
	stop_msg();
}

static void nobody_listening_is_a_refusal(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = 1};
	struct fi_eq_err_entry e = {.err = 0};
	uint8_t buf[64];
	uint32_t event;

	(void)state;
	fake_ofi_start(FAKE_OFI_TCP, 1);
	open_domain(&near, "fake0");
	open_endpoint(&near, near.info);
	assert_int_equal(api->connect(near.ep, &at, NULL, 0), 0);
	assert_int_equal(api->eq_read(near.eq, &event, buf, sizeof(buf), 0),
			 -FI_EAVAIL);
	assert_true(api->eq_readerr(near.eq, &e, 0) > 0);
	assert_int_equal(e.err, FI_ECONNREFUSED);
	assert_ptr_equal(e.fid, &near.ep->fid);
	close_half(&near);
	fake_ofi_stop();
}

/* ---- descriptors ---- */

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void armed_queue_tells_by_its_descriptor(void **state)
{
	struct fid *queue;
	int fd;

	(void)state;
	start_rdm(FAKE_OFI_CXI);
	queue = &near.cq->fid;
	assert_int_equal(api->getwait(queue, &fd), 0);
	assert_int_equal(api->trywait(near.fabric, &queue, 1), 0);
	assert_false(is_readable(fd));
	assert_int_equal(post(0), 0);
	assert_true(is_readable(fd));
	assert_int_equal(api->trywait(near.fabric, &queue, 1), -FI_EAGAIN);
	assert_int_equal(await_one(1).err, 0);
	assert_int_equal(api->trywait(near.fabric, &queue, 1), 0);
	assert_false(is_readable(fd));
	stop_rdm();
}

static void chances_are_the_same_from_the_same_seed(void **state)
{
	uint64_t first = 0;

	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		const struct fake_ofi_chances c = {
			.seed = 5, .spoil = 200000, .busy = 50000};
		uint64_t sum = 0;

		start_rdm(FAKE_OFI_EFA);
		fake_ofi_set_chances(&c);
		for (size_t i = 0; i < 1000; i++) {
			if (post(i % 8))
				continue;
			sum = sum * 31 + (uint64_t)await_one(1).err;
		}
		assert_true(fake_ofi_counts().busy > 0);
		assert_true(fake_ofi_counts().spoiled > 0);
		assert_true(!turn || sum == first);
		first = sum;
		stop_rdm();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_arrive_in_any_order),
		cmocka_unit_test(room_is_for_eight_of_efa),
		cmocka_unit_test(address_is_needed_on_both_sides),
		cmocka_unit_test(peer_is_asked_before_the_first_operation),
		cmocka_unit_test(
			later_operations_are_kept_until_the_peer_answers),
		cmocka_unit_test(
			vector_of_efa_is_of_one_endpoint_and_knows_each_once),
		cmocka_unit_test(
			closed_peer_is_noticed_late_and_a_dead_one_never),
		cmocka_unit_test(
			closing_an_endpoint_says_nothing_of_what_it_had_posted),
		cmocka_unit_test(
			closing_an_endpoint_of_efa_waits_for_what_it_had_posted),
		cmocka_unit_test(wrong_key_range_and_descriptor_are_refused),
		cmocka_unit_test(keys_of_an_endpoint_end_before_it),
		cmocka_unit_test(events_are_of_memory_that_asks_for_them),
		cmocka_unit_test(memory_has_limits),
		cmocka_unit_test(key_in_use_is_refused),
		cmocka_unit_test(memory_that_is_not_there_is_not_registered),
		cmocka_unit_test(dma_buf_stands_for_its_bytes),
		cmocka_unit_test(
			dma_bufs_are_for_who_asks_for_a_version_that_has_them),
		cmocka_unit_test(address_of_a_device_stands_for_its_bytes),
		cmocka_unit_test(device_memory_is_for_who_asks),
		cmocka_unit_test(write_of_tcp_is_done_when_it_leaves),
		cmocka_unit_test(refused_write_ends_the_connection),
		cmocka_unit_test(closing_an_endpoint_has_all_come_back),
		cmocka_unit_test(nobody_listening_is_a_refusal),
		cmocka_unit_test(armed_queue_tells_by_its_descriptor),
		cmocka_unit_test(chances_are_the_same_from_the_same_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
