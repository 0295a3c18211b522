/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_peer.c - what a visit of a peer has seen is judged */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/peer.h"
#include "patient.h"

#define GBIT 1000000000ull
#define MIB  (1ull << 20)

/* Two rails of tcp, of 10 Gbit/s each, that carry 8 of them for a second. */
static struct tei_peer_visit two_networks(void)
{
	struct tei_peer_visit v = {
		.name = "b:1",
		.rtt_us = 90,
		.read = {.possible = true, .bytes = 2 * GBIT, .ns = GBIT},
		.n_rails = 3,
		.rails = {{"shm/0", "shm", TE_RAIL_UP, 0, 0, TE_LINK_NONE, 0,
			   "", 0},
			  {"tcp/eth0", "tcp", TE_RAIL_UP, 10 * GBIT, GBIT,
			   TE_LINK_UP, 0, "", 0},
			  {"tcp/eth1", "tcp", TE_RAIL_UP, 10 * GBIT, GBIT,
			   TE_LINK_UP, 0, "10.0.0.1:9 to 10.0.0.2:7", 0}},
	};

	return v;
}

static void judge(struct patient *p, const struct tei_peer_visit *v)
{
	*p = (struct patient){.probes = {.known = false}};
	tei_peer_judge(v, &p->report);
}

static void the_backend_and_how_it_carries_are_told(void **state)
{
	struct tei_peer_visit v = two_networks();
	struct patient p;

	(void)state;
	judge(&p, &v);
	patient_has(&p, "peer.reach", "b:1", TEI_MARK_OK, "90 us");
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_OK, "tcp; before it");
	patient_has(&p, "peer.rails", "b:1", TEI_MARK_OK,
		    "tcp/eth0 50 % (up), tcp/eth1 50 % (up)");
	patient_has(&p, "peer.way", "b:1", TEI_MARK_OK,
		    "tcp/eth1: 10.0.0.1:9 to 10.0.0.2:7");
	patient_has(&p, "peer.rate", "b:1", TEI_MARK_OK, "16 of 20 Gbit/s");
	tei_report_fini(&p.report);

	v.rails[0].bytes = 3 * GBIT;
	judge(&p, &v);
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_OK,
		    "shm; the first choice");
	tei_report_fini(&p.report);
}

static void why_a_preferred_backend_was_not_used_is_told(void **state)
{
	static const struct {
		uint32_t rail, link;
		int error;
		const char *found;
	} reasons[] = {
		{TE_RAIL_DOWN, TE_LINK_PAUSED, 0, "shm, whose rails are down"},
		{TE_RAIL_UP, TE_LINK_ABSENT, 0, "which the peer does not have"},
		{TE_RAIL_UP, TE_LINK_APART, 0, "reaches none of the peer's"},
		{TE_RAIL_UP, TE_LINK_PAUSED, -ECONNREFUSED,
		 "which failed: Connection refused"},
		{TE_RAIL_UP, TE_LINK_UP, -ECONNREFUSED,
		 "which does not reach its memory"},
	};
	struct tei_peer_visit v = two_networks();
	struct patient p;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(reasons); i++) {
		v.rails[0].state = reasons[i].rail;
		v.rails[0].link = reasons[i].link;
		v.rails[0].error = reasons[i].error;
		judge(&p, &v);
		patient_has(&p, "peer.backend", "b:1", TEI_MARK_OK,
			    reasons[i].found);
		tei_report_fini(&p.report);
	}
}

/* Of several rails the one that has come farthest tells. */
static void the_rail_that_came_farthest_says_why(void **state)
{
	struct tei_peer_visit v = two_networks();
	struct patient p;

	(void)state;
	v.rails[1].backend = v.rails[0].backend = "verbs";
	v.rails[1].bytes = 0;
	v.rails[0].state = TE_RAIL_DOWN;
	v.rails[1].link = TE_LINK_PAUSED;
	v.rails[1].error = -ETIMEDOUT;
	judge(&p, &v);
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_OK,
		    "before it verbs, which failed: deadline passed");
	tei_report_fini(&p.report);

	v.rails[0].state = TE_RAIL_UP;
	v.rails[0].link = TE_LINK_UP;
	judge(&p, &v);
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_OK,
		    "before it verbs, which does not reach its memory");
	tei_report_fini(&p.report);
}

static void tcp_beside_rdma_is_a_warning(void **state)
{
	struct tei_peer_visit v = two_networks();
	struct patient p;

	(void)state;
	v.has_rdma = true;
	judge(&p, &v);
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_WARN,
		    "has RDMA, this engine no rail of verbs");
	tei_report_fini(&p.report);

	v.rails[0].backend = "verbs";
	v.rails[0].link = TE_LINK_ABSENT;
	judge(&p, &v);
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_WARN,
		    "before it verbs, which the peer does not have; this host "
		    "has RDMA");
	tei_report_fini(&p.report);
}

