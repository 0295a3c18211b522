/* SPDX-License-Identifier: Apache-2.0 */
/* user.h - processes of other users; only root can make them */
#ifndef TESTS_LIB_USER_H
#define TESTS_LIB_USER_H

#include <grp.h>
#include <sys/types.h>
#include <unistd.h>

/* A user that nobody is, and another. */
#define TEST_USER_A 64998
#define TEST_USER_B 64999

/* Becomes @uid for good, without groups. 0, or -1. */
static inline int test_become(uid_t uid)
{
	return setgroups(0, NULL) || setgid(uid) || setuid(uid) ? -1 : 0;
}

/* fork(), but the child is @uid's; it ends with 255 if it cannot be. */
static inline pid_t test_fork_as(uid_t uid)
{
	pid_t pid = fork();

	if (!pid && geteuid() != uid && test_become(uid))
		_exit(255);
	return pid;
}

#endif
