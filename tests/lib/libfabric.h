/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric.h - engines that go by libfabric's provider tcp, chosen outside */
#ifndef TESTS_LIB_LIBFABRIC_H
#define TESTS_LIB_LIBFABRIC_H

#include <stdbool.h>
#include <stdlib.h>

#include <te/te.h>

#include "tests/lib/test.h"

/*
 * Has the environment name the provider, for engines of this process and of
 * those that it starts. Which backends they have is left to the caller.
 */
static inline void test_libfabric_set(void)
{
	assert_int_equal(setenv("TE_OFI_PROVIDER", "tcp", 1), 0);
	assert_int_equal(setenv("TE_OFI_DEVICES", "lo", 1), 0);
}

static inline void test_libfabric_unset(void)
{
	unsetenv("TE_OFI_PROVIDER");
	unsetenv("TE_OFI_DEVICES");
}

/* False: this build or this host is without it. */
static inline bool test_libfabric_is_there(void)
{
	struct te_config *config;
	struct te_engine *engine;
	int rc;

	assert_int_equal(te_config_create(&config), 0);
	rc = te_config_set(config, "backends", "ofi", NULL, 0);
	assert_int_equal(rc, 0);
	test_libfabric_set();
	rc = te_engine_create(config, "127.0.0.1", &engine);
	test_libfabric_unset();
	te_config_destroy(config);
	if (!rc)
		te_engine_destroy(engine);
	return !rc;
}

#endif