static void a_rail_that_carries_nothing_is_a_warning(void **state)
{
	struct tei_peer_visit v = two_networks();
	struct patient p;

	(void)state;
	v.rails[2].bytes = 0;
	judge(&p, &v);
	patient_has(&p, "peer.rails", "b:1", TEI_MARK_WARN,
		    "tcp/eth0 100 % (up), tcp/eth1 0 % (up)");
	tei_report_fini(&p.report);

	/* One that is down is told by its own finding. */
	v.rails[2].state = TE_RAIL_DOWN;
	judge(&p, &v);
	patient_has(&p, "peer.rails", "b:1", TEI_MARK_OK, "0 % (down)");
	tei_report_fini(&p.report);
}

static void an_mtu_that_one_end_holds_down_is_a_warning(void **state)
{
	struct tei_peer_visit v = two_networks();
	struct patient p;

	(void)state;
	(void)snprintf(v.rails[1].way, sizeof(v.rails[1].way),
		       "GID 1 10.9.0.1 to 10.9.0.2, MTU 4096 (4096 here, 4096 "
		       "there), 2 queue pairs");
	judge(&p, &v);
	patient_has(&p, "peer.way", "b:1", TEI_MARK_OK, "tcp/eth0: GID 1");
	tei_report_fini(&p.report);
	(void)snprintf(v.rails[1].way, sizeof(v.rails[1].way),
		       "GID 1 10.9.0.1 to 10.9.0.2, MTU 1024 (4096 here, 1024 "
		       "there), 2 queue pairs");
	judge(&p, &v);
	patient_has(&p, "peer.way", "b:1", TEI_MARK_WARN, "1024 there");
	tei_report_fini(&p.report);
}

static void less_than_half_of_the_rails_is_a_warning(void **state)
{
	struct tei_peer_visit v = two_networks();
	struct patient p;

	(void)state;
	v.read.bytes = GBIT;
	judge(&p, &v);
	patient_has(&p, "peer.rate", "b:1", TEI_MARK_WARN, "8 of 20 Gbit/s");
	tei_report_fini(&p.report);

	v.rails[1].speed_bps = 0; /* nobody knows what half would be */
	judge(&p, &v);
	patient_has(&p, "peer.rate", "b:1", TEI_MARK_OK, "8 Gbit/s");
	tei_report_fini(&p.report);
}

static void a_peer_that_cannot_be_read_is_told(void **state)
{
	struct tei_peer_visit v = {.name = "b:1", .error = -ETIMEDOUT};
	struct patient p;

	(void)state;
	judge(&p, &v);
	patient_has(&p, "peer.reach", "b:1", TEI_MARK_FAIL, "deadline");
	assert_int_equal(p.report.n, 1);
	tei_report_fini(&p.report);

	v = (struct tei_peer_visit){.name = "b:1"};
	judge(&p, &v);
	patient_has(&p, "peer.rate", "b:1", TEI_MARK_UNKNOWN,
		    "te-doctor listen");
	tei_report_fini(&p.report);

	v = two_networks();
	v.read.error = -ESTALE;
	v.rails[1].link = TE_LINK_OPENING;
	v.rails[2].bytes = 77;
	judge(&p, &v);
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_FAIL,
		    "a read failed: ");
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_FAIL,
		    "; connected by tcp/eth1, 77 bytes read");
	patient_has(&p, "peer.way", "b:1", TEI_MARK_OK,
		    "tcp/eth1: 10.0.0.1:9 to 10.0.0.2:7");
	tei_report_fini(&p.report);
	v.rails[2].link = TE_LINK_NONE;
	judge(&p, &v);
	patient_has(&p, "peer.backend", "b:1", TEI_MARK_FAIL,
		    "; no rail was connected");
	tei_report_fini(&p.report);
}

/* A name is whatever was typed, and a file whatever was written. */
static void bytes_that_are_no_text_are_shown_as_marks(void **state)
{
	struct tei_peer_visit v = {.name = "a\xff\x1b[31m", .error = -EINVAL};
	struct patient p;
	char *json = NULL;
	size_t len;
	FILE *out = open_memstream(&json, &len);

	(void)state;
	assert_non_null(out);
	judge(&p, &v);
	patient_has(&p, "peer.reach", "a??[31m", TEI_MARK_FAIL, "");
	assert_int_equal(tei_report_json(&p.report, NULL, NULL, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(json, "\"a??[31m\""));
	free(json);
	tei_report_fini(&p.report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_backend_and_how_it_carries_are_told),
		cmocka_unit_test(why_a_preferred_backend_was_not_used_is_told),
		cmocka_unit_test(the_rail_that_came_farthest_says_why),
		cmocka_unit_test(tcp_beside_rdma_is_a_warning),
		cmocka_unit_test(a_rail_that_carries_nothing_is_a_warning),
		cmocka_unit_test(an_mtu_that_one_end_holds_down_is_a_warning),
		cmocka_unit_test(less_than_half_of_the_rails_is_a_warning),
		cmocka_unit_test(a_peer_that_cannot_be_read_is_told),
		cmocka_unit_test(bytes_that_are_no_text_are_shown_as_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
