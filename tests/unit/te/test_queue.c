/* SPDX-License-Identifier: Apache-2.0 */
/* test_queue.c - whose turn it is among requests of different priority */
#include "te/transfer/schedule.h"

#include <te/te.h>

#include "tests/lib/test.h"

static struct tei_list items[TEI_QUEUE_CLASSES];

static void fill(struct tei_queue *q, uint32_t classes)
{
	tei_queue_init(q);
	for (uint32_t i = 0; i < TEI_QUEUE_CLASSES; i++) {
		tei_list_init(&items[i]);
		if (classes >> i & 1)
			tei_list_add_tail(&q->classes[i], &items[i]);
	}
}

static void empty_queue_has_no_turn(void **state)
{
	struct tei_queue q;

	(void)state;
	fill(&q, 0);
	assert_true(tei_queue_empty(&q));
	assert_int_equal(tei_queue_turn(&q, 0), -1);
}

static void urgent_goes_before_normal_before_bulk(void **state)
{
	struct tei_queue q;

	(void)state;
	assert_int_equal(tei_queue_class(TE_PRIORITY_URGENT), TEI_QUEUE_URGENT);
	assert_int_equal(tei_queue_class(TE_PRIORITY_NORMAL), TEI_QUEUE_NORMAL);
	assert_int_equal(tei_queue_class(TE_PRIORITY_BULK), TEI_QUEUE_BULK);
	fill(&q, 7);
	assert_int_equal(tei_queue_turn(&q, 0), TEI_QUEUE_URGENT);
	assert_int_equal(tei_queue_turn(&q, 1), TEI_QUEUE_NORMAL);
	assert_int_equal(tei_queue_turn(&q, 3), TEI_QUEUE_BULK);
	assert_int_equal(tei_queue_turn(&q, 7), -1);
	fill(&q, 6);
	assert_int_equal(tei_queue_turn(&q, 0), TEI_QUEUE_NORMAL);
}

static void nothing_is_passed_for_ever(void **state)
{
	unsigned int served[TEI_QUEUE_CLASSES] = {0};
	struct tei_queue q;

	(void)state;
	fill(&q, 7);
	for (int i = 0; i < 1600; i++) {
		int class = tei_queue_turn(&q, 0);

		assert_in_range(class, 0, TEI_QUEUE_CLASSES - 1);
		served[class]++;
		tei_queue_served(&q, (uint32_t) class);
	}
	assert_in_range(served[TEI_QUEUE_BULK], 90, 110);
	assert_in_range(served[TEI_QUEUE_NORMAL], 90, 110);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_queue_has_no_turn),
		cmocka_unit_test(urgent_goes_before_normal_before_bulk),
		cmocka_unit_test(nothing_is_passed_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
