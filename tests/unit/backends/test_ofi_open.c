/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_open.c - nothing stays open, whatever fails and however often */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/lib/self.h"
#include "tests/unit/backends/ofi_rig.h"

#define LENGTH 4096

static void be_quiet(int level, const char *text, void *arg)
{
	(void)level;
	(void)text;
	(void)arg;
}

static int set_up(void **state)
{
	(void)state;
	tei_log_set_sink(be_quiet, NULL);
	ofi_rig_start();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ofi_rig_stop();
	tei_log_set_sink(NULL, NULL);
	return 0;
}

/* ---- calls that fail ---- */

/* What follows the opening may fail as well; the slices end once. */
static void carry_some(void)
{
	struct fake_slice *s[4];

	for (size_t i = 0; i < TEST_COUNT(s); i++) {
		s[i] = ofi_rig_slice(i % 2 ? TEI_READ : TEI_WRITE, i * LENGTH,
				     LENGTH);
		if (fake_post(&rig.pair, s[i])) {
			s[i]->n_done = 1; /* was not taken */
			s[i]->err = -EIO;
		}
	}
	for (size_t i = 0; i < TEST_COUNT(s); i++) {
		while (!s[i]->n_done && !rig.pair.initiator_link.n_down)
			fake_progress(&rig.pair);
	}
	if (!rig.pair.initiator_link.n_down) {
		ofi_rig_count_good(s, TEST_COUNT(s));
		return;
	}
	fake_pair_disconnect(&rig.pair);
	ofi_rig_count_good(s, TEST_COUNT(s));
}

/* Opens, carries and closes all; whether the fault has struck meanwhile. */
static bool try_once(int *rc)
{
	bool struck;

	*rc = ofi_rig_open(NULL);
	struck = tei_fault_struck(TEI_FAULT_ALLOC) ||
		 tei_fault_struck(TEI_FAULT_SOCKET);
	tei_fault_disarm_all(); /* slices of tests are allocated, too */
	if (!*rc)
		carry_some();
	struck |= fake_ofi_struck();
	fake_ofi_fail(FAKE_OFI_ANY, 0, 0);
	if (!*rc)
		ofi_rig_close();
	assert_int_equal(fake_ofi_open(), 0);
	return struck;
}

/* Nothing can be had again of a queue or an endpoint after these. */
static bool is_final(int call)
{
	return call == FAKE_OFI_EQ_READ || call == FAKE_OFI_CQ_READ ||
	       call == FAKE_OFI_CLOSE;
}

static void each_call_may_fail(void **state)
{
	static const int errors[] = {FI_ENOMEM, FI_EIO, FI_EMFILE, FI_ENOSYS,
				     FI_EOTHER};
	unsigned int fds = test_fds_open(), n_failed = 0;

	(void)state;
	for (int call = FAKE_OFI_ANY + 1; call < FAKE_OFI_CALLS; call++) {
		bool struck = !is_final(call);

		for (unsigned int n = 1; struck; n++) {
			int rc;

			fake_ofi_fail((enum fake_ofi_call)call, n,
				      errors[n % TEST_COUNT(errors)]);
			struck = try_once(&rc);
			n_failed += rc != 0;
			if (!struck)
				assert_int_equal(rc, 0);
			assert_int_equal(test_fds_open(), fds);
		}
	}
	assert_true(n_failed > 10);
}

static void each_allocation_may_fail(void **state)
{
	unsigned int fds = test_fds_open();
	bool struck = true;
	int rc;

	(void)state;
	for (unsigned int n = 1; struck; n++) {
		tei_fault_arm(TEI_FAULT_ALLOC, n);
		struck = try_once(&rc);
		assert_int_equal(test_fds_open(), fds);
	}
	assert_int_equal(rc, 0);
}

static void each_descriptor_may_be_missing(void **state)
{
	unsigned int fds = test_fds_open();
	bool struck = true;
	int rc;

	(void)state;
	for (unsigned int n = 1; struck; n++) {
		tei_fault_arm(TEI_FAULT_SOCKET, n);
		struck = try_once(&rc);
		assert_int_equal(test_fds_open(), fds);
	}
	assert_int_equal(rc, 0);
}

/* ---- often ---- */

