/* SPDX-License-Identifier: Apache-2.0 */
/* fds.h - a descriptor that goes with a message to a process of this host */
#ifndef BASE_FDS_H
#define BASE_FDS_H

#include <sys/socket.h>

#define TEI_FDS_MAX 8 /* that a hostile peer may make us take and close */

/* Lives until the message is sent, or taken from. */
union tei_fds_room {
	char bytes[CMSG_SPACE(TEI_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

/* Let @fd go with a message that has none. */
void tei_fds_attach(struct msghdr *msg, union tei_fds_room *room, int fd);

/*
 * Take the first descriptor that came with a message, and close all others. How
 * many there were; those that this process had no room for are missing, and
 * MSG_CTRUNC is set. None: *fd is untouched.
 */
unsigned int tei_fds_take(struct msghdr *msg, int *fd);

#endif
