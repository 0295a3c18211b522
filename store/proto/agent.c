/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - where dummies and their daemon meet, how long messages may be */
#include "store/proto/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/proto/agent.pb-c.h"

/* Keys, groups' names, and columns of at most 10 bytes a number. */
#define BATCH_CAP   (8u << 20)
#define PATTERN_CAP (4u << 10)
#define SMALL_CAP   (1u << 10)

_Static_assert(TES_AGENT_KEY_BYTES_MAX + (10u + 270u) * TES_AGENT_KEYS_MAX +
			       40u * TES_AGENT_PIECES_MAX + 16384u <
		       BATCH_CAP,
	       "the largest batch fits");

/* Most bytes of a request, and of its reply: the same. */
#define CAPS                                                         \
	{                                                            \
		[AGENT__AGENT_TYPE__AGENT_PUT] = BATCH_CAP,          \
		[AGENT__AGENT_TYPE__AGENT_GET] = BATCH_CAP,          \
		[AGENT__AGENT_TYPE__AGENT_EXIST] = BATCH_CAP,        \
		[AGENT__AGENT_TYPE__AGENT_SIZE] = BATCH_CAP,         \
		[AGENT__AGENT_TYPE__AGENT_REMOVE] = BATCH_CAP,       \
		[AGENT__AGENT_TYPE__AGENT_STATUS] = SMALL_CAP,       \
		[AGENT__AGENT_TYPE__AGENT_POOL] = SMALL_CAP,         \
		[AGENT__AGENT_TYPE__AGENT_RANGES] = BATCH_CAP,       \
		[AGENT__AGENT_TYPE__AGENT_UPSERT] = BATCH_CAP,       \
		[AGENT__AGENT_TYPE__AGENT_REPLICAS] = BATCH_CAP,     \
		[AGENT__AGENT_TYPE__AGENT_REMOVE_ALL] = PATTERN_CAP, \
		[AGENT__AGENT_TYPE__AGENT_WHERE] = SMALL_CAP,        \
		[AGENT__AGENT_TYPE__AGENT_BUFFERS] = BATCH_CAP,      \
	}

const struct tei_frame_protocol tes_agent_protocol = {
	.name = "dummy",
	.request = CAPS,
	.reply = CAPS,
};

static int fits(int n)
{
	return n > 0 && (size_t)n < TES_AGENT_PATH_MAX ? 0 : -ENAMETOOLONG;
}

int tes_agent_dir(unsigned int which, char out[TES_AGENT_PATH_MAX])
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	unsigned int uid = (unsigned int)geteuid();
	char parent[64];

	switch (which) {
	case 0:
		if (!run || *run != '/')
			return -ENOENT;
		return fits(snprintf(out, TES_AGENT_PATH_MAX, "%s/te", run));
	case 1:
		(void)snprintf(parent, sizeof(parent), "/run/user/%u", uid);
		if (access(parent, W_OK | X_OK))
			return -ENOENT;
		return fits(snprintf(out, TES_AGENT_PATH_MAX, "%s/te", parent));
	case 2:
		return fits(
			snprintf(out, TES_AGENT_PATH_MAX, "/tmp/te-%u", uid));
	default:
		return -ENOENT;
	}
}

int tes_agent_path(const char *dir, uint16_t port, char out[TES_AGENT_PATH_MAX])
{
	return fits(snprintf(out, TES_AGENT_PATH_MAX, "%s/client-%u.sock", dir,
			     (unsigned int)port));
}

int tes_agent_dir_check(const char *dir)
{
	struct stat st;

	if (lstat(dir, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077))
		return -EPERM;
	return 0;
}
