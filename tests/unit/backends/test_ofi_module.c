/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ofi_module.c - te_ofi.so gives later libraries the room that they use
 *
 * Structs have grown since the headers of this build. Providers of a test stand
 * behind the module, and read and write them as libfabric 2.0 has them.
 */
#include <string.h>

#include "backends/ofi/provider.h"
#include "base/module.h"
#include "tests/lib/test.h"

static const struct ofi_provider *api;

static int load(void **state)
{
	char why[TEI_MODULE_ERROR_LEN];

	(void)state;
	api = tei_module_load(NULL, "te_ofi", "tei_ofi_provider",
			      OFI_PROVIDER_ABI, why);
	if (!api)
		print_message("skipped: %s\n", why);
	return 0;
}

/* Of libfabric 1.20. */
struct later_error {
	struct fi_cq_err_entry entry;
	fi_addr_t src_addr;
};

static ssize_t write_all(struct fid_cq *cq, struct fi_cq_err_entry *buf,
			 uint64_t flags)
{
	struct later_error *e = (void *)buf;

	(void)cq;
	(void)flags;
	assert_int_equal(buf->err_data_size, 5);
	memcpy(buf->err_data, "full", 5);
	e->entry.err = FI_EIO;
	e->entry.prov_errno = 7;
	e->src_addr = 0;
	return 1;
}

static void error_is_written_where_there_is_room(void **state)
{
	struct fi_ops_cq ops = {.size = sizeof(ops), .readerr = write_all};
	struct fid_cq cq = {.ops = &ops};
	char data[5];
	struct {
		struct fi_cq_err_entry entry;
		uint8_t behind[64];
	} room;

	(void)state;
	if (!api)
		skip();
	memset(&room, 0xa5, sizeof(room));
	room.entry.err_data = data;
	room.entry.err_data_size = sizeof(data);
	assert_int_equal(api->cq_readerr(&cq, &room.entry, 0), 1);
	assert_int_equal(room.entry.err, FI_EIO);
	assert_int_equal(room.entry.prov_errno, 7);
	assert_string_equal(data, "full");
	for (size_t i = 0; i < sizeof(room.behind); i++)
		assert_int_equal(room.behind[i], 0xa5);
}

/* Of libfabric 2.0. */
struct later_memory {
	struct fi_mr_attr attr;
	void *hmem_data;
	size_t page_size;
	const struct fid_mr *base_mr;
	size_t sub_mr_cnt;
};

static int read_all(struct fid *fid, const struct fi_mr_attr *attr,
		    uint64_t flags, struct fid_mr **mr)
{
	const struct later_memory *m = (const void *)attr;

	(void)fid;
	(void)mr;
	assert_int_equal(flags, FI_MR_DMABUF);
	assert_int_equal(attr->requested_key, 99);
	assert_int_equal(attr->device.cuda, 3);
	assert_null(m->hmem_data);
	assert_int_equal(m->page_size, 0);
	assert_null(m->base_mr);
	assert_int_equal(m->sub_mr_cnt, 0);
	return -FI_ENOSYS;
}

static void memory_is_told_without_what_is_behind(void **state)
{
	struct fi_ops_mr ops = {.size = sizeof(ops), .regattr = read_all};
	struct fid_domain domain = {.mr = &ops};
	struct fid_mr *mr;
	struct {
		struct fi_mr_attr attr;
		uint8_t behind[64];
	} told;

	(void)state;
	if (!api)
		skip();
	memset(&told, 0xa5, sizeof(told));
	told.attr = (struct fi_mr_attr){.requested_key = 99, .device.cuda = 3};
	assert_int_equal(
		api->mr_regattr(&domain, &told.attr, FI_MR_DMABUF, &mr),
		-FI_ENOSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_is_written_where_there_is_room),
		cmocka_unit_test(memory_is_told_without_what_is_behind),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
