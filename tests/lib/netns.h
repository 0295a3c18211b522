/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netns.h - hosts with several networks between them, on this one machine
 *
 * A test moves into a network namespace of its own; other processes make
 * theirs (test_netns_enter()) and are joined by pairs of virtual interfaces.
 * Nothing outside the namespaces is touched, and all of it is gone with the
 * last process.
 */
#ifndef TESTS_LIB_NETNS_H
#define TESTS_LIB_NETNS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Into a new network namespace, loopback up; call it before there are threads.
 * 0, or -errno where the system does not allow it; *why then says what.
 */
int test_netns_enter(const char **why);

/*
 * Run a shell command in the network namespace of @pid, 0: our own. Returns
 * its exit code; what it prints goes to stderr.
 */
int test_netns_run(pid_t pid, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Network @index between us and @pid: here interface rail<index> at
 * 10.99.<index>.1, there peer<index> at 10.99.<index>.2, both up. @mbit: what
 * each direction carries, 0: all. False: the system refuses.
 */
bool test_netns_join(pid_t pid, int index, unsigned int mbit);

#endif
