/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ofi_real.c - connections and regions of libfabric's provider tcp come and
 * go on this host, and nothing of them stays: neither fids nor descriptors
 *
 * Skipped where there is no libfabric with that provider.
 */
#include <errno.h>
#include <string.h>

#include "backends/ofi/ofi.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/module.h"
#include "tests/lib/self.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/fake_core.h"

#include <te/te.h>

#define LEN    ((size_t)64 << 10)
#define FAR_ID 1
#define RW     (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

extern const struct tei_backend_ops tei_backend_ofi;

static const struct ofi_provider *real;
static struct ofi_provider counting; /* the same, which counts fids */
static unsigned int n_fids;

static int count(int rc)
{
	n_fids += !rc;
	return rc;
}

static int fabric(struct fi_fabric_attr *attr, struct fid_fabric **out,
		  void *context)
{
	return count(real->fabric(attr, out, context));
}

static int domain(struct fid_fabric *of, struct fi_info *info,
		  struct fid_domain **out, void *context)
{
	return count(real->domain(of, info, out, context));
}

static int eq_open(struct fid_fabric *of, struct fi_eq_attr *attr,
		   struct fid_eq **out, void *context)
{
	return count(real->eq_open(of, attr, out, context));
}

static int cq_open(struct fid_domain *of, struct fi_cq_attr *attr,
		   struct fid_cq **out, void *context)
{
	return count(real->cq_open(of, attr, out, context));
}

static int mr_regattr(struct fid_domain *of, const struct fi_mr_attr *attr,
		      uint64_t flags, struct fid_mr **out)
{
	return count(real->mr_regattr(of, attr, flags, out));
}

static int passive_ep(struct fid_fabric *of, struct fi_info *info,
		      struct fid_pep **out, void *context)
{
	return count(real->passive_ep(of, info, out, context));
}

static int endpoint(struct fid_domain *of, struct fi_info *info,
		    struct fid_ep **out, void *context)
{
	return count(real->endpoint(of, info, out, context));
}

static int close_fid(struct fid *fid)
{
	int rc = real->close(fid);

	n_fids -= !rc;
	return rc;
}

static struct fake_pair pair;
static uint8_t near[LEN], far[LEN], key[TEI_BLOB_MAX];
static size_t key_len;

static int load(void **state)
{
	char why[TEI_MODULE_ERROR_LEN];

	(void)state;
	real = tei_module_load(NULL, "te_ofi", "tei_ofi_provider",
			       OFI_PROVIDER_ABI, why);
	if (!real) {
		print_message("no libfabric: %s\n", why);
		return 0;
	}
	counting = *real;
	counting.fabric = fabric;
	counting.domain = domain;
	counting.eq_open = eq_open;
	counting.cq_open = cq_open;
	counting.mr_regattr = mr_regattr;
	counting.passive_ep = passive_ep;
	counting.endpoint = endpoint;
	counting.close = close_fid;
	tei_ofi_use(&counting);
	return 0;
}

static int open_rails(void)
{
	static const char *const settings[] = {"ofi.provider=tcp",
					       "ofi.devices=lo", NULL};
	int rc;

	pair = (struct fake_pair){.ops = &tei_backend_ofi};
	fake_device = "lo";
	rc = fake_rail_open(&pair.a, &tei_backend_ofi, settings);
	if (rc)
		return rc;
	rc = fake_rail_open(&pair.b, &tei_backend_ofi, settings);
	if (rc)
		fake_rail_close(&pair.a);
	return rc;
}

static void close_rails(void)
{
	fake_rail_close(&pair.b);
	fake_rail_close(&pair.a);
}

static int set_up(void **state)
{
	(void)state;
	if (real && open_rails())
		real = NULL; /* without the provider */
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (!real)
		return 0;
	close_rails();
	assert_int_equal(n_fids, 0);
	return 0;
}

static void remove_region(struct tei_rail *rail, uint64_t id)
{
	while (tei_backend_ofi.region_hide(rail, id))
		(void)fake_turn(rail);
	tei_backend_ofi.region_remove(rail, id);
}

/* The target hears later than the initiator that they are joined. */
static void join(void)
{
	assert_int_equal(fake_pair_connect(&pair), 0);
	assert_true(fake_wait(&pair, &pair.target_link.n_up, 1));
}

static void write_some(void)
{
	struct fake_slice *s =
		fake_slice_create(&pair, TEI_WRITE, 0, (uintptr_t)far, NULL, 0);

	memcpy(s->key, key, key_len);
	s->slice->key_len = (uint32_t)key_len;
	s->piece = (struct iovec){near, 64};
	s->slice->iov = &s->piece;
	s->slice->n_iov = 1;
	s->slice->length = 64;
	assert_int_equal(fake_post(&pair, s), 0);
	assert_true(fake_wait(&pair, &s->n_done, 1));
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

static void a_thousand_connections_leave_nothing(void **state)
{
	unsigned int fds, fids;

	(void)state;
	if (!real)
		skip();
	key_len = sizeof(key);
	assert_int_equal(tei_backend_ofi.region_add(pair.b.rail, FAR_ID, far,
						    LEN, RW, key, &key_len),
			 0);
	join(); /* the first of all makes what stays */
	fake_pair_disconnect(&pair);
	fake_progress(&pair);
	fds = test_fds_open();
	fids = n_fids;
	for (int i = 0; i < 1000; i++) {
		join();
		write_some();
		if (i % 2)
			assert_int_equal(tei_backend_ofi.drop(pair.target), 0);
		fake_pair_disconnect(&pair);
		assert_int_equal(n_fids, fids);
	}
	fake_progress(&pair);
	assert_int_equal(test_fds_open(), fds);
	remove_region(pair.b.rail, FAR_ID);
}

#define TOGETHER 500

static void ten_thousand_regions_leave_nothing(void **state)
{
	struct tei_rail *rail = pair.b.rail;
	unsigned int fds, fids = n_fids;

	(void)state;
	if (!real)
		skip();
	fds = test_fds_open();
	for (int round = 0; round < 10000 / TOGETHER; round++) {
		for (uint64_t i = 0; i < TOGETHER; i++) {
			key_len = sizeof(key);
			assert_int_equal(tei_backend_ofi.region_add(
						 rail, 100 + i, far + 64 * i,
						 64, RW, key, &key_len),
					 0);
		}
		assert_int_equal(n_fids, fids + TOGETHER);
		for (uint64_t i = 0; i < TOGETHER; i++)
			remove_region(rail, 100 + i);
		assert_int_equal(n_fids, fids);
	}
	assert_int_equal(test_fds_open(), fds);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_thousand_connections_leave_nothing),
		TEST(ten_thousand_regions_leave_nothing),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
