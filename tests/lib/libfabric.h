/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric.h - engines that go by a provider of libfabric, chosen outside */
#ifndef TESTS_LIB_LIBFABRIC_H
#define TESTS_LIB_LIBFABRIC_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <te/te.h>

#include "tests/lib/test.h"

/*
 * Has the environment name the provider, for engines of this process and of
 * those that it starts. Which backends they have is left to the caller. What
 * goes by sockets uses the interface that every host has.
 */
static inline void test_libfabric_set(const char *provider)
{
	bool devices = !strcmp(provider, "verbs");

	assert_int_equal(setenv("TE_OFI_PROVIDER", provider, 1), 0);
	assert_int_equal(setenv("TE_OFI_DEVICES", devices ? "all" : "lo", 1),
			 0);
}

static inline void test_libfabric_unset(void)
{
	unsetenv("TE_OFI_PROVIDER");
	unsetenv("TE_OFI_DEVICES");
}

/*
 * False: this build or this host is without it. By net only if TE_TEST_NET is
 * set: version 1.17 of it may crash where endpoints are closed.
 */
static inline bool test_libfabric_has(const char *provider)
{
	struct te_config *config;
	struct te_engine *engine;
	int rc;

	if (!strcmp(provider, "net") && !getenv("TE_TEST_NET"))
		return false;

	assert_int_equal(te_config_create(&config), 0);
	rc = te_config_set(config, "backends", "ofi", NULL, 0);
	assert_int_equal(rc, 0);
	test_libfabric_set(provider);
	rc = te_engine_create(config, "127.0.0.1", &engine);
	test_libfabric_unset();
	te_config_destroy(config);
	if (!rc)
		te_engine_destroy(engine);
	return !rc;
}

#endif
