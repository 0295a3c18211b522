/* SPDX-License-Identifier: Apache-2.0 */
/* test_remote.c - what a peer may tell about itself */
#include "te/region/description.h"

#include <errno.h>
#include <stdlib.h>

#include "te/core/control.pb-c.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

/* Three regions behind one rail, not in order. */
struct fixture {
	Te__Rail rail, *rails[1];
	uint64_t id[3], addr[3], length[3];
	uint32_t access[3];
	char *location[3];
	uint64_t near[3];
	ProtobufCBinaryData key[3];
	uint8_t bytes[3][8];
	Te__Description d;
};

static void make(struct fixture *f)
{
	static char cpu[] = "cpu:0", tcp[] = "tcp";
	static const uint64_t addr[] = {0x9000, 0x1000, 0x5000};

	te__rail__init(&f->rail);
	f->rail.backend = tcp;
	f->rails[0] = &f->rail;
	te__description__init(&f->d);
	for (unsigned int i = 0; i < 3; i++) {
		f->id[i] = i + 1;
		f->addr[i] = addr[i];
		f->length[i] = 0x1000;
		f->access[i] = 3;
		f->location[i] = cpu;
		f->near[i] = i;
		f->bytes[i][0] = (uint8_t)(10 + i);
		f->key[i] = (ProtobufCBinaryData){8, f->bytes[i]};
	}
	f->d.n_rails = 1;
	f->d.rails = f->rails;
	f->d.n_id = f->d.n_addr = f->d.n_length = f->d.n_access =
		f->d.n_location = f->d.n_key = 3;
	f->d.id = f->id;
	f->d.addr = f->addr;
	f->d.length = f->length;
	f->d.access = f->access;
	f->d.location = f->location;
	f->d.near = f->near;
	f->d.key = f->key;
}

static void range_is_found_only_within_one_region(void **state)
{
	const struct tei_remote_region *region;
	struct tei_remote *remote;
	struct fixture f;

	(void)state;
	make(&f);
	assert_int_equal(tei_remote_make(&f.d, &remote), 0);
	region = tei_remote_find(remote, 0x5000, 0x1000);
	assert_non_null(region);
	assert_int_equal(region->id, 3);
	assert_int_equal(region->key[0].bytes[0], 12);
	assert_non_null(tei_remote_find(remote, 0x5fff, 1));
	assert_null(tei_remote_find(remote, 0x6000, 1));
	assert_null(tei_remote_find(remote, 0x5001, 0x1000));
	assert_null(tei_remote_find(remote, 0x4fff, 1));
	assert_null(tei_remote_find(remote, 0, 1));
	assert_null(tei_remote_find(remote, UINT64_MAX, 1));
	assert_null(tei_remote_find(remote, 0x9000, UINT64_MAX));
	tei_remote_put(remote);
}

static void rails_near_a_region_may_be_told(void **state)
{
	struct tei_remote *remote;
	struct fixture f;

	(void)state;
	make(&f);
	assert_int_equal(tei_remote_make(&f.d, &remote), 0);
	assert_int_equal(tei_remote_find(remote, 0x5000, 1)->near, 0);
	tei_remote_put(remote);
	f.d.n_near = 3;
	assert_int_equal(tei_remote_make(&f.d, &remote), 0);
	assert_int_equal(tei_remote_find(remote, 0x5000, 1)->near, 2);
	assert_int_equal(tei_remote_find(remote, 0x1000, 1)->near, 1);
	tei_remote_put(remote);
}

static void empty_description_has_nothing_to_find(void **state)
{
	Te__Description d = TE__DESCRIPTION__INIT;
	struct tei_remote *remote;

	(void)state;
	assert_int_equal(tei_remote_make(&d, &remote), 0);
	assert_null(tei_remote_find(remote, 0, 1));
	tei_remote_put(remote);
}

static void refused(struct fixture *f)
{
	struct tei_remote *remote;

	assert_int_equal(tei_remote_make(&f->d, &remote), -EPROTO);
	make(f);
}

static void columns_that_do_not_fit_are_refused(void **state)
{
	struct fixture f;

	(void)state;
	make(&f);
	f.d.n_addr = 2;
	refused(&f);
	f.d.n_length = 2;
	refused(&f);
	f.d.n_access = 0;
	refused(&f);
	f.d.n_location = 1;
	refused(&f);
	f.d.n_near = 2;
	refused(&f);
	f.d.n_near = 4;
	refused(&f);
	f.d.n_key = 2;
	refused(&f);
	f.d.n_rails = 0;
	refused(&f);
}

static void impossible_regions_are_refused(void **state)
{
	struct fixture f;

	(void)state;
	make(&f);
	f.length[1] = 0;
	refused(&f);
	f.length[1] = 0x4001; /* into the next one */
	refused(&f);
	f.addr[0] = UINT64_MAX - 10; /* wraps around */
	refused(&f);
	f.addr[0] = f.addr[1];
	refused(&f);
	f.key[2].len = TEI_KEY_MAX + 1;
	refused(&f);
}

static void other_ways_must_be_addresses(void **state)
{
	uint8_t bytes[17] = {127, 0, 0, 1};
	ProtobufCBinaryData ways[TEI_REMOTE_CONTROL_MAX + 1];
	struct tei_remote *remote;
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ways); i++)
		ways[i] = (ProtobufCBinaryData){i % 2 ? 4 : 16, bytes};
	make(&f);
	f.d.control = ways;
	f.d.n_control = TEST_COUNT(ways);
	f.d.control_port = 65536;
	refused(&f);
	f.d.control = ways;
	f.d.n_control = TEST_COUNT(ways);
	refused(&f); /* no port */
	f.d.control = ways;
	f.d.n_control = TEST_COUNT(ways);
	f.d.control_port = 7;
	ways[3].len = 17;
	refused(&f);
	f.d.control = ways;
	f.d.n_control = TEST_COUNT(ways);
	f.d.control_port = 7;
	ways[3].len = 4;
	assert_int_equal(tei_remote_make(&f.d, &remote), 0);
	assert_int_equal(remote->n_control, TEI_REMOTE_CONTROL_MAX);
	assert_int_equal(tei_address_port(&remote->control[7]), 7);
	tei_remote_put(remote);
}

static void lack_of_memory_is_said(void **state)
{
	struct tei_remote *remote;
	struct fixture f;
	int rc;

	(void)state;
	make(&f);
	for (struct test_faults t = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&t);) {
		rc = tei_remote_make(&f.d, &remote);
		if (tei_fault_struck(TEI_FAULT_ALLOC))
			assert_int_equal(rc, -ENOMEM);
		else
			tei_remote_put(remote);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range_is_found_only_within_one_region),
		cmocka_unit_test(rails_near_a_region_may_be_told),
		cmocka_unit_test(empty_description_has_nothing_to_find),
		cmocka_unit_test(columns_that_do_not_fit_are_refused),
		cmocka_unit_test(impossible_regions_are_refused),
		cmocka_unit_test(other_ways_must_be_addresses),
		cmocka_unit_test(lack_of_memory_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