static void a_thousand_connections_leave_nothing(void **state)
{
	unsigned int open, fds;

	(void)state;
	assert_int_equal(ofi_rig_open(NULL), 0);
	open = fake_ofi_open();
	fds = test_fds_open();
	for (int i = 0; i < 1000; i++) {
		struct fake_slice *s = ofi_rig_slice(TEI_WRITE, 0, 64);

		ofi_rig_carry(s);
		assert_int_equal(s->err, 0);
		fake_slice_destroy(s);
		if (i % 3 == 1)
			fake_ofi_reset_all();
		if (i % 3 == 2 &&
		    tei_backend_ofi.drop(rig.pair.target) == -EINPROGRESS)
			ofi_rig_wait(&rig.pair.target_link.n_down, 1);
		ofi_rig_rejoin();
		assert_int_equal(fake_ofi_open(), open);
	}
	assert_int_equal(test_fds_open(), fds);
	ofi_rig_close();
	assert_int_equal(fake_ofi_open(), 0);
}

#define TOGETHER 500

static void ten_thousand_regions_leave_nothing(void **state)
{
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	uint8_t key[TEI_BLOB_MAX];
	struct tei_rail *rail;
	unsigned int keys;

	(void)state;
	assert_int_equal(ofi_rig_open(NULL), 0);
	rail = rig.pair.b.rail;
	keys = fake_ofi_counts().keys;
	for (uint64_t i = 0; i < 10000 / TOGETHER; i++) {
		for (uint64_t k = 0; k < TOGETHER; k++) {
			size_t len = sizeof(key);

			assert_int_equal(ops->region_add(rail, 100 + k,
							 rig.near + k * 64, 64,
							 RIG_RW, key, &len),
					 0);
		}
		/* Where keys are bound: one of the region, one of the peer. */
		assert_int_equal(fake_ofi_counts().keys,
				 keys + (rig.shape == FAKE_OFI_CXI ? 2u : 1u) *
						 TOGETHER);
		for (uint64_t k = 0; k < TOGETHER; k++) {
			while (ops->region_hide(rail, 100 + k))
				(void)fake_turn(rail);
			ops->region_remove(rail, 100 + k);
		}
		assert_int_equal(fake_ofi_counts().keys, keys);
	}
	ofi_rig_close();
	assert_int_equal(fake_ofi_open(), 0);
}

static void regions_outlast_keys_in_use_and_want_of_memory(void **state)
{
	const struct fake_ofi_chances c = {
		.seed = 8, .no_key = 300000, .no_memory = 100000};
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	uint8_t key[TEI_KEY_MAX];
	unsigned int keys, n_good = 0, n_bad = 0;
	static const char *const chunks[] = {"ofi.chunk=262144", NULL};

	(void)state;
	assert_int_equal(ofi_rig_open(chunks), 0);
	keys = fake_ofi_counts().keys;
	fake_ofi_set_chances(&c);
	for (uint64_t i = 0; i < 2000; i++) {
		struct tei_rail *rail = rig.pair.b.rail;
		size_t len = sizeof(key);
		int rc = ops->region_add(rail, 50, rig.near, 3 * 262144, RIG_RW,
					 key, &len);

		n_good += !rc;
		n_bad += rc != 0;
		if (rc) {
			assert_true(rc == -ENOMEM || rc == -ENOBUFS);
			assert_int_equal(fake_ofi_counts().keys, keys);
			continue;
		}
		while (ops->region_hide(rail, 50))
			(void)fake_turn(rail);
		ops->region_remove(rail, 50);
	}
	fake_ofi_set_chances(NULL);
	/* Some are registered in part, where a part is what is refused. */
	assert_true(n_good > 500 && n_bad > 10);
	ofi_rig_close();
	assert_int_equal(fake_ofi_open(), 0);
}

/* Only efa's provider does, and not while it uses shared memory by itself. */
static void memory_of_gpus_is_asked_for_where_that_is_safe(void **state)
{
	static const char variable[] = "FI_EFA_ENABLE_SHM_TRANSFER";
	bool efa = rig.shape == FAKE_OFI_EFA;

	(void)state;
	assert_int_equal(unsetenv(variable), 0);
	assert_int_equal(ofi_rig_open(NULL), 0);
	assert_false(ofi_rail(rig.pair.a.rail)->nic.gpus);
	ofi_rig_close();
	assert_int_equal(setenv(variable, "0", 1), 0);
	assert_int_equal(ofi_rig_open(NULL), 0);
	assert_int_equal(ofi_rail(rig.pair.a.rail)->nic.gpus, efa);
	/* Asked for less, efa knows no dma-bufs. */
	assert_true(
		ofi_rail(rig.pair.a.rail)->nic.info->fabric_attr->api_version >=
		OFI_VERSION_DMABUF);
	ofi_rig_close();
	/* Libraries before 1.20 know nothing of dma-bufs. */
	fake_ofi_be_version(FI_VERSION(1, 19));
	assert_int_equal(ofi_rig_open(NULL), 0);
	assert_false(ofi_rail(rig.pair.a.rail)->nic.gpus);
	ofi_rig_close();
	fake_ofi_be_version(FI_VERSION(2, 1));
	/* A provider without it still has a domain. */
	fake_ofi_info(0)->caps &= ~(uint64_t)FI_HMEM;
	fake_ofi_info(1)->caps &= ~(uint64_t)FI_HMEM;
	assert_int_equal(ofi_rig_open(NULL), 0);
	assert_false(ofi_rail(rig.pair.a.rail)->nic.gpus);
	ofi_rig_close();
	assert_int_equal(unsetenv(variable), 0);
}

