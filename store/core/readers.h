/* SPDX-License-Identifier: Apache-2.0 */
/* readers.h - who reads an object: look-ups that have not been released */
#ifndef STORE_CORE_READERS_H
#define STORE_CORE_READERS_H

#include <stdbool.h>
#include <stdint.h>

struct tei_session;

/*
 * Look-ups that have not been released, by who made them: of two sessions, or of
 * more, who then are one and release nothing. A session is a number within 16
 * bits; two that have the same are one, too.
 */
#define TEI_CORE_READERS      2
#define TEI_CORE_READERS_MANY UINT16_MAX
struct tei_readers {
	struct {
		uint16_t who, n; /* n: 0: free; UINT16_MAX: or more */
	} at[TEI_CORE_READERS];
};

void tei_core_readers_clear(struct tei_readers *readers);
void tei_core_readers_add(struct tei_readers *readers,
			  const struct tei_session *s);
/* Whether that was the last one. */
bool tei_core_readers_take(struct tei_readers *readers,
			   const struct tei_session *s);

#endif
