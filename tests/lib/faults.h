/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults.h - make the first, second, third ... call fail
 *
 * for (struct test_faults f = {.kind = TEI_FAULT_ALLOC}; test_faults_next(&f);)
 *	one run of the body a failing call, and a last one without failure
 *
 * The body is repeated until nothing has failed in it, so it must come to an
 * end of its own accord. Faults are disarmed after the loop, also after a
 * `break`, by the next arm or test_faults_end().
 */
#ifndef TESTS_LIB_FAULTS_H
#define TESTS_LIB_FAULTS_H

#include <stdbool.h>

#include "base/fault.h"

struct test_faults {
	enum tei_fault kind;
	unsigned int n; /* which call fails in this run */
};

static inline void test_faults_end(void)
{
	tei_fault_disarm_all();
}

static inline bool test_faults_next(struct test_faults *f)
{
	if (f->n > 0 && !tei_fault_struck(f->kind)) {
		test_faults_end();
		return false;
	}
	tei_fault_arm(f->kind, ++f->n);
	return true;
}

#endif
