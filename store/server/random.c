/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.c - secrets and seeds from the kernel
 */
#include "store/server/random.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

int tes_server_random(void *out, size_t len)
{
	char *at = out;

	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}
