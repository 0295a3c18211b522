/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - plain connections to servers of this host, and from them */
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

/* A socket that listens on a free port of 127.0.0.1, and accepts for a while. */
static inline int test_listen(uint16_t *port)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct timeval limit = {.tv_sec = TEST_DIAL_S};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);

	assert_true(fd >= 0);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	*port = ntohs(in.sin_port);
	return fd;
}

#endif
