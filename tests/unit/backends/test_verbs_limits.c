/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_limits.c - wishes, what devices allow, what two sides agree on */
#include <string.h>

#include "backends/verbs/limits.h"
#include "backends/verbs/verbs.h"
#include "tests/lib/test.h"

static const struct verbs_wish wish = {.lanes = 2,
				       .depth = 256,
				       .mtu = 4096,
				       .reads = 16,
				       .inline_max = 64,
				       .sge = 4};

/* Of a big device, with a good port; a test changes what it is about. */
static struct ibv_device_attr device;
static struct ibv_port_attr port;
/* What came of it. */
static struct verbs_offer o;
static struct verbs_room r;
static const char *why;

static int set_up(void **state)
{
	(void)state;
	device = (struct ibv_device_attr){.max_qp = 1000,
					  .max_qp_wr = 16384,
					  .max_cqe = 65536,
					  .max_sge = 30,
					  .max_sge_rd = 30,
					  .max_mr = 1000,
					  .max_qp_rd_atom = 16,
					  .max_qp_init_rd_atom = 16};
	port = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE,
				      .active_mtu = IBV_MTU_4096,
				      .max_msg_sz = 1u << 31};
	return 0;
}

static bool offer(const struct verbs_wish *wishes)
{
	return tei_verbs_offer(wishes, &device, &port, &o, &r, &why);
}

static void wishes_that_fit_are_granted(void **state)
{
	(void)state;
	assert_true(offer(&wish));
	assert_null(why);
	assert_int_equal(o.lanes, 2);
	assert_int_equal(o.depth, 256);
	assert_int_equal(o.mtu, 4096);
	assert_int_equal(o.reads_out, 16);
	assert_int_equal(o.reads_in, 16);
	assert_int_equal(r.inline_max, 64);
	assert_int_equal(r.sge, 4);
	assert_int_equal(r.sge_read, 4);
	assert_int_equal(r.message, 1u << 31);
	assert_null(tei_verbs_offer_fault(&o));
}

static void small_devices_clamp_every_wish(void **state)
{
	(void)state;
	device.max_qp = 1;
	device.max_qp_wr = 100;
	device.max_cqe = 90;
	device.max_sge = 3;
	device.max_sge_rd = 1;
	device.max_qp_rd_atom = 4;
	device.max_qp_init_rd_atom = 2;
	port.active_mtu = IBV_MTU_1024;
	port.max_msg_sz = 65536;
	assert_true(offer(&wish));
	assert_int_equal(o.lanes, 1);
	assert_int_equal(o.depth, 64); /* the power of two below 90 */
	assert_int_equal(o.mtu, 1024);
	assert_int_equal(o.reads_out, 2);
	assert_int_equal(o.reads_in, 4);
	assert_int_equal(r.sge, 3);
	assert_int_equal(r.sge_read, 1);
	assert_int_equal(r.message, 65536);
}

static void some_devices_say_little_of_reads(void **state)
{
	(void)state;
	device.max_sge_rd = 0;
	assert_true(offer(&wish));
	assert_int_equal(r.sge_read, 4);
	device.max_qp_rd_atom = -1; /* a device that cannot read at all */
	assert_true(offer(&wish));
	assert_int_equal(o.reads_in, 0);
}

static void excessive_wishes_stay_within_bounds(void **state)
{
	static const struct verbs_wish all = {UINT32_MAX, UINT32_MAX,
					      UINT32_MAX, UINT32_MAX,
					      UINT32_MAX, UINT32_MAX};

	(void)state;
	device.max_qp_wr = device.max_cqe = device.max_sge = device.max_qp =
		device.max_qp_rd_atom = device.max_qp_init_rd_atom =
			device.max_sge_rd = INT32_MAX;
	assert_true(offer(&all));
	assert_null(tei_verbs_offer_fault(&o));
	assert_int_equal(o.lanes, VERBS_LANES_MAX);
	assert_int_equal(o.depth, VERBS_DEPTH_MAX);
	assert_int_equal(o.reads_out, VERBS_READS_MAX);
	assert_int_equal(r.sge, VERBS_SGE_MAX);
}

static void ports_that_are_no_use_are_named_so(void **state)
{
	(void)state;
	port.state = IBV_PORT_DOWN;
	assert_false(offer(&wish));
	assert_string_equal(why, "the port is not active");
	port.state = IBV_PORT_ACTIVE;
	port.active_mtu = 0;
	assert_false(offer(&wish));
	port.active_mtu = 99;
	assert_false(offer(&wish));
	assert_string_equal(why, "the port names no MTU");
}

static void useless_devices_are_named_so(void **state)
{
	(void)state;
	device.max_sge = 0;
	assert_false(offer(&wish));
	assert_string_equal(why, "the device takes no memory");
	device.max_qp_wr = 0;
	assert_false(offer(&wish));
	assert_string_equal(why, "the device has no queue pairs");
}

