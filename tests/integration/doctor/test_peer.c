/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer.c - te-doctor tells how an engine is reached, and how fast */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/process.h"
#include "tests/lib/test.h"

#define PATIENCE_MS 120000

static struct test_process *listener;
static char name[128];

static int listen_here(void **state)
{
	const char *line;

	(void)state;
	listener = test_process_start(
		"te-doctor",
		(const char *const[]){"listen", "127.0.0.1", NULL});
	line = test_process_line(listener, "listens as ", PATIENCE_MS);
	assert_non_null(line);
	assert_int_equal(sscanf(strstr(line, " as "), " as %127s", name), 1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	test_process_signal(listener, SIGTERM);
	assert_int_equal(test_process_wait(listener, PATIENCE_MS), 0);
	test_process_end(listener);
	return 0;
}

/* Each of @parts, which end with NULL, is in the output; it ends with @code. */
static void run(const char *const args[], int code, const char *const parts[])
{
	struct test_process *p = test_process_start("te-doctor", args);
	int rc = test_process_wait(p, PATIENCE_MS);
	const char *text = test_process_output(p);
	size_t i;

	for (i = 0; parts[i]; i++)
		if (!strstr(text, parts[i]))
			fail_msg("\"%s\" is not in:\n%s", parts[i], text);
	if (rc != code)
		fail_msg("ended with %d, not %d:\n%s", rc, code, text);
	test_process_end(p);
}

static void a_peer_of_this_host_is_reached_by_shm(void **state)
{
	(void)state;
	run((const char *const[]){"peer", name, "--time", "50ms", NULL}, 0,
	    (const char *const[]){" peer.reach ", " peer.backend ", ": shm; ",
				  "peer.rails ", "shm/0 100 %", "peer.rate ",
				  NULL});
}

static void a_backend_that_is_named_is_binding(void **state)
{
	(void)state;
	run((const char *const[]){"peer", name, "--engine", "backends=tcp",
				  "--time=50ms", NULL},
	    0,
	    (const char *const[]){": tcp; the first choice", " peer.way ",
				  " packets of ", NULL});
}

static void one_that_is_not_there_fails_beside_one_that_is(void **state)
{
	(void)state;
	run((const char *const[]){"peer", name, "127.0.0.1:1", "--time=50ms",
				  NULL},
	    1,
	    (const char *const[]){"fail     peer.reach 127.0.0.1:1: ",
				  "ok       peer.reach ", NULL});
}

static void words_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	run((const char *const[]){"peer", NULL}, 2,
	    (const char *const[]){"peer NAME...", NULL});
	run((const char *const[]){"cure", NULL}, 2,
	    (const char *const[]){"peer NAME...", NULL});
	run((const char *const[]){"listen", "a", "b", NULL}, 2,
	    (const char *const[]){"listen [NAME]", NULL});
	run((const char *const[]){"listen", "127.0.0.1:99999", NULL}, 1,
	    (const char *const[]){"is no name host[:port]",
				  "te-doctor: no engine of ours: ", NULL});
	run((const char *const[]){"pairs", name, "\xff", NULL}, 2,
	    (const char *const[]){"UTF-8", NULL});
	run((const char *const[]){"peer", name, "--engine", "nonsense", NULL},
	    2, (const char *const[]){"name=value", NULL});
	run((const char *const[]){"peer", name, "--engine", "no.such=1", NULL},
	    2, (const char *const[]){"no.such", NULL});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_of_this_host_is_reached_by_shm),
		cmocka_unit_test(a_backend_that_is_named_is_binding),
		cmocka_unit_test(
			one_that_is_not_there_fails_beside_one_that_is),
		cmocka_unit_test(words_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests(tests, listen_here, end);
}
