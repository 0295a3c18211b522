/* SPDX-License-Identifier: Apache-2.0 */
/* test.h - cmocka with what it wants included before it */
#ifndef TESTS_LIB_TEST_H
#define TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * How often to do what differs only in its seed: @n times, and fewer under
 * ThreadSanitizer, where each takes ten times as long.
 */
#if defined(__SANITIZE_THREAD__)
#define TEST_TIMES(n) (((n) + 7) / 8)
#else
#define TEST_TIMES(n) (n)
#endif

static inline void test_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

#endif
