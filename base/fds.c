/* SPDX-License-Identifier: Apache-2.0 */
/* fds.c - a descriptor that goes with a message to a process of this host */
#include "base/fds.h"

#include <string.h>
#include <unistd.h>

void tei_fds_attach(struct msghdr *msg, union tei_fds_room *room, int fd)
{
	struct cmsghdr *c;

	memset(room, 0, sizeof(*room));
	msg->msg_control = room->bytes;
	msg->msg_controllen = CMSG_SPACE(sizeof(fd));
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
}

unsigned int tei_fds_take(struct msghdr *msg, int *fd)
{
	struct cmsghdr *c;
	unsigned int n = 0;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t i, count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof(one),
			       sizeof(one));
			if (n++)
				close(one);
			else
				*fd = one;
		}
	}
	return n;
}
