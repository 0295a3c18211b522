/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_rdma.c - what keeps RDMA from working is found, and named */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "patient.h"

#define PORT "sys/class/infiniband/mlx5_0/ports/1/"
#define ROUTES                                                            \
	"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n" \
	"ens2\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"

static void a_healthy_machine_has_nothing_to_mend(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	patient_look(&p);
	if (p.report.count[TEI_MARK_FAIL] || p.report.count[TEI_MARK_WARN] ||
	    p.report.count[TEI_MARK_UNKNOWN]) {
		(void)tei_report_text(&p.report, stderr);
		fail();
	}
	patient_has(&p, "rdma.devices", "", TEI_MARK_OK, "1 in");
	patient_has(&p, "rdma.node", "mlx5_0", TEI_MARK_OK, "uverbs0");
	patient_has(&p, "rdma.gid", "mlx5_0/1", TEI_MARK_OK,
		    "index 1: ::ffff:10.9.0.1 by ens1np0");
	patient_has(&p, "rdma.route", "mlx5_0/1", TEI_MARK_OK, "ens1np0");
	patient_has(&p, "rdma.mtu", "mlx5_0/1", TEI_MARK_OK, "4096 bytes");
	patient_has(&p, "rdma.errors", "mlx5_0/1", TEI_MARK_OK, "none");
	patient_close(&p);
}

static void a_device_of_iwarp_is_found(void **state)
{
	static const struct ailment list[] = {
		{"sys/class/infiniband/mlx5_0/node_type", "4: RNIC\n",
		 "rdma.transport", "mlx5_0", TEI_MARK_WARN, "4: RNIC"},
		{"sys/class/infiniband/mlx5_0/node_type", "1: CA\n",
		 "rdma.transport", "mlx5_0", TEI_MARK_OK, "1: CA"},
	};

	(void)state;
	patients_show("two-nics", list, TEST_COUNT(list));
}

static void libfabric_is_judged_by_whether_a_device_needs_it(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	p.probes = (struct tei_probes){.known = true,
				       .libfabric_why = "cannot open it"};
	patient_look(&p);
	patient_has(&p, "ofi.library", "", TEI_MARK_OK, "no device needs it");
	test_tree_write(p.dir, "sys/class/infiniband/mlx5_0/device/vendor",
			"0x1d0f\n");
	patient_look(&p);
	patient_has(&p, "ofi.library", "", TEI_MARK_FAIL, "cannot open it");
	p.probes.libfabric = 1u << 16 | 16;
	patient_look(&p);
	patient_has(&p, "ofi.library", "", TEI_MARK_FAIL, "libfabric 1.16");
	p.probes.libfabric = 2u << 16;
	(void)snprintf(p.probes.providers, sizeof(p.probes.providers),
		       "tcp efa-direct");
	patient_look(&p);
	patient_has(&p, "ofi.library", "", TEI_MARK_OK,
		    "libfabric 2.0, providers tcp efa-direct");
	patient_has(&p, "ofi.efa", "mlx5_0", TEI_MARK_WARN, "no provider efa");
	(void)snprintf(p.probes.providers, sizeof(p.probes.providers),
		       "tcp efa");
	patient_look(&p);
	patient_has(&p, "ofi.efa", "mlx5_0", TEI_MARK_OK, "the provider efa");
	patient_close(&p);
}

static void set_variable(struct patient *p, enum tei_variable which,
			 const char *value)
{
	(void)snprintf(p->probes.variables[which],
		       sizeof(p->probes.variables[which]), "%s", value);
}

/* One variable of libfabric, and what is found on a host of EFA with a GPU. */
struct setting {
	enum tei_variable which;
	const char *value, *object;
	enum tei_mark mark;
	const char *found;
};

#define SHM "FI_EFA_ENABLE_SHM_TRANSFER"

