/* SPDX-License-Identifier: Apache-2.0 */
/* test.h - cmocka with what it wants included before it */
#ifndef TESTS_LIB_TEST_H
#define TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
