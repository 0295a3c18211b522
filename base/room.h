/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.h - how much memory this process and its children can still take
 *
 * The memory of the host (MemAvailable) is the limit, or a control group above
 * the process, of either version, where that leaves less. Reads some files of
 * /proc and /sys, some 50 us. Threads: any.
 */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stdint.h>

struct tei_room {
	uint64_t bytes;    /* UINT64_MAX: not known */
	const char *whose; /* what sets the limit, for messages; static */
};

/* @root: "", or a folder with a /proc and a /sys of a test's own. */
struct tei_room tei_room_left(const char *root);
/*
 * The same, but for a margin for others: of each limit a tenth, at most 1 GiB.
 */
struct tei_room tei_room_spare(const char *root);

#endif
