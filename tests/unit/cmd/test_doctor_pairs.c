/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_pairs.c - orders, answers, and what a matrix of them says */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/pairs.h"
#include "patient.h"

#define GBIT 1000000000ull
#define N    4

static const char *const names[N] = {"a:1", "b:1", "c:1", "d:1"};
static const char *const any[] = {""};

static struct tei_matrix m;
static struct patient p;

/* All pairs at 10 Gbit/s by two rails of verbs. */
static int set_up(void **state)
{
	(void)state;
	p = (struct patient){.probes = {.known = false}};
	assert_int_equal(tei_matrix_init(&m, names, N, any, 1), 0);
	for (size_t i = 0; i < N * N; i++)
		m.cells[i] = (struct tei_answer){
			.backend = "verbs",
			.read_bps = 10 * GBIT,
			.write_bps = 10 * GBIT,
			.n_rails = 2,
			.rails = {{"verbs/x", "up", GBIT, GBIT},
				  {"verbs/y", "up", GBIT, GBIT}}};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tei_report_fini(&p.report);
	tei_matrix_fini(&m);
	return 0;
}

static struct tei_answer *cell(size_t from, size_t to)
{
	return tei_matrix_cell(&m, 0, from, to);
}

/* ---- findings ---- */

static void equal_pairs_are_well(void **state)
{
	(void)state;
	tei_pairs_judge(&m, &p.report);
	patient_has(&p, "pairs.reach", "", TEI_MARK_OK, "all 12 pairs");
	patient_has(&p, "pairs.rate", "", TEI_MARK_OK, "all reads near");
	patient_has(&p, "pairs.rate", "", TEI_MARK_OK, "all writes near");
	assert_int_equal(p.report.n, 3);
}

static void one_slow_pair_is_named(void **state)
{
	(void)state;
	cell(1, 2)->write_bps = cell(2, 1)->write_bps = GBIT;
	tei_pairs_judge(&m, &p.report);
	patient_has(&p, "pairs.rate", "b:1 > c:1", TEI_MARK_WARN,
		    "writes 1 Gbit/s, the median 10; only these two");
	patient_has(&p, "pairs.rate", "c:1 > b:1", TEI_MARK_WARN, "writes 1 ");
	patient_has(&p, "pairs.rate", "", TEI_MARK_OK, "all reads near");
	assert_int_equal(p.report.count[TEI_MARK_WARN], 2);
}

static void a_pair_slow_one_way_is_told_from_one_slow_both_ways(void **state)
{
	(void)state;
	cell(1, 2)->read_bps = GBIT;
	tei_pairs_judge(&m, &p.report);
	patient_has(&p, "pairs.rate", "b:1 > c:1", TEI_MARK_WARN,
		    "reads 1 Gbit/s, the median 10; only this way");
	assert_int_equal(p.report.count[TEI_MARK_WARN], 1);
}

static void a_peer_that_is_slow_with_all_is_the_cause(void **state)
{
	(void)state;
	for (size_t i = 0; i < N; i++) {
		cell(3, i)->read_bps = GBIT;
		cell(i, 3)->write_bps = GBIT;
	}
	tei_pairs_judge(&m, &p.report);
	patient_has(&p, "pairs.rate", "d:1 > a:1", TEI_MARK_WARN,
		    "d:1 reads all others slowly");
	patient_has(&p, "pairs.rate", "a:1 > d:1", TEI_MARK_WARN,
		    "slow for all that write there: NIC or CPU of d:1");
	assert_int_equal(p.report.count[TEI_MARK_WARN], 6);
}

static void another_backend_is_the_cause(void **state)
{
	(void)state;
	strcpy(cell(0, 1)->backend, "tcp");
	strcpy(cell(0, 1)->why, "; before it verbs, whose rails are down");
	cell(0, 1)->read_bps = GBIT;
	tei_pairs_judge(&m, &p.report);
	patient_has(&p, "pairs.rate", "a:1 > b:1", TEI_MARK_WARN,
		    "by tcp, most others by verbs; before it verbs, whose "
		    "rails are down");
}

