/* SPDX-License-Identifier: Apache-2.0 */
/* test_absent.c - what is said of names behind which there is no engine */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/te/alone.h"

static int set_up(void **state)
{
	(void)state;
	return alone_open(NULL);
}

static void stranger_that_is_no_engine_is_found_out(void **state)
{
	struct te_engine *other = rig_engine(NULL);
	te_segment_id id;
	uint64_t rtt;

	(void)state;
	assert_int_equal(te_segment_open(other, "127.0.0.1", 100, &id),
			 -EINVAL);
	assert_int_equal(
		te_segment_open(other, "no.such.host.invalid:1", 1000, &id),
		-EHOSTUNREACH);
	assert_int_equal(te_segment_open(other, "127.0.0.1:1", 50, &id),
			 -ETIMEDOUT);
	assert_int_equal(te_peer_probe(other, te_engine_name(engine), 0, &rtt),
			 0);
	te_engine_destroy(other);
}

/* Not at the deadline, nor while earlier tries are still being paced. */
static void probe_takes_no_for_an_answer(void **state)
{
	struct te_engine *other = rig_engine(NULL);
	te_segment_id id;
	char name[64];

	(void)state;
	assert_int_equal(te_peer_probe(other, "127.0.0.1:1", RIG_WAIT_MS, NULL),
			 -ECONNREFUSED);
	/* That of ::1, where it is tried first, is not the last word. */
	snprintf(name, sizeof(name), "localhost%s",
		 strrchr(te_engine_name(engine), ':'));
	assert_int_equal(te_peer_probe(other, name, RIG_WAIT_MS, NULL), 0);
	assert_int_equal(te_segment_open(other, "127.0.0.1:1", 50, &id),
			 -ETIMEDOUT);
	assert_int_equal(te_peer_probe(other, "localhost:1", RIG_WAIT_MS, NULL),
			 -ECONNREFUSED);
	te_engine_destroy(other);
}

#define WITH_ENGINE(test) \
	cmocka_unit_test_setup_teardown(test, set_up, alone_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINE(stranger_that_is_no_engine_is_found_out),
		WITH_ENGINE(probe_takes_no_for_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
