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

#include "base/room.h"

/*
 * Bytes that the master and an owner together keep of an object besides its
 * extent, rounded up: 245 were measured with keys of 50 bytes.
 */
#define TEI_ROOM_OBJECT_BYTES 320

/*
 * Tells whether @bytes fit; else says on stderr that @what takes as many, and
 * @advice.
 */
bool tei_room_fits(const char *program, const char *what, uint64_t bytes,
		   const char *advice);

#endif
