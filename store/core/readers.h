/* SPDX-License-Identifier: Apache-2.0 */
/* readers.h - who reads an object: look-ups that have not been released */
#ifndef STORE_CORE_READERS_H
#define STORE_CORE_READERS_H

#include <stdbool.h>
#include <stdint.h>

struct tes_session;

/*
 * Look-ups that have not been released, by who made them: of two sessions, or of
 * more, who then are one and release nothing. A session is a number within 16
 * bits; two that have the same are one, too.
 */
#define TES_CORE_READERS      2
#define TES_CORE_READERS_MANY UINT16_MAX
struct tes_readers {
	struct {
		uint16_t who, n; /* n: 0: free; UINT16_MAX: or more */
	} at[TES_CORE_READERS];
};

void tes_core_readers_clear(struct tes_readers *readers);
void tes_core_readers_add(struct tes_readers *readers,
			  const struct tes_session *s);
/* Whether that was the last one. */
bool tes_core_readers_take(struct tes_readers *readers,
			   const struct tes_session *s);

#endif
