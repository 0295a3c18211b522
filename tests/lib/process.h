/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - other programs, started and watched by a test
 *
 * What a child prints (stdout and stderr together) goes to memory, so that a
 * child that nobody reads never blocks. A child dies with the test.
 *
 * Threads: one a process at a time.
 */
#ifndef TESTS_LIB_PROCESS_H
#define TESTS_LIB_PROCESS_H

#include <sys/types.h>

#define TEST_STILL_RUNNING (-1000)

struct test_process;

/*
 * Start @program with args[], which ends with NULL and does not hold argv[0].
 * Without a slash it is looked for among the helpers of the tests and then
 * among the programs of this build. Fails the test when it cannot be started.
 */
struct test_process *test_process_start(const char *program,
					const char *const args[]);
pid_t test_process_pid(const struct test_process *p);

/*
 * The next line that contains @text, after the one returned last; lives until
 * the next call. NULL: not within @timeout_ms, or the program has ended
 * without it; then all its output has been printed.
 */
const char *test_process_line(struct test_process *p, const char *text,
			      unsigned int timeout_ms);
/* Everything printed so far; lives until the next call. */
const char *test_process_output(struct test_process *p);

/*
 * SIGTERM, SIGSTOP, ...; a process that has ended is left alone. After SIGSTOP
 * every thread of it stands still.
 */
void test_process_signal(struct test_process *p, int sig);
/* Exit code, or -signal, or TEST_STILL_RUNNING after @timeout_ms. */
int test_process_wait(struct test_process *p, unsigned int timeout_ms);
/* Kill it if it still runs, and forget it. NULL is fine. */
void test_process_end(struct test_process *p);

/*
 * Start one that ends by itself, and wait for that. What it has printed, to be
 * freed. Fails the test when it does not end within @timeout_ms and with @code.
 */
char *test_process_run(const char *program, const char *const args[], int code,
		       unsigned int timeout_ms);

#endif
