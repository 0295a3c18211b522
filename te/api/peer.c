/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - the rule of protected mode, for programs on top of the library */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include <te/te.h>

#include "base/net.h"
#include "base/peer.h"

int te_peer_allowed(int fd, const char *allow_uids, char *why, size_t why_len)
{
	struct tei_address peer = {.len = sizeof(peer.ss)};
	struct tei_peer_rule rule;
	char words[TEI_PEER_TEXT_MAX];

	if (tei_peer_rule_init(&rule, false, allow_uids))
		return -EINVAL;
	if (getpeername(fd, (struct sockaddr *)&peer.ss, &peer.len))
		return -ENOTCONN;
	switch (tei_peer_admit(&rule, fd, &peer, NULL, words)) {
	case TEI_PEER_MEMBER:
		return 0;
	case TEI_PEER_GONE:
		return -ENOTCONN;
	case TEI_PEER_BUSY:
		return -EAGAIN;
	default:
		if (why && why_len)
			(void)snprintf(why, why_len, "%s", words);
		return -EACCES;
	}
}
