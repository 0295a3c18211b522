/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare.h - a server whose loop does not run
 *
 * Its handlers are called as HTTP would, its events are the test's.
 */
#ifndef TESTS_UNIT_STORE_SERVER_BARE_H
#define TESTS_UNIT_STORE_SERVER_BARE_H

#include "base/loop.h"
#include "store/server/server.h"
#include "store/server/state.h"

extern struct tes_server *server;

/* 0, or what failed; @tenants: "true" or "false". */
int bare_start(const char *tenants);
void bare_stop(void);

#endif