/* Each stays set for those after it. */
static void variables_that_decide_about_efa_are_judged(void **state)
{
	static const struct setting list[] = {
		{TEI_FI_PROVIDER, "", "FI_HMEM", TEI_MARK_WARN,
		 "not set: EFA takes memory of the first GPU"},
		{TEI_FI_PROVIDER, "tcp,EFA", "FI_PROVIDER", TEI_MARK_OK, "EFA"},
		{TEI_FI_PROVIDER, "tcp", "FI_PROVIDER", TEI_MARK_WARN,
		 "tcp: libfabric leaves efa out"},
		{TEI_FI_PROVIDER, "^efa", "FI_PROVIDER", TEI_MARK_WARN,
		 "leaves efa out"},
		{TEI_FI_PROVIDER, "^tcp", "FI_PROVIDER", TEI_MARK_OK, "^tcp"},
		{TEI_FI_EFA_USE_DEVICE_RDMA, "", "FI_EFA_USE_DEVICE_RDMA",
		 TEI_MARK_OK, "not set"},
		{TEI_FI_EFA_USE_DEVICE_RDMA, "0", "FI_EFA_USE_DEVICE_RDMA",
		 TEI_MARK_WARN, "0: processors carry the bytes"},
		{TEI_FI_HMEM, "system", "FI_HMEM", TEI_MARK_OK, "system"},
		{TEI_FI_HMEM, "system", SHM, TEI_MARK_WARN, "not set: memory"},
		{TEI_FI_EFA_ENABLE_SHM_TRANSFER, "1", SHM, TEI_MARK_WARN,
		 "1: memory of GPUs is staged"},
		{TEI_FI_EFA_ENABLE_SHM_TRANSFER, "0", SHM, TEI_MARK_OK, "0"},
		{TEI_FI_HMEM, "system", "FI_HMEM", TEI_MARK_WARN,
		 "system: memory of GPUs is staged"},
		{TEI_FI_HMEM, "system,cuda", "FI_HMEM", TEI_MARK_WARN,
		 "system,cuda: memory of GPUs is staged"}, /* by semicolons */
		{TEI_FI_HMEM, "system;CUDA", "FI_HMEM", TEI_MARK_OK, "CUDA"},
		{TEI_TE_OFI_PROVIDER, "efa,verbs", "FI_MR_CACHE_MAX_COUNT",
		 TEI_MARK_WARN, "engines refuse the provider verbs"},
		{TEI_FI_MR_CACHE_MAX_COUNT, "0", "FI_MR_CACHE_MAX_COUNT",
		 TEI_MARK_OK, "0"},
	};
	struct patient p;

	(void)state;
	patient_open(&p, "one-gpu");
	p.probes.libfabric = 1u << 16 | 20;
	test_tree_write(p.dir, "sys/class/infiniband/mlx5_0/device/vendor",
			"0x1d0f\n");
	for (size_t i = 0; i < TEST_COUNT(list); i++) {
		set_variable(&p, list[i].which, list[i].value);
		patient_look(&p);
		patient_has(&p, "ofi.variables", list[i].object, list[i].mark,
			    list[i].found);
	}
	patient_close(&p);
}

/* What is to be done about FI_HMEM, where it is not right. */
static const char *mend_of_hmem(struct patient *p)
{
	patient_look(p);
	for (size_t i = 0; i < p->report.n; i++) {
		if (!strcmp(p->report.findings[i].object, "FI_HMEM") &&
		    p->report.findings[i].mark == TEI_MARK_WARN)
			return p->report.findings[i].rule->mend;
	}
	return "";
}

static void one_thing_is_to_be_done_about_a_variable(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "one-gpu");
	p.probes.libfabric = 2u << 16 | 1;
	test_tree_write(p.dir, "sys/class/infiniband/mlx5_0/device/vendor",
			"0x1d0f\n");
	assert_non_null(strstr(mend_of_hmem(&p), "export FI_HMEM=system"));
	set_variable(&p, TEI_FI_EFA_ENABLE_SHM_TRANSFER, "0");
	assert_string_equal(mend_of_hmem(&p), "");
	set_variable(&p, TEI_FI_HMEM, "system");
	assert_non_null(strstr(mend_of_hmem(&p), "unset FI_HMEM"));
	/* Before 1.20 memory of GPUs is staged, whatever is set. */
	p.probes.libfabric = 1u << 16 | 19;
	assert_string_equal(mend_of_hmem(&p), "");
	for (size_t i = 0; i < p.report.n; i++)
		assert_string_not_equal(p.report.findings[i].object, SHM);
	set_variable(&p, TEI_FI_HMEM, "");
	assert_non_null(strstr(mend_of_hmem(&p), "export FI_HMEM=system"));
	patient_close(&p);
}