static int add_gpu_memory(const struct tei_gpu_memory *memory)
{
	uint8_t key[TEI_BLOB_MAX];
	size_t len = sizeof(key);
	int rc;

	fake_gpu_memory = memory;
	/* Which asks the fake core, whatever it is. */
	rig.pair.b.rail->core = (void *)&fake_gpu_memory;
	rc = tei_backend_ofi.region_add(rig.pair.b.rail, 50,
					(void *)(uintptr_t)memory->addr,
					memory->length, RIG_RW, key, &len);
	if (!rc) {
		assert_int_equal(
			tei_backend_ofi.region_hide(rig.pair.b.rail, 50), 0);
		tei_backend_ofi.region_remove(rig.pair.b.rail, 50);
	}
	rig.pair.b.rail->core = NULL;
	fake_gpu_memory = NULL;
	return rc;
}

/*
 * Where its devices have no way to a GPU, efa registers a dma-buf with none of
 * them and tells nobody: such memory has to go another way.
 */
static void gpu_that_no_device_reaches_is_left_to_another_way(void **state)
{
	static const char variable[] = "FI_EFA_ENABLE_SHM_TRANSFER";
	struct tei_gpu_memory memory = {.addr = 0x7000000000,
					.length = 2 * (uint64_t)LENGTH};
	unsigned int keys;

	(void)state;
	if (rig.shape != FAKE_OFI_EFA)
		return;
	assert_int_equal(setenv(variable, "0", 1), 0);
	assert_int_equal(ofi_rig_open(NULL), 0);
	memory.fd = memfd_create("gpu", MFD_CLOEXEC);
	assert_int_equal(ftruncate(memory.fd, 2 * LENGTH), 0);
	keys = fake_ofi_counts().keys;
	assert_int_equal(add_gpu_memory(&memory), 0);
	fake_ofi_keep_dmabufs(true);
	assert_int_equal(add_gpu_memory(&memory), -EOPNOTSUPP);
	fake_ofi_keep_dmabufs(false);
	assert_int_equal(fake_ofi_counts().keys, keys);
	close(memory.fd);
	ofi_rig_close();
	assert_int_equal(unsetenv(variable), 0);
}

static int count_found(const struct tei_device *device, void *arg)
{
	(void)device;
	++*(unsigned int *)arg;
	return 0;
}

static unsigned int count_rails(void)
{
	struct ofi_config config = ofi_rig_config();
	unsigned int n = 0;
	const struct tei_search search = {
		.config = &config, .found = count_found, .arg = &n};

	assert_int_equal(tei_backend_ofi.probe(&search), 0);
	return n;
}

/* The rank of b's rail for a's. */
static int match_rails(void)
{
	uint8_t blob[TEI_BLOB_MAX];
	size_t len = sizeof(blob);

	assert_int_equal(
		tei_backend_ofi.rail_describe(rig.pair.b.rail, blob, &len), 0);
	return tei_backend_ofi.rail_match(rig.pair.a.rail, NULL, blob, len);
}

/*
 * From libfabric 2.1 on a device that reads and writes by itself has two
 * fabrics, which do not reach each other; others have the older one.
 */
static void all_hosts_take_the_same_fabric(void **state)
{
	(void)state;
	if (rig.shape != FAKE_OFI_EFA)
		return;
	fake_ofi_tell_bare(1, false);
	assert_int_equal(count_rails(), 2);
	assert_int_equal(ofi_rig_open(NULL), 0);
	assert_string_equal(ofi_rail(rig.pair.a.rail)->nic.self.fabric, "efa");
	assert_string_equal(ofi_rail(rig.pair.b.rail)->nic.self.fabric, "efa");
	assert_int_equal(match_rails(), 2);
	carry_some();
	ofi_rig_close();
	assert_int_equal(fake_ofi_open(), 0);
}

