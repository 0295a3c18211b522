/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - plain connections to servers of this host */
#ifndef TESTS_LIB_DIAL_H
#define TESTS_LIB_DIAL_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "tests/lib/test.h"

#define TEST_DIAL_S 60 /* that each of its calls waits at most */

/* A blocking socket, connected to 127.0.0.1:@port. */
static inline int test_dial(uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct timeval limit = {.tv_sec = TEST_DIAL_S};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	to.sin_port = htons(port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return fd;
}

#endif
