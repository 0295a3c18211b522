/* SPDX-License-Identifier: Apache-2.0 */
/* room.c - whether what is to be prepared fits into the memory that is left */
#include "perf/lib/room.h"

#include <stdio.h>

#include "perf/lib/report.h"

bool tei_room_fits(const char *program, const char *what, uint64_t bytes,
		   const char *advice)
{
	struct tei_room room = tei_room_left("");
	char need[24], left[24];

	if (bytes <= room.bytes)
		return true;
	fprintf(stderr, "%s: %s: about %s of memory, but %s leaves %s: %s\n",
		program, what, tei_text_bytes(bytes, need), room.whose,
		tei_text_bytes(room.bytes, left), advice);
	return false;
}