static void slingshot_needs_its_provider_and_a_variable(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	test_tree_write(p.dir, "sys/class/cxi/cxi0/uevent", "\n");
	p.probes = (struct tei_probes){.known = true,
				       .libfabric_why = "cannot open it"};
	patient_look(&p);
	patient_has(&p, "ofi.library", "", TEI_MARK_FAIL, "cannot open it");
	patient_has(&p, "ofi.cxi", "cxi0", TEI_MARK_UNKNOWN, "nothing");
	p.probes.libfabric = 1u << 16 | 22;
	(void)snprintf(p.probes.providers, sizeof(p.probes.providers), "tcp");
	patient_look(&p);
	patient_has(&p, "ofi.cxi", "cxi0", TEI_MARK_WARN, "no provider cxi");
	(void)snprintf(p.probes.providers, sizeof(p.probes.providers),
		       "cxi tcp");
	patient_look(&p);
	patient_has(&p, "ofi.cxi", "cxi0", TEI_MARK_WARN,
		    "FI_CXI_MR_MATCH_EVENTS is not 1");
	set_variable(&p, TEI_FI_CXI_MR_MATCH_EVENTS, "1");
	patient_look(&p);
	patient_has(&p, "ofi.cxi", "cxi0", TEI_MARK_OK, "the provider cxi");
	patient_close(&p);
}

static void omni_path_is_left_to_verbs(void **state)
{
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	p.probes = (struct tei_probes){.known = true,
				       .libfabric_why = "cannot open it"};
	patient_link(&p, "sys/class/infiniband/mlx5_0/device/driver",
		     "../../../../bus/pci/drivers/hfi1");
	patient_look(&p);
	patient_has(&p, "ofi.opa", "mlx5_0", TEI_MARK_OK, "backend verbs");
	patient_has(&p, "ofi.library", "", TEI_MARK_OK, "no device needs it");
	patient_close(&p);
}

static void devices_that_cannot_be_opened_are_found(void **state)
{
	static const struct ailment list[] = {
		{"dev/infiniband/uverbs0", NULL, "rdma.node", "mlx5_0",
		 TEI_MARK_FAIL, "No such file"},
		{"sys/class/infiniband_verbs/uverbs0/ibdev", "other\n",
		 "rdma.node", "mlx5_0", TEI_MARK_FAIL, "no process"},
		{"sys/class/infiniband_verbs/uverbs0/ibdev", NULL, "rdma.node",
		 "mlx5_0", TEI_MARK_FAIL, "no process"},
	};
	struct patient p;

	(void)state;
	patients_show("two-nics", list, TEST_COUNT(list));
	patient_open(&p, "two-nics");
	patient_lose(&p, "sys/class/infiniband/mlx5_0");
	patient_look(&p);
	patient_has(&p, "rdma.devices", "", TEI_MARK_WARN, "none in");
	patient_has(&p, "rdma.driver", "ens1np0", TEI_MARK_WARN, "has RDMA");
	patient_close(&p);
}

/* As a container's rules do: whoever asks, and whatever its mode says. */
static void a_node_that_cannot_be_opened_is_found(void **state)
{
	char path[TEST_PATH_MAX + 64];
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	patient_lose(&p, "dev/infiniband/uverbs0");
	(void)snprintf(path, sizeof(path), "%s/dev/infiniband/uverbs0", p.dir);
	assert_int_equal(mkdir(path, 0777), 0);
	patient_look(&p);
	patient_has(&p, "rdma.node", "mlx5_0", TEI_MARK_FAIL, "directory");
	patient_close(&p);
}

static void ports_that_are_not_ready_are_found(void **state)
{
	static const struct ailment list[] = {
		{PORT "state", "1: DOWN\n", "rdma.port", "mlx5_0/1",
		 TEI_MARK_FAIL, "state 1: DOWN"},
		{"sys/class/net/ens1np0/mtu", "1500\n", "rdma.mtu", "mlx5_0/1",
		 TEI_MARK_WARN, "1024 bytes a packet"},
		{"sys/class/net/ens1np0/mtu", "4191\n", "rdma.mtu", "mlx5_0/1",
		 TEI_MARK_WARN, "2048 bytes a packet"},
		{"sys/class/net/ens1np0/mtu", "nonsense\n", "rdma.mtu",
		 "mlx5_0/1", TEI_MARK_UNKNOWN, "not seen"},
		{PORT "hw_counters/local_ack_timeout_err", "3\n", "rdma.errors",
		 "mlx5_0/1", TEI_MARK_WARN, "local_ack_timeout_err 3"},
	};
	static const struct ailment one_of_many[] = {
		{PORT "state", "1: DOWN\n", "rdma.port", "mlx5_0/1",
		 TEI_MARK_WARN, "DOWN"},
		{PORT "lid", "0x0\n", "rdma.lid", "mlx5_0/1", TEI_MARK_FAIL,
		 "LID 0"},
		{PORT "lid", "0x11\n", "rdma.lid", "mlx5_0/1", TEI_MARK_OK,
		 "LID 17"},
	};

	(void)state;
	patients_show("two-nics", list, TEST_COUNT(list));
	patients_show("eight-nics", one_of_many, TEST_COUNT(one_of_many));
}