static void fabric_that_a_device_has_alone_is_taken(void **state)
{
	struct fake_slice *s[4];

	(void)state;
	if (rig.shape != FAKE_OFI_EFA)
		return;
	fake_ofi_tell_bare(0, true);
	fake_ofi_tell_bare(1, true);
	assert_int_equal(count_rails(), 2);
	assert_int_equal(ofi_rig_open(NULL), 0);
	assert_string_equal(ofi_rail(rig.pair.a.rail)->nic.self.fabric,
			    "efa-direct");
	assert_int_equal(match_rails(), 2);
	carry_some();
	/* Closing an endpoint of it waits for nothing. */
	fake_ofi_hang(0, true);
	ofi_rig_post(s, TEST_COUNT(s), TEI_WRITE, LENGTH);
	assert_int_equal(tei_backend_ofi.flush(rig.pair.initiator, -ETIMEDOUT),
			 0);
	assert_int_equal(ofi_rig_count_good(s, TEST_COUNT(s)), 0);
	fake_ofi_hang(0, false);
	assert_int_equal(fake_ofi_counts().waited, 0);
	ofi_rig_rejoin();
	ofi_rig_close();
	assert_int_equal(fake_ofi_open(), 0);
}

/* The device may have room for less than the settings ask for. */
static void fewer_completions_are_taken_where_there_are_no_more(void **state)
{
	static const size_t rooms[] = {32767, 1000, 128};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rooms); i++) {
		for (unsigned int d = 0; d < 2; d++)
			fake_ofi_limits(d)->completions = rooms[i];
		assert_int_equal(ofi_rig_open(NULL), 0);
		assert_true(ofi_rail(rig.pair.a.rail)->room <= rooms[i]);
		carry_some();
		ofi_rig_close();
	}
	for (unsigned int d = 0; d < 2; d++)
		fake_ofi_limits(d)->completions = 1;
	assert_int_equal(ofi_rig_open(NULL), -ENODEV);
}

#define TURNS 100

/* What does not come back of a closed endpoint is not kept for ever. */
static void closed_endpoints_leave_no_windows(void **state)
{
	struct ofi_rail *rail;
	uint32_t room;

	(void)state;
	assert_int_equal(ofi_rig_open(NULL), 0);
	rail = ofi_rail(rig.pair.a.rail);
	room = rail->room;
	for (int i = 0; i < TURNS; i++) {
		struct fake_slice *s[4];

		fake_ofi_silence(1, true);
		ofi_rig_post(s, 4, TEI_WRITE, LENGTH);
		fake_progress(&rig.pair);
		fake_ofi_lose(1, 500);
		fake_flush(rig.pair.initiator, -ETIMEDOUT);
		assert_int_equal(ofi_rig_count_good(s, 4), 0);
		fake_ofi_silence(1, false);
		ofi_rig_rejoin();
		fake_progress(&rig.pair);
		assert_true(tei_list_empty(&rail->lost));
		assert_int_equal(rail->room, room);
	}
	ofi_rig_close();
}

static void device_that_takes_no_memory_says_so(void **state)
{
	const struct tei_backend_ops *ops = &tei_backend_ofi;
	static const int errors[] = {FI_ENOMEM, FI_ENOSPC, FI_EINVAL, FI_EIO};
	uint8_t key[TEI_BLOB_MAX];

	(void)state;
	assert_int_equal(ofi_rig_open(NULL), 0);
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		size_t len = sizeof(key);

		fake_ofi_refuse_memory(1, errors[i]);
		assert_true(ops->region_add(rig.pair.b.rail, 50, rig.near,
					    LENGTH, RIG_RW, key, &len) < 0);
	}
	fake_ofi_refuse_memory(1, 0);
	ofi_rig_close();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_call_may_fail),
		TEST(each_allocation_may_fail),
		TEST(each_descriptor_may_be_missing),
		TEST(a_thousand_connections_leave_nothing),
		TEST(ten_thousand_regions_leave_nothing),
		TEST(regions_outlast_keys_in_use_and_want_of_memory),
		TEST(memory_of_gpus_is_asked_for_where_that_is_safe),
		TEST(gpu_that_no_device_reaches_is_left_to_another_way),
		TEST(all_hosts_take_the_same_fabric),
		TEST(fabric_that_a_device_has_alone_is_taken),
		TEST(fewer_completions_are_taken_where_there_are_no_more),
		TEST(closed_endpoints_leave_no_windows),
		TEST(device_that_takes_no_memory_says_so),
	};

	return ofi_rig_run("open", tests, TEST_COUNT(tests));
}
