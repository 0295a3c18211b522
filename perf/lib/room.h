/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.h - whether what is to be prepared fits into the memory that is left
 *
 * Threads: any.
 */
#ifndef PERF_LIB_ROOM_H
#define PERF_LIB_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Bytes that the master and an owner together keep of an object besides its
 * extent, rounded up: 245 were measured with keys of 50 bytes.
 */
#define TEI_ROOM_OBJECT_BYTES 320

struct tei_room {
	uint64_t bytes;    /* UINT64_MAX: not known */
	const char *whose; /* what sets the limit, for messages */
};

/*
 * Memory that this process and its children can still take: of the host, or of
 * the control groups above them where that is less. @root: "", or a folder
 * with a /proc and a /sys of a test's own.
 */
struct tei_room tei_room_left(const char *root);
/*
 * Tells whether @bytes fit; else says on stderr that @what takes as many, and
 * @advice.
 */
bool tei_room_fits(const char *program, const char *what, uint64_t bytes,
		   const char *advice);

#endif