static void a_rail_without_bytes_is_the_cause(void **state)
{
	(void)state;
	cell(0, 1)->write_bps = 4 * GBIT;
	cell(0, 1)->rails[1].write_bps = 0;
	strcpy(cell(0, 1)->rails[1].state, "down");
	tei_pairs_judge(&m, &p.report);
	patient_has(&p, "pairs.rate", "a:1 > b:1", TEI_MARK_WARN,
		    "rail verbs/y (down) carries nothing");
}

static void a_pair_that_fails_is_a_failure(void **state)
{
	(void)state;
	*cell(2, 0) = (struct tei_answer){.failure = "deadline passed"};
	tei_pairs_judge(&m, &p.report);
	patient_has(&p, "pairs.reach", "c:1 > a:1", TEI_MARK_FAIL,
		    "deadline passed");
	assert_int_equal(p.report.count[TEI_MARK_FAIL], 1);
	assert_int_equal(p.report.count[TEI_MARK_WARN], 0);
}

/* ---- shown ---- */

static void tables_have_a_row_for_each_peer(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	strcpy(cell(0, 1)->failure, "why");
	cell(0, 2)->write_bps = 0;
	assert_int_equal(tei_pairs_text(&m, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "Gbit/s that the row writes to"));
	assert_non_null(strstr(text, "Gbit/s that the row reads from"));
	assert_non_null(strstr(text, "   1 a:1         -    fails        ?"
				     "       10\n"));
	assert_non_null(strstr(text, "   4 d:1        10       10       10"
				     "        -\n"));
	free(text);
}

static void json_has_an_object_for_each_pair(void **state)
{
	json_t *all = tei_pairs_pack(&m), *one;

	(void)state;
	assert_int_equal(json_array_size(all), N * (N - 1));
	one = json_array_get(all, 0);
	assert_string_equal(json_string_value(json_object_get(one, "from")),
			    "a:1");
	assert_string_equal(json_string_value(json_object_get(one, "to")),
			    "b:1");
	assert_int_equal(json_integer_value(json_object_get(one, "read_bps")),
			 10 * GBIT);
	assert_int_equal(json_array_size(json_object_get(one, "rails")), 2);
	json_decref(all);
}

/* ---- on the way ---- */

static void orders_and_answers_come_as_they_were_sent(void **state)
{
	struct tei_order order = {.id = 7,
				  .to = "b:1",
				  .backends = "tcp",
				  .time_ms = 50},
			 order_back;
	struct tei_answer back, *answer = cell(0, 1);
	char *text = tei_order_encode(&order);

	(void)state;
	assert_true(tei_order_decode(text, strlen(text), &order_back));
	assert_memory_equal(&order, &order_back, sizeof(order));
	assert_false(tei_answer_decode(text, strlen(text), &back));
	free(text);

	answer->id = 8;
	answer->rtt_us = 9;
	strcpy(answer->why, "; the first choice of this engine");
	text = tei_answer_encode(answer);
	assert_true(tei_answer_decode(text, strlen(text), &back));
	assert_memory_equal(answer, &back, sizeof(back));
	assert_false(tei_order_decode(text, strlen(text), &order_back));
	free(text);
}

static void what_is_no_order_is_refused(void **state)
{
	static const char *const wrong[] = {
		"",
		"{}",
		"[]",
		"\"measure\"",
		"{\"te_doctor\":1}",
		"{\"te_doctor\":\"measure\"}",
		"{\"te_doctor\":\"measure\",\"to\":\"b\"}",
		"{\"te_doctor\":\"measure\",\"to\":\"\",\"time_ms\":1}",
		"{\"te_doctor\":\"measure\",\"to\":\"b\",\"time_ms\":-1}",
		"{\"te_doctor\":\"measure\",\"to\":\"b\",\"time_ms\":60001}",
		"{\"te_doctor\":\"measure\",\"to\":\"b\",\"time_ms\":1",
	};
	struct tei_order order;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(wrong); i++)
		assert_false(
			tei_order_decode(wrong[i], strlen(wrong[i]), &order));
}