static void addresses_that_do_not_reach_are_found(void **state)
{
	static const struct ailment list[] = {
		{PORT "gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n",
		 "rdma.gid", "mlx5_0/1", TEI_MARK_FAIL, "RoCE v1 only"},
		/* An entry that was never filled: an engine does not take it. */
		{PORT "gids/1", "fe80:0000:0000:0000:0000:0000:0000:0000\n",
		 "rdma.gid", "mlx5_0/1", TEI_MARK_FAIL, "RoCE v1 only"},
		{PORT "gid_attrs/types/0", "RoCE v2\n", "rdma.gid", "mlx5_0/1",
		 TEI_MARK_OK, "index 1"},
		{PORT "gids/1", "fe80:0000:0000:0000:0200:00ff:fe00:0001\n",
		 "rdma.gid", "mlx5_0/1", TEI_MARK_WARN, "link-local"},
		{PORT "gids/1", "fd00:0000:0000:0000:0200:00ff:fe00:0001\n",
		 "rdma.gid", "mlx5_0/1", TEI_MARK_OK, "fd00::"},
		{PORT "gids/0", NULL, "rdma.gid", "mlx5_0/1", TEI_MARK_FAIL,
		 "empty"},
		{"proc/net/route", ROUTES, "rdma.route", "mlx5_0/1",
		 TEI_MARK_FAIL, "none by ens1np0"},
		{"proc/net/route",
		 ROUTES "ens2\t0000090A\t0\t1\t0\t0\t0\t00FFFFFF\n",
		 "rdma.route", "mlx5_0/1", TEI_MARK_FAIL, "none by ens1np0"},
		{"proc/net/route",
		 ROUTES "ens1np0\t0000090A\t0\t1\t0\t0\t0\t00FFFFFF\n"
			"ens2\t0000090A\t0\t1\t0\t0\t0\t00FFFFFF\n",
		 "rdma.subnet", "mlx5_0/1", TEI_MARK_WARN, "ens1np0 and ens2"},
		{"proc/net/route", "\x01\n\n-\n", "rdma.route", "mlx5_0/1",
		 TEI_MARK_FAIL, "none"},
	};

	(void)state;
	patients_show("two-nics", list, TEST_COUNT(list));
}

#define V6       "20010db8000000000000000000000001 "
#define V6_NET   "20010db8000000000000000000000000 "
#define V6_NONE  "00000000000000000000000000000000 "
#define V6_REST  " 00000100 00000001 00000000 00000001 "
#define V6_VIA   "fe800000000000000000000000000009 "
#define V6_LOCAL V6 "80 " V6_NONE "00 " V6_NONE V6_REST "lo\n"

/* As an engine has it, a global one goes before a private one of IPv4. */
static void routes_of_ipv6_are_found_too(void **state)
{
	static const struct {
		const char *table;
		enum tei_mark mark;
		const char *found;
	} rows[] = {
		{V6_LOCAL V6_NET "40 " V6_NONE "00 " V6_NONE V6_REST
				 "ens1np0\n",
		 TEI_MARK_OK, "by ens1np0"},
		{V6_LOCAL V6_NET "40 " V6_NONE "00 " V6_NONE V6_REST "ens2\n",
		 TEI_MARK_FAIL, "none by ens1np0"},
		{V6_LOCAL V6_NET "40 " V6_NONE "00 " V6_VIA V6_REST "ens1np0\n",
		 TEI_MARK_FAIL, "none by ens1np0"},
		{V6_NONE "00 " V6_NONE "00 " V6_NONE V6_REST "ens1np0\nx\n",
		 TEI_MARK_FAIL, "none by ens1np0"},
	};
	struct patient p;

	(void)state;
	patient_open(&p, "two-nics");
	test_tree_write(p.dir, PORT "gids/2",
			"2001:0db8:0000:0000:0000:0000:0000:0001\n");
	test_tree_write(p.dir, PORT "gid_attrs/types/2", "RoCE v2\n");
	test_tree_write(p.dir, PORT "gid_attrs/ndevs/2", "ens1np0\n");
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		test_tree_write(p.dir, "proc/net/ipv6_route", rows[i].table);
		patient_look(&p);
		patient_has(&p, "rdma.gid", "mlx5_0/1", TEI_MARK_OK,
			    "index 2: 2001:db8::1 by ens1np0");
		patient_has(&p, "rdma.route", "mlx5_0/1", rows[i].mark,
			    rows[i].found);
	}
	patient_close(&p);
}

