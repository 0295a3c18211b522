/* SPDX-License-Identifier: Apache-2.0 */
/* test_refusal.c - owners that refuse us, for now or for good */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "te/backend.h"
#include "tests/unit/te/owner.h"
#include "tests/unit/te/rig.h"

#define LAST .is_last = true

static struct te_engine *engine;
static struct owner owner;

static int open_it(const struct owner_script *scripts, uint32_t timeout_ms)
{
	te_segment_id segment;
	int rc;

	memset(&owner, 0, sizeof(owner));
	engine = rig_engine(NULL);
	owner_start(&owner, 2, scripts);
	rc = te_segment_open(engine, owner.name, timeout_ms, &segment);
	te_engine_destroy(engine);
	owner_stop(&owner);
	return rc;
}

static void who_is_refused_for_now_comes_again(void **state)
{
	static const struct owner_script
		text[] = {{.refusal = "no memory", .for_now = true},
			  {.refusal = "a crowd", .for_now = true},
			  {LAST}},
		status[] = {{.hello_status = TEI_STATUS_NO_MEMORY},
			    {.hello_status = TEI_STATUS_BUSY},
			    {LAST}};

	(void)state;
	assert_int_equal(open_it(text, RIG_WAIT_MS), 0);
	assert_int_equal(open_it(status, RIG_WAIT_MS), 0);
}

static void refusal_for_now_is_told_at_the_deadline(void **state)
{
	static const struct owner_script text = {.refusal = "no memory",
						 .for_now = true,
						 LAST},
					 status = {.hello_status =
							   TEI_STATUS_BUSY,
						   LAST};

	(void)state;
	assert_int_equal(open_it(&text, 300), -EAGAIN);
	assert_int_equal(open_it(&status, 300), -EAGAIN);
}

static void refusal_for_good_is_told_at_once(void **state)
{
	static const struct owner_script text = {.refusal = "not you", LAST},
					 status = {.hello_status =
							   TEI_STATUS_ACCESS,
						   LAST};

	(void)state;
	assert_int_equal(open_it(&text, UINT32_MAX), -EACCES);
	assert_int_equal(open_it(&status, UINT32_MAX), -EACCES);
}

static _Atomic unsigned int n_lines;

static void count_line(int level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
	atomic_fetch_add(&n_lines, 1);
}

/* A minute may end meanwhile, and then as many are let through again. */
static void owner_that_makes_no_sense_costs_few_lines(void **state)
{
	static const struct owner_script other = {.hello_version = 77, LAST};

	(void)state;
	te_log_set_level(TEI_LOG_WARN);
	tei_log_set_sink(count_line, NULL);
	for (int i = 0; i < 40; i++)
		assert_int_equal(open_it(&other, UINT32_MAX), -EPROTO);
	tei_log_set_sink(NULL, NULL);
	te_log_set_level(0);
	assert_in_range(n_lines, 1, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_refused_for_now_comes_again),
		cmocka_unit_test(refusal_for_now_is_told_at_the_deadline),
		cmocka_unit_test(refusal_for_good_is_told_at_once),
		cmocka_unit_test(owner_that_makes_no_sense_costs_few_lines),
	};

	te_log_set_level(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