static void texts_of_an_answer_are_cut_and_printable(void **state)
{
	static const char text[] =
		"{\"te_doctor\":\"measured\",\"backend\":"
		"\"0123456789abcdefXYZ\",\"failure\":\"a\\u001b[31m\\u00e9\","
		"\"rails\":[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}"
		",3],\"read_bps\":\"fast\"}";
	struct tei_answer answer;

	(void)state;
	assert_true(tei_answer_decode(text, strlen(text), &answer));
	assert_string_equal(answer.backend, "0123456789abcde");
	assert_string_equal(answer.failure, "a?[31m??");
	assert_int_equal(answer.n_rails, TEI_ANSWER_RAILS);
	assert_int_equal(answer.read_bps, 0);
}

static void a_visit_becomes_an_answer(void **state)
{
	static const struct tei_peer_visit seen = {
		.rtt_us = 5,
		.read = {.possible = true, .bytes = GBIT / 4, .ns = GBIT},
		.write = {.possible = true, .bytes = GBIT / 8, .ns = GBIT},
		.n_rails = 3,
		/* They have counted the batch that connected, too. */
		.rails = {{"shm/0", "shm", TE_RAIL_UP, 0, 0, TE_LINK_APART, 0,
			   "", 0},
			  {"tcp/0", "tcp", TE_RAIL_UP, 0, GBIT / 2, TE_LINK_UP,
			   0, "", GBIT / 16},
			  {"tcp/1", "tcp", TE_RAIL_DOWN, 0, 0, TE_LINK_NONE, 0,
			   "", GBIT / 16}},
	};
	struct tei_peer_visit other = seen;
	struct tei_answer answer = {.id = 3};

	(void)state;
	tei_answer_from_visit(&seen, &answer);
	assert_int_equal(answer.id, 3);
	assert_string_equal(answer.failure, "");
	assert_string_equal(answer.backend, "tcp");
	assert_string_equal(answer.why,
			    "; before it shm, which reaches none of the "
			    "peer's");
	assert_int_equal(answer.read_bps, 2 * GBIT);
	assert_int_equal(answer.write_bps, GBIT);
	assert_int_equal(answer.n_rails, 2);
	assert_string_equal(answer.rails[1].name, "tcp/1");
	assert_string_equal(answer.rails[1].state, "down");
	assert_int_equal(answer.rails[0].read_bps, 2 * GBIT);
	assert_int_equal(answer.rails[1].read_bps, 0);
	assert_int_equal(answer.rails[1].write_bps, GBIT / 2);

	answer = (struct tei_answer){.id = 3};
	other.write.error = -ETIMEDOUT;
	tei_answer_from_visit(&other, &answer);
	assert_string_equal(answer.failure, "deadline passed");
	assert_int_equal(answer.read_bps, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(equal_pairs_are_well),
		TEST(one_slow_pair_is_named),
		TEST(a_pair_slow_one_way_is_told_from_one_slow_both_ways),
		TEST(a_peer_that_is_slow_with_all_is_the_cause),
		TEST(another_backend_is_the_cause),
		TEST(a_rail_without_bytes_is_the_cause),
		TEST(a_pair_that_fails_is_a_failure),
		TEST(tables_have_a_row_for_each_peer),
		TEST(json_has_an_object_for_each_pair),
		TEST(orders_and_answers_come_as_they_were_sent),
		cmocka_unit_test(what_is_no_order_is_refused),
		cmocka_unit_test(texts_of_an_answer_are_cut_and_printable),
		cmocka_unit_test(a_visit_becomes_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