static void both_sides_reckon_the_same(void **state)
{
	const struct verbs_offer a = {2, 256, 4096, 16, 16};
	const struct verbs_offer b = {8, 64, 1024, 1, 4};
	struct verbs_offer ab, ba;

	(void)state;
	tei_verbs_agree(&a, &b, &ab);
	tei_verbs_agree(&b, &a, &ba);
	assert_int_equal(ab.lanes, 2);
	assert_int_equal(ab.depth, 64);
	assert_int_equal(ab.mtu, 1024);
	assert_int_equal(ab.reads_out, 4);
	assert_int_equal(ab.reads_in, 1);
	assert_int_equal(ba.lanes, ab.lanes);
	assert_int_equal(ba.depth, ab.depth);
	assert_int_equal(ba.mtu, ab.mtu);
	assert_int_equal(ba.reads_out, ab.reads_in);
	assert_int_equal(ba.reads_in, ab.reads_out);
}

static void nonsense_is_no_offer(void **state)
{
	static const struct verbs_offer bad[] = {
		{0, 256, 4096, 16, 16},   {9, 256, 4096, 16, 16},
		{2, 0, 4096, 16, 16},     {2, 100, 4096, 16, 16},
		{2, 65536, 4096, 16, 16}, {2, 256, 0, 16, 16},
		{2, 256, 128, 16, 16},    {2, 256, 1500, 16, 16},
		{2, 256, 8192, 16, 16},   {2, 256, 4096, 129, 16},
		{2, 256, 4096, 16, 129},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		if (!tei_verbs_offer_fault(&bad[i]))
			fail_msg("row %zu passes", i);
	}
}

static void mtus_are_powers_of_two(void **state)
{
	(void)state;
	assert_int_equal(tei_verbs_mtu_bytes(IBV_MTU_256), 256);
	assert_int_equal(tei_verbs_mtu_bytes(IBV_MTU_4096), 4096);
	assert_int_equal(tei_verbs_mtu_bytes(0), 0);
	assert_int_equal(tei_verbs_mtu_bytes(6), 0);
	assert_int_equal(tei_verbs_mtu_of(0), IBV_MTU_256);
	assert_int_equal(tei_verbs_mtu_of(1500), IBV_MTU_1024);
	assert_int_equal(tei_verbs_mtu_of(9000), IBV_MTU_4096);
}

/* ---- causes ---- */

static void every_status_has_a_cause(void **state)
{
	(void)state;
	for (int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++) {
		const struct verbs_cause *c =
			tei_verbs_cause((enum ibv_wc_status)i);

		assert_non_null(c->text);
		assert_string_not_equal(c->text, "unknown status");
		if (i == IBV_WC_SUCCESS)
			assert_int_equal(c->slice, 0);
		else
			assert_true(c->slice < 0 && c->endpoint < 0);
	}
	assert_string_equal(tei_verbs_cause(99)->text, "unknown status");
	assert_string_equal(tei_verbs_cause((enum ibv_wc_status) - 1)->text,
			    "unknown status");
}

static void faults_are_laid_at_the_right_door(void **state)
{
	static const struct {
		enum ibv_wc_status status;
		const char *fault;
	} rows[] = {
		{IBV_WC_WR_FLUSH_ERR, "none"},
		{IBV_WC_REM_ACCESS_ERR, "request"},
		{IBV_WC_LOC_PROT_ERR, "request"},
		{IBV_WC_LOC_LEN_ERR, "request"},
		{IBV_WC_RETRY_EXC_ERR, "path"},
		{IBV_WC_RESP_TIMEOUT_ERR, "path"},
		{IBV_WC_REM_OP_ERR, "peer"},
		{IBV_WC_RNR_RETRY_EXC_ERR, "peer"},
		{IBV_WC_LOC_QP_OP_ERR, "device"},
		{IBV_WC_FATAL_ERR, "device"},
		{IBV_WC_GENERAL_ERR, "device"},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rows); i++)
		assert_string_equal(
			tei_verbs_fault_name(
				tei_verbs_cause(rows[i].status)->fault),
			rows[i].fault);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wishes_that_fit_are_granted),
		TEST(small_devices_clamp_every_wish),
		TEST(some_devices_say_little_of_reads),
		TEST(excessive_wishes_stay_within_bounds),
		TEST(ports_that_are_no_use_are_named_so),
		TEST(useless_devices_are_named_so),
		cmocka_unit_test(both_sides_reckon_the_same),
		cmocka_unit_test(nonsense_is_no_offer),
		cmocka_unit_test(mtus_are_powers_of_two),
		cmocka_unit_test(every_status_has_a_cause),
		cmocka_unit_test(faults_are_laid_at_the_right_door),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