static void congestion_control_that_is_off_is_found(void **state)
{
	static const struct ailment list[] = {
		{"sys/class/net/ens1np0/ecn/roce_rp/enable/3", "0\n",
		 "rdma.congestion", "mlx5_0/1", TEI_MARK_WARN,
		 "as sender off, as receiver on"},
		{"sys/class/net/ens1np0/ecn/roce_np/enable/3", NULL,
		 "rdma.congestion", "mlx5_0/1", TEI_MARK_WARN,
		 "as sender on, as receiver off"},
	};
	static const char *const heeded[] = {NULL, "0\n", "7\n"};
	static const enum tei_mark marks[] = {TEI_MARK_UNKNOWN,
					      TEI_MARK_UNKNOWN, TEI_MARK_OK};
	struct patient p;
	char from[TEST_PATH_MAX + 64], to[TEST_PATH_MAX + 64];
	size_t i;

	(void)state;
	patients_show("two-nics", list, TEST_COUNT(list));
	for (i = 0; i < TEST_COUNT(heeded); i++) {
		patient_open(&p, "two-nics");
		(void)snprintf(from, sizeof(from),
			       "%s/sys/class/net/ens1np0/%s", p.dir, "ecn");
		(void)snprintf(to, sizeof(to), "%s/elsewhere", p.dir);
		assert_int_equal(rename(from, to), 0);
		if (heeded[i])
			test_tree_write(p.dir,
					PORT "hw_counters/rp_cnp_handled",
					heeded[i]);
		patient_look(&p);
		patient_has(&p, "rdma.congestion", "mlx5_0/1", marks[i],
			    heeded[i] ? "heeded" : "nothing");
		patient_close(&p);
	}
}

/* A node of a large cluster has a route to each of the others. */
static void a_route_behind_thousands_is_found(void **state)
{
	static char table[3000 * 64 + 256];
	struct patient p;
	size_t len;

	(void)state;
	len = (size_t)snprintf(table, sizeof(table), "%s", ROUTES);
	for (unsigned int i = 0; i < 3000; i++)
		len += (size_t)snprintf(table + len, sizeof(table) - len,
					"tunl0\t%08X\t00000000\t0001\t0\t0\t0\t"
					"FFFFFFFF\t0\t0\t0\n",
					0x2D0000u + i);
	(void)snprintf(table + len, sizeof(table) - len,
		       "ens1np0\t0000090A\t00000000\t0001\t0\t0\t0\t"
		       "00FFFFFF\t0\t0\t0\n");
	patient_open(&p, "two-nics");
	test_tree_write(p.dir, "proc/net/route", table);
	patient_look(&p);
	patient_has(&p, "rdma.route", "mlx5_0/1", TEI_MARK_OK, "ens1np0");
	patient_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_healthy_machine_has_nothing_to_mend),
		cmocka_unit_test(a_device_of_iwarp_is_found),
		cmocka_unit_test(
			libfabric_is_judged_by_whether_a_device_needs_it),
		cmocka_unit_test(variables_that_decide_about_efa_are_judged),
		cmocka_unit_test(one_thing_is_to_be_done_about_a_variable),
		cmocka_unit_test(slingshot_needs_its_provider_and_a_variable),
		cmocka_unit_test(omni_path_is_left_to_verbs),
		cmocka_unit_test(devices_that_cannot_be_opened_are_found),
		cmocka_unit_test(a_node_that_cannot_be_opened_is_found),
		cmocka_unit_test(ports_that_are_not_ready_are_found),
		cmocka_unit_test(addresses_that_do_not_reach_are_found),
		cmocka_unit_test(routes_of_ipv6_are_found_too),
		cmocka_unit_test(congestion_control_that_is_off_is_found),
		cmocka_unit_test(a_route_behind_thousands_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
