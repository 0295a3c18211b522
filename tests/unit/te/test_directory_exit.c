/* SPDX-License-Identifier: Apache-2.0 */
/* test_directory_exit.c - a process exits while threads are in OpenSSL */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "te/directory/crypto.h"
#include "tests/lib/test.h"

#define STAY_MS 200

static int entered[2], told[2]; /* pipes */

static void *stay_inside(void *arg)
{
	(void)arg;
	if (tei_dir_crypto_enter() && write(entered[1], "e", 1) == 1) {
		(void)poll(NULL, 0, STAY_MS);
		(void)!write(told[1], "l", 1);
		tei_dir_crypto_leave();
	}
	return NULL;
}

static void report_entry(void)
{
	(void)!write(told[1], tei_dir_crypto_enter() ? "y" : "n", 1);
}

/*
 * OpenSSL is begun by crypto_start(), whoever uses it later: so it frees what it
 * has, and calls report_entry(), after crypto_start()'s function.
 */
static void exit_with_thread_inside(void)
{
	pthread_t thread;
	char byte;

	if (tei_dir_crypto_start() ||
	    !OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, NULL) ||
	    !OPENSSL_atexit(report_entry) ||
	    pthread_create(&thread, NULL, stay_inside, NULL) ||
	    pthread_detach(thread) || read(entered[0], &byte, 1) != 1)
		_exit(1);
	exit(0);
}

static void exit_waits_for_who_is_inside_and_lets_nobody_in(void **state)
{
	char bytes[4];
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(entered) | pipe(told), 0);
	pid = fork();
	if (!pid)
		exit_with_thread_inside();
	assert_true(pid > 0);
	close(told[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(told[0], bytes, sizeof(bytes)), 2);
	assert_memory_equal(bytes, "ln", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			exit_waits_for_who_is_inside_and_lets_nobody_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
